//! The simulated world: clients, proxies, servers, and the messages between them.
//!
//! It executes what the core decides and shows it only what a proxy can see. Clients sit beside their proxy; a round trip lies between
//! proxy and server, and between proxies. One seed is one world.

use crate::baseline::Oracle;
use crate::check::{Answer, Checks, Violation};
use crate::config::{Config, ShareInterval};
use crate::fault::{FAIL_AFTER, RETRANSMIT};
use crate::metrics::{Metrics, Sent};
use crate::model::server::{CallId, Server};
use crate::model::truth::{Entry, Kind, Truth};
use crate::proxy::{Proxy, directory_key};
use crate::queue::Queue;
use crate::report::{Row, Run, spread};
use midas_core::cache::{Class, Facts, Mode};
use midas_core::control::{Actuation, TICK};
use midas_core::id::ServerId;
use midas_core::op::Op;
use midas_core::peer::{Change, Due, Share};
use midas_core::rng::Rng;
use midas_core::route::feasible::Target;
use midas_core::shard::{Asked, Call, Outcome, Pass, Ticket};
use midas_core::time::{Span, Time};
use midas_workload::{Request, Setting, Spec, Stream, stream};

/// Runs one world to its end.
pub fn run(config: &Config) -> Result<Run, Violation> {
    World::new(config).run()
}

/// What happens next.
#[derive(Debug)]
enum Event {
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
    ShareArrive(u32, Box<Share>, Time),
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

/// A call that has not ended.
#[derive(Debug)]
struct Flying {
    request: Request,
    number: u64,
    begun: Time,
    measured: bool,
    proxy: u32,
    server: ServerId,
    stage: Stage,
    /// What the server answered.
    value: u64,
    changed: Time,
    /// What a read must see at least.
    promised: u64,
    failed: bool,
    /// Versions that a mutation made, in the order of its touches.
    made: Vec<u64>,
}

/// Where a call is.
#[derive(Debug)]
enum Stage {
    /// Waits for another call's answer.
    Joined,
    /// Waits until so many peers have acknowledged.
    Announced(Pass<Entry>, u32),
    /// On its way to a server, there, or on its way back.
    Sent(Ticket<Entry>),
    /// Ended, and between two owners.
    Gone,
}

struct World<'a> {
    config: &'a Config,
    queue: Queue<Event>,
    servers: Vec<Server>,
    proxies: Vec<Proxy>,
    truth: Truth,
    checks: Checks,
    metrics: Metrics,
    calls: Vec<Option<Flying>>,
    free: Vec<CallId>,
    flying: usize,
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
        let start = match config.policy.warms_up() {
            true => Time::ZERO + WARMUP,
            false => Time::ZERO,
        };
        Self {
            config,
            queue: Queue::default(),
            servers: (0..config.servers).map(|_| Server::new(config.workers)).collect(),
            proxies: (0..config.proxies).map(|index| Proxy::new(config, index)).collect(),
            truth: Truth::default(),
            checks: Checks::new(config),
            metrics: Metrics::default(),
            calls: Vec::new(),
            free: Vec::new(),
            flying: 0,
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
        if self.config.policy.warms_up() {
            self.play(warmup_stream(self.config), Time::ZERO, self.start, false)?;
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
            Event::ShareArrive(proxy, share, sent) => self.share_arrive(now, proxy, &share, sent),
            Event::Announce { to, call, number } => self.announced(now, to, call, number),
            Event::Acknowledge(call) => return self.acknowledged(now, call),
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

    /// A client issues a call.
    fn arrive(&mut self, request: Request, measured: bool) -> Result<(), Violation> {
        let now = request.at;
        self.metrics.events += 1;
        self.number += 1;
        let proxy = request.client % self.config.proxies;
        let entry = entry_of(&request);
        let cached = self.config.cache.is_some();
        let promised = entry.filter(|_| cached).map_or(0, |entry| self.truth.promised(entry));
        if measured {
            self.metrics.calls += 1;
            self.metrics.cacheable += u64::from(request.op.cacheable());
            if self.config.trace.is_some() {
                self.arrivals.push((now.since(self.start).as_secs_f64(), request.directory));
            }
        }
        let flying = Flying {
            request,
            number: self.number,
            begun: now,
            measured,
            proxy,
            server: ServerId(0),
            stage: Stage::Gone,
            value: 0,
            changed: Time::ZERO,
            promised,
            failed: false,
            made: Vec::new(),
        };
        let touches = if cached { touches_of(&request) } else { Vec::new() };
        let entry = entry.filter(|_| cached).map(|entry| (entry, Class(entry.kind as u8)));
        let call = Call { target: target_of(&request), entry, touches: &touches };
        let at = &mut self.proxies[proxy as usize];
        let knobs = at.controller.knobs();
        match at.shard.ask(now, &knobs, &call) {
            Asked::Answer { value, horizon, .. } => {
                self.checks.cached(now, request.op.mutates(), horizon)?;
                self.metrics.hits += u64::from(measured);
                self.answer(now, Flying { value, ..flying })
            }
            Asked::Join(flight) => {
                self.metrics.hits += u64::from(measured);
                let id = self.keep(Flying { stage: Stage::Joined, ..flying });
                self.proxies[proxy as usize].joined.entry(flight).or_default().push(id);
                Ok(())
            }
            Asked::Through(pass) if self.announces(&touches) => {
                let id = self.keep(Flying { stage: Stage::Announced(pass, self.config.proxies - 1), ..flying });
                self.announce(now, id);
                Ok(())
            }
            Asked::Through(pass) => self.send(now, flying, pass),
        }
    }

    /// In lease mode a mutation leaves only after every other proxy has dropped what it changes.
    fn announces(&self, touches: &[Entry]) -> bool {
        let lease = self.config.cache.is_some_and(|cache| cache.mode == Mode::Lease);
        lease && self.config.proxies > 1 && !touches.is_empty()
    }

    fn announce(&mut self, now: Time, call: CallId) {
        let (proxy, number) = self.calls[call as usize].as_ref().map_or((0, 0), |flying| (flying.proxy, flying.number));
        for to in (0..self.config.proxies).filter(|to| *to != proxy) {
            let at = now + self.way();
            self.queue.push(at, Event::Announce { to, call, number });
        }
    }

    fn announced(&mut self, now: Time, to: u32, call: CallId, number: u64) {
        let Some(flying) = &self.calls[call as usize] else { return };
        let touches = touches_of(&flying.request);
        let peer = &mut self.proxies[to as usize];
        let marks = touches.iter().map(|entry| peer.shard.cache().mark(now, *entry)).collect();
        peer.marks.insert(number, marks);
        let at = now + self.way();
        self.queue.push(at, Event::Acknowledge(call));
    }

    fn acknowledged(&mut self, now: Time, call: CallId) -> Result<(), Violation> {
        let Some(flying) = &mut self.calls[call as usize] else { return Ok(()) };
        if let Stage::Announced(_, left) = &mut flying.stage {
            *left -= 1;
            if *left > 0 {
                return Ok(());
            }
        }
        let mut flying = self.take(call);
        match std::mem::replace(&mut flying.stage, Stage::Gone) {
            Stage::Announced(pass, _) => self.send(now, flying, pass),
            Stage::Joined | Stage::Sent(_) | Stage::Gone => Ok(()),
        }
    }

    fn ended_at_peer(&mut self, now: Time, to: u32, number: u64) {
        let peer = &mut self.proxies[to as usize];
        for mark in peer.marks.remove(&number).unwrap_or_default() {
            peer.shard.cache().end(now, mark, midas_core::cache::Ended::Done);
        }
    }

    /// A call leaves its proxy.
    fn send(&mut self, now: Time, mut flying: Flying, pass: Pass<Entry>) -> Result<(), Violation> {
        let target = target_of(&flying.request);
        let proxy_index = flying.proxy;
        let proxy = &mut self.proxies[flying.proxy as usize];
        let servers = &self.servers;
        let committed = |server: ServerId| servers[server.index()].committed();
        let mut oracle = Oracle { committed: &committed, turn: &mut self.turn };
        let ticket = match proxy.send(now, &target, flying.request.client, pass, &mut oracle) {
            Ok(ticket) => ticket,
            Err((pass, why)) => {
                proxy.shard.give_up(now, pass);
                return self.checks.broken(now, crate::check::Invariant::SettledOnce, why.reason().to_owned());
            }
        };
        let knobs = proxy.controller.knobs();
        self.checks.routed(now, flying.proxy as usize, target.object, &ticket.route, &knobs)?;
        let home = proxy.servers.ring().home(target.place).unwrap_or(ServerId(0));
        let to = ticket.route.to;
        if flying.measured {
            let bad = committed(to) >= committed(home);
            let reads = !flying.request.op.mutates();
            self.metrics.sent(now, Sent { to, home, reads, directory: flying.request.directory, bad });
        }
        self.servers[to.index()].expect();
        flying.server = to;
        flying.stage = Stage::Sent(ticket);
        let id = self.keep(flying);
        let at = now + self.way();
        self.queue.push(at, Event::AtServer(id));
        self.changed(now, proxy_index, Change::Left);
        Ok(())
    }

    fn at_server(&mut self, now: Time, call: CallId) {
        let Some(flying) = &mut self.calls[call as usize] else { return };
        let index = flying.server.index();
        if index + self.config.faults.failing as usize >= self.servers.len() {
            flying.failed = true;
            self.servers[index].forsake();
            let at = now + FAIL_AFTER + self.way();
            self.queue.push(at, Event::Reply(call));
        } else if self.servers[index].arrive(now, call) {
            self.work(now, call);
        }
    }

    /// A worker starts on a call.
    fn work(&mut self, now: Time, call: CallId) {
        let Some(flying) = &self.calls[call as usize] else { return };
        let mut demand = self.config.service.demand(self.config.seed, flying.number, flying.request.op);
        if let Some(slow) = self.config.faults.slow.filter(|slow| flying.server.index() < slow.servers as usize) {
            demand = demand.scale(slow.factor);
        }
        self.queue.push(now + demand, Event::Done(call));
    }

    /// A server has executed a call.
    fn done(&mut self, now: Time, call: CallId) -> Result<(), Violation> {
        let Some(flying) = &mut self.calls[call as usize] else { return Ok(()) };
        if flying.request.op.mutates() {
            self.checks.executed(now, flying.number)?;
        }
        if self.config.cache.is_some() {
            if flying.request.op.mutates() {
                flying.made =
                    touches_of(&flying.request).into_iter().map(|entry| self.truth.mutate(now, entry)).collect();
            }
            if let Some(entry) = entry_of(&flying.request) {
                let version = self.truth.version(entry);
                (flying.value, flying.changed) = (version.number, version.since);
            }
        }
        let server = flying.server.index();
        if let Some(next) = self.servers[server].done(now) {
            self.work(now, next);
        }
        let at = now + self.way();
        self.queue.push(at, Event::Reply(call));
        Ok(())
    }

    /// A reply reaches its proxy, and at once its client.
    fn reply(&mut self, now: Time, call: CallId) -> Result<(), Violation> {
        let mut flying = self.take(call);
        let Stage::Sent(ticket) = std::mem::replace(&mut flying.stage, Stage::Gone) else { return Ok(()) };
        let value = flying.value;
        let facts = Facts { changed_at: Some(flying.changed), lease_until: None, cost: ENTRY_COST };
        let outcome = match (flying.failed, flying.request.op.cacheable()) {
            (true, _) => Outcome::Failed,
            (false, true) => Outcome::Answered(Some((&value, facts))),
            (false, false) => Outcome::Answered(None),
        };
        let proxy = &mut self.proxies[flying.proxy as usize];
        let server = ticket.route.to;
        let settled = proxy.shard.settle(now, &proxy.servers, &mut proxy.recorder, ticket, outcome);
        proxy.learn(now, server, settled.latency);
        let joined = settled.flight.and_then(|flight| proxy.joined.remove(&flight)).unwrap_or_default();
        self.changed(now, flying.proxy, Change::Landed);
        self.tell_the_end(now, &flying);
        let (value, failed) = (flying.value, flying.failed);
        self.answer(now, flying)?;
        for call in joined {
            let waiter = self.take(call);
            self.answer(now, Flying { value, failed, ..waiter })?;
        }
        Ok(())
    }

    fn tell_the_end(&mut self, now: Time, flying: &Flying) {
        if flying.request.op.mutates() && self.announces(&touches_of(&flying.request)) {
            for to in (0..self.config.proxies).filter(|to| *to != flying.proxy) {
                let at = now + self.way();
                self.queue.push(at, Event::Ended { to, number: flying.number });
            }
        }
    }

    /// A client gets its answer.
    fn answer(&mut self, now: Time, flying: Flying) -> Result<(), Violation> {
        if flying.request.op.mutates() && !flying.made.is_empty() {
            for (entry, made) in touches_of(&flying.request).into_iter().zip(&flying.made) {
                self.truth.promise(entry, *made);
            }
        }
        if let Some(entry) = entry_of(&flying.request).filter(|_| self.config.cache.is_some() && !flying.failed) {
            let answer = Answer { entry, got: flying.value, promised: flying.promised };
            self.metrics.answers += 1;
            self.metrics.stale += u64::from(self.checks.answered(now, answer)?);
        }
        if flying.measured {
            self.metrics.failed += u64::from(flying.failed);
            self.metrics.ended(now, now.since(flying.begun), flying.value);
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
        if !self.idle() {
            self.queue.push(now + TICK, Event::Tick(index));
        }
        self.checks.ticked(now, index as usize, &knobs)
    }

    fn slow_tick(&mut self, now: Time, index: u32) -> Result<(), Violation> {
        let cache = self.proxies[index as usize].shard.cache();
        cache.tick(now);
        let (stats, limits) = (cache.stats(), midas_core::cache::Settings::default());
        if !self.idle() {
            self.queue.push(now + SLOW_TICK, Event::SlowTick(index));
        }
        self.checks.memory(now, &stats, limits.entries_max, limits.bytes_max)
    }

    /// Something changed at a proxy: it tells its peers now, or as soon as it may.
    fn changed(&mut self, now: Time, index: u32, change: Change) {
        let proxy = &mut self.proxies[index as usize];
        if proxy.shares.is_some() {
            proxy.teller.note(now, change);
            if self.config.shares == ShareInterval::Auto {
                self.tell_if_due(now, index);
            }
        }
    }

    fn tell_if_due(&mut self, now: Time, index: u32) {
        let proxy = &mut self.proxies[index as usize];
        match proxy.teller.due(now) {
            Due::Now => self.tell(now, index),
            Due::At(at) if at < proxy.tell_at.unwrap_or(Time::FAR) => {
                proxy.tell_at = Some(at);
                self.queue.push(at, Event::ShareSend(index));
            }
            Due::At(_) | Due::Never => {}
        }
    }

    fn tell(&mut self, now: Time, index: u32) {
        let proxy = &mut self.proxies[index as usize];
        let share = Box::new(proxy.teller.tell(now, &proxy.servers));
        self.queue.push(now + self.half(), Event::ShareArrive(index, share, now));
    }

    fn share_send(&mut self, now: Time, index: u32) {
        match self.config.shares {
            ShareInterval::Every(every) => {
                self.tell(now, index);
                if !self.idle() {
                    let jitter = every.scale(0.9 + 0.2 * self.rng.unit());
                    self.queue.push(now + jitter, Event::ShareSend(index));
                }
            }
            ShareInterval::Auto | ShareInterval::Off => {
                self.proxies[index as usize].tell_at = None;
                self.tell_if_due(now, index);
            }
        }
    }

    fn share_arrive(&mut self, now: Time, from: u32, share: &Share, sent: Time) {
        for to in (0..self.config.proxies).filter(|to| *to != from) {
            if self.config.faults.share_loss > 0.0 && self.rng.chance(self.config.faults.share_loss) {
                continue;
            }
            self.metrics.shares_received += u64::from(now >= self.start && now < self.end);
            let proxy = &mut self.proxies[to as usize];
            if let Some(shares) = &mut proxy.shares {
                let peer = if from < to { from } else { from - 1 };
                shares.receive(now, peer as usize, share, now.since(sent), &proxy.servers);
                shares.publish(&proxy.servers);
            }
        }
    }

    /// A mutation past all proxies: executed at once and acknowledged to whoever made it.
    fn bypass(&mut self, now: Time) {
        let setting = self.config.setting();
        let directory = self.rng.below(setting.directories as usize) as u32;
        let file = self.rng.below(setting.files as usize) as u32;
        for kind in [Kind::Name, Kind::Attributes] {
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
        while self.flying > 0 {
            self.step()?;
        }
        let in_flight = self.proxies.iter().flat_map(|p| p.servers.ids().map(|s| p.servers.in_flight(s))).sum();
        self.checks.ended(self.end, self.flying, in_flight)?;
        let mut row = Row::named(self.config);
        let means: Vec<f64> = self.queues_measured.iter().map(|(mean, _)| *mean).collect();
        (row.mean_queue, row.dispersion) = spread(&means);
        row.worst_queue = self.queues_measured.iter().map(|(_, worst)| *worst).max().unwrap_or(0);
        self.metrics.fill(&mut row, self.config.duration, self.config.proxies);
        Ok(Run { row, queues: self.trace, arrivals: self.arrivals, actuations: self.actuations })
    }

    /// Nothing is left to do but what happens by itself.
    fn idle(&self) -> bool {
        self.flying == 0 && self.queue.next_at().is_none_or(|at| at >= self.end)
    }

    /// One way between proxy and server: half a round trip, and longer if the message was lost.
    fn way(&mut self) -> Span {
        let lost = self.config.faults.loss > 0.0 && self.rng.chance(self.config.faults.loss);
        self.half() + if lost { RETRANSMIT } else { Span::ZERO }
    }

    fn half(&self) -> Span {
        Span::from_nanos(self.config.rtt.as_nanos() / 2)
    }

    fn keep(&mut self, flying: Flying) -> CallId {
        self.flying += 1;
        match self.free.pop() {
            Some(id) => {
                self.calls[id as usize] = Some(flying);
                id
            }
            None => {
                self.calls.push(Some(flying));
                self.calls.len() as CallId - 1
            }
        }
    }

    fn take(&mut self, call: CallId) -> Flying {
        self.flying -= 1;
        self.free.push(call);
        self.calls[call as usize].take().expect("an event names a call that has not ended")
    }
}

/// The entry that could answer a request.
fn entry_of(request: &Request) -> Option<Entry> {
    let entry = |kind, file| Some(Entry { kind, directory: request.directory, file });
    match request.op {
        Op::Lookup => entry(Kind::Name, request.file),
        Op::Getattr | Op::Access | Op::Readlink => entry(Kind::Attributes, request.file),
        Op::List => entry(Kind::Listing, 0),
        Op::Statfs
        | Op::Read
        | Op::Create
        | Op::Remove
        | Op::Rename
        | Op::Link
        | Op::Setattr
        | Op::Write
        | Op::Commit => None,
    }
}

/// The entries that a request changes.
fn touches_of(request: &Request) -> Vec<Entry> {
    let names = |directory, file| {
        [
            Entry { kind: Kind::Name, directory, file },
            Entry { kind: Kind::Attributes, directory, file },
            Entry { kind: Kind::Listing, directory, file: 0 },
        ]
    };
    let mut touches = match request.op {
        Op::Create | Op::Remove | Op::Rename | Op::Link => names(request.directory, request.file).to_vec(),
        Op::Setattr | Op::Write => names(request.directory, request.file)[1..2].to_vec(),
        Op::Lookup | Op::Getattr | Op::Access | Op::List | Op::Readlink | Op::Statfs | Op::Read | Op::Commit => {
            Vec::new()
        }
    };
    if let Some((directory, file)) = request.target {
        touches.extend(names(directory, file));
        touches.sort_unstable();
        touches.dedup();
    }
    touches
}

fn target_of(request: &Request) -> Target {
    let place = directory_key(request.directory);
    Target { op: request.op, place, object: place.child(u64::from(request.file)), subtree: None, bound: None }
}

/// The paper's warm-up: a quiet minute before anything is measured. Paper: P2.
fn warmup_stream(config: &Config) -> Stream {
    let quiet = Spec::parse("uniform").expect("a workload of that name exists");
    stream(&quiet, &Setting { load: 0.2, duration: WARMUP, ..config.setting() })
}

/// Longer than 60 s, so that 60 s of quiet ticks fit in.
const WARMUP: Span = Span::from_secs(90);
/// T_slow. Paper: P10.
const SLOW_TICK: Span = Span::from_secs(30);
/// What a cached reply costs in memory.
const ENTRY_COST: usize = 128;
