//! Several live proxies with one cache: what clients see of each other's changes through different ones.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use midas_bench::Target;
use midas_bench::coherence::{Coherence, run};
use midas_history::{Mode, Report, check};
use midas_lab::{Delay, Ganesha, PATIENCE, Part, Scratch, require, until};
use midas_nfsd::{Config, Limits, Namespace, Nfsd};
use midas_proxy::Proxy;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

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
