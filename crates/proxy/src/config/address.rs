//! Where something listens: `host:port`, with a literal address or a host name.

use super::Resolve;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// The address that was typed, or one line that says what is wrong. A name must have one address: which of several was meant
/// cannot be known, and tomorrow's answer may be another.
pub(super) fn parse(text: &str, resolve: Resolve<'_>) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(|| not_an_address(text))?;
    let Ok(port) = port.parse::<u16>() else { return Err(not_an_address(text)) };
    if !is_host_name(host) {
        return Err(not_an_address(text));
    }
    let found = resolve(host, port).map_err(|error| format!("cannot find the address of '{host}': {error}"))?;
    // What the system gives first is what it prefers. A host with both kinds of address is one host.
    let preferred = found.first().ok_or_else(|| format!("'{host}' has no address"))?;
    let mut same: Vec<SocketAddr> = found.iter().filter(|a| a.is_ipv4() == preferred.is_ipv4()).copied().collect();
    same.sort_unstable();
    same.dedup();
    match same.as_slice() {
        [address] => Ok(*address),
        several => {
            let shown: Vec<String> = several.iter().map(ToString::to_string).collect();
            Err(format!("'{host}' has {} addresses; write the one that is meant: {}", shown.len(), shown.join(", ")))
        }
    }
}

/// What the system knows: its hosts file, its name servers.
pub(super) fn ask_system(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.collect())
}

/// Whether two listeners cannot both have their address. `[::]` takes IPv4 as well, as Linux does it; port 0 is any free one.
pub(super) fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip().to_canonical(), other.ip().to_canonical());
    let covers = |wide: IpAddr, narrow: IpAddr| match wide {
        IpAddr::V4(wide) => wide.is_unspecified() && narrow.is_ipv4(),
        IpAddr::V6(wide) => wide.is_unspecified(),
    };
    one.port() != 0 && one.port() == other.port() && (a == b || covers(a, b) || covers(b, a))
}

/// Letters, digits, hyphens and dots; not a number, which would be a mistyped address.
fn is_host_name(text: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    !text.is_empty() && text.chars().all(letters) && text.chars().any(|c| c.is_ascii_alphabetic())
}

fn not_an_address(text: &str) -> String {
    match text.parse::<IpAddr>() {
        Ok(address) => format!("'{text}' has no port; write {}", SocketAddr::new(address, 2049)),
        Err(_) => {
            format!("'{text}' is not an address; write host:port, such as 10.0.0.1:2049, [fd00::1]:2049 or nas1:2049")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let addresses: &[&str] = match host {
            "nas1" => &["10.0.0.1"],
            "both" => &["fd00::1", "10.0.0.1", "fd00::1"],
            "many" => &["10.0.0.2", "10.0.0.1"],
            "none" => &[],
            _ => return Err(io::Error::other("no such host")),
        };
        Ok(addresses.iter().map(|text| SocketAddr::new(text.parse().unwrap(), port)).collect())
    }

    #[test]
    fn an_address_is_literal_or_a_name_with_one_address() {
        let cases = [
            ("10.0.0.1:2049", Ok("10.0.0.1:2049")),
            ("[fd00::1]:2049", Ok("[fd00::1]:2049")),
            ("nas1:12049", Ok("10.0.0.1:12049")),
            ("both:1", Ok("[fd00::1]:1")),
            ("many:1", Err("'many' has 2 addresses; write the one that is meant: 10.0.0.1:1, 10.0.0.2:1")),
            ("none:1", Err("'none' has no address")),
            ("gone:1", Err("cannot find the address of 'gone': no such host")),
            ("10.0.0.1", Err("'10.0.0.1' has no port; write 10.0.0.1:2049")),
            ("fd00::1", Err("'fd00::1' has no port; write [fd00::1]:2049")),
            ("nas1", Err("'nas1' is not an address; write host:port")),
            ("nas1:", Err("'nas1:' is not an address")),
            ("nas1:65536", Err("'nas1:65536' is not an address")),
            (":2049", Err("':2049' is not an address")),
            ("10.0.0.256:2049", Err("'10.0.0.256:2049' is not an address")),
            ("fd00::zz:2049", Err("'fd00::zz:2049' is not an address")),
            ("nas 1:2049", Err("'nas 1:2049' is not an address")),
        ];
        for (text, want) in cases {
            match (parse(text, &hosts), want) {
                (Ok(address), Ok(want)) => assert_eq!(address.to_string(), want),
                (Err(error), Err(want)) => assert!(error.contains(want), "{text}: {error}"),
                (found, want) => panic!("{text}: {found:?}, not {want:?}"),
            }
        }
    }

    #[test]
    fn listeners_collide_on_a_port_that_one_of_them_takes_for_both() {
        let cases = [
            ("127.0.0.1:1", "127.0.0.1:1", true),
            ("127.0.0.1:1", "127.0.0.1:2", false),
            ("127.0.0.1:1", "127.0.0.2:1", false),
            ("0.0.0.0:1", "127.0.0.2:1", true),
            ("0.0.0.0:1", "[::1]:1", false),
            ("[::]:1", "0.0.0.0:1", true),
            ("[::]:1", "127.0.0.1:1", true),
            ("[::]:1", "[fd00::1]:1", true),
            ("127.0.0.1:0", "127.0.0.1:0", false),
        ];
        for (one, other, want) in cases {
            let (one, other) = (one.parse().unwrap(), other.parse().unwrap());
            assert_eq!((collide(one, other), collide(other, one)), (want, want), "{one} {other}");
        }
    }
}
