//! Several proxies that keep caches together, under every fault that the protocol claims to stand: the very [`lease`](midas_core::peer::lease)
//! and [`cache`](midas_core::cache) code of the daemon, on simulated time.
//!
//! One seed is one world. It must find a wrong answer when a rule is taken away; that is what each [`Family`] is for. Views come from a
//! model of a consensus, not from one: what matters is what a consensus may give, not how it gets there.

mod aim;
mod check;
mod clients;
mod event;
mod family;
mod faults;
mod fetch;
mod hold;
mod mutate;
mod net;
mod node;
mod read;
mod servers;
#[cfg(test)]
mod tests;
mod truth;
mod views;

pub use check::{Violation, Wrong};
pub use family::Family;

use crate::queue::Queue;
use check::Checks;
use clients::Client;
use event::{Clock, Event};
use family::{Laws, Plan};
use midas_core::peer::lease::{Effect, Life, Message};
use midas_core::rng::{Rng, mix};
use midas_core::time::{Span, Time};
use net::Net;
use node::{Node, Whose};
use servers::Servers;
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use truth::{Key, Truth};
use views::Council;

/// One world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What it aims at.
    pub family: Family,
    /// How many proxies.
    pub proxies: usize,
    /// Its chance.
    pub seed: u64,
}

/// What became of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The first broken promise.
    pub violation: Option<Violation>,
    /// A number for all that happened.
    pub digest: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// Those from a cache.
    pub hits: u64,
    /// Answers that a proxy had from another one.
    pub fetched: u64,
    /// Mutations that were answered.
    pub mutations: u64,
    /// Messages between proxies.
    pub messages: u64,
    /// How long each mutation waited at its proxy before it left for the server.
    pub waits: Vec<Span>,
}

/// Runs one world with every rule; a violation comes with what happened before it.
pub fn run(setting: Setting) -> Outcome {
    explained(setting, Laws::ALL)
}

/// For tests only: without the rule that the family aims at.
#[doc(hidden)]
pub fn run_broken(setting: Setting) -> Outcome {
    World::new(setting, setting.family.without(), false).run()
}

/// The same, and what happened before the violation.
#[doc(hidden)]
pub fn explain_broken(setting: Setting) -> Outcome {
    explained(setting, setting.family.without())
}

/// A trace is dear, so a world that breaks is run again for it.
fn explained(setting: Setting, laws: Laws) -> Outcome {
    let outcome = World::new(setting, laws, false).run();
    match outcome.violation {
        Some(_) => World::new(setting, laws, true).run(),
        None => outcome,
    }
}

#[derive(Debug)]
struct World {
    now: Time,
    queue: Queue<Event>,
    rng: Rng,
    plan: Plan,
    laws: Laws,
    nodes: Vec<Node>,
    net: Net,
    truth: Truth,
    servers: Servers,
    clients: Vec<Client>,
    council: Council,
    checks: Checks,
    operations: u64,
    tokens: u64,
    digest: u64,
    trace: Option<VecDeque<String>>,
}

impl World {
    fn new(setting: Setting, laws: Laws, traced: bool) -> Self {
        let Setting { family, proxies, seed } = setting;
        let plan = family.plan(proxies, seed, laws);
        let mut rng = Rng::for_purpose(seed, 0x636c_7573);
        let nodes: Vec<Node> =
            (0..proxies).map(|index| Node::new(index, clock(&plan, &mut rng), &plan, laws)).collect();
        let council = Council::new(nodes.iter().map(|node| node.life).collect());
        let mut world = Self {
            now: Time::ZERO,
            queue: Queue::default(),
            rng,
            truth: Truth::new(plan.names, plan.objects, plan.stale),
            clients: (0..plan.clients).map(|_| Client::default()).collect(),
            plan,
            laws,
            nodes,
            net: Net::default(),
            servers: Servers::default(),
            council,
            checks: Checks::default(),
            operations: 0,
            tokens: 0,
            digest: seed,
            trace: traced.then(VecDeque::new),
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.queue.push(Time::ZERO, Event::Council);
        self.queue.push(Time::ZERO + self.plan.terms.lease, Event::Dice);
        self.queue.push(self.plan.calm, Event::Calm);
        self.queue.push(self.plan.probe, Event::Probe);
        for (at, fault) in std::mem::take(&mut self.plan.script) {
            self.queue.push(at, Event::Fault(fault));
        }
        for client in 0..self.clients.len() {
            self.queue.push(Time::ZERO, Event::Next { client });
        }
    }

    fn run(mut self) -> Outcome {
        while let Some((at, event)) = self.queue.pop().filter(|(at, _)| *at <= self.plan.end) {
            self.now = at;
            self.digest = mix(self.digest ^ mix(at.as_nanos()) ^ event.kind());
            match event.node().map(|node| &self.nodes[node]) {
                Some(node) if !node.up => {}
                Some(node) if at < node.paused_until => {
                    let until = node.paused_until;
                    self.queue.push(until, event);
                }
                Some(_) | None => self.meet(event),
            }
            if self.checks.violation.is_some() {
                break;
            }
        }
        if self.checks.violation.is_none() {
            self.now = self.plan.end;
            self.check_progress();
        }
        self.outcome()
    }

    fn outcome(self) -> Outcome {
        let Checks { mut violation, reads, hits, fetched, mutations, messages, waits } = self.checks;
        if let (Some(violation), Some(trace)) = (&mut violation, self.trace) {
            violation.trace = trace.into();
        }
        Outcome { violation, digest: self.digest, reads, hits, fetched, mutations, messages, waits }
    }

    fn meet(&mut self, event: Event) {
        match event {
            Event::Hear { to, from, message } => self.hear(to, from, message),
            Event::View { to, view } => {
                if let Some(node) = self.living(to) {
                    self.note(|| format!("{node} learns view {}", view.epoch));
                    let local = self.local(node);
                    self.nodes[node].member.view(local, view);
                    self.pump(node);
                }
            }
            Event::Tick(life) => self.tick(life),
            Event::Request { node, request } => self.request(node, request),
            Event::Reply { to, call, brought } => self.reply(to, call, &brought),
            Event::Fetch { to, from, flight, key } => self.fetch_asked(to, from, flight, key),
            Event::Fetched { to, flight, seen } => self.fetched(to, flight, seen),
            Event::Silent { to, flight } => self.fetched(to, flight, None),
            Event::Broke { to, call } => self.broke(to, call),
            Event::Retry { to, operation } => {
                if let Some(node) = self.living(to) {
                    self.try_job(node, operation);
                    self.pump(node);
                }
            }
            Event::Free { to, token } => self.free(to, token),
            Event::Rest { to, object } => self.rest(to, object),
            Event::Run { call, turn } => self.execute(call, turn),
            Event::Answer { client, operation } => self.answered(client, operation),
            Event::Next { client } => self.next_call(client),
            Event::Impatient { client, operation, tries } => self.impatient(client, operation, tries),
            Event::Fault(fault) => self.fault(fault),
            Event::Dice => self.dice(),
            Event::Restart { node } => self.restart(node),
            Event::Heal { cut } => self.net.heal(cut),
            Event::Council => self.council(),
            Event::Calm => self.calm(),
            Event::Probe => self.probe(),
        }
    }

    fn hear(&mut self, to: Life, from: Life, message: Message<Key>) {
        let Some(node) = self.living(to) else { return };
        let local = self.local(node);
        self.note(|| format!("{node} hears {} {message:?}", from.member.0));
        self.nodes[node].member.hear(local, from, message);
        self.pump(node);
    }

    fn tick(&mut self, life: Life) {
        let Some(node) = self.living(life).filter(|node| self.nodes[*node].tick_at <= self.now) else { return };
        self.nodes[node].tick_at = Time::FAR;
        let local = self.local(node);
        self.nodes[node].member.tick(local);
        self.pump(node);
    }

    /// Carries out what a member wants, and has it woken in time.
    fn pump(&mut self, node: usize) {
        let local = self.local(node);
        while let Some(effect) = self.nodes[node].member.effect() {
            self.carry_out(node, local, effect);
        }
        let Node { member, clock, tick_at, life, .. } = &mut self.nodes[node];
        let next = clock.real(member.next_at()).max(self.now);
        if next < *tick_at && next < Time::FAR {
            *tick_at = next;
            self.queue.push(next, Event::Tick(*life));
        }
    }

    fn carry_out(&mut self, node: usize, local: Time, effect: Effect<Key>) {
        match effect {
            Effect::Send(to, message) => self.send(node, to, &message),
            Effect::Flush => {
                self.note(|| format!("{node} flushes"));
                self.nodes[node].flush(local);
            }
            Effect::Mark(id, intent) => {
                let node = &mut self.nodes[node];
                let marks = intent.keys.iter().map(|key| node.cache.mark(local, *key)).collect();
                node.desk.marks.insert(id, marks);
                if let Some(server) = intent.server {
                    node.pin(id, intent.keys.into_vec(), server);
                }
            }
            Effect::Unmark(id) => {
                let node = &mut self.nodes[node];
                for mark in node.desk.marks.remove(&id).into_iter().flatten() {
                    node.cache.end(local, mark, midas_core::cache::Ended::Done);
                }
                node.unpin(local, id);
            }
            Effect::Drop(keys) => {
                let cache = &mut self.nodes[node].cache;
                keys.into_iter().for_each(|key| cache.invalidate(local, key));
            }
            Effect::Permit(id, until) => self.permitted(node, id, until),
            Effect::Refused(id, why) => self.refused(node, id, why),
            Effect::Recall(id) => {
                if let Some(Whose::Hold(object)) = self.nodes[node].desk.attempts.get(&id).copied() {
                    self.hold_refused(node, object, id);
                }
            }
        }
    }

    fn send(&mut self, node: usize, to: Life, message: &Message<Key>) {
        let from = self.nodes[node].life;
        self.carry(node, to, || Event::Hear { to, from, message: message.clone() });
    }

    /// Something is said from proxy to proxy.
    fn carry(&mut self, node: usize, to: Life, event: impl Fn() -> Event) {
        self.checks.messages += 1;
        let faults = self.plan.faults;
        let calm = self.now >= self.plan.calm;
        if !self.net.passes(node, usize::from(to.member.0)) || !calm && self.rng.chance(faults.loss) {
            return;
        }
        let copies = if !calm && self.rng.chance(faults.doubled) { 2 } else { 1 };
        for _ in 0..copies {
            let slow = !calm && self.rng.chance(faults.slow);
            let delay = match slow {
                true => self.plan.slow_span.scale(self.rng.unit()),
                false => self.plan.delay.scale(0.2 + self.rng.exponential()),
            };
            self.queue.push(self.now + delay, event());
        }
    }

    /// The node of this life, if it lives.
    fn living(&self, life: Life) -> Option<usize> {
        let node = usize::from(life.member.0);
        (self.nodes[node].up && self.nodes[node].life == life).then_some(node)
    }

    fn local(&self, node: usize) -> Time {
        self.nodes[node].local(self.now)
    }

    fn check_progress(&mut self) {
        let leased = |node: &Node| node.leased(node.local(self.now));
        if let Some(node) = self.nodes.iter().position(|node| !leased(node)) {
            let detail = format!("node {node} has no leases: {:?}", self.nodes[node].member.acting_in());
            self.checks.broken(Wrong::Stuck, self.now, detail);
        }
        if let Some((operation, node)) = self.unanswered() {
            let job = self.nodes[node].desk.jobs.get(&operation);
            self.checks.broken(Wrong::Stuck, self.now, format!("operation {operation} waits at node {node}: {job:?}"));
        }
    }

    /// A line of the trace.
    fn note(&mut self, line: impl FnOnce() -> String) {
        let at = self.now.as_secs_f64();
        if let Some(trace) = &mut self.trace {
            if trace.len() == TRACE_MAX {
                trace.pop_front();
            }
            trace.push_back(format!("{at:.6} {}", line()));
        }
    }
}

fn clock(plan: &Plan, rng: &mut Rng) -> Clock {
    let rate = match plan.extreme {
        true => [900_000, 1_100_000][rng.below(2)],
        false => 900_000 + rng.below(200_001) as u64,
    };
    Clock { rate, offset: rng.below(1 << 40) as u64 }
}

/// How many proxies a world may have.
pub const PROXIES: RangeInclusive<usize> = 3..=16;
/// Lines that are kept before a violation.
const TRACE_MAX: usize = 4000;
