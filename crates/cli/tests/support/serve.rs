//! A running `midas serve` of its own process, with its configuration in a directory of its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use midas_lab::{Endpoint, Scratch};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

pub(crate) struct Serve {
    child: Child,
    scratch: Scratch,
    nfs: SocketAddr,
    mount: SocketAddr,
    /// Where the control plane answers over TCP, if the configuration says so.
    pub(crate) admin: Option<SocketAddr>,
}

impl Serve {
    /// Starts a proxy of `/scratch` over these servers, on free ports; returns when it is ready.
    pub(crate) fn start(servers: &[Endpoint]) -> Self {
        Self::start_with(servers, "")
    }

    /// The same with more lines at the end of the configuration.
    pub(crate) fn start_with(servers: &[Endpoint], lines: &str) -> Self {
        let listed: Vec<String> =
            servers.iter().map(|server| format!("\"{}:{}\"", server.address, server.nfs_port)).collect();
        let source = if servers[0].path.is_empty() { "/" } else { &servers[0].path };
        let config = format!(
            "[listen]\nnfs = \"127.0.0.1:0\"\nmount = \"127.0.0.1:0\"\n\
             [[pool]]\nname = \"heads\"\nservers = [{}]\nmount_port = {}\nstaleness = \"0s\"\n\
             [[export]]\npath = \"/scratch\"\nsource = \"{source}\"\npool = \"heads\"\nclients = [\"127.0.0.0/8\"]\n\
             access = \"rw\"\nsquash = \"none\"\ninsecure = true\n{lines}\n",
            listed.join(", "),
            servers[0].mount_port,
        );
        Self::of(&config)
    }

    /// Starts a proxy with this configuration and a control socket of its own; returns when it is ready.
    pub(crate) fn of(config: &str) -> Self {
        let scratch = Scratch::new();
        let file = scratch.path().join("midas.toml");
        std::fs::write(&file, config).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_midas"))
            .args(["serve", "--config"])
            .arg(&file)
            .arg("--socket")
            .arg(scratch.path().join(SOCKET))
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["ready:", "nfs", nfs, "mount", mount, admin @ ..] = words.as_slice() else {
            panic!("not ready: '{line}'")
        };
        let admin = admin.last().map(|address| address.parse().unwrap());
        Self { nfs: nfs.parse().unwrap(), mount: mount.parse().unwrap(), admin, child, scratch }
    }

    /// For clients.
    pub(crate) fn endpoint(&self) -> Endpoint {
        let (nfs_port, mount_port) = (self.nfs.port(), self.mount.port());
        Endpoint { address: Ipv4Addr::LOCALHOST, nfs_port, mount_port, path: "/scratch".to_owned() }
    }

    /// The control socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.scratch.path().join(SOCKET)
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

const SOCKET: &str = "control";
