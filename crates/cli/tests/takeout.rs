//! Put in and take out: a client that mounted a server works on when the server's address moves to `midas serve`, and back.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::{Endpoint, Ganesha, Guest, PATIENCE, Part, loopback, require};
use midas_nfs::nfs3::Procedure;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use support::serve::Serve;
use support::switch::Switch;

/// Names in the directory that is listed: long ones, so that a listing is many pages.
const LARGE: usize = 6_000;

/// What the address led to, and the calls that it carried there before it moved on.
type Stay = (SocketAddr, BTreeMap<u32, u64>);

#[test]
fn a_mounted_client_works_on_when_its_servers_address_moves_to_the_proxy_and_back() {
    if !(require(Part::Ganesha) && require(Part::KernelClient)) {
        return;
    }
    let ganesha = Ganesha::start(3, 0);
    let large = ganesha.export().join("large");
    fs::create_dir(&large).unwrap();
    for number in 1..=LARGE {
        fs::write(large.join(format!("{:a<150}-{number}", "")), "").unwrap();
    }
    let head = &ganesha.heads()[0];
    let proxy = Serve::start(ganesha.heads());
    let address = loopback(1, &[]);
    let direct = SocketAddr::new(head.address.into(), head.nfs_port);
    let switch = Switch::start((address, 0).into(), direct);
    let mover = TcpListener::bind((address, 0)).unwrap();
    let mounted = Endpoint { address, nfs_port: switch.address.port(), ..head.clone() };
    let guest = Guest::of(&mounted)
        .option(&format!("mountaddr={}", head.address))
        .env("MOVER", &mover.local_addr().unwrap().port().to_string())
        .env("LARGE", &LARGE.to_string())
        .scenario("takeout");
    let stays = Arc::new(Mutex::new(Vec::new()));
    let (known, targets) = (Arc::clone(&stays), [direct, proxy.nfs[0]]);
    thread::spawn(move || move_on(&mover, &switch, targets, &known));
    let transcript = guest.run();
    println!("{} in {:?}", transcript.text, transcript.took);
    transcript.expect_all_ok();
    shows_that_both_were_used(&stays.lock().unwrap());
}

/// Moves the address from one target to the other whenever it is asked to.
fn move_on(mover: &TcpListener, switch: &Switch, targets: [SocketAddr; 2], stays: &Mutex<Vec<Stay>>) {
    for asker in mover.incoming() {
        let asker = asker.unwrap();
        let mut how = String::new();
        BufReader::new(&asker).read_line(&mut how).unwrap();
        let mut stays = stays.lock().unwrap();
        let (from, to) = (targets[stays.len() % 2], targets[(stays.len() + 1) % 2]);
        let end = how.trim() == "end";
        let (answered, calls) = switch.lead_to(to, if end { PATIENCE } else { Duration::ZERO });
        stays.push((from, calls));
        let said = if answered || !end { "moved" } else { "calls under way were not answered" };
        writeln!(&asker, "{said}").unwrap();
    }
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
