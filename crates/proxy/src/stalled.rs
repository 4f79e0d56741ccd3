//! What does not move: clients that keep memory from others, and changes that wait.

use crate::clock::duration;
use crate::event::{Client, Loop};
use midas_core::time::Span;
use std::time::{Duration, Instant};

impl Loop {
    /// Ends clients that neither send the rest of a record nor take their answers: they keep memory from others.
    pub(crate) fn end_stalled(&mut self, now: Instant) {
        // One that is paused waits for us.
        let holds =
            |client: &Client| client.connection.unsent() > 0 || client.connection.reserved() > 0 && !client.paused;
        let record = self.shared.limits.record;
        // Scarce is what all share, or what the connections of its own address do.
        let scarce = |client: &Client| client.connection.left() < record;
        let patience = |client: &Client| if scarce(client) { STALL_SCARCE } else { STALL };
        let stalled = |client: &Client| now.saturating_duration_since(client.moved) > patience(client);
        let ends = |client: &Client| holds(client) && stalled(client);
        let slots: Vec<usize> = self.clients.iter().filter(|(_, client)| ends(client)).map(|(slot, _)| slot).collect();
        for slot in slots {
            self.end(slot);
        }
    }

    /// Reads nothing from a client until there is room for its calls.
    pub(crate) fn keep_back(&mut self, slot: usize) {
        if let Some(client) = self.clients.get_mut(slot) {
            client.unread_since.get_or_insert(self.now);
        }
        self.pause(slot);
    }

    /// Whether nothing was read from a client for longer than answers are kept: what it sent then,
    /// and again elsewhere since, would be executed a second time.
    pub(crate) fn too_late_to_read(&self, slot: usize) -> bool {
        let since = self.clients.get(slot).and_then(|client| client.unread_since);
        let kept = duration(self.shared.limits.answers_kept);
        since.is_some_and(|since| self.now.saturating_duration_since(since) >= kept)
    }

    /// How long the change has waited that waits longest for a server: here, or on the way to one.
    pub(crate) fn longest_change(&mut self) -> Span {
        let now = self.time;
        let aside = [&self.doubted, &self.turning, &self.finding].into_iter().flat_map(|calls| calls.iter());
        let here = self.held.iter().chain(aside.map(|(_, call)| call)).filter_map(|call| call.change_since());
        let here = here.map(|since| now.since(since)).max();
        let parked = self.parked.iter_mut().filter_map(|(_, call)| call.change_since());
        let parked = parked.map(|since| now.since(since)).max();
        let flights = self.links.iter().flat_map(|link| link.flights.all());
        let sent =
            flights.filter(|flight| flight.sent.meaning.op.mutates()).map(|flight| now.since(flight.since)).max();
        here.max(parked).max(sent).unwrap_or_default()
    }
}

/// Memory is not kept for a client that does nothing for so long, and not as long where others wait for it: it comes
/// back and asks again.
const STALL: Duration = Duration::from_secs(60);
const STALL_SCARCE: Duration = Duration::from_secs(2);
