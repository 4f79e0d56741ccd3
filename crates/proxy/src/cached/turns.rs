//! The order in which mutations of one name take their turns: the oldest first.
//!
//! A mutation that finds a name taken waits for all of its names until it has them all, or is given
//! up ([`crate::queue::Queued`]). A name that is free goes to nobody younger than the oldest that
//! waits for it, so a RENAME, which needs two names at once, gets them; age is one order over all
//! names, so no two can lock each other out. When a name is free again its oldest waiter alone is
//! woken. Where a mutation has left its name leading is told to the next one: a cache may know
//! nothing of it, and looking it up would cost each of many a second call.

use crate::key_map::KeyMap;
use crate::wakes::Waiter;
use midas_core::key::Key;
use std::collections::BTreeSet;

/// The mutations that wait for names, by name: as many as there are calls that wait, which the
/// memory budget bounds. And where some names lead that were changed last.
#[derive(Debug)]
pub(super) struct Turns {
    waiting: KeyMap<BTreeSet<Waiter>>,
    /// Until the next mutation takes the name, or another one its place.
    leads: [Option<(Key, Leads)>; TOLD],
}

impl Default for Turns {
    fn default() -> Self {
        Self { waiting: KeyMap::default(), leads: [None; TOLD] }
    }
}

/// Where a name leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leads {
    To(Key),
    Nowhere,
}

impl Turns {
    /// Whether a mutation may take a name that is free: nobody who is older waits for it.
    pub(super) fn may(&self, name: Key, who: Waiter) -> bool {
        self.first(name).is_none_or(|first| who <= first)
    }

    /// A mutation must wait for a name.
    pub(super) fn enter(&mut self, name: Key, who: Waiter) {
        self.waiting.entry(name).or_default().insert(who);
    }

    /// A mutation waits no longer.
    pub(super) fn leave(&mut self, name: Key, who: Waiter) {
        if let Some(waiting) = self.waiting.get_mut(&name) {
            waiting.remove(&who);
            if waiting.is_empty() {
                self.waiting.remove(&name);
            }
        }
    }

    /// A mutation has left a name leading there; whoever is next may know.
    pub(super) fn tell(&mut self, name: Key, leads: Option<Leads>) {
        self.leads[name.0 as usize % TOLD] = leads.map(|leads| (name, leads));
    }

    /// What the last mutation told. The name is taken now: it is told once.
    pub(super) fn told(&mut self, name: Key) -> Option<Leads> {
        self.leads[name.0 as usize % TOLD].take_if(|(told, _)| *told == name).map(|(_, leads)| leads)
    }

    /// What was told may not be true any more.
    pub(super) fn forget(&mut self) {
        self.leads = [None; TOLD];
    }

    /// Whose turn it is when a name is free.
    pub(super) fn first(&self, name: Key) -> Option<Waiter> {
        self.waiting.get(&name)?.first().copied()
    }
}

/// Names of which it is told where they lead.
const TOLD: usize = 64;

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
    fn where_a_name_leads_is_told_once_and_of_that_name_alone() {
        let (mut turns, other) = (Turns::default(), Key(NAME.0 + TOLD as u64));
        turns.tell(NAME, Some(Leads::To(Key(8))));
        assert_eq!(turns.told(other), None);
        assert_eq!((turns.told(NAME), turns.told(NAME)), (Some(Leads::To(Key(8))), None));
        turns.tell(NAME, Some(Leads::Nowhere));
        turns.tell(NAME, None);
        assert_eq!(turns.told(NAME), None, "nobody knows what the last one left");
        turns.tell(NAME, Some(Leads::Nowhere));
        turns.tell(other, Some(Leads::Nowhere));
        assert_eq!(turns.told(NAME), None, "its place is another's");
        turns.forget();
        assert_eq!(turns.told(other), None);
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
        assert!(turns.first(NAME).is_none() && turns.waiting.is_empty());
    }
}
