//! Latencies as calls end, by server; a tick reads them out. One recorder belongs to one event loop, so recording takes no lock.
//!
//! Latency counts the queue; service time must not, or a long queue would make its server look slow and feed back. It is estimated from
//! calls that found none of ours at the server, as a low quantile: such a call waited for others' calls at most, and a third of them
//! hardly at all. What few calls say is not believed: beside the estimate stands the lowest value that it may have.

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
    /// Service times over all servers.
    service: Window,
    ended: u64,
    ticks: u64,
    ahead: Ahead,
}

#[derive(Clone, Debug, Default)]
struct Record {
    latency: Window,
    service: Window,
    /// Service times of all other kinds: better than nothing in a storm of creates.
    other: Window,
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
    /// How long the one at their head had been in service then.
    pub head_age: Span,
}

/// A service time as far as it can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// A low quantile.
    pub typical: Span,
    /// What that quantile is at least, two standard deviations of its rank below: whatever the distribution. Zero if too few calls
    /// were seen to say anything.
    pub least: Span,
}

impl Recorder {
    /// A recorder for that many servers.
    pub fn new(servers: usize) -> Self {
        let servers = (0..servers).map(|_| Record::default()).collect();
        Self {
            servers,
            pool: Window::default(),
            service: Window::default(),
            ended: 0,
            ticks: 0,
            ahead: Ahead::default(),
        }
    }

    /// Takes a call that ended well. What failed tells nothing about speed and must not come here.
    #[inline]
    pub fn record(&mut self, sample: Sample, rtt: Span) {
        let record = &mut self.servers[sample.server.index()];
        record.latency.record(sample.latency);
        self.pool.record(sample.latency);
        self.ended += 1;
        if sample.found == 0 {
            let service = sample.latency.saturating_sub(rtt);
            match tells_service(sample.op) {
                true => {
                    record.service.record(service);
                    self.service.record(service);
                }
                false => record.other.record(service),
            }
        }
        if tells_service(sample.op) {
            self.ahead.record(sample);
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

    /// Latencies over all servers since the last tick.
    pub fn latency_tick(&self) -> &Histogram {
        self.pool.current()
    }

    /// The service time of a server; `None` if no call in the window could tell.
    pub fn service(&self, server: ServerId) -> Option<Service> {
        let record = &self.servers[server.index()];
        let spans = if record.service.sum().total() > 0 { record.service.sum() } else { record.other.sum() };
        let count = spans.total() as f64;
        let deviations = 2.0 * libm::sqrt(SERVICE_QUANTILE * (1.0 - SERVICE_QUANTILE) / count.max(1.0));
        let typical = spans.quantile(SERVICE_QUANTILE)?;
        let least =
            if deviations < SERVICE_QUANTILE { spans.quantile(SERVICE_QUANTILE - deviations)? } else { Span::ZERO };
        Some(Service { typical, least })
    }

    /// What a call ahead that has just begun costs, as a share of a service time: near 0 where a server works on several at once, up to 1 where it works
    /// on one after the other. `None` until both cases were seen often enough.
    pub fn cost_of_one_ahead(&self) -> Option<f64> {
        self.ahead.cost()
    }

    /// Whether all calls take about the same time, so that a call's age tells how long it still has to go.
    pub fn regular(&self) -> bool {
        let spans = self.service.sum();
        match (spans.quantile(SERVICE_QUANTILE), spans.quantile(0.98)) {
            (Some(typical), Some(long)) => long < typical.scale(REGULAR),
            (Some(_) | None, Some(_) | None) => false,
        }
    }

    /// A fast tick is over: ends a latency slot, and a service slot every [`SERVICE_TICKS`] of them.
    pub fn rotate(&mut self) {
        self.servers.iter_mut().for_each(|record| record.latency.rotate());
        self.pool.rotate();
        self.ticks += 1;
        if self.ticks.is_multiple_of(SERVICE_TICKS) {
            self.rotate_service();
        }
    }

    fn rotate_service(&mut self) {
        for record in &mut self.servers {
            record.service.rotate();
            record.other.rotate();
        }
        self.service.rotate();
    }
}

/// Mean latencies of calls that found none, and of those that found one that had just begun.
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
        match (sample.found, self.none.value()) {
            (0, _) => drop(self.none.update(seconds)),
            (1, Some(none)) if sample.head_age.as_secs_f64() < none / 2.0 => {
                self.seen = self.seen.saturating_add(1);
                self.one.update(seconds);
            }
            (_, _) => {}
        }
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

/// Low, so that what waited does not count.
const SERVICE_QUANTILE: f64 = 0.35;
/// Service times are regular if hardly one is longer than this multiple of the typical one.
const REGULAR: f64 = 1.5;
/// Fast ticks of a slot of the service window: the window is 20 s.
pub const SERVICE_TICKS: u64 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(latency_ms: u64, found: u32) -> Sample {
        Sample {
            server: ServerId(0),
            op: Op::Lookup,
            latency: Span::from_millis(latency_ms),
            found,
            head_age: Span::ZERO,
        }
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
        let service = recorder.service(ServerId(0)).unwrap().typical.as_millis_f64();
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
