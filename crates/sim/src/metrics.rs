//! Counts while a run goes on.

use crate::model::capabilities::Traffic;
use crate::report::{Latency, Row};
use midas_core::id::{ServerId, ServerSet};
use midas_core::rng::mix;
use midas_core::time::{Span, Time};

/// Everything that is counted by call.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) calls: u64,
    latencies: Vec<u64>,
    sent: Moves,
    sent_reads: Moves,
    pub(crate) cacheable: u64,
    pub(crate) hits: u64,
    pub(crate) answers: u64,
    pub(crate) stale: u64,
    pub(crate) failed: u64,
    pub(crate) shares_received: u64,
    pub(crate) events: u64,
    pub(crate) capabilities: Traffic,
    locality: Locality,
    digest: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Moves {
    sent: u64,
    steered: u64,
    bad: u64,
}

/// A call that leaves for a server, as the checkers and figures see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) to: ServerId,
    pub(crate) home: ServerId,
    pub(crate) reads: bool,
    pub(crate) directory: u32,
    /// The true queue at the target was not shorter than at home.
    pub(crate) bad: bool,
}

impl Metrics {
    pub(crate) fn sent(&mut self, now: Time, sent: Sent) {
        self.sent.count(sent);
        if sent.reads {
            self.sent_reads.count(sent);
        }
        self.locality.count(now, sent);
        self.stir(now.as_nanos() ^ u64::from(sent.to.0) << 48);
    }

    pub(crate) fn ended(&mut self, now: Time, latency: Span, value: u64) {
        self.latencies.push(latency.as_nanos());
        self.stir(now.as_nanos() ^ value << 40);
    }

    /// Every event that matters changes the digest; order matters.
    pub(crate) fn stir(&mut self, what: u64) {
        self.digest = mix(self.digest.rotate_left(5) ^ what);
    }

    pub(crate) fn fill(self, row: &mut Row, duration: Span, proxies: u32) {
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        row.calls = self.calls;
        row.latency = Latency::of(self.latencies);
        row.steered_share = share(self.sent.steered, self.sent.sent);
        row.bad_move_share = share(self.sent.bad, self.sent.steered);
        row.bad_move_share_reads = share(self.sent_reads.bad, self.sent_reads.steered);
        row.servers_per_directory = self.locality.mean();
        row.cache_hit_share = share(self.hits, self.cacheable);
        row.stale_share = share(self.stale, self.answers);
        row.failed_share = share(self.failed, self.calls);
        let calls = self.calls.max(1) as f64;
        row.mds_requests = self.capabilities.requests / calls;
        row.revokes = self.capabilities.revokes / calls;
        row.shares_received = self.shares_received as f64 / f64::from(proxies) / duration.as_secs_f64();
        row.events = self.events;
        row.digest = self.digest;
    }
}

impl Moves {
    fn count(&mut self, sent: Sent) {
        self.sent += 1;
        if sent.to != sent.home {
            self.steered += 1;
            self.bad += u64::from(sent.bad);
        }
    }
}

/// Over how many servers a directory's calls are spread within a window.
#[derive(Debug, Default)]
struct Locality {
    window: u64,
    /// By directory number; empty for those not in `touched`.
    seen: Vec<ServerSet>,
    touched: Vec<u32>,
    directories: u64,
    servers: u64,
}

impl Locality {
    fn count(&mut self, now: Time, sent: Sent) {
        let window = now.as_nanos() / WINDOW.as_nanos();
        if window != self.window {
            self.close();
            self.window = window;
        }
        let directory = sent.directory as usize;
        if directory >= self.seen.len() {
            self.seen.resize(directory + 1, ServerSet::EMPTY);
        }
        if self.seen[directory].is_empty() {
            self.touched.push(sent.directory);
        }
        self.seen[directory].insert(sent.to);
    }

    fn close(&mut self) {
        self.directories += self.touched.len() as u64;
        for directory in self.touched.drain(..) {
            let set = std::mem::replace(&mut self.seen[directory as usize], ServerSet::EMPTY);
            self.servers += set.len() as u64;
        }
    }

    fn mean(mut self) -> f64 {
        self.close();
        self.servers as f64 / self.directories.max(1) as f64
    }
}

const WINDOW: Span = Span::from_secs(10);
