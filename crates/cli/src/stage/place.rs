//! A directory of our own for what proxies keep while they run; it goes with the value.

use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// An empty directory, and its number among those of this process.
pub(crate) struct Place {
    directory: PathBuf,
    number: u32,
}

impl Place {
    /// Nobody else reads it, and it was not there before: what another left under such a name stays as it is.
    pub(crate) fn new() -> io::Result<Self> {
        Self::within(&std::env::temp_dir())
    }

    fn within(above: &Path) -> io::Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        for _ in 0..TRIES_MAX {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let directory = above.join(format!("midas-stage-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&directory) {
                Ok(()) => return Ok(Self { directory, number }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", directory.display()))),
            }
        }
        Err(io::Error::new(ErrorKind::AlreadyExists, format!("{}: too much of midas was left there", above.display())))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.directory
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _left = std::fs::remove_dir_all(&self.directory);
    }
}

/// Names that may be taken: a process with our number was here before, and left so many.
const TRIES_MAX: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_is_ours_alone_and_what_was_there_before_stays() {
        let above = Place::new().unwrap();
        let first = Place::within(above.path()).unwrap();
        let mode = first.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let taken: Vec<PathBuf> = (first.number() + 1..first.number() + 9)
            .map(|number| above.path().join(format!("midas-stage-{}-{number}", std::process::id())))
            .collect();
        for path in &taken {
            std::fs::create_dir(path).unwrap();
        }
        let second = Place::within(above.path()).unwrap();
        let (made, gone) = (second.path().to_owned(), first.path().to_owned());
        assert!(!taken.contains(&made));
        drop((first, second));
        assert!(!made.exists() && !gone.exists());
        assert!(taken.iter().all(|path| path.exists()));
    }
}
