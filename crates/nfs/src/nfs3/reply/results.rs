//! What each procedure gives when it went well (RFC 1813, 3.3.1 to 3.3.21). Field names are the RFC's, shortened where the
//! structure says the rest.

use crate::nfs3::status::Nfsstat3;
use crate::nfs3::types::{
    FileHandle, Ftype3, Nfstime3, PostOpAttr, StableHow, Verifier, WccData, post_op_attr, put_post_op_attr,
};
use crate::xdr::{Malformed, Reader, put};
use alloc::vec::Vec;

/// LOOKUP3resok.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LookupOk<'a> {
    /// The object's handle.
    pub object: FileHandle<'a>,
    /// The object.
    pub attributes: PostOpAttr,
    /// The directory.
    pub dir_attributes: PostOpAttr,
}

impl<'a> LookupOk<'a> {
    pub(super) fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            object: FileHandle::decode(from)?,
            attributes: post_op_attr(from)?,
            dir_attributes: post_op_attr(from)?,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.object.encode(out);
        put_post_op_attr(out, self.attributes.as_ref());
        put_post_op_attr(out, self.dir_attributes.as_ref());
    }
}

/// ACCESS3resok.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AccessOk {
    /// The object.
    pub attributes: PostOpAttr,
    /// The granted bits.
    pub access: u32,
}

impl AccessOk {
    pub(super) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { attributes: post_op_attr(from)?, access: from.u32()? })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_post_op_attr(out, self.attributes.as_ref());
        put::u32(out, self.access);
    }
}

/// READLINK3resok.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadlinkOk<'a> {
    /// The link.
    pub attributes: PostOpAttr,
    /// Where it leads.
    pub data: &'a [u8],
}

impl<'a> ReadlinkOk<'a> {
    pub(super) fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self { attributes: post_op_attr(from)?, data: from.opaque(usize::MAX)? })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_post_op_attr(out, self.attributes.as_ref());
        put::opaque(out, self.data);
    }
}

/// READ3resok.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadOk<'a> {
    /// The file.
    pub attributes: PostOpAttr,
    /// Bytes read.
    pub count: u32,
    /// Whether the file ends here.
    pub eof: bool,
    /// The bytes.
    pub data: &'a [u8],
}

impl<'a> ReadOk<'a> {
    pub(super) fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            attributes: post_op_attr(from)?,
            count: from.u32()?,
            eof: from.bool()?,
            data: from.opaque(usize::MAX)?,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_post_op_attr(out, self.attributes.as_ref());
        put::u32(out, self.count);
        put::bool(out, self.eof);
        put::opaque(out, self.data);
    }
}

/// WRITE3resok.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WriteOk {
    /// The file.
    pub file: WccData,
    /// Bytes written.
    pub count: u32,
    /// How durable they are.
    pub committed: StableHow,
    /// Changes when the server lost what was not durable.
    pub verf: Verifier,
}

impl WriteOk {
    pub(super) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            file: WccData::decode(from)?,
            count: from.u32()?,
            committed: StableHow::decode(from)?,
            verf: *from.fixed()?,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.file.encode(out);
        put::u32(out, self.count);
        put::u32(out, self.committed as u32);
        out.extend_from_slice(&self.verf);
    }
}

/// CREATE3resok, and with it MKDIR's, SYMLINK's and MKNOD's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CreateOk<'a> {
    /// The new object's handle, where the server gives it.
    pub object: Option<FileHandle<'a>>,
    /// The new object.
    pub attributes: PostOpAttr,
    /// The directory.
    pub dir: WccData,
}

impl<'a> CreateOk<'a> {
    pub(super) fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            object: from.option(FileHandle::decode)?,
            attributes: post_op_attr(from)?,
            dir: WccData::decode(from)?,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put::option(out, self.object.as_ref(), |out, object| object.encode(out));
        put_post_op_attr(out, self.attributes.as_ref());
        self.dir.encode(out);
    }
}

/// The object that a CREATE, MKDIR or SYMLINK has made, and its type, where these results tell. What
/// stands behind is not looked at.
pub fn made(results: &[u8]) -> Option<(FileHandle<'_>, Option<Ftype3>)> {
    let from = &mut Reader::new(results);
    if from.u32().ok()? != Nfsstat3::OK.0 {
        return None;
    }
    let object = from.option(FileHandle::decode).ok()??;
    Some((object, from.option(Ftype3::decode).ok()?))
}

/// RENAME3resok and RENAME3resfail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RenameDone {
    /// The directory that the name left.
    pub from: WccData,
    /// The directory that it went to.
    pub to: WccData,
}

impl RenameDone {
    pub(super) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { from: WccData::decode(from)?, to: WccData::decode(from)? })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.from.encode(out);
        self.to.encode(out);
    }
}

/// LINK3resok and LINK3resfail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LinkDone {
    /// The object.
    pub attributes: PostOpAttr,
    /// The directory of the new name.
    pub dir: WccData,
}

impl LinkDone {
    pub(super) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { attributes: post_op_attr(from)?, dir: WccData::decode(from)? })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_post_op_attr(out, self.attributes.as_ref());
        self.dir.encode(out);
    }
}

macro_rules! listing {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name<'a> {
            /// The directory.
            pub dir_attributes: PostOpAttr,
            /// Belongs to the cookies.
            pub cookieverf: Verifier,
            /// dirlist3 as it came, walked by its `entries`.
            pub list: &'a [u8],
        }

        impl<'a> $name<'a> {
            pub(super) fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
                Ok(Self { dir_attributes: post_op_attr(from)?, cookieverf: *from.fixed()?, list: from.rest() })
            }

            pub(super) fn encode(&self, out: &mut Vec<u8>) {
                put_post_op_attr(out, self.dir_attributes.as_ref());
                out.extend_from_slice(&self.cookieverf);
                out.extend_from_slice(self.list);
            }
        }
    };
}

listing! {
    /// READDIR3resok.
    ReaddirOk
}
listing! {
    /// READDIRPLUS3resok.
    ReaddirplusOk
}

/// FSSTAT3resok.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FsstatOk {
    /// The root.
    pub attributes: PostOpAttr,
    /// Bytes in all.
    pub tbytes: u64,
    /// Bytes free.
    pub fbytes: u64,
    /// Bytes free to this user.
    pub abytes: u64,
    /// File slots in all.
    pub tfiles: u64,
    /// File slots free.
    pub ffiles: u64,
    /// File slots free to this user.
    pub afiles: u64,
    /// Seconds for which this will hold.
    pub invarsec: u32,
}

impl FsstatOk {
    pub(super) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            attributes: post_op_attr(from)?,
            tbytes: from.u64()?,
            fbytes: from.u64()?,
            abytes: from.u64()?,
            tfiles: from.u64()?,
            ffiles: from.u64()?,
            afiles: from.u64()?,
            invarsec: from.u32()?,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_post_op_attr(out, self.attributes.as_ref());
        for count in [self.tbytes, self.fbytes, self.abytes, self.tfiles, self.ffiles, self.afiles] {
            put::u64(out, count);
        }
        put::u32(out, self.invarsec);
    }
}

/// FSINFO3resok.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FsinfoOk {
    /// The root.
    pub attributes: PostOpAttr,
    /// Largest READ.
    pub rtmax: u32,
    /// Preferred READ.
    pub rtpref: u32,
    /// READ sizes should be a multiple of this.
    pub rtmult: u32,
    /// Largest WRITE.
    pub wtmax: u32,
    /// Preferred WRITE.
    pub wtpref: u32,
    /// WRITE sizes should be a multiple of this.
    pub wtmult: u32,
    /// Preferred READDIR.
    pub dtpref: u32,
    /// Largest file.
    pub maxfilesize: u64,
    /// Granularity of times.
    pub time_delta: Nfstime3,
    /// Bits of [`fsinfo`].
    pub properties: u32,
}

/// FSINFO's properties.
pub mod fsinfo {
    /// Hard links.
    pub const LINK: u32 = 0x01;
    /// Symbolic links.
    pub const SYMLINK: u32 = 0x02;
    /// PATHCONF is the same for every object.
    pub const HOMOGENEOUS: u32 = 0x08;
    /// Times can be set.
    pub const CANSETTIME: u32 = 0x10;
}

impl FsinfoOk {
    pub(super) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            attributes: post_op_attr(from)?,
            rtmax: from.u32()?,
            rtpref: from.u32()?,
            rtmult: from.u32()?,
            wtmax: from.u32()?,
            wtpref: from.u32()?,
            wtmult: from.u32()?,
            dtpref: from.u32()?,
            maxfilesize: from.u64()?,
            time_delta: Nfstime3::decode(from)?,
            properties: from.u32()?,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_post_op_attr(out, self.attributes.as_ref());
        let sizes = [self.rtmax, self.rtpref, self.rtmult, self.wtmax, self.wtpref, self.wtmult, self.dtpref];
        for size in sizes {
            put::u32(out, size);
        }
        put::u64(out, self.maxfilesize);
        self.time_delta.encode(out);
        put::u32(out, self.properties);
    }
}

/// PATHCONF3resok.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "the RFC's")]
pub struct PathconfOk {
    /// The object.
    pub attributes: PostOpAttr,
    /// Most hard links.
    pub linkmax: u32,
    /// Longest name.
    pub name_max: u32,
    /// Longer names are errors, not cut.
    pub no_trunc: bool,
    /// Only root gives files away.
    pub chown_restricted: bool,
    /// Names that differ in case are the same.
    pub case_insensitive: bool,
    /// Names keep their case.
    pub case_preserving: bool,
}

impl PathconfOk {
    pub(super) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            attributes: post_op_attr(from)?,
            linkmax: from.u32()?,
            name_max: from.u32()?,
            no_trunc: from.bool()?,
            chown_restricted: from.bool()?,
            case_insensitive: from.bool()?,
            case_preserving: from.bool()?,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_post_op_attr(out, self.attributes.as_ref());
        put::u32(out, self.linkmax);
        put::u32(out, self.name_max);
        let flags = [self.no_trunc, self.chown_restricted, self.case_insensitive, self.case_preserving];
        for flag in flags {
            put::bool(out, flag);
        }
    }
}

/// COMMIT3resok.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommitOk {
    /// The file.
    pub file: WccData,
    /// Changes when the server lost what was not durable.
    pub verf: Verifier,
}

impl CommitOk {
    pub(super) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { file: WccData::decode(from)?, verf: *from.fixed()? })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.file.encode(out);
        out.extend_from_slice(&self.verf);
    }
}
