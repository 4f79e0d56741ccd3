//! What a client does next: drawn from two tables, one of reads and one of changes.

use midas_core::rng::Rng;

/// An intention; whose turn among files and names it is, is drawn afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Attributes of a file that stays, of whatever a contested name led to, of a directory.
    GetFile,
    GetContested,
    GetDirectory,
    /// Names that stay, that are contested, that belong to another client.
    LookFile,
    LookContested,
    LookForeign,
    Access,
    Readlink,
    Readdir,
    Readdirplus,
    SetSize,
    SetTime,
    SetMode,
    Write,
    CreateNew,
    CreateOver,
    Remove,
    /// A new file of one's own, then over a contested name.
    RenameOver,
    /// A contested name becomes one's own.
    RenameAway,
    /// Second names for files that stay: made, renamed over each other, removed.
    Link,
    Mkdir,
    Rmdir,
    Symlink,
    RemoveSymlink,
}

impl Plan {
    pub(crate) fn draw(rng: &mut Rng, changes: f64) -> Self {
        let table = if rng.chance(changes) { CHANGES } else { READS };
        let total: usize = table.iter().map(|(weight, _)| weight).sum();
        let mut at = rng.below(total);
        for (weight, plan) in table {
            if at < *weight {
                return *plan;
            }
            at -= weight;
        }
        unreachable!("a number below the sum of all weights falls on one of them")
    }
}

const READS: &[(usize, Plan)] = &[
    (20, Plan::GetFile),
    (10, Plan::GetContested),
    (4, Plan::GetDirectory),
    (8, Plan::LookFile),
    (28, Plan::LookContested),
    (8, Plan::LookForeign),
    (10, Plan::Access),
    (4, Plan::Readlink),
    (4, Plan::Readdir),
    (4, Plan::Readdirplus),
];

const CHANGES: &[(usize, Plan)] = &[
    (10, Plan::SetSize),
    (8, Plan::SetTime),
    (6, Plan::SetMode),
    (10, Plan::Write),
    (10, Plan::CreateNew),
    (8, Plan::CreateOver),
    (10, Plan::Remove),
    (8, Plan::RenameOver),
    (4, Plan::RenameAway),
    (16, Plan::Link),
    (3, Plan::Mkdir),
    (3, Plan::Rmdir),
    (4, Plan::Symlink),
    (4, Plan::RemoveSymlink),
];
