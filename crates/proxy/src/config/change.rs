//! What a reload changes, and what of it a running daemon can take over.

use super::entry::{Entry, Place};
use super::key::Table;
use super::{Config, Export, Pool, Subtree, Writers};
use midas_core::cache::Mode;
use std::collections::HashMap;
use std::fmt;

/// One difference between two configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The table that differs.
    pub place: Place,
    /// How.
    pub difference: Difference,
    /// When it takes effect.
    pub applies: Applies,
}

/// How a table differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A pool or export that was not there.
    Added,
    /// A pool or export that is no longer there.
    Removed,
    /// Another value.
    Changed {
        /// Of this key.
        key: &'static str,
        /// It was this.
        from: String,
        /// It is this.
        to: String,
    },
}

/// When a change takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applies {
    /// At a reload.
    Live,
    /// At a restart.
    Restart,
}

impl Config {
    /// What must be done to get from this configuration to the new one; empty if they mean the same. Pools and exports are told
    /// apart by name and path, so their order does not count.
    pub fn differences(&self, new: &Self) -> Vec<Change> {
        let mut taken = self.clone();
        taken.take_live(new);
        let (before, taken, after) = (self.entries(), taken.entries(), new.entries());
        let (old, taken, new) = (by_key(&before), by_key(&taken), by_key(&after));
        let mut changes: Vec<Change> = before.iter().filter_map(|entry| change(entry, &taken, &new)).collect();
        let added =
            after.iter().filter(|entry| names_its_table(entry) && !old.contains_key(&(&entry.place, entry.key)));
        changes.extend(added.map(|entry| restart(&entry.place, Difference::Added)));
        changes
    }
}

impl Config {
    /// Takes over from the new configuration what a running daemon can; what still differs afterwards waits for a restart.
    pub fn take_live(&mut self, new: &Self) {
        self.log = new.log;
        for pool in &mut self.pools {
            if let Some(Pool { staleness, .. }) = new.pools.iter().find(|other| other.name == pool.name) {
                pool.staleness = *staleness;
            }
        }
        for export in &mut self.exports {
            if let Some(other) = new.exports.iter().find(|other| other.path == export.path) {
                let Export { clients, access, squash, anonymous, insecure, policy, .. } = other.clone();
                *export = Export { clients, access, squash, anonymous, insecure, policy, ..export.clone() };
                export.take_mode(other);
            }
        }
    }
}

impl Export {
    /// A daemon that did not watch all writers from its start cannot begin to trust them, but it can stop at once.
    fn take_mode(&mut self, new: &Self) {
        if new.caching.writers == Writers::Anyone {
            self.caching.writers = Writers::Anyone;
        }
        if self.caching.writers.permit(new.mode) {
            self.mode = new.mode;
        }
        for subtree in &mut self.subtrees {
            if let Some(other) = new.subtrees.iter().find(|other| other.path == subtree.path) {
                subtree.take_mode(other);
            }
        }
    }

    /// The modes in force after a reload that put these rules in place of others, its own first, then those of its subtrees: what a
    /// command has set stays, unless the file now says another mode or no longer permits it.
    pub(crate) fn modes_after(&self, old: &Self, in_force: &[Mode]) -> Vec<Mode> {
        let after = |(((mode, writers), (before, _)), in_force): ((Said, Said), &Mode)| {
            if mode == before && writers.permit(*in_force) { *in_force } else { mode }
        };
        self.said().zip(old.said()).zip(in_force).map(after).collect()
    }

    fn said(&self) -> impl Iterator<Item = Said> {
        let subtrees = self.subtrees.iter().map(|subtree| (subtree.mode, subtree.caching.writers));
        std::iter::once((self.mode, self.caching.writers)).chain(subtrees)
    }
}

impl Subtree {
    fn take_mode(&mut self, new: &Self) {
        if new.caching.writers == Writers::Anyone {
            self.caching.writers = Writers::Anyone;
        }
        if self.caching.writers.permit(new.mode) {
            self.mode = new.mode;
        }
    }
}

impl Change {
    /// What differs, without its values: for whoever may see that there was a change, and not all that a file says.
    pub(crate) fn outline(&self) -> String {
        match &self.difference {
            Difference::Added => format!("{} is new", self.place),
            Difference::Removed => format!("{} is gone", self.place),
            Difference::Changed { key, .. } => format!("{}: {key} changed", self.place),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.difference {
            Difference::Added => write!(f, "{} is new", self.place),
            Difference::Removed => write!(f, "{} is gone", self.place),
            Difference::Changed { key, from, to } => write!(f, "{}: {key} changed from {from} to {to}", self.place),
        }?;
        match self.applies {
            Applies::Live => Ok(()),
            Applies::Restart => f.write_str(" (at the next restart)"),
        }
    }
}

/// What a file says of a part of an export.
type Said = (Mode, Writers);

type Entries<'e> = HashMap<(&'e Place, &'static str), &'e Entry>;

fn by_key(entries: &[Entry]) -> Entries<'_> {
    entries.iter().map(|entry| ((&entry.place, entry.key), entry)).collect()
}

fn change(entry: &Entry, taken: &Entries<'_>, new: &Entries<'_>) -> Option<Change> {
    match new.get(&(&entry.place, entry.key)) {
        Some(other) if other.value == entry.value => None,
        Some(other) => {
            let live = taken.get(&(&entry.place, entry.key)).is_some_and(|taken| taken.value == other.value);
            let difference = Difference::Changed { key: entry.key, from: entry.value.clone(), to: other.value.clone() };
            let applies = if live { Applies::Live } else { Applies::Restart };
            Some(Change { place: entry.place.clone(), difference, applies })
        }
        None => names_its_table(entry).then(|| restart(&entry.place, Difference::Removed)),
    }
}

fn restart(place: &Place, difference: Difference) -> Change {
    Change { place: place.clone(), difference, applies: Applies::Restart }
}

/// Whether this is a pool's name or an export's path: each has one.
fn names_its_table(entry: &Entry) -> bool {
    match entry.place.table {
        Table::Pool => entry.key == "name",
        Table::Export | Table::Subtree => entry.key == "path",
        Table::Top
        | Table::Listen
        | Table::Cache
        | Table::Cluster
        | Table::Limits
        | Table::Log
        | Table::Admin
        | Table::Watch
        | Table::State => false,
    }
}
