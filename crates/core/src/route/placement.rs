//! Who places keys: the ring, an administrator's map of subtrees, or a table that the servers already keep.
//!
//! Paper: P14 (constraints first), P15 (an existing placement is consulted, not replaced).

use crate::id::{ServerId, ServerSet};
use crate::key::Key;
use alloc::collections::BTreeMap;

/// A part of the namespace that the administrator placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subtree(pub u32);

/// Where keys may live.
#[derive(Clone, Debug, Default)]
pub enum Placement {
    /// Anywhere; the ring names the home.
    #[default]
    Ring,
    /// Each subtree on its servers; inside of them the ring names the home. A subtree that is not in the map lives anywhere.
    Subtrees(BTreeMap<Subtree, ServerSet>),
    /// The servers' own table (Lustre's layout, CephFS pins): a key in it has one place; one that is not follows the ring.
    Given(BTreeMap<Key, ServerId>),
}

impl Placement {
    /// The servers that may hold this key; `None`: all of them.
    pub(crate) fn allowed(&self, key: Key, subtree: Option<Subtree>) -> Option<ServerSet> {
        match self {
            Self::Ring => None,
            Self::Subtrees(map) => subtree.and_then(|subtree| map.get(&subtree)).copied(),
            Self::Given(table) => table.get(&key).map(|server| ServerSet::only(*server)),
        }
    }
}
