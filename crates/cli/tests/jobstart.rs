//! A parallel job starts (issue 5): 256 clients, one call in flight each, look for the same libraries along the same search path,
//! and nine names in ten are not there. Three embedded servers with one worker each take 1 ms a call.
//!
//! What is counted at the servers is every call that they executed from when the proxy was ready to its last answer, less
//! those that made the names: LOOKUP, ACCESS and all else but NULL and GETATTR, with which the proxy itself asks every server each
//! second whether it lives (no client sends one here). What it is held against are the distinct names that the clients look up:
//! those of the libraries, the twelve directories of the path and the job's own directory.
//! The time is bounded by the walk: a client's next look starts when the last one is answered, so that every first look costs one
//! service time, one after the other, for all clients together. Directly it is bounded by the servers: calls x 1 ms / 3.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use serde_json::Value;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};
use support::text;

#[test]
fn a_job_start_asks_the_servers_for_every_name_once_and_is_fifteen_times_quicker() {
    let libraries = if std::env::var_os(SOAK).is_some() { FULL } else { SHORT };
    let mut nfsd = Nfsd::start(&["--servers", "3", "--service", "const:1ms", "--truth"]);
    let servers: Vec<String> = nfsd.addresses.iter().map(|address| format!("{address}/")).collect();
    let job = format!("--clients 256 --libraries {libraries} --path {PATH} --json");
    let direct = started(&format!("bench job-start {} {job}", servers.join(",")));
    // A machine with other work slows the proxy and not the servers, which only wait, and every second some answers are checked: the best of
    // five.
    for _ in 0..5 {
        let proxy = proxy(&nfsd);
        let before = nfsd.all_executed();
        let at = format!("{}/scratch?mount={}", proxy.nfs[0], proxy.mount[0].port());
        let through = started(&format!("bench job-start {at} --prepare {} --keep {job}", servers[0]));
        let names = through["names"].as_u64().unwrap();
        let reached = nfsd.all_executed() - before - made(libraries);
        let most = (names + 1 + PATH) as f64 * 1.05;
        eprintln!("{reached} calls reached the servers for {names} names; direct {direct}, through {through}");
        let ratio = direct["seconds"].as_f64().unwrap() / through["seconds"].as_f64().unwrap();
        if reached as f64 <= most && ratio >= 15.0 {
            return;
        }
        eprintln!("{reached} of at most {most:.0} calls, {ratio:.1} times quicker: {}", proxy.command("status"));
    }
    panic!("never for every name once and fifteen times quicker");
}

fn proxy(nfsd: &Nfsd) -> Serve {
    let export = "mode = \"lease\"\nwriters = \"midas-only\"\n";
    Site { export, ..Site::of(&nfsd.endpoints()) }.start()
}

fn started(words: &str) -> Value {
    serde_json::from_str(&text(words)).unwrap()
}

/// The calls that make the names: one that finds that there are none, then the job's directory, the path's and all files.
fn made(libraries: u64) -> u64 {
    1 + 1 + PATH + PATH * libraries
}

const PATH: u64 = 12;
/// How many libraries: as in the issue where there is time (`make soak`), else fewer; the ratio is the same.
const FULL: u64 = 50;
const SHORT: u64 = 20;
const SOAK: &str = "MIDAS_SOAK";
