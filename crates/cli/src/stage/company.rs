//! What makes proxies of one process a cluster: a key and places for their votes in a directory of their own, and ports that nobody else takes.

use super::place::Place;
use midas_net::Reservation;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

/// A cluster that is about to be; its directory goes with it.
pub(crate) struct Company {
    place: Place,
    /// Where each listens.
    members: Vec<(Ipv4Addr, u16)>,
    _ports: Vec<Reservation>,
    /// The first so many serve, the others only vote.
    proxies: u32,
    shares: bool,
    suspect_after: Duration,
}

impl Company {
    /// `suspect_after` is how long a member may be silent; the first view takes up to a third of it.
    pub(crate) fn new((proxies, witnesses): (u32, u32), shares: bool, suspect_after: Duration) -> io::Result<Self> {
        let place = Place::new()?;
        let address = own_address(std::process::id(), place.number());
        let members = proxies + witnesses;
        let ports: Vec<Reservation> =
            (0..members).map(|_| Reservation::on(&[address.into()])).collect::<io::Result<_>>()?;
        let at = ports.iter().map(|port| (address, port.port())).collect();
        let company = Self { members: at, _ports: ports, place, proxies, shares, suspect_after };
        for member in 0..members {
            std::fs::create_dir_all(company.own(member))?;
        }
        midas_proxy::create_cluster_key(&company.place.path().join("key"))?;
        Ok(company)
    }

    /// Proxies and witnesses.
    pub(crate) fn members(&self) -> usize {
        self.members.len()
    }

    /// What a member's configuration has besides what all have.
    pub(crate) fn table(&self, me: u32) -> String {
        let (address, port) = self.members[me as usize];
        let named = |(number, (address, port)): (usize, &(Ipv4Addr, u16))| {
            let votes = if number < self.proxies as usize { "" } else { " witness" };
            format!("\"p{number}={address}:{port}{votes}\"")
        };
        let members: Vec<String> = self.members.iter().enumerate().map(named).collect();
        format!(
            "[state]\nfile = \"{0}/{me}/state\"\n[cluster]\nname = \"stage\"\nme = \"p{me}\"\nlisten = \"{address}:{port}\"\n\
             members = [{1}]\nkey_file = \"{0}/key\"\nsuspect_after = \"{3}s\"\nshares = {2}\n",
            self.place.path().display(),
            members.join(", "),
            self.shares,
            self.suspect_after.as_secs(),
        )
    }

    /// A member's own directory; its state is the file `state` there.
    pub(crate) fn own(&self, me: u32) -> PathBuf {
        self.place.path().join(me.to_string())
    }
}

/// An address for this cluster, which no connection of this machine begins at by itself.
fn own_address(pid: u32, number: u32) -> Ipv4Addr {
    Ipv4Addr::new(127, 64 + (pid / 256 % 64) as u8, (pid % 256) as u8, 1 + (number % 254) as u8)
}
