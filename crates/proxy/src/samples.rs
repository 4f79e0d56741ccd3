//! What several units' tests show servers to say.

use midas_nfs::nfs3::{Fattr3, Ftype3, Nfstime3, Specdata3};

/// Attributes; another version of the same object has another size and other times.
pub(crate) fn attributes(ftype: Ftype3, version: u32) -> Fattr3 {
    let time = Nfstime3 { seconds: version, nseconds: 0 };
    Fattr3 {
        ftype,
        mode: 0o755,
        nlink: 1,
        uid: 0,
        gid: 0,
        size: u64::from(version),
        used: 0,
        rdev: Specdata3 { specdata1: 0, specdata2: 0 },
        fsid: 1,
        fileid: 2,
        atime: time,
        mtime: time,
        ctime: time,
    }
}
