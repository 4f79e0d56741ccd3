//! What NFSv3 means (RFC 1813, 3.3), once for every store: who may do what, what is checked first, what attributes a reply
//! carries, also on errors.
//!
//! The order of checks is that of Linux: the handle (BADHANDLE, STALE), the type (NOTDIR, ISDIR, INVAL), the name, search
//! permission, existence, the right to change. Reads do not touch atime (as a mount with `noatime`), unless the server is told to. Every function appends
//! one reply; its error is the status of a reply that is already there.

mod attributes;
mod changing;
mod listing;
mod name;
mod naming;
mod reading;

use crate::namespace::Identity;
use crate::store::{Object, Outcome, Store};
use crate::user::User;
use midas_nfs::nfs3::{Call, Failed, Fattr3, FileHandle, Ftype3, Nfsstat3, Procedure, Reply, WccData};

/// Largest READ and WRITE.
const DATA_MAX: u32 = 1 << 20;
/// Largest page of a listing: it is built under the store's lock.
const LISTING_MAX: u32 = 1 << 18;

/// Which server was called, and by whom.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) server: &'a Identity,
    pub(crate) who: &'a User,
}

/// A store behind its lock.
pub(crate) trait Shared {
    type Store: Store;

    fn read<R>(&self, then: impl FnOnce(&Self::Store) -> R) -> R;
    /// One change at a time.
    fn change<R>(&self, then: impl FnOnce(&mut Self::Store) -> R) -> R;
}

/// Executes a call and appends its reply.
pub(crate) fn execute<L: Shared>(shared: &L, by: Caller<'_>, call: &Call<'_>, out: &mut Vec<u8>) -> Nfsstat3 {
    let done = match call {
        Call::Null => Ok(()),
        Call::Getattr { object } => shared.read(|store| reading::getattr(store, by, *object, out)),
        Call::Lookup { what } => shared.read(|store| reading::lookup(store, by, what, out)),
        Call::Access { object, access } => shared.read(|store| reading::access(store, by, *object, *access, out)),
        Call::Readlink { symlink } => shared.read(|store| reading::readlink(store, by, *symlink, out)),
        Call::Read { file, offset, count } => {
            shared.read(|store| reading::read(store, by, *file, *offset, *count, out))
        }
        Call::Readdir { dir, cookie, cookieverf: _, count } => {
            shared.read(|store| listing::readdir(store, by, *dir, *cookie, *count, out))
        }
        Call::Readdirplus { dir, cookie, cookieverf: _, dircount, maxcount } => {
            shared.read(|store| listing::readdirplus(store, by, *dir, *cookie, [*dircount, *maxcount], out))
        }
        Call::Fsstat { fsroot } => shared.read(|store| reading::fsstat(store, by, *fsroot, out)),
        Call::Fsinfo { fsroot } => shared.read(|store| reading::fsinfo(store, by, *fsroot, out)),
        Call::Pathconf { object } => shared.read(|store| reading::pathconf(store, by, *object, out)),
        Call::Setattr { object, new_attributes, guard } => {
            shared.change(|store| changing::setattr(store, by, *object, new_attributes, *guard, out))
        }
        Call::Write { file, offset, count, stable, data } => {
            let data = changing::WriteArgs { offset: *offset, count: *count, stable: *stable, data };
            shared.change(|store| changing::write(store, by, *file, &data, out))
        }
        Call::Commit { file, offset, count } => {
            shared.change(|store| changing::commit(store, by, *file, *offset, *count, out))
        }
        Call::Create { place, how } => shared.change(|store| naming::create(store, by, place, how, out)),
        Call::Mkdir { place, attributes } => shared.change(|store| naming::mkdir(store, by, place, attributes, out)),
        Call::Symlink { place, attributes, target } => {
            shared.change(|store| naming::symlink(store, by, place, attributes, target, out))
        }
        Call::Mknod { place, what } => shared.change(|store| naming::mknod(store, by, place, what, out)),
        Call::Remove { object } => shared.change(|store| naming::remove(store, by, object, out)),
        Call::Rmdir { object } => shared.change(|store| naming::rmdir(store, by, object, out)),
        Call::Rename { from, to } => shared.change(|store| naming::rename(store, by, from, to, out)),
        Call::Link { file, link } => shared.change(|store| naming::link(store, by, *file, link, out)),
    };
    done.err().unwrap_or(Nfsstat3::OK)
}

/// The object of a handle; where there is none, the reply says so already.
fn resolve<S: Store>(
    store: &S,
    by: Caller<'_>,
    handle: FileHandle<'_>,
    procedure: Procedure,
    out: &mut Vec<u8>,
) -> Outcome<Object<S::Node>> {
    store.resolve(handle, by.server.salt).inspect_err(|status| Reply::failed(procedure, *status).encode(out))
}

fn finish(out: &mut Vec<u8>, reply: &Reply<'_>) -> Outcome<()> {
    reply.encode(out);
    match reply.status() {
        Nfsstat3::OK => Ok(()),
        status => Err(status),
    }
}

/// Gives an error the attributes that its reply carries.
fn with<T, A>(outcome: Outcome<T>, attributes: A) -> Result<T, Failed<A>> {
    outcome.map_err(|status| Failed { status, attributes })
}

fn wcc<S: Store>(store: &S, object: &Object<S::Node>) -> WccData {
    WccData { before: Some(object.attributes.wcc_attr()), after: store.attributes(&object.node).ok() }
}

fn ensure(holds: bool, otherwise: Nfsstat3) -> Outcome<()> {
    if holds { Ok(()) } else { Err(otherwise) }
}

fn is_dir(object: &Fattr3) -> Outcome<()> {
    ensure(object.ftype == Ftype3::Dir, Nfsstat3::NOTDIR)
}

fn is_file(object: &Fattr3) -> Outcome<()> {
    match object.ftype {
        Ftype3::Reg => Ok(()),
        Ftype3::Dir => Err(Nfsstat3::ISDIR),
        Ftype3::Blk | Ftype3::Chr | Ftype3::Lnk | Ftype3::Sock | Ftype3::Fifo => Err(Nfsstat3::INVAL),
    }
}
