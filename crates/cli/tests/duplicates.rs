//! Calls that come again, late, or from clients that are gone: each is executed once or not at all,
//! and nothing old comes back.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::{Raw, getattr, handle, nfs, results, status, xid};
use midas_lab::{Endpoint, Ganesha, Part, Scratch, create, mkdir, mounted, readable, require, until};
use midas_net::{Client, Reservation};
use midas_nfs::nfs3::{Call, DirOp, Nfsstat3, Procedure, Reply, Sattr3, StableHow};
use serde_json::Value;
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};

/// One record of a WRITE at the beginning of a file.
fn write(xid: u32, file: &[u8], data: &[u8]) -> Vec<u8> {
    let (file, stable) = (handle(file), StableHow::FileSync);
    nfs(xid, &Call::Write { file, offset: 0, count: data.len() as u32, stable, data })
}

fn make(xid: u32, dir: &[u8], name: &[u8]) -> Vec<u8> {
    nfs(xid, &Call::Mkdir { place: DirOp { dir: handle(dir), name }, attributes: Sattr3::default() })
}

fn remove(xid: u32, dir: &[u8], name: &[u8]) -> Vec<u8> {
    nfs(xid, &Call::Remove { object: DirOp { dir: handle(dir), name } })
}

fn read(xid: u32, file: &[u8], count: u32) -> Vec<u8> {
    nfs(xid, &Call::Read { file: handle(file), offset: 0, count })
}

/// What a file holds.
fn content(client: &mut Client, file: &[u8]) -> Vec<u8> {
    match client.nfs(&Call::Read { file: handle(file), offset: 0, count: 1 << 16 }).unwrap() {
        Reply::Read(Ok(read)) => read.data.to_vec(),
        other => panic!("{:?}", other.status()),
    }
}

fn absent(client: &mut Client, dir: &[u8], name: &[u8]) -> bool {
    let what = DirOp { dir: handle(dir), name };
    match client.nfs(&Call::Lookup { what }).unwrap().status() {
        Nfsstat3::OK => false,
        Nfsstat3::NOENT => true,
        other => panic!("{other:?}"),
    }
}

/// A call is answered, well.
fn ask(raw: &mut Raw, record: &[u8]) -> Vec<u8> {
    raw.send(record);
    let answer = raw.receive();
    assert_eq!((xid(&answer).to_be_bytes(), status(&answer)), (*record.first_chunk().unwrap(), Nfsstat3::OK));
    answer
}

/// How a copy of a call comes.
#[derive(Clone, Copy, Debug)]
enum Way {
    SameConnection,
    SamePort,
    OtherPort,
}

/// A WRITE, a newer one to the same range, and the first one again: the file keeps the newer data.
fn a_late_copy_changes_nothing(endpoint: &Endpoint, file: &str) {
    let (mut client, root) = endpoint.client();
    let address = SocketAddr::new(endpoint.address.into(), endpoint.nfs_port);
    for (number, way) in [Way::SameConnection, Way::SamePort, Way::OtherPort].into_iter().enumerate() {
        let file = create(&mut client, &root, format!("{file} {number}").as_bytes());
        // Nobody else is given the port between the two connections.
        let kept = Reservation::on(&[address.ip()]).unwrap();
        let source = SocketAddr::new(address.ip(), kept.port());
        let mut raw = Raw::connect_from(source, address);
        let old = write(5, &file, &[b'o'; 3000]);
        let first = ask(&mut raw, &old);
        ask(&mut raw, &write(9, &file, &[b'n'; 3000]));
        let mut raw = match way {
            Way::SameConnection => raw,
            Way::SamePort => {
                raw.reset();
                Raw::connect_from(source, address)
            }
            Way::OtherPort => Raw::connect(address),
        };
        let again = ask(&mut raw, &old);
        assert_eq!(content(&mut client, &file), [b'n'; 3000], "{way:?}: the old data are back");
        assert_eq!(again, first, "{way:?}: it is the first answer");
    }
}

#[test]
fn a_write_that_comes_again_after_a_newer_one_changes_nothing() {
    let nfsd = Nfsd::start(&["--servers", "2", "--truth", "--export", "/scratch"]);
    a_late_copy_changes_nothing(&nfsd.endpoint(0), "direct");
    let proxy = Serve::start(&nfsd.endpoints());
    a_late_copy_changes_nothing(&proxy.endpoint(), "through");
}

/// Ganesha itself knows the copies that come from the same port; the proxy knows all.
#[test]
fn a_write_that_comes_again_changes_nothing_at_ganesha_either() {
    if !require(Part::Ganesha) {
        return;
    }
    let ganesha = Ganesha::start_coherent(1);
    let head = &ganesha.heads()[0];
    let (mut client, root) = head.client();
    let file = create(&mut client, &root, b"direct");
    let mut raw = Raw::connect(SocketAddr::new(head.address.into(), head.nfs_port));
    let old = write(5, &file, b"old");
    ask(&mut raw, &old);
    ask(&mut raw, &write(9, &file, b"new"));
    ask(&mut raw, &old);
    assert_eq!(content(&mut client, &file), b"new", "without the proxy");
    let proxy = Serve::start(ganesha.heads());
    a_late_copy_changes_nothing(&proxy.endpoint(), "through");
}

/// Large answers that a client does not take: the proxy reads no more of its calls.
struct Stuck {
    raw: Raw,
    reads: u32,
}

impl Stuck {
    /// Sends so many READs, and then these calls, which are not read while the answers wait.
    fn of(address: SocketAddr, file: &[u8], reads: u32, behind: &[Vec<u8>]) -> Self {
        let mut raw = Raw::connect(address);
        for number in 0..reads {
            raw.send(&read(1000 + number, file, 1 << 20));
        }
        for record in behind {
            raw.send(record);
        }
        Self { raw, reads }
    }

    /// Takes the answers to the READs.
    fn take_reads(&mut self) {
        for _ in 0..self.reads {
            let answer = self.raw.receive();
            assert_eq!(status(&answer), Nfsstat3::OK);
            assert!(xid(&answer) >= 1000, "calls behind the READs were read");
        }
    }
}

/// A proxy with little memory for each client, and a file of a mebibyte.
fn small(nfsd: &Nfsd) -> (Serve, Client, Vec<u8>, Vec<u8>) {
    let more = "[limits]\nmemory = \"64MiB\"\ncalls_per_client = 16\n".to_owned();
    let proxy = Site { more, ..Site::of(&nfsd.endpoints()) }.start();
    let (mut client, root) = proxy.client();
    let large = create(&mut client, &root, b"large");
    for part in 0..16_u64 {
        let (data, stable) = (vec![7; 1 << 16], StableHow::FileSync);
        let (file, offset, count) = (handle(&large), part << 16, 1 << 16);
        assert_eq!(
            client.nfs(&Call::Write { file, offset, count, stable, data: &data }).unwrap().status(),
            Nfsstat3::OK
        );
    }
    (proxy, client, root, large)
}

/// A connection whose answers nobody takes is not read; the client sends its WRITE on another one,
/// and a newer one after it. Then the first connection is read on, and its copy is the late one.
#[test]
fn a_copy_that_flow_control_kept_back_does_not_bring_old_data_back() {
    let nfsd = Nfsd::start(&["--truth", "--export", "/scratch"]);
    let (proxy, mut client, root, large) = small(&nfsd);
    let file = create(&mut client, &root, b"file");
    let old = write(5, &file, b"old");
    let mut stuck = Stuck::of(proxy.nfs[0], &large, 80, std::slice::from_ref(&old));
    let mut other = Raw::connect(proxy.nfs[0]);
    ask(&mut other, &old);
    ask(&mut other, &write(9, &file, b"new"));
    // Answers come in any order once there is room.
    let answers: Vec<u32> = (0..81).map(|_| xid(&stuck.raw.receive())).collect();
    assert!(answers.contains(&5), "the copy is answered");
    assert_eq!(content(&mut client, &file), b"new", "the old data are back");
}

/// A connection that was not read for longer than answers are kept is ended: nobody knows any more
/// what it sent elsewhere meanwhile.
#[test]
fn what_was_not_read_for_longer_than_answers_are_kept_is_not_executed() {
    let directory = Scratch::new();
    // A file system of its own: the handles of two in memory are alike.
    let mut hung = Nfsd::start(&["--dir", directory.path().to_str().unwrap(), "--export", "/hung"]);
    let nfsd = Nfsd::start(&["--export", "/scratch"]);
    let more = format!(
        "[limits]\ncalls_per_client = 16\nanswers_kept = \"2s\"\n\
         [[pool]]\nname = \"hung\"\nservers = [\"{}\"]\nstaleness = \"0s\"\n\
         [[export]]\npath = \"/hung\"\nsource = \"/hung\"\npool = \"hung\"\nclients = [\"127.0.0.0/8\"]\n\
         access = \"rw\"\nsquash = \"none\"\ninsecure = true\n",
        hung.addresses[0]
    );
    let proxy = Site { more, ..Site::of(&nfsd.endpoints()) }.start();
    until("it can be mounted", || Raw::connect(proxy.mount[0]).mount("/hung").is_ok());
    let ((mut client, root), (_, there)) = (proxy.client(), mounted(proxy.nfs[0], proxy.mount[0], "/hung"));
    let file = create(&mut client, &root, b"file");
    hung.tell("fault 0 hang");
    let mut stuck = Raw::connect(proxy.nfs[0]);
    (0..16).for_each(|number| stuck.send(&getattr(1000 + number, &there)));
    let old = write(5, &file, b"old");
    stuck.send(&old);
    let mut other = Raw::connect(proxy.nfs[0]);
    ask(&mut other, &old);
    ask(&mut other, &write(9, &file, b"new"));
    assert!(stuck.closed(), "it is not read any more");
    hung.tell("fault 0 none");
    assert_eq!(content(&mut client, &file), b"new", "the old data are back");
}

/// What a client had sent and nobody had read when it closed its side is not executed: it may have
/// sent that again elsewhere.
#[test]
fn what_was_not_read_when_a_client_closed_is_not_executed() {
    let mut nfsd = Nfsd::start(&["--truth", "--export", "/scratch"]);
    let (proxy, mut client, root, large) = small(&nfsd);
    let file = create(&mut client, &root, b"file");
    let writes = nfsd.executed("WRITE");
    let late = [write(5, &file, b"late"), make(6, &root, b"late")];
    // Its side is closed, and it waits for its answers: reads are answered, changes are not made.
    let mut stuck = Stuck::of(proxy.nfs[0], &large, 80, &late);
    stuck.raw.0.shutdown(Shutdown::Write).unwrap();
    stuck.take_reads();
    assert!(stuck.raw.closed(), "nothing else is answered");
    // It is gone at once.
    Stuck::of(proxy.nfs[0], &large, 80, &late).raw.reset();
    until("only the other client is left", || status_of(&proxy)["clients"] == 1);
    assert!(absent(&mut client, &root, b"late"));
    assert_eq!((nfsd.executed("MKDIR"), nfsd.executed("WRITE")), (vec![0], writes));
}

/// Who sends reads and closes its side gets the answers, as before.
#[test]
fn who_closes_its_side_gets_the_answers_to_its_reads() {
    let nfsd = Nfsd::start(&["--export", "/scratch"]);
    let proxy = Serve::start(&nfsd.endpoints());
    let (_, root) = proxy.client();
    for address in [proxy.nfs[0], nfsd.addresses[0]] {
        midas_lab::hostile::answers_who_ends(address, &root);
    }
}

fn status_of(proxy: &Serve) -> Value {
    serde_json::from_str(&proxy.command("status --json")).unwrap()
}

/// A server that is down, for as long as the test wants.
struct Outage {
    nfsd: Nfsd,
    proxy: Serve,
    root: Vec<u8>,
    file: Vec<u8>,
}

impl Outage {
    fn begin(export: &'static str, more: &str) -> Self {
        let mut nfsd = Nfsd::start(&["--truth", "--export", "/scratch"]);
        let pool = "probe_interval = \"100ms\"\nprobe_timeout = \"500ms\"\n".to_owned();
        let proxy = Site { pool, export, more: more.to_owned(), ..Site::of(&nfsd.endpoints()) }.start();
        let (mut client, root) = proxy.client();
        let file = create(&mut client, &root, b"file");
        mkdir(&mut client, &root, b"dir");
        proxy.until(0, "the server is up", |server| server["health"] == "up");
        nfsd.tell("fault 0 down");
        proxy.until(0, "the server is down", |server| server["health"] == "down");
        Self { nfsd, proxy, root, file }
    }

    /// Until so many calls wait for the server.
    fn waiting(&self, calls: u64) {
        until(&format!("{calls} calls wait"), || {
            let seen = status_of(&self.proxy);
            let figure = |value: &Value| value.as_u64().unwrap();
            figure(&seen["held"]) + figure(&seen["pools"][0]["servers"][0]["in_flight"]) == calls
        });
    }

    fn end(&mut self) {
        self.nfsd.tell("fault 0 none");
        self.proxy.until(0, "the server is back", |server| server["health"] != "down");
    }

    fn changes(&mut self) -> [u64; 3] {
        ["WRITE", "MKDIR", "REMOVE"].map(|procedure| self.nfsd.executed(procedure)[0])
    }
}

/// The calls of a client that is gone do not run when the server comes back, however the client went.
#[test]
fn calls_of_a_client_that_is_gone_do_not_run_when_the_server_comes_back() {
    let mut outage = Outage::begin("", "");
    let Outage { root, file, .. } = &outage;
    let calls = [write(5, file, b"late"), remove(6, root, b"file"), make(7, root, b"late")];
    for resets in [true, false] {
        let mut raw = Raw::connect(outage.proxy.nfs[0]);
        for call in &calls {
            raw.send(call);
        }
        outage.waiting(3);
        match resets {
            true => raw.reset(),
            false => drop(raw),
        }
        outage.waiting(0);
    }
    outage.end();
    let (mut client, _) = outage.proxy.client();
    assert!(absent(&mut client, &outage.root, b"late"));
    assert_eq!(content(&mut client, &outage.file), b"");
    let mut raw = Raw::connect(outage.proxy.nfs[0]);
    // What was dropped is neither known as a duplicate nor marked: a new copy runs.
    for call in &calls {
        assert_eq!(outage.changes().iter().sum::<u64>(), 1 + u64::from(call[3] - 5));
        ask(&mut raw, call);
    }
    assert_eq!(outage.changes(), [1, 2, 1]);
}

/// A call that its client sent again on a new connection is that one's: the end of the old one does not drop it.
#[test]
fn a_call_that_was_sent_again_outlives_its_first_connection() {
    let mut outage = Outage::begin("", "");
    let call = make(7, &outage.root, b"made");
    let mut first = Raw::connect(outage.proxy.nfs[0]);
    first.send(&call);
    outage.waiting(1);
    let mut second = Raw::connect(outage.proxy.nfs[0]);
    second.send(&call);
    second.alive();
    first.reset();
    until("the first is gone", || status_of(&outage.proxy)["clients"] == 1);
    outage.waiting(1);
    outage.end();
    let answer = second.receive();
    assert_eq!((xid(&answer), status(&answer)), (7, Nfsstat3::OK));
    assert_eq!(outage.changes(), [0, 2, 0]);
}

/// A change that waited through an outage that lasted longer than answers are kept is known by its answer from then on.
#[test]
fn a_change_that_waited_longer_than_answers_are_kept_runs_once() {
    let mut outage = Outage::begin("", "[limits]\nanswers_kept = \"2s\"\n");
    let call = make(7, &outage.root, b"made");
    let mut raw = Raw::connect(outage.proxy.nfs[0]);
    raw.send(&call);
    outage.waiting(1);
    assert!(!readable(&raw.0, Duration::from_millis(2500)), "no server is there");
    outage.end();
    let first = raw.receive();
    assert_eq!(Reply::decode(Procedure::Mkdir, results(&first)).unwrap().status(), Nfsstat3::OK);
    assert_eq!(ask(&mut raw, &call), first);
    raw.send(&getattr(8, &outage.root));
    assert_eq!(status(&raw.receive()), Nfsstat3::OK);
    assert_eq!(outage.changes(), [0, 2, 0]);
}
