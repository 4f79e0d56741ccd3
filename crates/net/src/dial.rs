//! Connecting to a server. From a port below 1024 where the system allows it: NFS servers take that for the word of a client's
//! root, and by default refuse others (`secure` of the kernel's server).

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// Which port a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A reserved one if there is one and we may, otherwise any.
    Reserved,
    /// Any.
    Any,
}

/// Connects within `patience`.
pub fn dial(address: SocketAddr, source: Source, patience: Duration) -> io::Result<TcpStream> {
    if source == Source::Any {
        return TcpStream::connect_timeout(&address, patience);
    }
    match from_reserved(|port| dial_from(port, address, patience)) {
        Some(result) => Ok(result?),
        None => TcpStream::connect_timeout(&address, patience),
    }
}

/// Begins to connect: the stream does not block, and becomes writable once it is connected or has failed.
pub fn begin(address: SocketAddr, source: Source) -> io::Result<TcpStream> {
    let reserved = match source {
        Source::Reserved => from_reserved(|port| begin_from(Some(port), address)),
        Source::Any => None,
    };
    let socket = reserved.unwrap_or_else(|| begin_from(None, address))?;
    Ok(TcpStream::from(socket))
}

/// The first reserved port that works; none if none is free or allowed.
fn from_reserved<T>(mut from: impl FnMut(u16) -> Result<T, Errno>) -> Option<Result<T, Errno>> {
    for _ in RESERVED_FIRST..=RESERVED_LAST {
        match from(next_reserved()) {
            Err(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) => {}
            Err(Errno::ACCESS) => return None,
            result => return Some(result),
        }
    }
    None
}

fn dial_from(port: u16, address: SocketAddr, patience: Duration) -> Result<TcpStream, Errno> {
    let socket = begin_from(Some(port), address)?;
    finished(&socket, patience)?;
    rustix::io::ioctl_fionbio(&socket, false)?;
    Ok(TcpStream::from(socket))
}

fn begin_from(port: Option<u16>, address: SocketAddr) -> Result<OwnedFd, Errno> {
    let (family, any) = match address {
        SocketAddr::V4(_) => (AddressFamily::INET, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        SocketAddr::V6(_) => (AddressFamily::INET6, IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    if let Some(port) = port {
        // A port whose last connection lingers may be used again for another server.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddr::new(any, port))?;
    }
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// Waits until a connection is there or has failed.
fn finished(socket: &OwnedFd, patience: Duration) -> Result<(), Errno> {
    let limit = Timespec::try_from(patience).map_err(|_| Errno::INVAL)?;
    let mut watched = [PollFd::new(socket, PollFlags::OUT)];
    match poll(&mut watched, Some(&limit))? {
        0 => Err(Errno::TIMEDOUT),
        _ => sockopt::socket_error(socket)?,
    }
}

/// Ports in turn, so that connections made one after another do not meet the same taken ones.
fn next_reserved() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    RESERVED_FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % (RESERVED_LAST - RESERVED_FIRST + 1)
}

/// The kernel's client begins at 665 too: below are ports of well-known services.
const RESERVED_FIRST: u16 = 665;
const RESERVED_LAST: u16 = 1023;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn b6_connections_come_from_reserved_ports_where_that_is_allowed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let allowed = rustix::process::geteuid().is_root();
        let dialled: Vec<TcpStream> = (0..8).map(|_| dial(address, Source::Reserved, PATIENCE).unwrap()).collect();
        for stream in &dialled {
            let port = stream.local_addr().unwrap().port();
            assert_eq!((RESERVED_FIRST..=RESERVED_LAST).contains(&port), allowed, "{port}");
        }
        let any = dial(address, Source::Any, PATIENCE).unwrap();
        assert!(any.local_addr().unwrap().port() > RESERVED_LAST);
    }

    #[test]
    fn a_connection_that_is_begun_is_there_once_it_can_be_written() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let root = rustix::process::geteuid().is_root();
        for (source, reserved) in [(Source::Reserved, root), (Source::Any, false)] {
            let socket = OwnedFd::from(begin(address, source).unwrap());
            finished(&socket, PATIENCE).unwrap();
            let stream = TcpStream::from(socket);
            assert_eq!(stream.peer_addr().unwrap(), address);
            assert_eq!(stream.local_addr().unwrap().port() <= RESERVED_LAST, reserved);
        }
    }

    #[test]
    fn nobody_there_is_an_error_at_once() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for source in [Source::Reserved, Source::Any] {
            let error = dial(address, source, PATIENCE).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        }
    }
}
