//! `midas ready`: whether a daemon serves, as an exit code; for scripts that move addresses and clients.

use crate::control::{self, Daemon};
use crate::failure::Failure;
use clap::Args;
use midas_proxy::api;
use std::io::Write;

/// Whether a running daemon serves: exit code 0 if it does, 1 with the reasons if it does not
///
/// It does not serve if an export has no server; if it is a member of a cluster, has exports with leases and is
/// cut off from the majority, so that writes hang there and not at the other members; or if a write has waited for
/// other members for longer than 10 s. `--writes` fails also if one has waited for a server for so long: every other
/// member may wait for the same one.
///
/// For keepalived and the like: `midas ready` as the check of a member takes its address away while its own writes
/// hang (docs/cluster.md has a whole file). `GET /ready` answers the same over HTTP: 200 or 503.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  midas ready            this daemon: fails if it does not serve reads or writes\n  \
    midas ready --reads    reads alone: fails only if an export has no server\n  \
    midas ready --writes   writes: fails also while one waits for a slow server\n  \
    midas ready --json     the daemon's answer: {\"done\": \"ready\"}, or {\"error\": \"the reasons\"}"
)]
pub(crate) struct Options {
    /// Ask for reads alone
    #[arg(long, conflicts_with = "writes")]
    reads: bool,
    /// Ask for writes, whether they hang here or at a server; they need everything that reads need
    #[arg(long)]
    writes: bool,
    #[command(flatten)]
    daemon: Daemon,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (socket, json) = self.daemon.parts();
        let question = match (self.reads, self.writes) {
            (true, _) => "?reads",
            (false, true) => "?writes",
            (false, false) => "",
        };
        let path = format!("{}{question}", api::READY);
        let (status, answer) = control::get(socket, &path)?;
        let said = if json { String::from_utf8_lossy(&answer).into_owned() } else { "ready".to_owned() };
        if json || status.is_success() {
            let mut out = std::io::stdout().lock();
            let shown = writeln!(out, "{said}").and_then(|()| out.flush());
            shown.map_err(|error| Failure::Broken(error.to_string()))?;
        }
        if status.is_success() { Ok(()) } else { Err(control::refused(status, &answer)) }
    }
}
