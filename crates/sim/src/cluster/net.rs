//! Who hears whom. A cut lasts until it is healed; several may overlap.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Net {
    cuts: BTreeMap<u64, Vec<(usize, usize)>>,
    next: u64,
}

impl Net {
    /// No message passes along these ways; the number that heals it.
    pub(super) fn cut(&mut self, ways: Vec<(usize, usize)>) -> u64 {
        self.next += 1;
        self.cuts.insert(self.next, ways);
        self.next
    }

    pub(super) fn heal(&mut self, cut: u64) {
        self.cuts.remove(&cut);
    }

    pub(super) fn heal_all(&mut self) {
        self.cuts.clear();
    }

    pub(super) fn passes(&self, from: usize, to: usize) -> bool {
        !self.cuts.values().any(|ways| ways.contains(&(from, to)))
    }

    pub(super) fn both(&self, one: usize, other: usize) -> bool {
        self.passes(one, other) && self.passes(other, one)
    }
}
