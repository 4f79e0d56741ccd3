//! Where things lie: the project, and a directory for one test.
//!
//! Scratch directories lie under `target`, not in the system's temporary directory: that may be a file system whose
//! files cannot be opened by handle, which a real server needs; and `make clean` finds what a killed test left.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// The project's root.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the crate lies in the project")
}

/// A fresh directory that is removed when dropped; after a panic it is kept and named, because the logs lie in it.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A directory that no other test has, in this process or another.
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = root().join("target/lab/run").join(name);
        if path.exists() {
            fs::remove_dir_all(&path).expect("what an earlier process with our pid left can be removed");
        }
        fs::create_dir_all(&path).expect("a directory under target can be made");
        Self(path)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("lab: kept {}", self.0.display());
        } else if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("lab: cannot remove {}: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_holds_the_lab() {
        assert!(root().join("lab/ganesha").is_file());
    }

    #[test]
    fn a_scratch_directory_is_its_own_and_goes_with_its_value() {
        let (first, second) = (Scratch::new(), Scratch::new());
        assert!(first.path() != second.path() && first.path().is_dir() && second.path().is_dir());
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists() && second.path().is_dir());
    }
}
