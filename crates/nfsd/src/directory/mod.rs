//! A real directory as a namespace.
//!
//! Contained: every object is reached by a handle that we sealed or by one name below another object, never through a
//! symbolic link, `..` beyond the root or a mount point (a name with another file system behind it is ACCES, and stands in
//! listings by its name alone). What a local process moves out of the directory keeps its handle, as with `no_subtree_check`.
//! Permissions are the procedures' by mode bits; we act as whoever we run as. As root, new objects get the caller's user and
//! group; otherwise they are ours. No descriptor outlives a call. Names are not synced to disk, data is when asked.

mod errors;
mod identity;
mod list;
mod open;
mod seal;
mod table;

use crate::handle::Handle;
use crate::store::{Bounds, Kind, New, Object, Outcome, Place, Room, Store, Write};
use errors::told;
use identity::{Finder, Identity};
use midas_nfs::nfs3::{Entry, Fattr3, FileHandle, Nfsstat3, Nfstime3, Sattr3, SetTime, Specdata3, StableHow};
use open::{Stat, above, for_reading, for_writing, look, own_path, stat};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, chmod, chownat,
    fdatasync, fstatvfs, fsync, ftruncate, linkat, makedev, mkdirat, mknodat, openat, readlinkat, renameat, symlinkat,
    unlinkat, utimensat,
};
use rustix::process::geteuid;
use seal::Seal;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// How a directory is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectoryOptions {
    /// Seals the handles. Without one it is kept with the directory, in an extended attribute that only root can read.
    pub key: Option<[u8; 16]>,
    /// How objects are found again.
    pub handles: Handles,
}

/// How objects are found again by their handles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handles {
    /// By the kernel's handles where it gives them, otherwise by the names that were seen.
    #[default]
    Best,
    /// By the names that were seen: handles do not survive the process.
    Seen,
}

/// A directory that is served. A clone is the same one.
#[derive(Clone)]
pub(crate) struct Directory(Arc<Served>);

struct Served {
    root: OwnedFd,
    inode: u64,
    device: (u32, u32),
    identity: Identity,
    finder: Finder,
    seal: Seal,
    fsid: u64,
    time_delta: Nfstime3,
    is_root: bool,
}

/// An open object: a descriptor that can be looked at, and opened again for more.
pub(crate) struct Node {
    fd: OwnedFd,
    identity: Identity,
    inode: u64,
}

impl Directory {
    pub(crate) fn new(root: &Path, options: &DirectoryOptions) -> io::Result<Self> {
        let root = rustix::fs::open(root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let found = stat(root.as_fd()).map_err(io::Error::other)?;
        // Every file is opened this way: where it does not work (no /proc), nothing would.
        for_reading(root.as_fd()).map_err(io::Error::other)?;
        let finder = match options.handles {
            Handles::Best => Finder::new(root.as_fd()),
            Handles::Seen => Finder::seen(),
        };
        let identity = finder.identify(root.as_fd(), &found).map_err(io::Error::other)?;
        let key = options.key.map_or_else(|| seal::key_of(root.as_fd()), Ok)?;
        let seal = Seal::new(key, &identity.bytes());
        let tick = rustix::time::clock_getres(rustix::time::ClockId::RealtimeCoarse);
        Ok(Self(Arc::new(Served {
            inode: found.inode,
            device: found.device,
            identity,
            finder,
            fsid: seal.fsid(),
            seal,
            time_delta: Nfstime3 { seconds: tick.tv_sec as u32, nseconds: tick.tv_nsec as u32 },
            is_root: geteuid().is_root(),
            root,
        })))
    }

    fn object(&self, fd: OwnedFd, found: &Stat) -> Outcome<Object<Node>> {
        let identity = self.0.finder.identify(fd.as_fd(), found)?;
        let node = Node { fd, identity, inode: found.inode };
        Ok(Object { node, attributes: found.attributes(self.0.fsid) })
    }

    /// Looks at an object and makes sure that it is of our file system.
    fn ours(&self, object: BorrowedFd<'_>) -> Outcome<Stat> {
        let found = stat(object)?;
        if found.device == self.0.device { Ok(found) } else { Err(Nfsstat3::ACCES) }
    }

    fn root_object(&self) -> Outcome<Object<Node>> {
        let fd = open::dup(self.0.root.as_fd())?;
        let found = stat(fd.as_fd())?;
        self.object(fd, &found)
    }

    /// Whether a directory is the root or lies in it: up and up until the root comes, or the top of the file system.
    fn contains(&self, dir: BorrowedFd<'_>) -> Outcome<bool> {
        let mut at = open::dup(dir)?;
        for _ in 0..DEPTH_MAX {
            let found = self.ours(at.as_fd())?;
            if found.inode == self.0.inode {
                return Ok(true);
            }
            let next = above(at.as_fd())?;
            if stat(next.as_fd())?.inode == found.inode {
                return Ok(false);
            }
            at = next;
        }
        Ok(false)
    }

    /// Owner, then mode: a change of owner takes set-user-ID away.
    fn dress(&self, fd: BorrowedFd<'_>, new: &New<'_>) -> Outcome<()> {
        if self.0.is_root {
            let (owner, group) = (Uid::from_raw(new.uid), Gid::from_raw(new.gid));
            told(chownat(fd, c"", Some(owner), Some(group), AtFlags::EMPTY_PATH))?;
        }
        match new.kind {
            Kind::Symlink(_) => Ok(()),
            Kind::File | Kind::Dir | Kind::Fifo | Kind::Socket | Kind::Block(_) | Kind::Character(_) => {
                told(chmod(own_path(fd), Mode::from_raw_mode(new.mode)))
            }
        }
    }
}

impl Store for Directory {
    type Node = Node;

    fn root(&self, salt: u32) -> Handle {
        self.0.seal.close(salt, &self.0.identity.bytes()).expect("an identity fits into a handle")
    }

    fn resolve(&self, handle: FileHandle<'_>, salt: u32) -> Outcome<Object<Node>> {
        let identity = Identity::parse(self.0.seal.open(salt, handle.bytes())?)?;
        let fd = self.0.finder.find(self.0.root.as_fd(), &identity)?;
        let found = self.ours(fd.as_fd())?;
        let node = Node { fd, identity, inode: found.inode };
        Ok(Object { node, attributes: found.attributes(self.0.fsid) })
    }

    fn handle(&self, node: &Node, salt: u32) -> Handle {
        self.0.seal.close(salt, &node.identity.bytes()).expect("an identity fits into a handle")
    }

    fn attributes(&self, node: &Node) -> Outcome<Fattr3> {
        stat(node.fd.as_fd()).map(|found| found.attributes(self.0.fsid))
    }

    fn child(&self, dir: &Node, name: &[u8]) -> Outcome<Object<Node>> {
        let fd = look(dir.fd.as_fd(), name)?;
        let found = self.ours(fd.as_fd())?;
        self.0.finder.learn(dir.inode, name, &found);
        self.object(fd, &found)
    }

    fn parent(&self, dir: &Node) -> Outcome<Object<Node>> {
        if dir.inode == self.0.inode {
            return self.root_object();
        }
        let fd = above(dir.fd.as_fd())?;
        if !self.contains(fd.as_fd())? {
            return Err(Nfsstat3::STALE);
        }
        let found = self.ours(fd.as_fd())?;
        self.object(fd, &found)
    }

    fn read(&self, file: &Node, offset: u64, count: usize, out: &mut Vec<u8>) -> Outcome<bool> {
        let size = stat(file.fd.as_fd())?.attributes(0).size;
        if offset >= size || count == 0 {
            return Ok(offset >= size);
        }
        let fd = for_reading(file.fd.as_fd())?;
        let count = count.min((size - offset) as usize);
        let start = out.len();
        out.resize(start + count, 0);
        let mut filled = start;
        while filled < out.len() {
            match rustix::io::pread(&fd, &mut out[filled..], offset + (filled - start) as u64) {
                Ok(0) => break,
                Ok(got) => filled += got,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return told(Err(error)),
            }
        }
        out.truncate(filled);
        let whole = filled - start == count;
        Ok(!whole || offset + count as u64 >= size)
    }

    fn target(&self, link: &Node) -> Outcome<Vec<u8>> {
        told(readlinkat(&link.fd, c"", Vec::new())).map(std::ffi::CString::into_bytes)
    }

    fn list(&self, dir: &Node, cookie: u64, visit: &mut dyn FnMut(&Entry<'_>) -> bool) -> Outcome<bool> {
        let is_root = dir.inode == self.0.inode;
        list::list(dir.fd.as_fd(), cookie, is_root.then_some(dir.inode), visit)
    }

    fn room(&self) -> Outcome<Room> {
        let found = told(fstatvfs(&self.0.root))?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Room {
            bytes: bytes(found.f_blocks),
            bytes_free: bytes(found.f_bfree),
            bytes_available: bytes(found.f_bavail),
            files: found.f_files,
            files_free: found.f_ffree,
        })
    }

    fn bounds(&self) -> Bounds {
        Bounds { links: LINKS, file_size: i64::MAX as u64, time_delta: self.0.time_delta }
    }

    fn create(&mut self, place: Place<'_, Node>, new: &New<'_>) -> Outcome<Object<Node>> {
        let fd = bare(&place, new.kind)?;
        let made = self.dress(fd.as_fd(), new).and_then(|()| self.ours(fd.as_fd()));
        let made = made.and_then(|found| {
            self.0.finder.learn(place.dir.inode, place.name, &found);
            self.object(fd, &found)
        });
        made.inspect_err(|_| {
            let flags = if matches!(new.kind, Kind::Dir) { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            // Half-made objects do not stay; that it cannot be removed would be no news to the caller.
            let _ = unlinkat(&place.dir.fd, place.name, flags);
        })
    }

    fn remove(&mut self, place: Place<'_, Node>, victim: &Object<Node>) -> Outcome<()> {
        let is_dir = victim.attributes.ftype == midas_nfs::nfs3::Ftype3::Dir;
        let flags = if is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        told(unlinkat(&place.dir.fd, place.name, flags))
    }

    fn rename(&mut self, from: Place<'_, Node>, to: Place<'_, Node>) -> Outcome<()> {
        told(renameat(&from.dir.fd, from.name, &to.dir.fd, to.name))?;
        // Seen under its new name at once: handles that are out stay good.
        self.child(to.dir, to.name).map(drop)
    }

    fn link(&mut self, object: &Node, place: Place<'_, Node>) -> Outcome<()> {
        let path = own_path(object.fd.as_fd());
        told(linkat(CWD, path, &place.dir.fd, place.name, AtFlags::SYMLINK_FOLLOW))?;
        self.child(place.dir, place.name).map(drop)
    }

    fn set(&mut self, object: &Node, change: &Sattr3) -> Outcome<()> {
        let fd = object.fd.as_fd();
        if let Some(size) = change.size {
            told(ftruncate(for_writing(fd)?, size))?;
        }
        if change.uid.is_some() || change.gid.is_some() {
            let (owner, group) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
            told(chownat(fd, c"", owner, group, AtFlags::EMPTY_PATH))?;
        }
        if let Some(mode) = change.mode {
            told(chmod(own_path(fd), Mode::from_raw_mode(mode)))?;
        }
        if [change.atime, change.mtime] != [SetTime::Keep; 2] {
            let times = Timestamps { last_access: stamp(change.atime), last_modification: stamp(change.mtime) };
            told(utimensat(fd, c"", &times, AtFlags::EMPTY_PATH))?;
        }
        Ok(())
    }

    fn write(&mut self, file: &Node, write: &Write<'_>) -> Outcome<StableHow> {
        let fd = for_writing(file.fd.as_fd())?;
        let mut done = 0;
        while done < write.data.len() {
            match rustix::io::pwrite(&fd, &write.data[done..], write.offset + done as u64) {
                Ok(0) => return Err(Nfsstat3::IO),
                Ok(wrote) => done += wrote,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return told(Err(error)),
            }
        }
        told(match write.stable {
            StableHow::Unstable => Ok(()),
            StableHow::DataSync => fdatasync(&fd),
            StableHow::FileSync => fsync(&fd),
        })?;
        Ok(write.stable)
    }

    fn commit(&mut self, file: &Node, _range: Range<u64>, _server: u16) -> Outcome<()> {
        told(fsync(for_writing(file.fd.as_fd())?))
    }
}

/// A new object as it was made: ours, and not yet what it should be.
fn bare(place: &Place<'_, Node>, kind: Kind<'_>) -> Outcome<OwnedFd> {
    let (dir, name) = (place.dir.fd.as_fd(), place.name);
    let special =
        |file_type, spec: Specdata3| mknodat(dir, name, file_type, BARE, makedev(spec.specdata1, spec.specdata2));
    let none = Specdata3::default();
    told(match kind {
        Kind::File => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
            return told(openat(dir, name, flags, BARE));
        }
        Kind::Dir => mkdirat(dir, name, Mode::RWXU),
        Kind::Symlink(target) => symlinkat(target, dir, name),
        Kind::Fifo => special(FileType::Fifo, none),
        Kind::Socket => special(FileType::Socket, none),
        Kind::Block(spec) => special(FileType::BlockDevice, spec),
        Kind::Character(spec) => special(FileType::CharacterDevice, spec),
    })?;
    let fd = look(dir, name)?;
    // Somebody else may have put another object there meanwhile, which must not be given away.
    let made_by_us = stat(fd.as_fd())?.attributes(0).uid == geteuid().as_raw();
    if made_by_us { Ok(fd) } else { Err(Nfsstat3::EXIST) }
}

fn stamp(time: SetTime) -> Timespec {
    match time {
        SetTime::Keep => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        SetTime::Server => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        SetTime::Client(time) => Timespec { tv_sec: time.seconds.into(), tv_nsec: time.nseconds.into() },
    }
}

/// The mode of an object that is not dressed yet: nobody else's.
const BARE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Deepest directory whose `..` is given.
const DEPTH_MAX: usize = 4096;
/// What PATHCONF says; the file system itself decides.
const LINKS: u32 = 32_000;
