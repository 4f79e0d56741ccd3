//! Commands that end. coreutils' `timeout` does the waiting: it ends the command's children too.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A command that is ended after `limit`, and killed two seconds later if it did not listen: then its status is 124 or 137.
pub fn bounded(program: &str, limit: Duration) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "2", &limit.as_secs_f64().to_string()]);
    command.arg(find(program).unwrap_or_else(|| PathBuf::from(program)));
    command
}

/// Where a command lies. Debian keeps some of the lab's where the path of a plain user does not lead.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain(SYSTEM_DIRECTORIES.map(PathBuf::from));
    directories.map(|directory| directory.join(program)).find(|file| Path::is_file(file))
}

const SYSTEM_DIRECTORIES: [&str; 2] = ["/usr/sbin", "/sbin"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_does_not_end_is_ended() {
        let status = bounded("sleep", Duration::from_millis(50)).arg("60").status().unwrap();
        assert_eq!(status.code(), Some(124));
        let output = bounded("echo", Duration::from_secs(60)).arg("done").output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"done\n".as_slice()));
    }

    #[test]
    fn a_command_is_found_or_it_is_not() {
        assert!(find("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find("no-such-command-of-ours"), None);
    }
}
