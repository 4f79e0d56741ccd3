//! Rivals that place by hash.

use super::{Balancer, Oracle, View};
use midas_core::id::ServerId;

/// Every object at its home.
#[derive(Debug)]
pub(super) struct Object;

impl Balancer for Object {
    fn choose(&mut self, view: &View<'_>, _: &mut Oracle<'_>) -> ServerId {
        view.servers.ring().home(view.object).unwrap_or(ServerId(0))
    }
}

/// Consistent hashing with bounded loads: the first server in the directory's order below 1.25 times the mean, counting this call.
#[derive(Debug)]
pub(super) struct Bounded;

impl Balancer for Bounded {
    fn choose(&mut self, view: &View<'_>, _: &mut Oracle<'_>) -> ServerId {
        let total: f64 = view.servers.ids().map(|server| view.servers.load(server).as_f64()).sum();
        let cap = libm::ceil(BOUND * (total + 1.0) / view.servers.len() as f64);
        let mut order = view.servers.ring().order(view.directory);
        order.find(|server| view.servers.load(*server).as_f64() + 1.0 <= cap).unwrap_or(ServerId(0))
    }
}

const BOUND: f64 = 1.25;
