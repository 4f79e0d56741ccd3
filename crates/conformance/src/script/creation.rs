//! CREATE in its three manners, MKDIR, SYMLINK, MKNOD (RFC 1813, 3.3.8 to 3.3.11).

use crate::step::{
    ALICE_ID, BOB_ID, DEVICE, NOTHING, Step, Who, alice, bob, carol, client_time, create, create_exclusive,
    create_unchecked, create_with, getattr, group, lookup, mkdir, mkdir_with, mknod, mode_of, owner, read, readlink,
    root, setattr, size, symlink, times, twice, write,
};
use midas_nfs::nfs3::{MknodData, Sattr3, StableHow::FileSync};

pub(super) const STEPS: &[Step] = &[
    alice("make a directory to create in", mkdir("work", b"creation", 0o777)).binds("creation"),
    // GUARDED
    alice("create guarded", create("creation", b"guarded", 0o640)).binds("guarded"),
    alice("create guarded again", create("creation", b"guarded", 0o600)),
    bob("create guarded what another owns", create("creation", b"guarded", 0o600)),
    alice("create over a directory, guarded", create("work", b"creation", 0o644)),
    alice("create with all attributes", create_with("creation", b"all", ALL)).binds("all"),
    alice("create with a size", create_with("creation", b"sized", Sattr3 { size: Some(100), ..mode_of(0o640) }))
        .binds("sized"),
    alice("create with a size past the largest file", create_with("creation", b"huge", size(u64::MAX))),
    alice("what was to be too large", lookup("creation", b"huge")),
    alice("create with mode 0000", create("creation", b"closed", 0)),
    alice("create without a mode", create_with("creation", b"bare", NOTHING)),
    alice("create with all mode bits", create("creation", b"bits", 0o7777)).binds("bits"),
    alice("create for another owner", create_with("creation", b"given", owner(BOB_ID))),
    alice("what was to be given away", lookup("creation", b"given")),
    alice("create for an alien group", create_with("creation", b"alien", group(BOB_ID))),
    carol(
        "create for a further group",
        create_with("creation", b"further", Sattr3 { gid: Some(ALICE_ID), ..mode_of(0o640) }),
    ),
    root(
        "create for another owner as root",
        create_with("creation", b"granted", Sattr3 { uid: Some(BOB_ID), ..mode_of(0o640) }),
    ),
    // UNCHECKED
    alice("create unchecked", create_unchecked("creation", b"unchecked", mode_of(0o600))).binds("unchecked"),
    alice("write into it", write("unchecked", 0, FileSync, b"some data")),
    alice("create unchecked again with another mode", create_unchecked("creation", b"unchecked", mode_of(0o666))),
    alice("create unchecked again with size 4", create_unchecked("creation", b"unchecked", size(4))),
    alice("create unchecked again with size 0", create_unchecked("creation", b"unchecked", size(0))),
    bob("create unchecked what bob may not write", create_unchecked("creation", b"guarded", NOTHING)),
    bob("create unchecked with size 0 what bob may not write", create_unchecked("creation", b"guarded", size(0))),
    alice("create unchecked over a directory", create_unchecked("work", b"creation", NOTHING)),
    // EXCLUSIVE
    alice("create exclusive", create_exclusive("creation", b"exclusive", *b"verifier")).binds("exclusive"),
    alice("create exclusive again, same verifier", create_exclusive("creation", b"exclusive", *b"verifier")),
    alice("create exclusive again, other verifier", create_exclusive("creation", b"exclusive", *b"another!")),
    bob("create exclusive, same verifier, other user", create_exclusive("creation", b"exclusive", *b"verifier")),
    alice("create exclusive over what is there", create_exclusive("creation", b"guarded", *b"verifier")),
    alice("create exclusive over a directory", create_exclusive("work", b"creation", *b"verifier")),
    alice("attributes after exclusive", setattr("exclusive", Sattr3 { mode: Some(0o640), ..NOW })),
    alice("create exclusive with the verifier after SETATTR", create_exclusive("creation", b"exclusive", *b"verifier")),
    alice("exclusive's handle is its own", getattr("exclusive")),
    // MKDIR
    alice("make a directory", mkdir("creation", b"dir", 0o750)).binds("dir"),
    alice("make it again", mkdir("creation", b"dir", 0o750)),
    alice("make a directory over a file", mkdir("creation", b"guarded", 0o750)),
    alice("make a directory with all mode bits", mkdir("creation", b"dir bits", 0o7777)),
    alice("make a directory for another owner", mkdir_with("dir", b"given", owner(BOB_ID))),
    alice("make a directory with mode 0000", mkdir("creation", b"dir closed", 0)),
    alice("make a directory without a mode", mkdir_with("creation", b"dir bare", NOTHING)),
    root("make a directory with times", mkdir_with("creation", b"dir times", times(OLD, OLD))),
    bob("make a directory where bob may not", mkdir("dir", b"name", 0o755)),
    // A directory with the set-group-ID bit hands its group down.
    root("make a directory that hands down its group", mkdir("creation", b"handing", 0o777)).binds("handing"),
    root("give it a group", setattr("handing", group(BOB_ID))),
    root("set its set-group-ID bit", setattr("handing", mode_of(0o2777))),
    alice("create a file in it", create("handing", b"file", 0o644)),
    alice("create a file with set-group-ID in it", create("handing", b"sgid file", 0o2755)),
    alice("make a directory in it", mkdir("handing", b"dir", 0o755)),
    alice("make a symbolic link in it", symlink("handing", b"link", b"target")),
    alice("make a pipe in it", mknod("handing", b"pipe", MknodData::Fifo(mode_of(0o644)))),
    // SYMLINK
    alice("make a symbolic link", symlink("creation", b"link", b"../some/where")).binds("link"),
    alice("make it again, the link", symlink("creation", b"link", b"elsewhere")),
    alice("read the link", readlink("link")),
    alice("make a symbolic link to nothing", symlink("creation", b"empty link", b"")),
    alice("make a symbolic link to any bytes", symlink("creation", b"byte link", b"\xff\x01 /\xc3(")).binds("bytes"),
    alice("read the link to any bytes", readlink("bytes")),
    alice("make a symbolic link of 1000 bytes", symlink("creation", b"long link", &[b't'; 1000])).binds("long link"),
    alice("read the link of 1000 bytes", readlink("long link")),
    alice("make a symbolic link of 4095 bytes", symlink("creation", b"longest link", &[b't'; 4095])),
    alice("make a symbolic link of 4096 bytes", symlink("creation", b"too long link", &[b't'; 4096])),
    alice("make a symbolic link over a directory", symlink("work", b"creation", b"target")),
    bob("make a symbolic link where bob may not", symlink("dir", b"name", b"target")),
    alice("create unchecked over a symbolic link", create_unchecked("creation", b"link", NOTHING)),
    // MKNOD
    alice("make a pipe", mknod("creation", b"pipe", MknodData::Fifo(mode_of(0o640)))).binds("pipe"),
    alice("make it again, the pipe", mknod("creation", b"pipe", MknodData::Fifo(mode_of(0o640)))),
    alice("make a socket", mknod("creation", b"socket", MknodData::Sock(mode_of(0o600)))).binds("socket"),
    root("make a character device", mknod("creation", b"chr", MknodData::Chr(mode_of(0o600), DEVICE))).binds("chr"),
    root("make a block device", mknod("creation", b"blk", MknodData::Blk(mode_of(0o600), DEVICE))),
    alice("make a character device as a user", mknod("creation", b"own chr", MknodData::Chr(mode_of(0o600), DEVICE))),
    alice("make a block device as a user", mknod("creation", b"own blk", MknodData::Blk(mode_of(0o600), DEVICE))),
    alice("MKNOD of a regular file", mknod("creation", b"reg", MknodData::Other(1))),
    alice("MKNOD of a directory", mknod("creation", b"directory", MknodData::Other(2))),
    alice("MKNOD of a symbolic link", mknod("creation", b"sym", MknodData::Other(5))),
    bob("make a pipe where bob may not", mknod("dir", b"name", MknodData::Fifo(mode_of(0o640)))),
    alice("read a pipe", read("pipe", 0, 10)),
    alice("read a socket", read("socket", 0, 10)),
    root("read a character device", read("chr", 0, 10)),
    alice("write to a pipe", write("pipe", 0, FileSync, b"data")),
    alice("create unchecked over a pipe", create_unchecked("creation", b"pipe", NOTHING)),
    // Retransmissions get the first reply again.
    twice("CREATE sent again", Who::Alice, create("creation", b"twice", 0o644)),
    twice("MKDIR sent again", Who::Alice, mkdir("creation", b"twice dir", 0o755)),
    twice("SYMLINK sent again", Who::Alice, symlink("creation", b"twice link", b"target")),
];

const OLD: midas_nfs::nfs3::SetTime = client_time(1_000_000_000, 500_000_000);
const ALL: Sattr3 =
    Sattr3 { mode: Some(0o604), uid: Some(ALICE_ID), gid: Some(ALICE_ID), size: Some(0), atime: OLD, mtime: OLD };
const NOW: Sattr3 = times(midas_nfs::nfs3::SetTime::Server, midas_nfs::nfs3::SetTime::Server);
