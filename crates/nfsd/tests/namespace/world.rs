//! The namespaces that every test runs over, and a client that checks each reply on its way.

use midas_nfs::nfs3::{
    Call, CreateHow, CreateOk, DirOp, Failed, Fattr3, LinkDone, Nfsstat3, PostOpAttr, RenameDone, Reply, Sattr3,
    WccData,
};
use midas_nfsd::{DirectoryOptions, Handle, Handles, Identity, Limits, Namespace, User};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) const ROOT: User = user(0);
pub(crate) const SERVER: Identity = Identity { server: 0, write_verifier: *b"verifier", salt: 0 };

/// A user with the group of the same number.
pub(crate) const fn user(uid: u32) -> User {
    let mut user = User::NOBODY;
    user.uid = uid;
    user.gid = uid;
    user
}

/// A namespace, and the directory that it serves if it serves one.
pub(crate) struct World {
    pub(crate) name: &'static str,
    pub(crate) namespace: Namespace,
    dir: Option<TempDir>,
}

impl World {
    pub(crate) fn memory(limits: Limits) -> Self {
        Self { name: "memory", namespace: Namespace::memory(limits), dir: None }
    }

    /// A directory of its own; `Seen` is how file systems without handles are served.
    pub(crate) fn directory(handles: Handles) -> Self {
        let dir = TempDir::new();
        let served = dir.0.join("export");
        fs::create_dir(&served).expect("a directory in a new one");
        let options = DirectoryOptions { handles, ..DirectoryOptions::default() };
        let namespace = Namespace::directory_with(&served, &options).expect("a directory can be served");
        let name = match handles {
            Handles::Best => "directory",
            Handles::Seen => "directory by names seen",
        };
        Self { name, namespace, dir: Some(dir) }
    }

    /// Every kind of namespace, empty.
    pub(crate) fn all() -> [Self; 3] {
        [Self::memory(Limits::default()), Self::directory(Handles::Best), Self::directory(Handles::Seen)]
    }

    /// Every kind of namespace in which objects belong to those who made them: a directory needs root for that.
    pub(crate) fn with_users() -> Vec<Self> {
        let all = World::all().into_iter();
        all.filter(|world| {
            let owned = world.served().is_none_or(|path| fs::metadata(path).expect("it is served").uid() == 0);
            if !owned {
                eprintln!("{}: not run, new objects get their owners only when the server is root", world.name);
            }
            owned
        })
        .collect()
    }

    /// Owner and group of an object; whoever serves a directory without being root is told as root.
    pub(crate) fn owners(&self, object: &Fattr3) -> String {
        let server = self.served().map(|path| fs::metadata(path).expect("it is served"));
        let (uid, gid) =
            server.filter(|server| server.uid() != 0).map_or((0, 0), |server| (server.uid(), server.gid()));
        let [uid, gid] = [(object.uid, uid), (object.gid, gid)].map(|(id, own)| if id == own { 0 } else { id });
        format!("{uid}:{gid}")
    }

    /// The directory that is served.
    pub(crate) fn served(&self) -> Option<PathBuf> {
        self.dir.as_ref().map(|dir| dir.0.join("export"))
    }

    pub(crate) fn root(&self) -> Handle {
        self.namespace.root(&SERVER)
    }

    pub(crate) fn by(&self, who: User) -> Client<'_> {
        Client { world: self, who, server: SERVER }
    }
}

/// A user at a server.
#[derive(Clone, Copy)]
pub(crate) struct Client<'a> {
    pub(crate) world: &'a World,
    pub(crate) who: User,
    pub(crate) server: Identity,
}

impl Client<'_> {
    /// Executes a call and shows its reply. The reply must be exactly what an encoder writes, and say of the objects before and
    /// after the call what GETATTR says.
    pub(crate) fn call<R>(&self, call: &Call<'_>, then: impl FnOnce(&Reply<'_>) -> R) -> R {
        let before = self.watched(call);
        let mut out = b"before".to_vec();
        let status = self.world.namespace.execute(&self.server, &self.who, call, &mut out);
        let results = &out[b"before".len()..];
        let reply = Reply::decode(call.procedure(), results).expect("a reply can be decoded");
        let mut again = Vec::new();
        reply.encode(&mut again);
        assert_eq!(again, results, "{call:?}: not what an encoder writes");
        assert_eq!(status, reply.status(), "{call:?}");
        self.check_wcc(call, before, &reply);
        then(&reply)
    }

    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is not general over lifetimes")]
    pub(crate) fn status(&self, call: &Call<'_>) -> Nfsstat3 {
        self.call(call, |reply| reply.status())
    }

    pub(crate) fn attributes(&self, object: &Handle) -> Result<Fattr3, Nfsstat3> {
        let call = Call::Getattr { object: object.file_handle() };
        self.call(&call, |reply| match reply {
            Reply::Getattr(result) => result.map_err(|failed| failed.status),
            other => panic!("{other:?}"),
        })
    }

    pub(crate) fn lookup(&self, dir: &Handle, name: &[u8]) -> Result<Handle, Nfsstat3> {
        let call = Call::Lookup { what: DirOp { dir: dir.file_handle(), name } };
        self.call(&call, |reply| match reply {
            Reply::Lookup(Ok(found)) => {
                let handle = Handle::new(found.object.bytes()).expect("it came in a reply");
                assert_eq!(found.attributes, self.attributes(&handle).ok());
                assert_eq!(found.dir_attributes, self.attributes(dir).ok());
                Ok(handle)
            }
            Reply::Lookup(Err(failed)) => {
                assert_eq!(failed.attributes, self.attributes(dir).ok());
                Err(failed.status)
            }
            other => panic!("{other:?}"),
        })
    }

    /// Executes a call that makes an object.
    pub(crate) fn make(&self, call: &Call<'_>) -> Result<Handle, Nfsstat3> {
        self.call(call, |reply| {
            let made = creation(reply).expect("a call that makes something").map_err(|failed| failed.status)?;
            let handle = Handle::new(made.object.expect("we give handles").bytes()).expect("it came in a reply");
            assert_eq!(made.attributes, self.attributes(&handle).ok());
            Ok(handle)
        })
    }

    /// A new file.
    pub(crate) fn file(&self, dir: &Handle, name: &str, wanted: Sattr3) -> Handle {
        let place = DirOp { dir: dir.file_handle(), name: name.as_bytes() };
        let wanted = Sattr3 { mode: wanted.mode.or(Some(0o644)), ..wanted };
        self.make(&Call::Create { place, how: CreateHow::Guarded(wanted) }).expect("a new name")
    }

    /// The attributes of the objects whose wcc_data a call's reply carries.
    fn watched(&self, call: &Call<'_>) -> [PostOpAttr; 2] {
        let handles = match call {
            Call::Setattr { object: handle, .. }
            | Call::Write { file: handle, .. }
            | Call::Commit { file: handle, .. } => [Some(*handle), None],
            Call::Create { place, .. }
            | Call::Mkdir { place, .. }
            | Call::Symlink { place, .. }
            | Call::Mknod { place, .. }
            | Call::Remove { object: place }
            | Call::Rmdir { object: place }
            | Call::Link { link: place, .. } => [Some(place.dir), None],
            Call::Rename { from, to } => [Some(from.dir), Some(to.dir)],
            Call::Null
            | Call::Getattr { .. }
            | Call::Lookup { .. }
            | Call::Access { .. }
            | Call::Readlink { .. }
            | Call::Read { .. }
            | Call::Readdir { .. }
            | Call::Readdirplus { .. }
            | Call::Fsstat { .. }
            | Call::Fsinfo { .. }
            | Call::Pathconf { .. } => [None, None],
        };
        handles.map(|handle| self.attributes(&Handle::new(handle?.bytes())?).ok())
    }

    fn check_wcc(&self, call: &Call<'_>, before: [PostOpAttr; 2], reply: &Reply<'_>) {
        let after = self.watched(call);
        for (i, told) in wcc(reply).into_iter().enumerate() {
            let expected = WccData { before: before[i].map(|before| before.wcc_attr()), after: after[i] };
            assert_eq!(told, expected, "{}: {call:?}", self.world.name);
        }
    }
}

fn creation<'a>(reply: &Reply<'a>) -> Option<Result<CreateOk<'a>, Failed<WccData>>> {
    match reply {
        Reply::Create(result) | Reply::Mkdir(result) | Reply::Symlink(result) | Reply::Mknod(result) => Some(*result),
        _ => None,
    }
}

fn wcc(reply: &Reply<'_>) -> Vec<WccData> {
    let either = |result: Result<WccData, Failed<WccData>>| result.unwrap_or_else(|failed| failed.attributes);
    match reply {
        Reply::Setattr(result) | Reply::Remove(result) | Reply::Rmdir(result) => vec![either(*result)],
        Reply::Write(result) => vec![either(result.map(|ok| ok.file))],
        Reply::Commit(result) => vec![either(result.map(|ok| ok.file))],
        Reply::Link(result) => vec![result.unwrap_or_else(|failed| failed.attributes).dir],
        Reply::Rename(result) => {
            let RenameDone { from, to } = result.unwrap_or_else(|failed| failed.attributes);
            vec![from, to]
        }
        reply => creation(reply).map(|result| either(result.map(|ok| ok.dir))).into_iter().collect(),
    }
}

/// What LINK says of the object.
pub(crate) fn linked(reply: &Reply<'_>) -> Option<LinkDone> {
    match reply {
        Reply::Link(result) => Some(result.unwrap_or_else(|failed| failed.attributes)),
        _ => None,
    }
}

/// A directory that goes away with its owner.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("midas-nfsd-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a new directory");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
