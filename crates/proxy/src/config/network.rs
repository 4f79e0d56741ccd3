//! A network of clients, as `10.0.0.0/8` or one address. A client that reached an IPv6 listener over IPv4 counts as IPv4.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses that share a prefix. No bit beyond the prefix is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    first: IpAddr,
    prefix: u8,
}

impl Network {
    /// The network that was typed, or one line that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let Ok(first) = address.parse::<IpAddr>() else { return Err(not_a_network(text)) };
        let bits = width(first);
        let prefix = match prefix.map(decimal) {
            None => bits,
            Some(Some(prefix)) if prefix <= bits => prefix,
            Some(_) => return Err(format!("'{text}': the prefix of {first} must be in 0..{bits}")),
        };
        let network = Self { first: masked(first, prefix), prefix };
        match (network.first == first, first.to_canonical() == first) {
            (true, true) => Ok(network),
            (_, false) => Err(format!("'{text}' is an IPv4 address in IPv6 form; write it as IPv4")),
            (false, true) => Err(format!("'{text}' has bits set beyond its prefix; write {network}")),
        }
    }

    /// Whether this address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && masked(address, self.prefix) == self.first
    }

    /// Whether only this machine is in it.
    pub fn is_loopback(&self) -> bool {
        match self.first {
            IpAddr::V4(first) => first.is_loopback() && self.prefix >= 8,
            IpAddr::V6(first) => first.is_loopback() && self.prefix == 128,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix == width(self.first) {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}/{}", self.first, self.prefix),
        }
    }
}

/// Digits alone: the standard library would also take a sign.
fn decimal(text: &str) -> Option<u8> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn not_a_network(text: &str) -> String {
    match text {
        "*" => "'*' is not a network; everyone is 0.0.0.0/0 and ::/0".to_owned(),
        _ => {
            format!("'{text}' is not a network; write an address or a prefix, such as 10.0.0.7, 10.0.0.0/8 or fd00::/8")
        }
    }
}

fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    let (prefix, bits) = (u32::from(prefix), u32::from(width(address)));
    // A shift by the whole width is no shift: prefix 0 is a case of its own.
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(bits - prefix).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(bits - prefix).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_what_shares_its_prefix() {
        let cases = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.2", false),
            ("192.168.4.128/25", "192.168.4.127", false),
            ("192.168.4.128/25", "192.168.4.255", true),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "10.0.0.1", false),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe00::1", false),
            ("2001:db8::1", "2001:db8::1", true),
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
            ("::/0", "::ffff:10.1.1.1", false),
        ];
        for (network, client, want) in cases {
            let network = Network::parse(network).unwrap();
            assert_eq!(network.contains(client.parse().unwrap()), want, "{network} contains {client}");
        }
    }

    #[test]
    fn what_is_typed_is_what_is_shown() {
        for text in ["10.0.0.0/8", "10.0.0.7", "0.0.0.0/0", "::/0", "fd00::/8", "::1"] {
            assert_eq!(Network::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Network::parse("10.0.0.7/32").unwrap().to_string(), "10.0.0.7");
    }

    #[test]
    fn what_is_no_network_is_refused_with_a_way_out() {
        let cases = [
            ("", "such as 10.0.0.7"),
            ("*", "0.0.0.0/0 and ::/0"),
            ("node7", "such as 10.0.0.7"),
            ("10.0.0.0/", "must be in 0..32"),
            ("10.0.0.0/33", "must be in 0..32"),
            ("10.0.0.0/+8", "must be in 0..32"),
            ("10.0.0.0/8/8", "must be in 0..32"),
            ("fd00::/129", "must be in 0..128"),
            ("10.0.0.1/8", "write 10.0.0.0/8"),
            ("fd00::1/8", "write fd00::/8"),
            ("::ffff:10.0.0.1", "write it as IPv4"),
        ];
        for (text, want) in cases {
            let error = Network::parse(text).unwrap_err();
            assert!(error.contains(want) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for (text, want) in
            [("127.0.0.0/8", true), ("127.0.0.1", true), ("::1", true), ("0.0.0.0/0", false), ("::/127", false)]
        {
            assert_eq!(Network::parse(text).unwrap().is_loopback(), want, "{text}");
        }
    }
}
