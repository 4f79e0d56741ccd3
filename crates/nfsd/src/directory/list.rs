//! Listing a real directory: the kernel's own cookies, which its file systems keep good while others create and remove.

use super::errors::told;
use super::open::for_reading;
use crate::store::Outcome;
use midas_nfs::nfs3::{Entry, Nfsstat3};
use rustix::fs::{RawDir, SeekFrom, seek};
use std::os::fd::BorrowedFd;

/// Shows the names after a cookie while `visit` says true; true if none is left. `root` is the number of the export's root if
/// it is listed: its `..` is itself, and what lies above is nobody's business.
pub(super) fn list(
    dir: BorrowedFd<'_>,
    cookie: u64,
    root: Option<u64>,
    visit: &mut dyn FnMut(&Entry<'_>) -> bool,
) -> Outcome<bool> {
    let fd = for_reading(dir)?;
    if cookie != 0 {
        seek(&fd, SeekFrom::Start(cookie)).map_err(|_| Nfsstat3::BAD_COOKIE)?;
    }
    let mut buffer = Vec::with_capacity(BUFFER);
    let mut entries = RawDir::new(&fd, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = told(entry)?;
        let name = entry.file_name().to_bytes();
        let fileid = root.filter(|_| name == b"..").unwrap_or(entry.ino());
        let shown = fileid == 0 || visit(&Entry { fileid, name, cookie: entry.next_entry_cookie() });
        if !shown {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Bytes of entries that are read at once.
const BUFFER: usize = 1 << 15;
