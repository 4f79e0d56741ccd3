//! What must hold: every answer was true while it was asked for, and nothing ran twice.
//!
//! A read is right if what it says was current at some moment between its arrival at the proxy and its answer: then that moment puts it in
//! the one order in which the servers executed everything, so histories are linearizable. It is stronger than that: a linearizable history
//! could have a read see a mutation that is still to run.

use super::truth::{Action, Key, Seen, Truth};
use midas_core::time::{Span, Time};
use std::fmt;

/// What was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// An answer was not true at any moment at which it was wanted.
    Stale,
    /// A call ran twice that must run once.
    Twice,
    /// A client was told that something was done that was not.
    NotDone,
    /// When all faults were over, somebody waited for ever.
    Stuck,
}

/// A broken promise: what to run again.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which promise.
    pub wrong: Wrong,
    /// When.
    pub at: Time,
    /// What was seen.
    pub detail: String,
    /// The last things that happened.
    pub trace: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {:.6} s: {}", self.wrong, self.at.as_secs_f64(), self.detail)
    }
}

/// What a run counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Checks {
    pub(super) violation: Option<Violation>,
    pub(super) reads: u64,
    pub(super) hits: u64,
    pub(super) fetched: u64,
    pub(super) mutations: u64,
    pub(super) messages: u64,
    /// How long each mutation waited at its proxy before it left.
    pub(super) waits: Vec<Span>,
}

/// A read that is answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) node: usize,
    pub(super) key: Key,
    pub(super) seen: Seen,
    pub(super) asked: Time,
    /// How much older it may be: what servers are late, where no proxy can know.
    pub(super) slack: Span,
    pub(super) hit: bool,
}

impl Checks {
    pub(super) fn read(&mut self, now: Time, truth: &Truth, answered: Answered) {
        let Answered { node, key, seen, asked, slack, hit } = answered;
        self.reads += 1;
        self.hits += u64::from(hit);
        if !truth.was(key, seen, asked - slack, now) {
            let (from, until) = truth.times(key, seen);
            let detail = format!(
                "node {node} answered {key:?} with {seen:?} ({:.6}..{:.6} s), asked at {:.6} s, {}",
                from.as_secs_f64(),
                until.as_secs_f64(),
                asked.as_secs_f64(),
                if hit { "from its cache" } else { "from a server" },
            );
            self.broken(Wrong::Stale, now, detail);
        }
    }

    pub(super) fn ran(&mut self, now: Time, truth: &Truth, operation: u64, action: Action) {
        // What had failed may be tried again by who found that it left nothing.
        if truth.runs(operation).1 > 1 {
            self.broken(Wrong::Twice, now, format!("operation {operation}, {action:?}"));
        }
    }

    pub(super) fn answered(&mut self, now: Time, truth: &Truth, operation: u64, action: Action, asked: Time) {
        if let Action::Read(_) = action {
            return;
        }
        self.mutations += 1;
        if !action.idempotent() && truth.runs(operation).0 == 0 {
            let detail = format!("operation {operation}, {action:?}, asked at {:.6} s", asked.as_secs_f64());
            self.broken(Wrong::NotDone, now, detail);
        }
    }

    pub(super) fn broken(&mut self, wrong: Wrong, at: Time, detail: String) {
        self.violation.get_or_insert(Violation { wrong, at, detail, trace: Vec::new() });
    }
}
