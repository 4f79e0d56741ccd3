//! The procedures that change one object: SETATTR, WRITE, COMMIT.

use super::attributes::{permitted, privileges_dropped};
use super::{Caller, DATA_MAX, ensure, finish, is_file, resolve, wcc, with};
use crate::store::{Object, Outcome, Store, Write};
use midas_nfs::nfs3::{
    CommitOk, FileHandle, Nfsstat3, Nfstime3, Procedure, Reply, Sattr3, SetTime, StableHow, WriteOk,
};

pub(super) fn setattr<S: Store>(
    store: &mut S,
    by: Caller<'_>,
    object: FileHandle<'_>,
    wanted: &Sattr3,
    guard: Option<Nfstime3>,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let object = resolve(store, by, object, Procedure::Setattr, out)?;
    let result = ensure(guard.is_none_or(|ctime| ctime == object.attributes.ctime), Nfsstat3::NOT_SYNC)
        .and_then(|()| permitted(by.who, &object.attributes, wanted))
        .and_then(|change| set(store, &object, &change));
    let wcc = wcc(store, &object);
    finish(out, &Reply::Setattr(with(result.map(|()| wcc), wcc)))
}

pub(super) fn set<S: Store>(store: &mut S, object: &Object<S::Node>, change: &Sattr3) -> Outcome<()> {
    possible(store, change)?;
    match *change == Sattr3::default() {
        true => Ok(()),
        false => store.set(&object.node, change),
    }
}

/// Whether there can be such attributes at all. A size past every Linux file is INVAL, as the RFC has it for sizes that a
/// server cannot represent (3.3.2).
pub(super) fn possible<S: Store>(store: &S, change: &Sattr3) -> Outcome<()> {
    let is_time = |time: &SetTime| !matches!(time, SetTime::Client(time) if time.nseconds > NSECONDS_MAX);
    ensure([change.atime, change.mtime].iter().all(is_time), Nfsstat3::INVAL)?;
    ensure(change.size.is_none_or(|size| i64::try_from(size).is_ok()), Nfsstat3::INVAL)?;
    ensure(change.size.is_none_or(|size| size <= store.bounds().file_size), Nfsstat3::FBIG)
}

/// WRITE's arguments.
pub(super) struct WriteArgs<'a> {
    pub(super) offset: u64,
    pub(super) count: u32,
    pub(super) stable: StableHow,
    pub(super) data: &'a [u8],
}

pub(super) fn write<S: Store>(
    store: &mut S,
    by: Caller<'_>,
    file: FileHandle<'_>,
    data: &WriteArgs<'_>,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let file = resolve(store, by, file, Procedure::Write, out)?;
    let result = put(store, by, &file, data);
    let wcc = wcc(store, &file);
    let result =
        result.map(|(count, committed)| WriteOk { file: wcc, count, committed, verf: by.server.write_verifier });
    finish(out, &Reply::Write(with(result, wcc)))
}

/// More than the largest WRITE is cut, as the RFC allows; the client sends the rest again.
fn put<S: Store>(
    store: &mut S,
    by: Caller<'_>,
    file: &Object<S::Node>,
    wanted: &WriteArgs<'_>,
) -> Outcome<(u32, StableHow)> {
    is_file(&file.attributes)?;
    ensure(wanted.count as usize == wanted.data.len(), Nfsstat3::INVAL)?;
    ensure(by.who.may_write_data(&file.attributes), Nfsstat3::ACCES)?;
    let data = &wanted.data[..wanted.data.len().min(DATA_MAX as usize)];
    let end = wanted.offset.checked_add(data.len() as u64).ok_or(Nfsstat3::FBIG)?;
    ensure(end <= store.bounds().file_size, Nfsstat3::FBIG)?;
    if data.is_empty() {
        return Ok((0, wanted.stable));
    }
    let write = Write { offset: wanted.offset, data, stable: wanted.stable, server: by.server.server };
    let committed = store.write(&file.node, &write)?;
    if let Some(mode) = privileges_dropped(by.who, &file.attributes) {
        store.set(&file.node, &Sattr3 { mode: Some(mode), ..Sattr3::default() })?;
    }
    Ok((data.len() as u32, committed))
}

pub(super) fn commit<S: Store>(
    store: &mut S,
    by: Caller<'_>,
    file: FileHandle<'_>,
    offset: u64,
    count: u32,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let file = resolve(store, by, file, Procedure::Commit, out)?;
    // A count of zero is all from the offset on.
    let end = if count == 0 { u64::MAX } else { offset.saturating_add(count.into()) };
    // Whoever wrote may have lost the right to since: COMMIT needs none (3.3.21).
    let result = is_file(&file.attributes).and_then(|()| store.commit(&file.node, offset..end, by.server.server));
    let wcc = wcc(store, &file);
    let result = result.map(|()| CommitOk { file: wcc, verf: by.server.write_verifier });
    finish(out, &Reply::Commit(with(result, wcc)))
}

/// Most nanoseconds that are not a second.
const NSECONDS_MAX: u32 = 999_999_999;
