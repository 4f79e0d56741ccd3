//! Fills a cache before it is needed: a walk over directories at the servers, on a thread of its own, one call at a time.
//!
//! It teaches the cache what replies to clients would, under the same rules: each call's moment is taken before it leaves, so a mutation
//! in between refuses what it brings. One walk at a time in a daemon; it ends when nobody listens any more.

use super::explain::{names, walk};
use super::routes::Refusal;
use crate::api::{Warm, Warming};
use crate::cached::{Area, Epoch, Learned, Who};
use crate::clock::duration;
use crate::event::Shared;
use crate::log;
use crate::realm::{Makes, Realm};
use crate::translate::Meaning;
use crate::whose::Owner;
use axum::http::StatusCode;
use hyper::body::{Body, Bytes, Frame};
use midas_core::cache::Left;
use midas_core::id::ServerId;
use midas_core::key::Key;
use midas_core::op::Op;
use midas_core::time::Time;
use midas_net::{Caller, Client, ClientError};
use midas_nfs::nfs3::{self, Call, DirOp, FileHandle, Ftype3, Nfsstat3, Procedure, ReaddirplusOk, Reply};
use midas_nfs::rpc::{AuthSys, Credential};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, Sender};

/// A walk that may begin.
pub(super) struct Walk {
    alone: Alone,
    /// The next one last: what is deep is read first, so little waits.
    ahead: Vec<Ahead>,
    depth: u32,
    limit: u64,
    caller: Caller,
    who: Who,
    lines: Vec<(SocketAddr, Client)>,
    so_far: Warming,
}

/// A directory that is to be read.
struct Ahead {
    export: usize,
    handle: Vec<u8>,
    path: String,
    depth: u32,
}

/// When a call left, and whose cache is to learn from it.
#[derive(Clone, Copy)]
struct Asked<'e> {
    area: &'e Area,
    left: Left,
    epoch: Option<Epoch>,
}

/// Why a walk goes no further.
enum Stop {
    /// Nobody listens.
    Gone,
    /// As it should.
    Done(String),
    Broken(String),
}

/// Checks what is asked, and finds where to begin: waits for a server.
pub(super) fn begin(shared: &Arc<Shared>, asked: &Warm) -> Result<Walk, Refusal> {
    let gids = asked.gids.clone();
    let caller = Caller { uid: asked.uid, gid: asked.gid, gids };
    let sys = AuthSys::new(0, b"", caller.uid, caller.gid, &caller.gids)
        .ok_or_else(|| Refusal::wrong(format!("a call carries at most {} further groups", AuthSys::GIDS)))?;
    let who = Who::of(&Credential::Sys(sys));
    if asked.paths.is_empty() {
        return Err(Refusal::wrong("no path to begin with"));
    }
    let ahead = asked.paths.iter().rev().map(|path| first(shared, path)).collect::<Result<_, _>>()?;
    let alone =
        Alone::of(shared).ok_or_else(|| Refusal(StatusCode::CONFLICT, "another walk is under way".to_owned()))?;
    let (depth, limit) = (asked.depth.unwrap_or(u32::MAX), asked.limit.unwrap_or(LIMIT));
    Ok(Walk { alone, ahead, depth, limit, caller, who, lines: Vec::new(), so_far: Warming::default() })
}

fn first(shared: &Shared, path: &str) -> Result<Ahead, Refusal> {
    let (export, names) = names(shared, path)?;
    let now = || export.pool.time(Instant::now());
    if let Some(why) = keeps_nothing(export, export.areas.at(&names), now()) {
        return Err(Refusal::wrong(why));
    }
    let left = export.areas.epoch(export.pool.time(Instant::now()));
    let handle = walk(export, &names)?;
    export.areas.learn_path(now(), left, names.iter().map(|name| name.as_bytes()), &handle);
    Ok(Ahead { export: export.number, handle, path: path.to_owned(), depth: 0 })
}

/// Why what is read now would not be kept, or not be true for long enough.
fn keeps_nothing(export: &Realm, area: &Area, now: Time) -> Option<String> {
    if area.cached.answers(now) {
        return None;
    }
    let (path, modes) = (&area.path, export.modes());
    Some(match modes.demoted {
        _ if area.cached.mode().answers() => {
            "nothing would be kept yet: changes that began before the mode was set may still run".to_owned()
        }
        Some(why) => format!("nothing would be kept: {path} was put back to strict: {why}"),
        None if export.bypassed() => "nothing would be kept: bypass is on".to_owned(),
        None => format!("nothing would be kept: the mode of {path} is strict (`midas set {path} mode=..`)"),
    })
}

impl Walk {
    /// Walks to the end, and says how far it is from time to time.
    pub(super) fn run(mut self, say: &Sender<Vec<u8>>) {
        let stop = self.walk(say);
        self.so_far.ahead = self.ahead.len() as u64;
        (self.so_far.ended, self.so_far.broken) = match stop {
            Stop::Gone => (Some("cancelled".to_owned()), false),
            Stop::Done(how) => (Some(how), false),
            Stop::Broken(why) => (Some(why), true),
        };
        let Warming { directories, names, ended, .. } = &self.so_far;
        let how = ended.as_deref().unwrap_or_default();
        log::info("cache warmed", &[("directories", directories), ("names", names), ("ended", &how)]);
        // Gone or not: it has ended.
        let _gone = say.blocking_send(line(&self.so_far));
    }

    fn walk(&mut self, say: &Sender<Vec<u8>>) -> Stop {
        let mut said = Instant::now();
        let shared = Arc::clone(&self.alone.0);
        while let Some(next) = self.ahead.pop() {
            let export = &shared.exports[next.export];
            match self.directory(export, &next, say) {
                Ok(()) => self.so_far.directories += 1,
                Err(Some(stop)) => return stop,
                Err(None) => self.so_far.failed += 1,
            }
            self.so_far.at = next.path;
            if said.elapsed() >= EVERY {
                said = Instant::now();
                self.so_far.ahead = self.ahead.len() as u64;
                if say.blocking_send(line(&self.so_far)).is_err() {
                    return Stop::Gone;
                }
            }
        }
        Stop::Done("complete".to_owned())
    }

    /// Reads a directory; once more if the connection fails. None if it cannot be read.
    fn directory(&mut self, export: &Realm, at: &Ahead, say: &Sender<Vec<u8>>) -> Result<(), Option<Stop>> {
        let mut again = true;
        loop {
            let knows = export.knows_names(Instant::now(), Key::of(&at.handle));
            let server = knows.or_else(|| export.pool.some_open(0));
            let server = server.ok_or_else(|| Some(Stop::Broken("no server takes calls".to_owned())))?;
            match self.pages(export, server, at, say) {
                Ok(()) => return Ok(()),
                Err(Fault::Stop(stop)) => return Err(Some(stop)),
                Err(Fault::Call(ClientError::Status(_) | ClientError::Malformed(_))) => return Err(None),
                Err(Fault::Call(error)) => {
                    self.lines.clear();
                    if !std::mem::take(&mut again) {
                        let name = &export.pool.server(server).name;
                        return Err(Some(Stop::Broken(format!("{name}: {error}"))));
                    }
                }
            }
        }
    }

    fn pages(&mut self, export: &Realm, server: ServerId, at: &Ahead, say: &Sender<Vec<u8>>) -> Result<(), Fault> {
        let dir = FileHandle::new(&at.handle).ok_or(Fault::Call(ClientError::Status(Nfsstat3::BADHANDLE)))?;
        self.may_search(export, server, dir)?;
        let (mut cookie, mut cookieverf) = (0, [0; 8]);
        loop {
            let call = Call::Readdirplus { dir, cookie, cookieverf, dircount: PAGE, maxcount: PAGE };
            let (left, results) = self.ask(export, server, dir, &call)?;
            let page = match Reply::decode(Procedure::Readdirplus, &results).map_err(ClientError::Malformed)? {
                Reply::Readdirplus(Ok(page)) => page,
                failed => return Err(Fault::Call(ClientError::Status(failed.status()))),
            };
            self.learn(export, server, (dir, left), &results, &page);
            let mut entries = page.entries();
            let before = cookie;
            for plus in entries.by_ref() {
                let plus = plus.map_err(ClientError::Malformed)?;
                cookie = plus.entry.cookie;
                if matches!(plus.entry.name, b"." | b"..") {
                    continue;
                }
                self.so_far.names += 1;
                if let (Some(Ftype3::Dir), Some(handle)) = (plus.attributes.map(|it| it.ftype), plus.handle) {
                    self.later(at, plus.entry.name, handle);
                }
            }
            self.go_on(say)?;
            // Neither names nor an end: going on would go on for ever.
            if entries.eof() == Some(true) || cookie == before {
                return Ok(());
            }
            cookieverf = page.cookieverf;
        }
    }

    /// Whether the walk is still wanted.
    fn go_on(&self, say: &Sender<Vec<u8>>) -> Result<(), Fault> {
        Err(Fault::Stop(match () {
            () if say.is_closed() => Stop::Gone,
            () if self.so_far.names >= self.limit => Stop::Done(format!("at the limit of {} names", self.limit)),
            () => return Ok(()),
        }))
    }

    fn later(&mut self, at: &Ahead, name: &[u8], handle: FileHandle<'_>) {
        if at.depth >= self.depth {
            return;
        }
        if self.ahead.len() >= AHEAD {
            self.so_far.failed += 1;
            return;
        }
        let path = format!("{}/{}", at.path.trim_end_matches('/'), String::from_utf8_lossy(name));
        self.ahead.push(Ahead { export: at.export, handle: handle.bytes().to_vec(), path, depth: at.depth + 1 });
    }

    /// A name is answered to those of whom it is known that they may look it up: the walk's user may, if this succeeds.
    fn may_search(&mut self, export: &Realm, server: ServerId, dir: FileHandle<'_>) -> Result<(), Fault> {
        let what = DirOp { dir, name: b"." };
        let (left, results) = self.ask(export, server, dir, &Call::Lookup { what })?;
        let meaning = Meaning::on(Op::Lookup, dir, b".");
        let honest = honest(export, (server, left.left.at), &meaning, Procedure::Lookup, &results);
        if let Ok(Reply::Lookup(Ok(found))) = Reply::decode(Procedure::Lookup, honest.as_deref().unwrap_or(&results)) {
            let now = export.pool.time(Instant::now());
            self.count(left.area.cached.learn_found(now, left.left, &what, &self.who, &found));
        }
        Ok(())
    }

    fn learn(
        &mut self,
        export: &Realm,
        server: ServerId,
        (dir, left): (FileHandle<'_>, Asked<'_>),
        results: &[u8],
        page: &ReaddirplusOk<'_>,
    ) {
        let (procedure, now) = (Procedure::Readdirplus, export.pool.time(Instant::now()));
        self.alone.0.whose.learn_page(Owner::Export(export.number), dir, page);
        let meaning = Meaning::on(Op::List, dir, b"");
        let reply = Reply::Readdirplus(Ok(*page));
        self.alone.0.watch.names.learn_from(meaning.place, None, &reply);
        export.pool.learn_homes(meaning.place, None, &reply);
        export.areas.learn_from(now, left.epoch, &meaning, &reply);
        let honest = honest(export, (server, left.left.at), &meaning, procedure, results);
        let learned = match honest.as_deref().map(|honest| Reply::decode(procedure, honest)) {
            None => left.area.cached.learn_names(now, left.left, dir, &self.who, page),
            Some(Ok(Reply::Readdirplus(Ok(page)))) => {
                left.area.cached.learn_names(now, left.left, dir, &self.who, &page)
            }
            Some(_) => Learned::default(),
        };
        self.count(learned);
    }

    fn count(&mut self, learned: Learned) {
        self.so_far.kept += learned.kept;
        self.so_far.refused += learned.refused;
    }

    /// One call's results, and when and for which part of the export it was asked. Where nothing would be kept it is not: the walk ends
    /// if nothing is kept anywhere.
    fn ask<'e>(
        &mut self,
        export: &'e Realm,
        server: ServerId,
        dir: FileHandle<'_>,
        call: &Call<'_>,
    ) -> Result<(Asked<'e>, Vec<u8>), Fault> {
        let address = export.pool.server(server).address;
        let line = match self.lines.iter().position(|(at, _)| *at == address) {
            Some(line) => line,
            None => {
                let patience = duration(export.pool.config.call_timeout);
                let client = Client::connect(address, &self.caller, patience).map_err(ClientError::Io)?;
                self.lines.push((address, client));
                self.lines.len() - 1
            }
        };
        let now = export.pool.time(Instant::now());
        let (areas, kept) = (&export.areas, |area: &Area| area.cached.answers(now));
        let Some(area) = areas.of(now, Key::of(dir.bytes())).filter(|area| kept(area)) else {
            let why = keeps_nothing(export, areas.own(), now).filter(|_| !areas.iter().any(kept));
            return Err(
                why.map_or(Fault::Call(ClientError::Status(Nfsstat3::NOTSUPP)), |why| Fault::Stop(Stop::Broken(why)))
            );
        };
        let left = Asked { area, left: area.cached.left(now), epoch: areas.epoch(now) };
        let client = &mut self.lines[line].1;
        let results = client.call(nfs3::PROGRAM, nfs3::VERSION, call.procedure() as u32, |out| call.encode(out))?;
        Ok((left, results.to_vec()))
    }
}

/// The results of a call that left then without what the server may not know; none if they are as they are.
fn honest(
    export: &Realm,
    (server, left): (ServerId, Time),
    of: &Meaning,
    procedure: Procedure,
    results: &[u8],
) -> Option<Vec<u8>> {
    let now = export.pool.time(Instant::now());
    export.stale().then(|| export.honest((now, left), server, (of, Makes::Unknown), procedure, results)).flatten()
}

/// Why a directory is not read.
enum Fault {
    Stop(Stop),
    Call(ClientError),
}

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Self {
        Self::Call(error)
    }
}

/// The one walk that a daemon has.
struct Alone(Arc<Shared>);

impl Alone {
    fn of(shared: &Arc<Shared>) -> Option<Self> {
        (!shared.warming.swap(true, Ordering::AcqRel)).then(|| Self(Arc::clone(shared)))
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.warming.store(false, Ordering::Release);
    }
}

fn line(so_far: &Warming) -> Vec<u8> {
    let mut line = serde_json::to_vec(so_far).expect("counts and text");
    line.push(b'\n');
    line
}

/// What a walk says, as the body of an answer.
pub(super) struct Lines(pub(super) Receiver<Vec<u8>>);

impl Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        self.0.poll_recv(task).map(|line| line.map(|line| Ok(Frame::data(line.into()))))
    }
}

/// Lines that wait to be read by whoever listens; then the walk waits.
pub(super) const LINES: usize = 4;
/// How often the walk says how far it is.
const EVERY: Duration = Duration::from_millis(200);
/// Names, if nobody says.
const LIMIT: u64 = 1_000_000;
/// Directories that are known and not yet read; those beyond are left out.
const AHEAD: usize = 1 << 18;
/// Bytes of a page; servers send less if they like.
const PAGE: u32 = 64 << 10;
