//! A reply's results (RFC 1813, 3.3): encoded by a server, decoded by a client or proxy. Listings stay bytes until someone
//! walks them (`page`).

mod page;
mod results;

pub use page::{Entries, Entry, EntryPlus, Page};
pub use results::{
    AccessOk, CommitOk, CreateOk, FsinfoOk, FsstatOk, LinkDone, LookupOk, PathconfOk, ReadOk, ReaddirOk, ReaddirplusOk,
    ReadlinkOk, RenameDone, WriteOk, fsinfo, made,
};

use super::procedure::Procedure;
use super::status::Nfsstat3;
use super::types::{Fattr3, PostOpAttr, WccData, post_op_attr, put_post_op_attr};
use crate::xdr::{Malformed, Reader, put};
use alloc::vec::Vec;

/// A status other than OK, with the attributes that the procedure gives even then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Failed<A> {
    /// Never [`Nfsstat3::OK`].
    pub status: Nfsstat3,
    /// What the failure tells about the objects.
    pub attributes: A,
}

/// A procedure's results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the procedures are named in `Procedure`, the fields in the RFC")]
pub enum Reply<'a> {
    Null,
    Getattr(Result<Fattr3, Failed<()>>),
    Setattr(Result<WccData, Failed<WccData>>),
    Lookup(Result<LookupOk<'a>, Failed<PostOpAttr>>),
    Access(Result<AccessOk, Failed<PostOpAttr>>),
    Readlink(Result<ReadlinkOk<'a>, Failed<PostOpAttr>>),
    Read(Result<ReadOk<'a>, Failed<PostOpAttr>>),
    Write(Result<WriteOk, Failed<WccData>>),
    Create(Result<CreateOk<'a>, Failed<WccData>>),
    Mkdir(Result<CreateOk<'a>, Failed<WccData>>),
    Symlink(Result<CreateOk<'a>, Failed<WccData>>),
    Mknod(Result<CreateOk<'a>, Failed<WccData>>),
    Remove(Result<WccData, Failed<WccData>>),
    Rmdir(Result<WccData, Failed<WccData>>),
    Rename(Result<RenameDone, Failed<RenameDone>>),
    Link(Result<LinkDone, Failed<LinkDone>>),
    Readdir(Result<ReaddirOk<'a>, Failed<PostOpAttr>>),
    Readdirplus(Result<ReaddirplusOk<'a>, Failed<PostOpAttr>>),
    Fsstat(Result<FsstatOk, Failed<PostOpAttr>>),
    Fsinfo(Result<FsinfoOk, Failed<PostOpAttr>>),
    Pathconf(Result<PathconfOk, Failed<PostOpAttr>>),
    Commit(Result<CommitOk, Failed<WccData>>),
}

impl<'a> Reply<'a> {
    /// Reads the results of a procedure.
    pub fn decode(procedure: Procedure, results: &'a [u8]) -> Result<Self, Malformed> {
        let from = &mut Reader::new(results);
        Ok(match procedure {
            Procedure::Null => Self::Null,
            Procedure::Getattr => Self::Getattr(outcome(from, Fattr3::decode, |_| Ok(()))?),
            Procedure::Setattr => Self::Setattr(outcome(from, WccData::decode, WccData::decode)?),
            Procedure::Lookup => Self::Lookup(outcome(from, LookupOk::decode, post_op_attr)?),
            Procedure::Access => Self::Access(outcome(from, AccessOk::decode, post_op_attr)?),
            Procedure::Readlink => Self::Readlink(outcome(from, ReadlinkOk::decode, post_op_attr)?),
            Procedure::Read => Self::Read(outcome(from, ReadOk::decode, post_op_attr)?),
            Procedure::Write => Self::Write(outcome(from, WriteOk::decode, WccData::decode)?),
            Procedure::Create => Self::Create(outcome(from, CreateOk::decode, WccData::decode)?),
            Procedure::Mkdir => Self::Mkdir(outcome(from, CreateOk::decode, WccData::decode)?),
            Procedure::Symlink => Self::Symlink(outcome(from, CreateOk::decode, WccData::decode)?),
            Procedure::Mknod => Self::Mknod(outcome(from, CreateOk::decode, WccData::decode)?),
            Procedure::Remove => Self::Remove(outcome(from, WccData::decode, WccData::decode)?),
            Procedure::Rmdir => Self::Rmdir(outcome(from, WccData::decode, WccData::decode)?),
            Procedure::Rename => Self::Rename(outcome(from, RenameDone::decode, RenameDone::decode)?),
            Procedure::Link => Self::Link(outcome(from, LinkDone::decode, LinkDone::decode)?),
            Procedure::Readdir => Self::Readdir(outcome(from, ReaddirOk::decode, post_op_attr)?),
            Procedure::Readdirplus => Self::Readdirplus(outcome(from, ReaddirplusOk::decode, post_op_attr)?),
            Procedure::Fsstat => Self::Fsstat(outcome(from, FsstatOk::decode, post_op_attr)?),
            Procedure::Fsinfo => Self::Fsinfo(outcome(from, FsinfoOk::decode, post_op_attr)?),
            Procedure::Pathconf => Self::Pathconf(outcome(from, PathconfOk::decode, post_op_attr)?),
            Procedure::Commit => Self::Commit(outcome(from, CommitOk::decode, WccData::decode)?),
        })
    }

    /// Appends the results.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let wcc = |out: &mut Vec<u8>, data: &WccData| data.encode(out);
        let post_op = |out: &mut Vec<u8>, attributes: &PostOpAttr| put_post_op_attr(out, attributes.as_ref());
        match self {
            Self::Null => {}
            Self::Getattr(result) => put_outcome(out, result, |out, ok| ok.encode(out), |_, ()| {}),
            Self::Setattr(result) | Self::Remove(result) | Self::Rmdir(result) => put_outcome(out, result, wcc, wcc),
            Self::Lookup(result) => put_outcome(out, result, |out, ok| ok.encode(out), post_op),
            Self::Access(result) => put_outcome(out, result, |out, ok| ok.encode(out), post_op),
            Self::Readlink(result) => put_outcome(out, result, |out, ok| ok.encode(out), post_op),
            Self::Read(result) => put_outcome(out, result, |out, ok| ok.encode(out), post_op),
            Self::Write(result) => put_outcome(out, result, |out, ok| ok.encode(out), wcc),
            Self::Create(result) | Self::Mkdir(result) | Self::Symlink(result) | Self::Mknod(result) => {
                put_outcome(out, result, |out, ok| ok.encode(out), wcc);
            }
            Self::Rename(result) => put_outcome(out, result, |out, ok| ok.encode(out), |out, ok| ok.encode(out)),
            Self::Link(result) => put_outcome(out, result, |out, ok| ok.encode(out), |out, ok| ok.encode(out)),
            Self::Readdir(result) => put_outcome(out, result, |out, ok| ok.encode(out), post_op),
            Self::Readdirplus(result) => put_outcome(out, result, |out, ok| ok.encode(out), post_op),
            Self::Fsstat(result) => put_outcome(out, result, |out, ok| ok.encode(out), post_op),
            Self::Fsinfo(result) => put_outcome(out, result, |out, ok| ok.encode(out), post_op),
            Self::Pathconf(result) => put_outcome(out, result, |out, ok| ok.encode(out), post_op),
            Self::Commit(result) => put_outcome(out, result, |out, ok| ok.encode(out), wcc),
        }
    }

    /// How the call ended; NULL always ends well.
    pub const fn status(&self) -> Nfsstat3 {
        match self {
            Self::Null => Nfsstat3::OK,
            Self::Getattr(result) => status(result),
            Self::Setattr(result) | Self::Remove(result) | Self::Rmdir(result) => status(result),
            Self::Lookup(result) => status(result),
            Self::Access(result) => status(result),
            Self::Readlink(result) => status(result),
            Self::Read(result) => status(result),
            Self::Write(result) => status(result),
            Self::Create(result) | Self::Mkdir(result) | Self::Symlink(result) | Self::Mknod(result) => status(result),
            Self::Rename(result) => status(result),
            Self::Link(result) => status(result),
            Self::Readdir(result) => status(result),
            Self::Readdirplus(result) => status(result),
            Self::Fsstat(result) => status(result),
            Self::Fsinfo(result) => status(result),
            Self::Pathconf(result) => status(result),
            Self::Commit(result) => status(result),
        }
    }

    /// A failure of a procedure that tells nothing about any object; NULL cannot fail.
    pub const fn failed(procedure: Procedure, status: Nfsstat3) -> Self {
        let bare = Failed { status, attributes: () };
        let post_op = Failed { status, attributes: None };
        let unknown = WccData { before: None, after: None };
        let wcc = Failed { status, attributes: unknown };
        match procedure {
            Procedure::Null => Self::Null,
            Procedure::Getattr => Self::Getattr(Err(bare)),
            Procedure::Setattr => Self::Setattr(Err(wcc)),
            Procedure::Lookup => Self::Lookup(Err(post_op)),
            Procedure::Access => Self::Access(Err(post_op)),
            Procedure::Readlink => Self::Readlink(Err(post_op)),
            Procedure::Read => Self::Read(Err(post_op)),
            Procedure::Write => Self::Write(Err(wcc)),
            Procedure::Create => Self::Create(Err(wcc)),
            Procedure::Mkdir => Self::Mkdir(Err(wcc)),
            Procedure::Symlink => Self::Symlink(Err(wcc)),
            Procedure::Mknod => Self::Mknod(Err(wcc)),
            Procedure::Remove => Self::Remove(Err(wcc)),
            Procedure::Rmdir => Self::Rmdir(Err(wcc)),
            Procedure::Rename => {
                Self::Rename(Err(Failed { status, attributes: RenameDone { from: unknown, to: unknown } }))
            }
            Procedure::Link => {
                Self::Link(Err(Failed { status, attributes: LinkDone { attributes: None, dir: unknown } }))
            }
            Procedure::Readdir => Self::Readdir(Err(post_op)),
            Procedure::Readdirplus => Self::Readdirplus(Err(post_op)),
            Procedure::Fsstat => Self::Fsstat(Err(post_op)),
            Procedure::Fsinfo => Self::Fsinfo(Err(post_op)),
            Procedure::Pathconf => Self::Pathconf(Err(post_op)),
            Procedure::Commit => Self::Commit(Err(wcc)),
        }
    }
}

const fn status<T, A>(result: &Result<T, Failed<A>>) -> Nfsstat3 {
    match result {
        Ok(_) => Nfsstat3::OK,
        Err(failed) => failed.status,
    }
}

fn outcome<'a, T, A>(
    from: &mut Reader<'a>,
    ok: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
    failed: impl FnOnce(&mut Reader<'a>) -> Result<A, Malformed>,
) -> Result<Result<T, Failed<A>>, Malformed> {
    match Nfsstat3::decode(from)? {
        Nfsstat3::OK => ok(from).map(Ok),
        status => failed(from).map(|attributes| Err(Failed { status, attributes })),
    }
}

fn put_outcome<T, A>(
    out: &mut Vec<u8>,
    result: &Result<T, Failed<A>>,
    ok: impl FnOnce(&mut Vec<u8>, &T),
    failed: impl FnOnce(&mut Vec<u8>, &A),
) {
    put::u32(out, status(result).0);
    match result {
        Ok(value) => ok(out, value),
        Err(failure) => failed(out, &failure.attributes),
    }
}
