//! In which order reads left and mutations began and ended, over all shards that share a clock.
//!
//! A read may fill only if nothing that it depends on changed since it left. What it depends on is often not known when it leaves (a page
//! of a directory names hundreds of objects), so the changes are remembered, not the reads: each place of a fixed table holds
//! when one of its keys last changed. Keys that share a place refuse each other's fills now and then; none is ever let through.

use super::hash::Fixed;
use crate::time::Time;
use alloc::vec::Vec;
use core::hash::Hash;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};

/// Counts changes. One for all shards of an export: a read's answer may fill several.
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

/// When a read left: what it brings was true then or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// On the driver's clock.
    pub at: Time,
    /// How many changes had begun or ended.
    pub(super) changes: u64,
}

impl Left {
    /// Grows with every change: of two reads, the one with the larger number left later.
    pub const fn number(self) -> u64 {
        self.changes
    }
}

impl Clock {
    /// A read leaves now.
    pub fn left(&self, at: Time) -> Left {
        Left { at, changes: self.0.load(Ordering::SeqCst) }
    }

    /// Something changes: the number of this change, above that of every read that has left.
    pub(super) fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// The last change of every key, or a later one.
#[derive(Debug)]
pub(super) struct Changes<K> {
    places: Vec<u64>,
    spread: Fixed,
    of: PhantomData<K>,
}

impl<K: Hash> Changes<K> {
    pub(super) fn new(spread: Fixed) -> Self {
        Self { places: Vec::new(), spread, of: PhantomData }
    }

    /// A mutation of the key begins or ends.
    pub(super) fn note(&mut self, key: &K, change: u64) {
        if self.places.is_empty() {
            self.places.resize(PLACES, 0);
        }
        let place = self.place_of(key);
        self.places[place] = change;
    }

    /// Whether a mutation of the key began or ended since this read left.
    pub(super) fn since(&self, left: Left, key: &K) -> bool {
        self.places.get(self.place_of(key)).is_some_and(|change| *change > left.changes)
    }

    fn place_of(&self, key: &K) -> usize {
        (self.spread.of(key) >> PLACE_SHIFT) as usize % PLACES
    }
}

/// Of one shard; 8 bytes each, made when something changes for the first time.
const PLACES: usize = 2048;
/// The tables of the cache use the low bits and the highest ones.
const PLACE_SHIFT: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_sees_the_changes_after_it_and_not_those_before() {
        let (clock, mut changes) = (Clock::default(), Changes::new(Fixed::default()));
        let before = clock.left(Time::ZERO);
        changes.note(&1u64, clock.tick());
        let after = clock.left(Time::ZERO);
        assert!(changes.since(before, &1) && !changes.since(after, &1));
        assert!(!changes.since(before, &2), "another key, in another place");
    }
}
