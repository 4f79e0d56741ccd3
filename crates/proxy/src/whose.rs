//! The export that a handle belongs to: the innermost one above its object.
//!
//! A handle does not say it. It is learned from replies, which show in which directory an object
//! stands, and kept in the table of objects; what is not known there is found out
//! ([`crate::finding`]).

use crate::objects::{Digest, Edge, Entry, Kind, Objects, Plain};
use midas_nfs::nfs3::{Call, DirOp, Fattr3, FileHandle, Ftype3, Procedure, ReaddirplusOk, Reply};
use midas_nfs::rpc;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Whose an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This export's.
    Export(usize),
    /// A file's with names below several exports of a pool: a bit for each of the pool's exports.
    /// What one of them permits is permitted.
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
    /// Pools that could not tell when they were asked last.
    silent: Box<[AtomicBool]>,
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
    /// How many names it has.
    links: Option<u32>,
    name: Option<&'a [u8]>,
}

impl<'a> Shown<'a> {
    fn found(object: FileHandle<'a>, attributes: Option<&Fattr3>) -> Self {
        let kind = attributes.map(kind);
        let only = attributes.is_some_and(|of| of.ftype == Ftype3::Dir || of.nlink <= 1);
        Self { object, kind, only, id: attributes.map(id), links: attributes.map(|of| of.nlink), name: None }
    }

    fn made(object: FileHandle<'a>, kind: Kind) -> Self {
        Self { object, kind: Some(kind), only: true, id: None, links: None, name: None }
    }

    fn named(self, name: &'a [u8]) -> Self {
        Self { name: Some(name), ..self }
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
        let silent = pools.iter().map(|_| AtomicBool::new(false)).collect();
        Self { only, exports: exports.into(), pools, roots, objects, version, silent, counts: Counts::default() }
    }

    /// Whether a pool could not tell whose a handle is when it was asked last.
    pub(crate) fn silent(&self, pool: usize) -> bool {
        self.silent.get(pool).is_some_and(|silent| silent.load(Relaxed))
    }

    pub(crate) fn set_silent(&self, pool: usize, silent: bool) {
        if let Some(of) = self.silent.get(pool) {
            of.store(silent, Relaxed);
        }
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
        if entry.version == version || !self.shares(entry.owner) {
            return Some(entry.owner);
        }
        // The tree has changed since: what the directories above it say now. A file may have names elsewhere.
        if entry.kind == Kind::File && !entry.only {
            return None;
        }
        let owner = self.above(entry, version)?;
        self.objects.with(object, |known| {
            if let Some(known) = known.as_mut().filter(|known| **known == entry) {
                (known.owner, known.version) = (owner, version);
            }
        });
        Some(owner)
    }

    /// The owner of the directory that an object was seen in last.
    fn above(&self, entry: Entry, version: u32) -> Option<Owner> {
        let mut at = entry;
        for _ in 0..DEPTH_MAX {
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

    /// Whether the pool of an owner has other exports: what lies in it may be theirs one day.
    fn shares(&self, owner: Owner) -> bool {
        match owner {
            Owner::Export(export) => self.in_pool(self.exports[export].pool).len() > 1,
            Owner::Several { .. } => true,
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

    /// The handle of an export's root, in short.
    fn root_handle(&self, export: usize) -> Option<Digest> {
        self.roots().by_handle.iter().find(|(_, of)| **of == export).map(|(root, _)| *root)
    }

    /// The export whose root has this very handle.
    pub(crate) fn root_with(&self, handle: &[u8]) -> Option<usize> {
        self.only.is_none().then(|| self.root(self.objects.digest(handle))).flatten()
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

    /// Whether there is anything to learn: one export owns every handle.
    pub(crate) const fn learns(&self) -> bool {
        self.only.is_none()
    }

    /// What a reply shows to a call on an object of this owner: the objects in its directories.
    pub(crate) fn learn_from(&self, owner: Owner, procedure: Procedure, record: &[u8], reply: &Reply<'_>) {
        let renames = matches!(procedure, Procedure::Remove | Procedure::Rename);
        if self.only.is_some() || !teaches(procedure) || renames && !self.shares(owner) {
            return;
        }
        let arguments = rpc::Call::args_of(record).and_then(|args| Call::decode(procedure, args).ok());
        let Some(call) = arguments else { return };
        match (call, reply) {
            (Call::Lookup { what }, Reply::Lookup(Ok(found))) if !matches!(what.name, b"." | b"..") => {
                self.learn(owner, what.dir, Shown::found(found.object, found.attributes.as_ref()).named(what.name));
            }
            (Call::Create { place, .. }, Reply::Create(Ok(made))) => {
                // An UNCHECKED one may have found a file that has other names.
                let shown = |object| match &made.attributes {
                    Some(of) => Shown::found(object, Some(of)),
                    None => Shown { only: false, ..Shown::made(object, Kind::File) },
                };
                let learn = |object| self.learn(owner, place.dir, shown(object).named(place.name));
                made.object.into_iter().for_each(learn);
            }
            (Call::Mkdir { place, .. }, Reply::Mkdir(Ok(made))) => {
                let made_here = |object| Shown::made(object, Kind::Directory).named(place.name);
                let learn = |object| self.learn(owner, place.dir, made_here(object));
                made.object.into_iter().for_each(learn);
            }
            (Call::Symlink { place, .. }, Reply::Symlink(Ok(made)))
            | (Call::Mknod { place, .. }, Reply::Mknod(Ok(made))) => {
                let made_here = |object| Shown::made(object, Kind::File).named(place.name);
                let learn = |object| self.learn(owner, place.dir, made_here(object));
                made.object.into_iter().for_each(learn);
            }
            (Call::Link { file, link }, Reply::Link(Ok(done))) => {
                let links = done.attributes.as_ref().map(|of| of.nlink);
                let shown = Shown { only: false, links, ..Shown::made(file, Kind::File) };
                self.learn(owner, link.dir, shown.named(link.name));
            }
            (Call::Remove { object }, Reply::Remove(Ok(_))) => self.removed(&object),
            (Call::Rename { from, to }, Reply::Rename(Ok(_))) => self.renamed(owner, &from, &to),
            (Call::Readdirplus { dir, .. }, Reply::Readdirplus(Ok(page))) => self.learn_page(owner, dir, page),
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
                self.learn(owner, dir, Shown::found(object, plus.attributes.as_ref()).named(plus.entry.name));
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
        let named = shown.name.filter(|_| !alone).and_then(|name| self.objects.name(parent, name));
        let name = named.map_or(0, |name| name.0 as u64);
        let single = shown.only || kind == Kind::Directory;
        // Another handle of an export's root stands for it, wherever the root lies.
        let above = inner.and_then(|inner| self.root_handle(inner)).unwrap_or(parent);
        let new = Entry { kind, owner, parent: above, version, partial: false, only: single, name };
        let mut former = None;
        let before = self.objects.with(object, |known| {
            let before = *known;
            former = before;
            // What it is was not said.
            if before.is_some() && shown.kind.is_none() {
                return None;
            }
            *known = Some(match before {
                _ if alone || single => new,
                // Names that were not asked for then have not been asked for since.
                Some(Entry { owner, partial, version: then, .. }) if then == version => {
                    Entry { owner: self.joined(owner, export), partial, ..new }
                }
                _ => Entry { partial: true, ..new },
            });
            // By which of two names in one directory it was seen is nothing to be kept.
            (*known != before.map(|before| Entry { name, ..before })).then_some(before)
        });
        if let Some(named) = named.filter(|_| shown.kind.is_some()) {
            self.objects.names.lead(named, shown.object.bytes());
            if !single {
                self.linked(object, former, (parent, name), shown.links);
            } else if former.is_some_and(|former| !former.only) {
                self.objects.names.single(object);
            }
        }
        let Some(before) = before else { return };
        let moved = |before: &Entry| before.kind == Kind::Directory && before.owner != owner;
        if kind == Kind::Directory && before.as_ref().is_some_and(moved) {
            self.version.fetch_add(1, Relaxed);
            self.objects.with(object, |known| *known = Some(Entry { version: version.wrapping_add(1), ..new }));
        }
        if kind == Kind::File && !alone {
            let (export, layout) = (self.exports[export].name, self.pools[pool].1);
            let (parent, handle, only) = (dir.bytes().into(), shown.object.bytes().into(), shown.only);
            self.objects.keep(Edge { child: object, parent, export, layout, only, handle, gone: false });
        }
    }

    /// A file with several names has this one.
    fn linked(&self, object: Digest, former: Option<Entry>, name: (Digest, u64), count: Option<u32>) {
        self.objects.names.link(object, |links| {
            if let Some(former) = former.filter(|former| former.only) {
                links.add((former.parent, former.name));
            }
            links.add(name);
            links.count = count.or(links.count);
        });
    }

    /// A name is gone: a file that has others may belong to fewer exports than before.
    fn removed(&self, place: &DirOp<'_>) {
        let dir = self.objects.digest(place.dir.bytes());
        let Some(name) = self.objects.name(dir, place.name) else { return };
        if let Some(handle) = self.objects.names.gone(name) {
            self.unlinked(&handle, place.dir, (dir, name.0 as u64));
        }
    }

    fn unlinked(&self, handle: &[u8], dir: FileHandle<'_>, name: (Digest, u64)) {
        let object = self.objects.digest(handle);
        let several = |entry: &Entry| entry.kind == Kind::File && !entry.only;
        if !self.objects.get(object).as_ref().is_some_and(several) {
            return;
        }
        let links = self.objects.names.link(object, |links| links.remove(name));
        // It may have a name there that was not seen: only if all were, it stands there no longer.
        let left = links.all_seen() && !links.seen.iter().any(|(at, _)| *at == name.0);
        let owners = || links.seen.iter().map(|(at, _)| self.known(*at)).collect::<Option<Vec<_>>>();
        let owner = owners().filter(|_| left).and_then(|all| {
            let exports: Vec<usize> = all.into_iter().flat_map(|owner| self.exports_of(owner)).collect();
            self.union(exports)
        });
        let version = self.version.load(Relaxed);
        self.objects.with(object, |known| {
            let Some(known) = known.as_mut().filter(|known| several(known)) else { return };
            known.partial = true;
            if let Some((parent, name)) = links.seen.first().filter(|_| left) {
                // An owner that is not known now is looked for above another one of its names.
                let (owner, version) = owner.map_or((known.owner, version.wrapping_sub(1)), |owner| (owner, version));
                (known.owner, known.parent, known.name, known.version) = (owner, *parent, *name, version);
            }
        });
        if left {
            let (parent, handle) = (dir.bytes().into(), Box::default());
            let (export, layout) = (0, 0);
            self.objects.keep(Edge { child: object, parent, export, layout, only: false, handle, gone: true });
        }
    }

    /// A name has become another one, in whose place nothing else is left.
    fn renamed(&self, owner: Owner, from: &DirOp<'_>, to: &DirOp<'_>) {
        let (old, new) = (self.objects.digest(from.dir.bytes()), self.objects.digest(to.dir.bytes()));
        let (before, after) = (self.objects.name(old, from.name), self.objects.name(new, to.name));
        let handle = before.and_then(|before| self.objects.names.leads(before));
        let displaced = after.and_then(|after| self.objects.names.leads(after));
        // Two names of one file: both stay.
        if before == after || handle.is_some() && handle == displaced {
            return;
        }
        self.removed(to);
        let Some(name) = before else { return };
        self.objects.names.gone(name);
        let Some(object) = handle.as_deref().and_then(FileHandle::new) else { return };
        let known = self.objects.get(self.objects.digest(object.bytes()));
        // Of what is not known nothing must be put right.
        let Some(Entry { kind, only, .. }) = known else { return };
        if kind == Kind::Directory && self.stays(owner, object.bytes()) {
            if let Some(after) = after {
                self.objects.names.lead(after, object.bytes());
            }
            return;
        }
        self.learn(owner, to.dir, Shown { only, ..Shown::made(object, kind).named(to.name) });
        if only {
            return;
        }
        let gone = (old, name.0 as u64);
        self.objects.names.link(self.objects.digest(object.bytes()), |links| {
            // As many names as before.
            links.count = links.count.map(|count| count.saturating_add(1));
            if old == new {
                links.remove(gone);
            }
        });
        if old != new {
            self.unlinked(object.bytes(), from.dir, gone);
        }
    }

    /// Whether a directory that was renamed within an export may be another handle of an inner
    /// export's root. It keeps its owner then; one that is not known is found out anew.
    fn stays(&self, owner: Owner, directory: &[u8]) -> bool {
        let object = self.objects.digest(directory);
        let Some(known) = self.known(object) else {
            let version = self.version.load(Relaxed).wrapping_sub(1);
            self.objects.with(object, |known| {
                if let Some(known) = known.as_mut() {
                    (known.parent, known.name, known.version) = (object, 0, version);
                }
            });
            return true;
        };
        let pools = |owner| self.exports_of(owner).map(|export| self.exports[export].pool).next();
        known != owner && pools(known) == pools(owner)
    }

    /// It was found out whose an object is.
    pub(crate) fn found(&self, handle: &[u8], kind: Kind, owner: Owner) {
        if self.only.is_some() {
            return;
        }
        let object = self.objects.digest(handle);
        let version = self.version.load(Relaxed);
        self.objects.with(object, |known| {
            let (parent, name) = known.map_or((object, 0), |known| (known.parent, known.name));
            let only = kind == Kind::Directory || known.is_some_and(|known| known.only);
            *known = Some(Entry { kind, owner, parent, version, partial: false, only, name });
        });
    }

    /// What is known of a file's owner that may not be all.
    pub(crate) fn partly(&self, handle: &[u8]) -> Option<Owner> {
        let version = self.version.load(Relaxed);
        let entry = self.objects.get(self.objects.digest(handle))?;
        if entry.version == version { Some(entry.owner) } else { self.above(entry, version) }
    }

    /// The directories that a file has names in, as far as they are kept, and the export that each
    /// was in when that is still sure.
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
        let Some(number) = self.exports.iter().position(|known| known.name == export).filter(|_| self.only.is_none())
        else {
            return;
        };
        let (child, layout) = (self.objects.digest(handle), self.pools[self.exports[number].pool].1);
        let above = self.objects.digest(parent);
        let (parent, handle) = (parent.into(), Box::default());
        self.objects.keep(Edge { child, parent, export, layout, only, handle, gone: false });
        let version = self.version.load(Relaxed);
        self.objects.with(child, |known| {
            let Some(known) = known.as_mut().filter(|known| known.kind == Kind::File) else { return };
            if only {
                let name = if known.parent == above { known.name } else { 0 };
                let owner = Owner::Export(number);
                *known = Entry { kind: Kind::File, owner, parent: above, version, partial: false, only, name };
            } else {
                known.only = false;
                known.partial |= !self.exports_of(known.owner).any(|of| of == number);
            }
        });
    }

    /// The export of this name, in this pool.
    pub(crate) fn named(&self, pool: usize, name: u32) -> Option<usize> {
        self.in_pool(pool).iter().copied().find(|export| self.exports[*export].name == name)
    }

    /// The only export of a pool whose files can lie in this file system: its root does, no
    /// other's, and it lies below no other.
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
            | Procedure::Remove
            | Procedure::Rename
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
mod tests;
