//! What a run found, in the form that is printed as JSON. The fields are a promise to scripts: docs/bench.md names each.

use crate::spread::Spread;
use crate::tally::{Error, Tally};
use hdrhistogram::Histogram;
use serde::Serialize;

/// The version of this form; it changes when a field goes away or changes its meaning, not when one is added.
pub const SCHEMA: &str = "midas-bench/1";

/// A whole run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The version of midas.
    pub version: &'static str,
    /// What was asked for.
    pub run: RunReport,
    /// Where, in the order of the arms.
    pub targets: Vec<TargetReport>,
    /// What was measured.
    pub cells: Vec<CellReport>,
    /// What a reader must know before believing the figures, one sentence each.
    pub warnings: Vec<String>,
}

/// What was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// Unique: part of the work directory's name, and of the machine name in every call.
    pub id: String,
    /// The machine name in every call's credential.
    pub machine: String,
    /// Wall clock at the start, seconds since 1970.
    pub started_unix: u64,
    /// Seed of the first round.
    pub seed: u64,
    /// Connections to a server.
    pub connections: u32,
    /// Event loops.
    pub threads: u32,
    /// Users.
    pub users: u32,
    /// Directories in the work directory.
    pub directories: u32,
    /// Files in each.
    pub files: u32,
    /// Bytes of a READ or WRITE.
    pub size: u32,
    /// Measured seconds of a slice.
    pub slice_seconds: f64,
    /// Slices of a cell at each target.
    pub slices: u32,
    /// Seconds before each slice that are not counted.
    pub warmup_seconds: f64,
    /// Seconds after which a call counts as lost.
    pub timeout_seconds: f64,
    /// Processors that the generator was pinned to.
    pub pin: Vec<usize>,
}

/// One target.
#[derive(Clone, Debug, Serialize)]
pub struct TargetReport {
    /// Its name.
    pub name: String,
    /// Host, port and path.
    pub address: String,
    /// Whether the work directory was made here; else it was found, through the file system of another target.
    pub made: bool,
}

/// One load at one pace, at every target.
#[derive(Clone, Debug, Serialize)]
pub struct CellReport {
    /// An operation or a workload.
    pub load: String,
    /// `closed` or `open`.
    pub mode: &'static str,
    /// Calls under way on a connection: in a closed loop always, in an open one at most.
    pub depth: u32,
    /// Calls a second that were asked for, in an open loop.
    pub rate: Option<f64>,
    /// One a target, in order.
    pub arms: Vec<ArmReport>,
}

/// One cell at one target.
#[derive(Clone, Debug, Serialize)]
pub struct ArmReport {
    /// The target's name.
    pub target: String,
    /// Over the slices.
    pub summary: Summary,
    /// Relative to the first arm, round by round; nothing for the first arm itself.
    pub ratio: Option<Ratio>,
    /// Latencies of all slices together, by procedure.
    pub procedures: Vec<ProcedureReport>,
    /// What did not end in OK, of all slices together.
    pub errors: Vec<ErrorReport>,
    /// Counts of all slices together.
    pub counts: CountReport,
    /// From the intended start to the sending, in an open loop: the generator's own delay and the backlog's.
    pub send_delay: Option<Latency>,
    /// Slice by slice.
    pub slices: Vec<SliceReport>,
}

/// Figures over the slices.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Answers a second.
    pub answered_per_second: Option<Spread>,
    /// Calls a second that should have started.
    pub offered_per_second: Option<Spread>,
    /// Mean latency.
    pub mean_us: Option<Spread>,
    /// Median latency.
    pub p50_us: Option<Spread>,
    /// 90th percentile.
    pub p90_us: Option<Spread>,
    /// 99th percentile.
    pub p99_us: Option<Spread>,
    /// 99.9th percentile.
    pub p999_us: Option<Spread>,
    /// Processor time of the server's process for a call, where its pid was given.
    pub server_cpu_us_per_call: Option<Spread>,
    /// Processors that neither the generator nor a given server used.
    pub foreign_cpu: Option<Spread>,
}

/// An arm relative to the first.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// Of the answers a second.
    pub answered_per_second: Option<Spread>,
    /// Of the median latency.
    pub p50_us: Option<Spread>,
    /// Of the 99th percentile.
    pub p99_us: Option<Spread>,
    /// Of the server's processor time for a call.
    pub server_cpu_us_per_call: Option<Spread>,
}

/// Latencies in microseconds; a call without an answer counts with the time that it was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Calls.
    pub calls: u64,
    /// Mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// Largest.
    pub max_us: f64,
}

impl Latency {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            calls: histogram.len(),
            mean_us: histogram.mean().round() / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: histogram.max() as f64 / 1e3,
        }
    }

    /// Without a call there is no latency.
    pub(crate) fn some(&self) -> Option<&Self> {
        (self.calls > 0).then_some(self)
    }
}

/// Latencies of one procedure.
#[derive(Clone, Debug, Serialize)]
pub struct ProcedureReport {
    /// The RFC's name.
    pub procedure: &'static str,
    /// Its latencies.
    #[serde(flatten)]
    pub latency: Latency,
}

/// One way not to end in OK.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorReport {
    /// The RFC's name.
    pub procedure: &'static str,
    /// `status` (of NFS), `refused` (by RPC), `timeout` or `malformed`.
    pub class: &'static str,
    /// The name inside its class, such as `NOENT`.
    pub name: String,
    /// The load brings it about by itself.
    pub expected: bool,
    /// How often.
    pub count: u64,
}

impl ErrorReport {
    pub(crate) fn of(error: &Error) -> Self {
        let (class, name) = error.kind.names();
        Self { procedure: error.procedure.name(), class, name, expected: error.expected, count: error.count }
    }
}

/// Counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CountReport {
    /// Calls that should have started in the measured time.
    pub offered: u64,
    /// Answers that came in the measured time.
    pub answered: u64,
    /// Offered calls that were never sent, because the backlog was full or the slice ended.
    pub dropped: u64,
    /// Errors that the load brings about by itself.
    pub errors_expected: u64,
    /// All other errors, timeouts among them.
    pub errors_unexpected: u64,
    /// Calls without an answer in time.
    pub timeouts: u64,
    /// Connections that were lost.
    pub connections_lost: u64,
    /// Attempts to connect that failed.
    pub connect_failures: u64,
    /// Connections that were made again.
    pub reconnects: u64,
    /// Calls that were sent again on a new connection.
    pub retransmissions: u64,
    /// Replies that nobody waited for.
    pub unmatched: u64,
    /// Lines in the history.
    pub history_lines: u64,
    /// How often an event loop waited for the history's file.
    pub history_waits: u64,
    /// For how long, in microseconds.
    pub history_waited_us: u64,
}

impl CountReport {
    pub(crate) fn of(tally: &Tally) -> Self {
        let counts = &tally.counts;
        let errors = |which: &dyn Fn(&Error) -> bool| {
            tally.errors.iter().filter(|error| which(error)).map(|error| error.count).sum()
        };
        Self {
            offered: counts.offered,
            answered: counts.answered,
            dropped: counts.dropped,
            errors_expected: errors(&|error| error.expected),
            errors_unexpected: errors(&|error| !error.expected),
            timeouts: errors(&|error| error.kind == crate::tally::Kind::Timeout),
            connections_lost: counts.lost,
            connect_failures: counts.connect_failures,
            reconnects: counts.reconnects,
            retransmissions: counts.retransmissions,
            unmatched: counts.unmatched,
            history_lines: counts.history_lines,
            history_waits: counts.history_waits,
            history_waited_us: counts.history_waited / 1000,
        }
    }
}

/// One slice.
#[derive(Clone, Debug, Serialize)]
pub struct SliceReport {
    /// The round, from 0; in a round every target has one slice.
    pub round: u32,
    /// The place in the round, from 0.
    pub position: u32,
    /// Calls a second that should have started.
    pub offered_per_second: f64,
    /// Answers a second.
    pub answered_per_second: f64,
    /// Latencies of all procedures together.
    pub latency: Latency,
    /// Counts.
    pub counts: CountReport,
    /// Processors that the generator used.
    pub generator_cpu: Option<f64>,
    /// Processors that the server's process used, where its pid was given.
    pub server_cpu: Option<f64>,
    /// Its processor time for a call.
    pub server_cpu_us_per_call: Option<f64>,
    /// Processors that neither used.
    pub foreign_cpu: Option<f64>,
}
