//! Real heads, and between each of them and the proxy somebody who counts the calls.

use super::serve::Site;
use super::switch::Switch;
use midas_lab::{Endpoint, Ganesha, common_port, loopback};
use midas_nfs::nfs3::Procedure;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

pub(crate) struct Counted {
    pub(crate) ganesha: Ganesha,
    pub(crate) counts: Vec<Switch>,
    mounts: Vec<Switch>,
}

impl Counted {
    /// Starts heads that are coherent.
    pub(crate) fn start(heads: usize) -> Self {
        let ganesha = Ganesha::start(heads, 0);
        let first = loopback(heads, &[]);
        let [nfs, mount_port] = [common_port(first, heads), common_port(first, heads)];
        let lead = |here: u16, there: fn(&Endpoint) -> u16| {
            let beside = |index| Ipv4Addr::from(u32::from(first) + index as u32);
            let lead = |(index, head): (usize, &Endpoint)| {
                Switch::start((beside(index), here).into(), (head.address, there(head)).into())
            };
            ganesha.heads().iter().enumerate().map(lead).collect()
        };
        let (counts, mounts) = (lead(nfs, |head| head.nfs_port), lead(mount_port, |head| head.mount_port));
        Self { ganesha, counts, mounts }
    }

    /// A proxy over all of them, on free ports.
    pub(crate) fn site(&self) -> Site {
        let head = &self.ganesha.heads()[0];
        let servers: Vec<SocketAddr> = self.counts.iter().map(|count| count.address).collect();
        Site::over(servers, Some(self.mounts[0].address.port()), &head.path)
    }

    /// Calls of these procedures that reached the heads until now.
    pub(crate) fn calls(&self, procedures: &[Procedure]) -> u64 {
        let of = |calls: BTreeMap<u32, u64>| {
            procedures.iter().filter_map(|procedure| calls.get(&(*procedure as u32)).copied()).sum::<u64>()
        };
        self.counts.iter().map(|count| of(count.calls())).sum()
    }
}

/// Reads that are answered from a warm cache. The proxy itself asks servers for GETATTR and READDIR, never for these.
pub(crate) const CACHED: [Procedure; 4] =
    [Procedure::Lookup, Procedure::Access, Procedure::Readlink, Procedure::Readdirplus];
