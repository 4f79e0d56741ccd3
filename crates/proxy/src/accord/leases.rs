//! Whether answers may come from a cache, as every call asks it: two atomics, written by whoever steps the protocol.
//!
//! The clock is read after the call was: a process that was stopped in between must not answer by a lease that it had before.

use crate::clock::Clock;
use midas_core::time::Time;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Leases of all other members, as one moment.
#[derive(Debug)]
pub(crate) struct Leases {
    clock: Clock,
    /// When the first of them ends, in nanoseconds.
    until: AtomicU64,
    /// How often everything was forgotten.
    flushes: AtomicU64,
    /// Whether members do not mean the same by a name.
    blocked: AtomicBool,
}

impl Leases {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, until: AtomicU64::new(0), flushes: AtomicU64::new(0), blocked: AtomicBool::new(false) }
    }

    /// Whether what is kept is true now.
    pub(crate) fn live(&self) -> bool {
        self.clock.now().as_nanos() < self.until.load(Ordering::SeqCst) && !self.blocked()
    }

    /// Whether nothing is answered whatever leases there are.
    pub(crate) fn blocked(&self) -> bool {
        self.blocked.load(Ordering::SeqCst)
    }

    /// What it was before.
    pub(super) fn block(&self, blocked: bool) -> bool {
        self.blocked.swap(blocked, Ordering::SeqCst)
    }

    /// Whoever sees the same number twice, and a live lease the second time, had one all the time.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::SeqCst)
    }

    pub(super) fn flushed(&self) {
        self.flushes.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn publish(&self, until: Time) {
        self.until.store(until.as_nanos(), Ordering::SeqCst);
    }
}
