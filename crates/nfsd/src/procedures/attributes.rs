//! Which attributes a caller may set, and what else changes with them: the rules of chmod, chown, utime and truncate as
//! Linux applies them.

use super::{ensure, is_file};
use crate::store::{Kind, New, Outcome};
use crate::user::{EXECUTE, GROUP_EXECUTE, MODE, SET_GID, SET_UID, User, WRITE};
use midas_nfs::nfs3::{Fattr3, Ftype3, Nfsstat3, Sattr3, SetTime, Verifier};

/// The change that SETATTR makes, or why it must not.
pub(super) fn permitted(who: &User, object: &Fattr3, wanted: &Sattr3) -> Outcome<Sattr3> {
    let mut change = *wanted;
    if wanted.size.is_some() {
        is_file(object)?;
        ensure(who.may_write_data(object), Nfsstat3::ACCES)?;
    }
    may_set_times(who, object, wanted)?;
    may_give_away(who, object, wanted)?;
    ensure(wanted.mode.is_none() || who.owns(object), Nfsstat3::PERM)?;
    change.mode = mode_after(who, object, wanted);
    Ok(change)
}

/// Any time of the caller's choice is the owner's to set; the server's time also that of whoever may write.
fn may_set_times(who: &User, object: &Fattr3, wanted: &Sattr3) -> Outcome<()> {
    let times = [wanted.atime, wanted.mtime];
    match () {
        () if who.owns(object) || times == [SetTime::Keep; 2] => Ok(()),
        () if times.iter().any(|time| matches!(time, SetTime::Client(_))) => Err(Nfsstat3::PERM),
        () => ensure(who.may(object, WRITE), Nfsstat3::ACCES),
    }
}

/// Only root gives objects away; an owner may choose among their groups.
fn may_give_away(who: &User, object: &Fattr3, wanted: &Sattr3) -> Outcome<()> {
    let owner = wanted.uid.is_none_or(|uid| who.uid == object.uid && uid == object.uid);
    let group = wanted.gid.is_none_or(|gid| who.uid == object.uid && (gid == object.gid || who.in_group(gid)));
    ensure(who.is_root() || owner && group, Nfsstat3::PERM)
}

/// The mode that a change leaves, where it differs from the old one or was asked for.
fn mode_after(who: &User, object: &Fattr3, wanted: &Sattr3) -> Option<u32> {
    if object.ftype == Ftype3::Lnk {
        return None;
    }
    let given_away = object.ftype != Ftype3::Dir && (wanted.uid.is_some() || wanted.gid.is_some());
    let mut mode = wanted.mode.unwrap_or(object.mode) & MODE;
    if given_away {
        mode = without_privileges(mode, who.in_group(object.gid) || who.is_root());
    } else if wanted.size.is_some() {
        mode = mode_after_write(who, object, mode);
    }
    let group = wanted.gid.unwrap_or(object.gid);
    if wanted.mode.is_some() && !who.is_root() && !who.in_group(group) {
        mode &= !SET_GID;
    }
    (wanted.mode.is_some() || mode != object.mode).then_some(mode)
}

/// The mode that a write leaves if it must change: set-user-ID does not survive a write by anyone but root.
pub(super) fn privileges_dropped(who: &User, file: &Fattr3) -> Option<u32> {
    let mode = mode_after_write(who, file, file.mode);
    (mode != file.mode).then_some(mode)
}

fn mode_after_write(who: &User, file: &Fattr3, mode: u32) -> u32 {
    match file.ftype == Ftype3::Reg && !who.is_root() {
        true => without_privileges(mode, who.in_group(file.gid)),
        false => mode,
    }
}

/// Set-group-ID without group execute means something else (mandatory locks once) and stays with a member of the group.
fn without_privileges(mode: u32, member: bool) -> u32 {
    let set_gid = if mode & GROUP_EXECUTE != 0 || !member { SET_GID } else { 0 };
    mode & !SET_UID & !set_gid
}

/// A new object: it belongs to its maker, in a set-group-ID directory to the directory's group. Its maker may choose among
/// their groups, only root among all users and groups.
pub(super) fn newborn<'a>(who: &User, dir: &Fattr3, kind: Kind<'a>, wanted: &Sattr3) -> Outcome<New<'a>> {
    let inherits = dir.mode & SET_GID != 0;
    let usual = if inherits { dir.gid } else { who.gid };
    let (uid, gid) = (wanted.uid.unwrap_or(who.uid), wanted.gid.unwrap_or(usual));
    let own = uid == who.uid && (gid == usual || who.in_group(gid));
    ensure(who.is_root() || own, Nfsstat3::PERM)?;
    let mode = wanted.mode.unwrap_or(0) & MODE;
    let mode = match kind {
        Kind::Symlink(_) => 0o777,
        Kind::Dir if inherits => mode | SET_GID,
        Kind::Dir => mode,
        Kind::File | Kind::Fifo | Kind::Socket | Kind::Block(_) | Kind::Character(_) => {
            let stranger = mode & GROUP_EXECUTE != 0 && !who.is_root() && !who.in_group(gid);
            if stranger { mode & !SET_GID } else { mode }
        }
    };
    Ok(New { kind, mode, uid, gid })
}

/// What is left to set of a new object: owner and mode it was born with.
pub(super) fn rest(wanted: &Sattr3, kind: Kind<'_>) -> Option<Sattr3> {
    let size = wanted.size.filter(|_| matches!(kind, Kind::File));
    let rest = Sattr3 { size, atime: wanted.atime, mtime: wanted.mtime, ..Sattr3::default() };
    (rest != Sattr3::default()).then_some(rest)
}

/// An exclusive create keeps its verifier in the times, as Linux does: nothing else of a file lasts as long. The SETATTR
/// that follows puts real times there. 31 bits each, for file systems that know no more.
pub(super) fn times_of(verifier: Verifier) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = verifier;
    [[a, b, c, d], [e, f, g, h]].map(|half| u32::from_be_bytes(half) & (u32::MAX >> 1))
}

/// Whether an exclusive create with this verifier made the file, and nothing was done with it since.
pub(super) fn made_by(verifier: Verifier, file: &Fattr3) -> bool {
    let times = [file.atime, file.mtime];
    file.ftype == Ftype3::Reg
        && file.size == 0
        && times.map(|time| time.seconds) == times_of(verifier)
        && times.iter().all(|time| time.nseconds == 0)
}

/// Whether a name may be added to a directory.
pub(super) fn may_add(who: &User, dir: &Fattr3) -> Outcome<()> {
    ensure(who.may(dir, WRITE | EXECUTE), Nfsstat3::ACCES)
}

/// Whether an object's name may be taken away from a directory.
pub(super) fn may_take_away(who: &User, dir: &Fattr3, object: &Fattr3) -> Outcome<()> {
    may_add(who, dir)?;
    ensure(who.may_take_away(dir, object), Nfsstat3::PERM)
}
