//! A bound on the memory that unfinished records take over all connections of a process.
//!
//! A record that is larger than what a connection may hold anyway reserves its whole size before it is read on: all or
//! nothing, so that two halves cannot wait for each other. A connection without its reservation is not read; the one that
//! holds it and sends nothing is ended by its owner's stall rule.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes in use, under a cap.
#[derive(Clone, Debug)]
pub struct Budget {
    cap: usize,
    used: Arc<AtomicUsize>,
}

impl Budget {
    /// Room for `cap` bytes.
    pub fn new(cap: usize) -> Self {
        Self { cap, used: Arc::default() }
    }

    /// Bytes that are not reserved.
    pub fn left(&self) -> usize {
        self.cap.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    pub(crate) fn reserve(&self, bytes: usize) -> bool {
        let enough = |used: usize| Some(used + bytes).filter(|used| *used <= self.cap);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enough).is_ok()
    }

    /// For bytes that are held already: one read may bring more than there was room for.
    pub(crate) fn force(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_all_or_nothing() {
        let budget = Budget::new(10);
        assert!(budget.reserve(6));
        assert!(!budget.reserve(5));
        assert_eq!(budget.left(), 4);
        budget.release(6);
        assert!(budget.reserve(10));
    }
}
