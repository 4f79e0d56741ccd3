//! What is remembered, within a bound on keys and one on bytes, and who must go first.
//!
//! S3-FIFO: newcomers pass a small queue and reach the main one only if they are read again while there, or come back soon
//! after they left (the ghost remembers). A scan of a million files therefore washes through a tenth of the room. A slot
//! outlives its value: what was learned about an object stays until the slot is needed. A hit allocates and moves nothing.

use super::hash::Fixed;
use super::history::History;
use super::horizon::Horizon;
use super::{Class, Entry};
use crate::time::{Span, Time};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::Hash;
use core::sync::atomic::{AtomicU64, Ordering};
use hashbrown::{HashMap, HashTable};

/// Invariants: every slot below `slots.len()` is in exactly one of `small`, `main`, `free`; those of the queues, and only
/// those, are in `index`; `bytes` is the sum of the kept values' costs; a slot whose guard is not its key is in the ring of that guard,
/// which `guarded` knows one slot of.
#[derive(Debug)]
pub(super) struct Store<K, V> {
    spread: Fixed,
    index: HashTable<u32>,
    guarded: HashMap<K, u32, Fixed>,
    slots: Vec<Slot<K, V>>,
    free: Vec<u32>,
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    ghost: Ghost,
    bytes: usize,
    bytes_max: usize,
    limit: usize,
    departures: Arc<Departures>,
}

/// Counts the values that went, for whatever reason: while the number stands, all that was there is there. May be read by anyone at any
/// time; what goes is counted before the mutation that drops it leaves for a server.
#[derive(Debug, Default)]
pub struct Departures(AtomicU64);

impl Departures {
    /// How many.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn note(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// One remembered key. A value, if there is one, was true at `history.seen`: a look either brings a value or takes the old
/// one away. The order keeps what a hit needs together.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Slot<K, V> {
    key: K,
    pub(super) value: Option<V>,
    pub(super) horizon: Horizon,
    reads: u8,
    /// Whether anyone was given the value since it came.
    served: bool,
    pub(super) class: Class,
    pub(super) history: History,
    cost: usize,
    guard: K,
    /// The neighbours among those of its guard.
    next: u32,
    before: u32,
}

/// What was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dropped {
    /// The class of the key, if it is remembered.
    pub(super) class: Option<Class>,
    /// Whether a value went that someone was given.
    pub(super) served: bool,
}

/// A value that may be served inside its horizon.
#[derive(Debug)]
pub(super) struct Kept<V> {
    pub(super) value: V,
    pub(super) horizon: Horizon,
    pub(super) cost: usize,
}

impl<K: Copy + Eq + Hash, V> Store<K, V> {
    pub(super) fn new(entries_max: usize, bytes_max: usize, spread: Fixed) -> Self {
        Self {
            spread,
            index: HashTable::new(),
            guarded: HashMap::with_hasher(spread),
            slots: Vec::new(),
            free: Vec::new(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghost: Ghost::new(entries_max),
            bytes: 0,
            bytes_max,
            limit: entries_max,
            departures: Arc::default(),
        }
    }

    /// The slot of a key, noted as read once more.
    pub(super) fn read(&mut self, hash: u64, key: &K) -> Option<&mut Slot<K, V>> {
        let at = self.find(hash, key)?;
        let slot = &mut self.slots[at];
        if !slot.served {
            slot.served = true;
        }
        // Not written once it is at its most: a line that many cores read stays clean.
        if slot.reads < READS_MAX {
            slot.reads += 1;
        }
        Some(slot)
    }

    /// The slot of a key.
    pub(super) fn peek(&self, key: &K) -> Option<&Slot<K, V>> {
        self.find(self.spread.of(key), key).map(|at| &self.slots[at])
    }

    /// Remembers what was learned about a key, and its value if one may be kept. Others go until both bounds hold.
    pub(super) fn put(&mut self, hash: u64, entry: Entry<K>, history: History, kept: Option<Kept<V>>) {
        let Entry { key, guard, class } = entry;
        let cost = kept.as_ref().map_or(0, |kept| kept.cost);
        debug_assert!(cost <= self.bytes_max, "a value that can never fit is refused before");
        self.forget(&key);
        self.evict_while(|store| store.bytes + cost > store.bytes_max);
        let at = match self.find(hash, &key) {
            Some(at) if self.slots[at].guard == guard => at,
            // Keys are digests: another entry has this one's.
            Some(at) => {
                self.unlink(at);
                self.link(at, guard);
                at
            }
            None => self.insert(hash, entry, history),
        };
        let slot = &mut self.slots[at];
        (slot.history, slot.class) = (history, class);
        if let Some(Kept { value, horizon, cost }) = kept {
            (slot.value, slot.horizon, slot.cost, slot.served) = (Some(value), horizon, cost, false);
            self.bytes += cost;
        }
    }

    /// Drops the value of a key, if there is one, and keeps what was learned.
    pub(super) fn forget(&mut self, key: &K) -> Dropped {
        let Some(at) = self.find(self.spread.of(key), key) else { return Dropped { class: None, served: false } };
        let served = self.release(at);
        Dropped { class: Some(self.slots[at].class), served }
    }

    /// Drops the values of a key and of all that it guards.
    pub(super) fn forget_guarded(&mut self, guard: &K) -> Dropped {
        let mut served = false;
        if let Some(&first) = self.guarded.get(guard) {
            let mut at = first;
            loop {
                served |= self.release(at as usize);
                at = self.slots[at as usize].next;
                if at == first {
                    break;
                }
            }
        }
        let own = self.forget(guard);
        Dropped { served: served || own.served, ..own }
    }

    /// Drops everything but the room.
    pub(super) fn clear(&mut self) {
        self.index.clear();
        self.guarded.clear();
        self.slots.clear();
        self.free.clear();
        self.small.clear();
        self.main.clear();
        self.bytes = 0;
        self.departures.note();
    }

    /// Another bound on the keys. What is beyond it goes a few at a time, so that no call pays for all.
    pub(super) fn keep_within(&mut self, limit: usize) {
        if self.limit == limit && self.len() <= limit {
            return;
        }
        self.limit = limit;
        let step = self.len().saturating_sub(limit).min(SHRINK_STEP);
        let target = self.len() - step;
        self.evict_while(|store| store.len() > target);
    }

    /// Every kept value, in no order.
    pub(super) fn for_each(&self, mut seen: impl FnMut(&K, &V, Class, usize)) {
        for slot in &self.slots {
            if let Some(value) = &slot.value {
                seen(&slot.key, value, slot.class, slot.cost);
            }
        }
    }

    /// Remembered keys, with or without a value.
    pub(super) fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }

    pub(super) fn departures(&self) -> &Arc<Departures> {
        &self.departures
    }

    /// The sum of the kept values' costs.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether new keys push others out, or soon will.
    pub(super) fn full(&self) -> bool {
        self.len() >= self.limit || self.bytes >= self.bytes_max / 10 * 9
    }

    fn find(&self, hash: u64, key: &K) -> Option<usize> {
        self.index.find(hash, |&at| self.slots[at as usize].key == *key).map(|&at| at as usize)
    }

    /// Drops a slot's value; whether there was one that was of use.
    fn release(&mut self, at: usize) -> bool {
        let slot = &mut self.slots[at];
        let dropped = slot.value.take().is_some();
        if dropped {
            self.bytes -= slot.cost;
            self.departures.note();
        }
        dropped && slot.served
    }

    fn insert(&mut self, hash: u64, Entry { key, guard, class }: Entry<K>, history: History) -> usize {
        let limit = self.limit;
        let over = (self.len() + 1).saturating_sub(limit).min(SHRINK_STEP);
        let target = self.len() - over;
        self.evict_while(|store| store.len() > target);
        let horizon = Horizon::after(Time::ZERO, Span::ZERO);
        let (next, before) = (NONE, NONE);
        let slot =
            Slot { key, value: None, horizon, reads: 0, served: false, class, history, cost: 0, guard, next, before };
        let at = self.place(slot);
        self.link(at as usize, guard);
        let queue = if self.ghost.knows(hash) { &mut self.main } else { &mut self.small };
        queue.push_back(at);
        let (slots, spread) = (&self.slots, self.spread);
        self.index.insert_unique(hash, at, |&at| spread.of(&slots[at as usize].key));
        at as usize
    }

    /// Puts a slot into the ring of its guard.
    fn link(&mut self, at: usize, guard: K) {
        let place = at as u32;
        let alone = self.slots[at].key == guard;
        let first = if alone { NONE } else { *self.guarded.entry(guard).or_insert(place) };
        let (before, next) = match first {
            NONE => (NONE, NONE),
            first if first == place => (place, place),
            first => (self.slots[first as usize].before, first),
        };
        let slot = &mut self.slots[at];
        (slot.guard, slot.before, slot.next) = (guard, before, next);
        if first != NONE {
            self.slots[before as usize].next = place;
            self.slots[next as usize].before = place;
        }
    }

    fn unlink(&mut self, at: usize) {
        let Slot { guard, next, before, .. } = self.slots[at];
        if next == NONE {
            return;
        }
        if next == at as u32 {
            self.guarded.remove(&guard);
        } else {
            self.slots[before as usize].next = next;
            self.slots[next as usize].before = before;
            self.guarded.insert(guard, next);
        }
        (self.slots[at].next, self.slots[at].before) = (NONE, NONE);
    }

    fn place(&mut self, slot: Slot<K, V>) -> u32 {
        if let Some(at) = self.free.pop() {
            self.slots[at as usize] = slot;
            return at;
        }
        self.slots.push(slot);
        self.slots.len() as u32 - 1
    }

    fn evict_while(&mut self, over: impl Fn(&Self) -> bool) {
        while over(self) && self.len() > 0 {
            self.evict();
        }
    }

    /// One key goes. Each step that lets one stay uses up reads that were counted before, so the work is bounded by them.
    fn evict(&mut self) {
        loop {
            let from_small = self.small.len() * SMALL_SHARE >= self.limit || self.main.is_empty();
            let queue = if from_small { &mut self.small } else { &mut self.main };
            let Some(at) = queue.pop_front() else { return };
            let slot = &mut self.slots[at as usize];
            match (from_small, slot.reads) {
                (true, reads) if reads >= PROMOTE => {
                    slot.reads = 0;
                    self.main.push_back(at);
                }
                (false, 1..) => {
                    slot.reads -= 1;
                    self.main.push_back(at);
                }
                (true | false, _) => return self.remove(at, from_small),
            }
        }
    }

    fn remove(&mut self, at: u32, to_ghost: bool) {
        self.release(at as usize);
        self.unlink(at as usize);
        let hash = self.spread.of(&self.slots[at as usize].key);
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == at) {
            entry.remove();
        }
        if to_ghost {
            self.ghost.remember(hash);
        }
        self.free.push(at);
    }
}

/// The keys that left the small queue last, as fingerprints: each place holds one and when it came.
#[derive(Debug)]
struct Ghost {
    places: Vec<(u32, u32)>,
    came: u32,
    span: usize,
}

impl Ghost {
    fn new(span: usize) -> Self {
        Self { places: Vec::new(), came: 0, span }
    }

    fn remember(&mut self, hash: u64) {
        if self.places.is_empty() {
            self.places.resize(self.span.next_power_of_two(), (0, 0));
        }
        self.came = self.came.wrapping_add(1);
        let at = self.place(hash);
        self.places[at] = (fingerprint(hash), self.came);
    }

    fn knows(&self, hash: u64) -> bool {
        let place = self.places.get(self.place(hash));
        place.is_some_and(|&(print, came)| {
            print == fingerprint(hash) && (self.came.wrapping_sub(came) as usize) < self.span
        })
    }

    fn place(&self, hash: u64) -> usize {
        hash as usize & self.places.len().wrapping_sub(1)
    }
}

/// Never zero, which marks an empty place.
fn fingerprint(hash: u64) -> u32 {
    (hash >> 32) as u32 | 1
}

/// No slot.
const NONE: u32 = u32::MAX;
/// The small queue's share of the room is one in so many.
const SMALL_SHARE: usize = 10;
/// Reads that are counted, at most: a key that was hot once leaves after as many rounds.
const READS_MAX: u8 = 3;
/// A newcomer read this often in the small queue moves to the main one.
const PROMOTE: u8 = 1;
/// Evictions that one call pays for, at most, when the bound has come down.
const SHRINK_STEP: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Every tenth key is guarded by itself, and guards those that follow.
    fn guard_of(key: u64) -> u64 {
        key / 10 * 10
    }

    fn put(store: &mut Store<u64, u64>, key: u64, cost: usize) {
        let history = History::first(Time::ZERO, None);
        let kept = Kept { value: key, horizon: Horizon::after(Time::ZERO, Span::FOREVER), cost };
        store.put(Fixed::default().of(&key), Entry { key, guard: guard_of(key), class: Class(0) }, history, Some(kept));
    }

    /// A read that fills on a miss; true if it was a hit.
    fn read(store: &mut Store<u64, u64>, key: u64) -> bool {
        let hit = store.read(Fixed::default().of(&key), &key).is_some_and(|slot| slot.value.is_some());
        if !hit {
            put(store, key, 1);
        }
        hit
    }

    fn check(store: &Store<u64, u64>) {
        let queued: Vec<u32> = store.small.iter().chain(&store.main).copied().collect();
        assert_eq!(queued.len() + store.free.len(), store.slots.len());
        assert_eq!(store.index.len(), queued.len());
        let cost = |&at: &u32| store.slots[at as usize].value.map_or(0, |_| store.slots[at as usize].cost);
        assert_eq!(queued.iter().map(cost).sum::<usize>(), store.bytes);
        let ring = |&at: &u32| {
            let slot = &store.slots[at as usize];
            (slot.next == NONE) == (slot.guard == slot.key)
                && (slot.next == NONE || store.slots[slot.next as usize].before == at)
                && (slot.next == NONE || store.slots[slot.next as usize].guard == slot.guard)
        };
        assert!(queued.iter().all(ring));
        for at in queued {
            assert_eq!(
                store.find(Fixed::default().of(&store.slots[at as usize].key), &store.slots[at as usize].key),
                Some(at as usize)
            );
        }
    }

    #[test]
    fn both_bounds_hold_under_random_load() {
        let mut rng = Rng::new(5);
        let mut store = Store::new(100, 1_000, Fixed::default());
        for step in 0..20_000 {
            let key = rng.below(300) as u64;
            match rng.below(10) {
                0 if step % 2 == 0 => drop(store.forget(&key).class),
                0 => {
                    store.forget_guarded(&guard_of(key));
                    let values = |key: u64| store.peek(&key).is_some_and(|slot| slot.value.is_some());
                    assert!(!(guard_of(key)..guard_of(key) + 10).any(values));
                }
                1..5 => drop(store.read(Fixed::default().of(&key), &key).map(|slot| slot.class)),
                5..10 => put(&mut store, key, rng.below(60)),
                step => unreachable!("{step}"),
            }
            assert!(store.len() <= 100 && store.bytes() <= 1_000, "step {step}");
            assert!(store.slots.len() <= 100);
            if step % 500 == 0 {
                check(&store);
            }
        }
        store.clear();
        check(&store);
    }

    #[test]
    fn a_lower_bound_is_reached_a_few_at_a_time() {
        let mut store = Store::new(100, 1_000, Fixed::default());
        (0..100).for_each(|key| put(&mut store, key, 1));
        store.keep_within(10);
        assert_eq!(store.len(), 100 - SHRINK_STEP);
        (0..30).for_each(|_| store.keep_within(10));
        assert_eq!(store.len(), 10);
        check(&store);
    }

    #[test]
    fn a_scan_of_ten_times_the_room_leaves_the_hot_set_alone() {
        const ROOM: usize = 10_000;
        let hot = |rng: &mut Rng| rng.below(ROOM / 2) as u64;
        let share = |store: &mut Store<u64, u64>, rng: &mut Rng, scan: bool| {
            let mut hits = 0;
            for i in 0..10 * ROOM as u64 {
                hits += u32::from(read(store, hot(rng)));
                if scan {
                    read(store, 1 << 32 | i);
                }
            }
            f64::from(hits) / (10 * ROOM) as f64
        };
        let (mut store, mut rng) = (Store::new(ROOM, usize::MAX, Fixed::default()), Rng::new(3));
        share(&mut store, &mut rng, false);
        let before = share(&mut store, &mut rng, false);
        let during = share(&mut store, &mut rng, true);
        let after = share(&mut store, &mut rng, false);
        assert!(before > 0.999 && during > before - 0.05 && after > before - 0.05, "{before} {during} {after}");
    }
}
