//! Heads that take capabilities from each other: a policy that moves calls costs more than it gives, unless what it
//! moves is old or it knows.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use midas_core::route::moves::Moves;
use midas_core::time::Span;
use midas_sim::config::{Config, Heads};
use midas_sim::policy::Contender;
use midas_sim::report::Row;
use midas_sim::run;
use midas_workload::{Service, Spec};

const CAPS: Heads = Heads::Caps { mds: None };

/// Three heads at a fifth of what they could do if nothing were taken from any.
fn row(policy: &str, workload: &str, write_share: f64, more: (Heads, Moves)) -> Row {
    let usual = Config::new(Contender::parse(policy).unwrap(), Spec::parse(workload).unwrap());
    let config = Config {
        servers: 3,
        load: 0.2,
        service: Service::parse("exp:80us").unwrap(),
        rtt: Span::from_micros(100),
        duration: Span::from_secs(3),
        directories: 64,
        files: 16,
        write_share,
        heads: more.0,
        moves: more.1,
        ..usual
    };
    let row = run(&config).unwrap().row;
    let Row { mds_requests, revokes, latency, steered_share, .. } = &row;
    println!(
        "{policy} {workload} {write_share} {more:?}: {mds_requests:.3} {revokes:.3} {latency:?} {steered_share:.3}"
    );
    row
}

#[test]
fn calls_that_are_spread_make_heads_fight_and_calls_that_stay_do_not() {
    for workload in ["hot:0.9", "zipf:1.1"] {
        let at_home = row("hash-directory", workload, 0.05, (CAPS, Moves::Free));
        let spread = row("rr", workload, 0.05, (CAPS, Moves::Free));
        assert!(spread.mds_requests > 2.0 * at_home.mds_requests, "{workload}");
        assert!(spread.latency.mean > at_home.latency.mean.scale(2.0), "{workload}");
        let steered = row("first-fit", workload, 0.05, (CAPS, Moves::Free));
        let stays = row("first-fit", workload, 0.05, (CAPS, Moves::None));
        assert!(steered.steered_share > 0.0 && steered.mds_requests > stays.mds_requests, "{workload}");
        assert_eq!((stays.digest, stays.steered_share), (at_home.digest, 0.0), "{workload}");
    }
}

#[test]
fn what_nobody_changes_is_spread_for_nothing_and_without_capabilities_nothing_is_paid() {
    let caps = row("rr", "hot:0.9", 0.0, (CAPS, Moves::Free));
    let shared = row("rr", "hot:0.9", 0.0, (Heads::SharedNothing, Moves::Free));
    assert_eq!((caps.mds_requests, caps.revokes, caps.digest), (0.0, 0.0, shared.digest));
    let written = row("rr", "hot:0.9", 0.2, (Heads::SharedNothing, Moves::Free));
    assert_eq!((written.mds_requests, written.revokes), (0.0, 0.0));
}

#[test]
fn metadata_servers_with_few_cores_make_calls_wait() {
    let free = row("hash-directory", "zipf:1.1", 0.2, (CAPS, Moves::Free));
    let limited = row("hash-directory", "zipf:1.1", 0.2, (Heads::Caps { mds: Some(0.5) }, Moves::Free));
    assert!(limited.latency.mean > free.latency.mean.scale(1.2), "{limited:?}");
}
