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
    /// The number of entries that the last clearing left.
    swept: usize,
    /// The next clearing comes no sooner.
    rests_until: Time,
}

/// One of the two kinds of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Calls that look at an object.
    Reads,
    /// Calls that change it.
    Changes,
}

/// The answer to a call that wants to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enter {
    /// The call may leave, and counts as under way.
    Counted,
    /// The call may leave, and does not count: there is no room, or the other side hangs.
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
    /// The time at which this side came in.
    since: Time,
    /// The last time at which a call of it came in first, or ended.
    moved_at: Time,
}

impl Apart {
    /// A call of a side wants to leave.
    pub fn enter(&mut self, now: Time, object: Key, side: Side) -> Enter {
        let Some(entry) = self.by_object.get_mut(&object) else {
            return self.insert(now, object, Entry { under_way: 1, ..Entry::of(now, side) });
        };
        if entry.side == side {
            if entry.yields(now) {
                return Enter::Busy;
            }
        } else if entry.under_way > 0 {
            return entry.kept_waiting(now);
        } else {
            *entry = Entry::of(now, side);
        }
        if entry.under_way == 0 {
            entry.moved_at = now;
        }
        entry.under_way += 1;
        Enter::Counted
    }

    /// A call that counted is over.
    pub fn leave(&mut self, now: Time, object: Key) {
        if let Some(entry) = self.by_object.get_mut(&object) {
            entry.under_way = entry.under_way.saturating_sub(1);
            entry.moved_at = now;
            if !entry.counts(now) {
                self.by_object.remove(&object);
            }
        }
    }

    /// A call that counted does not leave, for another reason. It will ask again, and its side has
    /// the next turn.
    pub fn give_back(&mut self, now: Time, object: Key) {
        let Some(entry) = self.by_object.get_mut(&object) else { return };
        entry.under_way = entry.under_way.saturating_sub(1);
        if entry.under_way == 0 {
            *entry = Entry { turn_until: now + TURN, ..Entry::of(now, entry.side.other()) };
        }
    }

    fn insert(&mut self, now: Time, object: Key, entry: Entry) -> Enter {
        if self.by_object.len() >= SWEEP_LEAST.max(2 * self.swept).min(OBJECTS_MAX) && self.rests_until <= now {
            self.by_object.retain(|_, entry| entry.counts(now));
            self.swept = self.by_object.len();
            self.rests_until = now + REST;
        }
        if self.by_object.len() >= OBJECTS_MAX {
            return Enter::Uncounted;
        }
        self.by_object.insert(object, entry);
        Enter::Counted
    }
}

impl Entry {
    const fn of(now: Time, side: Side) -> Self {
        Self { side, under_way: 0, turn_until: Time::ZERO, since: now, moved_at: now }
    }

    /// True if a call of the side that came in last must wait, because the other side is next.
    /// Calls that come together go together.
    fn yields(&self, now: Time) -> bool {
        now < self.turn_until && (self.under_way == 0 || now.since(self.since) >= TOGETHER)
    }

    /// A call of the other side has to wait, and is next; but not behind a call that hangs.
    fn kept_waiting(&mut self, now: Time) -> Enter {
        if now.since(self.moved_at) >= WAIT_MAX {
            self.turn_until = Time::ZERO;
            return Enter::Uncounted;
        }
        self.turn_until = now + TURN;
        Enter::Busy
    }

    fn counts(&self, now: Time) -> bool {
        self.under_way > 0 || now < self.turn_until
    }
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::Reads => Self::Changes,
            Self::Changes => Self::Reads,
        }
    }
}

/// The time that a side waits for a call of the other that may be gone. A call that waits asks
/// several times in this time.
const TURN: Span = Span::from_millis(100);
/// The time in which calls of a side follow each other before the other side, if it waits, is next.
const TOGETHER: Span = Span::from_millis(2);
/// Calls of which none ended for so long hang with their server: nobody waits for them.
const WAIT_MAX: Span = Span::from_secs(1);
/// Objects that calls are counted of.
const OBJECTS_MAX: usize = 1 << 16;
/// Fewer are not worth clearing away.
const SWEEP_LEAST: usize = 1024;
/// The least time between two clearings.
const REST: Span = Span::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use Side::{Changes, Reads};

    const OBJECT: Key = Key(1);

    fn at(millis: u64) -> Time {
        Time::from_nanos(1_000_000_000 + millis * 1_000_000)
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
        assert_eq!(apart.enter(at(1), OBJECT, Reads), Enter::Counted, "it comes with the first");
        assert_eq!(apart.enter(at(2), OBJECT, Reads), Enter::Busy, "a change is next");
        apart.leave(at(3), OBJECT);
        apart.leave(at(3), OBJECT);
        assert_eq!(apart.enter(at(4), OBJECT, Reads), Enter::Busy, "also when none is under way");
        assert_eq!(apart.enter(at(4), OBJECT, Changes), Enter::Counted);
        assert_eq!(apart.enter(at(6), OBJECT, Reads), Enter::Busy);
        assert_eq!(apart.enter(at(6), OBJECT, Changes), Enter::Busy, "a read is next");
        apart.leave(at(7), OBJECT);
        assert_eq!(apart.enter(at(7), OBJECT, Reads), Enter::Counted);
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
    fn one_that_still_waits_keeps_its_turn_however_long_calls_take() {
        let mut apart = Apart::default();
        assert!([0, 400, 800].map(|millis| apart.enter(at(millis), OBJECT, Reads)) == [Enter::Counted; 3]);
        for millis in (801..1800).step_by(40) {
            assert_eq!(apart.enter(at(millis), OBJECT, Changes), Enter::Busy);
            assert_eq!(apart.enter(at(millis), OBJECT, Reads), Enter::Busy);
            if [881, 1281].contains(&millis) {
                apart.leave(at(millis), OBJECT);
            }
        }
        apart.leave(at(1800), OBJECT);
        assert_eq!(apart.enter(at(1800), OBJECT, Changes), Enter::Counted);
    }

    #[test]
    fn behind_a_call_that_hangs_nobody_waits_for_long_nor_twice() {
        let mut apart = Apart::default();
        apart.enter(at(0), OBJECT, Changes);
        assert!((0..1000).step_by(50).all(|millis| apart.enter(at(millis), OBJECT, Reads) == Enter::Busy));
        for millis in [1000, 1001, 9000] {
            assert_eq!(apart.enter(at(millis), OBJECT, Reads), Enter::Uncounted);
            assert_eq!(apart.enter(at(millis), OBJECT, Changes), Enter::Counted, "nobody has a turn");
            apart.leave(at(millis - 1000), OBJECT);
        }
    }

    #[test]
    fn who_has_its_turn_and_cannot_leave_keeps_it() {
        let mut apart = Apart::default();
        apart.enter(at(0), OBJECT, Changes);
        apart.give_back(at(0), OBJECT);
        assert_eq!(apart.enter(at(50), OBJECT, Reads), Enter::Busy);
        assert_eq!(apart.enter(at(60), OBJECT, Changes), Enter::Counted);
        apart.give_back(at(60), OBJECT);
        assert_eq!(apart.enter(at(160), OBJECT, Reads), Enter::Counted, "it does not come back");
    }

    #[test]
    fn a_full_table_lets_all_pass_and_what_is_over_makes_room() {
        let mut apart = Apart::default();
        let mut enter = |key: u64| apart.enter(at(0), Key(key), Reads);
        assert!((0..OBJECTS_MAX as u64).all(|key| enter(key) == Enter::Counted));
        assert_eq!(enter(1 << 40), Enter::Uncounted);
        apart.leave(at(0), Key(7));
        assert_eq!(apart.enter(at(0), Key(1 << 40), Reads), Enter::Counted);
        for key in 0..OBJECTS_MAX as u64 {
            apart.enter(at(1), Key(key), Changes);
            apart.leave(at(1), Key(key));
        }
        assert_eq!(apart.enter(at(2), Key(1 << 41), Reads), Enter::Uncounted, "all of these may come back");
        assert_eq!(apart.enter(at(102), Key(1 << 41), Reads), Enter::Counted);
    }
}
