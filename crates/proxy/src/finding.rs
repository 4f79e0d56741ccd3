//! Finds out whose a handle is that the table of objects does not know. It waits for servers, the
//! disk and other proxies: not for an event loop.
//!
//! A directory tells its parent: its owner is the first export's root on the way up. A file does
//! not: its parents are those that are kept on disk, here or at another proxy. What nobody can tell
//! stays unknown, and is never guessed.

use crate::clerk::{Lines, Untold};
use crate::clock::duration;
use crate::event::Shared;
use crate::log;
use crate::objects::Kind;
use crate::pool::Pool;
use crate::whose::{Owner, id};
use midas_core::id::ServerId;
use midas_net::Caller;
use midas_nfs::nfs3::{Call, DirOp, Fattr3, FileHandle, Ftype3, Nfsstat3, Reply};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Whose a handle is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Of(Owner),
    /// Every pool was asked, and none has such an object in an export of ours.
    Nowhere,
    /// It cannot be told now.
    Unknown,
}

/// Whose a handle is: as it is known, or as it is found out now.
pub(crate) fn whose(shared: &Shared, lines: &mut Lines, handle: &[u8]) -> Found {
    if let Some(owner) = shared.whose.of(handle) {
        return Found::Of(owner);
    }
    let found = find(shared, lines, handle);
    let counts = &shared.whose.counts;
    match found {
        Found::Of(_) => {}
        Found::Nowhere => count(&counts.nowhere),
        Found::Unknown => {
            if counts.unknown.fetch_add(1, Relaxed).is_multiple_of(SAID_EVERY) {
                let why = "a client's call waits until it is known; a listing of the file's directory tells it";
                log::warn("it is not known which export a handle belongs to", &[("why", &why)]);
            }
        }
    }
    found
}

fn find(shared: &Shared, lines: &mut Lines, handle: &[u8]) -> Found {
    let Some(object) = FileHandle::new(handle) else { return Found::Nowhere };
    let mut found = Found::Nowhere;
    // One that hangs does not hold up the handles of the others.
    let mut numbers: Vec<usize> = (0..shared.pools.len()).collect();
    numbers.sort_by_key(|number| shared.whose.silent(*number));
    for number in numbers {
        let mut search = Search { shared, lines, pool: &shared.pools[number], number, first: 0 };
        let told = search.attributes(object);
        shared.whose.set_silent(number, told.is_err());
        match told {
            Ok(Some(attributes)) => return search.owner(handle, &attributes),
            Ok(None) => {}
            Err(Untold) => found = Found::Unknown,
        }
    }
    found
}

fn count(what: &AtomicU64) {
    what.fetch_add(1, Relaxed);
}

/// A search in one pool.
struct Search<'s> {
    shared: &'s Shared,
    lines: &'s mut Lines,
    pool: &'s Pool,
    number: usize,
    /// The server that answered last: it is asked first.
    first: usize,
}

impl Search<'_> {
    fn owner(&mut self, handle: &[u8], attributes: &Fattr3) -> Found {
        let (whose, counts) = (&self.shared.whose, &self.shared.whose.counts);
        let directory = attributes.ftype == Ftype3::Dir;
        let kind = if directory { Kind::Directory } else { Kind::File };
        let found = match whose.in_pool(self.number) {
            [] => Found::Nowhere,
            [only] => {
                count(&counts.alone);
                Found::Of(Owner::Export(*only))
            }
            _ if directory => {
                count(&counts.climbed);
                self.climb(handle, attributes)
            }
            _ => self.of_file(handle, attributes),
        };
        if let Found::Of(owner) = found {
            whose.found(handle, kind, owner);
        }
        found
    }

    /// The owner of a file: that of the directories that it is known to stand in.
    fn of_file(&mut self, handle: &[u8], attributes: &Fattr3) -> Found {
        let whose = &self.shared.whose;
        let mut exports: Vec<usize> = whose.partly(handle).into_iter().flat_map(|it| whose.exports_of(it)).collect();
        let parents = whose.parents(handle);
        let mut then = Vec::new();
        for (parent, before) in parents {
            match self.of_directory(&parent) {
                Found::Of(owner) => exports.extend(whose.exports_of(owner)),
                // It may have been moved before its directory was removed.
                Found::Nowhere => then.extend(before),
                Found::Unknown => return Found::Unknown,
            }
        }
        if exports.is_empty() {
            exports = then;
        }
        if !exports.is_empty() {
            count(&whose.counts.remembered);
        }
        // One with several names may have one that another proxy has seen.
        if exports.is_empty() || attributes.nlink > 1 {
            let told = self.of_peers(handle);
            if exports.is_empty() && !told.is_empty() {
                count(&whose.counts.peers);
            }
            exports.extend(told);
        }
        if exports.is_empty() {
            exports.extend(whose.alone_in(self.number, attributes.fsid));
        }
        exports.sort_unstable();
        whose.union(exports).map_or(Found::Unknown, Found::Of)
    }

    /// The exports that other proxies know a file to have names in.
    fn of_peers(&self, handle: &[u8]) -> Vec<usize> {
        let told = self.shared.accord().map(|accord| accord.ask_owner(handle)).unwrap_or_default();
        told.into_iter().filter_map(|name| self.shared.whose.named(self.number, name)).collect()
    }

    fn of_directory(&mut self, handle: &[u8]) -> Found {
        if let Some(owner) = self.shared.whose.of(handle) {
            return Found::Of(owner);
        }
        let Some(object) = FileHandle::new(handle) else { return Found::Nowhere };
        match self.attributes(object) {
            Ok(Some(attributes)) if attributes.ftype == Ftype3::Dir => self.climb(handle, &attributes),
            Ok(_) => Found::Nowhere,
            Err(Untold) => Found::Unknown,
        }
    }

    /// The first export on the way up from a directory.
    fn climb(&mut self, directory: &[u8], attributes: &Fattr3) -> Found {
        let whose = &self.shared.whose;
        let (mut way, mut at, mut of) = (vec![directory.to_vec()], directory.to_vec(), *attributes);
        for _ in 0..CLIMB_MAX {
            // Two exports may be of one directory, under handles of their own.
            let root = whose.root_with(&at).or_else(|| whose.root_at(self.number, id(&of)));
            let known = root.map(Owner::Export).or_else(|| whose.of(&at));
            if let Some(Owner::Export(export)) = known {
                for step in way.windows(2) {
                    whose.learn_directory(export, &step[1], &step[0]);
                }
                return Found::Of(Owner::Export(export));
            }
            let Ok(parent) = self.parent(&at, &of) else { return Found::Unknown };
            let Some((parent, above)) = parent else { return Found::Nowhere };
            if parent == at || id(&above) == id(&of) {
                // The top of what the server has: it lies in no export, if all of them are known.
                return if whose.all_rooted(self.number) { Found::Nowhere } else { Found::Unknown };
            }
            way.push(parent.clone());
            (at, of) = (parent, above);
        }
        Found::Unknown
    }

    /// Servers to ask, one after the other: all that take calls.
    fn servers(&self) -> Vec<ServerId> {
        let count = self.pool.config.servers.len();
        let all = (0..count).map(|step| ServerId(((self.first + step) % count) as u16));
        all.filter(|server| self.pool.open(*server)).collect()
    }

    /// How many servers must say that an object is gone: two, where the pool has two.
    fn enough(&self) -> usize {
        self.pool.config.servers.len().min(2)
    }

    /// The parent of a directory; none if the directory is gone.
    fn parent(&mut self, directory: &[u8], of: &Fattr3) -> Result<Option<(Vec<u8>, Fattr3)>, Untold> {
        let (servers, enough) = (self.servers(), self.enough());
        summed(servers.into_iter().map(|server| self.parent_at(server, directory, of)), enough)
    }

    /// The parent of a directory at a server, as the superuser is told, or its owner; none if it is not known there.
    fn parent_at(
        &mut self,
        server: ServerId,
        directory: &[u8],
        of: &Fattr3,
    ) -> Result<Option<(Vec<u8>, Fattr3)>, Untold> {
        let what = DirOp { dir: FileHandle::new(directory).ok_or(Untold)?, name: b".." };
        let owner = Caller { uid: of.uid, gid: of.gid, gids: Vec::new() };
        for caller in [Caller::ROOT, owner] {
            let found = self.ask(server, &caller, &Call::Lookup { what }, |reply| match reply {
                Reply::Lookup(Ok(found)) => Ok((found.object.bytes().to_vec(), found.attributes)),
                failed => Err(failed.status()),
            })?;
            match found {
                Ok((parent, Some(attributes))) => return Ok(Some((parent, attributes))),
                Ok((parent, None)) => {
                    let object = FileHandle::new(&parent).ok_or(Untold)?;
                    return Ok(self.attributes(object)?.map(|attributes| (parent, attributes)));
                }
                Err(Nfsstat3::STALE | Nfsstat3::BADHANDLE) => return Ok(None),
                Err(_) => {}
            }
        }
        Err(Untold)
    }

    /// The attributes of an object; none if it is gone.
    fn attributes(&mut self, object: FileHandle<'_>) -> Result<Option<Fattr3>, Untold> {
        let (servers, enough) = (self.servers(), self.enough());
        summed(servers.into_iter().map(|server| self.attributes_at(server, object)), enough)
    }

    fn attributes_at(&mut self, server: ServerId, object: FileHandle<'_>) -> Result<Option<Fattr3>, Untold> {
        let told = self.ask(server, &Caller::ROOT, &Call::Getattr { object }, |reply| match reply {
            Reply::Getattr(Ok(attributes)) => Ok(*attributes),
            failed => Err(failed.status()),
        })?;
        match told {
            Ok(attributes) => Ok(Some(attributes)),
            Err(Nfsstat3::STALE | Nfsstat3::BADHANDLE) => Ok(None),
            // A head of Ganesha says INVAL of a device that another one made.
            Err(_) => Err(Untold),
        }
    }

    fn ask<T>(
        &mut self,
        server: ServerId,
        caller: &Caller,
        call: &Call<'_>,
        answer: impl Fn(&Reply<'_>) -> Result<T, Nfsstat3>,
    ) -> Result<Result<T, Nfsstat3>, Untold> {
        let patience = duration(self.pool.config.probe_timeout);
        let answered = self.lines.ask(self.pool.server(server).address, caller, patience, |nfs| {
            nfs.nfs(call).map(|reply| answer(&reply)).map_err(|_| Untold)
        })?;
        self.first = server.index();
        Ok(answered)
    }
}

/// The sum of what servers say of an object, who are asked until one knows it. It is gone if enough
/// say so and none is unsure.
fn summed<T>(answers: impl Iterator<Item = Result<Option<T>, Untold>>, enough: usize) -> Result<Option<T>, Untold> {
    let (mut gone, mut unsure) = (0, false);
    for answer in answers {
        match answer {
            Ok(Some(found)) => return Ok(Some(found)),
            Ok(None) => gone += 1,
            Err(Untold) => unsure = true,
        }
        if !unsure && gone >= enough {
            return Ok(None);
        }
    }
    Err(Untold)
}

/// One in so many handles of unknown exports is said in the log.
const SAID_EVERY: u64 = 1000;
/// Directories on the way up that servers are asked for: more than a path has names.
const CLIMB_MAX: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_asked_until_one_knows_the_object_or_enough_say_that_it_is_gone() {
        let cases = [
            (vec![Err(Untold), Err(Untold), Ok(Some(7)), Ok(None)], Ok(Some(7)), 3),
            (vec![Ok(None), Err(Untold), Ok(Some(7))], Ok(Some(7)), 3),
            (vec![Ok(None), Ok(None), Ok(Some(7))], Ok(None), 2),
            (vec![Err(Untold), Ok(None), Ok(None)], Err(Untold), 3),
            (vec![Ok(None)], Err(Untold), 1),
            (vec![], Err(Untold), 0),
        ];
        for (answers, want, calls) in cases {
            let (said, mut asked) = (format!("{answers:?}"), 0);
            let found = summed(answers.into_iter().inspect(|_| asked += 1), 2);
            assert_eq!((found, asked), (want, calls), "{said}");
        }
        assert_eq!(summed([Ok(None::<u8>)].into_iter(), 1), Ok(None), "a pool of one server");
    }
}
