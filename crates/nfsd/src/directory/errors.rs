//! The kernel's errors as NFSv3 tells them.

use crate::store::Outcome;
use midas_nfs::nfs3::Nfsstat3;
use rustix::io::Errno;

/// What a client is told of an error of the kernel.
pub(super) fn told<T>(result: Result<T, Errno>) -> Outcome<T> {
    result.map_err(status)
}

fn status(error: Errno) -> Nfsstat3 {
    match error {
        Errno::PERM => Nfsstat3::PERM,
        Errno::NOENT => Nfsstat3::NOENT,
        Errno::NXIO => Nfsstat3::NXIO,
        // A mount point that is removed or crossed is not the export's to change or show.
        Errno::ACCESS | Errno::BUSY => Nfsstat3::ACCES,
        Errno::EXIST => Nfsstat3::EXIST,
        Errno::XDEV => Nfsstat3::XDEV,
        Errno::NODEV => Nfsstat3::NODEV,
        Errno::NOTDIR => Nfsstat3::NOTDIR,
        Errno::ISDIR => Nfsstat3::ISDIR,
        Errno::INVAL | Errno::LOOP => Nfsstat3::INVAL,
        Errno::FBIG => Nfsstat3::FBIG,
        Errno::NOSPC => Nfsstat3::NOSPC,
        Errno::ROFS => Nfsstat3::ROFS,
        Errno::MLINK => Nfsstat3::MLINK,
        Errno::NAMETOOLONG => Nfsstat3::NAMETOOLONG,
        Errno::NOTEMPTY => Nfsstat3::NOTEMPTY,
        Errno::DQUOT => Nfsstat3::DQUOT,
        Errno::STALE => Nfsstat3::STALE,
        Errno::OPNOTSUPP | Errno::NOSYS => Nfsstat3::NOTSUPP,
        // Not the call's fault, and gone in a moment: the client asks again.
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => Nfsstat3::JUKEBOX,
        _ => Nfsstat3::IO,
    }
}
