//! What must not be executed twice is not, though every proxy died that knew of it: they wrote it down before it left.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::{handle, in_one_fragment, nfs, status};
use midas_lab::{Delay, PATIENCE, until};
use midas_nfs::nfs3::{Call, CreateHow, DirOp, Nfsstat3, Procedure, Sattr3};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use support::gate::Gate;
use support::members::{Members, cluster};
use support::nfsd::Nfsd;
use support::serve::Site;

fn members(servers: &[SocketAddr]) -> Members {
    Members::start(|| Site { export: HELD, ..Site::over(servers.to_vec(), None, "/") })
}

/// A GUARDED CREATE as the bytes that a client sends, and sends again.
fn create(root: &[u8]) -> Vec<u8> {
    let place = DirOp { dir: handle(root), name: b"once" };
    let how = CreateHow::Guarded(Sattr3 { mode: Some(0o644), ..Sattr3::default() });
    in_one_fragment(&nfs(77, &Call::Create { place, how }))
}

fn kill_all_and_start_again(members: &mut Members) {
    (0..3).for_each(|member| members.kill(member));
    members.daemons.iter_mut().for_each(support::serve::Serve::again);
}

fn executed(nfsd: &mut Nfsd) -> u64 {
    nfsd.executed("CREATE").iter().sum()
}

#[test]
fn a_call_that_was_answered_before_every_proxy_died_gets_its_first_answer_again() {
    let mut nfsd = Nfsd::start(&["--servers", "3", "--truth"]);
    let mut members = members(&nfsd.addresses);
    let (mut client, root) = members.daemons[0].client();
    let record = create(&root);
    let first = client.exchange(&record).unwrap().to_vec();
    assert_eq!(status(&first), Nfsstat3::OK);
    until("all know that it is over", || members.daemons.iter().all(|one| cluster(one)["leases"]["pending"] == 0));
    kill_all_and_start_again(&mut members);
    for daemon in &members.daemons {
        let (mut client, _) = daemon.client();
        client.patience(PATIENCE).unwrap();
        assert_eq!(client.exchange(&record).unwrap(), first);
    }
    assert_eq!(executed(&mut nfsd), 1);
    // It is what they wrote that makes it so.
    (0..3).for_each(|member| members.kill(member));
    for daemon in &mut members.daemons {
        std::fs::remove_file(daemon.state().with_file_name("cluster.intents")).unwrap();
        daemon.again();
    }
    let (mut client, _) = members.daemons[2].client();
    client.patience(PATIENCE).unwrap();
    assert_eq!(status(client.exchange(&record).unwrap()), Nfsstat3::EXIST);
    assert_eq!(executed(&mut nfsd), 2);
}

/// Servers whose answers come late, and the wires that make them so.
fn slow_to_answer() -> (Nfsd, Vec<Delay>) {
    let nfsd = Nfsd::start(&["--servers", "3", "--truth"]);
    let late = |server: &SocketAddr| Delay::before(*server, LATE).unwrap();
    let wires = nfsd.addresses.iter().map(late).collect();
    (nfsd, wires)
}

/// A GUARDED CREATE through the first member that was executed and not answered yet.
struct Unanswered {
    members: Members,
    root: Vec<u8>,
    record: Vec<u8>,
    /// Tells at its end whether there was an answer.
    asks: JoinHandle<bool>,
}

fn unanswered(nfsd: &mut Nfsd, wires: &[Delay]) -> Unanswered {
    let servers: Vec<SocketAddr> = wires.iter().map(|wire| wire.address).collect();
    let members = members(&servers);
    let (mut client, root) = members.daemons[0].client();
    let (record, sent) = (create(&root), create(&root));
    let asks = thread::spawn(move || client.exchange(&sent).is_ok());
    until("it is executed", || executed(nfsd) == 1);
    Unanswered { members, root, record, asks }
}

#[test]
fn a_call_whose_answer_died_with_every_proxy_is_not_executed_again() {
    let (mut nfsd, wires) = slow_to_answer();
    let Unanswered { mut members, record, asks, .. } = unanswered(&mut nfsd, &wires);
    kill_all_and_start_again(&mut members);
    println!("answered before: {}", asks.join().unwrap());
    let (mut client, _) = members.daemons[1].client();
    client.patience(PATIENCE).unwrap();
    // If it was too long ago to be told from somebody else's: an error, never a second success.
    let again = status(client.exchange(&record).unwrap());
    println!("again: {again}");
    assert!(matches!(again, Nfsstat3::OK | Nfsstat3::EXIST), "{again}");
    assert_eq!(executed(&mut nfsd), 1);
}

/// A member dies with a call that was executed and not answered. Through another one its name is to
/// be removed, and then its client sends the call again. What waits for it must not come first.
#[test]
fn what_is_sent_again_comes_before_those_that_wait_for_what_became_of_it() {
    let (mut nfsd, wires) = slow_to_answer();
    let Unanswered { mut members, root, record, asks } = unanswered(&mut nfsd, &wires);
    members.kill(0);
    assert!(!asks.join().unwrap(), "it was answered before its proxy died");
    let [(mut again, _), (mut other, _)] = [(); 2].map(|()| members.daemons[1].client());
    again.patience(PATIENCE).unwrap();
    other.patience(PATIENCE).unwrap();
    let removes = thread::spawn(move || {
        let object = DirOp { dir: handle(&root), name: b"once" };
        other.nfs(&Call::Remove { object }).unwrap().status()
    });
    until("the removal waits", || members.daemons[1].held() > 0);
    assert_eq!(status(again.exchange(&record).unwrap()), Nfsstat3::OK);
    assert_eq!(removes.join().unwrap(), Nfsstat3::OK);
    assert_eq!((executed(&mut nfsd), nfsd.executed("REMOVE").iter().sum()), (1, 1));
}

/// A member dies with a removal that no server ever got. Through another one somebody else's removal
/// of the same name waits for it, and comes first. There is one file: one of the two has removed it.
#[test]
fn what_never_ran_and_is_sent_again_is_told_what_another_has_done_meanwhile() {
    let nfsd = Nfsd::start(&["--servers", "3", "--truth"]);
    let gates: Vec<Gate> = nfsd.addresses.iter().map(|server| Gate::before(*server)).collect();
    let ways = RefCell::new(vec![gates.iter().map(|gate| gate.address).collect::<Vec<_>>()]);
    let servers = || ways.borrow_mut().pop().unwrap_or_else(|| nfsd.addresses.clone());
    let mut members = Members::start(|| Site { export: HELD, ..Site::over(servers(), None, "/") });
    let (mut client, root) = members.daemons[0].client();
    assert_eq!(status(client.exchange(&create(&root)).unwrap()), Nfsstat3::OK);
    for gate in &gates {
        gate.hold(&[Procedure::Remove]);
    }
    let remove = |xid| {
        let object = DirOp { dir: handle(&root), name: b"once" };
        in_one_fragment(&nfs(xid, &Call::Remove { object }))
    };
    let (record, sent) = (remove(78), remove(78));
    let asks = thread::spawn(move || client.exchange(&sent).is_ok());
    until("it has left", || gates.iter().any(|gate| gate.came(Procedure::Remove) == 1));
    members.kill(0);
    assert!(!asks.join().unwrap());
    let [(mut again, _), (mut other, _)] = [(); 2].map(|()| members.daemons[1].client());
    again.patience(PATIENCE).unwrap();
    other.patience(PATIENCE).unwrap();
    let others = remove(79);
    let removes = thread::spawn(move || status(other.exchange(&others).unwrap()));
    until("the other removal waits", || members.daemons[1].held() > 0);
    let again = status(again.exchange(&record).unwrap());
    let told = [again, removes.join().unwrap()];
    assert_eq!(told.iter().filter(|status| **status == Nfsstat3::OK).count(), 1, "{told:?}");
}

const HELD: &str = "mode = \"lease\"\nwriters = \"midas-only\"\nserver_hold_max = \"2s\"\n";
/// Answers take up to so long: there is time to die between execution and answer.
const LATE: Duration = Duration::from_millis(600);
