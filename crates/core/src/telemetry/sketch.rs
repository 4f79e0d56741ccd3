//! The heaviest keys of a stream, by calls or by time, in fixed memory: space-saving (Metwally, Agrawal and El Abbadi, 2005).
//!
//! A key that finds no slot takes over the one that counts least, and begins with that count as its error. So no count is too low, none is
//! too high by more than `total / slots`, and whoever has more than that has a slot. The least is found by blocks: counts only grow, so
//! a block's least of some time ago is a lower bound, and most blocks need not be looked at.

use crate::key::Key;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::AddAssign;
use hashbrown::HashTable;

/// What is counted of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Calls.
    pub calls: u64,
    /// Those of them that a cache answered.
    pub hits: u64,
    /// Nanoseconds that servers spent on them.
    pub nanos: u64,
}

/// What makes a key heavy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Calls.
    Calls,
    /// The time that servers spent on them.
    Time,
}

impl Weight {
    const fn by(&self, by: By) -> u64 {
        match by {
            By::Calls => self.calls,
            By::Time => self.nanos,
        }
    }

    /// By how much it is more than this one.
    #[must_use]
    pub const fn beyond(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(other.calls),
            hits: self.hits.saturating_sub(other.hits),
            nanos: self.nanos.saturating_sub(other.nanos),
        }
    }
}

impl AddAssign for Weight {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.hits += other.hits;
        self.nanos += other.nanos;
    }
}

/// A key that is counted.
#[derive(Clone, Copy, Debug)]
pub struct Slot<V> {
    /// The key.
    pub key: Key,
    /// What was seen of it since it has its slot.
    pub weight: Weight,
    /// What the slot's former key had counted: this one may have had as much before.
    pub error: u64,
    /// What is remembered of it.
    pub value: V,
}

impl<V> Slot<V> {
    /// What it counts: too much by `error` at most.
    fn count(&self, by: By) -> u64 {
        self.weight.by(by) + self.error
    }
}

/// The heaviest keys. `total` is the sum of all slots' counts; no slot of a block counts less than the block's `floor`.
#[derive(Clone, Debug)]
pub struct Sketch<V> {
    by: By,
    slots: Vec<Slot<V>>,
    index: HashTable<u16>,
    floors: Vec<u64>,
    slots_max: usize,
    total: u64,
    /// The slot of the key that came last: what is hot comes again at once.
    last: usize,
}

impl<V> Sketch<V> {
    /// With so many slots, at least one: all the memory that it will ever have.
    pub fn new(by: By, slots_max: u16) -> Self {
        let slots_max = usize::from(slots_max.max(1));
        // Twice the room: then the index is swept in place, and never grows.
        let index = HashTable::with_capacity(2 * slots_max + 2);
        let floors = vec![0; slots_max.div_ceil(BLOCK)];
        Self { by, slots: Vec::with_capacity(slots_max), index, floors, slots_max, total: 0, last: 0 }
    }

    /// Counts; `value` is what is remembered of a key that is new. What is remembered of this one; none if it weighs nothing and is new.
    pub fn add(&mut self, key: Key, weight: Weight, value: impl FnOnce() -> V) -> Option<&mut V> {
        let at = match self.find(key) {
            Some(at) => at,
            None if weight.by(self.by) == 0 => return None,
            None if self.slots.len() < self.slots_max => {
                self.slots.push(Slot { key, weight: Weight::default(), error: 0, value: value() });
                self.enter(key, self.slots.len() - 1)
            }
            None => {
                let at = self.least();
                self.leave(self.slots[at].key, at);
                let error = self.slots[at].count(self.by);
                self.slots[at] = Slot { key, weight: Weight::default(), error, value: value() };
                self.enter(key, at)
            }
        };
        self.last = at;
        self.total += weight.by(self.by);
        let slot = &mut self.slots[at];
        slot.weight += weight;
        Some(&mut slot.value)
    }

    /// The slot of a key, if it has one.
    pub fn get(&self, key: Key) -> Option<&Slot<V>> {
        self.find(key).map(|at| &self.slots[at])
    }

    /// The keys that have a slot, in no order.
    pub fn slots(&self) -> &[Slot<V>] {
        &self.slots
    }

    /// What a key without a slot may have had at most: nothing while there is room, the least count afterwards.
    pub fn least_count(&self) -> u64 {
        match self.slots.len() < self.slots_max {
            true => 0,
            false => self.slots.iter().map(|slot| slot.count(self.by)).min().unwrap_or_default(),
        }
    }

    /// All that was counted.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Forgets everything, and keeps its memory.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.index.clear();
        self.floors.fill(0);
        self.total = 0;
    }

    fn find(&self, key: Key) -> Option<usize> {
        if self.slots.get(self.last).is_some_and(|slot| slot.key == key) {
            return Some(self.last);
        }
        self.index.find(key.0, |at| self.slots[usize::from(*at)].key == key).map(|at| usize::from(*at))
    }

    fn enter(&mut self, key: Key, at: usize) -> usize {
        let Self { index, slots, .. } = self;
        index.insert_unique(key.0, at as u16, |at| slots[usize::from(*at)].key.0);
        at
    }

    fn leave(&mut self, key: Key, at: usize) {
        if let Ok(entry) = self.index.find_entry(key.0, |other| usize::from(*other) == at) {
            entry.remove();
        }
    }

    /// The slot that counts least, when all are taken.
    fn least(&mut self) -> usize {
        loop {
            let floor = |(block, floor): (usize, &u64)| (*floor, block);
            let (floor, block) = self.floors.iter().enumerate().map(floor).min().unwrap_or_default();
            let slots = self.slots.iter().enumerate().skip(block * BLOCK).take(BLOCK);
            let (count, at) = slots.map(|(at, slot)| (slot.count(self.by), at)).min().unwrap_or_default();
            if count == floor {
                return at;
            }
            // It has grown since; the next round may find another block.
            self.floors[block] = count;
        }
    }
}

/// Slots of a block: about the root of how many there are.
const BLOCK: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Rng, mix};

    const SLOTS: u16 = 32;

    const fn calls(calls: u64) -> Weight {
        Weight { calls, hits: 0, nanos: 0 }
    }

    /// A stream in which key `n` of 5000 comes about as often as `1 / n`, with weights; what was really counted of each.
    fn stream(seed: u64, length: usize) -> (Sketch<u64>, Vec<u64>) {
        let (mut rng, mut sketch, mut truth) = (Rng::new(seed), Sketch::new(By::Calls, SLOTS), vec![0; 5001]);
        for _ in 0..length {
            let number = libm::exp(rng.unit() * libm::log(5000.0)) as u64;
            let weight = 1 + rng.below(60) as u64;
            sketch.add(Key(mix(number)), calls(weight), || number);
            truth[number as usize] += weight;
        }
        (sketch, truth)
    }

    #[test]
    fn no_count_is_too_low_nor_too_high_by_more_than_its_error_and_the_bound() {
        for seed in 0..20 {
            let (sketch, truth) = stream(seed, 20_000);
            assert_eq!(sketch.total(), truth.iter().sum::<u64>());
            assert_eq!(sketch.slots().iter().map(|slot| slot.count(By::Calls)).sum::<u64>(), sketch.total());
            for slot in sketch.slots() {
                let (true_calls, seen) = (truth[slot.value as usize], slot.count(By::Calls));
                assert_eq!(slot.key, Key(mix(slot.value)));
                assert!((seen - slot.error..=seen).contains(&true_calls), "{seed}: {slot:?}, but {true_calls}");
                assert!(slot.error * u64::from(SLOTS) <= sketch.total(), "{seed}: {slot:?}");
            }
        }
    }

    #[test]
    fn whoever_has_no_slot_has_the_least_count_at_most() {
        for (seed, length) in (0..20).flat_map(|seed| [(seed, 10), (seed, 20_000)]) {
            let (sketch, truth) = stream(seed, length);
            let absent = |number: &usize| sketch.slots().iter().all(|slot| slot.value != *number as u64);
            let most = (0..truth.len()).filter(absent).map(|number| truth[number]).max();
            assert!(most <= Some(sketch.least_count()), "{seed}, {length}: {most:?}, {}", sketch.least_count());
            assert_eq!(sketch.least_count() > 0, sketch.slots().len() == usize::from(SLOTS), "{seed}, {length}");
        }
    }

    #[test]
    fn whoever_has_more_than_the_bound_has_a_slot() {
        for seed in 0..20 {
            let (sketch, truth) = stream(seed, 20_000);
            for (number, calls) in truth.iter().enumerate() {
                if calls * u64::from(SLOTS) > sketch.total() {
                    assert!(sketch.slots().iter().any(|slot| slot.value == number as u64), "{seed}: {number}");
                }
            }
        }
    }

    #[test]
    fn a_hot_key_that_comes_last_among_a_million_cold_ones_is_found() {
        let mut sketch = Sketch::new(By::Calls, SLOTS);
        for number in 0..1_000_000_u64 {
            sketch.add(Key(mix(number)), calls(1), || number);
        }
        for _ in 0..60_000 {
            sketch.add(Key(7), calls(1), || u64::MAX);
        }
        let first = sketch.slots().iter().max_by_key(|slot| slot.count(By::Calls)).unwrap();
        assert_eq!((first.value, first.weight.calls), (u64::MAX, 60_000));
    }

    #[test]
    fn a_slow_rare_key_among_a_million_quick_ones_is_found_by_time_and_not_by_calls() {
        for by in [By::Calls, By::Time] {
            let mut sketch = Sketch::new(by, SLOTS);
            for number in 0..1_000_000_u64 {
                sketch.add(Key(mix(number)), Weight { calls: 1, hits: 0, nanos: 1_000 }, || number);
                if number % 10_000 == 500 {
                    sketch.add(Key(7), Weight { calls: 1, hits: 0, nanos: 2_000_000 }, || u64::MAX);
                }
            }
            let found = sketch.get(Key(7)).map(|slot| (slot.value, slot.weight.calls, slot.weight.nanos));
            assert_eq!(found, (by == By::Time).then_some((u64::MAX, 100, 200_000_000)));
            let first = sketch.slots().iter().max_by_key(|slot| slot.count(by)).unwrap();
            assert_eq!(first.key == Key(7), by == By::Time);
        }
    }

    #[test]
    fn what_weighs_nothing_takes_no_slot_and_is_counted_if_it_has_one() {
        let (mut sketch, hit) = (Sketch::new(By::Time, 1), Weight { calls: 1, hits: 1, nanos: 0 });
        assert_eq!(sketch.add(Key(1), hit, || 'a'), None);
        sketch.add(Key(2), Weight { calls: 1, hits: 0, nanos: 9 }, || 'b');
        assert_eq!(sketch.add(Key(1), hit, || 'a'), None);
        assert_eq!(sketch.add(Key(2), hit, || 'x'), Some(&mut 'b'));
        assert_eq!((sketch.slots()[0].weight, sketch.total()), (Weight { calls: 2, hits: 1, nanos: 9 }, 9));
    }

    #[test]
    fn memory_is_what_it_was_at_first() {
        let mut sketch = Sketch::new(By::Calls, SLOTS);
        let memory = |sketch: &Sketch<u64>| (sketch.slots.capacity(), sketch.index.capacity());
        let before = memory(&sketch);
        for round in 0..3 {
            for number in 0..200_000_u64 {
                sketch.add(Key(mix(number ^ round << 32)), calls(1 + number % 7), || number);
            }
            assert_eq!((memory(&sketch), sketch.slots().len()), (before, usize::from(SLOTS)));
            sketch.clear();
            assert_eq!((sketch.total(), sketch.slots().len(), sketch.index.len()), (0, 0, 0));
        }
        assert_eq!(memory(&sketch), before);
    }

    #[test]
    fn what_was_seen_belongs_to_the_key_that_has_the_slot() {
        let mut sketch = Sketch::new(By::Calls, 1);
        let weight = Weight { calls: 4, hits: 3, nanos: 100 };
        sketch.add(Key(1), weight, || 'a');
        sketch.add(Key(1), weight, || 'x');
        sketch.add(Key(2), Weight { calls: 1, hits: 1, nanos: 5 }, || 'b');
        let Slot { key, weight, error, value } = sketch.slots()[0];
        assert_eq!((key, weight, error, value), (Key(2), Weight { calls: 1, hits: 1, nanos: 5 }, 8, 'b'));
        assert_eq!((sketch.slots()[0].count(By::Calls), sketch.total()), (9, 9));
    }

    #[test]
    fn same_stream_same_slots() {
        let show = |(sketch, _): (Sketch<u64>, Vec<u64>)| {
            sketch.slots().iter().map(|slot| (slot.value, slot.weight.calls, slot.error)).collect::<Vec<_>>()
        };
        assert_eq!(show(stream(3, 5000)), show(stream(3, 5000)));
        assert_ne!(show(stream(3, 5000)), show(stream(4, 5000)));
    }
}
