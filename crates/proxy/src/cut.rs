//! UNCHECKED CREATEs that set the size of a file which is there, over servers that believe for a while
//! what they once knew.
//!
//! Such a CREATE belongs to two servers: the one that knows the name, and the one that has changed
//! the file last. And a head of Ganesha may show a file's attributes from before a CREATE that cut
//! it, its own ones included; after a SETATTR it does not. The call is therefore done as what it
//! is: the name is looked up at its server, and the file is cut by a SETATTR where every SETATTR of
//! it goes, both as the caller. If that cannot be done, the CREATE is sent as it is.

use crate::clerk::{Job, Lines, Untold};
use crate::clock::duration;
use crate::dispatch::{self, Forward};
use crate::event::{Loop, Shared};
use crate::fencing::REFUSALS;
use crate::realm::{End, Makes, Realm, Sent, Wishes};
use crate::translate::Meaning;
use crate::upstream::{Errand, Held};
use crate::verify::Verdict;
use midas_core::cache::Ended;
use midas_core::key::Key;
use midas_core::time::{Span, Time};
use midas_net::{Caller, ClientError};
use midas_nfs::nfs3::{
    Call, CreateHow, CreateOk, DirOp, FileHandle, Ftype3, Nfsstat3, Procedure, Reply, Sattr3, WccData,
};
use midas_nfs::rpc::{self, Credential};
use std::sync::Arc;
use std::time::Instant;

impl Realm {
    /// The file that a CREATE cuts.
    pub(crate) fn cuts(&self, meaning: &Meaning) -> Option<Key> {
        if !(meaning.resizes && self.stale()) {
            return None;
        }
        match self.makes(meaning) {
            Makes::Over(file) => Some(file),
            Makes::New | Makes::Unknown => None,
        }
    }
}

impl Errand {
    /// The file that it cuts in two steps.
    pub(crate) fn cuts(&self, shared: &Shared) -> Option<Key> {
        let Wishes { forsaken, whole, .. } = self.wishes;
        if whole || forsaken.is_some() { None } else { shared.exports[self.forward.realm].cuts(&self.forward.meaning) }
    }
}

impl Loop {
    /// Has a CREATE done in two steps, when its file may be changed.
    pub(crate) fn cut_apart(&mut self, now: Time, mut call: Box<Held>, file: Key) {
        // A late copy of a WRITE may still run there.
        let waits = call.turn.as_mut().is_some_and(|turn| turn.may_wait_for_file() && turn.waits_for_file(file));
        if waits || !call.errand.written(now, &self.shared, &call.record) {
            self.held.push_back(call);
            return;
        }
        let realm = call.errand.forward.realm;
        let sent = match self.shared.exports[realm].send(now, &Meaning::setattr(file), Wishes::default()) {
            Ok(sent) => sent,
            Err((_, bound)) => {
                call.bound = bound;
                self.held.push_back(call);
                return;
            }
        };
        // Whatever comes of it, it is not tried so again.
        call.errand.wishes.whole = true;
        let cut = Box::new(Cut { realm, record: call.record.clone(), file, sent, since: now });
        let number = self.doubted.insert(call);
        if let Err(Job::Cut { cut, .. }) = self.desk.give(Job::Cut { cut, event_loop: self.number, number }) {
            // Too many at once.
            self.shared.exports[realm].take_back(now, cut.sent);
            let call = self.doubted.remove(number);
            self.try_call(now, call);
        }
    }

    /// A CREATE was done in two steps, or has to be sent as it is.
    pub(crate) fn cut_over(&mut self, now: Time, number: usize, verdict: Verdict) {
        let Some(mut call) = self.doubted.try_remove(number) else { return };
        match verdict {
            Verdict::Answer(results) | Verdict::Made { ours: results, .. } => {
                let Forward { realm, procedure, .. } = call.errand.forward;
                let claim = (call.claim.take(), Ended::Done);
                self.relay().landed(now, realm, procedure, claim, Some(&results));
                self.settled(now, call, &results);
            }
            Verdict::Send(_) => self.try_call(now, call),
            Verdict::Unknown => {
                // The file may still be cut.
                call.claim = self.let_go(now, call.claim.take(), Ended::Unknown);
                call.sent_at = Some(now);
                if let Some(turn) = &mut call.turn {
                    turn.first.get_or_insert_with(Arc::default);
                }
                self.try_call(now, call);
            }
        }
    }
}

/// A CREATE to be done in two steps.
pub(crate) struct Cut {
    realm: usize,
    record: Vec<u8>,
    /// The file that its name leads to, and the place of the SETATTR among those that change it.
    file: Key,
    sent: Sent,
    since: Time,
}

impl Cut {
    /// Does it. `Send`: nothing has changed, it is to be sent as it is; `Unknown`: the file was
    /// perhaps cut, or will be.
    pub(crate) fn done(self, shared: &Shared, lines: &mut Lines) -> Verdict {
        let Self { realm, record, file, sent, since } = self;
        let (export, server) = (&shared.exports[realm], sent.ticket.route.to);
        let now = || export.pool.time(Instant::now());
        // Others wait for the file: not behind a server that does not answer.
        let open = || export.pool.ends(server) && now().since(since) < WAIT;
        let asked = asked(&record).filter(|_| open());
        let found = asked.as_ref().and_then(|(caller, place, _)| look_up(export, lines, place, caller).ok().flatten());
        let object = found.as_deref().and_then(FileHandle::new).filter(|found| Key::of(found.bytes()) == file);
        let (Some((caller, _, size)), Some(object), true) = (asked, object, open()) else {
            export.take_back(now(), sent);
            return Verdict::Send(None);
        };
        match set_size(shared, lines, (export, sent), (object, size), &caller) {
            Size::Set(attributes) => {
                let made = CreateOk { object: Some(object), attributes: attributes.after, dir: WccData::default() };
                let mut results = Vec::new();
                Reply::Create(Ok(made)).encode(&mut results);
                Verdict::Answer(results)
            }
            // The CREATE is told itself.
            Size::Kept => Verdict::Send(None),
            Size::Unknown => Verdict::Unknown,
        }
    }
}

/// Who sets which size, by which name.
fn asked(record: &[u8]) -> Option<(Caller, DirOp<'_>, u64)> {
    let call = rpc::Call::decode(record).ok()?;
    let credential = Credential::decode(&call.credential).ok()?;
    // Whom a server takes others for is its own affair.
    let Credential::Sys(_) = credential else { return None };
    match Call::decode(Procedure::Create, call.args).ok()? {
        Call::Create { place, how: CreateHow::Unchecked(Sattr3 { size: Some(size), .. }) } => {
            Some((dispatch::caller(&credential), place, size))
        }
        _ => None,
    }
}

/// The handle of the file that a name leads to, as the name's server says. None: it leads to no
/// file that this user may see.
fn look_up(export: &Realm, lines: &mut Lines, what: &DirOp<'_>, caller: &Caller) -> Result<Option<Vec<u8>>, Untold> {
    let pool = &export.pool;
    let server = export.knows_names(Instant::now(), Key::of(what.dir.bytes())).ok_or(Untold)?;
    let patience = duration(pool.config.probe_timeout);
    lines.ask(pool.server(server).address, caller, patience, |nfs| {
        match nfs.nfs(&Call::Lookup { what: *what }).map_err(|_| Untold)? {
            Reply::Lookup(Ok(found)) => {
                let file = found.attributes.is_none_or(|of| of.ftype == Ftype3::Reg);
                Ok(file.then(|| found.object.bytes().to_vec()))
            }
            _ => Ok(None),
        }
    })
}

/// What became of a file's size.
enum Size {
    Set(WccData),
    /// The call was refused, or could not be sent.
    Kept,
    /// There is no answer.
    Unknown,
}

/// Sets a file's size by a SETATTR that has its server.
fn set_size(
    shared: &Shared,
    lines: &mut Lines,
    (export, mut sent): (&Realm, Sent),
    (object, size): (FileHandle<'_>, u64),
    caller: &Caller,
) -> Size {
    let (pool, server) = (&export.pool, sent.ticket.route.to);
    let new_attributes = Sattr3 { size: Some(size), ..Sattr3::default() };
    let call = Call::Setattr { object, new_attributes, guard: None };
    let now = || pool.time(Instant::now());
    let mut left = false;
    let patience = (duration(pool.config.probe_timeout), duration(pool.config.failover_after));
    let done = lines.ask_once(pool.server(server).address, caller, patience, |nfs| {
        left = true;
        match nfs.nfs(&call) {
            Ok(Reply::Setattr(Ok(done))) => Ok(Ok(done)),
            Ok(Reply::Setattr(Err(failed))) => Ok(Err(failed.status)),
            Err(ClientError::Status(status)) => Ok(Err(status)),
            // It was not executed.
            Err(ClientError::Refused(_)) => Ok(Err(Nfsstat3::ACCES)),
            Ok(_) | Err(_) => Err(Untold),
        }
    });
    match done {
        Ok(Ok(done)) => {
            export.settle(now(), &mut sent, End::Answered { ok: true, unstable: false });
            Size::Set(done)
        }
        Ok(Err(status)) => {
            if REFUSALS.contains(&status) {
                sent.ticket.spare();
            }
            let failed = matches!(status, Nfsstat3::IO | Nfsstat3::SERVERFAULT);
            let end = if failed { End::Failed } else { End::Answered { ok: false, unstable: false } };
            export.settle(now(), &mut sent, end);
            Size::Kept
        }
        Err(Untold) if left => {
            // It may still run: what else would change the file waits, from before others may try.
            let until = now() + export.rules().caching.server_hold_max;
            if let Some(number) = shared.pools.iter().position(|of| Arc::ptr_eq(of, pool)) {
                shared.turns.leave(&sent.meaning, (number, server), until);
            }
            export.settle(now(), &mut sent, End::Lost);
            Size::Unknown
        }
        Err(Untold) => {
            export.take_back(now(), sent);
            Size::Kept
        }
    }
}

/// How long a file is kept for a CREATE before its SETATTR has left.
const WAIT: Span = Span::from_secs(1);
