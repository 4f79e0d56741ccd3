//! A server that believes for a while what it once knew, as NFS-Ganesha does with its `Attr_Expiration_Time`.

use crate::model::truth::{Entry, Truth};
use midas_core::time::{Span, Time};
use std::collections::HashMap;

/// What one server remembers of the namespace.
#[derive(Debug, Default)]
pub struct AttributeCache {
    kept: HashMap<Entry, Kept>,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    version: u64,
    changed: Time,
    since: Time,
}

impl AttributeCache {
    /// What the server answers to a read now: the version, and when it says that this last changed.
    pub fn read(&mut self, now: Time, truth: &Truth, entry: Entry, lasts: Span) -> (u64, Time) {
        let fresh = Kept { version: truth.version(entry).number, changed: truth.changed(entry), since: now };
        if lasts == Span::ZERO {
            return (fresh.version, fresh.changed);
        }
        let kept = self.kept.entry(entry).or_insert(fresh);
        if now.since(kept.since) >= lasts {
            *kept = fresh;
        }
        (kept.version, kept.changed)
    }

    /// The server has changed this itself.
    pub fn changed(&mut self, now: Time, entry: Entry, version: u64) {
        self.kept.insert(entry, Kept { version, changed: now, since: now });
    }
}
