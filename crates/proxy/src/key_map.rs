//! Tables of keys. A key is a hash, but not a keyed one: a client can make many that fall into one
//! place of a table. So keys are hashed once more, under a seed of the table. That is a modest
//! guard, as foldhash promises no more; what is in such a table is bounded besides.

use midas_core::key::Key;
use std::collections::HashMap;

/// A table of keys, which is looked into for every call.
pub(crate) type KeyMap<V> = HashMap<Key, V, foldhash::quality::RandomState>;
