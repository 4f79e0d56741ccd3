//! One object in memory.

use super::data::Data;
use super::names::Names;
use crate::store::{Kind, New};
use midas_nfs::nfs3::{Fattr3, Ftype3, Nfstime3, Specdata3};
use std::time::{SystemTime, UNIX_EPOCH};

/// Attributes are kept as replies carry them: GETATTR copies.
pub(super) struct Inode {
    pub(super) attributes: Fattr3,
    pub(super) generation: u32,
    pub(super) body: Body,
}

pub(super) enum Body {
    File(Data),
    Dir(Box<Names>),
    Symlink(Box<[u8]>),
    Special,
}

impl Inode {
    /// A new object; a directory's parent is `parent`.
    pub(super) fn new(new: &New<'_>, fileid: u64, generation: u32, parent: u32) -> Self {
        let none = Specdata3::default();
        let (ftype, body, size, rdev) = match new.kind {
            Kind::File => (Ftype3::Reg, Body::File(Data::default()), 0, none),
            Kind::Dir => (Ftype3::Dir, Body::Dir(Box::new(Names::new(parent))), DIR_SIZE, none),
            Kind::Symlink(target) => (Ftype3::Lnk, Body::Symlink(target.into()), target.len() as u64, none),
            Kind::Fifo => (Ftype3::Fifo, Body::Special, 0, none),
            Kind::Socket => (Ftype3::Sock, Body::Special, 0, none),
            Kind::Block(spec) => (Ftype3::Blk, Body::Special, 0, spec),
            Kind::Character(spec) => (Ftype3::Chr, Body::Special, 0, spec),
        };
        let now = now();
        let attributes = Fattr3 {
            ftype,
            mode: new.mode,
            nlink: if ftype == Ftype3::Dir { 2 } else { 1 },
            uid: new.uid,
            gid: new.gid,
            size,
            used: 0,
            rdev,
            fsid: FSID,
            fileid,
            atime: now,
            mtime: now,
            ctime: now,
        };
        Self { attributes, generation, body }
    }

    /// The attributes changed: a new ctime, later than any before, whatever the clock says.
    pub(super) fn touch(&mut self) {
        self.attributes.ctime = now().max(after(self.attributes.ctime));
    }

    /// The contents were read: a new atime, later than any before.
    pub(super) fn read(&mut self) {
        self.attributes.atime = now().max(after(self.attributes.atime));
    }

    /// The contents changed.
    pub(super) fn touch_contents(&mut self) {
        self.touch();
        self.attributes.mtime = self.attributes.ctime;
    }
}

pub(super) fn now() -> Nfstime3 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nfstime3 { seconds: since.as_secs() as u32, nseconds: since.subsec_nanos() }
}

fn after(time: Nfstime3) -> Nfstime3 {
    match time.nseconds {
        999_999_999.. => Nfstime3 { seconds: time.seconds.saturating_add(1), nseconds: 0 },
        nseconds => Nfstime3 { nseconds: nseconds + 1, ..time },
    }
}

/// Every namespace in memory says the same: it is the one file system of its process.
const FSID: u64 = 0x4d49_4441_5300_0001;
/// What a directory says its size is.
const DIR_SIZE: u64 = 4096;
