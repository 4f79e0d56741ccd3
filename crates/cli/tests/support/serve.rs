//! A running `midas serve` of its own process, with its configuration in a directory of its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use midas_lab::{Endpoint, Scratch};
use midas_net::{Caller, Client};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// What a proxy of `/scratch` is to be; every text goes into its configuration as it is.
pub(crate) struct Site {
    pub(crate) listen: String,
    pub(crate) servers: Vec<SocketAddr>,
    /// Where every server answers MOUNT; none: each at its NFS port.
    pub(crate) mount_port: Option<u16>,
    pub(crate) source: String,
    pub(crate) clients: &'static str,
    pub(crate) insecure: bool,
    /// More tables, behind the export's.
    pub(crate) more: String,
}

impl Site {
    /// Over these servers, on free ports, for everyone here.
    pub(crate) fn of(servers: &[Endpoint]) -> Self {
        let at = |server: &Endpoint| SocketAddr::new(server.address.into(), server.nfs_port);
        let own = servers.iter().all(|server| server.mount_port == server.nfs_port);
        let mount_port = (!own).then_some(servers[0].mount_port);
        Self::over(servers.iter().map(at).collect(), mount_port, &servers[0].path)
    }

    /// As [`Site::of`], for servers of any family.
    pub(crate) fn over(servers: Vec<SocketAddr>, mount_port: Option<u16>, source: &str) -> Self {
        Self {
            listen: "nfs = \"127.0.0.1:0\"\nmount = \"127.0.0.1:0\"".to_owned(),
            servers,
            mount_port,
            source: if source.is_empty() { "/" } else { source }.to_owned(),
            clients: "\"127.0.0.0/8\"",
            insecure: true,
            more: String::new(),
        }
    }

    pub(crate) fn config(&self) -> String {
        let Self { listen, source, clients, insecure, more, .. } = self;
        let mount_port = self.mount_port.map_or(String::new(), |port| format!("mount_port = {port}\n"));
        let servers: Vec<String> = self.servers.iter().map(|server| format!("\"{server}\"")).collect();
        format!(
            "[listen]\n{listen}\n\
             [[pool]]\nname = \"heads\"\nservers = [{}]\n{mount_port}staleness = \"0s\"\n\
             [[export]]\npath = \"/scratch\"\nsource = \"{source}\"\npool = \"heads\"\nclients = [{clients}]\n\
             access = \"rw\"\nsquash = \"none\"\ninsecure = {insecure}\n{more}\n",
            servers.join(", "),
        )
    }

    /// Starts it; returns when it is ready.
    pub(crate) fn start(&self) -> Serve {
        Serve::of(&self.config())
    }
}

pub(crate) struct Serve {
    child: Child,
    scratch: Scratch,
    /// Where it answers NFS, and MOUNT.
    pub(crate) nfs: Vec<SocketAddr>,
    pub(crate) mount: Vec<SocketAddr>,
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
        Site { more: lines.to_owned(), ..Site::of(servers) }.start()
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
        Self { nfs: addresses(nfs), mount: addresses(mount), admin, child, scratch }
    }

    /// For clients.
    pub(crate) fn endpoint(&self) -> Endpoint {
        let address = match self.nfs[0] {
            SocketAddr::V4(address) => *address.ip(),
            SocketAddr::V6(_) => Ipv4Addr::LOCALHOST,
        };
        let (nfs_port, mount_port) = (self.nfs[0].port(), self.mount[0].port());
        Endpoint { address, nfs_port, mount_port, path: "/scratch".to_owned() }
    }

    /// A client of its first listener, and the export's root.
    pub(crate) fn client(&self) -> (Client, Vec<u8>) {
        client(self.nfs[0], self.mount[0])
    }

    /// Resident memory now and at its highest, in bytes.
    pub(crate) fn memory(&self) -> (u64, u64) {
        super::memory(self.child.id())
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

/// A client that asked one address for the export's root and calls another.
pub(crate) fn client(nfs: SocketAddr, mount: SocketAddr) -> (Client, Vec<u8>) {
    let patience = super::raw::PATIENCE;
    let root = Client::connect(mount, &Caller::ROOT, patience).unwrap().mount(b"/scratch").unwrap().root;
    (Client::connect(nfs, &Caller::ROOT, patience).unwrap(), root)
}

fn addresses(listed: &str) -> Vec<SocketAddr> {
    listed.split(',').map(|address| address.parse().unwrap()).collect()
}

const SOCKET: &str = "control";
