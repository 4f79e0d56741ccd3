//! The table of objects: for each its kind, the directory that it stands in, and the export that both belong to.
//!
//! It is kept by a keyed digest of the handle, bounded in memory, and kept only where there are several exports. The names of files go
//! to disk as well ([`disk`]): a directory tells its parent when it is asked, a file does not. A writer of its own carries them there,
//! so that no event loop waits for a disk.

mod digest;
mod disk;

pub(crate) use digest::{Digest, Plain};
pub(crate) use disk::Edge;

use crate::event::Shared;
use crate::log;
use crate::pool::lock;
use crate::whose::Owner;
use digest::Secret;
use disk::Disk;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Writes names to disk, tells other members of them and answers their questions, until the daemon ends. Nothing to do where every handle is one export's.
pub(crate) fn run(shared: &Shared) {
    let tell = |edges: &[Edge]| {
        if let Some(accord) = shared.accord() {
            accord.tell_names(edges);
        }
    };
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

    /// A name of a file is to be kept on disk.
    pub(crate) fn keep(&self, edge: Edge) {
        if self.disk.is_none() {
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
        let mut edges: Vec<Edge> = lock(self.part(child)).unsaved.iter().filter(of).cloned().collect();
        let kept = lock(disk).edges(child).unwrap_or_default();
        // What waits to be written may be what takes the place of the others.
        if !edges.iter().any(|edge| edge.only) {
            edges.extend(kept);
        }
        edges
    }

    /// Waits until there are names to be written, but not for long; writes them, and tells them.
    pub(crate) fn write(&self, patience: Duration, tell: impl Fn(&[Edge])) {
        let waiting = lock(&self.waiting);
        let idle = |waiting: &mut bool| !*waiting;
        let Ok((mut waiting, _)) = self.woken.wait_timeout_while(waiting, patience, idle) else { return };
        *waiting = false;
        drop(waiting);
        let Some(disk) = &self.disk else { return };
        for part in &self.parts {
            let edges = lock(part).unsaved.clone();
            if edges.is_empty() {
                continue;
            }
            // They are found in one place or the other at any time.
            for chunk in edges.chunks(WRITES) {
                let mut disk = lock(disk);
                let failed = chunk.iter().filter(|edge| disk.keep(edge).is_err()).count();
                self.unsaved.fetch_add(failed as u64, Relaxed);
            }
            lock(part).unsaved.drain(..edges.len());
            tell(&edges);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_is_forgotten() {
        let objects = Objects::over(Secret([1; 16]), None, PARTS * 2 * 16);
        let entry =
            |version| Entry { kind: Kind::File, owner: Owner::Export(1), parent: Digest(0), version, partial: false };
        for number in 0..100_u32 {
            objects.with(Digest(u128::from(number)), |known| *known = Some(entry(number)));
            assert_eq!(objects.get(Digest(0)), Some(entry(0)));
        }
        assert_eq!(objects.get(Digest(1)), None);
        assert_eq!(objects.get(Digest(99)), Some(entry(99)));
    }
}
