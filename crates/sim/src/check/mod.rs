//! Checkers of the invariants. They run in every simulation; the first violation ends it and names the seed.

mod budget;
mod knobs;

use crate::config::Config;
use crate::model::truth::Entry;
use crate::policy::Contender;
use budget::BudgetCheck;
use knobs::KnobCheck;
use midas_core::cache::{Mode, Settings, Stats};
use midas_core::control::knobs::Knobs;
use midas_core::decision::{Route, Why};
use midas_core::id::ServerId;
use midas_core::key::Key;
use midas_core::load::Load;
use midas_core::route::policy::Policy;
use midas_core::servers::Servers;
use midas_core::time::Time;
use std::collections::HashMap;
use std::fmt;

/// The invariants, by the numbers of ARCHITECTURE.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// 1: a mutation is never answered from a cache.
    MutationAnswered,
    /// 2: no answer is older than its horizon; in strict and lease mode none older than what was promised.
    Horizon,
    /// 3: every forwarded call is settled exactly once.
    SettledOnce,
    /// 4: a key's home depends only on the key and the membership.
    Home,
    /// 5: every fresh steer of a read has its gap, while shares tell anything; `paper` keeps its budget.
    Steer,
    /// 6: knobs stay in range and move one step a tick.
    Knobs,
    /// 7: a call that changes something is never executed twice (nothing retransmits in this world yet).
    ExecutedOnce,
    /// 8: memory stays under its caps.
    Memory,
}

/// A broken invariant: what to run again.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which one.
    pub invariant: Invariant,
    /// When.
    pub at: Time,
    /// In which world.
    pub seed: u64,
    /// What was seen.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invariant, at, seed, detail } = self;
        write!(f, "invariant {invariant:?} broken at {:.6} s with seed {seed}: {detail}", at.as_secs_f64())
    }
}

impl std::error::Error for Violation {}

/// All checkers of a run.
#[derive(Debug)]
pub(crate) struct Checks {
    seed: u64,
    policy: Contender,
    coherent: bool,
    homes: HashMap<Key, ServerId>,
    budgets: Vec<BudgetCheck>,
    knobs: Vec<KnobCheck>,
    /// Mutations in the order of their numbers that were executed.
    executed: Vec<bool>,
    entries_max: usize,
    bytes_max: usize,
}

/// A value that a client got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) entry: Entry,
    pub(crate) got: u64,
    pub(crate) promised: u64,
}

impl Checks {
    pub(crate) fn new(config: &Config) -> Self {
        let count = config.proxies as usize;
        let mode = config.cache.map(|cache| cache.mode);
        let limits = Settings::default();
        let relaxed = matches!(mode, Some(Mode::Ttl | Mode::Immutable)) || config.faults.bypass_rate > 0.0;
        let relaxed = relaxed || config.fenced_for() != config.staleness;
        Self {
            seed: config.seed,
            policy: config.policy,
            coherent: !relaxed,
            homes: HashMap::new(),
            budgets: vec![BudgetCheck::default(); count],
            knobs: vec![KnobCheck::default(); count],
            executed: Vec::new(),
            entries_max: config.cache.map_or(limits.entries_max, |cache| cache.entries_max),
            bytes_max: limits.bytes_max,
        }
    }

    pub(crate) fn cached(&self, at: Time, mutates: bool, horizon: Time) -> Result<(), Violation> {
        if mutates {
            return self.broken(at, Invariant::MutationAnswered, "a mutation was answered from the cache".to_owned());
        }
        match at < horizon {
            true => Ok(()),
            false => self.broken(at, Invariant::Horizon, format!("answered past its horizon {horizon:?}")),
        }
    }

    /// Whether an answer was stale; in a coherent setting that is a violation.
    pub(crate) fn answered(&self, at: Time, answer: Answer) -> Result<bool, Violation> {
        match (answer.got < answer.promised, self.coherent) {
            (false, _) => Ok(false),
            (true, false) => Ok(true),
            (true, true) => self.broken(
                at,
                Invariant::Horizon,
                format!(
                    "{:?} was answered with version {}, promised was {}",
                    answer.entry, answer.got, answer.promised
                ),
            ),
        }
    }

    pub(crate) fn routed(
        &mut self,
        at: Time,
        proxy: usize,
        key: Key,
        route: &Route,
        knobs: &Knobs,
    ) -> Result<(), Violation> {
        if let Contender::Core(policy) = self.policy {
            let home = *self.homes.entry(key).or_insert(route.home);
            if home != route.home {
                return self.broken(at, Invariant::Home, format!("{key:?} moved from {home:?} to {:?}", route.home));
            }
            match policy {
                Policy::FirstFit(_) | Policy::Observe => self.gap(at, route, knobs)?,
                Policy::Paper(reading) => {
                    if let Err(detail) = self.budgets[proxy].routed(reading, route, knobs) {
                        return self.broken(at, Invariant::Steer, detail);
                    }
                }
                Policy::HashDirectory | Policy::RoundRobin | Policy::RoundRobinDirectory => {}
            }
        }
        Ok(())
    }

    pub(crate) fn ticked(&mut self, at: Time, proxy: usize, knobs: &Knobs) -> Result<(), Violation> {
        match self.knobs[proxy].ticked(knobs) {
            Ok(()) => Ok(()),
            Err(detail) => self.broken(at, Invariant::Knobs, detail),
        }
    }

    pub(crate) fn executed(&mut self, at: Time, number: u64) -> Result<(), Violation> {
        let index = number as usize;
        if self.executed.len() <= index {
            self.executed.resize(index + 1, false);
        }
        match std::mem::replace(&mut self.executed[index], true) {
            false => Ok(()),
            true => self.broken(at, Invariant::ExecutedOnce, format!("call {number} was executed twice")),
        }
    }

    pub(crate) fn memory(&self, at: Time, stats: &Stats) -> Result<(), Violation> {
        match stats.entries <= self.entries_max && stats.bytes <= self.bytes_max {
            true => Ok(()),
            false => self.broken(at, Invariant::Memory, format!("{stats:?}")),
        }
    }

    pub(crate) fn ended(&self, at: Time, left: usize, in_flight: u32) -> Result<(), Violation> {
        match left == 0 && in_flight == 0 {
            true => Ok(()),
            false => {
                self.broken(at, Invariant::SettledOnce, format!("{left} calls never ended, {in_flight} in flight"))
            }
        }
    }

    pub(crate) fn broken<T>(&self, at: Time, invariant: Invariant, detail: String) -> Result<T, Violation> {
        Err(Violation { invariant, at, seed: self.seed, detail })
    }

    /// What the policy says of a steer is what the proxy's counts say: they are looked at again, with the call itself taken out.
    pub(crate) fn steered(&self, at: Time, route: &Route, servers: &Servers) -> Result<(), Violation> {
        let (Contender::Core(Policy::FirstFit(_)), Why::Steered { from, gap }) = (self.policy, route.why) else {
            return Ok(());
        };
        let before = servers.load(route.to) - Load::ONE - servers.echo();
        let target = before.weighted(servers.view(route.to).weight);
        match servers.work(from) - target == gap {
            true => Ok(()),
            false => self.broken(at, Invariant::Steer, format!("{route:?} is not what the counts say: {target:?}")),
        }
    }

    /// A fresh steer of a read has at least min(gap, 2) between home and target in the proxy's view.
    fn gap(&self, at: Time, route: &Route, knobs: &Knobs) -> Result<(), Violation> {
        let least = knobs.gap.min(Load::calls(2));
        match route.why {
            Why::Steered { gap, .. } if gap < least => {
                self.broken(at, Invariant::Steer, format!("{route:?} below {least:?}"))
            }
            Why::Steered { .. }
            | Why::Home
            | Why::Pinned
            | Why::Split { .. }
            | Why::Overflow
            | Why::Capped
            | Why::Rerouted(_)
            | Why::Panic
            | Why::Turn
            | Why::Observed { .. } => Ok(()),
        }
    }
}
