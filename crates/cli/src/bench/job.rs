//! `midas bench job-start`: the beginning of a parallel job.

use super::options::time;
use crate::failure::Failure;
use crate::signal;
use crate::sim::output::print;
use clap::Args;
use midas_bench::{Start, Started, Target};

/// Start a parallel job: every client looks for every library along the search path; how long until all have found all.
///
/// Every client has one call in flight and a connection of its own; all look for the same names, of which about nine in ten are
/// not there. Several targets share the clients evenly.
#[derive(Args, Debug)]
pub(crate) struct JobStart {
    #[arg(value_name = "TARGET,...", help = "The servers: [NAME=]HOST:PORT[/PATH][?mount=PORT], or a proxy")]
    targets: String,
    /// Where the names are made, for targets with a cache: one that saw them made knows them already
    #[arg(long, value_name = "TARGET")]
    prepare: Option<String>,
    /// How many clients
    #[arg(long, default_value_t = 256)]
    clients: u32,
    /// How many libraries each of them looks for
    #[arg(long, default_value_t = 50)]
    libraries: u32,
    /// How many directories the search path has
    #[arg(long, default_value_t = 12)]
    path: u32,
    /// A call without an answer for so long ends the run
    #[arg(long, value_name = "TIME", default_value = "10s")]
    timeout: String,
    /// Leave the names behind
    #[arg(long)]
    keep: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

impl JobStart {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let target = |text: &str| Target::parse(text).map_err(Failure::Usage);
        let within = |option: &str, value: u32, most: u32| match (1..=most).contains(&value) {
            true => Ok(value),
            false => Err(Failure::Usage(format!("--{option} must be in 1..{most}, got {value}"))),
        };
        let start = Start {
            targets: self.targets.split(',').map(target).collect::<Result<_, _>>()?,
            prepare: self.prepare.as_deref().map(target).transpose()?,
            clients: within("clients", self.clients, CLIENTS)?,
            libraries: within("libraries", self.libraries, NAMES)?,
            path: within("path", self.path, NAMES)?,
            timeout: time("--timeout", &self.timeout)?,
            keep: self.keep,
        };
        let stop = signal::stop()?;
        let started = start.run(&stop).map_err(|error| Failure::Broken(error.to_string()))?;
        if let Some(why) = &started.left_behind {
            eprintln!("midas: {why}");
        }
        match self.json {
            true => print(&format!("{}\n", serde_json::json!(started))),
            false => print(&text(&started)),
        }
    }
}

fn text(Started { clients, calls, missing, names, seconds, .. }: &Started) -> String {
    let share = 100.0 * *missing as f64 / *calls as f64;
    format!(
        "{clients} clients found all libraries in {seconds:.2} s: {calls} LOOKUPs of {names} names, {share:.0} % of them missing \
         ({:.0} calls/s)\n",
        *calls as f64 / seconds
    )
}

/// Bounds of what can be asked for.
const CLIENTS: u32 = 10_000;
const NAMES: u32 = 10_000;
