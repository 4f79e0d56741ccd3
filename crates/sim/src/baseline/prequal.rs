//! Prequal: asynchronous probes of calls in flight and latency, kept in a small pool, chosen by the hot-cold rule.
//!
//! A probe is answered by the server itself with its true queue; it is modelled as answered at once, which favours
//! Prequal by a round trip.
//! The latency that a server would tell for its queue is modelled as what its calls took for every place in the queue that they found.

use super::{Balancer, Oracle, View};
use midas_core::id::ServerId;
use midas_core::rng::Rng;
use midas_core::time::{Span, Time};
use std::collections::VecDeque;

/// One proxy's pool of probes, at most one of a server: a newer one says more.
#[derive(Debug)]
pub(super) struct Prequal {
    rng: Rng,
    pool: VecDeque<Probe>,
    /// Recent counts of calls in flight, for the hot threshold.
    seen: VecDeque<u32>,
    places: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    server: ServerId,
    queue: u32,
    taken: Time,
    uses: u32,
}

/// What a place in one server's queue costs.
#[derive(Clone, Debug, Default)]
struct Place {
    seconds: f64,
    /// The queues that the calls in flight found; servers answer in order, or nearly so.
    found: VecDeque<u32>,
}

impl Prequal {
    pub(super) fn new(rng: Rng, servers: usize) -> Self {
        Self { rng, pool: VecDeque::new(), seen: VecDeque::new(), places: vec![Place::default(); servers] }
    }

    fn probe(&mut self, view: &View<'_>, oracle: &Oracle<'_>) {
        let (servers, first) = (view.servers.len(), self.rng.below(view.servers.len()));
        let step = 1 + self.rng.below(servers.saturating_sub(1));
        for i in 0..PROBES_PER_CALL.min(servers) {
            let server = ServerId(((first + i * step) % servers) as u16);
            let queue = (oracle.committed)(server);
            self.pool.retain(|probe| probe.server != server);
            self.pool.push_back(Probe { server, queue, taken: view.now, uses: 0 });
            self.seen.push_back(queue);
        }
        self.pool.retain(|probe| view.now.since(probe.taken) < PROBE_AGE_MAX && probe.uses < USES_MAX);
        while self.pool.len() > POOL_MAX {
            self.pool.pop_front();
        }
        while self.seen.len() > SEEN_MAX {
            self.seen.pop_front();
        }
    }

    /// The queue above which a server counts as hot.
    fn hot(&self) -> u32 {
        let mut sorted: Vec<u32> = self.seen.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get((sorted.len() as f64 * HOT_QUANTILE) as usize).copied().unwrap_or(u32::MAX)
    }

    /// Cold ones first, by latency; hot ones by queue.
    fn cost(&self, probe: &Probe, hot: u32) -> (u8, f64) {
        match probe.queue > hot {
            true => (1, f64::from(probe.queue)),
            false => (0, self.places[probe.server.index()].seconds * f64::from(probe.queue + 1)),
        }
    }
}

impl Balancer for Prequal {
    fn choose(&mut self, view: &View<'_>, oracle: &mut Oracle<'_>) -> ServerId {
        self.probe(view, oracle);
        let hot = self.hot();
        let best = self.pool.iter().enumerate().min_by(|(_, a), (_, b)| {
            self.cost(a, hot).partial_cmp(&self.cost(b, hot)).unwrap_or(std::cmp::Ordering::Equal)
        });
        let chosen = match best.map(|(i, _)| i) {
            Some(i) => {
                let probe = &mut self.pool[i];
                probe.queue += 1;
                probe.uses += 1;
                probe.server
            }
            None => ServerId(self.rng.below(view.servers.len()) as u16),
        };
        self.places[chosen.index()].found.push_back((oracle.committed)(chosen));
        chosen
    }

    fn settled(&mut self, _: Time, server: ServerId, latency: Span) {
        let place = &mut self.places[server.index()];
        let found = place.found.pop_front().unwrap_or(0);
        let sample = latency.as_secs_f64() / f64::from(found + 1);
        place.seconds += PLACE_WEIGHT * (sample - place.seconds);
    }
}

const PROBES_PER_CALL: usize = 3;
const POOL_MAX: usize = 16;
const USES_MAX: u32 = 2;
const SEEN_MAX: usize = 128;
const HOT_QUANTILE: f64 = 0.84;
const PROBE_AGE_MAX: Span = Span::from_secs(1);
/// The weight of a new sample of what a place costs.
const PLACE_WEIGHT: f64 = 0.05;
