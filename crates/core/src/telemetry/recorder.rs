//! Latencies as calls end, by server; a tick reads them out. One recorder belongs to one event loop, so recording takes no lock.
//!
//! Latency counts the queue; service time must not, or a slow queue would make its server look slow and feed back. It is estimated from
//! calls that found the server idle, or with one call ahead, as a low quantile: such a call waited little.

use crate::id::ServerId;
use crate::op::Op;
use crate::telemetry::ewma::Ewma;
use crate::telemetry::quantile::{Histogram, Window};
use crate::time::Span;
use alloc::boxed::Box;

/// Windows of latencies for every server and for the pool.
#[derive(Clone, Debug)]
pub struct Recorder {
    servers: Box<[Record]>,
    pool: Window,
    ended: u64,
    ahead: Ahead,
}

#[derive(Clone, Debug, Default)]
struct Record {
    latency: Window,
    service: Window,
}

/// One call that ended, as its proxy saw it.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Who served it.
    pub server: ServerId,
    /// What it was.
    pub op: Op,
    /// From dispatch to reply.
    pub latency: Span,
    /// Own calls in flight at the server when it was sent.
    pub found: u32,
}

impl Recorder {
    /// A recorder for that many servers.
    pub fn new(servers: usize) -> Self {
        let servers = (0..servers).map(|_| Record::default()).collect();
        Self { servers, pool: Window::default(), ended: 0, ahead: Ahead::default() }
    }

    /// Takes a call that ended well. What failed tells nothing about speed and must not come here.
    pub fn record(&mut self, sample: Sample, rtt: Span) {
        let record = &mut self.servers[sample.server.index()];
        record.latency.record(sample.latency);
        self.pool.record(sample.latency);
        self.ended += 1;
        if sample.found <= 1 && tells_service(sample.op) {
            self.ahead.record(sample);
            if sample.found == 0 {
                record.service.record(sample.latency.saturating_sub(rtt));
            }
        }
    }

    /// Calls ended so far.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// Latencies at a server over the window.
    pub fn latency(&self, server: ServerId) -> &Histogram {
        self.servers[server.index()].latency.sum()
    }

    /// Latencies over all servers over the window.
    pub fn latency_pool(&self) -> Histogram {
        self.pool.sum().clone()
    }

    /// The service time of a server; `None` if no call in the window could tell.
    pub fn service(&self, server: ServerId) -> Option<Span> {
        self.servers[server.index()].service.sum().quantile(SERVICE_QUANTILE)
    }

    /// What one call ahead costs, as a share of a service time: near 0 where a server works on several at once, up to 1 where it works
    /// on one after the other. `None` until both cases were seen often enough.
    pub fn cost_of_one_ahead(&self) -> Option<f64> {
        self.ahead.cost()
    }

    /// Ends a latency slot: every fast tick.
    pub fn rotate_latency(&mut self) {
        self.servers.iter_mut().for_each(|record| record.latency.rotate());
        self.pool.rotate();
    }

    /// Ends a service slot: every [`SERVICE_TICKS`] fast ticks.
    pub fn rotate_service(&mut self) {
        self.servers.iter_mut().for_each(|record| record.service.rotate());
    }
}

/// Mean latencies of calls that found none and one ahead.
#[derive(Clone, Debug)]
struct Ahead {
    none: Ewma,
    one: Ewma,
    seen: u32,
}

impl Default for Ahead {
    fn default() -> Self {
        Self { none: Ewma::new(0.02), one: Ewma::new(0.02), seen: 0 }
    }
}

impl Ahead {
    fn record(&mut self, sample: Sample) {
        let seconds = sample.latency.as_secs_f64();
        match sample.found {
            0 => self.none.update(seconds),
            _ => {
                self.seen = self.seen.saturating_add(1);
                self.one.update(seconds)
            }
        };
    }

    fn cost(&self) -> Option<f64> {
        match (self.none.value(), self.one.value()) {
            (Some(none), Some(one)) if self.seen >= 32 && none > 0.0 => Some((one / none - 1.0).clamp(0.0, 1.0)),
            (Some(_) | None, Some(_) | None) => None,
        }
    }
}

/// Service times are told by calls of one kind: small reads by name or handle, which every workload has.
const fn tells_service(op: Op) -> bool {
    matches!(op, Op::Lookup | Op::Getattr | Op::Access)
}

/// Low, so that what waited a little does not count.
const SERVICE_QUANTILE: f64 = 0.10;
/// Fast ticks of a slot of the service window: the window is 10 s.
pub const SERVICE_TICKS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(latency_ms: u64, found: u32) -> Sample {
        Sample { server: ServerId(0), op: Op::Lookup, latency: Span::from_millis(latency_ms), found }
    }

    #[test]
    fn waiting_is_not_service() {
        let mut recorder = Recorder::new(1);
        assert_eq!(recorder.service(ServerId(0)), None);
        for _ in 0..50 {
            recorder.record(sample(101, 0), Span::from_millis(1));
            recorder.record(sample(170, 1), Span::from_millis(1));
            recorder.record(sample(901, 8), Span::from_millis(1));
        }
        let service = recorder.service(ServerId(0)).unwrap().as_millis_f64();
        assert!((service - 100.0).abs() < 5.0, "{service}");
        let median = recorder.latency(ServerId(0)).quantile(0.5).unwrap().as_millis_f64();
        assert!((median - 170.0).abs() < 8.0, "{median}");
    }

    #[test]
    fn one_call_ahead_costs_nothing_where_servers_work_on_several() {
        for (one_ahead, want) in [(101, 0.0), (151, 0.5), (201, 1.0)] {
            let mut recorder = Recorder::new(1);
            for _ in 0..200 {
                recorder.record(sample(101, 0), Span::ZERO);
                recorder.record(sample(one_ahead, 1), Span::ZERO);
            }
            assert!((recorder.cost_of_one_ahead().unwrap() - want).abs() < 0.02, "{one_ahead}");
        }
    }
}
