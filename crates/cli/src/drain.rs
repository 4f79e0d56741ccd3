//! `midas drain` and `midas undrain`: take a server out for a while, without an error at the clients.

use crate::control::Daemon;
use crate::failure::Failure;
use clap::Args;
use midas_proxy::api::{self, Done};

/// Send no new calls to a server
///
/// Calls under way end there. What is bound to it still goes there until it ends: files with uncommitted writes, listings in
/// progress. `midas status` shows when nothing is left. Then the server can be restarted; `midas undrain` takes it back.
/// Forgotten when the daemon ends. The last server of a pool that takes calls is drained only with --force.
#[derive(Debug, Args)]
pub(crate) struct Drain {
    /// The server as the configuration calls it, such as 10.0.0.2:2049
    server: String,
    /// Drain it though no other server of its pool takes calls: all calls wait until one does
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    daemon: Daemon,
}

/// Let calls go to a drained server again
///
/// It must answer and show the handles that the pool agreed on first, as any server that comes back, and starts slowly.
#[derive(Debug, Args)]
pub(crate) struct Undrain {
    /// The server as the configuration calls it, such as 10.0.0.2:2049
    server: String,
    #[command(flatten)]
    daemon: Daemon,
}

impl Drain {
    pub(crate) fn run(self) -> Result<(), Failure> {
        self.daemon.tell(api::DRAIN, &api::Drain { server: self.server, force: self.force }, line)
    }
}

impl Undrain {
    pub(crate) fn run(self) -> Result<(), Failure> {
        self.daemon.tell(api::UNDRAIN, &api::Drain { server: self.server, force: false }, line)
    }
}

fn line(done: &Done) -> String {
    done.done.clone()
}
