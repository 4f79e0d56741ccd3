//! Prequal: asynchronous probes of calls in flight and latency, kept in a small pool, chosen by the hot-cold rule.
//!
//! A probe is answered by the server itself with its true queue; it is modelled as taken when it is sent and usable one round trip later.
//! Latency is what the server would estimate for its queue: here the proxy's smoothed latency.

use super::{Balancer, Oracle, View};
use midas_core::id::ServerId;
use midas_core::rng::Rng;
use midas_core::time::{Span, Time};
use std::collections::VecDeque;

/// One proxy's pool of probes.
#[derive(Debug)]
pub(super) struct Prequal {
    rng: Rng,
    pool: VecDeque<Probe>,
    /// Recent counts of calls in flight, for the hot threshold.
    seen: VecDeque<u32>,
    latency: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    server: ServerId,
    queue: u32,
    usable: Time,
    uses: u32,
}

impl Prequal {
    pub(super) fn new(rng: Rng) -> Self {
        Self { rng, pool: VecDeque::new(), seen: VecDeque::new(), latency: Vec::new() }
    }

    fn probe(&mut self, view: &View<'_>, oracle: &Oracle<'_>) {
        for _ in 0..PROBES_PER_CALL {
            let server = ServerId(self.rng.below(view.servers.len()) as u16);
            let queue = (oracle.committed)(server);
            self.pool.push_back(Probe { server, queue, usable: view.now + view.servers.rtt(), uses: 0 });
            self.seen.push_back(queue);
        }
        self.pool.retain(|probe| view.now.since(probe.usable) < PROBE_AGE_MAX && probe.uses < USES_MAX);
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

    fn latency(&self, server: ServerId, queue: u32) -> f64 {
        self.latency.get(server.index()).copied().unwrap_or(0.0) * f64::from(queue + 1)
    }
}

impl Balancer for Prequal {
    fn choose(&mut self, view: &View<'_>, oracle: &mut Oracle<'_>) -> ServerId {
        self.latency.resize(view.servers.len(), 0.0);
        let hot = self.hot();
        let usable = self.pool.iter().enumerate().filter(|(_, probe)| probe.usable <= view.now);
        let cost = |probe: &Probe| match probe.queue > hot {
            true => (1, f64::from(probe.queue)),
            false => (0, self.latency(probe.server, probe.queue)),
        };
        let best = usable.min_by(|(_, a), (_, b)| cost(a).partial_cmp(&cost(b)).unwrap_or(std::cmp::Ordering::Equal));
        let chosen = match best.map(|(i, _)| i) {
            Some(i) => {
                let probe = &mut self.pool[i];
                probe.queue += 1;
                probe.uses += 1;
                probe.server
            }
            None => ServerId(self.rng.below(view.servers.len()) as u16),
        };
        self.probe(view, oracle);
        chosen
    }

    fn settled(&mut self, _: Time, server: ServerId, latency: Span) {
        if let Some(held) = self.latency.get_mut(server.index()) {
            // The service part only: the queue is counted by the probe.
            let sample = latency.as_secs_f64();
            *held = if *held == 0.0 { sample } else { (0.99 * *held).min(sample).max(*held * 0.9) };
        }
    }
}

const PROBES_PER_CALL: usize = 3;
const POOL_MAX: usize = 16;
const USES_MAX: u32 = 2;
const SEEN_MAX: usize = 128;
const HOT_QUANTILE: f64 = 0.84;
const PROBE_AGE_MAX: Span = Span::from_secs(1);
