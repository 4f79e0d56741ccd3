//! Peak-EWMA: latency that jumps up at once and decays slowly, times calls in flight; the better of two.

use super::{Balancer, Oracle, View, better, two};
use midas_core::id::ServerId;
use midas_core::rng::Rng;
use midas_core::time::{Span, Time};

/// One proxy's estimates.
#[derive(Debug)]
pub(super) struct PeakEwma {
    rng: Rng,
    estimates: Vec<Estimate>,
}

#[derive(Clone, Copy, Debug)]
struct Estimate {
    seconds: f64,
    at: Time,
}

impl PeakEwma {
    pub(super) fn new(rng: Rng, servers: usize) -> Self {
        Self { rng, estimates: vec![Estimate { seconds: START.as_secs_f64(), at: Time::ZERO }; servers] }
    }
}

impl Balancer for PeakEwma {
    fn choose(&mut self, view: &View<'_>, _: &mut Oracle<'_>) -> ServerId {
        let (a, b) = two(&mut self.rng, view.servers.len());
        better(a, b, |server| {
            let decayed = self.estimates[server.index()].at(view.now);
            decayed * (view.servers.load(server).as_f64() + 1.0)
        })
    }

    fn settled(&mut self, now: Time, server: ServerId, latency: Span) {
        let estimate = &mut self.estimates[server.index()];
        let (held, sample) = (estimate.at(now), latency.as_secs_f64());
        let weight = libm::exp(-now.since(estimate.at).as_secs_f64() / DECAY.as_secs_f64());
        let seconds = if sample > held { sample } else { held + sample * (1.0 - weight) };
        *estimate = Estimate { seconds, at: now };
    }
}

impl Estimate {
    /// Decays towards zero while nothing is heard, so that a server is tried again.
    fn at(self, now: Time) -> f64 {
        self.seconds * libm::exp(-now.since(self.at).as_secs_f64() / DECAY.as_secs_f64())
    }
}

/// The decay time that the field's proxies use by default.
const DECAY: Span = Span::from_secs(10);
/// What a server is taken for before its first answer.
const START: Span = Span::from_millis(30);
