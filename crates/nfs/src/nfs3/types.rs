//! The structures that calls and replies share (RFC 1813, 2.5 and 2.6), under the RFC's names.

use crate::xdr::{Malformed, Reader, put};
use alloc::vec::Vec;

/// nfs_fh3: the server's name for an object; at most [`FileHandle::LONGEST`] bytes that mean nothing to anyone else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileHandle<'a>(&'a [u8]);

impl<'a> FileHandle<'a> {
    /// NFS3_FHSIZE.
    pub const LONGEST: usize = 64;

    /// None if `bytes` are too many.
    pub const fn new(bytes: &'a [u8]) -> Option<Self> {
        match bytes.len() <= Self::LONGEST {
            true => Some(Self(bytes)),
            false => None,
        }
    }

    /// The bytes as they came.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        from.opaque(Self::LONGEST).map(Self)
    }

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        put::opaque(out, self.0);
    }
}

/// cookieverf3, createverf3 and writeverf3: eight bytes that are only compared.
pub type Verifier = [u8; 8];

/// ftype3: what kind of object it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ftype3 {
    /// Regular file.
    Reg = 1,
    /// Directory.
    Dir = 2,
    /// Block device.
    Blk = 3,
    /// Character device.
    Chr = 4,
    /// Symbolic link.
    Lnk = 5,
    /// Socket.
    Sock = 6,
    /// Named pipe.
    Fifo = 7,
}

impl Ftype3 {
    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u32()? {
            1 => Self::Reg,
            2 => Self::Dir,
            3 => Self::Blk,
            4 => Self::Chr,
            5 => Self::Lnk,
            6 => Self::Sock,
            7 => Self::Fifo,
            _ => return Err(Malformed::Value),
        })
    }
}

/// nfstime3: seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nfstime3 {
    /// Seconds.
    pub seconds: u32,
    /// Nanoseconds.
    pub nseconds: u32,
}

impl Nfstime3 {
    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { seconds: from.u32()?, nseconds: from.u32()? })
    }

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        put::u32(out, self.seconds);
        put::u32(out, self.nseconds);
    }
}

/// specdata3: major and minor number of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Specdata3 {
    /// Major number.
    pub specdata1: u32,
    /// Minor number.
    pub specdata2: u32,
}

/// fattr3: an object's attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fattr3 {
    /// Kind of object.
    pub ftype: Ftype3,
    /// Permission bits.
    pub mode: u32,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Bytes on disk.
    pub used: u64,
    /// Of a device.
    pub rdev: Specdata3,
    /// The file system.
    pub fsid: u64,
    /// The object in its file system.
    pub fileid: u64,
    /// Last read.
    pub atime: Nfstime3,
    /// Last change of the data.
    pub mtime: Nfstime3,
    /// Last change of the attributes.
    pub ctime: Nfstime3,
}

impl Fattr3 {
    /// Bytes on the wire.
    pub const SIZE: usize = 84;

    /// Reads one.
    pub fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut from = Reader::new(from.fixed::<{ Self::SIZE }>()?);
        Ok(Self {
            ftype: Ftype3::decode(&mut from)?,
            mode: from.u32()?,
            nlink: from.u32()?,
            uid: from.u32()?,
            gid: from.u32()?,
            size: from.u64()?,
            used: from.u64()?,
            rdev: Specdata3 { specdata1: from.u32()?, specdata2: from.u32()? },
            fsid: from.u64()?,
            fileid: from.u64()?,
            atime: Nfstime3::decode(&mut from)?,
            mtime: Nfstime3::decode(&mut from)?,
            ctime: Nfstime3::decode(&mut from)?,
        })
    }

    /// The bytes on the wire: one array, so that appending them is one copy.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let [size, used, fsid, fileid] = [self.size, self.used, self.fsid, self.fileid].map(halves);
        let words: [u32; Self::SIZE / 4] = [
            self.ftype as u32,
            self.mode,
            self.nlink,
            self.uid,
            self.gid,
            size[0],
            size[1],
            used[0],
            used[1],
            self.rdev.specdata1,
            self.rdev.specdata2,
            fsid[0],
            fsid[1],
            fileid[0],
            fileid[1],
            self.atime.seconds,
            self.atime.nseconds,
            self.mtime.seconds,
            self.mtime.nseconds,
            self.ctime.seconds,
            self.ctime.nseconds,
        ];
        let mut out = [0; Self::SIZE];
        for (place, word) in out.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        out
    }

    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }

    /// What wcc_data would say of the object before a change.
    pub const fn wcc_attr(&self) -> WccAttr {
        WccAttr { size: self.size, mtime: self.mtime, ctime: self.ctime }
    }
}

fn halves(value: u64) -> [u32; 2] {
    [(value >> 32) as u32, value as u32]
}

/// post_op_attr: attributes after the call, where the server gives them.
pub type PostOpAttr = Option<Fattr3>;

/// wcc_attr: enough of the attributes before a call to tell whether anything else changed in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WccAttr {
    /// Bytes.
    pub size: u64,
    /// Last change of the data.
    pub mtime: Nfstime3,
    /// Last change of the attributes.
    pub ctime: Nfstime3,
}

/// wcc_data: weak cache consistency, an object before and after a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WccData {
    /// Before the call.
    pub before: Option<WccAttr>,
    /// After it.
    pub after: PostOpAttr,
}

impl WccData {
    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let before = from.option(|from| {
            Ok(WccAttr { size: from.u64()?, mtime: Nfstime3::decode(from)?, ctime: Nfstime3::decode(from)? })
        })?;
        Ok(Self { before, after: post_op_attr(from)? })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put::option(out, self.before.as_ref(), |out, before| {
            put::u64(out, before.size);
            before.mtime.encode(out);
            before.ctime.encode(out);
        });
        put_post_op_attr(out, self.after.as_ref());
    }
}

pub(crate) fn post_op_attr(from: &mut Reader<'_>) -> Result<PostOpAttr, Malformed> {
    from.option(Fattr3::decode)
}

pub(crate) fn put_post_op_attr(out: &mut Vec<u8>, attributes: Option<&Fattr3>) {
    put::option(out, attributes, |out, attributes| attributes.encode(out));
}

/// set_atime and set_mtime: how SETATTR sets a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SetTime {
    /// DONT_CHANGE.
    #[default]
    Keep,
    /// SET_TO_SERVER_TIME.
    Server,
    /// SET_TO_CLIENT_TIME.
    Client(Nfstime3),
}

impl SetTime {
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u32()? {
            0 => Self::Keep,
            1 => Self::Server,
            2 => Self::Client(Nfstime3::decode(from)?),
            _ => return Err(Malformed::Value),
        })
    }

    fn encode(self, out: &mut Vec<u8>) {
        match self {
            Self::Keep => put::u32(out, 0),
            Self::Server => put::u32(out, 1),
            Self::Client(time) => {
                put::u32(out, 2);
                time.encode(out);
            }
        }
    }
}

/// sattr3: the attributes that a call sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sattr3 {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes: truncates or extends.
    pub size: Option<u64>,
    /// Last read.
    pub atime: SetTime,
    /// Last change of the data.
    pub mtime: SetTime,
}

impl Sattr3 {
    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            mode: from.option(Reader::u32)?,
            uid: from.option(Reader::u32)?,
            gid: from.option(Reader::u32)?,
            size: from.option(Reader::u64)?,
            atime: SetTime::decode(from)?,
            mtime: SetTime::decode(from)?,
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for word in [self.mode, self.uid, self.gid] {
            put::option(out, word.as_ref(), |out, value| put::u32(out, *value));
        }
        put::option(out, self.size.as_ref(), |out, value| put::u64(out, *value));
        self.atime.encode(out);
        self.mtime.encode(out);
    }
}

/// stable_how: how durable written data must be before the answer. In order of strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StableHow {
    /// COMMIT follows.
    Unstable = 0,
    /// The data.
    DataSync = 1,
    /// Data and metadata.
    FileSync = 2,
}

impl StableHow {
    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u32()? {
            0 => Self::Unstable,
            1 => Self::DataSync,
            2 => Self::FileSync,
            _ => return Err(Malformed::Value),
        })
    }
}

/// ACCESS's bits (RFC 1813, 3.3.4).
pub mod access {
    /// Read data, or read a directory.
    pub const READ: u32 = 0x01;
    /// Look a name up.
    pub const LOOKUP: u32 = 0x02;
    /// Rewrite data, or change names.
    pub const MODIFY: u32 = 0x04;
    /// Write new data, or add names.
    pub const EXTEND: u32 = 0x08;
    /// Delete a name.
    pub const DELETE: u32 = 0x10;
    /// Execute a file.
    pub const EXECUTE: u32 = 0x20;
    /// All of them.
    pub const ALL: u32 = 0x3f;
}
