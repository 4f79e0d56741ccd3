//! A server as queueing theory knows it: some workers, one queue in order of arrival, a service time for each call.
//!
//! Times are exact: a worker that is free at 10.0 ms takes the next call at 10.0 ms even if the event loop looks at 10.2 ms, so
//! lateness never adds up, and measured queues can be held against simulated ones. It never refuses a call: its owner stops
//! reading when [`Station::full`] says so.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

/// Calls that wait and calls that are worked on.
#[derive(Debug)]
pub(crate) struct Station<J> {
    workers: usize,
    waiting: VecDeque<(J, Work)>,
    busy: BinaryHeap<Reverse<Busy<J>>>,
    /// When workers became free that found nobody waiting; the earliest first.
    free: BinaryHeap<Reverse<Instant>>,
    stopped: Option<Instant>,
    sequence: u64,
    bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Work {
    arrived: Instant,
    service: Duration,
    bytes: usize,
}

#[derive(Debug)]
struct Busy<J> {
    done: Instant,
    sequence: u64,
    bytes: usize,
    job: J,
}

impl<J> PartialEq for Busy<J> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<J> Eq for Busy<J> {}

impl<J> PartialOrd for Busy<J> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<J> Ord for Busy<J> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.done, self.sequence).cmp(&(other.done, other.sequence))
    }
}

impl<J> Station<J> {
    pub(crate) fn new(now: Instant, workers: usize) -> Self {
        Self {
            workers,
            waiting: VecDeque::new(),
            busy: BinaryHeap::new(),
            free: (0..workers).map(|_| Reverse(now)).collect(),
            stopped: None,
            sequence: 0,
            bytes: 0,
        }
    }

    /// A call joins the queue; `bytes` is the memory that it holds until it is done.
    pub(crate) fn arrive(&mut self, now: Instant, service: Duration, bytes: usize, job: J) {
        self.bytes += bytes;
        self.waiting.push_back((job, Work { arrived: now, service, bytes }));
        self.start();
    }

    /// The next call that is done by `now`, with the time at which it was.
    pub(crate) fn done(&mut self, now: Instant) -> Option<(J, Instant)> {
        if self.stopped.is_some() || self.next_done()? > now {
            return None;
        }
        let Reverse(Busy { done, bytes, job, .. }) = self.busy.pop()?;
        self.bytes -= bytes;
        self.free.push(Reverse(done));
        self.start();
        Some((job, done))
    }

    /// When the next call will be done; never while stopped.
    pub(crate) fn next_done(&self) -> Option<Instant> {
        let next = self.busy.peek().map(|Reverse(busy)| busy.done);
        next.filter(|_| self.stopped.is_none())
    }

    /// Work stops, or goes on where it stopped.
    pub(crate) fn stop(&mut self, now: Instant, stop: bool) {
        match (self.stopped, stop) {
            (None, true) => self.stopped = Some(now),
            (Some(since), false) => {
                let pause = now.saturating_duration_since(since);
                self.stopped = None;
                self.busy = std::mem::take(&mut self.busy)
                    .into_iter()
                    .map(|Reverse(busy)| {
                        // What was done before the stop and not yet seen is not delayed by all of it.
                        let done = if busy.done < since { now } else { busy.done + pause };
                        Reverse(Busy { done, ..busy })
                    })
                    .collect();
                self.free = self.free.drain().map(|Reverse(at)| Reverse(at.max(now))).collect();
                self.start();
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    /// Everything that waits or is worked on is forgotten: a crash.
    pub(crate) fn clear(&mut self, now: Instant) {
        *self = Self::new(now, self.workers);
    }

    /// Calls here, waiting and worked on.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.busy.len()
    }

    /// Whether no more should be read: the calls or their memory are at the bound.
    pub(crate) fn full(&self) -> bool {
        self.len() >= CALLS_MOST || self.bytes >= BYTES_MOST
    }

    /// Free workers take what waits. Nobody begins while the station is stopped.
    fn start(&mut self) {
        if self.stopped.is_some() {
            return;
        }
        while !self.waiting.is_empty()
            && let Some(Reverse(free)) = self.free.pop()
            && let Some((job, work)) = self.waiting.pop_front()
        {
            self.sequence += 1;
            let done = free.max(work.arrived) + work.service;
            self.busy.push(Reverse(Busy { done, sequence: self.sequence, bytes: work.bytes, job }));
        }
    }
}

/// Calls in one server's queue, and the bytes that they hold.
pub(crate) const CALLS_MOST: usize = 65_536;
pub(crate) const BYTES_MOST: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// Arrivals as (name, at ms, service ms); what is done as (name, at ms), looked at every `step` ms.
    fn check(workers: usize, step: u64, arrivals: &[(char, u64, u64)], done: &[(char, u64)]) {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut station = Station::new(start, workers);
        let (mut next, mut seen) = (arrivals.iter().peekable(), Vec::new());
        for now in (0..200).step_by(step as usize) {
            while let Some((name, when, service)) = next.next_if(|(_, when, _)| *when <= now) {
                station.arrive(at(*when), Duration::from_millis(*service), 1, *name);
            }
            while let Some((name, when)) = station.done(at(now)) {
                seen.push((name, (when - start).as_millis() as u64));
            }
        }
        assert_eq!(seen, done);
        assert_eq!((station.len(), station.bytes), (0, 0));
    }

    #[test]
    fn one_worker_serves_in_order_of_arrival_and_lateness_does_not_add_up() {
        let arrivals = [('a', 0, 10), ('b', 2, 10), ('c', 3, 10), ('d', 50, 10)];
        for step in [1, 7, 30] {
            check(1, step, &arrivals, &[('a', 10), ('b', 20), ('c', 30), ('d', 60)]);
        }
    }

    #[test]
    fn two_workers_overtake() {
        check(2, 1, &[('a', 0, 30), ('b', 0, 10), ('c', 0, 10)], &[('b', 10), ('c', 20), ('a', 30)]);
    }

    #[test]
    fn a_stop_delays_what_is_worked_on_by_its_length() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut station = Station::new(start, 1);
        station.arrive(at(0), Duration::from_millis(10), 1, 'a');
        station.stop(at(4), true);
        station.arrive(at(5), Duration::from_millis(10), 1, 'b');
        assert_eq!((station.next_done(), station.done(at(100))), (None, None));
        station.stop(at(104), false);
        assert_eq!(station.done(at(200)), Some(('a', at(110))));
        assert_eq!(station.done(at(200)), Some(('b', at(120))));
    }
}
