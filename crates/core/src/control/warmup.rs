//! Targets from a warm-up: what the system looks like when it is healthy. Paper: P2.
//!
//! Only quiet ticks count (at most 30 % of the peak rate), and only without the middleware's help: while it runs, `paper` neither steers nor
//! answers from the cache. If quiet never comes, it gives up after [`PATIENCE`] and says so with default targets.

use crate::telemetry::quantile::Histogram;
use crate::time::{Span, Time};
use alloc::vec::Vec;

/// What the controller regulates against. Paper: P2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Targets {
    /// B_tgt.
    pub imbalance: f64,
    /// P99_tgt.
    pub latency_p99: Span,
    /// The round trip.
    pub rtt: Span,
}

/// Where targets come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Origin {
    /// Measured by a warm-up.
    Warmup,
    /// No quiet minute came within the warm-up's patience.
    Default,
    /// Given by hand, or kept from before a restart.
    Given,
}

/// A warm-up in progress.
#[derive(Clone, Debug)]
pub struct Warmup {
    imbalances: Vec<f64>,
    latencies: Histogram,
    rate_peak: f64,
    began: Option<Time>,
}

/// One tick as the warm-up sees it.
#[derive(Clone, Copy, Debug)]
pub struct Tick<'a> {
    /// Calls a second in this tick.
    pub rate: f64,
    /// The same, smoothed.
    pub rate_smooth: f64,
    /// B of this tick.
    pub imbalance: f64,
    /// Latencies of the pool in this tick.
    pub latencies: &'a Histogram,
    /// The round trip.
    pub rtt: Span,
}

impl Warmup {
    /// A warm-up; `rate_peak` is the configured peak in calls a second, 0 if only observation can tell.
    pub fn new(rate_peak: f64) -> Self {
        Self { imbalances: Vec::with_capacity(TICKS), latencies: Histogram::default(), rate_peak, began: None }
    }

    /// Takes a tick in; the targets when there are enough, or when patience is at its end.
    pub fn tick(&mut self, now: Time, tick: Tick<'_>) -> Option<(Targets, Origin)> {
        let began = *self.began.get_or_insert(now);
        self.rate_peak = self.rate_peak.max(tick.rate_smooth);
        if tick.rate <= QUIET * self.rate_peak && tick.latencies.total() > 0 {
            self.imbalances.push(tick.imbalance);
            self.latencies.absorb(tick.latencies);
        }
        if self.imbalances.len() >= TICKS {
            return Some((self.targets(tick.rtt), Origin::Warmup));
        }
        (now.since(began) >= PATIENCE).then(|| (default_targets(tick.rtt), Origin::Default))
    }

    fn targets(&mut self, rtt: Span) -> Targets {
        self.imbalances.sort_unstable_by(f64::total_cmp);
        let median = self.imbalances[self.imbalances.len() / 2];
        let tail = self.latencies.quantile(0.99).unwrap_or(Span::ZERO).scale(1.25);
        Targets { imbalance: median + 0.05, latency_p99: tail.max(rtt + Span::from_millis(2)), rtt }
    }
}

fn default_targets(rtt: Span) -> Targets {
    Targets { imbalance: 0.25, latency_p99: (rtt * 10).max(rtt + Span::from_millis(2)), rtt }
}

/// A quiet tick has at most this share of the peak rate.
const QUIET: f64 = 0.30;
/// 60 s of quiet ticks of 250 ms.
const TICKS: usize = 240;
/// How long a warm-up may wait for quiet.
pub const PATIENCE: Span = Span::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rates: impl Iterator<Item = f64>) -> Option<(Targets, Origin)> {
        let mut warmup = Warmup::new(100.0);
        let mut latencies = Histogram::default();
        (0..100).for_each(|_| latencies.record(Span::from_millis(100)));
        let mut now = Time::from_nanos(1);
        for (i, rate) in (0..3_000).zip(rates) {
            now += Span::from_millis(250);
            let imbalance = f64::from(i % 3) * 0.1;
            let tick = Tick { rate, rate_smooth: rate, imbalance, latencies: &latencies, rtt: Span::from_millis(1) };
            if let Some(done) = warmup.tick(now, tick) {
                return Some(done);
            }
        }
        None
    }

    #[test]
    fn a_quiet_minute_gives_the_papers_targets() {
        let (targets, origin) = run(core::iter::repeat(25.0)).unwrap();
        assert_eq!(origin, Origin::Warmup);
        assert!((targets.imbalance - 0.15).abs() < 1e-9, "median 0.1 + 0.05");
        assert!((targets.latency_p99.as_millis_f64() / 125.0 - 1.0).abs() < 0.05, "{targets:?}");
    }

    #[test]
    fn busy_ticks_do_not_count_and_quiet_that_never_comes_ends_in_defaults() {
        assert_eq!(run(core::iter::repeat(70.0)).unwrap().1, Origin::Default);
        assert_eq!(run([70.0, 25.0].into_iter().cycle().take(470)), None);
        assert_eq!(run([70.0, 25.0].into_iter().cycle().take(480)).unwrap().1, Origin::Warmup);
    }

    #[test]
    fn the_floor_keeps_very_fast_paths_attainable() {
        let mut warmup = Warmup::new(0.0);
        assert_eq!(warmup.targets_of_nothing().latency_p99, Span::from_millis(3));
    }

    impl Warmup {
        fn targets_of_nothing(&mut self) -> Targets {
            self.imbalances.push(0.0);
            self.targets(Span::from_millis(1))
        }
    }
}
