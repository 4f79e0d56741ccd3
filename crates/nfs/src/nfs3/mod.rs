//! NFS version 3 (RFC 1813): program 100003.

mod call;
mod procedure;
mod reply;
mod status;
mod types;

pub use call::{Call, CreateHow, DirOp, MknodData, subject};
pub use procedure::Procedure;
pub use reply::{
    AccessOk, CommitOk, CreateOk, Entries, Entry, EntryPlus, Failed, FsinfoOk, FsstatOk, LinkDone, LookupOk, Page,
    PathconfOk, ReadOk, ReaddirOk, ReaddirplusOk, ReadlinkOk, RenameDone, Reply, WriteOk, fsinfo, made,
};
pub use status::Nfsstat3;
pub use types::{
    Fattr3, FileHandle, Ftype3, Nfstime3, PostOpAttr, Sattr3, SetTime, Specdata3, StableHow, Verifier, WccAttr,
    WccData, access,
};

/// The program's number.
pub const PROGRAM: u32 = 100_003;
/// The version.
pub const VERSION: u32 = 3;
