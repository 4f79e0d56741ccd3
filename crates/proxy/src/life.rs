//! Whether the daemon before this one ended in order. If it did not, calls of its may still run at the servers, unknown to this one's cache:
//! nothing is kept until they cannot any more (leases.md, the case n = 1).

use crate::log;
use midas_core::cache::CleanStart;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A file that is there while the daemon lives.
pub(crate) struct Life(Option<PathBuf>);

impl Life {
    /// Begins a life beside the state file; how the one before it ended. Who cannot remember does not know.
    pub(crate) fn begin(state: &Path) -> (Self, CleanStart) {
        let file = state.with_extension("running");
        match mark(&file) {
            Ok(start) => (Self(Some(file)), start),
            Err(error) => {
                log::warn("unclean ends cannot be noticed", &[("file", &file.display()), ("why", &error)]);
                (Self(None), CleanStart::No)
            }
        }
    }

    /// For a daemon that leaves nothing behind, and finds nothing.
    pub(crate) fn alone() -> (Self, CleanStart) {
        (Self(None), CleanStart::Yes)
    }

    /// Every call was answered, and none is sent any more.
    pub(crate) fn end(&mut self) {
        if let Some(file) = self.0.take()
            && let Err(error) = fs::remove_file(&file)
        {
            log::warn("the next start is taken for unclean", &[("file", &file.display()), ("why", &error)]);
        }
    }
}

fn mark(file: &Path) -> io::Result<CleanStart> {
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    match File::create_new(file) {
        Ok(made) => {
            made.sync_all()?;
            Ok(CleanStart::Yes)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(CleanStart::No),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_that_did_not_end_is_noticed_by_the_next_one() {
        let directory = std::env::temp_dir().join(format!("midas-life-{}", std::process::id()));
        let state = directory.join("state.json");
        let (mut first, start) = Life::begin(&state);
        assert_eq!(start, CleanStart::Yes);
        first.end();
        let (second, start) = Life::begin(&state);
        assert_eq!(start, CleanStart::Yes);
        drop(second);
        assert_eq!(Life::begin(&state).1, CleanStart::No);
        fs::remove_dir_all(&directory).unwrap();
    }
}
