//! nfsstat3 (RFC 1813, 2.6): how a call ended.

use crate::xdr::{Malformed, Reader};
use core::fmt;

/// A status as it came: a number that the RFC does not know is carried on, not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nfsstat3(pub u32);

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        impl Nfsstat3 {
            $($(#[$doc])* pub const $name: Self = Self($code);)*

            /// Every status of the RFC.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The RFC's name without its prefix; none for a number that it does not know.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    /// Success.
    OK = 0,
    /// Not the owner, or not privileged.
    PERM = 1,
    /// No such name.
    NOENT = 2,
    /// Hard error below the file system.
    IO = 5,
    /// No such device.
    NXIO = 6,
    /// Permission denied.
    ACCES = 13,
    /// The name exists already.
    EXIST = 17,
    /// A hard link across file systems.
    XDEV = 18,
    /// No such device.
    NODEV = 19,
    /// A directory was needed.
    NOTDIR = 20,
    /// A directory was not wanted.
    ISDIR = 21,
    /// Invalid argument.
    INVAL = 22,
    /// Past the largest file.
    FBIG = 27,
    /// No space left.
    NOSPC = 28,
    /// A change on a read-only file system.
    ROFS = 30,
    /// Too many hard links.
    MLINK = 31,
    /// The name is too long.
    NAMETOOLONG = 63,
    /// The directory is not empty.
    NOTEMPTY = 66,
    /// Over quota.
    DQUOT = 69,
    /// The handle's object is gone.
    STALE = 70,
    /// More than one remote hop.
    REMOTE = 71,
    /// The handle makes no sense.
    BADHANDLE = 10001,
    /// SETATTR's guard did not match.
    NOT_SYNC = 10002,
    /// The cookie is stale.
    BAD_COOKIE = 10003,
    /// Not supported.
    NOTSUPP = 10004,
    /// The buffer or request is too small.
    TOOSMALL = 10005,
    /// No other status says it.
    SERVERFAULT = 10006,
    /// An object of this type is not supported.
    BADTYPE = 10007,
    /// The server needs time: ask again later.
    JUKEBOX = 10008,
}

impl Nfsstat3 {
    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.u32().map(Self)
    }
}

impl fmt::Display for Nfsstat3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "status {}", self.0),
        }
    }
}

impl core::error::Error for Nfsstat3 {}
