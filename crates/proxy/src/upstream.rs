//! An event loop's calls on their way to servers: sent, held while no server may serve them, moved away from a server that is lost,
//! and settled elsewhere when it does not come back.

use crate::abandon::abandoned;
use crate::accord::Doubted;
use crate::ask_again::in_doubt;
use crate::cached::Unfound;
use crate::claim::{self, Claim, Prepared};
use crate::counters::{Bytes, status};
use crate::dispatch::Forward;
use crate::event::{Asker, Loop, Shared};
use crate::exclusive::{self, Exclusive};
use crate::fetching;
use crate::intents::{Intents, Past};
use crate::link::{Flight, Link, State};
use crate::log;
use crate::pool::Pool;
use crate::queue::Queued;
use crate::realm::{End, Wishes};
use crate::relay::{Relay, Waits};
use crate::settle;
use crate::translate::Kind;
use crate::watch::{Asked, Outcome, decision};
use midas_core::cache::Ended;
use midas_core::decision::Exclusion;
use midas_core::health::Health;
use midas_core::id::ServerId;
use midas_core::peer::lease::Operation;
use midas_core::time::{Span, Time};
use midas_net::{Buffers, Flow, Go};
use midas_nfs::nfs3::{Nfsstat3, Reply};
use midas_nfs::record;
use mio::event::Event;
use std::sync::Arc;

/// A call that waits for a server that may serve it.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct Held {
    pub(crate) errand: Errand,
    pub(crate) record: Vec<u8>,
    /// The server that it may only go to, if it waits for that.
    pub(crate) bound: Option<ServerId>,
    /// Whether others wait until it is known whether this was executed.
    pub(crate) doubtful: bool,
    /// Whether a server must be asked first if it was executed; this one knows least.
    pub(crate) unsettled: Option<ServerId>,
    /// Its turn at what it changes.
    pub(crate) turn: Option<Exclusive>,
    /// What it holds of the cache.
    pub(crate) claim: Option<Claim>,
    /// Names that must be looked up before it may leave.
    pub(crate) unfound: Vec<Unfound>,
    /// When that was last tried.
    pub(crate) asked_at: Option<Time>,
    /// When another proxy last refused it.
    pub(crate) refused_at: Option<Time>,
    /// And how often.
    pub(crate) refused: u32,
    /// The attempt of it that a server is asked about.
    pub(crate) doubt: Option<Doubted>,
    /// Members know of an earlier sending of it.
    pub(crate) known: bool,
    /// The call has left its place among those that wait for their turn: next time it comes first.
    pub(crate) left_place: bool,
    /// Whether it waited long enough for other proxies.
    pub(crate) impatient: bool,
    /// The peer that is asked for it first.
    pub(crate) peer: Option<u8>,
    /// Its place among the mutations that wait for its names, while it waits for them.
    pub(crate) queued: Option<Queued>,
    /// How many clients had gone when it was last looked whether its own is there.
    pub(crate) looked_at: u64,
    /// When it was last sent.
    pub(crate) sent_at: Option<Time>,
    /// The server that has had all of its sendings, if it was answered there and the answer is in doubt.
    pub(crate) sent_to: Option<ServerId>,
    /// When a server was last asked what became of it.
    pub(crate) looked_for: Option<Time>,
    /// And when first.
    pub(crate) first_look: Option<Time>,
}

impl Held {
    /// When it came, if it changes something.
    pub(crate) fn change_since(&self) -> Option<Time> {
        self.errand.forward.meaning.op.mutates().then_some(self.errand.since)
    }

    /// Whether it was perhaps executed.
    pub(crate) fn doubtful(&self) -> bool {
        let sent_before = self.turn.as_ref().is_some_and(|turn| turn.first.is_some());
        self.doubtful || self.unsettled.is_some() || sent_before
    }
}

/// The next step of a call whose answer is not for its client.
enum Next {
    /// The server that changed its name last is asked.
    AskStrictly,
    /// This server is asked.
    Ask(ServerId),
    /// It was sent twice: a server is asked whether the first sending was executed.
    Verify,
    /// It is sent again when nobody writes to its file late.
    CutAgain,
}

impl Next {
    fn of(pool: &Pool, flight: &mut Flight, reply: &[u8]) -> Option<Self> {
        if settle::unexpected(flight, reply) {
            return Some(Self::AskStrictly);
        }
        let ask = in_doubt(pool, flight, reply).map(Self::Ask);
        let verify = || settle::second_in_doubt(flight, reply).then_some(Self::Verify);
        ask.or_else(verify).or_else(|| settle::cut_too_early(flight, reply).then_some(Self::CutAgain))
    }
}

/// A call that looks for its server.
#[derive(Clone, Copy)]
pub(crate) struct Errand {
    pub(crate) asker: Asker,
    pub(crate) forward: Forward,
    pub(crate) since: Time,
    pub(crate) wishes: Wishes,
    /// How many servers' answers to it were in doubt.
    pub(crate) tries: u8,
}

/// What a call waits for.
struct Wait {
    /// The one server that may serve it, if there is such.
    bound: Option<ServerId>,
    /// Why none may serve it; none if there was only no place for it.
    why: Option<Exclusion>,
}

/// Sends a new call, or gives it back to be held.
pub(crate) fn begin(
    now: Time,
    shared: &Arc<Shared>,
    links: &mut [Link],
    buffers: &mut Buffers,
    (asker, forward, claim): (Asker, &Forward, Option<Claim>),
    record: &[u8],
) -> Option<Box<Held>> {
    let errand = Errand { asker, forward: *forward, since: now, wishes: Wishes::default(), tries: 0 };
    let peer = claim.as_ref().and_then(|_| fetching::home(now, shared, asker, forward, record));
    let mut queued = None;
    let held = |claim, turn, queued| {
        let held = Held { turn, claim, peer, queued, ..Held::new(errand, record.to_vec()) };
        Some(Box::new(held))
    };
    if let Some(intents) = shared.intents.get()
        && let Some(recalled) = recall(shared, intents, errand, record)
    {
        return Some(Box::new(recalled));
    }
    let mut turn = Exclusive::needed(&shared.turns, &forward.meaning, forward.procedure);
    if turn.as_mut().is_some_and(|turn| !turn.take(None, false)) {
        return held(claim, turn, None);
    }
    let mut claim = match claim {
        Some(reads) if peer.is_some() => return held(Some(reads), turn, None),
        Some(reads) => Some(reads),
        None => match errand.prepare(now, shared, &mut queued, record) {
            // Other proxies must be told first.
            Prepared::Ready(Some(claim)) if shared.accord().is_some() => return held(Some(claim), turn, None),
            Prepared::Ready(claim) => claim,
            Prepared::Find(claim, unfound) => {
                let held = Held { claim: Some(claim), turn, unfound, ..Held::new(errand, record.to_vec()) };
                return Some(Box::new(held));
            }
            Prepared::Busy => return held(None, turn, queued),
        },
    };
    if errand.cuts(shared).is_some() {
        return held(claim, turn, None);
    }
    let Wait { bound, why } = errand.send(now, shared, links, buffers, (record, &mut claim, &mut turn)).err()?;
    if let Some(why) = why {
        shared.tallies[asker.event_loop as usize].held(why);
        let asked = Asked::in_record(forward.procedure, (forward.realm, forward.meaning.place), record);
        decision::held(shared, &asked.answered(now, forward.whom, Outcome::Here, None), why);
    }
    let claim = claim.or_else(|| claim::shared(now, shared, forward, record));
    Some(Box::new(Held { bound, turn, claim, peer, ..Held::new(errand, record.to_vec()) }))
}

/// A call that the life before this one has sent already: it is answered as it was then, or a
/// server is asked what became of it.
fn recall(shared: &Shared, intents: &Intents, errand: Errand, record: &[u8]) -> Option<Held> {
    if !intents.remembers() {
        return None;
    }
    let operation = errand.operation(shared, record)?;
    let past = intents.recall(operation)?;
    let held = Held::new(errand, record.to_vec());
    Some(match past {
        Past::Ended(results) => {
            let turn = Some(Exclusive::answered(&shared.turns, results));
            Held { turn, ..held }
        }
        Past::Begun(since) => {
            let turn = Exclusive::sent_before(&shared.turns, exclusive::keys(&errand.forward.meaning));
            // From now on this life's intent: if a verdict answers it, the next life is told.
            let Forward { xid, ref meaning, known, .. } = errand.forward;
            if let Some(known) = known {
                let (now, event_loop) = (errand.since, errand.asker.event_loop as usize);
                intents.resume(now, event_loop, (xid, known), (operation, since), exclusive::keys(meaning));
            }
            let (errand, unsettled) = (Errand { since, ..errand }, Some(ServerId(0)));
            Held { errand, unsettled, turn: Some(turn), ..held }
        }
    })
}

impl Held {
    /// A call that holds nothing yet.
    fn new(errand: Errand, record: Vec<u8>) -> Self {
        Self {
            errand,
            record,
            bound: None,
            doubtful: false,
            unsettled: None,
            turn: None,
            claim: None,
            unfound: Vec::new(),
            asked_at: None,
            refused_at: None,
            known: false,
            left_place: false,
            refused: 0,
            doubt: None,
            impatient: false,
            peer: None,
            queued: None,
            looked_at: 0,
            sent_at: None,
            looked_for: None,
            first_look: None,
            sent_to: None,
        }
    }

    /// Whether it waits for its turn.
    pub(crate) fn queues(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.waits_for().is_some())
    }

    /// Whether something can be done for it at once: a name to be looked up, a proxy to be told, a
    /// server to be asked. That need not wait for the tick.
    pub(crate) fn is_due(&self, shared: &Shared) -> bool {
        let told = self.claim.is_some() && shared.accord().is_some();
        let asks = !self.unfound.is_empty() || self.unsettled.is_some();
        told || asks || self.errand.cuts(shared).is_some() || self.queues() || settle::first_answer(self).is_some()
    }
}

impl Errand {
    /// Who waits for it.
    pub(crate) fn waits(&self) -> Waits {
        let Forward { xid, procedure, known, cost, whom, .. } = self.forward;
        Waits { asker: self.asker, xid, procedure, known, cost, whom }
    }

    /// What must not be executed twice at whichever proxy, or in whichever life of one, it comes in; none for what may.
    pub(crate) fn operation(&self, shared: &Shared, record: &[u8]) -> Option<Operation> {
        self.waits().operation(shared, record)
    }

    /// Whether it may be sent, as far as it must be written down first.
    pub(crate) fn written(&self, now: Time, shared: &Shared, record: &[u8]) -> bool {
        let Forward { xid, procedure, ref meaning, known, .. } = self.forward;
        match (shared.intents.get(), known.filter(|_| !procedure.idempotent())) {
            (Some(intents), Some(known)) => {
                let (event_loop, operation) = (self.asker.event_loop as usize, || self.operation(shared, record));
                intents.begin(now, event_loop, (xid, known), operation, exclusive::keys(meaning))
            }
            (Some(_) | None, _) => true,
        }
    }

    /// Marks what it changes. Its place is kept while it must wait for its names.
    pub(crate) fn prepare(
        &self,
        now: Time,
        shared: &Arc<Shared>,
        queued: &mut Option<Queued>,
        record: &[u8],
    ) -> Prepared {
        let Forward { realm, meaning, procedure, .. } = self.forward;
        let queued = (queued, self.since, self.asker.event_loop);
        claim::prepare(now, shared, queued, realm, (meaning.op, procedure), record)
    }

    /// Routes a call and puts it on its link; the error says what it must wait for.
    fn send(
        &self,
        now: Time,
        shared: &Shared,
        links: &mut [Link],
        buffers: &mut Buffers,
        (record, claim, turn): (&[u8], &mut Option<Claim>, &mut Option<Exclusive>),
    ) -> Result<(), Wait> {
        let Self { asker, ref forward, since, wishes, tries } = *self;
        let Forward { ref meaning, realm, owner, .. } = *forward;
        let export = &shared.exports[realm];
        let sent = match export.send(now, meaning, wishes) {
            Ok(sent) => sent,
            Err((why, bound)) => return Err(Wait { bound, why: Some(why) }),
        };
        let server = sent.ticket.route.to;
        let pool = &export.pool;
        let least = pool.links_of(server).min_by_key(|link| links[*link].flights.len());
        // This one is counted already.
        let most = pool.config.in_flight_max.min(pool.servers.window(server) as usize);
        let full = |link: &Link| link.flights.full() || pool.servers.in_flight(server) as usize > most;
        let link = least.map(|link| &mut links[link]).filter(|link| !full(link));
        let Some(link) = link.filter(|_| self.written(now, shared, record)) else {
            export.take_back(now, sent);
            return Err(Wait { bound: None, why: None });
        };
        if let Some(Claim::Reads(fetching)) = claim {
            export.areas.of_read(fetching).leaves(fetching);
        }
        shared.tallies[asker.event_loop as usize].moved(Bytes::ToServers, record::MARK + record.len());
        link.take(
            shared.accord().map_or(now, |accord| accord.now()),
            || Flight {
                waits: self.waits(),
                owner,
                realm,
                sent,
                since,
                sent_at: now,
                left: false,
                resent: false,
                reconnected: false,
                overdue: false,
                asked: false,
                tries,
                claim: claim.take(),
                turn: turn.take(),
            },
            record,
            buffers,
        );
        Ok(())
    }
}

impl Loop {
    pub(crate) fn link_ready(&mut self, now: Time, index: usize, event: &Event) {
        let Some(link) = self.links.get_mut(index) else { return };
        let was_up = matches!(link.state, State::Up(_));
        if !was_up && link.flights.len() > 0 {
            self.abandon_unsent(now, index);
        }
        let Some(link) = self.links.get_mut(index) else { return };
        let fresh = self.shared.accord().map_or(now, |accord| accord.now());
        if !link.connected(fresh, &mut self.buffers) {
            if matches!(link.state, State::Down) {
                self.lost(now, index);
            }
            return;
        }
        if !was_up {
            self.shared.pools[link.pool].connected(link.server);
        }
        if !link.doubts.is_empty() {
            self.ask_back(now, index);
        }
        if event.is_readable() || event.is_read_closed() {
            self.read_link(now, index, event.is_read_closed());
        }
    }

    /// Reads replies until the server has no more for now; to the end, if it will send no more.
    fn read_link(&mut self, now: Time, index: usize, closed: bool) {
        let mut replies = 0;
        loop {
            let Self { shared, clients, links, buffers, scratch, others, number, touched, purse, loans, .. } = self;
            let batch = self.now;
            let Link { state: State::Up(connection), flights, moved, server, pool, .. } = &mut links[index] else {
                return;
            };
            let (pool, tally) = (&shared.pools[*pool], &shared.tallies[*number]);
            let name = &pool.server(*server).name;
            let (mut unsettled, mut heard) = (Vec::new(), false);
            let flow = connection.receive(scratch, |reply, _| {
                tally.moved(Bytes::FromServers, record::MARK + reply.len());
                let xid = reply.first_chunk::<4>().map(|xid| u32::from_be_bytes(*xid));
                let Some(xid) = xid else { return Go::Continue(()) };
                replies += 1;
                let known = flights.get_mut(xid);
                heard |= known.is_none() && settle::late_answer(shared, moved, xid, reply);
                let next = known.and_then(|(flight, _)| Next::of(pool, flight, reply));
                if let Some(next) = next {
                    // Whoever is answered next is not charged for this one.
                    pool.servers.spent(now, now, *server);
                    unsettled.extend(flights.remove_with(xid).map(|(flight, record)| (flight, record, next)));
                } else {
                    let number = *number;
                    let mut relay =
                        Relay { shared, clients, buffers, others, number, touched, purse, loans, now: batch };
                    flights.end(xid, |flight, record| relay.reply(now, name, flight, record, reply));
                }
                Go::Continue(())
            });
            for (flight, record, next) in unsettled {
                match next {
                    Next::AskStrictly => self.ask_strictly(now, flight, record),
                    Next::Ask(server) => self.ask_first(now, flight, record, server),
                    Next::Verify => self.doubt_second(now, flight, record),
                    Next::CutAgain => self.cut_again(now, flight, record),
                }
            }
            if heard {
                self.send_held(now);
            }
            match flow {
                Ok(Flow::More) => {}
                Ok(Flow::Drained) if closed => {}
                Ok(Flow::Drained | Flow::Waiting) => break,
                Err(_) => {
                    self.links[index].failed(now);
                    self.lost(now, index);
                    break;
                }
            }
        }
        // Each has made a place free: whoever waits for one need not wait for the tick.
        if !self.held.is_empty() {
            self.send_some(now, replies);
        }
    }

    /// An answer is in doubt (nfs3.md, A4): this server is asked before the client is told.
    fn ask_first(&mut self, now: Time, mut flight: Flight, record: Vec<u8>, ask: ServerId) {
        // What it asked for was refused.
        flight.sent.ticket.spare();
        let tries = flight.tries + 1;
        let end = End::Answered { ok: false, unstable: false };
        let mut call = self.recalled(now, flight, record, end);
        call.errand.wishes.instead = Some(ask);
        call.errand.tries = tries;
        self.try_call(now, Box::new(call));
    }

    /// A server told of a name otherwise than is known: the one that changed the name is asked.
    fn ask_strictly(&mut self, now: Time, flight: Flight, record: Vec<u8>) {
        let end = End::Answered { ok: false, unstable: false };
        let mut call = Box::new(self.recalled(now, flight, record, end));
        call.errand.wishes.strictly = true;
        self.try_call(now, call);
    }

    pub(crate) fn flush_links(&mut self, now: Time) {
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            let State::Up(connection) = &mut link.state else { continue };
            if connection.unsent() > 0 && connection.flush(&mut self.buffers).is_err() {
                link.failed(now);
                self.lost(now, index);
            }
        }
    }

    /// A server's connection is gone: it leaves the feasible set at once, and what may move is sent elsewhere. What may not waits, and
    /// so does what else would change the same name.
    fn lost(&mut self, now: Time, index: usize) {
        let Link { pool, server, flights, restarted, .. } = &mut self.links[index];
        log::debug("no connection", &[("server", &self.shared.pools[*pool].server(*server).name)]);
        // Servers close connections that nobody uses: that says nothing, unless nobody answers when it is made again.
        if flights.len() > 0 || *restarted {
            self.shared.pools[*pool].down(now, *server, &"the connection was lost");
        }
        let xids: Vec<u32> = flights.xids().collect();
        for xid in xids {
            let Some((flight, _)) = flights.get_mut(xid) else { continue };
            if flight.left && !flight.sent.meaning.movable {
                self.shared.exports[flight.realm].doubt(&mut flight.sent);
            }
        }
        self.move_away(now, index, Span::ZERO);
    }

    /// Looks after every link: reconnects, calls that wait for too long.
    pub(crate) fn tend_links(&mut self, now: Time) {
        for index in 0..self.links.len() {
            let Link { pool, server, .. } = self.links[index];
            let pool = &self.shared.pools[pool];
            let (health, config) = (pool.servers.health(server), &pool.config);
            // A drained server ends what it has, as long as it is there.
            let there = health == Health::Drained && matches!(self.links[index].state, State::Up(_));
            let open = there || matches!(health, Health::Up | Health::Probation | Health::Failing);
            // While nobody else could serve them, calls stay where they are: sent again and again they would only add to the trouble.
            let elsewhere = pool.some_open(server.index() + 1).is_some_and(|other| other != server);
            let patience = if open || !elsewhere { config.call_timeout } else { MOVE_AFTER };
            let give_up = config.failover_after.scale(GIVE_UP);
            let closed_for = self.links[index].closed_for(now, !open);
            self.links[index].tend(now, self.poll.registry());
            if matches!(self.links[index].state, State::Up(_)) && !self.links[index].doubts.is_empty() {
                self.ask_back(now, index);
            }
            if self.links[index].flights.len() > 0 {
                if elsewhere {
                    self.move_away(now, index, patience);
                }
                self.links[index].repeat(now, REPEAT, &mut self.buffers);
            }
            if elsewhere && closed_for >= give_up && self.links[index].flights.len() > 0 {
                self.give_up(now, index, give_up);
            }
        }
    }

    /// Calls that may move and have waited for so long go elsewhere.
    fn move_away(&mut self, now: Time, index: usize, waited: Span) {
        let movable = |flight: &Flight| {
            let may = flight.sent.meaning.movable || !flight.left;
            may && now.since(flight.sent_at) >= waited
        };
        let chosen = self.links[index].chosen(movable);
        for xid in chosen {
            let Some((flight, record)) = self.links[index].flights.remove_with(xid) else { continue };
            let call = self.recalled(now, flight, record, End::Lost);
            self.try_call(now, Box::new(call));
        }
    }

    /// Calls that may not move, and whose server has been gone for so long, are settled without it (nfs3.md, L).
    fn give_up(&mut self, now: Time, index: usize, waited: Span) {
        let given_up = |flight: &Flight| now.since(flight.since) >= waited;
        let server = self.links[index].server;
        for xid in self.links[index].chosen(given_up) {
            let pool = self.links[index].pool;
            if let Some((flight, _)) = self.links[index].flights.get_mut(xid) {
                let name = &self.shared.pools[pool].server(server).name;
                log::warn("server given up", &[("server", name), ("call", &flight.waits.procedure)]);
            }
            self.settle_without(now, index, xid);
        }
    }

    /// A call whose server gives no answer that could be relayed.
    pub(crate) fn recalled(&self, now: Time, flight: Flight, record: Vec<u8>, end: End) -> Held {
        let Flight { waits, owner, realm, mut sent, since, sent_at, left, tries, claim, mut turn, .. } = flight;
        let Waits { asker, xid, procedure, known, cost, whom } = waits;
        let meaning = sent.meaning;
        let doubtful = std::mem::take(&mut sent.doubtful);
        match left {
            true => self.shared.exports[realm].settle(now, &mut sent, end),
            false => self.shared.exports[realm].take_back(now, sent),
        }
        if let (Some(turn), Some(Claim::Changes(changes)), None) = (&mut turn, &claim, self.shared.accord()) {
            turn.before = changes.before(procedure, turn.before);
        }
        let claim = self.let_go(now, claim, if left { Ended::Unknown } else { Ended::Done });
        let forward = Forward { xid, procedure, meaning, known, realm, owner, cost, whom };
        let errand = Errand { asker, forward, since, wishes: Wishes::default(), tries };
        Held { doubtful, turn, claim, sent_at: Some(sent_at).filter(|_| left), ..Held::new(errand, record) }
    }

    /// Sends a call that waited, if it may leave now; otherwise it waits on.
    pub(crate) fn try_call(&mut self, now: Time, mut call: Box<Held>) {
        // A read that nobody waits for any more need not be asked.
        if call.errand.forward.meaning.movable && !self.awaits(call.errand.asker) && self.nobody_joined(&mut call) {
            self.purse.earn(call.errand.forward.cost);
            return;
        }
        if let Some(newest) = abandoned(&self.shared, &mut call) {
            return self.abandon(now, call, newest);
        }
        if let Some(results) = settle::first_answer(&call) {
            return self.settled(now, call, &results);
        }
        if let Some(server) = call.unsettled {
            return self.find_out(now, call, server);
        }
        if !self.knows_lates(&call) {
            return self.held.push_back(call);
        }
        self.forsake(now, &mut call);
        if call.errand.wishes.forsaken.is_some() && self.cut_off(&call) {
            return self.refuse(now, *call, Nfsstat3::BAD_COOKIE);
        }
        let Some(mut call) = self.prepared(now, call) else { return };
        if let Some(file) = call.errand.cuts(&self.shared) {
            return self.cut_apart(now, call, file);
        }
        let Self { shared, links, buffers, .. } = self;
        let Held { errand, record, claim, turn, .. } = &mut *call;
        if let Err(wait) = errand.send(now, shared, links, buffers, (record, claim, turn)) {
            call.bound = wait.bound;
            let busy = wait.why == Some(Exclusion::FencedElsewhere);
            // Whoever was to be asked instead does not answer: anyone may.
            call.errand.wishes.instead = call.errand.wishes.instead.filter(|_| busy);
            self.held.push_back(call);
        }
    }

    /// Whether only a server that is waited for no longer could go on with this listing: another would take its cookie for something else.
    fn cut_off(&self, call: &Held) -> bool {
        let Forward { realm, meaning, .. } = &call.errand.forward;
        let later = matches!(meaning.kind, Kind::List { first: false });
        later && !self.shared.exports[*realm].pool.cookies.portable()
    }

    pub(crate) fn refuse(&mut self, now: Time, call: Held, status: Nfsstat3) {
        let mut results = Vec::new();
        Reply::failed(call.errand.forward.procedure, status).encode(&mut results);
        self.conclude(now, call, Outcome::Here, &results);
        self.flush_touched();
    }

    /// A read ends with results that no server of ours gave to it.
    pub(crate) fn conclude(&mut self, now: Time, call: Held, outcome: Outcome, results: &[u8]) {
        let Held { errand, record, claim, .. } = call;
        let (waits, asked) = (errand.waits(), errand.forward.asked(&record));
        let mut relay = self.relay();
        let landed = relay.landed(now, asked.realm, waits.procedure, (claim, Ended::Done), Some(results));
        let results = landed.all.as_deref().unwrap_or(results);
        let (at, outcome) = ((now, relay.number), (outcome, Span::ZERO));
        asked.tell(at, relay.shared, waits.whom, outcome, Some(results));
        relay.results(waits, results);
        let told = landed.joined.as_deref().unwrap_or(results);
        let tally = &relay.shared.tallies[relay.number];
        match outcome.0 {
            Outcome::Joined => tally.joined(waits.procedure, status(results), waits.whom.waited(now)),
            Outcome::Hit | Outcome::Absent | Outcome::Forwarded(_) | Outcome::Here => {
                tally.here(waits.procedure, status(results));
            }
        }
        for waits in landed.waits {
            tally.joined(waits.procedure, status(told), waits.whom.waited(now));
            asked.tell(at, relay.shared, waits.whom, (Outcome::Joined, Span::ZERO), Some(told));
            relay.results(waits, told);
        }
    }

    /// A server that is closed and was waited for long enough binds this call no longer.
    fn forsake(&self, now: Time, call: &mut Held) {
        let Some(server) = call.bound else { return };
        let pool = &self.shared.exports[call.errand.forward.realm].pool;
        let closed_for = self.links[pool.links_of(server).start].closed;
        let waited = closed_for.map_or(Span::ZERO, |since| now.since(since.max(call.errand.since)));
        if !pool.open(server) && waited >= pool.config.failover_after.scale(GIVE_UP) {
            call.errand.wishes.forsaken = Some(server);
        }
    }
}

/// For those who watch: nobody was asked.
pub(crate) const HERE: (Outcome, Span) = (Outcome::Here, Span::ZERO);
/// Calls that may move leave a server that is down after so long.
const MOVE_AFTER: Span = Span::from_millis(20);
/// A call without an answer is sent again on its connection after so long, as clients do.
const REPEAT: Span = Span::from_secs(60);
/// The part of `failover_after` that a call waits: the rest is for finding out, and for another server's answer.
const GIVE_UP: f64 = 0.75;
