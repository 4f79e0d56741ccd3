//! Where a move of a call costs something: a directory and its files are one place, and nothing leaves it for load.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::handle;
use midas_lab::{create, mkdir, until};
use midas_net::Client;
use midas_nfs::nfs3::{Call, DirOp, Reply, Sattr3};
use midas_proxy::api::Explanation;
use rustix::process::Signal;
use std::thread;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};

fn proxy(nfsd: &Nfsd, moves: &str) -> Serve {
    Site { pool: format!("moves = \"{moves}\"\n"), ..Site::of(&nfsd.endpoints()) }.start()
}

fn nfsd() -> Nfsd {
    Nfsd::start(&["--servers", "3", "--service", "const:2ms", "--truth"])
}

fn lookup(client: &mut Client, dir: &[u8], name: &[u8]) -> Vec<u8> {
    match client.nfs(&Call::Lookup { what: DirOp { dir: handle(dir), name } }).unwrap() {
        Reply::Lookup(Ok(found)) => found.object.bytes().to_vec(),
        other => panic!("{other:?}"),
    }
}

fn access(client: &mut Client, file: &[u8]) {
    let reply = client.nfs(&Call::Access { object: handle(file), access: 1 }).unwrap();
    assert!(matches!(reply, Reply::Access(Ok(_))), "{reply:?}");
}

/// The home that a call on this path or handle has now.
fn home(proxy: &Serve, what: &str) -> String {
    let explained: Explanation = serde_json::from_str(&proxy.command(&format!("explain {what} --json"))).unwrap();
    explained.home
}

fn hex(handle: &[u8]) -> String {
    handle.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Sixteen clients ask for the files of one directory by their handles and names; how many of these calls each server has executed.
fn hot_directory(moves: &str) -> Vec<u64> {
    let mut nfsd = nfsd();
    let proxy = proxy(&nfsd, moves);
    let (mut client, root) = proxy.client();
    let directory = mkdir(&mut client, &root, b"hot");
    let files: Vec<Vec<u8>> =
        (0..FILES).map(|number| create(&mut client, &directory, format!("f{number}").as_bytes())).collect();
    thread::scope(|scope| {
        for first in 0..16 {
            let (proxy, files, directory) = (&proxy, &files, &directory);
            scope.spawn(move || {
                let (mut client, _) = proxy.client();
                for number in (0..FILES).map(|step| (first + step) % FILES) {
                    access(&mut client, &files[number]);
                    lookup(&mut client, directory, format!("f{number}").as_bytes());
                }
            });
        }
    });
    let executed = ["ACCESS", "LOOKUP"].map(|procedure| nfsd.executed(procedure));
    executed[0].iter().zip(&executed[1]).map(|(accesses, lookups)| accesses + lookups).collect()
}

#[test]
fn the_calls_on_a_directory_and_its_files_stay_at_one_server_where_moves_cost_something() {
    let calls = hot_directory("none");
    let busiest = *calls.iter().max().unwrap();
    assert_eq!((calls.iter().sum::<u64>(), busiest), (2 * 16 * FILES as u64, 2 * 16 * FILES as u64), "{calls:?}");
    let calls = hot_directory("free");
    assert!(calls.iter().all(|count| *count > 0), "where moves are free every server takes part: {calls:?}");
}

#[test]
fn a_files_home_is_its_directorys_also_after_it_was_renamed_and_a_directory_is_its_own() {
    let nfsd = nfsd();
    let mut proxy = proxy(&nfsd, "none");
    let (mut client, root) = proxy.client();
    let (mut directories, mut homes) = (Vec::new(), Vec::new());
    while homes.len() < 64 && homes.iter().all(|home| *home == homes[0]) {
        let name = format!("d{}", homes.len());
        directories.push(mkdir(&mut client, &root, name.as_bytes()));
        homes.push(home(&proxy, &format!("/scratch/{name}")));
    }
    let other = homes.len() - 1;
    assert_ne!(homes[0], homes[other], "directories lie at several servers: {homes:?}");
    let files: Vec<Vec<u8>> =
        (0..8).map(|number| create(&mut client, &directories[0], format!("f{number}").as_bytes())).collect();
    for file in &files {
        assert_eq!(home(&proxy, &hex(file)), homes[0]);
    }
    let [from, to] = [0, other].map(|number| DirOp { dir: handle(&directories[number]), name: b"f0" });
    let renamed = client.nfs(&Call::Rename { from, to }).unwrap();
    assert!(matches!(renamed, Reply::Rename(Ok(_))), "{renamed:?}");
    assert_eq!(lookup(&mut client, &directories[other], b"f0"), files[0]);
    assert_eq!(home(&proxy, &hex(&files[0])), homes[other], "it was seen there last");

    // A daemon that has seen nothing yet learns it from the first look.
    proxy.signal(Signal::KILL);
    proxy.ended();
    proxy.again();
    let (mut client, _) = proxy.client();
    for (number, file) in files.iter().enumerate().skip(1) {
        assert_eq!(lookup(&mut client, &directories[0], format!("f{number}").as_bytes()), *file);
        assert_eq!(home(&proxy, &hex(file)), homes[0]);
    }
}

/// After a start nobody knows in which directory a file lies. Where servers keep attributes for a
/// while, what was changed just before is looked for where it was changed all the same.
#[test]
fn what_was_changed_shortly_before_a_restart_is_seen_though_servers_keep_attributes() {
    let nfsd = Nfsd::start(&["--servers", "3", "--attribute-cache", "6s"]);
    let pool = "moves = \"none\"\n".to_owned();
    let mut proxy = Site { staleness: "6s", pool, ..Site::of(&nfsd.endpoints()) }.start();
    let (mut client, root) = proxy.client();
    let directory = mkdir(&mut client, &root, b"kept");
    let files: Vec<Vec<u8>> =
        (0..FILES).map(|number| create(&mut client, &directory, format!("f{number}").as_bytes())).collect();
    until("nothing is bound any more", || {
        files.iter().all(|file| {
            let explained = proxy.command(&format!("explain {} --json", hex(file)));
            serde_json::from_str::<Explanation>(&explained).unwrap().bound.is_none()
        })
    });
    for (number, file) in files.iter().enumerate() {
        assert_eq!(lookup(&mut client, &directory, format!("f{number}").as_bytes()), *file);
    }
    // Every server knows, and keeps, what was there before.
    let mut direct: Vec<Client> = (0..3).map(|server| nfsd.endpoint(server).client().0).collect();
    for server in &mut direct {
        assert!(files.iter().all(|file| mode(server, file) == 0o644));
    }
    for file in &files {
        let new_attributes = Sattr3 { mode: Some(0o600), ..Sattr3::default() };
        let changed = client.nfs(&Call::Setattr { object: handle(file), new_attributes, guard: None }).unwrap();
        assert!(matches!(changed, Reply::Setattr(Ok(_))), "{changed:?}");
    }
    proxy.signal(Signal::KILL);
    proxy.ended();
    proxy.again();
    let (mut client, _) = proxy.client();
    let old = files.iter().filter(|file| mode(&mut client, file) != 0o600).count();
    assert_eq!(old, 0, "of {FILES} files are shown as they were before they were changed");
}

fn mode(client: &mut Client, file: &[u8]) -> u32 {
    match client.nfs(&Call::Getattr { object: handle(file) }).unwrap() {
        Reply::Getattr(Ok(attributes)) => attributes.mode & 0o777,
        other => panic!("{other:?}"),
    }
}

const FILES: usize = 32;
