//! MOUNT and portmap, answered here: clients mount the proxy's exports, and find its ports.

use crate::clerk::{Lines, Untold};
use crate::clock::duration;
use crate::config::Export;
use crate::dispatch::RESERVED_END;
use crate::event::Shared;
use crate::log;
use crate::realm::Realm;
use crate::whose::{Owner, id};
use midas_core::key::Key;
use midas_net::{Caller, Client, ClientError};
use midas_nfs::mount::{self, MountStat, Mounted};
use midas_nfs::nfs3::{Call, FileHandle, Ftype3, Nfsstat3, Reply};
use midas_nfs::portmap::{self, Mapping};
use midas_nfs::record;
use midas_nfs::rpc::{self, Refusal, flavor};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Who mounted what, and where programs listen.
pub(crate) struct Mountd {
    pub(crate) mappings: Vec<Mapping>,
    mounts: Mutex<VecDeque<(IpAddr, Vec<u8>)>>,
}

impl Mountd {
    pub(crate) fn new(mappings: Vec<Mapping>) -> Self {
        Self { mappings, mounts: Mutex::default() }
    }

    /// Appends the results of a MOUNT call; or says which directory below the export must be found first.
    pub(crate) fn mount(
        &self,
        shared: &Shared,
        asker: SocketAddr,
        call: &rpc::Call<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Below>, Refusal> {
        let client = asker.ip().to_canonical();
        if !matches!(call.version, mount::VERSION_OLD | mount::VERSION) {
            return Err(Refusal::ProgMismatch { low: mount::VERSION_OLD, high: mount::VERSION });
        }
        let question = mount::Call::decode(call.version, call.procedure, call.args)
            .ok_or(Refusal::ProcUnavail)?
            .map_err(|_| Refusal::GarbageArgs)?;
        rpc::Reply::accept(out, call.xid);
        match question {
            mount::Call::Null => {}
            mount::Call::Mnt(path) => match root(shared, asker, path) {
                Ok((_, root, names)) if names.is_empty() => self.mounted(client, path, Ok(&root), out),
                Ok((realm, root, names)) => {
                    return Ok(Some(Below { realm, root, names, path: path.to_vec(), client: asker }));
                }
                Err(stat) => {
                    let (said, why) = (String::from_utf8_lossy(path), why(stat));
                    log::warn("mount refused", &[("client", &client), ("path", &said), ("why", &why)]);
                    self.mounted(client, path, Err(stat), out);
                }
            },
            mount::Call::Dump => {
                let mounts = self.mounts();
                let named: Vec<_> = mounts.iter().map(|(client, path)| (client.to_string(), path)).collect();
                mount::put_dump(out, named.iter().map(|(client, path)| (client.as_bytes(), path.as_slice())));
            }
            mount::Call::Umnt(path) => self.mounts().retain(|(of, at)| *of != client || at != path),
            mount::Call::Umntall => self.mounts().retain(|(of, _)| *of != client),
            mount::Call::Export => {
                let rules: Vec<_> = shared.exports.iter().map(Realm::rules).collect();
                let groups = |rules: &Export| rules.clients.iter().map(ToString::to_string).collect();
                let groups: Vec<Vec<String>> = rules.iter().map(|rules| groups(rules)).collect();
                let groups: Vec<Vec<&[u8]>> =
                    groups.iter().map(|groups| groups.iter().map(String::as_bytes).collect()).collect();
                let listed = rules.iter().zip(&groups);
                mount::put_exports(out, listed.map(|(rules, groups)| (rules.path.as_bytes(), groups.as_slice())));
            }
        }
        Ok(None)
    }

    /// Appends MNT's results, and remembers who mounted what.
    pub(crate) fn mounted(&self, client: IpAddr, path: &[u8], found: Result<&[u8], MountStat>, out: &mut Vec<u8>) {
        match found.map(FileHandle::new) {
            Ok(Some(handle)) => {
                Mounted::encode(Ok(&Mounted { handle, flavors: vec![flavor::SYS, flavor::NONE] }), out);
                let (entry, mut mounts) = ((client, path.to_vec()), self.mounts());
                if !mounts.contains(&entry) {
                    mounts.truncate(MOUNTS_MOST - 1);
                    mounts.push_front(entry);
                }
            }
            Ok(None) => Mounted::encode(Err(MountStat::SERVERFAULT), out),
            Err(stat) => Mounted::encode(Err(stat), out),
        }
    }

    fn mounts(&self) -> MutexGuard<'_, VecDeque<(IpAddr, Vec<u8>)>> {
        self.mounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends the results of a portmap or rpcbind call.
    pub(crate) fn portmap(&self, local: IpAddr, call: &rpc::Call<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let (low, high) = portmap::VERSIONS;
        if !(low..=high).contains(&call.version) {
            return Err(Refusal::ProgMismatch { low, high });
        }
        let question = portmap::Call::decode(call.version, call.procedure, call.args)
            .ok_or(Refusal::ProcUnavail)?
            .map_err(|_| Refusal::GarbageArgs)?;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32);
        rpc::Reply::accept(out, call.xid);
        question.answer(out, call.version, &self.mappings, local, seconds);
        Ok(())
    }
}

/// A directory below the export that a client wants to mount.
pub(crate) struct Below {
    realm: usize,
    root: Vec<u8>,
    names: Vec<u8>,
    path: Vec<u8>,
    client: SocketAddr,
}

impl Below {
    /// The answer when too many look for theirs at once.
    pub(crate) fn too_many(xid: u32) -> Vec<u8> {
        let mut out = Vec::new();
        record::put(&mut out, |out| {
            rpc::Reply::accept(out, xid);
            Mounted::encode(Err(MountStat::SERVERFAULT), out);
        });
        out
    }

    /// One for this client, which leads nowhere.
    #[cfg(test)]
    pub(crate) fn of(client: SocketAddr) -> Self {
        Self { realm: 0, root: Vec::new(), names: Vec::new(), path: Vec::new(), client }
    }

    /// The address of the client.
    pub(crate) fn client(&self) -> IpAddr {
        self.client.ip().to_canonical()
    }

    /// Finds it at a server, name by name, and appends MNT's results. Waits: not for an event loop.
    pub(crate) fn find(&self, shared: &Shared, lines: &mut Lines, xid: u32) -> Vec<u8> {
        let export = &shared.exports[self.realm];
        let left = export.areas.epoch(export.pool.time(Instant::now()));
        let found = self.look(shared, lines);
        if let Ok((handle, realm)) = &found {
            let names = self.names.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
            shared.watch.names.learn_path(Key::of(handle), &self.whole(&export.rules().path));
            if *realm == self.realm {
                export.areas.learn_path(export.pool.time(Instant::now()), left, names, handle);
            }
        }
        let client = self.client();
        let found = found.as_ref().map(|(handle, _)| handle.as_slice()).map_err(|stat| *stat);
        if let Err(stat @ MountStat::ACCES) = found {
            let (said, why) = (String::from_utf8_lossy(&self.path), why(stat));
            log::warn("mount refused", &[("client", &client), ("path", &said), ("why", &why)]);
        }
        let mut out = Vec::new();
        record::put(&mut out, |out| {
            rpc::Reply::accept(out, xid);
            shared.mountd.mounted(client, &self.path, found, out);
        });
        out
    }

    /// Its path, written in one way alone.
    fn whole(&self, export: &str) -> Vec<u8> {
        let names = self.names.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
        let root = export.trim_end_matches('/').as_bytes();
        std::iter::once(root).chain(names).collect::<Vec<_>>().join(&b'/')
    }

    /// Asks a server for the directory, and for the export that it belongs to.
    fn look(&self, shared: &Shared, lines: &mut Lines) -> Result<(Vec<u8>, usize), MountStat> {
        let pool = &shared.exports[self.realm].pool;
        let server = pool.server(pool.some_open(0).ok_or(MountStat::SERVERFAULT)?);
        let (patience, until) = (duration(pool.config.probe_timeout), Instant::now() + WALK_MAX);
        let walked = lines.ask(server.address, &Caller::ROOT, patience, |nfs| match self.walk(shared, nfs, until) {
            Ok(found) => Ok(Ok(found)),
            Err(ClientError::Status(Nfsstat3(stat))) => Ok(Err(MountStat(stat))),
            Err(_) => Err(Untold),
        });
        walked.unwrap_or(Err(MountStat::SERVERFAULT))
    }

    /// Walks to the directory. Where the way passes the root of another export, that one must admit
    /// the client.
    fn walk(&self, shared: &Shared, nfs: &mut Client, until: Instant) -> Result<(Vec<u8>, usize), ClientError> {
        let failed = |stat: MountStat| ClientError::Status(Nfsstat3(stat.0));
        let (mut at, mut realm) = (self.root.clone(), self.realm);
        for name in self.names.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            if Instant::now() >= until {
                return Err(failed(MountStat::SERVERFAULT));
            }
            let next = nfs.walk(&at, name)?;
            let object = FileHandle::new(&next).ok_or(failed(MountStat::SERVERFAULT))?;
            let attributes = match nfs.nfs(&Call::Getattr { object })? {
                Reply::Getattr(Ok(of)) if of.ftype == Ftype3::Dir => of,
                Reply::Getattr(Ok(_)) => return Err(ClientError::Status(Nfsstat3::NOTDIR)),
                other => return Err(ClientError::Status(other.status())),
            };
            match shared.whose.root_of(realm, &next, id(&attributes)) {
                Some(inner) if inner != realm => {
                    realm = inner;
                    admits(&shared.exports[inner].rules(), self.client).map_err(failed)?;
                }
                _ => {}
            }
            shared.whose.learn_directory(realm, &at, &next);
            at = next;
        }
        Ok((at, realm))
    }
}

/// Whether an export lets a client mount it.
fn admits(rules: &Export, client: SocketAddr) -> Result<(), MountStat> {
    let admitted = rules.admits(client.ip().to_canonical()) && (rules.insecure || client.port() < RESERVED_END);
    admitted.then_some(()).ok_or(MountStat::ACCES)
}

/// The export that a path lies in, the root handle that its servers agree on, and what is wanted below it. No path leads up.
fn root(shared: &Shared, client: SocketAddr, path: &[u8]) -> Result<(usize, Vec<u8>, Vec<u8>), MountStat> {
    let below = |realm: &Realm| {
        let rules = realm.rules();
        let export = rules.path.strip_suffix('/').unwrap_or(&rules.path).as_bytes();
        let rest = path.strip_prefix(export).filter(|rest| rest.is_empty() || rest[0] == b'/')?;
        Some((realm.number, rest.to_vec()))
    };
    // Of exports that lie in each other, the innermost.
    let innermost = shared.exports.iter().filter_map(below).min_by_key(|(_, rest)| rest.len());
    // Strangers are refused, whatever they ask for.
    let absent = || if shared.listed(client.ip().to_canonical()) { MountStat::NOENT } else { MountStat::ACCES };
    let (number, rest) = innermost.ok_or_else(absent)?;
    let realm = &shared.exports[number];
    admits(&realm.rules(), client)?;
    let mut names: Vec<&[u8]> = Vec::new();
    for name in rest.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => return Err(MountStat::NOENT),
            name => names.push(name),
        }
    }
    let agreed = realm.agreed();
    let root = agreed.as_ref().as_ref().map(|agreed| agreed.root.clone()).ok_or(MountStat::SERVERFAULT)?;
    // Not claimed yet, or the root of another export, which has the very same handle.
    if shared.whose.of(&root) != Some(Owner::Export(number)) {
        return Err(MountStat::SERVERFAULT);
    }
    Ok((number, root, names.join(&b'/')))
}

fn why(stat: MountStat) -> &'static str {
    match stat {
        MountStat::ACCES => "it is not on the export's list of clients",
        MountStat::NOENT => "there is no such export",
        _ => "no server has answered yet",
    }
}

/// The longest time for one walk.
const WALK_MAX: Duration = Duration::from_secs(10);
/// Mounts that DUMP tells of.
const MOUNTS_MOST: usize = 1024;
