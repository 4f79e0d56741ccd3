//! Why a run has no result.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a run ended early.
#[derive(Debug)]
pub enum RunError {
    /// A target could not be used.
    Target {
        /// Its name.
        target: String,
        /// What went wrong, in one line.
        what: String,
    },
    /// Someone asked for the end.
    Interrupted,
    /// A file could not be written.
    File(PathBuf, io::Error),
    /// The system refused something.
    System(io::Error),
}

impl RunError {
    pub(crate) fn target(target: &str, what: impl fmt::Display) -> Self {
        Self::Target { target: target.to_owned(), what: what.to_string() }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target { target, what } => write!(f, "{target}: {what}"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::System(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<io::Error> for RunError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}
