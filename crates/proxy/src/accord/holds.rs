//! Keys under write pressure: announced once, and as long as that announcement is renewed, calls on them leave without one of their own (R12).
//!
//! Only calls that change no name and may run twice leave so; what must not announces itself. A hold that was quiet for a while is released, but
//! never while a call under it is on its way, and one whose call was lost ends as lost: its keys stay uncacheable for as long as that call may run.

use super::Label;
use midas_core::peer::lease::{AttemptId, Outcome};
use midas_core::time::{Span, Time};
use std::collections::HashMap;

/// The holds of this proxy. Every hold has one entry in `open` and one in `ids`.
#[derive(Debug, Default)]
pub(super) struct Holds {
    open: HashMap<AttemptId, Hold>,
    /// By what they are on.
    ids: HashMap<Box<[Label]>, AttemptId>,
    /// When all of them were last looked at, and whether one has ended since.
    looked: Time,
    ended: bool,
    /// Announcements of calls since a moment, by what they were on.
    pressure: HashMap<Box<[Label]>, u32>,
    counted_since: Time,
}

#[derive(Debug)]
struct Hold {
    keys: Box<[Label]>,
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
        let id = *self.ids.get(keys)?;
        let hold = self.open.get_mut(&id).filter(|hold| !hold.over)?;
        let until = hold.until.filter(|until| now < *until)?;
        (hold.calls, hold.last) = (hold.calls + 1, now);
        Some((id, until))
    }

    /// A call on these keys is announced by itself. Whether there were so many that a hold should be.
    pub(super) fn pressed(&mut self, now: Time, keys: &[Label]) -> bool {
        if now.since(self.counted_since) > WINDOW || self.pressure.len() >= PRESSED_MOST {
            self.pressure.clear();
            self.counted_since = now;
        }
        if self.open.len() >= HOLDS_MOST || self.ids.contains_key(keys) {
            return false;
        }
        let count = self.pressure.entry(keys.into()).or_default();
        *count += 1;
        *count >= PRESSURE
    }

    /// These keys are held, once the others let it through.
    pub(super) fn begin(&mut self, now: Time, keys: &[Label], id: AttemptId) {
        self.pressure.remove(keys);
        self.ids.insert(keys.into(), id);
        let hold = Hold { keys: keys.into(), until: None, calls: 0, last: now, over: false, lost: false };
        self.open.insert(id, hold);
    }

    /// The others let it through, or again. False if it is no hold.
    pub(super) fn permitted(&mut self, id: AttemptId, until: Time) -> bool {
        self.open.get_mut(&id).map(|hold| hold.until = Some(until)).is_some()
    }

    /// Somebody refused it. False if it is no hold.
    pub(super) fn refused(&mut self, id: AttemptId) -> bool {
        let refused = self.open.get_mut(&id).map(|hold| hold.over = true).is_some();
        self.ended |= refused;
        refused
    }

    /// A call that left under it has ended so. False if it is no hold.
    pub(super) fn leave(&mut self, id: AttemptId, outcome: &Outcome) -> bool {
        let Some(hold) = self.open.get_mut(&id) else { return false };
        hold.calls = hold.calls.saturating_sub(1);
        match outcome {
            Outcome::Replied(_) | Outcome::NeverLeft => {}
            Outcome::Copied(_) | Outcome::Lost => (hold.over, hold.lost) = (true, true),
        }
        self.ended |= hold.over && hold.calls == 0;
        true
    }

    /// Until when a call under it may leave, or leave again; none if it is no hold.
    pub(super) fn until(&self, id: AttemptId) -> Option<Time> {
        let hold = self.open.get(&id)?;
        Some(hold.until.filter(|_| !hold.over).unwrap_or(Time::ZERO))
    }

    /// Those that are over now, and how they ended: quiet for so long, or done with, and no call under them on its way. This is asked after every
    /// call, so whether they are quiet is looked at now and then.
    pub(super) fn rest(&mut self, now: Time, quiet: Span) -> Vec<(AttemptId, Outcome)> {
        if now.since(self.looked) < LOOK.min(quiet) && !self.ended {
            return Vec::new();
        }
        (self.looked, self.ended) = (now, false);
        let done = |hold: &mut Hold| {
            hold.over |= now.since(hold.last) >= quiet && hold.calls == 0;
            hold.over && hold.calls == 0
        };
        let outcome = |hold: &Hold| if hold.lost { Outcome::Lost } else { Outcome::Replied(None) };
        let over: Vec<(AttemptId, Hold)> = self.open.extract_if(|_, hold| done(hold)).collect();
        for (_, hold) in &over {
            self.ids.remove(&hold.keys);
        }
        over.iter().map(|(id, hold)| (*id, outcome(hold))).collect()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}

/// A hold is released when no call left under it for so long.
pub(super) const QUIET: Span = Span::from_millis(250);
/// So many calls on the same keys within the window make a hold: a file that is read between two WRITEs is worth more than what is saved.
const PRESSURE: u32 = 16;
const WINDOW: Span = Span::from_millis(250);
/// Quiet ones are looked for no more often.
const LOOK: Span = Span::from_millis(25);
/// At so many, others announce as usual. A hold costs less than 1 KiB here and at every other member. A grant tells of 32,768 attempts at most, of which
/// 17,408 may be over: with these of 16 members a thousand are left for calls.
const HOLDS_MOST: usize = 896;
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
        holds.enter(at(910), &KEYS);
        holds.leave(id(1), &Outcome::Replied(None));
        assert_eq!(holds.rest(at(1_100), QUIET), [], "not quiet yet");
        assert_eq!(holds.rest(at(1_160), QUIET), [(id(1), Outcome::Replied(None))]);
        assert_eq!((holds.len(), holds.ids.len()), (0, 0));
        holds.begin(at(1_170), &KEYS, id(2));
        assert_eq!(holds.rest(at(1_171), Span::ZERO), [(id(2), Outcome::Replied(None))], "nothing more comes");
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

    #[test]
    fn hundreds_of_files_are_held_at_once_and_no_more_than_the_bound() {
        let file = |number: usize| [Label { export: 1, place: Key(2), key: Key(number as u64) }];
        let mut holds = Holds::default();
        let mut held = 0;
        for number in 0..2 * HOLDS_MOST {
            if (0..PRESSURE).any(|_| holds.pressed(at(1), &file(number))) {
                holds.begin(at(1), &file(number), id(number as u64));
                assert!(holds.permitted(id(number as u64), at(1_000)));
                held += 1;
            }
        }
        assert_eq!((held, holds.len()), (HOLDS_MOST, HOLDS_MOST));
        for number in 0..HOLDS_MOST {
            assert_eq!(holds.enter(at(300), &file(number)), Some((id(number as u64), at(1_000))));
            assert!(number % 2 == 0 || holds.leave(id(number as u64), &Outcome::Replied(None)));
        }
        assert_eq!(holds.enter(at(300), &file(HOLDS_MOST)), None);
        assert_eq!(holds.rest(at(700), QUIET).len(), HOLDS_MOST / 2, "the others have a call on its way");
        assert_eq!((holds.len(), holds.ids.len()), (HOLDS_MOST / 2, HOLDS_MOST / 2));
        assert!(holds.pressure.len() <= PRESSED_MOST);
    }
}
