//! One namespace, shared by all servers of a process.

use crate::directory::{Directory, DirectoryOptions};
use crate::handle::Handle;
use crate::memory::{Limits, Tree};
use crate::procedures::{self, Caller, Shared};
use crate::store::Store;
use crate::user::User;
use midas_nfs::nfs3::{Call, FileHandle, Nfsstat3, Verifier};
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError, RwLock};

/// Files and directories, and what NFSv3 calls do to them.
pub struct Namespace {
    place: Kept,
}

enum Kept {
    Memory(Memory),
    Directory(Exported),
}

/// Which of the servers over a namespace it is.
pub type ServerNumber = u16;

/// The server that executes a call: all that differs between servers over one namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its number.
    pub server: ServerNumber,
    /// What WRITE and COMMIT answer; must change when the server crashed.
    pub write_verifier: Verifier,
    /// Part of every handle; a handle of another salt is stale. Servers of one pool have the same, unless the fault "other
    /// handles" is wanted.
    pub salt: u32,
}

impl Namespace {
    /// An empty one in memory: a root directory of mode 0755 that belongs to root.
    pub fn memory(limits: Limits) -> Self {
        Self { place: Kept::Memory(Memory(RwLock::new(Tree::new(limits)))) }
    }

    /// A real directory with all that lies in it, on Linux. Who serves it must be able to read it; only root can give new
    /// objects to their makers.
    pub fn directory(root: &Path) -> io::Result<Self> {
        Self::directory_with(root, &DirectoryOptions::default())
    }

    /// A real directory, served in a certain way.
    pub fn directory_with(root: &Path, options: &DirectoryOptions) -> io::Result<Self> {
        let directory = Directory::new(root, options)?;
        Ok(Self { place: Kept::Directory(Exported { directory, turn: Mutex::new(()) }) })
    }

    /// The export's root handle as this server gives it.
    pub fn root(&self, server: &Identity) -> Handle {
        match &self.place {
            Kept::Memory(memory) => memory.read(|tree| tree.root(server.salt)),
            Kept::Directory(exported) => exported.directory.root(server.salt),
        }
    }

    /// Executes a call and appends its results as `Reply::encode` would; returns the status.
    pub fn execute(&self, server: &Identity, who: &User, call: &Call<'_>, out: &mut Vec<u8>) -> Nfsstat3 {
        let caller = Caller { server, who };
        match &self.place {
            Kept::Memory(memory) => procedures::execute(memory, caller, call, out),
            Kept::Directory(exported) => procedures::execute(exported, caller, call, out),
        }
    }

    /// A file was read: its atime moves and nothing else. That of a real directory's file is the kernel's.
    pub(crate) fn accessed(&self, server: &Identity, file: FileHandle<'_>) {
        match &self.place {
            Kept::Memory(memory) => memory.change(|tree| tree.accessed(file, server.salt)),
            Kept::Directory(_) => {}
        }
    }

    /// What a crash of a server loses: data written UNSTABLE through it and not committed since becomes zeros. A real
    /// directory loses nothing: its data is the kernel's.
    pub fn crash(&self, server: ServerNumber) {
        match &self.place {
            Kept::Memory(memory) => memory.change(|tree| tree.crash(server)),
            Kept::Directory(_) => {}
        }
    }
}

struct Memory(RwLock<Tree>);

/// A call that panicked left no half-made state worth stopping all servers for: the lock's poison is ignored.
impl Shared for Memory {
    type Store = Tree;

    fn read<R>(&self, then: impl FnOnce(&Tree) -> R) -> R {
        then(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<R>(&self, then: impl FnOnce(&mut Tree) -> R) -> R {
        then(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Reads go on while something changes, as they do in the kernel; changes take turns, so that what is told of a directory
/// before and after belongs together.
struct Exported {
    directory: Directory,
    turn: Mutex<()>,
}

impl Shared for Exported {
    type Store = Directory;

    fn read<R>(&self, then: impl FnOnce(&Directory) -> R) -> R {
        then(&self.directory)
    }

    fn change<R>(&self, then: impl FnOnce(&mut Directory) -> R) -> R {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        then(&mut self.directory.clone())
    }
}
