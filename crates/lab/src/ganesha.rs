//! Real NFS servers: unmodified NFS-Ganesha heads over one fresh directory, with identical handles.
//!
//! `lab/ganesha hold` starts them and waits for the end of its input, which we keep open: whichever way this process
//! ends, the heads end after it.

use crate::address::{common_port, loopback};
use crate::place::{Scratch, root};
use crate::tools::Endpoint;
use crate::wait::{PATIENCE, readable};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Every head has an address of its own, so the ports are the same.
struct Ports {
    nfs: u16,
    mount: u16,
}

/// Running heads. Dropped, they end and their directory goes.
#[derive(Debug)]
pub struct Ganesha {
    heads: Vec<Endpoint>,
    export: PathBuf,
    /// When each was last started, at the latest.
    started: Vec<Instant>,
    holder: Child,
    scratch: Scratch,
}

impl Ganesha {
    /// Starts heads that serve; `attr_expiration_s` is for how long a head believes what it knows of a file (its own
    /// default is 60, with 0 the heads are coherent). Panics with the log when one does not start.
    pub fn start(heads: usize, attr_expiration_s: u32) -> Self {
        Self::start_with(heads, attr_expiration_s, &[])
    }

    /// Starts heads that keep neither attributes nor names: as coherent as Ganesha can be.
    pub fn start_coherent(heads: usize) -> Self {
        Self::start_with(heads, 0, &["--no-names"])
    }

    /// Starts heads that export more than one directory, each with an export id of its own in its
    /// handles. `paths` lie below the first export and are made; the first export holds them too,
    /// so they overlap. All have one file system id.
    pub fn start_exporting(heads: usize, attr_expiration_s: u32, paths: &[&str]) -> Self {
        let options: Vec<&str> = paths.iter().flat_map(|path| ["--also", path]).collect();
        Self::start_with(heads, attr_expiration_s, &options)
    }

    fn start_with(heads: usize, attr_expiration_s: u32, options: &[&str]) -> Self {
        let scratch = Scratch::new();
        let export = scratch.path().join("export");
        let first = loopback(heads, &[]);
        let ports = Ports { nfs: common_port(first, heads), mount: common_port(first, heads) };
        let holder = hold(scratch.path(), heads, attr_expiration_s, first, &ports, options);
        let started = vec![Instant::now(); heads];
        let heads = (0..heads as u32)
            .map(|index| Endpoint {
                address: Ipv4Addr::from(u32::from(first) + index),
                nfs_port: ports.nfs,
                mount_port: ports.mount,
                path: export.display().to_string(),
            })
            .collect();
        Self { heads, export, started, holder, scratch }
    }

    /// Where the heads listen, and the path that clients mount.
    pub fn heads(&self) -> &[Endpoint] {
        &self.heads
    }

    /// The exported directory, as this machine sees it.
    pub fn export(&self) -> &Path {
        &self.export
    }

    /// A head's log.
    pub fn log(&self, head: usize) -> PathBuf {
        self.scratch.path().join((head + 1).to_string()).join("log")
    }

    /// Kills a head as a crash would: what it had not answered is lost.
    pub fn kill(&self, head: usize) {
        let pid = i32::try_from(self.pid(head)).ok().and_then(Pid::from_raw).expect("lab/ganesha wrote a pid");
        let process = pidfd_open(pid, PidfdFlags::empty()).expect("the head is there");
        pidfd_send_signal(&process, Signal::KILL).expect("the head is ours");
        // Until it is gone it holds its port, and the next one would not start.
        assert!(readable(&process, PATIENCE), "head {head} does not end");
    }

    /// Starts a head again that was killed; it serves a little later.
    pub fn restart(&mut self, head: usize) {
        // A head's write verifier is the second in which it started: in the same one nobody could tell that it has lost anything.
        thread::sleep(A_SECOND.saturating_sub(self.started[head].elapsed()));
        self.started[head] = Instant::now();
        let stdin = self.holder.stdin.as_mut().expect("it stays open until the end");
        writeln!(stdin, "start {}", head + 1).expect("lab/ganesha listens");
    }

    /// A head's process, for tests that stop or end one.
    pub fn pid(&self, head: usize) -> u32 {
        let file = self.scratch.path().join((head + 1).to_string()).join("pid");
        let text = fs::read_to_string(file).expect("lab/ganesha wrote the pid of every head");
        text.trim().parse().expect("a pid is a number")
    }
}

impl Drop for Ganesha {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        // Bounded: the script kills what does not end in time.
        if let Err(error) = self.holder.wait() {
            eprintln!("lab: the heads' script cannot be waited for: {error}");
        }
    }
}

fn hold(
    directory: &Path,
    heads: usize,
    attr_expiration_s: u32,
    first: Ipv4Addr,
    ports: &Ports,
    options: &[&str],
) -> Child {
    let complaints = directory.join("complaints");
    let mut child = Command::new(root().join("lab/ganesha"))
        .arg("hold")
        .arg(directory)
        .args([heads.to_string(), attr_expiration_s.to_string()])
        .args(["--address", &first.to_string()])
        .args(["--port", &ports.nfs.to_string(), "--mount-port", &ports.mount.to_string()])
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(&complaints).expect("the directory is fresh"))
        .spawn()
        .expect("lab/ganesha can be run");
    let mut line = String::new();
    let said = BufReader::new(child.stdout.take().expect("its output is a pipe")).read_line(&mut line);
    if said.is_err() || !line.starts_with("up:") {
        let status = child.wait();
        let complaints = fs::read_to_string(complaints).unwrap_or_default();
        panic!("lab/ganesha ended with {status:?}: {line}{complaints}");
    }
    child
}

/// .. and a little more.
const A_SECOND: Duration = Duration::from_millis(1100);
