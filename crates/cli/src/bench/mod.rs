//! `midas bench`: the load generator, and the responder that it is calibrated with.

mod ceiling;
mod coherence;
mod job;
mod options;
mod show;
mod watch;

use crate::failure::Failure;
use crate::sim::output::{ensure_writable, print};
use clap::{Args, Subcommand};
use midas_bench::RunError;
use options::Options;
use watch::Watch;

/// Put load on an NFSv3 server or proxy and measure it, or compare several.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    long_about = LONG,
    after_long_help = EXAMPLES
)]
pub(crate) struct Bench {
    #[command(subcommand)]
    command: Option<Sub>,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Subcommand)]
enum Sub {
    /// Answer every call from memory: what the network and our own parts can do at most
    Ceiling(ceiling::Ceiling),
    Coherence(coherence::Options),
    /// Start a parallel job: every client looks for every library along the search path; how long until all have found all
    JobStart(job::JobStart),
}

impl Bench {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Some(Sub::Ceiling(ceiling)) => ceiling.run(),
            Some(Sub::Coherence(options)) => options.run(),
            Some(Sub::JobStart(job)) => job.run(),
            None => bench(&self.options),
        }
    }
}

fn bench(options: &Options) -> Result<(), Failure> {
    let config = options.config()?;
    if let Some(path) = &config.history {
        ensure_writable(path)?;
    }
    let stop = crate::signal::stop()?;
    let mut watch = Watch::new(options.interval()?);
    let result = midas_bench::run(&config, &stop, &mut |event| watch.see(&event));
    drop(watch);
    let report = result.map_err(|error| match error {
        RunError::Interrupted => Failure::Broken("interrupted; what was made is removed again".into()),
        other => Failure::Broken(other.to_string()),
    })?;
    for warning in &report.warnings {
        eprintln!("midas: warning: {warning}");
    }
    match options.json {
        true => print(&format!("{}\n", serde_json::json!(report))),
        false => print(&show::text(&report)),
    }
}

const LONG: &str = "\
Put load on an NFSv3 server or proxy and measure it, or compare several.

It mounts the target over NFSv3 itself (no kernel client, no privileges), makes a directory midas-bench-<run> there, works in \
it, and removes it at the end, also after Ctrl-C or an error.

Two ways to send calls. A closed loop (--depth) sends the next call when an earlier one is answered: good for throughput, but \
while the server stalls nothing is sent, so a closed loop hides stalls (coordinated omission). An open loop (--rate) sends at \
times that are fixed beforehand and counts latency from the intended start, whatever the server does: use --rate for latency.";

const EXAMPLES: &str = "\
Examples:
  How many GETATTRs a second, 32 at a time on each of 4 connections:
    midas bench 10.0.0.5:2049/export --op getattr --depth 32 --connections 4

  Latency at 20,000 LOOKUPs a second, stalls included:
    midas bench 10.0.0.5:2049/export --op lookup --rate 20000 --connections 8

  A hot directory, as the simulator knows it (see `midas sim list`), MOUNT on port 20048:
    midas bench '10.0.0.5:2049/export?mount=20048' --workload zipf:1.1 --rate 5000 --directories 256

  What our own parts can do at most, as the first arm of a comparison (each arm in 7 slices of 1 s, taking turns):
    midas bench ceiling --listen 127.0.0.1:20050 --pin 1 &
    midas bench --pin 0 --targets ceiling=127.0.0.1:20050/,mine=127.0.0.1:20049/export \\
      --op getattr,lookup,create --depth 1,32,400 --slices 7 --json

  Every call in a file, to look at:
    midas bench 10.0.0.5:2049/export --workload spotify --rate 1000 --history calls.jsonl

  Not how fast, but what is seen: 16 clients change a few hot names, and a checker looks for what nobody may see:
    midas bench coherence 10.0.0.5:2049/export --history calls && midas history check calls

The JSON (--json) and the history are described field by field in docs/bench.md.";
