//! What waits for servers and so has no place in an event loop: directories to mount, whose a handle is, whether a call was executed.
//! A few threads, a bounded queue.

use crate::clock::duration;
use crate::event::{Asker, Mail, Mailbox, Shared};
use crate::log;
use crate::mountd::Below;
use crate::pool::Pool;
use crate::verify::{self, Doubt, Verdict};
use crate::whose::Owner;
use midas_core::key::Key;
use midas_net::{Caller, Client};
use midas_nfs::nfs3::{Call, FileHandle, Nfsstat3, Reply};
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// Something to find out.
pub(crate) enum Job {
    /// A directory to mount.
    Find { below: Below, client: IpAddr, xid: u32, asker: Asker },
    /// Whose a handle is; for this loop.
    Whose { handle: Vec<u8>, event_loop: usize },
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
                (asker.event_loop, Mail::Answer(asker, below.find(shared, client, xid)))
            }
            Self::Whose { handle, event_loop } => {
                let owner = whose(shared, &handle);
                if let Found::Of(owner) = owner {
                    shared.whose.learn(Key::of(&handle), owner);
                }
                (event_loop, Mail::Sorted { handle: Key::of(&handle), stale: matches!(owner, Found::Nowhere) })
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
    if let Some(owner) = shared.whose.of(Key::of(handle)) {
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
    let has = |export: &&crate::realm::Realm| export.agreed().as_ref().as_ref().is_some_and(|it| it.fsid == fsid);
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
