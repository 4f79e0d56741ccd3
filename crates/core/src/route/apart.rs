//! Reads and changes of one object that are never under way at the same time.
//!
//! A head of Ganesha keeps what it knows of an object. If it fetches that for a read while a change
//! runs, it may keep, after the change, what was before it, and tell so for a minute. It is
//! therefore never given both at once. Reads go together, and so do changes as far as fences let
//! them. The two take turns: whoever must wait is let in next.

use crate::key::Key;
use crate::time::{Span, Time};
use alloc::collections::BTreeMap;

/// The objects that something is under way with.
#[derive(Clone, Debug, Default)]
pub struct Apart {
    by_object: BTreeMap<Key, Entry>,
    /// How many were left when those that nobody needs were last cleared away.
    swept: usize,
}

/// One of the two kinds of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Calls that look at an object.
    Reads,
    /// Calls that change it.
    Changes,
}

/// What becomes of a call that wants to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enter {
    /// It may, and counts as under way.
    Counted,
    /// It may, and does not count: there is no room, or it has waited for too long.
    Uncounted,
    /// The other side is under way, or has its turn next.
    Busy,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The side that is under way, or was last.
    side: Side,
    under_way: u32,
    /// The other side's turn, while it lies in the future: it had to wait, and may be gone.
    turn_until: Time,
    /// The time from which the other side has had to wait.
    waits_since: Time,
}

impl Apart {
    /// A call of a side wants to leave.
    pub fn enter(&mut self, now: Time, object: Key, side: Side) -> Enter {
        let Some(entry) = self.by_object.get_mut(&object) else {
            if !self.has_room(now) {
                return Enter::Uncounted;
            }
            self.by_object.insert(object, Entry { side, under_way: 1, turn_until: Time::ZERO, waits_since: now });
            return Enter::Counted;
        };
        if entry.side == side {
            if now < entry.turn_until {
                return Enter::Busy;
            }
        } else if entry.under_way > 0 {
            return entry.waits(now);
        } else {
            (entry.side, entry.turn_until) = (side, Time::ZERO);
        }
        entry.under_way += 1;
        Enter::Counted
    }

    /// A call that counted is over.
    pub fn leave(&mut self, now: Time, object: Key) {
        if let Some(entry) = self.by_object.get_mut(&object) {
            entry.under_way = entry.under_way.saturating_sub(1);
            if !entry.counts(now) {
                self.by_object.remove(&object);
            }
        }
    }

    fn has_room(&mut self, now: Time) -> bool {
        if self.by_object.len() >= SWEEP_LEAST.max(2 * self.swept) {
            self.by_object.retain(|_, entry| entry.counts(now));
            self.swept = self.by_object.len();
        }
        self.by_object.len() < OBJECTS_MAX
    }
}

impl Entry {
    /// A call of the other side has to wait; not for ever.
    fn waits(&mut self, now: Time) -> Enter {
        if now >= self.turn_until {
            // One that still waits asks again within its turn.
            if now >= self.turn_until + TURN {
                self.waits_since = now;
            }
            self.turn_until = now + TURN;
        }
        if now.since(self.waits_since) >= WAIT_MAX { Enter::Uncounted } else { Enter::Busy }
    }

    fn counts(&self, now: Time) -> bool {
        self.under_way > 0 || now < self.turn_until
    }
}

/// How long a side waits for a call of the other that may be gone.
const TURN: Span = Span::from_millis(100);
/// A call waits no longer for the other side, whose server may hang.
const WAIT_MAX: Span = Span::from_secs(1);
/// Objects that calls are counted of.
const OBJECTS_MAX: usize = 1 << 16;
/// Fewer are not worth clearing away.
const SWEEP_LEAST: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use Side::{Changes, Reads};

    const OBJECT: Key = Key(1);

    fn at(millis: u64) -> Time {
        Time::from_nanos(1 + millis * 1_000_000)
    }

    #[test]
    fn reads_go_together_and_a_change_waits_for_them_and_they_for_it() {
        let mut apart = Apart::default();
        assert_eq!([Reads, Reads].map(|side| apart.enter(at(0), OBJECT, side)), [Enter::Counted; 2]);
        assert_eq!(apart.enter(at(0), OBJECT, Changes), Enter::Busy);
        assert_eq!(apart.enter(at(0), Key(2), Changes), Enter::Counted, "another object");
        apart.leave(at(1), OBJECT);
        assert_eq!(apart.enter(at(1), OBJECT, Changes), Enter::Busy);
        apart.leave(at(2), OBJECT);
        assert_eq!(apart.enter(at(2), OBJECT, Changes), Enter::Counted);
        assert_eq!(apart.enter(at(2), OBJECT, Changes), Enter::Counted, "fences keep changes apart");
        assert_eq!(apart.enter(at(3), OBJECT, Reads), Enter::Busy);
    }

    #[test]
    fn whoever_waits_is_next_and_neither_side_is_kept_waiting() {
        let mut apart = Apart::default();
        apart.enter(at(0), OBJECT, Reads);
        assert_eq!(apart.enter(at(1), OBJECT, Changes), Enter::Busy);
        assert_eq!(apart.enter(at(2), OBJECT, Reads), Enter::Busy, "a change is next");
        apart.leave(at(3), OBJECT);
        assert_eq!(apart.enter(at(4), OBJECT, Reads), Enter::Busy, "also when none is under way");
        assert_eq!(apart.enter(at(4), OBJECT, Changes), Enter::Counted);
        assert_eq!(apart.enter(at(5), OBJECT, Reads), Enter::Busy);
        assert_eq!(apart.enter(at(5), OBJECT, Changes), Enter::Busy, "a read is next");
        apart.leave(at(6), OBJECT);
        assert_eq!(apart.enter(at(6), OBJECT, Reads), Enter::Counted);
    }

    #[test]
    fn one_that_waited_and_is_gone_is_not_waited_for() {
        let mut apart = Apart::default();
        apart.enter(at(0), OBJECT, Reads);
        assert_eq!(apart.enter(at(0), OBJECT, Changes), Enter::Busy);
        assert_eq!(apart.enter(at(99), OBJECT, Reads), Enter::Busy);
        assert_eq!(apart.enter(at(100), OBJECT, Reads), Enter::Counted);
        apart.leave(at(101), OBJECT);
        apart.leave(at(101), OBJECT);
        assert!(apart.by_object.is_empty(), "nothing is left");
    }

    #[test]
    fn behind_a_server_that_hangs_nobody_waits_for_long() {
        let mut apart = Apart::default();
        apart.enter(at(0), OBJECT, Changes);
        assert!((5000..6000).step_by(50).all(|millis| apart.enter(at(millis), OBJECT, Reads) == Enter::Busy));
        assert_eq!(apart.enter(at(6000), OBJECT, Reads), Enter::Uncounted);
        // The next one comes much later: it waits by itself.
        assert_eq!(apart.enter(at(9000), OBJECT, Reads), Enter::Busy);
    }

    #[test]
    fn a_full_table_lets_all_pass_and_what_is_over_makes_room() {
        let mut apart = Apart::default();
        let mut enter = |key: u64| apart.enter(at(0), Key(key), Reads);
        assert!((0..OBJECTS_MAX as u64).all(|key| enter(key) == Enter::Counted));
        assert_eq!(enter(1 << 40), Enter::Uncounted);
        apart.leave(at(0), Key(7));
        assert_eq!(apart.enter(at(0), Key(1 << 40), Reads), Enter::Counted);
    }
}
