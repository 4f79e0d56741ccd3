//! `midas bypass`: the way out.

use crate::control::Daemon;
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use midas_proxy::api::{self, Done};

/// Send every call to its home, whatever the policies, and cache nothing; or go back to the policies
///
/// Takes effect at once: every call that is decided after this command returns goes to its directory's home, as with the policy
/// hash-directory, in every export. Calls under way end where they are; what is bound to a server (uncommitted writes, listings in
/// progress) stays bound. Forgotten when the daemon ends.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// on or off
    state: State,
    #[command(flatten)]
    daemon: Daemon,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    On,
    Off,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let on = matches!(self.state, State::On);
        self.daemon.tell(api::BYPASS, &api::Bypass { on }, |done: &Done| done.done.clone())
    }
}
