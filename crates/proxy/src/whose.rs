//! Which export a handle belongs to. A handle does not say: it is learned from replies, and asked of the servers when a client
//! brings one that nobody here has seen (it mounted before this proxy started).

use crate::generations::Generations;
use crate::pool::lock;
use midas_core::key::Key;
use midas_nfs::nfs3::{FileHandle, Procedure, Reply};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

/// Whose a handle is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This export's.
    Export(usize),
    /// That of some export of this pool; which one cannot be told, so the strictest rules of all of them hold.
    Pool(usize),
}

/// What is known of handles. Bounded: what was not seen for long is asked again.
pub(crate) struct Whose {
    /// Where there is only one export, every handle is its.
    only: Option<Owner>,
    /// The pool of each export.
    pools: Box<[usize]>,
    /// Roots, which belong to their exports whatever other exports' listings show.
    roots: RwLock<HashMap<Key, usize>>,
    parts: Box<[Mutex<Generations<Owner>>]>,
}

impl Whose {
    /// For exports of these pools.
    pub(crate) fn new(pools: &[usize]) -> Self {
        let parts = if pools.len() == 1 { 0 } else { PARTS };
        let only = (pools.len() == 1).then_some(Owner::Export(0));
        Self {
            only,
            pools: pools.into(),
            roots: RwLock::default(),
            parts: (0..parts).map(|_| Mutex::default()).collect(),
        }
    }

    pub(crate) fn of(&self, handle: &[u8]) -> Option<Owner> {
        self.only.or_else(|| {
            let key = Key::of(handle);
            let root = self.roots().get(&key).copied();
            root.map(Owner::Export).or_else(|| lock(self.part(key)).find(key))
        })
    }

    pub(crate) fn learn(&self, handle: Key, owner: Owner) {
        if self.only.is_some() || self.roots().contains_key(&handle) {
            return;
        }
        let mut part = lock(self.part(handle));
        // What two exports of a pool show belongs to either of them; what two pools show is whose it was first.
        let owner = match part.find(handle) {
            Some(known) if known == owner => return,
            Some(known) if self.pool(known) == self.pool(owner) => Owner::Pool(self.pool(owner)),
            Some(known) => known,
            None => owner,
        };
        part.insert(handle, owner);
    }

    /// Whose two objects are, if one call may be about both.
    pub(crate) fn common(&self, one: Owner, other: Owner) -> Option<Owner> {
        let some = matches!(one, Owner::Pool(_)) || matches!(other, Owner::Pool(_));
        match self.pool(one) == self.pool(other) {
            true if one == other => Some(one),
            true if some => Some(Owner::Pool(self.pool(one))),
            true | false => None,
        }
    }

    fn pool(&self, owner: Owner) -> usize {
        match owner {
            Owner::Export(export) => self.pools[export],
            Owner::Pool(pool) => pool,
        }
    }

    fn roots(&self) -> RwLockReadGuard<'_, HashMap<Key, usize>> {
        self.roots.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// An export's root is its own; or another export has the very same handle, and no call could be told from the other's.
    pub(crate) fn claim(&self, root: Key, export: usize) -> Result<(), usize> {
        if self.only.is_some() {
            return Ok(());
        }
        let mut roots = self.roots.write().unwrap_or_else(PoisonError::into_inner);
        match *roots.entry(root).or_insert(export) {
            other if other != export => Err(other),
            _ => Ok(()),
        }
    }

    /// Handles that a server gave to a call on an object of this owner are its too.
    pub(crate) fn learn_from(&self, owner: Owner, procedure: Procedure, results: &[u8]) {
        if self.only.is_some() {
            return;
        }
        let learn = |handle: FileHandle<'_>| self.learn(Key::of(handle.bytes()), owner);
        match Reply::decode(procedure, results) {
            Ok(Reply::Lookup(Ok(found))) => learn(found.object),
            Ok(
                Reply::Create(Ok(made)) | Reply::Mkdir(Ok(made)) | Reply::Symlink(Ok(made)) | Reply::Mknod(Ok(made)),
            ) => {
                made.object.into_iter().for_each(learn);
            }
            Ok(Reply::Readdirplus(Ok(page))) => {
                // What lies above an export's root is not the export's.
                let below = page.entries().flatten().filter(|entry| entry.entry.name != b"..");
                below.filter_map(|entry| entry.handle).for_each(learn);
            }
            Ok(_) | Err(_) => {}
        }
    }

    fn part(&self, handle: Key) -> &Mutex<Generations<Owner>> {
        &self.parts[(handle.0 % PARTS as u64) as usize]
    }
}

/// With two generations each a million handles in all, about 50 MB, and only where there are several exports.
const PARTS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_export_owns_every_handle_and_several_are_told_apart_by_what_was_learned() {
        let handle = b"handle";
        assert_eq!(Whose::new(&[0]).of(handle), Some(Owner::Export(0)));
        let whose = Whose::new(&[0, 0]);
        assert_eq!(whose.of(handle), None);
        whose.learn(Key::of(handle), Owner::Export(1));
        assert_eq!(whose.of(handle), Some(Owner::Export(1)));
    }

    #[test]
    fn a_root_belongs_to_one_export_alone() {
        let whose = Whose::new(&[0, 1]);
        assert_eq!((whose.claim(Key(7), 1), whose.claim(Key(7), 1)), (Ok(()), Ok(())));
        assert_eq!(whose.claim(Key(7), 0), Err(1));
    }

    #[test]
    fn what_two_exports_of_a_pool_show_is_either_ones_and_a_root_stays_a_root() {
        let whose = Whose::new(&[5, 5, 6]);
        let root = Key::of(b"root");
        assert_eq!(whose.claim(root, 1), Ok(()));
        whose.learn(root, Owner::Export(0));
        assert_eq!(whose.of(b"root"), Some(Owner::Export(1)));
        let file = Key::of(b"file");
        whose.learn(file, Owner::Pool(5));
        whose.learn(file, Owner::Export(1));
        assert_eq!(whose.of(b"file"), Some(Owner::Pool(5)), "the stricter rules stay");
        assert_eq!(whose.common(Owner::Pool(5), Owner::Export(0)), Some(Owner::Pool(5)));
        assert_eq!(whose.common(Owner::Export(0), Owner::Export(2)), None);
    }
}
