//! The order in which mutations of one name take their turns: the oldest first.
//!
//! A mutation that finds a name taken waits for all of its names until it has them all, or is given up ([`crate::queue::Queued`]). A name
//! that is free goes to nobody younger than the oldest that waits for it, so a RENAME, which needs two names at once, gets them; age
//! is one order over all names, so no two can lock each other out. When a name is free again its oldest waiter alone is woken.

use crate::wakes::Waiter;
use midas_core::key::Key;
use std::collections::{BTreeSet, HashMap};

/// The mutations that wait for names, by name. As many as there are calls that wait, which the memory budget bounds.
#[derive(Debug, Default)]
pub(super) struct Turns(HashMap<Key, BTreeSet<Waiter>>);

impl Turns {
    /// Whether a mutation may take a name that is free: nobody who is older waits for it.
    pub(super) fn may(&self, name: Key, who: Waiter) -> bool {
        self.first(name).is_none_or(|first| who <= first)
    }

    /// A mutation must wait for a name.
    pub(super) fn enter(&mut self, name: Key, who: Waiter) {
        self.0.entry(name).or_default().insert(who);
    }

    /// A mutation waits no longer.
    pub(super) fn leave(&mut self, name: Key, who: Waiter) {
        if let Some(waiting) = self.0.get_mut(&name) {
            waiting.remove(&who);
            if waiting.is_empty() {
                self.0.remove(&name);
            }
        }
    }

    /// Whose turn it is when a name is free.
    pub(super) fn first(&self, name: Key) -> Option<Waiter> {
        self.0.get(&name)?.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use midas_core::time::Time;

    const NAME: Key = Key(7);

    fn came(at: u64, number: u64) -> Waiter {
        Waiter { since: Time::from_nanos(at), number, event_loop: 0 }
    }

    #[test]
    fn a_free_name_is_its_oldest_waiters() {
        let mut turns = Turns::default();
        assert!(turns.may(NAME, came(9, 9)));
        for (at, number) in [(5, 1), (3, 2), (3, 3), (8, 4)] {
            turns.enter(NAME, came(at, number));
        }
        assert!(turns.may(NAME, came(3, 2)), "its turn");
        assert!(turns.may(NAME, came(2, 9)), "one that came earlier, and was sent before");
        for (at, number) in [(3, 3), (5, 1), (8, 4), (9, 9)] {
            assert!(!turns.may(NAME, came(at, number)), "{at} {number}");
            assert!(turns.may(Key(8), came(at, number)), "another name");
        }
    }

    #[test]
    fn who_waits_no_longer_leaves_nothing_behind() {
        let mut turns = Turns::default();
        for number in [1, 2, 3] {
            turns.enter(NAME, came(number, number));
            turns.enter(NAME, came(number, number));
        }
        for number in [1, 3, 2] {
            assert!(turns.first(NAME).is_some());
            turns.leave(NAME, came(number, number));
            turns.leave(NAME, came(number, number));
        }
        assert!(turns.first(NAME).is_none() && turns.0.is_empty());
    }
}
