//! Who belongs: lives of members, and the views that a majority agrees on (R1).

use alloc::vec::Vec;

/// A member of the cluster, by its index in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u8);

/// One life of a member, from its start to its end. A restart is another one; no incarnation comes twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life {
    /// Whose.
    pub member: MemberId,
    /// Which.
    pub incarnation: u64,
}

/// Who acts together, as agreed by a majority of the configured members. Epochs are consecutive: the view before `epoch` was `epoch - 1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Its number.
    pub epoch: u64,
    /// Its lives; at least a majority.
    pub lives: Vec<Life>,
}

impl View {
    /// Whether this very life belongs to it.
    pub fn has(&self, life: Life) -> bool {
        self.lives.contains(&life)
    }
}

/// A set of members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Members(u16);

impl Members {
    pub(super) fn insert(&mut self, member: MemberId) {
        self.0 |= 1 << member.0;
    }

    pub(super) const fn has(self, member: MemberId) -> bool {
        self.0 & (1 << member.0) != 0
    }

    pub(super) const fn len(self) -> usize {
        self.0.count_ones() as usize
    }
}

/// Members of a cluster, at most.
pub const MEMBERS_MAX: usize = 16;
