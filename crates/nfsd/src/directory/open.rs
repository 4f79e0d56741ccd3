//! The ways into the file system: one name at a time, never through a link, never into another file system.

use super::errors::told;
use crate::store::Outcome;
use midas_nfs::nfs3::{Fattr3, Ftype3, Nfsstat3, Nfstime3, Specdata3};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Statx, StatxFlags, StatxTimestamp, openat, openat2, statx};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// What the kernel says of an object.
pub(super) struct Stat {
    pub(super) inode: u64,
    pub(super) device: (u32, u32),
    /// When it was made, as one number; tells objects apart that had the same inode one after another.
    pub(super) birth: u64,
    raw: Statx,
}

impl Stat {
    pub(super) fn is_dir(&self) -> bool {
        self.ftype() == Ftype3::Dir
    }

    fn ftype(&self) -> Ftype3 {
        match u32::from(self.raw.stx_mode) & TYPE {
            0o040_000 => Ftype3::Dir,
            0o060_000 => Ftype3::Blk,
            0o020_000 => Ftype3::Chr,
            0o120_000 => Ftype3::Lnk,
            0o140_000 => Ftype3::Sock,
            0o010_000 => Ftype3::Fifo,
            _ => Ftype3::Reg,
        }
    }

    pub(super) fn attributes(&self, fsid: u64) -> Fattr3 {
        let raw = &self.raw;
        Fattr3 {
            ftype: self.ftype(),
            mode: u32::from(raw.stx_mode) & !TYPE,
            nlink: raw.stx_nlink,
            uid: raw.stx_uid,
            gid: raw.stx_gid,
            size: raw.stx_size,
            used: raw.stx_blocks.saturating_mul(512),
            rdev: Specdata3 { specdata1: raw.stx_rdev_major, specdata2: raw.stx_rdev_minor },
            fsid,
            fileid: self.inode,
            atime: time(raw.stx_atime),
            mtime: time(raw.stx_mtime),
            ctime: time(raw.stx_ctime),
        }
    }
}

fn time(stamp: StatxTimestamp) -> Nfstime3 {
    Nfstime3 { seconds: stamp.tv_sec as u32, nseconds: stamp.tv_nsec }
}

/// Looks at an open object; one without any name left is stale.
pub(super) fn stat(object: BorrowedFd<'_>) -> Outcome<Stat> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let raw = told(statx(object, c"", AtFlags::EMPTY_PATH, wanted))?;
    if raw.stx_nlink == 0 {
        return Err(Nfsstat3::STALE);
    }
    let known = StatxFlags::from_bits_retain(raw.stx_mask).contains(StatxFlags::BTIME);
    let birth = if known { (raw.stx_btime.tv_sec as u64) << 32 | u64::from(raw.stx_btime.tv_nsec) } else { 0 };
    Ok(Stat { inode: raw.stx_ino, device: (raw.stx_dev_major, raw.stx_dev_minor), birth, raw })
}

/// Opens a name of a directory as a path: a link is opened itself, a mount point not at all.
pub(super) fn look(dir: BorrowedFd<'_>, name: &[u8]) -> Outcome<OwnedFd> {
    let resolve =
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    match openat2(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), resolve) {
        Err(Errno::XDEV) => Err(Nfsstat3::ACCES),
        other => told(other),
    }
}

/// The directory above. Whether it is still the export's is the caller's to check.
pub(super) fn above(dir: BorrowedFd<'_>) -> Outcome<OwnedFd> {
    told(openat(dir, c"..", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()))
}

/// Opens what is open as a path for reading. Only for regular files and directories: others may block or do things when they
/// are opened. Times of access stay as they are, where the file is ours or we are root.
pub(super) fn for_reading(object: BorrowedFd<'_>) -> Outcome<OwnedFd> {
    match reopen(object, OFlags::RDONLY | OFlags::NOATIME) {
        Err(Errno::PERM) => told(reopen(object, OFlags::RDONLY)),
        other => told(other),
    }
}

/// Opens a regular file that is open as a path for writing.
pub(super) fn for_writing(object: BorrowedFd<'_>) -> Outcome<OwnedFd> {
    told(reopen(object, OFlags::WRONLY))
}

fn reopen(object: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::open(own_path(object), flags | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())
}

/// A path that leads to an open object and nowhere else.
pub(super) fn own_path(object: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", object.as_raw_fd())
}

pub(super) fn dup(fd: BorrowedFd<'_>) -> Outcome<OwnedFd> {
    told(fcntl_dupfd_cloexec(fd.as_fd(), 0))
}

/// S_IFMT.
const TYPE: u32 = 0o170_000;
