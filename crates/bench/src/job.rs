//! One call to be made, small enough to be kept while it is under way: sent again, it becomes the same bytes.

use crate::action::Action;
use crate::tree::{Handle, Name, Tree};
use midas_nfs::nfs3::{Call, CreateHow, DirOp, Sattr3, SetTime, StableHow, access};

/// A call in terms of the run's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) action: Action,
    /// Who calls.
    pub(crate) client: u32,
    pub(crate) directory: u32,
    pub(crate) name: Name,
    /// Where a rename goes.
    pub(crate) to: (u32, Name),
    /// The object's handle as it was when the job was made: what is learned meanwhile must not change a retransmission.
    pub(crate) object: Handle,
    /// CREATE fails on a name that exists.
    pub(crate) guarded: bool,
}

impl Job {
    pub(crate) const IDLE: Self = Self {
        action: Action::Null,
        client: 0,
        directory: 0,
        name: Name::None,
        to: (0, Name::None),
        object: Handle::NONE,
        guarded: false,
    };

    /// The call, for as long as `use_call` runs. `data` is what is written, and as much is read.
    pub(crate) fn with_call<T>(&self, tree: &Tree, data: &[u8], use_call: impl FnOnce(&Call<'_>) -> T) -> T {
        let (directory, name, target) = (tree.directory(self.directory), self.name.text(), self.to.1.text());
        let dir = directory.borrow();
        let place = DirOp { dir, name: name.bytes() };
        let object = self.object.borrow();
        let attributes = |mode| Sattr3 { mode: Some(mode), ..Sattr3::default() };
        let size = data.len() as u32;
        let call = match self.action {
            Action::Null => Call::Null,
            Action::Getattr => Call::Getattr { object },
            Action::Lookup | Action::Missing | Action::Scan => Call::Lookup { what: place },
            Action::Access => Call::Access { object, access: access::ALL },
            Action::Readlink => Call::Readlink { symlink: object },
            Action::Readdir => Call::Readdir { dir, cookie: 0, cookieverf: [0; 8], count: DIR_COUNT },
            Action::Readdirplus => {
                Call::Readdirplus { dir, cookie: 0, cookieverf: [0; 8], dircount: DIR_COUNT, maxcount: DIR_MAXCOUNT }
            }
            Action::Create => {
                let attributes = attributes(FILE_MODE);
                let how = match self.guarded {
                    true => CreateHow::Guarded(attributes),
                    false => CreateHow::Unchecked(attributes),
                };
                Call::Create { place, how }
            }
            Action::Remove => Call::Remove { object: place },
            Action::Mkdir => Call::Mkdir { place, attributes: attributes(DIR_MODE) },
            Action::Rename => {
                let to = tree.directory(self.to.0);
                let to = DirOp { dir: to.borrow(), name: target.bytes() };
                return use_call(&Call::Rename { from: place, to });
            }
            Action::Setattr => {
                let new_attributes = Sattr3 { mtime: SetTime::Server, ..Sattr3::default() };
                Call::Setattr { object, new_attributes, guard: None }
            }
            Action::Read => Call::Read { file: object, offset: 0, count: size },
            Action::Write => Call::Write { file: object, offset: 0, count: size, stable: StableHow::Unstable, data },
            Action::Link => Call::Link { file: object, link: place },
            Action::Fsstat => Call::Fsstat { fsroot: dir },
            Action::Commit => Call::Commit { file: object, offset: 0, count: 0 },
        };
        use_call(&call)
    }
}

/// Every user may do everything: what is measured is not permissions.
pub(crate) const DIR_MODE: u32 = 0o777;
pub(crate) const FILE_MODE: u32 = 0o666;
/// READDIR's count and READDIRPLUS's dircount: a page as Linux asks for it.
const DIR_COUNT: u32 = 8 << 10;
const DIR_MAXCOUNT: u32 = 32 << 10;
