//! Bad input through `midas serve`: from clients, from servers, in its configuration. Whoever is wrong is told so, or let go; the others
//! are served on, and memory stays under its cap.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::{Raw, call, getattr, handle, nfs, results, status, xid};
use midas_lab::{Endpoint, PATIENCE, Scratch, create, hostile, mkdir, until};
use midas_net::Client;
use midas_nfs::nfs3::{Call, CreateHow, DirOp, Nfsstat3, Procedure, Reply, Sattr3, StableHow};
use midas_nfs::nlm;
use midas_nfs::record::mark;
use midas_nfs::rpc::Refusal;
use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site, client};
use support::switch::Switch;

/// A small cap, and how much more a process may take beside what the cap is about.
const MEMORY: &str = "[limits]\nmemory = \"64MiB\"";
const CAP: u64 = 64 << 20;
const BESIDE: u64 = 16 << 20;
/// The program of ACLs beside NFS: GETACL is procedure 1, SETACL 2.
const NFSACL: u32 = 100_227;
/// The configuration's default.
const RECORD: u32 = 2 << 20;

fn three(arguments: &[&str]) -> (Nfsd, Vec<Endpoint>) {
    let nfsd = Nfsd::start(&[&["--servers", "3", "--truth", "--export", "/scratch"], arguments].concat());
    let servers = nfsd.endpoints();
    (nfsd, servers)
}

fn plain() -> (Nfsd, Serve) {
    let (nfsd, servers) = three(&[]);
    let proxy = Serve::start(&servers);
    (nfsd, proxy)
}

fn capped() -> (Nfsd, Serve) {
    let (nfsd, servers) = three(&[]);
    let proxy = Site { more: MEMORY.to_owned(), ..Site::of(&servers) }.start();
    (nfsd, proxy)
}

/// A new file in the root that holds so many bytes.
fn file(client: &mut Client, root: &[u8], size: usize) -> Vec<u8> {
    let made = create(client, root, b"file");
    if size > 0 {
        assert_eq!(write(client, &made, size), Nfsstat3::OK);
    }
    made
}

fn write(client: &mut Client, file: &[u8], size: usize) -> Nfsstat3 {
    let (data, stable) = (vec![7; size], StableHow::FileSync);
    let call = Call::Write { file: handle(file), offset: 0, count: size as u32, stable, data: &data };
    client.nfs(&call).unwrap().status()
}

#[test]
fn b1_a_call_in_many_fragments_with_empty_ones_between_is_one_call() {
    let (_nfsd, proxy) = plain();
    hostile::joins_fragments(proxy.nfs[0], &proxy.client().1);
}

#[test]
fn b1_a_sender_of_one_byte_at_a_time_is_served_and_holds_up_nobody() {
    let (_nfsd, proxy) = plain();
    hostile::waits_for_single_bytes(proxy.nfs[0], &proxy.client().1);
}

#[test]
fn b1_claims_over_the_cap_end_their_connections_alone_and_take_no_memory() {
    let (_nfsd, proxy) = plain();
    let (_, root) = proxy.client();
    let mut bystander = Raw::connect(proxy.nfs[0]);
    bystander.served(&root);
    let (before, _) = proxy.memory();
    hostile::closes_large_claims(proxy.nfs[0], RECORD, 250);
    // A record that never ends is over the cap at some time, too.
    let mut endless = Raw::connect(proxy.nfs[0]);
    let fragment = [&(60_000_u32).to_be_bytes()[..], &vec![0; 60_000]].concat();
    let end = std::iter::repeat_with(|| endless.0.write_all(&fragment)).find_map(Result::err).unwrap();
    assert!(matches!(end.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "it is not closed: {end}");
    let (_, highest) = proxy.memory();
    println!("{} KiB before, at most {} KiB", before >> 10, highest >> 10);
    assert!(highest - before < 8 << 20, "{before} to {highest}");
    bystander.served(&root);
}

#[test]
fn b3_b4_what_is_wrong_is_refused_by_name_and_the_connection_stays() {
    let (_nfsd, proxy) = plain();
    let own = [
        (call(1, 200_003, 4, 0, &[]), Refusal::ProgUnavail),
        (call(15, nlm::PROGRAM, 2, 0, &[]), Refusal::ProgMismatch { low: 1, high: 4 }),
        (call(16, nlm::PROGRAM, 4, 7, &[]), Refusal::ProcUnavail),
    ];
    let own = own.map(|(record, refusal)| (record, Some(refusal))).to_vec();
    hostile::refuses_by_name(proxy.nfs[0], &proxy.client().1, own);
}

#[test]
fn b5_thousands_of_calls_in_flight_on_one_connection_are_all_answered() {
    let (mut nfsd, proxy) = plain();
    let (_, root) = proxy.client();
    let mut raw = Raw::connect(proxy.nfs[0]);
    for server in 0..3 {
        nfsd.tell(&format!("fault {server} slow:20ms"));
    }
    // More than `calls_per_client`: the rest is read when there is room.
    hostile::answers_all(&mut raw, &root, 10_000, || {
        for server in 0..3 {
            nfsd.tell(&format!("fault {server} none"));
        }
    });
    raw.served(&root);
}

#[test]
fn b5_clients_that_do_not_read_are_not_read_lose_nothing_and_memory_stays_under_its_cap() {
    let (_nfsd, proxy) = capped();
    let (mut setup, root) = proxy.client();
    let size = 1_u32 << 20;
    let file = file(&mut setup, &root, size as usize);
    let (before, _) = proxy.memory();
    let mut raws: Vec<Raw> = (0..4).map(|_| Raw::connect(proxy.nfs[0])).collect();
    // 400 answers of a mebibyte, none of them read.
    for raw in &mut raws {
        for xid in 0..100 {
            raw.send(&nfs(xid, &Call::Read { file: handle(&file), offset: 0, count: size }));
        }
    }
    // Others are served meanwhile.
    let mut other = Raw::connect(proxy.nfs[0]);
    for _ in 0..1000 {
        other.served(&root);
    }
    let (_, highest) = proxy.memory();
    println!("{} KiB before, at most {} KiB", before >> 10, highest >> 10);
    for raw in &mut raws {
        let mut xids = BTreeSet::new();
        for _ in 0..100 {
            let answer = raw.receive();
            xids.insert(xid(&answer));
            let Reply::Read(Ok(read)) = Reply::decode(Procedure::Read, results(&answer)).unwrap() else {
                panic!("it can be read")
            };
            assert_eq!(read.data.len(), size as usize);
        }
        assert_eq!(xids.len(), 100);
    }
    assert!(highest < before + CAP + BESIDE, "{before} to {highest}");
}

#[test]
fn b1_hundreds_of_unfinished_records_stay_under_the_cap_and_others_are_served_large_calls_too() {
    let (_nfsd, proxy) = capped();
    let (mut other, root) = proxy.client();
    let file = file(&mut other, &root, 0);
    let (before, _) = proxy.memory();
    // Each claims a large record and sends a part of it: four times the cap, were they all finished.
    let piece = vec![0; 300 << 10];
    let mut stalled = Vec::new();
    for _ in 0..256 {
        let raw = Raw::connect(proxy.nfs[0]);
        raw.0.set_nonblocking(true).unwrap();
        (&raw.0).write_all(&mark(1 << 20)).unwrap();
        // What the sockets do not take stays here.
        let _kept = (&raw.0).write(&piece);
        stalled.push(raw);
    }
    for _ in 0..100 {
        assert_eq!(other.nfs(&Call::Getattr { object: handle(&root) }).unwrap().status(), Nfsstat3::OK);
    }
    assert_eq!(write(&mut other, &file, 1 << 20), Nfsstat3::OK);
    let (_, highest) = proxy.memory();
    println!("{} KiB before, at most {} KiB", before >> 10, highest >> 10);
    assert!(highest < before + CAP + BESIDE, "{before} to {highest}");
}

#[test]
fn a_client_that_ends_its_side_gets_its_answers_and_is_let_go() {
    let (_nfsd, proxy) = plain();
    hostile::answers_who_ends(proxy.nfs[0], &proxy.client().1);
}

#[test]
fn e2_a_client_outside_the_list_may_not_mount_nor_call_and_the_others_may() {
    let (_nfsd, servers) = three(&[]);
    let listen = "nfs = \"[::]:0\"".to_owned();
    let proxy = Site { listen, clients: "\"::1\"", ..Site::of(&servers) }.start();
    let port = proxy.nfs[0].port();
    let [listed, other]: [SocketAddr; 2] = [([0, 0, 0, 0, 0, 0, 0, 1], port).into(), ([127, 0, 0, 1], port).into()];
    let (mut good, root) = client(listed, listed);
    assert_eq!(good.nfs(&Call::Getattr { object: handle(&root) }).unwrap().status(), Nfsstat3::OK);
    // It knows a handle, and yet.
    let mut bad = Client::connect(other, &midas_net::Caller::ROOT, PATIENCE).unwrap();
    assert!(bad.mount(b"/scratch").unwrap_err().to_string().contains("ACCES"));
    assert_eq!(bad.nfs(&Call::Getattr { object: handle(&root) }).unwrap().status(), Nfsstat3::ACCES);
    let place = DirOp { dir: handle(&root), name: b"never" };
    let create = Call::Create { place, how: CreateHow::Guarded(Sattr3::default()) };
    assert_eq!(bad.nfs(&create).unwrap().status(), Nfsstat3::ACCES);
    let what = DirOp { dir: handle(&root), name: b"never" };
    assert_eq!(good.nfs(&Call::Lookup { what }).unwrap().status(), Nfsstat3::NOENT);
}

#[test]
fn e2_a_client_on_a_high_port_is_refused_unless_the_export_is_insecure() {
    let (_nfsd, servers) = three(&[]);
    let proxy = Site { insecure: false, ..Site::of(&servers) }.start();
    // As root, this client comes from a reserved port; anybody's connection does not.
    let (mut reserved, root) = proxy.client();
    let allowed = if rustix::process::geteuid().is_root() { Nfsstat3::OK } else { Nfsstat3::PERM };
    assert_eq!(reserved.nfs(&Call::Getattr { object: handle(&root) }).unwrap().status(), allowed);
    let mut raw = Raw::connect(proxy.nfs[0]);
    raw.send(&getattr(1, &root));
    assert_eq!(status(&raw.receive()), Nfsstat3::PERM);
    raw.alive();
}

#[test]
fn e3_acls_are_refused_by_program_and_the_connection_stays() {
    let (_nfsd, proxy) = plain();
    let (_, root) = proxy.client();
    let mut raw = Raw::connect(proxy.nfs[0]);
    for (xid, version, procedure) in [(1, 3, 0), (2, 3, 1), (3, 3, 2), (4, 2, 1)] {
        assert_eq!(raw.refused(&call(xid, NFSACL, version, procedure, &[])), Refusal::ProgUnavail);
        raw.served(&root);
    }
}

/// A second export over a server of its own: whose a handle is must be found out.
fn other(nfsd: &Nfsd) -> String {
    format!(
        "[[pool]]\nname = \"other\"\nservers = \"{}\"\n\
         [[export]]\npath = \"/other\"\npool = \"other\"\nclients = [\"127.0.0.0/8\"]\ninsecure = true",
        nfsd.addresses[0]
    )
}

#[test]
fn a4_handles_that_no_server_gave_are_refused_and_nobody_waits_for_them() {
    let scratch = Scratch::new();
    let second = Nfsd::start(&["--dir", &scratch.path().display().to_string(), "--export", "/other"]);
    for more in [String::new(), other(&second)] {
        let (_nfsd, servers) = three(&[]);
        let proxy = Site { more, ..Site::of(&servers) }.start();
        let (_, root) = proxy.client();
        let (mut raw, mut other) = (Raw::connect(proxy.nfs[0]), Raw::connect(proxy.nfs[0]));
        let (before, _) = proxy.memory();
        for xid in 0..2_000_u32 {
            let invented = xid.to_be_bytes().repeat(1 + xid as usize % 16);
            raw.send(&getattr(xid, &invented));
            if xid % 100 == 0 {
                other.served(&root);
            }
        }
        for _ in 0..2_000 {
            assert!([Nfsstat3::STALE, Nfsstat3::BADHANDLE].contains(&status(&raw.receive())));
        }
        raw.served(&root);
        let (_, highest) = proxy.memory();
        assert!(highest < before + BESIDE, "{before} to {highest}");
    }
}

/// New directories in the root: their homes are different servers.
fn directories(client: &mut Client, root: &[u8]) -> Vec<Vec<u8>> {
    (0..24).map(|number| mkdir(client, root, format!("directory-{number}").as_bytes())).collect()
}

/// Some LOOKUPs in each of them, all of which must be answered.
fn lookups(client: &mut Client, directories: &[Vec<u8>]) {
    for (directory, number) in directories.iter().flat_map(|directory| (0..8).map(move |number| (directory, number))) {
        let name = format!("absent-{number}");
        let what = DirOp { dir: handle(directory), name: name.as_bytes() };
        assert_eq!(client.nfs(&Call::Lookup { what }).unwrap().status(), Nfsstat3::NOENT, "{name}");
    }
}

#[test]
fn a2_a_server_with_other_handles_gets_no_calls_and_the_others_serve() {
    let (mut nfsd, servers) = three(&["--fault", "1=other-handles"]);
    let proxy = Serve::start(&servers);
    let (mut client, root) = proxy.client();
    let directories = directories(&mut client, &root);
    lookups(&mut client, &directories);
    file(&mut client, &root, 1000);
    // The keeper's own calls are others.
    let done = nfsd.executed("LOOKUP");
    assert!(done[0] > 0 && done[1] == 0 && done[2] > 0, "{done:?}");
    // Its own handles again: it joins.
    nfsd.tell("fault 1 none");
    until("it joins", || {
        lookups(&mut client, &directories);
        nfsd.executed("LOOKUP")[1] > 0
    });
}

#[test]
fn b2_servers_that_answer_with_wrong_numbers_or_half_cost_no_client_an_answer() {
    for fault in ["wrong-xid", "half-reply"] {
        let (mut nfsd, servers) = three(&["--fault", &format!("2={fault}")]);
        let proxy = Serve::start(&servers);
        let (mut client, root) = proxy.client();
        let directories = directories(&mut client, &root);
        lookups(&mut client, &directories);
        file(&mut client, &root, 1000);
        nfsd.tell("fault 2 none");
        let before = nfsd.executed("LOOKUP")[2];
        until("it joins", || {
            lookups(&mut client, &directories);
            nfsd.executed("LOOKUP")[2] > before
        });
        // One that was good, until now.
        nfsd.tell(&format!("fault 2 {fault}"));
        lookups(&mut client, &directories);
        nfsd.tell("fault 2 none");
        lookups(&mut client, &directories);
        assert_eq!(nfsd.truth()["doubles"], 0, "{fault}");
    }
}

#[test]
fn b2_whatever_a_server_says_between_its_answers_costs_no_client_an_answer() {
    let (mut nfsd, servers) = three(&[]);
    let target = |server: &Endpoint| SocketAddr::new(server.address.into(), server.nfs_port);
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let switches: Vec<Switch> = servers.iter().map(|server| Switch::start(any, target(server))).collect();
    let proxy = Site::over(switches.iter().map(|switch| switch.address).collect(), None, "/scratch").start();
    let (mut client, root) = proxy.client();
    let directories = directories(&mut client, &root);
    lookups(&mut client, &directories);
    let unknown = [&mark(8)[..], &[9, 9, 9, 9, 0, 0, 0, 1]].concat();
    let words: [(&str, &[u8]); 7] = [
        ("a claim of a gibibyte", &[0xc0, 0, 0, 0]),
        ("a claim without an end", &[0x7f, 0xff, 0xff, 0xff, 1, 2, 3]),
        ("nothing", &mark(0)),
        ("a byte", &[0x80, 0, 0, 1, 7]),
        ("an answer to nobody", &unknown),
        ("a call", &[0x80, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0]),
        ("empty fragments", &[0; 64]),
    ];
    for (what, bytes) in words {
        let reached: usize = switches.iter().map(|switch| switch.inject(bytes)).sum();
        assert!(reached >= 3, "{what} reached {reached} connections");
        lookups(&mut client, &directories);
    }
    assert_eq!(nfsd.truth()["doubles"], 0);
    let (_, highest) = proxy.memory();
    assert!(highest < 64 << 20, "{highest}");
}

#[test]
fn a_typo_in_the_configuration_is_told_with_its_line_and_nothing_is_started() {
    let (_nfsd, servers) = three(&[]);
    let scratch = Scratch::new();
    let file = scratch.path().join("midas.toml");
    let good = Site::of(&servers).config();
    for (right, wrong, told) in [
        ("staleness", "stalenes", ["stalenes", "staleness"]),
        ("access = \"rw\"", "access = \"write\"", ["access", "rw"]),
        ("clients = [\"127.0.0.0/8\"]", "", ["clients", "clients"]),
        ("pool = \"heads\"", "pool = \"haeds\"", ["haeds", "heads"]),
        ("insecure = true", "insecure = true\ninsecure = true", ["duplicate key", "16:1"]),
    ] {
        std::fs::write(&file, good.replace(right, wrong)).unwrap();
        let output = support::midas(&format!("serve --config {}", file.display()));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(output.stdout.is_empty() && said.contains("midas.toml:"), "{said}");
        assert!(told.iter().all(|word| said.contains(word)), "{wrong}: {said}");
    }
}
