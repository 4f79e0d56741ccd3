//! Clients that read and change the same few objects, and what the checker says of what they saw.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use super::serve::Site;
use midas_bench::Target;
use midas_bench::coherence::{Coherence, Done, run};
use midas_history::{Mode, Report, check};
use midas_proxy::Proxy;
use midas_proxy::config::Config;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

/// Runs it to its end: what it was, and what was seen.
pub(crate) fn reported(config: &Coherence) -> (Done, Report) {
    judged(config, run(config, &AtomicBool::new(false), &mut |_, _, _| {}).unwrap())
}

/// What was seen in a run that is over.
pub(crate) fn judged(config: &Coherence, done: Done) -> (Done, Report) {
    let report = check(std::slice::from_ref(&config.history), Mode::Linearizable, &mut |_, _| {}).unwrap();
    println!("{done:?}, {} undecided of {} steps: {} violations", report.undecided, report.steps, report.violations);
    assert_eq!(report.calls, done.calls);
    assert!(report.concurrency > 1, "{report:#?}");
    (done, report)
}

/// A proxy in this process, in lease mode, over these servers; more tables behind.
pub(crate) fn leased(servers: Vec<SocketAddr>, mount_port: Option<u16>, source: &str, more: &str) -> Config {
    let site = Site { export: LEASED, more: more.to_owned(), ..Site::over(servers, mount_port, source) };
    Config::parse(&format!("threads = 2\n{}", site.config())).unwrap()
}

/// For clients of such a proxy.
pub(crate) fn through(proxy: &Proxy) -> Target {
    Target::parse(&format!("{}/scratch?mount={}", proxy.nfs()[0], proxy.mount()[0].port())).unwrap()
}

/// As many calls as `make soak` wants; none in a short test.
pub(crate) fn soak() -> Option<u64> {
    std::env::var("MIDAS_SOAK_CALLS").ok().map(|calls| calls.parse().expect("a number of calls"))
}

pub(crate) const LEASED: &str = "mode = \"lease\"\nwriters = \"midas-only\"\n";
