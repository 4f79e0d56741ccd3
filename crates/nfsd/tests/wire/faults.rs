//! C and the faults: retransmission, what breaks on command, and the truth that the servers keep.

use crate::support::{client, plain, start};
use midas_lab::raw::{Raw, getattr, handle, in_one_fragment, nfs, status, xid};
use midas_lab::{PATIENCE, create, until};
use midas_net::{Caller, Client, ClientError};
use midas_nfs::nfs3::{self, Call, CreateHow, DirOp, Nfsstat3, Procedure, Reply, Sattr3, StableHow};
use midas_nfsd::{Bounds, Command, Config, Fault, Nfsd, ServiceTimes};
use std::io::Read;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

fn created(xid: u32, root: &[u8], name: &[u8]) -> Vec<u8> {
    let place = DirOp { dir: handle(root), name };
    nfs(xid, &Call::Create { place, how: CreateHow::Guarded(Sattr3::default()) })
}

/// Waits until so many calls are in the server's queue.
fn queued(nfsd: &Nfsd, calls: usize) {
    until("calls wait", || nfsd.truth().unwrap().look(Instant::now()).queues[0].length() == calls);
}

fn servers(count: usize) -> (Nfsd, Vec<SocketAddr>) {
    let listen = vec![SocketAddr::from(([127, 0, 0, 1], 0)); count];
    let (nfsd, _) = start(&Config { listen, truth: true, ..Config::default() });
    let addresses = nfsd.addresses();
    (nfsd, addresses)
}

#[test]
fn c1_a_create_sent_again_on_another_connection_gets_the_first_answer() {
    let (nfsd, addresses) = servers(1);
    let (_, root) = client(addresses[0]);
    let body = created(77, &root, b"once");
    let (mut first, mut second) = (Raw::connect(addresses[0]), Raw::connect(addresses[0]));
    first.send(&body);
    let answer = first.receive();
    second.send(&body);
    assert_eq!(second.receive(), answer);
    let seen = nfsd.truth().unwrap().look(Instant::now());
    assert_eq!(seen.calls[0][Procedure::Create as usize], 1);
    // Another xid is another call, and the name is taken.
    second.send(&created(78, &root, b"once"));
    assert_eq!(status(&second.receive()), Nfsstat3::EXIST);
}

#[test]
fn c1_a_create_sent_again_while_it_runs_is_executed_once_and_the_newest_asker_is_answered() {
    let (nfsd, addresses) = servers(1);
    let (_, root) = client(addresses[0]);
    nfsd.command(0, Command::Fault(Fault::Hang)).unwrap();
    let body = created(77, &root, b"once");
    let (mut first, mut second) = (Raw::connect(addresses[0]), Raw::connect(addresses[0]));
    first.send(&body);
    queued(&nfsd, 1);
    second.send(&body);
    second.send(&getattr(78, &root));
    queued(&nfsd, 2);
    nfsd.command(0, Command::Fault(Fault::None)).unwrap();
    let xids = [second.receive(), second.receive()].map(|answer| xid(&answer));
    assert_eq!(xids, [77, 78]);
    let seen = nfsd.truth().unwrap().look(Instant::now());
    assert_eq!(seen.calls[0][Procedure::Create as usize], 1);
}

#[test]
fn servers_over_one_namespace_give_the_same_handles_and_attributes() {
    let (_nfsd, addresses) = servers(3);
    let (mut one, root) = client(addresses[0]);
    let place = DirOp { dir: handle(&root), name: b"shared" };
    let made = one.nfs(&Call::Create { place, how: CreateHow::Guarded(Sattr3::default()) }).unwrap();
    let Reply::Create(Ok(made)) = made else { panic!("{made:?}") };
    let (file, attributes) = (made.object.unwrap().bytes().to_vec(), made.attributes);
    for address in &addresses[1..] {
        let (mut other, other_root) = client(*address);
        assert_eq!(other_root, root);
        let Reply::Lookup(Ok(found)) = other.nfs(&Call::Lookup { what: place }).unwrap() else { panic!("it is there") };
        assert_eq!((found.object.bytes(), found.attributes), (file.as_slice(), attributes));
    }
}

#[test]
fn a_server_that_fails_fast_answers_the_status_and_executes_nothing() {
    let (nfsd, addresses) = servers(2);
    let (mut client, root) = client(addresses[0]);
    nfsd.command(0, Command::Fault(Fault::Fail(Nfsstat3::JUKEBOX))).unwrap();
    until("the fault", || client.nfs(&Call::Getattr { object: handle(&root) }).unwrap().status() == Nfsstat3::JUKEBOX);
    let before = nfsd.truth().unwrap().look(Instant::now()).executed.len();
    let place = DirOp { dir: handle(&root), name: b"never" };
    let call = Call::Create { place, how: CreateHow::Guarded(Sattr3::default()) };
    assert_eq!(client.nfs(&call).unwrap().status(), Nfsstat3::JUKEBOX);
    assert_eq!(nfsd.truth().unwrap().look(Instant::now()).executed.len(), before);
}

#[test]
fn a_slow_server_takes_that_much_longer() {
    let (nfsd, address) = plain();
    let (mut client, root) = client(address);
    nfsd.command(0, Command::Fault(Fault::Slow(Duration::from_millis(50)))).unwrap();
    until("it is slow", || {
        let start = Instant::now();
        client.nfs(&Call::Getattr { object: handle(&root) }).unwrap();
        start.elapsed() >= Duration::from_millis(50)
    });
}

#[test]
fn a_server_that_is_down_refuses_connections_until_it_is_up_again() {
    let (nfsd, address) = plain();
    let mut raw = Raw::connect(address);
    nfsd.command(0, Command::Fault(Fault::Down)).unwrap();
    assert!(raw.closed());
    until("it is down", || std::net::TcpStream::connect(address).is_err());
    nfsd.command(0, Command::Fault(Fault::None)).unwrap();
    until("it is up", || std::net::TcpStream::connect(address).is_ok());
    Raw::connect(address).alive();
}

/// Further halves came after the first one: together they were as long as its mark says, and read as
/// one answer with its number.
#[test]
fn nothing_comes_after_half_an_answer() {
    let (nfsd, addresses) = servers(1);
    let (_, root) = client(addresses[0]);
    let mut raw = Raw::connect(addresses[0]);
    raw.send(&getattr(1, &root));
    let whole = midas_nfs::record::MARK + raw.receive().len();
    nfsd.command(0, Command::Fault(Fault::Hang)).unwrap();
    (2..10).for_each(|xid| raw.send(&getattr(xid, &root)));
    queued(&nfsd, 8);
    nfsd.command(0, Command::Fault(Fault::HalfReply)).unwrap();
    let mut heard = Vec::new();
    // It ends with calls that nobody answers: that may be a reset.
    let _end = raw.0.read_to_end(&mut heard);
    assert!(heard.len() < whole, "{} bytes of {whole}", heard.len());
}

#[test]
fn dropped_connections_are_closed_and_new_ones_are_served() {
    let (nfsd, address) = plain();
    let mut raw = Raw::connect(address);
    raw.alive();
    nfsd.command(0, Command::Drop).unwrap();
    assert!(raw.closed());
    Raw::connect(address).alive();
}

#[test]
fn a_restart_changes_the_verifier_loses_what_was_not_committed_and_forgets_its_answers() {
    let (nfsd, address) = plain();
    let (mut writer, root) = client(address);
    let file = create(&mut writer, &root, b"file");
    let write = |client: &mut Client, offset, stable| {
        let call = Call::Write { file: handle(&file), offset, count: 4, stable, data: b"data" };
        let Reply::Write(Ok(written)) = client.nfs(&call).unwrap() else { panic!("it can be written") };
        written.verf
    };
    write(&mut writer, 0, StableHow::FileSync);
    let before = write(&mut writer, 4, StableHow::Unstable);
    nfsd.command(0, Command::Restart).unwrap();
    until("the restart", || writer.nfs(&Call::Null).is_err());
    let mut again = Client::connect(address, &Caller::ROOT, PATIENCE).unwrap();
    let commit = again.nfs(&Call::Commit { file: handle(&file), offset: 0, count: 0 }).unwrap();
    let Reply::Commit(Ok(committed)) = commit else { panic!("{commit:?}") };
    assert_ne!(committed.verf, before);
    let read = again.nfs(&Call::Read { file: handle(&file), offset: 0, count: 99 }).unwrap();
    let Reply::Read(Ok(read)) = read else { panic!("{read:?}") };
    assert_eq!(read.data, b"data\0\0\0\0");
}

#[test]
fn other_handles_are_stale_to_the_other_servers() {
    let (nfsd, addresses) = servers(2);
    let (_, root) = client(addresses[0]);
    nfsd.command(1, Command::Fault(Fault::OtherHandles)).unwrap();
    until("the fault", || client(addresses[1]).1 != root);
    let (mut other, others_root) = client(addresses[1]);
    assert_eq!(other.nfs(&Call::Getattr { object: handle(&root) }).unwrap().status(), Nfsstat3::STALE);
    assert_eq!(other.nfs(&Call::Getattr { object: handle(&others_root) }).unwrap().status(), Nfsstat3::OK);
    let (mut one, _) = client(addresses[0]);
    assert_eq!(one.nfs(&Call::Getattr { object: handle(&others_root) }).unwrap().status(), Nfsstat3::STALE);
}

#[test]
fn wrong_xids_and_half_replies_are_sent_on_command() {
    let (nfsd, address) = plain();
    let (_, root) = client(address);
    nfsd.command(0, Command::Fault(Fault::WrongXid)).unwrap();
    let mut raw = Raw::connect(address);
    until("a wrong number", || {
        raw.send(&getattr(5, &root));
        xid(&raw.receive()) != 5
    });
    nfsd.command(0, Command::Fault(Fault::HalfReply)).unwrap();
    until("half an answer", || {
        let mut client = Client::connect(address, &Caller::ROOT, PATIENCE).unwrap();
        matches!(client.nfs(&nfs3::Call::Getattr { object: handle(&root) }), Err(ClientError::Io(_)))
    });
}

#[test]
fn the_truth_knows_the_length_of_the_queue_and_the_order_of_execution() {
    let service = ServiceTimes::parse("const:20ms", 1).unwrap();
    let (nfsd, address) = start(&Config { service, truth: true, ..Config::default() });
    let (_, root) = client(address);
    let mut raw = Raw::connect(address);
    // In one write: all of them are there before the first is done.
    raw.say(&(0..10).flat_map(|xid| in_one_fragment(&getattr(xid, &root))).collect::<Vec<u8>>());
    let order: Vec<u32> = (0..10).map(|_| xid(&raw.receive())).collect();
    assert_eq!(order, (0..10).collect::<Vec<_>>());
    let seen = nfsd.truth().unwrap().look(Instant::now());
    assert!((9..=10).contains(&seen.queues[0].longest), "{}", seen.queues[0].longest);
    // Ten calls at once, 20 ms each, one worker: 10 + 9 + .. + 1 calls for 20 ms.
    let area = seen.queues[0].area;
    // Its end is the loop's own time, which a busy machine makes later.
    assert!((0.9..10.0).contains(&area), "{area}");
    assert_eq!(seen.executed.len(), 10);
    // What calls waited and took is the queue's area (Little), but for the loop's own lateness.
    let took: Duration = seen.executed.iter().map(|call| call.took).sum();
    assert!((0.6..1.15).contains(&took.as_secs_f64()), "{took:?} of {area}");
    assert_eq!(nfsd.truth().unwrap().lengths(), [0]);
}

#[test]
fn c1_a_write_sent_again_while_it_waits_is_executed_once() {
    let (nfsd, addresses) = servers(1);
    let (mut setup, root) = client(addresses[0]);
    let file = create(&mut setup, &root, b"file");
    let body = |xid, data| {
        nfs(xid, &Call::Write { file: handle(&file), offset: 0, count: 4, stable: StableHow::FileSync, data })
    };
    nfsd.command(0, Command::Fault(Fault::Hang)).unwrap();
    let (mut first, mut second) = (Raw::connect(addresses[0]), Raw::connect(addresses[0]));
    first.send(&body(7, b"old!"));
    queued(&nfsd, 1);
    second.send(&body(7, b"old!"));
    second.send(&body(8, b"new!"));
    queued(&nfsd, 2);
    nfsd.command(0, Command::Fault(Fault::None)).unwrap();
    let xids = [second.receive(), second.receive()].map(|answer| xid(&answer));
    assert_eq!(xids, [7, 8]);
    assert_eq!(nfsd.truth().unwrap().look(Instant::now()).calls[0][Procedure::Write as usize], 2);
}

#[test]
fn c1_thousands_of_copies_of_one_call_do_not_use_up_a_clients_share() {
    let bounds = Bounds { calls: 64, ..Bounds::default() };
    let (nfsd, address) = start(&Config { bounds, truth: true, ..Config::default() });
    let (_, root) = client(address);
    nfsd.command(0, Command::Fault(Fault::Hang)).unwrap();
    let mut raw = Raw::connect(address);
    for _ in 0..2000 {
        raw.send(&created(7, &root, b"once"));
    }
    raw.send(&getattr(8, &root));
    queued(&nfsd, 2);
    nfsd.command(0, Command::Fault(Fault::None)).unwrap();
    let xids = [raw.receive(), raw.receive()].map(|answer| xid(&answer));
    assert_eq!(xids, [7, 8]);
    raw.alive();
}

#[test]
fn a_hanging_server_answers_nothing_at_all_and_one_that_is_down_executes_nothing() {
    let (nfsd, addresses) = servers(1);
    let (_, root) = client(addresses[0]);
    nfsd.command(0, Command::Fault(Fault::Hang)).unwrap();
    let mut raw = Raw::connect(addresses[0]);
    raw.send(&nfs(1, &Call::Null));
    raw.send(&created(2, &root, b"never"));
    queued(&nfsd, 2);
    nfsd.command(0, Command::Fault(Fault::Down)).unwrap();
    assert!(raw.closed());
    nfsd.command(0, Command::Fault(Fault::None)).unwrap();
    until("it is up", || std::net::TcpStream::connect(addresses[0]).is_ok());
    let (mut client, root) = client(addresses[0]);
    let what = DirOp { dir: handle(&root), name: b"never" };
    assert_eq!(client.nfs(&Call::Lookup { what }).unwrap().status(), Nfsstat3::NOENT);
}
