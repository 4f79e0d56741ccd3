//! The simulated world: clients, proxies, servers, and the messages between them.
//!
//! It executes what the core decides and shows it only what a proxy can see. Clients sit beside their proxy; a round trip lies between
//! proxy and server, and between proxies. One seed is one world.

mod cooperate;
mod serve;

use crate::call::Calls;
use crate::check::{Checks, Violation};
use crate::config::{Config, ShareInterval};
use crate::fault::RETRANSMIT;
use crate::metrics::Metrics;
use crate::model::attribute_cache::AttributeCache;
use crate::model::capabilities::Capabilities;
use crate::model::server::{CallId, Server};
use crate::model::truth::{Entry, Kind, Truth};
use crate::proxy::Proxy;
use crate::queue::Queue;
use crate::report::{Row, Run, spread};
use midas_core::control::{Actuation, TICK};
use midas_core::peer::Share;
use midas_core::rng::Rng;
use midas_core::time::{Span, Time};
use midas_workload::{Setting, Spec, Stream, stream};

/// Runs one world to its end.
pub fn run(config: &Config) -> Result<Run, Violation> {
    World::new(config).run()
}

/// What happens next.
#[derive(Debug)]
enum Event {
    /// A call that waits at its proxy is tried again.
    Again(CallId),
    /// A call reaches its server.
    AtServer(CallId),
    /// A worker is done with a call.
    Done(CallId),
    /// A reply reaches its proxy.
    Reply(CallId),
    /// A proxy's fast tick.
    Tick(u32),
    /// A proxy's slow tick.
    SlowTick(u32),
    /// A proxy tells its load.
    ShareSend(u32),
    /// The others hear it.
    ShareArrive(u32, Box<Share>),
    /// A peer hears of a mutation before it leaves.
    Announce { to: u32, call: CallId, number: u64 },
    /// A peer has dropped what the mutation changes.
    Acknowledge(CallId),
    /// A peer hears that a mutation ended.
    Ended { to: u32, number: u64 },
    /// A mutation that no proxy sees.
    Bypass,
    /// The queues are written down.
    Sample,
    /// The measurement begins.
    Begin,
    /// The measurement of queues ends.
    End,
}

struct World<'a> {
    config: &'a Config,
    queue: Queue<Event>,
    servers: Vec<Server>,
    /// What each server remembers.
    caches: Vec<AttributeCache>,
    /// The capabilities that they hold of the file system behind them.
    capabilities: Capabilities,
    /// When that file system's metadata servers have done what they were asked.
    mds_free: Time,
    /// Calls that each server got while it was measured.
    sent: Vec<u64>,
    proxies: Vec<Proxy>,
    truth: Truth,
    checks: Checks,
    metrics: Metrics,
    calls: Calls,
    number: u64,
    turn: usize,
    rng: Rng,
    start: Time,
    end: Time,
    queues_measured: Vec<(f64, u32)>,
    trace: Vec<Vec<u32>>,
    arrivals: Vec<(f64, u32)>,
    actuations: Vec<(u32, Actuation)>,
}

impl<'a> World<'a> {
    fn new(config: &'a Config) -> Self {
        let start = Time::ZERO + warmup(config).map_or(Span::ZERO, |(_, lasts)| lasts);
        Self {
            config,
            queue: Queue::default(),
            servers: (0..config.servers).map(|_| Server::new(config.workers)).collect(),
            caches: (0..config.servers).map(|_| AttributeCache::default()).collect(),
            capabilities: Capabilities::default(),
            mds_free: Time::ZERO,
            sent: vec![0; config.servers as usize],
            proxies: (0..config.proxies).map(|index| Proxy::new(config, index)).collect(),
            truth: Truth::default(),
            checks: Checks::new(config),
            metrics: Metrics::default(),
            calls: Calls::default(),
            number: 0,
            turn: 0,
            rng: Rng::for_purpose(config.seed, 0x0077_6f72_6c64),
            start,
            end: start + config.duration,
            queues_measured: Vec::new(),
            trace: Vec::new(),
            arrivals: Vec::new(),
            actuations: Vec::new(),
        }
    }

    fn run(mut self) -> Result<Run, Violation> {
        self.schedule();
        if let Some((quiet, _)) = warmup(self.config) {
            self.play(quiet, Time::ZERO, self.start, false)?;
        }
        self.play(stream(&self.config.workload, &self.config.setting()), self.start, self.end, true)?;
        self.finish()
    }

    /// Everything that happens by itself. Proxies never tick in lockstep.
    fn schedule(&mut self) {
        for proxy in 0..self.config.proxies {
            let offset = TICK.scale(self.rng.unit());
            self.queue.push(Time::ZERO + offset, Event::Tick(proxy));
            self.queue.push(Time::ZERO + SLOW_TICK, Event::SlowTick(proxy));
            if let ShareInterval::Every(every) = self.config.shares {
                self.queue.push(Time::ZERO + every.scale(self.rng.unit()), Event::ShareSend(proxy));
            }
        }
        if self.config.faults.bypass_rate > 0.0 {
            self.queue.push(self.start, Event::Bypass);
        }
        if self.config.trace.is_some() {
            self.queue.push(self.start, Event::Sample);
        }
        self.queue.push(self.start, Event::Begin);
        self.queue.push(self.end, Event::End);
    }

    /// Plays a stream of requests that starts at `origin`, and whatever else happens until `until`.
    fn play(&mut self, stream: Stream, origin: Time, until: Time, measured: bool) -> Result<(), Violation> {
        for mut request in stream {
            request.at = origin + request.at.since(Time::ZERO);
            self.advance(request.at)?;
            self.arrive(request, measured)?;
        }
        self.advance(until)
    }

    fn advance(&mut self, until: Time) -> Result<(), Violation> {
        while self.queue.next_at().is_some_and(|at| at <= until) {
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Violation> {
        let Some((now, event)) = self.queue.pop() else { return Ok(()) };
        self.metrics.events += 1;
        match event {
            Event::AtServer(call) => self.at_server(now, call),
            Event::Done(call) => return self.done(now, call),
            Event::Reply(call) => return self.reply(now, call),
            Event::Tick(proxy) => return self.tick(now, proxy),
            Event::SlowTick(proxy) => return self.slow_tick(now, proxy),
            Event::ShareSend(proxy) => self.share_send(now, proxy),
            Event::ShareArrive(proxy, share) => self.share_arrive(now, proxy, &share),
            Event::Announce { to, call, number } => self.announced(now, to, call, number),
            Event::Acknowledge(call) => return self.acknowledged(now, call),
            Event::Again(call) => return self.again(now, call),
            Event::Ended { to, number } => self.ended_at_peer(now, to, number),
            Event::Bypass => self.bypass(now),
            Event::Sample => self.sample(now),
            Event::Begin => self.servers.iter_mut().for_each(|server| server.measure_from(now)),
            Event::End => {
                let start = self.start;
                self.queues_measured = self.servers.iter_mut().map(|server| server.measured(start, now)).collect();
            }
        }
        Ok(())
    }

    fn tick(&mut self, now: Time, index: u32) -> Result<(), Violation> {
        let proxy = &mut self.proxies[index as usize];
        if let Some(shares) = &proxy.shares {
            shares.publish(&proxy.servers);
        }
        proxy.controller.tick(now, &proxy.servers, &mut proxy.recorder);
        self.actuations.extend(proxy.controller.drain_events().map(|event| (index, event)));
        let knobs = proxy.controller.knobs();
        if !self.idle(now) {
            self.queue.push(now + TICK, Event::Tick(index));
        }
        self.checks.ticked(now, index as usize, &knobs)
    }

    fn slow_tick(&mut self, now: Time, index: u32) -> Result<(), Violation> {
        let cache = self.proxies[index as usize].shard.cache();
        let steps = cache.tick(now);
        self.actuations.extend(steps.iter().map(|step| (index, Actuation::of_ttl(now, step))));
        let stats = cache.stats();
        if !self.idle(now) {
            self.queue.push(now + SLOW_TICK, Event::SlowTick(index));
        }
        self.checks.memory(now, &stats)
    }

    /// A mutation past all proxies: executed at once and acknowledged to whoever made it.
    fn bypass(&mut self, now: Time) {
        let setting = self.config.setting();
        let directory = self.rng.below(setting.directories as usize) as u32;
        let file = self.rng.below(setting.files as usize) as u32;
        for (kind, file) in [(Kind::Name, file), (Kind::Attributes, file), (Kind::Listing, 0)] {
            let entry = Entry { kind, directory, file };
            let version = self.truth.mutate(now, entry);
            self.truth.promise(entry, version);
        }
        let gap = Span::from_secs_f64(self.rng.exponential() / self.config.faults.bypass_rate);
        if now < self.end {
            self.queue.push(now + gap, Event::Bypass);
        }
    }

    fn sample(&mut self, now: Time) {
        self.trace.push(self.servers.iter().map(Server::queue).collect());
        if let Some(every) = self.config.trace.filter(|_| now < self.end) {
            self.queue.push(now + every, Event::Sample);
        }
    }

    fn finish(mut self) -> Result<Run, Violation> {
        self.drain()?;
        for proxy in &mut self.proxies {
            self.checks.memory(self.end, &proxy.shard.cache().stats())?;
        }
        let in_flight = self.proxies.iter().flat_map(|p| p.servers.ids().map(|s| p.servers.in_flight(s))).sum();
        self.checks.ended(self.end, self.calls.flying(), in_flight)?;
        let mut row = Row::named(self.config);
        let means: Vec<f64> = self.queues_measured.iter().map(|(mean, _)| *mean).collect();
        (row.mean_queue, row.dispersion) = spread(&means);
        row.worst_queue = self.queues_measured.iter().map(|(_, worst)| *worst).max().unwrap_or(0);
        self.metrics.fill(&mut row, self.config.duration, self.config.proxies);
        let Self { trace: queues, arrivals, sent, actuations, .. } = self;
        Ok(Run { row, queues, arrivals, sent, actuations })
    }

    /// Plays on until every call has ended. A call that never does is a broken invariant, not an endless loop.
    fn drain(&mut self) -> Result<(), Violation> {
        let (mut flying, mut idle_events) = (self.calls.flying(), 0);
        while flying > 0 && idle_events < DRAIN_MAX {
            self.step()?;
            idle_events = if self.calls.flying() < flying { 0 } else { idle_events + 1 };
            flying = self.calls.flying();
        }
        Ok(())
    }

    /// Nothing is left to do but what happens by itself.
    fn idle(&self, now: Time) -> bool {
        self.calls.flying() == 0 && now >= self.end
    }

    /// One way between proxy and server: half a round trip, and longer if the message was lost.
    fn way(&mut self) -> Span {
        let lost = self.config.faults.loss > 0.0 && self.rng.chance(self.config.faults.loss);
        self.half() + if lost { RETRANSMIT } else { Span::ZERO }
    }

    fn half(&self) -> Span {
        Span::from_nanos(self.config.rtt.as_nanos() / 2)
    }
}

/// The paper's warm-up, where the policy needs one: quiet calls before anything is measured, and how long they come. Paper: P2.
pub fn warmup(config: &Config) -> Option<(Stream, Span)> {
    let quiet = Spec::parse("uniform").expect("a workload of that name exists");
    let calls = || stream(&quiet, &Setting { load: 0.2, duration: WARMUP, ..config.setting() });
    config.policy.warms_up().then(|| (calls(), WARMUP))
}

/// Longer than 60 s, so that 60 s of quiet ticks fit in.
const WARMUP: Span = Span::from_secs(90);
/// Events without any call that ends, after which the last ones are taken to be lost.
const DRAIN_MAX: u64 = 10_000_000;
/// T_slow. Paper: P10.
const SLOW_TICK: Span = Span::from_secs(30);
