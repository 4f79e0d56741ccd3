//! The rivals: balancers that users might choose instead, on identical traces.
//!
//! Each proxy has a rival of its own that sees what a proxy can see (`View`); only the oracle is given the `Oracle`'s eyes, and one
//! round-robin dispatcher for all proxies is shared through it.

mod hashing;
mod peak_ewma;
mod prequal;
mod random;

use midas_core::id::ServerId;
use midas_core::key::Key;
use midas_core::rng::Rng;
use midas_core::servers::Servers;
use midas_core::time::{Span, Time};

/// A rival by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// Calls in turn, one dispatcher for all proxies.
    RoundRobin,
    /// Calls in turn, each client by itself.
    RoundRobinClient,
    /// Every object at its home.
    HashObject,
    /// Consistent hashing with bounded loads (1.25).
    BoundedLoad,
    /// Any server.
    Random,
    /// The less loaded of two.
    PowerOfTwo,
    /// The less loaded of two, by counts that are up to 250 ms old.
    PowerOfTwoStale,
    /// The better of two by peak-EWMA latency times calls in flight.
    PeakEwma,
    /// Prequal: a pool of probes, hot-cold rule.
    Prequal,
    /// The oracle: joins the shortest queue, knowing all.
    ShortestQueue,
}

impl Rival {
    /// Every rival with what it is.
    pub const ALL: [(Self, &'static str, &'static str); 10] = [
        (Self::RoundRobin, "rr", "calls in turn, one dispatcher for all proxies"),
        (Self::RoundRobinClient, "rr-client", "calls in turn, each client by itself"),
        (Self::HashObject, "hash-object", "every object at its consistent-hash home"),
        (Self::BoundedLoad, "bounded-load", "consistent hashing with bounded loads (1.25)"),
        (Self::Random, "random", "any server"),
        (Self::PowerOfTwo, "p2c", "the less loaded of two random servers"),
        (Self::PowerOfTwoStale, "p2c-stale", "the same, by counts that are up to 250 ms old"),
        (Self::PeakEwma, "peak-ewma", "the better of two by peak-EWMA latency times calls in flight"),
        (Self::Prequal, "prequal", "probes of queue and latency, hot-cold rule"),
        (Self::ShortestQueue, "jsq", "the oracle: joins the shortest queue, knowing all"),
    ];

    /// The word that users type.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(rival, _, _)| *rival == self).map_or("", |(_, name, _)| name)
    }

    /// What one proxy runs.
    pub(crate) fn start(self, seed: u64, servers: usize) -> Box<dyn Balancer> {
        let rng = Rng::for_purpose(seed, 0x0072_6976_616c);
        match self {
            Self::RoundRobin => Box::new(random::OneDispatcher),
            Self::RoundRobinClient => Box::new(random::PerClient::new(rng)),
            Self::HashObject => Box::new(hashing::Object),
            Self::BoundedLoad => Box::new(hashing::Bounded),
            Self::Random => Box::new(random::Any(rng)),
            Self::PowerOfTwo => Box::new(random::Two::new(rng, Span::ZERO)),
            Self::PowerOfTwoStale => Box::new(random::Two::new(rng, Span::from_millis(250))),
            Self::PeakEwma => Box::new(peak_ewma::PeakEwma::new(rng, servers)),
            Self::Prequal => Box::new(prequal::Prequal::new(rng, servers)),
            Self::ShortestQueue => Box::new(random::Shortest(rng)),
        }
    }
}

/// What a balancer in a proxy can see of a call.
pub(crate) struct View<'a> {
    pub(crate) now: Time,
    pub(crate) servers: &'a Servers,
    pub(crate) directory: Key,
    pub(crate) object: Key,
    pub(crate) client: u32,
}

/// What only an oracle knows: every server's true queue with what is on its way, and a counter that all proxies share.
pub(crate) struct Oracle<'a> {
    pub(crate) committed: &'a dyn Fn(ServerId) -> u32,
    pub(crate) turn: &'a mut usize,
}

/// A rival at work in one proxy.
pub(crate) trait Balancer: std::fmt::Debug {
    /// Chooses a server.
    fn choose(&mut self, view: &View<'_>, oracle: &mut Oracle<'_>) -> ServerId;

    /// A call came back.
    fn settled(&mut self, _now: Time, _server: ServerId, _latency: Span) {}
}

/// The better of two by a cost; the first on a tie.
fn better<C: PartialOrd>(a: ServerId, b: ServerId, cost: impl Fn(ServerId) -> C) -> ServerId {
    if cost(b) < cost(a) { b } else { a }
}

/// Two different servers at random; the same one twice if there is only one.
fn two(rng: &mut Rng, servers: usize) -> (ServerId, ServerId) {
    let a = rng.below(servers);
    let b = (a + 1 + rng.below(servers.saturating_sub(1))) % servers;
    (ServerId(a as u16), ServerId(b as u16))
}
