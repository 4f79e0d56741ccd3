//! A server that stalls for 1 s in 10: an open loop's latencies tell it, a closed loop's do not.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use serde_json::Value;
use support::nfsd::Nfsd;

fn p99_ms(server: &str, load: &str) -> f64 {
    let typed = format!("bench {server}/ --op getattr --duration 20s --timeout 30s --json {load}");
    let report: Value = serde_json::from_str(&support::text(&typed)).unwrap();
    let arm = &report["cells"][0]["arms"][0];
    assert_eq!((&arm["counts"]["errors_unexpected"], &arm["counts"]["dropped"]), (&0.into(), &0.into()), "{arm}");
    arm["procedures"][0]["p99_us"].as_f64().unwrap() / 1000.0
}

#[test]
fn an_open_loop_counts_those_who_wait_for_a_stalled_server_and_a_closed_loop_does_not() {
    let nfsd = Nfsd::start(&["--fault", "0=stall:1s/10s"]);
    let server = nfsd.addresses[0].to_string();
    let (open, closed) = std::thread::scope(|scope| {
        let open = scope.spawn(|| p99_ms(&server, "--rate 1000"));
        let closed = scope.spawn(|| p99_ms(&server, "--depth 1"));
        (open.join().unwrap(), closed.join().unwrap())
    });
    println!("p99: open loop {open:.1} ms, closed loop {closed:.1} ms");
    // A tenth of all calls arrive during a stall and wait for up to a second.
    assert!(open > 700.0, "{open}");
    assert!(closed < 100.0, "{closed}");
    let help = support::text("bench --help");
    assert!(help.contains("coordinated omission"), "the help says so");
}
