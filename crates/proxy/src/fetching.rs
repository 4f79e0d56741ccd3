//! An event loop's reads that other proxies are asked for, and those that they ask for here (`accord::fetch`): the one wait for a peer as others wait for a server,
//! the other are calls like those of clients, whose answers go to a peer.

use crate::accord::{self, RECORD_MOST};
use crate::cached::Question;
use crate::counters::status;
use crate::dispatch::{self, Forward, Taken};
use crate::event::{Asker, Loop, Shared};
use crate::upstream::{self, Held};
use crate::watch::Outcome;
use crate::whose::Owner;
use midas_core::cache::Mode;
use midas_core::key::Key;
use midas_core::peer::lease::Life;
use midas_core::time::{Span, Time};
use midas_nfs::nfs3::{Nfsstat3, Procedure, Reply};
use midas_nfs::{record, rpc};
use slab::Slab;
use std::collections::HashMap;

/// Reads under way between proxies.
#[derive(Default)]
pub(crate) struct Loans {
    /// Those that peers are asked for, by number.
    wanted: HashMap<u64, Wanted>,
    /// Those that peers ask for.
    lent: Slab<Lent>,
    generation: u32,
}

struct Wanted {
    peer: u8,
    since: Time,
    patience: Span,
    call: Box<Held>,
}

struct Lent {
    asker: Asker,
    to: Life,
    id: u64,
    since: Time,
}

impl Asker {
    /// Whether it is another proxy.
    pub(crate) const fn is_peer(self) -> bool {
        self.slot & PEER != 0
    }
}

/// The peer that is asked for a new read instead of a server: the home of what it asks for, unless that cannot be kept now.
pub(crate) fn home(now: Time, shared: &Shared, asker: Asker, forward: &Forward, record: &[u8]) -> Option<u8> {
    let accord = shared.accord()?;
    let Forward { procedure, ref meaning, realm, owner, .. } = *forward;
    let small = matches!(procedure, Procedure::Getattr | Procedure::Lookup | Procedure::Access | Procedure::Readlink);
    if !small || asker.is_peer() || record.len() > RECORD_MOST || !matches!(owner, Owner::Export(_)) {
        return None;
    }
    let export = &shared.exports[realm];
    let cached = &export.areas.own().cached;
    let home = accord.fetches.home(now, meaning.object, export.pool.servers.service())?;
    let sound = accord.fetches.trusts(now, meaning.place);
    (sound && cached.mode() == Mode::Lease && cached.keeps(now, meaning.place, meaning.object)).then_some(home)
}

/// Whether a peer may ask for this.
pub(crate) fn lends(question: &Question<'_>) -> bool {
    match question {
        Question::Attributes(_) | Question::Name(..) | Question::Access(..) | Question::Link(_) => true,
        // A page is large, and limits are each proxy's own.
        Question::Page(..) | Question::Limits(..) => false,
    }
}

impl Loop {
    /// Asks a peer for a read; it comes back if too many are asked for.
    pub(crate) fn fetch(&mut self, now: Time, peer: u8, call: Box<Held>) -> Option<Box<Held>> {
        let Some(accord) = self.shared.accord().filter(|_| self.loans.wanted.len() < WANTED_MOST) else {
            return Some(call);
        };
        let export = &self.shared.exports[call.errand.forward.realm];
        let patience = accord::patience(export.pool.servers.service());
        let id = accord.fetch(peer, self.number, export.areas.own().cached.name(), &call.record);
        self.loans.wanted.insert(id, Wanted { peer, since: now, patience, call });
        None
    }

    /// A peer answered, or has no answer. One that comes too late finds nobody.
    pub(crate) fn fetched(&mut self, now: Time, id: u64, results: Option<&[u8]>) {
        let Some(Wanted { call, since, .. }) = self.loans.wanted.remove(&id) else { return };
        let Forward { realm, procedure, meaning, owner, .. } = call.errand.forward;
        let results = results.filter(|results| self.trusts(since, meaning.place, procedure, results));
        if let Some(accord) = self.shared.accord() {
            accord.fetches.answered(results.is_some());
        }
        let Some(results) = results else {
            return self.try_call(now, call);
        };
        if let Ok(reply) = Reply::decode(procedure, results) {
            let asked = call.errand.forward.asked(&call.record);
            self.shared.whose.learn_from(owner, procedure, &call.record, &reply);
            self.shared.watch.names.learn_from(meaning.place, asked.name, &reply);
            self.shared.exports[realm].pool.learn_homes(meaning.place, asked.name, &reply);
        }
        if matches!(status(results), Some(Nfsstat3::STALE | Nfsstat3::BADHANDLE)) {
            self.shared.exports[realm].areas.gone(now, meaning.place);
        }
        self.conclude(now, *call, Outcome::Joined, results);
    }

    /// Whether what a peer says, who was asked then, can be relied on: of an object that was made shortly before, or since, it may not have heard.
    fn trusts(&self, asked: Time, place: Key, procedure: Procedure, results: &[u8]) -> bool {
        let trusts = |object| self.shared.accord().is_some_and(|accord| accord.fetches.trusts(asked, object));
        let sound = match Reply::decode(procedure, results) {
            Ok(Reply::Lookup(Ok(found))) => trusts(Key::of(found.object.bytes())),
            Ok(_) => true,
            Err(_) => false,
        };
        sound && trusts(place)
    }

    /// Reads of which peers say nothing go to servers; peers' reads that nobody answered are forgotten.
    pub(crate) fn tend_loans(&mut self, now: Time) {
        let Some(accord) = self.shared.accord() else { return };
        let fetches = &accord.fetches;
        let over =
            |_: &u64, wanted: &mut Wanted| now.since(wanted.since) >= wanted.patience || !fetches.hopes(wanted.peer);
        let late: Vec<Wanted> = self.loans.wanted.extract_if(over).map(|(_, wanted)| wanted).collect();
        for Wanted { peer, since, call, .. } in late {
            fetches.silent(now, peer, since);
            self.held.push_back(call);
        }
        self.loans.lent.retain(|_, lent| now.since(lent.since) < LENT_MOST_FOR);
    }

    /// A peer asks for a read.
    pub(crate) fn asked(&mut self, now: Time, (to, id): (Life, u64), export: u32, record: &[u8]) {
        let Some(accord) = self.shared.accord().cloned() else { return };
        if self.loans.lent.len() >= LENT_MOST || self.hard_pressed() {
            return accord.lend(to, id, None);
        }
        self.loans.generation = self.loans.generation.wrapping_add(1);
        let entry = self.loans.lent.vacant_entry();
        let (event_loop, slot) = (self.number as u32, entry.key() as u32 | PEER);
        let asker = Asker { event_loop, slot, generation: self.loans.generation };
        let mut out = Vec::new();
        match dispatch::lend(now, &mut self.memo, &self.shared, asker, export, record, &mut out) {
            None => accord.lend(to, id, None),
            Some(Taken::Forward(forward, _, claim)) => {
                entry.insert(Lent { asker, to, id, since: now });
                self.purse.spend(forward.cost);
                let Self { shared, links, buffers, .. } = self;
                if let Some(call) = upstream::begin(now, shared, links, buffers, (asker, &forward, claim), record) {
                    self.hold(call);
                }
            }
            Some(Taken::Shared(cost)) => {
                entry.insert(Lent { asker, to, id, since: now });
                self.purse.spend(cost);
            }
            Some(Taken::Done | Taken::Joined { .. } | Taken::Find(..) | Taken::Unsorted(_)) => {
                accord.lend(to, id, results(&out));
            }
        }
    }

    /// Whether the one who asked, a client or a peer, still waits.
    pub(crate) fn awaits(&self, asker: Asker) -> bool {
        match asker.is_peer() {
            true => self.loans.awaits(asker),
            false => self.slot_of(asker).is_some(),
        }
    }
}

impl Loans {
    fn awaits(&self, asker: Asker) -> bool {
        self.lent.get((asker.slot & !PEER) as usize).is_some_and(|lent| lent.asker == asker)
    }

    /// A peer's read is answered.
    pub(crate) fn lend(&mut self, shared: &Shared, asker: Asker, answer: &[u8]) {
        let Some(accord) = shared.accord().filter(|_| self.awaits(asker)) else { return };
        let Lent { to, id, .. } = self.lent.remove((asker.slot & !PEER) as usize);
        accord.lend(to, id, results(answer));
    }
}

/// What a whole answer says, if it is no refusal.
fn results(answer: &[u8]) -> Option<&[u8]> {
    rpc::Reply::decode(answer.get(record::MARK..)?).ok()?.results.ok()
}

/// Marks the place of a peer's read among those of clients.
const PEER: u32 = 1 << 31;
/// Reads of a loop that peers are asked for at once; further ones go to servers.
const WANTED_MOST: usize = 4096;
/// Reads that peers ask a loop for at once; further ones are refused.
const LENT_MOST: usize = 4096;
/// Nobody waits for longer: an answer that comes then is the cache's alone.
const LENT_MOST_FOR: Span = Span::from_secs(2);
