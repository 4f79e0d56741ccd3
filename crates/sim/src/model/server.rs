//! A metadata server: one FIFO queue, c workers. Paper: P1.

use midas_core::time::{Span, Time};
use std::collections::VecDeque;

/// A call's place in the world's table.
pub type CallId = u32;

/// One server.
#[derive(Debug)]
pub struct Server {
    workers: u32,
    busy: u32,
    waiting: VecDeque<CallId>,
    /// Calls on their way here.
    coming: u32,
    area: f64,
    worst: u32,
    counted_to: Time,
}

impl Server {
    /// An idle server with that many workers.
    pub fn new(workers: u32) -> Self {
        Self { workers, busy: 0, waiting: VecDeque::new(), coming: 0, area: 0.0, worst: 0, counted_to: Time::ZERO }
    }

    /// L_i: waiting and in service.
    pub fn queue(&self) -> u32 {
        self.busy + self.waiting.len() as u32
    }

    /// The queue and what is on its way to it: what a move is judged by.
    pub fn committed(&self) -> u32 {
        self.queue() + self.coming
    }

    /// A call was sent here.
    pub fn expect(&mut self) {
        self.coming += 1;
    }

    /// A call that was sent here does not come.
    pub fn forsake(&mut self) {
        self.coming -= 1;
    }

    /// A call arrives; true if a worker takes it at once.
    pub fn arrive(&mut self, now: Time, call: CallId) -> bool {
        self.count(now);
        self.coming -= 1;
        let free = self.busy < self.workers;
        match free {
            true => self.busy += 1,
            false => self.waiting.push_back(call),
        }
        self.worst = self.worst.max(self.queue());
        free
    }

    /// A worker is done; the call that it takes next.
    pub fn done(&mut self, now: Time) -> Option<CallId> {
        self.count(now);
        let next = self.waiting.pop_front();
        if next.is_none() {
            self.busy -= 1;
        }
        next
    }

    /// Forgets what was counted: measuring starts here.
    pub fn measure_from(&mut self, now: Time) {
        self.area = 0.0;
        self.worst = self.queue();
        self.counted_to = now;
    }

    /// The time-averaged queue from `since` to `now`, and the longest one.
    pub fn measured(&mut self, since: Time, now: Time) -> (f64, u32) {
        self.count(now);
        (self.area / now.since(since).max(Span::from_nanos(1)).as_secs_f64(), self.worst)
    }

    fn count(&mut self, now: Time) {
        self.area += f64::from(self.queue()) * now.since(self.counted_to).as_secs_f64();
        self.counted_to = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_wait_in_order_and_the_queue_is_averaged_over_time() {
        let at = Time::from_nanos;
        let mut server = Server::new(2);
        (0..3).for_each(|_| server.expect());
        assert_eq!((server.queue(), server.committed()), (0, 3));
        assert!(server.arrive(at(0), 7));
        assert!(server.arrive(at(0), 8));
        assert!(!server.arrive(at(0), 9));
        assert_eq!(server.done(at(10)), Some(9));
        assert_eq!(server.done(at(20)), None);
        assert_eq!(server.done(at(30)), None);
        let (mean, worst) = server.measured(at(0), at(40));
        assert!((mean - (3.0 * 10.0 + 2.0 * 10.0 + 1.0 * 10.0) / 40.0).abs() < 1e-12 && worst == 3, "{mean}, {worst}");
    }
}
