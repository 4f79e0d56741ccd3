//! Asks the servers how they are: a thread for each, with a patience of its own, so that one that hangs delays no other.
//!
//! A server is admitted if its export has the same root handle, fsid and fileid as the others': otherwise it is quarantined. Health is
//! an answer to GETATTR of the root, not a connection.

use crate::agreed::Agreed;
use crate::clock::duration;
use crate::config::Access;
use crate::cookies;
use crate::event::Shared;
use crate::log;
use crate::pool::{Pool, lock};
use crate::realm::Realm;
use crate::whose::{DEPTH_MAX, Id, id};
use midas_core::cache::Mode;
use midas_core::health::Health;
use midas_core::id::ServerId;
use midas_core::key::Key;
use midas_net::{Caller, Client, ClientError};
use midas_nfs::nfs3::{Call, FileHandle, Nfsstat3, PathconfOk, Reply};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Starts the threads; they end with the daemon.
pub(crate) fn start(shared: &Arc<Shared>) -> Vec<JoinHandle<()>> {
    let mut threads = Vec::new();
    for number in 0..shared.pools.len() {
        for server in shared.pools[number].servers.ids() {
            let shared = Arc::clone(shared);
            threads.push(thread::spawn(move || watch(&shared, number, server)));
        }
    }
    threads
}

/// The exports that a pool serves.
pub(crate) fn exports<'s>(shared: &'s Shared, pool: &Arc<Pool>) -> impl Iterator<Item = &'s Realm> {
    shared.exports.iter().filter(move |export| Arc::ptr_eq(&export.pool, pool))
}

fn watch(shared: &Shared, number: usize, server: ServerId) {
    let pool = &shared.pools[number];
    let interval = duration(pool.config.probe_interval);
    let (mut client, mut fresh) = (None, true);
    loop {
        let asked = Instant::now();
        let found = probe(shared, pool, server, &mut client);
        if found.is_err() {
            client = None;
            exports(shared, pool).for_each(|export| export.silent(server, &shared.whose));
        }
        // As long as others must be heard it is asked again soon.
        let undecided = matches!(found, Ok(Standing::Undecided));
        let wait = if undecided { STEP } else { interval };
        admit(pool, server, found, (client.as_ref(), fresh));
        fresh &= undecided;
        if !pause(shared, wait.saturating_sub(asked.elapsed())) {
            return;
        }
    }
}

/// How a server stands to the pool.
enum Standing {
    Belongs,
    /// Why not.
    Foreign(String),
    /// Others must be heard first.
    Undecided,
}

/// Takes what was found to heart. Before a server takes calls it is asked whether listings may go on there.
fn admit(pool: &Pool, server: ServerId, found: Result<Standing, ClientError>, (known, fresh): (Option<&Known>, bool)) {
    let closed = matches!(pool.servers.health(server), Health::Down | Health::Quarantined);
    let (true, Ok(Standing::Belongs), Some((_, seen))) = (closed, &found, known) else {
        return judge(pool, server, found, fresh);
    };
    let _one = lock(&pool.admission);
    let roots: Vec<Vec<u8>> = seen.iter().map(|(_, seen)| seen.root.clone()).collect();
    cookies::ask(pool, server, &roots);
    judge(pool, server, found, fresh);
}

/// What is found of a server becomes its health; `fresh`: it was not judged before, and has never failed to answer.
fn judge(pool: &Pool, server: ServerId, found: Result<Standing, ClientError>, fresh: bool) {
    let (now, decided) = (Instant::now(), !matches!(found, Ok(Standing::Undecided)));
    match found {
        Ok(Standing::Belongs) => {
            pool.set_foreign(server, None);
            pool.answers(now, server, fresh);
        }
        Ok(Standing::Foreign(why)) => pool.quarantine(now, server, why),
        Ok(Standing::Undecided) => {}
        Err(error) => pool.down(pool.time(now), server, &error),
    }
    if decided {
        pool.set_judged(server);
    }
}

/// A connection to a server, and what it said of each export.
type Known = (Client, Vec<(usize, Agreed)>);

/// One look at a server: whether it belongs to the pool, or why it does not answer.
fn probe(
    shared: &Shared,
    pool: &Arc<Pool>,
    server: ServerId,
    client: &mut Option<Known>,
) -> Result<Standing, ClientError> {
    let of = pool.server(server);
    let patience = duration(pool.config.probe_timeout);
    let (nfs, seen) = match client {
        Some(known) => known,
        None => {
            let mut mount = Client::connect(of.mount, &Caller::ROOT, patience)?;
            let mut nfs = Client::connect(of.address, &Caller::ROOT, patience)?;
            let mut seen = Vec::new();
            for export in exports(shared, pool) {
                let source = export.rules().source.clone();
                let root = match mount.mount(source.as_bytes()) {
                    Ok(mounted) => mounted.root,
                    Err(ClientError::Status(status)) => {
                        return Ok(Standing::Foreign(format!("it does not let us mount {source}: {status}")));
                    }
                    Err(error) => return Err(error),
                };
                seen.push((export.number, look(&mut nfs, root)?));
            }
            if seen.len() > 1 {
                find_overlaps(shared, &mut nfs, &mut seen);
            }
            client.insert((nfs, seen))
        }
    };
    let asked = Instant::now();
    nfs.nfs(&Call::Null)?;
    pool.round_trip(server, asked.elapsed());
    let mut standing = Standing::Belongs;
    for (number, seen) in seen {
        let root = FileHandle::new(&seen.root).ok_or(ClientError::Status(Nfsstat3::BADHANDLE))?;
        match nfs.nfs(&Call::Getattr { object: root })? {
            Reply::Getattr(Ok(_)) => {}
            failed => return Err(ClientError::Status(failed.status())),
        }
        let export = &shared.exports[*number];
        if let Some(why) = &seen.unfit {
            demote(export, why);
        }
        match export.heard(server, seen.clone(), &shared.whose) {
            Some(true) => match shared.whose.claim(&seen.root, (seen.fsid, seen.fileid), *number) {
                Ok(()) => shared.watch.names.learn_root(Key::of(&seen.root), &export.rules().path),
                Err(other) => {
                    let (own, other) = (&export.rules().path, &shared.exports[other].rules().path);
                    standing = Standing::Foreign(format!(
                        "its handles of {own} are those of {other}: one daemon cannot serve both"
                    ));
                }
            },
            Some(false) => {
                let path = &export.rules().source;
                standing =
                    Standing::Foreign(format!("its root handle, fsid or fileid of {path} differs from the others'"));
            }
            None if matches!(standing, Standing::Foreign(_)) => {}
            None => standing = Standing::Undecided,
        }
    }
    Ok(standing)
}

/// Finds out which exports lie in others: one file has two handles there, and a cache would not
/// notice what is changed by the other one.
fn find_overlaps(shared: &Shared, nfs: &mut Client, seen: &mut [(usize, Agreed)]) {
    for number in 0..seen.len() {
        let Some(outer) = above(nfs, number, seen) else { continue };
        let path = |at: usize| shared.exports[seen[at].0].rules().path.clone();
        let why = format!(
            "{} lies in {}: a file of both may have two handles, and a change by one is not noticed by the other",
            path(number),
            path(outer)
        );
        log::info("exports overlap", &[("why", &why)]);
        for (at, other) in [(number, outer), (outer, number)] {
            // What may only be read changes nothing.
            if shared.exports[seen[other].0].rules().access == Access::ReadWrite {
                seen[at].1.unfit.get_or_insert_with(|| why.clone());
            }
        }
    }
}

fn demote(export: &Realm, why: &str) {
    let caches = export.modes().wanted.iter().any(|mode| *mode != Mode::Strict);
    if caches && export.demote(why) {
        log::warn("cache demoted", &[("export", &export.rules().path), ("why", &why)]);
    }
}

/// The place of the export whose root is another's or lies above it, as far as the server tells parents.
fn above(nfs: &mut Client, number: usize, seen: &[(usize, Agreed)]) -> Option<usize> {
    let of = &seen[number].1;
    let others = || seen.iter().enumerate().filter(|(at, _)| *at != number);
    let root = |handle: &[u8], id: Id| {
        let same = |other: &Agreed| other.root == handle || (other.fsid, other.fileid) == id;
        others().find(|(_, (_, other))| same(other)).map(|(at, _)| at)
    };
    // Two exports may be of one directory.
    if let Some(same) = root(&of.root, (of.fsid, of.fileid)) {
        return Some(same);
    }
    let mut at = of.root.clone();
    for _ in 0..DEPTH_MAX {
        let parent = nfs.walk(&at, b"..").ok().filter(|parent| *parent != at)?;
        let Reply::Getattr(Ok(attributes)) = nfs.nfs(&Call::Getattr { object: FileHandle::new(&parent)? }).ok()? else {
            return None;
        };
        if let Some(outer) = root(&parent, id(&attributes)) {
            return Some(outer);
        }
        at = parent;
    }
    None
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
    let unfit = match nfs.nfs(&Call::Pathconf { object: handle })? {
        Reply::Pathconf(Ok(of)) => one_name(&of).map(str::to_owned),
        _ => None,
    };
    Ok(Agreed { fsid: attributes.fsid, fileid: attributes.fileid, limits, unfit, root })
}

/// Why names cannot be kept: several are one for the server.
const fn one_name(of: &PathconfOk) -> Option<&'static str> {
    if of.case_insensitive || !of.case_preserving { Some(ONE_NAME) } else { None }
}

/// Sleeps in short steps; false when the daemon ends.
pub(crate) fn pause(shared: &Shared, span: Duration) -> bool {
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

const ONE_NAME: &str =
    "its servers do not tell names apart by their case: what a cache knows of one is not all that they answer to";
/// How long a thread may go on after the daemon was told to end.
const STEP: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_kept_where_the_server_does_not_tell_them_apart() {
        let of = |case_insensitive, case_preserving| PathconfOk {
            attributes: None,
            linkmax: 1,
            name_max: 255,
            no_trunc: true,
            chown_restricted: true,
            case_insensitive,
            case_preserving,
        };
        assert_eq!(one_name(&of(false, true)), None);
        assert_eq!(one_name(&of(true, true)), Some(ONE_NAME));
        assert_eq!(one_name(&of(false, false)), Some(ONE_NAME));
    }
}
