//! `midas nfsd` with real clients: the Linux kernel's, libnfs, showmount, rpcinfo; and at its bounds.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::{Raw, getattr, in_one_fragment, status};
use midas_lab::{
    Guest, PATIENCE, PORTMAP, Part, Scratch, bounded, hostile, loopback, nfs_cat, nfs_cp, nfs_ls, require, rpcinfo,
    showmount, succeeded, until,
};
use midas_nfs::nfs3::{Call, Nfsstat3};
use midas_nfs::record::mark;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use support::nfsd::Nfsd;

/// Servers over memory and over a fresh directory, one after the other.
fn both(check: impl Fn(&Nfsd)) {
    let scratch = Scratch::new();
    let dir = scratch.path().display().to_string();
    check(&Nfsd::start(&["--memory", "--export", "/export"]));
    check(&Nfsd::start(&["--dir", &dir, "--export", "/export"]));
}

#[test]
fn the_kernel_client_does_everything_with_both_namespaces() {
    if !require(Part::KernelClient) {
        return;
    }
    both(|nfsd| {
        let transcript = Guest::of(&nfsd.endpoint(0)).scenario("basic").run();
        println!("{} in {:?}", transcript.text, transcript.took);
        transcript.expect_all_ok();
    });
}

#[test]
fn libnfs_copies_lists_and_reads_with_both_namespaces() {
    if !require(Part::Libnfs) {
        return;
    }
    both(|nfsd| {
        let server = nfsd.endpoint(0);
        let scratch = Scratch::new();
        let [local, back] = ["local", "back"].map(|name| scratch.path().join(name));
        let content: Vec<u8> = (0..5_000_000_u32).map(|i| (i * 7 / 3) as u8).collect();
        fs::write(&local, &content).unwrap();
        succeeded(&nfs_cp(&local.display().to_string(), &server.url("/copy")));
        succeeded(&nfs_cp(&server.url("/copy"), &back.display().to_string()));
        assert!(fs::read(&back).unwrap() == content, "what was copied there and back is the same");
        assert_eq!(nfs_cat(&server, "/copy").stdout.len(), content.len());
        assert!(succeeded(&nfs_ls(&server, "")).contains("copy"));
        assert!(!nfs_cat(&server, "/absent").status.success());
    });
}

#[test]
fn k_showmount_and_rpcinfo_are_answered() {
    if !(require(Part::Rpcinfo) && require(Part::Showmount)) {
        return;
    }
    let host = loopback(1, &[PORTMAP]);
    let nfsd = Nfsd::start(&["--export", "/data", "--portmap", &format!("{host}:{PORTMAP}")]);
    let name = host.to_string();
    assert!(succeeded(&showmount(&["-e", &name])).contains("/data (everyone)"));
    let _mounted = nfsd.endpoint(0).client();
    assert!(succeeded(&showmount(&["-a", &name])).contains("127.0.0.1:/data"));
    for program in ["100003", "100005"] {
        let said = succeeded(&rpcinfo(&["-T", "tcp", &name, program, "3"]));
        assert!(said.contains("ready and waiting"), "{said}");
    }
    let port = nfsd.addresses[0].port().to_string();
    for form in [&["-p", name.as_str()][..], &[&name]] {
        let said = succeeded(&rpcinfo(form));
        assert!(said.contains("100003") && said.contains("100005") && said.contains("100000"), "{said}");
        assert!(form.len() == 1 || said.contains(&port), "{said}");
    }
    assert!(!rpcinfo(&["-T", "tcp", &name, "100021", "4"]).status.success(), "there is no lock manager");
}

/// A hundred directories of a hundred files, each with its own content.
fn ten_thousand(root: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for directory in 0..100 {
        fs::create_dir(root.join(format!("d{directory}"))).unwrap();
        for file in 0..100 {
            let name = format!("d{directory}/f{file}");
            let content = format!("{directory} {file}\n").repeat(1 + file * 7);
            fs::write(root.join(&name), &content).unwrap();
            files.insert(name, content);
        }
    }
    files
}

#[test]
fn a_directory_of_ten_thousand_files_is_listed_and_every_file_copied() {
    if !require(Part::Libnfs) {
        return;
    }
    let [served, copied] = [Scratch::new(), Scratch::new()];
    let files = ten_thousand(served.path());
    let nfsd = Nfsd::start(&["--dir", &served.path().display().to_string(), "--export", "/tree"]);
    let server = nfsd.endpoint(0);
    let listing = succeeded(&bounded("nfs-ls", PATIENCE).args(["-R", &server.url("")]).output().unwrap());
    let listed: BTreeMap<&str, u64> = listing
        .lines()
        .filter(|line| line.starts_with('-'))
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .map(|words| (words[5], words[4].parse().unwrap()))
        .collect();
    assert_eq!(listed.len(), 10_000);
    for (name, content) in &files {
        assert_eq!(listed.get(name.as_str()), Some(&(content.len() as u64)), "{name}");
    }
    let names: Vec<&String> = files.keys().collect();
    std::thread::scope(|scope| {
        for part in names.chunks(2500) {
            let (server, copied, files) = (&server, &copied, &files);
            scope.spawn(move || {
                for name in part {
                    let to = copied.path().join(name.replace('/', "-"));
                    succeeded(&nfs_cp(&server.url(&format!("/{name}")), &to.display().to_string()));
                    assert!(fs::read_to_string(&to).unwrap() == files[*name], "{name}");
                }
            });
        }
    });
}

#[test]
fn b1_a_thousand_large_claims_take_no_memory() {
    let nfsd = Nfsd::start(&[]);
    let (before, _) = nfsd.memory();
    hostile::closes_large_claims(nfsd.addresses[0], midas_nfsd::Bounds::default().record as u32, 250);
    let (_, highest) = nfsd.memory();
    println!("{} KiB before, at most {} KiB", before >> 10, highest >> 10);
    assert!(highest - before < 4 << 20, "{before} to {highest}");
}

#[test]
fn ten_thousand_idle_connections_stay_alive_in_little_memory() {
    let nfsd = Nfsd::start(&[]);
    let (before, _) = nfsd.memory();
    raise_file_limit();
    let mut raws: Vec<Raw> = (0..10_000).map(|_| Raw::connect(nfsd.addresses[0])).collect();
    raws.iter_mut().for_each(Raw::alive);
    let (now, _) = nfsd.memory();
    println!("{} KiB before, {} KiB with 10,000 connections", before >> 10, now >> 10);
    assert!(now - before < 32 << 20, "{before} to {now}");
    raws[0].alive();
    raws[9_999].alive();
}

#[test]
fn thousands_of_unfinished_records_stay_under_the_cap_and_others_are_served() {
    let nfsd = Nfsd::start(&[]);
    let (before, _) = nfsd.memory();
    raise_file_limit();
    // Each claims the largest record and sends a third of a mebibyte of it: two gigabytes, were they all finished.
    let piece = vec![0; 300 << 10];
    let mut stalled = Vec::new();
    for _ in 0..2_000 {
        let mut raw = Raw::connect(nfsd.addresses[0]);
        raw.0.set_nonblocking(true).unwrap();
        raw.say(&mark(1 << 20));
        // What the sockets do not take stays here.
        let _kept = raw.0.write(&piece);
        stalled.push(raw);
    }
    let mut other = Raw::connect(nfsd.addresses[0]);
    for _ in 0..100 {
        other.alive();
    }
    let (_, highest) = nfsd.memory();
    println!("{} KiB before, at most {} KiB", before >> 10, highest >> 10);
    assert!(highest - before < 160 << 20, "{before} to {highest}");
}

#[test]
fn b5_ten_thousand_calls_in_flight_take_little_memory() {
    let mut nfsd = Nfsd::start(&["--truth"]);
    let (mut client, root) = nfsd.endpoint(0).client();
    nfsd.tell("fault 0 hang");
    // A call that is not answered for a while shows that the server hangs.
    client.patience(Duration::from_millis(300)).unwrap();
    until("it hangs", || client.nfs(&Call::Null).is_err());
    let waiting = |nfsd: &mut Nfsd| nfsd.truth()["servers"][0]["queue"].as_u64().unwrap();
    let unanswered = waiting(&mut nfsd);
    let (before, _) = nfsd.memory();
    let mut raw = Raw::connect(nfsd.addresses[0]);
    let out: Vec<u8> = (0..10_000).flat_map(|xid| in_one_fragment(&getattr(xid, &root))).collect();
    raw.say(&out);
    until("all are in flight", || waiting(&mut nfsd) >= 10_000 + unanswered);
    let (now, _) = nfsd.memory();
    println!("{} KiB before, {} KiB with 10,000 calls in flight", before >> 10, now >> 10);
    assert!(now - before < 16 << 20, "{before} to {now}");
    nfsd.tell("fault 0 none");
    for _ in 0..10_000 {
        assert_eq!(status(&raw.receive()), Nfsstat3::OK);
    }
}

/// This process holds as many connections as the server.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

#[test]
fn what_is_typed_wrong_is_said_in_one_line() {
    let cases = [
        ("nfsd --servers 0", "0"),
        ("nfsd --service fast", "fast"),
        ("nfsd --service stat=const:1ms", "possible: null, getattr"),
        ("nfsd --listen localhost", "localhost"),
        ("nfsd --listen 127.0.0.1:65535 --servers 2", "port 65536"),
        ("nfsd --export data", "begin with /"),
        ("nfsd --dir x --memory", "--memory"),
        ("nfsd --fault hang --listen 127.0.0.1:0", "SERVER=FAULT"),
        ("nfsd --fault 0=tired --listen 127.0.0.1:0", "possible: none, hang"),
        ("nfsd --fault 3=hang --listen 127.0.0.1:0", "no server 3"),
    ];
    support::impossible(&cases);
    let absent = support::midas("nfsd --dir does/not/exist");
    assert_eq!(absent.status.code(), Some(1));
    assert!(String::from_utf8(absent.stderr).unwrap().contains("does/not/exist"));
}
