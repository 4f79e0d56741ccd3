//! The procedures that change nothing: GETATTR, LOOKUP, ACCESS, READLINK, READ, FSSTAT, FSINFO, PATHCONF.

use super::name::{NAME_MAX, Name};
use super::{Caller, DATA_MAX, ensure, finish, is_dir, is_file, resolve, with};
use crate::handle::Handle;
use crate::store::{Object, Outcome, Store};
use crate::user::EXECUTE;
use midas_nfs::nfs3::{
    AccessOk, DirOp, Fattr3, FileHandle, FsinfoOk, FsstatOk, Ftype3, LookupOk, Nfsstat3, PathconfOk, Procedure,
    ReadlinkOk, Reply, fsinfo,
};
use midas_nfs::xdr::{padded, put};

pub(super) fn getattr<S: Store>(store: &S, by: Caller<'_>, object: FileHandle<'_>, out: &mut Vec<u8>) -> Outcome<()> {
    let object = resolve(store, by, object, Procedure::Getattr, out)?;
    finish(out, &Reply::Getattr(Ok(object.attributes)))
}

pub(super) fn lookup<S: Store>(store: &S, by: Caller<'_>, what: &DirOp<'_>, out: &mut Vec<u8>) -> Outcome<()> {
    let dir = resolve(store, by, what.dir, Procedure::Lookup, out)?;
    let dir_attributes = Some(dir.attributes);
    let found = may_search(by, &dir, what.name).and_then(|name| find(store, by, &dir, name));
    let result = found.as_ref().map_err(|status| *status).map(|(handle, attributes)| LookupOk {
        object: handle.file_handle(),
        attributes: Some(*attributes),
        dir_attributes,
    });
    finish(out, &Reply::Lookup(with(result, dir_attributes)))
}

fn may_search<'a, N>(by: Caller<'_>, dir: &Object<N>, name: &'a [u8]) -> Outcome<Name<'a>> {
    is_dir(&dir.attributes)?;
    let name = Name::new(name)?;
    ensure(by.who.may(&dir.attributes, EXECUTE), Nfsstat3::ACCES)?;
    Ok(name)
}

/// Handle and attributes of what a name leads to; nothing is checked.
pub(super) fn find<S: Store>(
    store: &S,
    by: Caller<'_>,
    dir: &Object<S::Node>,
    name: Name<'_>,
) -> Outcome<(Handle, Fattr3)> {
    let told = |object: &Object<S::Node>| (store.handle(&object.node, by.server.salt), object.attributes);
    match name {
        Name::Dot => Ok(told(dir)),
        Name::DotDot => store.parent(&dir.node).as_ref().map(told).map_err(|status| *status),
        Name::Plain(name) => store.child(&dir.node, name).as_ref().map(told).map_err(|status| *status),
    }
}

pub(super) fn access<S: Store>(
    store: &S,
    by: Caller<'_>,
    object: FileHandle<'_>,
    asked: u32,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let object = resolve(store, by, object, Procedure::Access, out)?;
    let access = by.who.access(&object.attributes) & asked;
    finish(out, &Reply::Access(Ok(AccessOk { attributes: Some(object.attributes), access })))
}

pub(super) fn readlink<S: Store>(store: &S, by: Caller<'_>, link: FileHandle<'_>, out: &mut Vec<u8>) -> Outcome<()> {
    let link = resolve(store, by, link, Procedure::Readlink, out)?;
    let attributes = Some(link.attributes);
    let target = ensure(link.attributes.ftype == Ftype3::Lnk, Nfsstat3::INVAL).and_then(|()| store.target(&link.node));
    let result = target.as_deref().map(|data| ReadlinkOk { attributes, data }).map_err(|status| *status);
    finish(out, &Reply::Readlink(with(result, attributes)))
}

/// Data goes straight into the reply: what stands before it is filled in when its length is known.
pub(super) fn read<S: Store>(
    store: &S,
    by: Caller<'_>,
    file: FileHandle<'_>,
    offset: u64,
    count: u32,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let file = resolve(store, by, file, Procedure::Read, out)?;
    let start = out.len();
    put::u32(out, Nfsstat3::OK.0);
    put::bool(out, true);
    file.attributes.encode(out);
    let head = out.len();
    out.extend_from_slice(&[0; READ_HEAD]);
    let allowed =
        is_file(&file.attributes).and_then(|()| ensure(by.who.may_read_data(&file.attributes), Nfsstat3::ACCES));
    match allowed.and_then(|()| store.read(&file.node, offset, count.min(DATA_MAX) as usize, out)) {
        Ok(eof) => {
            let length = out.len() - head - READ_HEAD;
            let words = [length as u32, eof.into(), length as u32];
            for (place, word) in out[head..head + READ_HEAD].chunks_exact_mut(4).zip(words) {
                place.copy_from_slice(&word.to_be_bytes());
            }
            out.resize(head + READ_HEAD + padded(length), 0);
            Ok(())
        }
        Err(status) => {
            out.truncate(start);
            finish(out, &Reply::Read(with(Err(status), Some(file.attributes))))
        }
    }
}

pub(super) fn fsstat<S: Store>(store: &S, by: Caller<'_>, root: FileHandle<'_>, out: &mut Vec<u8>) -> Outcome<()> {
    let root = resolve(store, by, root, Procedure::Fsstat, out)?;
    let attributes = Some(root.attributes);
    let result = store.room().map(|room| FsstatOk {
        attributes,
        tbytes: room.bytes,
        fbytes: room.bytes_free,
        abytes: room.bytes_available,
        tfiles: room.files,
        ffiles: room.files_free,
        afiles: room.files_free,
        invarsec: 0,
    });
    finish(out, &Reply::Fsstat(with(result, attributes)))
}

pub(super) fn fsinfo<S: Store>(store: &S, by: Caller<'_>, root: FileHandle<'_>, out: &mut Vec<u8>) -> Outcome<()> {
    let root = resolve(store, by, root, Procedure::Fsinfo, out)?;
    let bounds = store.bounds();
    let info = FsinfoOk {
        attributes: Some(root.attributes),
        rtmax: DATA_MAX,
        rtpref: DATA_MAX,
        rtmult: BLOCK,
        wtmax: DATA_MAX,
        wtpref: DATA_MAX,
        wtmult: BLOCK,
        dtpref: LISTING_PREFERRED,
        maxfilesize: bounds.file_size,
        time_delta: bounds.time_delta,
        properties: fsinfo::LINK | fsinfo::SYMLINK | fsinfo::HOMOGENEOUS | fsinfo::CANSETTIME,
    };
    finish(out, &Reply::Fsinfo(Ok(info)))
}

pub(super) fn pathconf<S: Store>(store: &S, by: Caller<'_>, object: FileHandle<'_>, out: &mut Vec<u8>) -> Outcome<()> {
    let object = resolve(store, by, object, Procedure::Pathconf, out)?;
    let conf = PathconfOk {
        attributes: Some(object.attributes),
        linkmax: store.bounds().links,
        name_max: NAME_MAX as u32,
        no_trunc: true,
        chown_restricted: true,
        case_insensitive: false,
        case_preserving: true,
    };
    finish(out, &Reply::Pathconf(Ok(conf)))
}

/// count, eof and the length of the data.
const READ_HEAD: usize = 12;
const BLOCK: u32 = 4096;
const LISTING_PREFERRED: u32 = 1 << 16;
