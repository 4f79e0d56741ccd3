//! Names that calls carry: any bytes but NUL and the slash, 255 at most.
//!
//! An empty name and one with a NUL or a slash are ACCES: the RFC's word for both (3.2), and Linux's for the first.

use crate::store::Outcome;
use midas_nfs::nfs3::Nfsstat3;

/// A name that may be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name<'a> {
    /// The directory itself.
    Dot,
    /// Its parent.
    DotDot,
    /// Any other.
    Plain(&'a [u8]),
}

impl<'a> Name<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Outcome<Self> {
        match bytes {
            b"" => Err(Nfsstat3::ACCES),
            b"." => Ok(Self::Dot),
            b".." => Ok(Self::DotDot),
            long if long.len() > NAME_MAX => Err(Nfsstat3::NAMETOOLONG),
            bytes if bytes.iter().any(|byte| matches!(byte, 0 | b'/')) => Err(Nfsstat3::ACCES),
            plain => Ok(Self::Plain(plain)),
        }
    }

    /// A name that can be made, taken away or moved; the errors say what `.` and `..` are.
    pub(super) fn plain(bytes: &'a [u8], dot: Nfsstat3, dot_dot: Nfsstat3) -> Outcome<&'a [u8]> {
        match Self::new(bytes)? {
            Self::Dot => Err(dot),
            Self::DotDot => Err(dot_dot),
            Self::Plain(name) => Ok(name),
        }
    }
}

/// Longest name.
pub(super) const NAME_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_any_bytes_but_nul_and_slash_up_to_255() {
        let long = [b'a'; 256];
        let cases: [(&[u8], Outcome<Name<'_>>); 10] = [
            (b"", Err(Nfsstat3::ACCES)),
            (b".", Ok(Name::Dot)),
            (b"..", Ok(Name::DotDot)),
            (b"...", Ok(Name::Plain(b"..."))),
            (b"a/b", Err(Nfsstat3::ACCES)),
            (b"/", Err(Nfsstat3::ACCES)),
            (b"a\0", Err(Nfsstat3::ACCES)),
            (&[0xff, 0xfe], Ok(Name::Plain(&[0xff, 0xfe]))),
            (&long[..255], Ok(Name::Plain(&long[..255]))),
            (&long, Err(Nfsstat3::NAMETOOLONG)),
        ];
        for (bytes, expected) in cases {
            assert_eq!(Name::new(bytes), expected, "{bytes:?}");
        }
    }
}
