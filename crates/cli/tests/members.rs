//! Several live proxies with one cache: what clients see of each other's changes through different ones.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use midas_bench::Target;
use midas_bench::coherence::{Coherence, run};
use midas_history::{Mode, Report, check};
use midas_lab::{Delay, Endpoint, Ganesha, PATIENCE, Part, Scratch, require, until};
use midas_nfsd::{Config, Limits, Namespace, Nfsd};
use midas_proxy::Proxy;
use rustix::process::Signal;
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;
use support::midas;
use support::serve::{Serve, Site};

const CALLS: u64 = 20_000;
/// Far more than it takes.
const LIMIT: Duration = Duration::from_secs(90);

/// Three proxies in lease mode over these servers.
fn members(servers: &[String], mount_port: Option<u16>, source: &str, scratch: &Scratch) -> Vec<Proxy> {
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
        let text = format!(
            "{}[state]\nfile = \"{}/state\"\n[cluster]\nname = \"test\"\nme = \"{me}\"\nlisten = \"{address}:{port}\"\n\
             members = [{}]\nkey_file = \"{}\"\nlease = \"1s\"\nsuspect_after = \"2s\"\n",
            served(servers, mount_port, source),
            state.display(),
            list.join(", "),
            key.display()
        );
        Proxy::start_member(&midas_proxy::config::Config::parse(&text).unwrap()).unwrap()
    };
    let proxies: Vec<Proxy> = names.into_iter().zip(ports).map(start).collect();
    for proxy in &proxies {
        assert!(proxy.ready(PATIENCE));
    }
    until("every proxy holds leases", || proxies.iter().all(Proxy::leased));
    proxies
}

fn served(servers: &[String], mount_port: Option<u16>, source: &str) -> String {
    let mount_port = mount_port.map_or(String::new(), |port| format!("mount_port = {port}\n"));
    let servers: Vec<String> = servers.iter().map(|server| format!("\"{server}\"")).collect();
    format!(
        "threads = 2\n[listen]\nnfs = \"127.0.0.1:0\"\nmount = \"127.0.0.1:0\"\n\
         [[pool]]\nname = \"heads\"\nservers = [{}]\n{mount_port}staleness = \"0s\"\n\
         [[export]]\npath = \"/scratch\"\nsource = \"{source}\"\npool = \"heads\"\nclients = [\"127.0.0.0/8\"]\n\
         access = \"rw\"\nsquash = \"none\"\ninsecure = true\nmode = \"lease\"\nwriters = \"midas-only\"\n",
        servers.join(", ")
    )
}

fn through(proxy: &Proxy) -> Target {
    Target::parse(&format!("{}/scratch?mount={}", proxy.nfs()[0], proxy.mount()[0].port())).unwrap()
}

fn reported(proxies: &[Proxy], seed: u64, scratch: &Scratch) -> Report {
    let targets = proxies.iter().map(through).collect();
    let config = Coherence::new(targets, scratch.path().join("calls"));
    let config = Coherence { calls: CALLS, duration: LIMIT, changes: 0.05, clients: 32, seed, ..config };
    let done = run(&config, &AtomicBool::new(false), &mut |_, _, _| {}).unwrap();
    let report = check(&[config.history], Mode::Linearizable, &mut |_, _| {}).unwrap();
    println!("{done:?}: {} violations", report.violations);
    assert!(report.calls >= CALLS && report.concurrency > 1, "ended too early: {report:#?}");
    report
}

#[test]
fn three_proxies_over_embedded_servers_are_linearizable() {
    let listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); 3];
    let config = Config { listen, ..Config::default() };
    let nfsd = Nfsd::start(&config, &Arc::new(Namespace::memory(Limits::default()))).unwrap();
    let late = |server: &SocketAddr| Delay::before(*server, Duration::from_millis(3)).unwrap();
    let wires: Vec<Delay> = nfsd.addresses().iter().map(late).collect();
    let servers: Vec<String> = wires.iter().map(|wire| wire.address.to_string()).collect();
    let scratch = Scratch::new();
    let proxies = members(&servers, None, "/", &scratch);
    let report = reported(&proxies, 1, &scratch);
    let forwarded: u32 = proxies.iter().flat_map(Proxy::dispatched).sum();
    println!("{} calls, {forwarded} forwarded", report.calls);
    assert_eq!(report.violations, 0, "{:#?}", report.shown);
    assert!(u64::from(forwarded) < report.calls * 3 / 4, "some were answered from the caches");
}

#[test]
fn three_proxies_over_ganesha_heads_are_linearizable() {
    if !require(Part::Ganesha) {
        return;
    }
    let (ganesha, scratch) = (Ganesha::start_coherent(3), Scratch::new());
    let heads = ganesha.heads();
    let servers: Vec<String> = heads.iter().map(|head| format!("{}:{}", head.address, head.nfs_port)).collect();
    let proxies = members(&servers, Some(heads[0].mount_port), &heads[0].path, &scratch);
    let report = reported(&proxies, 1, &scratch);
    let forwarded: u32 = proxies.iter().flat_map(Proxy::dispatched).sum();
    println!("{} calls, {forwarded} forwarded", report.calls);
    assert_eq!(report.violations, 0, "{:#?}", report.shown);
}

/// Three daemons of their own process in lease mode over these servers.
fn daemons(servers: &[Endpoint], key: &Scratch) -> Vec<Serve> {
    let address = midas_lab::loopback(1, &[]);
    let names = ["a", "b", "c"];
    let ports = names.map(|_| midas_lab::free_port(address));
    let list: Vec<String> =
        names.iter().zip(ports).map(|(name, port)| format!("\"{name}={address}:{port}\"")).collect();
    let file = key.path().join("key");
    midas_proxy::create_cluster_key(&file).unwrap();
    let start = |(me, port): (&str, u16)| {
        let more = format!(
            "[cluster]\nname = \"test\"\nme = \"{me}\"\nlisten = \"{address}:{port}\"\nmembers = [{}]\n\
             key_file = \"{}\"\nlease = \"1s\"\nsuspect_after = \"1500ms\"\n",
            list.join(", "),
            file.display()
        );
        let export = "mode = \"lease\"\nwriters = \"midas-only\"\nserver_hold_max = \"2s\"\n";
        Site { export, more, ..Site::of(servers) }.start()
    };
    let daemons: Vec<Serve> = names.into_iter().zip(ports).map(start).collect();
    whole(&daemons);
    daemons
}

fn cluster(daemon: &Serve) -> Value {
    let output = midas(&format!("cluster --json --socket {}", daemon.socket().display()));
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

/// All are in the view, and hold leases.
fn whole(daemons: &[Serve]) {
    let well = |seen: &Value| seen["present"] == 3 && seen["leases"]["live_ms"].as_f64().is_some_and(|live| live > 0.0);
    until("every daemon is in the view and holds leases", || daemons.iter().all(|daemon| well(&cluster(daemon))));
}

/// The others go on without this one.
fn missed(daemons: &[Serve], lost: usize) {
    let others = daemons.iter().enumerate().filter(|(number, _)| *number != lost);
    let others: Vec<&Serve> = others.map(|(_, daemon)| daemon).collect();
    until("the others go on", || others.iter().all(|daemon| cluster(daemon)["present"] == 2));
}

/// Daemons are stopped for longer than a lease, killed and started again, one after the other, under load.
fn under_faults(servers: &[Endpoint], rounds: usize) -> Report {
    let scratch = Scratch::new();
    let mut daemons = daemons(servers, &scratch);
    let targets = daemons
        .iter()
        .map(|daemon| Target::parse(&format!("{}/scratch?mount={}", daemon.nfs[0], daemon.mount[0].port())).unwrap());
    let config = Coherence::new(targets.collect(), scratch.path().join("calls"));
    let (timeout, duration) = (Duration::from_secs(3), ROUND * rounds as u32);
    let config = Coherence { calls: u64::MAX, duration, changes: 0.1, clients: 32, timeout, ..config };
    let load = config.clone();
    let load = thread::spawn(move || run(&load, &AtomicBool::new(false), &mut |_, _, _| {}));
    for lost in (0..3).cycle().take(rounds) {
        daemons[lost].signal(Signal::STOP);
        missed(&daemons, lost);
        daemons[lost].signal(Signal::CONT);
        whole(&daemons);
        daemons[lost].signal(Signal::KILL);
        daemons[lost].ended();
        missed(&daemons, lost);
        daemons[lost].again();
        whole(&daemons);
    }
    let done = load.join().unwrap().unwrap();
    for daemon in &daemons {
        println!("{}", daemon.command("cluster"));
    }
    let report = check(&[config.history], Mode::Linearizable, &mut |_, _| {}).unwrap();
    println!("{done:?}: {} violations", report.violations);
    report
}

/// A daemon stopped, missed, back, killed, missed and back, on a busy machine: the load ends soon after.
const ROUND: Duration = Duration::from_secs(8);

#[test]
fn daemons_that_are_stopped_and_killed_leave_nothing_stale() {
    let nfsd = support::nfsd::Nfsd::start(&["--servers", "3"]);
    let report = under_faults(&nfsd.endpoints(), 3);
    assert_eq!(report.violations, 0, "{:#?}", report.shown);
    assert!(report.calls > 1000, "{report:#?}");
}
