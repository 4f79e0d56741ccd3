//! A directory of our own for what proxies keep while they run; it goes with the value.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// An empty directory, and its number among those of this process.
pub(crate) struct Place {
    directory: PathBuf,
    number: u32,
}

impl Place {
    pub(crate) fn new() -> io::Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("midas-stage-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        Ok(Self { directory, number })
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
