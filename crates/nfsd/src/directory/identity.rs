//! How an object of the file system is named in a handle, and found again.
//!
//! By the kernel's own handle where the file system has one and we may open by it: good for as long as the object exists,
//! wherever it moves. Otherwise by inode number and birth, through a table of names that were seen: good until the table
//! forgets, the server starts again, or somebody else than the server moves the object.

use super::errors::told;
use super::open::{Stat, dup, look, stat};
use super::table::{Place, Table};
use crate::store::Outcome;
use midas_nfs::nfs3::Nfsstat3;
use midas_sys::{KernelHandle, name_to_handle, open_by_handle};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// The body of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    Kernel(KernelHandle),
    Seen { inode: u64, birth: u64 },
}

impl Identity {
    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Kernel(handle) => [&KERNEL, &handle.kind().to_be_bytes()[..], handle.bytes()].concat(),
            Self::Seen { inode, birth } => [&SEEN, &inode.to_be_bytes()[..], &birth.to_be_bytes()].concat(),
        }
    }

    pub(super) fn parse(bytes: &[u8]) -> Outcome<Self> {
        let parsed = match bytes.split_first_chunk::<4>() {
            Some((&KERNEL, body)) => body
                .split_first_chunk::<4>()
                .and_then(|(kind, bytes)| KernelHandle::new(i32::from_be_bytes(*kind), bytes))
                .map(Self::Kernel),
            Some((&SEEN, body)) => <[u8; 16]>::try_from(body).ok().map(|body| {
                let [inode, birth] =
                    [0, 8].map(|at| body[at..at + 8].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
                Self::Seen { inode, birth }
            }),
            Some(_) | None => None,
        };
        parsed.ok_or(Nfsstat3::BADHANDLE)
    }
}

/// Finds objects by their identity.
pub(super) enum Finder {
    Kernel,
    Seen(Mutex<Table>),
}

impl Finder {
    /// The kernel's handles if they work here.
    pub(super) fn new(root: BorrowedFd<'_>) -> Self {
        let works = name_to_handle(root)
            .is_ok_and(|handle| handle.bytes().len() <= KERNEL_MAX && open_by_handle(root, &handle).is_ok());
        if works { Self::Kernel } else { Self::seen() }
    }

    /// The table, whatever the kernel can do.
    pub(super) fn seen() -> Self {
        Self::Seen(Mutex::new(Table::new(TABLE_MAX)))
    }

    /// The identity of an open object.
    pub(super) fn identify(&self, object: BorrowedFd<'_>, stat: &Stat) -> Outcome<Identity> {
        match self {
            Self::Kernel => {
                let handle = told(name_to_handle(object).map_err(|error| errno(&error)))?;
                let fits = handle.bytes().len() <= KERNEL_MAX;
                fits.then_some(Identity::Kernel(handle)).ok_or(Nfsstat3::SERVERFAULT)
            }
            Self::Seen(_) => Ok(Identity::Seen { inode: stat.inode, birth: stat.birth }),
        }
    }

    /// An object was found under a name.
    pub(super) fn learn(&self, dir: u64, name: &[u8], object: &Stat) {
        if let Self::Seen(table) = self {
            let names = if object.is_dir() { 1 } else { NAMES_MAX };
            let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
            table.learn(object.inode, Place { dir, name: name.into() }, names);
        }
    }

    /// Opens the object of an identity, as a path.
    pub(super) fn find(&self, root: BorrowedFd<'_>, identity: &Identity) -> Outcome<OwnedFd> {
        match (self, identity) {
            (Self::Kernel, Identity::Kernel(handle)) => open_by_handle(root, handle).map_err(|error| {
                match errno(&error) {
                    // What the kernel no longer knows is gone; so is a number that it never knew.
                    Errno::STALE | Errno::INVAL | Errno::NOENT => Nfsstat3::STALE,
                    other => told::<()>(Err(other)).expect_err("it is an error"),
                }
            }),
            (Self::Seen(table), Identity::Seen { inode, birth }) => {
                let top = stat(root)?;
                let fd = walk(table, root, &top, *inode, DEPTH_MAX)?;
                let same = *inode == top.inode || stat(fd.as_fd())?.birth == *birth;
                if same { Ok(fd) } else { Err(Nfsstat3::STALE) }
            }
            // Made by a process that could do what we cannot, or the other way round.
            (Self::Kernel, Identity::Seen { .. }) | (Self::Seen(_), Identity::Kernel(_)) => Err(Nfsstat3::STALE),
        }
    }
}

/// Opens an object by the names under which it and its directories were seen.
fn walk(table: &Mutex<Table>, root: BorrowedFd<'_>, top: &Stat, inode: u64, depth: usize) -> Outcome<OwnedFd> {
    if inode == top.inode {
        return dup(root);
    }
    let depth = depth.checked_sub(1).ok_or(Nfsstat3::STALE)?;
    let places = table.lock().unwrap_or_else(PoisonError::into_inner).places(inode);
    for place in places {
        let Ok(dir) = walk(table, root, top, place.dir, depth) else { continue };
        if let Ok(fd) = look(dir.as_fd(), &place.name)
            && stat(fd.as_fd()).is_ok_and(|found| found.inode == inode && found.device == top.device)
        {
            return Ok(fd);
        }
        table.lock().unwrap_or_else(PoisonError::into_inner).forget(inode, &place);
    }
    Err(Nfsstat3::STALE)
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

const KERNEL: [u8; 4] = *b"kern";
const SEEN: [u8; 4] = *b"seen";
/// The longest handle of the kernel that fits into ours: 64 bytes less the seal's 16 and our 8.
const KERNEL_MAX: usize = 40;
/// Objects that the table knows.
const TABLE_MAX: usize = 1 << 20;
/// Names of a file that the table knows.
const NAMES_MAX: usize = 4;
/// Deepest directory that the table leads to.
const DEPTH_MAX: usize = 512;
