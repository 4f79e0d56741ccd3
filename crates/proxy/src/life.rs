//! Whether the daemon before this one ended in order. If it did not, calls of its may still run at the servers, unknown to this one's cache:
//! nothing is kept until they cannot any more (leases.md, the case n = 1).

use crate::log;
use midas_core::cache::CleanStart;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that is there, and locked, while the daemon lives.
pub(crate) struct Life(Option<(PathBuf, File)>);

impl Life {
    /// Begins a life beside the state file; how the one before it ended. Who cannot remember does not know. Fails if the one before it has not ended.
    pub(crate) fn begin(state: &Path) -> io::Result<(Self, CleanStart)> {
        let path = state.with_extension("running");
        match mark(&path) {
            Ok((file, start)) => Ok((Self(Some((path, file))), start)),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                let said = format!("another daemon runs with the state file {}", state.display());
                Err(io::Error::new(ErrorKind::AddrInUse, said))
            }
            Err(error) => {
                log::warn("unclean ends cannot be noticed", &[("file", &path.display()), ("why", &error)]);
                Ok((Self(None), CleanStart::No))
            }
        }
    }

    /// For a daemon that leaves nothing behind, and finds nothing.
    pub(crate) fn alone() -> Self {
        Self(None)
    }

    /// Every call was answered, and none is sent any more.
    pub(crate) fn end(&mut self) {
        // The file goes before its lock.
        if let Some((path, _file)) = self.0.take()
            && let Err(error) = fs::remove_file(&path)
        {
            log::warn("the next start is taken for unclean", &[("file", &path.display()), ("why", &error)]);
        }
    }
}

/// Locks the file, made if it is not there. One that was removed meanwhile is nobody's any more.
fn mark(path: &Path) -> io::Result<(File, CleanStart)> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    for _ in 0..TRIES {
        let (file, start) = match File::create_new(path) {
            Ok(made) => (made, CleanStart::Yes),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => match File::open(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                found => (found?, CleanStart::No),
            },
            Err(error) => return Err(error),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ErrorKind::AddrInUse.into()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        if fs::metadata(path).is_ok_and(|named| file.metadata().is_ok_and(|ours| named.ino() == ours.ino())) {
            file.sync_all()?;
            return Ok((file, start));
        }
    }
    Err(ErrorKind::AddrInUse.into())
}

/// Daemons that end just when this one starts, at most.
const TRIES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_that_did_not_end_is_noticed_by_the_next_one() {
        let directory = std::env::temp_dir().join(format!("midas-life-{}", std::process::id()));
        let state = directory.join("state.json");
        let (mut first, start) = Life::begin(&state).unwrap();
        assert_eq!(start, CleanStart::Yes);
        first.end();
        let (second, start) = Life::begin(&state).unwrap();
        assert_eq!(start, CleanStart::Yes);
        let refused = Life::begin(&state).err().expect("one at a time");
        assert!(refused.to_string().starts_with("another daemon runs with the state file"), "{refused}");
        drop(second);
        assert_eq!(Life::begin(&state).unwrap().1, CleanStart::No);
        fs::remove_dir_all(&directory).unwrap();
    }
}
