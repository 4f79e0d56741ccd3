//! A small NFSv3 server with a thread for each connection: enough of a file system for the generator, and a hook that decides
//! what becomes of each call.

#![allow(dead_code, reason = "every test file uses another part of it")]

pub(crate) mod files;

use files::Files;
use midas_bench::report::{ArmReport, Report};
use midas_bench::{Config, Event, Load, Pace, RunError, Shape, Target, run};
use midas_nfs::mount::{self, Mounted};
use midas_nfs::nfs3::{self, FileHandle, Nfsstat3, Procedure, Reply};
use midas_nfs::record::{self, Records, Step};
use midas_nfs::rpc::{self, Credential, Refusal};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Answer,
    /// Executed, and answered this much later; so are those behind it.
    Late(Duration),
    Ignore,
    Refuse(Refusal),
    Fail(Nfsstat3),
    Garbage,
    /// Executed, and then the connection ends without an answer.
    Hangup,
}

/// A call as it came.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) stamp: u32,
    pub(crate) xid: u32,
    pub(crate) procedure: Procedure,
    pub(crate) uid: u32,
    pub(crate) machine: Vec<u8>,
}

type Hook = Box<dyn Fn(&Seen, Instant) -> Fate + Send + Sync>;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    files: Arc<Mutex<Files>>,
    seen: Mutex<Vec<Seen>>,
    hook: Hook,
    /// Answers of one read leave in the opposite order.
    reversed: bool,
    started: Instant,
    stop: AtomicBool,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(|_, _| Fate::Answer)
    }

    pub(crate) fn with(hook: impl Fn(&Seen, Instant) -> Fate + Send + Sync + 'static) -> Self {
        Self::new(Arc::default(), false, Box::new(hook))
    }

    pub(crate) fn reversed() -> Self {
        Self::new(Arc::default(), true, Box::new(|_, _| Fate::Answer))
    }

    /// Another server for the same files.
    pub(crate) fn twin(&self) -> Self {
        Self::new(Arc::clone(&self.shared.files), false, Box::new(|_, _| Fate::Answer))
    }

    fn new(files: Arc<Mutex<Files>>, reversed: bool, hook: Hook) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            files,
            seen: Mutex::default(),
            hook,
            reversed,
            started: Instant::now(),
            stop: AtomicBool::new(false),
        });
        let inner = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if inner.stop.load(Ordering::Relaxed) {
                    return;
                }
                let (stream, shared) = (stream.unwrap(), Arc::clone(&inner));
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn target(&self) -> Target {
        Target::parse(&format!("server={}/export", self.address)).unwrap()
    }

    /// Everything that came, in the order of the stamps.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        let mut seen = self.shared.seen.lock().unwrap().clone();
        seen.sort();
        seen
    }

    pub(crate) fn files(&self) -> MutexGuard<'_, Files> {
        self.shared.files.lock().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let (mut records, mut input) = (Records::new(4 << 20), Vec::new());
        loop {
            let mut replies = Vec::new();
            let mut used = 0;
            loop {
                match records.next(&input[used..]).unwrap() {
                    Step::More { consumed, .. } => {
                        used += consumed;
                        break;
                    }
                    Step::Record { body, consumed } => {
                        used += consumed;
                        let Some(reply) = self.answer(body) else { return };
                        replies.push(reply);
                    }
                }
            }
            input.drain(..used);
            if self.reversed {
                replies.reverse();
            }
            if stream.write_all(&replies.concat()).is_err() {
                return;
            }
            let mut chunk = [0; 16 << 10];
            match stream.read(&mut chunk) {
                Ok(read) if read > 0 => input.extend_from_slice(&chunk[..read]),
                _ => return,
            }
        }
    }

    /// The answer as a record; empty for none, nothing to end the connection.
    fn answer(&self, body: &[u8]) -> Option<Vec<u8>> {
        let call = rpc::Call::decode(body).unwrap();
        let mut out = Vec::new();
        if call.program == mount::PROGRAM {
            let handle = FileHandle::new(&files::ROOT).unwrap();
            record::put(&mut out, |out| {
                rpc::Reply::accept(out, call.xid);
                Mounted::encode(Ok(&Mounted { handle, flavors: vec![1] }), out);
            });
            return Some(out);
        }
        let Ok(Credential::Sys(sys)) = Credential::decode(&call.credential) else { panic!("calls carry AUTH_SYS") };
        let procedure = Procedure::from_number(call.procedure).unwrap();
        let machine = sys.machinename.to_vec();
        let seen = Seen { stamp: sys.stamp, xid: call.xid, procedure, uid: sys.uid, machine };
        self.seen.lock().unwrap().push(seen.clone());
        let fate = (self.hook)(&seen, self.started);
        let decoded = nfs3::Call::decode(procedure, call.args).unwrap();
        let execute = |out: &mut Vec<u8>| self.files.lock().unwrap().execute(&decoded, |reply| reply.encode(out));
        match fate {
            Fate::Answer => accept(&mut out, call.xid, execute),
            Fate::Late(delay) => {
                std::thread::sleep(delay);
                accept(&mut out, call.xid, execute);
            }
            Fate::Ignore => {}
            Fate::Refuse(why) => record::put(&mut out, |out| rpc::Reply::refuse(out, call.xid, why)),
            Fate::Fail(status) => accept(&mut out, call.xid, |out| Reply::failed(procedure, status).encode(out)),
            Fate::Garbage => accept(&mut out, call.xid, |out| out.extend_from_slice(&[0, 0, 0])),
            Fate::Hangup => {
                execute(&mut Vec::new());
                return None;
            }
        }
        Some(out)
    }
}

fn accept(out: &mut Vec<u8>, xid: u32, results: impl FnOnce(&mut Vec<u8>)) {
    record::put(out, |out| {
        rpc::Reply::accept(out, xid);
        results(out);
    });
}

/// A short run against one server.
pub(crate) fn config(server: &Server, load: Load, pace: Pace) -> Config {
    Config {
        shape: Shape { directories: 3, files: 5 },
        slice: Duration::from_millis(300),
        warmup: Duration::ZERO,
        ..Config::new(server.target(), load, pace)
    }
}

/// Runs it without anyone watching.
pub(crate) fn quietly(config: &Config) -> Result<Report, RunError> {
    run(config, &AtomicBool::new(false), &mut |_: Event<'_>| {})
}

/// The only arm of a run that must succeed.
pub(crate) fn arm(config: &Config) -> ArmReport {
    let report = quietly(config).unwrap();
    report.cells.into_iter().next().unwrap().arms.into_iter().next().unwrap()
}

/// A file that goes away with the test.
pub(crate) struct Scratch(pub(crate) std::path::PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("midas-bench-test-{}-{name}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
