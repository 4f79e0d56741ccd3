//! MOUNT version 3 (RFC 1813, 5), and of version 1 what `showmount` and `umount` still ask for: DUMP, UMNT, UMNTALL, EXPORT.

use crate::nfs3::FileHandle;
use crate::xdr::{Malformed, Reader, put};
use alloc::vec::Vec;

/// The program's number.
pub const PROGRAM: u32 = 100_005;
/// The version that goes with NFSv3.
pub const VERSION: u32 = 3;
/// The oldest version that is answered; its MNT is not.
pub const VERSION_OLD: u32 = 1;

/// A call of MOUNT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call<'a> {
    /// Do nothing.
    Null,
    /// The root handle of an export.
    Mnt(&'a [u8]),
    /// Who mounted what.
    Dump,
    /// One mount is over.
    Umnt(&'a [u8]),
    /// All of a client's mounts are over.
    Umntall,
    /// What can be mounted.
    Export,
}

impl<'a> Call<'a> {
    /// The call with this number; none if there is no such procedure in that version.
    pub fn decode(version: u32, procedure: u32, args: &'a [u8]) -> Option<Result<Self, Malformed>> {
        let path = || Reader::new(args).opaque(MNTPATHLEN);
        Some(match procedure {
            0 => Ok(Self::Null),
            1 if version == VERSION => path().map(Self::Mnt),
            2 => Ok(Self::Dump),
            3 => path().map(Self::Umnt),
            4 => Ok(Self::Umntall),
            5 => Ok(Self::Export),
            _ => return None,
        })
    }

    /// The procedure's number.
    pub const fn procedure(&self) -> u32 {
        match self {
            Self::Null => 0,
            Self::Mnt(_) => 1,
            Self::Dump => 2,
            Self::Umnt(_) => 3,
            Self::Umntall => 4,
            Self::Export => 5,
        }
    }

    /// Appends the arguments.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Mnt(path) | Self::Umnt(path) => put::opaque(out, path),
            Self::Null | Self::Dump | Self::Umntall | Self::Export => {}
        }
    }
}

/// mountstat3 other than OK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MountStat(pub u32);

impl MountStat {
    /// No such path.
    pub const NOENT: Self = Self(2);
    /// Permission denied.
    pub const ACCES: Self = Self(13);
    /// Not a directory.
    pub const NOTDIR: Self = Self(20);
    /// The path is too long.
    pub const NAMETOOLONG: Self = Self(63);
    /// The server failed.
    pub const SERVERFAULT: Self = Self(10006);
}

/// MNT's results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted<'a> {
    /// The root's handle.
    pub handle: FileHandle<'a>,
    /// The kinds of credentials that are taken there.
    pub flavors: Vec<u32>,
}

impl<'a> Mounted<'a> {
    /// Reads MNT's results.
    pub fn decode(results: &'a [u8]) -> Result<Result<Self, MountStat>, Malformed> {
        let mut from = Reader::new(results);
        match from.u32()? {
            0 => {
                let handle = FileHandle::decode(&mut from)?;
                let count = from.u32()?;
                if count > FLAVORS {
                    return Err(Malformed::TooLong);
                }
                let flavors = (0..count).map(|_| from.u32()).collect::<Result<_, _>>()?;
                Ok(Ok(Self { handle, flavors }))
            }
            stat => Ok(Err(MountStat(stat))),
        }
    }

    /// Appends MNT's results.
    pub fn encode(result: Result<&Self, MountStat>, out: &mut Vec<u8>) {
        match result {
            Ok(mounted) => {
                put::u32(out, 0);
                mounted.handle.encode(out);
                put::u32(out, mounted.flavors.len() as u32);
                mounted.flavors.iter().for_each(|flavor| put::u32(out, *flavor));
            }
            Err(MountStat(stat)) => put::u32(out, stat),
        }
    }
}

/// DUMP's results: pairs of client and path.
pub fn put_dump<'a>(out: &mut Vec<u8>, mounts: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) {
    for (client, path) in mounts {
        put::bool(out, true);
        put::opaque(out, client);
        put::opaque(out, path);
    }
    put::bool(out, false);
}

/// EXPORT's results: paths, each with who may mount it (none: everyone).
pub fn put_exports<'a>(out: &mut Vec<u8>, exports: impl IntoIterator<Item = (&'a [u8], &'a [&'a [u8]])>) {
    for (path, groups) in exports {
        put::bool(out, true);
        put::opaque(out, path);
        for group in groups {
            put::bool(out, true);
            put::opaque(out, group);
        }
        put::bool(out, false);
    }
    put::bool(out, false);
}

/// Reads EXPORT's results: at most `limit` paths.
pub fn exports(results: &[u8], limit: usize) -> Result<Vec<&[u8]>, Malformed> {
    let mut from = Reader::new(results);
    let mut paths = Vec::new();
    while from.bool()? {
        if paths.len() == limit {
            return Err(Malformed::TooLong);
        }
        paths.push(from.opaque(MNTPATHLEN)?);
        while from.bool()? {
            from.opaque(MNTNAMLEN)?;
        }
    }
    Ok(paths)
}

/// MNTPATHLEN: the longest path.
pub const MNTPATHLEN: usize = 1024;
/// MNTNAMLEN: the longest name of a client.
pub const MNTNAMLEN: usize = 255;
/// More kinds of credentials than there are.
const FLAVORS: u32 = 32;
