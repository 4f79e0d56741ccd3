//! Servers that answer for a while with what they once knew: without fences reads are stale, with
//! them none is, and calls still spread.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use midas_core::time::Span;
use midas_sim::config::Config;
use midas_sim::policy::Contender;
use midas_sim::run;
use midas_workload::{Service, Spec};

/// Three servers that believe for two seconds; a fifth of the calls writes.
fn config(workload: &str, calls: u64, seed: u64) -> Config {
    let usual = Config::new(Contender::parse("first-fit").unwrap(), Spec::parse(workload).unwrap());
    let (servers, load) = (3, 0.7);
    let rate = f64::from(servers) * load * 1000.0;
    Config {
        servers,
        load,
        service: Service::parse("const:1ms").unwrap(),
        rtt: Span::from_micros(100),
        duration: Span::from_secs_f64(calls as f64 / rate),
        directories: 64,
        files: 16,
        staleness: Span::from_secs(2),
        seed,
        ..usual
    }
}

#[test]
fn without_fences_reads_are_stale_and_with_them_none_is() {
    let calls = std::env::var("MIDAS_SOAK_CALLS").map_or(60_000, |calls| calls.parse().expect("a number of calls"));
    for workload in ["zipf:1.1", "spotify"] {
        let without = run(&Config { fences: false, ..config(workload, 20_000, 1) }).unwrap();
        assert!(without.row.stale_share > 0.0, "{workload}: the servers believe nothing, so this shows nothing");
        // The checker ends a run at the first stale answer.
        let with = run(&config(workload, calls, 1)).unwrap();
        assert!(with.row.calls > calls / 2 && with.row.stale_share == 0.0, "{:?}", with.row);
    }
}

#[test]
fn with_fences_the_busiest_server_of_a_skewed_load_has_less_than_all() {
    let shares = (1..=10).map(|seed| {
        let sent = run(&config("zipf:1.1", 20_000, seed)).unwrap().sent;
        let share = *sent.iter().max().unwrap() as f64 * sent.len() as f64 / sent.iter().sum::<u64>() as f64;
        println!("seed {seed}: {sent:?}, {share:.2} times the fair share");
        share
    });
    let mut shares: Vec<f64> = shares.collect();
    shares.sort_by(f64::total_cmp);
    // The simulator's calls on objects have their directories' homes, so that each change binds its whole directory;
    // those of the daemon have their own, and `crates/cli/tests/fences.rs` asks for 1.3 there.
    assert!(shares[shares.len() / 2] <= 1.6, "{shares:?}");
}
