//! The run's directory at one server: made, found, removed.
//!
//! A server that already shows the directory shares its file system with one where it was made: there only handles are asked
//! for. Removal lists what is there and asks nobody what should be: calls may have made more, or less.

use crate::action::Action;
use crate::config::Config;
use crate::error::RunError;
use crate::job::{DIR_MODE, FILE_MODE};
use crate::pipe::{Pipe, handle_of};
use crate::target::Target;
use crate::tree::{DIRECTORY, Handle, Name, Shape, Tree};
use crate::wire::Template;
use midas_core::rng::mix;
use midas_net::{Caller, Client, ClientError};
use midas_nfs::nfs3::{Call, CreateHow, DirOp, FileHandle, Nfsstat3, Reply, Sattr3, StableHow};
use midas_nfs::rpc::Refusal;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// One server and the run's names on it.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    pub(crate) target: &'a Target,
    pub(crate) address: SocketAddr,
    pub(crate) tree: Tree,
    /// Made here, and so removed here; else another server's file system shows it here.
    pub(crate) made: bool,
    export: Handle,
    run: &'a Run,
}

/// What all sites of a run share.
#[derive(Debug)]
pub(crate) struct Run {
    /// Unique: the directory's name and the machine's.
    pub(crate) id: String,
    pub(crate) template: Template,
    pub(crate) stamps: AtomicU32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) patience: Duration,
}

/// What is being done to a server, for people who wait: what, how many, of how many.
pub(crate) type Tell<'t> = &'t mut dyn FnMut(&str, usize, usize);

impl<'a> Site<'a> {
    /// Mounts a target and makes the run's directory, or finds it there.
    pub(crate) fn open(
        target: &'a Target,
        run: &'a Run,
        config: &Config,
        stop: &AtomicBool,
        tell: Tell<'_>,
    ) -> Result<Self, RunError> {
        let failed = |what: String| RunError::target(&target.name, what);
        let address = target.nfs().map_err(failed)?;
        let export = mount(target, run).map_err(failed)?;
        let tree = Tree::new(config.shape, Handle::NONE);
        let mut site = Self { target, address, tree, made: false, export, run };
        let result = site.fill(config, stop, tell);
        if result.is_err() && site.made && !config.keep {
            site.remove(tell).map_err(|error| failed(format!("{error}; {} is left behind", site.run.directory())))?;
        }
        match (result, stop.load(Ordering::Relaxed)) {
            (_, true) => Err(RunError::Interrupted),
            (Ok(()), false) => Ok(site),
            (Err(what), false) => Err(failed(what)),
        }
    }

    fn pipe(&self) -> Result<Pipe<'a>, String> {
        let run = self.run;
        Pipe::connect(self.address, &run.template, &run.stamps, run.uid, run.patience)
            .map_err(|error| error.to_string())
    }

    fn fill(&mut self, config: &Config, stop: &AtomicBool, tell: Tell<'_>) -> Result<(), String> {
        let mut pipe = self.pipe()?;
        let name = self.run.directory();
        let place = DirOp { dir: self.export.borrow(), name: name.as_bytes() };
        let found = pipe.one(&Call::Lookup { what: place }, |reply| match reply.status() {
            Nfsstat3::NOENT => Ok(None),
            _ => handle_of(reply),
        });
        let found = found.map_err(|error| format!("LOOKUP of {name}: {error}"))?;
        self.made = found.is_none();
        let root = match found {
            Some(root) => root,
            None => {
                let call = Call::Mkdir { place, attributes: mode(DIR_MODE) };
                let made = pipe.one(&call, handle_of).map_err(|error| format!("MKDIR of {name}: {error}"))?;
                match made {
                    Some(root) => root,
                    None => lookup(&mut pipe, self.export, name.as_bytes())?,
                }
            }
        };
        self.tree.root = root;
        let mut filling = Filling { pipe, made: self.made, stop, tell };
        filling.tree(&mut self.tree, config)
    }

    /// Removes what calls made in the run's directories, and leaves what was there before.
    pub(crate) fn tidy(&self, tell: Tell<'_>) -> Result<(), String> {
        let (mut pipe, mut removed) = (self.pipe()?, 0);
        let mut count = |names| {
            removed += names;
            tell("tidying", removed, 0);
        };
        for directory in &self.tree.directories {
            // What is still made now by calls that were given up is left for the end.
            clear(&mut pipe, *directory, &|name| Name::is_made(name), DEPTH, &mut count)?;
        }
        Ok(())
    }

    /// Removes the run's directory with all that is in it.
    pub(crate) fn remove(&self, tell: Tell<'_>) -> Result<(), String> {
        let mut pipe = self.pipe()?;
        let name = self.run.directory();
        let root = match self.tree.root == Handle::NONE {
            true => lookup(&mut pipe, self.export, name.as_bytes())?,
            false => self.tree.root,
        };
        let (mut removed, place) = (0, DirOp { dir: self.export.borrow(), name: name.as_bytes() });
        let mut count = |names| {
            removed += names;
            tell("removing", removed, 0);
        };
        for _ in 0..TRIES {
            if clear(&mut pipe, root, &|_| true, 0, &mut count)? && rmdir(&mut pipe, place)? {
                return Ok(());
            }
            // Calls that were under way when their connections ended may still be executed.
            std::thread::sleep(RETRY);
        }
        Err(format!("RMDIR of {name}: {}", Nfsstat3::NOTEMPTY))
    }
}

impl Run {
    /// A run that began then, and what its machine is called.
    pub(crate) fn new(config: &Config, started: Duration) -> (Self, String) {
        let unique = mix(started.as_nanos() as u64 ^ u64::from(std::process::id()) << 40);
        let id = format!("{:010x}", unique & 0xff_ffff_ffff);
        let machine = format!("midas-bench-{id}");
        let run = Self {
            template: Template::new(&machine, config.gid),
            id,
            stamps: AtomicU32::new(0),
            uid: config.uid,
            gid: config.gid,
            patience: config.timeout,
        };
        (run, machine)
    }

    pub(crate) fn directory(&self) -> String {
        format!("midas-bench-{}", self.id)
    }
}

/// The export's root.
fn mount(target: &Target, run: &Run) -> Result<Handle, String> {
    let address = target.mount()?;
    let caller = Caller { uid: run.uid, gid: run.gid, gids: Vec::new() };
    let mut client =
        Client::connect(address, &caller, run.patience).map_err(|error| format!("MOUNT at {address}: {error}"))?;
    let mounted = client.mount(target.path.as_bytes()).map_err(|error| match error {
        ClientError::Refused(Refusal::ProgUnavail) => format!(
            "no MOUNT at {address}: say its port with ?mount=PORT or --mount-port (`rpcinfo -p {}` lists it)",
            target.host
        ),
        ClientError::Io(error) => format!("MOUNT of {} at {address}: {error}", target.path),
        other => format!("MOUNT of {}: {other}", target.path),
    })?;
    FileHandle::new(&mounted.root).map(Handle::from).ok_or_else(|| "MOUNT gave a handle that is too long".to_owned())
}

struct Filling<'p, 's, 't> {
    pipe: Pipe<'p>,
    made: bool,
    stop: &'s AtomicBool,
    tell: Tell<'t>,
}

impl Filling<'_, '_, '_> {
    fn tree(&mut self, tree: &mut Tree, config: &Config) -> Result<(), String> {
        let Shape { directories, files } = tree.shape;
        let root = tree.root;
        let how = CreateHow::Guarded(mode(FILE_MODE));
        tree.directories = self.objects("directories", directories as usize, |number, made, put| {
            let name = Name::directory(number as u32);
            let place = DirOp { dir: root.borrow(), name: name.bytes() };
            put(&if made { Call::Mkdir { place, attributes: mode(DIR_MODE) } } else { Call::Lookup { what: place } });
        })?;
        let parents = &tree.directories;
        tree.files = self.objects("files", tree.shape.names(), |number, made, put| {
            let (parent, name) =
                (&parents[number / files as usize], Name::File((number % files as usize) as u32).text());
            let place = DirOp { dir: parent.borrow(), name: name.bytes() };
            put(&if made { Call::Create { place, how } } else { Call::Lookup { what: place } });
        })?;
        if config.uses(Action::Readlink) {
            tree.links = self.objects("links", directories as usize, |number, made, put| {
                let name = Name::Link.text();
                let place = DirOp { dir: parents[number].borrow(), name: name.bytes() };
                let link = Call::Symlink { place, attributes: mode(DIR_MODE), target: LINK_TARGET };
                put(&if made { link } else { Call::Lookup { what: place } });
            })?;
        }
        if self.made && config.uses(Action::Read) {
            self.write(&tree.files, config.size)?;
        }
        Ok(())
    }

    /// Makes objects, or looks them up where they are: their handles.
    fn objects(
        &mut self,
        what: &str,
        count: usize,
        call: impl Fn(usize, bool, &mut dyn FnMut(&Call<'_>)),
    ) -> Result<Vec<Handle>, String> {
        let mut handles = vec![Handle::NONE; count];
        let mut missing = Vec::new();
        let (tell, stop, made) = (&mut self.tell, self.stop, self.made);
        let verb = if made { "making" } else { "finding" };
        let mut go_on = |done| {
            tell(&format!("{verb} {what}"), done, count);
            !stop.load(Ordering::Relaxed)
        };
        let reply = |number: usize, reply: &Reply<'_>| {
            match handle_of(reply).map_err(|error| format!("{verb} {what}: {error}"))? {
                Some(handle) => handles[number] = handle,
                None => missing.push(number),
            }
            Ok(())
        };
        self.pipe.all(count, |number, put| call(number, made, put), reply, &mut go_on)?;
        // A server may leave out the handle of what it made.
        let reply = |index: usize, reply: &Reply<'_>| {
            let handle = handle_of(reply).map_err(|error| format!("finding {what}: {error}"))?;
            handles[missing[index]] = handle.ok_or_else(|| format!("no handle for {what}"))?;
            Ok(())
        };
        self.pipe.all(missing.len(), |index, put| call(missing[index], false, put), reply, go_on)?;
        Ok(handles)
    }

    fn write(&mut self, files: &[Handle], size: u32) -> Result<(), String> {
        let data = vec![0x5a; size as usize];
        let call = |number: usize, put: &mut dyn FnMut(&Call<'_>)| {
            let file = files[number].borrow();
            put(&Call::Write { file, offset: 0, count: size, stable: StableHow::FileSync, data: &data });
        };
        let (tell, stop) = (&mut self.tell, self.stop);
        let go_on = |done| {
            tell("writing files", done, files.len());
            !stop.load(Ordering::Relaxed)
        };
        let reply = |_, reply: &Reply<'_>| ok(reply, &[]).map_err(|error| format!("WRITE: {error}"));
        self.pipe.all(files.len(), call, reply, go_on)
    }
}

/// Empties a directory of the names that `which` picks: lists from the start, removes what was listed, until nothing is listed.
/// Whether it is done: someone may have made more meanwhile.
fn clear(
    pipe: &mut Pipe<'_>,
    dir: Handle,
    which: &dyn Fn(&[u8]) -> bool,
    depth: u32,
    tell: &mut dyn FnMut(usize),
) -> Result<bool, String> {
    loop {
        let (names, eof) = list(pipe, dir, which)?;
        let place = |number: usize| DirOp { dir: dir.borrow(), name: &names[number] };
        let is_directory = |number: usize| names[number].first() == Some(&DIRECTORY);
        let mut full = Vec::new();
        let call = |number: usize, put: &mut dyn FnMut(&Call<'_>)| {
            let object = place(number);
            put(&if is_directory(number) { Call::Rmdir { object } } else { Call::Remove { object } });
        };
        let reply = |number: usize, reply: &Reply<'_>| match reply.status() {
            Nfsstat3::NOTEMPTY | Nfsstat3::EXIST if is_directory(number) => {
                full.push(number);
                Ok(())
            }
            _ => ok(reply, &[Nfsstat3::NOENT]).map_err(|error| format!("removing names: {error}")),
        };
        pipe.all(names.len(), call, reply, |_| true)?;
        tell(names.len() - full.len());
        if !full.is_empty() && depth == DEPTH {
            return Err("directories deeper than any that was made".to_owned());
        }
        for number in full {
            let inner = lookup(pipe, dir, &names[number])?;
            if !(clear(pipe, inner, which, depth + 1, tell)? && rmdir(pipe, place(number))?) {
                return Ok(false);
            }
        }
        if eof || names.is_empty() {
            return Ok(true);
        }
    }
}

/// Removes a directory; whether it was empty.
fn rmdir(pipe: &mut Pipe<'_>, object: DirOp<'_>) -> Result<bool, String> {
    pipe.one(&Call::Rmdir { object }, |reply| match reply.status() {
        Nfsstat3::NOTEMPTY | Nfsstat3::EXIST => Ok(false),
        _ => ok(reply, &[Nfsstat3::NOENT]).map(|()| true).map_err(|error| format!("RMDIR: {error}")),
    })
}

/// Names of a directory from its start, so many that removing them is worth while; whether these are all.
fn list(pipe: &mut Pipe<'_>, dir: Handle, which: &dyn Fn(&[u8]) -> bool) -> Result<(Vec<Vec<u8>>, bool), String> {
    let (mut names, mut cookie, mut cookieverf) = (Vec::new(), 0, [0; 8]);
    loop {
        let call = Call::Readdir { dir: dir.borrow(), cookie, cookieverf, count: LIST_COUNT };
        let eof = pipe.one(&call, |reply| {
            let Reply::Readdir(Ok(page)) = reply else { return Err(format!("READDIR: {}", reply.status())) };
            cookieverf = page.cookieverf;
            let mut entries = page.entries();
            for entry in &mut entries {
                let entry = entry.map_err(|error| format!("READDIR: {error}"))?;
                cookie = entry.cookie;
                if entry.name != b"." && entry.name != b".." && which(entry.name) {
                    names.push(entry.name.to_vec());
                }
            }
            Ok(entries.eof().unwrap_or(true))
        })?;
        if eof || names.len() >= LIST_NAMES {
            return Ok((names, eof));
        }
    }
}

fn lookup(pipe: &mut Pipe<'_>, dir: Handle, name: &[u8]) -> Result<Handle, String> {
    let what = DirOp { dir: dir.borrow(), name };
    let found = pipe.one(&Call::Lookup { what }, handle_of);
    found.and_then(|handle| handle.ok_or_else(|| "no handle".to_owned())).map_err(|error| format!("LOOKUP: {error}"))
}

fn ok(reply: &Reply<'_>, also: &[Nfsstat3]) -> Result<(), String> {
    match reply.status() {
        Nfsstat3::OK => Ok(()),
        status if also.contains(&status) => Ok(()),
        status => Err(status.to_string()),
    }
}

fn mode(mode: u32) -> Sattr3 {
    Sattr3 { mode: Some(mode), ..Sattr3::default() }
}

const LINK_TARGET: &[u8] = b"f0";
/// One page, and names after which removing begins.
const LIST_COUNT: u32 = 32 << 10;
const LIST_NAMES: usize = 65_536;
/// The run's directory, its directories, and those that MKDIR made in them.
const DEPTH: u32 = 2;
/// How often, and after which pause, a directory that is not empty is emptied again.
const TRIES: u32 = 50;
const RETRY: Duration = Duration::from_millis(100);
