//! What a call can do, and which ends of it are no surprise.

use midas_core::op::Op;
use midas_nfs::nfs3::{Nfsstat3, Procedure};

macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident $text:literal $procedure:ident,)*) => {
        /// A procedure that the generator calls.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Action {
            $($(#[$doc])* $name,)*
        }

        impl Action {
            /// Every one, in the order in which they are listed.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The word that is typed.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// Its procedure.
            pub const fn procedure(self) -> Procedure {
                match self {
                    $(Self::$name => Procedure::$procedure,)*
                }
            }
        }
    };
}

actions! {
    /// Attributes of a file.
    Getattr "getattr" Getattr,
    /// A name that exists.
    Lookup "lookup" Lookup,
    /// A name that is not there, one of as many as there are files.
    Missing "missing" Lookup,
    /// A name that is not there and that nobody asked for before.
    Scan "scan" Lookup,
    /// What the user may do with a file.
    Access "access" Access,
    /// The target of a symbolic link.
    Readlink "readlink" Readlink,
    /// The first page of a directory.
    Readdir "readdir" Readdir,
    /// The first page of a directory, with attributes.
    Readdirplus "readdirplus" Readdirplus,
    /// A new file.
    Create "create" Create,
    /// A file goes away.
    Remove "remove" Remove,
    /// A new directory.
    Mkdir "mkdir" Mkdir,
    /// A file gets another name in its directory.
    Rename "rename" Rename,
    /// A file's modification time becomes now.
    Setattr "setattr" Setattr,
    /// The beginning of a file.
    Read "read" Read,
    /// A new beginning of a file, not durable.
    Write "write" Write,
    /// Nothing.
    Null "null" Null,
    /// A second name.
    Link "link" Link,
    /// How full the file system is.
    Fsstat "fsstat" Fsstat,
    /// What was written becomes durable.
    Commit "commit" Commit,
}

impl Action {
    /// The action of this name; the error lists those that there are.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|action| action.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|action| action.name()).collect();
            format!("unknown operation '{}'; possible: {}", text.escape_debug(), names.join(", "))
        })
    }

    /// The call that a workload's operation becomes.
    pub(crate) const fn of(op: Op) -> Self {
        match op {
            Op::Lookup => Self::Lookup,
            Op::Getattr => Self::Getattr,
            Op::Access => Self::Access,
            Op::List => Self::Readdirplus,
            Op::Readlink => Self::Readlink,
            Op::Statfs => Self::Fsstat,
            Op::Read => Self::Read,
            Op::Create => Self::Create,
            Op::Remove => Self::Remove,
            Op::Rename => Self::Rename,
            Op::Link => Self::Link,
            Op::Setattr => Self::Setattr,
            Op::Write => Self::Write,
            Op::Commit => Self::Commit,
        }
    }

    /// Whether calling it over and over leaves new names behind.
    pub(crate) fn leaves_names(self) -> bool {
        [Self::Create, Self::Mkdir, Self::Link, Self::Remove, Self::Rename].contains(&self)
    }

    /// Whether it asks for what is not there.
    pub(crate) fn seeks_nothing(self) -> bool {
        matches!(self, Self::Missing | Self::Scan)
    }

    /// Whether a workload meets this status by its own doing: it does not track the names that it removes and renames.
    pub(crate) fn naturally(self, status: Nfsstat3) -> bool {
        match self {
            Self::Lookup | Self::Missing | Self::Scan | Self::Remove | Self::Rename => status == Nfsstat3::NOENT,
            Self::Link => [Nfsstat3::EXIST, Nfsstat3::NOENT, Nfsstat3::STALE].contains(&status),
            Self::Mkdir => status == Nfsstat3::EXIST,
            Self::Getattr | Self::Access | Self::Readlink | Self::Setattr | Self::Read | Self::Write | Self::Commit => {
                status == Nfsstat3::STALE
            }
            Self::Readdir | Self::Readdirplus | Self::Create | Self::Null | Self::Fsstat => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_understood_and_no_other() {
        for action in Action::ALL {
            assert_eq!(Action::parse(action.name()), Ok(*action));
            let procedure = if action.seeks_nothing() { "lookup" } else { action.name() };
            assert_eq!(action.procedure().name().to_lowercase(), procedure);
        }
        let error = Action::parse("stat").unwrap_err();
        assert!(error.contains("unknown operation 'stat'; possible: getattr, lookup"), "{error}");
    }
}
