//! Reads that a proxy asks another for instead of a server. Anybody is asked, in the view or not, and told again, late or twice: the rule is the lender's, who
//! answers as it answers its own clients, and only while it holds leases.

use super::World;
use super::event::Event;
use super::node::{Reader, Waiting};
use super::truth::{Key, Seen};
use midas_core::peer::lease::Life;

impl World {
    /// Another proxy to be asked for a read, for some of them.
    pub(super) fn lender(&mut self, node: usize) -> Option<Life> {
        let share = self.plan.fetched;
        if share == 0.0 || !self.rng.chance(share) {
            return None;
        }
        let others = self.nodes.len() - 1;
        let peer = (node + 1 + self.rng.below(others)) % self.nodes.len();
        Some(self.nodes[peer].life)
    }

    pub(super) fn fetch(&mut self, node: usize, peer: Life, flight: u64, key: Key) {
        let from = self.nodes[node].life;
        self.note(|| format!("{node} asks {} for {key:?}", peer.member.0));
        self.nodes[node].desk.fetches.insert(flight, key);
        self.carry(node, peer, || Event::Fetch { to: peer, from, flight, key });
        let patience = self.plan.delay * PATIENCE;
        self.queue.push(self.now + patience, Event::Silent { to: from, flight });
    }

    /// A proxy is asked by another.
    pub(super) fn fetch_asked(&mut self, to: Life, from: Life, flight: u64, key: Key) {
        let Some(node) = self.living(to) else { return };
        let covered = self.nodes[node].leased(self.local(node)) || !self.laws.lender;
        let waiting = Waiting { reader: Reader::Peer(from, flight), asked: self.now, covered };
        match covered {
            true => self.read(node, waiting, key),
            false => self.lend(node, (from, flight), None),
        }
        self.pump(node);
    }

    pub(super) fn lend(&mut self, node: usize, (to, flight): (Life, u64), seen: Option<Seen>) {
        self.carry(node, to, || Event::Fetched { to, flight, seen });
    }

    /// A peer answered, or will not; without an answer a server is asked.
    pub(super) fn fetched(&mut self, to: Life, flight: u64, seen: Option<Seen>) {
        let Some(node) = self.living(to) else { return };
        let Some(key) = self.nodes[node].desk.fetches.remove(&flight) else { return };
        self.note(|| format!("{node} fetched {key:?}: {seen:?}"));
        match seen {
            Some(seen) => {
                self.checks.fetched += 1;
                self.landed(node, flight, seen);
            }
            None => self.ask_server(node, flight, key),
        }
        self.pump(node);
    }
}

/// Delays that a peer is waited for.
const PATIENCE: u64 = 12;
