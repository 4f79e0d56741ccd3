//! A running `midas nfsd` of its own process, ended with its value or with this process.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use midas_lab::Endpoint;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub(crate) struct Nfsd {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    pub(crate) addresses: Vec<SocketAddr>,
    export: String,
    /// Whether it keeps the truth: without it nobody answers who asks for it.
    truth: bool,
}

impl Nfsd {
    /// Starts the servers with these arguments, on free ports unless they say otherwise; returns when they listen.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midas"));
        command.args(["nfsd", "--json", "--until-eof"]).args(arguments);
        if !arguments.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the binary runs");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let truth = arguments.contains(&"--truth");
        let mut nfsd = Self { child, stdin, stdout, addresses: Vec::new(), export: String::new(), truth };
        let ready = nfsd.line();
        let servers = ready["servers"].as_array().expect("the ready line names the servers");
        nfsd.addresses = servers.iter().map(|server| server.as_str().unwrap().parse().unwrap()).collect();
        ready["export"].as_str().unwrap().clone_into(&mut nfsd.export);
        nfsd
    }

    /// One line of JSON that the servers say.
    pub(crate) fn line(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("standard output can be read");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: '{line}'"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Tells the servers something on standard input; returns when they have obeyed.
    pub(crate) fn tell(&mut self, line: &str) {
        self.write(&format!("{line}\nsync"));
        let obeyed = self.line();
        assert_eq!(obeyed["obeyed"], true, "{line}: {obeyed}");
    }

    fn write(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().expect("it is piped"), "{line}").expect("it listens");
    }

    /// For clients of one server.
    pub(crate) fn endpoint(&self, server: usize) -> Endpoint {
        let SocketAddr::V4(address) = self.addresses[server] else { panic!("tests use IPv4") };
        let path = if self.export == "/" { String::new() } else { self.export.clone() };
        Endpoint { address: *address.ip(), nfs_port: address.port(), mount_port: address.port(), path }
    }

    /// For clients of each server.
    pub(crate) fn endpoints(&self) -> Vec<Endpoint> {
        (0..self.addresses.len()).map(|server| self.endpoint(server)).collect()
    }

    /// What the servers know of themselves now.
    pub(crate) fn truth(&mut self) -> Value {
        assert!(self.truth, "started without --truth");
        self.write("truth");
        self.line()
    }

    /// Calls of a procedure that each server has executed.
    pub(crate) fn executed(&mut self, procedure: &str) -> Vec<u64> {
        let truth = self.truth();
        let of = |server: &Value| server["calls"][procedure].as_u64().unwrap_or(0);
        truth["servers"].as_array().unwrap().iter().map(of).collect()
    }

    /// Calls that all servers have executed, without those that only ask whether they live.
    pub(crate) fn all_executed(&mut self) -> u64 {
        let truth = self.truth();
        let asks = |name: &str| ["NULL", "GETATTR"].contains(&name);
        let of = |server: &Value| {
            let calls = server["calls"].as_object().unwrap();
            calls.iter().filter(|(name, _)| !asks(name)).map(|(_, count)| count.as_u64().unwrap()).sum::<u64>()
        };
        truth["servers"].as_array().unwrap().iter().map(of).sum()
    }

    /// Resident memory now and at its highest, in bytes.
    pub(crate) fn memory(&self) -> (u64, u64) {
        super::memory(self.child.id())
    }
}

impl Drop for Nfsd {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It ends with its input; killing it makes sure.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}
