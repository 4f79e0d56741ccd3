//! Asks servers whether what was answered from the caches is true, a few hits at a time, beside the event loops. What differs demotes the export
//! (lease, immutable) or shortens what is kept (ttl): `core` decides.

use crate::cached::{Area, Heard, Sample};
use crate::clerk::Lines;
use crate::clock::duration;
use crate::event::Shared;
use crate::log;
use crate::realm::Realm;
use crate::watch::{Journal, Said, digest, printable};
use midas_core::cache::{Mode, Next};
use midas_core::key::Key;
use midas_core::time::{Span, Time};
use midas_net::ClientError;
use midas_nfs::nfs3::{Call, DirOp, FileHandle, Nfsstat3, Reply};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// Until the daemon ends.
pub(crate) fn run(shared: &Shared) {
    let (waiting, samples) = sync_channel(WAITING_MOST);
    for area in shared.exports.iter().flat_map(|export| export.areas.iter()) {
        area.cached.check_at(area.number, &waiting);
    }
    let mut lines = Lines::default();
    let areas: Vec<(&Realm, &Area)> =
        shared.exports.iter().flat_map(|export| export.areas.iter().map(move |area| (export, area))).collect();
    let mut last: Vec<Option<Time>> = vec![None; areas.len()];
    let mut again: VecDeque<(Time, &Realm, &Area, Sample)> = VecDeque::new();
    while !shared.stop.load(Ordering::Relaxed) {
        if let Ok((number, sample)) = samples.recv_timeout(LOOK) {
            let (export, area) = areas[number];
            let now = export.pool.time(Instant::now());
            let proxies = shared.accord().map_or(1, |accord| accord.fetches.proxies());
            if due(area, now, last[number], &sample, proxies) {
                last[number] = Some(now);
                if let Next::LookAgain(at) = check(&shared.watch.journal, (export, area), &mut lines, &sample, false)
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
                true => drop(check(&shared.watch.journal, (export, area), &mut lines, &sample, true)),
                false => again.push_back((at, export, area, sample)),
            }
        }
    }
}

/// Whether a hit is to be checked that `core` has chosen. In `ttl` the loop needs many, and at once: what changes between a hit and its check is taken for
/// a stale hit. The guard needs few, and must not add to a storm: proxies that look after the same files share them.
fn due(area: &Area, now: Time, last: Option<Time>, sample: &Sample, proxies: usize) -> bool {
    let (pause, late) = match area.cached.mode() {
        Mode::Ttl => (TTL_PAUSE, now.since(sample.told_at()) > LATE),
        Mode::Strict | Mode::Lease | Mode::Immutable => (GUARD_PAUSE * proxies as u64, false),
    };
    !late && last.is_none_or(|last| now.since(last) >= pause)
}

fn check(journal: &Journal, (export, area): (&Realm, &Area), lines: &mut Lines, sample: &Sample, again: bool) -> Next {
    let next =
        ask(export, lines, sample, |heard| area.cached.checked(export.pool.time(Instant::now()), sample, heard, again));
    if next == Next::Demote {
        let why = strayed(sample.place, sample.name.as_deref());
        if export.demote(&why) {
            let (path, handle) = (&area.path, hex(&sample.handle));
            let help = "nothing is cached until `midas set EXPORT mode=...`";
            let facts: &log::Facts<'_> = &[("export", path), ("why", &why), ("handle", &handle), ("help", &help)];
            log::error("export demoted to strict", facts);
            journal.say(Said::Cache, path, "demoted to strict", why);
        }
    }
    next
}

/// What differs, for all who may read it: they may not have the handle, since who has one can call on it.
fn strayed(place: Key, name: Option<&[u8]>) -> String {
    let name = name.map_or_else(String::new, |name| format!(", name {}", printable(name)));
    format!("somebody writes past MIDAS: #{}{name} is not what it was", digest(place))
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
    let asked = lines.ask(address, &sample.caller(), patience, |nfs| {
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

/// How long it waits for a hit before it looks for other things to do.
const LOOK: Duration = Duration::from_millis(50);
/// Checks of an export begin no sooner after each other, at all proxies of a cluster together in the second case.
const TTL_PAUSE: Span = Span::from_millis(5);
const GUARD_PAUSE: Span = Span::from_millis(100);
/// In `ttl` a hit that has waited for longer is not checked.
const LATE: Span = Span::from_millis(10);
/// Hits that wait to be checked; further ones are not.
const WAITING_MOST: usize = 64;
/// Second looks that wait.
const AGAIN_MOST: usize = 256;
