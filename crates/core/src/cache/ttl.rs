//! The paper's time to live: one hazard per cache class, from the times between invalidations.
//!
//! Kept to the letter so that it can be compared; `history` has ours, per object. What it decides changes only in `tick`.
//! Its hazard is biased: an average of 1/dt over random gaps has no finite mean, and a class is not an object.

use super::params::Params;
use super::{CLASSES_MAX, Class};
use crate::time::{Span, Time};
use alloc::vec::Vec;

/// How hazards are estimated in ttl mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Estimator {
    /// Paper: P10. Per class, EWMA of 1/dt between invalidations.
    Paper,
    /// Ours: per object, changes over observed time.
    #[default]
    Object,
}

impl Estimator {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Paper, Self::Object];

    /// The word that users type and read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Object => "object",
        }
    }

    /// The estimator of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|estimator| estimator.name() == name)
    }
}

/// -ln(1 - p*): the hazard that an entry may collect before its horizon. Paper: P10.
pub(super) fn hazard_budget(stale_target: f64) -> f64 {
    -libm::log1p(-stale_target)
}

/// All cache classes and what was learned about each.
#[derive(Debug)]
pub(super) struct Classes([ClassState; CLASSES_MAX]);

#[derive(Clone, Copy, Debug)]
struct ClassState {
    /// h_c, per second. Paper: P10.
    hazard: f64,
    /// W_c. Paper: P10.
    write_fraction: f64,
    invalidated: Option<Time>,
    reads: u64,
    writes: u64,
    ttl: Span,
    granted: f64,
    grants: u64,
}

impl Classes {
    /// Until the first tick nothing is known, and TTL_min errs on the fresh side.
    pub(super) fn new(params: &Params) -> Self {
        Self([ClassState::new(params.rtt); CLASSES_MAX])
    }

    pub(super) fn read(&mut self, class: Class) {
        self.0[class.index()].reads += 1;
    }

    pub(super) fn wrote(&mut self, class: Class) {
        self.0[class.index()].writes += 1;
    }

    /// An entry of the class was found to be, or made, untrue.
    pub(super) fn invalidated(&mut self, now: Time, class: Class) {
        self.0[class.index()].invalidated(now);
    }

    /// An object's own estimate gave an entry this life; only for show.
    pub(super) fn granted(&mut self, class: Class, life: Span) {
        let state = &mut self.0[class.index()];
        state.granted += life.as_secs_f64();
        state.grants += 1;
    }

    /// Paper: P10, the slow loop.
    /// Ends a slow interval; the classes whose TTL moved, and why.
    pub(super) fn tick(&mut self, params: &Params) -> Vec<TtlStep> {
        let mut steps = Vec::new();
        for (state, class) in self.0.iter_mut().zip(0..) {
            let from = state.ttl;
            state.tick(params);
            let (to, hazard, write_fraction) = (state.ttl, state.hazard, state.write_fraction);
            if from != to {
                steps.push(TtlStep { class: Class(class), from, to, hazard, write_fraction });
            }
        }
        steps
    }

    /// TTL_c as of the last tick; with the object estimator, the mean of what was granted before it.
    pub(super) fn ttl(&self, class: Class) -> Span {
        self.0[class.index()].ttl
    }

    pub(super) fn hazard(&self, class: Class) -> f64 {
        self.0[class.index()].hazard
    }

    pub(super) fn write_fraction(&self, class: Class) -> f64 {
        self.0[class.index()].write_fraction
    }
}

/// A class whose TTL the slow loop turned. Paper: P10.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TtlStep {
    /// Which class.
    pub class: Class,
    /// Its TTL before.
    pub from: Span,
    /// Its TTL after.
    pub to: Span,
    /// h_c, in changes a second.
    pub hazard: f64,
    /// W_c.
    pub write_fraction: f64,
}

impl ClassState {
    const fn new(ttl: Span) -> Self {
        Self { hazard: 0.0, write_fraction: 0.0, invalidated: None, reads: 0, writes: 0, ttl, granted: 0.0, grants: 0 }
    }

    fn invalidated(&mut self, now: Time) {
        if let Some(before) = self.invalidated {
            let gap = now.since(before).max(GAP_MIN).as_secs_f64();
            self.hazard = (1.0 - HAZARD_WEIGHT) * self.hazard + HAZARD_WEIGHT / gap;
        }
        self.invalidated = Some(now);
    }

    fn tick(&mut self, params: &Params) {
        let calls = self.reads + self.writes;
        if calls > 0 {
            let share = self.writes as f64 / calls as f64;
            self.write_fraction = (1.0 - WRITE_WEIGHT) * self.write_fraction + WRITE_WEIGHT * share;
        }
        self.ttl = match (params.estimator, self.grants) {
            (Estimator::Paper, _) => self.paper_ttl(params),
            (Estimator::Object, 0) => self.ttl,
            (Estimator::Object, grants) => Span::from_secs_f64(self.granted / grants as f64),
        };
        (self.reads, self.writes, self.granted, self.grants) = (0, 0, 0.0, 0);
    }

    /// The floor before any minimum: a horizon (P12) always wins over TTL_min.
    fn paper_ttl(&self, params: &Params) -> Span {
        let gamma = if self.write_fraction > params.write_fraction_high { WRITE_GAMMA } else { 1.0 };
        // A hazard of zero gives infinity, which becomes Span::FOREVER and then `ttl_max`.
        let secs = gamma * hazard_budget(params.stale_target) / self.hazard;
        Span::from_secs_f64(secs).max(params.rtt).min(params.ttl_max)
    }
}

/// b. Paper: P10.
const HAZARD_WEIGHT: f64 = 0.1;
/// a. Paper: P10.
const WRITE_WEIGHT: f64 = 0.1;
/// gamma. Paper: P10.
const WRITE_GAMMA: f64 = 0.5;
/// Two invalidations in one instant are this far apart: 1/dt must stay finite.
const GAP_MIN: Span = Span::from_micros(1);

#[cfg(test)]
mod tests {
    use super::super::params::Settings;
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn the_papers_ttl_follows_a_sequence_computed_by_hand() {
        let params =
            Params::new(Settings { stale_target: 1e-2, estimator: Estimator::Paper, ..Settings::default() }).unwrap();
        let mut classes = Classes::new(&params);
        let class = Class(3);
        // Gaps 2 s, 4 s, 0.5 s: h = 0.1/2 = 0.05; 0.045 + 0.025 = 0.07; 0.063 + 0.2 = 0.263.
        for ms in [1_000, 3_000, 7_000, 7_500] {
            classes.invalidated(at(ms), class);
        }
        assert!((classes.hazard(class) - 0.263).abs() < 1e-12);
        assert_eq!(classes.ttl(class), params.rtt, "nothing changes before the tick");
        classes.tick(&params);
        // -ln(0.99) / 0.263 = 0.0100503.. / 0.263 = 38.214 ms
        assert!((classes.ttl(class).as_millis_f64() - 38.214_2).abs() < 1e-3, "{:?}", classes.ttl(class));
        assert_eq!(classes.ttl(Class(4)), params.ttl_max, "another class learned nothing");
    }

    #[test]
    fn a_written_class_halves_its_ttl_and_the_floor_is_one_round_trip() {
        let settings = Settings { stale_target: 1e-2, estimator: Estimator::Paper, ..Settings::default() };
        let params = Params::new(settings).unwrap();
        // (writes of 10 calls in each of 4 ticks, the invalidation gap in ms, TTL in ms)
        // W after 4 ticks = share * (1 - 0.9^4) = 0.3439 share; h = 0.1 / gap.
        let cases = [(5, 1_000, 100.503), (6, 1_000, 50.252), (0, 1, 1.0), (10, 1, 1.0)];
        for (writes, gap, want) in cases {
            let mut classes = Classes::new(&params);
            classes.invalidated(at(0), Class(0));
            classes.invalidated(at(gap), Class(0));
            for _ in 0..4 {
                (0..writes).for_each(|_| classes.wrote(Class(0)));
                (writes..10).for_each(|_| classes.read(Class(0)));
                classes.tick(&params);
            }
            let got = classes.ttl(Class(0)).as_millis_f64();
            assert!((got - want).abs() < 1e-3, "{writes} writes, gap {gap} ms: {got} is not {want}");
        }
    }
}
