//! Rivals that go round, draw lots, or look at queues.

use super::{Balancer, Oracle, View, better, two};
use midas_core::id::ServerId;
use midas_core::rng::Rng;
use midas_core::time::{Span, Time};
use std::collections::BTreeMap;

/// One dispatcher for all proxies.
#[derive(Debug)]
pub(super) struct OneDispatcher;

impl Balancer for OneDispatcher {
    fn choose(&mut self, view: &View<'_>, oracle: &mut Oracle<'_>) -> ServerId {
        *oracle.turn = (*oracle.turn + 1) % view.servers.len();
        ServerId(*oracle.turn as u16)
    }
}

/// Every client goes round by itself, from a random start.
#[derive(Debug)]
pub(super) struct PerClient {
    rng: Rng,
    turns: BTreeMap<u32, usize>,
}

impl PerClient {
    pub(super) fn new(rng: Rng) -> Self {
        Self { rng, turns: BTreeMap::new() }
    }
}

impl Balancer for PerClient {
    fn choose(&mut self, view: &View<'_>, _: &mut Oracle<'_>) -> ServerId {
        let servers = view.servers.len();
        let turn = self.turns.entry(view.client).or_insert_with(|| self.rng.below(servers));
        *turn = (*turn + 1) % servers;
        ServerId(*turn as u16)
    }
}

/// Any server.
#[derive(Debug)]
pub(super) struct Any(pub(super) Rng);

impl Balancer for Any {
    fn choose(&mut self, view: &View<'_>, _: &mut Oracle<'_>) -> ServerId {
        ServerId(self.0.below(view.servers.len()) as u16)
    }
}

/// The less loaded of two, by the proxy's own counts (and its peers' shares), looked up again every `refresh`.
#[derive(Debug)]
pub(super) struct Two {
    rng: Rng,
    refresh: Span,
    seen: Vec<u32>,
    seen_at: Option<Time>,
}

impl Two {
    pub(super) fn new(rng: Rng, refresh: Span) -> Self {
        Self { rng, refresh, seen: Vec::new(), seen_at: None }
    }
}

impl Balancer for Two {
    fn choose(&mut self, view: &View<'_>, _: &mut Oracle<'_>) -> ServerId {
        let (a, b) = two(&mut self.rng, view.servers.len());
        if self.refresh == Span::ZERO {
            return better(a, b, |server| view.servers.load(server));
        }
        if self.seen_at.is_none_or(|at| view.now.since(at) >= self.refresh) {
            self.seen = view.servers.ids().map(|server| view.servers.load(server).raw()).collect();
            self.seen_at = Some(view.now);
        }
        better(a, b, |server| self.seen[server.index()])
    }
}

/// Knows every queue and joins the shortest; ties by lot.
#[derive(Debug)]
pub(super) struct Shortest(pub(super) Rng);

impl Balancer for Shortest {
    fn choose(&mut self, view: &View<'_>, oracle: &mut Oracle<'_>) -> ServerId {
        let least = view.servers.ids().map(|server| (oracle.committed)(server)).min().unwrap_or(0);
        let count = view.servers.ids().filter(|server| (oracle.committed)(*server) == least).count();
        let lot = self.0.below(count);
        let mut shortest = view.servers.ids().filter(|server| (oracle.committed)(*server) == least);
        shortest.nth(lot).unwrap_or(ServerId(0))
    }
}
