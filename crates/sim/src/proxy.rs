//! One simulated proxy: the core's own parts, wired as the daemon wires them.

use crate::baseline::{Balancer, Oracle, View};
use crate::config::{CacheConfig, Config, Homes, ShareInterval};
use crate::model::server::CallId;
use crate::model::truth::Entry;
use crate::policy::Contender;
use midas_core::cache::{Cache, CleanStart, FlightId, Mark, Mode, Params, Settings as CacheSettings};
use midas_core::control::{Controller, Settings};
use midas_core::decision::{Exclusion, Route, Why};
use midas_core::id::ServerId;
use midas_core::key::Key;
use midas_core::peer::{Shares, Teller};
use midas_core::rng::mix;
use midas_core::route::Router;
use midas_core::route::feasible::Target;
use midas_core::route::placement::Placement;
use midas_core::route::policy::Policy;
use midas_core::route::ring::Member;
use midas_core::servers::Servers;
use midas_core::shard::{Pass, Shard, Ticket};
use midas_core::telemetry::recorder::Recorder;
use midas_core::time::{Span, Time};
use std::collections::{BTreeMap, HashMap};

/// One proxy.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) servers: Servers,
    pub(crate) shard: Shard<Entry, u64>,
    pub(crate) recorder: Recorder,
    pub(crate) controller: Controller,
    pub(crate) shares: Option<Shares>,
    pub(crate) teller: Teller,
    /// When a share that is in the queue is due.
    pub(crate) tell_at: Option<Time>,
    rival: Option<Box<dyn Balancer>>,
    /// Calls that wait for another's answer.
    pub(crate) joined: HashMap<FlightId, Vec<CallId>>,
    /// Marks that peers' announcements put here, by the mutation's number.
    pub(crate) marks: BTreeMap<u64, Vec<Mark<Entry>>>,
}

impl Proxy {
    pub(crate) fn new(config: &Config, index: u32) -> Self {
        let count = config.servers as usize;
        let seed = mix(config.seed ^ mix(u64::from(index) + 1));
        let (policy, rival) = match config.policy {
            Contender::Core(policy) => (policy, None),
            Contender::Rival(rival) => (Policy::HashDirectory, Some(rival.start(seed, count))),
        };
        let members: Vec<Member> = (0..config.servers).map(|i| member(config, i)).collect();
        let servers = Servers::new(&members, Placement::Ring);
        servers.publish_rtt(config.rtt);
        let settings = Settings {
            policy,
            // The peak is the administrator's word.
            rate_peak: config.setting().capacity() / f64::from(config.proxies),
            targets: None,
            steer_share: 0.10,
            split: config.fenced_for() == Span::ZERO,
            seed,
        };
        let peers = config.proxies as usize - 1;
        Self {
            servers,
            shard: Shard::new(
                Time::ZERO,
                Router::new(policy, seed),
                cache(config.cache, config.rtt),
                config.fenced_for(),
            ),
            recorder: Recorder::new(count),
            controller: Controller::new(settings, count),
            shares: (peers > 0 && config.shares != ShareInterval::Off).then(|| Shares::new(peers, count)),
            teller: Teller::new(Time::ZERO, peers),
            tell_at: None,
            rival,
            joined: HashMap::new(),
            marks: BTreeMap::new(),
        }
    }

    /// Sends a call that was let through.
    pub(crate) fn send(
        &mut self,
        now: Time,
        target: &Target,
        client: u32,
        pass: Pass<Entry>,
        oracle: &mut Oracle<'_>,
    ) -> Result<Ticket<Entry>, (Pass<Entry>, Exclusion)> {
        let Some(rival) = &mut self.rival else {
            let knobs = self.controller.knobs();
            return self.shard.send(now, &self.servers, &knobs, target, pass);
        };
        let view = View { now, servers: &self.servers, directory: target.place, object: target.object, client };
        let to = rival.choose(&view, oracle);
        let home = self.servers.ring().home(target.place).unwrap_or(ServerId(0));
        Ok(self.shard.send_to(now, &self.servers, target, Route { to, home, why: Why::Turn }, pass))
    }

    /// Tells a rival how a call went; the core's policies learn in `settle`.
    pub(crate) fn learn(&mut self, now: Time, server: ServerId, latency: Span) {
        if let Some(rival) = &mut self.rival {
            rival.settled(now, server, latency);
        }
    }
}

/// The key of a directory.
pub(crate) fn directory_key(homes: Option<&Homes>, directory: u32) -> Key {
    match homes {
        Some(homes) => homes.directories[directory as usize],
        None => Key(mix(u64::from(directory) + 1)),
    }
}

fn member(config: &Config, index: u32) -> Member {
    let identity = match &config.homes {
        Some(homes) => homes.servers[index as usize],
        None => mix(mix(config.seed) ^ mix(0x7365_7276_6572 + u64::from(index))),
    };
    Member { identity, weight: 1.0 }
}

fn cache(config: Option<CacheConfig>, rtt: Span) -> Cache<Entry, u64> {
    let defaults = CacheSettings::default();
    let (settings, rules) = match config {
        None => (CacheSettings { mode: Mode::Strict, ..defaults }, midas_core::cache::Rules::ALL),
        Some(config) => {
            let CacheConfig { mode, stale_target, estimator, rules, entries_max } = config;
            (
                CacheSettings {
                    mode,
                    stale_target,
                    estimator,
                    entries_max,
                    rtt: rtt.max(Span::from_nanos(1)),
                    ..defaults
                },
                rules,
            )
        }
    };
    let params = Params::new(settings).expect("the configuration was checked");
    Cache::new(params, rules, Time::ZERO, CleanStart::Yes)
}
