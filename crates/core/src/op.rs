//! What a metadata call does, as far as routing and caching must know. The wire's names stay in `nfs`; one file in the proxy
//! translates.

/// The kinds of calls that MIDAS tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Op {
    /// Name to object.
    Lookup,
    /// Attributes of an object.
    Getattr,
    /// What a credential may do with an object.
    Access,
    /// A page of a directory.
    List,
    /// The target of a symbolic link.
    Readlink,
    /// Limits of the file system.
    Statfs,
    /// File data; relayed, never cached.
    Read,
    /// A new name for a new object.
    Create,
    /// A name goes away.
    Remove,
    /// A name moves.
    Rename,
    /// A second name for an object.
    Link,
    /// Attributes change.
    Setattr,
    /// File data changes.
    Write,
    /// Written data becomes durable.
    Commit,
}

impl Op {
    /// Every kind, in the order of their codes.
    pub const ALL: [Self; 14] = [
        Self::Lookup,
        Self::Getattr,
        Self::Access,
        Self::List,
        Self::Readlink,
        Self::Statfs,
        Self::Read,
        Self::Create,
        Self::Remove,
        Self::Rename,
        Self::Link,
        Self::Setattr,
        Self::Write,
        Self::Commit,
    ];

    /// Paper: P11. Only what reads metadata may be answered from a cache; nothing that changes the namespace.
    pub const fn cacheable(self) -> bool {
        match self {
            Self::Lookup | Self::Getattr | Self::Access | Self::List | Self::Readlink | Self::Statfs => true,
            Self::Read
            | Self::Create
            | Self::Remove
            | Self::Rename
            | Self::Link
            | Self::Setattr
            | Self::Write
            | Self::Commit => false,
        }
    }

    /// Whether the call changes what later calls see.
    pub const fn mutates(self) -> bool {
        match self {
            Self::Create | Self::Remove | Self::Rename | Self::Link | Self::Setattr | Self::Write => true,
            Self::Lookup
            | Self::Getattr
            | Self::Access
            | Self::List
            | Self::Readlink
            | Self::Statfs
            | Self::Read
            | Self::Commit => false,
        }
    }

    /// The kind's code, dense from 0.
    pub const fn code(self) -> usize {
        self as usize
    }

    /// The word that users type and read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Getattr => "getattr",
            Self::Access => "access",
            Self::List => "list",
            Self::Readlink => "readlink",
            Self::Statfs => "statfs",
            Self::Read => "read",
            Self::Create => "create",
            Self::Remove => "remove",
            Self::Rename => "rename",
            Self::Link => "link",
            Self::Setattr => "setattr",
            Self::Write => "write",
            Self::Commit => "commit",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_mutates_is_cacheable() {
        for (code, op) in Op::ALL.into_iter().enumerate() {
            assert_eq!(op.code(), code);
            assert!(!(op.mutates() && op.cacheable()), "{}", op.name());
        }
    }
}
