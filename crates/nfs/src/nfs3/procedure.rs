//! The 22 procedures (RFC 1813, 3.3).

use core::fmt;

macro_rules! procedures {
    ($($(#[$doc:meta])* $name:ident = $number:literal $text:literal,)*) => {
        /// A procedure, with its number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Procedure {
            $($(#[$doc])* $name = $number,)*
        }

        impl Procedure {
            /// Every procedure, in order of their numbers.
            pub const ALL: [Self; 22] = [$(Self::$name),*];

            /// The procedure with this number.
            pub const fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The RFC's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

procedures! {
    /// Do nothing.
    Null = 0 "NULL",
    /// Attributes of an object.
    Getattr = 1 "GETATTR",
    /// Set attributes.
    Setattr = 2 "SETATTR",
    /// Name to handle.
    Lookup = 3 "LOOKUP",
    /// What a credential may do.
    Access = 4 "ACCESS",
    /// Target of a symbolic link.
    Readlink = 5 "READLINK",
    /// Data of a file.
    Read = 6 "READ",
    /// New data for a file.
    Write = 7 "WRITE",
    /// A new file.
    Create = 8 "CREATE",
    /// A new directory.
    Mkdir = 9 "MKDIR",
    /// A new symbolic link.
    Symlink = 10 "SYMLINK",
    /// A new special file.
    Mknod = 11 "MKNOD",
    /// A name of a file goes away.
    Remove = 12 "REMOVE",
    /// A directory goes away.
    Rmdir = 13 "RMDIR",
    /// A name moves.
    Rename = 14 "RENAME",
    /// A second name for an object.
    Link = 15 "LINK",
    /// Names of a directory.
    Readdir = 16 "READDIR",
    /// Names of a directory with attributes and handles.
    Readdirplus = 17 "READDIRPLUS",
    /// How full the file system is.
    Fsstat = 18 "FSSTAT",
    /// Its limits.
    Fsinfo = 19 "FSINFO",
    /// POSIX's limits for an object.
    Pathconf = 20 "PATHCONF",
    /// Unstable data becomes durable.
    Commit = 21 "COMMIT",
}

impl Procedure {
    /// Whether executing it twice is the same as executing it once. What is not idempotent must be answered from the
    /// server's duplicate request cache when it comes again.
    pub const fn idempotent(self) -> bool {
        match self {
            Self::Setattr
            | Self::Create
            | Self::Mkdir
            | Self::Symlink
            | Self::Mknod
            | Self::Remove
            | Self::Rmdir
            | Self::Rename
            | Self::Link => false,
            Self::Null
            | Self::Getattr
            | Self::Lookup
            | Self::Access
            | Self::Readlink
            | Self::Read
            | Self::Write
            | Self::Readdir
            | Self::Readdirplus
            | Self::Fsstat
            | Self::Fsinfo
            | Self::Pathconf
            | Self::Commit => true,
        }
    }
}

impl fmt::Display for Procedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
