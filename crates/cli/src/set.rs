//! `midas set`: change an export while the daemon runs.

use crate::control::Daemon;
use crate::failure::Failure;
use clap::Args;
use midas_core::route::policy::Policy;
use midas_proxy::api::{self, Done};

/// Change how an export is served, until the daemon ends
///
/// `midas status` shows what was changed and what the configuration says.
#[derive(Debug, Args)]
#[command(after_long_help = policies())]
pub(crate) struct Options {
    /// The export's path, as clients mount it; for a mode also the path of one of its subtrees
    export: String,
    /// policy=POLICY, mode=MODE, or both
    #[arg(required = true, value_name = "KEY=VALUE", num_args = 1..)]
    changes: Vec<String>,
    #[command(flatten)]
    daemon: Daemon,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let set = changes(self.export, &self.changes).map_err(Failure::Usage)?;
        self.daemon.tell(api::SET, &set, |done: &Done| done.done.clone())
    }
}

/// What the values may be is the daemon's to say: it may be of another version.
fn changes(export: String, typed: &[String]) -> Result<api::Set, String> {
    let mut set = api::Set { export, ..api::Set::default() };
    for change in typed {
        let place = match change.split_once('=') {
            Some(("policy", value)) => (&mut set.policy, value),
            Some(("mode", value)) => (&mut set.mode, value),
            Some(_) | None => return Err(format!("'{change}' cannot be set; possible: policy=.., mode=..")),
        };
        if place.0.replace(place.1.to_owned()).is_some() {
            return Err(format!("'{change}' was set before in the same command"));
        }
    }
    Ok(set)
}

fn policies() -> String {
    let lines = Policy::USAGE.map(|(usage, meaning)| format!("  policy={usage}\n      {meaning}\n"));
    format!(
        "What can be set:\n{}  mode=strict\n      nothing is answered from the cache\n  mode=ttl\n      \
         out of date for a small share of answers\n  mode=lease, mode=immutable\n      \
         only where the configuration says writers = \"midas-only\"",
        lines.concat()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_once_and_no_other() {
        let typed = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            changes("/scratch".to_owned(), &words)
        };
        let set = typed(&["policy=first-fit:gap=2", "mode=strict"]).unwrap();
        assert_eq!((set.policy.as_deref(), set.mode.as_deref()), (Some("first-fit:gap=2"), Some("strict")));
        for wrong in [&["polisy=rr"][..], &["policy"], &["policy=rr", "policy=rr"]] {
            assert!(typed(wrong).is_err(), "{wrong:?}");
        }
    }
}
