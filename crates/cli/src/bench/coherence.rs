//! `midas bench coherence`: what clients see of each other's changes.

use crate::failure::Failure;
use crate::sim::output::{ensure_writable, print};
use clap::Args;
use midas_bench::coherence::{Coherence, run};
use midas_bench::{RunError, Target};
use midas_workload::units::parse_span;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Let clients change a few hot names and files, and write down all that they see, for `midas history check`
///
/// Each client has a connection and makes one call at a time. Files that stay get sizes, modes and times that no other
/// call gives, data that makes them grow, and second names that are renamed over each other and removed; contested names are
/// created (new, or over what is there), removed, renamed over and away; every client makes and removes a directory and a symbolic
/// link of its own. Meanwhile everybody looks: GETATTR, LOOKUP, ACCESS, READLINK, READDIR, READDIRPLUS.
///
/// Several targets must be servers or proxies of one namespace with the same handles: clients are spread over them in turn. The work directory
/// midas-bench-RUN is made at the first one and removed at the end.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(crate) struct Options {
    #[arg(
        value_name = "TARGET,...",
        help = "Servers or proxies of one namespace: [NAME=]HOST:PORT[/PATH][?mount=PORT],..."
    )]
    targets: String,
    /// Where every call is written to
    #[arg(long, value_name = "FILE")]
    history: PathBuf,
    /// Clients, spread over the targets in turn
    #[arg(long, value_name = "N", default_value_t = 16)]
    clients: u32,
    /// End after so many calls of all clients [default: no limit]
    #[arg(long, value_name = "N")]
    calls: Option<u64>,
    /// End after this time [default: 10s; no limit with --calls]
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// Directories
    #[arg(long, value_name = "N", default_value_t = 2)]
    directories: u32,
    /// Files in each that stay
    #[arg(long, value_name = "N", default_value_t = 4)]
    files: u32,
    /// Names in each that all clients make, remove and rename
    #[arg(long, value_name = "N", default_value_t = 4)]
    names: u32,
    /// Share of calls that change something
    #[arg(long, value_name = "SHARE", default_value_t = 0.3)]
    changes: f64,
    /// After so long without an answer a call is in doubt, and its connection is made anew
    #[arg(long, value_name = "TIME", default_value = "10s")]
    timeout: String,
    /// User and group that change things [default: one's own]
    #[arg(long)]
    uid: Option<u32>,
    #[arg(long, help = "See --uid")]
    gid: Option<u32>,
    /// One seed is one sequence of calls for each client
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leave the work directory behind
    #[arg(long)]
    keep: bool,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let config = self.config()?;
        ensure_writable(&config.history)?;
        let stop = crate::signal::stop()?;
        let mut line = Line { shown: None, terminal: std::io::stderr().is_terminal() };
        let result = run(&config, &stop, &mut |what, done, total| line.show(what, done, total));
        drop(line);
        let done = result.map_err(|error| match error {
            RunError::Interrupted => Failure::Broken("interrupted; what was made is removed again".into()),
            other => Failure::Broken(other.to_string()),
        })?;
        if let Some(why) = &done.left_behind {
            eprintln!("midas: {why}");
        }
        if done.mixed > 0 {
            let what = "LOOKUPs told an object's handle with another one's attributes, which are not in the history";
            eprintln!("midas: {} {what} (docs/consistency.md)", done.mixed);
        }
        let seconds = done.took.as_secs_f64();
        let rate = done.calls as f64 / seconds.max(1e-9);
        let path = config.history.display();
        print(&format!(
            "{} calls of {} clients in {seconds:.1} s ({rate:.0}/s), {} without an answer; next: midas history check {path}\n",
            done.calls, config.clients, done.silent
        ))
    }

    fn config(&self) -> Result<Coherence, Failure> {
        let targets =
            self.targets.split(',').map(Target::parse).collect::<Result<Vec<_>, _>>().map_err(Failure::Usage)?;
        let usual = Coherence::new(targets, self.history.clone());
        let duration = match (&self.duration, self.calls) {
            (Some(text), _) => time("--duration", text)?,
            (None, Some(_)) => Duration::MAX,
            (None, None) => usual.duration,
        };
        let config = Coherence {
            clients: self.clients,
            calls: self.calls.unwrap_or(u64::MAX),
            duration,
            directories: self.directories,
            files: self.files,
            names: self.names,
            changes: self.changes,
            timeout: time("--timeout", &self.timeout)?,
            uid: self.uid.unwrap_or(usual.uid),
            gid: self.gid.unwrap_or(usual.gid),
            seed: self.seed,
            keep: self.keep,
            ..usual
        };
        config.check().map_err(Failure::Usage)?;
        Ok(config)
    }
}

fn time(option: &str, text: &str) -> Result<Duration, Failure> {
    let span = parse_span(text).map_err(|error| Failure::Usage(format!("{option}: {error}")))?;
    Ok(Duration::from_nanos(span.as_nanos()))
}

/// A line on a terminal that is rewritten.
struct Line {
    shown: Option<Instant>,
    terminal: bool,
}

impl Line {
    fn show(&mut self, what: &str, done: usize, total: usize) {
        if self.terminal && self.shown.is_none_or(|at| at.elapsed() >= REWRITE) {
            self.shown = Some(Instant::now());
            let of = if total == 0 { String::new() } else { format!("/{total}") };
            eprint!("\r\x1b[K{what} {done}{of}");
            let _ = std::io::stderr().flush();
        }
    }
}

impl Drop for Line {
    /// Leaves no half line behind.
    fn drop(&mut self) {
        if self.shown.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}

const REWRITE: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  A proxy, 32 clients, a million calls:
    midas bench coherence 10.0.0.9:2049/export --clients 32 --calls 1000000 --history calls
    midas history check calls

  Two servers over one file system, without a proxy (expect violations where servers cache attributes):
    midas bench coherence 10.0.0.5:2049/export,10.0.0.6:2049/export --duration 30s --history calls

The format of the file is described in docs/bench.md, what is checked in docs/consistency.md.";
