//! The procedures that make, take away and move names: CREATE, MKDIR, SYMLINK, MKNOD, REMOVE, RMDIR, RENAME, LINK.
//!
//! `.` and `..` as the RFC has them: they exist (EXIST) for whoever makes a name, REMOVE and RENAME call them invalid
//! (INVAL), and RMDIR says INVAL for `.` and EXIST for `..`. A CREATE that is not guarded takes a file that exists as it is
//! (and truncates it if a size of zero is given), but no other kind of object: ISDIR for a directory, EXIST for the rest.

use super::attributes::{made_by, may_add, may_take_away, newborn, permitted, rest, times_of};
use super::changing::{possible, set};
use super::name::Name;
use super::{Caller, ensure, finish, is_dir, resolve, wcc, with};
use crate::store::{Kind, Object, Outcome, Place, Store};
use crate::user::{EXECUTE, WRITE};
use midas_nfs::nfs3::{
    CreateHow, CreateOk, DirOp, Failed, FileHandle, Ftype3, LinkDone, MknodData, Nfsstat3, Nfstime3, Procedure,
    RenameDone, Reply, Sattr3, SetTime, WccData,
};

/// How the reply of a creation is named.
type Creation = for<'a> fn(Result<CreateOk<'a>, Failed<WccData>>) -> Reply<'a>;

pub(super) fn create<S: Store>(
    store: &mut S,
    by: Caller<'_>,
    place: &DirOp<'_>,
    how: &CreateHow,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let dir = resolve(store, by, place.dir, Procedure::Create, out)?;
    let made = absent(store, by, &dir, place.name).and_then(|name| match (name, how) {
        (Spot::Free(name), CreateHow::Unchecked(wanted) | CreateHow::Guarded(wanted)) => {
            make(store, by, &dir, name, Kind::File, wanted)
        }
        (Spot::Free(name), CreateHow::Exclusive(verifier)) => {
            make(store, by, &dir, name, Kind::File, &marked(times_of(*verifier)))
        }
        (Spot::Taken(object), CreateHow::Unchecked(wanted)) => take(store, by, object, wanted.size),
        (Spot::Taken(object), CreateHow::Exclusive(verifier)) if made_by(*verifier, &object.attributes) => Ok(object),
        (Spot::Taken(_), CreateHow::Guarded(_) | CreateHow::Exclusive(_)) => Err(Nfsstat3::EXIST),
    });
    created(store, by, &dir, &made, |result| Reply::Create(result), out)
}

/// The times of a file that was made exclusively.
fn marked(times: [u32; 2]) -> Sattr3 {
    let [atime, mtime] = times.map(|seconds| SetTime::Client(Nfstime3 { seconds, nseconds: 0 }));
    Sattr3 { atime, mtime, ..Sattr3::default() }
}

/// An unchecked create of what exists: only the size is set.
fn take<S: Store>(
    store: &mut S,
    by: Caller<'_>,
    mut object: Object<S::Node>,
    size: Option<u64>,
) -> Outcome<Object<S::Node>> {
    match object.attributes.ftype {
        Ftype3::Reg => {}
        Ftype3::Dir => return Err(Nfsstat3::ISDIR),
        Ftype3::Blk | Ftype3::Chr | Ftype3::Lnk | Ftype3::Sock | Ftype3::Fifo => return Err(Nfsstat3::EXIST),
    }
    let change = permitted(by.who, &object.attributes, &Sattr3 { size, ..Sattr3::default() })?;
    set(store, &object, &change)?;
    object.attributes = store.attributes(&object.node)?;
    Ok(object)
}

pub(super) fn mkdir<S: Store>(
    store: &mut S,
    by: Caller<'_>,
    place: &DirOp<'_>,
    wanted: &Sattr3,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let dir = resolve(store, by, place.dir, Procedure::Mkdir, out)?;
    let made = make_new(store, by, &dir, place.name, Kind::Dir, wanted);
    created(store, by, &dir, &made, |result| Reply::Mkdir(result), out)
}

pub(super) fn symlink<S: Store>(
    store: &mut S,
    by: Caller<'_>,
    place: &DirOp<'_>,
    wanted: &Sattr3,
    target: &[u8],
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let dir = resolve(store, by, place.dir, Procedure::Symlink, out)?;
    let made =
        possible_target(target).and_then(|()| make_new(store, by, &dir, place.name, Kind::Symlink(target), wanted));
    created(store, by, &dir, &made, |result| Reply::Symlink(result), out)
}

fn possible_target(target: &[u8]) -> Outcome<()> {
    ensure(!target.is_empty() && !target.contains(&0), Nfsstat3::INVAL)?;
    ensure(target.len() <= TARGET_MAX, Nfsstat3::NAMETOOLONG)
}

pub(super) fn mknod<S: Store>(
    store: &mut S,
    by: Caller<'_>,
    place: &DirOp<'_>,
    what: &MknodData,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let dir = resolve(store, by, place.dir, Procedure::Mknod, out)?;
    let kind = match what {
        MknodData::Blk(wanted, spec) => Ok((Kind::Block(*spec), wanted)),
        MknodData::Chr(wanted, spec) => Ok((Kind::Character(*spec), wanted)),
        MknodData::Sock(wanted) => Ok((Kind::Socket, wanted)),
        MknodData::Fifo(wanted) => Ok((Kind::Fifo, wanted)),
        MknodData::Other(_) => Err(Nfsstat3::BADTYPE),
    };
    let made = kind.and_then(|(kind, wanted)| make_new(store, by, &dir, place.name, kind, wanted));
    created(store, by, &dir, &made, |result| Reply::Mknod(result), out)
}

enum Spot<'a, N> {
    Free(&'a [u8]),
    Taken(Object<N>),
}

/// Whether a name that is to be made is free.
fn absent<'a, S: Store>(
    store: &S,
    by: Caller<'_>,
    dir: &Object<S::Node>,
    name: &'a [u8],
) -> Outcome<Spot<'a, S::Node>> {
    is_dir(&dir.attributes)?;
    let name = Name::plain(name, Nfsstat3::EXIST, Nfsstat3::EXIST)?;
    ensure(by.who.may(&dir.attributes, EXECUTE), Nfsstat3::ACCES)?;
    match store.child(&dir.node, name) {
        Ok(object) => Ok(Spot::Taken(object)),
        Err(Nfsstat3::NOENT) => Ok(Spot::Free(name)),
        Err(status) => Err(status),
    }
}

fn make_new<S: Store>(
    store: &mut S,
    by: Caller<'_>,
    dir: &Object<S::Node>,
    name: &[u8],
    kind: Kind<'_>,
    wanted: &Sattr3,
) -> Outcome<Object<S::Node>> {
    match absent(store, by, dir, name)? {
        Spot::Free(name) => make(store, by, dir, name, kind, wanted),
        Spot::Taken(_) => Err(Nfsstat3::EXIST),
    }
}

fn make<S: Store>(
    store: &mut S,
    by: Caller<'_>,
    dir: &Object<S::Node>,
    name: &[u8],
    kind: Kind<'_>,
    wanted: &Sattr3,
) -> Outcome<Object<S::Node>> {
    may_add(by.who, &dir.attributes)?;
    let device = matches!(kind, Kind::Block(_) | Kind::Character(_));
    ensure(!device || by.who.is_root(), Nfsstat3::PERM)?;
    let new = newborn(by.who, &dir.attributes, kind, wanted)?;
    // A creation that fails leaves nothing behind.
    possible(store, wanted)?;
    let mut object = store.create(Place { dir: &dir.node, name }, &new)?;
    if let Some(rest) = rest(wanted, kind) {
        if let Err(status) = set(store, &object, &rest) {
            store.remove(Place { dir: &dir.node, name }, &object)?;
            return Err(status);
        }
        object.attributes = store.attributes(&object.node)?;
    }
    Ok(object)
}

fn created<S: Store>(
    store: &S,
    by: Caller<'_>,
    dir: &Object<S::Node>,
    made: &Outcome<Object<S::Node>>,
    reply: Creation,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let wcc = wcc(store, dir);
    match made {
        Ok(object) => {
            let handle = store.handle(&object.node, by.server.salt);
            let attributes = Some(object.attributes);
            finish(out, &reply(Ok(CreateOk { object: Some(handle.file_handle()), attributes, dir: wcc })))
        }
        Err(status) => finish(out, &reply(with(Err(*status), wcc))),
    }
}

pub(super) fn remove<S: Store>(store: &mut S, by: Caller<'_>, what: &DirOp<'_>, out: &mut Vec<u8>) -> Outcome<()> {
    let dir = resolve(store, by, what.dir, Procedure::Remove, out)?;
    let dots = [Nfsstat3::INVAL, Nfsstat3::INVAL];
    let fits = |victim| ensure(victim != Ftype3::Dir, Nfsstat3::ISDIR);
    let result = take_away(store, by, &dir, what.name, dots, fits);
    let wcc = wcc(store, &dir);
    finish(out, &Reply::Remove(with(result.map(|()| wcc), wcc)))
}

pub(super) fn rmdir<S: Store>(store: &mut S, by: Caller<'_>, what: &DirOp<'_>, out: &mut Vec<u8>) -> Outcome<()> {
    let dir = resolve(store, by, what.dir, Procedure::Rmdir, out)?;
    let dots = [Nfsstat3::INVAL, Nfsstat3::EXIST];
    let fits = |victim| ensure(victim == Ftype3::Dir, Nfsstat3::NOTDIR);
    let result = take_away(store, by, &dir, what.name, dots, fits);
    let wcc = wcc(store, &dir);
    finish(out, &Reply::Rmdir(with(result.map(|()| wcc), wcc)))
}

fn take_away<S: Store>(
    store: &mut S,
    by: Caller<'_>,
    dir: &Object<S::Node>,
    name: &[u8],
    [dot, dot_dot]: [Nfsstat3; 2],
    fits: impl FnOnce(Ftype3) -> Outcome<()>,
) -> Outcome<()> {
    is_dir(&dir.attributes)?;
    let name = Name::plain(name, dot, dot_dot)?;
    ensure(by.who.may(&dir.attributes, EXECUTE), Nfsstat3::ACCES)?;
    let victim = store.child(&dir.node, name)?;
    may_take_away(by.who, &dir.attributes, &victim.attributes)?;
    fits(victim.attributes.ftype)?;
    store.remove(Place { dir: &dir.node, name }, &victim)
}

pub(super) fn rename<S: Store>(
    store: &mut S,
    by: Caller<'_>,
    from: &DirOp<'_>,
    to: &DirOp<'_>,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let dirs = [from, to].map(|place| store.resolve(place.dir, by.server.salt));
    let result = match &dirs {
        [Ok(source), Ok(target)] => shift(store, by, [source, target], [from.name, to.name]),
        [Err(status), _] | [_, Err(status)] => Err(*status),
    };
    let [from, to] = dirs.map(|dir| dir.map(|dir| wcc(store, &dir)).unwrap_or_default());
    let done = RenameDone { from, to };
    finish(out, &Reply::Rename(with(result.map(|()| done), done)))
}

fn shift<S: Store>(store: &mut S, by: Caller<'_>, dirs: [&Object<S::Node>; 2], names: [&[u8]; 2]) -> Outcome<()> {
    for dir in dirs {
        is_dir(&dir.attributes)?;
    }
    for name in names {
        Name::plain(name, Nfsstat3::INVAL, Nfsstat3::INVAL)?;
    }
    for dir in dirs {
        ensure(by.who.may(&dir.attributes, EXECUTE), Nfsstat3::ACCES)?;
    }
    let moved = store.child(&dirs[0].node, names[0])?;
    let replaced = match store.child(&dirs[1].node, names[1]) {
        Ok(object) => Some(object),
        Err(Nfsstat3::NOENT) => None,
        Err(status) => return Err(status),
    };
    // Two names of one object: nothing happens, both stay.
    if replaced.as_ref().is_some_and(|object| object.attributes.fileid == moved.attributes.fileid) {
        return Ok(());
    }
    may_shift(by, dirs, &moved, replaced.as_ref())?;
    let [from, to] = [0, 1].map(|i| Place { dir: &dirs[i].node, name: names[i] });
    store.rename(from, to)
}

fn may_shift<N>(
    by: Caller<'_>,
    [source, target]: [&Object<N>; 2],
    moved: &Object<N>,
    replaced: Option<&Object<N>>,
) -> Outcome<()> {
    let is_dir = |object: &Object<N>| object.attributes.ftype == Ftype3::Dir;
    may_take_away(by.who, &source.attributes, &moved.attributes)?;
    match replaced {
        Some(object) => {
            may_take_away(by.who, &target.attributes, &object.attributes)?;
            match (is_dir(moved), is_dir(object)) {
                (true, false) => return Err(Nfsstat3::NOTDIR),
                (false, true) => return Err(Nfsstat3::ISDIR),
                (true, true) | (false, false) => {}
            }
        }
        None => may_add(by.who, &target.attributes)?,
    }
    // A directory that changes its parent is itself changed: its `..` is.
    let gets_parent = is_dir(moved) && source.attributes.fileid != target.attributes.fileid;
    ensure(!gets_parent || by.who.may(&moved.attributes, WRITE), Nfsstat3::ACCES)
}

pub(super) fn link<S: Store>(
    store: &mut S,
    by: Caller<'_>,
    file: FileHandle<'_>,
    place: &DirOp<'_>,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let file = store.resolve(file, by.server.salt);
    let dir = store.resolve(place.dir, by.server.salt);
    let result = match (&file, &dir) {
        (Ok(file), Ok(dir)) => name_again(store, by, file, dir, place.name),
        (Err(status), _) | (_, Err(status)) => Err(*status),
    };
    let attributes = file.ok().and_then(|file| store.attributes(&file.node).ok());
    let done = LinkDone { attributes, dir: dir.map(|dir| wcc(store, &dir)).unwrap_or_default() };
    finish(out, &Reply::Link(with(result.map(|()| done), done)))
}

fn name_again<S: Store>(
    store: &mut S,
    by: Caller<'_>,
    file: &Object<S::Node>,
    dir: &Object<S::Node>,
    name: &[u8],
) -> Outcome<()> {
    is_dir(&dir.attributes)?;
    ensure(file.attributes.ftype != Ftype3::Dir, Nfsstat3::ISDIR)?;
    match absent(store, by, dir, name)? {
        Spot::Taken(_) => Err(Nfsstat3::EXIST),
        Spot::Free(name) => {
            may_add(by.who, &dir.attributes)?;
            store.link(&file.node, Place { dir: &dir.node, name })
        }
    }
}

/// Longest target of a symbolic link.
const TARGET_MAX: usize = 4095;
