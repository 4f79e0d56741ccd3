//! What loops send, match and count.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use midas_bench::{Action, Arrivals, Load, Pace};
use midas_nfs::nfs3::{Nfsstat3, Procedure};
use midas_nfs::rpc::{AuthStat, Refusal};
use serde_json::Value;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use support::{Fate, Scratch, Seen, Server, arm, config};

const CLOSED: Pace = Pace::Closed { depth: 8 };

fn open(rate: f64) -> Pace {
    Pace::Open { rate, arrivals: Arrivals::Constant, depth: 64 }
}

/// A server that answers nothing for a tenth of every second.
fn stalling() -> Server {
    Server::with(|seen: &Seen, started: Instant| {
        let into = started.elapsed().as_millis() % 1000;
        match seen.procedure == Procedure::Getattr && into < 100 {
            true => Fate::Late(Duration::from_millis(100 - into as u64)),
            false => Fate::Answer,
        }
    })
}

#[test]
fn an_open_loop_counts_a_stall_for_everyone_who_would_have_called_and_a_closed_loop_for_one() {
    let [open, closed] = [open(500.0), Pace::Closed { depth: 1 }].map(|pace| {
        let server = stalling();
        let mut config = config(&server, Load::Op(Action::Getattr), pace);
        config.slice = Duration::from_secs(2);
        arm(&config).procedures[0].latency
    });
    assert!(open.p99_us > 70_000.0, "a tenth of the calls fall into stalls of up to 100 ms: {open:?}");
    assert!(closed.p99_us < 50_000.0, "one call waits, the others are not made: {closed:?}");
    assert!(closed.max_us > 50_000.0, "the stall did happen: {closed:?}");
}

#[test]
fn replies_in_any_order_reach_their_calls() {
    let server = Server::reversed();
    let scratch = Scratch::new("order");
    let mut config = config(&server, Load::Op(Action::Lookup), Pace::Closed { depth: 64 });
    (config.connections, config.threads, config.keep) = (3, 2, true);
    config.history = Some(scratch.0.clone());
    let arm = arm(&config);
    assert_eq!((arm.counts.unmatched, arm.errors.len()), (0, 0), "{:?}", arm.counts);
    let (files, text) = (server.files(), std::fs::read_to_string(&scratch.0).unwrap());
    let work = files.work_directory().unwrap();
    assert!(text.lines().count() > 100);
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let name = line["name"].as_str().unwrap();
        let right = (0..3).any(|dir: u8| {
            let dir = [b'd', b'0' + dir];
            let there = |path: &[&[u8]]| files.find(path).map(|number| format!("{number:016x}"));
            there(&[&work, &dir]).as_deref() == line["dir"].as_str()
                && there(&[&work, &dir, name.as_bytes()]).as_deref() == line["handle"].as_str()
        });
        assert!(right, "{line}");
    }
}

#[test]
fn a_lost_connection_is_made_again_and_its_calls_are_sent_again_as_they_were() {
    let calls = AtomicU32::new(0);
    let server = Server::with(move |seen: &Seen, _| {
        let hangup = seen.procedure == Procedure::Getattr && calls.fetch_add(1, Ordering::Relaxed) % 100 == 50;
        if hangup { Fate::Hangup } else { Fate::Answer }
    });
    let arm = arm(&config(&server, Load::Op(Action::Getattr), CLOSED));
    let counts = arm.counts;
    assert!(counts.reconnects > 0 && counts.retransmissions >= counts.reconnects, "{counts:?}");
    assert_eq!((counts.errors_unexpected, counts.timeouts), (0, 0), "{counts:?}");
    let seen = server.seen();
    let again = seen.windows(2).filter(|pair| pair[0].stamp == pair[1].stamp).collect::<Vec<_>>();
    assert!(!again.is_empty(), "a call that was executed without an answer comes again");
    assert!(again.iter().all(|pair| pair[0] == pair[1]), "with the same xid, stamp, user and machine");
}

#[test]
fn every_call_has_a_stamp_of_its_own_and_the_runs_machine_name() {
    let server = Server::start();
    let mut config = config(&server, Load::Op(Action::Getattr), CLOSED);
    (config.connections, config.threads, config.users, config.uid) = (4, 2, 3, 5000);
    arm(&config);
    let seen = server.seen();
    let distinct = |key: fn(&Seen) -> u64| seen.iter().map(key).collect::<HashSet<_>>().len();
    assert_eq!(distinct(|seen| seen.stamp.into()), seen.len());
    assert!(seen.iter().all(|call| call.machine == seen[0].machine && call.machine.starts_with(b"midas-")));
    let measured: HashSet<u32> =
        seen.iter().filter(|seen| seen.procedure == Procedure::Getattr).map(|seen| seen.uid).collect();
    assert_eq!(measured, HashSet::from([5000, 5001, 5002]));
}

#[test]
fn errors_are_counted_by_kind_and_timeouts_take_their_time() {
    let cases: [(Fate, &str, &str); 5] = [
        (Fate::Fail(Nfsstat3::IO), "status", "IO"),
        (Fate::Fail(Nfsstat3(4711)), "status", "status 4711"),
        (Fate::Refuse(Refusal::SystemErr), "refused", "SYSTEM_ERR"),
        (Fate::Refuse(Refusal::Auth(AuthStat::TOOWEAK)), "refused", "AUTH_ERROR"),
        (Fate::Garbage, "malformed", "MALFORMED"),
    ];
    for (fate, class, name) in cases {
        let given = fate.clone();
        let server = Server::with(
            move |seen: &Seen, _| {
                if seen.procedure == Procedure::Access { given.clone() } else { Fate::Answer }
            },
        );
        let arm = arm(&config(&server, Load::Op(Action::Access), CLOSED));
        let [error] = arm.errors.as_slice() else { panic!("{fate:?}: {:?}", arm.errors) };
        assert_eq!((error.procedure, error.class, error.name.as_str()), ("ACCESS", class, name));
        assert!(!error.expected && error.count > 10);
        assert_eq!(error.count, arm.procedures[0].latency.calls, "every call failed");
    }
}

#[test]
fn a_call_without_an_answer_counts_as_lost_with_the_time_that_it_was_waited_for() {
    let server =
        Server::with(|seen: &Seen, _| if seen.procedure == Procedure::Access { Fate::Ignore } else { Fate::Answer });
    let mut config = config(&server, Load::Op(Action::Access), CLOSED);
    config.timeout = Duration::from_millis(100);
    let arm = arm(&config);
    assert!(arm.counts.timeouts >= 16, "{:?}", arm.counts);
    assert_eq!((arm.counts.answered, arm.errors[0].class), (0, "timeout"));
    assert_eq!(arm.procedures[0].latency.calls, arm.counts.offered, "every call is accounted for");
    assert!(arm.procedures[0].latency.p50_us >= 100_000.0);
}

#[test]
fn a_workload_expects_what_it_brings_about_and_nothing_else() {
    let server = Server::start();
    let spec = midas_workload::Spec::parse("spotify").unwrap();
    let arm = arm(&config(&server, Load::Workload(spec), CLOSED));
    assert!(arm.counts.errors_expected > 0, "names are removed and looked up again: {:?}", arm.errors);
    assert_eq!(arm.counts.errors_unexpected, 0, "{:?}", arm.errors);
    assert!(arm.procedures.len() >= 5, "{:?}", arm.procedures);
}

#[test]
fn what_the_backlog_cannot_hold_is_dropped_and_said() {
    let server =
        Server::with(|seen: &Seen, _| if seen.procedure == Procedure::Null { Fate::Ignore } else { Fate::Answer });
    let pace = Pace::Open { rate: 2000.0, arrivals: Arrivals::Poisson, depth: 4 };
    let mut config = config(&server, Load::Op(Action::Null), pace);
    (config.backlog, config.timeout) = (10, Duration::from_millis(400));
    let report = support::quietly(&config).unwrap();
    let counts = report.cells[0].arms[0].counts;
    // Four are under way and lost, ten wait and never have their turn, or take the place of the lost ones.
    assert!(counts.dropped + counts.timeouts == counts.offered && counts.dropped > 500, "{counts:?}");
    assert!(
        report.warnings.iter().any(|warning| warning.contains("were dropped, never sent")),
        "{:?}",
        report.warnings
    );
}

#[test]
fn an_open_loop_offers_what_was_asked_for_whatever_the_server_does() {
    for arrivals in [Arrivals::Poisson, Arrivals::Constant] {
        let server = Server::start();
        let pace = Pace::Open { rate: 2000.0, arrivals, depth: 1024 };
        let mut config = config(&server, Load::Op(Action::Getattr), pace);
        config.slice = Duration::from_millis(500);
        let arm = arm(&config);
        assert!((800..=1200).contains(&arm.counts.offered), "{arrivals:?}: {:?}", arm.counts);
        assert_eq!(arm.procedures[0].latency.calls, arm.counts.offered);
        assert_eq!(arm.send_delay.unwrap().calls, arm.counts.offered);
    }
}

#[test]
fn a_workload_at_a_rate_is_sent_at_its_own_times() {
    let server = Server::start();
    let spec = midas_workload::Spec::parse("zipf:1.1").unwrap();
    let pace = Pace::Open { rate: 2000.0, arrivals: Arrivals::Poisson, depth: 64 };
    let mut config = config(&server, Load::Workload(spec), pace);
    (config.connections, config.threads, config.users) = (4, 2, 2);
    let [first, second] = [(); 2].map(|()| arm(&config).counts.offered);
    assert_eq!(first, second, "one seed, one schedule");
    assert!((450..=750).contains(&first), "{first}");
}
