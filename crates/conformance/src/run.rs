//! Plays the script against a server.
//!
//! Beside the connection that makes the calls, an observer looks at the objects of every call before and after it, as root,
//! so that a reply's attributes are judged by what the server itself says then. Time is waited for, not slept for: before a
//! change the observer sets the times of a file of its own until the server's clock has moved on.

use crate::describe::{self, Given, Scene, Seen};
use crate::names::{Names, roles};
use crate::script::script;
use crate::step::{Act, Filling, Step};
use crate::transcript::{Line, Transcript};
use crate::{listing, rpc};
use midas_net::{Caller, Client, ClientError, Mount};
use midas_nfs::mount;
use midas_nfs::nfs3::{
    Call, CreateHow, DirOp, Fattr3, FileHandle, Ftype3, Nfsstat3, Nfstime3, PostOpAttr, Reply, Sattr3, SetTime,
    Verifier,
};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

/// A server.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where program 100003 listens.
    pub nfs: SocketAddr,
    /// Where program 100005 listens.
    pub mount: SocketAddr,
    /// The exported path, which root may change as root.
    pub path: String,
}

/// Plays the whole script in a fresh directory of the export and removes the directory. Panics where the server does not even
/// let it begin.
pub fn run(target: &Target) -> Transcript {
    let mut run = Run::begin(target);
    let lines = script().map(|step| run.step(step)).collect();
    run.observer.clean(&run.root);
    Transcript(lines)
}

pub(crate) struct Run<'t> {
    target: &'t Target,
    calls: Client,
    mounts: Client,
    observer: Observer,
    names: Names,
    root: Vec<u8>,
    verifier: Option<Verifier>,
}

impl<'t> Run<'t> {
    fn begin(target: &'t Target) -> Self {
        let connect = |address| Client::connect(address, &Caller::ROOT, PATIENCE).expect("the server listens");
        let mut mounts = connect(target.mount);
        let root = mounts.mount(target.path.as_bytes()).expect("the export can be mounted").root;
        let mut observer = Observer { client: connect(target.nfs), probe: Vec::new(), newest: Nfstime3::default() };
        observer.clean(&root);
        let all = Sattr3 { mode: Some(0o777), ..Sattr3::default() };
        let top = observer.make(&root, TOP, |place| Call::Mkdir { place, attributes: all });
        observer.probe = observer.make(&top, PROBE, |place| Call::Create { place, how: CreateHow::Guarded(all) });
        let work = observer.make(&top, WORK, |place| Call::Mkdir { place, attributes: all });
        let names = Names::new(&root, &work);
        Self { target, calls: connect(target.nfs), mounts, observer, names, root, verifier: None }
    }

    fn step(&mut self, step: &Step) -> Line {
        self.calls.become_caller(&step.by.caller());
        match &step.act {
            Act::Call(call) => self.call(step, call),
            Act::Guarded(call) => {
                let call = self.guarded(call);
                self.call(step, &call)
            }
            Act::Twice(call) => {
                let call = self.names.resolve(call);
                self.observer.tick();
                rpc::twice(self.target, step, &call)
            }
            Act::List(what) => {
                let dir = self.names.handle(crate::step::h(what.dir));
                listing::list(&mut self.calls, &mut self.observer, step, what, dir)
            }
            Act::Fill(filling) => self.fill(step, filling),
            Act::Mount(call) => self.mount(step, call),
            Act::Rpc(raw) => rpc::send(self.target, &self.names, step, raw),
        }
    }

    fn call(&mut self, step: &Step, call: &Call<'_>) -> Line {
        let call = self.names.resolve(call);
        let before: Vec<PostOpAttr> = roles(&call).iter().map(|(_, handle)| self.observer.look(*handle)).collect();
        if changes(&call) {
            self.observer.tick();
        }
        let reply = match self.calls.nfs(&call) {
            Ok(reply) => reply,
            Err(error) => {
                let line = Line::new(step.name, failure(&error));
                // Whatever is left on the connection belongs to the failed call.
                self.calls = Client::connect(self.target.nfs, &step.by.caller(), PATIENCE).expect("the server listens");
                return line;
            }
        };
        let objects: Vec<Seen> = roles(&call)
            .iter()
            .zip(before)
            .map(|((role, handle), before)| Seen { role, before, after: self.observer.look(*handle) })
            .collect();
        let handle = given(&reply, &call, &mut self.observer);
        let given = handle
            .as_deref()
            .and_then(FileHandle::new)
            .map(|handle| Given { symbol: self.names.symbol(handle.bytes()), after: self.observer.look(handle) });
        let mut line = Line::new(step.name, reply.status());
        describe::reply(&mut line, &reply, &Scene { call: &call, objects: &objects, given, verifier: self.verifier });
        self.verifier = self.verifier.or(verifier(&reply));
        if let (Some(symbol), Some(handle)) = (step.binds, handle) {
            self.names.bind(symbol, &handle);
        }
        line
    }

    fn guarded(&mut self, call: &Call<'static>) -> Call<'static> {
        let Call::Setattr { object, new_attributes, .. } = *call else { panic!("only SETATTR has a guard") };
        let now = self.observer.look(self.names.handle(object));
        Call::Setattr { object, new_attributes, guard: now.map(|now| now.ctime) }
    }

    fn fill(&mut self, step: &Step, filling: &Filling) -> Line {
        let dir = self.names.handle(crate::step::h(filling.dir));
        let how = CreateHow::Guarded(Sattr3 { mode: Some(0o644), ..Sattr3::default() });
        let mut made = 0;
        for index in 0..filling.count {
            let name = format!("{index:0width$}", width = filling.width);
            let call = Call::Create { place: DirOp { dir, name: name.as_bytes() }, how };
            match self.calls.nfs(&call) {
                Ok(reply) if reply.status() == Nfsstat3::OK => made += 1,
                Ok(reply) => return Line::new(step.name, reply.status()),
                Err(error) => return Line::new(step.name, failure(&error)),
            }
        }
        let mut line = Line::new(step.name, Nfsstat3::OK);
        line.add("made", made.to_string());
        line
    }

    fn mount(&mut self, step: &Step, call: &mount::Call<'_>) -> Line {
        let full = |path: &[u8]| match path.strip_prefix(b"@") {
            Some(below) => [self.target.path.as_bytes(), below].concat(),
            None => path.to_vec(),
        };
        let outcome = match call {
            mount::Call::Mnt(path) => self.mounts.mount(&full(path)).map(|mount| mounted(&self.names, &mount)),
            mount::Call::Export => {
                let own = self.target.path.as_bytes();
                self.mounts.exports().map(|paths| format!("ours among them: {}", paths.iter().any(|path| path == own)))
            }
            mount::Call::Umnt(path) => {
                let path = full(path);
                let call = mount::Call::Umnt(&path);
                let results =
                    self.mounts.call(mount::PROGRAM, mount::VERSION, call.procedure(), |out| call.encode(out));
                results.map(void)
            }
            mount::Call::Null | mount::Call::Umntall => {
                self.mounts.call(mount::PROGRAM, mount::VERSION, call.procedure(), |_| {}).map(void)
            }
            mount::Call::Dump => {
                let results = self.mounts.call(mount::PROGRAM, mount::VERSION, call.procedure(), |_| {});
                results.map(|results| format!("a list: {}", rpc::is_mount_list(results)))
            }
        };
        match outcome {
            Ok(text) => {
                let mut line = Line::new(step.name, Nfsstat3::OK);
                line.add("gives", text);
                line
            }
            Err(error) => {
                let line = Line::new(step.name, failure(&error));
                self.mounts = Client::connect(self.target.mount, &Caller::ROOT, PATIENCE).expect("the server listens");
                line
            }
        }
    }
}

fn mounted(names: &Names, mount: &Mount) -> String {
    let symbol = names.symbol(&mount.root).unwrap_or("nothing known");
    format!("handle of {symbol}, flavours {:?}", mount.flavors)
}

fn void(results: &[u8]) -> String {
    if results.is_empty() { "void".to_owned() } else { format!("{} bytes", results.len()) }
}

fn changes(call: &Call<'_>) -> bool {
    matches!(call, Call::Write { .. } | Call::Commit { .. }) || !call.procedure().idempotent()
}

/// The handle that the reply gives; where a creation gives none, the one that the name has then.
fn given(reply: &Reply<'_>, call: &Call<'_>, observer: &mut Observer) -> Option<Vec<u8>> {
    let made = match reply {
        Reply::Lookup(Ok(found)) => return Some(found.object.bytes().to_vec()),
        Reply::Create(Ok(made)) | Reply::Mkdir(Ok(made)) | Reply::Symlink(Ok(made)) | Reply::Mknod(Ok(made)) => made,
        _ => return None,
    };
    match (made.object, call) {
        (Some(handle), _) => Some(handle.bytes().to_vec()),
        (
            None,
            Call::Create { place, .. }
            | Call::Mkdir { place, .. }
            | Call::Symlink { place, .. }
            | Call::Mknod { place, .. },
        ) => observer.find(place.dir, place.name),
        (None, _) => None,
    }
}

fn verifier(reply: &Reply<'_>) -> Option<Verifier> {
    match reply {
        Reply::Write(Ok(ok)) => Some(ok.verf),
        Reply::Commit(Ok(ok)) => Some(ok.verf),
        _ => None,
    }
}

/// Why there is no reply, in words that do not depend on the machine.
pub(crate) fn failure(error: &ClientError) -> String {
    match error {
        ClientError::Io(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            "no answer".to_owned()
        }
        ClientError::Io(_) => "connection closed".to_owned(),
        ClientError::Status(status) => status.to_string(),
        ClientError::Refused(refusal) => refusal.to_string(),
        ClientError::TooLong(_) | ClientError::Malformed(_) => error.to_string(),
    }
}

/// Looks at objects as root, on its own connection.
pub(crate) struct Observer {
    client: Client,
    /// A file whose times tell the server's clock.
    probe: Vec<u8>,
    /// The newest ctime seen.
    newest: Nfstime3,
}

impl Observer {
    /// An object's attributes; none if there is no such object.
    pub(crate) fn look(&mut self, object: FileHandle<'_>) -> Option<Fattr3> {
        let Ok(Reply::Getattr(Ok(attributes))) = self.client.nfs(&Call::Getattr { object }) else { return None };
        self.newest = self.newest.max(attributes.ctime);
        Some(attributes)
    }

    /// The handle of a name; none if there is no such name.
    pub(crate) fn find(&mut self, dir: FileHandle<'_>, name: &[u8]) -> Option<Vec<u8>> {
        match self.client.nfs(&Call::Lookup { what: DirOp { dir, name } }) {
            Ok(Reply::Lookup(Ok(found))) => Some(found.object.bytes().to_vec()),
            _ => None,
        }
    }

    /// Waits until a change gets a later time than anything seen.
    pub(crate) fn tick(&mut self) {
        let probe = self.probe.clone();
        let object = FileHandle::new(&probe).expect("it came as a handle");
        let new_attributes = Sattr3 { mtime: SetTime::Server, ..Sattr3::default() };
        let seen = self.newest;
        for _ in 0..TICKS_MAX {
            let touched = self.client.nfs(&Call::Setattr { object, new_attributes, guard: None });
            assert!(matches!(touched, Ok(Reply::Setattr(Ok(_)))), "root can touch the probe: {touched:?}");
            if self.look(object).is_some_and(|now| now.ctime > seen) {
                return;
            }
        }
        panic!("the server's clock stands still");
    }

    fn make<'a>(&mut self, dir: &'a [u8], name: &'a [u8], call: impl FnOnce(DirOp<'a>) -> Call<'a>) -> Vec<u8> {
        let dir = FileHandle::new(dir).expect("it came as a handle");
        let reply = self.client.nfs(&call(DirOp { dir, name }));
        let made = matches!(&reply, Ok(reply) if reply.status() == Nfsstat3::OK);
        assert!(made, "the export takes {}: {reply:?}", name.escape_ascii());
        let handle = self.find(dir, name).expect("what was made is there");
        let object = FileHandle::new(&handle).expect("it came as a handle");
        // The caller's umask plays no part in NFSv3, but a server's may.
        let new_attributes = Sattr3 { mode: Some(0o777), ..Sattr3::default() };
        let set = self.client.nfs(&Call::Setattr { object, new_attributes, guard: None });
        assert!(matches!(set, Ok(Reply::Setattr(Ok(_)))), "root can set a mode: {set:?}");
        handle
    }

    /// Removes the script's directory from the export.
    fn clean(&mut self, root: &[u8]) {
        let root = FileHandle::new(root).expect("it came as a handle");
        if let Some(top) = self.find(root, TOP) {
            self.empty(&top, 0);
            let gone = self.client.nfs(&Call::Rmdir { object: DirOp { dir: root, name: TOP } });
            assert!(matches!(gone, Ok(Reply::Rmdir(Ok(_)))), "the script's directory can be removed: {gone:?}");
        }
    }

    fn empty(&mut self, dir: &[u8], depth: usize) {
        assert!(depth < DEPTH_MAX, "the script makes no deeper tree");
        let dir = FileHandle::new(dir).expect("it came as a handle");
        for name in listing::names(&mut self.client, dir) {
            let handle = self.find(dir, &name).expect("a listed name is there");
            let kind = self.look(FileHandle::new(&handle).expect("it came as a handle")).map(|object| object.ftype);
            let object = DirOp { dir, name: &name };
            let call = if kind == Some(Ftype3::Dir) {
                self.empty(&handle, depth + 1);
                Call::Rmdir { object }
            } else {
                Call::Remove { object }
            };
            let gone = self.client.nfs(&call);
            let done = matches!(&gone, Ok(reply) if reply.status() == Nfsstat3::OK);
            assert!(done, "{} can be removed: {gone:?}", name.escape_ascii());
        }
    }
}

/// What the export holds during a run.
const TOP: &[u8] = b"conformance";
const PROBE: &[u8] = b"probe";
const WORK: &[u8] = b"work";
/// For one answer; a server that needs longer does not answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Touches of the probe until the clock must have moved: coarse clocks move every 10 ms.
const TICKS_MAX: usize = 100_000;
const DEPTH_MAX: usize = 16;
