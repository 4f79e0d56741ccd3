//! UNCHECKED CREATEs that set the size of a file which is there, over servers that believe for a while
//! what they once knew.
//!
//! Such a CREATE belongs to two servers: the one that knows the name, and the one that has changed
//! the file last. And a head of Ganesha may show a file's attributes from before a CREATE that cut
//! it, its own ones included; after a SETATTR it does not. The call is therefore done as what it
//! is: the name is looked up at its server, and the file is cut by a SETATTR where every SETATTR of
//! it goes, both as the caller.

use crate::clerk::{About, Job, Lines, Untold, refused_for_port};
use crate::clock::duration;
use crate::dispatch;
use crate::event::{Loop, Mail, Shared};
use crate::realm::{End, Makes, Realm, Wishes};
use crate::translate::Meaning;
use crate::upstream::Held;
use crate::verify::Verdict;
use midas_core::key::Key;
use midas_core::time::Time;
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

impl Loop {
    /// Has a CREATE done in two steps.
    pub(crate) fn cut_apart(&mut self, now: Time, mut call: Box<Held>, file: Key) {
        // If nobody answers there for long, the CREATE goes elsewhere.
        let export = &self.shared.exports[call.errand.forward.realm];
        call.bound = export.part(file).shard.fence(now, &export.pool.servers, file, file);
        // A late copy of a WRITE may still run there.
        let waits = call.turn.as_mut().is_some_and(|turn| turn.may_wait_for_file() && turn.waits_for_file(file));
        if waits || !call.errand.written(now, &self.shared, &call.record) {
            self.held.push_back(call);
            return;
        }
        let (realm, record) = (call.errand.forward.realm, call.record.clone());
        let number = self.doubted.insert(call);
        if self.desk.give(Job::Cut { realm, record, event_loop: self.number, number }).is_err() {
            // Too many at once: it is tried at the next tick.
            let call = self.doubted.remove(number);
            self.held.push_back(call);
        }
    }
}

/// Does a CREATE in two steps. If it cannot be done now, or not so, it is tried again.
pub(crate) fn cut(shared: &Shared, lines: &mut Lines, realm: usize, record: &[u8], number: usize) -> Mail {
    let verdict = in_two_steps(shared, lines, &shared.exports[realm], record).unwrap_or(Verdict::Unknown);
    Mail::Verified { about: About::Recalled(number), verdict }
}

fn in_two_steps(shared: &Shared, lines: &mut Lines, export: &Realm, record: &[u8]) -> Option<Verdict> {
    let call = rpc::Call::decode(record).ok()?;
    let caller = dispatch::caller(&Credential::decode(&call.credential).ok()?);
    let Ok(Call::Create { place, how: CreateHow::Unchecked(Sattr3 { size: Some(size), .. }) }) =
        Call::decode(Procedure::Create, call.args)
    else {
        return None;
    };
    let forget = || {
        let directory = Key::of(place.dir.bytes());
        export.part(directory).names.remove(directory.named(place.name));
    };
    let Some(file) = look_up(export, lines, &place, &caller).ok()? else {
        // It does not lead to a file that this user may cut: the CREATE itself is told why.
        forget();
        return None;
    };
    let object = FileHandle::new(&file)?;
    match set_size(shared, lines, export, (object, size), &caller)? {
        Ok(attributes) => {
            let made = CreateOk { object: Some(object), attributes: attributes.after, dir: WccData::default() };
            Some(answer(&Reply::Create(Ok(made))))
        }
        Err(Nfsstat3::STALE | Nfsstat3::BADHANDLE) => {
            forget();
            None
        }
        Err(status) => Some(answer(&Reply::failed(Procedure::Create, status))),
    }
}

fn answer(reply: &Reply<'_>) -> Verdict {
    let mut results = Vec::new();
    reply.encode(&mut results);
    Verdict::Answer(results)
}

/// The handle of the file that a name leads to, as the name's server says. None: it leads to no
/// file that this user may see.
fn look_up(export: &Realm, lines: &mut Lines, what: &DirOp<'_>, caller: &Caller) -> Result<Option<Vec<u8>>, Untold> {
    let pool = &export.pool;
    let server = export.knows_names(Instant::now(), Key::of(what.dir.bytes())).ok_or(Untold)?;
    let patience = duration(pool.config.probe_timeout);
    lines.ask(pool.server(server).address, caller, patience, |nfs| {
        let found = match nfs.nfs(&Call::Lookup { what: *what }).map_err(|_| Untold)? {
            Reply::Lookup(Ok(found)) => {
                let file = found.attributes.is_none_or(|of| of.ftype == Ftype3::Reg);
                Ok(file.then(|| found.object.bytes().to_vec()))
            }
            Reply::Lookup(Err(failed)) => Err(failed.status),
            _ => return Err(Untold),
        };
        match found {
            Ok(file) => Ok(file),
            Err(status) if refused_for_port(nfs, status) => Err(Untold),
            Err(_) => Ok(None),
        }
    })
}

/// Sets a file's size by a SETATTR that goes where every SETATTR of it would go. None: it could not
/// be sent, or has no answer.
fn set_size(
    shared: &Shared,
    lines: &mut Lines,
    export: &Realm,
    (object, size): (FileHandle<'_>, u64),
    caller: &Caller,
) -> Option<Result<WccData, Nfsstat3>> {
    let pool = &export.pool;
    let new_attributes = Sattr3 { size: Some(size), ..Sattr3::default() };
    let call = Call::Setattr { object, new_attributes, guard: None };
    let meaning = Meaning::of(&call)?;
    let now = || pool.time(Instant::now());
    let sent = export.send(now(), &meaning, Wishes::default()).ok()?;
    let server = sent.ticket.route.to;
    let mut left = false;
    let patience = duration(pool.config.probe_timeout);
    let done = lines.ask(pool.server(server).address, caller, patience, |nfs| {
        left = true;
        let done = match nfs.nfs(&call) {
            Ok(Reply::Setattr(Ok(done))) => Ok(done),
            Ok(Reply::Setattr(Err(failed))) => Err(failed.status),
            Err(ClientError::Status(status)) => Err(status),
            Ok(_) | Err(_) => return Err(Untold),
        };
        match done {
            Err(status) if refused_for_port(nfs, status) => Err(Untold),
            done => Ok(done),
        }
    });
    match &done {
        Ok(done) => export.settle(now(), sent, End::Answered { ok: done.is_ok(), unstable: false }),
        Err(Untold) if left => {
            export.settle(now(), sent, End::Lost);
            // It may still run: what else would change the file waits.
            let until = now() + export.rules().caching.server_hold_max;
            let pool = shared.pools.iter().position(|of| Arc::ptr_eq(of, pool))?;
            shared.turns.leave(&meaning, (pool, server), until);
        }
        Err(Untold) => export.take_back(now(), sent),
    }
    done.ok()
}
