//! What a step of the script is, and short ways to write one.
//!
//! A step's call is the protocol's own `Call`; only its handles are not handles but symbols: what an earlier step bound, or
//! one of those that `Names` knows from the start.

use midas_net::Caller;
use midas_nfs::mount;
use midas_nfs::nfs3::{
    Call, CreateHow, DirOp, FileHandle, MknodData, Nfstime3, Sattr3, SetTime, Specdata3, StableHow, Verifier,
};

/// One line of the script and of every transcript.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Unique in the script.
    pub name: &'static str,
    /// On whose behalf.
    pub by: Who,
    /// What is done.
    pub act: Act,
    /// The symbol for the handle that the step gives.
    pub binds: Option<&'static str>,
}

/// The callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// User 0.
    Root,
    /// User and group 1001.
    Alice,
    /// User and group 1002.
    Bob,
    /// User and group 1003, in Alice's group too.
    Carol,
}

impl Who {
    /// The credential.
    pub fn caller(self) -> Caller {
        match self {
            Self::Root => Caller::ROOT,
            Self::Alice => Caller { uid: ALICE_ID, gid: ALICE_ID, gids: vec![] },
            Self::Bob => Caller { uid: BOB_ID, gid: BOB_ID, gids: vec![] },
            Self::Carol => Caller { uid: CAROL_ID, gid: CAROL_ID, gids: vec![ALICE_ID] },
        }
    }
}

/// What a step does.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// One call.
    Call(Call<'static>),
    /// SETATTR, its guard the object's ctime as it is now.
    Guarded(Call<'static>),
    /// One call whose record is sent again: a retransmission.
    Twice(Call<'static>),
    /// A listing from its beginning to its end.
    List(Listing),
    /// Many files, to be listed.
    Fill(Filling),
    /// A call of MOUNT; a path that begins with `@` lies below the export.
    Mount(mount::Call<'static>),
    /// A record that no client would send, on a connection of its own.
    Rpc(Raw),
}

/// READDIR or READDIRPLUS, page by page.
#[derive(Clone, Copy, Debug)]
pub struct Listing {
    /// The directory.
    pub dir: &'static str,
    /// READDIRPLUS, with this dircount.
    pub plus: Option<u32>,
    /// READDIR's count, READDIRPLUS's maxcount.
    pub count: u32,
    /// Whether the names of a page are removed before the next is asked for, as `rm -r` does.
    pub removing: bool,
}

/// Empty files `0` to `count - 1`, with names of `width` digits.
#[derive(Clone, Copy, Debug)]
pub struct Filling {
    /// The directory.
    pub dir: &'static str,
    /// How many.
    pub count: usize,
    /// Bytes of a name.
    pub width: usize,
}

/// A record, described.
#[derive(Clone, Copy, Debug)]
pub struct Raw {
    /// Where it is sent.
    pub port: Port,
    /// RPC's own version.
    pub rpc: u32,
    /// The program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// The procedure's number.
    pub procedure: u32,
    /// Who calls.
    pub login: Login,
    /// The arguments.
    pub args: Args,
    /// The fragments.
    pub cut: Cut,
}

/// A port of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Program 100003's.
    Nfs,
    /// Program 100005's.
    Mount,
}

/// The credential of a [`Raw`] record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// AUTH_SYS of the step's caller.
    Sys,
    /// AUTH_SYS whose body ends too early.
    SysCutShort,
    /// AUTH_SYS that claims seventeen further groups.
    SysGroups17,
    /// AUTH_NONE.
    None,
    /// RPCSEC_GSS, a context's creation.
    Gss,
    /// A flavour that nobody has.
    Unknown,
}

/// The arguments of a [`Raw`] record.
#[derive(Clone, Copy, Debug)]
pub enum Args {
    /// As they are.
    Bytes(&'static [u8]),
    /// Those of a call.
    Of(Call<'static>),
    /// A call's without the last bytes.
    AllBut(usize, Call<'static>),
    /// A call's and eight bytes more.
    AndMore(Call<'static>),
}

/// How a [`Raw`] record is cut into fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Not at all.
    Whole,
    /// After every four bytes.
    Words,
    /// In two, with empty fragments before, between and behind.
    WithEmpty,
}

impl Step {
    /// The handle that the step gives is called so from now on.
    pub(crate) const fn binds(self, symbol: &'static str) -> Self {
        Self { binds: Some(symbol), ..self }
    }

    const fn new(name: &'static str, by: Who, act: Act) -> Self {
        Self { name, by, act, binds: None }
    }
}

pub(crate) const fn root(name: &'static str, call: Call<'static>) -> Step {
    Step::new(name, Who::Root, Act::Call(call))
}

pub(crate) const fn alice(name: &'static str, call: Call<'static>) -> Step {
    Step::new(name, Who::Alice, Act::Call(call))
}

pub(crate) const fn bob(name: &'static str, call: Call<'static>) -> Step {
    Step::new(name, Who::Bob, Act::Call(call))
}

pub(crate) const fn carol(name: &'static str, call: Call<'static>) -> Step {
    Step::new(name, Who::Carol, Act::Call(call))
}

pub(crate) const fn guarded(name: &'static str, by: Who, call: Call<'static>) -> Step {
    Step::new(name, by, Act::Guarded(call))
}

pub(crate) const fn twice(name: &'static str, by: Who, call: Call<'static>) -> Step {
    Step::new(name, by, Act::Twice(call))
}

pub(crate) const fn list(name: &'static str, by: Who, dir: &'static str, count: u32) -> Step {
    Step::new(name, by, Act::List(Listing { dir, plus: None, count, removing: false }))
}

pub(crate) const fn list_plus(name: &'static str, by: Who, dir: &'static str, counts: [u32; 2]) -> Step {
    Step::new(name, by, Act::List(Listing { dir, plus: Some(counts[0]), count: counts[1], removing: false }))
}

pub(crate) const fn list_removing(name: &'static str, by: Who, dir: &'static str, count: u32) -> Step {
    Step::new(name, by, Act::List(Listing { dir, plus: None, count, removing: true }))
}

pub(crate) const fn fill(name: &'static str, by: Who, dir: &'static str, count: usize, width: usize) -> Step {
    Step::new(name, by, Act::Fill(Filling { dir, count, width }))
}

pub(crate) const fn mounting(name: &'static str, call: mount::Call<'static>) -> Step {
    Step::new(name, Who::Root, Act::Mount(call))
}

pub(crate) const fn rpc(name: &'static str, raw: Raw) -> Step {
    Step::new(name, Who::Alice, Act::Rpc(raw))
}

/// A symbol in the place of a handle.
pub(crate) const fn h(symbol: &'static str) -> FileHandle<'static> {
    FileHandle::new(symbol.as_bytes()).expect("a symbol is short")
}

const fn at(dir: &'static str, name: &'static [u8]) -> DirOp<'static> {
    DirOp { dir: h(dir), name }
}

pub(crate) const fn getattr(object: &'static str) -> Call<'static> {
    Call::Getattr { object: h(object) }
}

pub(crate) const fn setattr(object: &'static str, new_attributes: Sattr3) -> Call<'static> {
    Call::Setattr { object: h(object), new_attributes, guard: None }
}

pub(crate) const fn lookup(dir: &'static str, name: &'static [u8]) -> Call<'static> {
    Call::Lookup { what: at(dir, name) }
}

pub(crate) const fn access(object: &'static str, access: u32) -> Call<'static> {
    Call::Access { object: h(object), access }
}

pub(crate) const fn readlink(symlink: &'static str) -> Call<'static> {
    Call::Readlink { symlink: h(symlink) }
}

pub(crate) const fn read(file: &'static str, offset: u64, count: u32) -> Call<'static> {
    Call::Read { file: h(file), offset, count }
}

pub(crate) const fn write(file: &'static str, offset: u64, stable: StableHow, data: &'static [u8]) -> Call<'static> {
    Call::Write { file: h(file), offset, count: data.len() as u32, stable, data }
}

pub(crate) const fn create(dir: &'static str, name: &'static [u8], mode: u32) -> Call<'static> {
    Call::Create { place: at(dir, name), how: CreateHow::Guarded(mode_of(mode)) }
}

pub(crate) const fn create_unchecked(dir: &'static str, name: &'static [u8], attributes: Sattr3) -> Call<'static> {
    Call::Create { place: at(dir, name), how: CreateHow::Unchecked(attributes) }
}

pub(crate) const fn create_with(dir: &'static str, name: &'static [u8], attributes: Sattr3) -> Call<'static> {
    Call::Create { place: at(dir, name), how: CreateHow::Guarded(attributes) }
}

pub(crate) const fn create_exclusive(dir: &'static str, name: &'static [u8], verifier: Verifier) -> Call<'static> {
    Call::Create { place: at(dir, name), how: CreateHow::Exclusive(verifier) }
}

pub(crate) const fn mkdir(dir: &'static str, name: &'static [u8], mode: u32) -> Call<'static> {
    Call::Mkdir { place: at(dir, name), attributes: mode_of(mode) }
}

pub(crate) const fn mkdir_with(dir: &'static str, name: &'static [u8], attributes: Sattr3) -> Call<'static> {
    Call::Mkdir { place: at(dir, name), attributes }
}

pub(crate) const fn symlink(dir: &'static str, name: &'static [u8], target: &'static [u8]) -> Call<'static> {
    Call::Symlink { place: at(dir, name), attributes: mode_of(0o777), target }
}

pub(crate) const fn mknod(dir: &'static str, name: &'static [u8], what: MknodData) -> Call<'static> {
    Call::Mknod { place: at(dir, name), what }
}

pub(crate) const fn remove(dir: &'static str, name: &'static [u8]) -> Call<'static> {
    Call::Remove { object: at(dir, name) }
}

pub(crate) const fn rmdir(dir: &'static str, name: &'static [u8]) -> Call<'static> {
    Call::Rmdir { object: at(dir, name) }
}

pub(crate) const fn rename(
    from: &'static str,
    old: &'static [u8],
    to: &'static str,
    new: &'static [u8],
) -> Call<'static> {
    Call::Rename { from: at(from, old), to: at(to, new) }
}

pub(crate) const fn link(file: &'static str, dir: &'static str, name: &'static [u8]) -> Call<'static> {
    Call::Link { file: h(file), link: at(dir, name) }
}

pub(crate) const fn readdir(dir: &'static str, cookie: u64, count: u32) -> Call<'static> {
    Call::Readdir { dir: h(dir), cookie, cookieverf: [0; 8], count }
}

pub(crate) const fn readdirplus(dir: &'static str, cookie: u64, counts: [u32; 2]) -> Call<'static> {
    Call::Readdirplus { dir: h(dir), cookie, cookieverf: [0; 8], dircount: counts[0], maxcount: counts[1] }
}

pub(crate) const fn fsstat(fsroot: &'static str) -> Call<'static> {
    Call::Fsstat { fsroot: h(fsroot) }
}

pub(crate) const fn fsinfo(fsroot: &'static str) -> Call<'static> {
    Call::Fsinfo { fsroot: h(fsroot) }
}

pub(crate) const fn pathconf(object: &'static str) -> Call<'static> {
    Call::Pathconf { object: h(object) }
}

pub(crate) const fn commit(file: &'static str, offset: u64, count: u32) -> Call<'static> {
    Call::Commit { file: h(file), offset, count }
}

/// Nothing is set.
pub(crate) const NOTHING: Sattr3 =
    Sattr3 { mode: None, uid: None, gid: None, size: None, atime: SetTime::Keep, mtime: SetTime::Keep };

pub(crate) const fn mode_of(mode: u32) -> Sattr3 {
    Sattr3 { mode: Some(mode), ..NOTHING }
}

pub(crate) const fn owner(uid: u32) -> Sattr3 {
    Sattr3 { uid: Some(uid), ..NOTHING }
}

pub(crate) const fn group(gid: u32) -> Sattr3 {
    Sattr3 { gid: Some(gid), ..NOTHING }
}

pub(crate) const fn size(size: u64) -> Sattr3 {
    Sattr3 { size: Some(size), ..NOTHING }
}

pub(crate) const fn times(atime: SetTime, mtime: SetTime) -> Sattr3 {
    Sattr3 { atime, mtime, ..NOTHING }
}

pub(crate) const fn client_time(seconds: u32, nseconds: u32) -> SetTime {
    SetTime::Client(Nfstime3 { seconds, nseconds })
}

/// A device's numbers.
pub(crate) const DEVICE: Specdata3 = Specdata3 { specdata1: 1, specdata2: 3 };
pub(crate) const ALICE_ID: u32 = 1001;
pub(crate) const BOB_ID: u32 = 1002;
pub(crate) const CAROL_ID: u32 = 1003;
