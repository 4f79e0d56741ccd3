//! What it costs to serve a call at another server than its home, and which calls stay for it.
//!
//! Servers that share one namespace keep state of what they serve: capabilities of CephFS, tokens of
//! GPFS, locks of Lustre. Where a second server has to take it from the first, a call costs several
//! times as much at both. Then a directory is kept at one server, and balance comes from spreading
//! directories.

/// What a move costs at the servers of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moves {
    /// Nothing: any server serves any call at the same price.
    #[default]
    Free,
    /// Too much: every call stays at its home.
    None,
}

impl Moves {
    /// The words that users read and write.
    pub const NAMES: [(&'static str, Self); 2] = [("free", Self::Free), ("none", Self::None)];

    /// Whether calls stay at their homes.
    pub const fn stay(self) -> bool {
        matches!(self, Self::None)
    }
}
