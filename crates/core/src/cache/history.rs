//! Our time to live: what was seen of one object, as the exact likelihood of its hazard.
//!
//! A refill at t, after the last look at u, shows the object's change time c. Looking back from t, the time to the first
//! change is exponential and cut off at t - u: c <= u says none in t - u, c > u says one after t - c. However many changes
//! lie before c, they neither help nor harm. The first look has no u: the age t - c counts as one change in that time.
//!
//! With hazard h, N changes in T: TTL = b T / (N + 1), b = -ln(1 - p*), less right after a change (bursts). For T fixed in advance and x = hT the mean of h TTL is
//! b E[x / (N + 1)] = b (1 - e^-x) <= b, so P(stale) <= p* whatever h. Here T depends on earlier lives: that the bound holds
//! then too is measured (`tests/hazard`), not proven. Forgetting halves T and N: the mean of a coin per change, safe by Jensen.

use super::ttl::hazard_budget;
use crate::time::{Span, Time};

/// What was seen of one object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct History {
    /// The last look: when the newest accepted reply's read left.
    pub(super) seen: Time,
    /// The newest change time that was ever shown; the origin if none was.
    pub(super) newest: Time,
    /// T, in seconds.
    exposure: f64,
    /// N.
    changes: f32,
}

impl History {
    /// The first look at an object.
    pub(super) fn first(seen: Time, changed_at: Option<Time>) -> Self {
        let exposure = changed_at.map_or(0.0, |changed| seen.since(changed).as_secs_f64());
        Self {
            seen,
            newest: changed_at.unwrap_or(Time::ZERO),
            exposure,
            changes: if changed_at.is_some() { 1.0 } else { 0.0 },
        }
    }

    /// One more look. Without a change time one change is assumed between any two looks: all that can be said, and wrong
    /// only for objects that change faster than they are read.
    pub(super) fn look(self, seen: Time, changed_at: Option<Time>, memory: Span) -> Self {
        let unchanged = changed_at.is_some_and(|changed| changed <= self.seen);
        let from = changed_at.map_or(self.seen, |changed| changed.max(self.seen));
        Self {
            seen,
            newest: self.newest.max(changed_at.unwrap_or(Time::ZERO)),
            exposure: self.exposure + seen.since(from).as_secs_f64(),
            changes: self.changes + if unchanged { 0.0 } else { 1.0 },
        }
        .faded(memory)
    }

    fn faded(self, memory: Span) -> Self {
        if self.exposure <= memory.as_secs_f64() {
            return self;
        }
        Self { exposure: self.exposure / 2.0, changes: self.changes / 2.0, ..self }
    }

    /// How long an entry may live from `seen`, so that it goes stale with probability at most p*. Zero if nothing is known.
    pub(super) fn life(&self, stale_target: f64) -> Span {
        let gap = self.exposure / (f64::from(self.changes) + 1.0);
        let age = self.seen.since(self.newest).as_secs_f64();
        Span::from_secs_f64(hazard_budget(stale_target) * gap.min(AGE_MAX * age))
    }

    /// Whether the object can be said to have changed since the last look.
    pub(super) fn shows_change(&self, changed_at: Option<Time>) -> bool {
        changed_at.is_some_and(|changed| changed > self.seen)
    }
}

/// The gap between changes is taken to be at most so many times the age: what changed a moment ago is likely to change again.
/// Long quiet then counts for nothing while a burst lasts. A steady object is this young, and its life shorter, 22 % of the time.
const AGE_MAX: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;

    type Look = (u64, Option<u64>);
    const MEMORY: Span = Span::from_secs(1_000);

    fn at(secs: u64) -> Time {
        Time::ZERO + Span::from_secs(secs)
    }

    #[test]
    fn looks_add_up_to_changes_over_observed_time() {
        // looks as (seen, changed at), then T and N
        let cases: [(&[Look], f64, f32); 6] = [
            (&[(100, Some(40))], 60.0, 1.0),
            (&[(100, Some(40)), (130, Some(40))], 90.0, 1.0),
            (&[(100, Some(40)), (130, Some(110))], 80.0, 2.0),
            (&[(100, None)], 0.0, 0.0),
            (&[(100, None), (130, None)], 30.0, 1.0),
            (&[(100, Some(40)), (130, Some(500))], 60.0, 2.0),
        ];
        for (looks, exposure, changes) in cases {
            let (first, rest) = looks.split_first().unwrap();
            let start = History::first(at(first.0), first.1.map(at));
            let history = rest.iter().fold(start, |h, look| h.look(at(look.0), look.1.map(at), MEMORY));
            assert!((history.exposure - exposure).abs() < 1e-9, "{looks:?}: {history:?}");
            assert_eq!(history.changes, changes, "{looks:?}");
        }
    }

    #[test]
    fn the_life_is_the_budget_times_the_observed_time_per_change() {
        let old = History::first(at(30 * 86_400), Some(at(0)));
        let young = History::first(at(10), Some(at(0)));
        assert!((old.life(1e-2).as_secs_f64() - 0.010_050_34 * 1_296_000.0).abs() < 0.1);
        assert!((young.life(1e-2).as_millis_f64() - 50.251_7).abs() < 1e-3);
        assert_eq!(History::first(at(10), None).life(1e-2), Span::ZERO);
    }

    #[test]
    fn what_changed_a_moment_ago_lives_by_its_age_however_quiet_it_was() {
        let quiet = History::first(at(900_000), Some(at(0)));
        // seen 990,000 s after the origin; when it changed, then the gap that its life is taken from: T / (N + 1) is 300,000 s and more
        for (changed, gap) in [(990_000, 0.0), (989_990, 40.0), (989_000, 4_000.0), (900_001, 989_999.0 / 3.0)] {
            let life = quiet.look(at(990_000), Some(at(changed)), Span::FOREVER).life(1e-2);
            assert!((life.as_secs_f64() / hazard_budget(1e-2) - gap).abs() < 1e-3, "{changed}: {life:?}");
        }
    }

    #[test]
    fn evidence_beyond_the_memory_fades_by_halves_and_only_shortens_the_life() {
        let before = History::first(at(900), Some(at(0)));
        let after = before.look(at(1_100), Some(at(0)), MEMORY);
        assert!((after.exposure - 550.0).abs() < 1e-9 && after.changes == 0.5);
        assert!(after.life(1e-2) < before.look(at(1_100), Some(at(0)), Span::FOREVER).life(1e-2));
    }
}
