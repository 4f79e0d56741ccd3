//! Handles that nobody can make up: a keyed checksum over everything in them.
//!
//! Without it a client could name any object of the file system, outside of the exported directory too. The key is kept with
//! the directory, in an extended attribute that only root can read and that NFSv3 cannot show: a server that starts again,
//! or another process over the same directory, takes and gives the same handles. Where that is not possible the key lasts as
//! long as the process. The root's own identity goes into the key, so that a copied attribute opens no other directory.

use crate::handle::Handle;
use crate::store::Outcome;
use midas_nfs::nfs3::Nfsstat3;
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use rustix::rand::{GetRandomFlags, getrandom};
use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use std::io;
use std::os::fd::BorrowedFd;

/// A key and what it is good for.
pub(super) struct Seal {
    key: Key,
}

pub(super) type Key = [u8; 16];

impl Seal {
    /// A seal for the directory of this identity.
    pub(super) fn new(key: Key, root: &[u8]) -> Self {
        let outer = Self { key };
        let mut own = [0; 16];
        own[..8].copy_from_slice(&outer.sum(&[b"first", root]).to_be_bytes());
        own[8..].copy_from_slice(&outer.sum(&[b"second", root]).to_be_bytes());
        Self { key: own }
    }

    /// The number of this file system: the same as long as the handles are.
    pub(super) fn fsid(&self) -> u64 {
        self.sum(&[b"fsid"])
    }

    /// None if `body` is too long for a handle.
    pub(super) fn close(&self, salt: u32, body: &[u8]) -> Option<Handle> {
        let salt = salt.to_be_bytes();
        let sum = self.sum(&[b"handle", &salt, body]).to_be_bytes();
        Handle::new(&[&MAGIC, &salt[..], &sum, body].concat())
    }

    /// The body of a handle that this seal closed; one of another salt is stale.
    pub(super) fn open<'a>(&self, salt: u32, handle: &'a [u8]) -> Outcome<&'a [u8]> {
        let (magic, rest) = handle.split_first_chunk::<4>().ok_or(Nfsstat3::BADHANDLE)?;
        let (own, rest) = rest.split_first_chunk::<4>().ok_or(Nfsstat3::BADHANDLE)?;
        let (sum, body) = rest.split_first_chunk::<8>().ok_or(Nfsstat3::BADHANDLE)?;
        if *magic != MAGIC || *sum != self.sum(&[b"handle", own, body]).to_be_bytes() {
            return Err(Nfsstat3::BADHANDLE);
        }
        if *own == salt.to_be_bytes() { Ok(body) } else { Err(Nfsstat3::STALE) }
    }

    fn sum(&self, parts: &[&[u8]]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        for part in parts {
            hasher.write_u32(part.len() as u32);
            hasher.write(part);
        }
        hasher.finish()
    }
}

/// The key of a directory: the one that it has, or a new one that it keeps where it can.
pub(super) fn key_of(root: BorrowedFd<'_>) -> io::Result<Key> {
    let mut key = [0; 16];
    if matches!(fgetxattr(root, ATTRIBUTE, &mut key), Ok(16)) {
        return Ok(key);
    }
    getrandom(&mut key, GetRandomFlags::empty())?;
    match fsetxattr(root, ATTRIBUTE, &key, XattrFlags::CREATE) {
        // Another process was faster: its key is the directory's.
        Err(rustix::io::Errno::EXIST) => fgetxattr(root, ATTRIBUTE, &mut key).map(|_| key).map_err(Into::into),
        Ok(()) | Err(_) => Ok(key),
    }
}

/// "MIDd".
const MAGIC: [u8; 4] = *b"MIDd";
/// `trusted.`: readable with CAP_SYS_ADMIN alone.
const ATTRIBUTE: &str = "trusted.midas.nfsd";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_opens_whole_under_its_own_key_and_salt_only() {
        let seal = Seal::new([7; 16], b"root");
        let handle = seal.close(5, b"body").expect("it fits");
        assert_eq!(seal.open(5, handle.bytes()), Ok(&b"body"[..]));
        assert_eq!(seal.open(6, handle.bytes()), Err(Nfsstat3::STALE));
        for at in 0..handle.bytes().len() {
            let mut forged = handle.bytes().to_vec();
            forged[at] ^= 1;
            assert_eq!(seal.open(5, &forged), Err(Nfsstat3::BADHANDLE), "bit of byte {at}");
            assert_eq!(seal.open(5, &handle.bytes()[..at]), Err(Nfsstat3::BADHANDLE), "cut to {at}");
        }
        for (key, root) in [([8; 16], b"root"), ([7; 16], b"toor")] {
            assert_eq!(Seal::new(key, root).open(5, handle.bytes()), Err(Nfsstat3::BADHANDLE));
        }
        assert_eq!(seal.close(5, &[0; 49]), None);
    }
}
