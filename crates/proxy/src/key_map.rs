//! Tables of keys. A key is a hash, but not a keyed one: a client can make many that fall into one
//! place of a table. So keys are hashed once more, under a key of the process.

use midas_core::key::Key;
use std::collections::HashMap;

/// A table of keys, which is looked into for every call.
pub(crate) type KeyMap<V> = HashMap<Key, V, foldhash::quality::RandomState>;
