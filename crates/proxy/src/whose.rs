//! The export that a handle belongs to: the innermost one above its object.
//!
//! A handle does not say it. It is learned from replies, which show in which directory an object stands, and kept in the table of
//! objects; what is not known there is found out ([`crate::finding`]).

use crate::objects::{Digest, Edge, Entry, Kind, Objects, Plain};
use midas_nfs::nfs3::{Call, Fattr3, FileHandle, Ftype3, Procedure, ReaddirplusOk, Reply};
use midas_nfs::rpc;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Whose an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This export's.
    Export(usize),
    /// A file's with names below several exports of a pool: a bit for each of the pool's exports. What one of them permits is permitted.
    Several { pool: u32, exports: u64 },
}

/// An export as it is told apart from others: its pool, and what it is called by all proxies.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) pool: usize,
    pub(crate) path: String,
    pub(crate) source: String,
    pub(crate) name: u32,
}

/// What is known of handles.
pub(crate) struct Whose {
    /// Where there is only one export, every handle is its.
    only: Option<Owner>,
    exports: Box<[Place]>,
    /// The exports of each pool, and a digest of where they lie.
    pools: Box<[(Vec<usize>, u32)]>,
    roots: RwLock<Roots>,
    pub(crate) objects: Objects,
    /// Grows when a directory turns out to belong to another export: what lies below it is looked at again.
    version: AtomicU32,
    pub(crate) counts: Counts,
}

/// The roots of exports.
#[derive(Default)]
struct Roots {
    by_handle: HashMap<Digest, usize, Plain>,
    /// A server may give one directory several handles.
    by_id: HashMap<(usize, Id), usize>,
}

/// Handles whose export was not known at once, by how it was found.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) alone: AtomicU64,
    pub(crate) climbed: AtomicU64,
    pub(crate) remembered: AtomicU64,
    pub(crate) peers: AtomicU64,
    pub(crate) nowhere: AtomicU64,
    pub(crate) unknown: AtomicU64,
}

impl Counts {
    /// Each way with its count.
    pub(crate) fn ways(&self) -> [(&'static str, u64); 6] {
        [
            ("only_export", &self.alone),
            ("parents", &self.climbed),
            ("remembered", &self.remembered),
            ("members", &self.peers),
            ("nowhere", &self.nowhere),
            ("unknown", &self.unknown),
        ]
        .map(|(way, count)| (way, count.load(Relaxed)))
    }
}

/// An object as its server numbers it: fsid and fileid.
pub(crate) type Id = (u64, u64);

/// What a reply shows of an object in a directory.
#[derive(Clone, Copy)]
struct Shown<'a> {
    object: FileHandle<'a>,
    kind: Option<Kind>,
    /// Whether it has this name alone.
    only: bool,
    id: Option<Id>,
}

impl<'a> Shown<'a> {
    fn found(object: FileHandle<'a>, attributes: Option<&Fattr3>) -> Self {
        let kind = attributes.map(kind);
        let only = attributes.is_some_and(|of| of.ftype == Ftype3::Dir || of.nlink <= 1);
        Self { object, kind, only, id: attributes.map(id) }
    }

    fn made(object: FileHandle<'a>, kind: Kind) -> Self {
        Self { object, kind: Some(kind), only: true, id: None }
    }
}

pub(crate) const fn id(attributes: &Fattr3) -> Id {
    (attributes.fsid, attributes.fileid)
}

fn kind(attributes: &Fattr3) -> Kind {
    if attributes.ftype == Ftype3::Dir { Kind::Directory } else { Kind::File }
}

impl Whose {
    /// For these exports; names of files are kept in this file, if there is one.
    pub(crate) fn new(exports: Vec<Place>, file: Option<&Path>) -> Self {
        let count = exports.iter().map(|export| export.pool + 1).max().unwrap_or(0);
        let of_pool = |pool| exports.iter().enumerate().filter(move |(_, export)| export.pool == pool);
        let pools: Box<[(Vec<usize>, u32)]> =
            (0..count).map(|pool| (of_pool(pool).map(|(number, _)| number).collect(), layout(of_pool(pool)))).collect();
        let only = (exports.len() == 1).then_some(Owner::Export(0));
        let shared = pools.iter().any(|(exports, _)| exports.len() > 1);
        let objects = if only.is_some() { Objects::none() } else { Objects::open(file.filter(|_| shared)) };
        let (roots, version) = (RwLock::default(), AtomicU32::new(0));
        Self { only, exports: exports.into(), pools, roots, objects, version, counts: Counts::default() }
    }

    /// The owner of a handle, if it is known.
    pub(crate) fn of(&self, handle: &[u8]) -> Option<Owner> {
        self.only.or_else(|| self.known(self.objects.digest(handle)))
    }

    fn known(&self, object: Digest) -> Option<Owner> {
        if let Some(export) = self.root(object) {
            return Some(Owner::Export(export));
        }
        let entry = self.objects.get(object).filter(|entry| !entry.partial)?;
        let version = self.version.load(Relaxed);
        if entry.version == version {
            return Some(entry.owner);
        }
        // The tree has changed since: what the directories above it say now.
        let owner = self.above(entry, version)?;
        self.objects.with(object, |known| {
            if let Some(known) = known.as_mut().filter(|known| **known == entry) {
                (known.owner, known.version) = (owner, version);
            }
        });
        Some(owner)
    }

    fn above(&self, entry: Entry, version: u32) -> Option<Owner> {
        let mut at = entry;
        for _ in 0..DEPTH_MAX {
            if matches!(at.owner, Owner::Several { .. }) {
                return None;
            }
            if let Some(export) = self.root(at.parent) {
                return Some(Owner::Export(export));
            }
            at = self.objects.get(at.parent).filter(|above| above.kind == Kind::Directory)?;
            if at.version == version {
                return Some(at.owner);
            }
        }
        None
    }

    /// Whose two objects are, if one call may be about both: a file with several names is that of any of them.
    pub(crate) fn common(&self, one: Owner, other: Owner) -> Option<Owner> {
        let shared = |export: usize, of: Owner| self.exports_of(of).any(|other| other == export);
        match (one, other) {
            _ if one == other => Some(one),
            (Owner::Export(export), of) | (of, Owner::Export(export)) => {
                shared(export, of).then_some(Owner::Export(export))
            }
            (Owner::Several { .. }, Owner::Several { .. }) => {
                self.exports_of(one).find(|it| shared(*it, other)).map(Owner::Export)
            }
        }
    }

    /// The exports that an object belongs to.
    pub(crate) fn exports_of(&self, owner: Owner) -> impl Iterator<Item = usize> + '_ {
        let (one, several) = match owner {
            Owner::Export(export) => (Some(export), (0, 0)),
            Owner::Several { pool, exports } => (None, (pool as usize, exports)),
        };
        let (pool, exports) = several;
        let all = self.pools.get(pool).map_or(&[][..], |(all, _)| all);
        let set = all.iter().enumerate().filter(move |(bit, _)| *bit < SET && exports >> bit & 1 == 1);
        one.into_iter().chain(set.map(|(_, export)| *export))
    }

    /// The owner of a file with names of these exports, which are of one pool.
    pub(crate) fn union(&self, exports: impl IntoIterator<Item = usize>) -> Option<Owner> {
        let mut all: Option<Owner> = None;
        for export in exports {
            all = Some(all.map_or(Owner::Export(export), |before| self.joined(before, export)));
        }
        all
    }

    fn joined(&self, before: Owner, export: usize) -> Owner {
        let pool = self.exports[export].pool;
        let bit = |export: usize| self.pools[pool].0.iter().position(|it| *it == export).filter(|bit| *bit < SET);
        let bits = |owner: Owner| match owner {
            Owner::Export(export) if self.exports[export].pool == pool => bit(export).map(|bit| 1 << bit),
            Owner::Several { pool: of, exports } if of as usize == pool => Some(exports),
            Owner::Export(_) | Owner::Several { .. } => None,
        };
        match (bits(before), bits(Owner::Export(export))) {
            _ if before == Owner::Export(export) => before,
            (Some(before), Some(one)) => Owner::Several { pool: pool as u32, exports: before | one },
            (None, _) | (_, None) => Owner::Export(export),
        }
    }

    /// Exports of a pool.
    pub(crate) fn in_pool(&self, pool: usize) -> &[usize] {
        self.pools.get(pool).map_or(&[], |(exports, _)| exports)
    }

    fn roots(&self) -> RwLockReadGuard<'_, Roots> {
        self.roots.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn root(&self, object: Digest) -> Option<usize> {
        self.roots().by_handle.get(&object).copied()
    }

    /// The export that has this directory of a pool as its root.
    pub(crate) fn root_at(&self, pool: usize, id: Id) -> Option<usize> {
        self.roots().by_id.get(&(pool, id)).copied()
    }

    /// The export that has this directory as its root, among those of the same pool as this one.
    pub(crate) fn root_of(&self, export: usize, handle: &[u8], id: Id) -> Option<usize> {
        if self.only.is_some() {
            return None;
        }
        self.root(self.objects.digest(handle)).or_else(|| self.root_at(self.exports[export].pool, id))
    }

    /// Whether the roots of all exports of a pool are known.
    pub(crate) fn all_rooted(&self, pool: usize) -> bool {
        let roots = self.roots();
        self.in_pool(pool).iter().all(|export| roots.by_handle.values().any(|of| of == export))
    }

    /// An export's root is its own; or another export has the very same handle, and no call could be told from the other's.
    pub(crate) fn claim(&self, root: &[u8], id: Id, export: usize) -> Result<(), usize> {
        if self.only.is_some() {
            return Ok(());
        }
        let digest = self.objects.digest(root);
        let mut roots = self.roots.write().unwrap_or_else(PoisonError::into_inner);
        match *roots.by_handle.entry(digest).or_insert(export) {
            other if other != export => Err(other),
            _ => {
                roots.by_id.entry((self.exports[export].pool, id)).or_insert(export);
                Ok(())
            }
        }
    }

    /// What a reply shows to a call on an object of this owner: the objects in its directories.
    pub(crate) fn learn_from(&self, owner: Owner, procedure: Procedure, record: &[u8], results: &[u8]) {
        if self.only.is_some() || !teaches(procedure) {
            return;
        }
        let arguments = rpc::Call::decode(record).ok().and_then(|call| Call::decode(procedure, call.args).ok());
        let (Some(call), Ok(reply)) = (arguments, Reply::decode(procedure, results)) else { return };
        match (call, reply) {
            (Call::Lookup { what }, Reply::Lookup(Ok(found))) if !matches!(what.name, b"." | b"..") => {
                self.learn(owner, what.dir, Shown::found(found.object, found.attributes.as_ref()));
            }
            (Call::Create { place, .. }, Reply::Create(Ok(made))) => {
                // An UNCHECKED one may have found a file that has other names.
                let shown = |object| match &made.attributes {
                    Some(of) => Shown::found(object, Some(of)),
                    None => Shown { only: false, ..Shown::made(object, Kind::File) },
                };
                made.object.into_iter().for_each(|object| self.learn(owner, place.dir, shown(object)));
            }
            (Call::Mkdir { place, .. }, Reply::Mkdir(Ok(made))) => {
                let learn = |object| self.learn(owner, place.dir, Shown::made(object, Kind::Directory));
                made.object.into_iter().for_each(learn);
            }
            (Call::Symlink { place, .. }, Reply::Symlink(Ok(made)))
            | (Call::Mknod { place, .. }, Reply::Mknod(Ok(made))) => {
                let learn = |object| self.learn(owner, place.dir, Shown::made(object, Kind::File));
                made.object.into_iter().for_each(learn);
            }
            (Call::Link { file, link }, Reply::Link(Ok(_))) => {
                self.learn(owner, link.dir, Shown { only: false, ..Shown::made(file, Kind::File) });
            }
            (Call::Readdirplus { dir, .. }, Reply::Readdirplus(Ok(page))) => self.learn_page(owner, dir, &page),
            (_, _) => {}
        }
    }

    /// What a page of a listing shows.
    pub(crate) fn learn_page(&self, owner: Owner, dir: FileHandle<'_>, page: &ReaddirplusOk<'_>) {
        if self.only.is_some() {
            return;
        }
        for plus in page.entries().flatten().filter(|plus| !matches!(plus.entry.name, b"." | b"..")) {
            if let Some(object) = plus.handle {
                self.learn(owner, dir, Shown::found(object, plus.attributes.as_ref()));
            }
        }
    }

    /// A directory stands in another; both belong to this export.
    pub(crate) fn learn_directory(&self, export: usize, parent: &[u8], directory: &[u8]) {
        let (Some(parent), Some(object)) = (FileHandle::new(parent), FileHandle::new(directory)) else { return };
        if self.only.is_none() {
            self.learn(Owner::Export(export), parent, Shown::made(object, Kind::Directory));
        }
    }

    fn learn(&self, owner: Owner, dir: FileHandle<'_>, shown: Shown<'_>) {
        // A directory has one owner.
        let Owner::Export(export) = owner else { return };
        let object = self.objects.digest(shown.object.bytes());
        if self.root(object).is_some() {
            return;
        }
        let pool = self.exports[export].pool;
        let inner = shown.id.filter(|_| shown.kind == Some(Kind::Directory)).and_then(|id| self.root_at(pool, id));
        let owner = inner.map_or(owner, Owner::Export);
        let version = self.version.load(Relaxed);
        let parent = self.objects.digest(dir.bytes());
        let alone = self.in_pool(pool).len() == 1;
        let kind = shown.kind.unwrap_or(Kind::File);
        let new = Entry { kind, owner, parent, version, partial: false };
        let before = self.objects.with(object, |known| {
            let before = *known;
            *known = Some(match before {
                _ if alone || shown.only || kind == Kind::Directory => new,
                Some(before) if before.version == version => Entry { owner: self.joined(before.owner, export), ..new },
                _ => Entry { partial: true, ..new },
            });
            (*known != before).then_some(before)
        });
        let Some(before) = before else { return };
        let moved = |before: &Entry| before.kind == Kind::Directory && before.owner != owner;
        if kind == Kind::Directory && before.as_ref().is_some_and(moved) {
            self.version.fetch_add(1, Relaxed);
            self.objects.with(object, |known| *known = Some(Entry { version: version.wrapping_add(1), ..new }));
        }
        if kind == Kind::File && !alone {
            let (export, layout) = (self.exports[export].name, self.pools[pool].1);
            let (parent, handle, only) = (dir.bytes().into(), shown.object.bytes().into(), shown.only);
            self.objects.keep(Edge { child: object, parent, export, layout, only, handle });
        }
    }

    /// It was found out whose an object is.
    pub(crate) fn found(&self, handle: &[u8], kind: Kind, owner: Owner) {
        if self.only.is_some() {
            return;
        }
        let object = self.objects.digest(handle);
        let version = self.version.load(Relaxed);
        self.objects.with(object, |known| {
            let parent = known.map_or(object, |known| known.parent);
            *known = Some(Entry { kind, owner, parent, version, partial: false });
        });
    }

    /// What is known of a file's owner that may not be all.
    pub(crate) fn partly(&self, handle: &[u8]) -> Option<Owner> {
        let version = self.version.load(Relaxed);
        let entry = self.objects.get(self.objects.digest(handle))?;
        (entry.version == version).then_some(entry.owner)
    }

    /// The directories that a file has names in, as far as they are kept, and the export that each was in when that is still sure.
    pub(crate) fn parents(&self, handle: &[u8]) -> Vec<(Box<[u8]>, Option<usize>)> {
        let export = |edge: &Edge| {
            let export = self.exports.iter().position(|export| export.name == edge.export)?;
            (self.pools[self.exports[export].pool].1 == edge.layout).then_some(export)
        };
        let edges = self.objects.edges(self.objects.digest(handle));
        edges.into_iter().map(|edge| (edge.parent.clone(), export(&edge))).collect()
    }

    /// What another proxy is told of a handle: the names of the exports that it is known to belong to. Reads the disk.
    pub(crate) fn told(&self, handle: &[u8]) -> Vec<u32> {
        let known = self.of(handle).or_else(|| self.partly(handle));
        let mut exports: Vec<usize> = known.into_iter().flat_map(|owner| self.exports_of(owner)).collect();
        for (parent, then) in self.parents(handle) {
            exports.extend(self.of(&parent).into_iter().flat_map(|owner| self.exports_of(owner)).next().or(then));
        }
        exports.sort_unstable();
        exports.dedup();
        exports.into_iter().map(|export| self.exports[export].name).collect()
    }

    /// Another member has seen a file of an export of this name in a directory.
    pub(crate) fn heard(&self, handle: &[u8], parent: &[u8], export: u32, only: bool) {
        let Some(known) = self.exports.iter().find(|known| known.name == export).filter(|_| self.only.is_none()) else {
            return;
        };
        let (child, layout) = (self.objects.digest(handle), self.pools[known.pool].1);
        self.objects.keep(Edge { child, parent: parent.into(), export, layout, only, handle: Box::default() });
    }

    /// The export of this name, in this pool.
    pub(crate) fn named(&self, pool: usize, name: u32) -> Option<usize> {
        self.in_pool(pool).iter().copied().find(|export| self.exports[*export].name == name)
    }

    /// The only export of a pool whose files can lie in this file system: its root does, no other's, and it lies below no other.
    pub(crate) fn alone_in(&self, pool: usize, fsid: u64) -> Option<usize> {
        let roots = self.roots();
        let mut with = roots.by_id.iter().filter(|((of, (fs, _)), _)| *of == pool && *fs == fsid);
        let (_, export) = with.next()?;
        if with.next().is_some() || !self.in_pool(pool).iter().all(|it| roots.by_id.values().any(|of| of == it)) {
            return None;
        }
        let source = |export: usize| self.exports[export].source.trim_end_matches('/');
        let below = |other: &usize| *other != *export && source(*export).starts_with(source(*other));
        (!self.in_pool(pool).iter().any(below)).then_some(*export)
    }
}

/// Whether replies of this kind show objects in directories.
const fn teaches(procedure: Procedure) -> bool {
    matches!(
        procedure,
        Procedure::Lookup
            | Procedure::Create
            | Procedure::Mkdir
            | Procedure::Symlink
            | Procedure::Mknod
            | Procedure::Link
            | Procedure::Readdirplus
    )
}

/// A number that is another one when the exports of a pool are others, or lie elsewhere.
fn layout<'e>(exports: impl Iterator<Item = (usize, &'e Place)>) -> u32 {
    let mut all: Vec<String> = exports.map(|(_, export)| format!("{}\0{}\0", export.path, export.source)).collect();
    all.sort_unstable();
    midas_core::key::Key::of(all.concat().as_bytes()).0 as u32
}

/// Exports of a pool that a file may have names below at once.
const SET: usize = 64;
/// Directories between an object and its export's root.
pub(crate) const DEPTH_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn whose(pools: &[usize]) -> Whose {
        let place = |(number, pool): (usize, &usize)| {
            let path = format!("/{number}");
            Place { pool: *pool, source: path.clone(), path, name: number as u32 }
        };
        Whose::new(pools.iter().enumerate().map(place).collect(), None)
    }

    fn shown(object: &'static [u8], kind: Kind, only: bool) -> Shown<'static> {
        Shown { only, ..Shown::made(FileHandle::new(object).unwrap(), kind) }
    }

    fn dir(handle: &'static [u8]) -> FileHandle<'static> {
        FileHandle::new(handle).unwrap()
    }

    #[test]
    fn one_export_owns_every_handle_and_several_are_told_apart_by_what_was_learned() {
        assert_eq!(whose(&[0]).of(b"handle"), Some(Owner::Export(0)));
        let whose = whose(&[0, 0]);
        assert_eq!(whose.of(b"handle"), None);
        whose.learn(Owner::Export(1), dir(b"root"), shown(b"handle", Kind::File, true));
        assert_eq!(whose.of(b"handle"), Some(Owner::Export(1)));
    }

    #[test]
    fn a_root_belongs_to_one_export_alone_whatever_other_exports_show() {
        let whose = whose(&[0, 0]);
        assert_eq!((whose.claim(b"root", (1, 7), 1), whose.claim(b"root", (1, 7), 1)), (Ok(()), Ok(())));
        assert_eq!(whose.claim(b"root", (1, 7), 0), Err(1));
        whose.learn(Owner::Export(0), dir(b"top"), shown(b"root", Kind::Directory, true));
        assert_eq!(whose.of(b"root"), Some(Owner::Export(1)));
        let again = Shown { id: Some((1, 7)), ..shown(b"alias", Kind::Directory, true) };
        whose.learn(Owner::Export(0), dir(b"top"), again);
        assert_eq!(whose.of(b"alias"), Some(Owner::Export(1)), "another handle of the same directory");
    }

    #[test]
    fn a_file_with_names_below_two_exports_is_both_s_and_one_with_one_name_is_one_s() {
        let whose = whose(&[0, 0, 1]);
        whose.learn(Owner::Export(0), dir(b"a"), shown(b"file", Kind::File, true));
        whose.learn(Owner::Export(1), dir(b"b"), shown(b"file", Kind::File, false));
        let both = Owner::Several { pool: 0, exports: 0b11 };
        assert_eq!(whose.of(b"file"), Some(both));
        assert_eq!(whose.common(Owner::Export(1), both), Some(Owner::Export(1)));
        assert_eq!(whose.common(Owner::Export(2), both), None);
        assert_eq!(whose.common(Owner::Export(0), Owner::Export(1)), None);
        whose.learn(Owner::Export(1), dir(b"b"), shown(b"file", Kind::File, true));
        assert_eq!(whose.of(b"file"), Some(Owner::Export(1)), "its other name is gone");
        whose.learn(Owner::Export(1), dir(b"b"), shown(b"new", Kind::File, false));
        assert_eq!(whose.of(b"new"), None, "its other names were not asked for");
        assert_eq!(whose.partly(b"new"), Some(Owner::Export(1)));
    }

    #[test]
    fn what_lies_below_a_directory_that_was_moved_to_another_export_moves_with_it() {
        let whose = whose(&[0, 0]);
        assert_eq!((whose.claim(b"r0", (1, 1), 0), whose.claim(b"r1", (1, 2), 1)), (Ok(()), Ok(())));
        whose.learn(Owner::Export(0), dir(b"r0"), shown(b"dir", Kind::Directory, true));
        whose.learn(Owner::Export(0), dir(b"dir"), shown(b"file", Kind::File, true));
        assert_eq!(whose.of(b"file"), Some(Owner::Export(0)));
        whose.learn(Owner::Export(1), dir(b"r1"), shown(b"dir", Kind::Directory, true));
        assert_eq!((whose.of(b"dir"), whose.of(b"file")), (Some(Owner::Export(1)), Some(Owner::Export(1))));
    }
}
