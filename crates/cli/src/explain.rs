//! `midas explain`: where a call would go, and why.

use crate::control::Daemon;
use crate::failure::Failure;
use clap::Args;
use midas_proxy::api::{self, Explain, Explanation};

/// Say where the next call on a file or directory would go, and why
///
/// The daemon decides as it does for a call, on copies: nothing is counted, moved or sent. A path is looked up at one of the servers
/// first. Calls on names (lookup, create, remove, rename, link) are placed by their directory: for them the last name of a path is
/// the name, and need not exist; a handle is the directory's.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Options {
    /// A path as clients see it, beginning with an export's; or a file handle in hexadecimal digits
    #[arg(value_name = "HANDLE|PATH")]
    what: String,
    /// What is done with it: lookup, getattr, access, list, readlink, statfs, read, create, remove, rename, link, setattr, write, commit
    #[arg(long, default_value = "getattr")]
    op: String,
    #[command(flatten)]
    daemon: Daemon,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (path, handle) = match self.what.starts_with('/') {
            true => (Some(self.what), None),
            false => (None, Some(self.what)),
        };
        self.daemon.tell(api::EXPLAIN, &Explain { path, handle, op: Some(self.op) }, show)
    }
}

fn show(it: &Explanation) -> String {
    let name = it.name.as_ref().map_or_else(String::new, |name| format!(", name '{name}'"));
    let mut lines = vec![
        format!("{} in {}, pool {}, policy {}", it.op, it.export, it.pool, it.policy),
        format!("handle  {}{name}", it.handle),
        format!("home    {}", it.home),
    ];
    lines.push(format!("cache   {}: {}", it.mode, it.mode_because));
    lines.extend(it.bound.as_ref().map(|bound| format!("bound   to {}: {}", bound.server, bound.because)));
    let width = it.servers.iter().map(|server| server.name.len()).max().unwrap_or_default();
    for server in &it.servers {
        let may = server.excluded.as_ref().map_or_else(|| "may serve it".to_owned(), |why| format!("may not: {why}"));
        lines.push(format!(
            "  {:width$}  {:11}  {:>5} in flight, work {:>7.2}  {may}",
            server.name, server.health, server.in_flight, server.work
        ));
    }
    let to = it.to.as_deref().unwrap_or("nowhere yet");
    lines.push(format!("next    {to} ({}): {}", it.why, it.because));
    lines.join("\n")
}

const EXAMPLES: &str = "\
Examples:
  midas explain /scratch/run7                     the directory itself, and what is looked up in it
  midas explain /scratch/run7/new --op create     a file that is to be made there
  midas explain 0100070101ff                      a handle, as a packet capture shows it";
