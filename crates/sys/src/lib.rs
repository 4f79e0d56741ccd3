//! File handles of the kernel: name_to_handle_at(2) and open_by_handle_at(2).
//!
//! The one crate with unsafe code. A server whose handles must survive its restart needs these calls, `rustix` does not have
//! them, and the crates that do are not kept for others to build on. Two functions, nothing else: what they take and give is
//! owned, so that no caller can misuse them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// A handle of the kernel: which object of a file system it is, for as long as the object exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelHandle {
    kind: i32,
    length: u8,
    bytes: [u8; KernelHandle::LONGEST],
}

impl KernelHandle {
    /// MAX_HANDLE_SZ.
    pub const LONGEST: usize = 128;

    /// None if `bytes` are too many.
    pub fn new(kind: i32, bytes: &[u8]) -> Option<Self> {
        let mut fixed = [0; Self::LONGEST];
        fixed.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self { kind, length: bytes.len() as u8, bytes: fixed })
    }

    /// The file system's word for what the bytes are.
    pub const fn kind(&self) -> i32 {
        self.kind
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length.into()]
    }
}

/// The handle of an open object; `object` may be an `O_PATH` descriptor. Fails where the file system has no handles.
pub fn name_to_handle(object: impl AsFd) -> io::Result<KernelHandle> {
    let mut raw = Raw { length: KernelHandle::LONGEST as u32, kind: 0, bytes: [0; KernelHandle::LONGEST] };
    let mut mount: libc::c_int = 0;
    let fd = object.as_fd().as_raw_fd();
    // SAFETY: the path is a C string; `raw` has the layout of `struct file_handle` with `length` bytes behind its head, which
    // is all the kernel writes; `mount` is an int; all of them outlive the call.
    #[expect(unsafe_code, reason = "no safe crate has this call")]
    let result = unsafe {
        libc::name_to_handle_at(fd, c"".as_ptr(), (&raw mut raw).cast(), &raw mut mount, libc::AT_EMPTY_PATH)
    };
    match result {
        0 => KernelHandle::new(raw.kind, raw.bytes.get(..raw.length as usize).unwrap_or_default())
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Opens the object of a handle as a path (`O_PATH`), a symbolic link itself; `mount` is any object of the file system, not an `O_PATH` descriptor. Needs the capability
/// CAP_DAC_READ_SEARCH. The result is closed on exec.
pub fn open_by_handle(mount: impl AsFd, handle: &KernelHandle) -> io::Result<OwnedFd> {
    let mut raw = Raw { length: handle.length.into(), kind: handle.kind, bytes: handle.bytes };
    let fd = mount.as_fd().as_raw_fd();
    // SAFETY: `raw` has the layout of `struct file_handle` with `length` bytes behind its head, and outlives the call.
    #[expect(unsafe_code, reason = "no safe crate has this call")]
    let result = unsafe { libc::open_by_handle_at(fd, (&raw mut raw).cast(), FLAGS) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor, nobody else owns it.
    #[expect(unsafe_code, reason = "a descriptor becomes owned")]
    let owned = unsafe { OwnedFd::from_raw_fd(result) };
    Ok(owned)
}

const FLAGS: libc::c_int = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;

/// `struct file_handle` with room for the longest one.
#[repr(C)]
struct Raw {
    length: u32,
    kind: i32,
    bytes: [u8; KernelHandle::LONGEST],
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;

    /// Needs a file system with handles and the right to open them; says so where it has not.
    #[test]
    fn an_object_is_found_again_by_its_handle() {
        let dir = File::open(env!("CARGO_MANIFEST_DIR")).expect("the crate's directory");
        let handle = match name_to_handle(&dir) {
            Ok(handle) => handle,
            Err(error) => return eprintln!("no handles here: {error}"),
        };
        assert_eq!(KernelHandle::new(handle.kind(), handle.bytes()), Some(handle));
        match open_by_handle(&dir, &handle) {
            Ok(fd) => {
                let again = File::from(fd).metadata().expect("it is open");
                assert_eq!(again.ino(), dir.metadata().expect("it is open").ino());
            }
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
        }
    }

    #[test]
    fn a_handle_that_nobody_gave_opens_nothing() {
        let dir = File::open(env!("CARGO_MANIFEST_DIR")).expect("the crate's directory");
        let forged = KernelHandle::new(1, &[0xff; 8]).expect("it fits");
        assert!(open_by_handle(&dir, &forged).is_err());
        assert_eq!(KernelHandle::new(1, &[0; 129]), None);
    }
}
