//! Changes whose client is gone: what has not left for a server is dropped, with its duplicate entry, its marks, its announcement
//! and its memory. A client that still wants it sends it again on a new connection; if it did so before, the call is that one's.

use crate::event::{Asker, Loop, Shared};
use crate::log;
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
        self.let_go(now, call.claim.take(), Ended::Done);
        self.displace(newest);
    }

    /// Before calls leave on a connection that was just made, those of clients that are gone are taken from it: what has not left,
    /// and writes, of which nobody needs a second copy.
    pub(crate) fn abandon_unsent(&mut self, now: Time, index: usize) {
        let shared = &self.shared;
        let gone = |xid: u32, known: Option<Known>| {
            let newest = known.and_then(|known| {
                let mut replays = shared.replays(xid);
                replays.prefer(&known, |asker| shared.presence.here(*asker));
                replays.newest(&known).copied()
            });
            newest.is_some_and(|newest| !shared.presence.here(newest))
        };
        let unsent = self.links[index].chosen(|flight| {
            let waits = &flight.waits;
            (!flight.left || waits.procedure.idempotent()) && !flight.asked && gone(waits.xid, waits.known)
        });
        for xid in unsent {
            self.take_from(now, index, xid);
        }
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
