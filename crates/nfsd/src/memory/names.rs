//! The names of a directory in memory: found by hash, listed in the order in which they were made.
//!
//! A name's cookie is a number that only grows and is never given twice. A listing that goes on after a cookie therefore
//! shows every name that was there all the time exactly once, whatever else comes and goes.

use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

/// Name to inode, and cookie to name.
pub(super) struct Names {
    /// The directory that holds this one; the root holds itself.
    pub(super) parent: u32,
    by_name: HashMap<Arc<[u8]>, Named, RandomState>,
    by_cookie: BTreeMap<u64, (Arc<[u8]>, u32)>,
    next: u64,
}

#[derive(Clone, Copy)]
struct Named {
    inode: u32,
    cookie: u64,
}

impl Names {
    pub(super) fn new(parent: u32) -> Self {
        Self { parent, by_name: HashMap::default(), by_cookie: BTreeMap::new(), next: FIRST_COOKIE }
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<u32> {
        self.by_name.get(name).map(|named| named.inode)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// A new name; one that exists keeps its cookie and leads to the new inode.
    pub(super) fn insert(&mut self, name: &[u8], inode: u32) {
        if let Some(named) = self.by_name.get_mut(name) {
            named.inode = inode;
            if let Some((_, old)) = self.by_cookie.get_mut(&named.cookie) {
                *old = inode;
            }
            return;
        }
        let (name, cookie): (Arc<[u8]>, u64) = (name.into(), self.next);
        self.next += 1;
        self.by_name.insert(name.clone(), Named { inode, cookie });
        self.by_cookie.insert(cookie, (name, inode));
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> Option<u32> {
        let named = self.by_name.remove(name)?;
        self.by_cookie.remove(&named.cookie);
        Some(named.inode)
    }

    /// Cookie, name and inode of the names after `cookie`.
    pub(super) fn after(&self, cookie: u64) -> impl Iterator<Item = (u64, &[u8], u32)> {
        let range = self.by_cookie.range((Bound::Excluded(cookie), Bound::Unbounded));
        range.map(|(cookie, (name, inode))| (*cookie, &**name, *inode))
    }
}

/// After `.`.
pub(super) const DOT_COOKIE: u64 = 1;
/// After `..`.
pub(super) const DOT_DOT_COOKIE: u64 = 2;
const FIRST_COOKIE: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &Names, cookie: u64) -> String {
        names.after(cookie).map(|(_, name, _)| String::from_utf8_lossy(name).into_owned()).collect()
    }

    #[test]
    fn a_listing_goes_on_behind_its_cookie_whatever_comes_and_goes() {
        let mut names = Names::new(0);
        for name in [b"a", b"b", b"c", b"d"] {
            names.insert(name, 7);
        }
        let (cookie, ..) = names.after(0).nth(1).expect("b");
        names.remove(b"b");
        names.remove(b"a");
        names.insert(b"a", 8);
        names.insert(b"c", 9);
        assert_eq!(listed(&names, cookie), "cda");
        assert_eq!(names.get(b"c"), Some(9));
        assert_eq!(names.after(0).next().map(|(_, _, inode)| inode), Some(9));
    }
}
