//! Keys under write pressure: announced once, and as long as that announcement is renewed, calls on them leave without one of their own (R12).
//!
//! Only calls that change no name and may run twice leave so; what must not announces itself. A hold that was quiet for a while is released, but
//! never while a call under it is on its way, and one whose call was lost ends as lost: its keys stay uncacheable for as long as that call may run.

use super::Label;
use midas_core::peer::lease::{AttemptId, Outcome};
use midas_core::time::{Span, Time};
use std::collections::HashMap;

/// The holds of this proxy, by what they are on.
#[derive(Debug, Default)]
pub(super) struct Holds {
    open: HashMap<Box<[Label]>, Hold>,
    /// Announcements of calls since a moment, by what they were on.
    pressure: HashMap<Box<[Label]>, u32>,
    counted_since: Time,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    id: AttemptId,
    /// Calls may leave until then; none before the others let the first one through.
    until: Option<Time>,
    /// Calls under it on their way.
    calls: u32,
    /// When the last one left.
    last: Time,
    /// No more calls leave under it.
    over: bool,
    /// One of them may still run, and nobody will hear of it.
    lost: bool,
}

impl Holds {
    /// A call on these keys leaves now without an announcement of its own, if it may: under which hold, and until when.
    pub(super) fn enter(&mut self, now: Time, keys: &[Label]) -> Option<(AttemptId, Time)> {
        let hold = self.open.get_mut(keys).filter(|hold| !hold.over)?;
        let until = hold.until.filter(|until| now < *until)?;
        (hold.calls, hold.last) = (hold.calls + 1, now);
        Some((hold.id, until))
    }

    /// A call on these keys is announced by itself. Whether there were so many that a hold should be.
    pub(super) fn pressed(&mut self, now: Time, keys: &[Label]) -> bool {
        if now.since(self.counted_since) > WINDOW || self.pressure.len() >= PRESSED_MOST {
            self.pressure.clear();
            self.counted_since = now;
        }
        if self.open.len() >= HOLDS_MOST || self.open.contains_key(keys) {
            return false;
        }
        let count = self.pressure.entry(keys.into()).or_default();
        *count += 1;
        *count >= PRESSURE
    }

    /// These keys are held, once the others let it through.
    pub(super) fn begin(&mut self, now: Time, keys: &[Label], id: AttemptId) {
        self.open.insert(keys.into(), Hold { id, until: None, calls: 0, last: now, over: false, lost: false });
    }

    /// The others let it through, or again. False if it is no hold.
    pub(super) fn permitted(&mut self, id: AttemptId, until: Time) -> bool {
        self.of(id).map(|hold| hold.until = Some(until)).is_some()
    }

    /// Somebody refused it. False if it is no hold.
    pub(super) fn refused(&mut self, id: AttemptId) -> bool {
        self.of(id).map(|hold| hold.over = true).is_some()
    }

    /// A call that left under it has ended so. False if it is no hold.
    pub(super) fn leave(&mut self, id: AttemptId, outcome: &Outcome) -> bool {
        let Some(hold) = self.of(id) else { return false };
        hold.calls = hold.calls.saturating_sub(1);
        match outcome {
            Outcome::Replied(_) | Outcome::NeverLeft => {}
            Outcome::Copied(_) | Outcome::Lost => (hold.over, hold.lost) = (true, true),
        }
        true
    }

    /// Until when a call under it may leave, or leave again; none if it is no hold.
    pub(super) fn until(&self, id: AttemptId) -> Option<Time> {
        let hold = self.open.values().find(|hold| hold.id == id)?;
        Some(hold.until.filter(|_| !hold.over).unwrap_or(Time::ZERO))
    }

    /// Those that are over now, and how they ended: quiet for so long, or done with, and no call under them on its way.
    pub(super) fn rest(&mut self, now: Time, quiet: Span) -> Vec<(AttemptId, Outcome)> {
        let done = |hold: &mut Hold| {
            hold.over |= now.since(hold.last) >= quiet && hold.calls == 0;
            hold.over && hold.calls == 0
        };
        let outcome = |hold: &Hold| if hold.lost { Outcome::Lost } else { Outcome::Replied(None) };
        self.open.extract_if(|_, hold| done(hold)).map(|(_, hold)| (hold.id, outcome(&hold))).collect()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    fn of(&mut self, id: AttemptId) -> Option<&mut Hold> {
        self.open.values_mut().find(|hold| hold.id == id)
    }
}

/// A hold is released when no call left under it for so long.
pub(super) const QUIET: Span = Span::from_millis(250);
/// So many calls on the same keys within the window make a hold: a file that is read between two WRITEs is worth more than what is saved.
const PRESSURE: u32 = 16;
const WINDOW: Span = Span::from_millis(250);
/// At so many, others announce as usual.
const HOLDS_MOST: usize = 64;
/// Keys that are counted at once; then counting begins anew.
const PRESSED_MOST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use midas_core::key::Key;
    use midas_core::peer::lease::{Life, MemberId};

    const KEYS: [Label; 1] = [Label { export: 1, place: Key(2), key: Key(3) }];

    fn id(sequence: u64) -> AttemptId {
        AttemptId { owner: Life { member: MemberId(0), incarnation: 1 }, sequence }
    }

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn held() -> Holds {
        let mut holds = Holds::default();
        holds.begin(at(0), &KEYS, id(1));
        assert!(holds.permitted(id(1), at(1_000)));
        holds
    }

    #[test]
    fn only_a_stream_of_calls_on_the_same_keys_makes_a_hold() {
        let (mut holds, other) = (Holds::default(), [Label { export: 1, place: Key(2), key: Key(4) }]);
        let slow = (0..100).any(|call| holds.pressed(at(call * 50), &KEYS));
        assert!(!slow, "twenty a second");
        let pressed: Vec<bool> = (0..PRESSURE).map(|call| holds.pressed(at(9_000 + u64::from(call)), &KEYS)).collect();
        assert_eq!(pressed.iter().position(|it| *it), Some(PRESSURE as usize - 1));
        assert!(!holds.pressed(at(9_020), &other));
        holds.begin(at(9_020), &KEYS, id(1));
        assert!(!holds.pressed(at(9_021), &KEYS), "it is held already");
    }

    #[test]
    fn calls_leave_under_a_hold_only_while_the_others_know_of_it() {
        let mut holds = Holds::default();
        holds.begin(at(0), &KEYS, id(1));
        assert_eq!(holds.enter(at(1), &KEYS), None, "not let through yet");
        assert!(holds.permitted(id(1), at(1_000)) && !holds.permitted(id(2), at(1_000)));
        assert_eq!(holds.enter(at(2), &KEYS), Some((id(1), at(1_000))));
        assert_eq!(holds.enter(at(1_000), &KEYS), None, "too long ago");
        holds.permitted(id(1), at(2_000));
        assert_eq!(holds.enter(at(1_000), &KEYS), Some((id(1), at(2_000))), "renewed");
        holds.refused(id(1));
        assert_eq!(holds.enter(at(1_001), &KEYS), None, "refused");
    }

    #[test]
    fn a_hold_ends_when_it_was_quiet_and_no_call_is_on_its_way() {
        let mut holds = held();
        holds.enter(at(10), &KEYS);
        assert_eq!(holds.rest(at(900), QUIET), [], "a call is on its way");
        assert!(holds.leave(id(1), &Outcome::Replied(None)) && !holds.leave(id(7), &Outcome::Lost));
        assert_eq!(holds.rest(at(100), QUIET), [], "not quiet yet");
        assert_eq!(holds.rest(at(260), QUIET), [(id(1), Outcome::Replied(None))]);
        assert_eq!(holds.len(), 0);
    }

    #[test]
    fn a_hold_whose_call_was_lost_takes_no_more_and_ends_as_lost() {
        for outcome in [Outcome::Lost, Outcome::Copied(None)] {
            let mut holds = held();
            holds.enter(at(10), &KEYS);
            holds.enter(at(11), &KEYS);
            holds.leave(id(1), &outcome);
            assert_eq!(holds.enter(at(12), &KEYS), None);
            assert_eq!(holds.rest(at(13), QUIET), [], "the other one is on its way");
            holds.leave(id(1), &Outcome::Replied(None));
            assert_eq!(holds.rest(at(14), QUIET), [(id(1), Outcome::Lost)]);
        }
    }
}
