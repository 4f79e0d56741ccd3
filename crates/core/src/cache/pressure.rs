//! Keys under write pressure: a stream of writes to a file or of creates in a directory makes it uncacheable once, until it
//! has been quiet for a while, instead of a fill and a drop per call. What is read between two writes stays cacheable, and what is held is
//! tried again now and then. Only an economy: forgetting a key is always safe, so
//! the table is a fixed row of places, and a key whose place is taken by a busy one is simply not watched.

use super::hash::Fixed;
use super::params::Params;
use crate::time::{Span, Time};
use alloc::vec::Vec;
use core::hash::Hash;

#[derive(Debug)]
pub(super) struct Pressure<K> {
    places: Vec<Option<Watch<K>>>,
    marks: u32,
    window: Span,
    quiet: Span,
    spread: Fixed,
}

#[derive(Clone, Copy, Debug)]
struct Watch<K> {
    key: K,
    marks: u32,
    first: Time,
    last: Time,
}

impl<K: Copy + Eq + Hash> Pressure<K> {
    pub(super) fn new(params: &Params) -> Self {
        Self {
            places: Vec::new(),
            marks: params.pressure_marks,
            window: params.pressure_window,
            quiet: params.pressure_quiet,
            spread: Fixed::new(params.spread),
        }
    }

    /// A mutation of the key begins; `worth` if someone was given what it drops.
    pub(super) fn note(&mut self, now: Time, key: K, worth: bool) {
        if self.places.is_empty() {
            self.places.resize(PLACES, None);
        }
        let (marks, window, quiet) = (self.marks, self.window, self.quiet);
        let place = &mut self.places[place_of(self.spread, &key)];
        let fresh = Watch { key, marks: 1, first: now, last: now };
        *place = match *place {
            None if worth => None,
            None => Some(fresh),
            Some(watch) if now.since(watch.last) >= quiet => Some(fresh),
            Some(watch) if watch.key != key => Some(watch),
            Some(_) if worth => None,
            // Held for a while: whether it would be of use now is tried.
            Some(watch) if watch.marks >= marks && now.since(watch.first) > window + quiet => Some(fresh),
            Some(watch) if watch.marks < marks && now.since(watch.first) > window => Some(fresh),
            Some(watch) => Some(Watch { marks: watch.marks.saturating_add(1), last: now, ..watch }),
        };
    }

    /// Whether the key is held uncacheable.
    pub(super) fn holds(&self, now: Time, key: &K) -> bool {
        self.places
            .get(place_of(self.spread, key))
            .and_then(Option::as_ref)
            .is_some_and(|watch| watch.key == *key && watch.marks >= self.marks && now.since(watch.last) < self.quiet)
    }
}

fn place_of<K: Hash>(spread: Fixed, key: &K) -> usize {
    (spread.of(key) >> 32) as usize % PLACES
}

/// Keys watched at once, at most.
const PLACES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_held_after_enough_marks_in_time_until_it_is_quiet() {
        // (milliseconds between marks, marks, held right after the last, held 1.9 s later, held 2 s later)
        let cases = [(10, 7, false, false), (10, 8, true, true), (200, 30, false, false), (140, 8, true, true)];
        for (every, marks, held, later) in cases {
            let mut pressure = Pressure::new(&Params::default());
            let at = |ms: u64| Time::ZERO + Span::from_millis(ms);
            let last = (0..marks).map(|i| i * every).inspect(|&ms| pressure.note(at(ms), 1, false)).last().unwrap();
            assert_eq!(pressure.holds(at(last), &1), held, "{marks} marks every {every} ms");
            assert_eq!(pressure.holds(at(last + 1_900), &1), later);
            assert!(!pressure.holds(at(last + 2_000), &1));
            assert!(!pressure.holds(at(last), &2), "another key");
        }
    }

    #[test]
    fn a_key_that_is_read_between_its_mutations_is_not_held_and_one_that_is_held_is_tried_again() {
        let at = |ms: u64| Time::ZERO + Span::from_millis(ms);
        let mut pressure = Pressure::new(&Params::default());
        (0..100).for_each(|i| pressure.note(at(i), 1, i % 7 == 0));
        assert!(!pressure.holds(at(100), &1));
        let tried = (100..10_000).filter(|ms| {
            pressure.note(at(*ms), 1, false);
            !pressure.holds(at(*ms), &1)
        });
        assert!((15..60).contains(&tried.count()), "a few fills every three seconds");
    }

    #[test]
    fn a_busy_key_keeps_its_place_and_a_quiet_one_gives_it_up() {
        let mut pressure = Pressure::new(&Params::default());
        let rival =
            (1..1 << 20).find(|key: &u64| place_of(Fixed::default(), key) == place_of(Fixed::default(), &0)).unwrap();
        (0..8).for_each(|_| pressure.note(Time::ZERO, 0, false));
        (0..8).for_each(|_| pressure.note(Time::ZERO, rival, false));
        assert!(pressure.holds(Time::ZERO, &0) && !pressure.holds(Time::ZERO, &rival));
        let later = Time::ZERO + Span::from_secs(2);
        (0..8).for_each(|_| pressure.note(later, rival, false));
        assert!(!pressure.holds(later, &0) && pressure.holds(later, &rival));
    }
}
