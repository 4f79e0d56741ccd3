//! The duplicate request cache: a client that sends a call again, because the answer was lost or late, gets the first answer.
//!
//! A call is known by its client's address without its port (it reconnects) and by a keyed digest of
//! the whole record, its xid and procedure included: where both are equal, it is the same call
//! ([`CallId`]). Calls that change names or attributes must not be executed twice; a WRITE that is
//! executed again after a newer one brings old data back. Both are kept, each kind in a room of its
//! own, so that many WRITEs push out no CREATE. A client has a share of a room, and the room an end
//! ([`Bound`]); an answer is kept for a while after it was given, however long the call had waited
//! for it.

use crate::{Digest, RecordKey};
use foldhash::quality::RandomState;
use hashbrown::HashTable;
use midas_nfs::nfs3::Procedure;
use slab::Slab;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// Calls under way, and answers that may be asked for again.
#[derive(Debug)]
pub struct Replays<T> {
    running: Slab<Running<T>>,
    /// Where each call runs, by its digest.
    places: HashTable<u32>,
    /// Answers of what changes names and attributes, and those of what changes data.
    names: Kept,
    data: Kept,
    terms: Terms,
    /// What the next call is known by.
    next: NonZeroU32,
}

/// How much is kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long after its end a call is known.
    pub kept: Duration,
    /// Answers of calls that change names and attributes.
    pub names: Bound,
    /// Answers of WRITE and COMMIT.
    pub data: Bound,
}

/// What a room takes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Answers of one client.
    pub calls_of_one: usize,
    /// Answers of all clients together.
    pub calls: usize,
    /// Bytes of all results together.
    pub bytes: usize,
}

impl Terms {
    /// The terms of one of so many parts of a cache.
    pub const fn of_one_in(parts: usize) -> Self {
        Self {
            kept: KEPT,
            names: Bound { calls_of_one: NAMES / parts, calls: NAMES / parts, bytes: NAMES_BYTES / parts },
            data: Bound { calls_of_one: DATA_OF_ONE / parts, calls: DATA / parts, bytes: DATA_BYTES / parts },
        }
    }
}

/// What makes two records the same call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallId {
    digest: Digest,
    client: IpAddr,
    data: bool,
}

impl CallId {
    /// The identity of a client's record.
    pub fn new(key: &RecordKey, client: IpAddr, procedure: Procedure, record: &[u8]) -> Self {
        let client = client.to_canonical();
        let data = matches!(procedure, Procedure::Write | Procedure::Commit);
        Self { digest: key.of(client, record), client, data }
    }
}

/// A call that was new: its place, and which of those that had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Known {
    place: u32,
    number: NonZeroU32,
}

/// It waits or runs; its answer goes to the newest asker.
#[derive(Debug)]
struct Running<T> {
    call: CallId,
    asker: T,
    /// Who asked before the newest, at most [`BEFORE`], the oldest first.
    before: Vec<T>,
    number: NonZeroU32,
}

impl<T: Clone + PartialEq> Running<T> {
    /// It is asked for again; who asked last before.
    fn join(&mut self, asker: T) -> T {
        self.before.retain(|before| *before != asker);
        let displaced = std::mem::replace(&mut self.asker, asker);
        if displaced != self.asker {
            if self.before.len() == BEFORE {
                self.before.remove(0);
            }
            self.before.push(displaced.clone());
        }
        displaced
    }
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

impl<T: Clone + PartialEq> Replays<T> {
    /// An empty cache.
    pub fn new(terms: Terms) -> Self {
        let (names, data) = (Kept::new(terms.names), Kept::new(terms.data));
        Self { running: Slab::new(), places: HashTable::new(), names, data, terms, next: NonZeroU32::MIN }
    }

    /// The client of a call that runs.
    pub fn client(&self, known: &Known) -> Option<IpAddr> {
        self.runs(*known).map(|running| running.call.client)
    }

    /// Who gets the answer of a call that runs.
    pub fn newest(&self, known: &Known) -> Option<&T> {
        self.runs(*known).map(|running| &running.asker)
    }

    /// Who asked before the newest. Copies may be read in another order than they were sent, so one
    /// of these may be who waits.
    pub fn before(&self, known: &Known) -> &[T] {
        self.runs(*known).map_or(&[], |running| &running.before)
    }

    /// Where the newest asker is gone and one before it is there, the answer is that one's.
    pub fn prefer(&mut self, known: &Known, here: impl Fn(&T) -> bool) {
        let running = self.running.get_mut(known.place as usize).filter(|running| running.number == known.number);
        let Some(Running { asker, before, .. }) = running else { return };
        if !before.is_empty()
            && !here(asker)
            && let Some(other) = before.iter().rposition(here)
        {
            std::mem::swap(asker, &mut before[other]);
        }
    }

    fn runs(&self, known: Known) -> Option<&Running<T>> {
        self.running.get(known.place as usize).filter(|running| running.number == known.number)
    }

    /// A call came in from `asker`.
    pub fn begin(&mut self, now: Instant, call: CallId, asker: T) -> Verdict<'_, T> {
        let Self { running, places, names, data, terms, .. } = self;
        let place = places.find(call.digest.word(), |place| running[*place as usize].call == call);
        if let Some(place) = place {
            let running = &mut running[*place as usize];
            return Verdict::Joined(running.join(asker));
        }
        let kept = if call.data { data } else { names };
        // Answers that are older are nobody's: what looks like such a call is a new one.
        let oldest = now.checked_sub(terms.kept);
        kept.sweep(oldest);
        match kept.find(oldest, &call) {
            Some(at) => Verdict::Done(if call.data { self.data.results(at) } else { self.names.results(at) }),
            None => Verdict::New(self.run(call, asker)),
        }
    }

    fn run(&mut self, call: CallId, asker: T) -> Known {
        let number = self.next;
        self.next = number.checked_add(1).unwrap_or(NonZeroU32::MIN);
        let Self { running, places, .. } = self;
        let place = running.insert(Running { call, asker, before: Vec::new(), number }) as u32;
        places.insert_unique(call.digest.word(), place, |place| running[*place as usize].call.digest.word());
        Known { place, number }
    }

    /// A call was executed: its results are kept from now on, and its newest asker is who gets them.
    pub fn finish(&mut self, now: Instant, known: &Known, results: &[u8]) -> Option<T> {
        let Running { call, asker, .. } = self.end(*known)?;
        let kept = if call.data { &mut self.data } else { &mut self.names };
        kept.keep(now, &call, results);
        Some(asker)
    }

    /// A call is over whose answer need not be kept: sent again, it may be executed again. Its newest asker.
    pub fn forget(&mut self, known: &Known) -> Option<T> {
        self.end(*known).map(|running| running.asker)
    }

    /// None if it is over already.
    fn end(&mut self, known: Known) -> Option<Running<T>> {
        self.runs(known)?;
        let running = self.running.remove(known.place as usize);
        if let Ok(place) = self.places.find_entry(running.call.digest.word(), |place| *place == known.place) {
            place.remove();
        }
        Some(running)
    }

    /// All is forgotten: a crash. What ran before is not taken for what runs later.
    pub fn clear(&mut self) {
        *self = Self { next: self.next, ..Self::new(self.terms) };
    }
}

/// Answers of one kind of calls: a queue for each client, and an index of all.
#[derive(Debug)]
struct Kept {
    bound: Bound,
    queues: Slab<Queue>,
    of_client: HashMap<IpAddr, u32, RandomState>,
    index: HashTable<At>,
    calls: usize,
    bytes: usize,
    /// The queue that is looked at next for what is too old, or gives way.
    hand: usize,
    /// The queue that took the last answer.
    last: u32,
}

/// Where an answer is: a queue, and the answer's number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct At {
    queue: u32,
    number: u32,
    /// A word of its digest: a table that grows need not look at every answer.
    word: u64,
}

/// One client's answers, numbered in turn; the oldest leave first.
#[derive(Debug)]
struct Queue {
    client: IpAddr,
    answers: VecDeque<Answer>,
    /// The number of the first of them.
    first: u32,
    /// Their results, back to back.
    results: VecDeque<u8>,
    /// Bytes of results that left.
    gone: u64,
}

#[derive(Debug)]
struct Answer {
    digest: Digest,
    given: Instant,
    /// Where its results begin, counted from the first that ever were.
    begins: u64,
    length: usize,
}

impl Kept {
    fn new(bound: Bound) -> Self {
        let (queues, of_client, index) = (Slab::new(), HashMap::default(), HashTable::new());
        Self { bound, queues, of_client, index, calls: 0, bytes: 0, hand: 0, last: 0 }
    }

    /// An answer that was not given before this moment.
    fn find(&self, oldest: Option<Instant>, call: &CallId) -> Option<At> {
        let word = call.digest.word();
        let is = |at: &At| {
            at.word == word && {
                let queue = &self.queues[at.queue as usize];
                let answer = queue.answer(at.number);
                let same = queue.client == call.client && answer.digest == call.digest;
                same && oldest.is_none_or(|oldest| answer.given >= oldest)
            }
        };
        self.index.find(word, is).copied()
    }

    fn results(&mut self, at: At) -> &[u8] {
        self.queues[at.queue as usize].results(at.number)
    }

    fn keep(&mut self, now: Instant, call: &CallId, results: &[u8]) {
        if results.len() > self.bound.bytes || self.bound.calls_of_one == 0 {
            return;
        }
        let own = self.queue_of(call.client);
        if let Some(own) = own.filter(|own| self.queues[*own as usize].answers.len() >= self.bound.calls_of_one) {
            self.pop(own as usize);
        }
        while self.calls >= self.bound.calls || self.bytes + results.len() > self.bound.bytes {
            self.make_way();
        }
        let Self { queues, of_client, index, .. } = self;
        // Its queue may have made way.
        let own = own.filter(|own| queues.get(*own as usize).is_some_and(|queue| queue.client == call.client));
        let queue = own.unwrap_or_else(|| {
            let queue = queues.insert(Queue::new(call.client)) as u32;
            of_client.insert(call.client, queue);
            queue
        });
        let number = queues[queue as usize].push(now, call.digest, results);
        let word = call.digest.word();
        index.insert_unique(word, At { queue, number, word }, |at| at.word);
        self.last = queue;
        self.calls += 1;
        self.bytes += results.len();
    }

    /// The queue of a client. The client of the last answer is likely to be that of the next one.
    fn queue_of(&self, client: IpAddr) -> Option<u32> {
        match self.queues.get(self.last as usize) {
            Some(queue) if queue.client == client => Some(self.last),
            _ => self.of_client.get(&client).copied(),
        }
    }

    /// An answer of a client that has its share of them or more makes way: who has few keeps them.
    fn make_way(&mut self) {
        let share = self.calls / self.queues.len().max(1);
        for _ in 0..=self.queues.capacity() {
            if self.queues.get(self.hand).is_some_and(|queue| queue.answers.len() >= share.max(1)) {
                return self.pop(self.hand);
            }
            self.turn();
        }
    }

    /// Looks at one client's answers, and drops a few that nobody will ask for again.
    fn sweep(&mut self, oldest: Option<Instant>) {
        let Some(oldest) = oldest else { return };
        for _ in 0..2 {
            let first = self.queues.get(self.hand).and_then(|queue| queue.answers.front());
            match first.is_some_and(|answer| answer.given < oldest) {
                true => self.pop(self.hand),
                false => return self.turn(),
            }
        }
    }

    fn turn(&mut self) {
        self.hand = if self.hand + 1 < self.queues.capacity() { self.hand + 1 } else { 0 };
    }

    /// The oldest answer of a client leaves, and with the last one its queue.
    fn pop(&mut self, queue: usize) {
        let Some(Answer { digest, length, .. }) = self.queues[queue].answers.pop_front() else { return };
        let at = At { queue: queue as u32, number: self.queues[queue].first, word: digest.word() };
        let of = &mut self.queues[queue];
        of.first = at.number.wrapping_add(1);
        of.results.drain(..length);
        of.gone += length as u64;
        if let Ok(place) = self.index.find_entry(digest.word(), |other| *other == at) {
            place.remove();
        }
        self.calls -= 1;
        self.bytes -= length;
        if self.queues[queue].answers.is_empty() {
            let gone = self.queues.remove(queue);
            self.of_client.remove(&gone.client);
        }
    }
}

impl Queue {
    fn new(client: IpAddr) -> Self {
        Self { client, answers: VecDeque::new(), first: 0, results: VecDeque::new(), gone: 0 }
    }

    fn push(&mut self, given: Instant, digest: Digest, results: &[u8]) -> u32 {
        let number = self.first.wrapping_add(self.answers.len() as u32);
        let begins = self.gone + self.results.len() as u64;
        self.answers.push_back(Answer { digest, given, begins, length: results.len() });
        self.results.extend(results);
        number
    }

    fn answer(&self, number: u32) -> &Answer {
        &self.answers[number.wrapping_sub(self.first) as usize]
    }

    fn results(&mut self, number: u32) -> &[u8] {
        let Answer { begins, length, .. } = *self.answer(number);
        let (begin, middle) = ((begins - self.gone) as usize, self.results.as_slices().0.len());
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
}

/// Askers of one call that are remembered beside the newest.
const BEFORE: usize = 4;
/// How long after its end a call is known.
const KEPT: Duration = Duration::from_secs(120);
/// Answers of what changes names and attributes, and their bytes.
const NAMES: usize = 1 << 18;
const NAMES_BYTES: usize = 128 << 20;
/// Answers of WRITE and COMMIT: of one client, of all, and their bytes.
const DATA_OF_ONE: usize = 1 << 14;
const DATA: usize = 1 << 17;
const DATA_BYTES: usize = 32 << 20;

#[cfg(test)]
mod tests;
