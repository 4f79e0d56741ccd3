//! WRITEs and changes of names with copies, late and repeated, on old and new connections, from
//! clients that vanish, while servers hang and connections break: bytes and names are what a model
//! says, and nothing is executed twice. `MIDAS_SOAK_CALLS` says how many.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_core::rng::Rng;
use midas_lab::raw::{Raw, handle, results, status, with_credential, xid};
use midas_lab::{PATIENCE, create, mkdir};
use midas_net::{Caller, Client};
use midas_nfs::nfs3::{self, Call, CreateHow, DirOp, Nfsstat3, Reply, Sattr3, StableHow};
use midas_nfs::rpc::{OpaqueAuth, flavor};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_linger;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};

/// Calls of all actors in `make test`.
const CALLS: u64 = 8000;
const ACTORS: u32 = 4;
/// A file has so many blocks of so many bytes.
const BLOCKS: usize = 8;
const BLOCK: usize = 512;
/// Names of an actor's directory.
const NAMES: u32 = 12;
/// Connections of an actor; the first is the newest.
const LINES: usize = 3;
/// Calls whose copies may still come, and for how long: less than answers are kept.
const RECENT: usize = 64;
const LATE: Duration = Duration::from_secs(4);
const KEPT: &str = "[limits]\nanswers_kept = \"12s\"\n";

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Dir,
}

/// A change of an actor's world, and what the model says that it answers.
struct Change {
    record: Vec<u8>,
    expected: Nfsstat3,
}

/// One client process: its connections, its model, and what it remembers of its calls.
struct Actor {
    address: SocketAddr,
    number: u32,
    rng: Rng,
    lines: Vec<Raw>,
    next: u32,
    dir: Vec<u8>,
    file: Vec<u8>,
    bytes: Vec<u8>,
    names: BTreeMap<String, Kind>,
    /// Calls that were answered, with when; and their answers.
    recent: VecDeque<(Instant, Vec<u8>)>,
    answers: HashMap<u32, Vec<u8>>,
    copies: u64,
    undecided: u64,
}

impl Actor {
    fn new(proxy: &Serve, number: u32) -> Self {
        let (mut client, root) = proxy.client();
        let dir = mkdir(&mut client, &root, format!("actor {number}").as_bytes());
        let file = create(&mut client, &root, format!("file {number}").as_bytes());
        let address = proxy.nfs[0];
        Self {
            address,
            number,
            rng: Rng::new(u64::from(number) + 1),
            lines: (0..LINES).map(|_| Raw::connect(address)).collect(),
            next: number << 24,
            dir,
            file,
            bytes: vec![0; BLOCKS * BLOCK],
            names: BTreeMap::new(),
            recent: VecDeque::new(),
            answers: HashMap::new(),
            copies: 0,
            undecided: 0,
        }
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.rng.below(bound as usize) as u32
    }

    /// A record that the servers know by its mark: executed twice, it is counted.
    fn record(&mut self, call: &Call<'_>) -> Vec<u8> {
        self.next += 1;
        let body = Caller::ROOT.encode(self.next, format!("midas-bench-late-{}", self.number).as_bytes());
        let mut args = Vec::new();
        call.encode(&mut args);
        let what = (nfs3::PROGRAM, nfs3::VERSION, call.procedure() as u32);
        with_credential(self.next, what, OpaqueAuth { flavor: flavor::SYS, body: &body }, &args)
    }

    /// The next change; the model is changed with it.
    fn change(&mut self) -> Change {
        if self.below(2) == 0 {
            return self.write();
        }
        let name = format!("name {}", self.below(NAMES));
        let dir = self.dir.clone();
        let place = DirOp { dir: handle(&dir), name: name.as_bytes() };
        let attributes = Sattr3::default();
        let taken = self.names.get(&name).copied();
        let (call, expected) = match (self.below(4), taken) {
            (0, taken) => {
                self.names.entry(name.clone()).or_insert(Kind::Dir);
                (Call::Mkdir { place, attributes }, if taken.is_some() { Nfsstat3::EXIST } else { Nfsstat3::OK })
            }
            (1, taken) => {
                self.names.entry(name.clone()).or_insert(Kind::File);
                let how = CreateHow::Guarded(attributes);
                (Call::Create { place, how }, if taken.is_some() { Nfsstat3::EXIST } else { Nfsstat3::OK })
            }
            (2, taken) => {
                self.names.remove(&name);
                let expected = if taken.is_some() { Nfsstat3::OK } else { Nfsstat3::NOENT };
                match taken {
                    Some(Kind::Dir) => (Call::Rmdir { object: place }, expected),
                    Some(Kind::File) | None => (Call::Remove { object: place }, expected),
                }
            }
            (_, taken) => {
                let free = (0..=NAMES).map(|number| format!("name {number}"));
                let Some(free) = free.clone().find(|free| !self.names.contains_key(free)) else { return self.write() };
                let to = DirOp { dir: handle(&dir), name: free.as_bytes() };
                if let Some(kind) = self.names.remove(&name) {
                    self.names.insert(free.clone(), kind);
                }
                let expected = if taken.is_some() { Nfsstat3::OK } else { Nfsstat3::NOENT };
                let record = self.record(&Call::Rename { from: place, to });
                return Change { record, expected };
            }
        };
        Change { record: self.record(&call), expected }
    }

    fn write(&mut self) -> Change {
        let (block, byte) = (self.below(BLOCKS as u32) as usize, self.below(256) as u8);
        let (file, data, offset) = (self.file.clone(), vec![byte; BLOCK], (block * BLOCK) as u64);
        self.bytes[block * BLOCK..][..BLOCK].copy_from_slice(&data);
        let (count, stable) = (BLOCK as u32, StableHow::FileSync);
        let record = self.record(&Call::Write { file: handle(&file), offset, count, stable, data: &data });
        Change { record, expected: Nfsstat3::OK }
    }

    /// Sends a call in one of many ways, until it is answered.
    fn perform(&mut self) {
        let Change { record, expected } = self.change();
        let (line, other) = (self.below(LINES as u32) as usize, self.below(LINES as u32) as usize);
        match self.below(20) {
            // Twice at once, on one connection or on two.
            0 | 1 => {
                self.lines[line].send(&record);
                self.lines[other].send(&record);
                self.copies += 1;
            }
            // The connection is gone at once, and the call comes on a new one.
            2 => {
                self.lines[line].send(&record);
                self.renew(line);
                self.lines[line].send(&record);
                self.copies += 1;
            }
            _ => self.lines[line].send(&record),
        }
        let answer = self.await_answer(number(&record));
        assert_eq!(status(&answer), expected, "{:?}", Call::decode(procedure(&record), args(&record)));
        self.recent.push_back((Instant::now(), record));
        if self.recent.len() > RECENT
            && let Some((_, old)) = self.recent.pop_front()
        {
            self.answers.remove(&number(&old));
        }
        match self.below(200) {
            0..20 => self.repeat(),
            20 => self.vanish(),
            _ => {}
        }
    }

    /// An old call comes again, on some connection: its answer is the first one.
    fn repeat(&mut self) {
        let (at, line) = (self.below(self.recent.len() as u32) as usize, self.below(LINES as u32) as usize);
        let (answered, record) = self.recent[at].clone();
        if answered.elapsed() < LATE {
            self.copies += 1;
            self.lines[line].send(&record);
        }
    }

    /// A change that nobody waits for: it is made or not, and nobody else touches it.
    fn vanish(&mut self) {
        let (dir, name) = (self.dir.clone(), format!("undecided {}", self.undecided));
        let place = DirOp { dir: handle(&dir), name: name.as_bytes() };
        let record = self.record(&Call::Mkdir { place, attributes: Sattr3::default() });
        self.undecided += 1;
        let mut raw = Raw::connect(self.address);
        raw.send(&record);
        if self.below(2) == 0 {
            set_socket_linger(&raw.0, Some(Duration::ZERO)).unwrap();
        }
    }

    /// A new connection instead of one that is reset or closed.
    fn renew(&mut self, line: usize) {
        let new = Raw::connect(self.address);
        let old = std::mem::replace(&mut self.lines[line], new);
        if self.below(2) == 0 {
            set_socket_linger(&old.0, Some(Duration::ZERO)).unwrap();
        }
    }

    /// Reads whatever comes until this call is answered. A second answer is the first one again.
    fn await_answer(&mut self, wanted: u32) -> Vec<u8> {
        let limit = Timespec::try_from(PATIENCE).unwrap();
        while !self.answers.contains_key(&wanted) {
            let mut watched: Vec<PollFd<'_>> =
                self.lines.iter().map(|raw| PollFd::new(&raw.0, PollFlags::IN)).collect();
            let ready = rustix::io::retry_on_intr(|| poll(&mut watched, Some(&limit))).unwrap();
            assert!(ready > 0, "call {wanted:x} is not answered");
            let ready: Vec<bool> = watched.iter().map(|line| !line.revents().is_empty()).collect();
            for line in (0..LINES).filter(|line| ready[*line]) {
                let answer = self.lines[line].receive();
                let known = self.recent.iter().any(|(_, record)| number(record) == xid(&answer));
                match self.answers.get(&xid(&answer)) {
                    Some(first) => assert_eq!(results(first), results(&answer), "a second answer"),
                    // A copy's answer may come when its call is not remembered any more.
                    None if known || xid(&answer) == wanted => drop(self.answers.insert(xid(&answer), answer)),
                    None => {}
                }
            }
        }
        self.answers[&wanted].clone()
    }

    /// Compares what is there with the model.
    fn compare(&mut self, client: &mut Client) {
        let (file, count) = (handle(&self.file), (BLOCKS * BLOCK) as u32);
        let Reply::Read(Ok(read)) = client.nfs(&Call::Read { file, offset: 0, count }).unwrap() else {
            panic!("a file can be read")
        };
        let mut held = read.data.to_vec();
        held.resize(BLOCKS * BLOCK, 0);
        let differs = held.chunks(BLOCK).zip(self.bytes.chunks(BLOCK)).position(|(held, model)| held != model);
        assert_eq!(differs, None, "a block of actor {} is not what was written last", self.number);
        for number in 0..=NAMES {
            let name = format!("name {number}");
            let what = DirOp { dir: handle(&self.dir), name: name.as_bytes() };
            let found = match client.nfs(&Call::Lookup { what }).unwrap() {
                Reply::Lookup(Ok(found)) => found.attributes.map(|it| it.ftype),
                _ => None,
            };
            let kind = found.map(|ftype| if ftype == nfs3::Ftype3::Dir { Kind::Dir } else { Kind::File });
            assert_eq!(kind, self.names.get(&name).copied(), "'{name}' of actor {}", self.number);
        }
    }
}

/// The number of a call.
fn number(record: &[u8]) -> u32 {
    u32::from_be_bytes(*record.first_chunk().unwrap())
}

fn procedure(record: &[u8]) -> nfs3::Procedure {
    let call = midas_nfs::rpc::Call::decode(record).unwrap();
    nfs3::Procedure::from_number(call.procedure).unwrap()
}

fn args(record: &[u8]) -> &[u8] {
    midas_nfs::rpc::Call::decode(record).unwrap().args
}

/// Servers hang for shorter and longer than any timer of theirs, and lose their connections.
fn disturb(nfsd: &mut Nfsd, over: &Receiver<()>, spans: &[Duration]) {
    for span in spans.iter().cycle() {
        for step in ["fault 0 hang", "fault 0 none", "drop 1", "fault 1 hang", "fault 1 none", "drop 0"] {
            nfsd.tell(step);
            // The time between two faults.
            if over.recv_timeout(*span) != Err(RecvTimeoutError::Timeout) {
                nfsd.tell("fault all none");
                return;
            }
        }
    }
}

/// Late and repeated copies of WRITEs and of changes of names, clients that vanish, servers that
/// hang: nothing old comes back, nothing runs twice.
#[test]
fn copies_late_and_repeated_change_nothing_that_a_model_does_not() {
    let calls = std::env::var("MIDAS_SOAK_CALLS").map_or(CALLS, |calls| calls.parse().unwrap());
    let spans: Vec<Duration> = match calls > CALLS {
        true => [100, 400, 2000, 200, 13_000].map(Duration::from_millis).to_vec(),
        false => [50, 100, 400].map(Duration::from_millis).to_vec(),
    };
    let mut nfsd = Nfsd::start(&["--servers", "2", "--truth", "--export", "/scratch"]);
    let pool = "probe_interval = \"200ms\"\nprobe_timeout = \"1s\"\n".to_owned();
    let proxy = Site { pool, more: KEPT.to_owned(), ..Site::of(&nfsd.endpoints()) }.start();
    let mut actors: Vec<Actor> = (0..ACTORS).map(|number| Actor::new(&proxy, number + 1)).collect();
    let (end, over) = channel();
    thread::scope(|scope| {
        let (servers, spans) = (&mut nfsd, &spans);
        let faults = scope.spawn(move || disturb(servers, &over, spans));
        let share = calls / u64::from(ACTORS);
        let running: Vec<_> =
            actors.iter_mut().map(|actor| scope.spawn(move || (0..share).for_each(|_| actor.perform()))).collect();
        let ended: Vec<bool> = running.into_iter().map(|actor| actor.join().is_ok()).collect();
        drop(end);
        faults.join().unwrap();
        assert_eq!(ended, vec![true; ACTORS as usize], "an actor saw what its model does not have");
    });
    let (mut client, _) = proxy.client();
    for actor in &mut actors {
        actor.compare(&mut client);
    }
    let (copies, undecided) =
        actors.iter().fold((0, 0), |(copies, undecided), it| (copies + it.copies, undecided + it.undecided));
    let truth = nfsd.truth();
    println!("{calls} calls, {copies} copies, {undecided} undecided, doubles: {}", truth["doubles"]);
    assert!(copies > calls / 20 && undecided > 0 && undecided * 100 < calls, "{copies} copies, {undecided} undecided");
    assert_eq!(truth["doubles"], 0);
}
