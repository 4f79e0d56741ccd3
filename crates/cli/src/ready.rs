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
/// other members or for a server for longer than 10 s.
///
/// For keepalived and the like: `midas ready --writes` as the check of a member takes its address away while its
/// writes hang (docs/cluster.md has a whole file). `GET /ready` answers the same over HTTP: 200 or 503.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  midas ready            everything: fails if reads or writes are not served\n  \
    midas ready --reads    reads alone: fails only if an export has no server\n  \
    midas ready --writes   writes: fails also while writes hang\n  \
    midas ready --json     the daemon's answer: {\"done\": \"ready\"}, or {\"error\": \"the reasons\"}")]
pub(crate) struct Options {
    /// Ask for reads alone
    #[arg(long, conflicts_with = "writes")]
    reads: bool,
    /// Ask for writes, which need everything that reads need; the same as nothing
    #[arg(long)]
    writes: bool,
    #[command(flatten)]
    daemon: Daemon,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (socket, json) = self.daemon.parts();
        let path = if self.reads { format!("{}?reads", api::READY) } else { api::READY.to_owned() };
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
