//! Families of worlds: one a rule, that aims at it, and one of everything.

use super::event::Fault;
use super::truth::SERVERS_MAX;
use midas_core::cache;
use midas_core::peer::lease::{self, Terms};
use midas_core::rng::Rng;
use midas_core::time::{Span, Time};

/// Which worlds are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Every fault, none in particular.
    Mixed,
    /// Those that a rule between proxies is for.
    Lease(lease::Rule),
    /// Those that a rule of the cache is for.
    Cache(cache::Rule),
    /// Where what a name leads to is known from a cache that lost its leases meanwhile.
    Target,
    /// Where proxies ask each other for reads that hear nothing of each other at times.
    Lender,
}

/// The rules in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Laws {
    pub(super) lease: lease::Rules,
    pub(super) cache: cache::Rules,
    pub(super) target: bool,
    /// Who holds no leases answers no other proxy.
    pub(super) lender: bool,
}

/// How likely each fault is, a throw of the dice; four throws a lease.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) loss: f64,
    pub(super) doubled: f64,
    /// Messages that take up to `slow_span`.
    pub(super) slow: f64,
    pub(super) crash: f64,
    pub(super) crash_all: f64,
    pub(super) leave: f64,
    pub(super) pause: f64,
    pub(super) one_way: f64,
    pub(super) cut: f64,
    pub(super) split: f64,
    pub(super) broken: f64,
    pub(super) whim: f64,
    /// Views that are learned late.
    pub(super) late_view: f64,
    /// Calls that leave late after they were let through.
    pub(super) late_send: f64,
}

/// How often clients do what, relative to each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    pub(super) read_name: u32,
    pub(super) read_object: u32,
    pub(super) set: u32,
    pub(super) bump: u32,
    pub(super) make: u32,
    pub(super) remove: u32,
    pub(super) rename: u32,
}

/// One world's numbers.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a list of switches")]
pub(super) struct Plan {
    pub(super) terms: Terms,
    /// How late servers know of each other's changes.
    pub(super) stale: Span,
    pub(super) servers: u16,
    pub(super) names: u8,
    pub(super) objects: u8,
    pub(super) clients: usize,
    pub(super) think: Span,
    /// How long a server takes, on average.
    pub(super) service: Span,
    /// How much longer a mutation takes.
    pub(super) heavy: f64,
    /// Whether disks keep what was written.
    pub(super) disks: bool,
    /// How long a message takes, on average.
    pub(super) delay: Span,
    pub(super) slow_span: Span,
    pub(super) mix: Mix,
    pub(super) faults: Faults,
    /// Whether objects that are set all the time are held.
    pub(super) holds: bool,
    /// The share of reads that another proxy is asked for.
    pub(super) fetched: f64,
    /// Whether a client's second try goes to another proxy for sure.
    pub(super) elsewhere: bool,
    pub(super) patience: Span,
    /// Clock rates at the ends of their range.
    pub(super) extreme: bool,
    pub(super) script: Vec<(Time, Fault)>,
    /// How long a suspicion takes.
    pub(super) suspicion: Span,
    pub(super) calm: Time,
    pub(super) probe: Time,
    pub(super) end: Time,
}

impl Family {
    /// All of them.
    pub fn all() -> Vec<Self> {
        let lease = lease::Rule::ALL.into_iter().map(Self::Lease);
        let cache = CACHE_RULES.into_iter().map(Self::Cache);
        std::iter::once(Self::Mixed).chain(lease).chain(cache).chain([Self::Target, Self::Lender]).collect()
    }

    /// The word for commands and tables.
    pub fn name(self) -> String {
        let word = match self {
            Self::Mixed => "Mixed".to_owned(),
            Self::Target => "Target".to_owned(),
            Self::Lender => "Lender".to_owned(),
            Self::Lease(rule) => format!("{rule:?}"),
            Self::Cache(rule) => format!("Fill{rule:?}"),
        };
        let upper = |(at, c): (usize, char)| match c.is_uppercase() && at > 0 {
            true => format!("-{}", c.to_lowercase()),
            false => c.to_lowercase().to_string(),
        };
        word.chars().enumerate().map(upper).collect()
    }

    pub(super) fn plan(self, proxies: usize, seed: u64, laws: Laws) -> Plan {
        let mut rng = Rng::for_purpose(seed, 0x706c_616e);
        let mut plan = Plan::mixed(proxies, &mut rng);
        plan.aim(self, &mut rng);
        // That a rule is needed is shown without what another could do wrong.
        let whole = laws == Laws::ALL;
        plan.fetched = if whole || self == Self::Lender { FETCHED } else { 0.0 };
        plan.times();
        plan
    }

    /// All rules but the one this family aims at.
    pub(super) fn without(self) -> Laws {
        const WHY: &str = "the simulated cluster must see a wrong answer";
        let all = Laws::ALL;
        match self {
            Self::Mixed => all,
            Self::Lease(rule) => Laws { lease: lease::broken::without(rule, WHY), ..all },
            Self::Cache(rule) => Laws { cache: cache::broken::without(rule, WHY), ..all },
            Self::Target => Laws { target: false, ..all },
            Self::Lender => Laws { lender: false, ..all },
        }
    }
}

impl Laws {
    pub(super) const ALL: Self =
        Self { lease: lease::Rules::ALL, cache: cache::Rules::ALL, target: true, lender: true };
}

impl Plan {
    fn mixed(proxies: usize, rng: &mut Rng) -> Self {
        let stale = if rng.chance(0.5) { LEASE.scale(0.4) } else { Span::ZERO };
        // Some worlds are calm in most respects: too many faults at once hide each other.
        let mut some = |most: f64| if rng.chance(0.5) { most * rng.unit() } else { 0.0 };
        let faults = Faults {
            loss: some(0.2),
            doubled: some(0.2),
            slow: some(0.2),
            crash: some(0.1),
            crash_all: some(0.02),
            leave: some(0.1),
            pause: some(0.1),
            one_way: some(0.1),
            cut: some(0.1),
            split: some(0.1),
            broken: some(0.1),
            whim: some(0.1),
            late_view: some(0.3),
            late_send: some(0.2),
        };
        Self {
            terms: Terms {
                size: proxies,
                lease: LEASE,
                hold: LEASE,
                stale,
                drift: DRIFT,
                remember: Span::from_secs(3600),
            },
            stale,
            servers: 2 + rng.below(SERVERS_MAX - 1) as u16,
            names: 2 + rng.below(3) as u8,
            objects: 2,
            clients: 4 + rng.below(4),
            think: LEASE.scale(0.03),
            service: LEASE.scale(0.01),
            heavy: 1.0,
            disks: true,
            delay: LEASE.scale(0.005),
            slow_span: LEASE.scale(1.5),
            mix: Mix { read_name: 16, read_object: 16, set: 3, bump: 1, make: 2, remove: 2, rename: 2 },
            faults,
            holds: rng.chance(0.5),
            fetched: 0.0,
            elsewhere: rng.chance(0.5),
            patience: LEASE.scale(0.5),
            extreme: rng.chance(0.3),
            script: Vec::new(),
            suspicion: LEASE.scale(0.3 + rng.unit()),
            calm: Time::ZERO,
            probe: Time::ZERO,
            end: Time::ZERO,
        }
    }

    /// Faults for a while, then time for every wait that a rule may impose, twice.
    fn times(&mut self) {
        let wait = self.terms.lease + self.terms.hold;
        self.calm = Time::ZERO + self.terms.lease * 8;
        self.probe = self.calm + self.suspicion + wait * 2 + self.terms.lease;
        // The last calls want the same few objects, one at a time.
        self.end = self.probe + wait * 2 + self.terms.lease * 4;
    }
}

/// Cache rules that matter between proxies.
const CACHE_RULES: [cache::Rule; 4] =
    [cache::Rule::Pending, cache::Rule::Epoch, cache::Rule::EndBump, cache::Rule::Join];
/// Reads for which another proxy is asked.
const FETCHED: f64 = 0.4;
/// L.
const LEASE: Span = Span::from_secs(1);
/// Clocks run at 0.9 to 1.1 of the true rate: one may be 1.1 / 0.9 times as fast as another.
const DRIFT: u32 = 223;
