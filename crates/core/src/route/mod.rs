//! Where a call goes. Paper: P6-P9, P14, P15.

pub mod budget;
pub mod feasible;
pub mod fence;
pub(crate) mod first_fit;
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
use core::sync::atomic::Ordering::Relaxed;
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
            turns: BTreeMap::new(),
        }
    }

    /// The policy in force.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Chooses a server, or says why no server may serve the call now.
    pub fn choose(&mut self, now: Time, servers: &Servers, knobs: &Knobs, target: &Target) -> Result<Route, Exclusion> {
        let key = self.key(target);
        let feasible = Feasible::of(servers, target, key)?;
        servers.slots[feasible.home.index()].homed.fetch_add(1, Relaxed);
        let (to, why) = self.decide(now, servers, knobs, (target, &feasible));
        let why = match why {
            Why::Home if feasible.panic => Why::Panic,
            Why::Home if feasible.primary != feasible.home => {
                Why::Rerouted(feasible::exclusion(servers, target, feasible.home).unwrap_or(Exclusion::Down))
            }
            other => other,
        };
        Ok(Route { to, home: feasible.home, why })
    }

    fn decide(
        &mut self,
        now: Time,
        servers: &Servers,
        knobs: &Knobs,
        (target, feasible): (&Target, &Feasible),
    ) -> (ServerId, Why) {
        let scene = Scene { now, servers, knobs, feasible, target };
        match self.policy {
            Policy::FirstFit(_) => self.keys.choose(&scene, &mut self.rng),
            Policy::Observe => {
                let (would, _) = self.keys.choose(&scene, &mut self.rng);
                match would == feasible.primary {
                    true => (would, Why::Home),
                    false => (feasible.primary, Why::Observed { would }),
                }
            }
            Policy::Paper(reading) => paper::choose(
                now,
                servers,
                knobs,
                feasible,
                paper::key_of(reading, target),
                (reading, &mut self.keys.pins, &mut self.rng),
            ),
            Policy::HashDirectory => (feasible.primary, Why::Home),
            Policy::RoundRobin => (turn(servers, feasible), Why::Turn),
            Policy::RoundRobinDirectory => (self.directory_turn(servers, feasible, target.place), Why::Turn),
        }
    }

    /// What the policy hashes to a home.
    fn key(&self, target: &Target) -> Key {
        match self.policy {
            Policy::Paper(reading) => paper::key_of(reading, target),
            Policy::FirstFit(_)
            | Policy::Observe
            | Policy::HashDirectory
            | Policy::RoundRobin
            | Policy::RoundRobinDirectory => target.place,
        }
    }

    /// A directory is placed at the next server when it is first seen, and stays there; past the table's bound, by hash.
    fn directory_turn(&mut self, servers: &Servers, feasible: &Feasible, directory: Key) -> ServerId {
        match self.turns.get(&directory).copied() {
            Some(server) if feasible.set.contains(server) => server,
            None if self.turns.len() < TURNS_MAX => {
                let server = turn(servers, feasible);
                self.turns.insert(directory, server);
                server
            }
            Some(_) | None => feasible.primary,
        }
    }
}

fn turn(servers: &Servers, feasible: &Feasible) -> ServerId {
    let nth = servers.turn.fetch_add(1, Relaxed) % feasible.set.len();
    feasible.set.iter().nth(nth).unwrap_or(feasible.primary)
}

/// Directories whose turn is remembered.
pub const TURNS_MAX: usize = 1 << 16;
