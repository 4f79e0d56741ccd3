//! `midas invalidate`: what is kept of a path is forgotten.

use crate::control::Daemon;
use crate::failure::Failure;
use clap::Args;
use midas_proxy::api::{self, Done, Invalidate};

/// Forget what a cache keeps of files and directories: the next calls ask the servers
///
/// For changes that were made past MIDAS, where waiting for the entries to age is not enough. Of a path its name, its attributes and
/// what users may do with it are forgotten; of a directory also the names and listings in it, but not what lies deeper. A path that no
/// longer exists may be named too. Nothing else changes: the mode stays, and what is read again is kept again.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Options {
    /// Paths as clients see them, each beginning with an export's
    #[arg(value_name = "PATH", required_unless_present = "all", conflicts_with = "all")]
    paths: Vec<String>,
    /// Forget everything
    #[arg(long)]
    all: bool,
    /// Everything of this export alone
    #[arg(long, value_name = "PATH", requires = "all")]
    export: Option<String>,
    #[command(flatten)]
    daemon: Daemon,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Self { paths, all, export, daemon } = self;
        daemon.tell(api::INVALIDATE, &Invalidate { paths, all, export }, |done: &Done| done.done.clone())
    }
}

const EXAMPLES: &str = "\
Examples:
  midas invalidate /software/lib /software/lib/libc.so    a directory's names, and one file in it
  midas invalidate --all --export /software               a whole export";
