//! What really happened at the servers, for tests that must not believe the system under test: every executed call in its
//! order, calls that were executed twice, and the length of the queue over time.
//!
//! Calls are recognised across servers, connections and xids by the `stamp` that clients such as `midas bench` make unique in
//! their AUTH_SYS credentials; a kernel's stamps are not unique, so its calls are counted and not compared.

use midas_nfs::nfs3::{Nfsstat3, Procedure};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The truth of all servers over one namespace.
#[derive(Debug)]
pub struct Truth {
    start: Instant,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    calls: Vec<[u64; 22]>,
    executed: VecDeque<Executed>,
    forgotten: u64,
    seen: HashMap<Mark, u32>,
    doubles: u64,
    uncompared: u64,
    queues: Vec<Queue>,
}

/// An executed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executed {
    /// When, since the servers started.
    pub at: Duration,
    /// From its arrival to the end of its service: what it waited and what it took. Nothing if it was executed at once.
    pub took: Duration,
    /// Where.
    pub server: u16,
    /// What.
    pub procedure: Procedure,
    /// Of which client call.
    pub mark: Mark,
    /// How it ended.
    pub status: Nfsstat3,
}

/// A client's own number for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    /// A hash of the client's machine name.
    pub machine: u64,
    /// The stamp of its credential.
    pub stamp: u32,
}

/// The length of one server's queue over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queue {
    /// Longest.
    pub longest: usize,
    /// Length times seconds; divided by the time watched it is the mean.
    pub area: f64,
    /// Changes of the length, the latest [`CHANGES_MOST`].
    pub changes: VecDeque<(Duration, usize)>,
    length: usize,
    since: Duration,
}

/// A copy of the truth at one time.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Since the servers started.
    pub at: Duration,
    /// Executed calls by server and procedure number.
    pub calls: Vec<[u64; 22]>,
    /// The latest executed calls, in order.
    pub executed: Vec<Executed>,
    /// Executed calls that are too long ago to be kept.
    pub forgotten: u64,
    /// Calls that changed something, and did so again.
    pub doubles: u64,
    /// Calls that change something and came when no more could be remembered: compared only with those that were.
    pub uncompared: u64,
    /// Queues by server.
    pub queues: Vec<Queue>,
}

impl Truth {
    pub(crate) fn new(start: Instant, servers: usize) -> Self {
        let inner =
            Inner { calls: vec![[0; 22]; servers], queues: vec![Queue::default(); servers], ..Inner::default() };
        Self { start, inner: Mutex::new(inner) }
    }

    /// A call was executed.
    pub(crate) fn executed(&self, now: Instant, mut call: Executed, unique: bool) {
        call.at = now.saturating_duration_since(self.start);
        let mut inner = self.lock();
        inner.calls[usize::from(call.server)][call.procedure as usize] += 1;
        let changes = unique && !call.procedure.idempotent();
        if changes && inner.seen.len() >= SEEN_MOST && !inner.seen.contains_key(&call.mark) {
            inner.uncompared += 1;
        } else if changes && call.status == Nfsstat3::OK {
            // One that was refused has changed nothing: a copy that finds its call done.
            let times = inner.seen.entry(call.mark).or_insert(0);
            *times += 1;
            inner.doubles += u64::from(*times > 1);
        }
        if inner.executed.len() == EXECUTED_MOST {
            inner.executed.pop_front();
            inner.forgotten += 1;
        }
        inner.executed.push_back(call);
    }

    /// A server's queue has another length.
    pub(crate) fn queue(&self, now: Instant, server: u16, length: usize) {
        let at = now.saturating_duration_since(self.start);
        self.lock().queues[usize::from(server)].change(at, length);
    }

    /// What happened up to now.
    pub fn look(&self, now: Instant) -> Seen {
        let at = now.saturating_duration_since(self.start);
        let mut inner = self.lock();
        for queue in &mut inner.queues {
            queue.advance(at);
        }
        Seen {
            at,
            calls: inner.calls.clone(),
            executed: inner.executed.iter().copied().collect(),
            forgotten: inner.forgotten,
            doubles: inner.doubles,
            uncompared: inner.uncompared,
            queues: inner.queues.clone(),
        }
    }

    /// The queues' lengths now, by server; quicker than [`Truth::look`].
    pub fn lengths(&self) -> Vec<usize> {
        self.lock().queues.iter().map(Queue::length).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Counters stay meaningful when another thread died between two of them.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn change(&mut self, at: Duration, length: usize) {
        self.advance(at);
        if length == self.length {
            return;
        }
        self.length = length;
        self.longest = self.longest.max(length);
        if self.changes.len() == CHANGES_MOST {
            self.changes.pop_front();
        }
        self.changes.push_back((at, length));
    }

    fn advance(&mut self, at: Duration) {
        self.area += at.saturating_sub(self.since).as_secs_f64() * self.length as f64;
        self.since = self.since.max(at);
    }

    /// The length now.
    pub fn length(&self) -> usize {
        self.length
    }
}

/// Executed calls that are kept.
const EXECUTED_MOST: usize = 1 << 20;
/// Calls that are compared with later ones.
const SEEN_MOST: usize = 1 << 22;
/// Changes of a queue's length that are kept.
pub const CHANGES_MOST: usize = 1 << 18;

#[cfg(test)]
mod tests {
    use super::*;

    fn call(server: u16, procedure: Procedure, stamp: u32) -> Executed {
        let mark = Mark { machine: 7, stamp };
        Executed { at: Duration::ZERO, took: Duration::ZERO, server, procedure, mark, status: Nfsstat3::OK }
    }

    #[test]
    fn a_change_that_is_executed_again_anywhere_is_a_double() {
        let start = Instant::now();
        let truth = Truth::new(start, 2);
        truth.executed(start, call(0, Procedure::Create, 1), true);
        truth.executed(start, call(1, Procedure::Getattr, 2), true);
        truth.executed(start, call(1, Procedure::Getattr, 2), true);
        assert_eq!(truth.look(start).doubles, 0);
        truth.executed(start, call(1, Procedure::Create, 1), true);
        let seen = truth.look(start);
        assert_eq!((seen.doubles, seen.executed.len()), (1, 4));
        assert_eq!(seen.calls[1][Procedure::Getattr as usize], 2);
    }

    #[test]
    fn the_mean_length_of_a_queue_is_its_area_over_time() {
        let start = Instant::now();
        let truth = Truth::new(start, 1);
        truth.queue(start + Duration::from_secs(1), 0, 4);
        truth.queue(start + Duration::from_secs(3), 0, 1);
        let seen = truth.look(start + Duration::from_secs(5));
        assert_eq!((seen.queues[0].area, seen.queues[0].longest), (10.0, 4));
    }
}
