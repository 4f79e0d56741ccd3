//! What the cache did and holds, for the dashboard and for tests. Nothing is decided by it.

use super::fill::Refusal;

/// What the cache did since it began, and holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Remembered keys, with or without a value.
    pub entries: usize,
    /// The cost of the kept values.
    pub bytes: usize,
    /// Keys with a flight out.
    pub flights: usize,
    /// Keys with a mutation that runs or may run.
    pub marked: usize,
    /// Reads answered from the cache.
    pub answers: u64,
    /// Reads that wait with another.
    pub joins: u64,
    /// Reads that went to a server.
    pub fetches: u64,
    /// Replies that were kept.
    pub kept: u64,
    /// Replies that were not, by reason.
    pub refusals: [u64; Refusal::ALL.len()],
    /// The share of reads answered from the cache.
    pub hit_share: f64,
    /// Whether the cache stands aside because nothing is read twice in time.
    pub bypassing: bool,
}

impl Stats {
    /// Replies that were not kept for this reason.
    pub fn refused(&self, why: Refusal) -> u64 {
        self.refusals[why as usize]
    }
}

/// What only ever grows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) answers: u64,
    pub(super) joins: u64,
    pub(super) fetches: u64,
    pub(super) kept: u64,
    pub(super) refusals: [u64; Refusal::ALL.len()],
}

impl Counts {
    pub(super) fn hit_share(&self) -> f64 {
        match self.answers + self.joins + self.fetches {
            0 => 0.0,
            reads => self.answers as f64 / reads as f64,
        }
    }
}
