//! Why a call went where it went: what the journal says of a call is what a trace of the same call says, and `explain` says it before.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::{self, Raw, handle};
use midas_lab::{PATIENCE, Scratch, create, mkdir, until};
use midas_nfs::nfs3::{Call, DirOp, Nfsstat3, StableHow};
use midas_proxy::api::Explanation;
use midas_proxy::api::watch::{Event, JOURNAL, Traced};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use support::nfsd::Nfsd;
use support::serve::Serve;

/// Three slow servers behind a proxy, and who listens to its calls.
struct World {
    _nfsd: Nfsd,
    proxy: Serve,
    /// The server that is loaded.
    home: String,
    /// A file that lies there, with data that is not committed: all calls on it go there.
    file: Vec<u8>,
    /// Directories whose home it is, by their paths.
    directories: Vec<(String, Vec<u8>)>,
    trace: Trace,
}

impl World {
    fn new() -> Self {
        let nfsd = Nfsd::start(&["--servers", "3", "--service", "const:2ms"]);
        let proxy = Serve::start(&nfsd.endpoints());
        let (mut client, root) = proxy.client();
        let file = create(&mut client, &root, b"log");
        client.nfs(&write(&file)).unwrap();
        let home = explain(&proxy, "/scratch/log").home;
        let made: Vec<(String, Vec<u8>)> = (0..48)
            .map(|number| (format!("/scratch/d{number}"), mkdir(&mut client, &root, format!("d{number}").as_bytes())))
            .collect();
        let directories: Vec<_> = made.into_iter().filter(|(path, _)| explain(&proxy, path).home == home).collect();
        assert!(directories.len() > 4, "{directories:?}");
        let trace = Trace::start(&proxy);
        Self { _nfsd: nfsd, proxy, home, file, directories, trace }
    }

    /// Looks a name up that is like no other, from each of two clients, in each of the directories but the first.
    fn look_around(&self, clients: &mut [(Ipv4Addr, Raw); 2], round: usize) {
        for (path, directory) in &self.directories[1..] {
            for (client, raw) in clients.iter_mut() {
                let name = format!("{round}-of-{client}-in-{}", path.replace('/', "."));
                let what = DirOp { dir: handle(directory), name: name.as_bytes() };
                raw.send(&raw::nfs(1, &Call::Lookup { what }));
                assert_eq!(raw::status(&raw.receive()), Nfsstat3::NOENT);
            }
        }
    }

    /// What the journal says of calls.
    fn decisions(&self) -> Vec<Decision> {
        let mut stream = UnixStream::connect(self.proxy.socket()).unwrap();
        write!(stream, "GET {JOURNAL} HTTP/1.0\r\nHost: midas\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let events: Vec<Event> = serde_json::from_str(body).unwrap();
        events.into_iter().filter(|event| event.kind == "decision").map(Decision::of).collect()
    }

    /// Holds what was decided against the trace: why the calls went, by the trace's words, and how often.
    fn agree(&self) -> HashMap<String, usize> {
        let (decisions, mut whys) = (self.decisions(), HashMap::new());
        until("all of them are traced", || {
            let traced = self.trace.calls();
            decisions.iter().all(|decision| traced.iter().any(|call| decision.is_of(call)))
        });
        let traced = self.trace.calls();
        for decision in &decisions {
            let calls: Vec<&Traced> = traced.iter().filter(|call| decision.is_of(call)).collect();
            let [call] = calls[..] else { panic!("{decision:?} is of {calls:?}") };
            self.agrees(decision, call);
            *whys.entry(call.why.clone()).or_insert(0) += 1;
        }
        whys
    }

    fn agrees(&self, Decision { to, why, about, .. }: &Decision, call: &Traced) {
        assert_eq!((Some(to), Some(&self.home)), (call.server.as_ref(), call.home.as_ref()), "{call:?}");
        assert_ne!(to, &self.home, "it left its home: {call:?}");
        let directory = call.path.as_deref().unwrap().rsplit_once('/').unwrap().0;
        assert_eq!(about, directory, "{call:?}");
        match call.why.as_str() {
            "steered" => {
                let gap = why.strip_prefix(&format!("{} has ", self.home)).and_then(|it| it.strip_suffix(" more work"));
                assert!(gap.is_some_and(|gap| gap.parse::<f64>().unwrap() > 0.0), "{why}: {call:?}");
            }
            "pinned" => assert_eq!(why, "an earlier steer of the same object still holds"),
            "rerouted" => assert_eq!(why, "next in the home's order; of the home: it is drained"),
            other => panic!("a read that was '{other}' is told of: {why}"),
        }
    }
}

/// A call as the journal tells of it.
#[derive(Debug)]
struct Decision {
    procedure: String,
    name: String,
    client: String,
    to: String,
    why: String,
    about: String,
}

impl Decision {
    fn of(event: Event) -> Self {
        let words: Vec<&str> = event.what.split(' ').collect();
        let [procedure, name, "from", client, "to", to] = words[..] else { panic!("{event:?}") };
        let [procedure, name, client, to] = [procedure, name, client, to].map(str::to_owned);
        Self { procedure, name, client, to, why: event.why, about: event.about }
    }

    fn is_of(&self, call: &Traced) -> bool {
        let Self { procedure, name, client, .. } = self;
        (procedure, Some(name), client) == (&call.procedure, call.name.as_ref(), &call.client)
    }
}

/// A `midas trace --json` of lookups.
struct Trace {
    child: Child,
    file: PathBuf,
    _scratch: Scratch,
}

impl Trace {
    fn start(proxy: &Serve) -> Self {
        let scratch = Scratch::new();
        let file = scratch.path().join("trace");
        let mut command = Command::new(env!("CARGO_BIN_EXE_midas"));
        command.args(["trace", "--json", "--op", "lookup", "--socket"]).arg(proxy.socket());
        let child = command.stdout(File::create(&file).unwrap()).stderr(Stdio::null()).spawn().unwrap();
        let trace = Self { child, file, _scratch: scratch };
        let (mut client, root) = proxy.client();
        until("it listens", || {
            client.nfs(&Call::Lookup { what: DirOp { dir: handle(&root), name: b"first" } }).unwrap();
            !trace.calls().is_empty()
        });
        trace
    }

    /// What it has written whole.
    fn calls(&self) -> Vec<Traced> {
        let text = fs::read_to_string(&self.file).unwrap();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let calls: Vec<Traced> = whole.map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(calls.iter().all(|call| call.missed == 0), "calls were missed");
        calls
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Ends a load, whichever way the test ends.
struct Calm<'s>(&'s AtomicBool);

impl Drop for Calm<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn what_the_journal_says_of_a_call_is_what_became_of_it_and_explain_says_it_before() {
    let world = World::new();
    let mut clients = [78, 79].map(|last| {
        let client = Ipv4Addr::new(127, 0, 0, last);
        (client, from(&world.proxy, client))
    });
    let (stop, mut round) = (AtomicBool::new(false), 0);
    thread::scope(|scope| {
        let _calm = Calm(&stop);
        for _ in 0..LOADED {
            scope.spawn(|| load(&world.proxy, &world.file, &stop));
        }
        until("calls that were steered are told of", || {
            round += 1;
            world.look_around(&mut clients, round);
            let whys = world.agree();
            whys.contains_key("steered") && whys.values().sum::<usize>() >= 4
        });
        would_be_steered(&world);
    });
    // Nothing is loaded any more: it stays.
    let (fresh, _) = &world.directories[0];
    until("it would stay", || {
        let explained = explain(&world.proxy, fresh);
        explained.why == "home" && explained.to.as_ref() == Some(&world.home)
    });
    world.proxy.command(&format!("drain {}", world.home));
    until("calls that a drained server does not take are told of", || {
        round += 1;
        world.look_around(&mut clients, round);
        world.agree().contains_key("rerouted")
    });
}

/// A directory that nobody has called on, so that nothing holds it where it is.
fn would_be_steered(world: &World) {
    let (fresh, _) = &world.directories[0];
    let mut explained = explain(&world.proxy, fresh);
    until("it would be steered", || {
        explained = explain(&world.proxy, fresh);
        explained.why == "steered"
    });
    let Explanation { home, to, because, servers, .. } = explained;
    let to = to.unwrap();
    assert_eq!(home, world.home);
    let work = |name: &str| servers.iter().find(|server| server.name == *name).unwrap().work;
    assert!(work(&home) > work(&to), "from {home} to {to}: {servers:?}");
    let gap = because.strip_prefix(&format!("{home} has ")).and_then(|it| it.strip_suffix(" more work"));
    assert!(gap.is_some_and(|gap| gap.parse::<f64>().unwrap() > 0.0), "{because}");
    until("people are told so", || {
        let text = world.proxy.command(&format!("explain {fresh}"));
        text.contains(&format!("{home} has ")) && text.contains("more work")
    });
}

/// Keeps the loaded server at work until told to stop.
fn load(proxy: &Serve, file: &[u8], stop: &AtomicBool) {
    let (mut client, _) = proxy.client();
    while !stop.load(Ordering::Relaxed) {
        assert_eq!(client.nfs(&write(file)).unwrap().status(), Nfsstat3::OK);
    }
}

/// Data that is not committed.
fn write(file: &[u8]) -> Call<'_> {
    Call::Write { file: handle(file), offset: 0, count: 1, stable: StableHow::Unstable, data: b"x" }
}

/// A connection from this address.
fn from(proxy: &Serve, client: Ipv4Addr) -> Raw {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from((client, 0))).unwrap();
    connect(&socket, &proxy.nfs[0]).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Raw(stream)
}

fn explain(proxy: &Serve, path: &str) -> Explanation {
    serde_json::from_str(&proxy.command(&format!("explain {path} --json"))).unwrap()
}

/// Calls that are under way at the loaded server, or about to be.
const LOADED: usize = 12;
