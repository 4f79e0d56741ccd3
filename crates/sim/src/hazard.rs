//! The hazard target, measured on the core's own cache: of the entries that it keeps in ttl mode, how many go stale?
//!
//! Independent objects change by themselves and are read at random; a fetch takes no time. An entry is stale if its object changes before
//! its horizon, whether or not somebody reads it then; an answer is, if it is no longer true. Entries are what an estimate promises (popular
//! objects must not hide the others), answers what users get and what the loop over checked hits keeps below p*.
//! Objects are drawn anew for every measurement, and entries of one object are not independent: the interval is over objects.

use midas_core::cache::{
    self, Cache, Class, CleanStart, Estimator, Facts, Fill, Mode, Params, Read, Rules, Settings, Staleness,
};
use midas_core::rng::Rng;
use midas_core::time::{Span, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hazard {
    /// p*. Paper: P10.
    pub stale_target: f64,
    /// Mean time between two reads of an object.
    pub read_gap: Span,
    /// How hazards are estimated.
    pub estimator: Estimator,
    /// Whether the hits that the cache wants checked are: without it the loop learns nothing and the estimate stands alone.
    pub checked: bool,
    /// How objects change.
    pub changes: Changes,
    /// Entries to keep.
    pub entries: u64,
    /// One seed is one world.
    pub seed: u64,
}

/// How objects change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// At a constant hazard.
    Stationary,
    /// At a tenth of it for 1000 s on average, then ten times as fast for 100 s: what no estimate of one hazard can follow.
    Bursty,
    /// With gaps from a Pareto distribution of index 1.5: no second moment.
    Pareto,
    /// A twentieth of the objects bursty and read ten times as often, the others never.
    Mixed,
    /// At a constant hazard, and every change draws readers at once: the worst that readers can do to a cache without news.
    Followed,
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Of the entries that were kept, those whose object changed before their horizon.
    pub entries: Share,
    /// The same for objects with hazards in 1e-4..1e-3, 1e-3..1e-2, 1e-2..1e-1 and 1e-1..1 a second.
    pub decades: [Share; DECADES],
    /// Of the answers from the cache, those that were no longer true.
    pub answers: Share,
    /// Of the reads, those answered from the cache.
    pub hit_share: f64,
    /// What the cache itself believed in the end.
    pub believed: Staleness,
}

/// A part of a whole, with the standard error of the ratio over independent objects.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// The whole.
    pub of: u64,
    /// The part, relative to it.
    pub share: f64,
    /// Half the width of the 95 % interval.
    pub half_width: f64,
}

/// Whether a share stays below a limit, as far as the interval can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval does.
    Holds,
    /// A part of it.
    Open,
    /// Nothing of it.
    Broken,
}

impl Share {
    /// How it stands against a limit.
    pub fn below(&self, limit: f64) -> Verdict {
        match () {
            () if self.share + self.half_width <= limit => Verdict::Holds,
            () if self.share - self.half_width > limit => Verdict::Broken,
            () => Verdict::Open,
        }
    }

    /// Of pairs of (part, whole), one an object. The error of a ratio of sums: the residuals add up by square.
    fn over(pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let sum = |pick: fn((u32, u32)) -> u32| pairs.clone().map(|pair| u64::from(pick(pair))).sum::<u64>();
        let (part, of) = (sum(|pair| pair.0), sum(|pair| pair.1));
        if of == 0 {
            return Self::default();
        }
        let share = part as f64 / of as f64;
        let residual = |(part, of): (u32, u32)| f64::from(part) - share * f64::from(of);
        let squares: f64 = pairs.map(|pair| residual(pair) * residual(pair)).sum();
        Self { of, share, half_width: 1.96 * libm::sqrt(squares) / of as f64 }
    }
}

impl Verdict {
    /// The word for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Open => "open",
            Self::Broken => "broken",
        }
    }
}

impl Changes {
    /// The word for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stationary => "stationary",
            Self::Bursty => "bursty",
            Self::Pareto => "pareto",
            Self::Mixed => "mixed",
            Self::Followed => "followed",
        }
    }

    /// Every world.
    pub const ALL: [Self; 5] = [Self::Stationary, Self::Bursty, Self::Pareto, Self::Mixed, Self::Followed];

    /// The mean time between two reads of an object, in milliseconds, that is worth a row.
    const fn read_gaps(self) -> &'static [u64] {
        match self {
            Self::Stationary => &[1_000, 10_000, 100_000],
            Self::Bursty => &[1_000, 10_000],
            Self::Pareto | Self::Mixed | Self::Followed => &[1_000],
        }
    }

    /// Times as many entries: where the loop has to learn, what it cost until then must not be all that is seen.
    const fn patience(self) -> u64 {
        match self {
            Self::Stationary | Self::Bursty | Self::Pareto | Self::Mixed => 1,
            Self::Followed => 5,
        }
    }
}

impl Hazard {
    /// Every measurement of the table: each world, both targets, our estimator with the loop and without it, and the paper's.
    pub fn table(entries: u64, seed: u64) -> Vec<Self> {
        let mut rows = Vec::new();
        for changes in Changes::ALL {
            for stale_target in [1e-2, 1e-3] {
                for &gap in changes.read_gaps() {
                    let read_gap = Span::from_millis(gap);
                    let rivals = [(Estimator::Object, true), (Estimator::Object, false), (Estimator::Paper, false)];
                    rows.extend(rivals.map(|(estimator, checked)| Self {
                        stale_target,
                        read_gap,
                        estimator,
                        checked,
                        changes,
                        entries: entries * changes.patience(),
                        seed,
                    }));
                }
            }
        }
        rows
    }

    /// Reads until enough entries were kept.
    pub fn measure(&self) -> Measured {
        let mut world = World::new(self);
        while world.kept < self.entries {
            world.read();
        }
        world.measured()
    }

    fn cache(&self) -> Cache<u32, ()> {
        let settings = Settings {
            mode: Mode::Ttl,
            stale_target: self.stale_target,
            estimator: self.estimator,
            entries_max: OBJECTS,
            ..Settings::default()
        };
        let params = Params::new(settings).expect("a target between 0 and 1 is possible");
        Cache::new(params, Rules::ALL, START, CleanStart::Yes)
    }
}

/// Objects, their one cache, and the time.
struct World {
    cache: Cache<u32, ()>,
    objects: Vec<Object>,
    rng: Rng,
    changes: Changes,
    checked: bool,
    now: f64,
    gap: f64,
    next_read: f64,
    /// Readers that follow a change: when, in nanoseconds, and of what.
    followers: BinaryHeap<Reverse<(u64, u32)>>,
    next_tick: f64,
    kept: u64,
}

impl World {
    fn new(hazard: &Hazard) -> Self {
        let mut rng = Rng::for_purpose(hazard.seed, 0x6861_7a61_7264);
        let objects: Vec<Object> = (0..OBJECTS).map(|at| Object::new(hazard.changes, at < HOT, &mut rng)).collect();
        let start = START.as_secs_f64();
        let mut world = Self {
            cache: hazard.cache(),
            objects,
            rng,
            changes: hazard.changes,
            checked: hazard.checked,
            now: start,
            gap: hazard.read_gap.as_secs_f64() / OBJECTS as f64,
            next_read: start,
            followers: BinaryHeap::new(),
            next_tick: start + SLOW_TICK,
            kept: 0,
        };
        (0..OBJECTS as u32).for_each(|key| world.follow(key));
        world
    }

    /// The next read, of any object: all of them together are read as a Poisson process, and some of them when they changed.
    fn read(&mut self) {
        let key = self.reader();
        if self.now >= self.next_tick {
            self.cache.tick(at(self.now));
            self.next_tick = self.now + SLOW_TICK;
        }
        self.advance(key);
        let object = &mut self.objects[key as usize];
        match self.cache.read(at(self.now), key, Class(0)) {
            Read::Answer { .. } => {
                let stale = object.answered();
                self.check(key, stale);
            }
            Read::Join(_) => {}
            Read::Fetch(fetch) => {
                let facts = Facts { changed_at: Some(at(object.changed)), cost: 1, ..Facts::default() };
                if let Fill::Kept { horizon } = self.cache.filled(at(self.now), fetch, &(), facts) {
                    self.kept += 1;
                    object.filled(self.now, horizon);
                }
            }
        }
    }

    /// Moves the time to the next read; of which object.
    fn reader(&mut self) -> u32 {
        if let Some(&Reverse((when, key))) = self.followers.peek()
            && when as f64 * 1e-9 <= self.next_read
        {
            self.followers.pop();
            self.now = self.now.max(when as f64 * 1e-9);
            return key;
        }
        self.now = self.next_read;
        self.next_read += self.gap * self.rng.exponential();
        let hot = self.changes == Changes::Mixed && self.rng.chance(HOT_READS);
        self.rng.below(if hot { HOT } else { OBJECTS }) as u32
    }

    fn advance(&mut self, key: u32) {
        let object = &mut self.objects[key as usize];
        if object.next_change <= self.now {
            object.advance(self.now, &mut self.rng);
            self.follow(key);
        }
    }

    /// Whoever waits for an object's next change reads it soon after.
    fn follow(&mut self, key: u32) {
        let followers = if self.changes == Changes::Followed { FOLLOWERS } else { 0 };
        for _ in 0..followers {
            let when = self.objects[key as usize].next_change + FOLLOW_DELAY * self.rng.exponential();
            self.followers.push(Reverse((at(when).as_nanos(), key)));
        }
    }

    fn check(&mut self, key: u32, stale: bool) {
        if self.cache.sampled() && self.checked {
            let verdict = if stale { cache::Verdict::Different } else { cache::Verdict::Same };
            self.cache.verdict(at(self.now), key, Class(0), verdict);
        }
    }

    fn measured(&self) -> Measured {
        let entries = |decade: Option<usize>| {
            let of = self.objects.iter().filter(move |object| decade.is_none_or(|decade| object.decade() == decade));
            Share::over(of.map(|object| (object.stale_entries, object.entries)))
        };
        Measured {
            entries: entries(None),
            decades: std::array::from_fn(|decade| entries(Some(decade))),
            answers: Share::over(self.objects.iter().map(|object| (object.stale_answers, object.answers))),
            hit_share: self.cache.stats().hit_share,
            believed: self.cache.staleness(Class(0)),
        }
    }
}

/// Something that changes.
#[derive(Clone, Copy, Debug)]
struct Object {
    hazard: f64,
    gaps: Gaps,
    phase: Phase,
    changed: f64,
    next_change: f64,
    filled_at: f64,
    entries: u32,
    stale_entries: u32,
    answers: u32,
    stale_answers: u32,
}

/// How long it is from one change to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gaps {
    Exponential,
    Pareto,
    Endless,
}

/// By which factor the hazard is off its mean, and until when.
#[derive(Clone, Copy, Debug)]
struct Phase {
    factor: f64,
    until: f64,
}

impl Object {
    fn new(changes: Changes, hot: bool, rng: &mut Rng) -> Self {
        let decades = DECADES as f64 * (rng.unit() - 1.0);
        // Where everyone waits for changes, only slow objects can be cached at all: the lower half of the decades.
        let decades = if changes == Changes::Followed { (decades - DECADES as f64) / 2.0 } else { decades };
        let hazard = libm::pow(10.0, decades);
        let steady = Phase { factor: 1.0, until: f64::INFINITY };
        let bursty = Phase { factor: QUIET.0, until: 0.0 };
        let (phase, gaps) = match changes {
            Changes::Stationary | Changes::Followed => (steady, Gaps::Exponential),
            Changes::Bursty => (bursty, Gaps::Exponential),
            Changes::Pareto => (steady, Gaps::Pareto),
            Changes::Mixed if hot => (bursty, Gaps::Exponential),
            Changes::Mixed => (steady, Gaps::Endless),
        };
        let mut object = Self {
            hazard,
            gaps,
            phase,
            changed: 0.0,
            next_change: 0.0,
            filled_at: 0.0,
            entries: 0,
            stale_entries: 0,
            answers: 0,
            stale_answers: 0,
        };
        // A history of 100 changes: the object's age at its first look is as likely as any other.
        let start = START.as_secs_f64();
        let begin = start - 100.0 / hazard;
        object.phase.until = object.phase.until.max(begin);
        (object.changed, object.next_change) = (begin, object.draw(begin, rng));
        object.advance(start, rng);
        object
    }

    fn decade(&self) -> usize {
        ((libm::log10(self.hazard) + DECADES as f64) as usize).min(DECADES - 1)
    }

    fn advance(&mut self, now: f64, rng: &mut Rng) {
        while self.next_change <= now {
            self.changed = self.next_change;
            self.next_change = self.draw(self.changed, rng);
        }
    }

    /// The first change after one at `from`.
    fn draw(&mut self, from: f64, rng: &mut Rng) -> f64 {
        match self.gaps {
            Gaps::Exponential => self.draw_exponential(from, rng),
            Gaps::Pareto => from + PARETO_LEAST / self.hazard * libm::pow(1.0 - rng.unit(), -1.0 / PARETO_INDEX),
            Gaps::Endless => f64::INFINITY,
        }
    }

    /// In every phase anew, because an exponential has no memory.
    fn draw_exponential(&mut self, mut from: f64, rng: &mut Rng) -> f64 {
        loop {
            let next = from + rng.exponential() / (self.hazard * self.phase.factor);
            if next <= self.phase.until {
                return next;
            }
            from = self.phase.until;
            let (factor, lasts) = if self.phase.factor < 1.0 { BUSY } else { QUIET };
            self.phase = Phase { factor, until: from + lasts * rng.exponential() };
        }
    }

    fn filled(&mut self, now: f64, horizon: Time) {
        self.filled_at = now;
        self.entries += 1;
        self.stale_entries += u32::from(at(self.next_change) < horizon);
    }

    /// Whether the answer was stale.
    fn answered(&mut self) -> bool {
        let stale = self.changed > self.filled_at;
        self.answers += 1;
        self.stale_answers += u32::from(stale);
        stale
    }
}

fn at(seconds: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(seconds)
}

/// Hazards are log-uniform over so many decades below one change a second.
pub const DECADES: usize = 4;
/// Independent objects.
const OBJECTS: usize = 10_000;
/// When reading begins: the longest history reaches back to the origin.
const START: Time = Time::from_nanos(1_000_000 * 1_000_000_000);
/// T_slow in seconds. Paper: P10.
const SLOW_TICK: f64 = 30.0;
/// The bursty world's phases: by how much the hazard is off, and the mean length in seconds. The mean hazard is the object's own.
const QUIET: (f64, f64) = (0.1, 1000.0);
const BUSY: (f64, f64) = (10.0, 100.0);
/// Gaps are Pareto with this index; their least value, so that the mean is 1 over the hazard.
const PARETO_INDEX: f64 = 1.5;
const PARETO_LEAST: f64 = 1.0 / 3.0;
/// The mixed world's objects that change at all, and the share of reads that goes to them alone: ten times their part.
const HOT: usize = OBJECTS / 20;
const HOT_READS: f64 = 1.0 / 3.0;
/// The followed world's readers of a change, and how long after it they come on average, in seconds.
const FOLLOWERS: usize = 20;
const FOLLOW_DELAY: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn hazard(estimator: Estimator) -> Hazard {
        let (stale_target, read_gap, changes) = (1e-2, Span::from_secs(1), Changes::Stationary);
        Hazard { stale_target, read_gap, estimator, checked: true, changes, entries: 100_000, seed: 1 }
    }

    #[test]
    fn same_seed_same_measurement_and_the_decades_add_up() {
        let measured = hazard(Estimator::Object).measure();
        assert_eq!(measured, hazard(Estimator::Object).measure());
        assert_ne!(measured, Hazard { seed: 2, ..hazard(Estimator::Object) }.measure());
        assert_eq!(measured.entries.of, 100_000);
        assert_eq!(measured.decades.iter().map(|decade| decade.of).sum::<u64>(), 100_000);
    }

    #[test]
    fn our_estimator_keeps_the_target_and_the_papers_hardly_answers() {
        let (ours, papers) = (hazard(Estimator::Object).measure(), hazard(Estimator::Paper).measure());
        assert_eq!(ours.entries.below(1.1e-2), Verdict::Holds, "{ours:?}");
        assert!(ours.hit_share > 10.0 * papers.hit_share, "{} and {}", ours.hit_share, papers.hit_share);
    }

    #[test]
    fn the_loop_keeps_the_answers_under_the_target_where_the_estimate_alone_does_not() {
        let followed =
            |checked| Hazard { checked, changes: Changes::Followed, entries: 500_000, ..hazard(Estimator::Object) };
        let (with, without) = (followed(true).measure(), followed(false).measure());
        assert_eq!(with.answers.below(1.2e-2), Verdict::Holds, "{with:?}");
        assert_eq!(without.answers.below(1.2e-2), Verdict::Broken, "{without:?}");
        assert!(with.believed.factor < 1.0 && with.hit_share > 0.5 * without.hit_share, "{with:?}");
        assert!(with.believed.low <= 1e-2 && with.believed.samples < with.answers.of / 100 + 1_001);
    }

    #[test]
    fn bursts_heavy_tails_and_a_hot_few_stay_under_the_target() {
        for changes in [Changes::Bursty, Changes::Pareto, Changes::Mixed] {
            let measured = Hazard { changes, ..hazard(Estimator::Object) }.measure();
            assert_eq!(measured.answers.below(1.2e-2), Verdict::Holds, "{changes:?}: {measured:?}");
            assert_eq!(measured.entries.below(1.1e-2), Verdict::Holds, "{changes:?}: {measured:?}");
            assert!(measured.hit_share > 0.3, "{changes:?}: {}", measured.hit_share);
        }
    }

    #[test]
    fn a_verdict_needs_the_whole_interval() {
        let share = |share, half_width| Share { of: 1, share, half_width };
        let cases = [(0.5, 0.1, Verdict::Holds), (0.95, 0.1, Verdict::Open), (1.05, 0.1, Verdict::Open)];
        for (mean, half, want) in cases {
            assert_eq!(share(mean, half).below(1.0), want);
        }
        assert_eq!(share(1.2, 0.1).below(1.0), Verdict::Broken);
        let pairs = [(1, 10), (3, 10)];
        let Share { of, share, half_width } = Share::over(pairs.into_iter());
        assert!(of == 20 && (share - 0.2).abs() < 1e-12);
        assert!((half_width - 1.96 * libm::sqrt(2.0) / 20.0).abs() < 1e-12, "residuals of -1 and +1");
    }
}
