//! The table of file ids: under which handles each object is known.
//!
//! Entries are kept by the bytes of a handle, and a server may take several handles for one object: Ganesha
//! does not look at every bit. Whoever changes a file by a handle of its own making changes what others
//! have cached under the handle that they were given. So a mutation drops what is kept of the same file id
//! under other handles as well, before it is answered.
//!
//! A handle is in the table before attributes are kept under it. A handle that loses its place is dropped from
//! the cache: what is kept is found here, as long as servers tell attributes with what they answer.

use crate::pool::lock;
use midas_core::key::Key;
use midas_nfs::nfs3::Fattr3;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A digest of an object's file system, number and type. Two objects that share one drop each other's
/// entries now and then; nothing is kept too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId(Key);

impl FileId {
    pub(super) const fn of(attributes: &Fattr3) -> Self {
        Self::heard(Key(attributes.fsid).child(attributes.fileid).child(attributes.ftype as u64))
    }

    /// The id that another member tells.
    pub(super) const fn heard(key: Key) -> Self {
        // The lowest bit is the slot's own, and 0 an empty slot.
        Self(Key(key.0 & !TOLD | 2))
    }

    pub(super) const fn key(self) -> Key {
        self.0
    }
}

/// The handles of objects, in sets of a few places each.
pub(super) struct Twins {
    /// Slots in order of their sets; empty until the first handle comes.
    parts: Box<[Mutex<Vec<Slot>>]>,
    sets: usize,
    /// Handles of objects that have several, for as long as all of them are in the table.
    tied: Mutex<HashMap<Key, FileId>>,
    any_tied: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The file id, and in its lowest bit whether other members were told of the handle; 0 if empty.
    id: u64,
    handle: Key,
}

impl Slot {
    const EMPTY: Self = Self { id: 0, handle: Key(0) };

    const fn is_of(self, id: FileId) -> bool {
        self.id & !TOLD == id.0.0
    }
}

/// The state of an object's handles once one more was seen.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Met {
    /// The object's other handles.
    pub(super) others: Vec<Key>,
    /// A handle that lost its place.
    pub(super) lost: Option<Key>,
    /// Whether other members were not told of the handle yet; from now on they were.
    pub(super) untold: bool,
    /// Whether the handle was not in the table.
    pub(super) new: bool,
    /// Handles of other objects that are tied no longer: what is kept under them is to be dropped.
    pub(super) untied: Vec<Key>,
}

impl Twins {
    /// A table of about so many handles.
    pub(super) fn new(handles: usize) -> Self {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        let (tied, any_tied) = (Mutex::default(), AtomicBool::new(false));
        Self { parts, sets: handles.div_ceil(PARTS * WAYS).max(1), tied, any_tied }
    }

    /// Notes that a handle leads to this object. `tell`: other members are told of it now.
    /// `cached` says whether anything is kept under a handle: those under which nothing is go first.
    pub(super) fn meet(&self, id: FileId, handle: Key, tell: bool, cached: impl Fn(Key) -> bool) -> Met {
        let (part, set) = self.place(id);
        let mut met = Met::default();
        let mut slots = lock(part);
        if slots.is_empty() {
            slots.resize(self.sets * WAYS, Slot::EMPTY);
        }
        let set = &mut slots[set..set + WAYS];
        let mut own = None;
        for (way, slot) in set.iter().enumerate().filter(|(_, slot)| slot.is_of(id)) {
            match slot.handle == handle {
                true => own = Some(way),
                false => met.others.push(slot.handle),
            }
        }
        let way = own.unwrap_or_else(|| {
            let free = set.iter().position(|slot| slot.id == 0);
            // Each new handle begins to look elsewhere, so that no place is every one's first choice.
            let first = handle.0 as usize % WAYS;
            let mut ways = (0..WAYS).map(|step| (step + first) % WAYS);
            let way = free.or_else(|| ways.find(|way| !cached(set[*way].handle))).unwrap_or(first);
            met.lost = Some(set[way]).filter(|slot| slot.id != 0).map(|slot| slot.handle);
            set[way] = Slot { id: id.0.0, handle };
            way
        });
        met.new = own.is_none();
        met.untold = set[way].id & TOLD == 0;
        set[way].id |= u64::from(tell);
        drop(slots);
        // One that lost its place to its own twin is still to be dropped, and is a twin no longer.
        met.others.retain(|other| Some(*other) != met.lost);
        self.tie(id, handle, &mut met);
        met
    }

    fn tie(&self, id: FileId, handle: Key, met: &mut Met) {
        let unties = met.lost.is_some() && self.any_tied.load(Ordering::Relaxed);
        if met.others.is_empty() && !unties {
            return;
        }
        let mut tied = lock(&self.tied);
        if let Some(lost) = met.lost {
            tied.remove(&lost);
        }
        if !met.others.is_empty() {
            if tied.len() > TIED_MAX {
                met.untied.extend(tied.drain().map(|(handle, _)| handle));
            }
            tied.extend(met.others.iter().chain([&handle]).map(|handle| (*handle, id)));
            self.any_tied.store(true, Ordering::Relaxed);
        }
    }

    /// Nothing is kept any more.
    pub(super) fn clear(&self) {
        for part in &self.parts {
            lock(part).fill(Slot::EMPTY);
        }
        lock(&self.tied).clear();
        self.any_tied.store(false, Ordering::Relaxed);
    }

    /// The other handles of the object that this one leads to, as far as they are known.
    pub(super) fn of(&self, handle: Key) -> Vec<Key> {
        if !self.any_tied.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let id = lock(&self.tied).get(&handle).copied();
        id.map_or_else(Vec::new, |id| {
            let (part, set) = self.place(id);
            let slots = lock(part);
            let all = slots.get(set..set + WAYS).unwrap_or_default().iter().filter(|slot| slot.is_of(id));
            all.map(|slot| slot.handle).filter(|other| *other != handle).collect()
        })
    }

    fn place(&self, id: FileId) -> (&Mutex<Vec<Slot>>, usize) {
        // The lowest bits are not the id's.
        let number = (id.0.0 >> 2) as usize;
        (&self.parts[number % PARTS], number / PARTS % self.sets * WAYS)
    }
}

/// Places in a set: an object has a handle or two.
const WAYS: usize = 8;
const PARTS: usize = 64;
const TOLD: u64 = 1;
/// Handles of objects that have several.
const TIED_MAX: usize = 4096;
/// Bytes of a handle's place.
pub(super) const PLACE: usize = size_of::<Slot>();

#[cfg(test)]
mod tests {
    use super::*;

    const ID: FileId = FileId::heard(Key(0xabcd_ef00));

    fn nothing(_: Key) -> bool {
        false
    }

    #[test]
    fn an_objects_other_handles_are_known_and_tied() {
        let twins = Twins::new(1000);
        assert_eq!(twins.meet(ID, Key(1), false, nothing).others, []);
        assert_eq!(twins.of(Key(1)), []);
        assert_eq!(twins.meet(ID, Key(2), false, nothing).others, [Key(1)]);
        assert_eq!((twins.of(Key(1)), twins.of(Key(2))), (vec![Key(2)], vec![Key(1)]));
        assert_eq!(twins.meet(FileId::heard(Key(77 << 8)), Key(3), false, nothing).others, []);
        assert_eq!(twins.of(Key(3)), []);
    }

    #[test]
    fn a_handle_is_told_of_once() {
        let twins = Twins::new(1000);
        assert!(twins.meet(ID, Key(1), false, nothing).untold, "a read tells nobody");
        assert!(twins.meet(ID, Key(1), true, nothing).untold);
        assert!(!twins.meet(ID, Key(1), true, nothing).untold);
        assert!(twins.meet(ID, Key(2), true, nothing).untold, "another handle is news");
    }

    #[test]
    fn what_loses_its_place_is_named_and_what_is_cached_loses_it_last() {
        let twins = Twins::new(1);
        // All of them in one set.
        let id = |number: u64| FileId::heard(Key(number * 4 * PARTS as u64));
        for number in 1..=WAYS as u64 {
            assert_eq!(twins.meet(id(number), Key(number), false, nothing).lost, None);
        }
        let cached = |handle: Key| handle != Key(5);
        assert_eq!(twins.meet(id(100), Key(100), false, cached).lost, Some(Key(5)));
        let lost = twins.meet(id(101), Key(101), false, |_| true).lost;
        assert!(lost.is_some(), "there are no more than {WAYS} places");
    }

    #[test]
    fn a_twin_that_loses_its_place_is_tied_no_longer() {
        let twins = Twins::new(1);
        for handle in 1..=WAYS as u64 {
            twins.meet(ID, Key(handle), false, nothing);
        }
        assert_eq!(twins.of(Key(1)).len(), WAYS - 1);
        let met = twins.meet(ID, Key(100), false, nothing);
        let lost = met.lost.unwrap();
        assert!(!met.others.contains(&lost) && twins.of(lost).is_empty());
    }
}
