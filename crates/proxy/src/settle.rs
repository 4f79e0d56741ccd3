//! Calls that their servers have perhaps executed: a server is asked, and the call is answered by
//! what it shows, or sent again.
//!
//! A call that is sent again leaves its first sending behind, which may still run. While the first
//! connection stands it is listened to: an answer that the call succeeded is the call's answer.
//! What the second sending finds done (EXIST, NOENT) is a new doubt, judged like the first.

use crate::abandon::deserted;
use crate::ask_again::TRIES;
use crate::cached::made;
use crate::claim::Claim;
use crate::clerk::{About, Job};
use crate::clock::duration;
use crate::counters::status;
use crate::dispatch::Forward;
use crate::event::{Loop, Shared};
use crate::exclusive::{self, Exclusive};
use crate::link::{Flight, Moved, State};
use crate::realm::End;
use crate::translate::Meaning;
use crate::upstream::{Errand, HERE, Held};
use crate::verify::{Before, Doubt, Verdict};
use crate::watch::Asked;
use midas_core::cache::Ended;
use midas_core::id::ServerId;
use midas_core::key::Key;
use midas_core::op::Op;
use midas_core::peer::lease::{Operation, Trace};
use midas_core::time::{Span, Time};
use midas_nfs::nfs3::{Nfsstat3, Procedure, Reply};
use midas_nfs::rpc;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

impl Loop {
    /// A call that its server is not asked again: sent elsewhere if that does no harm, found out about otherwise.
    pub(crate) fn settle_without(&mut self, now: Time, index: usize, xid: u32) {
        let server = self.links[index].server;
        let Some((mut flight, record)) = self.links[index].flights.remove_with(xid) else { return };
        let left = flight.left;
        if left {
            self.leave_copy(now, index, xid, (&mut flight, &record));
        }
        if left && !flight.waits.procedure.idempotent() {
            self.shared.exports[flight.realm].doubt(&mut flight.sent);
        }
        let mut call = Box::new(self.recalled(now, flight, record, End::Lost));
        call.errand.wishes.forsaken = Some(server).filter(|_| left);
        // It may be executed again: a COMMIT shows another verifier elsewhere.
        if !left || call.errand.forward.procedure.idempotent() {
            self.resolved(&mut call);
            // Nobody needs a second copy of a write whose client is gone: others may have written
            // the same since.
            let Forward { xid, known, .. } = call.errand.forward;
            match deserted(&self.shared, xid, known) {
                Some(newest) => self.abandon(now, call, newest),
                None => self.try_call(now, call),
            }
        } else {
            call.unsettled = Some(server);
            self.find_out(now, call, server);
        }
    }

    /// The first sending of a call that is moved away may still run: what it would change is kept
    /// from others for a while, at every member.
    fn leave_copy(&mut self, now: Time, index: usize, xid: u32, (flight, record): (&mut Flight, &[u8])) {
        let (meaning, procedure) = (flight.sent.meaning, flight.waits.procedure);
        if !meaning.op.mutates() {
            return;
        }
        let turn = flight.turn.get_or_insert_with(|| Exclusive::moved(&self.shared.turns));
        let first = Arc::clone(turn.first.get_or_insert_with(Arc::default));
        let link = &mut self.links[index];
        let stands = matches!(link.state, State::Up(_));
        let cut = link.lost_at.filter(|_| !stands).unwrap_or(now);
        let until = cut + self.shared.exports[flight.realm].rules().caching.server_hold_max;
        if until > now && !self.shared.pools[link.pool].fenced(link.server) {
            let late = self.shared.turns.leave(&meaning, (link.pool, link.server), until);
            turn.left_copy(late);
            if let Some(accord) = self.shared.accord() {
                let of = flight.waits.operation(&self.shared, record);
                accord.tell_late(late, exclusive::keys(&meaning), of, until);
            }
            if stands {
                link.moved.insert(xid, Moved { late, procedure, first });
            }
        }
    }

    /// A second sending was answered, but its answer does not tell whether the call was executed.
    pub(crate) fn doubt_second(&mut self, now: Time, flight: Flight, record: Vec<u8>) {
        let (server, tries) = (flight.sent.ticket.route.to, flight.tries + 1);
        let moved = flight.turn.as_ref().is_some_and(|turn| turn.first.is_some());
        let end = End::Answered { ok: false, unstable: false };
        let mut call = Box::new(self.recalled(now, flight, record, end));
        call.errand.tries = tries;
        if let Some(results) = first_answer(&call) {
            return self.settled(now, call, &results);
        }
        // The server that answered knows best.
        let servers = self.shared.exports[call.errand.forward.realm].pool.config.servers.len();
        let before = ServerId(((server.index() + servers - 1) % servers) as u16);
        call.unsettled = Some(before);
        call.sent_to = Some(server).filter(|_| !moved);
        self.find_out(now, call, before);
    }

    /// A CREATE has cut a file to a size while a late copy of a WRITE may still run there: it waits for that, and
    /// is sent again.
    pub(crate) fn cut_again(&mut self, now: Time, flight: Flight, record: Vec<u8>) {
        let end = End::Answered { ok: true, unstable: false };
        let mut call = Box::new(self.recalled(now, flight, record, end));
        self.resolved(&mut call);
        self.try_call(now, call);
    }

    /// A call has its results, which no server is asked for any more.
    pub(crate) fn settled(&mut self, now: Time, mut call: Box<Held>, results: &[u8]) {
        let Forward { owner, realm, procedure, whom, .. } = call.errand.forward;
        let reply = Reply::decode(procedure, results).ok();
        if let Some(reply) = &reply {
            let (forward, pool) = (&call.errand.forward, &self.shared.exports[realm].pool);
            keep_made(&self.shared, &forward.meaning, call.turn.as_ref(), reply);
            pool.learn_homes(forward.meaning.place, forward.asked(&call.record).name, reply);
        }
        call.claim = self.let_go(now, call.claim.take(), Ended::Done);
        self.resolved(&mut call);
        if let Some(reply) = &reply {
            self.shared.whose.learn_from(owner, procedure, &call.record, reply);
        }
        self.tally().here(procedure, status(results));
        let asked = call.errand.forward.asked(&call.record);
        asked.tell((now, self.number), &self.shared, whom, HERE, Some(results));
        self.relay().results(call.errand.waits(), results);
    }

    /// Whether the other members know of the late copies that a call has left behind. Only then may
    /// a server be asked about it, and may it be sent again.
    pub(crate) fn knows_lates(&self, call: &Held) -> bool {
        let copies = call.turn.as_ref().map_or(&[][..], Exclusive::copies);
        copies.is_empty() || self.shared.accord().is_none_or(|accord| accord.knows_lates(copies))
    }

    /// Asks another server whether a call was executed.
    pub(crate) fn find_out(&mut self, now: Time, mut call: Box<Held>, server: ServerId) {
        // It may have been about to leave again: it is perhaps answered instead.
        self.unmark(now, &mut call);
        if !self.knows_lates(&call) {
            self.held.push_back(call);
            return;
        }
        let pool = &self.shared.exports[call.errand.forward.realm].pool;
        // The server itself, if it alone is back.
        let Some(witness) = pool.some_open(server.index() + 1) else {
            self.held.push_back(call);
            return;
        };
        // Another server may still believe what it knew before the call: its word counts when that is over.
        let same = witness == server || call.sent_to == Some(witness);
        let sent_at = call.sent_at.unwrap_or(call.errand.since);
        if !same && call.unsettled.is_some() && now.since(sent_at) < pool.staleness() {
            self.held.push_back(call);
            return;
        }
        // Nobody could tell a moment ago.
        if call.looked_for.is_some_and(|at| now.since(at) < LOOK_AGAIN) {
            self.held.push_back(call);
            return;
        }
        let Errand { forward: Forward { realm, procedure, .. }, since, .. } = call.errand;
        let (record, age) = (call.record.clone(), duration(now.since(since)));
        let (before, age) = match call.doubt.map(|doubt| doubt.trace) {
            Some(Trace::Sure(led, announced)) => (Before::Known(led), age.max(duration(announced))),
            Some(Trace::Blurred) => (Before::Unknown, age),
            None => (call.turn.as_ref().map_or(Before::Unknown, |turn| turn.before), age),
        };
        let failing = call.first_look.map_or(Duration::ZERO, |first| duration(now.since(first)));
        let doubt = Doubt { realm, witness, procedure, record, age, failing, before };
        call.first_look = call.first_look.or(Some(now));
        let last_look = call.looked_for.replace(now);
        let number = self.doubted.insert(call);
        let job = Job::Verify { doubt, event_loop: self.number, about: About::Recalled(number) };
        if self.desk.give(job).is_err() {
            // Too many at once: it is asked at the next tick.
            let mut call = self.doubted.remove(number);
            call.looked_for = last_look;
            self.held.push_back(call);
        }
    }

    /// A server is back without its memory: it is asked itself what it has executed.
    pub(crate) fn ask_back(&mut self, now: Time, index: usize) {
        let alone = self.shared.accord().is_none();
        let link = &mut self.links[index];
        let witness = link.server;
        for xid in std::mem::take(&mut link.doubts) {
            let Some((flight, record)) = link.flights.get_mut(xid).filter(|(flight, _)| !flight.asked) else {
                continue;
            };
            let (realm, procedure) = (flight.realm, flight.waits.procedure);
            let (record, age) = (record.to_vec(), duration(now.since(flight.since)));
            let about = About::Waiting { link: index, xid };
            let known = flight.turn.as_ref().map_or(Before::Unknown, |turn| turn.before);
            let before = match &flight.claim {
                Some(Claim::Changes(changes)) if alone => changes.before(procedure, known),
                Some(_) | None => known,
            };
            let doubt = Doubt { realm, witness, procedure, record, age, failing: Duration::ZERO, before };
            flight.asked = self.desk.give(Job::Verify { doubt, event_loop: self.number, about }).is_ok();
            if !flight.asked {
                link.doubts.push(xid);
            }
        }
    }

    /// It was found out whether a server that is back has executed a call before.
    pub(crate) fn remembered(&mut self, now: Time, index: usize, xid: u32, verdict: Verdict) {
        let alone = self.shared.accord().is_none();
        let Some((flight, record)) = self.links[index].flights.get_mut(xid) else { return };
        flight.asked = false;
        let operation = flight.waits.operation(&self.shared, record);
        match decided(&self.shared, operation, verdict) {
            Verdict::Answer(results) | Verdict::Made { ours: results, .. } => {
                let Some((flight, record)) = self.links[index].flights.remove_with(xid) else { return };
                let Flight { waits, owner, realm, mut sent, claim, turn, .. } = flight;
                let asked = Asked::in_record(waits.procedure, (realm, sent.meaning.place), &record);
                if let Ok(reply) = Reply::decode(waits.procedure, &results) {
                    keep_made(&self.shared, &sent.meaning, turn.as_ref(), &reply);
                    self.shared.whose.learn_from(owner, waits.procedure, &record, &reply);
                    self.shared.exports[realm].pool.learn_homes(sent.meaning.place, asked.name, &reply);
                }
                asked.tell((now, self.number), &self.shared, waits.whom, HERE, Some(&results));
                self.shared.exports[realm].settle(now, &mut sent, End::Lost);
                self.let_go(now, claim, Ended::Unknown);
                self.tally().here(waits.procedure, status(&results));
                self.relay().results(waits, &results);
            }
            Verdict::Send(seen) => {
                if self.abandon_sent(now, index, xid) {
                    return;
                }
                let Some((flight, _)) = self.links[index].flights.get_mut(xid) else { return };
                if let Some(turn) = &mut flight.turn {
                    turn.first.get_or_insert_with(Arc::default);
                    turn.seen = turn.seen.or(seen);
                    turn.before = seen.filter(|_| alone).map_or(turn.before, |seen| Before::Known(Some(seen)));
                }
                self.links[index].send(self.shared.clock.now(), xid, &mut self.buffers);
            }
            Verdict::Unknown => self.links[index].doubts.push(xid),
        }
    }

    /// It was found out whether a call was executed.
    pub(crate) fn verified(&mut self, now: Time, number: usize, verdict: Verdict) {
        let Some(mut call) = self.doubted.try_remove(number) else { return };
        if let Some(results) = first_answer(&call) {
            return self.settled(now, call, &results);
        }
        let verdict = decided(&self.shared, self.operation(&call), verdict);
        // The sending of a member that is gone cannot run any more.
        let never_ran = call.doubt.is_some_and(|doubt| doubt.trace != Trace::Blurred);
        match verdict {
            Verdict::Unknown => self.held.push_back(call),
            // What was looked at may be somebody else's by now: it is asked for anew.
            _ if !self.found_out(&mut call, &verdict) => self.held.push_back(call),
            Verdict::Answer(results) | Verdict::Made { ours: results, .. } => self.settled(now, call, &results),
            Verdict::Send(seen) => {
                self.resolved(&mut call);
                call.unsettled = None;
                // The first sending may have run, or may still: what is found done then is a new doubt.
                if let Some(turn) = call.turn.as_mut().filter(|_| !never_ran) {
                    turn.first.get_or_insert_with(Arc::default);
                    turn.seen = turn.seen.or(seen);
                }
                // It was not executed, and nobody waits for it any more.
                let Forward { xid, known, .. } = call.errand.forward;
                if let Some(newest) = deserted(&self.shared, xid, known) {
                    return self.abandon(now, call, newest);
                }
                if let (Some(turn), Some(seen), None) = (&mut call.turn, seen, self.shared.accord()) {
                    turn.before = Before::Known(Some(seen));
                }
                self.try_call(now, call);
            }
        }
    }

    /// The other proxies are told what was found out, if they wait for that. Whether it still holds.
    fn found_out(&self, call: &mut Held, verdict: &Verdict) -> bool {
        let results = match verdict {
            Verdict::Answer(results) | Verdict::Made { ours: results, .. } => Some(&results[..]),
            Verdict::Send(_) | Verdict::Unknown => None,
        };
        let doubt = call.doubt.take().zip(self.shared.accord());
        doubt.is_none_or(|(doubt, accord)| accord.found_out(&doubt, results))
    }

    /// Others need not wait any longer.
    pub(crate) fn resolved(&self, call: &mut Held) {
        if std::mem::take(&mut call.doubtful) {
            self.shared.exports[call.errand.forward.realm].resolved(&call.errand.forward.meaning);
        }
    }
}

/// A verdict that rests on who made what is there, by what is remembered of that.
fn decided(shared: &Shared, operation: Option<Operation>, verdict: Verdict) -> Verdict {
    let Verdict::Made { ours, otherwise } = verdict else { return verdict };
    let of_member = shared.accord().zip(operation);
    let of_member = of_member.is_some_and(|(accord, operation)| accord.made_by_another(operation, &ours));
    // Every reply that tells of something made begins alike.
    let made = Reply::decode(Procedure::Create, &ours).ok().and_then(|reply| made(&reply));
    let others = of_member || made.is_some_and(|made| shared.made.was_told(made));
    Verdict::Answer(if others { otherwise } else { ours })
}

/// A call that makes something is about to be answered: what it made is its own, and what its late copies would
/// cut to a size is kept from others.
pub(crate) fn keep_made(shared: &Shared, meaning: &Meaning, turn: Option<&Exclusive>, reply: &Reply<'_>) {
    if meaning.op == Op::Create
        && let Some(made) = made(reply)
    {
        note_made(shared, meaning, turn, made);
    }
}

/// The same of a call that has made this object.
pub(crate) fn note_made(shared: &Shared, meaning: &Meaning, turn: Option<&Exclusive>, made: Key) {
    shared.made.note(made);
    if let Some(turn) = turn.filter(|_| meaning.resizes) {
        turn.keeps_file(made);
        if let Some(accord) = shared.accord().filter(|_| !turn.copies().is_empty()) {
            accord.tell_late_keeps(turn.copies(), made);
        }
    }
}

/// Whether a CREATE has cut a file to a size to which a late copy of a WRITE may still write.
pub(crate) fn cut_too_early(flight: &mut Flight, reply: &[u8]) -> bool {
    if !flight.sent.meaning.resizes || flight.turn.as_ref().is_none_or(|turn| !turn.may_wait_for_file()) {
        return false;
    }
    let results = rpc::Reply::decode(reply).ok().and_then(|reply| reply.results.ok());
    let reply = results.and_then(|results| Reply::decode(flight.waits.procedure, results).ok());
    let file = reply.and_then(|reply| made(&reply));
    file.zip(flight.turn.as_mut()).is_some_and(|(file, turn)| turn.waits_for_file(file))
}

/// What the first server said of a call that was moved away from it.
pub(crate) fn first_answer(call: &Held) -> Option<Vec<u8>> {
    call.turn.as_ref().and_then(|turn| turn.first_answer()).map(<[u8]>::to_vec)
}

/// A server answers a call that was moved away from it: it cannot run any more. Whether there was such a call.
pub(crate) fn late_answer(shared: &Shared, moved: &mut HashMap<u32, Moved>, xid: u32, reply: &[u8]) -> bool {
    let Some(Moved { late, procedure, first }) = moved.remove(&xid) else { return false };
    let results = rpc::Reply::decode(reply).ok().and_then(|reply| reply.results.ok());
    // Only a success decides: what failed here may have succeeded elsewhere.
    let succeeded = results.filter(|results| status(results) == Some(Nfsstat3::OK) && !procedure.idempotent());
    if let Some(results) = succeeded {
        // The first of several sendings that succeeded.
        let _other = first.set(results.into());
    }
    shared.turns.answered(late);
    if let Some(accord) = shared.accord() {
        accord.lates_ended();
    }
    true
}

/// Whether a server tells of a name otherwise than is known: it believes what it knew before the name was changed.
pub(crate) fn unexpected(flight: &Flight, reply: &[u8]) -> bool {
    let Some(expected) = flight.sent.expects else { return false };
    let results = rpc::Reply::decode(reply).ok().and_then(|reply| reply.results.ok());
    let found = results.and_then(|results| match Reply::decode(Procedure::Lookup, results) {
        Ok(Reply::Lookup(Ok(found))) => Some(Key::of(found.object.bytes())),
        _ => None,
    });
    found != Some(expected)
}

/// Whether an answer to a second sending may be about what the first one did.
pub(crate) fn second_in_doubt(flight: &Flight, reply: &[u8]) -> bool {
    let procedure = flight.waits.procedure;
    let first = flight.turn.as_ref().and_then(|turn| turn.first.as_ref());
    // Who listens on another connection has mostly kept its memory: NOENT shows nothing then, but what stands under
    // a name shows whose it is.
    let makes = matches!(
        procedure,
        Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod | Procedure::Link
    );
    if procedure.idempotent() || first.is_none() && !(flight.reconnected && makes) {
        return false;
    }
    let results = rpc::Reply::decode(reply).ok().and_then(|reply| reply.results.ok());
    let found_done = results.and_then(status).is_some_and(|status| found_done(procedure, status));
    first.is_some_and(|first| first.get().is_some()) || flight.tries < TRIES && found_done
}

/// Whether a call that was executed before would be answered so.
fn found_done(procedure: Procedure, status: Nfsstat3) -> bool {
    match procedure {
        Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod | Procedure::Link => {
            status == Nfsstat3::EXIST
        }
        Procedure::Remove | Procedure::Rmdir | Procedure::Rename => status == Nfsstat3::NOENT,
        Procedure::Setattr => status == Nfsstat3::NOT_SYNC,
        _ => false,
    }
}

/// How long after a look that told nothing the next one comes.
const LOOK_AGAIN: Span = Span::from_millis(100);
