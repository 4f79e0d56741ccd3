//! One namespace, shared by all servers of a process.

use crate::handle::Handle;
use crate::memory::{Limits, Tree};
use crate::procedures::{self, Caller, Shared};
use crate::store::Store;
use crate::user::User;
use midas_nfs::nfs3::{Call, Nfsstat3, Verifier};
use std::sync::{PoisonError, RwLock};

/// Files and directories, and what NFSv3 calls do to them.
pub struct Namespace {
    place: Kept,
}

enum Kept {
    Memory(Memory),
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

    /// The export's root handle as this server gives it.
    pub fn root(&self, server: &Identity) -> Handle {
        match &self.place {
            Kept::Memory(memory) => memory.read(|tree| tree.root(server.salt)),
        }
    }

    /// Executes a call and appends its results as `Reply::encode` would; returns the status.
    pub fn execute(&self, server: &Identity, who: &User, call: &Call<'_>, out: &mut Vec<u8>) -> Nfsstat3 {
        let caller = Caller { server, who };
        match &self.place {
            Kept::Memory(memory) => procedures::execute(memory, caller, call, out),
        }
    }

    /// What a crash of a server loses: data written UNSTABLE through it and not committed since becomes zeros.
    pub fn crash(&self, server: ServerNumber) {
        match &self.place {
            Kept::Memory(memory) => memory.change(|tree| tree.crash(server)),
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
