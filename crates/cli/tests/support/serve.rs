//! A running `midas serve` of its own process, with its configuration, state and control socket in a directory of its own. It may be
//! signalled, reloaded, commanded, and started again at the same place.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use super::lines::Lines;
use midas_lab::raw::Raw;
use midas_lab::{Endpoint, PATIENCE, Scratch, free_port, mounted, readable, until};
use midas_net::Client;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What a proxy of `/scratch` is to be; every text goes into its configuration as it is.
pub(crate) struct Site {
    pub(crate) listen: String,
    pub(crate) servers: Vec<SocketAddr>,
    /// Where every server answers MOUNT; none: each at its NFS port.
    pub(crate) mount_port: Option<u16>,
    pub(crate) source: String,
    pub(crate) staleness: &'static str,
    pub(crate) clients: &'static str,
    pub(crate) insecure: bool,
    /// More lines of the pool, and of the export.
    pub(crate) pool: String,
    pub(crate) export: &'static str,
    /// More tables, behind the export's.
    pub(crate) more: String,
    /// Variables of the daemon's environment.
    pub(crate) env: Vec<(&'static str, String)>,
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
            listen: FREE_PORTS.to_owned(),
            servers,
            mount_port,
            source: if source.is_empty() { "/" } else { source }.to_owned(),
            staleness: "0s",
            clients: "\"127.0.0.0/8\"",
            insecure: true,
            pool: String::new(),
            export: "",
            more: String::new(),
            env: Vec::new(),
        }
    }

    /// One more export of the same servers; it may lie beside the first, below it, above it, or be the same.
    pub(crate) fn and(mut self, export: &Export<'_>) -> Self {
        self.more += &export.table();
        self
    }

    pub(crate) fn config(&self) -> String {
        let Self { listen, source, staleness, clients, insecure, pool, export, more, .. } = self;
        let mount_port = self.mount_port.map_or(String::new(), |port| format!("mount_port = {port}\n"));
        let servers: Vec<String> = self.servers.iter().map(|server| format!("\"{server}\"")).collect();
        format!(
            "[listen]\n{listen}\n\
             [[pool]]\nname = \"heads\"\nservers = [{}]\n{mount_port}staleness = \"{staleness}\"\n{pool}\
             [[export]]\npath = \"/scratch\"\nsource = \"{source}\"\npool = \"heads\"\nclients = [{clients}]\n\
             access = \"rw\"\nsquash = \"none\"\ninsecure = {insecure}\n{export}{more}\n",
            servers.join(", "),
        )
    }

    /// Starts it; returns when it is ready.
    pub(crate) fn start(&self) -> Serve {
        Serve::with(&self.config(), |command| {
            command.envs(self.env.iter().cloned());
        })
    }
}

/// One more export of a [`Site`]: `Export { access: "ro", ..Export::of("/software", "/data/software") }`.
pub(crate) struct Export<'a> {
    pub(crate) path: &'a str,
    /// Below what the servers export.
    pub(crate) source: &'a str,
    pub(crate) clients: &'a str,
    pub(crate) access: &'a str,
    pub(crate) squash: &'a str,
    /// More lines.
    pub(crate) more: &'a str,
}

impl<'a> Export<'a> {
    /// For everyone here, who may write as root.
    pub(crate) fn of(path: &'a str, source: &'a str) -> Self {
        Self { path, source, clients: "\"127.0.0.0/8\"", access: "rw", squash: "none", more: "" }
    }

    fn table(&self) -> String {
        let Self { path, source, clients, access, squash, more } = self;
        format!(
            "[[export]]\npath = \"{path}\"\nsource = \"{source}\"\npool = \"heads\"\nclients = [{clients}]\n\
             access = \"{access}\"\nsquash = \"{squash}\"\ninsecure = true\n{more}\n"
        )
    }
}

pub(crate) struct Serve {
    command: Command,
    child: Child,
    log: Lines,
    scratch: Scratch,
    /// Where it answers NFS, and MOUNT, once it is ready.
    pub(crate) nfs: Vec<SocketAddr>,
    pub(crate) mount: Vec<SocketAddr>,
    /// Where the control plane answers over TCP, if the configuration says so.
    pub(crate) admin: Option<SocketAddr>,
}

impl Serve {
    /// Starts a proxy of `/scratch` over these servers, on free ports; returns when it is ready.
    pub(crate) fn start(servers: &[Endpoint]) -> Self {
        Site::of(servers).start()
    }

    /// Starts a proxy with this configuration; returns when it is ready.
    pub(crate) fn of(config: &str) -> Self {
        Self::with(config, |_| {})
    }

    /// The same with more arguments or variables.
    pub(crate) fn with(config: &str, more: impl FnOnce(&mut Command)) -> Self {
        let mut serve = Self::launch(config, more);
        serve.ready();
        serve
    }

    /// Starts it, and does not wait.
    pub(crate) fn launch(config: &str, more: impl FnOnce(&mut Command)) -> Self {
        let scratch = Scratch::new();
        let at = |name| scratch.path().join(name);
        let config = config.replacen(FREE_PORTS, &own_ports(), 1);
        fs::write(at(CONFIG), format!("{config}[state]\nfile = \"{}\"\n", at(STATE).display())).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_midas"));
        command.arg("serve").arg("--config").arg(at(CONFIG)).arg("--socket").arg(at(SOCKET));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        more(&mut command);
        let (child, log) = spawn(&mut command);
        Self { command, child, log, scratch, nfs: Vec::new(), mount: Vec::new(), admin: None }
    }

    fn ready(&mut self) {
        let line = Lines::of(self.child.stdout.take().expect("it is piped")).wait("ready: ", 1);
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["ready:", "nfs", nfs, "mount", mount, admin @ ..] = words.as_slice() else {
            panic!("not ready: '{line}'")
        };
        self.admin = admin.last().map(|address| address.parse().unwrap());
        (self.nfs, self.mount) = (addresses(nfs), addresses(mount));
    }

    /// Starts it again where it was, once it has ended. What it said before is forgotten.
    pub(crate) fn again(&mut self) {
        let before = (self.nfs.clone(), self.mount.clone());
        (self.child, self.log) = spawn(&mut self.command);
        self.ready();
        assert_eq!((&self.nfs, &self.mount), (&before.0, &before.1));
    }

    /// Changes the configuration's file.
    pub(crate) fn rewrite(&self, old: &str, new: &str) {
        let text = fs::read_to_string(self.file(CONFIG)).unwrap();
        assert!(text.contains(old), "no '{old}' in {text}");
        fs::write(self.file(CONFIG), text.replacen(old, new, 1)).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops the daemon. Returns when no thread of it runs any more: some go on for a moment after
    /// the signal, and answer what they are asked then.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        until("every thread stands still", || {
            let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
            threads.into_iter().all(|thread| stands_still(&thread.unwrap().path().join("stat")))
        });
    }

    /// Waits until it has said something so many times in its log; the last of these lines.
    pub(crate) fn said(&self, what: &str, times: usize) -> String {
        self.log.wait(what, times)
    }

    /// Waits for its end, and says how long that took.
    pub(crate) fn ended(&mut self) -> (ExitStatus, Duration) {
        let start = Instant::now();
        let process = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty()).unwrap();
        assert!(readable(&process, PATIENCE), "it does not end");
        (self.child.wait().unwrap(), start.elapsed())
    }

    /// A live command to it.
    pub(crate) fn command(&self, words: &str) -> String {
        super::text(&format!("{words} --socket {}", self.socket().display()))
    }

    /// Calls that wait in it.
    pub(crate) fn held(&self) -> u64 {
        let status: Value = serde_json::from_str(&self.command("status --json")).unwrap();
        status["held"].as_u64().unwrap()
    }

    /// What it says of its servers.
    pub(crate) fn servers(&self) -> Vec<Value> {
        let status: Value = serde_json::from_str(&self.command("status --json")).unwrap();
        status["pools"][0]["servers"].as_array().unwrap().clone()
    }

    /// Waits until one of its servers is so.
    pub(crate) fn until(&self, server: usize, what: &str, is: impl Fn(&Value) -> bool) {
        until(what, || is(&self.servers()[server]));
    }

    /// For clients.
    pub(crate) fn endpoint(&self) -> Endpoint {
        let address = match self.nfs[0] {
            SocketAddr::V4(address) => *address.ip(),
            SocketAddr::V6(_) => Ipv4Addr::LOCALHOST,
        };
        let (nfs_port, mount_port) = (self.nfs[0].port(), self.mount[0].port());
        Endpoint { address, nfs_port, mount_port, path: EXPORT.to_owned() }
    }

    /// A client of its first listener, and the export's root.
    pub(crate) fn client(&self) -> (Client, Vec<u8>) {
        client(self.nfs[0], self.mount[0])
    }

    /// A connection from this address of this machine, as a stranger's may be, and what MNT of this path says to it.
    pub(crate) fn visit(&self, from: Ipv4Addr, path: &str) -> (Raw, Result<Vec<u8>, u32>) {
        let root = Raw::connect_from((from, 0).into(), self.mount[0]).mount(path);
        (Raw::connect_from((from, 0).into(), self.nfs[0]), root)
    }

    /// Resident memory now and at its highest, in bytes.
    pub(crate) fn memory(&self) -> (u64, u64) {
        super::memory(self.child.id())
    }

    /// The control socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.file(SOCKET)
    }

    /// What it keeps over a restart.
    pub(crate) fn state(&self) -> PathBuf {
        self.file(STATE)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the proxy said:\n{}", self.log.all());
        }
    }
}

/// A client that asked one address for the export's root and calls another.
pub(crate) fn client(nfs: SocketAddr, mount: SocketAddr) -> (Client, Vec<u8>) {
    mounted(nfs, mount, EXPORT)
}

fn spawn(command: &mut Command) -> (Child, Lines) {
    let mut child = command.spawn().expect("the binary runs");
    let log = Lines::of(child.stderr.take().expect("it is piped"));
    (child, log)
}

/// Whether a thread is stopped, by its `stat` of proc(5): the state stands behind the name.
fn stands_still(stat: &Path) -> bool {
    let text = fs::read_to_string(stat).unwrap();
    text.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
}

/// Ports that stay its own while it is down.
fn own_ports() -> String {
    let [nfs, mount] = [(); 2].map(|()| free_port(Ipv4Addr::LOCALHOST));
    format!("nfs = \"127.0.0.1:{nfs}\"\nmount = \"127.0.0.1:{mount}\"")
}

fn addresses(listed: &str) -> Vec<SocketAddr> {
    listed.split(',').map(|address| address.parse().unwrap()).collect()
}

const EXPORT: &str = "/scratch";
/// Any ports: those that [`own_ports`] finds.
const FREE_PORTS: &str = "nfs = \"127.0.0.1:0\"\nmount = \"127.0.0.1:0\"";
const CONFIG: &str = "midas.toml";
const STATE: &str = "state.json";
const SOCKET: &str = "control";
