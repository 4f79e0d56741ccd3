//! Servers: a call waits, runs, and is answered; one whose connection broke may still run until H after it left, or never.

use super::World;
use super::event::{Brought, Event};
use super::truth::{Action, Key};
use midas_core::peer::lease::Life;
use midas_core::time::Time;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Servers {
    calls: BTreeMap<u64, Call>,
    next: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) from: Life,
    pub(super) server: u16,
    pub(super) wants: Wants,
    left: Time,
    turn: u32,
    /// Whether its connection is still there.
    connected: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Wants {
    Read(Vec<Key>),
    Mutate(u64, Action),
    /// Whether it shows that this was executed.
    Look(u64, Action),
}

impl World {
    /// A call leaves now. It may be held up on its way; it runs within H of now, or never.
    pub(super) fn call(&mut self, node: usize, server: u16, wants: Wants) -> u64 {
        self.servers.next += 1;
        let id = self.servers.next;
        let from = self.nodes[node].life;
        let late = self.now < self.plan.calm && self.rng.chance(self.plan.faults.late_send);
        let most = self.plan.terms.hold.scale(0.5);
        let held_up = if late { most.scale(self.rng.unit()) } else { self.plan.delay };
        let heavy = if matches!(wants, Wants::Mutate(..)) { self.plan.heavy } else { 1.0 };
        let service = self.plan.service.scale(heavy * self.rng.exponential()).min(most.scale(0.9));
        let call = Call { from, server, wants, left: self.now, turn: 0, connected: true };
        self.note(|| format!("{node} calls {id} {call:?}"));
        self.servers.calls.insert(id, call);
        self.queue.push(self.now + held_up + service, Event::Run { call: id, turn: 0 });
        id
    }

    pub(super) fn execute(&mut self, id: u64, turn: u32) {
        let Some(Call { from, server, wants, connected, .. }) =
            self.servers.calls.get(&id).filter(|call| call.turn == turn).cloned()
        else {
            return;
        };
        self.servers.calls.remove(&id);
        self.note(|| format!("server {server} runs {id}"));
        let brought = match wants {
            Wants::Read(keys) => {
                Brought::Seen(keys.iter().map(|key| self.truth.read(self.now, server, *key)).collect())
            }
            Wants::Look(operation, action) => Brought::Shown(self.truth.shows(operation, action)),
            Wants::Mutate(operation, action) => {
                self.truth.run(self.now, server, operation, action, &mut self.rng);
                self.checks.ran(self.now, &self.truth, operation, action);
                Brought::Done
            }
        };
        let back = self.plan.delay.scale(self.rng.exponential());
        if connected {
            self.queue.push(self.now + back, Event::Reply { to: from, call: id, brought });
        }
    }

    /// The connections of a life break. It is told of each call, if it lives to hear it.
    pub(super) fn break_calls(&mut self, life: Life) {
        let ids: Vec<u64> =
            self.servers.calls.iter().filter(|(_, call)| call.from == life).map(|(id, _)| *id).collect();
        for id in ids {
            let runs = self.rng.chance(0.7);
            let part = self.rng.unit();
            let Some(call) = self.servers.calls.get_mut(&id).filter(|call| call.connected) else { continue };
            call.connected = false;
            call.turn += 1;
            let (turn, last) = (call.turn, call.left + self.plan.terms.hold);
            if runs {
                let at = self.now + last.since(self.now).scale(part);
                self.queue.push(at, Event::Run { call: id, turn });
            } else {
                self.servers.calls.remove(&id);
            }
            self.queue.push(self.now, Event::Broke { to: life, call: id });
        }
    }
}
