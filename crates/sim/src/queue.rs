//! Simulated time: the one place where it is made.
//!
//! Events leave in the order of their times; at the same time in the order in which they were put in, so a run depends on nothing but its
//! seed.

use midas_core::time::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events in the order of their times.
#[derive(Debug)]
pub struct Queue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    sequence: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Time,
    sequence: u64,
    event: E,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), sequence: 0 }
    }
}

impl<E> Queue<E> {
    /// Puts an event in.
    pub fn push(&mut self, at: Time, event: E) {
        self.sequence += 1;
        self.heap.push(Reverse(Entry { at, sequence: self.sequence, event }));
    }

    /// When the next event is due.
    pub fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// Takes the next event out.
    pub fn pop(&mut self) -> Option<(Time, E)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_leave_by_time_and_then_in_the_order_they_came() {
        let mut queue = Queue::default();
        for (at, name) in [(5, 'c'), (1, 'a'), (5, 'd'), (2, 'b')] {
            queue.push(Time::from_nanos(at), name);
        }
        assert_eq!(queue.next_at(), Some(Time::from_nanos(1)));
        let order: String = std::iter::from_fn(|| queue.pop().map(|(_, name)| name)).collect();
        assert_eq!(order, "abcd");
    }
}
