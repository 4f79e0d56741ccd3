//! How stale ttl mode's hits are, measured by checking a few of them against the server, and what follows for the lives.
//!
//! Every hit is as likely to be checked as any other, so the share of stale ones among the checked is the share among all, whatever
//! writers and readers do; a model of either would fail where it is needed. Per class a factor in (0, 1] scales every life: down
//! when the share's upper limit is above p*, up again when it is far below, and each move needs new evidence, so it cannot swing.
//! What refills show is not counted: they tell an object's last change, not its first since the fill, and hide the worst bursts.

use super::{CLASSES_MAX, Class};
use crate::rng::Rng;
use crate::time::{Span, Time};
use core::array;

/// What the server said of an answer that was given from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It would have answered the same.
    Same,
    /// It would not.
    Different,
    /// It cannot be told: no reply, or a mutation of our own in between.
    Unsure,
}

/// A class's stale share as its samples show it, and what the loop made of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Staleness {
    /// By how much every life of the class is scaled.
    pub factor: f64,
    /// Hits that were checked.
    pub samples: u64,
    /// Of those, the stale ones.
    pub stale: u64,
    /// The stale share of late, with its lower and upper 95 % limit.
    pub share: f64,
    /// One-sided.
    pub low: f64,
    /// One-sided.
    pub high: f64,
}

/// What the checked hits of a cache teach, class by class. The parts of a cache that is split learn together: each alone would take as
/// long as all of them do.
#[derive(Debug)]
pub struct Lessons {
    target: f64,
    ticked: Time,
    classes: [Lesson; CLASSES_MAX],
}

/// What follows from them for the hits of a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Course {
    /// One hit in about so many is checked, of whichever part.
    every: f64,
    /// By how much every life is scaled.
    factor: f64,
    /// Entries from before are cut as well.
    cut_at: Time,
}

impl Lessons {
    /// Nothing is known yet.
    pub fn new(stale_target: f64) -> Self {
        Self { target: stale_target, ticked: Time::ZERO, classes: [Lesson::new(stale_target); CLASSES_MAX] }
    }

    /// What the check of a hit showed.
    pub fn verdict(&mut self, now: Time, class: Class, verdict: Verdict) {
        let (lesson, target) = (&mut self.classes[class.index()], self.target);
        lesson.credit -= 1.0;
        match verdict {
            Verdict::Same => lesson.learn(now, 0.0, target),
            Verdict::Different => lesson.learn(now, 1.0, target),
            Verdict::Unsure => {}
        }
        lesson.pace(target);
    }

    /// Ends an interval of the slow loop; `hits` are all until now, of all parts.
    pub fn tick(&mut self, now: Time, hits: impl Fn(Class) -> u64) {
        let room = PER_SECOND * now.since(core::mem::replace(&mut self.ticked, now)).as_secs_f64();
        for (lesson, class) in self.classes.iter_mut().zip(0..) {
            lesson.tick(hits(Class(class)), room, self.target);
        }
    }

    /// What follows for a class.
    pub fn course(&self, class: Class) -> Course {
        self.classes[class.index()].course
    }

    /// The stale share of a class's hits, as the checked ones show it.
    pub fn staleness(&self, class: Class) -> Staleness {
        let Lesson { course, samples, stale, shown, .. } = &self.classes[class.index()];
        let (low, high) = (shown.low(Z_95), shown.high(Z_95));
        Staleness { factor: course.factor, samples: *samples, stale: *stale, share: shown.share(), low, high }
    }
}

/// The hits of one part: which are checked, and how far their entries reach.
#[derive(Debug)]
pub(super) struct Sampler {
    lessons: Lessons,
    paces: [Pace; CLASSES_MAX],
}

impl Sampler {
    pub(super) fn new(target: f64) -> Self {
        let pace = |class: usize| Pace::new(class as u64, QUICK, f64::INFINITY);
        Self { lessons: Lessons::new(target), paces: array::from_fn(pace) }
    }

    /// A hit of the class: whether it is to be checked.
    pub(super) fn hit(&mut self, class: Class) -> bool {
        let every = self.lessons.course(class).every;
        self.paces[class.index()].hit(every)
    }

    /// All hits of the class.
    pub(super) fn hits(&self, class: Class) -> u64 {
        self.paces[class.index()].hits()
    }

    pub(super) fn verdict(&mut self, now: Time, class: Class, verdict: Verdict) {
        self.lessons.verdict(now, class, verdict);
    }

    /// What all parts together have learned.
    pub(super) fn follow(&mut self, class: Class, course: Course) {
        self.lessons.classes[class.index()].course = course;
    }

    /// The part of its life that an entry of the class may use.
    pub(super) fn factor(&self, class: Class) -> f64 {
        self.lessons.course(class).factor
    }

    /// Until when an entry may be served: one from before the last cut is cut as well.
    pub(super) fn reach(&self, class: Class, seen: Time, until: Time) -> Time {
        let Course { factor, cut_at, .. } = self.lessons.course(class);
        if seen >= cut_at { until } else { seen + until.since(seen).scale(factor) }
    }

    pub(super) fn tick(&mut self, now: Time) {
        let Self { lessons, paces } = self;
        lessons.tick(now, |class| paces[class.index()].hits());
    }

    pub(super) fn staleness(&self, class: Class) -> Staleness {
        self.lessons.staleness(class)
    }
}

/// One class. `recent` is what was seen since the factor moved, `shown` what was seen lately.
///
/// Invariant: of n hits at most n / [`BUDGET`] + [`CREDIT_SAMPLES`] / p* and those under way are checked; from the second tick on, of
/// those that come evenly, [`PER_SECOND`].
#[derive(Clone, Copy, Debug)]
struct Lesson {
    course: Course,
    recent: Evidence,
    shown: Evidence,
    samples: u64,
    stale: u64,
    credit: f64,
    every_min: f64,
    /// Hits until the last tick, and ticks since the last one with any.
    hits: u64,
    idle: u32,
}

impl Lesson {
    fn new(target: f64) -> Self {
        let (recent, shown) = (Evidence::NONE, Evidence::NONE);
        let course = Course { every: QUICK, factor: 1.0, cut_at: Time::ZERO };
        let credit = CREDIT_SAMPLES / target;
        Self { course, recent, shown, samples: 0, stale: 0, credit, every_min: 0.0, hits: 0, idle: 0 }
    }

    fn learn(&mut self, now: Time, stale: f64, target: f64) {
        let full = FULL_SAMPLES / target;
        self.samples += 1;
        self.stale += stale as u64;
        self.recent.add(stale);
        self.shown = self.shown.within(full);
        self.shown.add(stale);
        let from = self.course.factor;
        match (from * self.step(target, full)).clamp(FACTOR_MIN, 1.0) {
            to if to < from => {
                (self.course.factor, self.course.cut_at, self.recent) = (to, now, Evidence::NONE);
            }
            to if to > from => (self.course.factor, self.recent) = (to, Evidence::NONE),
            _unmoved => self.recent = self.recent.within(full),
        }
    }

    /// By how much the factor is to move. The share is about proportional to it, so a share that is surely too high is met at once.
    fn step(&self, target: f64, full: f64) -> f64 {
        let seen = &self.recent;
        match () {
            () if seen.stale >= STALE_MIN && seen.low(Z_99) > target => {
                (AIM * target / seen.share()).clamp(CUT_MAX, EASE)
            }
            () if seen.samples >= full && seen.high(Z_95) > target => EASE,
            () if seen.high(Z_95) < CALM * target => RISE,
            () => 1.0,
        }
    }

    /// How many hits are checked from now on: more while it is open whether the share is below p*, as far as the budget goes.
    fn pace(&mut self, target: f64) {
        let open = self.recent.high(Z_95) > target && self.credit >= 1.0;
        self.course.every = if open { QUICK } else { USUAL }.max(self.every_min);
    }

    /// A class without hits learns nothing; if it was cut so low that it has none, it must find out by trying.
    fn tick(&mut self, hits: u64, room: f64, target: f64) {
        let new = hits.saturating_sub(core::mem::replace(&mut self.hits, hits));
        self.credit = (self.credit + new as f64 / BUDGET).min(CREDIT_SAMPLES / target);
        self.every_min = if room > 0.0 { new as f64 / room } else { 0.0 };
        self.idle = if new == 0 && self.course.factor < 1.0 { self.idle + 1 } else { 0 };
        if self.idle >= IDLE_TICKS {
            (self.idle, self.course.factor) = (0, (self.course.factor * RISE).min(1.0));
        }
        self.pace(target);
    }
}

/// Checked hits and the stale ones among them, fading.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Evidence {
    samples: f64,
    stale: f64,
}

impl Evidence {
    const NONE: Self = Self { samples: 0.0, stale: 0.0 };

    fn add(&mut self, stale: f64) {
        self.samples += 1.0;
        self.stale += stale;
    }

    /// Faded by half if there are more samples than that.
    fn within(self, samples: f64) -> Self {
        if self.samples <= samples { self } else { Self { samples: self.samples / 2.0, stale: self.stale / 2.0 } }
    }

    fn share(&self) -> f64 {
        if self.samples > 0.0 { self.stale / self.samples } else { 0.0 }
    }

    /// Wilson's lower limit.
    fn low(&self, z: f64) -> f64 {
        (self.middle(z) - self.spread(z)).max(0.0)
    }

    /// Wilson's upper limit; 1 if nothing was seen.
    fn high(&self, z: f64) -> f64 {
        self.middle(z) + self.spread(z)
    }

    fn middle(&self, z: f64) -> f64 {
        (self.stale + z * z / 2.0) / (self.samples + z * z)
    }

    fn spread(&self, z: f64) -> f64 {
        let variance = self.stale * (1.0 - self.share()) + z * z / 4.0;
        z * libm::sqrt(variance) / (self.samples + z * z)
    }
}

/// Which hits are checked: at random, one in so many, within a budget. A hit costs a decrement.
///
/// Invariant: of n hits at most n / [`BUDGET`] + `credit_max` + 1 are checked; from the second tick on, of those that come evenly, [`PER_SECOND`].
#[derive(Debug)]
pub(super) struct Pace {
    rng: Rng,
    skip: u32,
    credit: f64,
    credit_max: f64,
    hits: u64,
    every_min: f64,
}

impl Pace {
    /// `every`: about where the first checked hit is.
    pub(super) fn new(seed: u64, every: f64, credit_max: f64) -> Self {
        let mut rng = Rng::for_purpose(seed, PURPOSE);
        let skip = (every * rng.exponential()) as u32;
        Self { rng, skip, credit: credit_max, credit_max, hits: u64::from(skip), every_min: 0.0 }
    }

    /// A hit; whether it is checked. The next one is about `every` away, further if the budget is used up.
    pub(super) fn hit(&mut self, every: f64) -> bool {
        if let Some(left) = self.skip.checked_sub(1) {
            self.skip = left;
            return false;
        }
        let every = if self.credit >= 1.0 { every } else { USUAL.max(every) };
        self.skip = ((every - 0.5).max(self.every_min) * self.rng.exponential()) as u32;
        let hits = f64::from(self.skip) + 1.0;
        self.hits += u64::from(self.skip) + 1;
        self.credit = (self.credit + hits / BUDGET - 1.0).min(self.credit_max);
        true
    }

    /// Hits that could not be checked: the next one is checked if one of them would have been.
    pub(super) fn repeated(&mut self, hits: u32) {
        self.skip = self.skip.saturating_sub(hits);
    }

    /// Hits until now, or since the last tick if there are any.
    fn hits(&self) -> u64 {
        self.hits.saturating_sub(u64::from(self.skip))
    }

    /// Ends an interval.
    pub(super) fn tick(&mut self, elapsed: Span) {
        let room = PER_SECOND * elapsed.as_secs_f64();
        self.every_min = if room > 0.0 { self.hits() as f64 / room } else { 0.0 };
        self.hits = u64::from(self.skip);
    }
}

/// One hit in so many is checked where the factor is settled ..
const USUAL: f64 = 128.0;
/// .. and while the share is not known to be below p*.
const QUICK: f64 = 16.0;
/// At most one hit in so many in the long run.
const BUDGET: f64 = 100.0;
/// At most so many checks a second and class under steady load.
const PER_SECOND: f64 = 200.0;
/// The budget begins with so many samples times p*: three of them, none stale, prove a share below p*.
const CREDIT_SAMPLES: f64 = 10.0;
/// So many samples times p* are all that is remembered.
const FULL_SAMPLES: f64 = 32.0;
/// A cut needs more than bad luck with the first samples.
const STALE_MIN: f64 = 3.0;
/// A cut aims at this part of p*: low enough for its upper limit, too high to rise again at once.
const AIM: f64 = 0.6;
/// Below this part of p* there is room to rise.
const CALM: f64 = 0.7;
/// A cut at once, at most.
const CUT_MAX: f64 = 1.0 / 16.0;
/// A cut without certainty.
const EASE: f64 = 0.8;
/// A rise: slower than a cut.
const RISE: f64 = 1.25;
/// Lives are never shorter than this part: with `ttl_max` at its default, half a second.
const FACTOR_MIN: f64 = 1.0 / 1024.0;
/// Slow ticks without a hit before a factor is tried one step higher: ten minutes.
const IDLE_TICKS: u32 = 20;
/// One-sided normal quantiles.
const Z_95: f64 = 1.645;
const Z_99: f64 = 2.326;
/// Of the random stream.
const PURPOSE: u64 = 0x7361_6d70_6c65;

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: Class = Class(3);

    fn at(secs: u64) -> Time {
        Time::ZERO + Span::from_secs(secs)
    }

    /// Hits whose stale share is `share` at factor 1 and proportional to it; the share of all of them that was stale.
    fn drive(sampler: &mut Sampler, rng: &mut Rng, share: f64, hits: u32) -> f64 {
        let mut expected = 0.0;
        for hit in 0..hits {
            let stale = (share * sampler.factor(CLASS)).min(1.0);
            expected += stale;
            if sampler.hit(CLASS) {
                let verdict = if rng.chance(stale) { Verdict::Different } else { Verdict::Same };
                sampler.verdict(at(u64::from(hit) / 1000), CLASS, verdict);
            }
        }
        expected / f64::from(hits)
    }

    #[test]
    fn the_loop_keeps_the_share_under_the_target_and_gives_back_what_it_can() {
        let (mut sampler, mut rng) = (Sampler::new(1e-2), Rng::new(4));
        // stale share at factor 1 in targets, then the factor's range after a million hits
        let phases = [(0.3, 1.0, 1.0), (5.0, 0.06, 0.2), (30.0, 0.008, 0.034), (0.3, 1.0, 1.0)];
        for (excess, low, high) in phases {
            let warm = drive(&mut sampler, &mut rng, excess * 1e-2, 1_000_000);
            let settled = drive(&mut sampler, &mut rng, excess * 1e-2, 2_000_000);
            let factor = sampler.factor(CLASS);
            std::println!("{excess} targets: {warm:.5}, then {settled:.5}, factor {factor:.3}");
            assert!((low..=high).contains(&factor), "{excess}: {factor}");
            assert!(settled < 1e-2 && warm < 1.2e-2, "{excess}: {warm}, {settled}");
        }
        assert_eq!(sampler.factor(Class(4)), 1.0, "a class learns alone");
    }

    #[test]
    fn a_settled_factor_does_not_swing() {
        for (seed, excess) in [(1, 0.5), (2, 1.0), (3, 2.0), (4, 10.0)] {
            let (mut sampler, mut rng) = (Sampler::new(1e-2), Rng::new(seed));
            drive(&mut sampler, &mut rng, excess * 1e-2, 2_000_000);
            let (mut turns, mut before, mut up) = (0, sampler.factor(CLASS), None);
            for _ in 0..4_000 {
                drive(&mut sampler, &mut rng, excess * 1e-2, 1_000);
                let now = sampler.factor(CLASS);
                if now != before {
                    turns += u32::from(up == Some(now < before));
                    (before, up) = (now, Some(now > before));
                }
            }
            // Four million hits are 30,000 samples or more: twenty times what a move upwards needs.
            assert!(turns <= 10, "{excess}: turned {turns} times");
        }
    }

    #[test]
    fn checks_stay_within_their_budget_and_every_place_is_as_likely() {
        let mut sampler = Sampler::new(1e-3);
        let mut places = [0_u32; 10];
        let hits = 3_000_000_u32;
        for hit in 0..hits {
            if sampler.hit(CLASS) {
                places[hit as usize % 10] += 1;
                sampler.verdict(at(1), CLASS, Verdict::Same);
            }
        }
        let checked: u32 = places.iter().sum();
        let most = f64::from(hits) / BUDGET + CREDIT_SAMPLES / 1e-3 + 1.0;
        assert!(f64::from(checked) <= most && checked > 20_000, "{checked} of at most {most}");
        assert!(places.iter().all(|&n| n.abs_diff(checked / 10) < checked / 50), "{places:?}");
    }

    #[test]
    fn a_part_follows_what_all_parts_have_learned() {
        let (mut lessons, mut part) = (Lessons::new(1e-2), Sampler::new(1e-2));
        (0..3).for_each(|_| lessons.verdict(at(50), CLASS, Verdict::Different));
        part.follow(CLASS, lessons.course(CLASS));
        assert!(part.factor(CLASS) < 1.0 && part.reach(CLASS, at(10), at(110)) < at(110));
        // Two parts with a million hits each in five seconds are checked as one with two millions.
        let hits = |_| 2_000_000;
        lessons.tick(at(50), |_| 0);
        lessons.tick(at(55), hits);
        part.follow(CLASS, lessons.course(CLASS));
        let checked = (0..1_000_000).filter(|_| part.hit(CLASS)).count();
        assert!((400..600).contains(&checked), "{checked}");
    }

    #[test]
    fn a_busy_class_is_checked_so_often_a_second_and_a_silent_one_is_tried_again() {
        let mut sampler = Sampler::new(1e-2);
        let second = |sampler: &mut Sampler| (0..500_000).filter(|_| sampler.hit(CLASS)).count();
        second(&mut sampler);
        sampler.tick(at(1));
        second(&mut sampler);
        sampler.tick(at(2));
        let checked = second(&mut sampler);
        assert!((100..300).contains(&checked), "{checked}");
        for _ in 0..50 {
            sampler.verdict(at(1), CLASS, Verdict::Different);
        }
        let cut = sampler.factor(CLASS);
        (1..=20 * IDLE_TICKS).for_each(|tick| sampler.tick(at(30 * u64::from(tick))));
        assert!(cut < 0.1 && sampler.factor(CLASS) > 4.0 * cut);
        assert!(sampler.factor(CLASS) <= 1.0);
    }

    #[test]
    fn a_cut_reaches_entries_that_are_already_there() {
        let mut sampler = Sampler::new(1e-2);
        assert_eq!(sampler.reach(CLASS, at(10), at(110)), at(110));
        (0..3).for_each(|_| sampler.verdict(at(50), CLASS, Verdict::Different));
        let factor = sampler.factor(CLASS);
        assert!((CUT_MAX..1.0).contains(&factor));
        assert_eq!(sampler.reach(CLASS, at(10), at(110)), at(10) + Span::from_secs(100).scale(factor));
        assert_eq!(sampler.reach(CLASS, at(50), at(150)), at(150), "filled after the cut");
        assert_eq!(sampler.reach(Class(4), at(10), at(110)), at(110), "another class");
    }

    #[test]
    fn limits_are_wilsons_and_unsure_checks_say_nothing() {
        let seen = |samples, stale| Evidence { samples, stale };
        // samples, stale, then the limits by hand
        for (samples, stale, low, high) in
            [(0.0, 0.0, 0.0, 1.0), (100.0, 0.0, 0.0, 0.026_35), (100.0, 10.0, 0.060_7, 0.160_4)]
        {
            let got = (seen(samples, stale).low(Z_95), seen(samples, stale).high(Z_95));
            assert!((got.0 - low).abs() < 5e-4 && (got.1 - high).abs() < 5e-4, "{samples} {stale}: {got:?}");
        }
        let mut sampler = Sampler::new(1e-2);
        (0..1000).for_each(|_| sampler.verdict(at(1), CLASS, Verdict::Unsure));
        assert_eq!(sampler.staleness(CLASS).samples, 0);
        assert_eq!(sampler.staleness(CLASS).high, 1.0);
    }
}
