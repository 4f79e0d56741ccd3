//! The duplicate request cache: a client that sends a call again, because the answer was lost or late, gets the first answer.
//!
//! A call is known by the client's address without its port (it reconnects), its xid, its procedure and a checksum of the record: of
//! all of it, or of both ends where it carries data. The checksum is keyed and quick rather than strong: a client that finds a collision
//! deceives itself alone. Only calls that must not be executed twice are kept; the oldest leave first, so answers and their results are
//! queues: what a call costs here is two places in an index and some bytes at the end of what was written before, never an allocation.

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use midas_nfs::nfs3::Procedure;
use slab::Slab;
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// Answers that may be asked for again.
#[derive(Debug)]
pub struct Replays<T> {
    running: Slab<Running<T>>,
    /// Where each call runs, by its checksum.
    places: HashTable<u32>,
    /// Calls that were answered, numbered in turn.
    answers: VecDeque<Answer>,
    /// The number of the first of them.
    first: u32,
    /// The number of each, by its checksum.
    numbers: HashTable<u32>,
    /// Their results, back to back.
    results: VecDeque<u8>,
    /// Bytes of results that left.
    gone: u64,
    checksum: RandomState,
    /// What the next call is known by.
    next: NonZeroU32,
}

/// A call that was new: its place, and which of those that had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    place: u32,
    number: NonZeroU32,
}

/// What makes two records the same call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    checksum: u64,
    client: IpAddr,
    xid: u32,
    procedure: Procedure,
}

/// It waits or runs, since then; its answer goes to the newest asker.
#[derive(Debug)]
struct Running<T> {
    call: Call,
    asker: T,
    since: Instant,
    number: NonZeroU32,
}

#[derive(Debug)]
struct Answer {
    call: Call,
    since: Instant,
    /// Where its results begin, counted from the first that ever were.
    at: u64,
    length: usize,
}

/// What to do with a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict<'a, T> {
    /// It is new: execute it, then tell [`Replays::finish`].
    New(Known),
    /// It runs already, and this asker gets the answer instead of the one before.
    Joined(T),
    /// It is done: these are its results.
    Done(&'a [u8]),
}

impl<T> Replays<T> {
    /// An empty cache.
    pub fn new() -> Self {
        Self {
            running: Slab::new(),
            places: HashTable::new(),
            answers: VecDeque::new(),
            first: 0,
            numbers: HashTable::new(),
            results: VecDeque::new(),
            gone: 0,
            checksum: RandomState::default(),
            next: NonZeroU32::MIN,
        }
    }

    /// The client of a call that runs.
    pub fn client(&self, known: &Known) -> Option<IpAddr> {
        let running = self.running.get(known.place as usize)?;
        (running.number == known.number).then_some(running.call.client)
    }

    /// A call came in from `asker`.
    pub fn begin(
        &mut self,
        now: Instant,
        client: IpAddr,
        xid: u32,
        procedure: Procedure,
        record: &[u8],
        asker: T,
    ) -> Verdict<'_, T> {
        let call = Call { checksum: self.checksum(client, record), client, xid, procedure };
        self.expire(now);
        let runs = |place: &u32| self.running[*place as usize].call == call;
        if let Some(place) = self.places.find(call.checksum, runs) {
            let newest = &mut self.running[*place as usize].asker;
            return Verdict::Joined(std::mem::replace(newest, asker));
        }
        let is = |number: &u32| self.answer(*number).call == call;
        match self.numbers.find(call.checksum, is).copied() {
            Some(number) => Verdict::Done(self.results_of(number)),
            None => Verdict::New(self.run(call, asker, now)),
        }
    }

    fn checksum(&self, client: IpAddr, record: &[u8]) -> u64 {
        match record.len() > 2 * END {
            true => self.checksum.hash_one((client, record.len(), &record[..END], &record[record.len() - END..])),
            false => self.checksum.hash_one((client, record)),
        }
    }

    fn run(&mut self, call: Call, asker: T, since: Instant) -> Known {
        let number = self.next;
        self.next = number.checked_add(1).unwrap_or(NonZeroU32::MIN);
        let Self { running, places, .. } = self;
        let place = running.insert(Running { call, asker, since, number }) as u32;
        places.insert_unique(call.checksum, place, |place| running[*place as usize].call.checksum);
        Known { place, number }
    }

    /// A call was executed: its results are kept, and its newest asker is who gets them.
    pub fn finish(&mut self, known: &Known, results: &[u8]) -> Option<T> {
        let Running { call, asker, since, .. } = self.end(*known)?;
        self.keep(call, since, results);
        Some(asker)
    }

    /// A call is over whose answer need not be kept: sent again, it may be executed again. Its newest asker.
    pub fn forget(&mut self, known: &Known) -> Option<T> {
        self.end(*known).map(|running| running.asker)
    }

    /// None if it is over already.
    fn end(&mut self, known: Known) -> Option<Running<T>> {
        self.running.get(known.place as usize).filter(|running| running.number == known.number)?;
        let running = self.running.remove(known.place as usize);
        if let Ok(place) = self.places.find_entry(running.call.checksum, |place| *place == known.place) {
            place.remove();
        }
        Some(running)
    }

    /// Only what is kept has a place among the answers: WRITEs that come and go push nothing out.
    fn keep(&mut self, call: Call, since: Instant, results: &[u8]) {
        let length = results.len();
        if length > BYTES_MOST {
            return;
        }
        while self.answers.len() >= CALLS_MOST || self.results.len() + length > BYTES_MOST {
            self.pop();
        }
        let number = self.first.wrapping_add(self.answers.len() as u32);
        self.answers.push_back(Answer { call, since, at: self.gone + self.results.len() as u64, length });
        self.results.extend(results);
        let Self { answers, first, numbers, .. } = self;
        let checksum = |number: &u32| answers[number.wrapping_sub(*first) as usize].call.checksum;
        numbers.insert_unique(call.checksum, number, checksum);
    }

    fn answer(&self, number: u32) -> &Answer {
        &self.answers[number.wrapping_sub(self.first) as usize]
    }

    fn results_of(&mut self, number: u32) -> &[u8] {
        let Answer { at, length, .. } = *self.answer(number);
        let (begin, middle) = ((at - self.gone) as usize, self.results.as_slices().0.len());
        // One answer lies across the end of the queue's memory; it is not asked for often.
        if begin < middle && begin + length > middle {
            self.results.make_contiguous();
        }
        let (front, back) = self.results.as_slices();
        match begin.checked_sub(front.len()) {
            Some(begin) => &back[begin..begin + length],
            None => &front[begin..begin + length],
        }
    }

    /// All is forgotten: a crash. What ran before is not taken for what runs later.
    pub fn clear(&mut self) {
        *self = Self { next: self.next, ..Self::new() };
    }

    /// Nobody asks again after so long: what looks like it is a new call with an old number.
    fn expire(&mut self, now: Instant) {
        for _ in 0..2 {
            match self.answers.front() {
                Some(oldest) if now.saturating_duration_since(oldest.since) > KEPT => self.pop(),
                Some(_) | None => return,
            }
        }
    }

    /// The oldest answer makes way.
    fn pop(&mut self) {
        let Some(Answer { call, length, .. }) = self.answers.pop_front() else { return };
        let number = self.first;
        self.first = number.wrapping_add(1);
        if let Ok(place) = self.numbers.find_entry(call.checksum, |other| *other == number) {
            place.remove();
        }
        self.results.drain(..length);
        self.gone += length as u64;
    }
}

impl<T> Default for Replays<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Answers that are kept, and their bytes.
const CALLS_MOST: usize = 16_384;
const BYTES_MOST: usize = 8 << 20;
/// What is looked at of either end of a large record: more than the longest names.
const END: usize = 2 << 10;
/// For how long an answer is kept.
const KEPT: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn a_call_that_comes_again_joins_the_first_and_then_gets_its_answer() {
        let (now, mut replays) = (Instant::now(), Replays::new());
        let Verdict::New(known) = replays.begin(now, CLIENT, 1, Procedure::Create, b"call", "first") else {
            panic!("it is new")
        };
        assert_eq!(replays.begin(now, CLIENT, 1, Procedure::Create, b"call", "second"), Verdict::Joined("first"));
        assert_eq!(replays.finish(&known, b"made"), Some("second"));
        assert_eq!(replays.begin(now, CLIENT, 1, Procedure::Create, b"call", "third"), Verdict::Done(b"made"));
    }

    #[test]
    fn another_xid_client_procedure_or_content_is_another_call() {
        let (now, mut replays) = (Instant::now(), Replays::new());
        let other = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
        assert!(matches!(replays.begin(now, CLIENT, 1, Procedure::Create, b"call", ()), Verdict::New(_)));
        assert!(matches!(replays.begin(now, CLIENT, 2, Procedure::Create, b"call", ()), Verdict::New(_)));
        assert!(matches!(replays.begin(now, other, 1, Procedure::Create, b"call", ()), Verdict::New(_)));
        assert!(matches!(replays.begin(now, CLIENT, 1, Procedure::Mkdir, b"call", ()), Verdict::New(_)));
        assert!(matches!(replays.begin(now, CLIENT, 1, Procedure::Create, b"cell", ()), Verdict::New(_)));
    }

    #[test]
    fn large_records_are_told_apart_by_their_ends_and_their_length() {
        let (now, mut replays) = (Instant::now(), Replays::new());
        let large = vec![7; 100 * END];
        let (mut first, mut last) = (large.clone(), large.clone());
        first[END - 1] = 8;
        last[99 * END] = 8;
        for record in [&large[..], &large[1..], &first, &last] {
            assert!(matches!(replays.begin(now, CLIENT, 1, Procedure::Write, record, ()), Verdict::New(_)));
        }
        assert_eq!(replays.begin(now, CLIENT, 1, Procedure::Write, &large, ()), Verdict::Joined(()));
    }

    #[test]
    fn an_answer_is_kept_for_two_minutes() {
        let (now, mut replays) = (Instant::now(), Replays::new());
        let Verdict::New(known) = replays.begin(now, CLIENT, 1, Procedure::Create, b"call", ()) else {
            panic!("it is new")
        };
        replays.finish(&known, b"made");
        let later = now + KEPT;
        assert_eq!(replays.begin(later, CLIENT, 1, Procedure::Create, b"call", ()), Verdict::Done(b"made"));
        let too_late = later + Duration::from_secs(1);
        assert!(matches!(replays.begin(too_late, CLIENT, 1, Procedure::Create, b"call", ()), Verdict::New(_)));
        assert!(replays.results.is_empty() && replays.numbers.is_empty());
    }

    /// Executes a call that is new.
    fn execute(replays: &mut Replays<()>, now: Instant, xid: u32, results: &[u8]) {
        let Verdict::New(known) = replays.begin(now, CLIENT, xid, Procedure::Create, b"call", ()) else {
            panic!("it is new")
        };
        assert_eq!(replays.finish(&known, results), Some(()));
        assert_eq!((replays.finish(&known, results), replays.forget(&known)), (None, None), "it is over");
    }

    #[test]
    fn it_holds_the_newest_answers_and_not_more_of_them_than_it_may() {
        let (now, mut replays) = (Instant::now(), Replays::new());
        let calls = 3 * CALLS_MOST as u32;
        for xid in 0..calls {
            execute(&mut replays, now, xid, &xid.to_be_bytes());
        }
        assert_eq!((replays.answers.len(), replays.numbers.len()), (CALLS_MOST, CALLS_MOST));
        assert_eq!((replays.results.len(), replays.running.len(), replays.places.len()), (4 * CALLS_MOST, 0, 0));
        let oldest = calls - CALLS_MOST as u32;
        for xid in oldest..calls {
            let verdict = replays.begin(now, CLIENT, xid, Procedure::Create, b"call", ());
            assert_eq!(verdict, Verdict::Done(&xid.to_be_bytes()));
        }
        assert!(matches!(replays.begin(now, CLIENT, oldest - 1, Procedure::Create, b"call", ()), Verdict::New(_)));
    }

    #[test]
    fn it_holds_at_most_so_many_bytes_and_finds_each_answer_wherever_it_lies() {
        let (now, mut replays) = (Instant::now(), Replays::new());
        let results = |xid: u32| vec![xid as u8; 5000 + xid as usize % 7];
        for xid in 0..4 * (BYTES_MOST / 5000) as u32 {
            execute(&mut replays, now, xid, &results(xid));
            assert!(replays.results.len() <= BYTES_MOST);
            for back in [0, 1, 700, 1500] {
                let Some(xid) = xid.checked_sub(back) else { continue };
                let verdict = replays.begin(now, CLIENT, xid, Procedure::Create, b"call", ());
                assert_eq!(verdict, Verdict::Done(&results(xid)), "{back} calls ago");
            }
        }
        execute(&mut replays, now, u32::MAX, &vec![0; BYTES_MOST + 1]);
        assert!(replays.results.len() <= BYTES_MOST, "what is larger than all room is not kept");
    }

    #[test]
    fn what_ran_before_a_crash_is_not_taken_for_what_runs_after_it() {
        let (now, mut replays) = (Instant::now(), Replays::new());
        let Verdict::New(before) = replays.begin(now, CLIENT, 1, Procedure::Create, b"call", "before") else {
            panic!("it is new")
        };
        replays.clear();
        let Verdict::New(after) = replays.begin(now, CLIENT, 1, Procedure::Create, b"call", "after") else {
            panic!("it is new again")
        };
        assert_eq!((replays.finish(&before, b"made"), replays.finish(&after, b"made")), (None, Some("after")));
    }
}
