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

    /// Whether these are the arguments of its call and nothing else: what follows them unread could pass for a part of what answers are
    /// known by. Attributes are known by their handle alone.
    #[inline]
    pub(crate) fn is_all_of(&self, args: &[u8]) -> bool {
        let opaque = |bytes: &[u8]| 4 + bytes.len().next_multiple_of(4);
        let length = match self {
            Self::Attributes(_) => return true,
            Self::Name(what, _) => opaque(what.dir.bytes()) + opaque(what.name),
            Self::Access(object, _) => opaque(object.bytes()) + 4,
            Self::Page(dir, procedure) => {
                let sizes = if *procedure == Procedure::Readdirplus { 8 } else { 4 };
                opaque(dir.bytes()) + 8 + 8 + sizes
            }
            Self::Link(object) | Self::Limits(object, _) => opaque(object.bytes()),
        };
        args.len() == length && length <= ARGS_MOST
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

/// No longer call is looked for: a handle and a name.
pub(super) const ARGS_MOST: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_followed_by_anything_is_not_looked_for() {
        let handle = FileHandle::new(b"dir-5").unwrap();
        let name = |name| Call::Lookup { what: DirOp { dir: handle, name } };
        let (cookie, cookieverf) = (7, [1; 8]);
        for call in [
            name(b"name"),
            name(b"names"),
            Call::Access { object: handle, access: 1 },
            Call::Readlink { symlink: handle },
            Call::Readdir { dir: handle, cookie, cookieverf, count: 100 },
            Call::Readdirplus { dir: handle, cookie, cookieverf, dircount: 100, maxcount: 1000 },
            Call::Fsinfo { fsroot: handle },
            Call::Pathconf { object: handle },
        ] {
            let mut args = Vec::new();
            call.encode(&mut args);
            let question = Question::of(&call, &Meaning::of(&call).unwrap()).unwrap();
            assert!(question.is_all_of(&args), "{call:?}");
            assert!(Call::decode(call.procedure(), &[&args[..], &[0; 4]].concat()).is_ok(), "servers take it");
            assert!(!question.is_all_of(&[&args[..], &[0; 4]].concat()), "{call:?}");
        }
        let (mut args, call) = (Vec::new(), name(&[b'x'; ARGS_MOST]));
        call.encode(&mut args);
        assert!(!Question::of(&call, &Meaning::of(&call).unwrap()).unwrap().is_all_of(&args), "too long");
    }
}
