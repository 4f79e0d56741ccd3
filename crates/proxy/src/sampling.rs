//! Asks servers whether what was answered from the caches is true, a few hits at a time, beside the event loops. What differs demotes the export
//! (lease, immutable) or shortens what is kept (ttl): `core` decides.

use crate::cached::{Area, Heard, Sample};
use crate::clerk::Lines;
use crate::clock::duration;
use crate::event::Shared;
use crate::keeper::pause;
use crate::log;
use crate::realm::Realm;
use midas_core::cache::{Mode, Next};
use midas_core::time::Time;
use midas_net::{Caller, ClientError};
use midas_nfs::nfs3::{Call, DirOp, FileHandle, Nfsstat3, Reply};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Until the daemon ends.
pub(crate) fn run(shared: &Shared) {
    let mut lines = Lines::default();
    let mut turn = 0;
    let mut again: VecDeque<(Time, &Realm, &Area, Sample)> = VecDeque::new();
    while pause(shared, LOOK) {
        for (export, area) in
            shared.exports.iter().flat_map(|export| export.areas.iter().map(move |area| (export, area)))
        {
            for sample in chosen(area, &mut turn) {
                if let Next::LookAgain(at) = check((export, area), &mut lines, &sample, false)
                    && again.len() < AGAIN_MOST
                {
                    let sample = area.cached.suspected(export.pool.time(Instant::now()), sample);
                    again.push_back((at, export, area, sample));
                }
            }
        }
        for _ in 0..again.len() {
            let Some((at, export, area, sample)) = again.pop_front() else { break };
            match at <= export.pool.time(Instant::now()) {
                true => drop(check((export, area), &mut lines, &sample, true)),
                false => again.push_back((at, export, area, sample)),
            }
        }
    }
}

/// Hits to check now: of those that were chosen a few, from another part of the keys each time. In `ttl` the loop needs many; the guard needs few,
/// and must not add to a storm.
fn chosen(area: &Area, turn: &mut usize) -> Vec<Sample> {
    let mut samples = area.cached.samples();
    *turn = turn.wrapping_add(1);
    if !samples.is_empty() {
        let first = turn.wrapping_mul(STRIDE) % samples.len();
        samples.rotate_left(first);
    }
    samples.truncate(if area.cached.mode() == Mode::Ttl { TTL_AT_ONCE } else { 1 });
    samples
}

fn check((export, area): (&Realm, &Area), lines: &mut Lines, sample: &Sample, again: bool) -> Next {
    let next =
        ask(export, lines, sample, |heard| area.cached.checked(export.pool.time(Instant::now()), sample, heard, again));
    if next == Next::Demote {
        let what = sample.name.as_ref().map_or_else(String::new, |name| format!(", name {}", name.escape_ascii()));
        let why = format!("somebody writes past MIDAS: handle {}{what} is not what it was", hex(&sample.handle));
        if export.demote(&why) {
            let path = &area.path;
            let help = "nothing is cached until `midas set EXPORT mode=...`";
            log::error("export demoted to strict", &[("export", path), ("why", &why), ("help", &help)]);
        }
    }
    next
}

/// Asks the server that surely knows.
fn ask(export: &Realm, lines: &mut Lines, sample: &Sample, mut hear: impl FnMut(&Heard<'_>) -> Next) -> Next {
    let pool = &export.pool;
    let server = export.knows_names(Instant::now(), sample.place);
    let (Some(server), Some(object)) = (server, FileHandle::new(&sample.handle)) else { return hear(&Heard::Nothing) };
    let call = match &sample.name {
        Some(name) => Call::Lookup { what: DirOp { dir: object, name } },
        None => Call::Getattr { object },
    };
    let (address, patience) = (pool.server(server).address, duration(pool.config.probe_timeout));
    let mut next = None;
    let asked = lines.ask(address, &Caller::ROOT, patience, |nfs| {
        let reply: Result<Reply<'_>, ClientError> = nfs.nfs(&call);
        next = Some(hear(&match reply {
            Ok(Reply::Getattr(Ok(attributes))) => Heard::Attributes(attributes),
            Ok(Reply::Lookup(Ok(ref found))) => Heard::Leads(found.object.bytes()),
            Ok(Reply::Lookup(Err(ref failed))) if failed.status == Nfsstat3::NOENT => Heard::Leads(&[]),
            Ok(_) => Heard::Nothing,
            Err(_) => return Err(crate::clerk::Untold),
        }));
        Ok(())
    });
    match (asked, next) {
        (Ok(()), Some(next)) => next,
        _ => hear(&Heard::Nothing),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// How often it is looked for hits to check, and how many are checked then.
const LOOK: Duration = Duration::from_millis(100);
const TTL_AT_ONCE: usize = 20;
/// Any odd number.
const STRIDE: usize = 7919;
/// Second looks that wait.
const AGAIN_MOST: usize = 256;
