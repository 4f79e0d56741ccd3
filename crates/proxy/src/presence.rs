//! The clients that are there, for all event loops: a call may be carried by one loop while its
//! client is another loop's.
//!
//! A client that has closed its side, or whose address and port a newer connection has, waits for
//! nothing any more that changes something: what it sent and nobody has read is not executed, and
//! what has not left for a server is dropped. It sends again what it still wants.

use crate::event::Asker;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Who is there.
pub(crate) struct Presence {
    /// Of every loop the generation that has a place now; none has 0.
    places: Box<[Box<[AtomicU32]>]>,
    /// How many went while a call of theirs was under way.
    departures: AtomicU64,
    /// Who has which pair of addresses.
    connections: Mutex<HashMap<Ends, Asker>>,
}

/// Both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    pub(crate) client: SocketAddr,
    pub(crate) local: SocketAddr,
}

impl Presence {
    /// Nobody is there yet.
    pub(crate) fn new(loops: usize, connections: usize) -> Self {
        let place = |_| AtomicU32::new(0);
        let places = (0..loops).map(|_| (0..connections).map(place).collect()).collect();
        Self { places, departures: AtomicU64::new(1), connections: Mutex::default() }
    }

    fn place(&self, asker: Asker) -> Option<&AtomicU32> {
        self.places.get(asker.event_loop as usize)?.get(asker.slot as usize)
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<Ends, Asker>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client came. An older connection between the same ends is over, whether or not its loop has heard of that.
    pub(crate) fn came(&self, asker: Asker, ends: Ends) {
        if let Some(place) = self.place(asker) {
            place.store(asker.generation, Ordering::Release);
        }
        let older = self.connections().insert(ends, asker);
        if let Some(older) = older {
            self.left(older);
        }
    }

    /// A client sends no more, while calls of its may be under way.
    pub(crate) fn left(&self, asker: Asker) {
        let place = self.place(asker);
        let was = |place: &AtomicU32| {
            place.compare_exchange(asker.generation, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        if place.is_some_and(was) {
            self.departures.fetch_add(1, Ordering::Release);
        }
    }

    /// A client's connection is over.
    pub(crate) fn ended(&self, asker: Asker, ends: Ends) {
        self.left(asker);
        let mut connections = self.connections();
        if connections.get(&ends) == Some(&asker) {
            connections.remove(&ends);
        }
    }

    /// Whether a client is there and may send more.
    pub(crate) fn here(&self, asker: Asker) -> bool {
        self.place(asker).is_none_or(|place| place.load(Ordering::Acquire) == asker.generation)
    }

    /// Another number whenever somebody went; never 0.
    pub(crate) fn departures(&self) -> u64 {
        self.departures.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(event_loop: u32, slot: u32, generation: u32) -> Asker {
        Asker { event_loop, slot, generation }
    }

    fn ends(port: u16) -> Ends {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Ends { client: at(port), local: at(2049) }
    }

    #[test]
    fn a_client_is_there_until_it_closes_ends_or_is_replaced() {
        let presence = Presence::new(2, 4);
        let (first, second, third) = (asker(0, 1, 1), asker(1, 1, 1), asker(0, 2, 2));
        presence.came(first, ends(700));
        presence.came(second, ends(701));
        assert!(presence.here(first) && presence.here(second));
        let before = presence.departures();
        presence.came(third, ends(700));
        assert!(!presence.here(first) && presence.here(second) && presence.here(third));
        assert_eq!(presence.departures(), before + 1);
        presence.ended(first, ends(700));
        assert!(presence.connections().contains_key(&ends(700)), "that is the newer one's");
        presence.left(second);
        presence.left(second);
        assert!(!presence.here(second));
        assert_eq!(presence.departures(), before + 2, "it went once");
        presence.ended(third, ends(700));
        presence.ended(second, ends(701));
        assert!(presence.connections().is_empty());
        presence.came(asker(0, 1, 3), ends(702));
        presence.left(first);
        assert!(presence.here(asker(0, 1, 3)), "the place has another one now");
    }
}
