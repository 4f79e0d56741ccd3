//! The parents of files on disk: a hash table of fixed size in one file, so that what the memory
//! has no room for, and what a restart forgets, is found again.
//!
//! A page holds slots of one hash. A slot is one name's parent: the file's digest, the parent's
//! handle, and what the export was called when it was written. Slots are written one by one and
//! checked one by one: a torn one is as if it were empty. A full page loses its oldest slot.
//! Nothing is synced: a power failure loses the last seconds, and what is lost is asked for
//! elsewhere.

use super::digest::{Digest, Secret};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// A name of a file: the directory that it stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) child: Digest,
    /// The directory's handle.
    pub(crate) parent: Box<[u8]>,
    /// The export that both lay in, by its name among proxies.
    pub(crate) export: u32,
    /// What the exports of the pool were then: the export is believed only while these are the same.
    pub(crate) layout: u32,
    /// Whether the file has no other name.
    pub(crate) only: bool,
    /// The file's own handle, for the other members; empty where they need not be told.
    pub(crate) handle: Box<[u8]>,
    /// Whether the file has no name there any more.
    pub(crate) gone: bool,
}

/// The file.
pub(crate) struct Disk {
    file: File,
    secret: Secret,
    pages: u64,
    /// Counts slots as they are written.
    written: u32,
}

/// A slot of a page: its place, and what was written there, and when.
type Slot = (usize, Option<(u32, Edge)>);

impl Edge {
    /// Whether another one says the same.
    fn says(&self, other: &Self) -> bool {
        (self.child, &self.parent, self.export) == (other.child, &other.parent, other.export)
            && (self.layout, self.only) == (other.layout, other.only)
    }
}

impl Disk {
    /// Opens the table, or begins a new one of so many slots if there is none that can be used: then it says why.
    pub(crate) fn open(path: &Path, slots: usize) -> io::Result<(Self, Option<&'static str>)> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let pages = (slots / SLOTS).max(1) as u64;
        let mut head = [0; HEAD];
        let found = file.read_at(&mut head, 0)?;
        let why = match () {
            () if found == 0 => None,
            () if found < HEAD || head[..8] != *MAGIC => Some("it is no table of ours"),
            () if head[8..16] != pages.to_le_bytes() => Some("it has another size"),
            () => {
                let mut secret = [0; 16];
                secret.copy_from_slice(&head[16..32]);
                return Ok((Self { file, secret: Secret(secret), pages, written: 0 }, None));
            }
        };
        file.set_len(0)?;
        let secret = random()?;
        let head = [&MAGIC[..], &pages.to_le_bytes(), &secret.0].concat();
        file.set_len(PAGE as u64 * (1 + pages))?;
        file.write_all_at(&head, 0)?;
        Ok((Self { file, secret, pages, written: 0 }, why))
    }

    /// The same table, which cannot be written.
    #[cfg(test)]
    pub(super) fn unwritable(&self, path: &Path) -> Self {
        let file = File::open(path).expect("it is there");
        Self { file, secret: self.secret, pages: self.pages, written: 0 }
    }

    /// The same table with so many pages that the later ones fit no file.
    #[cfg(test)]
    pub(super) fn stretched(self) -> Self {
        Self { pages: (1 << 52) - 1, ..self }
    }

    /// The secret of the digests in it.
    pub(crate) const fn secret(&self) -> Secret {
        self.secret
    }

    /// The names of a file that are known.
    pub(crate) fn edges(&self, child: Digest) -> io::Result<Vec<Edge>> {
        let (page, _) = self.page(child)?;
        Ok(self.slots(&page).filter_map(|(_, slot)| slot).filter(|slot| slot.1.child == child).map(|it| it.1).collect())
    }

    /// Keeps a name; one that is the only one takes the place of the others. One that is gone is forgotten.
    pub(crate) fn keep(&mut self, edge: &Edge) -> io::Result<()> {
        let (page, offset) = self.page(edge.child)?;
        let slots: Vec<Slot> = self.slots(&page).collect();
        if edge.gone {
            let same = |slot: &Edge| slot.child == edge.child && slot.parent == edge.parent;
            for (at, _) in slots.iter().filter(|(_, slot)| slot.as_ref().is_some_and(|(_, slot)| same(slot))) {
                self.file.write_all_at(&[0; SLOT], offset + (at * SLOT) as u64)?;
            }
            return Ok(());
        }
        let own = |slot: &Edge| slot.child == edge.child && (edge.only || slot.parent == edge.parent);
        let same = slots.iter().find(|(_, slot)| slot.as_ref().is_some_and(|(_, slot)| own(slot)));
        let kept = same.filter(|(_, slot)| slot.as_ref().is_some_and(|(_, slot)| edge.says(slot)));
        let place = match kept {
            Some((place, _)) => *place,
            None => self.write(edge, &slots, same.map(|(place, _)| *place), offset)?,
        };
        for (at, slot) in slots.iter().filter(|(at, _)| edge.only && *at != place) {
            if slot.as_ref().is_some_and(|(_, slot)| slot.child == edge.child) {
                self.file.write_all_at(&[0; SLOT], offset + (at * SLOT) as u64)?;
            }
        }
        Ok(())
    }

    /// Writes a name to this slot of a page, or to the oldest one; to which.
    fn write(&mut self, edge: &Edge, slots: &[Slot], place: Option<usize>, offset: u64) -> io::Result<usize> {
        let newest = slots.iter().filter_map(|(_, slot)| slot.as_ref()).map(|(written, _)| *written).max();
        self.written = self.written.max(newest.unwrap_or(0)).wrapping_add(1);
        let age = |slot: &Option<(u32, Edge)>| slot.as_ref().map_or(0, |(written, _)| written.saturating_add(1));
        let oldest = || slots.iter().min_by_key(|(_, slot)| age(slot)).map(|(at, _)| *at);
        let place = place.or_else(oldest).unwrap_or_default();
        self.file.write_all_at(&self.encode(edge), offset + (place * SLOT) as u64)?;
        Ok(place)
    }

    fn page(&self, child: Digest) -> io::Result<([u8; PAGE], u64)> {
        let offset = PAGE as u64 * (1 + (child.0 >> 64) as u64 % self.pages);
        let (mut page, mut filled) = ([0; PAGE], 0);
        while filled < PAGE {
            match self.file.read_at(&mut page[filled..], offset + filled as u64)? {
                0 => break,
                more => filled += more,
            }
        }
        Ok((page, offset))
    }

    fn slots<'p>(&'p self, page: &'p [u8; PAGE]) -> impl Iterator<Item = Slot> + 'p {
        page.chunks_exact(SLOT).enumerate().map(|(at, slot)| (at, self.decode(slot)))
    }

    fn encode(&self, edge: &Edge) -> Vec<u8> {
        let length = edge.parent.len().min(HANDLE);
        let mut slot = Vec::with_capacity(SLOT);
        slot.extend_from_slice(&edge.child.bytes());
        slot.extend_from_slice(&edge.export.to_le_bytes());
        slot.extend_from_slice(&edge.layout.to_le_bytes());
        slot.extend_from_slice(&self.written.to_le_bytes());
        slot.extend_from_slice(&[length as u8, u8::from(edge.only)]);
        slot.extend_from_slice(&edge.parent[..length]);
        slot.resize(CHECKED, 0);
        let check = self.secret.digest(&slot);
        slot.extend_from_slice(&check.bytes());
        slot
    }

    fn decode(&self, slot: &[u8]) -> Option<(u32, Edge)> {
        let (body, check) = slot.split_at(CHECKED);
        if self.secret.digest(body).bytes() != check {
            return None;
        }
        let number = |at: usize| body[at..at + 4].iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte));
        let parent = body.get(30..30 + usize::from(body[28]))?;
        let child = Digest(body[..16].iter().rev().fold(0, |all, byte| all << 8 | u128::from(*byte)));
        let (export, layout) = (number(16), number(20));
        let (only, handle) = (body[29] == 1, Box::default());
        Some((number(24), Edge { child, parent: parent.into(), export, layout, only, handle, gone: false }))
    }
}

/// A secret that nobody knows.
pub(crate) fn random() -> io::Result<Secret> {
    let mut secret = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut secret)?;
    Ok(Secret(secret))
}

const MAGIC: &[u8; 8] = b"midasob1";
const HEAD: usize = 32;
const PAGE: usize = 4096;
const SLOT: usize = 128;
/// Slots in a page.
const SLOTS: usize = PAGE / SLOT;
/// Bytes of a slot that its digest covers.
const CHECKED: usize = SLOT - 16;
/// The longest handle.
const HANDLE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(child: u128, parent: &[u8], only: bool) -> Edge {
        let handle = Box::default();
        Edge { child: Digest(child), parent: parent.into(), export: 7, layout: 9, only, handle, gone: false }
    }

    fn path(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("midas-objects-{name}-{}", std::process::id()))
    }

    #[test]
    fn names_are_found_after_the_table_was_closed_and_a_torn_one_is_not() {
        let path = path("torn");
        let (mut disk, said) = Disk::open(&path, 64).unwrap();
        assert_eq!(said, None);
        disk.keep(&edge(1, b"a", false)).unwrap();
        disk.keep(&edge(1, b"b", false)).unwrap();
        disk.keep(&edge(2, &[3; HANDLE], true)).unwrap();
        drop(disk);
        let (mut disk, said) = Disk::open(&path, 64).unwrap();
        assert_eq!(said, None);
        assert_eq!(disk.edges(Digest(1)).unwrap(), [edge(1, b"a", false), edge(1, b"b", false)]);
        assert_eq!(disk.edges(Digest(2)).unwrap(), [edge(2, &[3; HANDLE], true)]);
        disk.keep(&Edge { gone: true, ..edge(1, b"b", false) }).unwrap();
        assert_eq!(disk.edges(Digest(1)).unwrap(), [edge(1, b"a", false)], "a name that is gone is forgotten");
        disk.keep(&edge(1, b"c", true)).unwrap();
        assert_eq!(disk.edges(Digest(1)).unwrap(), [edge(1, b"c", true)], "the only name takes the others' place");
        disk.file.write_all_at(&[0xff], PAGE as u64 + 3).unwrap();
        assert_eq!(disk.edges(Digest(1)).unwrap(), [], "a torn slot is empty");
        assert_eq!(Disk::open(&path, 4096).unwrap().1, Some("it has another size"));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_only_name_takes_the_others_place_also_if_it_is_there_already() {
        let path = path("only");
        let (mut disk, _) = Disk::open(&path, 64).unwrap();
        disk.keep(&edge(1, b"a", true)).unwrap();
        disk.keep(&edge(2, b"a", true)).unwrap();
        disk.keep(&edge(1, b"b", false)).unwrap();
        assert_eq!(disk.edges(Digest(1)).unwrap().len(), 2);
        disk.keep(&edge(1, b"a", true)).unwrap();
        assert_eq!(disk.edges(Digest(1)).unwrap(), [edge(1, b"a", true)]);
        assert_eq!(disk.edges(Digest(2)).unwrap(), [edge(2, b"a", true)]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_full_page_loses_its_oldest_name() {
        let path = path("full");
        let (mut disk, _) = Disk::open(&path, SLOTS).unwrap();
        for child in 1..=SLOTS as u128 + 1 {
            disk.keep(&edge(child, b"dir", true)).unwrap();
        }
        assert_eq!(disk.edges(Digest(1)).unwrap(), []);
        assert_eq!(disk.edges(Digest(2)).unwrap().len(), 1);
        std::fs::remove_file(&path).unwrap();
    }
}
