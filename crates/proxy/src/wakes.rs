//! Event loops are told here which of their calls has its turn: a mutation that waits for a name
//! ends its wait when another loop's mutation of that name ends.

use crate::pool::lock;
use midas_core::time::Time;
use mio::Waker;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, ThreadId};

/// A mutation that waits for a name. The order is by age: no two have one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waiter {
    /// When it came.
    pub(crate) since: Time,
    pub(crate) number: u64,
    /// The loop that has it.
    pub(crate) event_loop: u32,
}

/// The bells of all loops.
#[derive(Debug)]
pub(crate) struct Wakes {
    bells: Box<[Bell]>,
    numbers: AtomicU64,
}

/// The numbers of calls whose turn it is, for one loop.
#[derive(Debug, Default)]
struct Bell {
    woken: Mutex<Vec<u64>>,
    /// Whether there are any.
    some: AtomicBool,
    /// The loop's thread, and how to wake it.
    home: OnceLock<(ThreadId, Arc<Waker>)>,
}

impl Wakes {
    pub(crate) fn new(loops: usize) -> Self {
        Self { bells: (0..loops).map(|_| Bell::default()).collect(), numbers: AtomicU64::new(0) }
    }

    /// A number that no other mutation has.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// The calling thread runs this loop.
    pub(crate) fn settle(&self, event_loop: usize, waker: &Arc<Waker>) {
        let _once = self.bells[event_loop].home.set((thread::current().id(), Arc::clone(waker)));
    }

    /// It is this call's turn.
    pub(crate) fn wake(&self, whom: Waiter) {
        let Some(bell) = self.bells.get(whom.event_loop as usize) else { return };
        lock(&bell.woken).push(whom.number);
        if bell.some.swap(true, Ordering::AcqRel) {
            return;
        }
        // A loop looks at its own bell before it sleeps.
        if let Some((_, waker)) = bell.home.get().filter(|(thread, _)| *thread != thread::current().id()) {
            let _ended = waker.wake();
        }
    }

    /// Whether it is the turn of any call of this loop.
    #[inline]
    pub(crate) fn any(&self, event_loop: usize) -> bool {
        self.bells[event_loop].some.load(Ordering::Acquire)
    }

    /// The calls whose turn it is.
    pub(crate) fn take(&self, event_loop: usize) -> Vec<u64> {
        let bell = &self.bells[event_loop];
        let mut woken = lock(&bell.woken);
        bell.some.store(false, Ordering::Release);
        std::mem::take(&mut woken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_that_is_woken_is_taken_once_by_its_loop() {
        let wakes = Wakes::new(2);
        let whom = |number, event_loop| Waiter { since: Time::ZERO, number, event_loop };
        for (number, event_loop) in [(1, 0), (2, 1), (3, 0), (4, 7)] {
            wakes.wake(whom(number, event_loop));
        }
        assert!(wakes.any(0) && wakes.any(1));
        assert_eq!((wakes.take(0), wakes.take(1)), (vec![1, 3], vec![2]));
        assert!(!wakes.any(0) && !wakes.any(1) && wakes.take(0).is_empty());
        assert_ne!(wakes.number(), wakes.number());
    }
}
