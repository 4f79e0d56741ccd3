//! Asks the servers how they are: a thread for each, with a patience of its own, so that one that hangs delays no other. And runs
//! the controller.
//!
//! A server is admitted if its export has the same root handle, fsid and fileid as the others': otherwise it is quarantined. Health is
//! an answer to GETATTR of the root, not a connection.

use crate::clock::duration;
use crate::event::Shared;
use crate::realm::Agreed;
use midas_core::health::Health;
use midas_core::id::ServerId;
use midas_core::time::Time;
use midas_net::{Caller, Client, ClientError};
use midas_nfs::nfs3::{Call, FileHandle, Nfsstat3, Reply};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Starts the threads; they end with the daemon.
pub(crate) fn start(shared: &Arc<Shared>) -> Vec<JoinHandle<()>> {
    let ids = shared.realm.servers.ids();
    let mut threads: Vec<JoinHandle<()>> = ids
        .map(|server| {
            let shared = Arc::clone(shared);
            thread::spawn(move || watch(&shared, server))
        })
        .collect();
    let shared = Arc::clone(shared);
    threads.push(thread::spawn(move || regulate(&shared)));
    threads
}

fn regulate(shared: &Shared) {
    while pause(shared, CONTROL) {
        shared.realm.tick(Instant::now());
    }
}

fn watch(shared: &Shared, server: ServerId) {
    let realm = &shared.realm;
    let interval = duration(realm.pool.probe_interval);
    let (mut client, mut failed) = (None, false);
    loop {
        let asked = Instant::now();
        let found = probe(shared, server, &mut client);
        if found.is_err() {
            (client, failed) = (None, true);
        }
        let now = realm.time(Instant::now());
        match (found, realm.servers.health(server)) {
            // It was there before this daemon: nothing speaks against it, and it need not start slowly.
            (Ok(true), Health::Down) if !failed => realm.servers.set_health(Time::ZERO, server, Health::Up),
            (Ok(true), Health::Down | Health::Quarantined) => {
                realm.servers.set_health(now, server, Health::Probation);
            }
            (Ok(false), Health::Up | Health::Probation | Health::Failing | Health::Down | Health::Quarantined) => {
                realm.servers.set_health(now, server, Health::Quarantined);
            }
            (Err(_), Health::Up | Health::Probation | Health::Failing) => {
                realm.servers.set_health(now, server, Health::Down);
            }
            (Ok(true), Health::Up | Health::Probation | Health::Failing)
            | (Ok(_), Health::Drained)
            | (Err(_), Health::Down | Health::Drained | Health::Quarantined) => {}
        }
        if !pause(shared, interval.saturating_sub(asked.elapsed())) {
            return;
        }
    }
}

/// One look at a server: whether it belongs to the pool, or why it does not answer.
fn probe(shared: &Shared, server: ServerId, client: &mut Option<(Client, Agreed)>) -> Result<bool, ClientError> {
    let realm = &shared.realm;
    let of = &realm.pool.servers[server.index()];
    let patience = duration(realm.pool.probe_timeout);
    let (nfs, seen) = match client {
        Some(known) => known,
        None => {
            let mut mount = Client::connect(of.mount, &Caller::ROOT, patience)?;
            let root = mount.mount(realm.export.source.as_bytes())?.root;
            let mut nfs = Client::connect(of.address, &Caller::ROOT, patience)?;
            let seen = look(&mut nfs, root)?;
            client.insert((nfs, seen))
        }
    };
    let asked = Instant::now();
    nfs.nfs(&Call::Null)?;
    realm.round_trip(server, asked.elapsed());
    let root = FileHandle::new(&seen.root).ok_or(ClientError::Status(Nfsstat3::BADHANDLE))?;
    match nfs.nfs(&Call::Getattr { object: root })? {
        Reply::Getattr(Ok(_)) => Ok(realm.admit(seen.clone())),
        failed => Err(ClientError::Status(failed.status())),
    }
}

/// What a server says of its export.
fn look(nfs: &mut Client, root: Vec<u8>) -> Result<Agreed, ClientError> {
    let handle = FileHandle::new(&root).ok_or(ClientError::Status(Nfsstat3::BADHANDLE))?;
    let attributes = match nfs.nfs(&Call::Getattr { object: handle })? {
        Reply::Getattr(Ok(attributes)) => attributes,
        failed => return Err(ClientError::Status(failed.status())),
    };
    let limits = match nfs.nfs(&Call::Fsinfo { fsroot: handle })? {
        Reply::Fsinfo(Ok(limits)) => Some(limits),
        _ => None,
    };
    Ok(Agreed { fsid: attributes.fsid, fileid: attributes.fileid, limits, root })
}

/// Sleeps in short steps; false when the daemon ends.
fn pause(shared: &Shared, span: Duration) -> bool {
    let until = Instant::now() + span;
    loop {
        if shared.stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(STEP));
    }
}

/// The controller's fast tick.
const CONTROL: Duration = Duration::from_millis(250);
/// How long a thread may go on after the daemon was told to end.
const STEP: Duration = Duration::from_millis(50);
