//! A server to be measured, as it is typed: `[NAME=]HOST:PORT[/PATH][?mount=PORT]`.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};

/// A server, and the export on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// What reports call it.
    pub name: String,
    /// Host and port of NFS, as typed.
    pub host: String,
    /// Port of NFS.
    pub port: u16,
    /// Port of MOUNT, where it is not NFS's own.
    pub mount_port: Option<u16>,
    /// The path to mount.
    pub path: String,
}

impl Target {
    /// Understands one target; the error is one line that says what is possible.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a target: write [NAME=]HOST:PORT[/PATH][?mount=PORT]");
        let (rest, mount_port) = match text.split_once('?') {
            None => (text, None),
            Some((rest, option)) => (rest, Some(option.strip_prefix("mount=").and_then(port).ok_or_else(wrong)?)),
        };
        let (address, path) = match rest.find('/') {
            Some(slash) => (&rest[..slash], &rest[slash..]),
            None => (rest, "/"),
        };
        let (name, address) = match address.split_once('=') {
            Some((name, address)) => (Some(name), address),
            None => (None, address),
        };
        let (host, number) = address.rsplit_once(':').ok_or_else(wrong)?;
        let number = port(number).ok_or_else(wrong)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if bare.is_empty() || name.is_some_and(str::is_empty) {
            return Err(wrong());
        }
        let name = name.map_or_else(|| rest.to_owned(), str::to_owned);
        Ok(Self { name, host: bare.to_owned(), port: number, mount_port, path: path.to_owned() })
    }

    /// Where NFS listens.
    pub(crate) fn nfs(&self) -> Result<SocketAddr, String> {
        self.resolve(self.port)
    }

    /// Where MOUNT listens.
    pub(crate) fn mount(&self) -> Result<SocketAddr, String> {
        self.resolve(self.mount_port.unwrap_or(self.port))
    }

    fn resolve(&self, port: u16) -> Result<SocketAddr, String> {
        let found = (self.host.as_str(), port).to_socket_addrs().map_err(|error| format!("{}: {error}", self.host))?;
        found.into_iter().next().ok_or_else(|| format!("{}: no address", self.host))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}{}", self.host, self.port, self.path),
            false => write!(f, "{}:{}{}", self.host, self.port, self.path),
        }
    }
}

fn port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_understood_with_and_without_their_parts() {
        let cases = [
            ("server:2049", ("server:2049", "server", 2049, None, "/")),
            ("127.0.0.1:20049/export/a", ("127.0.0.1:20049/export/a", "127.0.0.1", 20049, None, "/export/a")),
            ("fast=[::1]:2049/x=y", ("fast", "::1", 2049, None, "/x=y")),
            ("a=b:1/p?mount=9", ("a", "b", 1, Some(9), "/p")),
        ];
        for (text, (name, host, port, mount_port, path)) in cases {
            let (name, host, path) = (name.to_owned(), host.to_owned(), path.to_owned());
            assert_eq!(Target::parse(text), Ok(Target { name, host, port, mount_port, path }), "{text}");
        }
    }

    #[test]
    fn what_is_no_target_says_what_is() {
        for text in ["", "host", "host:", "host:0", "host:70000", ":1", "=h:1", "h:1/p?mount=", "h:1?port=3", "/path"] {
            let error = Target::parse(text).unwrap_err();
            assert!(error.contains("[NAME=]HOST:PORT[/PATH][?mount=PORT]") && !error.contains('\n'), "{error}");
        }
    }
}
