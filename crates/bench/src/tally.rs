//! What one event loop counted in one slice; the tallies of several are added up.
//!
//! A call is counted if it should have started inside the measured window, however it ended and however late: leaving out what
//! ended late would leave out what was slow.

use crate::clock::Nanos;
use hdrhistogram::Histogram;
use midas_nfs::nfs3::{Nfsstat3, Procedure};
use midas_nfs::rpc::Refusal;

/// Counts and latencies.
#[derive(Debug)]
pub(crate) struct Tally {
    latencies: [Option<Histogram<u64>>; Procedure::ALL.len()],
    /// From the intended start to the sending, in an open loop.
    pub(crate) send_delay: Option<Histogram<u64>>,
    pub(crate) errors: Vec<Error>,
    pub(crate) counts: Counts,
}

/// Plain counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Calls that should have started inside the window.
    pub(crate) offered: u64,
    /// Answers that came inside the window, whenever their calls started.
    pub(crate) answered: u64,
    /// Offered calls that were never sent: the backlog was full, or the slice ended before their turn.
    pub(crate) dropped: u64,
    /// Connections that were lost, attempts to connect that failed, connections that were made again.
    pub(crate) lost: u64,
    pub(crate) connect_failures: u64,
    pub(crate) reconnects: u64,
    /// Calls that were sent again on a new connection.
    pub(crate) retransmissions: u64,
    /// Replies that nobody waited for (any more).
    pub(crate) unmatched: u64,
    /// How often, and for how long, the loop waited for the history's file.
    pub(crate) history_waits: u64,
    pub(crate) history_waited: Nanos,
    /// Calls in the history.
    pub(crate) history_lines: u64,
}

/// How often a procedure ended in one way that is not OK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Error {
    pub(crate) procedure: Procedure,
    pub(crate) kind: Kind,
    /// The load brings it about by itself.
    pub(crate) expected: bool,
    pub(crate) count: u64,
}

/// Ways to end that are not OK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Status(Nfsstat3),
    Refused(&'static str),
    Malformed,
    Timeout,
}

impl Kind {
    pub(crate) const fn refused(refusal: Refusal) -> Self {
        Self::Refused(match refusal {
            Refusal::ProgUnavail => "PROG_UNAVAIL",
            Refusal::ProgMismatch { .. } => "PROG_MISMATCH",
            Refusal::ProcUnavail => "PROC_UNAVAIL",
            Refusal::GarbageArgs => "GARBAGE_ARGS",
            Refusal::SystemErr => "SYSTEM_ERR",
            Refusal::RpcMismatch { .. } => "RPC_MISMATCH",
            Refusal::Auth(_) => "AUTH_ERROR",
        })
    }

    /// The kind's class and its name inside of it.
    pub(crate) fn names(self) -> (&'static str, String) {
        match self {
            Self::Status(status) => ("status", status.to_string()),
            Self::Refused(name) => ("refused", name.to_owned()),
            Self::Malformed => ("malformed", "MALFORMED".to_owned()),
            Self::Timeout => ("timeout", "TIMEOUT".to_owned()),
        }
    }
}

impl Tally {
    pub(crate) fn new() -> Self {
        let counts = Counts::default();
        Self { latencies: [const { None }; Procedure::ALL.len()], send_delay: None, errors: Vec::new(), counts }
    }

    pub(crate) fn latency(&mut self, procedure: Procedure, latency: Nanos) {
        self.latencies[procedure as usize].get_or_insert_with(histogram).saturating_record(latency);
    }

    pub(crate) fn sent_after(&mut self, delay: Nanos) {
        self.send_delay.get_or_insert_with(histogram).saturating_record(delay);
    }

    pub(crate) fn error(&mut self, procedure: Procedure, kind: Kind, expected: bool) {
        self.add_error(Error { procedure, kind, expected, count: 1 });
    }

    fn add_error(&mut self, new: Error) {
        let same =
            |old: &&mut Error| (old.procedure, old.kind, old.expected) == (new.procedure, new.kind, new.expected);
        match self.errors.iter_mut().find(same) {
            Some(error) => error.count += new.count,
            None => self.errors.push(new),
        }
    }

    /// Latencies by procedure, where there are any.
    pub(crate) fn latencies(&self) -> impl Iterator<Item = (Procedure, &Histogram<u64>)> {
        Procedure::ALL.into_iter().filter_map(|p| Some((p, self.latencies[p as usize].as_ref()?)))
    }

    /// Latencies of all procedures.
    pub(crate) fn overall(&self) -> Histogram<u64> {
        let mut all = histogram();
        self.latencies().for_each(|(_, one)| add(&mut all, one));
        all
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.latencies.iter_mut().zip(&other.latencies) {
            merge(mine, theirs.as_ref());
        }
        merge(&mut self.send_delay, other.send_delay.as_ref());
        other.errors.iter().for_each(|error| self.add_error(*error));
        self.counts.add(&other.counts);
    }
}

impl Counts {
    fn add(&mut self, other: &Self) {
        let Self {
            offered,
            answered,
            dropped,
            lost,
            connect_failures,
            reconnects,
            retransmissions,
            unmatched,
            history_waits,
            history_waited,
            history_lines,
        } = other;
        self.offered += offered;
        self.answered += answered;
        self.dropped += dropped;
        self.lost += lost;
        self.connect_failures += connect_failures;
        self.reconnects += reconnects;
        self.retransmissions += retransmissions;
        self.unmatched += unmatched;
        self.history_waits += history_waits;
        self.history_waited += history_waited;
        self.history_lines += history_lines;
    }
}

fn merge(mine: &mut Option<Histogram<u64>>, theirs: Option<&Histogram<u64>>) {
    if let Some(theirs) = theirs {
        add(mine.get_or_insert_with(histogram), theirs);
    }
}

fn add(all: &mut Histogram<u64>, one: &Histogram<u64>) {
    all.add(one).expect("both have the same bounds");
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("the bounds are valid")
}

/// An hour; what takes longer counts as an hour.
const LONGEST: Nanos = 3_600_000_000_000;
/// Significant digits.
const DIGITS: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_tallies_hold_what_each_held() {
        let make = |latency, status| {
            let mut tally = Tally::new();
            tally.latency(Procedure::Getattr, latency);
            tally.sent_after(latency);
            tally.error(Procedure::Lookup, Kind::Status(status), false);
            tally.counts.answered = 1;
            tally
        };
        let mut all = make(1_000, Nfsstat3::NOENT);
        all.merge(&make(9_000, Nfsstat3::NOENT));
        all.merge(&make(Nanos::MAX, Nfsstat3::STALE));
        assert_eq!(all.overall().len(), 3);
        assert!(all.overall().max() >= LONGEST, "longer than the longest counts as the longest");
        assert_eq!(all.counts.answered, 3);
        let counts: Vec<(Kind, u64)> = all.errors.iter().map(|error| (error.kind, error.count)).collect();
        assert_eq!(counts, [(Kind::Status(Nfsstat3::NOENT), 2), (Kind::Status(Nfsstat3::STALE), 1)]);
    }
}
