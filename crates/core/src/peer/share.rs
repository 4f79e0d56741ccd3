//! The view of the other proxies' load: shares in, estimate out.
//!
//! Every proxy tells the others how many calls it has in flight at each server, as soon as that changes ([`crate::peer::Teller`]). While it
//! can keep up, silence means that nothing changed, and the sum of the last shares is the truth less a network delay. When calls come
//! faster than shares may be sent, a peer's load is a guess between two of its shares: it sees the same servers and runs the same policy, so
//! what this proxy sent since, the peer has probably sent too. Each own dispatch then counts once for every peer until that peer's
//! next share: without this, proxies herd.

use crate::id::ServerId;
use crate::load::Load;
use crate::servers::Servers;
use crate::telemetry::ewma::Ewma;
use crate::time::{Span, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What a proxy tells its peers: its calls in flight by server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Rises by one with each share of a proxy; an older one that arrives late is dropped.
    pub sequence: u64,
    /// Calls in flight by server, at most 65,535 each.
    pub in_flight: Box<[u16]>,
    /// How long the oldest change in it had to wait before it could be told.
    pub waited: Span,
}

impl Share {
    /// This proxy's own.
    pub fn of(sequence: u64, servers: &Servers, waited: Span) -> Self {
        let count = |server| servers.in_flight(server).min(u32::from(u16::MAX)) as u16;
        Self { sequence, in_flight: servers.ids().map(count).collect(), waited }
    }
}

/// The shares of all peers, and the estimate that follows.
#[derive(Debug)]
pub struct Shares {
    peers: Vec<Peer>,
    totals: Box<[Total]>,
    age: Ewma,
    /// The peer that is looked at next for silence.
    cursor: usize,
}

#[derive(Clone, Debug)]
struct Peer {
    sequence: u64,
    heard: Option<Time>,
    in_flight: Box<[u16]>,
    /// Own dispatches by server when its last share came.
    own: Box<[u32]>,
}

/// Sums over peers, so that a share costs O(servers), not O(servers x peers).
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    in_flight: u32,
    /// Wraps, like the counters it adds up.
    own: u32,
}

impl Shares {
    /// That many peers, none heard yet.
    pub fn new(peers: usize, servers: usize) -> Self {
        let peer = Peer {
            sequence: 0,
            heard: None,
            in_flight: alloc::vec![0; servers].into_boxed_slice(),
            own: alloc::vec![0; servers].into_boxed_slice(),
        };
        Self {
            peers: alloc::vec![peer; peers],
            totals: alloc::vec![Total::default(); servers].into_boxed_slice(),
            age: Ewma::new(0.02),
            cursor: 0,
        }
    }

    /// Takes a share in; `lag` is how old it was when it arrived. False if it is older than one already seen, or not ours.
    pub fn receive(&mut self, now: Time, from: usize, share: &Share, lag: Span, servers: &Servers) -> bool {
        let Some(peer) = self.peers.get_mut(from) else { return false };
        let fits = share.in_flight.len() == self.totals.len() && servers.len() == self.totals.len();
        if !fits || (peer.heard.is_some() && share.sequence <= peer.sequence) {
            return false;
        }
        for (i, total) in self.totals.iter_mut().enumerate() {
            let own = servers.dispatched(ServerId(i as u16));
            total.in_flight = total.in_flight + u32::from(share.in_flight[i]) - u32::from(peer.in_flight[i]);
            total.own = total.own.wrapping_add(own).wrapping_sub(peer.own[i]);
            peer.in_flight[i] = share.in_flight[i];
            peer.own[i] = own;
        }
        peer.sequence = share.sequence;
        peer.heard = Some(now);
        self.age.update((lag + share.waited).as_secs_f64());
        self.quieten_next(now, servers);
        true
    }

    /// Forgets a peer that left or fell silent.
    pub fn forget(&mut self, from: usize, servers: &Servers) {
        let Some(peer) = self.peers.get_mut(from) else { return };
        for (i, total) in self.totals.iter_mut().enumerate() {
            let own = servers.dispatched(ServerId(i as u16));
            total.in_flight -= u32::from(core::mem::take(&mut peer.in_flight[i]));
            total.own = total.own.wrapping_add(own).wrapping_sub(core::mem::replace(&mut peer.own[i], own));
        }
        peer.heard = None;
    }

    /// A peer that has been silent for much longer than shares take has nothing to tell: it does not do as this proxy does, and its echoes are
    /// dropped. One peer is looked at with each share that comes, so all of them soon.
    fn quieten_next(&mut self, now: Time, servers: &Servers) {
        self.cursor = (self.cursor + 1) % self.peers.len();
        let silent = self.age() * SILENT_AGES;
        let peer = &mut self.peers[self.cursor];
        if peer.heard.is_none_or(|heard| now.since(heard) > silent) {
            for (i, (total, own)) in self.totals.iter_mut().zip(&mut peer.own).enumerate() {
                let dispatched = servers.dispatched(ServerId(i as u16));
                total.own = total.own.wrapping_add(dispatched).wrapping_sub(core::mem::replace(own, dispatched));
            }
        }
    }

    /// How many peers were ever heard and not forgotten.
    fn known(&self) -> usize {
        self.peers.iter().filter(|peer| peer.heard.is_some()).count()
    }

    /// How long a change at a peer takes to be known here, on average.
    pub fn age(&self) -> Span {
        Span::from_secs_f64(self.age.value().unwrap_or(0.0))
    }

    /// The estimate: what peers said, plus what they have probably sent since, if they cannot keep up.
    pub fn estimate(&self, server: ServerId, servers: &Servers) -> Load {
        let total = self.totals[server.index()];
        let said = Load::calls(total.in_flight);
        if !servers.shares_are_old() {
            return said;
        }
        let echoes = (self.peers.len() as u32).wrapping_mul(servers.dispatched(server)).wrapping_sub(total.own);
        said + Load::calls(echoes)
    }

    /// Publishes the estimate for decisions to read.
    pub fn publish(&self, servers: &Servers) {
        servers.publish_share_age(self.age(), self.known() as u32 + 1);
        for server in servers.ids() {
            servers.publish_peers(server, self.estimate(server, servers));
        }
    }
}

/// A peer is silent if it said nothing for so many times the age of a share.
const SILENT_AGES: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::placement::Placement;
    use crate::route::ring::Member;

    fn pool() -> Servers {
        let members: Vec<Member> = (0..3).map(|identity| Member { identity, weight: 1.0 }).collect();
        let servers = Servers::new(&members, Placement::Ring);
        servers.publish_service_median(Span::from_millis(10));
        servers
    }

    fn share(sequence: u64, in_flight: [u16; 3], waited: Span) -> Share {
        Share { sequence, in_flight: Box::new(in_flight), waited }
    }

    #[test]
    fn the_view_of_a_server_is_own_plus_shares() {
        let (servers, mut shares, now) = (pool(), Shares::new(2, 3), Time::from_nanos(1));
        servers.dispatch(now, ServerId(0));
        assert!(shares.receive(now, 0, &share(1, [1, 2, 0], Span::ZERO), Span::ZERO, &servers));
        assert!(shares.receive(now, 1, &share(1, [0, 5, 0], Span::ZERO), Span::ZERO, &servers));
        assert!(shares.receive(now, 0, &share(2, [3, 1, 0], Span::ZERO), Span::ZERO, &servers));
        shares.publish(&servers);
        let loads = [0, 1, 2].map(|i| servers.load(ServerId(i)).as_f64());
        assert_eq!(loads, [4.0, 6.0, 0.0]);
        shares.forget(1, &servers);
        shares.publish(&servers);
        assert_eq!(servers.load(ServerId(1)).as_f64(), 1.0);
    }

    #[test]
    fn late_foreign_and_misshapen_shares_are_refused() {
        let (servers, mut shares, now) = (pool(), Shares::new(1, 3), Time::from_nanos(1));
        assert!(shares.receive(now, 0, &share(7, [1, 1, 1], Span::ZERO), Span::ZERO, &servers));
        assert!(!shares.receive(now, 0, &share(7, [9, 9, 9], Span::ZERO), Span::ZERO, &servers), "again");
        assert!(!shares.receive(now, 0, &share(6, [9, 9, 9], Span::ZERO), Span::ZERO, &servers), "late");
        assert!(!shares.receive(now, 1, &share(8, [9, 9, 9], Span::ZERO), Span::ZERO, &servers), "a stranger");
        let short = Share { sequence: 9, in_flight: Box::new([1]), waited: Span::ZERO };
        assert!(!shares.receive(now, 0, &short, Span::ZERO, &servers), "another pool");
    }

    #[test]
    fn what_i_sent_since_a_tired_peer_spoke_it_has_probably_sent_too() {
        let (servers, mut shares, now) = (pool(), Shares::new(4, 3), Time::from_nanos(1));
        let tired = Span::from_millis(50);
        (0..4).for_each(|peer| assert!(shares.receive(now, peer, &share(1, [0; 3], tired), Span::ZERO, &servers)));
        shares.publish(&servers);
        servers.dispatch(now, ServerId(2));
        assert_eq!(servers.load(ServerId(2)).as_f64(), 5.0, "own and four echoes");
        assert!(shares.receive(now, 0, &share(2, [0, 0, 1], tired), Span::ZERO, &servers));
        shares.publish(&servers);
        assert_eq!(servers.load(ServerId(2)).as_f64(), 5.0, "own, one told, three echoes");
    }
}
