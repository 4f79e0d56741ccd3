//! Whether a call that changes something was executed by a server that no longer answers (nfs3.md, C3 and L).
//!
//! Another server of the pool, or the same one when it is back without its memory, is asked for what the call would have left behind. If it is there, the call is answered as its server
//! would have; if it is not, the call may be sent. In doubt the answer is what a client without a proxy would get when it sends the
//! call again to a server that has lost its memory: an error, never a second success; but a name that is gone is taken for removed.

use crate::clerk::{Lines, Untold, refused_for_port};
use crate::clock::duration;
use crate::pool::Pool;
use midas_core::id::ServerId;
use midas_net::{Caller, Client, ClientError};
use midas_nfs::nfs3::{
    Call, CreateHow, CreateOk, DirOp, Failed, Fattr3, FileHandle, Ftype3, LinkDone, MknodData, Nfsstat3, Nfstime3,
    Procedure, RenameDone, Reply, Sattr3, SetTime, WccData,
};
use midas_nfs::rpc::{self, Credential};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A call that was perhaps executed.
pub(crate) struct Doubt {
    pub(crate) realm: usize,
    /// Who is asked.
    pub(crate) witness: ServerId,
    pub(crate) procedure: Procedure,
    pub(crate) record: Vec<u8>,
    /// How long ago it was first sent.
    pub(crate) age: Duration,
    /// For how long servers have been asked, and could not tell.
    pub(crate) failing: Duration,
    pub(crate) before: Before,
}

/// What is known of the time before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// Nothing, and others may have changed the same since.
    Unknown,
    /// Nobody else has changed the same since. Whether its first name led somewhere: a call that takes a name away has told so before it left.
    Known(Option<bool>),
}

/// What is to be done with it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// These are its results.
    Answer(Vec<u8>),
    /// What it would have made is there, and is not old: these are its results if nobody else made it.
    Made { ours: Vec<u8>, otherwise: Vec<u8> },
    /// It was not executed, or may be executed again. Whether its first name resolves to something
    /// now, where that was asked.
    Send(Option<bool>),
    /// Nobody could be asked.
    Unknown,
}

/// Asks its witness. Where that says that there is nothing any more which the call could change, another server
/// must say so too.
pub(crate) fn look(pool: &Pool, lines: &mut Lines, doubt: &Doubt) -> Verdict {
    let gone = match ask(pool, lines, doubt, doubt.witness) {
        Some(Seen::Gone(status)) => answer(&Reply::failed(doubt.procedure, status)),
        Some(Seen::There(verdict)) => return verdict,
        None => return Verdict::Unknown,
    };
    let other = pool.some_open(doubt.witness.index() + 1).filter(|other| *other != doubt.witness);
    match other.map(|other| ask(pool, lines, doubt, other)) {
        Some(Some(Seen::Gone(_))) => gone,
        Some(Some(Seen::There(verdict))) => verdict,
        Some(None) | None if pool.config.servers.len() == 1 || doubt.age > ALONE => gone,
        Some(None) | None => Verdict::Unknown,
    }
}

/// The state of what a call would change, at one server.
enum Seen {
    There(Verdict),
    /// There is nothing any more that it could change.
    Gone(Nfsstat3),
}

fn ask(pool: &Pool, lines: &mut Lines, doubt: &Doubt, witness: ServerId) -> Option<Seen> {
    let call = rpc::Call::decode(&doubt.record).ok()?;
    let caller = match Credential::decode(&call.credential) {
        Ok(Credential::Sys(sys)) => Caller { uid: sys.uid, gid: sys.gid, gids: sys.gids().to_vec() },
        Ok(Credential::None) | Err(_) => Caller { uid: NOBODY, gid: NOBODY, gids: Vec::new() },
    };
    let arguments = Call::decode(doubt.procedure, call.args).ok()?;
    let (address, patience) = (pool.server(witness).address, duration(pool.config.probe_timeout));
    let asked = lines.ask(address, &caller, patience, |nfs| {
        let mut witness = Witness { nfs, age: doubt.age, uid: caller.uid, before: doubt.before };
        match witness.look(&arguments) {
            Ok(verdict) => Ok(Seen::There(verdict)),
            // Where nothing can be found nothing can be done: the call gets its own error there.
            Err(ClientError::Status(status)) if is_gone(status) => Ok(Seen::Gone(status)),
            Err(ClientError::Status(status)) if refused_for_port(witness.nfs, status) => Err(Untold),
            // What cannot be looked at was refused before, as it will be again.
            Err(ClientError::Status(status)) if is_refused(status) => Ok(Seen::There(Verdict::Send(None))),
            // A server that says so again and again says it to the call as well.
            Err(ClientError::Status(status)) if status != Nfsstat3::JUKEBOX && doubt.failing > ALONE => {
                Ok(Seen::Gone(status))
            }
            Err(_) => Err(Untold),
        }
    });
    asked.ok()
}

/// The server that is asked, and what it is asked about.
struct Witness<'n> {
    nfs: &'n mut Client,
    age: Duration,
    uid: u32,
    before: Before,
}

/// An object that a name leads to.
struct Object {
    handle: Vec<u8>,
    attributes: Option<Fattr3>,
}

const NOTHING: WccData = WccData { before: None, after: None };

impl Witness<'_> {
    fn look(&mut self, call: &Call<'_>) -> Result<Verdict, ClientError> {
        match call {
            Call::Setattr { object, new_attributes, .. } => self.setattr(*object, new_attributes),
            Call::Create { place, how: CreateHow::Unchecked(wanted) } => {
                // What was there before keeps its mode, at some servers. A file that is cut to a
                // size shows when: one that had this size before, and was not touched since, was
                // not cut.
                let mtime = if wanted.size.is_some() { SetTime::Server } else { SetTime::Keep };
                let cut = Sattr3 { size: wanted.size, mtime, ..Sattr3::default() };
                let found = self.find(place)?;
                let there = found.is_some();
                let made = found.filter(|made| self.was_free() || self.is(made, Ftype3::Reg, &cut));
                Ok(made.map_or(Verdict::Send(Some(there)), Object::created))
            }
            // The verifier tells the server whether it was this very call, as long as nobody else has written to the file.
            Call::Create { place, how: CreateHow::Exclusive(_) } => {
                let made = if self.was_free() { self.find(place)? } else { None };
                Ok(made.map_or(Verdict::Send(Some(false).filter(|_| self.was_free())), Object::created))
            }
            Call::Create { place, how: CreateHow::Guarded(wanted) } => {
                self.made(Procedure::Create, place, Ftype3::Reg, wanted, |made| Reply::Create(made))
            }
            Call::Mkdir { place, attributes } => {
                self.made(Procedure::Mkdir, place, Ftype3::Dir, attributes, |made| Reply::Mkdir(made))
            }
            Call::Symlink { place, attributes, .. } => {
                // A link's mode is the server's own.
                let attributes = Sattr3 { mode: None, ..*attributes };
                self.made(Procedure::Symlink, place, Ftype3::Lnk, &attributes, |made| Reply::Symlink(made))
            }
            Call::Mknod { place, what } => {
                let (ftype, wanted) = match what {
                    MknodData::Blk(wanted, _) => (Ftype3::Blk, wanted),
                    MknodData::Chr(wanted, _) => (Ftype3::Chr, wanted),
                    MknodData::Sock(wanted) => (Ftype3::Sock, wanted),
                    MknodData::Fifo(wanted) => (Ftype3::Fifo, wanted),
                    MknodData::Other(_) => return Ok(Verdict::Send(None)),
                };
                self.made(Procedure::Mknod, place, ftype, wanted, |made| Reply::Mknod(made))
            }
            Call::Remove { object } => self.gone(object, Procedure::Remove, &Reply::Remove(Ok(NOTHING))),
            Call::Rmdir { object } => self.gone(object, Procedure::Rmdir, &Reply::Rmdir(Ok(NOTHING))),
            Call::Rename { from, to } => match (self.find(from)?, self.find(to)?) {
                (Some(_), _) => Ok(Verdict::Send(Some(true))),
                (None, Some(_)) if self.was_gone() => Ok(answer(&Reply::failed(Procedure::Rename, Nfsstat3::NOENT))),
                (None, Some(_)) => Ok(answer(&Reply::Rename(Ok(RenameDone { from: NOTHING, to: NOTHING })))),
                (None, None) if self.before == Before::Known(Some(true)) => {
                    Ok(answer(&Reply::Rename(Ok(RenameDone { from: NOTHING, to: NOTHING }))))
                }
                (None, None) => Ok(answer(&Reply::failed(Procedure::Rename, Nfsstat3::NOENT))),
            },
            Call::Link { file, link } => self.link(*file, link),
            // What is written again is the same; a COMMIT elsewhere shows another verifier; the rest only reads.
            Call::Write { .. }
            | Call::Commit { .. }
            | Call::Null
            | Call::Getattr { .. }
            | Call::Lookup { .. }
            | Call::Access { .. }
            | Call::Readlink { .. }
            | Call::Read { .. }
            | Call::Readdir { .. }
            | Call::Readdirplus { .. }
            | Call::Fsstat { .. }
            | Call::Fsinfo { .. }
            | Call::Pathconf { .. } => Ok(Verdict::Send(None)),
        }
    }

    fn setattr(&mut self, object: FileHandle<'_>, wanted: &Sattr3) -> Result<Verdict, ClientError> {
        Ok(match self.attributes(object)? {
            Ok(now) if self.shows(&now, wanted) => {
                answer(&Reply::Setattr(Ok(WccData { before: None, after: Some(now) })))
            }
            Err(status) if is_gone(status) => return Err(ClientError::Status(status)),
            Ok(_) | Err(_) => Verdict::Send(None),
        })
    }

    /// A call that makes something new, which must not be there before.
    fn made(
        &mut self,
        procedure: Procedure,
        place: &DirOp<'_>,
        ftype: Ftype3,
        wanted: &Sattr3,
        reply: impl for<'r> FnOnce(Result<CreateOk<'r>, Failed<WccData>>) -> Reply<'r>,
    ) -> Result<Verdict, ClientError> {
        Ok(match self.find(place)? {
            None => Verdict::Send(Some(false)),
            Some(_) if self.before == Before::Known(Some(true)) => answer(&Reply::failed(procedure, Nfsstat3::EXIST)),
            Some(made) if self.was_free() || self.is_ours(&made, ftype, wanted) => Verdict::Made {
                ours: encoded(&reply(Ok(made.ok()))),
                otherwise: encoded(&Reply::failed(procedure, Nfsstat3::EXIST)),
            },
            Some(_) => answer(&Reply::failed(procedure, Nfsstat3::EXIST)),
        })
    }

    /// Whether the caller owns it and it was changed since the call was first sent. Where others may have put it there since, also whether it is
    /// as the call would have left it: what was only moved here is older.
    fn is_ours(&self, made: &Object, ftype: Ftype3, wanted: &Sattr3) -> bool {
        let of = |of: &Fattr3| of.ftype == ftype && of.uid == self.uid && self.recent(of.ctime);
        let told = matches!(wanted.mtime, SetTime::Client(_));
        let newly = |of: &Fattr3| told || self.recent(of.mtime);
        let as_left = || {
            made.attributes.as_ref().is_some_and(newly) && self.is(made, ftype, wanted) && Self::is_new(made, wanted)
        };
        made.attributes.as_ref().is_some_and(of) && (self.before != Before::Unknown || as_left())
    }

    /// Whether a file has nothing in it that the call did not ask for.
    fn is_new(made: &Object, wanted: &Sattr3) -> bool {
        let file = made.attributes.as_ref().filter(|of| of.ftype == Ftype3::Reg);
        file.is_none_or(|of| of.size == wanted.size.unwrap_or_default() && of.nlink == 1)
    }

    /// Whether this was since the call was first sent. Clocks differ: by more than the slack, it is taken for something else.
    fn recent(&self, at: Nfstime3) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = Duration::new(u64::from(at.seconds), at.nseconds);
        at + self.age + SLACK >= now && at <= now + SLACK
    }

    fn is(&self, object: &Object, ftype: Ftype3, wanted: &Sattr3) -> bool {
        object.attributes.as_ref().is_some_and(|of| of.ftype == ftype && self.shows(of, wanted))
    }

    /// Whether what a call wanted to set is set. A mode's higher bits may be the server's to drop.
    fn shows(&self, of: &Fattr3, wanted: &Sattr3) -> bool {
        let time = |wanted: SetTime, is| match wanted {
            SetTime::Client(time) => time == is,
            SetTime::Server => self.recent(is),
            SetTime::Keep => true,
        };
        wanted.mode.is_none_or(|mode| mode & PERMISSIONS == of.mode & PERMISSIONS)
            && wanted.uid.is_none_or(|uid| uid == of.uid)
            && wanted.gid.is_none_or(|gid| gid == of.gid)
            && wanted.size.is_none_or(|size| size == of.size)
            && time(wanted.atime, of.atime)
            && time(wanted.mtime, of.mtime)
    }

    /// A call that takes a name away: if that is gone, the call was executed, or it was gone before.
    fn gone(&mut self, name: &DirOp<'_>, procedure: Procedure, done: &Reply<'_>) -> Result<Verdict, ClientError> {
        Ok(match self.find(name)? {
            Some(_) => Verdict::Send(Some(true)),
            None if self.was_gone() => answer(&Reply::failed(procedure, Nfsstat3::NOENT)),
            None => answer(done),
        })
    }

    /// Whether its name led nowhere before, and nobody else has made something there since.
    fn was_free(&self) -> bool {
        self.before == Before::Known(Some(false))
    }

    /// Whether the first name of a call that takes it away led nowhere before.
    fn was_gone(&self) -> bool {
        matches!(self.before, Before::Known(None | Some(false)))
    }

    fn link(&mut self, file: FileHandle<'_>, link: &DirOp<'_>) -> Result<Verdict, ClientError> {
        let Some(found) = self.find(link)? else { return Ok(Verdict::Send(Some(false))) };
        let of = self.attributes(file)?.ok();
        if self.before == Before::Known(Some(true)) {
            return Ok(answer(&Reply::failed(Procedure::Link, Nfsstat3::EXIST)));
        }
        let same = found.handle == file.bytes()
            || matches!((&of, &found.attributes), (Some(one), Some(other)) if one.fileid == other.fileid);
        // Another name changes its time.
        let ours = self.was_free() || of.as_ref().is_some_and(|of| self.recent(of.ctime));
        Ok(match same && ours {
            true => answer(&Reply::Link(Ok(LinkDone { attributes: of, dir: NOTHING }))),
            false => answer(&Reply::failed(Procedure::Link, Nfsstat3::EXIST)),
        })
    }

    fn find(&mut self, what: &DirOp<'_>) -> Result<Option<Object>, ClientError> {
        match self.nfs.nfs(&Call::Lookup { what: *what })? {
            Reply::Lookup(Ok(found)) => {
                Ok(Some(Object { handle: found.object.bytes().to_vec(), attributes: found.attributes }))
            }
            Reply::Lookup(Err(failed)) if failed.status == Nfsstat3::NOENT => Ok(None),
            failed => Err(ClientError::Status(failed.status())),
        }
    }

    fn attributes(&mut self, object: FileHandle<'_>) -> Result<Result<Fattr3, Nfsstat3>, ClientError> {
        match self.nfs.nfs(&Call::Getattr { object })? {
            Reply::Getattr(found) => Ok(found.map_err(|failed| failed.status)),
            other => Err(ClientError::Status(other.status())),
        }
    }
}

impl Object {
    fn ok(&self) -> CreateOk<'_> {
        CreateOk { object: FileHandle::new(&self.handle), attributes: self.attributes, dir: NOTHING }
    }

    /// A CREATE made it.
    fn created(self) -> Verdict {
        answer(&Reply::Create(Ok(self.ok())))
    }
}

fn answer(reply: &Reply<'_>) -> Verdict {
    Verdict::Answer(encoded(reply))
}

fn encoded(reply: &Reply<'_>) -> Vec<u8> {
    let mut results = Vec::new();
    reply.encode(&mut results);
    results
}

/// Whether there is nothing any more that a call could change.
fn is_gone(status: Nfsstat3) -> bool {
    matches!(status, Nfsstat3::STALE | Nfsstat3::BADHANDLE)
}

/// Whether the caller may not ask, or there is nothing to be asked.
fn is_refused(status: Nfsstat3) -> bool {
    matches!(status, Nfsstat3::ACCES | Nfsstat3::PERM | Nfsstat3::NOTDIR | Nfsstat3::NAMETOOLONG | Nfsstat3::INVAL)
}

const PERMISSIONS: u32 = 0o777;
/// A server that has been the only one to tell for so long is believed alone.
const ALONE: Duration = Duration::from_secs(10);
/// By how much clocks may differ.
const SLACK: Duration = Duration::from_secs(5);
const NOBODY: u32 = 65534;

#[cfg(test)]
mod tests;
