//! READDIR and READDIRPLUS (RFC 1813, 3.3.16 and 3.3.17): whole listings in pages of several sizes, and single calls at the
//! limits.

use crate::step::{
    Step, Who, alice, create, fill, list, list_plus, list_removing, mkdir, readdir, readdirplus, rmdir, symlink,
};
use midas_nfs::nfs3::Call;

pub(super) const STEPS: &[Step] = &[
    alice("make a directory to list", mkdir("work", b"listed", 0o777)).binds("listed"),
    list("list an empty directory", Who::Alice, "listed", 4096),
    list_plus("list an empty directory, READDIRPLUS", Who::Alice, "listed", [4096, 8192]),
    alice("make a file to list", create("listed", b"file", 0o640)),
    alice("make a directory to list in it", mkdir("listed", b"dir", 0o750)),
    alice("make a link to list", symlink("listed", b"link", b"target")),
    alice("READDIR in one page", readdir("listed", 0, 4096)),
    alice("READDIRPLUS in one page", readdirplus("listed", 0, [4096, 8192])),
    list("list few names", Who::Alice, "listed", 4096),
    list_plus("list few names, READDIRPLUS", Who::Alice, "listed", [4096, 8192]),
    list("list few names in small pages", Who::Alice, "listed", 180),
    list_plus("list few names with a small dircount", Who::Alice, "listed", [64, 8192]),
    list_plus("list few names with a small maxcount", Who::Alice, "listed", [8192, 512]),
    list_plus("list few names with a dircount over the maxcount", Who::Alice, "listed", [8192, 1024]),
    alice("READDIR with no room", readdir("listed", 0, 0)),
    alice("READDIR with room for no entry", readdir("listed", 0, 100)),
    alice("READDIRPLUS with no room", readdirplus("listed", 0, [0, 0])),
    alice("READDIRPLUS with room for no entry", readdirplus("listed", 0, [4096, 100])),
    alice("READDIRPLUS with no dircount", readdirplus("listed", 0, [0, 8192])),
    alice("READDIR with all the room there is", readdir("listed", 0, u32::MAX)),
    alice("READDIRPLUS with all the room there is", readdirplus("listed", 0, [u32::MAX, u32::MAX])),
    alice("READDIR from a cookie that nobody gave", readdir("listed", 0x7766_5544_3322_1100, 4096)),
    alice("READDIR from the last cookie there is", readdir("listed", u64::MAX, 4096)),
    alice("READDIR with a verifier that nobody gave", forged(0)),
    alice("make a directory with many names", mkdir("work", b"many", 0o777)).binds("many"),
    fill("fill it with 300 names", Who::Alice, "many", 300, 12),
    list("list many names", Who::Alice, "many", 1 << 16),
    list("list many names in pages of 4096", Who::Alice, "many", 4096),
    list("list many names in pages of 512", Who::Alice, "many", 512),
    list_plus("list many names, READDIRPLUS", Who::Alice, "many", [1 << 15, 1 << 16]),
    list_plus("list many names in pages of 4096, READDIRPLUS", Who::Alice, "many", [4096, 4096]),
    list_plus("list many names with a dircount of 512", Who::Alice, "many", [512, 1 << 15]),
    list_removing("remove many names page by page", Who::Alice, "many", 1024),
    list("list what is left", Who::Alice, "many", 4096),
    alice("remove the directory that held many names", rmdir("work", b"many")),
    alice("make a directory with long names", mkdir("work", b"long", 0o777)).binds("long"),
    fill("fill it with long names", Who::Alice, "long", 20, 250),
    list("list long names in pages of 1024", Who::Alice, "long", 1024),
    list_plus("list long names in pages of 1024, READDIRPLUS", Who::Alice, "long", [1024, 1024]),
    alice("READDIR with room for no long name", readdir("long", 0, 200)),
];

const fn forged(cookie: u64) -> Call<'static> {
    Call::Readdir { dir: crate::step::h("listed"), cookie, cookieverf: *b"verifier", count: 4096 }
}
