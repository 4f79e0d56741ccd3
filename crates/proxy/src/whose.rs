//! Which export a handle belongs to. A handle does not say: it is learned from replies, and asked of the servers when a client
//! brings one that nobody here has seen (it mounted before this proxy started).

use crate::generations::Generations;
use crate::pool::lock;
use midas_core::key::Key;
use midas_nfs::nfs3::{FileHandle, Procedure, Reply};
use std::sync::Mutex;

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
    parts: Box<[Mutex<Generations<Owner>>]>,
}

impl Whose {
    pub(crate) fn new(exports: usize) -> Self {
        let parts = if exports == 1 { 0 } else { PARTS };
        let only = (exports == 1).then_some(Owner::Export(0));
        Self { only, parts: (0..parts).map(|_| Mutex::default()).collect() }
    }

    pub(crate) fn of(&self, handle: &[u8]) -> Option<Owner> {
        self.only.or_else(|| {
            let key = Key::of(handle);
            lock(self.part(key)).find(key)
        })
    }

    pub(crate) fn learn(&self, handle: Key, owner: Owner) {
        if self.only.is_none() {
            lock(self.part(handle)).insert(handle, owner);
        }
    }

    /// An export's root is its own; or another export has the very same handle, and no call could be told from the other's.
    pub(crate) fn claim(&self, root: Key, export: usize) -> Result<(), usize> {
        if self.only.is_some() {
            return Ok(());
        }
        let mut part = lock(self.part(root));
        match part.find(root) {
            Some(Owner::Export(other)) if other != export => Err(other),
            Some(_) | None => {
                part.insert(root, Owner::Export(export));
                Ok(())
            }
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
                page.entries().flatten().filter_map(|entry| entry.handle).for_each(learn);
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
        assert_eq!(Whose::new(1).of(handle), Some(Owner::Export(0)));
        let whose = Whose::new(2);
        assert_eq!(whose.of(handle), None);
        whose.learn(Key::of(handle), Owner::Export(1));
        assert_eq!(whose.of(handle), Some(Owner::Export(1)));
    }

    #[test]
    fn a_root_belongs_to_one_export_alone() {
        let whose = Whose::new(2);
        assert_eq!((whose.claim(Key(7), 1), whose.claim(Key(7), 1)), (Ok(()), Ok(())));
        assert_eq!(whose.claim(Key(7), 0), Err(1));
    }
}
