//! Changes whose client is gone: what has not left for a server is dropped, with its duplicate
//! entry, its marks, its announcement and its memory. A client that still wants it sends it again
//! on a new connection; if it did so before, the call is that one's.

use crate::event::{Asker, Loop, Shared};
use crate::log;
use crate::realm::End;
use crate::upstream::Held;
use midas_core::cache::Ended;
use midas_core::time::Time;
use midas_net::Known;

/// Forgets a change whose newest asker is gone; who that was.
pub(crate) fn deserted(shared: &Shared, xid: u32, known: Option<Known>) -> Option<Asker> {
    let known = known?;
    let mut replays = shared.replays(xid);
    replays.prefer(&known, |asker| shared.presence.here(*asker));
    let newest = *replays.newest(&known)?;
    // Under the lock: who sends it again now either has joined it before, or begins anew.
    if shared.presence.here(newest) { None } else { replays.forget(&known) }
}

/// The same of a call that waits here, looked for again only when somebody went since the last time.
pub(crate) fn abandoned(shared: &Shared, call: &mut Held) -> Option<Asker> {
    let departures = shared.presence.departures();
    // One that was perhaps executed is found out about first: others wait for that.
    if call.doubtful() || std::mem::replace(&mut call.looked_at, departures) == departures {
        return None;
    }
    deserted(shared, call.errand.forward.xid, call.errand.forward.known)
}

impl Loop {
    /// Drops a change that nobody waits for and that has not left.
    pub(crate) fn abandon(&mut self, now: Time, mut call: Box<Held>, newest: Asker) {
        let forward = &call.errand.forward;
        log::debug("call dropped", &[("call", &forward.procedure), ("why", &"its client is gone")]);
        self.purse.earn(forward.cost);
        // It may have been written down when it was about to leave: nobody need ask what became of
        // it.
        let known = forward.known.filter(|_| !forward.procedure.idempotent());
        if let Some((intents, known)) = self.shared.intents.get().zip(known) {
            intents.ended(now, self.number, (forward.xid, known), None);
        }
        self.let_go(now, call.claim.take(), Ended::Done);
        self.displace(newest);
    }

    /// Before calls leave on a connection that was just made, those of clients that are gone are
    /// taken from it: what has not left, and writes, of which nobody needs a second copy. A server
    /// that has not started anew may still execute a write that has left: it goes again, so that
    /// the answer tells when that is over.
    pub(crate) fn abandon_unsent(&mut self, now: Time, index: usize) {
        let restarted = self.links[index].restarted;
        let unsent = self.links[index].chosen(|flight| {
            let again = !flight.left || restarted && flight.waits.procedure.idempotent();
            again && !flight.asked && flight.waits.known.is_some()
        });
        for xid in unsent {
            self.abandon_sent(now, index, xid);
        }
    }

    /// Drops a call of this link if its client is gone, and whoever waits to know what became of it
    /// waits no longer. Whether it was so.
    pub(crate) fn abandon_sent(&mut self, now: Time, index: usize, xid: u32) -> bool {
        let waits = self.links[index].flights.get_mut(xid).map(|(flight, _)| flight.waits);
        let Some(newest) = waits.and_then(|waits| deserted(&self.shared, waits.xid, waits.known)) else { return false };
        let Some((flight, record)) = self.links[index].flights.remove_with(xid) else { return false };
        let mut call = Box::new(self.recalled(now, flight, record, End::Lost));
        self.resolved(&mut call);
        self.abandon(now, call, newest);
        true
    }

    /// Changes that wait for other proxies, and whose clients are gone.
    pub(crate) fn abandon_clearing(&mut self, now: Time) {
        let Self { shared, clearing, .. } = self;
        let gone = |(number, (_, call)): (usize, &mut (Time, Box<Held>))| Some((number, abandoned(shared, call)?));
        let gone: Vec<(usize, Asker)> = clearing.iter_mut().filter_map(gone).collect();
        for (number, newest) in gone {
            let (_, call) = self.clearing.remove(number);
            self.abandon(now, call, newest);
        }
    }

    /// Changes that wait until a call in doubt is settled, or a late copy is over, and whose clients are gone.
    pub(crate) fn abandon_turning(&mut self, now: Time) {
        let Self { shared, turning, .. } = self;
        let gone = |(number, call): (usize, &mut Box<Held>)| Some((number, abandoned(shared, call)?));
        let gone: Vec<(usize, Asker)> = turning.iter_mut().filter_map(gone).collect();
        for (number, newest) in gone {
            let call = self.leave_turning(number);
            self.abandon(now, call, newest);
        }
    }

    /// Changes that wait for their turn at a name, and whose clients are gone: they hold their memory no longer.
    pub(crate) fn abandon_parked(&mut self, now: Time) {
        let Self { shared, parked, .. } = self;
        let gone = |(number, call): (u64, &mut Held)| Some((number, abandoned(shared, call)?));
        let gone: Vec<(u64, Asker)> = parked.iter_mut().filter_map(gone).collect();
        for (number, newest) in gone {
            if let Some(call) = self.parked.remove(number) {
                self.abandon(now, call, newest);
            }
        }
    }
}
