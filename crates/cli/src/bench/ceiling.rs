//! `midas bench ceiling`: the responder.

use super::options::cores;
use crate::failure::Failure;
use crate::signal;
use crate::sim::output::print;
use clap::Args;
use std::net::SocketAddr;

/// Answer every call from memory: what the network and our own parts can do at most.
///
/// It has no file system: every name exists, every change succeeds, replies are as long as a real server's. Use it as the first
/// arm of --targets. It prints one line when it is ready and runs until it gets SIGINT or SIGTERM.
#[derive(Args, Debug)]
pub(crate) struct Ceiling {
    /// Where to listen, NFS and MOUNT on one port; port 0 takes a free one, which the ready line names
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:20050")]
    listen: SocketAddr,
    /// Run on this processor only
    #[arg(long, value_name = "CORE")]
    pin: Option<String>,
}

impl Ceiling {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let cores = self.pin.as_deref().map_or(Ok(Vec::new()), cores)?;
        if !cores.is_empty() {
            midas_bench::pin(&cores).map_err(|error| Failure::Broken(format!("--pin: {error}")))?;
        }
        let stop = signal::stop()?;
        let failed = |error: std::io::Error| Failure::Broken(format!("{}: {error}", self.listen));
        let ceiling = midas_bench::ceiling::Ceiling::bind(self.listen).map_err(failed)?;
        print(&format!("midas bench ceiling: ready on {}\n", ceiling.address().map_err(failed)?))?;
        ceiling.run(&stop).map_err(failed)
    }
}
