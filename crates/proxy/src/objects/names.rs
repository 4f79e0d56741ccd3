//! What names lead to, as far as it was seen: so that it is known which object a REMOVE or RENAME is about.
//! Bounded; what is forgotten is learned again from the next look at the name.

use super::digest::{Digest, Plain};
use crate::pool::lock;
use std::collections::HashMap;
use std::sync::Mutex;

/// The names.
pub(crate) struct Names(Box<[Mutex<Part>]>);

#[derive(Default)]
struct Part {
    /// The handles that names lead to, by the names' digests.
    leads: Aging<Box<[u8]>>,
    /// The names of files with several, by the files' digests.
    links: Aging<Links>,
}

/// The names of a file that has several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Links {
    /// How many there are, as far as a server has said.
    pub(crate) count: Option<u32>,
    /// Those that were seen: each one's directory, and itself in short.
    pub(crate) seen: Vec<(Digest, u64)>,
}

impl Links {
    /// Whether all of them were seen.
    pub(crate) fn all_seen(&self) -> bool {
        self.count.is_some_and(|count| count as usize == self.seen.len())
    }

    pub(crate) fn add(&mut self, name: (Digest, u64)) {
        if name.1 != 0 && self.seen.len() < LINKS && !self.seen.contains(&name) {
            self.seen.push(name);
        }
    }

    /// One of them is gone.
    pub(crate) fn remove(&mut self, name: (Digest, u64)) {
        self.seen.retain(|seen| *seen != name);
        self.count = self.count.map(|count| count.saturating_sub(1));
    }
}

impl Names {
    pub(super) fn new(parts: usize) -> Self {
        Self((0..parts).map(|_| Mutex::default()).collect())
    }

    /// A name leads to this handle.
    pub(crate) fn lead(&self, name: Digest, handle: &[u8]) {
        let Some(part) = self.part(name) else { return };
        let mut part = lock(part);
        if part.leads.get(name).is_none_or(|known| **known != *handle) {
            part.leads.put(name, handle.into());
        }
    }

    /// The handle that a name leads to.
    pub(crate) fn leads(&self, name: Digest) -> Option<Box<[u8]>> {
        lock(self.part(name)?).leads.get(name).cloned()
    }

    /// A name is gone; the handle that it led to.
    pub(crate) fn gone(&self, name: Digest) -> Option<Box<[u8]>> {
        lock(self.part(name)?).leads.take(name)
    }

    /// Changes what is known of the names of a file that has several.
    pub(crate) fn link(&self, object: Digest, change: impl FnOnce(&mut Links)) -> Links {
        let Some(part) = self.part(object) else { return Links::default() };
        let mut part = lock(part);
        let mut links = part.links.take(object).unwrap_or_default();
        change(&mut links);
        part.links.put(object, links.clone());
        links
    }

    /// A file has one name only.
    pub(crate) fn single(&self, object: Digest) {
        if let Some(part) = self.part(object) {
            lock(part).links.take(object);
        }
    }

    fn part(&self, of: Digest) -> Option<&Mutex<Part>> {
        (!self.0.is_empty()).then(|| &self.0[of.below(self.0.len())])
    }
}

/// A map that forgets what was not put for longest.
struct Aging<T> {
    young: HashMap<Digest, T, Plain>,
    old: HashMap<Digest, T, Plain>,
}

impl<T> Default for Aging<T> {
    fn default() -> Self {
        Self { young: HashMap::default(), old: HashMap::default() }
    }
}

impl<T> Aging<T> {
    fn get(&self, key: Digest) -> Option<&T> {
        self.young.get(&key).or_else(|| self.old.get(&key))
    }

    fn take(&mut self, key: Digest) -> Option<T> {
        let old = self.old.remove(&key);
        self.young.remove(&key).or(old)
    }

    fn put(&mut self, key: Digest, value: T) {
        if self.young.len() >= YOUNG && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

/// Names of one generation of a part: about 30 MB in all, and only where exports share a pool.
const YOUNG: usize = 2048;
/// Names of one file that are told apart.
const LINKS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_what_was_seen_last_until_it_is_gone_or_forgotten() {
        let names = Names::new(1);
        names.lead(Digest(1), b"one");
        names.lead(Digest(1), b"two");
        assert_eq!(names.leads(Digest(1)).as_deref(), Some(&b"two"[..]));
        assert_eq!(names.gone(Digest(1)).as_deref(), Some(&b"two"[..]));
        assert_eq!(names.leads(Digest(1)), None);
        for name in 0..=2 * YOUNG as u128 {
            names.lead(Digest(name), b"handle");
        }
        assert_eq!(names.leads(Digest(0)), None);
        assert!(names.leads(Digest(2 * YOUNG as u128)).is_some());
    }
}
