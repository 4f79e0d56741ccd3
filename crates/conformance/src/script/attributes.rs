//! SETATTR (RFC 1813, 3.3.2).

use crate::step::{
    ALICE_ID, BOB_ID, CAROL_ID, NOTHING, Step, Who, alice, bob, carol, client_time, create, getattr, group, guarded, h,
    mkdir, mode_of, owner, read, root, setattr, size, symlink, times, twice, write,
};
use midas_nfs::nfs3::{Call, Nfstime3, Sattr3, SetTime, StableHow::FileSync};

pub(super) const STEPS: &[Step] = &[
    alice("make a directory for attributes", mkdir("work", b"attributes", 0o777)).binds("attributes"),
    alice("make a file for attributes", create("attributes", b"file", 0o644)).binds("file"),
    alice("set nothing", setattr("file", NOTHING)),
    bob("set nothing of what another owns", setattr("file", NOTHING)),
    // Modes.
    alice("set the mode", setattr("file", mode_of(0o600))),
    alice("set the same mode", setattr("file", mode_of(0o600))),
    bob("set the mode of what another owns", setattr("file", mode_of(0o666))),
    carol("set the mode of the group's file", setattr("file", mode_of(0o666))),
    root("set the mode as root", setattr("file", mode_of(0o666))),
    alice("set a mode with the file's type in it", setattr("file", mode_of(0o100_640))),
    alice("set every bit of a mode", setattr("file", mode_of(0o7777))),
    alice("the owner sets set-group-ID of their group", setattr("file", mode_of(0o2755))),
    root("give the file to an alien group", setattr("file", group(BOB_ID))),
    alice("the owner sets set-group-ID of an alien group", setattr("file", mode_of(0o2755))),
    alice("the owner sets the sticky bit of a file", setattr("file", mode_of(0o1644))),
    root("give the file back to its group", setattr("file", group(ALICE_ID))),
    // Owners and groups.
    alice("give a file away", setattr("file", owner(BOB_ID))),
    alice("set the owner that it has", setattr("file", owner(ALICE_ID))),
    alice("set the group that it has", setattr("file", group(ALICE_ID))),
    alice("give a file to an alien group", setattr("file", group(BOB_ID))),
    bob("take a file", setattr("file", owner(BOB_ID))),
    root("give a file away as root", setattr("file", owner(CAROL_ID))),
    carol("give a file to a further group", setattr("file", group(ALICE_ID))),
    carol("give a file to the own group", setattr("file", group(CAROL_ID))),
    root(
        "give owner and group at once",
        setattr("file", Sattr3 { uid: Some(ALICE_ID), gid: Some(ALICE_ID), ..NOTHING }),
    ),
    // Set-user-ID and set-group-ID are lost with the owner, and when another writes.
    alice("set both set-ID bits", setattr("file", mode_of(0o6777))),
    root("a new owner takes the set-ID bits away", setattr("file", owner(ALICE_ID))),
    alice("set both set-ID bits again", setattr("file", mode_of(0o6777))),
    alice("the owner writes", write("file", 0, FileSync, b"1234567890")),
    alice("set the set-ID bits a third time", setattr("file", mode_of(0o6777))),
    bob("another user writes", write("file", 0, FileSync, b"12345")),
    alice("make a file that only this step truncates", create("attributes", b"cut", 0o6777)).binds("cut"),
    bob("another user truncates", setattr("cut", size(8))),
    // Sizes.
    alice("truncate", setattr("file", size(4))),
    alice("what truncating left", read("file", 0, 100)),
    alice("extend", setattr("file", size(8))),
    alice("what extending added", read("file", 0, 100)),
    alice("set the size that it has", setattr("file", size(8))),
    alice("truncate to nothing", setattr("file", size(0))),
    alice("extend over 4 GiB", setattr("file", size(1 << 33))),
    alice("truncate from over 4 GiB", setattr("file", size(1))),
    alice("extend past the largest file", setattr("file", size(u64::MAX))),
    alice("extend past what Linux has", setattr("file", size(1 << 63))),
    alice("set the size of a directory", setattr("attributes", size(0))),
    alice("make a link for attributes", symlink("attributes", b"link", b"target")).binds("attribute link"),
    alice("set the size of a symbolic link", setattr("attribute link", size(0))),
    alice("set the mode of a symbolic link", setattr("attribute link", mode_of(0o600))),
    alice("set the mtime of a symbolic link", setattr("attribute link", times(SetTime::Keep, OLD))),
    root("set the owner of a symbolic link", setattr("attribute link", owner(BOB_ID))),
    alice("close the file", setattr("file", mode_of(0o400))),
    alice("the owner truncates without write permission", setattr("file", size(0))),
    bob("another truncates without write permission", setattr("file", size(0))),
    // Times.
    alice(
        "set both times",
        setattr("file", times(client_time(1_000_000_000, 1), client_time(1_100_000_000, 999_999_999))),
    ),
    alice("set the mtime alone", setattr("file", times(SetTime::Keep, OLD))),
    alice("set the atime alone", setattr("file", times(OLD, SetTime::Keep))),
    alice("set times of 1970", setattr("file", times(client_time(0, 0), client_time(0, 0)))),
    alice("set times of 2038", setattr("file", times(client_time(1 << 31, 0), client_time(1 << 31, 0)))),
    alice("set times of 2106", setattr("file", times(client_time(u32::MAX, 0), client_time(u32::MAX, 0)))),
    alice("set a time with too many nanoseconds", setattr("file", times(SetTime::Keep, client_time(1, 1_000_000_000)))),
    alice("set times by the server's clock", setattr("file", times(SetTime::Server, SetTime::Server))),
    bob("set another's times", setattr("file", times(OLD, OLD))),
    bob("set another's times by the server's clock", setattr("file", times(SetTime::Server, SetTime::Server))),
    alice("open the file for all", setattr("file", mode_of(0o666))),
    bob("set a writable file's times", setattr("file", times(OLD, OLD))),
    bob("set a writable file's times by the server's clock", setattr("file", times(SetTime::Server, SetTime::Server))),
    bob(
        "set a writable file's mtime alone by the server's clock",
        setattr("file", times(SetTime::Keep, SetTime::Server)),
    ),
    alice("set the times of a directory", setattr("attributes", times(OLD, OLD))),
    alice("set size and mtime at once", setattr("file", Sattr3 { size: Some(3), mtime: OLD, ..NOTHING })),
    alice("set everything at once", setattr("file", EVERYTHING)),
    bob("set a mode and a size, one of them not allowed", setattr("file", Sattr3 { size: Some(0), ..mode_of(0o777) })),
    alice("what is left of all this", getattr("file")),
    // The guard.
    guarded("guard that matches", Who::Alice, setattr("file", mode_of(0o640))),
    alice("guard that does not match", not_sync(mode_of(0o600))),
    alice("guard that does not match and nothing to set", not_sync(NOTHING)),
    bob("guard that does not match, and no permission", not_sync(mode_of(0o600))),
    twice("SETATTR sent again", Who::Alice, setattr("file", mode_of(0o604))),
];

const OLD: SetTime = client_time(1_000_000_000, 500_000_000);
const EVERYTHING: Sattr3 =
    Sattr3 { mode: Some(0o664), uid: Some(ALICE_ID), gid: Some(ALICE_ID), size: Some(5), atime: OLD, mtime: OLD };

const fn not_sync(new_attributes: Sattr3) -> Call<'static> {
    Call::Setattr { object: h("file"), new_attributes, guard: Some(Nfstime3 { seconds: 1, nseconds: 2 }) }
}
