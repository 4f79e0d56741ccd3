//! Asks servers whether what was answered from the caches is true, a few hits at a time, beside the event loops. What differs demotes the export
//! (lease, immutable) or shortens what is kept (ttl): `core` decides.

use crate::cached::{Area, Heard, Sample};
use crate::clerk::Lines;
use crate::clock::duration;
use crate::event::Shared;
use crate::log;
use crate::realm::Realm;
use crate::seed;
use crate::watch::{Journal, Said, digest, printable};
use midas_core::cache::{Mode, Next};
use midas_core::key::Key;
use midas_core::rng::Rng;
use midas_core::time::{Span, Time};
use midas_net::ClientError;
use midas_nfs::nfs3::{Call, DirOp, FileHandle, Nfsstat3, Reply};
use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// Until the daemon ends.
pub(crate) fn run(shared: &Shared) {
    let (waiting, samples) = sync_channel(WAITING_MOST);
    for area in shared.exports.iter().flat_map(|export| export.areas.iter()) {
        area.cached.check_at(area.number, &waiting);
    }
    let mut checks = Checks::new(shared);
    while !shared.stop.load(Ordering::Relaxed) {
        if let Ok((number, sample)) = samples.recv_timeout(LOOK) {
            checks.hit(Instant::now(), number, sample);
        }
        checks.end_draws(Instant::now());
        checks.look_again();
    }
}

/// Hits that wait for their check.
struct Checks<'a> {
    shared: &'a Shared,
    areas: Vec<(&'a Realm, &'a Area)>,
    /// When the last hit of an area was checked in `ttl`, and the draw of one in the other modes.
    last: Vec<Option<Time>>,
    draws: Vec<Draw<Sample>>,
    /// The end of the draw that ends first.
    ends: Option<Instant>,
    rng: Rng,
    lines: Lines,
    again: VecDeque<(Time, usize, Sample)>,
}

/// Hits of a while, of which one is checked. Each is as likely as any other: answers that are given
/// again and again are asked for anew in turns that repeat, and the first of each turn would always be
/// the same.
#[derive(Debug)]
struct Draw<T> {
    ends: Option<Instant>,
    hits: usize,
    drawn: Option<T>,
}

impl<T> Draw<T> {
    const NONE: Self = Self { ends: None, hits: 0, drawn: None };

    fn hit(&mut self, rng: &mut Rng, hit: T) {
        self.hits += 1;
        if rng.below(self.hits) == 0 {
            self.drawn = Some(hit);
        }
    }

    /// The hit to be checked, once the draw is over.
    fn end(&mut self, now: Instant) -> Option<T> {
        if self.ends.is_some_and(|ends| ends <= now) { mem::replace(self, Self::NONE).drawn } else { None }
    }
}

impl<'a> Checks<'a> {
    fn new(shared: &'a Shared) -> Self {
        let areas: Vec<(&Realm, &Area)> =
            shared.exports.iter().flat_map(|export| export.areas.iter().map(move |area| (export, area))).collect();
        let seed = areas.first().map_or(0, |(export, _)| seed::of_part(export.seed, SEED));
        Self {
            shared,
            last: vec![None; areas.len()],
            draws: areas.iter().map(|_| Draw::NONE).collect(),
            areas,
            ends: None,
            rng: Rng::new(seed),
            lines: Lines::default(),
            again: VecDeque::new(),
        }
    }

    /// A hit that `core` has chosen. In `ttl` the loop needs many, and at once: what changes between a
    /// hit and its check is taken for a stale hit. The guard needs few, and must not add to a storm:
    /// proxies that look after the same files share them.
    fn hit(&mut self, now: Instant, number: usize, sample: Sample) {
        let (export, area) = self.areas[number];
        if area.cached.mode() != Mode::Ttl {
            let draw = &mut self.draws[number];
            draw.hit(&mut self.rng, sample);
            if draw.ends.is_none() {
                let proxies = self.shared.accord().map_or(1, |accord| accord.fetches.proxies());
                let ends = now + duration(GUARD_PAUSE * proxies as u64);
                draw.ends = Some(ends);
                self.ends = Some(self.ends.map_or(ends, |first| first.min(ends)));
            }
            return;
        }
        let now = export.pool.time(now);
        let paused = self.last[number].is_none_or(|last| now.since(last) >= TTL_PAUSE);
        if paused && now.since(sample.told_at()) <= LATE {
            self.last[number] = Some(now);
            self.check(number, sample);
        }
    }

    /// Checks one hit of each draw that is over.
    fn end_draws(&mut self, now: Instant) {
        if self.ends.is_none_or(|ends| now < ends) {
            return;
        }
        for number in 0..self.draws.len() {
            if let Some(sample) = self.draws[number].end(now) {
                self.check(number, sample);
            }
        }
        self.ends = self.draws.iter().filter_map(|draw| draw.ends).min();
    }

    fn check(&mut self, number: usize, sample: Sample) {
        let Self { areas, lines, again, shared, .. } = self;
        let (export, area) = areas[number];
        if let Next::LookAgain(at) = check(&shared.watch.journal, (export, area), lines, &sample, false)
            && again.len() < AGAIN_MOST
        {
            again.push_back((at, number, area.cached.suspected(export.pool.time(Instant::now()), sample)));
        }
    }

    fn look_again(&mut self) {
        let Self { areas, lines, again, shared, .. } = self;
        for _ in 0..again.len() {
            let Some((at, number, sample)) = again.pop_front() else { break };
            let (export, area) = areas[number];
            match at <= export.pool.time(Instant::now()) {
                true => drop(check(&shared.watch.journal, (export, area), lines, &sample, true)),
                false => again.push_back((at, number, sample)),
            }
        }
    }
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
/// Checks of an export in `ttl` begin no sooner after each other; in the other modes one hit is drawn
/// in so long a time, at all proxies of a cluster together.
const TTL_PAUSE: Span = Span::from_millis(5);
const GUARD_PAUSE: Span = Span::from_millis(100);
/// In `ttl` a hit that has waited for longer is not checked.
const LATE: Span = Span::from_millis(10);
/// Which of an export's seeds draws the hits.
const SEED: u64 = u64::MAX;
/// Hits that wait to be checked; further ones are not.
const WAITING_MOST: usize = 64;
/// Second looks that wait.
const AGAIN_MOST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_hits_that_come_in_turns_that_repeat_each_is_checked_as_often() {
        let (mut rng, start) = (Rng::new(7), Instant::now());
        let mut drawn = [0_usize; 40];
        for turn in 0..8_000 {
            let now = start + duration(GUARD_PAUSE) * turn;
            let mut draw = Draw { ends: Some(now + LOOK), ..Draw::NONE };
            (0..drawn.len()).for_each(|file| draw.hit(&mut rng, file));
            assert_eq!(draw.end(now), None, "it is not over yet");
            drawn[draw.end(now + LOOK).unwrap()] += 1;
            assert_eq!((draw.hits, draw.end(now + LOOK)), (0, None), "the next one begins anew");
        }
        assert!(drawn.iter().all(|times| (140..260).contains(times)), "{drawn:?}");
    }
}
