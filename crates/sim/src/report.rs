//! What a run measured.

use crate::config::Config;
use midas_core::control::Actuation;
use midas_core::time::Span;

/// One run's figures: a row of every table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The policy's name.
    pub policy: String,
    /// The workload's name.
    pub workload: String,
    /// The service times.
    pub service: String,
    /// Servers.
    pub servers: u32,
    /// Proxies.
    pub proxies: u32,
    /// Offered load.
    pub load: f64,
    /// Seed.
    pub seed: u64,
    /// Calls that clients issued.
    pub calls: u64,
    /// Mean over servers of the time-averaged queue.
    pub mean_queue: f64,
    /// The longest queue of any server at any time.
    pub worst_queue: u32,
    /// CV over servers of the time-averaged queue. Paper: P19.
    pub dispersion: f64,
    /// Latencies as clients see them.
    pub latency: Latency,
    /// Calls that went elsewhere than to their directory's home.
    pub steered_share: f64,
    /// Of those, calls whose true target queue was not shorter than the home's.
    pub bad_move_share: f64,
    /// The same for reads alone.
    pub bad_move_share_reads: f64,
    /// Distinct servers that a directory's calls reach within 10 s.
    pub servers_per_directory: f64,
    /// Cacheable calls that needed no call of their own to a server.
    pub cache_hit_share: f64,
    /// Answers older than what their read was promised.
    pub stale_share: f64,
    /// Calls that ended with a server's error.
    pub failed_share: f64,
    /// Load shares that a proxy received in a second.
    pub shares_received: f64,
    /// Requests to the metadata servers behind heads with capabilities, a call.
    pub mds_requests: f64,
    /// Capabilities that were called back from heads, a call.
    pub revokes: f64,
    /// Events that were simulated.
    pub events: u64,
    /// A hash of everything that happened.
    pub digest: u64,
}

/// Latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// Mean.
    pub mean: Span,
    /// Median.
    pub p50: Span,
    /// 99th percentile.
    pub p99: Span,
    /// 99.9th percentile.
    pub p999: Span,
}

impl Latency {
    /// Of these latencies in nanoseconds; exact.
    pub fn of(mut nanos: Vec<u64>) -> Self {
        if nanos.is_empty() {
            return Self::default();
        }
        nanos.sort_unstable();
        let quantile = |q: f64| Span::from_nanos(nanos[((nanos.len() as f64 * q) as usize).min(nanos.len() - 1)]);
        let sum: u128 = nanos.iter().map(|nanos| u128::from(*nanos)).sum();
        let mean = Span::from_nanos((sum / nanos.len() as u128) as u64);
        Self { mean, p50: quantile(0.50), p99: quantile(0.99), p999: quantile(0.999) }
    }
}

/// A run: its figures and what happened over time.
#[derive(Clone, Debug)]
pub struct Run {
    /// The figures.
    pub row: Row,
    /// Every server's queue at regular points in time, if asked for.
    pub queues: Vec<Vec<u32>>,
    /// When calls came and to which directory, if asked for.
    pub arrivals: Vec<(f64, u32)>,
    /// Calls that each server got.
    pub sent: Vec<u64>,
    /// Every knob that was turned, with the proxy that did.
    pub actuations: Vec<(u32, Actuation)>,
}

/// Mean and CV of the servers' time-averaged queues.
pub(crate) fn spread(queues: &[f64]) -> (f64, f64) {
    let count = queues.len().max(1) as f64;
    let mean = queues.iter().sum::<f64>() / count;
    let variance = queues.iter().map(|queue| (queue - mean) * (queue - mean)).sum::<f64>() / count;
    let dispersion = if mean > 0.0 { libm::sqrt(variance) / mean } else { 0.0 };
    (mean, dispersion)
}

impl Row {
    /// The columns of a CSV, in order.
    pub const COLUMNS: [&'static str; 26] = [
        "policy",
        "workload",
        "service",
        "servers",
        "proxies",
        "load",
        "seed",
        "calls",
        "mean_queue",
        "worst_queue",
        "dispersion",
        "latency_mean_ms",
        "latency_p50_ms",
        "latency_p99_ms",
        "latency_p999_ms",
        "steered_share",
        "bad_move_share",
        "bad_move_share_reads",
        "servers_per_directory",
        "cache_hit_share",
        "stale_share",
        "failed_share",
        "shares_received",
        "mds_requests",
        "revokes",
        "digest",
    ];

    /// Names that a row takes from its configuration.
    pub(crate) fn named(config: &Config) -> Self {
        Self {
            policy: config.policy.to_string(),
            workload: config.workload.to_string(),
            service: config.service.to_string(),
            servers: config.servers,
            proxies: config.proxies,
            load: config.load,
            seed: config.seed,
            calls: 0,
            mean_queue: 0.0,
            worst_queue: 0,
            dispersion: 0.0,
            latency: Latency::default(),
            steered_share: 0.0,
            bad_move_share: 0.0,
            bad_move_share_reads: 0.0,
            servers_per_directory: 0.0,
            cache_hit_share: 0.0,
            stale_share: 0.0,
            failed_share: 0.0,
            shares_received: 0.0,
            mds_requests: 0.0,
            revokes: 0.0,
            events: 0,
            digest: 0,
        }
    }
}
