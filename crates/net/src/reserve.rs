//! Ports that are kept for somebody who listens on them later, or again.
//!
//! A port that was free a moment ago is free no longer once another program asks the system for any
//! port, or begins a connection from it. A [`Reservation`] is a bound socket that does not listen: no
//! other program is given its port, and a connection to it is refused. On Linux a listener with
//! `SO_REUSEADDR` may stand beside it, and every listener of ours is one.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// A port that is kept while this value lives.
#[derive(Debug)]
pub struct Reservation {
    port: u16,
    _sockets: Vec<OwnedFd>,
}

impl Reservation {
    /// A port that nobody has on any of these addresses, for streams or for datagrams.
    ///
    /// The port is none that the system gives to those who name none.
    pub fn on(addresses: &[IpAddr]) -> io::Result<Self> {
        for _ in FIRST..=LAST {
            let port = next();
            let free = |address: &IpAddr| UdpSocket::bind((*address, port)).is_ok();
            let sockets: Result<Vec<OwnedFd>, Errno> =
                addresses.iter().map(|address| exclusive(SocketAddr::new(*address, port))).collect();
            match sockets {
                Ok(sockets) if addresses.iter().all(free) => return Ok(Self { port, _sockets: sockets }),
                Ok(_) | Err(Errno::ADDRINUSE) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::ADDRINUSE.into())
    }

    /// Keeps this very port, or any that is free if it is 0, unless somebody listens there.
    ///
    /// Somebody else may keep the same port: this is for a listener that goes and comes back.
    pub fn beside(address: SocketAddr) -> io::Result<Self> {
        let socket = unbound(address)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &address)?;
        let port = SocketAddr::try_from(getsockname(&socket)?)?.port();
        Ok(Self { port, _sockets: vec![socket] })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// Bound alone; from now on a listener may stand beside it, but no second socket like this one.
fn exclusive(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let socket = unbound(address)?;
    bind(&socket, &address)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    Ok(socket)
}

fn unbound(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

/// Ports in turn. Processes begin at different ones, so that they seldom ask for the same.
fn next() -> u16 {
    static TURN: AtomicU16 = AtomicU16::new(0);
    let turn = u32::from(TURN.fetch_add(1, Ordering::Relaxed));
    let ports = u32::from(LAST - FIRST) + 1;
    let begin = std::process::id().wrapping_mul(STRIDE) % ports;
    FIRST + ((begin + turn) % ports) as u16
}

/// Above the well-known services, below what Linux gives to those who name no port.
const FIRST: u16 = 10_240;
const LAST: u16 = 32_767;
/// Neighbouring processes begin so far apart.
const STRIDE: u32 = 97;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn a_reserved_port_is_given_to_nobody_and_can_be_listened_on_again_and_again() {
        let kept = Reservation::on(&[HERE]).unwrap();
        let at = SocketAddr::new(HERE, kept.port());
        assert_eq!(exclusive(at).unwrap_err(), Errno::ADDRINUSE);
        for _ in 0..3 {
            assert_eq!(TcpStream::connect(at).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
            let listener = TcpListener::bind(at).unwrap();
            let _client = TcpStream::connect(at).unwrap();
            assert!(TcpListener::bind(at).is_err(), "one listens");
            drop(listener);
            assert_eq!(exclusive(at).unwrap_err(), Errno::ADDRINUSE);
        }
    }

    #[test]
    fn no_port_is_given_out_twice() {
        let addresses = [HERE, IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let kept: Vec<Reservation> = (0..200).map(|_| Reservation::on(&addresses).unwrap()).collect();
        let ports: HashSet<u16> = kept.iter().map(Reservation::port).collect();
        assert_eq!(ports.len(), kept.len());
        assert!(ports.iter().all(|port| (FIRST..=LAST).contains(port)));
    }

    #[test]
    fn a_port_that_somebody_holds_on_every_address_is_passed_over() {
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let taken = TcpListener::bind(any).unwrap();
        let theirs = taken.local_addr().unwrap().port();
        assert_eq!(exclusive(SocketAddr::new(HERE, theirs)).unwrap_err(), Errno::ADDRINUSE);
        assert!(Reservation::beside(SocketAddr::new(HERE, theirs)).is_err());
    }

    #[test]
    fn a_port_is_kept_beside_whoever_keeps_it() {
        let kept = Reservation::on(&[HERE]).unwrap();
        let beside = Reservation::beside(SocketAddr::new(HERE, kept.port())).unwrap();
        assert_eq!(beside.port(), kept.port());
        let any = Reservation::beside(SocketAddr::new(HERE, 0)).unwrap();
        let _listener = TcpListener::bind((HERE, any.port())).unwrap();
    }
}
