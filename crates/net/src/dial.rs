//! Connecting to a server. From a port below 1024 where the system allows it: NFS servers take that for the word of a client's
//! root, and by default refuse others (`secure` of the kernel's server).

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

/// Which port a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A reserved one if there is one and we may, otherwise any.
    Reserved,
    /// Any.
    Any,
    /// This one if it is free, as some servers know a client's calls by it; otherwise a reserved one.
    Same(u16),
}

/// Connects within `patience`; every later wait on the stream is bounded by it too.
pub fn dial(address: SocketAddr, source: Source, patience: Duration) -> io::Result<TcpStream> {
    let stream = begin(address, source)?;
    finished(&stream, patience)?;
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(stream)
}

/// Begins to connect and does not wait: the socket does not block, and can be written once the connection is there.
pub fn begin(address: SocketAddr, source: Source) -> io::Result<TcpStream> {
    if let Source::Same(port) = source
        && let Ok(stream) = begin_from(Some(port), address)
    {
        return Ok(stream);
    }
    if source != Source::Any {
        for _ in RESERVED_FIRST..=RESERVED_LAST {
            match begin_from(Some(next_reserved()), address) {
                Err(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) => {}
                Err(Errno::ACCESS | Errno::PERM) => break,
                result => return Ok(result?),
            }
        }
    }
    Ok(begin_from(None, address)?)
}

fn begin_from(port: Option<u16>, address: SocketAddr) -> Result<TcpStream, Errno> {
    let (family, any) = match address {
        SocketAddr::V4(_) => (AddressFamily::INET, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        SocketAddr::V6(_) => (AddressFamily::INET6, IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    if let Some(port) = port {
        // A port whose last connection lingers may be used again for another server.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddr::new(any, port))?;
        if port <= RESERVED_LAST {
            MAY_RESERVE.store(true, Ordering::Relaxed);
        }
    }
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error),
    }
}

/// Waits until a connection is there or has failed.
fn finished(socket: &TcpStream, patience: Duration) -> Result<(), Errno> {
    let limit = Timespec::try_from(patience).map_err(|_| Errno::INVAL)?;
    let mut watched = [PollFd::new(socket, PollFlags::OUT)];
    match rustix::io::retry_on_intr(|| poll(&mut watched, Some(&limit)))? {
        0 => Err(Errno::TIMEDOUT),
        _ => sockopt::socket_error(socket)?,
    }
}

/// Whether this process has had a reserved port.
pub(crate) fn may_reserve() -> bool {
    MAY_RESERVE.load(Ordering::Relaxed)
}

static MAY_RESERVE: AtomicBool = AtomicBool::new(false);

/// Ports in turn, so that connections made one after another do not meet the same taken ones.
fn next_reserved() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    RESERVED_FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % (RESERVED_LAST - RESERVED_FIRST + 1)
}

/// The kernel's client begins at 665 too: below are ports of well-known services.
const RESERVED_FIRST: u16 = 665;
pub(crate) const RESERVED_LAST: u16 = 1023;

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
    fn nobody_there_is_an_error_at_once() {
        let unused = crate::Reservation::on(&[Ipv4Addr::LOCALHOST.into()]).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, unused.port()));
        for source in [Source::Reserved, Source::Any] {
            let error = dial(address, source, PATIENCE).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        }
    }
}
