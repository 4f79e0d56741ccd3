//! Put in and take out: a client that mounted a server works on when the server's address moves to `midas serve`, and back.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::{Endpoint, Ganesha, Guest, Part, loopback, require};
use midas_nfs::nfs3::Procedure;
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;
use support::serve::Serve;
use support::switch::Switch;

/// Names in the directory that is listed: long ones, so that a listing is many pages.
const LARGE: usize = 6_000;
/// Within it every call is answered, on any machine.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);

/// What the address led to, and the calls that it carried there before it moved on.
type Stay = (SocketAddr, BTreeMap<u32, u64>);

#[test]
fn a_mounted_client_works_on_when_its_servers_address_moves_to_the_proxy_and_back() {
    if !(require(Part::Ganesha) && require(Part::KernelClient)) {
        return;
    }
    let ganesha = Ganesha::start(3, 0);
    let (large, signals) = (ganesha.export().join("large"), ganesha.export().join("signals"));
    fs::create_dir(&large).unwrap();
    for number in 1..=LARGE {
        fs::write(large.join(format!("{:a<150}-{number}", "")), "").unwrap();
    }
    fs::create_dir(&signals).unwrap();
    let proxy = Serve::start(ganesha.heads());
    let targets = [at(&ganesha.heads()[0]), proxy.nfs[0]];
    let switch = Switch::start((loopback(1, &[]), 0).into(), targets[0]);
    let mounted =
        Endpoint { address: ipv4(switch.address), nfs_port: switch.address.port(), ..ganesha.heads()[0].clone() };
    let guest = guest(&mounted, &ganesha.heads()[0], &ganesha.heads()[2]);
    let booted = thread::spawn(move || guest.run());
    let mut stays: Vec<Stay> = Vec::new();
    while !booted.is_finished() {
        if let Some(how) = asked(&signals, stays.len() + 1) {
            let (from, to) = (targets[stays.len() % 2], targets[(stays.len() + 1) % 2]);
            let patience = if how == "end" { PATIENCE } else { Duration::ZERO };
            let (answered, calls) = switch.lead_to(to, patience);
            assert!(answered || how == "cut", "calls were not answered within {PATIENCE:?}");
            stays.push((from, calls));
            fs::write(signals.join(format!("done-{}", stays.len())), "").unwrap();
        }
        thread::sleep(LOOK);
    }
    let transcript = booted.join().unwrap();
    println!("{} in {:?}", transcript.text, transcript.took);
    transcript.expect_all_ok();
    shows_that_both_were_used(&stays);
}

fn guest(mounted: &Endpoint, mount: &Endpoint, signal: &Endpoint) -> Guest {
    Guest::of(mounted)
        .option(&format!("mountaddr={}", mount.address))
        .env("SIGNAL_SERVER", &signal.address.to_string())
        .env("SIGNAL_PORT", &signal.nfs_port.to_string())
        .env("SIGNAL_MOUNT_PORT", &signal.mount_port.to_string())
        .env("LARGE", &LARGE.to_string())
        .scenario("takeout")
}

/// How the guest wants the address to move, for the so many-th time.
fn asked(signals: &Path, number: usize) -> Option<&'static str> {
    ["cut", "end"].into_iter().find(|how| signals.join(format!("{how}-{number}")).exists())
}

/// Both sides carried writes (the first two stays), changes of names (the fifth and sixth) and pages of the listing (the last four).
fn shows_that_both_were_used(stays: &[Stay]) {
    for (target, calls) in stays {
        println!("{target}: {calls:?}");
    }
    assert_eq!(stays.len(), 10);
    let carried = |stays: &[Stay], wanted: &[Procedure]| {
        let of = |(_, calls): &Stay| wanted.iter().any(|procedure| calls.contains_key(&(*procedure as u32)));
        assert!(stays.iter().all(of), "{wanted:?}");
    };
    carried(&stays[..2], &[Procedure::Write]);
    for change in [Procedure::Mkdir, Procedure::Rename, Procedure::Link, Procedure::Remove, Procedure::Rmdir] {
        carried(&stays[4..6], &[change]);
    }
    carried(&stays[6..], &[Procedure::Readdir, Procedure::Readdirplus]);
}

fn at(server: &Endpoint) -> SocketAddr {
    SocketAddr::new(server.address.into(), server.nfs_port)
}

fn ipv4(address: SocketAddr) -> std::net::Ipv4Addr {
    match address {
        SocketAddr::V4(address) => *address.ip(),
        SocketAddr::V6(_) => unreachable!("a loopback address of ours is IPv4"),
    }
}
