//! Calls that are under way on one link, by the xid that we gave them.
//!
//! A reply finds its call without a map: xids are given in turn, and the low bits of one are its place in a ring that says where
//! the call is kept. An xid comes again after four thousand million calls, and begins at a random one: a server that remembers answers
//! by xid must not take a new call for an old one, and a late reply to a call that was given up finds nothing. Calls are kept where the last
//! ones were, with their buffers: what is forwarded allocates nothing once the proxy has warmed up, and touches memory that is warm.

use std::hash::{BuildHasher, RandomState};

/// Calls under way.
#[derive(Debug)]
pub(crate) struct Flights<T> {
    ring: Vec<Entry>,
    places: Vec<Place<T>>,
    free: Vec<u32>,
    count: usize,
    next: u32,
}

/// Who has this place in the ring.
#[derive(Clone, Copy, Debug)]
struct Entry {
    xid: u32,
    place: u32,
}

#[derive(Debug)]
struct Place<T> {
    what: Option<T>,
    record: Vec<u8>,
}

impl<T> Flights<T> {
    pub(crate) fn new() -> Self {
        let next = RandomState::new().hash_one(0_u8) as u32;
        Self { ring: vec![Entry::FREE; RING_LEAST], places: Vec::new(), free: Vec::new(), count: 0, next }
    }

    /// Takes a call with its record, whose first word becomes the new xid. There must be a place: see [`Flights::full`].
    /// The call is made where it is kept, and ended there, as it is large.
    #[inline]
    pub(crate) fn insert(&mut self, make: impl FnOnce() -> T, record: &[u8]) -> u32 {
        assert!(!self.full(), "the owner looks before it inserts");
        if self.count * 2 >= self.ring.len() {
            self.widen();
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { what: None, record: Vec::new() });
            self.places.len() as u32 - 1
        });
        let xid = self.next_xid();
        let at = self.at(xid);
        self.ring[at] = Entry { xid, place };
        let place = &mut self.places[place as usize];
        place.record.clear();
        place.record.reserve(record.len());
        place.record.extend_from_slice(&xid.to_be_bytes());
        place.record.extend_from_slice(record.get(4..).unwrap_or_default());
        debug_assert!(place.what.is_none(), "a free place holds no call");
        // Not one call's record with another call's client, whatever happened.
        place.what = None;
        place.what.get_or_insert_with(make);
        self.count += 1;
        xid
    }

    /// The next xid whose place in the ring is free: at least half of them are.
    fn next_xid(&mut self) -> u32 {
        loop {
            let xid = self.next;
            self.next = self.next.wrapping_add(1);
            if self.ring[self.at(xid)].place == FREE {
                return xid;
            }
        }
    }

    /// Xids with different places in a ring have different ones in a wider ring.
    fn widen(&mut self) {
        let wider = vec![Entry::FREE; self.ring.len() * 2];
        for entry in std::mem::replace(&mut self.ring, wider).into_iter().filter(|entry| entry.place != FREE) {
            let at = self.at(entry.xid);
            self.ring[at] = entry;
        }
    }

    fn at(&self, xid: u32) -> usize {
        xid as usize & (self.ring.len() - 1)
    }

    fn find(&self, xid: u32) -> Option<usize> {
        let entry = self.ring[self.at(xid)];
        (entry.xid == xid && entry.place != FREE).then_some(entry.place as usize)
    }

    /// Whether every place is taken.
    pub(crate) const fn full(&self) -> bool {
        self.count >= CALLS_MOST
    }

    /// The call of this xid, with its record as it was sent.
    pub(crate) fn get_mut(&mut self, xid: u32) -> Option<(&mut T, &[u8])> {
        let place = self.find(xid)?;
        let Place { what, record } = &mut self.places[place];
        Some((what.as_mut()?, record))
    }

    /// Ends the call of this xid, and looks at its record once more; none if it was given up or never was.
    pub(crate) fn end<R>(&mut self, xid: u32, then: impl FnOnce(&mut T, &[u8]) -> R) -> Option<R> {
        let place = self.release(xid)?;
        let ended = place.what.as_mut().map(|what| then(what, &place.record));
        place.what = None;
        place.shrink();
        ended
    }

    /// Ends the call of this xid and gives its record back.
    pub(crate) fn remove_with(&mut self, xid: u32) -> Option<(T, Vec<u8>)> {
        let place = self.release(xid)?;
        Some((place.what.take()?, std::mem::take(&mut place.record)))
    }

    fn release(&mut self, xid: u32) -> Option<&mut Place<T>> {
        let place = self.find(xid)?;
        let at = self.at(xid);
        self.ring[at] = Entry::FREE;
        self.free.push(place as u32);
        self.count -= 1;
        self.places.get_mut(place)
    }

    /// The xids of all calls under way.
    pub(crate) fn xids(&self) -> impl Iterator<Item = u32> + '_ {
        self.ring.iter().filter(|entry| entry.place != FREE).map(|entry| entry.xid)
    }

    /// All calls under way.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| place.what.as_ref())
    }

    pub(crate) const fn len(&self) -> usize {
        self.count
    }
}

impl<T> Place<T> {
    /// One large WRITE must not keep its memory in a free place.
    fn shrink(&mut self) {
        if self.record.capacity() > RECORD_KEPT {
            self.record = Vec::new();
        }
    }
}

impl Entry {
    const FREE: Self = Self { xid: 0, place: FREE };
}

/// No place.
const FREE: u32 = u32::MAX;
/// Calls under way on one link.
const CALLS_MOST: usize = 1 << 16;
/// The ring of a link with few calls; a power of two.
const RING_LEAST: usize = 1024;
/// What a free place keeps of its buffer.
const RECORD_KEPT: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::rc::Rc;

    fn ended<T: Copy>(flights: &mut Flights<T>, xid: u32) -> Option<T> {
        flights.end(xid, |what, _| *what)
    }

    #[test]
    fn xids_do_not_come_again_soon_however_few_calls_are_under_way() {
        let mut flights = Flights::new();
        let mut seen = HashSet::new();
        for _ in 0..100_000 {
            let xid = flights.insert(|| (), b"xid0");
            assert!(seen.insert(xid));
            ended(&mut flights, xid);
        }
        assert_eq!((flights.places.len(), flights.ring.len()), (1, RING_LEAST));
    }

    #[test]
    fn a_call_that_stays_keeps_its_xid_while_others_pass_and_the_ring_grows() {
        let mut flights = Flights::new();
        flights.next = u32::MAX - 700;
        let stays = flights.insert(|| 0, b"xid0 stays");
        let mut others = Vec::new();
        for number in 1..CALLS_MOST {
            others.push((flights.insert(|| number, b"xid0"), number));
            if number % 3 == 0 {
                let (xid, number) = others.swap_remove(number % others.len());
                assert_eq!(ended(&mut flights, xid), Some(number));
            }
        }
        while !flights.full() {
            others.push((flights.insert(|| 7, b"xid0"), 7));
        }
        assert_eq!(flights.xids().collect::<HashSet<_>>().len(), CALLS_MOST);
        assert_eq!(flights.get_mut(stays).map(|(_, record)| record[4..].to_vec()), Some(b" stays".to_vec()));
        for (xid, number) in others {
            assert_eq!(ended(&mut flights, xid), Some(number));
        }
        assert_eq!((flights.remove_with(stays).map(|(what, _)| what), flights.len()), (Some(0), 0));
    }

    #[test]
    fn a_call_is_let_go_of_once_and_its_place_holds_the_next_one() {
        let mut flights = Flights::new();
        let call = Rc::new(());
        let first = flights.insert(|| Rc::clone(&call), b"xid1");
        assert_eq!(flights.end(first, |what, _| Rc::strong_count(what)), Some(2));
        assert_eq!(Rc::strong_count(&call), 1, "it is gone with its end");
        let second = flights.insert(|| Rc::clone(&call), b"xid2");
        let (taken, record) = flights.remove_with(second).unwrap();
        assert_eq!((Rc::strong_count(&call), &record[4..]), (2, &b""[..]), "whoever takes it has it");
        drop(taken);
        assert_eq!((Rc::strong_count(&call), flights.places.len()), (1, 1));
    }

    #[test]
    fn a_reply_finds_its_call_and_a_late_one_finds_nothing() {
        let mut flights = Flights::new();
        let first = flights.insert(|| 'a', b"xid1 call");
        let second = flights.insert(|| 'b', b"xid2 call");
        assert_eq!(flights.get_mut(first).unwrap().1, [&first.to_be_bytes()[..], b" call"].concat());
        assert_eq!(ended(&mut flights, first), Some('a'));
        assert_eq!(ended(&mut flights, first), None);
        let third = flights.insert(|| 'c', b"xid3");
        assert_ne!(third, first);
        assert_eq!(ended(&mut flights, first), None, "its place has another call now");
        assert_eq!(flights.xids().collect::<Vec<_>>().len(), 2);
        assert_eq!((ended(&mut flights, second), ended(&mut flights, third), flights.len()), (Some('b'), Some('c'), 0));
    }
}
