//! LINK (RFC 1813, 3.3.15), and what several names of one object share.

use crate::step::{
    Step, Who, alice, bob, create, getattr, link, lookup, mkdir, mknod, mode_of, read, remove, rename, root, setattr,
    symlink, twice, write,
};
use midas_nfs::nfs3::{MknodData, StableHow::FileSync};

pub(super) const STEPS: &[Step] = &[
    alice("make a directory for links", mkdir("work", b"links", 0o777)).binds("links"),
    alice("make another directory for links", mkdir("links", b"other", 0o777)).binds("other links"),
    alice("make a file with several names", create("links", b"one", 0o644)).binds("one"),
    alice("link it", link("one", "links", b"two")),
    alice("link it into another directory", link("one", "other links", b"three")),
    alice("the second name gives the same handle", lookup("links", b"two")),
    alice("the third name gives the same handle", lookup("other links", b"three")),
    alice("it has three names", getattr("one")),
    alice("link over an existing name", link("one", "links", b"two")),
    alice("link over a directory", link("one", "links", b"other")),
    alice("link a directory", link("other links", "links", b"dir link")),
    root("link a directory as root", link("other links", "links", b"dir link")),
    bob("link what another owns", link("one", "links", b"by bob")),
    alice("make a closed directory for links", mkdir("links", b"closed", 0o755)).binds("closed links"),
    bob("link into a closed directory", link("one", "closed links", b"by bob")),
    alice("make a symbolic link with several names", symlink("links", b"soft", b"target")).binds("soft"),
    alice("link a symbolic link", link("soft", "links", b"soft too")),
    alice("make a pipe with several names", mknod("links", b"pipe", MknodData::Fifo(mode_of(0o644))))
        .binds("many pipes"),
    alice("link a pipe", link("many pipes", "links", b"pipe too")),
    alice("write through one name", write("one", 0, FileSync, b"shared")),
    alice("remove the first name", remove("links", b"one")),
    alice("the handle lives on", read("one", 0, 10)),
    alice("rename one name to another of the same file", rename("links", b"two", "other links", b"three")),
    alice("the renamed name after that", lookup("links", b"two")),
    alice("the other name after that", lookup("other links", b"three")),
    alice("remove bob's name", remove("links", b"by bob")),
    alice("remove the second name", remove("links", b"two")),
    alice("remove the third name", remove("other links", b"three")),
    alice("the handle without a name", getattr("one")),
    alice("link the handle without a name", link("one", "links", b"again")),
    alice("make a file to link twice", create("links", b"last", 0o644)).binds("last"),
    twice("LINK sent again", Who::Alice, link("last", "links", b"last too")),
    alice("close the file that is linked", setattr("last", mode_of(0))),
    alice("link a file of mode 0000", link("last", "links", b"last of all")),
];
