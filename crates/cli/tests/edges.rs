//! What was measured of the edges that docs/limitations.md names: clocks that stand still or are
//! wrong, servers that make data durable unasked, handles of exports that are not ours, and IPv6.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::{Raw, getattr, handle, nfs, results, status};
use midas_lab::{Ganesha, Part, Scratch, create, require, until};
use midas_net::Client;
use midas_nfs::nfs3::{self, Call, CreateHow, DirOp, Fattr3, Nfsstat3, Reply, Sattr3, StableHow};
use midas_nfs::rpc;
use rustix::process::Signal;
use std::fs;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use support::clock::Clocks;
use support::load::Load;
use support::members::Members;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};
use support::switch::Switch;

/// Whether the clocks' library can be made: Ganesha's part needs a compiler too.
fn compiles() -> bool {
    require(Part::Ganesha)
}

fn size(client: &mut Client, file: &[u8]) -> u64 {
    match client.nfs(&Call::Getattr { object: handle(file) }).unwrap() {
        Reply::Getattr(Ok(attributes)) => attributes.size,
        other => panic!("{other:?}"),
    }
}

/// What an answer to GETATTR says.
fn size_in(answer: &[u8]) -> u64 {
    assert_eq!(status(answer), Nfsstat3::OK);
    match nfs3::Reply::decode(nfs3::Procedure::Getattr, results(answer)).unwrap() {
        Reply::Getattr(Ok(Fattr3 { size, .. })) => size,
        other => panic!("{other:?}"),
    }
}

fn resize(client: &mut Client, file: &[u8], size: u64) {
    let new_attributes = Sattr3 { size: Some(size), ..Sattr3::default() };
    let reply = client.nfs(&Call::Setattr { object: handle(file), new_attributes, guard: None }).unwrap();
    assert_eq!(reply.status(), Nfsstat3::OK);
}

/// Three members with leases, of which the last has these clocks.
fn members(nfsd: &Nfsd, clocks: &Clocks) -> Members {
    let started = std::cell::Cell::new(0);
    Members::start(|| {
        started.set(started.get() + 1);
        let env = if started.get() == 3 { clocks.env() } else { Vec::new() };
        Site { export: LEASED, env, ..Site::of(&nfsd.endpoints()) }
    })
}

/// A member is stopped until the others go on without it, and a file changes meanwhile. With its
/// clocks right, what it was asked while it was stopped and what it is asked later is answered as
/// the file is now. With clocks that stood still, as a virtual machine's do while it is paused or
/// moved, it knows of nothing until a message comes: how long it is wrong.
fn stopped(clocks_stand_still: bool) -> Duration {
    let (mut nfsd, clocks) = (Nfsd::start(&["--servers", "2", "--truth"]), Clocks::new());
    let members = members(&nfsd, &clocks);
    let (lost, other) = (&members.daemons[2], &members.daemons[0]);
    let ((mut far, _), (mut near, root)) = (lost.client(), other.client());
    let file = create(&mut near, &root, b"file");
    until("it answers from its cache", || {
        let before: u64 = nfsd.executed("GETATTR").iter().sum();
        (0..20).for_each(|_| assert_eq!(size(&mut far, &file), 0));
        nfsd.executed("GETATTR").iter().sum::<u64>() - before < 20
    });
    let mut asks = Raw::connect(lost.nfs[0]);
    asks.alive();
    lost.stop();
    let stop = Instant::now();
    asks.send(&getattr(1, &file));
    members.missed(2);
    resize(&mut near, &file, 4711);
    if clocks_stand_still {
        clocks.stood_still(stop.elapsed());
    }
    lost.signal(Signal::CONT);
    let woken = Instant::now();
    let (mut wrong, mut answers) = (Duration::ZERO, vec![asks.receive()]);
    while woken.elapsed() < LEASE * 3 {
        let asked = woken.elapsed();
        asks.send(&getattr(2, &file));
        answers.push(asks.receive());
        if answers.last().is_some_and(|answer| size_in(answer) != 4711) {
            wrong = asked;
        }
    }
    let old = answers.iter().filter(|answer| size_in(answer) != 4711).count();
    println!(
        "clocks stand still: {clocks_stand_still}; {old} of {} answers are old, the last {wrong:?} after",
        answers.len()
    );
    if !clocks_stand_still {
        assert_eq!(old, 0);
    }
    wrong
}

#[test]
fn a_member_that_was_stopped_for_longer_than_its_lease_answers_nothing_old() {
    if compiles() {
        assert_eq!(stopped(false), Duration::ZERO);
    }
}

#[test]
fn a_member_whose_clocks_stood_still_answers_old_for_a_lease_at_most() {
    if compiles() {
        assert!(stopped(true) <= LEASE + SLACK);
    }
}

/// For how long a change past MIDAS is not seen, with a time of day that is wrong by so much.
fn unseen(seconds: i64) -> Duration {
    let (nfsd, clocks) = (Nfsd::start(&["--export", "/data"]), Clocks::new());
    clocks.wrong_by(seconds);
    let proxy = Site { export: TTL, env: clocks.env(), ..Site::of(&nfsd.endpoints()) }.start();
    let ((mut client, _), (mut direct, root)) = (proxy.client(), nfsd.endpoint(0).client());
    let file = create(&mut direct, &root, b"file");
    (0..50).for_each(|_| assert_eq!(size(&mut client, &file), 0));
    let change = Instant::now();
    resize(&mut direct, &file, 4711);
    until("it is seen", || size(&mut client, &file) == 4711);
    change.elapsed()
}

#[test]
fn in_ttl_mode_a_time_of_day_that_is_wrong_at_the_start_makes_answers_older_but_none_older_than_ttl_max() {
    if !compiles() {
        return;
    }
    let seen = [0, -86_400, 86_400].map(|wrong| (wrong, unseen(wrong)));
    println!("a change of a new file is not seen for, by how wrong the time of day is: {seen:?}");
    assert!(seen.iter().all(|(_, unseen)| *unseen <= TTL_MAX + 3 * PAUSE), "{seen:?}");
    assert!(seen[1].1 <= seen[0].1 + PAUSE, "a clock that is behind is safe: {seen:?}");
}

#[test]
fn servers_that_make_every_write_durable_at_once_tie_nothing() {
    // A tie that only a COMMIT ends, which no client sends then, held a file at its server, and a
    // drain, for ten minutes.
    let nfsd = Nfsd::start(&["--servers", "2", "--export", "/data"]);
    let durable = |call: &rpc::Call<'_>| {
        if (call.program, call.procedure) != (nfs3::PROGRAM, nfs3::Procedure::Write as u32) {
            return None;
        }
        let Call::Write { file, offset, count, data, .. } = Call::decode(nfs3::Procedure::Write, call.args).ok()?
        else {
            return None;
        };
        let mut args = Vec::new();
        Call::Write { file, offset, count, stable: StableHow::FileSync, data }.encode(&mut args);
        let mut out = Vec::new();
        rpc::Call { args: &args, ..*call }.encode(&mut out);
        Some(out)
    };
    let gates: Vec<Switch> = nfsd
        .addresses
        .iter()
        .map(|server| Switch::changing((Ipv4Addr::LOCALHOST, 0).into(), *server, Box::new(durable)))
        .collect();
    let proxy = Site::over(gates.iter().map(|gate| gate.address).collect(), None, "/data").start();
    let (mut client, root) = proxy.client();
    for name in 0..20 {
        let file = create(&mut client, &root, format!("f{name}").as_bytes());
        let call = Call::Write { file: handle(&file), offset: 0, count: 4, stable: StableHow::Unstable, data: b"data" };
        match client.nfs(&call).unwrap() {
            Reply::Write(Ok(ok)) => assert_eq!(ok.committed, StableHow::FileSync),
            other => panic!("{other:?}"),
        }
    }
    let uncommitted =
        |proxy: &Serve| -> u64 { proxy.servers().iter().map(|server| server["uncommitted"].as_u64().unwrap()).sum() };
    assert_eq!(uncommitted(&proxy), 0);
}

#[test]
fn a_handle_of_an_export_that_is_not_ours() {
    if !require(Part::Ganesha) {
        return;
    }
    let ganesha = Ganesha::start_exporting(2, 0, &["ours", "theirs"]);
    fs::write(ganesha.export().join("ours/file"), "ours").unwrap();
    fs::write(ganesha.export().join("theirs/file"), "theirs").unwrap();
    let heads = ganesha.heads();
    let site = Site::of(heads);
    let proxy = Site { source: format!("{}/ours", site.source), ..site }.start();
    let direct = |below: &str| {
        let (mut client, root) =
            midas_lab::Endpoint { path: format!("{}{below}", heads[0].path), ..heads[0].clone() }.client();
        let file = client.walk(&root, if below.is_empty() { b"theirs/file" } else { b"file" });
        (root, file)
    };
    let mut client = Raw::connect(proxy.nfs[0]);
    for below in ["/ours", "/theirs"] {
        let (root, file) = direct(below);
        let file = file.unwrap();
        let mut said = Vec::new();
        for (name, call) in [
            ("GETATTR of its root", Call::Getattr { object: handle(&root) }),
            ("READ", Call::Read { file: handle(&file), offset: 0, count: 10 }),
            (
                "WRITE",
                Call::Write { file: handle(&file), offset: 0, count: 1, stable: StableHow::FileSync, data: b"x" },
            ),
            (
                "CREATE",
                Call::Create {
                    place: DirOp { dir: handle(&root), name: b"new" },
                    how: CreateHow::Guarded(Sattr3::default()),
                },
            ),
        ] {
            client.send(&nfs(7, &call));
            said.push((name, status(&client.receive())));
        }
        println!("with handles of {below}: {said:?}");
        if below == "/ours" {
            assert!(said.iter().all(|(_, status)| *status == Nfsstat3::OK), "{said:?}");
        }
    }
}

#[test]
fn everything_works_over_ipv6_alone() {
    let nfsd = Nfsd::start(&["--servers", "2", "--export", "/data", "--listen", "[::1]:0"]);
    let listen = "nfs = \"[::1]:0\"\nmount = \"[::1]:0\"".to_owned();
    let site = Site::over(nfsd.addresses.clone(), None, "/data");
    let proxy = Site { listen, clients: "\"::1\"", export: LEASED, ..site }.start();
    let target = format!("{}/scratch?mount={}", proxy.nfs[0], proxy.mount[0].port());
    let counts = Load::at(&target, "--workload spotify --connections 4 --depth 8 --duration 3s").end();
    println!("{counts}");
    let scratch = Scratch::new();
    let calls = scratch.path().join("calls");
    support::text(&format!(
        "bench coherence {target} --clients 8 --calls 5000 --duration 30s --history {}",
        calls.display()
    ));
    support::text(&format!("history check {}", calls.display()));
    let status = proxy.command("status");
    assert!(status.contains("[::1]:"), "{status}");
}

const LEASED: &str = "mode = \"lease\"\nwriters = \"midas-only\"\nserver_hold_max = \"2s\"\n";
const TTL: &str = "mode = \"ttl\"\nttl_max = \"3s\"\nstale_target = 0.01\n";
const TTL_MAX: Duration = Duration::from_secs(3);
/// As `Members` says it.
const LEASE: Duration = Duration::from_secs(1);
/// What a busy machine adds.
const SLACK: Duration = Duration::from_millis(500);
/// A pause that a busy machine may make; less than `TTL_MAX`.
const PAUSE: Duration = Duration::from_millis(1500);
