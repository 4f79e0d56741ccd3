//! A job starts at three proxies (issue 6): 256 clients spread over them look for the same libraries along the same search path. What one proxy has asked
//! the servers for the others fetch from it, so that the servers are asked for every name about once in all.
//!
//! Counted as in `jobstart`: all calls that the servers executed but NULL and GETATTR, with which proxies ask whether they live, less those that made the
//! names; held against the distinct names, those of the path and of the job's own directory included. Calls with which proxies check their hits count too: at
//! most ten a second in a cluster.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::{Scratch, until};
use serde_json::Value;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};
use support::{midas, text};

#[test]
fn a_job_that_starts_at_three_proxies_of_a_cluster_asks_the_servers_for_every_name_once() {
    // On a machine with other work a peer may be too late, and a server is asked as well: the middle one of three.
    let mut calls = [(); 3].map(|()| started_at_members());
    calls.sort_by(f64::total_cmp);
    assert!(calls[1] <= 1.1, "{calls:?} calls for a name");
}

/// The calls for a name, with proxies of a cluster.
fn started_at_members() -> f64 {
    let (mut nfsd, key) = (nfsd(), Scratch::new());
    let proxies = members(&nfsd, &key);
    let calls = calls_for_a_name(&mut nfsd, &proxies);
    for proxy in &proxies {
        eprintln!("{}", proxy.command("cluster"));
    }
    let [asked, fetched, lent] =
        ["asked", "fetched", "lent"].map(|what| proxies.iter().map(|it| fetches(it, what)).sum::<u64>());
    eprintln!("{calls:.3} calls for a name; of {asked} questions {fetched} were answered by peers");
    assert!(fetched > 0 && lent >= fetched, "what was fetched was lent: {lent}, {fetched}");
    calls
}

#[test]
fn three_proxies_that_do_not_know_of_each_other_ask_three_times() {
    let mut nfsd = nfsd();
    let proxies: Vec<Serve> = (0..3).map(|_| Site { export: LEASE, ..Site::of(&nfsd.endpoints()) }.start()).collect();
    let calls = calls_for_a_name(&mut nfsd, &proxies);
    assert!(calls > 2.9, "{calls} calls for a name");
}

fn nfsd() -> Nfsd {
    Nfsd::start(&["--servers", "3", "--service", "const:1ms", "--truth"])
}

/// Three daemons that hold leases. The term is long: a machine with other work must not make one lapse.
fn members(nfsd: &Nfsd, key: &Scratch) -> Vec<Serve> {
    let address = midas_lab::loopback(1, &[]);
    let names = ["a", "b", "c"];
    let ports = names.map(|_| midas_lab::free_port(address));
    let list = names.iter().zip(ports).map(|(name, port)| format!("\"{name}={address}:{port}\""));
    let list = list.collect::<Vec<_>>().join(", ");
    let file = key.path().join("key");
    midas_proxy::create_cluster_key(&file).unwrap();
    let start = |(me, port): (&str, u16)| {
        let more = format!(
            "[cluster]\nname = \"test\"\nme = \"{me}\"\nlisten = \"{address}:{port}\"\nmembers = [{list}]\n\
             key_file = \"{}\"\nlease = \"5s\"\nsuspect_after = \"10s\"\n",
            file.display()
        );
        Site { export: LEASE, more, ..Site::of(&nfsd.endpoints()) }.start()
    };
    let proxies: Vec<Serve> = names.into_iter().zip(ports).map(start).collect();
    let well = |seen: &Value| seen["present"] == 3 && seen["leases"]["live_ms"].as_f64().is_some_and(|live| live > 0.0);
    until("every daemon is in the view and holds leases", || proxies.iter().all(|proxy| well(&cluster(proxy))));
    proxies
}

fn cluster(proxy: &Serve) -> Value {
    let output = midas(&format!("cluster --json --socket {}", proxy.socket().display()));
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

fn fetches(proxy: &Serve, what: &str) -> u64 {
    cluster(proxy)["fetches"][what].as_u64().unwrap()
}

/// Starts the job, and says how many calls reached the servers for each name.
fn calls_for_a_name(nfsd: &mut Nfsd, proxies: &[Serve]) -> f64 {
    let before = nfsd.all_executed();
    let at = proxies.iter().map(|proxy| format!("{}/scratch?mount={}", proxy.nfs[0], proxy.mount[0].port()));
    let at = at.collect::<Vec<_>>().join(",");
    let made_at = format!("{}/", nfsd.addresses[0]);
    let job = format!("--clients 256 --libraries {LIBRARIES} --path {PATH} --json");
    let started: Value =
        serde_json::from_str(&text(&format!("bench job-start {at} --prepare {made_at} --keep {job}"))).unwrap();
    let reached = nfsd.all_executed() - before - made();
    let names = started["names"].as_u64().unwrap() + 1 + PATH;
    eprintln!("{reached} calls reached the servers for {names} names; {started}");
    reached as f64 / names as f64
}

/// The calls that make the names: one that finds that there are none, then the job's directory, the path's and all files.
const fn made() -> u64 {
    1 + 1 + PATH + PATH * LIBRARIES
}

const LEASE: &str = "mode = \"lease\"\nwriters = \"midas-only\"\nserver_hold_max = \"2s\"\n";
const PATH: u64 = 12;
const LIBRARIES: u64 = 50;
