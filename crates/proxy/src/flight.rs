//! Calls that are under way on one link, by the xid that we gave them.
//!
//! A reply finds its call without a map: the low bits of the xid are a place, the high bits tell who has it now, so that a
//! late reply to a call that was given up is recognised and dropped. Places are used in turn and begin with a random
//! generation: a server that remembers answers by xid must not take a new call for an old one. Places keep their buffers: a
//! call that is forwarded allocates nothing once the proxy has warmed up.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

/// Places for calls under way.
#[derive(Debug)]
pub(crate) struct Flights<T> {
    places: Vec<Place<T>>,
    free: VecDeque<u32>,
    count: usize,
    first: u32,
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    what: Option<T>,
    record: Vec<u8>,
}

impl<T> Flights<T> {
    pub(crate) fn new() -> Self {
        let first = RandomState::new().hash_one(0_u8) as u32 & GENERATION_MASK;
        Self { places: Vec::new(), free: VecDeque::new(), count: 0, first }
    }

    /// Takes a call with its record, whose first word becomes the new xid. There must be a place: see [`Flights::full`].
    pub(crate) fn insert(&mut self, what: T, record: &[u8]) -> u32 {
        assert!(!self.full(), "the owner looks before it inserts");
        let used = if self.places.len() >= PLACES_LEAST { self.free.pop_front() } else { None };
        let index = used.unwrap_or_else(|| {
            self.places.push(Place { generation: self.first, what: None, record: Vec::new() });
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[index as usize];
        let xid = place.generation << PLACE_BITS | index;
        place.record.clear();
        place.record.extend_from_slice(&xid.to_be_bytes());
        place.record.extend_from_slice(record.get(4..).unwrap_or_default());
        place.what = Some(what);
        self.count += 1;
        xid
    }

    /// Whether every place is taken.
    pub(crate) const fn full(&self) -> bool {
        self.count >= PLACES_MOST
    }

    /// The call of this xid, with its record as it was sent.
    pub(crate) fn get_mut(&mut self, xid: u32) -> Option<(&mut T, &[u8])> {
        let place = self.places.get_mut((xid & PLACE_MASK) as usize)?;
        let what = place.what.as_mut().filter(|_| place.generation == xid >> PLACE_BITS)?;
        Some((what, &place.record))
    }

    /// Ends the call of this xid; none if it was given up or never was.
    pub(crate) fn remove(&mut self, xid: u32) -> Option<T> {
        self.take(xid, |record| {
            // One large WRITE must not keep its memory in a free place.
            if record.capacity() > RECORD_KEPT {
                *record = Vec::new();
            }
        })
        .map(|(what, ())| what)
    }

    /// Ends the call of this xid and gives its record back.
    pub(crate) fn remove_with(&mut self, xid: u32) -> Option<(T, Vec<u8>)> {
        self.take(xid, std::mem::take)
    }

    fn take<R>(&mut self, xid: u32, record: impl FnOnce(&mut Vec<u8>) -> R) -> Option<(T, R)> {
        let index = xid & PLACE_MASK;
        let place = self.places.get_mut(index as usize)?;
        if place.generation != xid >> PLACE_BITS {
            return None;
        }
        let what = place.what.take()?;
        place.generation = (place.generation + 1) & GENERATION_MASK;
        self.free.push_back(index);
        self.count -= 1;
        Some((what, record(&mut place.record)))
    }

    /// The xids of all calls under way.
    pub(crate) fn xids(&self) -> impl Iterator<Item = u32> + '_ {
        let taken = |(index, place): (usize, &Place<T>)| {
            place.what.as_ref().map(|_| place.generation << PLACE_BITS | index as u32)
        };
        self.places.iter().enumerate().filter_map(taken)
    }

    pub(crate) const fn len(&self) -> usize {
        self.count
    }
}

/// Calls under way on one link.
const PLACE_BITS: u32 = 16;
const PLACE_MASK: u32 = (1 << PLACE_BITS) - 1;
const PLACES_MOST: usize = 1 << PLACE_BITS;
/// As many places are used in turn even if few would do: an xid comes again after 67 million calls at the earliest.
const PLACES_LEAST: usize = 1024;
const GENERATION_MASK: u32 = u32::MAX >> PLACE_BITS;
/// What a free place keeps of its buffer.
const RECORD_KEPT: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xids_do_not_come_again_soon_however_few_calls_are_under_way() {
        let mut flights = Flights::new();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..100_000 {
            let xid = flights.insert((), b"xid0");
            assert!(seen.insert(xid));
            flights.remove(xid);
        }
        assert_eq!(flights.places.len(), PLACES_LEAST);
    }

    #[test]
    fn a_reply_finds_its_call_and_a_late_one_finds_nothing() {
        let mut flights = Flights::new();
        let first = flights.insert('a', b"xid1 call");
        let second = flights.insert('b', b"xid2 call");
        assert_eq!(flights.get_mut(first).unwrap().1, [&first.to_be_bytes()[..], b" call"].concat());
        assert_eq!(flights.remove(first), Some('a'));
        assert_eq!(flights.remove(first), None);
        let third = flights.insert('c', b"xid3");
        assert_ne!(third, first);
        assert_eq!(flights.remove(first), None, "its place has another call now");
        assert_eq!(flights.xids().collect::<Vec<_>>().len(), 2);
        assert_eq!((flights.remove(second), flights.remove(third), flights.len()), (Some('b'), Some('c'), 0));
    }
}
