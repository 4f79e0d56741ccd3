//! What this proxy knows of the servers, shared by all shards: padded atomics, read by every decision.
//!
//! Counts of calls in flight are exact; what is derived (smoothed loads, quantiles, weights) is published by the tick. Everything is
//! `Relaxed`: a decision on a value that is some nanoseconds old is as good, and nothing else is ordered by these.

use crate::health::{Health, WINDOW_FULL};
use crate::id::{SERVERS_MAX, ServerId, ServerSet};
use crate::key::Key;
use crate::load::{Load, Weight};
use crate::route::budget::SteerBudget;
use crate::route::placement::Placement;
use crate::route::ring::{Member, Ring};
use crate::time::{Span, Time};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The pool as one proxy sees it. Paper: P1, P18.
#[derive(Debug)]
pub struct Servers {
    pub(crate) ring: Ring,
    pub(crate) placement: Placement,
    pub(crate) slots: Box<[Slot]>,
    /// Servers that health lets calls go to; kept in step with the slots' `health`.
    pub(crate) open: [AtomicU64; SERVERS_MAX / 64],
    /// How many servers are on probation, so that the common case need not look.
    pub(crate) probing: AtomicUsize,
    pub(crate) budget: SteerBudget,
    pub(crate) turn: AtomicUsize,
    rtt: AtomicU64,
    service: AtomicU64,
    share_age: AtomicU64,
    /// What one own dispatch adds to the peers' estimated load until their shares tell, in 256ths.
    echo: AtomicU32,
    proxies: AtomicU32,
}

/// One server. Paper: P1.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Slot {
    pub(crate) in_flight: AtomicU32,
    /// What peers have in flight there, in 256ths.
    pub(crate) peers: AtomicU32,
    pub(crate) weight: AtomicU32,
    /// When the call at the head of the queue began, as far as own calls tell.
    pub(crate) head_since: AtomicU64,
    /// When its last answer came.
    answered: AtomicU64,
    /// Calls at home here since the beginning, wherever they went; wraps.
    pub(crate) homed: AtomicU32,
    /// What is at home here relative to the mean over servers, in 256ths.
    offer: AtomicU32,
    /// Dispatched since the beginning; wraps.
    pub(crate) dispatched: AtomicU32,
    pub(crate) health: AtomicU8,
    pub(crate) health_since: AtomicU64,
    pub(crate) failures: AtomicU32,
    /// The object of the last call that the server failed at.
    pub(crate) failed_object: AtomicU64,
    pub(crate) backoff: AtomicU32,
    pub(crate) error_share: AtomicU32,
    /// Calls that it may have at once while it starts slowly; [`WINDOW_FULL`] otherwise.
    pub(crate) window: AtomicU32,
    pub(crate) cpu: AtomicU8,
    load_smooth: AtomicU32,
    latency_p50: AtomicU64,
    latency_p99: AtomicU64,
    service: AtomicU64,
}

/// A copy of what is known of one server. Paper: P1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerView {
    /// Calls in flight, own and peers'.
    pub load: Load,
    /// The same, smoothed by the fast tick. Paper: P3.
    pub load_smooth: Load,
    /// Median latency.
    pub latency_p50: Span,
    /// Tail latency.
    pub latency_p99: Span,
    /// Service time; zero while unknown.
    pub service: Span,
    /// How much one call counts.
    pub weight: Weight,
    /// Whether calls may go there.
    pub health: Health,
}

impl Servers {
    /// A pool; at most [`SERVERS_MAX`] members are used.
    pub fn new(members: &[Member], placement: Placement) -> Self {
        let members = &members[..members.len().min(SERVERS_MAX)];
        let all = ServerSet::first(members.len());
        Self {
            ring: Ring::new(members),
            placement,
            slots: members.iter().map(|_| Slot::default()).collect(),
            open: all.words().map(AtomicU64::new),
            probing: AtomicUsize::new(0),
            budget: SteerBudget::default(),
            turn: AtomicUsize::new(0),
            rtt: AtomicU64::new(0),
            service: AtomicU64::new(0),
            share_age: AtomicU64::new(0),
            echo: AtomicU32::new(0),
            proxies: AtomicU32::new(1),
        }
    }

    /// How many servers the pool has.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether the pool has none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// All servers of the pool.
    pub fn ids(&self) -> impl Iterator<Item = ServerId> + use<> {
        (0..self.slots.len() as u16).map(ServerId)
    }

    /// The ring.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// A key's home; while that is closed, the next in its order. One on probation that has its one call is not closed: it is waited for.
    pub fn acting_home(&self, key: Key) -> Option<ServerId> {
        let is_open = |server: &ServerId| matches!(self.health(*server), Health::Up | Health::Probation);
        let home = self.ring.home(key)?;
        match is_open(&home) {
            true => Some(home),
            false => self.ring.first_of(key, &self.ids().filter(is_open).collect()).or(Some(home)),
        }
    }

    /// Calls in flight at a server as this proxy knows them: its own exactly, plus its peers' shares.
    #[inline]
    pub fn load(&self, server: ServerId) -> Load {
        let slot = &self.slots[server.index()];
        Load::calls(slot.in_flight.load(Relaxed)) + Load::from_raw(slot.peers.load(Relaxed))
    }

    /// The load, with calls at a slow server counted for more: D_i of first-fit.
    #[inline]
    pub fn work(&self, server: ServerId) -> Load {
        let weight = Weight::from_raw(self.slots[server.index()].weight.load(Relaxed));
        self.load(server).weighted(weight)
    }

    /// Own calls in flight.
    #[inline]
    pub fn in_flight(&self, server: ServerId) -> u32 {
        self.slots[server.index()].in_flight.load(Relaxed)
    }

    /// Calls sent to a server so far; wraps.
    pub fn dispatched(&self, server: ServerId) -> u32 {
        self.slots[server.index()].dispatched.load(Relaxed)
    }

    /// Calls whose home a server is so far; wraps.
    pub fn homed(&self, server: ServerId) -> u32 {
        self.slots[server.index()].homed.load(Relaxed)
    }

    /// How long the call at the head of the server's queue has been in service, as far as own calls tell; zero when idle.
    #[inline]
    pub fn head_age(&self, now: Time, server: ServerId) -> Span {
        let slot = &self.slots[server.index()];
        match slot.in_flight.load(Relaxed) {
            0 => Span::ZERO,
            _ => now.since(Time::from_nanos(slot.head_since.load(Relaxed))),
        }
    }

    /// What a server spent on a call that was sent then and is answered now: the time since then, or since its answer before this one, if
    /// that came later. Where calls are worked on one after the other it is the call's service time; where several are at once, its share of
    /// the time. So it is no more over all calls than the time that passed, and who waits behind others is not charged for them, unless they
    /// came by another proxy. Of answers with the same `now` the first has the time of all.
    #[inline]
    pub fn spent(&self, now: Time, sent: Time, server: ServerId) -> Span {
        let before = self.slots[server.index()].answered.fetch_max(now.as_nanos(), Relaxed);
        now.since(sent.max(Time::from_nanos(before)))
    }

    /// Everything known of one server.
    pub fn view(&self, server: ServerId) -> ServerView {
        let slot = &self.slots[server.index()];
        ServerView {
            load: self.load(server),
            load_smooth: self.load_smooth(server),
            latency_p50: self.latency_p50(server),
            latency_p99: Span::from_nanos(slot.latency_p99.load(Relaxed)),
            service: Span::from_nanos(slot.service.load(Relaxed)),
            weight: Weight::from_raw(slot.weight.load(Relaxed)),
            health: self.health(server),
        }
    }

    /// Counts a call that leaves for a server; returns how many own calls it found there.
    #[inline]
    pub(crate) fn dispatch(&self, now: Time, server: ServerId) -> u32 {
        let slot = &self.slots[server.index()];
        let found = slot.in_flight.fetch_add(1, Relaxed);
        slot.dispatched.fetch_add(1, Relaxed);
        let echo = self.echo.load(Relaxed);
        if echo > 0 {
            slot.peers.fetch_add(echo, Relaxed);
        }
        if found == 0 {
            slot.head_since.store(now.as_nanos(), Relaxed);
        }
        found
    }

    /// Counts a call that came back, with or without an answer.
    #[inline]
    pub(crate) fn land(&self, now: Time, server: ServerId) {
        let slot = &self.slots[server.index()];
        let _ = slot.in_flight.fetch_update(Relaxed, Relaxed, |calls| calls.checked_sub(1));
        slot.head_since.store(now.as_nanos(), Relaxed);
    }

    /// How many own calls a server may have at once: few when it has just come back, and one more
    /// for each that it has answered. What waited for it is not sent at once.
    #[inline]
    pub fn window(&self, server: ServerId) -> u32 {
        self.slots[server.index()].window.load(Relaxed)
    }

    #[inline]
    pub(crate) fn load_smooth(&self, server: ServerId) -> Load {
        Load::from_raw(self.slots[server.index()].load_smooth.load(Relaxed))
    }

    #[inline]
    pub(crate) fn latency_p50(&self, server: ServerId) -> Span {
        Span::from_nanos(self.slots[server.index()].latency_p50.load(Relaxed))
    }

    pub(crate) fn cpu(&self, server: ServerId) -> u8 {
        self.slots[server.index()].cpu.load(Relaxed)
    }

    /// The tick's results for one server. Paper: P3, P18.
    pub(crate) fn publish(&self, server: ServerId, load: Load, latency_p50: Span, latency_p99: Span) {
        let slot = &self.slots[server.index()];
        slot.load_smooth.store(load.raw(), Relaxed);
        slot.latency_p50.store(latency_p50.as_nanos(), Relaxed);
        slot.latency_p99.store(latency_p99.as_nanos(), Relaxed);
    }

    pub(crate) fn publish_service(&self, server: ServerId, service: Span) {
        self.slots[server.index()].service.store(service.as_nanos(), Relaxed);
    }

    pub(crate) fn publish_weight(&self, server: ServerId, weight: Weight) {
        self.slots[server.index()].weight.store(weight.raw(), Relaxed);
    }

    /// What the peers have in flight at a server, as [`crate::peer::Shares`] estimates it.
    pub fn publish_peers(&self, server: ServerId, load: Load) {
        self.slots[server.index()].peers.store(load.raw(), Relaxed);
    }

    /// Utilisation of a server's processor in per cent, where an agent reports it. Paper: P6, P18 (only ever breaks ties).
    pub fn publish_cpu(&self, server: ServerId, percent: u8) {
        self.slots[server.index()].cpu.store(percent, Relaxed);
    }

    /// The round trip to the servers without any service: measured with NULL calls.
    pub fn publish_rtt(&self, rtt: Span) {
        self.rtt.store(rtt.as_nanos(), Relaxed);
    }

    /// The round trip.
    pub fn rtt(&self) -> Span {
        Span::from_nanos(self.rtt.load(Relaxed))
    }

    /// The median over servers of their service times; zero while unknown.
    pub fn service(&self) -> Span {
        Span::from_nanos(self.service.load(Relaxed))
    }

    pub(crate) fn publish_service_median(&self, service: Span) {
        self.service.store(service.as_nanos(), Relaxed);
    }

    /// How long a change at a peer takes to be known here; zero without peers.
    pub fn share_age(&self) -> Span {
        Span::from_nanos(self.share_age.load(Relaxed))
    }

    /// Whether shares are so old that they say little of who is idle now.
    #[inline]
    pub fn shares_are_old(&self) -> bool {
        let (age, service) = (self.share_age(), self.service());
        // While the service time is not known they count as old: the first moments must not make proxies herd.
        age > Span::ZERO && age > service
    }

    /// Whether they are so old that they say nothing at all.
    #[inline]
    pub fn shares_are_useless(&self) -> bool {
        self.share_age() > self.service() * USELESS && self.service() > Span::ZERO
    }

    /// What is at home at a server relative to the mean over servers: 1 if homes are even.
    pub fn offer(&self, server: ServerId) -> f64 {
        Load::from_raw(self.slots[server.index()].offer.load(Relaxed)).as_f64()
    }

    pub(crate) fn publish_offer(&self, server: ServerId, offer: f64) {
        self.slots[server.index()].offer.store(Load::from_f64(offer).raw(), Relaxed);
    }

    /// What an own dispatch counts for the peers, until they tell: nothing while their shares are fresh.
    pub fn echo(&self) -> Load {
        Load::from_raw(self.echo.load(Relaxed))
    }

    /// How many proxies there are, this one among them.
    pub fn proxies(&self) -> u32 {
        self.proxies.load(Relaxed).max(1)
    }

    /// Tells how old shares are when a decision uses them, and how many proxies there are. While shares are old, each own dispatch counts
    /// for the peers too.
    pub(crate) fn publish_share_age(&self, age: Span, proxies: u32) {
        self.share_age.store(age.as_nanos(), Relaxed);
        self.proxies.store(proxies, Relaxed);
        let echo = if self.shares_are_old() { Load::calls(proxies.saturating_sub(1)) } else { Load::ZERO };
        self.echo.store(echo.raw(), Relaxed);
    }
}

/// Shares older than so many service times say nothing.
const USELESS: u64 = 8;

impl Default for Slot {
    fn default() -> Self {
        Self {
            in_flight: AtomicU32::new(0),
            peers: AtomicU32::new(0),
            weight: AtomicU32::new(Weight::ONE.raw()),
            head_since: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            homed: AtomicU32::new(0),
            offer: AtomicU32::new(Load::ONE.raw()),
            dispatched: AtomicU32::new(0),
            health: AtomicU8::new(Health::Up as u8),
            health_since: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            failed_object: AtomicU64::new(0),
            backoff: AtomicU32::new(0),
            error_share: AtomicU32::new(0),
            window: AtomicU32::new(WINDOW_FULL),
            cpu: AtomicU8::new(0),
            load_smooth: AtomicU32::new(0),
            latency_p50: AtomicU64::new(0),
            latency_p99: AtomicU64::new(0),
            service: AtomicU64::new(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;

    const SERVICE: Span = Span::from_millis(2);

    /// A server works on one call after the other. A hundred calls of a storm always wait there; a bystander asks anew as soon as it is answered.
    #[test]
    fn what_a_server_spent_is_no_more_than_the_time_that_passed_and_a_bystander_does_not_pay_for_the_queue() {
        let servers = Servers::new(&[Member { identity: 1, weight: 1.0 }], Placement::Ring);
        let start = Time::from_nanos(1_000_000_000);
        let mut queue: VecDeque<(Time, bool)> = (0..=100).map(|number| (start, number == 60)).collect();
        let (mut now, mut all, mut bystander, mut waited) = (start, Span::ZERO, Span::ZERO, Span::ZERO);
        for _ in 0..101 * 20 {
            now += SERVICE;
            let (sent, calm) = queue.pop_front().unwrap();
            let spent = servers.spent(now, sent, ServerId(0));
            all = all + spent;
            if calm {
                (bystander, waited) = (bystander + spent, waited + now.since(sent));
            }
            queue.push_back((now, calm));
        }
        assert_eq!((all, bystander), (now.since(start), SERVICE * 20));
        assert!(waited > bystander * 90, "{waited:?}");
        // After a pause it is the call's own time again.
        let later = now + Span::from_secs(9);
        assert_eq!(servers.spent(later + SERVICE, later, ServerId(0)), SERVICE);
    }

    /// Event loops read the clock once for a batch: theirs are not in order.
    #[test]
    fn no_time_is_charged_twice_though_answers_are_told_out_of_order() {
        let servers = Servers::new(&[Member { identity: 1, weight: 1.0 }], Placement::Ring);
        let at = |millis| Time::from_nanos(1_000_000_000) + Span::from_millis(millis);
        let spent = [5, 3, 3, 9, 6, 10, 10].map(|now| servers.spent(at(now), at(0), ServerId(0)));
        assert_eq!(spent, [5, 0, 0, 4, 0, 1, 0].map(Span::from_millis));
    }
}
