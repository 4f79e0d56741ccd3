//! Reads on their way: who may share one, and which of them may still fill the cache.
//!
//! A key's epoch lives only while a flight of that key does: the record is made by the first ticket and goes with the last,
//! so a flight always finds the very counter it left with, and memory is bounded by the calls in flight. It must never let
//! two tickets with a mutation between them carry the same epoch while either is out.

use super::Class;
use super::hash::Fixed;
use super::mode::Joins;
use crate::time::Time;
use core::hash::Hash;
use hashbrown::HashMap;

/// One read on its way to a server; what joined readers wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlightId(pub u64);

/// The ticket of a read that must be fetched. Not `Clone`: it is consumed by `filled` or `failed`, exactly once.
#[derive(Debug)]
#[must_use = "a ticket must be settled, or its flight stays joinable for ever"]
pub struct Fetch<K> {
    pub(super) asked: Asked<K>,
    pub(super) generation: u64,
    epoch: u64,
    flight: FlightId,
    tracked: bool,
}

/// What a ticket asked for, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<K> {
    pub(super) key: K,
    pub(super) class: Class,
    pub(super) left: Time,
}

impl<K: Copy> Fetch<K> {
    /// The flight that other readers may join.
    pub fn flight(&self) -> FlightId {
        self.flight
    }

    /// The key that is fetched.
    pub fn key(&self) -> K {
        self.asked.key
    }

    /// The cache class that is fetched.
    pub fn class(&self) -> Class {
        self.asked.class
    }

    /// When the read began; what it brings was true then or later.
    pub fn left(&self) -> Time {
        self.asked.left
    }
}

/// Invariant: a key is in `open` exactly while a tracked ticket of it is out.
#[derive(Debug)]
pub(super) struct Flights<K> {
    open: HashMap<K, Open, Fixed>,
    next: u64,
    keys_max: usize,
}

/// The flights of one key.
#[derive(Debug)]
struct Open {
    epoch: u64,
    tickets: u32,
    newest: Newest,
}

/// The youngest flight of a key: the only one that is joined.
#[derive(Debug)]
struct Newest {
    flight: FlightId,
    left: Time,
    epoch: u64,
    generation: u64,
    sent: bool,
    landed: bool,
}

impl<K: Copy + Eq + Hash> Flights<K> {
    pub(super) fn new(keys_max: usize) -> Self {
        Self { open: HashMap::with_hasher(Fixed), next: 0, keys_max }
    }

    /// A flight that this read may join. `unmarked`: whether no mutation of the key can be running now, or could when the flight left.
    pub(super) fn join(
        &self,
        key: &K,
        joins: Joins,
        generation: u64,
        unmarked: impl FnOnce(Time) -> bool,
    ) -> Option<FlightId> {
        let open = self.open.get(key)?;
        let newest = &open.newest;
        let fillable = || unmarked(newest.left) && newest.epoch == open.epoch && newest.generation == generation;
        let may = match joins {
            Joins::Waiting => !newest.sent,
            Joins::Fillable => !newest.sent || fillable(),
            Joins::Any => true,
        };
        (may && !newest.landed).then_some(newest.flight)
    }

    /// A new flight. Beyond `keys_max` keys it is not tracked: nobody joins it and it fills nothing.
    pub(super) fn begin(&mut self, now: Time, key: K, class: Class, generation: u64) -> Fetch<K> {
        let flight = FlightId(self.next);
        self.next += 1;
        let tracked = self.open.len() < self.keys_max || self.open.contains_key(&key);
        let epoch = if tracked { self.track(now, key, flight, generation) } else { 0 };
        Fetch { asked: Asked { key, class, left: now }, generation, epoch, flight, tracked }
    }

    fn track(&mut self, left: Time, key: K, flight: FlightId, generation: u64) -> u64 {
        let newest = |epoch| Newest { flight, left, epoch, generation, sent: false, landed: false };
        let open = self.open.entry(key).or_insert_with(|| Open { epoch: 0, tickets: 0, newest: newest(0) });
        open.tickets += 1;
        open.newest = newest(open.epoch);
        open.epoch
    }

    /// The flight's call left for the server.
    pub(super) fn sent(&mut self, fetch: &Fetch<K>) {
        match self.open.get_mut(&fetch.asked.key) {
            Some(open) if open.newest.flight == fetch.flight => open.newest.sent = true,
            Some(_) | None => {}
        }
    }

    /// Whether no mutation of the key began or ended since this flight left.
    pub(super) fn unchanged(&self, fetch: &Fetch<K>) -> bool {
        fetch.tracked && self.open.get(&fetch.asked.key).is_some_and(|open| open.epoch == fetch.epoch)
    }

    /// A mutation of the key begins or ends: flights that are out can no longer fill.
    pub(super) fn bump(&mut self, key: &K) {
        if let Some(open) = self.open.get_mut(key) {
            open.epoch += 1;
        }
    }

    /// The flight is over.
    pub(super) fn end(&mut self, Fetch { asked, flight, tracked, .. }: Fetch<K>) -> Asked<K> {
        if tracked {
            let open = self.open.get_mut(&asked.key).expect("a tracked ticket keeps its key open");
            open.tickets -= 1;
            open.newest.landed |= open.newest.flight == flight;
            if open.tickets == 0 {
                self.open.remove(&asked.key);
            }
        }
        asked
    }

    /// Keys with a flight out.
    pub(super) fn keys(&self) -> usize {
        self.open.len()
    }
}

/// At most this many keys are tracked in flight; what is beyond is fetched and not kept.
pub(super) const FLIGHT_KEYS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(flights: &mut Flights<u8>, key: u8) -> Fetch<u8> {
        flights.begin(Time::ZERO, key, Class(0), 0)
    }

    #[test]
    fn a_flight_is_joined_by_the_mode_and_only_until_it_lands() {
        use Joins::{Any, Fillable, Waiting};
        // (sent, mutated since, marked now, flushed since), then who joins: waiting, fillable, any
        let cases = [
            (false, false, false, false, [true, true, true]),
            (false, true, true, true, [true, true, true]),
            (true, false, false, false, [false, true, true]),
            (true, true, false, false, [false, false, true]),
            (true, false, true, false, [false, false, true]),
            (true, false, false, true, [false, false, true]),
        ];
        for (sent, mutated, marked, flushed, want) in cases {
            let mut flights = Flights::new(8);
            let fetch = begin(&mut flights, 1);
            if sent {
                flights.sent(&fetch);
            }
            if mutated {
                flights.bump(&1);
            }
            let join = |f: &Flights<u8>, joins| f.join(&1, joins, u64::from(flushed), |_| !marked).is_some();
            assert_eq!([Waiting, Fillable, Any].map(|joins| join(&flights, joins)), want);
            flights.end(fetch);
            assert!(!join(&flights, Any) && flights.keys() == 0);
        }
    }

    #[test]
    fn an_old_flight_is_outlived_by_its_poison_and_a_landed_one_is_not_joined() {
        let mut flights = Flights::new(8);
        let old = begin(&mut flights, 1);
        flights.bump(&1);
        let young = begin(&mut flights, 1);
        assert!(!flights.unchanged(&old) && flights.unchanged(&young));
        flights.end(young);
        assert_eq!(flights.join(&1, Joins::Any, 0, |_| true), None, "the youngest has landed");
        assert!(!flights.unchanged(&old), "the old one is still poisoned");
        flights.end(old);
        assert_eq!(flights.keys(), 0);
    }

    #[test]
    fn beyond_the_bound_a_flight_is_neither_joined_nor_fills() {
        let mut flights = Flights::new(1);
        let (first, second) = (begin(&mut flights, 1), begin(&mut flights, 2));
        assert!(flights.unchanged(&first) && !flights.unchanged(&second));
        assert_eq!(flights.join(&2, Joins::Any, 0, |_| true), None);
        flights.end(second);
        flights.end(first);
        assert_eq!(flights.keys(), 0);
    }
}
