//! `midas warm`: fills a cache before the jobs come.

use crate::control::Daemon;
use crate::failure::Failure;
use clap::Args;
use midas_proxy::api::{self, Warm, Warming};
use std::io::{IsTerminal, Write};

/// Fill a cache with the names and attributes below directories, before they are asked for
///
/// The daemon reads the directories at the servers, one call at a time, and keeps what it learns as it does with replies to clients. One
/// walk runs at a time; ending this command ends it. Names are answered only to users of whom the server said that they may search
/// the directory: the first lookup of any other user in each directory still goes to a server. Where the mode is strict nothing would be
/// kept, and the command says so. What does not fit into the cache pushes other entries out: see `midas cache` afterwards.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Options {
    /// Directories as clients see them, each beginning with an export's
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,
    /// How many directories deep; 0 reads these alone [default: all]
    #[arg(long, value_name = "N")]
    depth: Option<u32>,
    /// Stop after so many names [default: 1000000]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// On whose behalf: this user's first lookups are answered too [default: root]
    #[arg(long, value_name = "UID:GID[,GID..]", value_parser = user)]
    user: Option<User>,
    #[command(flatten)]
    daemon: Daemon,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct User {
    uid: u32,
    gid: u32,
    gids: Vec<u32>,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Self { paths, depth, limit, user, daemon } = self;
        let User { uid, gid, gids } = user.unwrap_or_default();
        let mut shown = Shown(false);
        let last =
            daemon.follow(api::WARM, &Warm { paths, depth, limit, uid, gid, gids }, |it: &Warming| shown.show(it))?;
        drop(shown);
        match last {
            Some(Warming { broken: true, ended, .. }) => Err(Failure::Broken(ended.unwrap_or_default())),
            Some(Warming { ended: Some(_), .. }) => Ok(()),
            Some(_) | None => Err(Failure::Broken("the daemon ended before the walk did".to_owned())),
        }
    }
}

fn user(typed: &str) -> Result<User, String> {
    let wrong = || format!("'{typed}' is not UID:GID or UID:GID,GID..");
    let (uid, groups) = typed.split_once(':').ok_or_else(wrong)?;
    let number = |text: &str| text.parse().map_err(|_| wrong());
    let mut groups = groups.split(',').map(number).collect::<Result<Vec<u32>, _>>()?.into_iter();
    Ok(User { uid: number(uid)?, gid: groups.next().ok_or_else(wrong)?, gids: groups.collect() })
}

/// Whether a line of progress stands on the terminal.
struct Shown(bool);

impl Shown {
    fn show(&mut self, it: &Warming) {
        let Warming { directories, ahead, names, kept, refused, failed, at, .. } = it;
        match &it.ended {
            Some(ended) => {
                self.clear();
                let failed = if *failed > 0 { format!(", {failed} directories not read") } else { String::new() };
                println!(
                    "{ended}: {directories} directories, {names} names; {kept} entries kept, {refused} not{failed}"
                );
            }
            None if std::io::stderr().is_terminal() => {
                self.clear();
                eprint!("{directories} directories, {ahead} ahead, {names} names, {kept} kept: {at}");
                let _ = std::io::stderr().flush();
                self.0 = true;
            }
            None => {}
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.0) {
            eprint!("\r\x1b[K");
        }
    }
}

impl Drop for Shown {
    /// Leaves no half line behind.
    fn drop(&mut self) {
        self.clear();
    }
}

const EXAMPLES: &str = "\
Examples:
  midas warm /software/python3                          before a thousand jobs import it
  midas warm /scratch/run7 --depth 1 --limit 100000     two levels, and no more than that
  midas warm /software --user 1000:100,27               for a user with these groups";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_read_with_their_groups_or_refused() {
        let is = |uid, gid, gids: &[u32]| Ok(User { uid, gid, gids: gids.to_vec() });
        assert_eq!(user("1000:100"), is(1000, 100, &[]));
        assert_eq!(user("0:0,1,2"), is(0, 0, &[1, 2]));
        for wrong in ["", "1000", "1000:", "a:1", "1:2,", "1:-1"] {
            assert!(user(wrong).is_err(), "{wrong}");
        }
    }
}
