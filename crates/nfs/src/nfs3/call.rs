//! A call's arguments (RFC 1813, 3.3): decoded by a server or proxy, encoded by a client. Bytes after the arguments are
//! ignored, as servers do.

use super::procedure::Procedure;
use super::types::{FileHandle, Nfstime3, Sattr3, Specdata3, StableHow, Verifier};
use crate::xdr::{Malformed, Reader, put};
use alloc::vec::Vec;

/// diropargs3: a name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DirOp<'a> {
    /// The directory.
    pub dir: FileHandle<'a>,
    /// The name: bytes, not text.
    pub name: &'a [u8],
}

/// The handle that arguments begin with, and the name behind it where they have one. Nothing behind
/// is looked at: for arguments that [`Call::decode`] has read before. None of NULL, and of LINK and
/// RENAME, whose arguments say more.
pub fn subject(procedure: Procedure, args: &[u8]) -> Option<(FileHandle<'_>, Option<&[u8]>)> {
    let from = &mut Reader::new(args);
    match procedure {
        Procedure::Null | Procedure::Rename | Procedure::Link => None,
        Procedure::Lookup
        | Procedure::Create
        | Procedure::Mkdir
        | Procedure::Symlink
        | Procedure::Mknod
        | Procedure::Remove
        | Procedure::Rmdir => {
            let DirOp { dir, name } = DirOp::decode(from).ok()?;
            Some((dir, Some(name)))
        }
        Procedure::Getattr
        | Procedure::Setattr
        | Procedure::Access
        | Procedure::Readlink
        | Procedure::Read
        | Procedure::Write
        | Procedure::Readdir
        | Procedure::Readdirplus
        | Procedure::Fsstat
        | Procedure::Fsinfo
        | Procedure::Pathconf
        | Procedure::Commit => Some((FileHandle::decode(from).ok()?, None)),
    }
}

impl<'a> DirOp<'a> {
    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self { dir: FileHandle::decode(from)?, name: string(from)? })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.dir.encode(out);
        put::opaque(out, self.name);
    }
}

/// createhow3: how CREATE treats a name that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CreateHow {
    /// It is taken as it is.
    Unchecked(Sattr3),
    /// It is an error.
    Guarded(Sattr3),
    /// It is an error unless this very verifier made it.
    Exclusive(Verifier),
}

impl CreateHow {
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u32()? {
            0 => Self::Unchecked(Sattr3::decode(from)?),
            1 => Self::Guarded(Sattr3::decode(from)?),
            2 => Self::Exclusive(*from.fixed()?),
            _ => return Err(Malformed::Value),
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Unchecked(attributes) => {
                put::u32(out, 0);
                attributes.encode(out);
            }
            Self::Guarded(attributes) => {
                put::u32(out, 1);
                attributes.encode(out);
            }
            Self::Exclusive(verifier) => {
                put::u32(out, 2);
                out.extend_from_slice(verifier);
            }
        }
    }
}

/// mknoddata3: what MKNOD makes. A type that MKNOD cannot make is told as [`MknodData::Other`]: the server answers BADTYPE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MknodData {
    /// Block device.
    Blk(Sattr3, Specdata3),
    /// Character device.
    Chr(Sattr3, Specdata3),
    /// Socket.
    Sock(Sattr3),
    /// Named pipe.
    Fifo(Sattr3),
    /// The number of another type.
    Other(u32),
}

impl MknodData {
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let device = |from: &mut Reader<'_>| {
            let attributes = Sattr3::decode(from)?;
            Ok((attributes, Specdata3 { specdata1: from.u32()?, specdata2: from.u32()? }))
        };
        Ok(match from.u32()? {
            3 => device(from).map(|(attributes, spec)| Self::Blk(attributes, spec))?,
            4 => device(from).map(|(attributes, spec)| Self::Chr(attributes, spec))?,
            6 => Self::Sock(Sattr3::decode(from)?),
            7 => Self::Fifo(Sattr3::decode(from)?),
            other @ (1 | 2 | 5) => Self::Other(other),
            _ => return Err(Malformed::Value),
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let mut put_type = |number, attributes: Option<&Sattr3>, spec: Option<&Specdata3>| {
            put::u32(out, number);
            if let Some(attributes) = attributes {
                attributes.encode(out);
            }
            if let Some(spec) = spec {
                put::u32(out, spec.specdata1);
                put::u32(out, spec.specdata2);
            }
        };
        match self {
            Self::Blk(attributes, spec) => put_type(3, Some(attributes), Some(spec)),
            Self::Chr(attributes, spec) => put_type(4, Some(attributes), Some(spec)),
            Self::Sock(attributes) => put_type(6, Some(attributes), None),
            Self::Fifo(attributes) => put_type(7, Some(attributes), None),
            Self::Other(number) => put_type(*number, None, None),
        }
    }
}

/// A procedure with its arguments; field names are the RFC's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the RFC names every argument")]
pub enum Call<'a> {
    Null,
    Getattr { object: FileHandle<'a> },
    Setattr { object: FileHandle<'a>, new_attributes: Sattr3, guard: Option<Nfstime3> },
    Lookup { what: DirOp<'a> },
    Access { object: FileHandle<'a>, access: u32 },
    Readlink { symlink: FileHandle<'a> },
    Read { file: FileHandle<'a>, offset: u64, count: u32 },
    Write { file: FileHandle<'a>, offset: u64, count: u32, stable: StableHow, data: &'a [u8] },
    Create { place: DirOp<'a>, how: CreateHow },
    Mkdir { place: DirOp<'a>, attributes: Sattr3 },
    Symlink { place: DirOp<'a>, attributes: Sattr3, target: &'a [u8] },
    Mknod { place: DirOp<'a>, what: MknodData },
    Remove { object: DirOp<'a> },
    Rmdir { object: DirOp<'a> },
    Rename { from: DirOp<'a>, to: DirOp<'a> },
    Link { file: FileHandle<'a>, link: DirOp<'a> },
    Readdir { dir: FileHandle<'a>, cookie: u64, cookieverf: Verifier, count: u32 },
    Readdirplus { dir: FileHandle<'a>, cookie: u64, cookieverf: Verifier, dircount: u32, maxcount: u32 },
    Fsstat { fsroot: FileHandle<'a> },
    Fsinfo { fsroot: FileHandle<'a> },
    Pathconf { object: FileHandle<'a> },
    Commit { file: FileHandle<'a>, offset: u64, count: u32 },
}

impl<'a> Call<'a> {
    /// Reads the arguments of a procedure.
    pub fn decode(procedure: Procedure, args: &'a [u8]) -> Result<Self, Malformed> {
        let from = &mut Reader::new(args);
        let handle = FileHandle::decode;
        Ok(match procedure {
            Procedure::Null => Self::Null,
            Procedure::Getattr => Self::Getattr { object: handle(from)? },
            Procedure::Setattr => Self::Setattr {
                object: handle(from)?,
                new_attributes: Sattr3::decode(from)?,
                guard: from.option(Nfstime3::decode)?,
            },
            Procedure::Lookup => Self::Lookup { what: DirOp::decode(from)? },
            Procedure::Access => Self::Access { object: handle(from)?, access: from.u32()? },
            Procedure::Readlink => Self::Readlink { symlink: handle(from)? },
            Procedure::Read => Self::Read { file: handle(from)?, offset: from.u64()?, count: from.u32()? },
            Procedure::Write => Self::Write {
                file: handle(from)?,
                offset: from.u64()?,
                count: from.u32()?,
                stable: StableHow::decode(from)?,
                data: string(from)?,
            },
            Procedure::Create => Self::Create { place: DirOp::decode(from)?, how: CreateHow::decode(from)? },
            Procedure::Mkdir => Self::Mkdir { place: DirOp::decode(from)?, attributes: Sattr3::decode(from)? },
            Procedure::Symlink => {
                Self::Symlink { place: DirOp::decode(from)?, attributes: Sattr3::decode(from)?, target: string(from)? }
            }
            Procedure::Mknod => Self::Mknod { place: DirOp::decode(from)?, what: MknodData::decode(from)? },
            Procedure::Remove => Self::Remove { object: DirOp::decode(from)? },
            Procedure::Rmdir => Self::Rmdir { object: DirOp::decode(from)? },
            Procedure::Rename => Self::Rename { from: DirOp::decode(from)?, to: DirOp::decode(from)? },
            Procedure::Link => Self::Link { file: handle(from)?, link: DirOp::decode(from)? },
            Procedure::Readdir => Self::Readdir {
                dir: handle(from)?,
                cookie: from.u64()?,
                cookieverf: *from.fixed()?,
                count: from.u32()?,
            },
            Procedure::Readdirplus => Self::Readdirplus {
                dir: handle(from)?,
                cookie: from.u64()?,
                cookieverf: *from.fixed()?,
                dircount: from.u32()?,
                maxcount: from.u32()?,
            },
            Procedure::Fsstat => Self::Fsstat { fsroot: handle(from)? },
            Procedure::Fsinfo => Self::Fsinfo { fsroot: handle(from)? },
            Procedure::Pathconf => Self::Pathconf { object: handle(from)? },
            Procedure::Commit => Self::Commit { file: handle(from)?, offset: from.u64()?, count: from.u32()? },
        })
    }

    /// Appends the arguments.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => {}
            Self::Getattr { object: handle }
            | Self::Readlink { symlink: handle }
            | Self::Fsstat { fsroot: handle }
            | Self::Fsinfo { fsroot: handle }
            | Self::Pathconf { object: handle } => handle.encode(out),
            Self::Setattr { object, new_attributes, guard } => {
                object.encode(out);
                new_attributes.encode(out);
                put::option(out, guard.as_ref(), |out, time| time.encode(out));
            }
            Self::Lookup { what: place } | Self::Remove { object: place } | Self::Rmdir { object: place } => {
                place.encode(out);
            }
            Self::Access { object, access } => {
                object.encode(out);
                put::u32(out, *access);
            }
            Self::Read { file, offset, count } | Self::Commit { file, offset, count } => {
                range(out, *file, *offset, *count);
            }
            Self::Write { file, offset, count, stable, data } => {
                range(out, *file, *offset, *count);
                put::u32(out, *stable as u32);
                put::opaque(out, data);
            }
            Self::Create { place, how } => {
                place.encode(out);
                how.encode(out);
            }
            Self::Mkdir { place, attributes } => {
                place.encode(out);
                attributes.encode(out);
            }
            Self::Symlink { place, attributes, target } => {
                place.encode(out);
                attributes.encode(out);
                put::opaque(out, target);
            }
            Self::Mknod { place, what } => {
                place.encode(out);
                what.encode(out);
            }
            Self::Rename { from, to } => {
                from.encode(out);
                to.encode(out);
            }
            Self::Link { file, link } => {
                file.encode(out);
                link.encode(out);
            }
            Self::Readdir { dir, cookie, cookieverf, count } => listing(out, *dir, *cookie, *cookieverf, &[*count]),
            Self::Readdirplus { dir, cookie, cookieverf, dircount, maxcount } => {
                listing(out, *dir, *cookie, *cookieverf, &[*dircount, *maxcount]);
            }
        }
    }

    /// Which procedure it is.
    pub const fn procedure(&self) -> Procedure {
        match self {
            Self::Null => Procedure::Null,
            Self::Getattr { .. } => Procedure::Getattr,
            Self::Setattr { .. } => Procedure::Setattr,
            Self::Lookup { .. } => Procedure::Lookup,
            Self::Access { .. } => Procedure::Access,
            Self::Readlink { .. } => Procedure::Readlink,
            Self::Read { .. } => Procedure::Read,
            Self::Write { .. } => Procedure::Write,
            Self::Create { .. } => Procedure::Create,
            Self::Mkdir { .. } => Procedure::Mkdir,
            Self::Symlink { .. } => Procedure::Symlink,
            Self::Mknod { .. } => Procedure::Mknod,
            Self::Remove { .. } => Procedure::Remove,
            Self::Rmdir { .. } => Procedure::Rmdir,
            Self::Rename { .. } => Procedure::Rename,
            Self::Link { .. } => Procedure::Link,
            Self::Readdir { .. } => Procedure::Readdir,
            Self::Readdirplus { .. } => Procedure::Readdirplus,
            Self::Fsstat { .. } => Procedure::Fsstat,
            Self::Fsinfo { .. } => Procedure::Fsinfo,
            Self::Pathconf { .. } => Procedure::Pathconf,
            Self::Commit { .. } => Procedure::Commit,
        }
    }
}

/// A string or opaque without a limit of its own: the record's cap bounds it.
fn string<'a>(from: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    from.opaque(usize::MAX)
}

fn range(out: &mut Vec<u8>, file: FileHandle<'_>, offset: u64, count: u32) {
    file.encode(out);
    put::u64(out, offset);
    put::u32(out, count);
}

fn listing(out: &mut Vec<u8>, dir: FileHandle<'_>, cookie: u64, cookieverf: Verifier, counts: &[u32]) {
    dir.encode(out);
    put::u64(out, cookie);
    out.extend_from_slice(&cookieverf);
    for count in counts {
        put::u32(out, *count);
    }
}
