//! Who goes next where mutations of one name wait for each other. Event loops ask again on their own, so that one of them could find the
//! name taken for ever: for whoever has waited long the name is kept, for the oldest of them, as long as it keeps asking. No queue: a call
//! may be given up anywhere on its way, and what nobody must take back cannot be forgotten. The order is by age, so two names cannot lock.

use midas_core::key::Key;
use midas_core::time::{Span, Time};
use std::collections::HashMap;

/// Names that are kept for somebody.
#[derive(Debug, Default)]
pub(super) struct Turns(HashMap<Key, Turn>);

/// For a mutation that came then, and last asked then.
#[derive(Clone, Copy, Debug)]
struct Turn {
    since: Time,
    asked: Time,
}

impl Turns {
    /// Whether a mutation that came then may take a name that is free.
    pub(super) fn may(&mut self, now: Time, name: Key, since: Time) -> bool {
        match self.0.get(&name) {
            None => true,
            Some(turn) if turn.since < since && turn.holds(now) => false,
            Some(_) => self.0.remove(&name).is_some(),
        }
    }

    /// It must wait.
    pub(super) fn wait(&mut self, now: Time, name: Key, since: Time) {
        let older = |turn: &Turn| turn.since < since && turn.holds(now);
        if now.since(since) < PATIENCE || self.0.get(&name).is_some_and(older) {
            return;
        }
        if self.0.len() >= TURNS_MOST {
            self.0.retain(|_, turn| turn.holds(now));
        }
        if self.0.len() < TURNS_MOST {
            self.0.insert(name, Turn { since, asked: now });
        }
    }
}

impl Turn {
    fn holds(&self, now: Time) -> bool {
        now.since(self.asked) <= KEPT
    }
}

/// Who waits for less takes its chance.
const PATIENCE: Span = Span::from_millis(200);
/// A name is kept for so long after it was asked for: some ticks of an event loop.
const KEPT: Span = Span::from_millis(100);
/// Names of one part that are kept; beyond, everyone takes its chance.
const TURNS_MOST: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Key = Key(7);

    fn at(ms: u64) -> Time {
        Time::from_nanos(1_000_000_000) + Span::from_millis(ms)
    }

    #[test]
    fn a_name_is_kept_for_the_oldest_that_has_waited_long_and_still_asks() {
        // who waited, as (asked at, came at); then when another asks that came at .., and whether it may
        let cases = [
            (vec![(100, 0)], 101, 50, true),
            (vec![(200, 0)], 201, 50, false),
            (vec![(200, 0)], 201, 0, true),
            (vec![(200, 0)], 301, 50, true),
            (vec![(300, 50), (301, 20), (302, 60)], 303, 40, false),
            (vec![(300, 50), (301, 20), (302, 60)], 303, 10, true),
        ];
        for (waited, now, since, may) in cases {
            let mut turns = Turns::default();
            for (now, since) in &waited {
                turns.wait(at(*now), NAME, at(*since));
            }
            assert_eq!(turns.may(at(now), NAME, at(since)), may, "{waited:?}: {since} at {now}");
            assert!(turns.may(at(now), Key(8), at(since)), "another name");
            assert!(!may || turns.may(at(now), NAME, at(since + 1)), "its turn is over");
        }
    }

    #[test]
    fn so_many_names_are_kept_and_those_that_nobody_asks_for_make_room() {
        let mut turns = Turns::default();
        (0..=TURNS_MOST as u64).for_each(|name| turns.wait(at(200), Key(name), at(0)));
        assert!(turns.0.len() == TURNS_MOST && turns.may(at(201), Key(TURNS_MOST as u64), at(50)));
        turns.wait(at(301), Key(TURNS_MOST as u64), at(0));
        assert_eq!(turns.0.len(), 1);
    }
}
