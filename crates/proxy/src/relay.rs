//! A server's reply on its way to the client: what is ours to change is changed, what it teaches is learned.

use crate::cached::Landed;
use crate::claim::{self, Claim};
use crate::counters::Bytes;
use crate::dispatch;
use crate::event::{Asker, Client, Mail, Mailbox, Shared};
use crate::fencing::with_entries;
use crate::fetching::Loans;
use crate::link::Flight;
use crate::realm::{End, Realm, Sent};
use crate::settle::{keep_made, note_made};
use crate::translate::{Kind, Meaning};
use crate::verifier::composed;
use crate::watch::{self, Outcome, Whom};
use crate::whose::id;
use midas_core::cache::Ended;
use midas_core::key::Key;
use midas_core::peer::lease::Operation;
use midas_core::time::{Span, Time};
use midas_net::{Buffers, Known, Purse};
use midas_nfs::nfs3::{
    self, EntryPlus, FileHandle, FsinfoOk, Ftype3, LookupOk, Nfsstat3, PostOpAttr, Procedure, Reply, StableHow, access,
};
use midas_nfs::{record, rpc};
use slab::Slab;
use std::time::Instant;

/// What relaying a reply needs of the loop.
pub(crate) struct Relay<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) clients: &'a mut Slab<Client>,
    pub(crate) buffers: &'a mut Buffers,
    pub(crate) others: &'a [Mailbox],
    pub(crate) number: usize,
    pub(crate) touched: &'a mut Vec<usize>,
    pub(crate) purse: &'a mut Purse,
    pub(crate) loans: &'a mut Loans,
    /// When the batch began.
    pub(crate) now: Instant,
}

/// Who waits for a call's results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) asker: Asker,
    /// The client's number for the call.
    pub(crate) xid: u32,
    pub(crate) procedure: Procedure,
    pub(crate) known: Option<Known>,
    /// Bytes that it holds.
    pub(crate) cost: usize,
    /// For those who watch.
    pub(crate) whom: Whom,
}

impl Waits {
    /// What must not be executed twice at whichever proxy, or in whichever life of one, it comes in; none for what may.
    pub(crate) fn operation(&self, shared: &Shared, record: &[u8]) -> Option<Operation> {
        let Self { xid, procedure, known, .. } = *self;
        let known = known.filter(|_| !procedure.idempotent())?;
        let client = shared.replays(xid).client(&known)?;
        match (shared.accord(), shared.intents.get()) {
            (Some(accord), _) => Some(accord.operation(client, xid, record)),
            (None, Some(intents)) => Some(intents.operation(client, xid, record)),
            (None, None) => None,
        }
    }
}

impl Relay<'_> {
    /// A server answered the call of this record.
    pub(crate) fn reply(&mut self, now: Time, server: &str, flight: &mut Flight, record: &[u8], reply: &[u8]) {
        let Flight { waits, realm, since, sent_at, resent, ref sent, .. } = *flight;
        let (kind, place, route) = (sent.meaning.kind, sent.meaning.place, sent.ticket.route);
        let asked = watch::Asked::in_record(waits.procedure, (realm, place), record);
        let results = rpc::Reply::decode(reply).ok().and_then(|reply| reply.results.ok());
        let status = results.and_then(|results| results.first_chunk::<4>()).map(|word| u32::from_be_bytes(*word));
        let (mut changed, mut unstable) = (None, false);
        if let (Some(0), Some(results)) = (status, results) {
            let export = (realm, sent.meaning.narrowed);
            (changed, unstable) = self.changed(server, export, waits.procedure, kind, results);
            if matches!(waits.procedure, Procedure::Lookup | Procedure::Readdirplus) {
                changed = self.no_higher(realm, &sent.meaning, waits.procedure, results);
            }
            let given = changed.as_deref().unwrap_or(results);
            self.learn(now, flight, &asked, record, given);
        }
        let sent = &mut flight.sent;
        let export = &self.shared.exports[realm];
        if let (true, false, Some(status), Some(results)) = (export.stale(), resent, status, results)
            && Realm::changed_nothing(sent, waits.procedure, Nfsstat3(status), results)
        {
            sent.ticket.spare();
        }
        if let (true, Some(given)) = (export.stale(), changed.as_deref().or(results)) {
            // The answer may be the first copy's.
            let left = if resent { since } else { sent_at };
            let meaning = (&sent.meaning, sent.makes);
            let honest = export.honest((now, left), sent.ticket.route.to, meaning, waits.procedure, given);
            changed = honest.or(changed);
        }
        let end = match status.map(Nfsstat3) {
            Some(Nfsstat3::IO | Nfsstat3::SERVERFAULT) => End::Failed,
            Some(status) => End::Answered { ok: status == Nfsstat3::OK, unstable },
            // A refusal is about the call, not about the server.
            None => End::Answered { ok: false, unstable },
        };
        let tally = &self.shared.tallies[self.number];
        let missed = matches!(&flight.claim, Some(Claim::Reads(fetching)) if fetching.missed());
        tally.forwarded(waits.procedure, status.map(Nfsstat3), (missed, now.since(since)));
        tally.served(export.pool.links_of(sent.ticket.route.to).start, now.since(sent_at));
        let spent = export.pool.servers.spent(now, sent_at, route.to);
        export.settle(now, &mut flight.sent, end);
        let given = changed.as_deref().or(results);
        if matches!(status.map(Nfsstat3), Some(Nfsstat3::STALE | Nfsstat3::BADHANDLE)) {
            self.shared.exports[realm].areas.gone(now, place);
        }
        let ended = if resent { Ended::Unknown } else { Ended::Done };
        let landed = self.landed(now, realm, waits.procedure, (flight.claim.take(), ended), given);
        // Others may change the same when what was kept of it is in order.
        drop(flight.turn.take());
        let ours = landed.all.or(changed);
        let given = ours.as_deref().or(results);
        let now = (now, self.number);
        asked.tell(now, self.shared, waits.whom, (Outcome::Forwarded(route), spent), given);
        self.hand(waits, ours.as_deref(), results, reply);
        for waits in landed.waits {
            self.shared.tallies[self.number].joined(waits.procedure, status.map(Nfsstat3), waits.whom.waited(now.0));
            let told = landed.joined.as_deref();
            asked.tell(now, self.shared, waits.whom, (Outcome::Joined, Span::ZERO), told.or(given));
            self.hand(waits, told.or(ours.as_deref()), results, reply);
        }
    }

    /// A successful reply teaches where objects lie, whose they are and who has made them.
    #[inline]
    fn learn(&self, now: Time, flight: &Flight, asked: &watch::Asked<'_>, record: &[u8], given: &[u8]) {
        let Flight { waits: Waits { procedure, .. }, owner, realm, tries, ref sent, .. } = *flight;
        let Shared { whose, exports, watch, .. } = self.shared;
        let (export, turn, place) = (&exports[realm], flight.turn.as_ref(), sent.meaning.place);
        let Realm { areas, pool, .. } = export;
        if makes_unremarkable(procedure) && !whose.learns() && !areas.learns() {
            if let Some((object, kind)) = nfs3::made(given) {
                let object = Key::of(object.bytes());
                if pool.stays() && procedure != Procedure::Mkdir {
                    pool.homes.made(place, object);
                }
                if let Some(name) = asked.name {
                    watch.names.learn(object, (place, name), kind.map(|kind| kind == Ftype3::Dir));
                }
                note_made(self.shared, &sent.meaning, turn, object);
            }
        } else if teaches(procedure, given, whose.learns())
            && let Ok(reply) = Reply::decode(procedure, given)
        {
            whose.learn_from(owner, procedure, record, &reply);
            areas.learn_from(now, sent.epoch, &sent.meaning, &reply);
            watch.names.learn_from(place, asked.name, &reply);
            keep_made(self.shared, &sent.meaning, turn, &reply);
            learn_of_sender(export, sent, &reply, tries);
            pool.learn_homes(place, asked.name, &reply);
        }
    }

    /// Gives a call its results: those that are ours, or the server's reply.
    fn hand(&mut self, waits: Waits, ours: Option<&[u8]>, results: Option<&[u8]>, reply: &[u8]) {
        match ours {
            Some(ours) => self.results(waits, ours),
            None => {
                let (asker, copies) = self.newest(&waits, results);
                let (head, body) = (record::head(reply.len(), waits.xid), &reply[4..]);
                self.give(asker, &waits, head, body);
                for asker in copies {
                    self.copy(asker, head, body);
                }
            }
        }
    }

    /// What a call held of the cache is given back.
    pub(crate) fn landed(
        &self,
        now: Time,
        realm: usize,
        procedure: Procedure,
        (claim, ended): (Option<Claim>, Ended),
        results: Option<&[u8]>,
    ) -> Landed {
        let export = &self.shared.exports[realm];
        match claim {
            None => Landed::default(),
            Some(Claim::Reads(fetching)) => export.areas.of_read(&fetching).landed(now, *fetching, results),
            Some(Claim::Changes(changes)) => {
                let reply = results.map(|results| (procedure, results));
                claim::changed(now, self.shared, *changes, ended, reply);
                Landed::default()
            }
        }
    }

    /// Gives a call its results.
    pub(crate) fn results(&mut self, waits: Waits, results: &[u8]) {
        let (asker, copies) = self.newest(&waits, Some(results));
        let mut whole = Vec::new();
        dispatch::answer(&mut whole, waits.xid, |out| out.extend_from_slice(results));
        if let Some((head, body)) = whole.split_first_chunk() {
            self.give(asker, &waits, *head, body);
            for asker in copies {
                self.copy(asker, *head, body);
            }
        }
    }

    /// Who asked last, and who asked before and is there: the newest may be gone without anybody
    /// knowing yet. Results that may be asked for again are kept.
    fn newest(&self, waits: &Waits, results: Option<&[u8]>) -> (Asker, Vec<Asker>) {
        let mut copies = Vec::new();
        let newest = waits.known.and_then(|known| {
            if let Some(intents) = self.shared.intents.get().filter(|_| !waits.procedure.idempotent()) {
                intents.ended(self.shared.clock.now(), self.number, (waits.xid, known), results);
            }
            let mut replays = self.shared.replays(waits.xid);
            replays.prefer(&known, |asker| self.shared.presence.here(*asker));
            copies.extend(replays.before(&known).iter().copied().filter(|asker| self.shared.presence.here(*asker)));
            match results {
                Some(results) => replays.finish(self.now, &known, results),
                None => replays.forget(&known),
            }
        });
        (newest.unwrap_or(waits.asker), copies)
    }

    /// Results that are ours to change, and whether what was written may be lost by a crash.
    fn changed(
        &self,
        server: &str,
        (realm, narrowed): (usize, bool),
        procedure: Procedure,
        kind: Kind,
        results: &[u8],
    ) -> (Option<Vec<u8>>, bool) {
        if matches!(kind, Kind::Plain | Kind::List { .. }) && !narrowed {
            return (None, false);
        }
        let mut out = Vec::new();
        match (kind, Reply::decode(procedure, results)) {
            (Kind::Write { .. }, Ok(Reply::Write(Ok(mut ok)))) => {
                ok.verf = composed(server, ok.verf);
                Reply::Write(Ok(ok)).encode(&mut out);
                (Some(out), ok.committed == StableHow::Unstable)
            }
            (Kind::Commit { .. }, Ok(Reply::Commit(Ok(mut ok)))) => {
                ok.verf = composed(server, ok.verf);
                Reply::Commit(Ok(ok)).encode(&mut out);
                (Some(out), false)
            }
            (Kind::Fsinfo, Ok(Reply::Fsinfo(Ok(ok)))) => {
                Reply::Fsinfo(Ok(self.common(realm, &ok))).encode(&mut out);
                (Some(out), false)
            }
            // A client that may change nothing is told so when it asks, not when it tries.
            (Kind::Plain, Ok(Reply::Access(Ok(mut ok)))) => {
                ok.access &= access::READ | access::LOOKUP | access::EXECUTE;
                Reply::Access(Ok(ok)).encode(&mut out);
                (Some(out), false)
            }
            _ => (None, false),
        }
    }

    /// The parent of an export's root is the root, wherever it lies in what the servers export.
    fn no_higher(&self, realm: usize, meaning: &Meaning, procedure: Procedure, results: &[u8]) -> Option<Vec<u8>> {
        if procedure == Procedure::Lookup && meaning.object != meaning.place.named(b"..") {
            return None;
        }
        let agreed = self.shared.exports[realm].agreed();
        let agreed = agreed.as_ref().as_ref()?;
        let root = FileHandle::new(&agreed.root)?;
        // A server that does not look at all bits of a handle gives the root several: its number tells.
        let same = |dir: &PostOpAttr| dir.as_ref().is_some_and(|of| id(of) == (agreed.fsid, agreed.fileid));
        let is_root = |dir: &PostOpAttr| Key::of(&agreed.root) == meaning.place || same(dir);
        match Reply::decode(procedure, results) {
            Ok(Reply::Lookup(Ok(found))) if found.object != root && is_root(&found.dir_attributes) => {
                let mut out = Vec::new();
                Reply::Lookup(Ok(LookupOk { object: root, attributes: None, ..found })).encode(&mut out);
                Some(out)
            }
            Ok(Reply::Readdirplus(Ok(page))) if is_root(&page.dir_attributes) => {
                let mut entries = page.entries();
                let mut all: Vec<EntryPlus<'_>> = entries.by_ref().collect::<Result<_, _>>().ok()?;
                let higher = |plus: &&mut EntryPlus<'_>| {
                    plus.entry.name == b".." && plus.handle.is_some_and(|handle| handle != root)
                };
                let parent = all.iter_mut().find(higher)?;
                (parent.handle, parent.attributes) = (None, None);
                Some(with_entries(&page, &all, entries.eof() == Some(true)))
            }
            Ok(_) | Err(_) => None,
        }
    }

    /// The limits that hold wherever a call goes.
    fn common(&self, realm: usize, own: &FsinfoOk) -> FsinfoOk {
        let agreed = self.shared.exports[realm].agreed();
        let limits = agreed.as_ref().as_ref().and_then(|agreed| agreed.limits).unwrap_or(*own);
        let most = self.shared.limits.record.saturating_sub(OVERHEAD) as u32;
        FsinfoOk {
            attributes: own.attributes,
            rtmax: limits.rtmax.min(most),
            rtpref: limits.rtpref.min(most),
            wtmax: limits.wtmax.min(most),
            wtpref: limits.wtpref.min(most),
            ..limits
        }
    }

    /// The same answer for somebody who asked before: it holds nothing any more.
    fn copy(&mut self, asker: Asker, head: [u8; 8], body: &[u8]) {
        if asker.event_loop as usize != self.number {
            self.others[asker.event_loop as usize].send(Mail::Copy(asker, [&head[..], body].concat()));
        } else if !asker.is_peer() {
            self.put(asker, head, body);
        }
    }

    fn give(&mut self, asker: Asker, waits: &Waits, head: [u8; 8], body: &[u8]) {
        // What it holds is given back where it was taken: another loop's client may wait with a call of ours.
        let cost = waits.cost;
        let ours = waits.asker.event_loop as usize == self.number;
        if ours {
            self.purse.earn(cost);
        }
        if asker.event_loop as usize != self.number {
            let theirs = if ours { 0 } else { cost };
            self.others[asker.event_loop as usize].send(Mail::Answer(asker, [&head[..], body].concat(), theirs));
            return;
        }
        if asker.is_peer() {
            return self.loans.lend(self.shared, asker, &[&head[..], body].concat());
        }
        if let Some(client) = self.put(asker, head, body) {
            client.answered(cost);
        }
    }

    fn put(&mut self, asker: Asker, head: [u8; 8], body: &[u8]) -> Option<&mut Client> {
        let client = self.clients.get_mut(asker.slot as usize).filter(|client| client.origin.asker == asker)?;
        client.connection.put(self.buffers, &head, body);
        self.shared.tallies[self.number].moved(Bytes::ToClients, head.len() + body.len());
        if self.touched.last() != Some(&(asker.slot as usize)) {
            self.touched.push(asker.slot as usize);
        }
        Some(client)
    }
}

/// Whether what a call makes is known wherever anything is: no device, socket or pipe.
const fn makes_unremarkable(procedure: Procedure) -> bool {
    matches!(procedure, Procedure::Create | Procedure::Mkdir | Procedure::Symlink)
}

/// Whether anybody learns from these results, which tell of a success; `owners`: whether owners of
/// handles are remembered. A GETATTR teaches something of devices, sockets and pipes alone.
fn teaches(procedure: Procedure, results: &[u8], owners: bool) -> bool {
    let is_special = |ftype: u32| SPECIAL.iter().any(|special| *special as u32 == ftype);
    match procedure {
        Procedure::Getattr => {
            results.get(4..).and_then(<[u8]>::first_chunk).is_some_and(|word| is_special(u32::from_be_bytes(*word)))
        }
        Procedure::Null
        | Procedure::Readlink
        | Procedure::Read
        | Procedure::Write
        | Procedure::Readdir
        | Procedure::Fsstat
        | Procedure::Fsinfo
        | Procedure::Pathconf
        | Procedure::Commit => false,
        Procedure::Setattr
        | Procedure::Lookup
        | Procedure::Access
        | Procedure::Create
        | Procedure::Mkdir
        | Procedure::Symlink
        | Procedure::Mknod
        | Procedure::Link
        | Procedure::Readdirplus => true,
        Procedure::Remove | Procedure::Rmdir | Procedure::Rename => owners,
    }
}

/// Learns which devices, sockets and pipes the server knows that gave an answer.
fn learn_of_sender(export: &Realm, sent: &Sent, reply: &Reply<'_>, tries: u8) {
    let server = sent.ticket.route.to;
    match reply {
        Reply::Mknod(Ok(made)) => {
            made.object.into_iter().for_each(|object| export.known_at(Key::of(object.bytes()), server));
        }
        // Who has looked a special file up knows it.
        Reply::Lookup(Ok(found)) if is_special(&found.attributes) => {
            export.known_too(Key::of(found.object.bytes()), server);
        }
        Reply::Readdirplus(Ok(page)) => {
            for plus in page.entries().map_while(Result::ok).filter(|plus| is_special(&plus.attributes)) {
                plus.handle.into_iter().for_each(|handle| export.known_too(Key::of(handle.bytes()), server));
            }
        }
        reply if is_of_special(reply) => match tries {
            0 => export.known_too(sent.meaning.object, server),
            // Another server knew nothing of it.
            _ => export.known_at(sent.meaning.object, server),
        },
        Reply::Link(Ok(done)) if is_special(&done.attributes) => {
            sent.meaning.second.into_iter().for_each(|(file, _)| match tries {
                0 => export.known_too(file, server),
                _ => export.known_at(file, server),
            });
        }
        // What it may be is not told, but another server did not know it.
        Reply::Setattr(Ok(wcc)) if tries > 0 && wcc.after.is_none() => {
            export.known_at(sent.meaning.object, server);
        }
        _ => {}
    }
}

/// Whether a reply is about a device, socket or pipe that the call named by its handle.
fn is_of_special(reply: &Reply<'_>) -> bool {
    match reply {
        Reply::Getattr(Ok(attributes)) => is_special(&Some(*attributes)),
        Reply::Setattr(Ok(wcc)) => is_special(&wcc.after),
        Reply::Access(Ok(ok)) => is_special(&ok.attributes),
        _ => false,
    }
}

fn is_special(attributes: &PostOpAttr) -> bool {
    attributes.is_some_and(|attributes| SPECIAL.contains(&attributes.ftype))
}

/// Whether a call is about one object, and names it by its handle.
pub(crate) fn asks_of_object(procedure: Procedure) -> bool {
    matches!(procedure, Procedure::Getattr | Procedure::Setattr | Procedure::Access | Procedure::Readlink)
}

/// Objects that a server may know by their names alone.
const SPECIAL: [Ftype3; 4] = [Ftype3::Blk, Ftype3::Chr, Ftype3::Sock, Ftype3::Fifo];
/// Room for headers in a record that carries data.
const OVERHEAD: usize = 4096;
