//! Reads on their way, and who may share one.
//!
//! Of the flights of one call only the youngest is joined: it left last, so it can be joined for longest. Memory is bounded
//! by the calls in flight, and by `keys_max`: what is beyond is not joined.

use super::changes::Left;
use super::hash::Fixed;
use super::mode::Joins;
use super::{Class, Entry};
use core::hash::Hash;
use hashbrown::HashMap;

/// One read on its way to a server; what joined readers wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlightId(pub u64);

/// The ticket of a read that must be fetched. Not `Clone`: it is consumed by `filled` or `failed`, exactly once.
#[derive(Debug)]
#[must_use = "a ticket must be settled, or its flight stays joinable for ever"]
pub struct Fetch<K> {
    key: K,
    class: Class,
    left: Left,
    flight: FlightId,
}

impl<K: Copy> Fetch<K> {
    /// The flight that other readers may join.
    pub fn flight(&self) -> FlightId {
        self.flight
    }

    /// When the read began; what it brings was true then or later.
    pub fn left(&self) -> Left {
        self.left
    }
}

/// The youngest flight of each call.
#[derive(Debug)]
pub(super) struct Flights<K> {
    open: HashMap<K, Newest, Fixed>,
    next: u64,
    keys_max: usize,
}

#[derive(Debug)]
struct Newest {
    flight: FlightId,
    left: Left,
    sent: bool,
}

impl<K: Copy + Eq + Hash> Flights<K> {
    pub(super) fn new(keys_max: usize, spread: Fixed) -> Self {
        Self { open: HashMap::with_hasher(spread), next: 0, keys_max }
    }

    /// A flight that this read may join. `fills`: whether a flight that left then could still fill.
    pub(super) fn join(&self, key: &K, joins: Joins, fills: impl FnOnce(Left) -> bool) -> Option<FlightId> {
        let newest = self.open.get(key)?;
        let may = match joins {
            Joins::Waiting => !newest.sent,
            Joins::Fillable => !newest.sent || fills(newest.left),
            Joins::Any => true,
        };
        may.then_some(newest.flight)
    }

    /// A new flight; the one to join from now on.
    pub(super) fn begin(&mut self, left: Left, key: K, class: Class) -> Fetch<K> {
        let flight = FlightId(self.next);
        self.next += 1;
        if self.open.len() < self.keys_max || self.open.contains_key(&key) {
            self.open.insert(key, Newest { flight, left, sent: false });
        }
        Fetch { key, class, left, flight }
    }

    /// The flight's call left for the server.
    pub(super) fn sent(&mut self, fetch: &Fetch<K>) {
        match self.open.get_mut(&fetch.key) {
            Some(newest) if newest.flight == fetch.flight => newest.sent = true,
            Some(_) | None => {}
        }
    }

    /// The flight is over.
    pub(super) fn end(&mut self, Fetch { key, class, left, flight }: Fetch<K>) -> (Entry<K>, Left) {
        if self.open.get(&key).is_some_and(|newest| newest.flight == flight) {
            self.open.remove(&key);
        }
        (Entry::own(key, class), left)
    }

    /// Calls with a flight out.
    pub(super) fn keys(&self) -> usize {
        self.open.len()
    }
}

/// At most this many calls are known in flight.
pub(super) const FLIGHT_KEYS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Clock;
    use crate::time::Time;

    fn begin(flights: &mut Flights<u8>, key: u8) -> Fetch<u8> {
        flights.begin(Clock::default().left(Time::ZERO), key, Class(0))
    }

    #[test]
    fn a_flight_is_joined_by_the_mode_and_only_until_it_lands() {
        use Joins::{Any, Fillable, Waiting};
        // (sent, could still fill), then who joins: waiting, fillable, any
        let cases = [
            (false, true, [true, true, true]),
            (false, false, [true, true, true]),
            (true, true, [false, true, true]),
            (true, false, [false, false, true]),
        ];
        for (sent, fills, want) in cases {
            let mut flights = Flights::new(8, Fixed::default());
            let fetch = begin(&mut flights, 1);
            if sent {
                flights.sent(&fetch);
            }
            let join = |f: &Flights<u8>, joins| f.join(&1, joins, |_| fills).is_some();
            assert_eq!([Waiting, Fillable, Any].map(|joins| join(&flights, joins)), want);
            flights.end(fetch);
            assert!(!join(&flights, Any) && flights.keys() == 0);
        }
    }

    #[test]
    fn only_the_youngest_flight_of_a_call_is_joined_and_none_once_that_has_landed() {
        let mut flights = Flights::new(8, Fixed::default());
        let (old, young) = (begin(&mut flights, 1), begin(&mut flights, 1));
        assert_eq!(flights.join(&1, Joins::Any, |_| true), Some(young.flight()));
        flights.end(young);
        assert_eq!(flights.join(&1, Joins::Any, |_| true), None);
        flights.end(old);
        assert_eq!(flights.keys(), 0);
    }

    #[test]
    fn beyond_the_bound_a_flight_is_not_joined() {
        let mut flights = Flights::new(1, Fixed::default());
        let (first, second) = (begin(&mut flights, 1), begin(&mut flights, 2));
        assert_eq!(flights.join(&2, Joins::Any, |_| true), None);
        flights.end(second);
        flights.end(first);
        assert_eq!(flights.keys(), 0);
    }
}
