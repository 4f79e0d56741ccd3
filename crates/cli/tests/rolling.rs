//! A rolling restart: three proxies are told to end and started again, one after another, while a kernel's client and 32 others work through them.
//! What was not answered is sent again, and nothing is executed twice.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_bench::coherence::{Coherence, run};
use midas_lab::{Ganesha, Guest, PATIENCE, Part, Scratch, require, until};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;
use support::coherent::{LEASED, judged};
use support::load::Load;
use support::members::Members;
use support::over::Over;
use support::serve::Site;
use support::switch::Switch;

#[test]
fn a_rolling_restart_fails_no_operation_of_a_kernel_client_or_of_32_others() {
    if !(require(Part::Ganesha) && require(Part::KernelClient)) {
        return;
    }
    let ganesha = Ganesha::start_coherent(3);
    let mut members = Members::start(|| Site { export: LEASED, ..Site::of(ganesha.heads()) });
    let floating = Switch::start((Ipv4Addr::LOCALHOST, 0).into(), members.daemons[0].nfs[0]);
    let mover = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let asked = mover.local_addr().unwrap();
    let guest = Guest::of(&members.daemons[0].endpoint())
        .env("FLOATING", &floating.address.port().to_string())
        .env("MOVER", &asked.port().to_string())
        .scenario("rolling")
        .limit(LIMIT);
    let (transcript, loads) = thread::scope(|scope| {
        let rolls = scope.spawn(|| when_asked(&mover, &mut members, &floating));
        // A guest that failed does not ask.
        let over = Over(asked);
        let transcript = guest.run();
        drop(over);
        (transcript, rolls.join().unwrap())
    });
    println!("{} in {:?}", transcript.text, transcript.took);
    transcript.expect_all_ok();
    for (load, connections) in loads.into_iter().zip(CONNECTIONS) {
        let counts = load.end_of_restarted();
        assert!(counts["reconnects"].as_u64().unwrap() >= connections, "its proxy was restarted under it: {counts}");
    }
}

/// Puts load on all members and restarts them one after another when it is asked to; the loads.
fn when_asked(mover: &TcpListener, members: &mut Members, floating: &Switch) -> Vec<Load> {
    let mut loads = Vec::new();
    for asker in mover.incoming() {
        let asker = asker.unwrap();
        let mut what = String::new();
        BufReader::new(&asker).read_line(&mut what).unwrap();
        if what.trim() != "roll" {
            break;
        }
        let load = |(daemon, connections)| Load::start(daemon, &format!("{MIXED} --connections {connections}"));
        loads = members.daemons.iter().zip(CONNECTIONS).map(load).collect();
        for load in &loads {
            load.goes_on_for(SETUP);
        }
        for member in 0..3 {
            // Calls under way are cut off, and come again at the next one.
            floating.lead_to(members.daemons[(member + 1) % 3].nfs[0], Duration::ZERO);
            restart(members, member);
        }
        writeln!(&asker, "rolled").unwrap();
    }
    loads
}

/// A member is told to end, and is back in the view.
fn restart(members: &mut Members, member: usize) {
    members.daemons[member].signal(Signal::TERM);
    let (status, took) = members.daemons[member].ended();
    println!("{member} ended with {status} after {took:?}");
    assert!(status.success());
    members.daemons[member].said("left the cluster agreed=true", 1);
    members.daemons[member].again();
    members.whole();
}

/// 32 clients make, remove and rename the same few names, and send again what was not answered, half of it through another proxy.
#[test]
fn a_rolling_restart_fails_no_change_and_has_none_executed_twice() {
    let mut nfsd = support::nfsd::Nfsd::start(&["--servers", "3", "--truth"]);
    let (mut members, scratch) =
        (Members::start(|| Site { export: LEASED, ..Site::of(&nfsd.endpoints()) }), Scratch::new());
    let config = Coherence::new(members.targets(), scratch.path().join("calls"));
    let config =
        Coherence { duration: ROLLED, changes: 0.5, clients: CLIENTS, timeout: PATIENCE, keep: true, ..config };
    let done = thread::scope(|scope| {
        let load = scope.spawn(|| run(&config, &AtomicBool::new(false), &mut |_, _, _| {}));
        // Whoever mounts, or makes its directories, while its member ends has no load yet.
        until("the load is at work", || nfsd.executed("RENAME").iter().sum::<u64>() > 20);
        (0..3).for_each(|member| restart(&mut members, member));
        let early = load.is_finished();
        let done = load.join().unwrap().unwrap();
        assert!(!early, "the load ended too early: {done:?}");
        done
    });
    let (done, report) = judged(&config, done);
    assert_eq!((done.failed, report.violations), (0, 0), "{done:?}: {:#?}", report.shown);
    assert!(done.resent > 0 && report.calls > 1000, "{done:?}");
    let truth = nfsd.truth();
    assert_eq!((&truth["doubles"], &truth["uncompared"]), (&Value::from(0), &Value::from(0)), "{done:?}: {truth}");
}

/// Under emulation, beside other tests.
const LIMIT: Duration = Duration::from_secs(600);
/// 32 clients.
const CONNECTIONS: [u64; 3] = [11, 11, 10];
/// Reads and changes. With few CREATEs and without removals: see failover.rs.
const MIXED: &str = "--workload zipf:1.1 --write-share 0.01 --depth 2 --duration 90s --timeout 60s";
/// What a load needs to make its directories.
const SETUP: Duration = Duration::from_secs(2);
const CLIENTS: u32 = 32;
/// Time for three restarts, on a busy machine too.
const ROLLED: Duration = Duration::from_secs(20);
