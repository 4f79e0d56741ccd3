//! Which loopback addresses and ports belong to this process.
//!
//! Tests run in parallel processes. Each process has its own 127.x.y.0/24, taken from its pid, so that servers with
//! fixed ports never meet; an address that is busy nevertheless is passed over.

use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Addresses that one process may take.
const HOSTS_MAX: u32 = 254;
/// 127.0.0.0/16 is left to people, 127.255.0.0/16 to broadcast.
const SECOND_OCTETS: u32 = 254;

/// The first of `count` consecutive loopback addresses that nobody else was given, with all of `ports` free on each.
pub fn loopback(count: usize, ports: &[u16]) -> Ipv4Addr {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let count = u32::try_from(count).expect("a number of heads is small");
    loop {
        let first = TAKEN.fetch_add(count, Ordering::Relaxed) + 1;
        assert!(first + count <= HOSTS_MAX + 1, "one process may take {HOSTS_MAX} loopback addresses");
        let free = |host| ports.iter().all(|&port| TcpListener::bind((nth(process::id(), host), port)).is_ok());
        if (first..first + count).all(free) {
            return nth(process::id(), first);
        }
    }
}

/// A port that is free on this address now. Only for an address that is our own: another process may take it meanwhile.
pub fn free_port(address: Ipv4Addr) -> u16 {
    let listener = TcpListener::bind((address, 0)).expect("a loopback address can be listened on");
    listener.local_addr().expect("a listener has an address").port()
}

fn nth(pid: u32, host: u32) -> Ipv4Addr {
    let second = 1 + pid / 256 % SECOND_OCTETS;
    Ipv4Addr::new(127, second as u8, (pid % 256) as u8, host as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn neighbouring_pids_share_no_network_and_all_are_loopback() {
        let networks: HashSet<Ipv4Addr> = (1..=60_000).map(|pid| nth(pid, 1)).collect();
        assert_eq!(networks.len(), 60_000);
        assert!(networks.iter().all(|address| address.is_loopback() && address.octets()[1] > 0));
    }

    #[test]
    fn an_address_is_given_once_and_a_busy_one_is_passed_over() {
        let first = loopback(2, &[]);
        let port = free_port(first);
        let [a, b, c, d] = loopback(1, &[port]).octets();
        let _busy = TcpListener::bind((Ipv4Addr::new(a, b, c, d + 1), port)).unwrap();
        let next = loopback(1, &[port]);
        assert!(![first, Ipv4Addr::new(a, b, c, d), Ipv4Addr::new(a, b, c, d + 1)].contains(&next));
        assert_eq!(next.octets()[..3], [a, b, c]);
    }
}
