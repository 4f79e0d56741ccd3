//! Objects under write pressure: announced once, for any number of calls that may run twice (R12).

use super::World;
use super::event::{Event, Request};
use super::node::{Hold, Node, Purpose, Whose};
use super::servers::Wants;
use super::truth::{Action, Key};
use midas_core::peer::lease::{AttemptId, Life, Outcome, Purpose as Announced, Rule};
use midas_core::time::Time;

impl World {
    /// Whether a mutation leaves under a hold; if its object has none, perhaps it gets one.
    pub(super) fn under_hold(&mut self, node: usize, request: Request, copy: bool) -> bool {
        let Request { client, operation, action, .. } = request;
        let local = self.local(node);
        let (object, fits) = match action {
            Action::Set(object) => (object, !copy),
            Action::Bump(object) => (object, !self.laws.lease.has(Rule::Identity)),
            Action::Read(_) | Action::Make(..) | Action::Remove(_) | Action::Rename(..) => return false,
        };
        if !self.plan.holds {
            return false;
        }
        let now = self.now;
        let Some(hold) = self.nodes[node].desk.holds.get_mut(&object) else {
            let before = self.nodes[node].desk.set_at.insert(object, now);
            if before.is_some_and(|before| now.since(before) < self.plan.think * 8) {
                self.begin_hold(node, object);
            }
            return false;
        };
        if !fits || hold.over || local >= hold.until {
            return false;
        }
        hold.in_flight += 1;
        hold.last = now;
        let server = hold.server;
        self.checks.waits.push(midas_core::time::Span::ZERO);
        let call = self.call(node, server, Wants::Mutate(operation, action));
        self.nodes[node].desk.calls.insert(call, Purpose::Held(object, operation, client));
        true
    }

    fn begin_hold(&mut self, node: usize, object: u8) {
        let local = self.local(node);
        let keys = [Key::Object(object)];
        let Some(server) = self.server_for(node, &keys) else { return };
        let intent = self.intent(None, &keys, Vec::new(), server);
        let pin = intent.server;
        let Node { cache, desk, member, life, .. } = &mut self.nodes[node];
        let mark = cache.mark(local, keys[0]);
        match member.announce(local, intent, Announced::Hold) {
            Ok(id) => {
                desk.attempts.insert(id, Whose::Hold(object));
                let hold = Hold {
                    id,
                    until: Time::ZERO,
                    server,
                    marks: vec![mark],
                    in_flight: 0,
                    last: self.now,
                    over: false,
                };
                desk.holds.insert(object, hold);
                let rest = self.now + self.plan.terms.lease.scale(REST);
                self.queue.push(rest, Event::Rest { to: *life, object });
                if let Some(server) = pin {
                    self.nodes[node].pin(id, keys.to_vec(), server);
                }
            }
            Err(_) => cache.end(local, mark, midas_core::cache::Ended::Done),
        }
    }

    /// A hold that nobody needs is given back, when no call under it is on its way.
    pub(super) fn rest(&mut self, to: Life, object: u8) {
        let Some(node) = self.living(to) else { return };
        let quiet = self.laws.lease.has(Rule::Quiet);
        let Some(hold) = self.nodes[node].desk.holds.get_mut(&object) else { return };
        hold.over |= self.now.since(hold.last) >= self.plan.think * 8;
        if hold.over && (hold.in_flight == 0 || !quiet) {
            self.end_hold(node, object, &Outcome::Replied(None));
        } else {
            let rest = self.now + self.plan.terms.lease.scale(REST);
            self.queue.push(rest, Event::Rest { to, object });
        }
        self.pump(node);
    }

    fn end_hold(&mut self, node: usize, object: u8, outcome: &Outcome) {
        if let Some(hold) = self.nodes[node].desk.holds.remove(&object) {
            self.end_attempts(node, vec![hold.id], hold.marks, outcome);
        }
    }

    pub(super) fn hold_refused(&mut self, node: usize, object: u8, id: AttemptId) {
        let Some(hold) = self.nodes[node].desk.holds.get_mut(&object).filter(|hold| hold.id == id) else { return };
        // What left under it ends first.
        hold.over = true;
        if hold.in_flight == 0 {
            self.end_hold(node, object, &Outcome::Replied(None));
        }
    }

    pub(super) fn done_held(&mut self, node: usize, object: u8, operation: u64, client: usize) {
        if let Some(hold) = self.nodes[node].desk.holds.get_mut(&object) {
            hold.in_flight = hold.in_flight.saturating_sub(1);
        }
        self.answer(client, operation);
    }

    /// A call under a hold may run until H has passed.
    pub(super) fn lost_held(&mut self, node: usize, object: u8) {
        self.end_hold(node, object, &Outcome::Lost);
    }
}

/// How often a hold is looked at, in leases.
const REST: f64 = 0.1;
