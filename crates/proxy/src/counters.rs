//! What event loops count, for `/metrics` and `midas status`.
//!
//! Every loop has counters of its own, written by its thread alone: counting is a load and a store, never a locked instruction, never a
//! lock, never an allocation. Readers add the loops up. What decisions count (`realm`) stands behind the decisions' own locks.

use crate::watch::Outcome;
use midas_core::control::{Actuation, Knob};
use midas_core::decision::Exclusion;
use midas_core::time::Span;
use midas_nfs::nfs3::{Nfsstat3, Procedure};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One number, written by one thread alone.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self, by: u64) {
        // For measuring what counting costs, and nothing else.
        if cfg!(feature = "uncounted") {
            return;
        }
        self.0.store(self.0.load(Relaxed).wrapping_add(by), Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What one event loop counts.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Tally {
    calls: [[Count; Status::ALL.len()]; PROCEDURES],
    /// Who gave the answer, by the outcome's code.
    outcomes: [[Count; Outcome::NAMES.len()]; PROCEDURES],
    /// Of the calls that servers answered, those that a cache was asked for before. They stand here alone, and are added to what was
    /// forwarded when that is read.
    misses: [Count; PROCEDURES],
    latency: [[Histogram; Timed::ALL.len()]; PROCEDURES],
    /// From a call's departure to its answer, by the first link of its server.
    servers: Box<[Histogram]>,
    refusals: [Count; Refused::ALL.len()],
    holds: [Count; Exclusion::ALL.len()],
    duplicates: [Count; Duplicate::ALL.len()],
    bytes: [Count; Bytes::ALL.len()],
    /// Reads that the caches were asked for, by what became of them: a row a procedure, the rows of
    /// an export together. What caches answered stands here alone, and is added to the calls and
    /// outcomes when those are read: a hit is counted once.
    reads: Box<[[Count; Fate::ALL.len()]]>,
    /// Calls that wait for a server that may serve them, now.
    pub(crate) held: Count,
    /// How long the change has waited that waits longest for a server, in milliseconds.
    pub(crate) change_waits_ms: Count,
    /// Calls that wait until it is known which export their handle belongs to or where their name leads, now.
    pub(crate) unresolved: Count,
    /// Of these, calls that were given up so far: nobody could tell in time, or there were too many.
    pub(crate) given_up: Count,
    /// Clients that found no place.
    pub(crate) turned_away: Count,
    /// Idle connections that were ended for new ones.
    pub(crate) replaced: Count,
    /// Clients that came.
    pub(crate) welcomed: Count,
    /// Clients that went.
    pub(crate) ended: Count,
}

impl Tally {
    /// For so many exports, and links to servers.
    pub(crate) fn new(exports: usize, links: usize) -> Self {
        let reads = (0..exports * PROCEDURES).map(|_| Default::default()).collect();
        Self { reads, servers: (0..links).map(|_| Histogram::default()).collect(), ..Self::default() }
    }

    /// An export's cache was asked for this read.
    #[inline]
    pub(crate) fn read(&self, export: usize, procedure: Procedure, fate: Fate) {
        self.read_again(ReadCount::of(export, procedure, fate));
    }

    /// A read that was answered before is answered again.
    #[inline]
    pub(crate) fn read_again(&self, which: ReadCount) {
        if let Some(count) = self.reads.as_flattened().get(which.0) {
            count.add(1);
        }
    }

    /// An export's rows.
    fn reads_of(&self, export: usize) -> &[[Count; Fate::ALL.len()]] {
        self.reads.chunks(PROCEDURES).nth(export).unwrap_or_default()
    }

    /// A client was given its server's answer after that time; `missed`: a cache had been asked before.
    #[inline]
    pub(crate) fn forwarded(&self, procedure: Procedure, status: Option<Nfsstat3>, (missed, took): (bool, Span)) {
        let (answers, timed) = match missed {
            true => (&self.misses[procedure as usize], Timed::Miss),
            false => (&self.outcomes[procedure as usize][FORWARDED], Timed::Forwarded),
        };
        answers.add(1);
        self.answered(procedure, status);
        self.took(procedure, timed, took);
    }

    /// A client was given the answer to another one's call, after that time if it is known.
    pub(crate) fn joined(&self, procedure: Procedure, status: Option<Nfsstat3>, waited: Option<Span>) {
        self.given(JOINED, procedure, status);
        if let Some(waited) = waited {
            self.took(procedure, Timed::Joined, waited);
        }
    }

    /// A cache's answer was given after that time. Such an answer is counted by [`Self::read`]; few are timed.
    pub(crate) fn sampled(&self, procedure: Procedure, took: Span) {
        self.took(procedure, Timed::Hit, took);
    }

    /// A client was given an answer of neither cache nor server.
    pub(crate) fn here(&self, procedure: Procedure, status: Option<Nfsstat3>) {
        self.given(HERE, procedure, status);
    }

    fn given(&self, outcome: usize, procedure: Procedure, status: Option<Nfsstat3>) {
        self.outcomes[procedure as usize][outcome].add(1);
        self.answered(procedure, status);
    }

    #[inline]
    fn answered(&self, procedure: Procedure, status: Option<Nfsstat3>) {
        self.calls[procedure as usize][Status::of(status) as usize].add(1);
    }

    #[inline]
    fn took(&self, procedure: Procedure, timed: Timed, latency: Span) {
        self.latency[procedure as usize][timed as usize].add(latency);
    }

    /// The server with this first link took so long for a call.
    #[inline]
    pub(crate) fn served(&self, link: usize, latency: Span) {
        if let Some(server) = self.servers.get(link) {
            server.add(latency);
        }
    }

    /// A call was refused here.
    pub(crate) fn refused(&self, why: Refused) {
        self.refusals[why as usize].add(1);
    }

    /// A call began to wait, since no server may serve it.
    pub(crate) fn held(&self, why: Exclusion) {
        self.holds[why.code()].add(1);
    }

    /// A call came again.
    pub(crate) fn duplicate(&self, found: Duplicate) {
        self.duplicates[found as usize].add(1);
    }

    #[inline]
    pub(crate) fn moved(&self, way: Bytes, count: usize) {
        self.bytes[way as usize].add(count as u64);
    }
}

/// All loops together, at one moment.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) calls: [[u64; Status::ALL.len()]; PROCEDURES],
    /// By the outcome's code.
    pub(crate) outcomes: [[u64; Outcome::NAMES.len()]; PROCEDURES],
    /// Of those that were forwarded, the ones that a cache was asked for before.
    pub(crate) misses: [u64; PROCEDURES],
    pub(crate) latency: [[Spread; Timed::ALL.len()]; PROCEDURES],
    pub(crate) refusals: [u64; Refused::ALL.len()],
    pub(crate) holds: [u64; Exclusion::ALL.len()],
    pub(crate) duplicates: [u64; Duplicate::ALL.len()],
    pub(crate) bytes: [u64; Bytes::ALL.len()],
    pub(crate) held: u64,
    pub(crate) unresolved: u64,
    pub(crate) change_waits_ms: u64,
    pub(crate) given_up: u64,
    pub(crate) turned_away: u64,
    pub(crate) replaced: u64,
    pub(crate) welcomed: u64,
    pub(crate) ended: u64,
}

impl Totals {
    pub(crate) fn of<'t>(tallies: impl IntoIterator<Item = &'t Tally>) -> Self {
        let mut totals = Self::default();
        for tally in tallies {
            for (total, calls) in totals.calls.iter_mut().zip(&tally.calls) {
                add(total, calls);
            }
            for (total, outcomes) in totals.outcomes.iter_mut().zip(&tally.outcomes) {
                add(total, outcomes);
            }
            for ((total, outcomes), count) in totals.misses.iter_mut().zip(&mut totals.outcomes).zip(&tally.misses) {
                let misses = count.get();
                *total += misses;
                outcomes[FORWARDED] += misses;
            }
            for reads in tally.reads.chunks(PROCEDURES) {
                for ((outcomes, calls), fates) in totals.outcomes.iter_mut().zip(&mut totals.calls).zip(reads) {
                    let (hits, absent) = (fates[Fate::Answered as usize].get(), fates[Fate::Absent as usize].get());
                    outcomes[HIT] += hits;
                    outcomes[ABSENT] += absent;
                    calls[Status::Ok as usize] += hits;
                    calls[Status::Error as usize] += absent;
                }
            }
            let latency = totals.latency.iter_mut().flatten().zip(tally.latency.iter().flatten());
            latency.for_each(|(total, histogram)| total.take(histogram));
            add(&mut totals.refusals, &tally.refusals);
            add(&mut totals.holds, &tally.holds);
            add(&mut totals.duplicates, &tally.duplicates);
            add(&mut totals.bytes, &tally.bytes);
            totals.held += tally.held.get();
            totals.unresolved += tally.unresolved.get();
            totals.change_waits_ms = totals.change_waits_ms.max(tally.change_waits_ms.get());
            totals.given_up += tally.given_up.get();
            totals.turned_away += tally.turned_away.get();
            totals.replaced += tally.replaced.get();
            // Who went came before: read in this order, nobody is gone who never came.
            totals.ended += tally.ended.get();
            totals.welcomed += tally.welcomed.get();
        }
        totals
    }

    /// Answers so far.
    pub(crate) fn answers(&self) -> u64 {
        self.calls.iter().flatten().sum()
    }
}

/// What became of reads that an export's cache was asked for: by procedure, then by [`Fate`].
pub(crate) type Reads = [[u64; Fate::ALL.len()]; PROCEDURES];

/// The same, over all loops.
pub(crate) fn reads<'t>(tallies: impl IntoIterator<Item = &'t Tally>, export: usize) -> Reads {
    let mut totals = Reads::default();
    for tally in tallies {
        totals.iter_mut().zip(tally.reads_of(export)).for_each(|(total, counts)| add(total, counts));
    }
    totals
}

/// How long the server with this first link took, over all loops.
pub(crate) fn served<'t>(tallies: impl IntoIterator<Item = &'t Tally>, link: usize) -> Spread {
    let mut total = Spread::default();
    tallies.into_iter().filter_map(|tally| tally.servers.get(link)).for_each(|histogram| total.take(histogram));
    total
}

fn add(totals: &mut [u64], counts: &[Count]) {
    for (total, count) in totals.iter_mut().zip(counts) {
        *total += count.get();
    }
}

#[derive(Debug, Default)]
struct Histogram {
    buckets: [Count; BUCKETS.len() + 1],
    nanos: Count,
}

impl Histogram {
    fn add(&self, latency: Span) {
        let micros = latency.as_nanos() / 1_000;
        self.buckets[BUCKETS.partition_point(|bound| *bound < micros)].add(1);
        self.nanos.add(latency.as_nanos());
    }
}

/// Latencies of one kind: how many fell into each bucket, and their sum.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread {
    pub(crate) buckets: [u64; BUCKETS.len() + 1],
    pub(crate) nanos: u64,
}

impl Spread {
    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    fn take(&mut self, histogram: &Histogram) {
        add(&mut self.buckets, &histogram.buckets);
        self.nanos += histogram.nanos.get();
    }
}

/// How often each knob of an export was turned, and which way. Written by the controllers' thread alone.
#[derive(Debug, Default)]
pub(crate) struct Turns([[Count; DIRECTIONS.len()]; KNOBS.len()]);

impl Turns {
    pub(crate) fn turned(&self, Actuation { knob, from, to, .. }: &Actuation) {
        if let Some(knob) = KNOBS.iter().position(|name| *name == knob.name()) {
            self.0[knob][usize::from(to < from)].add(1);
        }
    }

    /// The knob, the direction, how often.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let of = |(knob, counts): (&'static str, &[Count; DIRECTIONS.len()])| {
            let [up, down] = counts.each_ref().map(Count::get);
            [(knob, DIRECTIONS[0], up), (knob, DIRECTIONS[1], down)]
        };
        KNOBS.into_iter().zip(&self.0).flat_map(of)
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Done.
    Ok,
    /// Not done, and the caller is told why: no such name, no permission.
    Error,
    /// The server could not.
    ServerError,
    /// Refused as a call: no NFS status was given.
    Refused,
}

impl Status {
    pub(crate) const ALL: [(Self, &'static str); 4] =
        [(Self::Ok, "ok"), (Self::Error, "error"), (Self::ServerError, "server_error"), (Self::Refused, "refused")];

    fn of(status: Option<Nfsstat3>) -> Self {
        match status {
            Some(Nfsstat3::OK) => Self::Ok,
            Some(Nfsstat3::IO | Nfsstat3::SERVERFAULT | Nfsstat3::JUKEBOX) => Self::ServerError,
            Some(_) => Self::Error,
            None => Self::Refused,
        }
    }
}

/// The status that results begin with.
pub(crate) fn status(results: &[u8]) -> Option<Nfsstat3> {
    results.first_chunk::<4>().map(|word| Nfsstat3(u32::from_be_bytes(*word)))
}

/// Who gave an answer whose time is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timed {
    /// A cache: only those that are sampled.
    Hit,
    /// A server, after a cache that could have known was asked.
    Miss,
    /// A server, asked for another call.
    Joined,
    /// A server, and no cache could have known.
    Forwarded,
}

impl Timed {
    pub(crate) const ALL: [(Self, &'static str); 4] =
        [(Self::Hit, "hit"), (Self::Miss, "miss"), (Self::Joined, "joined"), (Self::Forwarded, "forwarded")];
}

/// Why a call was refused here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Its client is not on the export's list.
    Client,
    /// Its client's port is not reserved.
    Port,
    /// It would change a read-only export.
    ReadOnly,
    /// It is no call that is answered here: unknown program, version or procedure, unreadable arguments or credential.
    Malformed,
}

impl Refused {
    /// Which of an export's rules refuses with this status.
    pub(crate) const fn by(status: Nfsstat3) -> Self {
        match status {
            Nfsstat3::PERM => Self::Port,
            Nfsstat3::ROFS => Self::ReadOnly,
            _ => Self::Client,
        }
    }

    pub(crate) const ALL: [(Self, &'static str); 4] =
        [(Self::Client, "client"), (Self::Port, "port"), (Self::ReadOnly, "read_only"), (Self::Malformed, "malformed")];
}

/// What was found of a call that came again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duplicate {
    /// It runs: its answer comes.
    Running,
    /// Its answer.
    Answered,
}

impl Duplicate {
    pub(crate) const ALL: [(Self, &'static str); 2] = [(Self::Running, "running"), (Self::Answered, "answered")];
}

/// What became of a read that a cache was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Answered from the cache.
    Answered,
    /// Answered from the cache: there is no such name.
    Absent,
    /// It waits with another one.
    Joined,
    /// A server is asked.
    Fetched,
}

impl Fate {
    pub(crate) const ALL: [(Self, &'static str); 4] =
        [(Self::Answered, "answered"), (Self::Absent, "absent"), (Self::Joined, "joined"), (Self::Fetched, "fetched")];
}

/// The place where reads of an export by one procedure with one fate are counted: found once, where
/// the same is counted often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadCount(usize);

impl ReadCount {
    #[inline]
    pub(crate) const fn of(export: usize, procedure: Procedure, fate: Fate) -> Self {
        Self((export * PROCEDURES + procedure as usize) * Fate::ALL.len() + fate as usize)
    }
}

/// Which way bytes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bytes {
    FromClients,
    ToClients,
    ToServers,
    FromServers,
}

impl Bytes {
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::FromClients, "from_clients"),
        (Self::ToClients, "to_clients"),
        (Self::ToServers, "to_servers"),
        (Self::FromServers, "from_servers"),
    ];
}

/// Codes of outcomes: [`Outcome::NAMES`].
const HIT: usize = Outcome::Hit.code();
const ABSENT: usize = Outcome::Absent.code();
const JOINED: usize = Outcome::Joined.code();
const FORWARDED: usize = 3;
const HERE: usize = Outcome::Here.code();
/// The knobs that are turned, by the words that users read; TTLs are the caches'.
const KNOBS: [&str; 5] =
    [Knob::Choices.name(), Knob::MarginLoad.name(), Knob::Steering.name(), Knob::Gap.name(), Knob::Pin.name()];
const DIRECTIONS: [&str; 2] = ["up", "down"];
/// NFSv3 has so many.
pub(crate) const PROCEDURES: usize = 22;
/// Upper bounds of the buckets of latencies, in microseconds; what is longer goes to one more.
pub(crate) const BUCKETS: [u64; 18] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 30_000_000,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_are_added_up() {
        let tallies: Vec<Tally> = (0..2).map(|_| Tally::default()).collect();
        for tally in &tallies {
            tally.joined(Procedure::Lookup, Some(Nfsstat3::NOENT), Some(Span::from_millis(3)));
            tally.forwarded(Procedure::Commit, Some(Nfsstat3::IO), (false, Span::from_millis(2)));
            tally.forwarded(Procedure::Lookup, Some(Nfsstat3::OK), (true, Span::from_millis(1)));
            tally.sampled(Procedure::Lookup, Span::from_micros(1));
            tally.here(Procedure::Commit, None);
            tally.refused(Refused::ReadOnly);
            tally.held(Exclusion::Drained);
            tally.moved(Bytes::ToServers, 7);
            tally.welcomed.add(3);
            tally.ended.add(1);
        }
        let totals = Totals::of(&tallies);
        assert_eq!(totals.calls[Procedure::Lookup as usize], [2, 2, 0, 0]);
        assert_eq!(totals.calls[Procedure::Commit as usize], [0, 0, 2, 2]);
        assert_eq!(totals.outcomes[Procedure::Lookup as usize], [0, 0, 2, 2, 0], "a miss is forwarded");
        assert_eq!(totals.outcomes[Procedure::Commit as usize], [0, 0, 0, 2, 2]);
        assert_eq!((totals.misses[Procedure::Lookup as usize], totals.misses.iter().sum::<u64>()), (2, 2));
        let micros = |of: Procedure| totals.latency[of as usize].map(|spread| (spread.count(), spread.nanos / 1_000));
        assert_eq!(micros(Procedure::Lookup), [(2, 2), (2, 2_000), (2, 6_000), (0, 0)]);
        assert_eq!(micros(Procedure::Commit), [(0, 0), (0, 0), (0, 0), (2, 4_000)]);
        assert_eq!((totals.answers(), totals.refusals[2], totals.bytes[2]), (8, 2, 14));
        assert_eq!((totals.holds[Exclusion::Drained.code()], totals.welcomed - totals.ended), (2, 4));
    }

    #[test]
    fn reads_are_counted_by_export() {
        let tallies: Vec<Tally> = (0..2).map(|_| Tally::new(2, 0)).collect();
        for tally in &tallies {
            tally.read(1, Procedure::Lookup, Fate::Absent);
            tally.read(2, Procedure::Lookup, Fate::Absent);
            tally.read(0, Procedure::Getattr, Fate::Answered);
            tally.read(1, Procedure::Getattr, Fate::Answered);
            tally.read(1, Procedure::Getattr, Fate::Fetched);
        }
        assert_eq!(reads(&tallies, 0)[Procedure::Getattr as usize], [2, 0, 0, 0]);
        assert_eq!(reads(&tallies, 1)[Procedure::Lookup as usize], [0, 2, 0, 0]);
        let outcomes = Totals::of(&tallies).outcomes;
        assert_eq!(outcomes[Procedure::Getattr as usize], [4, 0, 0, 0, 0], "hits of all exports");
        let calls = Totals::of(&tallies).calls;
        assert_eq!(
            (calls[Procedure::Getattr as usize], calls[Procedure::Lookup as usize]),
            ([4, 0, 0, 0], [0, 2, 0, 0])
        );
        assert_eq!(outcomes[Procedure::Lookup as usize], [0, 2, 0, 0, 0]);
    }

    #[test]
    fn servers_are_told_apart_and_knobs_count_both_ways() {
        let tallies: Vec<Tally> = (0..2).map(|_| Tally::new(0, 2)).collect();
        for tally in &tallies {
            tally.served(1, Span::from_millis(2));
            tally.served(2, Span::from_millis(2));
        }
        let count = |link| served(&tallies, link).count();
        assert_eq!((count(0), count(1), served(&tallies, 1).nanos), (0, 2, 4_000_000));
        let turns = Turns::default();
        let turn = |from, to| Actuation {
            at: midas_core::time::Time::ZERO,
            knob: Knob::Gap,
            from,
            to,
            cause: midas_core::control::Cause::PressureHigh(1.0),
        };
        for actuation in [turn(1.0, 2.0), turn(2.0, 1.0), turn(1.0, 2.0)] {
            turns.turned(&actuation);
        }
        let seen: Vec<_> = turns.each().filter(|(.., count)| *count > 0).collect();
        assert_eq!(seen, [("gap", "up", 2), ("gap", "down", 1)]);
    }

    #[test]
    fn a_latency_falls_into_the_first_bucket_that_holds_it() {
        let cases = [(0, 0), (50, 0), (51, 1), (1_000, 4), (30_000_000, 17), (30_000_001, 18)];
        for (micros, bucket) in cases {
            let tally = Tally::default();
            tally.took(Procedure::Create, Timed::Miss, Span::from_micros(micros));
            let spread = Totals::of([&tally]).latency[Procedure::Create as usize][Timed::Miss as usize];
            assert_eq!(spread.buckets.iter().position(|count| *count == 1), Some(bucket), "{micros}");
            assert_eq!(spread.nanos, micros * 1000);
        }
    }

    #[test]
    fn every_list_stands_in_the_order_of_its_codes() {
        assert!(Status::ALL.iter().enumerate().all(|(code, (status, _))| *status as usize == code));
        assert!(Timed::ALL.iter().enumerate().all(|(code, (timed, _))| *timed as usize == code));
        assert!(Refused::ALL.iter().enumerate().all(|(code, (why, _))| *why as usize == code));
        assert!(Duplicate::ALL.iter().enumerate().all(|(code, (found, _))| *found as usize == code));
        assert!(Fate::ALL.iter().enumerate().all(|(code, (fate, _))| *fate as usize == code));
        assert!(Bytes::ALL.iter().enumerate().all(|(code, (way, _))| *way as usize == code));
        let codes = [(HIT, "hit"), (ABSENT, "absent"), (JOINED, "joined"), (FORWARDED, "forwarded"), (HERE, "here")];
        assert!(codes.iter().all(|(code, name)| Outcome::NAMES[*code] == *name));
    }
}
