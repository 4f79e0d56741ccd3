//! What a cache can be asked: a read whose answer is kept and shared. Made once of a call; whatever else a call may be is said here alone.

use super::label::Of;
use crate::translate::Meaning;
use midas_core::key::Key;
use midas_nfs::nfs3::{Call, DirOp, FileHandle, Procedure};

/// A read, by what is kept for it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Question<'c> {
    /// An object's attributes.
    Attributes(FileHandle<'c>),
    /// Where a name leads; the name's key.
    Name(DirOp<'c>, Key),
    /// Which of these rights a user has.
    Access(FileHandle<'c>, u32),
    /// Where a symbolic link leads.
    Link(FileHandle<'c>),
    /// A page of a directory, by READDIR or READDIRPLUS.
    Page(FileHandle<'c>, Procedure),
    /// What FSINFO or PATHCONF tell.
    Limits(FileHandle<'c>, Procedure),
}

impl<'c> Question<'c> {
    /// What a call with this meaning asks; none for what is never kept.
    #[inline]
    pub(crate) fn of(call: &Call<'c>, meaning: &Meaning) -> Option<Self> {
        Some(match call {
            Call::Getattr { object } => Self::Attributes(*object),
            Call::Lookup { what } => Self::Name(*what, meaning.object),
            Call::Access { object, access } => Self::Access(*object, *access),
            Call::Readlink { symlink } => Self::Link(*symlink),
            Call::Readdir { dir, .. } => Self::Page(*dir, Procedure::Readdir),
            Call::Readdirplus { dir, .. } => Self::Page(*dir, Procedure::Readdirplus),
            Call::Fsinfo { fsroot } => Self::Limits(*fsroot, Procedure::Fsinfo),
            Call::Pathconf { object } => Self::Limits(*object, Procedure::Pathconf),
            Call::Null
            | Call::Setattr { .. }
            | Call::Read { .. }
            | Call::Write { .. }
            | Call::Create { .. }
            | Call::Mkdir { .. }
            | Call::Symlink { .. }
            | Call::Mknod { .. }
            | Call::Remove { .. }
            | Call::Rmdir { .. }
            | Call::Rename { .. }
            | Call::Link { .. }
            | Call::Fsstat { .. }
            | Call::Commit { .. } => return None,
        })
    }

    /// Whether users may get different answers.
    pub(crate) const fn personal(&self) -> bool {
        match self {
            Self::Attributes(_) => false,
            Self::Name(..) | Self::Access(..) | Self::Link(_) | Self::Page(..) | Self::Limits(..) => true,
        }
    }

    /// What must be unchanged for its answer to be shared. `place` is the object or the directory of the name.
    pub(super) fn guards(&self, place: Key) -> [Key; 2] {
        let of = Of(place);
        match self {
            Self::Attributes(_) => [place; 2],
            Self::Name(_, name) => [*name, of.permission()],
            Self::Access(..) | Self::Limits(..) => [of.permission(); 2],
            Self::Link(_) | Self::Page(..) => [place, of.permission()],
        }
    }
}
