//! Names (RFC 1813, 3.2): their length, their bytes, `.` and `..` wherever a name can stand.

use crate::step::{
    NOTHING, Step, Who, alice, create, create_exclusive, create_unchecked, getattr, link, list, lookup, mkdir, mknod,
    mode_of, remove, rename, rmdir, root, symlink,
};
use midas_nfs::nfs3::MknodData;

pub(super) const STEPS: &[Step] = &[
    alice("make a directory for names", mkdir("work", b"names", 0o777)).binds("names"),
    alice("make a file to be renamed and linked", create("names", b"file", 0o644)).binds("named"),
    // 255 bytes are a name, 256 are not.
    alice("LOOKUP of 255 bytes that are not there", lookup("names", LONGEST)),
    alice("CREATE of 255 bytes", create("names", LONGEST, 0o644)).binds("longest"),
    alice("LOOKUP of 255 bytes", lookup("names", LONGEST)),
    alice("REMOVE of 255 bytes", remove("names", LONGEST)),
    alice("MKDIR of 255 bytes", mkdir("names", LONGEST, 0o755)),
    alice("RMDIR of 255 bytes", rmdir("names", LONGEST)),
    alice("RENAME to 255 bytes", rename("names", b"file", "names", LONGEST)),
    alice("RENAME from 255 bytes", rename("names", LONGEST, "names", b"file")),
    alice("LOOKUP of 256 bytes", lookup("names", TOO_LONG)),
    alice("CREATE of 256 bytes", create("names", TOO_LONG, 0o644)),
    alice("CREATE exclusive of 256 bytes", create_exclusive("names", TOO_LONG, [1; 8])),
    alice("MKDIR of 256 bytes", mkdir("names", TOO_LONG, 0o755)),
    alice("SYMLINK of 256 bytes", symlink("names", TOO_LONG, b"target")),
    alice("MKNOD of 256 bytes", mknod("names", TOO_LONG, MknodData::Fifo(mode_of(0o644)))),
    alice("REMOVE of 256 bytes", remove("names", TOO_LONG)),
    alice("RMDIR of 256 bytes", rmdir("names", TOO_LONG)),
    alice("RENAME from 256 bytes", rename("names", TOO_LONG, "names", b"other")),
    alice("RENAME to 256 bytes", rename("names", b"file", "names", TOO_LONG)),
    alice("LINK of 256 bytes", link("named", "names", TOO_LONG)),
    // No name at all.
    alice("LOOKUP of nothing", lookup("names", b"")),
    alice("CREATE of nothing", create("names", b"", 0o644)),
    alice("MKDIR of nothing", mkdir("names", b"", 0o755)),
    alice("SYMLINK of nothing", symlink("names", b"", b"target")),
    alice("REMOVE of nothing", remove("names", b"")),
    alice("RMDIR of nothing", rmdir("names", b"")),
    alice("RENAME from nothing", rename("names", b"", "names", b"other")),
    alice("RENAME to nothing", rename("names", b"file", "names", b"")),
    alice("LINK of nothing", link("named", "names", b"")),
    // The directory itself.
    alice("LOOKUP of .", lookup("names", b".")),
    alice("CREATE of .", create("names", b".", 0o644)),
    alice("CREATE unchecked of .", create_unchecked("names", b".", NOTHING)),
    alice("CREATE exclusive of .", create_exclusive("names", b".", [1; 8])),
    alice("MKDIR of .", mkdir("names", b".", 0o755)),
    alice("SYMLINK of .", symlink("names", b".", b"target")),
    alice("MKNOD of .", mknod("names", b".", MknodData::Fifo(mode_of(0o644)))),
    alice("REMOVE of .", remove("names", b".")),
    alice("RMDIR of .", rmdir("names", b".")),
    alice("RENAME from .", rename("names", b".", "names", b"other")),
    alice("RENAME to .", rename("names", b"file", "names", b".")),
    alice("LINK of .", link("named", "names", b".")),
    // Its parent.
    alice("LOOKUP of ..", lookup("names", b"..")),
    root("LOOKUP of .. in the root", lookup("root", b"..")),
    alice("CREATE of ..", create("names", b"..", 0o644)),
    alice("MKDIR of ..", mkdir("names", b"..", 0o755)),
    alice("SYMLINK of ..", symlink("names", b"..", b"target")),
    alice("MKNOD of ..", mknod("names", b"..", MknodData::Fifo(mode_of(0o644)))),
    alice("REMOVE of ..", remove("names", b"..")),
    alice("RMDIR of ..", rmdir("names", b"..")),
    alice("RENAME from ..", rename("names", b"..", "names", b"other")),
    alice("RENAME to ..", rename("names", b"file", "names", b"..")),
    alice("LINK of ..", link("named", "names", b"..")),
    // Names that only look like them, and any bytes but NUL and the slash.
    alice("MKDIR of ...", mkdir("names", b"...", 0o755)),
    alice("LOOKUP of ...", lookup("names", b"...")),
    alice("CREATE with a slash", create("names", b"a/b", 0o644)),
    alice("LOOKUP with a slash", lookup("names", b"a/b")),
    alice("CREATE with a NUL", create("creation", b"a\0b", 0o644)),
    alice("LOOKUP with a NUL", lookup("creation", b"a\0b")),
    alice("CREATE of every byte", create("names", EVERY_BYTE, 0o644)).binds("every byte"),
    alice("LOOKUP of every byte", lookup("names", EVERY_BYTE)),
    alice("CREATE of broken UTF-8", create("names", b"\xc3\x28\xff", 0o644)),
    alice("CREATE of a space", create("names", b" ", 0o644)),
    alice("CREATE of letters", create("names", b"case", 0o644)).binds("lower case"),
    alice("LOOKUP of capital letters", lookup("names", b"CASE")),
    alice("CREATE of capital letters", create("names", b"CASE", 0o644)).binds("upper case"),
    alice("letters and capital letters are two", getattr("upper case")),
    list("list all these names", Who::Alice, "names", 8192),
];

const LONGEST: &[u8] = &[b'n'; 255];
const TOO_LONG: &[u8] = &[b'n'; 256];
/// 1 to 255 without the slash.
const EVERY_BYTE: &[u8] = &every_byte();

const fn every_byte() -> [u8; 254] {
    let mut bytes = [0; 254];
    let (mut index, mut byte) = (0, 1);
    while index < bytes.len() {
        if byte != b'/' {
            bytes[index] = byte;
            index += 1;
        }
        byte = byte.wrapping_add(1);
    }
    bytes
}
