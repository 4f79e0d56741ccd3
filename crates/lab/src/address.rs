//! Which loopback addresses and ports belong to this process.
//!
//! Tests run in parallel processes, beside programs of other people. Each process has a 127.x.y.0/24
//! of its own and holds it by a name that the system gives to one process at a time. A port is held
//! by a socket from the moment it is given out until the process ends. Who holds a port on every
//! address (0.0.0.0) holds it on ours too: no port is fixed, and those that are taken are passed over.

use midas_net::Reservation;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

/// Addresses that one process may take.
const HOSTS_MAX: u32 = 254;
/// 127.0.0.0/16 is left to people, 127.255.0.0/16 to broadcast.
const SECOND_OCTETS: u32 = 254;
const NETWORKS: u32 = SECOND_OCTETS * 256;

/// The first of `count` consecutive loopback addresses that nobody else was given, with all of `ports` free on each.
pub fn loopback(count: usize, ports: &[u16]) -> Ipv4Addr {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let count = u32::try_from(count).expect("a number of heads is small");
    loop {
        let first = TAKEN.fetch_add(count, Ordering::Relaxed) + 1;
        assert!(first + count <= HOSTS_MAX + 1, "one process may take {HOSTS_MAX} loopback addresses");
        let free = |host| ports.iter().all(|&port| TcpListener::bind((nth(OWN.number, host), port)).is_ok());
        if (first..first + count).all(free) {
            return nth(OWN.number, first);
        }
    }
}

/// A port of this address that nobody else is given while this process lives.
pub fn free_port(address: impl Into<IpAddr>) -> u16 {
    held(&[address.into()])
}

/// One port on each of `count` consecutive addresses, which nobody else is given while this process lives.
pub fn common_port(first: Ipv4Addr, count: usize) -> u16 {
    let addresses: Vec<IpAddr> =
        (0..count as u32).map(|index| Ipv4Addr::from(u32::from(first) + index).into()).collect();
    held(&addresses)
}

fn held(addresses: &[IpAddr]) -> u16 {
    static HELD: Mutex<Vec<Reservation>> = Mutex::new(Vec::new());
    let reservation = Reservation::on(addresses).expect("a loopback address has a free port");
    let port = reservation.port();
    HELD.lock().unwrap_or_else(PoisonError::into_inner).push(reservation);
    port
}

/// The network that belongs to this process.
struct Network {
    number: u32,
    _lock: UnixDatagram,
}

static OWN: LazyLock<Network> = LazyLock::new(|| Network::take(process::id()));

impl Network {
    /// The first that is free from this one on.
    fn take(from: u32) -> Self {
        let lock = |number: u32| {
            let name = SocketAddr::from_abstract_name(format!("midas-lab-{number}")).expect("the name is short");
            UnixDatagram::bind_addr(&name).ok().map(|lock| Self { number, _lock: lock })
        };
        (0..NETWORKS).find_map(|next| lock((from + next) % NETWORKS)).expect("a loopback network is free")
    }
}

fn nth(network: u32, host: u32) -> Ipv4Addr {
    Ipv4Addr::new(127, (1 + network / 256) as u8, (network % 256) as u8, host as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn networks_are_apart_and_all_are_loopback() {
        let networks: HashSet<Ipv4Addr> = (0..NETWORKS).map(|number| nth(number, 1)).collect();
        assert_eq!(networks.len(), NETWORKS as usize);
        assert!(networks.iter().all(|address| address.is_loopback() && (1..255).contains(&address.octets()[1])));
    }

    #[test]
    fn a_network_is_given_to_one_process_at_a_time() {
        let taken: Vec<Network> = (0..5).map(|_| Network::take(60_000)).collect();
        let numbers: HashSet<u32> = taken.iter().map(|network| network.number).collect();
        assert_eq!(numbers.len(), taken.len());
    }

    #[test]
    fn an_address_is_given_once_and_a_busy_one_is_passed_over() {
        let first = loopback(2, &[]);
        let port = common_port(first, 60);
        let [a, b, c, d] = loopback(1, &[port]).octets();
        let _busy = TcpListener::bind((Ipv4Addr::new(a, b, c, d + 1), port)).unwrap();
        let next = loopback(1, &[port]);
        assert!(![first, Ipv4Addr::new(a, b, c, d), Ipv4Addr::new(a, b, c, d + 1)].contains(&next));
        assert_eq!(next.octets()[..3], [a, b, c]);
    }
}
