//! What a server must know of a datagram beyond its bytes.

use mio::net::UdpSocket;
use std::net::{IpAddr, SocketAddr};

/// The address under which a client reached a socket that may listen on all of them: the one that an answer would come from.
pub fn local_for(socket: &UdpSocket, client: SocketAddr) -> IpAddr {
    let bound = socket.local_addr().map(|address| address.ip());
    let routed = || {
        let any = if client.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
        let probe = std::net::UdpSocket::bind((any, 0))?;
        probe.connect(client)?;
        probe.local_addr().map(|address| address.ip())
    };
    match bound {
        Ok(address) if !address.is_unspecified() => address,
        Ok(_) | Err(_) => routed().unwrap_or(client.ip()),
    }
}
