//! Algorithm 1 of the paper: power of d choices inside the feasible set, with margins, pins and a steering cap.
//!
//! Paper: P6, P7, P8, P9. It decides on telemetry that the fast tick smoothed, so it may be 250 ms old: that is the paper's design and
//! its weakness. Where the paper leaves the reading open, [`Reading`] names it.

use crate::control::knobs::Knobs;
use crate::decision::Why;
use crate::id::{ServerId, ServerSet};
use crate::key::Key;
use crate::rng::Rng;
use crate::route::budget::SteerBudget;
use crate::route::feasible::{Feasible, Target};
use crate::route::first_fit::Scene;
use crate::route::pin::Pins;
use crate::servers::Servers;

/// What the paper leaves open. The default is ours; the variants are the other readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// What is hashed to a home and pinned.
    pub key: KeyOf,
    /// Whether a pinned call that leaves its home takes a token.
    pub pin: PinCost,
    /// Which calls fill the bucket.
    pub eligible: Eligible,
}

/// The namespace shard: a directory with its names, or each object by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyOf {
    /// The directory.
    #[default]
    Directory,
    /// The object.
    Object,
}

/// Whether following a pin counts against the cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PinCost {
    /// It takes a token like any steer.
    #[default]
    Token,
    /// It is free.
    Free,
}

/// Which calls count as eligible for the cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eligible {
    /// Every call that has another feasible server.
    #[default]
    Every,
    /// Only calls for which the margins hold.
    Margin,
}

/// Chooses as Algorithm 1 does.
pub(crate) fn choose(
    scene: &Scene<'_>,
    reading: Reading,
    pins: &mut Pins,
    rng: &mut Rng,
    budget: &SteerBudget,
) -> (ServerId, Why) {
    let Scene { now, servers, knobs, feasible, target } = *scene;
    let key = key_of(reading, target);
    let home = feasible.primary;
    if !knobs.steering || feasible.set == ServerSet::only(home) {
        return (home, Why::Home);
    }
    if reading.eligible == Eligible::Every {
        budget.fill(knobs.steer_share);
    }
    if let Some(pinned) = pins.find(now, key).filter(|server| *server != home && feasible.set.contains(*server)) {
        return match reading.pin == PinCost::Free || budget.take() {
            true => (pinned, Why::Pinned),
            false => (home, Why::Capped),
        };
    }
    let Some(best) = best_of_sample(servers, knobs, feasible, rng) else { return (home, Why::Home) };
    if reading.eligible == Eligible::Margin {
        budget.fill(knobs.steer_share);
    }
    if !budget.take() {
        return (home, Why::Capped);
    }
    pins.pin(key, best, now + knobs.pin);
    (best, Why::Steered { from: home, gap: servers.load_smooth(home) - servers.load_smooth(best) })
}

/// The key that this reading hashes and pins.
pub(crate) fn key_of(reading: Reading, target: &Target) -> Key {
    match reading.key {
        KeyOf::Directory => target.home,
        KeyOf::Object if target.stays => target.home,
        KeyOf::Object => target.object,
    }
}

/// The best of d servers drawn without the home, among those that clear both margins. Ties: CPU, then chance.
fn best_of_sample(servers: &Servers, knobs: &Knobs, feasible: &Feasible, rng: &mut Rng) -> Option<ServerId> {
    let home = feasible.primary;
    let (load, latency) = (servers.load_smooth(home), servers.latency_p50(home));
    let mut sample = Sample::new(feasible, usize::from(knobs.choices));
    let mut best: Option<(ServerId, u64)> = None;
    while let Some(server) = sample.draw(servers.len(), rng) {
        let clears = servers.load_smooth(server) + knobs.margin_load <= load
            && servers.latency_p50(server) + knobs.margin_latency <= latency;
        if clears {
            let rank = |s: ServerId| (servers.load_smooth(s), servers.cpu(s));
            let lot = rng.next_u64();
            let better = best.is_none_or(|(held, held_lot)| (rank(server), lot) < (rank(held), held_lot));
            if better {
                best = Some((server, lot));
            }
        }
    }
    best.map(|(server, _)| server)
}

/// Up to four distinct members of the feasible set, never the primary, in O(d).
struct Sample {
    left: usize,
    /// Who can still be drawn.
    fresh: ServerSet,
}

impl Sample {
    fn new(feasible: &Feasible, size: usize) -> Self {
        let mut fresh = feasible.set;
        fresh.remove(feasible.primary);
        Self { left: size, fresh }
    }

    fn draw(&mut self, servers: usize, rng: &mut Rng) -> Option<ServerId> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let by_chance = (0..TRIES).map(|_| ServerId(rng.below(servers) as u16)).find(|s| self.fresh.contains(*s));
        let server = by_chance.or_else(|| self.fresh.iter().nth(rng.below(self.fresh.len())))?;
        self.fresh.remove(server);
        Some(server)
    }
}

/// Draws before a sparse feasible set is counted out instead.
const TRIES: usize = 16;
