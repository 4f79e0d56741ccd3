//! A file handle that owns its bytes.

use midas_nfs::nfs3::FileHandle;
use std::fmt;

/// At most [`FileHandle::LONGEST`] bytes, kept in place: making one allocates nothing.
#[derive(Clone, Copy)]
pub struct Handle {
    bytes: [u8; FileHandle::LONGEST],
    length: u8,
}

impl Handle {
    /// None if `bytes` are too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut fixed = [0; FileHandle::LONGEST];
        fixed.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self { bytes: fixed, length: bytes.len() as u8 })
    }

    pub(crate) fn fixed<const N: usize>(bytes: [u8; N]) -> Self {
        const { assert!(N <= FileHandle::LONGEST, "a handle is at most 64 bytes") };
        let mut fixed = [0; FileHandle::LONGEST];
        fixed[..N].copy_from_slice(&bytes);
        Self { bytes: fixed, length: N as u8 }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length.into()]
    }

    /// As calls and replies carry it.
    pub fn file_handle(&self) -> FileHandle<'_> {
        FileHandle::new(self.bytes()).expect("a handle is at most 64 bytes")
    }
}

impl PartialEq for Handle {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Handle {}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.bytes()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_holds_64_bytes_and_no_more() {
        let bytes = [7; 65];
        for length in [0, 1, 16, 64] {
            let handle = Handle::new(&bytes[..length]).expect("it fits");
            assert_eq!(handle.bytes(), &bytes[..length]);
            assert_eq!(handle.file_handle().bytes(), &bytes[..length]);
        }
        assert_eq!(Handle::new(&bytes), None);
    }
}
