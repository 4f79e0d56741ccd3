//! Portmap version 2 and rpcbind versions 3 and 4 (RFC 1833): which port a program listens on. Only what clients ask is
//! here; nothing can be registered over the wire.

use crate::xdr::{Malformed, Reader, put};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

/// The program's number.
pub const PROGRAM: u32 = 100_000;
/// Lowest and highest version.
pub const VERSIONS: (u32, u32) = (2, 4);
/// The well-known port.
pub const PORT: u16 = 111;

/// A program that listens: what the mapper knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// The program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// Where it listens, over TCP.
    pub address: SocketAddr,
}

/// A call that is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call<'a> {
    /// Do nothing.
    Null,
    /// SET or UNSET, refused with FALSE.
    Change,
    /// The port of a program (version 2).
    Getport {
        /// The program.
        program: u32,
        /// Its version.
        version: u32,
        /// IP protocol number.
        protocol: u32,
    },
    /// The universal address of a program (versions 3 and 4).
    Getaddr {
        /// The program.
        program: u32,
        /// Its version.
        version: u32,
        /// Transport, such as `tcp`; empty: the one that the question came over.
        netid: &'a [u8],
        /// GETVERSADDR: this version or none.
        exact: bool,
    },
    /// All that is known.
    Dump,
    /// The time here, in seconds.
    Gettime,
}

impl<'a> Call<'a> {
    /// The call with this number; none if it is not answered in that version.
    pub fn decode(version: u32, procedure: u32, args: &'a [u8]) -> Option<Result<Self, Malformed>> {
        let from = &mut Reader::new(args);
        Some(match (version, procedure) {
            (_, 0) => Ok(Self::Null),
            (_, 1 | 2) => Ok(Self::Change),
            (2, 3) => getport(from),
            (3 | 4, 3) => getaddr(from, false),
            (4, 9) => getaddr(from, true),
            (_, 4) => Ok(Self::Dump),
            (3 | 4, 6) => Ok(Self::Gettime),
            _ => return None,
        })
    }

    /// Appends the results, in the form of that version. `unix_seconds` is the time; `local` is where the question came in: a
    /// program that listens on every address is told under that one.
    pub fn answer(&self, out: &mut Vec<u8>, version: u32, known: &[Mapping], local: IpAddr, unix_seconds: u32) {
        match self {
            Self::Null => {}
            Self::Change => put::bool(out, false),
            Self::Getport { program, version, protocol } => {
                let here = || at(known, local, own(local)).filter(|_| *protocol == IPPROTO_TCP);
                let found = find(here, *program, *version, false);
                put::u32(out, found.map_or(0, |mapping| mapping.address.port().into()));
            }
            Self::Getaddr { program, version, netid, exact } => {
                let wanted = if netid.is_empty() { own(local) } else { netid };
                let found = find(|| at(known, local, wanted), *program, *version, *exact);
                put::opaque(out, found.map(|mapping| universal(mapping.address)).unwrap_or_default().as_bytes());
            }
            Self::Dump => dump(out, version, known, local),
            Self::Gettime => put::u32(out, unix_seconds),
        }
    }
}

fn getport<'a>(from: &mut Reader<'_>) -> Result<Call<'a>, Malformed> {
    Ok(Call::Getport { program: from.u32()?, version: from.u32()?, protocol: from.u32()? })
}

fn getaddr<'a>(from: &mut Reader<'a>, exact: bool) -> Result<Call<'a>, Malformed> {
    let (program, version, netid) = (from.u32()?, from.u32()?, from.opaque(STRING)?);
    let (_address, _owner) = (from.opaque(STRING)?, from.opaque(STRING)?);
    Ok(Call::Getaddr { program, version, netid, exact })
}

/// What can be reached over one transport, under the address that the client would use.
fn at<'k>(known: &'k [Mapping], local: IpAddr, wanted: &'k [u8]) -> impl Iterator<Item = Mapping> + 'k {
    let here = move |mapping: &Mapping| Mapping { address: reachable(mapping.address, local), ..*mapping };
    known.iter().map(here).filter(move |mapping| netid(mapping.address) == wanted)
}

/// The transport of a question that came in at this address.
fn own(local: IpAddr) -> &'static [u8] {
    netid(SocketAddr::new(local.to_canonical(), 0))
}

/// The mapping of that version; another version's where the question allows it, as rpcbind does: the program itself says
/// PROG_MISMATCH then, which is a better answer than "not there".
fn find<I: Iterator<Item = Mapping>>(
    known: impl Fn() -> I,
    program: u32,
    version: u32,
    exact: bool,
) -> Option<Mapping> {
    let of_program = || known().filter(|mapping| mapping.program == program);
    of_program().find(|mapping| mapping.version == version).or_else(|| of_program().next().filter(|_| !exact))
}

fn dump(out: &mut Vec<u8>, version: u32, known: &[Mapping], local: IpAddr) {
    for mapping in known {
        put::bool(out, true);
        put::u32(out, mapping.program);
        put::u32(out, mapping.version);
        if version == 2 {
            put::u32(out, IPPROTO_TCP);
            put::u32(out, mapping.address.port().into());
        } else {
            let address = reachable(mapping.address, local);
            put::opaque(out, netid(address));
            put::opaque(out, universal(address).as_bytes());
            put::opaque(out, b"superuser");
        }
    }
    put::bool(out, false);
}

fn netid(address: SocketAddr) -> &'static [u8] {
    match address {
        SocketAddr::V4(_) => b"tcp",
        SocketAddr::V6(_) => b"tcp6",
    }
}

/// Where the client can reach what listens there. An IPv4 client of a socket for both families came in at a mapped address,
/// which it could not read itself; a socket for all IPv4 addresses has no address for an IPv6 client.
fn reachable(address: SocketAddr, local: IpAddr) -> SocketAddr {
    let local = local.to_canonical();
    let all = address.ip().is_unspecified() && (address.is_ipv6() || local.is_ipv4());
    let ip = if all { local } else { address.ip().to_canonical() };
    SocketAddr::new(ip, address.port())
}

/// RFC 5665: the address, then the port's two bytes in decimal.
fn universal(address: SocketAddr) -> String {
    let [high, low] = address.port().to_be_bytes();
    format!("{}.{high}.{low}", address.ip())
}

const IPPROTO_TCP: u32 = 6;
/// Longest netid, universal address or owner.
const STRING: usize = 255;
