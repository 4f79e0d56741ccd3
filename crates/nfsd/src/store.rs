//! What the procedures need of a place that holds objects. Two exist: memory and a real directory.
//!
//! A store knows nothing of users, replies or procedures: permissions, names and types were checked before it is asked. Its
//! own checks are those that only it can make: limits, emptiness, loops.

use crate::handle::Handle;
use midas_nfs::nfs3::{Entry, Fattr3, FileHandle, Nfsstat3, Nfstime3, Sattr3, Specdata3, StableHow};
use std::ops::Range;

/// A result whose error the client is told.
pub(crate) type Outcome<T> = Result<T, Nfsstat3>;

/// An object and its attributes at the moment when it was found.
pub(crate) struct Object<N> {
    pub(crate) node: N,
    pub(crate) attributes: Fattr3,
}

/// A name in a directory.
pub(crate) struct Place<'a, N> {
    pub(crate) dir: &'a N,
    pub(crate) name: &'a [u8],
}

/// What a new object is.
#[derive(Clone, Copy)]
pub(crate) enum Kind<'a> {
    File,
    Dir,
    Symlink(&'a [u8]),
    Fifo,
    Socket,
    Block(Specdata3),
    Character(Specdata3),
}

/// A new object.
#[derive(Clone, Copy)]
pub(crate) struct New<'a> {
    pub(crate) kind: Kind<'a>,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// How full a store is.
pub(crate) struct Room {
    pub(crate) bytes: u64,
    pub(crate) bytes_free: u64,
    pub(crate) bytes_available: u64,
    pub(crate) files: u64,
    pub(crate) files_free: u64,
}

/// What a store can do at most.
pub(crate) struct Bounds {
    pub(crate) links: u32,
    pub(crate) file_size: u64,
    pub(crate) time_delta: Nfstime3,
}

/// A place that holds objects. What changes takes `&mut self`: the caller holds the lock that makes the attributes before
/// and after a change belong together.
pub(crate) trait Store {
    /// An object, as long as the store is borrowed.
    type Node;

    fn root(&self, salt: u32) -> Handle;
    fn resolve(&self, handle: FileHandle<'_>, salt: u32) -> Outcome<Object<Self::Node>>;
    fn handle(&self, node: &Self::Node, salt: u32) -> Handle;
    fn attributes(&self, node: &Self::Node) -> Outcome<Fattr3>;
    fn child(&self, dir: &Self::Node, name: &[u8]) -> Outcome<Object<Self::Node>>;
    /// The root is its own parent.
    fn parent(&self, dir: &Self::Node) -> Outcome<Object<Self::Node>>;
    /// Appends `count` bytes, fewer only where the file ends; true if it ends there.
    fn read(&self, file: &Self::Node, offset: u64, count: usize, out: &mut Vec<u8>) -> Outcome<bool>;
    fn target(&self, link: &Self::Node) -> Outcome<Vec<u8>>;
    /// Shows the names after `cookie`, `.` and `..` among them, while `visit` says true; true if none is left.
    fn list(&self, dir: &Self::Node, cookie: u64, visit: &mut dyn FnMut(&Entry<'_>) -> bool) -> Outcome<bool>;
    fn room(&self) -> Outcome<Room>;
    fn bounds(&self) -> Bounds;

    fn create(&mut self, place: Place<'_, Self::Node>, new: &New<'_>) -> Outcome<Object<Self::Node>>;
    /// Takes a name away; a directory must be empty.
    fn remove(&mut self, place: Place<'_, Self::Node>, victim: &Object<Self::Node>) -> Outcome<()>;
    fn rename(&mut self, from: Place<'_, Self::Node>, to: Place<'_, Self::Node>) -> Outcome<()>;
    fn link(&mut self, object: &Self::Node, place: Place<'_, Self::Node>) -> Outcome<()>;
    fn set(&mut self, object: &Self::Node, change: &Sattr3) -> Outcome<()>;
    /// Writes all of `data`; returns how durable it is, at least `stable`.
    fn write(&mut self, file: &Self::Node, write: &Write<'_>) -> Outcome<StableHow>;
    /// What `server` wrote into the range and did not commit yet becomes durable.
    fn commit(&mut self, file: &Self::Node, range: Range<u64>, server: u16) -> Outcome<()>;
}

/// Data on its way into a file.
pub(crate) struct Write<'a> {
    pub(crate) offset: u64,
    pub(crate) data: &'a [u8],
    pub(crate) stable: StableHow,
    pub(crate) server: u16,
}
