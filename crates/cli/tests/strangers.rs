//! Clients that only cost: strangers, which are on no export's list, and listed ones that send what reaches no server.
//! They are refused early, hold little, wait no longer than they may, and the others do not notice them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::{Raw, call, getattr, handle, in_one_fragment, mnt, nfs, results, status};
use midas_lab::{Scratch, create, readable, until};
use midas_net::Client;
use midas_nfs::mount::{self, MountStat, Mounted};
use midas_nfs::nfs3::{self, Call, DirOp, Nfsstat3, Procedure, Reply, StableHow};
use midas_nfs::portmap;
use midas_nfs::record::mark;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use rustix::process::Signal;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};

/// Two listed addresses, and some that are not.
const LISTED: &str = "\"127.0.0.1\", \"127.0.0.3\"";
const GOOD: Ipv4Addr = Ipv4Addr::LOCALHOST;
const BAD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const STRANGERS: [Ipv4Addr; 3] =
    [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 4), Ipv4Addr::new(127, 0, 0, 5)];
/// The memory of the proxies here, and how much more a process may take beside.
const MEMORY: &str = "[limits]\nmemory = \"64MiB\"\n";
const CAP: u64 = 64 << 20;
const BESIDE: u64 = 24 << 20;

/// A proxy of two exports over servers of their own, so that a handle does not say whose it is.
struct Rig {
    _first: Nfsd,
    second: Nfsd,
    proxy: Serve,
    _directory: Scratch,
}

impl Rig {
    fn start(limits: &str) -> Self {
        Self::listing("\"127.0.0.1\"", limits)
    }

    /// The same, with these clients of the second export.
    fn listing(clients: &str, limits: &str) -> Self {
        let first = Nfsd::start(&["--servers", "3", "--export", "/scratch"]);
        // Its handles are not the first one's.
        let directory = Scratch::new();
        let second = Nfsd::start(&["--dir", &directory.path().display().to_string(), "--export", "/other"]);
        let more = format!(
            "[[pool]]\nname = \"other\"\nservers = \"{}\"\nstaleness = \"0s\"\n\
             [[export]]\npath = \"/other\"\npool = \"other\"\nclients = [{clients}]\ninsecure = true\n{limits}",
            second.addresses[0]
        );
        let proxy = Site { clients: LISTED, more, ..Site::of(&first.endpoints()) }.start();
        Self { _first: first, second, proxy, _directory: directory }
    }

    /// Nobody can tell whose an unknown handle is from now on.
    fn mute(&mut self) {
        self.second.tell("fault 0 fail:SERVERFAULT");
    }

    fn nfs(&self) -> SocketAddr {
        self.proxy.nfs[0]
    }

    /// A gauge or counter without labels.
    fn metric(&self, name: &str) -> u64 {
        let mut socket = std::os::unix::net::UnixStream::connect(self.proxy.socket()).unwrap();
        write!(socket, "GET /metrics HTTP/1.1\r\nHost: midas\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }
}

/// A handle that no server gave.
fn junk(number: u64) -> Vec<u8> {
    [b"junk".as_slice(), &number.to_be_bytes(), &[7; 20]].concat()
}

/// A connection from this address.
fn connect(source: Ipv4Addr, at: SocketAddr) -> Raw {
    Raw::connect_from(SocketAddr::from((source, 0)), at)
}

/// The same, for whoever may be refused; it never waits for what is written or read.
fn dial(source: Ipv4Addr, at: SocketAddr) -> io::Result<Raw> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddr::from((source, 0)))?;
    rustix::net::connect(&socket, &at)?;
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(true)?;
    Ok(Raw(stream))
}

/// How many of these the other side has closed.
fn gone(raws: &mut [Raw]) -> usize {
    raws.iter_mut().filter_map(|raw| (readable(&raw.0, Duration::ZERO) && raw.closed()).then_some(())).count()
}

/// Whether the other side closes the connection soon.
fn ends(raw: &mut Raw) -> bool {
    readable(&raw.0, Duration::from_secs(20)) && raw.closed()
}

#[test]
fn a_stranger_may_ask_for_null_portmap_and_mount_and_all_else_is_refused_before_its_handle_is_looked_at() {
    let mut rig = Rig::start("");
    rig.mute();
    let mut stranger = connect(STRANGERS[0], rig.nfs());
    stranger.alive();
    stranger.send(&call(5, portmap::PROGRAM, 2, 0, &[]));
    assert!(results(&stranger.receive()).is_empty());
    for path in [b"/scratch".as_slice(), b"/scratch/below", b"/nothing"] {
        stranger.send(&mnt(3, &mount::Call::Mnt(path)));
        let answer = stranger.receive();
        assert_eq!(Mounted::decode(results(&answer)).unwrap().unwrap_err(), MountStat::ACCES);
    }
    // No server is asked, or this would take ten seconds each.
    let begin = Instant::now();
    for procedure in Procedure::ALL.into_iter().filter(|procedure| *procedure != Procedure::Null) {
        stranger.send(&call(9, nfs3::PROGRAM, 3, procedure as u32, &[[0, 0, 0, 8].as_slice(), &[9; 120]].concat()));
        let answer = stranger.receive();
        let refused = Reply::decode(procedure, results(&answer)).unwrap();
        assert_eq!(refused.status(), Nfsstat3::ACCES, "{procedure:?}");
    }
    stranger.send(&getattr(7, &junk(1)));
    assert_eq!(status(&stranger.receive()), Nfsstat3::ACCES);
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert_eq!(rig.metric("midas_stranger_connections"), 1);
}

#[test]
fn strangers_share_a_few_connections_and_the_address_with_most_gives_up_its_oldest_idle_one() {
    let rig = Rig::start("[limits]\nstrangers = 4\n");
    let from = |source: Ipv4Addr| {
        let mut raw = connect(source, rig.nfs());
        raw.alive();
        raw
    };
    let mut many: Vec<Raw> = (0..3).map(|_| from(STRANGERS[0])).collect();
    let mut few = vec![from(STRANGERS[1])];
    for others in 1..3 {
        few.push(from(STRANGERS[2]));
        until("the address that has most gave one up", || gone(&mut many) == others);
        few.iter_mut().for_each(Raw::alive);
    }
    few.push(from(STRANGERS[1]));
    assert_eq!(rig.metric("midas_stranger_connections"), 4);
    // Listed clients do not count there.
    let listed: Vec<Raw> = (0..8).map(|_| from(BAD)).collect();
    assert_eq!(rig.metric("midas_stranger_connections"), 4, "beside {}", listed.len());
}

#[test]
fn at_the_connection_limit_a_client_with_many_idle_connections_makes_room_for_one_with_few() {
    let rig = Rig::start("[limits]\nconnections = 12\n");
    until("the daemon's first clients are gone", || rig.metric("midas_client_connections") == 0);
    let mut many: Vec<Raw> = (0..12).map(|_| connect(BAD, rig.nfs())).collect();
    many.iter_mut().for_each(Raw::alive);
    let mut few: Vec<Raw> = Vec::new();
    for ended in 1..4 {
        few.push(connect(GOOD, rig.nfs()));
        few.iter_mut().for_each(Raw::alive);
        until("the client with many has one less", || gone(&mut many) == ended);
    }
    many[11].alive();
    assert!(rig.metric("midas_client_connections_replaced_total") >= 1);
    // A stranger takes no listed client's place.
    let refill: Vec<Raw> = (0..12).map(|_| connect(BAD, rig.nfs())).collect();
    until("it is full", || rig.metric("midas_client_connections") == 12);
    assert!(ends(&mut connect(STRANGERS[0], rig.nfs())), "beside {}", refill.len());
}

#[test]
fn at_the_connection_limit_strangers_that_take_no_answers_make_room_for_a_listed_client() {
    // Their connections were never idle, and the listed client was turned away.
    let clients: Vec<String> = (0..1000_u32).map(|host| format!("\"{}\"", Ipv4Addr::from(10 << 24 | host))).collect();
    let rig = Rig::listing(&clients.join(", "), "[limits]\nconnections = 6\nstrangers = 4\n");
    until("the daemon's first clients are gone", || rig.metric("midas_client_connections") == 0);
    let mut deaf: Vec<Raw> = (0..4).map(|_| connect(STRANGERS[0], rig.nfs())).collect();
    // Each answer lists all clients: together they are more than sockets hold.
    let exports = in_one_fragment(&mnt(3, &mount::Call::Export)).repeat(1000);
    for raw in &mut deaf {
        raw.say(&exports);
    }
    let begun = Instant::now();
    until("their sockets are full", || begun.elapsed() > Duration::from_secs(2));
    let mut others: Vec<Raw> = (0..2).map(|_| connect(BAD, rig.nfs())).collect();
    others.iter_mut().for_each(Raw::alive);
    let mut good: Vec<Raw> = Vec::new();
    for _ in 0..4 {
        good.push(connect(GOOD, rig.nfs()));
        good.iter_mut().for_each(Raw::alive);
    }
    others.iter_mut().for_each(Raw::alive);
    assert_eq!(rig.metric("midas_stranger_connections"), 0, "beside {}", deaf.len());
}

#[test]
fn a_reload_that_takes_a_client_from_every_list_ends_its_connections_and_no_others() {
    let rig = Rig::start("");
    let (_, root) = rig.proxy.client();
    let (mut bad, mut good) = (connect(BAD, rig.nfs()), connect(GOOD, rig.nfs()));
    bad.served(&root);
    good.served(&root);
    rig.proxy.rewrite(LISTED, "\"127.0.0.1\"");
    rig.proxy.signal(Signal::HUP);
    rig.proxy.said("reloaded", 1);
    assert!(ends(&mut bad));
    good.served(&root);
    let mut again = connect(BAD, rig.nfs());
    again.send(&getattr(1, &root));
    assert_eq!(status(&again.receive()), Nfsstat3::ACCES);
    rig.proxy.rewrite("clients = [\"127.0.0.1\"]", &format!("clients = [{LISTED}]"));
    rig.proxy.signal(Signal::HUP);
    rig.proxy.said("reloaded", 2);
    assert!(ends(&mut again), "it was a stranger's");
    connect(BAD, rig.nfs()).served(&root);
    good.served(&root);
}

#[test]
fn calls_whose_export_nobody_can_tell_end_in_jukebox_after_ten_seconds_and_die_with_their_client() {
    let mut rig = Rig::start("");
    let (_, root) = rig.proxy.client();
    rig.mute();
    let (mut waits, mut leaves) = (Raw::connect(rig.nfs()), Raw::connect(rig.nfs()));
    let (one, two) = (junk(1), junk(2));
    let name = DirOp { dir: handle(&two), name: b"name" };
    let data = [5; 4096];
    let write = Call::Write { file: handle(&one), offset: 0, count: 4096, stable: StableHow::FileSync, data: &data };
    let calls = [Call::Getattr { object: handle(&one) }, Call::Lookup { what: name }, write];
    for (xid, call) in calls.iter().enumerate() {
        waits.send(&nfs(xid as u32, call));
        leaves.send(&nfs(xid as u32, call));
    }
    let begin = Instant::now();
    until("all wait", || rig.metric("midas_unresolved") == 6);
    leaves.reset();
    until("those of a client that is gone do not", || rig.metric("midas_unresolved") == 3);
    assert!(begin.elapsed() < Duration::from_secs(9), "{:?}", begin.elapsed());
    waits.served(&root);
    let mut answered = Vec::new();
    for _ in &calls {
        let answer = waits.receive();
        let xid = midas_lab::raw::xid(&answer);
        let reply = Reply::decode(calls[xid as usize].procedure(), results(&answer)).unwrap();
        assert_eq!(reply.status(), Nfsstat3::JUKEBOX);
        answered.push(xid);
    }
    let took = begin.elapsed();
    assert!((Duration::from_secs(8)..Duration::from_secs(20)).contains(&took), "{took:?}");
    assert_eq!(answered.len(), 3);
    assert_eq!((rig.metric("midas_unresolved"), rig.metric("midas_unresolved_given_up_total")), (0, 3));
}

#[test]
fn what_waits_of_one_client_on_many_connections_stays_within_its_share_and_holds_up_nobody() {
    let mut rig = Rig::start(MEMORY);
    let (mut good, root) = rig.proxy.client();
    let file = create(&mut good, &root, b"file");
    rig.mute();
    let (before, _) = rig.proxy.memory();
    let data = vec![7; 512 << 10];
    let mut lines = Vec::new();
    for number in 0..64 {
        let raw = connect(BAD, rig.nfs());
        raw.0.set_nonblocking(true).unwrap();
        let object = junk(number);
        let (file, count) = (handle(&object), data.len() as u32);
        let write = nfs(1, &Call::Write { file, offset: 0, count, stable: StableHow::FileSync, data: &data });
        // What the sockets do not take stays here.
        let _kept = (&raw.0).write(&in_one_fragment(&write).repeat(4));
        lines.push(raw);
    }
    let begin = Instant::now();
    for _ in 0..500 {
        assert_eq!(good.nfs(&Call::Getattr { object: handle(&root) }).unwrap().status(), Nfsstat3::OK);
    }
    let write =
        Call::Write { file: handle(&file), offset: 0, count: 512 << 10, stable: StableHow::FileSync, data: &data };
    assert_eq!(good.nfs(&write).unwrap().status(), Nfsstat3::OK);
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    let (_, highest) = rig.proxy.memory();
    println!("{} KiB before, at most {} KiB, {:?}", before >> 10, highest >> 10, begin.elapsed());
    assert!(highest < before + CAP / 2 + BESIDE, "{before} to {highest}");
}

/// How long each hostile client is at it, in seconds.
fn seconds() -> u64 {
    std::env::var("MIDAS_HOSTILE_SECONDS").map_or(6, |typed| typed.parse().unwrap())
}

/// Slices of each kind: kinds take turns, so that what else the machine does falls on all of them alike.
const SLICES: u32 = 6;

/// The calling thread runs on one processor alone, and with it whatever it starts: the first that
/// it may use, or the last.
fn keep_to(last: bool) {
    let allowed = sched_getaffinity(None).unwrap();
    let mut processors = (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number));
    let mut one = CpuSet::new();
    one.set(if last { processors.next_back() } else { processors.next() }.unwrap());
    sched_setaffinity(None, &one).unwrap();
}

/// Hostile clients have a processor of their own, as they have machines of their own: what is
/// measured is what MIDAS spends on them.
#[test]
fn hostile_clients_at_full_speed_at_most_double_the_p99_of_others_and_leave_nothing_behind() {
    let limits = format!("{MEMORY}connections = 512\n");
    let everywhere = sched_getaffinity(None).unwrap();
    keep_to(false);
    let rig = Rig::start(&limits);
    let clients: &mut [Good] = &mut [Good::new(&rig, 0), Good::new(&rig, 1)];
    let slice = Duration::from_secs(seconds()) / SLICES;
    let (before, _) = rig.proxy.memory();
    measure(clients, slice);
    let (mut worst, mut broken) = (0.0_f64, Vec::new());
    for (who, hostile) in [("strangers", stranger as fn(SocketAddr, Instant)), ("a listed client", listed)] {
        let (mut calm, mut here) = (Vec::new(), Vec::new());
        for _ in 0..SLICES {
            calm.push(measure(clients, slice));
            here.push(under(clients, slice, &everywhere, |until| hostile(rig.nfs(), until)));
        }
        // Two seconds later all is as before.
        measure(clients, Duration::from_secs(2));
        let after: Vec<_> = (0..SLICES / 2).map(|_| measure(clients, slice)).collect();
        let counts = [&calm, &here, &after].map(|slices| slices.iter().map(Vec::len).sum::<usize>());
        // What is left behind would be felt in every slice.
        let after = after.into_iter().map(p99).min().unwrap();
        let [calm, here] = [calm, here].map(typical);
        let (_, highest) = rig.proxy.memory();
        println!(
            "{who}: p99 {calm:?} before, {here:?} meanwhile, {after:?} after; {counts:?} calls; {} KiB before, at most {} KiB",
            before >> 10,
            highest >> 10
        );
        worst = worst.max(here.as_secs_f64() / calm.as_secs_f64());
        if here > 2 * calm {
            broken.push(format!("{who}: {here:?} is more than twice {calm:?}"));
        }
        if after > 2 * calm {
            broken.push(format!("after {who}: {after:?} is more than twice {calm:?}"));
        }
        assert!(highest < before + CAP + BESIDE, "{before} to {highest}");
    }
    println!("at worst {worst:.2} times");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The median over slices of their p99: what else the machine did in one of them does not count.
fn typical(slices: Vec<Vec<Duration>>) -> Duration {
    let mut each: Vec<Duration> = slices.into_iter().map(p99).collect();
    each.sort_unstable();
    each[each.len() / 2]
}

fn p99(mut latencies: Vec<Duration>) -> Duration {
    latencies.sort_unstable();
    latencies[latencies.len() * 99 / 100]
}

/// Latencies of the good clients for so long, while somebody else does something.
fn under(clients: &mut [Good], slice: Duration, all: &CpuSet, does: impl Fn(Instant) + Sync) -> Vec<Duration> {
    let until = Instant::now() + slice;
    thread::scope(|scope| {
        scope.spawn(|| {
            sched_setaffinity(None, all).unwrap();
            keep_to(true);
            does(until);
        });
        all_call(clients, until)
    })
}

fn measure(clients: &mut [Good], slice: Duration) -> Vec<Duration> {
    all_call(clients, Instant::now() + slice)
}

fn all_call(clients: &mut [Good], until: Instant) -> Vec<Duration> {
    thread::scope(|scope| {
        let calls: Vec<_> = clients.iter_mut().map(|client| scope.spawn(move || client.call(until))).collect();
        calls.into_iter().flat_map(|calls| calls.join().unwrap()).collect()
    })
}

/// A client that does its work on one connection, with a file of its own.
struct Good {
    client: Client,
    root: Vec<u8>,
    name: String,
    file: Vec<u8>,
}

impl Good {
    fn new(rig: &Rig, number: usize) -> Self {
        let ((mut client, root), name) = (rig.proxy.client(), format!("good-{number}"));
        let file = create(&mut client, &root, name.as_bytes());
        Self { client, root, name, file }
    }

    /// GETATTR, LOOKUP and now and then a WRITE that is large enough to need a reservation; at least one call.
    fn call(&mut self, until: Instant) -> Vec<Duration> {
        let Self { client, root, name, file } = self;
        let (data, count) = (vec![3; 32 << 10], 32 << 10);
        let write = Call::Write { file: handle(file), offset: 0, count, stable: StableHow::FileSync, data: &data };
        let what = DirOp { dir: handle(root), name: name.as_bytes() };
        let reads = [Call::Getattr { object: handle(file) }, Call::Lookup { what }];
        let mut latencies = Vec::new();
        for turn in 0_usize.. {
            let begin = Instant::now();
            let call = if turn % 16 == 15 { &write } else { &reads[turn % 2] };
            assert_eq!(client.nfs(call).unwrap().status(), Nfsstat3::OK);
            latencies.push(begin.elapsed());
            if Instant::now() >= until {
                break;
            }
        }
        latencies
    }
}

/// Everything that strangers can do: junk calls on many connections, new connections all the time, half records.
fn stranger(at: SocketAddr, until: Instant) {
    thread::scope(|scope| {
        scope.spawn(move || flood(&STRANGERS, at, until));
        scope.spawn(move || churn(STRANGERS[0], at, until));
    });
}

/// The same of a listed client.
fn listed(at: SocketAddr, until: Instant) {
    thread::scope(|scope| {
        scope.spawn(move || flood(&[BAD], at, until));
        scope.spawn(move || churn(BAD, at, until));
    });
}

/// Sends junk on some connections as fast as it is taken, and reads what comes.
fn flood(sources: &[Ipv4Addr], at: SocketAddr, until: Instant) {
    let (mut lines, mut number) = (Vec::new(), 0);
    let mut sink = vec![0; 64 << 10];
    while Instant::now() < until {
        while lines.len() < LINES {
            let Ok(raw) = dial(sources[lines.len() % sources.len()], at) else { break };
            lines.push((raw, Vec::new()));
        }
        let mut moved = false;
        lines.retain_mut(|(raw, unsent)| {
            if unsent.is_empty() {
                let calls = (0..32_u32).map(|xid| in_one_fragment(&getattr(xid, &junk(number + u64::from(xid)))));
                *unsent = calls.collect::<Vec<_>>().concat();
                number += 32;
            }
            let sent = raw.0.write(unsent);
            let read = raw.0.read(&mut sink);
            moved |= sent.is_ok() || read.is_ok();
            unsent.drain(..*sent.as_ref().unwrap_or(&0));
            let lives = |result: io::Result<usize>| match result {
                Ok(moved) => moved > 0,
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            };
            lives(sent) && lives(read)
        });
        if let Some((raw, _)) = lines.first().filter(|_| !moved) {
            readable(&raw.0, Duration::from_millis(1));
        }
    }
}

/// Opens connections all the time, leaves half a large record on each, and closes the oldest of many.
fn churn(source: Ipv4Addr, at: SocketAddr, until: Instant) {
    let mut lines = std::collections::VecDeque::new();
    let half = [&mark(1 << 20)[..], &vec![0; 20_000]].concat();
    while Instant::now() < until {
        if let Ok(raw) = dial(source, at) {
            // What the socket does not take stays here.
            let _kept = (&raw.0).write(&half);
            lines.push_back(raw);
        }
        if lines.len() > OPEN {
            lines.pop_front();
        }
    }
}

/// Connections of one flood, and those that are left open.
const LINES: usize = 16;
const OPEN: usize = 600;
