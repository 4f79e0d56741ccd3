//! Our values as `nfs3_types` spells them, field by field.

use midas_nfs::nfs3::{
    Call, CreateHow, CreateOk, DirOp, Entry, EntryPlus, Failed, Fattr3, FileHandle, Ftype3, LinkDone, MknodData,
    Nfsstat3, Nfstime3, PostOpAttr, Sattr3, SetTime, Specdata3, StableHow, WccData,
};
use nfs3_types::nfs3::*;
use nfs3_types::xdr_codec::{List, Opaque, Pack, Unpack};

pub(crate) fn opaque(bytes: &'static [u8]) -> Opaque<'static> {
    Opaque::borrowed(bytes)
}

pub(crate) fn fh(handle: FileHandle<'static>) -> nfs_fh3 {
    nfs_fh3 { data: opaque(handle.bytes()) }
}

pub(crate) fn place(place: &DirOp<'static>) -> diropargs3<'static> {
    diropargs3 { dir: fh(place.dir), name: filename3(opaque(place.name)) }
}

pub(crate) fn time(time: Nfstime3) -> nfstime3 {
    nfstime3 { seconds: time.seconds, nseconds: time.nseconds }
}

pub(crate) fn maybe<T, U: Pack + Unpack>(value: Option<T>, theirs: impl FnOnce(T) -> U) -> Nfs3Option<U> {
    match value {
        Some(value) => Nfs3Option::Some(theirs(value)),
        None => Nfs3Option::None,
    }
}

pub(crate) fn stable(stable: StableHow) -> stable_how {
    match stable {
        StableHow::Unstable => stable_how::UNSTABLE,
        StableHow::DataSync => stable_how::DATA_SYNC,
        StableHow::FileSync => stable_how::FILE_SYNC,
    }
}

pub(crate) fn fattr(ours: Fattr3) -> fattr3 {
    fattr3 {
        type_: match ours.ftype {
            Ftype3::Reg => ftype3::NF3REG,
            Ftype3::Dir => ftype3::NF3DIR,
            Ftype3::Blk => ftype3::NF3BLK,
            Ftype3::Chr => ftype3::NF3CHR,
            Ftype3::Lnk => ftype3::NF3LNK,
            Ftype3::Sock => ftype3::NF3SOCK,
            Ftype3::Fifo => ftype3::NF3FIFO,
        },
        mode: ours.mode,
        nlink: ours.nlink,
        uid: ours.uid,
        gid: ours.gid,
        size: ours.size,
        used: ours.used,
        rdev: spec(ours.rdev),
        fsid: ours.fsid,
        fileid: ours.fileid,
        atime: time(ours.atime),
        mtime: time(ours.mtime),
        ctime: time(ours.ctime),
    }
}

pub(crate) fn post_op(attributes: PostOpAttr) -> post_op_attr {
    maybe(attributes, fattr)
}

pub(crate) fn wcc(ours: &WccData) -> wcc_data {
    let before =
        maybe(ours.before, |attr| wcc_attr { size: attr.size, mtime: time(attr.mtime), ctime: time(attr.ctime) });
    wcc_data { before, after: post_op(ours.after) }
}

pub(crate) fn sattr(ours: &Sattr3) -> sattr3 {
    sattr3 {
        mode: maybe(ours.mode, |mode| mode),
        uid: maybe(ours.uid, |uid| uid),
        gid: maybe(ours.gid, |gid| gid),
        size: maybe(ours.size, |size| size),
        atime: match ours.atime {
            SetTime::Keep => set_atime::DONT_CHANGE,
            SetTime::Server => set_atime::SET_TO_SERVER_TIME,
            SetTime::Client(at) => set_atime::SET_TO_CLIENT_TIME(time(at)),
        },
        mtime: match ours.mtime {
            SetTime::Keep => set_mtime::DONT_CHANGE,
            SetTime::Server => set_mtime::SET_TO_SERVER_TIME,
            SetTime::Client(at) => set_mtime::SET_TO_CLIENT_TIME(time(at)),
        },
    }
}

pub(crate) fn create_how(how: &CreateHow) -> createhow3 {
    match how {
        CreateHow::Unchecked(attributes) => createhow3::UNCHECKED(sattr(attributes)),
        CreateHow::Guarded(attributes) => createhow3::GUARDED(sattr(attributes)),
        CreateHow::Exclusive(verifier) => createhow3::EXCLUSIVE(createverf3(*verifier)),
    }
}

pub(crate) fn mknod_data(what: &MknodData) -> mknoddata3 {
    let device =
        |attributes, numbers: &Specdata3| devicedata3 { dev_attributes: sattr(attributes), spec: spec(*numbers) };
    match what {
        MknodData::Blk(attributes, spec) => mknoddata3::NF3BLK(device(attributes, spec)),
        MknodData::Chr(attributes, spec) => mknoddata3::NF3CHR(device(attributes, spec)),
        MknodData::Sock(attributes) => mknoddata3::NF3SOCK(sattr(attributes)),
        MknodData::Fifo(attributes) => mknoddata3::NF3FIFO(sattr(attributes)),
        MknodData::Other(_) => mknoddata3::default,
    }
}

pub(crate) fn result<T, A, U, E>(
    ours: &Result<T, Failed<A>>,
    ok: impl FnOnce(&T) -> U,
    failed: impl FnOnce(&A) -> E,
) -> Nfs3Result<U, E> {
    match ours {
        Ok(value) => Nfs3Result::Ok(ok(value)),
        Err(failure) => Nfs3Result::Err((status(failure.status), failed(&failure.attributes))),
    }
}

pub(crate) fn created(ok: &CreateOk<'static>) -> (post_op_fh3, post_op_attr, wcc_data) {
    (maybe(ok.object, fh), post_op(ok.attributes), wcc(&ok.dir))
}

pub(crate) fn linked(done: &LinkDone) -> (post_op_attr, wcc_data) {
    (post_op(done.attributes), wcc(&done.dir))
}

pub(crate) fn names(entries: impl Iterator<Item = Entry<'static>>) -> List<entry3<'static>> {
    let theirs = |entry: Entry<'static>| entry3 {
        fileid: entry.fileid,
        name: filename3(opaque(entry.name)),
        cookie: entry.cookie,
    };
    List(entries.map(theirs).collect())
}

pub(crate) fn names_plus(entries: impl Iterator<Item = EntryPlus<'static>>) -> List<entryplus3<'static>> {
    let theirs = |plus: EntryPlus<'static>| entryplus3 {
        fileid: plus.entry.fileid,
        name: filename3(opaque(plus.entry.name)),
        cookie: plus.entry.cookie,
        name_attributes: post_op(plus.attributes),
        name_handle: maybe(plus.handle, fh),
    };
    List(entries.map(theirs).collect())
}

/// Through the RFC's name, which both spell, not through the number.
pub(crate) fn status(ours: Nfsstat3) -> nfsstat3 {
    let name = ours.name().expect("a status of the RFC");
    let known =
        (0..=71_u32).chain(10_001..=10_008).filter_map(|code| nfsstat3::unpack(&mut &code.to_be_bytes()[..]).ok());
    let named = known.map(|(theirs, _)| theirs).find(|theirs| theirs.to_string() == format!("NFS3ERR_{name}"));
    named.expect("they know every status of the RFC")
}

/// The number that they give the procedure.
pub(crate) fn procedure(call: &Call<'_>) -> u32 {
    let name = format!("NFSPROC3_{}", call.procedure().name());
    (0..22)
        .find(|number| NFS_PROGRAM::try_from(*number).is_ok_and(|theirs| theirs.to_string() == name))
        .expect("they know every procedure")
}

fn spec(ours: Specdata3) -> specdata3 {
    specdata3 { specdata1: ours.specdata1, specdata2: ours.specdata2 }
}
