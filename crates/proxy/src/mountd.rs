//! MOUNT and portmap, answered here: clients mount the proxy's exports, and find its ports.

use crate::config::Export;
use crate::realm::Realm;
use midas_nfs::mount::{self, MountStat, Mounted};
use midas_nfs::nfs3::FileHandle;
use midas_nfs::portmap::{self, Mapping};
use midas_nfs::rpc::{self, Refusal, flavor};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Who mounted what, and where programs listen.
pub(crate) struct Mountd {
    pub(crate) mappings: Vec<Mapping>,
    mounts: Mutex<VecDeque<(IpAddr, Vec<u8>)>>,
}

impl Mountd {
    pub(crate) fn new(mappings: Vec<Mapping>) -> Self {
        Self { mappings, mounts: Mutex::default() }
    }

    /// Appends the results of a MOUNT call.
    pub(crate) fn mount(
        &self,
        realm: &Realm,
        client: IpAddr,
        call: &rpc::Call<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        if !matches!(call.version, mount::VERSION_OLD | mount::VERSION) {
            return Err(Refusal::ProgMismatch { low: mount::VERSION_OLD, high: mount::VERSION });
        }
        let question = mount::Call::decode(call.version, call.procedure, call.args)
            .ok_or(Refusal::ProcUnavail)?
            .map_err(|_| Refusal::GarbageArgs)?;
        rpc::Reply::accept(out, call.xid);
        let mut mounts = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        match question {
            mount::Call::Null => {}
            mount::Call::Mnt(path) => match root(realm, client, path) {
                Ok(root) => {
                    let handle = FileHandle::new(&root).expect("a server gave it");
                    Mounted::encode(Ok(&Mounted { handle, flavors: vec![flavor::SYS] }), out);
                    let entry = (client, path.to_vec());
                    if !mounts.contains(&entry) {
                        mounts.truncate(MOUNTS_MOST - 1);
                        mounts.push_front(entry);
                    }
                }
                Err(stat) => Mounted::encode(Err(stat), out),
            },
            mount::Call::Dump => {
                let named: Vec<_> = mounts.iter().map(|(client, path)| (client.to_string(), path)).collect();
                mount::put_dump(out, named.iter().map(|(client, path)| (client.as_bytes(), path.as_slice())));
            }
            mount::Call::Umnt(path) => mounts.retain(|(of, at)| *of != client || at != path),
            mount::Call::Umntall => mounts.retain(|(of, _)| *of != client),
            mount::Call::Export => {
                let groups: Vec<String> = realm.export.clients.iter().map(ToString::to_string).collect();
                let groups: Vec<&[u8]> = groups.iter().map(String::as_bytes).collect();
                mount::put_exports(out, [(realm.export.path.as_bytes(), groups.as_slice())]);
            }
        }
        Ok(())
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

/// The root handle that every server agrees on.
fn root(realm: &Realm, client: IpAddr, path: &[u8]) -> Result<Vec<u8>, MountStat> {
    let Export { path: export, .. } = &realm.export;
    let typed = path.strip_suffix(b"/").unwrap_or(path);
    if typed != export.strip_suffix('/').unwrap_or(export).as_bytes() {
        return Err(MountStat::NOENT);
    }
    if !realm.export.admits(client) {
        return Err(MountStat::ACCES);
    }
    realm.agreed().map(|agreed| agreed.root).ok_or(MountStat::SERVERFAULT)
}

/// Mounts that DUMP tells of.
const MOUNTS_MOST: usize = 1024;
