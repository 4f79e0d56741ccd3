//! Where a call goes. Paper: P6-P9, P14, P15.

pub mod apart;
pub mod budget;
pub mod feasible;
pub mod fence;
pub(crate) mod first_fit;
pub mod moves;
pub mod paper;
pub mod pin;
pub mod placement;
pub mod policy;
pub mod ring;
pub mod width;

#[cfg(test)]
mod tests;

use crate::control::knobs::Knobs;
use crate::decision::{Exclusion, Route, Why};
use crate::id::ServerId;
use crate::key::Key;
use crate::rng::Rng;
use crate::servers::Servers;
use crate::time::Time;
use alloc::collections::BTreeMap;
use budget::SteerBudget;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use feasible::{Feasible, Target};
use first_fit::Scene;
use policy::Policy;

/// Routing state that belongs to keys: pins, widths, directories placed in turn.
#[derive(Debug)]
pub struct Router {
    policy: Policy,
    rng: Rng,
    /// Pins serve both policies; widths only first-fit.
    keys: first_fit::State,
    keys_max: usize,
    turns: BTreeMap<Key, ServerId>,
}

impl Router {
    /// A router with this policy; `seed` feeds its draws.
    pub fn new(policy: Policy, seed: u64) -> Self {
        Self::of_part(policy, seed, pin::PINS_MAX)
    }

    /// A router of one part of the key space, that remembers so many keys: tables that every call looks into should stay in the
    /// processor's cache.
    pub fn of_part(policy: Policy, seed: u64, keys: usize) -> Self {
        Self {
            policy,
            rng: Rng::for_purpose(seed, 0x0072_6f75_7465),
            keys: first_fit::State::new(keys),
            keys_max: keys,
            turns: BTreeMap::new(),
        }
    }

    /// The policy in force.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Another policy from now on. What was remembered for the one before is forgotten.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
        self.keys = first_fit::State::new(self.keys_max);
        self.turns.clear();
    }

    /// Chooses a server, or says why no server may serve the call now.
    #[inline]
    pub fn choose(&mut self, now: Time, servers: &Servers, knobs: &Knobs, target: &Target) -> Result<Route, Exclusion> {
        let policy = self.in_force(knobs);
        let feasible = Feasible::of(servers, target, key(policy, target))?;
        servers.slots[feasible.home.index()].homed.fetch_add(1, Relaxed);
        let scene = Scene { now, servers, knobs, feasible: &feasible, target };
        let Self { rng, keys, turns, .. } = self;
        let memory = Memory { keys, rng, turns, budget: &servers.budget, turn: &servers.turn };
        let (to, why) = memory.decide(policy, &scene);
        if policy == Policy::RoundRobinDirectory && turns.len() < TURNS_MAX {
            turns.entry(target.home).or_insert(to);
        }
        Ok(route(&scene, to, why))
    }

    /// What [`Router::choose`] would say now. It decides on copies: nothing is pinned, counted or taken.
    pub fn would(&self, now: Time, servers: &Servers, knobs: &Knobs, target: &Target) -> Result<Route, Exclusion> {
        let policy = self.in_force(knobs);
        let feasible = Feasible::of(servers, target, key(policy, target))?;
        let scene = Scene { now, servers, knobs, feasible: &feasible, target };
        let (mut keys, mut rng) = (self.keys.clone(), self.rng.clone());
        let (budget, turn) = (servers.budget.copy(), AtomicUsize::new(servers.turn.load(Relaxed)));
        let memory = Memory { keys: &mut keys, rng: &mut rng, turns: &self.turns, budget: &budget, turn: &turn };
        let (to, why) = memory.decide(policy, &scene);
        Ok(route(&scene, to, why))
    }

    /// The administrator's way out overrules the policy.
    fn in_force(&self, knobs: &Knobs) -> Policy {
        if knobs.bypass { Policy::HashDirectory } else { self.policy }
    }
}

/// What policies remember and draw from.
struct Memory<'a> {
    keys: &'a mut first_fit::State,
    rng: &'a mut Rng,
    turns: &'a BTreeMap<Key, ServerId>,
    budget: &'a SteerBudget,
    turn: &'a AtomicUsize,
}

impl Memory<'_> {
    fn decide(self, policy: Policy, scene: &Scene<'_>) -> (ServerId, Why) {
        let feasible = scene.feasible;
        match policy {
            Policy::FirstFit(_) | Policy::Observe | Policy::Paper(_) if scene.target.stays => {
                (feasible.primary, Why::Home)
            }
            Policy::FirstFit(_) => self.keys.choose(scene, self.rng),
            Policy::Observe => {
                let (would, _) = self.keys.choose(scene, self.rng);
                match would == feasible.primary {
                    true => (would, Why::Home),
                    false => (feasible.primary, Why::Observed { would }),
                }
            }
            Policy::Paper(reading) => paper::choose(scene, reading, &mut self.keys.pins, self.rng, self.budget),
            Policy::HashDirectory => (feasible.primary, Why::Home),
            Policy::RoundRobin => (self.next(feasible), Why::Turn),
            Policy::RoundRobinDirectory => (self.of_directory(feasible, scene.target.home), Why::Turn),
        }
    }

    /// A directory is placed at the next server when it is first seen, and stays there; past the table's bound, by hash.
    fn of_directory(&self, feasible: &Feasible, directory: Key) -> ServerId {
        match self.turns.get(&directory).copied() {
            Some(server) if feasible.set.contains(server) => server,
            None if self.turns.len() < TURNS_MAX => self.next(feasible),
            Some(_) | None => feasible.primary,
        }
    }

    fn next(&self, feasible: &Feasible) -> ServerId {
        let nth = self.turn.fetch_add(1, Relaxed) % feasible.set.len();
        feasible.set.iter().nth(nth).unwrap_or(feasible.primary)
    }
}

/// What the policy hashes to a home.
fn key(policy: Policy, target: &Target) -> Key {
    match policy {
        Policy::Paper(reading) => paper::key_of(reading, target),
        Policy::FirstFit(_)
        | Policy::Observe
        | Policy::HashDirectory
        | Policy::RoundRobin
        | Policy::RoundRobinDirectory => target.home,
    }
}

fn route(scene: &Scene<'_>, to: ServerId, why: Why) -> Route {
    let Scene { servers, feasible, target, .. } = scene;
    let why = match why {
        Why::Home if feasible.panic => Why::Panic,
        Why::Home if feasible.primary != feasible.home => {
            Why::Rerouted(feasible::exclusion(servers, target, feasible.home).unwrap_or(Exclusion::Down))
        }
        other => other,
    };
    Route { to, home: feasible.home, why }
}

/// Directories whose turn is remembered.
pub const TURNS_MAX: usize = 1 << 16;
