//! An event loop's calls that wait for the caches: mutations of names that must be looked up first, that another mutation is under way of, or
//! that other proxies must be told of.

use crate::accord::{Accord, Doubted, Place};
use crate::claim::{self, Changes, Claim, Clearance, Prepared};
use crate::clerk::{Job, Leads};
use crate::counters::status;
use crate::dispatch::Forward;
use crate::event::{Loop, Shared};
use crate::exclusive::{Exclusive, Waiter};
use crate::log;
use crate::peers::Peers;
use crate::upstream::{HERE, Held};
use midas_core::cache::Ended;
use midas_core::key::Key;
use midas_core::peer::lease::{AttemptId, Operation, Refusal, Trace};
use midas_core::time::{Span, Time};
use midas_nfs::nfs3::{Nfsstat3, Reply};
use std::sync::Arc;

impl Loop {
    /// A call that may leave, as far as the caches are concerned; otherwise it is kept for later.
    pub(crate) fn prepared(&mut self, now: Time, call: Box<Held>) -> Option<Box<Held>> {
        // Whoever was refused comes back in a while, and not with what it knew before.
        if call.refused_at.is_some_and(|refused| now.since(refused) < pause(call.errand.forward.xid)) {
            self.held.push_back(call);
            return None;
        }
        let mut call = self.in_turn(now, call)?;
        if call.claim.is_none() {
            let Held { errand, record, queued, .. } = &mut *call;
            match errand.prepare(now, &self.shared, queued, record) {
                Prepared::Ready(claim) => call.claim = claim,
                Prepared::Find(claim, unfound) => (call.claim, call.unfound) = (Some(claim), unfound),
                Prepared::Busy => {
                    let call = self.first_of_all(now, call)?;
                    self.hold(call);
                    return None;
                }
            }
        }
        if let Some(peer) = call.peer.take() {
            call = self.fetch(now, peer, call)?;
        }
        if let (Some(accord), Some(Claim::Changes(_))) = (self.shared.accord().cloned(), &call.claim) {
            call = self.cleared_by_all(now, &accord, call)?;
        }
        if call.unfound.is_empty() {
            return Some(call);
        }
        if call.asked_at.is_some_and(|asked| now.since(asked) < ASK_AGAIN) {
            self.held.push_back(call);
            return None;
        }
        call.asked_at = Some(now);
        let (realm, names) = (call.errand.forward.realm, call.unfound.clone());
        let record = call.record.clone();
        let number = self.finding.insert(call);
        if self.desk.give(Job::Lead { realm, names, record, event_loop: self.number, number }).is_err() {
            // Too many at once: it is asked for at the next tick.
            let call = self.finding.remove(number);
            self.held.push_back(call);
        }
        None
    }

    /// A call whose turn it is at what it changes; otherwise it waits in a queue.
    fn in_turn(&mut self, now: Time, mut call: Box<Held>) -> Option<Box<Held>> {
        let Forward { procedure, ref meaning, .. } = call.errand.forward;
        // What a WRITE must wait for may have come since it was last looked at.
        let looks = |turn: &Exclusive| procedure.idempotent() && turn.first.is_none();
        if call.turn.as_ref().is_none_or(looks) {
            call.turn = Exclusive::needed(&self.shared.turns, meaning, procedure);
        }
        if call.queues() && self.shared.turns.some_told() && self.was_sent_elsewhere(&call) {
            call.turn = Some(Exclusive::sent_elsewhere(&self.shared.turns));
        }
        if call.turn.as_ref().is_some_and(Exclusive::kept_back) {
            self.unmark(now, &mut call);
            self.held.push_back(call);
            return None;
        }
        if !call.queues() {
            return Some(call);
        }
        if call.turn.as_mut().is_none_or(|turn| turn.take(None, false)) {
            return Some(call);
        }
        let mut call = self.first_of_all(now, call)?;
        // Whoever it waits for may have to change what it has marked.
        call.claim = self.let_go(now, call.claim.take(), Ended::Done);
        call.unfound.clear();
        let first = call.left_place;
        let number = self.turning.insert(call);
        let waiter = Waiter { event_loop: self.number, number };
        if self.turning[number].turn.as_mut().is_none_or(|turn| turn.take(Some(waiter), first)) {
            return Some(self.turning.remove(number));
        }
        None
    }

    /// A call that must wait for others: if a member that is gone has sent it before, they wait for
    /// what became of it, so that is found out first. The others would otherwise wait in vain for as
    /// long as they are kept from its names, then change those, and hide it.
    ///
    /// The call leaves its place only where the members keep its names from everybody meanwhile. Where
    /// it is still under way, or nobody can be sure any more, its place is all that protects it.
    pub(crate) fn first_of_all(&mut self, now: Time, mut call: Box<Held>) -> Option<Box<Held>> {
        let known = self.shared.accord().and_then(|accord| tried(&self.shared, accord, &call));
        call.known = known.is_some();
        match known.filter(settles) {
            Some(why) => {
                call.left_place = true;
                self.bar(now, call, why);
                None
            }
            None => Some(call),
        }
    }

    /// Asks again what became of calls that wait and that members have sent before, and of those that
    /// a server is asked about. That also keeps others from their names. When members come to know of
    /// more lost calls, all that wait are looked at: they may be among them.
    fn tend_tried(&mut self, now: Time) {
        let Some(accord) = self.shared.accord().cloned().filter(|accord| accord.lost() > 0) else { return };
        let ((asked, seen), lost) = (self.parked.asked, accord.lost());
        let news = lost != seen;
        if !news && now.since(asked) < accord.ask_again() {
            return;
        }
        self.parked.asked = (now, lost);
        let Self { shared, turning, parked, doubted, .. } = self;
        let ask = |call: &mut Held| {
            let known = if news || call.known { tried(shared, &accord, call) } else { None };
            call.known = known.is_some();
            known.filter(settles)
        };
        let turning: Vec<(usize, Refusal)> =
            turning.iter_mut().filter_map(|(number, call)| Some((number, ask(call)?))).collect();
        let parked: Vec<(u64, Refusal)> =
            parked.iter_mut().filter_map(|(number, call)| Some((number, ask(call)?))).collect();
        for (_, call) in doubted.iter().filter(|(_, call)| call.doubt.is_some()) {
            drop(tried(shared, &accord, call));
        }
        for (number, why) in turning {
            let mut call = self.leave_turning(number);
            call.left_place = true;
            self.bar(now, call, why);
        }
        for (number, why) in parked {
            if let Some(call) = self.parked.remove(number) {
                self.bar(now, call, why);
            }
        }
    }

    /// A call waits for its turn no longer.
    pub(crate) fn leave_turning(&mut self, number: usize) -> Box<Held> {
        // Whoever wakes it just now finds it gone, and wakes the next one.
        let call = self.turning.remove(number);
        if let Some(key) = call.turn.as_ref().and_then(Exclusive::waits_for) {
            self.shared.turns.give_up(key, Waiter { event_loop: self.number, number });
        }
        call
    }

    /// Whether another member has moved this call away from a server: its client sends it again here.
    fn was_sent_elsewhere(&self, call: &Held) -> bool {
        self.operation(call).is_some_and(|of| self.shared.turns.was_sent_elsewhere(of))
    }

    /// A call that must wait: its marks end, and are set anew when it may leave.
    pub(crate) fn unmark(&self, now: Time, call: &mut Held) {
        call.claim = self.let_go(now, call.claim.take(), Ended::Done);
        call.unfound.clear();
    }

    /// What is too old keeps nobody waiting, and need not be known any more.
    pub(crate) fn tend_turns(&self, now: Time) {
        if self.number == 0 {
            self.shared.turns.expire(now);
        }
        if let Some(intents) = self.shared.intents.get() {
            intents.tick(now, self.number);
        }
    }

    /// A call that waited for this key may have it now.
    pub(crate) fn turn_came(&mut self, now: Time, number: usize, key: Key) {
        let waiter = Waiter { event_loop: self.number, number };
        let turn = self.turning.get_mut(number).and_then(|call| call.turn.as_mut());
        match turn.filter(|turn| turn.waits_for() == Some(key)) {
            Some(turn) => {
                if turn.take(Some(waiter), true) {
                    let call = self.turning.remove(number);
                    self.try_call(now, call);
                }
            }
            // Its place is another call's by now.
            None => self.shared.turns.pass_on(key),
        }
    }

    /// It was found out where names lead, or not yet.
    pub(crate) fn led(&mut self, now: Time, number: usize, found: Option<Vec<Leads>>) {
        let Some(mut call) = self.finding.try_remove(number) else { return };
        let known = found.is_some();
        if let (Some(found), Some(Claim::Changes(changes))) = (found, &mut call.claim) {
            for (unfound, object) in std::mem::take(&mut call.unfound).iter().zip(found) {
                match object {
                    Leads::To(object) => changes.found(now, &self.shared, object, unfound),
                    Leads::Nowhere => changes.found_nothing(unfound),
                    Leads::Refused => changes.unsure(),
                }
            }
        }
        match known {
            true => self.try_call(now, call),
            // It is asked for again at the next tick.
            false => self.held.push_back(call),
        }
    }

    /// A mutation that the other proxies let through; otherwise they are told of it, and it waits for them.
    fn cleared_by_all(&mut self, now: Time, accord: &Arc<Accord>, mut call: Box<Held>) -> Option<Box<Held>> {
        let Some(Claim::Changes(changes)) = &mut call.claim else { return Some(call) };
        let alone = || !accord.acts() || self.shared.peers().is_some_and(Peers::cut_off);
        if !changes.patient() && (call.impatient || alone()) {
            return Some(call);
        }
        match changes.clearance(&self.shared, accord) {
            Clearance::Given => Some(call),
            Clearance::Void => {
                self.unmark(now, &mut call);
                self.held.push_back(call);
                None
            }
            Clearance::Lapsed => {
                let lapsed = changes.lapsed(accord.now());
                let number = self.clearing.insert((now, call));
                accord.again((self.number, Place::Clearing(number)), lapsed);
                None
            }
            Clearance::Tell(keys, names, led) => {
                let holdable = call.errand.forward.procedure.idempotent() && names.is_empty() && !keys.is_empty();
                if let Some((id, until)) = holdable.then(|| accord.under_hold(&keys)).flatten() {
                    changes.told(id);
                    changes.cleared(id, until);
                    return Some(call);
                }
                // What its name resolves to now may be its first sending's doing.
                let led = call.turn.as_ref().and_then(|turn| turn.seen).or(led);
                let first = changes.attempts().next().is_none();
                let operation = (self.operation(&call), first);
                let refused = call.refused;
                let number = self.clearing.insert((now, call));
                let announced =
                    accord.announce((self.number, Place::Clearing(number)), operation, (keys, names), (led, refused));
                match (announced, self.clearing.get_mut(number)) {
                    (Ok(id), Some((_, call))) => {
                        if let Some(Claim::Changes(changes)) = &mut call.claim {
                            changes.told(id);
                            if changes.overtaken(&self.shared) {
                                self.barred(now, number, Refusal::Busy);
                            }
                        }
                    }
                    (Err(why), _) => self.barred(now, number, why),
                    (Ok(_), None) => {}
                }
                None
            }
        }
    }

    /// What must not be executed twice at whichever proxy it comes in; none for what may.
    pub(crate) fn operation(&self, call: &Held) -> Option<Operation> {
        call.errand.operation(&self.shared, &call.record)
    }

    /// The other proxies let a call through.
    pub(crate) fn let_through(&mut self, now: Time, place: Place, id: AttemptId, until: Time) {
        match place {
            Place::Clearing(number) => {
                let Some((_, call)) = self.clearing.get_mut(number) else { return };
                let Some(Claim::Changes(changes)) = &mut call.claim else { return };
                changes.cleared(id, until);
                if !changes.waits() {
                    let (_, call) = self.clearing.remove(number);
                    self.try_call(now, call);
                }
            }
            Place::Flight { link, xid } => {
                let waits = self.links[link].doubts.contains(&xid);
                let Some((flight, _)) = self.links[link].flights.get_mut(xid) else { return };
                if let Some(Claim::Changes(changes)) = &mut flight.claim {
                    changes.cleared(id, until);
                }
                // What was sent meanwhile, or is being found out, is not sent by this.
                if flight.overdue && !flight.asked && !waits {
                    flight.overdue = false;
                    self.links[link].send(self.shared.clock.now(), xid, &mut self.buffers);
                }
            }
        }
    }

    /// Somebody refused an announcement. What was sent before stays where it is: it may run.
    pub(crate) fn turned_down(&mut self, now: Time, place: Place, id: AttemptId, why: Refusal) {
        let number = match place {
            Place::Clearing(number) => number,
            Place::Flight { link, xid } => {
                let of_that = |changes: &Changes| changes.attempts().any(|attempt| attempt == id);
                let claim = self.links[link].flights.get_mut(xid).and_then(|(flight, _)| flight.claim.as_ref());
                if matches!(claim, Some(Claim::Changes(changes)) if of_that(changes)) {
                    self.settle_without(now, link, xid);
                }
                return;
            }
        };
        let claim = self.clearing.get(number).and_then(|(_, call)| call.claim.as_ref());
        // Its place may be another call's by now.
        if matches!(claim, Some(Claim::Changes(changes)) if changes.attempts().any(|attempt| attempt == id)) {
            self.barred(now, number, why);
        }
    }

    fn barred(&mut self, now: Time, number: usize, why: Refusal) {
        if let Some((_, call)) = self.clearing.try_remove(number) {
            self.bar(now, call, why);
        }
    }

    /// A call that must not leave now.
    fn bar(&mut self, now: Time, mut call: Box<Held>, why: Refusal) {
        self.unmark(now, &mut call);
        match why {
            Refusal::UnderWay | Refusal::Busy | Refusal::Over => {
                (call.refused_at, call.refused) = (Some(now), call.refused + 1);
                self.held.push_back(call);
            }
            Refusal::Executed(Some(results)) => {
                let forward = &call.errand.forward;
                if let Ok(reply) = Reply::decode(forward.procedure, &results) {
                    self.shared.whose.learn_from(forward.owner, forward.procedure, &call.record, &reply);
                }
                self.tally().here(forward.procedure, status(&results));
                let asked = forward.asked(&call.record);
                asked.tell((now, self.number), &self.shared, forward.whom, HERE, Some(&results));
                self.relay().results(call.errand.waits(), &results);
                self.flush_touched();
            }
            // Of what must not be executed twice every answer is short enough to be told.
            Refusal::Executed(None) => self.refuse(now, *call, Nfsstat3::SERVERFAULT),
            Refusal::Doubtful(id, trace) => {
                let Forward { procedure, xid, .. } = call.errand.forward;
                log::debug(
                    "a call of unknown end",
                    &[
                        ("procedure", &format_args!("{procedure:?}")),
                        ("xid", &xid),
                        ("attempt", &format_args!("{id:?}")),
                        ("shows", &format_args!("{trace:?}")),
                    ],
                );
                call.doubt = self.shared.accord().map(|accord| Doubted { id, trace, since: accord.now() });
                // Another one each time: one may be slow.
                let some = self.shared.exports[call.errand.forward.realm].pool.some_open(call.refused as usize);
                (call.refused_at, call.refused) = (Some(now), call.refused + 1);
                match some {
                    Some(server) => self.find_out(now, call, server),
                    None => self.held.push_back(call),
                }
            }
        }
    }

    /// Calls of exports that do not rely on the others wait for them only so long.
    pub(crate) fn tend_clearing(&mut self, now: Time) {
        self.tend_tried(now);
        self.abandon_clearing(now);
        let late = |(since, call): &(Time, Box<Held>)| {
            let patient = matches!(&call.claim, Some(Claim::Changes(changes)) if changes.patient());
            !patient && now.since(*since) > INTENT_WAIT
        };
        let late: Vec<usize> =
            self.clearing.iter().filter(|(_, entry)| late(entry)).map(|(number, _)| number).collect();
        for number in late {
            let (_, mut call) = self.clearing.remove(number);
            call.claim = self.let_go(now, call.claim.take(), Ended::Done);
            call.impatient = true;
            self.held.push_back(call);
        }
    }

    /// Calls on links that may not be sent again before the others know.
    pub(crate) fn tend_overdue(&mut self, now: Time) {
        let Some(accord) = self.shared.accord().cloned() else { return };
        for index in 0..self.links.len() {
            let overdue = self.links[index].chosen(|flight| flight.overdue);
            for xid in overdue {
                let Some((flight, _)) = self.links[index].flights.get_mut(xid) else { continue };
                let left = flight.left;
                match &mut flight.claim {
                    // Where its names lead may not be what it was: it is prepared anew, or found out about.
                    Some(Claim::Changes(changes)) if !left || changes.outdated(&accord) => {
                        self.settle_without(now, index, xid);
                    }
                    Some(Claim::Changes(changes)) => {
                        accord.again((self.number, Place::Flight { link: index, xid }), changes.lapsed(accord.now()));
                    }
                    Some(Claim::Reads(_)) | None => flight.overdue = false,
                }
            }
        }
    }

    /// A call that is recalled: its marks end, and are set anew when it is sent again. A read stays what others wait for.
    pub(crate) fn let_go(&self, now: Time, claim: Option<Claim>, ended: Ended) -> Option<Claim> {
        match claim {
            Some(Claim::Changes(changes)) => {
                claim::changed(now, &self.shared, *changes, ended, None);
                None
            }
            reads => reads,
        }
    }

    /// Whether nobody waits with a read; then nobody will.
    pub(crate) fn nobody_joined(&self, call: &mut Held) -> bool {
        let Some(Claim::Reads(fetching)) = call.claim.take() else { return true };
        let areas = &self.shared.exports[call.errand.forward.realm].areas;
        call.claim = areas.of_read(&fetching).forsaken(fetching).map(Claim::Reads);
        call.claim.is_none()
    }
}

/// Two that refused each other do not come back together.
fn pause(xid: u32) -> Span {
    Span::from_millis(5 + u64::from(xid.wrapping_mul(0x9e37_79b1) >> 27))
}

/// An earlier sending of a call, if the members know of one: why the call would be refused.
fn tried(shared: &Shared, accord: &Accord, call: &Held) -> Option<Refusal> {
    if accord.lost() == 0 {
        return None;
    }
    accord.tried(call.errand.operation(shared, &call.record)?)
}

/// A refusal that ends the call, or after which a server can tell what became of it.
const fn settles(why: &Refusal) -> bool {
    matches!(why, Refusal::Executed(_) | Refusal::Doubtful(_, Trace::Sure(..)))
}

/// What nobody could tell is not asked for again sooner.
const ASK_AGAIN: Span = Span::from_millis(20);
/// How long the other proxies are waited for where nothing is kept: they should know what must not be executed twice.
const INTENT_WAIT: Span = Span::from_millis(500);
