//! Clients: one call at a time each, said again, to the same proxy or another, until it is answered or given up.

use super::World;
use super::event::{Event, Request};
use super::truth::{Action, Key};
use midas_core::time::Time;

#[derive(Debug, Default)]
pub(super) struct Client {
    current: Option<Current>,
    /// A client that asks one proxy for one thing, when all is calm.
    probe: bool,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    operation: u64,
    action: Action,
    node: usize,
    tries: u32,
    asked: Time,
}

impl World {
    pub(super) fn next_call(&mut self, client: usize) {
        if self.now >= self.plan.probe {
            return;
        }
        let action = self.draw();
        let node = self.rng.below(self.nodes.len());
        self.begin_call(client, action, node);
    }

    fn begin_call(&mut self, client: usize, action: Action, node: usize) {
        self.operations += 1;
        let operation = self.operations;
        self.clients[client].current = Some(Current { operation, action, node, tries: 1, asked: self.now });
        self.ask(client);
    }

    /// Every proxy gets one more mutation, from a client of its own.
    pub(super) fn probe(&mut self) {
        for node in 0..self.nodes.len() {
            let object = self.rng.below(usize::from(self.plan.objects)) as u8;
            self.clients.push(Client { current: None, probe: true });
            self.begin_call(self.clients.len() - 1, Action::Bump(object), node);
        }
    }

    /// Probes that were not answered.
    pub(super) fn unanswered(&self) -> Option<(u64, usize)> {
        let waiting = self.clients.iter().filter(|client| client.probe).find_map(|client| client.current);
        waiting.map(|current| (current.operation, current.node))
    }

    fn ask(&mut self, client: usize) {
        let Some(Current { operation, action, node, tries, .. }) = self.clients[client].current else { return };
        let request = Request { client, operation, action, copy: tries > 1 };
        let arrives = self.now + self.plan.delay.scale(self.rng.exponential());
        self.queue.push(arrives, Event::Request { node, request });
        let impatient = self.now + self.plan.patience.scale(0.5 + self.rng.unit());
        self.queue.push(impatient, Event::Impatient { client, operation, tries });
    }

    pub(super) fn impatient(&mut self, client: usize, operation: u64, tries: u32) {
        let nodes = self.nodes.len();
        let elsewhere = self.plan.elsewhere || self.rng.chance(0.5);
        let other = self.rng.below(nodes);
        let Client { current, probe } = &mut self.clients[client];
        let Some(now) = current.as_mut().filter(|now| now.operation == operation && now.tries == tries) else { return };
        if tries >= TRIES_MAX && !*probe {
            *current = None;
            self.queue.push(self.now + self.plan.think, Event::Next { client });
            return;
        }
        now.tries += 1;
        if elsewhere && !*probe {
            now.node = other;
        }
        self.ask(client);
    }

    pub(super) fn answered(&mut self, client: usize, operation: u64) {
        let current = &mut self.clients[client].current;
        let Some(Current { action, asked, .. }) = current.filter(|now| now.operation == operation) else { return };
        *current = None;
        self.checks.answered(self.now, &self.truth, operation, action, asked);
        let think = self.plan.think.scale(self.rng.exponential());
        if !self.clients[client].probe {
            self.queue.push(self.now + think, Event::Next { client });
        }
    }

    fn draw(&mut self) -> Action {
        let mix = self.plan.mix;
        let (names, objects) = (usize::from(self.plan.names), usize::from(self.plan.objects));
        let (name, other) = (self.rng.below(names), 1 + self.rng.below(names - 1));
        let (name, to) = (name as u8, ((name + other) % names) as u8);
        let object = self.rng.below(objects) as u8;
        let choices = [
            (mix.read_name, Action::Read(Key::Name(name))),
            (mix.read_object, Action::Read(Key::Object(object))),
            (mix.set, Action::Set(object)),
            (mix.bump, Action::Bump(object)),
            (mix.make, Action::Make(name, object)),
            (mix.remove, Action::Remove(name)),
            (mix.rename, Action::Rename(name, to)),
        ];
        let total: u32 = choices.iter().map(|(weight, _)| weight).sum();
        let mut at = self.rng.below(total as usize) as u32;
        for (weight, action) in choices {
            match at.checked_sub(weight) {
                Some(rest) => at = rest,
                None => return action,
            }
        }
        unreachable!("the weights add up to their total")
    }
}

/// A call is said so often.
const TRIES_MAX: u32 = 5;
