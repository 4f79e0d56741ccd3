//! A `midas serve` that is signalled, reloaded, commanded and started again at the same place.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use midas_lab::{Endpoint, Scratch};
use midas_net::{Caller, Client};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct Daemon {
    child: Child,
    scratch: Scratch,
    pub(crate) nfs: SocketAddr,
    pub(crate) mount: SocketAddr,
}

impl Daemon {
    /// Starts a proxy of `/scratch` over these servers, on free ports; returns when it is ready.
    pub(crate) fn start(servers: &[Endpoint], more: &[&str]) -> Self {
        let scratch = Scratch::new();
        let listed: Vec<String> =
            servers.iter().map(|server| format!("\"{}:{}\"", server.address, server.nfs_port)).collect();
        let source = if servers[0].path.is_empty() { "/" } else { &servers[0].path };
        let config = format!(
            "[listen]\nnfs = \"127.0.0.1:0\"\nmount = \"127.0.0.1:0\"\n\
             [[pool]]\nname = \"heads\"\nservers = [{}]\nmount_port = {}\nstaleness = \"0s\"\nprobe_interval = \"200ms\"\n\
             [[export]]\npath = \"/scratch\"\nsource = \"{source}\"\npool = \"heads\"\nclients = [\"127.0.0.0/8\"]\n\
             access = \"rw\"\nsquash = \"none\"\ninsecure = true\npolicy = \"first-fit\"\n\
             [log]\nlevel = \"info\"\n[state]\nfile = \"{}\"\n",
            listed.join(", "),
            servers[0].mount_port,
            scratch.path().join("state.json").display(),
        );
        fs::write(scratch.path().join(CONFIG), config).unwrap();
        let (child, nfs, mount) = run(&scratch, more);
        Self { child, scratch, nfs, mount }
    }

    /// Starts it again where it was, once it has ended.
    pub(crate) fn again(&mut self) {
        let old = "[listen]\nnfs = \"127.0.0.1:0\"\nmount = \"127.0.0.1:0\"\n";
        self.rewrite(old, &format!("[listen]\nnfs = \"{}\"\nmount = \"{}\"\n", self.nfs, self.mount));
        let (child, nfs, mount) = run(&self.scratch, &[]);
        assert_eq!((nfs, mount), (self.nfs, self.mount));
        self.child = child;
    }

    /// Changes the configuration's file.
    pub(crate) fn rewrite(&self, old: &str, new: &str) {
        let file = self.scratch.path().join(CONFIG);
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(old) || text.contains(new), "no '{old}' in {text}");
        fs::write(&file, text.replacen(old, new, 1)).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until it has said something so many times; returns the last such line.
    pub(crate) fn said(&self, what: &str, times: usize) -> String {
        let start = Instant::now();
        loop {
            let log = fs::read_to_string(self.scratch.path().join(LOG)).unwrap();
            let lines: Vec<&str> = log.lines().filter(|line| line.contains(what)).collect();
            if lines.len() >= times {
                return lines[lines.len() - 1].to_owned();
            }
            assert!(start.elapsed() < PATIENCE, "'{what}' was said {} times in\n{log}", lines.len());
            std::thread::sleep(LOOK);
        }
    }

    /// Waits for its end, and says how long that took.
    pub(crate) fn ended(&mut self) -> (ExitStatus, Duration) {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, start.elapsed());
            }
            assert!(start.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(LOOK);
        }
    }

    /// A live command to it.
    pub(crate) fn command(&self, words: &str) -> String {
        super::text(&format!("{words} --socket {}", self.socket().display()))
    }

    /// What it says of its servers.
    pub(crate) fn servers(&self) -> Vec<Value> {
        let status: Value = serde_json::from_str(&self.command("status --json")).unwrap();
        status["pools"][0]["servers"].as_array().unwrap().clone()
    }

    /// Waits until one of its servers is so.
    pub(crate) fn until(&self, server: usize, what: &str, is: impl Fn(&Value) -> bool) {
        let start = Instant::now();
        loop {
            let seen = self.servers()[server].clone();
            if is(&seen) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "not {what}: {seen}");
            std::thread::sleep(LOOK);
        }
    }

    /// A client, and the root of the export.
    pub(crate) fn mounted(&self) -> (Client, Vec<u8>) {
        let root = Client::connect(self.mount, &Caller::ROOT, PATIENCE).unwrap().mount(b"/scratch").unwrap().root;
        (Client::connect(self.nfs, &Caller::ROOT, PATIENCE).unwrap(), root)
    }

    /// What `midas bench` is told, to put load on it.
    pub(crate) fn bench(&self) -> String {
        format!("bench {}/scratch?mount={}", self.nfs, self.mount.port())
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.scratch.path().join("state.json")
    }

    fn socket(&self) -> PathBuf {
        self.scratch.path().join(SOCKET)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

fn run(scratch: &Scratch, more: &[&str]) -> (Child, SocketAddr, SocketAddr) {
    let log = File::options().create(true).append(true).open(scratch.path().join(LOG)).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_midas"))
        .arg("serve")
        .arg("--config")
        .arg(scratch.path().join(CONFIG))
        .arg("--socket")
        .arg(scratch.path().join(SOCKET))
        .args(more)
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .expect("the binary runs");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["ready:", "nfs", nfs, "mount", mount] = words.as_slice() else {
        let said = fs::read_to_string(scratch.path().join(LOG)).unwrap_or_default();
        panic!("not ready: '{line}' {said}")
    };
    (child, nfs.parse().unwrap(), mount.parse().unwrap())
}

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
const CONFIG: &str = "midas.toml";
const LOG: &str = "log";
const SOCKET: &str = "control";
