//! A server that believes for a while what it once knew, as NFS-Ganesha does with its `Attr_Expiration_Time`.
//!
//! Attributes, names (absent ones too) and pages of listings are answered from memory for a fixed
//! time, whatever other servers do to the same namespace meanwhile. What the server changes itself
//! it knows at once. Changes are always decided by the namespace: only reads may be old, and what is
//! told beside a COMMIT, or a CREATE that finds its file and leaves it as it is: these ask nobody for
//! attributes that are remembered.

use crate::{Identity, Namespace, User};
use midas_nfs::nfs3::{
    AccessOk, Call, CommitOk, CreateHow, CreateOk, DirOp, Failed, Fattr3, FileHandle, FsinfoOk, FsstatOk, LookupOk,
    Nfsstat3, Page, PathconfOk, PostOpAttr, Procedure, ReadOk, ReaddirOk, ReaddirplusOk, ReadlinkOk, Reply, Sattr3,
    WccData,
};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The memory of one server.
pub(super) struct AttributeCache {
    lasts: Duration,
    attributes: HashMap<Vec<u8>, Kept<Fattr3>>,
    /// By directory and name; none where there was no such name.
    names: HashMap<(Bytes, Bytes), Kept<Option<Bytes>>>,
    /// By directory.
    pages: HashMap<Bytes, Pages>,
}

type Bytes = Vec<u8>;
/// The pages of a directory, each by the whole call that asked for it.
type Pages = HashMap<Bytes, Kept<Bytes>>;

struct Kept<T> {
    value: T,
    since: Instant,
}

/// The namespace, and the server that asks it.
#[derive(Clone, Copy)]
pub(super) struct Truly<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) identity: &'a Identity,
    pub(super) now: Instant,
}

impl AttributeCache {
    /// An empty one; everything is believed for so long.
    pub(super) fn new(lasts: Duration) -> Self {
        Self { lasts, attributes: HashMap::new(), names: HashMap::new(), pages: HashMap::new() }
    }

    /// Forgets everything, as a process that is gone does.
    pub(super) fn clear(&mut self) {
        self.attributes.clear();
        self.names.clear();
        self.pages.clear();
    }

    /// Executes a call and appends its results; returns the status.
    pub(super) fn execute(&mut self, truly: Truly<'_>, who: &User, call: &Call<'_>, out: &mut Vec<u8>) -> Nfsstat3 {
        let victims: Vec<Vec<u8>> = named(call).into_iter().filter_map(|name| truly.target(&name)).collect();
        let mut results = Vec::new();
        let status = truly.namespace.execute(truly.identity, who, call, &mut results);
        let Ok(reply) = Reply::decode(call.procedure(), &results) else {
            out.extend_from_slice(&results);
            return status;
        };
        if let Some(reply) = self.took_as_it_is(truly.now, call, &victims, &reply) {
            reply.encode(out);
            return status;
        }
        if changes(call.procedure()) {
            if status == Nfsstat3::OK {
                self.changed(truly.now, call, &victims, &reply);
            }
            out.extend_from_slice(&results);
            return status;
        }
        self.read(truly, call, (reply, &results), out)
    }

    /// The answer to a call that has changed no attributes: as they are remembered. None to all others.
    fn took_as_it_is<'r>(
        &mut self,
        now: Instant,
        call: &Call<'_>,
        victims: &[Vec<u8>],
        reply: &Reply<'r>,
    ) -> Option<Reply<'r>> {
        match (call, *reply) {
            (Call::Commit { file, .. }, Reply::Commit(Ok(ok))) => {
                let file = WccData { before: None, after: self.seen(now, *file, ok.file.after) };
                Some(Reply::Commit(Ok(CommitOk { file, ..ok })))
            }
            (Call::Create { place, how: CreateHow::Unchecked(Sattr3 { size: None, .. }) }, Reply::Create(Ok(ok))) => {
                let object = ok.object.filter(|object| victims.iter().any(|victim| victim == object.bytes()))?;
                // It is there now, whatever was remembered of the name.
                self.names.remove(&(place.dir.bytes().to_vec(), place.name.to_vec()));
                let attributes = self.seen(now, object, ok.attributes);
                let dir = WccData { before: None, after: self.seen(now, place.dir, ok.dir.after) };
                Some(Reply::Create(Ok(CreateOk { attributes, dir, ..ok })))
            }
            _ => None,
        }
    }

    /// Answers a read from what is remembered, and remembers what is not.
    fn read(
        &mut self,
        truly: Truly<'_>,
        call: &Call<'_>,
        (reply, results): (Reply<'_>, &[u8]),
        out: &mut Vec<u8>,
    ) -> Nfsstat3 {
        let now = truly.now;
        let mut seen = |handle: FileHandle<'_>, real: PostOpAttr| self.seen(now, handle, real);
        let reply = match (call, reply) {
            (Call::Getattr { object }, Reply::Getattr(real)) => {
                let known = seen(*object, real.as_ref().ok().copied());
                Reply::Getattr(known.map_or(real, Ok))
            }
            (Call::Lookup { what }, Reply::Lookup(real)) => return self.lookup(truly, what, (real, results), out),
            (Call::Access { object, .. }, Reply::Access(Ok(ok))) => {
                Reply::Access(Ok(AccessOk { attributes: seen(*object, ok.attributes), ..ok }))
            }
            (Call::Readlink { symlink }, Reply::Readlink(Ok(ok))) => {
                Reply::Readlink(Ok(ReadlinkOk { attributes: seen(*symlink, ok.attributes), ..ok }))
            }
            (Call::Read { file, .. }, Reply::Read(Ok(ok))) => {
                Reply::Read(Ok(ReadOk { attributes: seen(*file, ok.attributes), ..ok }))
            }
            (Call::Fsstat { fsroot }, Reply::Fsstat(Ok(ok))) => {
                Reply::Fsstat(Ok(FsstatOk { attributes: seen(*fsroot, ok.attributes), ..ok }))
            }
            (Call::Fsinfo { fsroot }, Reply::Fsinfo(Ok(ok))) => {
                Reply::Fsinfo(Ok(FsinfoOk { attributes: seen(*fsroot, ok.attributes), ..ok }))
            }
            (Call::Pathconf { object }, Reply::Pathconf(Ok(ok))) => {
                Reply::Pathconf(Ok(PathconfOk { attributes: seen(*object, ok.attributes), ..ok }))
            }
            (Call::Readdir { dir, .. } | Call::Readdirplus { dir, .. }, _) => {
                return self.list(now, call, *dir, results, out);
            }
            (_, other) => other,
        };
        reply.encode(out);
        reply.status()
    }

    fn lookup(
        &mut self,
        truly: Truly<'_>,
        what: &DirOp<'_>,
        (real, results): (Result<LookupOk<'_>, Failed<PostOpAttr>>, &[u8]),
        out: &mut Vec<u8>,
    ) -> Nfsstat3 {
        let found = match &real {
            Ok(ok) => Some(ok.object.bytes().to_vec()),
            Err(failed) if failed.status == Nfsstat3::NOENT => None,
            // Permissions and the like are not a matter of memory.
            Err(failed) => {
                out.extend_from_slice(results);
                return failed.status;
            }
        };
        let now = truly.now;
        let key = (what.dir.bytes().to_vec(), what.name.to_vec());
        let known = match self.names.get(&key).filter(|kept| kept.fresh(now, self.lasts)) {
            Some(kept) => kept.value.clone(),
            None => {
                bound(&mut self.names);
                self.names.insert(key, Kept { value: found.clone(), since: now });
                found
            }
        };
        let dir_attributes = match &real {
            Ok(ok) => ok.dir_attributes,
            Err(failed) => failed.attributes,
        };
        let dir_attributes = self.seen(now, what.dir, dir_attributes);
        let reply = match known.as_deref().and_then(FileHandle::new) {
            Some(object) => {
                let attributes = self.seen(now, object, truly.attributes(object));
                Reply::Lookup(Ok(LookupOk { object, attributes, dir_attributes }))
            }
            None => Reply::Lookup(Err(Failed { status: Nfsstat3::NOENT, attributes: dir_attributes })),
        };
        reply.encode(out);
        reply.status()
    }

    /// A page of a listing: its names as they were, and what is remembered of each object.
    fn list(
        &mut self,
        now: Instant,
        call: &Call<'_>,
        dir: FileHandle<'_>,
        results: &[u8],
        out: &mut Vec<u8>,
    ) -> Nfsstat3 {
        let mut key = Vec::new();
        call.encode(&mut key);
        bound(&mut self.pages);
        let pages = self.pages.entry(dir.bytes().to_vec()).or_default();
        bound(pages);
        let fresh = pages.get(&key).is_some_and(|kept| kept.fresh(now, self.lasts));
        if !fresh {
            pages.insert(key.clone(), Kept { value: results.to_vec(), since: now });
        }
        let page = pages.get(&key).map_or_else(|| results.to_vec(), |kept| kept.value.clone());
        match Reply::decode(call.procedure(), &page) {
            Ok(Reply::Readdir(Ok(ok))) => {
                let dir_attributes = self.seen(now, dir, ok.dir_attributes);
                Reply::Readdir(Ok(ReaddirOk { dir_attributes, ..ok })).encode(out);
                Nfsstat3::OK
            }
            Ok(Reply::Readdirplus(Ok(ok))) => {
                let dir_attributes = self.seen(now, dir, ok.dir_attributes);
                let mut list = Page::readdirplus(u32::MAX, u32::MAX, &dir_attributes);
                let mut entries = ok.entries();
                for mut plus in entries.by_ref().map_while(Result::ok) {
                    if let Some(handle) = plus.handle {
                        plus.attributes = self.seen(now, handle, plus.attributes);
                    }
                    let fits = list.push_plus(&plus);
                    debug_assert!(fits, "it came in one page");
                }
                let list = list.finish(entries.eof() == Some(true));
                Reply::Readdirplus(Ok(ReaddirplusOk { dir_attributes, list: &list, ..ok })).encode(out);
                Nfsstat3::OK
            }
            Ok(other) => {
                other.encode(out);
                other.status()
            }
            Err(_) => {
                out.extend_from_slice(results);
                Nfsstat3::OK
            }
        }
    }

    /// What is told of an object: what is remembered, or what is true, which is remembered then.
    fn seen(&mut self, now: Instant, object: FileHandle<'_>, real: PostOpAttr) -> PostOpAttr {
        if let Some(kept) = self.attributes.get(object.bytes()).filter(|kept| kept.fresh(now, self.lasts)) {
            return Some(kept.value);
        }
        if let Some(value) = real {
            bound(&mut self.attributes);
            self.attributes.insert(object.bytes().to_vec(), Kept { value, since: now });
        }
        real
    }

    /// This server has changed something: it knows what is true of it now.
    fn changed(&mut self, now: Instant, call: &Call<'_>, victims: &[Vec<u8>], reply: &Reply<'_>) {
        for name in named(call) {
            self.names.remove(&(name.dir.bytes().to_vec(), name.name.to_vec()));
            self.pages.remove(name.dir.bytes());
        }
        let mut fresh = |object: FileHandle<'_>, attributes: PostOpAttr| {
            self.attributes.remove(object.bytes());
            self.seen(now, object, attributes);
        };
        match (call, reply) {
            (Call::Setattr { object, .. }, Reply::Setattr(Ok(wcc))) => fresh(*object, wcc.after),
            (Call::Write { file, .. }, Reply::Write(Ok(ok))) => fresh(*file, ok.file.after),
            (
                Call::Create { place, .. }
                | Call::Mkdir { place, .. }
                | Call::Symlink { place, .. }
                | Call::Mknod { place, .. },
                Reply::Create(Ok(ok)) | Reply::Mkdir(Ok(ok)) | Reply::Symlink(Ok(ok)) | Reply::Mknod(Ok(ok)),
            ) => {
                let CreateOk { object, attributes, dir } = ok;
                fresh(place.dir, dir.after);
                if let Some(object) = object {
                    fresh(*object, *attributes);
                }
            }
            (Call::Remove { object } | Call::Rmdir { object }, Reply::Remove(Ok(wcc)) | Reply::Rmdir(Ok(wcc))) => {
                fresh(object.dir, wcc.after);
            }
            (Call::Rename { from, to }, Reply::Rename(Ok(done))) => {
                fresh(from.dir, done.from.after);
                fresh(to.dir, done.to.after);
            }
            (Call::Link { file, link }, Reply::Link(Ok(done))) => {
                fresh(*file, done.attributes);
                fresh(link.dir, done.dir.after);
            }
            _ => {}
        }
        for victim in victims {
            self.attributes.remove(victim);
        }
    }
}

impl Truly<'_> {
    /// Where a name really leads.
    fn target(&self, what: &DirOp<'_>) -> Option<Vec<u8>> {
        let mut results = Vec::new();
        self.namespace.execute(self.identity, &User::ROOT, &Call::Lookup { what: *what }, &mut results);
        match Reply::decode(Procedure::Lookup, &results) {
            Ok(Reply::Lookup(Ok(ok))) => Some(ok.object.bytes().to_vec()),
            Ok(_) | Err(_) => None,
        }
    }

    /// An object's real attributes.
    fn attributes(&self, object: FileHandle<'_>) -> PostOpAttr {
        let mut results = Vec::new();
        self.namespace.execute(self.identity, &User::ROOT, &Call::Getattr { object }, &mut results);
        match Reply::decode(Procedure::Getattr, &results) {
            Ok(Reply::Getattr(Ok(attributes))) => Some(attributes),
            Ok(_) | Err(_) => None,
        }
    }
}

impl<T> Kept<T> {
    fn fresh(&self, now: Instant, lasts: Duration) -> bool {
        now.saturating_duration_since(self.since) < lasts
    }
}

/// The names that a call changes.
fn named<'a>(call: &Call<'a>) -> Vec<DirOp<'a>> {
    match call {
        Call::Create { place, .. }
        | Call::Mkdir { place, .. }
        | Call::Symlink { place, .. }
        | Call::Mknod { place, .. } => vec![*place],
        Call::Remove { object } | Call::Rmdir { object } => vec![*object],
        Call::Rename { from, to } => vec![*from, *to],
        Call::Link { link, .. } => vec![*link],
        _ => Vec::new(),
    }
}

fn changes(procedure: Procedure) -> bool {
    matches!(
        procedure,
        Procedure::Setattr
            | Procedure::Write
            | Procedure::Create
            | Procedure::Mkdir
            | Procedure::Symlink
            | Procedure::Mknod
            | Procedure::Remove
            | Procedure::Rmdir
            | Procedure::Rename
            | Procedure::Link
    )
}

/// A server may forget what it likes: a full table is emptied.
fn bound<K, V>(table: &mut HashMap<K, V>) {
    if table.len() >= KEPT_MAX {
        table.clear();
    }
}

/// Entries of one table.
const KEPT_MAX: usize = 1 << 16;
