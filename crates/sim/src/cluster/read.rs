//! Reads at a proxy: answered from its cache, joined, or fetched; and where calls go.

use super::World;
use super::check::Answered;
use super::event::{Brought, Event, Request};
use super::node::{Flight, Node, Purpose, Reader, Waiting};
use super::servers::Wants;
use super::truth::{Action, Key, Seen};
use midas_core::cache::{Class, Facts, FlightId};
use midas_core::peer::lease::{Life, Rule};
use midas_core::time::Span;

impl World {
    /// A client's call arrives.
    pub(super) fn request(&mut self, node: usize, request: Request) {
        match request.action {
            Action::Read(key) => {
                let covered = self.nodes[node].leased(self.local(node));
                let waiting = Waiting { reader: Reader::Client(request), asked: self.now, covered };
                self.read(node, waiting, key);
            }
            Action::Set(_) | Action::Bump(_) | Action::Make(..) | Action::Remove(_) | Action::Rename(..) => {
                self.mutate(node, request);
            }
        }
        self.pump(node);
    }

    pub(super) fn read(&mut self, node: usize, waiting: Waiting, key: Key) {
        let local = self.local(node);
        let covered = waiting.covered;
        let Node { cache, desk, .. } = &mut self.nodes[node];
        let hit = if covered { cache.get(local, &key).map(|hit| *hit.value) } else { None };
        if let Some(seen) = hit {
            return self.answer_read(node, key, seen, waiting, true);
        }
        let joined = if covered { cache.join(local, &key, &[key]) } else { None };
        if let Some(flight) = joined.and_then(|FlightId(id)| desk.flights.get_mut(&id)) {
            flight.waiting.push(waiting);
            return;
        }
        let peer = match waiting.reader {
            Reader::Client(_) if covered => self.lender(node),
            Reader::Client(_) | Reader::Peer(..) => None,
        };
        let Node { cache, desk, .. } = &mut self.nodes[node];
        let fetch = cache.begin(local, key, Class(0));
        cache.sent(&fetch);
        let FlightId(flight) = fetch.flight();
        desk.flights.insert(flight, Flight { fetch, key, waiting: vec![waiting] });
        match peer {
            Some(peer) => self.fetch(node, peer, flight, key),
            None => self.ask_server(node, flight, key),
        }
    }

    pub(super) fn ask_server(&mut self, node: usize, flight: u64, key: Key) {
        if let Some(server) = self.server_for(node, &[key]) {
            let call = self.call(node, server, Wants::Read(vec![key]));
            self.nodes[node].desk.calls.insert(call, Purpose::Read(flight));
            return;
        }
        let later = self.now + self.plan.delay * 4;
        for waiting in self.forget(node, flight) {
            match waiting.reader {
                Reader::Client(request) => self.queue.push(later, Event::Request { node, request }),
                Reader::Peer(peer, flight) => self.lend(node, (peer, flight), None),
            }
        }
    }

    /// Ends a flight that brings nothing; who waited for it.
    fn forget(&mut self, node: usize, flight: u64) -> Vec<Waiting> {
        let Node { cache, desk, .. } = &mut self.nodes[node];
        let Some(Flight { fetch, waiting, .. }) = desk.flights.remove(&flight) else { return Vec::new() };
        cache.landed(fetch);
        waiting
    }

    /// Where a call about these goes; none while two servers know something that the other does not.
    pub(super) fn server_for(&mut self, node: usize, keys: &[Key]) -> Option<u16> {
        let mut pinned: Vec<u16> = keys.iter().flat_map(|key| self.pinned(node, *key)).collect();
        pinned.sort_unstable();
        pinned.dedup();
        match pinned[..] {
            [] => Some(self.home(keys[0])),
            [server] => Some(server),
            [_, _, ..] => None,
        }
    }

    /// Servers that know this key's newest state for sure; none if all do.
    pub(super) fn pinned(&self, node: usize, key: Key) -> Vec<u16> {
        match self.plan.stale > Span::ZERO && self.laws.lease.has(Rule::Fence) {
            true => self.nodes[node].pinned(self.local(node), key),
            false => Vec::new(),
        }
    }

    /// Where calls about this go if nothing else is known: mostly the same for all proxies, as with a ring.
    fn home(&mut self, key: Key) -> u16 {
        let servers = self.plan.servers;
        let (Key::Name(number) | Key::Object(number)) = key;
        match self.now < self.plan.calm && self.rng.chance(STRAY) {
            true => self.rng.below(usize::from(servers)) as u16,
            false => u16::from(number) % servers,
        }
    }

    /// A server's answer arrives.
    pub(super) fn reply(&mut self, to: Life, call: u64, brought: &Brought) {
        let Some(node) = self.living(to) else { return };
        let Some(purpose) = self.nodes[node].desk.calls.remove(&call) else { return };
        self.note(|| format!("{node} has the reply of {call}: {brought:?}"));
        match (purpose, brought) {
            (Purpose::Read(flight), Brought::Seen(seen)) => self.landed(node, flight, seen[0]),
            (Purpose::Lookup(operation), Brought::Seen(seen)) => self.looked_up(node, operation, seen),
            (Purpose::Look(operation, id, since), Brought::Shown(shown)) => {
                self.found_out(node, operation, (id, since), *shown);
            }
            (Purpose::Mutation(operation), _) => self.done(node, operation),
            (Purpose::Held(object, operation, client), _) => self.done_held(node, object, operation, client),
            (Purpose::Read(_) | Purpose::Lookup(_) | Purpose::Look(..), _) => unreachable!("reads bring what they saw"),
        }
        self.pump(node);
    }

    /// The connection of a call broke.
    pub(super) fn broke(&mut self, to: Life, call: u64) {
        let Some(node) = self.living(to) else { return };
        let Some(purpose) = self.nodes[node].desk.calls.remove(&call) else { return };
        match purpose {
            Purpose::Read(flight) => {
                // Who waits asks again by itself.
                drop(self.forget(node, flight));
            }
            Purpose::Lookup(operation) | Purpose::Look(operation, ..) => self.set_aside(node, operation),
            Purpose::Mutation(operation) => self.broken(node, operation),
            Purpose::Held(object, ..) => self.lost_held(node, object),
        }
        self.pump(node);
    }

    pub(super) fn landed(&mut self, node: usize, flight: u64, seen: Seen) {
        let local = self.local(node);
        let leased = self.nodes[node].leased(local);
        let Node { cache, desk, .. } = &mut self.nodes[node];
        let Some(Flight { fetch, key, waiting }) = desk.flights.remove(&flight) else { return };
        let (entry, left) = cache.landed(fetch);
        if leased {
            cache.offer(local, left, entry, seen, Facts { cost: 1, ..Facts::default() });
        }
        for reader in waiting {
            self.answer_read(node, key, seen, reader, false);
        }
    }

    fn answer_read(&mut self, node: usize, key: Key, seen: Seen, reader: Waiting, hit: bool) {
        let Waiting { reader, asked, covered } = reader;
        let request = match reader {
            Reader::Client(request) => request,
            Reader::Peer(peer, flight) => return self.lend(node, (peer, flight), Some(seen)),
        };
        let slack = if covered { Span::ZERO } else { self.plan.stale };
        self.checks.read(self.now, &self.truth, Answered { node, key, seen, asked, slack, hit });
        self.answer(request.client, request.operation);
    }

    pub(super) fn answer(&mut self, client: usize, operation: u64) {
        let arrives = self.now + self.plan.delay.scale(self.rng.exponential());
        self.queue.push(arrives, Event::Answer { client, operation });
    }
}

/// Calls that go elsewhere though nothing is wrong at home.
const STRAY: f64 = 0.2;
