//! The view of the other proxies' load: shares in, estimate out.
//!
//! Every proxy tells the others how many calls it has in flight at each server. Between two shares of a peer its load is a guess: it sees
//! the same servers and runs the same policy, so what this proxy sent since that peer's last share, the peer has probably sent too. Each
//! own dispatch therefore counts once for every peer until that peer's next share replaces the guess: without this, proxies herd.

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
}

impl Share {
    /// This proxy's own.
    pub fn of(sequence: u64, servers: &Servers) -> Self {
        let count = |server| servers.in_flight(server).min(u32::from(u16::MAX)) as u16;
        Self { sequence, in_flight: servers.ids().map(count).collect() }
    }
}

/// The shares of all peers, and the estimate that follows.
#[derive(Debug)]
pub struct Shares {
    peers: Vec<Peer>,
    totals: Box<[Total]>,
    lag: Ewma,
    every: Ewma,
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
            lag: Ewma::new(0.05),
            every: Ewma::new(0.05),
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
        if let Some(before) = peer.heard.replace(now) {
            self.every.update(now.since(before).as_secs_f64());
        }
        self.lag.update(lag.as_secs_f64());
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

    /// How old a share is on average when it is used: its way here, and half the time to the next.
    pub fn age(&self) -> Span {
        let half = self.every.value().unwrap_or(0.0) / 2.0;
        Span::from_secs_f64(self.lag.value().unwrap_or(0.0) + half)
    }

    /// The estimate: what peers said, plus what they have probably sent since.
    pub fn estimate(&self, server: ServerId, servers: &Servers) -> Load {
        let total = self.totals[server.index()];
        let echoes = (self.peers.len() as u32).wrapping_mul(servers.dispatched(server)).wrapping_sub(total.own);
        let echo = Load::from_raw(echoes.saturating_mul(self.echo().raw()));
        Load::calls(total.in_flight) + echo
    }

    /// Publishes the estimate for decisions to read.
    pub fn publish(&self, servers: &Servers) {
        for server in servers.ids() {
            servers.publish_peers(server, self.estimate(server, servers));
        }
        servers.publish_share_age(self.age());
        servers.publish_echo(Load::from_raw(self.echo().raw() * self.peers.len() as u32));
    }

    /// What an own dispatch counts for at one peer.
    fn echo(&self) -> Load {
        Load::ONE
    }
}

/// How often a proxy tells its load: ten times in a service time, but never more than [`SHARES_MAX`] datagrams a second into a proxy.
pub fn share_interval(service: Span, peers: usize) -> Span {
    let least = Span::from_secs_f64(peers as f64 / SHARES_MAX);
    let wanted = if service == Span::ZERO { INTERVAL_MAX } else { service.scale(0.1) };
    wanted.min(INTERVAL_MAX).max(least).max(INTERVAL_MIN)
}

/// Load shares a second that a proxy may receive.
pub const SHARES_MAX: f64 = 18_000.0;
/// Rarer shares make proxies herd.
const INTERVAL_MAX: Span = Span::from_millis(10);
/// More often gains nothing over the network's own delay.
const INTERVAL_MIN: Span = Span::from_micros(250);
