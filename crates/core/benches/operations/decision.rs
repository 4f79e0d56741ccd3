//! One routing decision in pools of 4 to 1024 servers, in the states that cost least and most. Paper: P21.

use crate::drive::{Operation, Run};
use midas_core::cache::{Cache, CleanStart, Params, Rules};
use midas_core::control::knobs::Knobs;
use midas_core::control::warmup::Targets;
use midas_core::control::{Controller, Settings, TICK};
use midas_core::decision::{Route, Why};
use midas_core::id::ServerId;
use midas_core::key::Key;
use midas_core::op::Op;
use midas_core::rng::mix;
use midas_core::route::Router;
use midas_core::route::feasible::Target;
use midas_core::route::placement::Placement;
use midas_core::route::policy::Policy;
use midas_core::route::ring::Member;
use midas_core::servers::Servers;
use midas_core::shard::{Asked, Call, Decision, Outcome, Shard};
use midas_core::telemetry::recorder::{Recorder, Sample};
use midas_core::time::{Span, Time};
use std::hint::black_box;

/// Every policy, state and size, and whole calls.
pub(crate) fn operations() -> Vec<Operation> {
    let decisions = ["first-fit", "paper"].into_iter().flat_map(|policy| {
        STATES.into_iter().flat_map(move |state| SIZES.into_iter().map(move |size| decision(policy, state, size)))
    });
    decisions.chain(SIZES.into_iter().map(whole_call)).collect()
}

/// How the pool is loaded.
#[derive(Clone, Copy)]
struct State {
    name: &'static str,
    /// Calls in flight at a server, by its number and the pool's size.
    queue: fn(usize, usize) -> u32,
    op: Op,
}

const STATES: [State; 5] = [
    State { name: "nearly idle", queue: |server, _| u32::from(server % 8 == 0), op: Op::Lookup },
    State { name: "home loaded", queue: |server, _| if server % 2 == 0 { 12 } else { 1 }, op: Op::Lookup },
    State { name: "equally deep", queue: |_, _| 50, op: Op::Lookup },
    State { name: "one idle", queue: |server, size| if server + 1 == size { 0 } else { 20 }, op: Op::Lookup },
    State { name: "mutations", queue: |server, _| if server % 2 == 0 { 12 } else { 1 }, op: Op::Create },
];

const SIZES: [usize; 5] = [4, 16, 64, 256, 1024];

/// The project's targets, in nanoseconds.
const fn target_of(size: usize) -> Option<u64> {
    match size {
        0..=16 => Some(250),
        17..=64 => Some(1_000),
        _ => None,
    }
}

fn decision(policy: &'static str, state: State, size: usize) -> Operation {
    Operation {
        name: format!("decision {policy}, {}", state.name),
        size,
        units: Box::new(|| 1),
        samples: 100,
        target: target_of(size),
        prepare: Box::new(move || prepare(policy, state, size)),
    }
}

/// Time moves on by a second each, so that every pin has expired and no decision is a repetition.
fn prepare(policy: &str, state: State, size: usize) -> Run {
    let policy = Policy::parse(policy).expect("a policy of that name");
    let pool = Pool::new(policy, state, size);
    let targets = pool.targets(state);
    let mut router = Router::new(policy, SEED);
    let mut now = pool.now;
    let mut at = 0;
    Box::new(move |times| {
        for _ in 0..times {
            at = (at + 1) % targets.len();
            now += Span::from_secs(1);
            let _ = black_box(router.choose(now, &pool.servers, &pool.knobs, black_box(&targets[at])));
        }
    })
}

/// Asked, sent and settled, without a cache entry: what the core does for a forwarded call.
fn whole_call(size: usize) -> Operation {
    Operation {
        name: "whole call first-fit, home loaded".to_owned(),
        size,
        units: Box::new(|| 1),
        samples: 100,
        target: None,
        prepare: Box::new(move || {
            let policy = Policy::parse("first-fit").expect("a policy of that name");
            let mut pool = Pool::new(policy, STATES[1], size);
            let targets = pool.targets(STATES[1]);
            let mut at = 0;
            Box::new(move |times| {
                for _ in 0..times {
                    at = (at + 1) % targets.len();
                    pool.now += Span::from_secs(1);
                    pool.call(&targets[at]);
                }
            })
        }),
    }
}

/// A pool in a state, with knobs and telemetry as a controller that watched it leaves them.
struct Pool {
    servers: Servers,
    shard: Shard<u64, u64>,
    recorder: Recorder,
    knobs: Knobs,
    now: Time,
}

impl Pool {
    fn new(policy: Policy, state: State, size: usize) -> Self {
        let members: Vec<Member> = (0..size as u64).map(|i| Member { identity: mix(i + 1), weight: 1.0 }).collect();
        let cache = Cache::new(Params::default(), Rules::ALL, Time::ZERO, CleanStart::Yes);
        let mut pool = Self {
            servers: Servers::new(&members, Placement::Ring),
            shard: Shard::new(Time::ZERO, Router::new(policy, SEED), cache, Span::ZERO),
            recorder: Recorder::new(size),
            knobs: Knobs::default(),
            now: Time::from_nanos(1),
        };
        pool.servers.publish_rtt(Span::from_millis(1));
        for server in pool.servers.ids() {
            (0..(state.queue)(server.index(), size)).for_each(|_| pool.load(server));
        }
        pool.watch(policy, size);
        pool
    }

    /// One more call in flight at a server.
    fn load(&mut self, to: ServerId) {
        let target = target(Op::Lookup, 0);
        let call = Call { target, entry: None, touches: &[] };
        let Asked::Through(pass) = self.shard.ask(self.now, &self.knobs, &call) else { return };
        let route = Route { to, home: to, why: Why::Home };
        // Never settled: the call stays in flight.
        drop(self.shard.send_to(self.now, &self.servers, &target, route, pass));
    }

    /// Forty ticks: smoothed values have settled.
    fn watch(&mut self, policy: Policy, size: usize) {
        let healthy = Targets { imbalance: 0.1, latency_p99: Span::from_millis(150), rtt: Span::from_millis(1) };
        let settings =
            Settings { policy, rate_peak: 0.0, targets: Some(healthy), steer_share: 0.1, split: true, seed: SEED };
        let mut controller = Controller::new(settings, size);
        for _ in 0..40 {
            for server in self.servers.ids() {
                let latency = Span::from_millis(100) * u64::from(1 + self.servers.in_flight(server));
                let found = self.servers.in_flight(server);
                self.recorder.record(
                    Sample { server, op: Op::Lookup, latency, found, head_age: Span::ZERO },
                    Span::from_millis(1),
                );
            }
            self.now += TICK;
            controller.tick(self.now, &self.servers, &mut self.recorder);
        }
        self.knobs = controller.knobs();
    }

    /// Calls that meet the state: where some homes are loaded, their home is one of them.
    fn targets(&self, state: State) -> Vec<Target> {
        let loaded = |target: &Target| {
            let home = self.servers.ring().home(target.place);
            state.name == "nearly idle" || home.is_some_and(|home| self.servers.in_flight(home) > 1)
        };
        (1..).map(|i| target(state.op, i)).filter(loaded).take(TARGETS).collect()
    }

    fn call(&mut self, target: &Target) {
        let call = Call { target: *target, entry: None, touches: &[] };
        match self.shard.decide(self.now, &self.servers, &self.knobs, &call) {
            Decision::Forward(mut ticket) => {
                let outcome = Outcome::Answered(None);
                black_box(self.shard.settle(self.now, &self.servers, &mut self.recorder, &mut ticket, outcome));
            }
            Decision::Answer { .. } | Decision::Join(_) | Decision::Hold(..) => {}
        }
    }
}

fn target(op: Op, number: u64) -> Target {
    let place = Key(mix(number));
    Target::new(op, place, place.child(number))
}

/// Different calls before one comes again.
const TARGETS: usize = 1024;
const SEED: u64 = 1;
