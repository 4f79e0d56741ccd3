//! Names by inode number, for file systems without handles: what was looked up once can be found again.
//!
//! Nothing here is believed: who asks opens the names one after another from the root and compares the numbers on the way.
//! Bounded: the object that was not used for the longest time is forgotten, and its handle becomes stale. A directory is
//! used whenever something below it is, so it outlives what lies in it.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// Where objects were last seen.
pub(super) struct Table {
    known: HashMap<u64, Known>,
    by_use: BTreeMap<u64, u64>,
    clock: u64,
    bound: usize,
}

struct Known {
    places: VecDeque<Place>,
    used: u64,
}

/// A name in the directory of this number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) dir: u64,
    pub(super) name: Box<[u8]>,
}

impl Table {
    pub(super) fn new(bound: usize) -> Self {
        Self { known: HashMap::new(), by_use: BTreeMap::new(), clock: 0, bound }
    }

    /// An object was seen under this name. `names` is how many are kept: one of a directory, which cannot have more.
    pub(super) fn learn(&mut self, inode: u64, place: Place, names: usize) {
        let known = self.known.entry(inode).or_insert(Known { places: VecDeque::new(), used: 0 });
        if known.places.front() != Some(&place) {
            known.places.retain(|old| *old != place);
            known.places.push_front(place);
            known.places.truncate(names);
        }
        self.touch(inode);
        if self.known.len() > self.bound
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.known.remove(&oldest);
        }
    }

    /// Where an object was seen, newest first.
    pub(super) fn places(&mut self, inode: u64) -> Vec<Place> {
        self.touch(inode);
        self.known.get(&inode).map(|known| known.places.iter().cloned().collect()).unwrap_or_default()
    }

    /// An object is not where it was seen.
    pub(super) fn forget(&mut self, inode: u64, place: &Place) {
        if let Some(known) = self.known.get_mut(&inode) {
            known.places.retain(|old| old != place);
            if known.places.is_empty() {
                self.by_use.remove(&known.used);
                self.known.remove(&inode);
            }
        }
    }

    fn touch(&mut self, inode: u64) {
        if let Some(known) = self.known.get_mut(&inode) {
            self.clock += 1;
            self.by_use.remove(&known.used);
            known.used = self.clock;
            self.by_use.insert(self.clock, inode);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(dir: u64, name: &str) -> Place {
        Place { dir, name: name.as_bytes().into() }
    }

    #[test]
    fn a_file_keeps_its_newest_names_and_a_directory_its_last() {
        let mut table = Table::new(8);
        for name in ["a", "b", "a", "c"] {
            table.learn(5, place(1, name), 2);
            table.learn(6, place(1, name), 1);
        }
        assert_eq!(table.places(5), [place(1, "c"), place(1, "a")]);
        assert_eq!(table.places(6), [place(1, "c")]);
        table.forget(5, &place(1, "c"));
        assert_eq!(table.places(5), [place(1, "a")]);
        table.forget(5, &place(1, "a"));
        assert_eq!(table.places(5), []);
        assert_eq!(table.known.len(), table.by_use.len());
    }

    #[test]
    fn at_the_bound_the_longest_unused_goes() {
        let mut table = Table::new(3);
        for inode in 1..=3 {
            table.learn(inode, place(9, "x"), 1);
        }
        table.places(1);
        table.learn(4, place(9, "y"), 1);
        let kept: Vec<u64> = (1..=4).filter(|inode| !table.places(*inode).is_empty()).collect();
        assert_eq!(kept, [1, 3, 4]);
        assert_eq!((table.known.len(), table.by_use.len()), (3, 3));
    }
}
