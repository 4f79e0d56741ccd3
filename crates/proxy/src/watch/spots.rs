//! Who asks most, and for what.

/// What event loops saw of directories, clients and users.
#[derive(Debug)]
pub(crate) struct Spots;

impl Spots {
    /// For so many event loops.
    pub(crate) fn new(_loops: usize) -> Self {
        Self
    }
}
