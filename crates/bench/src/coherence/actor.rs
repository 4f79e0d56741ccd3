//! One client: makes a call, waits for its answer, writes both down.
//!
//! Some names belong to one client alone. There it knows which object every call hits, so that the links of the files that stay are
//! counted exactly; once such a call ends in doubt the client leaves these names alone and takes new ones.

use super::World;
use super::line::{Line, Sent};
use super::plan::Plan;
use crate::history::told;
use crate::job::FILE_MODE;
use crate::tree::Handle;
use midas_core::rng::{Rng, mix};
use midas_history::{Attributes, Kind, Name, Place, Record, SILENT, Scribe, status};
use midas_net::Caller;
use midas_nfs::nfs3::{Call, CreateHow, DirOp, Fattr3, Nfstime3, Reply, Sattr3, SetTime, StableHow, access};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(super) struct Actor<'a> {
    world: &'a World<'a>,
    number: u32,
    line: Line<'a>,
    scribe: Scribe<'a>,
    rng: Rng,
    /// 1 while the call is the next user's.
    stranger: u32,
    /// What contested names last led to, directory by directory.
    files: Vec<Handle>,
    /// What every client's symbolic link last was.
    links: Vec<Handle>,
    own: Own,
}

/// Names of one client alone.
#[derive(Debug, Default)]
struct Own {
    /// Counts up when something is in doubt: other names from then on.
    generation: u32,
    /// What the name for new files leads to.
    fresh: Option<Handle>,
    /// Which files the two names for links lead to.
    links: [Option<usize>; 2],
}

impl<'a> Actor<'a> {
    pub(super) fn new(world: &'a World<'a>, number: u32, addresses: &'a [SocketAddr], scribe: Scribe<'a>) -> Self {
        let (config, target) = (world.config, number as usize % addresses.len());
        let rng = |purpose: &[u8; 8]| Rng::for_purpose(config.seed, u64::from_be_bytes(*purpose) ^ u64::from(number));
        Self {
            world,
            number,
            line: Line::new((addresses, target), config.timeout, world.stop, rng(b"sent\0\0\0\0")),
            scribe,
            rng: rng(b"coherent"),
            stranger: 0,
            files: vec![Handle::NONE; (config.directories * config.names) as usize],
            links: vec![Handle::NONE; config.clients as usize],
            own: Own::default(),
        }
    }

    /// Calls until it is over.
    pub(super) fn run(mut self) {
        while !self.is_over() {
            if self.line.connect(self.world.config.timeout) {
                let plan = Plan::draw(&mut self.rng, self.world.config.changes);
                self.act(plan);
            }
        }
    }

    fn is_over(&self) -> bool {
        let World { clock, left, until, stop, .. } = self.world;
        stop.load(Ordering::Relaxed) || left.load(Ordering::Relaxed) == 0 || clock.now() >= *until
    }

    fn caller(&self) -> Caller {
        let config = self.world.config;
        Caller { uid: config.uid + self.stranger, gid: config.gid + self.stranger, gids: Vec::new() }
    }

    fn act(&mut self, plan: Plan) {
        let config = self.world.config;
        let dir = self.rng.below(config.directories as usize) as u32;
        match plan {
            Plan::GetFile => {
                let file = self.file();
                self.get(self.world.files[file]);
            }
            Plan::GetContested => {
                let place = self.rng.below(self.files.len());
                self.get(self.files[place]);
            }
            Plan::GetDirectory => self.get(self.world.directories[dir as usize]),
            Plan::LookFile | Plan::LookForeign => self.look_known(plan, dir),
            Plan::LookContested => self.look_contested(dir),
            Plan::Access => self.access(),
            Plan::Readlink => {
                let place = self.rng.below(self.links.len());
                self.readlink(self.links[place]);
            }
            Plan::Readdir | Plan::Readdirplus => self.list(plan, dir),
            Plan::SetSize | Plan::SetTime | Plan::SetMode | Plan::Write => self.change(plan),
            Plan::CreateNew | Plan::CreateOver => self.create(plan, dir),
            Plan::Remove => {
                let name = self.name(b'n', config.names);
                self.remove(Kind::Remove, dir, name);
            }
            Plan::Rmdir => {
                let (dir, name) = self.own(b'd', 0);
                self.remove(Kind::Rmdir, dir, name);
            }
            Plan::RemoveSymlink => {
                let (dir, name) = self.own(b's', 0);
                self.remove(Kind::Remove, dir, name);
            }
            Plan::RenameOver => self.rename_over(dir),
            Plan::RenameAway => self.rename_away(dir),
            Plan::Link => self.link(),
            Plan::Mkdir | Plan::Symlink => self.make(plan),
        }
    }

    /// A file that stays.
    fn file(&mut self) -> usize {
        self.rng.below(self.world.files.len())
    }

    fn name(&mut self, letter: u8, of: u32) -> Name {
        Name { letter, number: self.rng.below(of as usize) as u32 }
    }

    fn version(&self) -> u64 {
        self.world.versions.fetch_add(1, Ordering::Relaxed)
    }

    fn get(&mut self, handle: Handle) {
        if handle != Handle::NONE {
            let record = Record { object: identity(handle.bytes()), ..Record::new(Kind::Getattr) };
            self.call(record, &Call::Getattr { object: handle.borrow() });
        }
    }

    /// Asked by a stranger, whose rights are the mode's last bits.
    fn access(&mut self) {
        let handle = self.world.files[self.file()];
        let record = Record { object: identity(handle.bytes()), ..Record::new(Kind::Access) };
        self.stranger = 1;
        self.call(record, &Call::Access { object: handle.borrow(), access: access::ALL });
        self.stranger = 0;
    }

    fn readlink(&mut self, handle: Handle) {
        if handle != Handle::NONE {
            let record = Record { object: identity(handle.bytes()), ..Record::new(Kind::Readlink) };
            self.call(record, &Call::Readlink { symlink: handle.borrow() });
        }
    }

    fn look_known(&mut self, plan: Plan, dir: u32) {
        let config = self.world.config;
        if plan == Plan::LookFile {
            let name = self.name(Name::STAYS, config.files);
            self.look(dir, name);
        } else {
            let whose = self.rng.below(config.clients as usize) as u32;
            let names = [(b'o', whose), (b'k', 2 * whose), (b'k', 2 * whose + 1), (b'd', whose), (b's', whose)];
            let (letter, number) = names[self.rng.below(names.len())];
            let (dir, name) = (whose % config.directories, Name { letter, number });
            let (_, found) = self.look(dir, name);
            self.learn(dir, name, found);
        }
    }

    fn look_contested(&mut self, dir: u32) {
        let name = self.name(b'n', self.world.config.names);
        let (_, found) = self.look(dir, name);
        self.learn(dir, name, found);
    }

    fn look(&mut self, dir: u32, name: Name) -> (u32, Handle) {
        let record = Record { at: Some(place(dir, name)), ..Record::new(Kind::Lookup) };
        let handle = self.world.directories[dir as usize];
        self.call(record, &Call::Lookup { what: DirOp { dir: handle.borrow(), name: name.to_string().as_bytes() } })
    }

    /// Remembers what a name leads to that comes and goes, for calls on handles.
    fn learn(&mut self, dir: u32, name: Name, found: Handle) {
        let place = match name.letter {
            b'n' => self.files.get_mut((dir * self.world.config.names + name.number) as usize),
            b's' => self.links.get_mut(name.number as usize),
            _ => None,
        };
        if let Some(place) = place.filter(|_| found != Handle::NONE) {
            *place = found;
        }
    }

    fn list(&mut self, plan: Plan, dir: u32) {
        let handle = self.world.directories[dir as usize];
        let (kind, call) = match plan {
            Plan::Readdir => {
                let call = Call::Readdir { dir: handle.borrow(), cookie: 0, cookieverf: [0; 8], count: PAGE };
                (Kind::Readdir, call)
            }
            _ => {
                let (dir, cookieverf) = (handle.borrow(), [0; 8]);
                (
                    Kind::Readdirplus,
                    Call::Readdirplus { dir, cookie: 0, cookieverf, dircount: PAGE, maxcount: 4 * PAGE },
                )
            }
        };
        self.call(Record { at: Some(Place { dir, name: None }), ..Record::new(kind) }, &call);
    }

    /// Attributes: mostly of files that stay, now and then of what a contested name led to.
    fn change(&mut self, plan: Plan) {
        let known = self.rng.below(self.files.len());
        let handle = match self.rng.chance(0.2) && self.files[known] != Handle::NONE {
            true => self.files[known],
            false => self.world.files[self.file()],
        };
        let (object, file, version) = (identity(handle.bytes()), handle.borrow(), self.version());
        let set = |new_attributes| Call::Setattr { object: file, new_attributes, guard: None };
        let (kind, value, call) = match plan {
            Plan::SetSize => (Kind::SetSize, version, set(Sattr3 { size: Some(version), ..Sattr3::default() })),
            Plan::SetTime => {
                // A second a version: no file system is too coarse for that.
                let mtime = Nfstime3 { seconds: MTIME + version as u32, nseconds: 0 };
                let attributes = Sattr3 { mtime: SetTime::Client(mtime), ..Sattr3::default() };
                (Kind::SetTime, nanos(mtime), set(attributes))
            }
            Plan::SetMode => {
                let mode = if version.is_multiple_of(2) { FILE_MODE } else { FILE_MODE & !0o002 };
                (Kind::SetMode, mode.into(), set(Sattr3 { mode: Some(mode), ..Sattr3::default() }))
            }
            _ => {
                let offset = version - 1;
                (Kind::Write, version, Call::Write { file, offset, count: 1, stable: StableHow::Unstable, data: b"x" })
            }
        };
        self.call(Record { object, value, ..Record::new(kind) }, &call);
    }

    fn create(&mut self, plan: Plan, dir: u32) {
        let name = self.name(b'n', self.world.config.names);
        let attributes = Sattr3 { mode: Some(FILE_MODE), ..Sattr3::default() };
        let (kind, how) = match plan {
            Plan::CreateNew => (Kind::CreateNew, CreateHow::Guarded(attributes)),
            _ => (Kind::CreateOver, CreateHow::Unchecked(Sattr3 { size: Some(0), ..attributes })),
        };
        let (_, found) = self.create_at(kind, dir, name, how);
        self.learn(dir, name, found);
    }

    fn create_at(&mut self, kind: Kind, dir: u32, name: Name, how: CreateHow) -> (u32, Handle) {
        let (handle, text) = (self.world.directories[dir as usize], name.to_string());
        let at = DirOp { dir: handle.borrow(), name: text.as_bytes() };
        self.call(Record { at: Some(place(dir, name)), ..Record::new(kind) }, &Call::Create { place: at, how })
    }

    fn make(&mut self, plan: Plan) {
        let (letter, kind) = if plan == Plan::Mkdir { (b'd', Kind::Mkdir) } else { (b's', Kind::Symlink) };
        let ((dir, name), version) = (self.own(letter, 0), self.version());
        let (handle, text, target) = (self.world.directories[dir as usize], name.to_string(), version.to_string());
        let at = DirOp { dir: handle.borrow(), name: text.as_bytes() };
        let attributes = Sattr3 { mode: Some(0o777), ..Sattr3::default() };
        let record = Record { at: Some(place(dir, name)), value: version, ..Record::new(kind) };
        let call = match plan {
            Plan::Mkdir => Call::Mkdir { place: at, attributes },
            _ => Call::Symlink { place: at, attributes, target: target.as_bytes() },
        };
        let (_, found) = self.call(record, &call);
        self.learn(dir, name, found);
    }

    fn remove(&mut self, kind: Kind, dir: u32, name: Name) -> u32 {
        self.remove_known(kind, dir, name, Handle::NONE)
    }

    fn remove_known(&mut self, kind: Kind, dir: u32, name: Name, victim: Handle) -> u32 {
        let (handle, text) = (self.world.directories[dir as usize], name.to_string());
        let object = DirOp { dir: handle.borrow(), name: text.as_bytes() };
        let call = if kind == Kind::Rmdir { Call::Rmdir { object } } else { Call::Remove { object } };
        self.call(Record { at: Some(place(dir, name)), victim: identity(victim.bytes()), ..Record::new(kind) }, &call).0
    }

    fn rename(&mut self, from: (u32, Name), to: (u32, Name), object: Handle, victim: Handle) -> u32 {
        let (dirs, texts) = (&self.world.directories, [from.1.to_string(), to.1.to_string()]);
        let record = Record {
            at: Some(place(from.0, from.1)),
            to: Some(place(to.0, to.1)),
            object: identity(object.bytes()),
            victim: identity(victim.bytes()),
            ..Record::new(Kind::Rename)
        };
        let end = |dir: u32, text| DirOp { dir: dirs[dir as usize].borrow(), name: text };
        let call = Call::Rename { from: end(from.0, texts[0].as_bytes()), to: end(to.0, texts[1].as_bytes()) };
        self.call(record, &call).0
    }

    /// This client's own directory, and one of its names there.
    fn own(&self, letter: u8, which: u32) -> (u32, Name) {
        let config = self.world.config;
        let each = if letter == b'k' { 2 } else { 1 };
        let number = (self.own.generation * config.clients + self.number) * each + which;
        (self.number % config.directories, Name { letter, number })
    }

    /// Something did not go as it must if nobody else touches these names.
    fn doubt(&mut self) {
        self.own = Own { generation: self.own.generation + 1, ..Own::default() };
    }

    fn rename_over(&mut self, dir: u32) {
        let own = self.own(b'o', 0);
        let Some(fresh) = self.own.fresh else {
            let how = CreateHow::Guarded(Sattr3 { mode: Some(FILE_MODE), ..Sattr3::default() });
            match self.create_at(Kind::CreateNew, own.0, own.1, how) {
                (status::OK, found) if found != Handle::NONE => self.own.fresh = Some(found),
                _ => self.doubt(),
            }
            return;
        };
        let to = self.name(b'n', self.world.config.names);
        match self.rename(own, (dir, to), fresh, Handle::NONE) {
            status::OK => {
                self.own.fresh = None;
                self.learn(dir, to, fresh);
            }
            _ => self.doubt(),
        }
    }

    /// Which object it was is seen afterwards, under the own name.
    fn rename_away(&mut self, dir: u32) {
        let own = self.own(b'o', 0);
        if self.own.fresh.is_some() {
            return;
        }
        let from = self.name(b'n', self.world.config.names);
        match self.rename((dir, from), own, Handle::NONE, Handle::NONE) {
            status::OK => {}
            status::NOENT => return,
            _ => return self.doubt(),
        }
        match self.look(own.0, own.1) {
            (status::OK, found) => self.own.fresh = Some(found),
            _ => self.doubt(),
        }
    }

    fn link(&mut self) {
        let own = [self.own(b'k', 0), self.own(b'k', 1)];
        let again = self.rng.chance(0.5);
        match self.own.links {
            // Over each other: one file loses a name. Not for two names of one file, where RENAME does nothing.
            [Some(from), Some(to)] if from != to => {
                let (object, victim) = (self.world.files[from], self.world.files[to]);
                match self.rename(own[0], own[1], object, victim) {
                    status::OK => self.own.links = [None, Some(from)],
                    _ => self.doubt(),
                }
            }
            [Some(_), Some(file)] => self.unlink(own[1], 1, file),
            [Some(file), None] if again => self.unlink(own[0], 0, file),
            [None, Some(file)] if again => self.unlink(own[1], 1, file),
            [None, _] => self.link_at(own[0], 0),
            [Some(_), None] => self.link_at(own[1], 1),
        }
    }

    fn link_at(&mut self, (dir, name): (u32, Name), which: usize) {
        let number = self.file();
        let (file, handle, text) = (self.world.files[number], self.world.directories[dir as usize], name.to_string());
        let link = DirOp { dir: handle.borrow(), name: text.as_bytes() };
        let record = Record { at: Some(place(dir, name)), object: identity(file.bytes()), ..Record::new(Kind::Link) };
        match self.call(record, &Call::Link { file: file.borrow(), link }).0 {
            status::OK => self.own.links[which] = Some(number),
            _ => self.doubt(),
        }
    }

    fn unlink(&mut self, (dir, name): (u32, Name), which: usize, file: usize) {
        match self.remove_known(Kind::Remove, dir, name, self.world.files[file]) {
            status::OK => self.own.links[which] = None,
            _ => self.doubt(),
        }
    }

    /// Makes a call and writes it down, from its first sending to its answer: its status, and the handle that it gave.
    fn call(&mut self, mut record: Record, call: &Call<'_>) -> (u32, Handle) {
        let stamp = self.world.stamps.fetch_add(1, Ordering::Relaxed);
        let credential = self.caller().encode(stamp, self.world.machine.as_bytes());
        record.client = self.number;
        record.start = self.world.clock.now();
        let (sent, answer) = self.line.call(&credential, call);
        record.end = self.world.clock.now();
        let found = answer.map_or(Handle::NONE, |reply| take(&mut record, &reply, self.world));
        (record.target, record.again) = (self.line.target(), sent.again);
        self.count(&record, sent);
        self.scribe.add(&record);
        (record.status, found)
    }

    fn count(&self, record: &Record, sent: Sent) {
        let World { counts, left, .. } = self.world;
        let _ = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        let add = |count: &AtomicU64, so: bool| count.fetch_add(u64::from(so), Ordering::Relaxed);
        add(&counts.silent, record.status == SILENT);
        add(&counts.resent, sent.again > 0);
        add(&counts.elsewhere, sent.elsewhere);
        add(&counts.late, record.kind.changes() && sent.late > LATE);
        if !EXPECTED.contains(&record.status) {
            add(&counts.failed, true);
            let _first = counts.strange.set((record.kind.name(), record.status));
        }
    }
}

/// What a reply shows; the handle that it gave.
fn take(record: &mut Record, reply: &Reply<'_>, world: &World<'_>) -> Handle {
    let directories = &world.directories;
    record.status = reply.status().0;
    let (handle, object, directory) = told(reply);
    record.found = handle.map_or(0, identity);
    let whose = if record.found == 0 { record.object } else { record.found };
    if let Some(attributes) = object.filter(|_| whose != 0) {
        match world.fileids.own(whose, attributes.fileid, reply) {
            true => record.seen.push(seen(whose, &attributes)),
            false => drop(world.counts.mixed.fetch_add(1, Ordering::Relaxed)),
        }
    }
    let parent = record.at.map(|at| identity(directories[at.dir as usize].bytes()));
    record.seen.extend(directory.zip(parent).map(|(attributes, parent)| seen(parent, &attributes)));
    match reply {
        Reply::Access(Ok(granted)) => record.result = granted.access.into(),
        Reply::Rename(done) => {
            let after = done.unwrap_or_else(|failed| failed.attributes).to.after;
            let parent = record.to.map(|to| identity(directories[to.dir as usize].bytes()));
            record.seen.extend(after.zip(parent).map(|(attributes, parent)| seen(parent, &attributes)));
        }
        Reply::Readlink(Ok(link)) => {
            let text = std::str::from_utf8(link.data).ok();
            record.result = text.and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
        }
        Reply::Readdir(Ok(page)) => {
            let mut entries = page.entries();
            let names = entries.by_ref().map_while(Result::ok).filter_map(|entry| Name::parse(entry.name));
            record.names = names.map(|name| (name, 0)).collect();
            record.complete = entries.eof() == Some(true);
        }
        Reply::Readdirplus(Ok(page)) => {
            let mut entries = page.entries();
            for plus in entries.by_ref().map_while(Result::ok) {
                let Some(name) = Name::parse(plus.entry.name) else { continue };
                let object = plus.handle.map_or(0, |handle| identity(handle.bytes()));
                record.names.push((name, object));
                // A name that changed its object meanwhile may come with the attributes of another one (Ganesha, measured).
                let own = plus.attributes.filter(|told| object != 0 && told.fileid == plus.entry.fileid);
                record.seen.extend(own.map(|attributes| seen(object, &attributes)));
            }
            record.complete = entries.eof() == Some(true);
        }
        _ => {}
    }
    handle.and_then(midas_nfs::nfs3::FileHandle::new).map_or(Handle::NONE, Handle::from)
}

fn seen(object: u64, attributes: &Fattr3) -> Attributes {
    Attributes {
        object,
        ftype: attributes.ftype as u32,
        size: attributes.size,
        mtime: nanos(attributes.mtime),
        ctime: nanos(attributes.ctime),
        nlink: attributes.nlink,
        mode: attributes.mode & 0o7777,
    }
}

fn place(dir: u32, name: Name) -> Place {
    Place { dir, name: Some(name) }
}

/// A handle as a number: 64 bits of a hash, 0 for none.
pub(super) fn identity(handle: &[u8]) -> u64 {
    if handle.is_empty() {
        return 0;
    }
    let hash = handle.iter().fold(handle.len() as u64, |hash, byte| mix(hash ^ u64::from(*byte) << 56));
    hash.max(1)
}

fn nanos(time: Nfstime3) -> u64 {
    u64::from(time.seconds) * 1_000_000_000 + u64::from(time.nseconds)
}

/// READDIR's count; READDIRPLUS may be four times as long.
const PAGE: u32 = 16 << 10;
/// Versions as times count from here: 2001.
const MTIME: u32 = 1_000_000_000;
/// How calls of this load may end: names come and go, and objects with them. Nothing else can happen to it that is not a fault.
const EXPECTED: [u32; 4] = [status::OK, status::NOENT, status::EXIST, status::STALE];
/// Sent again later than this, a call waited for more than a restart: proxies had to find out what had become of it.
const LATE: Duration = Duration::from_secs(5);
