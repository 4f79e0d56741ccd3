//! Notices writers that bypass MIDAS where the export said that there are none: lease and immutable mode (nfs3.md D5).
//!
//! A share of the hits is checked against the server; the driver compares (never atime) and says `Unsure` where a mutation or a
//! fence of our own lies in between. One difference suffices, but only if a second look shows it again: a server whose attributes are
//! late, or a race that the driver could not see yet, has settled by then. To want more objects would only let a rare writer go
//! on: in these modes the true number is zero. Once alarmed it checks nothing until it is armed anew.

use super::sample::{Pace, Verdict};
use crate::time::{Span, Time};

/// Watches the hits of one cache.
#[derive(Debug)]
pub struct Guard {
    pace: Pace,
    suspects: [Option<Suspect>; SUSPECTS_MAX],
    seen: Watched,
}

/// What the guard saw since it was armed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Hits that were checked, second looks not counted.
    pub samples: u64,
    /// First looks that showed a difference.
    pub differences: u64,
    /// Differences that the second look did not show.
    pub dismissed: u64,
    /// Checks that could not tell.
    pub unsure: u64,
    /// When it found a writer that bypasses MIDAS.
    pub alarmed: Option<Time>,
}

/// What to do about a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    Nothing,
    /// Ask the same server again, not before then, compare with the very answer that was checked, and say what it showed
    /// to `looked_again`.
    LookAgain(Time),
    /// Somebody else writes: the export must go to `strict`. Said once.
    Demote,
}

#[derive(Clone, Copy, Debug)]
struct Suspect {
    key: u64,
    since: Time,
}

impl Guard {
    /// Armed; guards with different seeds check different hits.
    pub fn new(seed: u64) -> Self {
        Self {
            pace: Pace::new(seed, FIRST_EVERY, FIRST_SAMPLES),
            suspects: [None; SUSPECTS_MAX],
            seen: Watched::default(),
        }
    }

    /// A hit: whether it is to be checked. Often at first, then one in a thousand.
    pub fn hit(&mut self) -> bool {
        let every = if (self.seen.samples as f64) < FIRST_SAMPLES { FIRST_EVERY } else { EVERY };
        self.seen.alarmed.is_none() && self.pace.hit(every)
    }

    /// Hits that nobody asked about.
    pub(super) fn repeated(&mut self, hits: u32) {
        self.pace.repeated(hits);
    }

    /// What the check of a hit on `key` showed.
    pub fn verdict(&mut self, now: Time, key: u64, verdict: Verdict) -> Next {
        if self.seen.alarmed.is_some() {
            return Next::Nothing;
        }
        self.seen.samples += 1;
        match verdict {
            Verdict::Same => Next::Nothing,
            Verdict::Unsure => self.unsure(),
            Verdict::Different => self.suspect(now, key),
        }
    }

    /// What the second look at the same answer showed. One that nobody asked for, or that comes too early or too late, says nothing.
    pub fn looked_again(&mut self, now: Time, key: u64, verdict: Verdict) -> Next {
        let Some(suspect) = self.take(key) else { return Next::Nothing };
        let in_time = (suspect.since + CONFIRM_AFTER..=suspect.since + CONFIRM_WITHIN).contains(&now);
        match verdict {
            Verdict::Same => self.dismiss(),
            Verdict::Different if in_time => self.alarm(now),
            Verdict::Different | Verdict::Unsure => self.unsure(),
        }
    }

    /// Ends an interval of the slow loop.
    pub(super) fn tick(&mut self, elapsed: Span) {
        self.pace.tick(elapsed);
    }

    /// The administrator says again that nobody else writes.
    pub fn rearm(&mut self) {
        (self.suspects, self.seen) = ([None; SUSPECTS_MAX], Watched::default());
    }

    /// What it saw since it was armed.
    pub fn watched(&self) -> Watched {
        self.seen
    }

    fn take(&mut self, key: u64) -> Option<Suspect> {
        self.suspects.iter_mut().find(|place| place.is_some_and(|suspect| suspect.key == key))?.take()
    }

    /// Into its own place, a free one, or that of the oldest.
    fn suspect(&mut self, now: Time, key: u64) -> Next {
        self.seen.differences += 1;
        self.take(key);
        let oldest = |place: &&mut Option<Suspect>| place.map(|suspect| suspect.since);
        if let Some(place) = self.suspects.iter_mut().min_by_key(oldest) {
            *place = Some(Suspect { key, since: now });
        }
        Next::LookAgain(now + CONFIRM_AFTER)
    }

    fn dismiss(&mut self) -> Next {
        self.seen.dismissed += 1;
        Next::Nothing
    }

    fn unsure(&mut self) -> Next {
        self.seen.unsure += 1;
        Next::Nothing
    }

    fn alarm(&mut self, now: Time) -> Next {
        self.seen.alarmed = Some(now);
        Next::Demote
    }
}

/// One hit in so many is checked.
const EVERY: f64 = 1000.0;
/// The first checks come quicker, so that a wrong `writers = "midas-only"` is found soon after the start.
const FIRST_EVERY: f64 = 10.0;
/// So many of them.
const FIRST_SAMPLES: f64 = 1000.0;
/// Differences that wait for their second look, at most; the oldest gives way.
const SUSPECTS_MAX: usize = 8;
/// A second look sooner than this may meet the same race as the first.
const CONFIRM_AFTER: Span = Span::from_secs(1);
/// A second look later than this says nothing: too much may have happened in between.
const CONFIRM_WITHIN: Span = Span::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use Verdict::{Different, Same, Unsure};

    fn at(secs: u64) -> Time {
        Time::ZERO + Span::from_secs(secs)
    }

    #[test]
    fn one_difference_that_a_second_look_shows_again_demotes() {
        // a first look at second 1, a second one at .. with .., then what that leads to
        let cases = [
            (Different, 2, Different, Next::Demote),
            (Different, 121, Different, Next::Demote),
            (Different, 1, Different, Next::Nothing),
            (Different, 122, Different, Next::Nothing),
            (Different, 2, Same, Next::Nothing),
            (Different, 2, Unsure, Next::Nothing),
            (Same, 2, Different, Next::Nothing),
            (Unsure, 2, Different, Next::Nothing),
        ];
        for (first, then, second, want) in cases {
            let mut guard = Guard::new(1);
            let asked = guard.verdict(at(1), 7, first);
            assert_eq!(asked, if first == Different { Next::LookAgain(at(2)) } else { Next::Nothing });
            assert_eq!(guard.looked_again(at(then), 7, second), want, "{first:?}, {second:?} at {then}");
            assert_eq!(guard.looked_again(at(then), 7, Different), Next::Nothing, "one second look");
            assert_eq!(guard.watched().alarmed.is_some(), want == Next::Demote);
        }
    }

    #[test]
    fn another_hit_on_a_suspect_does_not_stand_for_its_second_look() {
        let mut guard = Guard::new(1);
        guard.verdict(at(1), 7, Different);
        assert_eq!(guard.verdict(at(2), 7, Same), Next::Nothing, "filled anew, so it is true again");
        assert_eq!(guard.looked_again(at(2), 7, Different), Next::Demote);
    }

    #[test]
    fn an_alarm_is_raised_once_and_holds_until_it_is_armed_anew() {
        let mut guard = Guard::new(1);
        guard.verdict(at(1), 7, Different);
        assert_eq!(guard.looked_again(at(2), 7, Different), Next::Demote);
        assert!((0..100_000).all(|_| !guard.hit()), "nothing is checked any more");
        assert_eq!(guard.verdict(at(3), 7, Different), Next::Nothing);
        assert_eq!(guard.watched().alarmed, Some(at(2)));
        guard.rearm();
        assert_eq!(guard.watched(), Watched::default());
        assert!((0..100).any(|_| guard.hit()));
    }

    #[test]
    fn more_differences_than_fit_push_the_oldest_out() {
        let mut guard = Guard::new(1);
        for key in 0..=SUSPECTS_MAX as u64 {
            guard.verdict(at(key), key, Different);
        }
        assert_eq!(guard.looked_again(at(20), 0, Different), Next::Nothing, "forgotten");
        assert_eq!(guard.looked_again(at(20), 8, Different), Next::Demote);
    }

    /// A world of hot objects of which a share was changed behind our back; how many samples until the alarm.
    fn samples_until_alarm(seed: u64, changed: f64) -> Option<u64> {
        let (mut guard, mut rng) = (Guard::new(seed), Rng::new(seed));
        for hit in 0..100_000 {
            let (now, key) = (at(hit), rng.below(1000) as u64);
            let look = if (key as f64) < 1000.0 * changed { Different } else { Same };
            if guard.hit() && matches!(guard.verdict(now, key, look), Next::LookAgain(_)) {
                assert_eq!(guard.looked_again(now + CONFIRM_AFTER, key, look), Next::Demote);
                return Some(guard.watched().samples);
            }
        }
        None
    }

    #[test]
    fn a_writer_that_changed_a_tenth_is_noticed_within_100_samples_and_nobody_is_not() {
        let mut samples: [u64; 200] = core::array::from_fn(|seed| samples_until_alarm(seed as u64, 0.1).unwrap());
        samples.sort_unstable();
        std::println!("samples until the alarm: median {}, worst of 200 {}", samples[100], samples[199]);
        assert!(samples[199] <= 100, "{}", samples[199]);
        assert_eq!(samples_until_alarm(1, 0.0), None);
    }

    #[test]
    fn in_the_long_run_one_hit_in_a_thousand_is_checked() {
        let mut guard = Guard::new(3);
        let mut checked = 0;
        for _ in 0..1_000_000 {
            if guard.hit() {
                checked += 1;
                guard.verdict(at(1), 1, Same);
            }
        }
        assert!((1_500..2_500).contains(&checked), "{checked}: the first 1000 come quicker");
    }
}
