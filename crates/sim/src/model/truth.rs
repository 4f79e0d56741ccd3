//! What the namespace really holds: a version number for everything that can be cached.
//!
//! A mutation raises the versions of what it touches when a server executes it. `promised` is what every read that starts now must see at
//! least: the newest version whose mutation was acknowledged.

use midas_core::time::Time;
use std::collections::HashMap;

/// What a cache entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// Which kind.
    pub kind: Kind,
    /// The directory's number.
    pub directory: u32,
    /// The name's number; 0 for a directory's listing.
    pub file: u32,
}

/// Kinds of cache entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A name, existing or not.
    Name,
    /// An object's attributes.
    Attributes,
    /// A directory's names.
    Listing,
}

/// A version of an entry, and when it came to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// Rises by one with every mutation.
    pub number: u64,
    /// When a server executed the mutation; `Time::ZERO`: before the world began.
    pub since: Time,
}

/// The truth.
#[derive(Debug, Default)]
pub struct Truth {
    now: HashMap<Entry, Version>,
    promised: HashMap<Entry, u64>,
}

impl Truth {
    /// The version that a server would answer with now.
    pub fn version(&self, entry: Entry) -> Version {
        self.now.get(&entry).copied().unwrap_or_default()
    }

    /// When a reply about this entry says that it last changed. A name has no time of its own: its directory's tells.
    pub fn changed(&self, entry: Entry) -> Time {
        match entry.kind {
            Kind::Attributes | Kind::Listing => self.version(entry).since,
            Kind::Name => self.version(Entry { kind: Kind::Listing, directory: entry.directory, file: 0 }).since,
        }
    }

    /// A server executes a mutation; returns the version that it made.
    pub fn mutate(&mut self, now: Time, entry: Entry) -> u64 {
        let version = self.now.entry(entry).or_default();
        *version = Version { number: version.number + 1, since: now };
        version.number
    }

    /// A mutation that made this version was acknowledged to its client.
    pub fn promise(&mut self, entry: Entry, version: u64) {
        let promised = self.promised.entry(entry).or_default();
        *promised = version.max(*promised);
    }

    /// What a read that starts now must see at least.
    pub fn promised(&self, entry: Entry) -> u64 {
        self.promised.get(&entry).copied().unwrap_or_default()
    }
}
