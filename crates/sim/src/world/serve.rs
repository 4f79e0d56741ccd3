//! A call's way: issued, asked, sent, queued, executed, answered.

use super::{Event, World};
use crate::baseline::Oracle;
use crate::call::{Flying, Stage, entry_of, second_of, target_of, touches_of};
use crate::check::{Answer, Invariant, Violation};
use crate::config::Heads;
use crate::fault::FAIL_AFTER;
use crate::metrics::Sent;
use crate::model::capabilities::{Touched, Traffic};
use crate::model::server::CallId;
use crate::model::truth::Entry;
use midas_core::cache::{Class, Facts};
use midas_core::decision::Exclusion;
use midas_core::id::ServerId;
use midas_core::op::Op;
use midas_core::peer::Change;
use midas_core::route::feasible::Target;
use midas_core::shard::{Asked, Call, Outcome, Pass};
use midas_core::time::{Span, Time};
use midas_workload::Request;

impl World<'_> {
    /// A client issues a call.
    pub(super) fn arrive(&mut self, request: Request, measured: bool) -> Result<(), Violation> {
        let now = request.at;
        self.metrics.events += 1;
        self.number += 1;
        let mut flying = Flying::new(request, self.number, request.client % self.config.proxies);
        flying.measured = measured;
        if measured {
            self.metrics.calls += 1;
            flying.draw = self.metrics.calls;
            self.metrics.cacheable += u64::from(request.op.cacheable());
            if self.config.trace.is_some() {
                self.arrivals.push((now.since(self.start).as_secs_f64(), request.directory));
            }
        }
        let cached = self.config.cache.is_some();
        let seen = entry_of(&request).filter(|_| self.config.follows());
        flying.promised = seen.map_or(0, |entry| self.truth.promised(entry));
        let entry = seen.filter(|_| cached);
        let touches = if cached { touches_of(&request) } else { Vec::new() };
        let call = Call {
            target: target_of(self.config, &request),
            // A mutation offers one too: that the core never answers it from there is checked.
            entry: entry.or(touches.first().copied()).map(|entry| (entry, Class(entry.kind as u8))),
            touches: &touches,
        };
        let proxy = &mut self.proxies[flying.proxy as usize];
        let knobs = proxy.controller.knobs();
        match proxy.shard.ask(now, &knobs, &call) {
            Asked::Answer { value, horizon, .. } => {
                self.checks.cached(now, request.op.mutates(), horizon)?;
                self.metrics.hits += u64::from(measured);
                flying.value = value;
                self.answer(now, &flying)
            }
            Asked::Join(flight) => {
                self.metrics.hits += u64::from(measured);
                flying.stage = Stage::Joined;
                let id = self.calls.keep(flying);
                proxy.joined.entry(flight).or_default().push(id);
                Ok(())
            }
            Asked::Through(pass) if self.announces(&touches) => {
                flying.stage = Stage::Announced(pass, self.config.proxies - 1);
                let id = self.calls.keep(flying);
                self.announce(now, id);
                Ok(())
            }
            Asked::Through(pass) => self.send(now, flying, pass),
        }
    }

    /// A call leaves its proxy.
    pub(super) fn send(&mut self, now: Time, mut flying: Flying, pass: Pass<Entry>) -> Result<(), Violation> {
        let mut target = target_of(self.config, &flying.request);
        let second = second_of(self.config.homes.as_ref(), &flying.request);
        let proxy_index = flying.proxy;
        let proxy = &mut self.proxies[flying.proxy as usize];
        if self.config.fenced_for() > Span::ZERO && target.op == Op::List {
            // A listing is about its directory, not about the first name.
            target.object = target.place;
        }
        if let Some((place, object)) = second.filter(|_| self.config.fenced_for() > Span::ZERO) {
            let other = Target { place, object, home: place, ..target };
            target.bound = proxy.shard.fenced_at(now, &proxy.servers, &target);
            target.bound = target.bound.or_else(|| proxy.shard.fenced_at(now, &proxy.servers, &other));
        }
        let servers = &self.servers;
        let committed = |server: ServerId| servers[server.index()].committed();
        let mut oracle = Oracle { committed: &committed, turn: &mut self.turn };
        let ticket = match proxy.send(now, &target, flying.request.client, pass, &mut oracle) {
            Ok(ticket) => ticket,
            // Two changes that belong together are under way at two servers: it waits until one of them is over.
            Err((pass, Exclusion::FencedElsewhere)) => {
                flying.stage = Stage::Held(pass);
                let id = self.calls.keep(flying);
                self.queue.push(now + HELD_FOR, Event::Again(id));
                return Ok(());
            }
            Err((pass, why)) => {
                proxy.shard.give_up(now, pass);
                return self.checks.broken(now, Invariant::SettledOnce, why.reason().to_owned());
            }
        };
        let knobs = proxy.controller.knobs();
        self.checks.routed(now, flying.proxy as usize, target.object, &ticket.route, &knobs)?;
        self.checks.steered(now, &ticket.route, &proxy.servers)?;
        let home = proxy.servers.ring().home(target.place).unwrap_or(ServerId(0));
        let to = ticket.route.to;
        for key in second.into_iter().flat_map(|(place, object)| [place, object]) {
            proxy.shard.raise(now, key, to, false);
        }
        if flying.measured {
            self.sent[to.index()] += 1;
            let bad = committed(to) >= committed(home);
            let reads = !flying.request.op.mutates();
            self.metrics.sent(now, Sent { to, home, reads, directory: flying.request.directory, bad });
        }
        self.servers[to.index()].expect();
        flying.server = to;
        flying.stage = Stage::Sent(ticket);
        let id = self.calls.keep(flying);
        let at = now + self.way();
        self.queue.push(at, Event::AtServer(id));
        self.changed(now, proxy_index, Change::Left);
        Ok(())
    }

    /// A call that was held is tried again.
    pub(super) fn again(&mut self, now: Time, call: CallId) -> Result<(), Violation> {
        let mut flying = self.calls.take(call);
        match std::mem::replace(&mut flying.stage, Stage::Gone) {
            Stage::Held(pass) => self.send(now, flying, pass),
            Stage::Joined | Stage::Announced(..) | Stage::Sent(_) | Stage::Gone => Ok(()),
        }
    }

    pub(super) fn at_server(&mut self, now: Time, call: CallId) {
        let flying = self.calls.get_mut(call);
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
        let flying = self.calls.get(call);
        let mut demand = self.config.service.demand(self.config.seed, flying.draw, flying.request.op);
        if let Some(slow) = self.config.faults.slow.filter(|slow| flying.server.index() < slow.servers as usize) {
            demand = demand.scale(slow.factor);
        }
        let taken = self.taken(now, call);
        self.queue.push(now + demand + taken, Event::Done(call));
    }

    /// The time that a head waits, with a worker, for capabilities that others hold.
    fn taken(&mut self, now: Time, call: CallId) -> Span {
        let Heads::Caps { mds } = self.config.heads else { return Span::ZERO };
        let Flying { request, server, measured, .. } = self.calls.get(call);
        let name = (request.directory, request.file);
        let traffic = self.capabilities.serve(*server, Touched { op: request.op, name, second: request.target });
        if *measured {
            self.metrics.capabilities += traffic;
        }
        let service = self.config.service.mean();
        // Who finds the metadata servers busy waits for its turn there.
        let free = mds.map_or(now, |_| self.mds_free.max(now));
        self.mds_free = free + mds.map_or(Span::ZERO, |cores| traffic.work(service, cores));
        match traffic == Traffic::NONE {
            true => Span::ZERO,
            false => free.since(now) + traffic.time(service),
        }
    }

    /// A server has executed a call.
    pub(super) fn done(&mut self, now: Time, call: CallId) -> Result<(), Violation> {
        let flying = self.calls.get_mut(call);
        if flying.request.op.mutates() {
            self.checks.executed(now, flying.number)?;
        }
        let server = flying.server.index();
        if self.config.follows() {
            let (truth, cache) = (&mut self.truth, &mut self.caches[server]);
            if flying.request.op.mutates() {
                let mutate = |entry| {
                    let version = truth.mutate(now, entry);
                    cache.changed(now, entry, version);
                    version
                };
                flying.made = touches_of(&flying.request).into_iter().map(mutate).collect();
            }
            if let Some(entry) = entry_of(&flying.request) {
                (flying.value, flying.changed) = cache.read(now, truth, entry, self.config.staleness);
            }
        }
        if let Some(next) = self.servers[server].done(now) {
            self.work(now, next);
        }
        let at = now + self.way();
        self.queue.push(at, Event::Reply(call));
        Ok(())
    }

    /// A reply reaches its proxy, and at once its client.
    pub(super) fn reply(&mut self, now: Time, call: CallId) -> Result<(), Violation> {
        let mut flying = self.calls.take(call);
        let Stage::Sent(mut ticket) = std::mem::replace(&mut flying.stage, Stage::Gone) else { return Ok(()) };
        let value = flying.value;
        let facts = Facts { changed_at: Some(flying.changed), lease_until: None, cost: ENTRY_COST };
        let outcome = match (flying.failed, flying.request.op.cacheable()) {
            (true, _) => Outcome::Failed,
            (false, true) => Outcome::Answered(Some((&value, facts))),
            (false, false) => Outcome::Answered(None),
        };
        let proxy = &mut self.proxies[flying.proxy as usize];
        let server = ticket.route.to;
        let settled = proxy.shard.settle(now, &proxy.servers, &mut proxy.recorder, &mut ticket, outcome);
        let second = second_of(self.config.homes.as_ref(), &flying.request);
        for key in second.into_iter().flat_map(|(place, object)| [place, object]) {
            proxy.shard.raise(now, key, server, true);
        }
        proxy.learn(now, server, settled.latency);
        let joined = settled.flight.and_then(|flight| proxy.joined.remove(&flight)).unwrap_or_default();
        self.changed(now, flying.proxy, Change::Landed);
        self.tell_the_end(now, &flying);
        let (value, failed) = (flying.value, flying.failed);
        self.answer(now, &flying)?;
        for call in joined {
            let waiter = self.calls.take(call);
            self.answer(now, &Flying { value, failed, ..waiter })?;
        }
        Ok(())
    }

    /// A client gets its answer.
    fn answer(&mut self, now: Time, flying: &Flying) -> Result<(), Violation> {
        if flying.request.op.mutates() && !flying.made.is_empty() {
            for (entry, made) in touches_of(&flying.request).into_iter().zip(&flying.made) {
                self.truth.promise(entry, *made);
            }
        }
        if let Some(entry) = entry_of(&flying.request).filter(|_| self.config.follows() && !flying.failed) {
            let answer = Answer { entry, got: flying.value, promised: flying.promised };
            let stale = self.checks.answered(now, answer)?;
            self.metrics.answers += u64::from(flying.measured);
            self.metrics.stale += u64::from(stale && flying.measured);
        }
        if flying.measured {
            self.metrics.failed += u64::from(flying.failed);
            self.metrics.ended(now, now.since(flying.begun), flying.value);
        }
        Ok(())
    }
}

/// What a cached reply costs in memory.
const ENTRY_COST: usize = 128;

/// A call that no server may serve now is tried again after so long, as the daemon's tick does.
const HELD_FOR: Span = Span::from_millis(20);
