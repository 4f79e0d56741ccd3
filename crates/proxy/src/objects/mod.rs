//! The table of objects: for each its kind, the directory that it stands in, and the export that both belong to.
//!
//! It is kept by a keyed digest of the handle, bounded in memory, and kept only where there are
//! several exports. The names of files go to disk as well ([`disk`]): a directory tells its parent
//! when it is asked, a file does not. A writer of its own carries them there, so that no event loop
//! waits for a disk.

mod digest;
mod disk;
mod names;

pub(crate) use digest::{Digest, Plain};
pub(crate) use disk::Edge;

use crate::event::Shared;
use crate::log;
use crate::pool::lock;
use crate::whose::Owner;
use digest::Secret;
use disk::Disk;
use names::Names;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// Writes names to disk, tells other members of them and answers their questions, until the daemon
/// ends. Nothing to do where every handle is one export's.
pub(crate) fn run(shared: &Shared) {
    let tell = |edges: &[Edge]| {
        if let Some(accord) = shared.accord() {
            accord.tell_names(edges);
        }
    };
    shared.whose.objects.tells.store(shared.accord().is_some(), Relaxed);
    while !shared.stop.load(Relaxed) && !shared.whose.objects.parts.is_empty() {
        shared.whose.objects.write(STEP, tell);
        if let Some(accord) = shared.accord() {
            accord.tell_owners(&shared.whose);
        }
    }
    shared.whose.objects.write(Duration::ZERO, tell);
}

/// What is known of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    /// The export of its parent; of a file with several names, those of all that are known.
    pub(crate) owner: Owner,
    /// The directory that it was seen in last.
    pub(crate) parent: Digest,
    /// The version of the tree that the owner holds for.
    pub(crate) version: u32,
    /// Whether it may have names that were not asked for yet: its owner is no answer then.
    pub(crate) partial: bool,
    /// Whether it has no other name. A file that may have others does not follow this parent alone.
    pub(crate) only: bool,
    /// The name that it was seen by last ([`Objects::name`]), in short; 0 if that is not known.
    pub(crate) name: u64,
}

/// What an object is, as far as its names are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It has one parent, which it tells.
    Directory,
    /// It may have several, and tells none.
    File,
}

/// The table.
pub(crate) struct Objects {
    secret: Secret,
    parts: Box<[Mutex<Part>]>,
    /// Entries of one generation of a part.
    young_max: usize,
    disk: Option<Mutex<Disk>>,
    /// When names are written again after the disk took none.
    rests_until: Mutex<Option<Instant>>,
    /// The part that is written first: the one after that which the disk did not take.
    first: AtomicUsize,
    /// Whether there are other members to tell names to.
    tells: AtomicBool,
    /// What names lead to.
    pub(crate) names: Names,
    /// Whether names wait for the writer, and how it is woken.
    waiting: Mutex<bool>,
    woken: Condvar,
    unsaved: AtomicU64,
}

#[derive(Default)]
struct Part {
    young: HashMap<Digest, Entry, Plain>,
    old: HashMap<Digest, Entry, Plain>,
    /// Names that are not on disk yet.
    unsaved: Vec<Edge>,
    /// How many of these, from the first one, were told to other members.
    told: usize,
}

impl Objects {
    /// A table that nothing is kept in.
    pub(crate) fn none() -> Self {
        Self::over(Secret([0; 16]), None, 0)
    }

    /// A table of the usual size, with its second half on disk if there is a place for it.
    pub(crate) fn open(file: Option<&Path>) -> Self {
        let (entries, slots) = sizes();
        let opened = file.map(|file| (file, Disk::open(file, slots)));
        let disk = opened.and_then(|(file, opened)| match opened {
            Ok((disk, why)) => {
                if let Some(why) = why {
                    log::warn("table of objects begun anew", &[("file", &file.display()), ("why", &why)]);
                }
                Some(disk)
            }
            Err(error) => {
                log::warn("objects are not remembered", &[("file", &file.display()), ("why", &error)]);
                None
            }
        });
        let secret = disk.as_ref().map_or_else(|| disk::random().unwrap_or(Secret([0; 16])), Disk::secret);
        Self::over(secret, disk, entries)
    }

    fn over(secret: Secret, disk: Option<Disk>, entries: usize) -> Self {
        let parts = if entries == 0 { 0 } else { PARTS };
        Self {
            secret,
            parts: (0..parts).map(|_| Mutex::default()).collect(),
            young_max: (entries / PARTS / 2).max(1),
            disk: disk.map(Mutex::new),
            rests_until: Mutex::new(None),
            first: AtomicUsize::new(0),
            tells: AtomicBool::new(false),
            names: Names::new(parts),
            waiting: Mutex::new(false),
            woken: Condvar::new(),
            unsaved: AtomicU64::new(0),
        }
    }

    pub(crate) fn digest(&self, handle: &[u8]) -> Digest {
        self.secret.digest(handle)
    }

    /// Looks at what is known of an object, and changes it; what is used stays longest.
    pub(crate) fn with<T>(&self, object: Digest, what: impl FnOnce(&mut Option<Entry>) -> T) -> T {
        let mut part = lock(self.part(object));
        let before = part.find(object, self.young_max);
        let mut entry = before;
        let done = what(&mut entry);
        match entry {
            Some(entry) if before != Some(entry) => part.insert(object, entry, self.young_max),
            _ => {}
        }
        done
    }

    /// What is known of an object.
    pub(crate) fn get(&self, object: Digest) -> Option<Entry> {
        self.with(object, |entry| *entry)
    }

    /// The digest of a name in a directory; none of one that is too long.
    pub(crate) fn name(&self, dir: Digest, name: &[u8]) -> Option<Digest> {
        let mut bytes = [0; 16 + NAME_MAX];
        bytes[..16].copy_from_slice(&dir.bytes());
        bytes.get_mut(16..16 + name.len())?.copy_from_slice(name);
        Some(self.secret.digest(&bytes[..16 + name.len()]))
    }

    /// A name of a file is to be kept on disk, and told to other members.
    pub(crate) fn keep(&self, edge: Edge) {
        if self.disk.is_none() && (edge.handle.is_empty() || !self.tells.load(Relaxed)) {
            return;
        }
        let mut part = lock(self.part(edge.child));
        if part.unsaved.len() >= self.young_max.max(UNSAVED_LEAST) {
            self.unsaved.fetch_add(1, Relaxed);
            return;
        }
        part.unsaved.push(edge);
        drop(part);
        let mut waiting = lock(&self.waiting);
        if !std::mem::replace(&mut *waiting, true) {
            self.woken.notify_one();
        }
    }

    /// The names of a file that are kept. Reads the disk: not for an event loop.
    pub(crate) fn edges(&self, child: Digest) -> Vec<Edge> {
        let Some(disk) = &self.disk else { return Vec::new() };
        let of = |edge: &&Edge| edge.child == child;
        let unsaved: Vec<Edge> = lock(self.part(child)).unsaved.iter().filter(of).cloned().collect();
        // What waits to be written may take the place of what is there, in the order in which it came.
        let mut edges = lock(disk).edges(child).unwrap_or_default();
        for edge in unsaved {
            edges.retain(|kept| !edge.only && kept.parent != edge.parent);
            if !edge.gone {
                edges.push(edge);
            }
        }
        edges
    }

    /// Waits until there are names to be written, but not for long; writes them, and tells them.
    pub(crate) fn write(&self, patience: Duration, tell: impl Fn(&[Edge])) {
        let waiting = lock(&self.waiting);
        let idle = |waiting: &mut bool| !*waiting;
        let Ok((mut waiting, _)) = self.woken.wait_timeout_while(waiting, patience, idle) else { return };
        let news = std::mem::replace(&mut *waiting, false);
        drop(waiting);
        let rests = lock(&self.rests_until).is_some_and(|until| Instant::now() < until);
        if news || !rests {
            self.parts.iter().for_each(|part| tell_new(part, &tell));
        }
        if !rests {
            *lock(&self.rests_until) = self.write_told().is_err().then(|| Instant::now() + REST);
        }
    }

    /// Writes the names that were told, until the disk takes no more. The next time begins behind
    /// what it did not take, which may lie in one bad place.
    fn write_told(&self) -> Result<(), Full> {
        let first = self.first.load(Relaxed);
        for part in (0..self.parts.len()).map(|step| (first + step) % self.parts.len()) {
            if self.write_part(&self.parts[part]).is_err() {
                self.first.store(part + 1, Relaxed);
                return Err(Full);
            }
        }
        Ok(())
    }

    fn write_part(&self, part: &Mutex<Part>) -> Result<(), Full> {
        let edges = {
            let of = lock(part);
            of.unsaved[..of.told].to_vec()
        };
        // They are found in one place or the other at any time. What the disk did not take waits.
        let written = self.write_all(&edges);
        let mut of = lock(part);
        of.unsaved.drain(..written);
        of.told -= written;
        let Some(Edge { child, .. }) = edges.get(written) else { return Ok(()) };
        // Names of one file stay in their order.
        let told = of.told;
        of.unsaved[..told].sort_by_key(|edge| edge.child == *child);
        Err(Full)
    }

    /// Writes names; how many, until one failed. Without a disk there is nothing to be written.
    fn write_all(&self, edges: &[Edge]) -> usize {
        let Some(disk) = &self.disk else { return edges.len() };
        let mut written = 0;
        for chunk in edges.chunks(WRITES) {
            let mut disk = lock(disk);
            for edge in chunk {
                if let Err(error) = disk.keep(edge) {
                    if self.unsaved.fetch_add(1, Relaxed).is_multiple_of(SAID_EVERY) {
                        log::warn("names of files are not written: they wait", &[("why", &error)]);
                    }
                    return written;
                }
                written += 1;
            }
        }
        written
    }

    /// Has the writer look at once.
    pub(crate) fn wake(&self) {
        *lock(&self.waiting) = true;
        self.woken.notify_one();
    }

    /// Names that could not be kept on disk.
    pub(crate) fn unsaved(&self) -> u64 {
        self.unsaved.load(Relaxed)
    }

    fn part(&self, object: Digest) -> &Mutex<Part> {
        &self.parts[object.below(PARTS)]
    }
}

/// The disk takes no more for now.
struct Full;

/// Tells other members of the names of a part that they were not told yet.
fn tell_new(part: &Mutex<Part>, tell: impl Fn(&[Edge])) {
    let mut of = lock(part);
    let Part { unsaved, told, .. } = &mut *of;
    let new: Vec<Edge> = unsaved[*told..]
        .iter_mut()
        .filter(|edge| !edge.handle.is_empty())
        .map(|edge| Edge { handle: std::mem::take(&mut edge.handle), ..edge.clone() })
        .collect();
    *told = unsaved.len();
    drop(of);
    if !new.is_empty() {
        tell(&new);
    }
}

impl Part {
    fn find(&mut self, object: Digest, young_max: usize) -> Option<Entry> {
        if let Some(entry) = self.young.get(&object) {
            return Some(*entry);
        }
        let entry = self.old.remove(&object)?;
        self.insert(object, entry, young_max);
        Some(entry)
    }

    fn insert(&mut self, object: Digest, entry: Entry, young_max: usize) {
        if self.young.len() >= young_max && !self.young.contains_key(&object) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(object, entry);
    }
}

/// Entries in memory, and slots on disk. A test makes both small, to see what happens when they overflow.
fn sizes() -> (usize, usize) {
    let given = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    (given("MIDAS_TEST_OBJECTS").unwrap_or(ENTRIES), given("MIDAS_TEST_OBJECT_SLOTS").unwrap_or(SLOTS))
}

/// How long the writer may go on after the daemon was told to end.
const STEP: Duration = Duration::from_millis(50);
const PARTS: usize = 64;
/// Objects in memory: about 100 MB, and only where there are several exports.
const ENTRIES: usize = 1 << 20;
/// Names on disk: a file of half a gigabyte that fills as names come.
const SLOTS: usize = 1 << 22;
/// Names of one part that may wait for the disk, also where the table is small.
const UNSAVED_LEAST: usize = 1024;
/// Names that are written under one lock.
const WRITES: usize = 64;
/// How long the disk is left alone after it took no more.
const REST: Duration = Duration::from_secs(1);
/// One in so many failures is said in the log.
const SAID_EVERY: u64 = 60;
/// The longest name that is remembered.
const NAME_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_is_forgotten() {
        let objects = Objects::over(Secret([1; 16]), None, PARTS * 2 * 16);
        let one = Entry {
            kind: Kind::File,
            owner: Owner::Export(1),
            parent: Digest(0),
            version: 0,
            partial: false,
            only: true,
            name: 0,
        };
        let entry = |version| Entry { version, ..one };
        for number in 0..100_u32 {
            objects.with(Digest(u128::from(number)), |known| *known = Some(entry(number)));
            assert_eq!(objects.get(Digest(0)), Some(entry(0)));
        }
        assert_eq!(objects.get(Digest(1)), None);
        assert_eq!(objects.get(Digest(99)), Some(entry(99)));
    }

    fn edge(child: u128, parent: &[u8], only: bool) -> Edge {
        let (parent, handle) = (parent.into(), b"file"[..].into());
        Edge { child: Digest(child), parent, export: 7, layout: 9, only, handle, gone: false }
    }

    #[test]
    fn names_that_the_disk_does_not_take_wait_and_are_told_once() {
        let path = std::env::temp_dir().join(format!("midas-objects-unwritable-{}", std::process::id()));
        let (disk, _) = Disk::open(&path, 64).unwrap();
        let unwritable = disk.unwritable(&path);
        let objects = Objects::over(Secret([1; 16]), Some(unwritable), PARTS * 2 * 16);
        let told = std::cell::RefCell::new(0);
        let tell = |edges: &[Edge]| *told.borrow_mut() += edges.iter().filter(|edge| !edge.handle.is_empty()).count();
        objects.keep(edge(1, b"a", false));
        objects.keep(edge(1, b"b", false));
        objects.write(Duration::ZERO, tell);
        objects.write(Duration::ZERO, tell);
        assert_eq!((objects.edges(Digest(1)).len(), *told.borrow(), objects.unsaved()), (2, 2, 1));
        objects.keep(Edge { gone: true, ..edge(1, b"a", false) });
        assert_eq!(objects.edges(Digest(1)).len(), 1, "one of them is gone");
        *lock(objects.disk.as_ref().unwrap()) = disk;
        *lock(&objects.rests_until) = None;
        objects.write(Duration::ZERO, tell);
        let kept = lock(objects.disk.as_ref().unwrap()).edges(Digest(1)).unwrap();
        assert_eq!(kept.iter().map(|edge| &*edge.parent).collect::<Vec<_>>(), [b"b"]);
        assert!(lock(objects.part(Digest(1))).unsaved.is_empty());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn while_the_disk_rests_only_new_names_are_told() {
        let path = std::env::temp_dir().join(format!("midas-objects-rests-{}", std::process::id()));
        let (disk, _) = Disk::open(&path, 64).unwrap();
        let objects = Objects::over(Secret([1; 16]), Some(disk.unwritable(&path)), PARTS * 2 * 16);
        let told = std::cell::RefCell::new(Vec::new());
        let tell = |edges: &[Edge]| told.borrow_mut().push(edges.len());
        for parent in [b"a", b"b", b"c"] {
            objects.keep(edge(1, parent, false));
            objects.write(Duration::ZERO, tell);
        }
        assert_eq!((&**told.borrow(), objects.unsaved()), (&[1, 1, 1][..], 1), "the disk is asked once");
        assert_eq!(objects.edges(Digest(1)).len(), 3);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn one_bad_page_does_not_stop_what_lies_behind_it() {
        let path = std::env::temp_dir().join(format!("midas-objects-bad-{}", std::process::id()));
        let (disk, _) = Disk::open(&path, 64).unwrap();
        let objects = Objects::over(Secret([1; 16]), Some(disk.stretched()), PARTS * 2 * 16);
        let bad = |low: u128| 1 << (64 + 51) | low;
        for parent in [b"a", b"b"] {
            objects.keep(edge(bad(1), parent, false));
        }
        // Behind it in the same part, and in another one.
        objects.keep(edge(1, b"a", true));
        objects.keep(edge(1 << 64, b"a", true));
        let waiting = || -> usize { objects.parts.iter().map(|part| lock(part).unsaved.len()).sum() };
        let mut left = Vec::new();
        for _ in 0..3 {
            *lock(&objects.rests_until) = None;
            objects.write(Duration::ZERO, |_| {});
            left.push(waiting());
        }
        assert_eq!(left, [4, 2, 2]);
        let parents = lock(objects.part(Digest(bad(1)))).unsaved.iter().map(|edge| edge.parent[0]).collect::<Vec<_>>();
        assert_eq!(parents, b"ab", "the names of one file stay in their order");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn names_are_told_to_members_where_there_is_no_disk() {
        let objects = Objects::over(Secret([1; 16]), None, PARTS * 2 * 16);
        let told = std::cell::RefCell::new(0);
        let tell = |edges: &[Edge]| *told.borrow_mut() += edges.len();
        objects.keep(edge(1, b"a", true));
        objects.write(Duration::ZERO, tell);
        assert_eq!(*told.borrow(), 0, "there is nobody to tell");
        objects.tells.store(true, Relaxed);
        objects.keep(edge(1, b"a", true));
        objects.write(Duration::ZERO, tell);
        objects.write(Duration::ZERO, tell);
        assert_eq!(*told.borrow(), 1);
    }
}
