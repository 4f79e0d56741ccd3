//! What makes proxies of one process a cluster: a key and places for their votes in a directory of their own, and ports that nobody else takes.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A cluster that is about to be; its directory goes with it.
pub(super) struct Company {
    directory: PathBuf,
    members: Vec<(Ipv4Addr, u16)>,
    shares: bool,
}

impl Company {
    pub(super) fn new(members: u32, shares: bool) -> io::Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let (pid, number) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(format!("midas-stage-{pid}-{number}"));
        let address = own_address(pid, number);
        // All at once, so that none is given twice.
        let listeners: Vec<TcpListener> =
            (0..members).map(|_| TcpListener::bind((address, 0))).collect::<io::Result<_>>()?;
        let ports = listeners.iter().map(|listener| Ok((address, listener.local_addr()?.port())));
        let company = Self { members: ports.collect::<io::Result<_>>()?, directory, shares };
        for member in 0..members {
            std::fs::create_dir_all(company.directory.join(member.to_string()))?;
        }
        midas_proxy::create_cluster_key(&company.directory.join("key"))?;
        Ok(company)
    }

    /// What a member's configuration has besides what all have.
    pub(super) fn table(&self, me: u32) -> String {
        let (address, port) = self.members[me as usize];
        let named = |(number, (address, port)): (usize, &(Ipv4Addr, u16))| format!("\"p{number}={address}:{port}\"");
        let members: Vec<String> = self.members.iter().enumerate().map(named).collect();
        format!(
            "[state]\nfile = \"{0}/{me}/state\"\n[cluster]\nname = \"stage\"\nme = \"p{me}\"\nlisten = \"{address}:{port}\"\n\
             members = [{1}]\nkey_file = \"{0}/key\"\nsuspect_after = \"30s\"\nshares = {2}\n",
            self.directory.display(),
            members.join(", "),
            self.shares,
        )
    }
}

impl Drop for Company {
    fn drop(&mut self) {
        let _left = std::fs::remove_dir_all(&self.directory);
    }
}

/// From an address that no connection of this machine begins at by itself, a port that was free stays free.
fn own_address(pid: u32, number: u32) -> Ipv4Addr {
    Ipv4Addr::new(127, 64 + (pid / 256 % 64) as u8, (pid % 256) as u8, 1 + (number % 254) as u8)
}
