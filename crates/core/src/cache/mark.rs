//! Mutations that are running, or may be: while a key is marked nothing of it is filled.
//!
//! A mark whose end is unknown holds its key for `server_hold_max`, because the call may still wait in the server. It must
//! never forget such a hold early: when there are too many to remember, everything is held instead.

use super::changes::Left;
use super::hash::Fixed;
use crate::time::{Span, Time};
use core::hash::Hash;
use hashbrown::HashMap;

/// One unfinished mutation of one key. Not `Clone`: consumed by `end`, exactly once.
#[derive(Debug)]
#[must_use = "a mark must be ended, or its key is never cached again"]
pub struct Mark<K> {
    pub(super) key: K,
    /// When it began, its own change counted.
    pub(super) begun: Left,
}

impl<K: Copy> Mark<K> {
    /// The key that is changed.
    pub fn key(&self) -> K {
        self.key
    }
}

/// How a mutation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The server replied.
    Done,
    /// The connection broke: it may run later, or not at all (R8).
    Unknown,
    /// The server replied, but something else may change the same until then.
    Until(Time),
}

/// What stands in a fill's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marked {
    No,
    /// A mutation is unfinished.
    Pending,
    /// A mutation may still run in a server.
    Held,
}

/// Invariant: a key is in `keys` while `pending > 0`, or while its hold has not been swept away.
#[derive(Debug)]
pub(super) struct Marks<K> {
    keys: HashMap<K, State, Fixed>,
    all_until: Time,
    /// Until then servers may answer with an old state of any key, though no mutation runs.
    doubted_until: Time,
    keys_max: usize,
}

#[derive(Debug)]
struct State {
    pending: u32,
    until: Time,
}

impl<K: Copy + Eq + Hash> Marks<K> {
    /// `all_until`: until then every key is held.
    pub(super) fn new(keys_max: usize, all_until: Time, spread: Fixed) -> Self {
        Self { keys: HashMap::with_hasher(spread), all_until, doubted_until: Time::ZERO, keys_max }
    }

    /// Every key counts as held until then.
    pub(super) fn doubt(&mut self, until: Time) {
        self.doubted_until = self.doubted_until.max(until);
    }

    pub(super) fn begin(&mut self, key: K, begun: Left) -> Mark<K> {
        self.keys.entry(key).or_insert(State { pending: 0, until: Time::ZERO }).pending += 1;
        Mark { key, begun }
    }

    /// The mutation is over; `hold` is zero when it cannot run any more.
    pub(super) fn end(&mut self, now: Time, Mark { key, .. }: Mark<K>, hold: Span) {
        let crowded = self.keys.len() > self.keys_max;
        let state = self.keys.get_mut(&key).expect("a mark keeps its key");
        state.pending -= 1;
        if crowded {
            self.all_until = self.all_until.max(now + hold).max(state.until);
        } else {
            state.until = state.until.max(now + hold);
        }
        if state.pending == 0 && (crowded || state.until <= now) {
            self.keys.remove(&key);
        }
    }

    /// How many mutations of a key are unfinished.
    pub(super) fn pending(&self, key: &K) -> u32 {
        self.keys.get(key).map_or(0, |state| state.pending)
    }

    /// Whether a mutation of a key is unfinished, or may still run, or servers may not know of one.
    pub(super) fn of(&self, now: Time, key: &K) -> Marked {
        match self.of_mutations(now, key) {
            Marked::No if now < self.doubted_until => Marked::Held,
            marked => marked,
        }
    }

    /// The same of mutations alone.
    pub(super) fn of_mutations(&self, now: Time, key: &K) -> Marked {
        match self.keys.get(key) {
            Some(state) if state.pending > 0 => Marked::Pending,
            Some(state) if now < state.until => Marked::Held,
            Some(_) | None if now < self.all_until => Marked::Held,
            Some(_) | None => Marked::No,
        }
    }

    /// Forgets the holds that were over by then: no read that left before their end is still on its way.
    pub(super) fn sweep(&mut self, then: Time) {
        self.keys.retain(|_, state| state.pending > 0 || then < state.until);
    }

    /// Whether no mutation is unfinished and none may still run.
    pub(super) fn settled(&self, now: Time) -> bool {
        now >= self.all_until && self.keys.values().all(|state| state.pending == 0 && now >= state.until)
    }

    /// Marked and held keys.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }
}

/// Above this many marked keys, a hold is a hold of everything.
pub(super) const MARKED_KEYS_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_may_be_behind_hold_every_key_though_nothing_runs() {
        let mut marks = Marks::<u32>::new(10, Time::ZERO, Fixed::new(0));
        marks.doubt(Time::from_nanos(5));
        marks.doubt(Time::from_nanos(3));
        assert_eq!((marks.of(Time::from_nanos(4), &1), marks.settled(Time::ZERO)), (Marked::Held, true));
        assert_eq!(marks.of(Time::from_nanos(5), &1), Marked::No);
    }

    const BEGUN: Left = Left { at: Time::ZERO, changes: 0 };
    const HOLD: Span = Span::from_secs(60);

    fn at(secs: u64) -> Time {
        Time::ZERO + Span::from_secs(secs)
    }

    #[test]
    fn a_key_is_marked_until_its_last_mark_ends_and_its_hold_is_over() {
        let mut marks = Marks::new(8, Time::ZERO, Fixed::default());
        let (first, second) = (marks.begin(1, BEGUN), marks.begin(1, BEGUN));
        marks.end(at(1), first, HOLD);
        assert_eq!(marks.of(at(2), &1), Marked::Pending);
        marks.end(at(3), second, Span::ZERO);
        for (when, want) in [(3, Marked::Held), (60, Marked::Held), (61, Marked::No)] {
            assert_eq!(marks.of(at(when), &1), want, "at {when} s");
        }
        marks.sweep(at(61));
        assert_eq!(marks.len(), 0);
    }

    #[test]
    fn what_is_done_leaves_nothing_behind() {
        let mut marks = Marks::new(8, Time::ZERO, Fixed::default());
        let mark = marks.begin(1, BEGUN);
        marks.end(at(1), mark, Span::ZERO);
        assert_eq!((marks.of(at(1), &1), marks.len()), (Marked::No, 0));
    }

    #[test]
    fn too_many_holds_become_one_hold_of_everything() {
        let mut marks = Marks::new(2, Time::ZERO, Fixed::default());
        for key in 0..3u8 {
            let _unfinished = marks.begin(key, BEGUN);
        }
        marks.end(at(1), Mark { key: 0, begun: BEGUN }, HOLD);
        assert_eq!((marks.of(at(60), &9), marks.of(at(61), &9)), (Marked::Held, Marked::No));
        assert_eq!(marks.of(at(60), &0), Marked::Held);
    }
}
