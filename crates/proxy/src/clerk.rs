//! What waits for servers and so has no place in an event loop: directories to mount, whose a handle is, whether a call was executed.
//! A few threads, a bounded queue.

use crate::clock::duration;
use crate::event::{Asker, Mail, Mailbox, Shared};
use crate::log;
use crate::mountd::Below;
use crate::pool::Pool;
use crate::realm::Realm;
use crate::verify::{self, Doubt, Verdict};
use crate::whose::Owner;
use midas_core::key::Key;
use midas_net::{Caller, Client};
use midas_nfs::nfs3::{Call, DirOp, FileHandle, Nfsstat3, Reply};
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Something to find out.
pub(crate) enum Job {
    /// A directory to mount.
    Find { below: Below, client: IpAddr, xid: u32, asker: Asker },
    /// Something that a call must wait for; for this loop.
    Sort { unknown: Unknown, event_loop: usize },
    /// Whether a call was executed; for this loop.
    Verify { doubt: Doubt, event_loop: usize, about: About },
}

/// Which call is meant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum About {
    /// One that was taken from its server, by its number.
    Recalled(usize),
    /// One that waits on a link for its server, by its xid.
    Waiting { link: usize, xid: u32 },
}

/// What must be known before a call can be taken.
#[derive(Clone, Debug)]
pub(crate) enum Unknown {
    /// Whose a handle is.
    Owner(Vec<u8>),
    /// Which object a name leads to, as this user sees it (see `fencing`).
    Target { realm: usize, dir: Vec<u8>, name: Vec<u8>, caller: Caller },
}

impl Unknown {
    /// Two with the same key are one.
    pub(crate) fn key(&self) -> Key {
        match self {
            Self::Owner(handle) => Key::of(handle),
            Self::Target { dir, name, .. } => Key::of(dir).named(name),
        }
    }
}

/// How jobs are given to the clerks.
#[derive(Clone)]
pub(crate) struct Desk(SyncSender<Job>);

impl Desk {
    /// Gives a job; it comes back if there are too many.
    pub(crate) fn give(&self, job: Job) -> Result<(), Job> {
        self.0.try_send(job).map_err(|error| match error {
            TrySendError::Full(job) | TrySendError::Disconnected(job) => job,
        })
    }
}

/// A desk and the jobs that are given to it.
pub(crate) fn desk() -> (Desk, Receiver<Job>) {
    let (give, jobs) = sync_channel(JOBS);
    (Desk(give), jobs)
}

/// Starts the threads; they end when every desk is gone.
pub(crate) fn start(shared: &Arc<Shared>, mailboxes: &[Mailbox], jobs: Receiver<Job>) -> Vec<JoinHandle<()>> {
    let jobs = Arc::new(Mutex::new(jobs));
    let clerk = |_| {
        let (shared, mailboxes, jobs) = (Arc::clone(shared), mailboxes.to_vec(), Arc::clone(&jobs));
        thread::spawn(move || {
            loop {
                let job = crate::pool::lock(&jobs).recv();
                let Ok(job) = job else { return };
                let (event_loop, mail) = job.done(&shared);
                mailboxes[event_loop].send(mail);
            }
        })
    };
    (0..CLERKS).map(clerk).collect()
}

impl Job {
    fn done(self, shared: &Shared) -> (usize, Mail) {
        match self {
            Self::Find { below, client, xid, asker } => {
                (asker.event_loop as usize, Mail::Answer(asker, below.find(shared, client, xid)))
            }
            Self::Sort { unknown, event_loop } => {
                let stale = sort(shared, &unknown);
                (event_loop, Mail::Sorted { key: unknown.key(), stale })
            }
            Self::Verify { doubt, event_loop, about } => {
                let pool = &shared.exports[doubt.realm].pool;
                let verdict = verify::look(pool, &doubt);
                let outcome = match &verdict {
                    Verdict::Answer(_) => "it was executed, and is answered",
                    Verdict::Send => "it is sent",
                    Verdict::Unknown => "not known yet",
                };
                let (asked, call) = (&pool.server(doubt.witness).name, doubt.procedure);
                log::info("call in doubt", &[("asked", asked), ("call", &call), ("outcome", &outcome)]);
                (event_loop, Mail::Verified { about, verdict })
            }
        }
    }
}

/// Finds out; whether there is no such object anywhere.
fn sort(shared: &Shared, unknown: &Unknown) -> bool {
    match unknown {
        Unknown::Owner(handle) => {
            let owner = whose(shared, handle);
            if let Found::Of(owner) = owner {
                shared.whose.learn(Key::of(handle), owner);
            }
            matches!(owner, Found::Nowhere)
        }
        Unknown::Target { realm, dir, name, caller } => {
            let export = &shared.exports[*realm];
            let object = target(export, dir, name, caller);
            export.learn_target(Key::of(dir), name, object);
            false
        }
    }
}

/// Asks the server that knows a directory's names.
fn target(export: &Realm, dir: &[u8], name: &[u8], caller: &Caller) -> Option<Key> {
    let pool = &export.pool;
    let server = export.knows_names(Instant::now(), Key::of(dir))?;
    let what = DirOp { dir: FileHandle::new(dir)?, name };
    let mut nfs = Client::connect(pool.server(server).address, caller, duration(pool.config.probe_timeout)).ok()?;
    match nfs.nfs(&Call::Lookup { what }).ok()? {
        Reply::Lookup(Ok(found)) => Some(Key::of(found.object.bytes())),
        _ => None,
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Found {
    Of(Owner),
    /// Every pool was asked and none knows it.
    Nowhere,
    /// Not every pool could be asked.
    Unknown,
}

/// Whose a handle is: as it is known, or as one server of every pool says of the handle's file system.
pub(crate) fn whose(shared: &Shared, handle: &[u8]) -> Found {
    if let Some(owner) = shared.whose.of(handle) {
        return Found::Of(owner);
    }
    let mut found = Found::Nowhere;
    for (number, pool) in shared.pools.iter().enumerate() {
        match fsid(pool, handle) {
            Some(Ok(fsid)) => return Found::Of(owner(shared, number, fsid)),
            Some(Err(Nfsstat3::STALE | Nfsstat3::BADHANDLE)) => {}
            Some(Err(_)) | None => found = Found::Unknown,
        }
    }
    found
}

fn owner(shared: &Shared, pool: usize, fsid: u64) -> Owner {
    let of_pool = || shared.exports.iter().filter(|export| Arc::ptr_eq(&export.pool, &shared.pools[pool]));
    let has = |export: &&Realm| export.agreed().as_ref().as_ref().is_some_and(|it| it.fsid == fsid);
    let mut with = of_pool().filter(has);
    match (with.next(), with.next(), of_pool().count()) {
        (Some(one), None, _) => Owner::Export(one.number),
        // A file system that is mounted below the only export.
        (None, _, 1) => of_pool().next().map_or(Owner::Pool(pool), |one| Owner::Export(one.number)),
        _ => Owner::Pool(pool),
    }
}

fn fsid(pool: &Pool, handle: &[u8]) -> Option<Result<u64, Nfsstat3>> {
    let server = pool.server(pool.some_open(0)?);
    let Some(object) = FileHandle::new(handle) else { return Some(Err(Nfsstat3::BADHANDLE)) };
    let patience = duration(pool.config.probe_timeout);
    let mut nfs = Client::connect(server.address, &Caller::ROOT, patience).ok()?;
    match nfs.nfs(&Call::Getattr { object }).ok()? {
        Reply::Getattr(Ok(attributes)) => Some(Ok(attributes.fsid)),
        failed => Some(Err(failed.status())),
    }
}

const CLERKS: usize = 4;
/// Jobs that wait.
const JOBS: usize = 1024;
