//! Several live proxies with one cache: what clients see of each other's changes through different ones, whatever becomes of the proxies.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use midas_bench::coherence::{Coherence, Done, run};
use midas_history::Report;
use midas_lab::{Delay, Endpoint, Ganesha, PATIENCE, Part, Scratch, require, until};
use midas_net::Client;
use midas_nfs::nfs3::{Call, Fattr3, FileHandle, Reply, Sattr3};
use midas_nfsd::{Config, Limits, Namespace, Nfsd};
use midas_proxy::Proxy;
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;
use support::coherent::{judged, leased, reported, soak, through};
use support::load::Load;
use support::members::{Fault, Members, cluster};
use support::serve::{Serve, Site};
use support::switch::Switch;

const CALLS: u64 = 20_000;
/// Far more than it takes.
const LIMIT: Duration = Duration::from_secs(90);

/// Three proxies in lease mode over these servers.
fn members(servers: &[SocketAddr], mount_port: Option<u16>, source: &str, scratch: &Scratch) -> Vec<Proxy> {
    let address = midas_lab::loopback(1, &[]);
    let names = ["a", "b", "c"];
    let ports = names.map(|_| midas_lab::free_port(address));
    let list: Vec<String> =
        names.iter().zip(ports).map(|(name, port)| format!("\"{name}={address}:{port}\"")).collect();
    let key = scratch.path().join("key");
    midas_proxy::create_cluster_key(&key).unwrap();
    let start = |(me, port): (&str, u16)| {
        let state = scratch.path().join(me);
        std::fs::create_dir_all(&state).unwrap();
        let more = format!(
            "[state]\nfile = \"{}/state\"\n[cluster]\nname = \"test\"\nme = \"{me}\"\nlisten = \"{address}:{port}\"\n\
             members = [{}]\nkey_file = \"{}\"\nlease = \"1s\"\nsuspect_after = \"2s\"\n",
            state.display(),
            list.join(", "),
            key.display()
        );
        Proxy::start_member(&leased(servers.to_vec(), mount_port, source, &more)).unwrap()
    };
    let proxies: Vec<Proxy> = names.into_iter().zip(ports).map(start).collect();
    for proxy in &proxies {
        assert!(proxy.ready(PATIENCE));
    }
    until("every proxy holds leases", || proxies.iter().all(Proxy::leased));
    proxies
}

/// What 32 clients see through these; and how many calls were forwarded.
fn seen(proxies: &[Proxy], scratch: &Scratch) -> (Report, u64) {
    let config = Coherence::new(proxies.iter().map(through).collect(), scratch.path().join("calls"));
    let config = Coherence { calls: CALLS, duration: LIMIT, changes: 0.05, clients: 32, ..config };
    let (done, report) = reported(&config);
    let forwarded = proxies.iter().flat_map(Proxy::dispatched).map(u64::from).sum();
    println!("{forwarded} were forwarded");
    assert!(report.calls >= CALLS, "ended too early: {report:#?}");
    assert_eq!((done.failed, done.resent), (0, 0), "{done:?}");
    assert_eq!(report.violations, 0, "{:#?}", report.shown);
    (report, forwarded)
}

#[test]
fn three_proxies_over_embedded_servers_are_linearizable() {
    let listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); 3];
    let config = Config { listen, ..Config::default() };
    let nfsd = Nfsd::start(&config, &Arc::new(Namespace::memory(Limits::default()))).unwrap();
    let late = |server: &SocketAddr| Delay::before(*server, Duration::from_millis(3)).unwrap();
    let wires: Vec<Delay> = nfsd.addresses().iter().map(late).collect();
    let servers: Vec<SocketAddr> = wires.iter().map(|wire| wire.address).collect();
    let scratch = Scratch::new();
    let (report, forwarded) = seen(&members(&servers, None, "/", &scratch), &scratch);
    assert!(forwarded < report.calls * 3 / 4, "some were answered from the caches");
}

#[test]
fn three_proxies_over_ganesha_heads_are_linearizable() {
    if !require(Part::Ganesha) {
        return;
    }
    let (ganesha, scratch) = (Ganesha::start_coherent(3), Scratch::new());
    let heads = ganesha.heads();
    let servers: Vec<SocketAddr> = heads.iter().map(|head| SocketAddr::from((head.address, head.nfs_port))).collect();
    seen(&members(&servers, Some(heads[0].mount_port), &heads[0].path, &scratch), &scratch);
}

/// Three daemons of their own process in lease mode over these servers.
fn daemons(servers: &[Endpoint]) -> Members {
    Members::start(|| Site { export: HELD, ..Site::of(servers) })
}

/// Ends a load when it is dropped: one of a test that panicked must not run on beside the next.
#[derive(Default)]
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One thing after another happens to the daemons, until the load is over: as many calls as `make soak` wants, or as many as there are in a while.
/// Members are stopped, killed and cut off in turn, so that each suffers everything; in a soak they have their caches warm again before the next thing happens.
fn under_faults(servers: &[Endpoint]) -> (Done, Report) {
    let scratch = Scratch::new();
    let mut members = daemons(servers);
    let config = Coherence::new(members.targets(), scratch.path().join("calls"));
    let (calls, duration) = soak().map_or((u64::MAX, SHORT), |calls| (calls, Duration::MAX));
    // Whoever is stopped or cut off answers late; what a member that dies left open is sent again, there or through another one.
    let config = Coherence { calls, duration, changes: 0.1, clients: CLIENTS, timeout: PATIENCE, keep: true, ..config };
    let (made, calm) = (Arc::new(AtomicUsize::new(0)), soak().map_or(1, |_| CALM));
    let (load, stop) = (config.clone(), Stop::default());
    let (stopped, count) = (Arc::clone(&stop.0), Arc::clone(&made));
    let load = thread::spawn(move || {
        let mut watch = |what: &str, done: usize, _: usize| {
            if what == "calls" {
                count.store(done, Ordering::Relaxed);
            }
        };
        run(&load, &stopped, &mut watch)
    });
    let mut faults = Vec::new();
    let kinds = Fault::ALL.into_iter().cycle().zip((0..3).cycle());
    for (fault, lost) in kinds {
        let enough = made.load(Ordering::Relaxed) + calm;
        let over = || load.is_finished() || made.load(Ordering::Relaxed) >= enough;
        // On a busy machine that takes a while, but some are always made.
        while !over() {
            let before = made.load(Ordering::Relaxed);
            until("a call is made", || over() || made.load(Ordering::Relaxed) > before);
        }
        if load.is_finished() {
            break;
        }
        members.suffer(fault, lost);
        faults.push(fault);
    }
    let (done, report) = judged(&config, load.join().unwrap().unwrap());
    println!("{} changes that were sent again were presumed to be done", report.presumed);
    for daemon in &members.daemons {
        println!("{}", daemon.command("cluster"));
    }
    println!("{} faults: {faults:?}", faults.len());
    assert!(Fault::ALL.iter().all(|fault| faults.contains(fault)), "not everything happened under load");
    assert_eq!(report.violations, 0, "{:#?}", report.shown);
    // Where many wait for one that was stopped, a register is given up now and then and begun anew.
    assert!(report.undecided * 1000 <= report.steps, "{report:#?}");
    assert_eq!(done.failed, 0, "clients had to connect anew, and saw no other error: {done:?}");
    assert!(done.elsewhere > 0 && done.resent > done.elsewhere, "sent again, there and elsewhere: {done:?}");
    assert!(report.calls > 1000, "{report:#?}");
    (done, report)
}

#[test]
fn over_ganesha_heads_daemons_that_are_stopped_killed_and_cut_off_leave_nothing_stale() {
    if !require(Part::Ganesha) {
        return;
    }
    under_faults(Ganesha::start_coherent(3).heads());
}

#[test]
fn over_embedded_servers_they_have_nothing_executed_twice_either() {
    let mut nfsd = support::nfsd::Nfsd::start(&["--servers", "3", "--truth"]);
    let (done, _) = under_faults(&nfsd.endpoints());
    assert_eq!(done.mixed, 0, "an embedded server looks once");
    let truth = nfsd.truth();
    assert_eq!((&truth["doubles"], &truth["uncompared"]), (&Value::from(0), &Value::from(0)), "{done:?}: {truth}");
}

/// Clients of a floating address, which another proxy has as soon as the first one is dead, send again there what was not answered.
#[test]
fn what_is_sent_again_through_another_proxy_is_executed_once() {
    let mut nfsd = support::nfsd::Nfsd::start(&["--servers", "3", "--truth"]);
    let mut members = daemons(&nfsd.endpoints());
    let floats = |daemon: &Serve| Switch::start((Ipv4Addr::LOCALHOST, 0).into(), daemon.nfs[0]);
    let floating: Vec<Switch> = members.daemons.iter().map(floats).collect();
    let mount = members.daemons[0].mount[0].port();
    let load = |at: &Switch| Load::at(&format!("{}/scratch?mount={mount}", at.address), CREATES);
    let loads: Vec<Load> = floating.iter().map(load).collect();
    for load in &loads {
        load.goes_on_for(Duration::from_secs(1));
    }
    for (lost, floating) in floating.iter().enumerate() {
        members.kill(lost);
        floating.lead_to(members.daemons[(lost + 1) % 3].nfs[0], Duration::ZERO);
        members.missed(lost);
        members.daemons[lost].again();
        members.whole();
        floating.lead_to(members.daemons[lost].nfs[0], Duration::ZERO);
    }
    for load in loads {
        let counts = load.end_of_restarted();
        assert!(counts["retransmissions"].as_u64().unwrap() > 0, "nothing was sent again: {counts}");
    }
    let truth = nfsd.truth();
    assert_eq!((&truth["doubles"], &truth["uncompared"]), (&Value::from(0), &Value::from(0)), "{truth}");
}

#[test]
fn who_is_cut_off_forwards_reads_and_holds_mutations_until_it_is_back() {
    let mut nfsd = support::nfsd::Nfsd::start(&["--servers", "3", "--truth"]);
    let members = daemons(&nfsd.endpoints());
    let [mut near, mut far] = [0, 2].map(|member: usize| members.daemons[member].client());
    let mut asked = || nfsd.executed("GETATTR").iter().sum::<u64>();
    until("the one that will be cut off answers from its cache", || {
        let before = asked();
        for _ in 0..READS {
            attributes(&mut far);
        }
        asked() - before < READS
    });
    members.cut_off(2);
    until("its leases have run out", || cluster(&members.daemons[2])["leases"]["live_ms"] == 0.0);
    members.missed(2);
    for mode in [0o700, 0o711, 0o755] {
        assert!(set(&mut near, mode), "the others go on");
        let before = asked();
        (0..READS).for_each(|_| assert_eq!(attributes(&mut far).mode & 0o777, mode, "nothing is stale"));
        assert!(asked() - before >= READS, "reads are forwarded");
    }
    let (answered, answer) = channel();
    let (mut held, root) = members.daemons[2].client();
    held.patience(PATIENCE).unwrap();
    let call = thread::spawn(move || answered.send(set(&mut (held, root), 0o750)));
    assert_eq!(answer.recv_timeout(Duration::from_secs(2)), Err(RecvTimeoutError::Timeout), "it waits");
    assert_eq!(attributes(&mut near).mode & 0o777, 0o755, "it was not executed");
    members.heal();
    assert_eq!(answer.recv_timeout(PATIENCE), Ok(true), "it goes on when its proxy is back");
    call.join().unwrap().unwrap();
    assert_eq!((attributes(&mut near).mode & 0o777, attributes(&mut far).mode & 0o777), (0o750, 0o750));
}

/// Of the export's root.
fn attributes((client, root): &mut (Client, Vec<u8>)) -> Fattr3 {
    match client.nfs(&Call::Getattr { object: FileHandle::new(root).unwrap() }).unwrap() {
        Reply::Getattr(Ok(attributes)) => attributes,
        other => panic!("{other:?}"),
    }
}

/// Whether the mode of the export's root could be set.
fn set((client, root): &mut (Client, Vec<u8>), mode: u32) -> bool {
    let new_attributes = Sattr3 { mode: Some(mode), ..Sattr3::default() };
    let call = Call::Setattr { object: FileHandle::new(root).unwrap(), new_attributes, guard: None };
    client.nfs(&call).unwrap().status() == midas_nfs::nfs3::Nfsstat3::OK
}

const HELD: &str = "mode = \"lease\"\nwriters = \"midas-only\"\nserver_hold_max = \"2s\"\n";
const CLIENTS: u32 = 32;
const CREATES: &str =
    "--op create --connections 11 --depth 4 --directories 1 --files 1 --duration 30s --timeout 60s --keep";
/// Calls between two faults of a soak.
const CALM: usize = 50_000;
/// Time for everything to happen once, on a busy machine too.
const SHORT: Duration = Duration::from_secs(30);
const READS: u64 = 20;
