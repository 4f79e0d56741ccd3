//! How an event loop has questions resolved, and what becomes of the calls that waited for them.

use crate::clerk::{Job, Unknown};
use crate::dispatch::{self, Batch, Moment, Taken};
use crate::event::{Client, Loop};
use crate::unresolved::{Call, Resolution};
use crate::upstream;
use midas_nfs::nfs3::Nfsstat3;
use std::sync::Arc;
use std::time::Instant;

impl Loop {
    /// Has the next questions asked.
    pub(crate) fn ask_questions(&mut self) {
        while let Some(unknown) = self.unresolved.next_question(self.now) {
            let job = Job::Sort { unknown: Arc::clone(&unknown), event_loop: self.number };
            if self.desk.give(job).is_err() {
                self.unresolved.not_given(&unknown);
                return;
            }
        }
    }

    /// A question was resolved: calls that waited for it are taken, or fail.
    pub(crate) fn question_resolved(&mut self, unknown: &Unknown, how: Resolution) {
        for (number, call) in self.unresolved.resolved(self.now, unknown, how) {
            match how {
                Resolution::Known => self.take_resolved(number, call),
                Resolution::Nowhere => self.fail_unresolved(&call, Nfsstat3::STALE),
                Resolution::Untold => {}
            }
        }
        self.ask_questions();
    }

    /// Answers a call that waited in vain.
    fn fail_unresolved(&mut self, call: &Call, status: Nfsstat3) {
        self.purse.earn(call.cost());
        let Some(slot) = self.slot_of(call.asker) else { return };
        let client = &mut self.clients[slot];
        client.answered(call.cost());
        let out = client.connection.output(&mut self.buffers);
        dispatch::fail(&self.shared.tallies[self.number], &call.record, status, out);
        self.flush(slot);
    }

    fn take_resolved(&mut self, number: u64, call: Call) {
        let cost = call.cost();
        self.purse.earn(cost);
        let Some(slot) = self.slot_of(call.asker) else { return };
        let moment = Moment { instant: self.now, time: self.time };
        let Self { shared, clients, links, unresolved, buffers, purse, number: own, memo, .. } = self;
        let Client { connection, origin, waiting, owed, .. } = &mut clients[slot];
        *owed = owed.saturating_sub(cost);
        let (mut displaced, mut waits) = (None, None);
        let out = connection.output(buffers);
        let mut batch = Batch::new(shared, *own, memo);
        match dispatch::take(moment, shared, origin, &mut batch, &call.record, out) {
            // A name may have to be resolved after another one, or after whose its directory is.
            Taken::Unsorted(unknown) => {
                *owed += cost;
                purse.spend(cost);
                unresolved.put_back(moment.instant, number, call, unknown);
            }
            Taken::Forward(forward, squashed, claim) => {
                let record = squashed.as_ref().unwrap_or(&call.record);
                *owed += forward.cost;
                purse.spend(forward.cost);
                waits = upstream::begin(moment.time, shared, links, buffers, (call.asker, &forward, claim), record);
            }
            Taken::Joined { displaced: asker } => displaced = Some(asker),
            Taken::Shared(cost) => {
                *owed += cost;
                purse.spend(cost);
            }
            Taken::Done | Taken::Find(..) => *waiting = waiting.saturating_sub(1),
        }
        if let Some(call) = waits {
            self.hold(call);
        }
        self.flush(slot);
        if let Some(asker) = displaced {
            self.displace(asker);
        }
    }

    /// Gives up what has waited for too long, and asks again what nobody could tell.
    pub(crate) fn tend_unresolved(&mut self, now: Instant) {
        for call in self.unresolved.overdue(now) {
            self.tally().given_up.add(1);
            crate::log::warn(
                "call given up: its handle's export or its name is not known",
                &[("client", &call.address)],
            );
            self.fail_unresolved(&call, Nfsstat3::JUKEBOX);
        }
        self.unresolved.tend(now);
        self.ask_questions();
    }

    /// A client is gone, and with it what waited for it.
    pub(crate) fn forget_unresolved(&mut self, slot: usize) {
        for call in self.unresolved.of_ended(slot as u32) {
            self.purse.earn(call.cost());
        }
    }
}
