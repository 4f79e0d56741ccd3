//! Whether a server is there: which versions it speaks, how long an empty call takes, what it exports.

use super::{Asking, Trouble};
use crate::config::Server;
use midas_net::{Caller, Client, ClientError};
use midas_nfs::rpc::Refusal;
use midas_nfs::{mount, nfs3, portmap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// What a server says before anyone asks for files.
#[derive(Clone, Debug)]
pub struct Greeting {
    /// NFS.
    pub nfs: Result<Service, Trouble>,
    /// MOUNT.
    pub mount: Result<Service, Trouble>,
    /// The paths that MOUNT offers.
    pub exports: Result<Vec<Vec<u8>>, Trouble>,
}

/// A program that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Lowest and highest version; none if the server does not say.
    pub versions: Option<(u32, u32)>,
    /// Median time of an empty call.
    pub round_trip: Duration,
}

/// Asks one server.
pub fn greet(server: &Server, asking: &Asking<'_>) -> Greeting {
    Greeting {
        nfs: service("NFS", server.address, (nfs3::PROGRAM, nfs3::VERSION), asking),
        mount: service("MOUNT", server.mount, (mount::PROGRAM, mount::VERSION), asking),
        exports: exports(server, asking),
    }
}

fn service(
    name: &str,
    address: SocketAddr,
    (program, version): (u32, u32),
    asking: &Asking<'_>,
) -> Result<Service, Trouble> {
    let trouble = |error: ClientError| Trouble::of(&format!("{name} at {address}"), &error);
    let mut client = Client::connect(address, &Caller::ROOT, asking.patience).map_err(|error| trouble(error.into()))?;
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let asked = Instant::now();
        client.call(program, version, NULL, |_| {}).map_err(trouble)?;
        times.push(asked.elapsed());
    }
    times.sort_unstable();
    let versions = match client.call(program, VERSION_OF_NOBODY, NULL, |_| {}) {
        Err(ClientError::Refused(Refusal::ProgMismatch { low, high })) => Some((low, high)),
        Ok(_) | Err(_) => None,
    };
    Ok(Service { versions, round_trip: times[ROUND_TRIPS / 2] })
}

fn exports(server: &Server, asking: &Asking<'_>) -> Result<Vec<Vec<u8>>, Trouble> {
    let ask = || Client::connect(server.mount, &Caller::ROOT, asking.patience)?.exports();
    ask().map_err(|error| Trouble::of(&format!("EXPORT at {}", server.mount), &error))
}

/// Where the host of this NFS server answers MOUNT, if that can be found out: there, where its portmap says, or at the usual port.
pub fn mount_port(nfs: SocketAddr, asking: &Asking<'_>) -> Option<u16> {
    let at = |port| SocketAddr::new(nfs.ip(), port);
    let answers = |port: &u16| service("MOUNT", at(*port), (mount::PROGRAM, mount::VERSION), asking).is_ok();
    let told = || portmapped(at(portmap::PORT), asking).ok().filter(|port| *port != 0);
    Some(nfs.port()).filter(answers).or_else(|| told().filter(answers)).or_else(|| Some(MOUNT_PORT).filter(answers))
}

fn portmapped(portmap: SocketAddr, asking: &Asking<'_>) -> Result<u16, ClientError> {
    let mut client = Client::connect(portmap, &Caller::ROOT, asking.patience)?;
    let words = [mount::PROGRAM, mount::VERSION, TCP, 0];
    let results = client.call(portmap::PROGRAM, portmap::VERSIONS.0, GETPORT, |out| {
        out.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    })?;
    let port = results.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    Ok(u16::try_from(port).unwrap_or(0))
}

/// Odd, so that the median is one of them.
const ROUND_TRIPS: usize = 15;
/// The procedure of every program that does nothing.
const NULL: u32 = 0;
/// No program has it: whoever is asked says which versions it has (RFC 5531, 9).
const VERSION_OF_NOBODY: u32 = 0x4d49_4441;
/// What Linux's mountd is usually given.
const MOUNT_PORT: u16 = 20_048;
const GETPORT: u32 = 3;
/// IPPROTO_TCP.
const TCP: u32 = 6;
