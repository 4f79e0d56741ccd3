//! `midas serve` in an administrator's hands: reloaded, ended, its servers drained and restarted, all under load.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::{Endpoint, Ganesha, Part, require};
use midas_net::{Caller, Client, ClientError};
use midas_nfs::nfs3::{self, Call, CreateHow, DirOp, FileHandle, Nfsstat3, Reply, Sattr3};
use midas_nfs::record;
use midas_nfs::rpc::{self, OpaqueAuth, flavor};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use support::daemon::{Daemon, PATIENCE};
use support::nfsd::Nfsd;
use support::writer::Writer;

fn embedded(nfsd: &Nfsd) -> Vec<Endpoint> {
    (0..nfsd.addresses.len()).map(|server| nfsd.endpoint(server)).collect()
}

/// Load that ends by itself; its counts.
fn load(daemon: &Daemon, seconds: u32) -> JoinHandle<Value> {
    let typed = format!(
        "{} --workload zipf:1.1 --depth 8 --connections 8 --duration {seconds}s --timeout 30s --json",
        daemon.bench()
    );
    thread::spawn(move || {
        let report: Value = serde_json::from_str(&support::text(&typed)).unwrap();
        report["cells"][0]["arms"][0]["counts"].clone()
    })
}

fn nothing_was_lost(counts: &Value) {
    println!("{counts}");
    assert!(counts["answered"].as_u64().unwrap() > 500, "{counts}");
    for bad in ["errors_unexpected", "timeouts", "connections_lost", "unmatched"] {
        assert_eq!(counts[bad], 0, "{bad}: {counts}");
    }
}

/// A record that carries one NFS call of this client.
fn record_of(xid: u32, call: &Call<'_>) -> Vec<u8> {
    let body = Caller::ROOT.encode(0, b"operations");
    let head = rpc::Call {
        xid,
        program: nfs3::PROGRAM,
        version: nfs3::VERSION,
        procedure: call.procedure() as u32,
        credential: OpaqueAuth { flavor: flavor::SYS, body: &body },
        verifier: OpaqueAuth::NONE,
        args: &[],
    };
    let mut out = Vec::new();
    record::put(&mut out, |out| {
        head.encode(out);
        call.encode(out);
    });
    out
}

fn create<'a>(dir: &'a [u8], name: &'a str) -> Call<'a> {
    let place = DirOp { dir: FileHandle::new(dir).unwrap(), name: name.as_bytes() };
    Call::Create { place, how: CreateHow::Guarded(Sattr3 { mode: Some(0o644), ..Sattr3::default() }) }
}

#[test]
fn a_reload_under_load_drops_nothing_and_holds_for_connections_that_were_there() {
    let nfsd = Nfsd::start(&["--servers", "3", "--truth"]);
    let daemon = Daemon::start(&embedded(&nfsd), &[]);
    let (mut client, root) = daemon.mounted();
    let counts = load(&daemon, 8);
    let changes = [
        ("policy = \"first-fit\"", "policy = \"rr\""),
        ("\"127.0.0.0/8\"", "\"127.0.0.0/8\", \"10.0.0.0/8\""),
        ("staleness = \"0s\"", "staleness = \"1s\""),
        ("policy = \"rr\"", "policy = \"hash-directory\""),
        ("staleness = \"1s\"", "staleness = \"0s\""),
    ];
    for (reloads, (old, new)) in changes.iter().enumerate() {
        daemon.rewrite(old, new);
        daemon.signal(Signal::HUP);
        assert!(daemon.said(" reloaded ", reloads + 1).contains("changed=1 at_restart=0"), "{old}");
    }
    // A mistake changes nothing and is told where it stands; what needs a restart is told too.
    daemon.rewrite("squash = \"none\"", "squash = \"nobody\"");
    daemon.signal(Signal::HUP);
    daemon.said(" not reloaded ", 1);
    daemon.said(": squash: unknown value 'nobody'", 1);
    daemon.rewrite("squash = \"nobody\"", "squash = \"none\"");
    daemon.rewrite("probe_interval = \"200ms\"", "probe_interval = \"300ms\"");
    daemon.signal(Signal::HUP);
    assert!(
        daemon.said(" not changed ", 1).contains("probe_interval changed from 200ms to 300ms (at the next restart)")
    );
    let counts = counts.join().unwrap();
    nothing_was_lost(&counts);
    daemon.rewrite("access = \"rw\"", "access = \"ro\"");
    daemon.signal(Signal::HUP);
    daemon.said("access changed from rw to ro", 1);
    let refused = client.nfs(&create(&root, "late")).unwrap();
    assert_eq!(refused.status(), Nfsstat3::ROFS, "{refused:?}");
}

/// One client of many: creates names in batches on one connection, and when that ends sends what was not answered again, as it was, on
/// another. GUARDED, so that a name that was made without an answer shows.
fn create_names(nfs: SocketAddr, root: &[u8], client: u32, batches: u32) -> BTreeSet<String> {
    let mut connection = Client::connect(nfs, &Caller::ROOT, PATIENCE).unwrap();
    let mut made = BTreeSet::new();
    for batch in 0..batches {
        let mut open: Vec<(u32, String)> =
            (0..BATCH).map(|i| ((client << 20) + batch * BATCH + i, format!("{client}-{batch}-{i}"))).collect();
        let mut ended = true;
        while !open.is_empty() {
            let mut bytes = Vec::new();
            if std::mem::take(&mut ended) {
                bytes = open.iter().flat_map(|(xid, name)| record_of(*xid, &create(root, name))).collect();
            }
            match connection.exchange(&bytes).map(<[u8]>::to_vec) {
                Ok(reply) => {
                    let xid = u32::from_be_bytes(reply[..4].try_into().unwrap());
                    let place = open.iter().position(|(of, _)| *of == xid).expect("an answer to one of ours");
                    let (_, name) = open.swap_remove(place);
                    let results = rpc::Reply::decode(&reply).unwrap().results.unwrap();
                    let answer = Reply::decode(nfs3::Procedure::Create, results).unwrap();
                    assert_eq!(answer.status(), Nfsstat3::OK, "{name}");
                    made.insert(name);
                }
                Err(ClientError::Io(_)) => {
                    connection = reconnected(nfs);
                    ended = true;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    made
}

fn reconnected(nfs: SocketAddr) -> Client {
    let start = std::time::Instant::now();
    loop {
        if let Ok(client) = Client::connect(nfs, &Caller::ROOT, PATIENCE) {
            return client;
        }
        assert!(start.elapsed() < PATIENCE, "nobody listens");
        thread::sleep(Duration::from_millis(20));
    }
}

const BATCH: u32 = 16;

#[test]
fn sigterm_answers_what_was_read_and_clients_go_on_at_the_next_daemon_without_an_error() {
    let mut nfsd = Nfsd::start(&["--servers", "3", "--truth"]);
    let mut daemon = Daemon::start(&embedded(&nfsd), &[]);
    let (_, root) = daemon.mounted();
    let (nfs, batches) = (daemon.nfs, 600);
    let clients: Vec<_> = (0..8)
        .map(|client| {
            let root = root.clone();
            thread::spawn(move || create_names(nfs, &root, client, batches))
        })
        .collect();
    for _ in 0..2 {
        let before = created(&mut nfsd);
        while created(&mut nfsd) < before + 500 {
            assert!(!clients.iter().all(JoinHandle::is_finished), "the load ended before the daemon");
        }
        daemon.signal(Signal::TERM);
        let (status, took) = daemon.ended();
        println!("ended after {took:?}: {}", daemon.said("drained", 1));
        assert!(status.success(), "{status}");
        assert!(daemon.said(" drained ", 1).contains("clients_left=0"));
        daemon.again();
    }
    let made: usize = clients.into_iter().map(|client| client.join().unwrap().len()).sum();
    assert_eq!(made as u32, 8 * batches * BATCH);
    nfsd.tell("truth");
    assert_eq!(nfsd.line()["doubles"], 0);
}

/// CREATEs that all servers have executed.
fn created(nfsd: &mut Nfsd) -> u64 {
    nfsd.tell("truth");
    let truth = nfsd.line();
    truth["servers"].as_array().unwrap().iter().filter_map(|server| server["calls"]["CREATE"].as_u64()).sum()
}

#[test]
fn a_second_signal_ends_a_drain_and_the_drain_has_its_limit() {
    for second in [true, false] {
        let mut nfsd = Nfsd::start(&["--servers", "1"]);
        let mut daemon = Daemon::start(&embedded(&nfsd), &[]);
        let (mut client, root) = daemon.mounted();
        daemon.rewrite("[log]", "[limits]\ndrain = \"1s\"\n[log]");
        if !second {
            daemon.signal(Signal::TERM);
            daemon.ended();
            daemon.again();
            client = Client::connect(daemon.nfs, &Caller::ROOT, PATIENCE).unwrap();
        }
        nfsd.tell("fault 0 hang");
        let waits = thread::spawn(move || client.nfs(&create(&root, "never")).is_err());
        daemon.until(0, "asked", |server| server["in_flight"] == 1);
        daemon.signal(Signal::TERM);
        daemon.said(" draining ", if second { 1 } else { 2 });
        if second {
            daemon.signal(Signal::TERM);
        }
        let (status, _) = daemon.ended();
        match second {
            true => assert_eq!(status.code(), Some(143)),
            false => {
                let drained = daemon.said(" drained ", 2);
                assert!(status.success() && drained.contains("clients_left=1"), "{status} {drained}");
                let took = drained.split("took_ms=").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
                assert!(took.parse::<u64>().unwrap() >= 500, "{drained}");
            }
        }
        assert!(waits.join().unwrap(), "a call that was never answered");
    }
}

#[test]
fn a_call_that_comes_again_on_a_new_connection_gets_its_first_reply() {
    let nfsd = Nfsd::start(&["--servers", "3"]);
    let daemon = Daemon::start(&embedded(&nfsd), &[]);
    let (_, root) = daemon.mounted();
    let of = |name: &'static str| DirOp { dir: FileHandle::new(&root).unwrap(), name: name.as_bytes() };
    let calls = [
        create(&root, "a"),
        Call::Rename { from: of("a"), to: of("b") },
        Call::Remove { object: of("b") },
        Call::Mkdir { place: of("d"), attributes: Sattr3::default() },
        Call::Rmdir { object: of("d") },
    ];
    for (xid, call) in (77..).zip(&calls) {
        let bytes = record_of(xid, call);
        let answer = || {
            let mut connection = Client::connect(daemon.nfs, &Caller::ROOT, PATIENCE).unwrap();
            connection.exchange(&bytes).unwrap().to_vec()
        };
        let (first, second) = (answer(), answer());
        let results = rpc::Reply::decode(&first).unwrap().results.unwrap();
        assert_eq!(Reply::decode(call.procedure(), results).unwrap().status(), Nfsstat3::OK, "{call:?}");
        assert!(first == second, "{call:?}");
        // Executed again, every one of them would fail.
        let anew = record_of(xid + 1000, call);
        let mut connection = Client::connect(daemon.nfs, &Caller::ROOT, PATIENCE).unwrap();
        let third = connection.exchange(&anew).unwrap().to_vec();
        let results = rpc::Reply::decode(&third).unwrap().results.unwrap();
        assert_ne!(Reply::decode(call.procedure(), results).unwrap().status(), Nfsstat3::OK, "{call:?}");
    }
}

/// Which server holds data that is not committed.
fn holder(daemon: &Daemon) -> usize {
    let servers = daemon.servers();
    servers.iter().position(|server| server["uncommitted"] == 1).unwrap_or_else(|| panic!("{servers:?}"))
}

fn back(server: &Value) -> bool {
    server["health"] == "up" || server["health"] == "probation"
}

/// Restarts an embedded server; returns when it has lost its connections, and with them what was not committed.
fn crash(nfsd: &mut Nfsd, server: usize) {
    let mut witness = Client::connect(nfsd.addresses[server], &Caller::ROOT, PATIENCE).unwrap();
    witness.nfs(&Call::Null).unwrap();
    nfsd.tell(&format!("restart {server}"));
    while witness.nfs(&Call::Null).is_ok() {}
}

/// Drain, restart and undrain of the server that holds data that is not committed: of a file that is committed while its server is drained,
/// and of one that is not before its server restarts.
fn drained_and_restarted(daemon: &Daemon, mut restart: impl FnMut(usize)) {
    let counts = load(daemon, 10);
    let mut early = Writer::create(daemon.mounted(), "early", 4 << 20);
    early.write();
    let first = holder(daemon);
    let name = |server: usize| daemon.servers()[server]["name"].as_str().unwrap().to_owned();
    daemon.command(&format!("drain {}", name(first)));
    daemon.until(first, "drained", |server| server["health"] == "drained");
    assert_eq!(early.commit(), 0, "a drained server ends what was begun there");
    daemon.until(first, "empty", |server| server["uncommitted"] == 0 && server["in_flight"] == 0);
    let before = daemon.servers()[first]["dispatched"].as_u64().unwrap();
    early.check(&mut daemon.mounted().0);
    assert_eq!(daemon.servers()[first]["dispatched"].as_u64().unwrap(), before, "nothing new goes to a drained server");
    restart(first);
    daemon.command(&format!("undrain {}", name(first)));
    daemon.until(first, "back", back);

    let mut late = Writer::create(daemon.mounted(), "late", 4 << 20);
    late.write();
    let second = holder(daemon);
    daemon.command(&format!("drain {}", name(second)));
    restart(second);
    assert_eq!(late.commit(), 1, "its server has lost it, so it is sent again");
    daemon.until(second, "empty", |server| server["uncommitted"] == 0 && server["in_flight"] == 0);
    daemon.command(&format!("undrain {}", name(second)));
    daemon.until(second, "back", back);
    let mut reader = daemon.mounted().0;
    early.check(&mut reader);
    late.check(&mut reader);
    nothing_was_lost(&counts.join().unwrap());
}

#[test]
fn an_embedded_server_is_drained_restarted_and_taken_back_and_no_byte_is_lost() {
    let mut nfsd = Nfsd::start(&["--servers", "3", "--truth"]);
    let daemon = Daemon::start(&embedded(&nfsd), &[]);
    drained_and_restarted(&daemon, |server| crash(&mut nfsd, server));
    nfsd.tell("truth");
    assert_eq!(nfsd.line()["doubles"], 0);
}

#[test]
fn a_real_server_is_drained_restarted_and_taken_back_and_no_byte_is_lost() {
    if !require(Part::Ganesha) {
        return;
    }
    let mut ganesha = Ganesha::start(3, 0);
    let daemon = Daemon::start(ganesha.heads(), &[]);
    drained_and_restarted(&daemon, |head| {
        ganesha.kill(head);
        ganesha.restart(head);
    });
}

#[test]
fn a_restart_between_write_and_commit_makes_the_client_send_again() {
    let mut nfsd = Nfsd::start(&["--servers", "3"]);
    let daemon = Daemon::start(&embedded(&nfsd), &[]);
    let mut file = Writer::create(daemon.mounted(), "file", 4 << 20);
    file.write();
    crash(&mut nfsd, holder(&daemon));
    assert_eq!(file.commit(), 1);
    file.check(&mut daemon.mounted().0);
}

#[test]
fn events_are_told_as_lines_of_json() {
    let mut nfsd = Nfsd::start(&["--servers", "2"]);
    let daemon = Daemon::start(&embedded(&nfsd), &["--log-format", "json"]);
    let of = |line: String| -> Value { serde_json::from_str(&line).unwrap() };
    assert_eq!(of(daemon.said("\"serving\"", 1))["nfs"], daemon.nfs.to_string());
    daemon.rewrite("[\"127.0.0.0/8\"]", "[\"10.0.0.0/8\"]");
    let (mut client, root) = daemon.mounted();
    daemon.signal(Signal::HUP);
    daemon.said("\"reloaded\"", 1);
    let object = FileHandle::new(&root).unwrap();
    for _ in 0..20 {
        assert_eq!(client.nfs(&Call::Getattr { object }).unwrap().status(), Nfsstat3::ACCES);
    }
    let refused = of(daemon.said("\"call refused\"", 1));
    assert_eq!((&refused["client"], &refused["level"]), (&"127.0.0.1".into(), &"warn".into()), "{refused}");
    let more = of(daemon.said("more_like_this", 1));
    assert_eq!((&more["event"], &more["client"]), (&"call refused".into(), &"127.0.0.1".into()), "{more}");
    assert!(more["more_like_this"].as_str().unwrap().parse::<u32>().unwrap() > 0, "{more}");
    nfsd.tell("fault 1 down");
    let down = of(daemon.said("\"server is down\"", 1));
    assert_eq!(down["server"], nfsd.addresses[1].to_string(), "{down}");
    nfsd.tell("fault 1 none");
    daemon.said("\"server is on probation\"", 1);
}

/// What arrives at a socket of systemd's kind.
fn heard(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 1024];
    let length = socket.recv(&mut buffer).expect("it says something in time");
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

/// A process that does not outlive its test.
struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

#[test]
fn systemd_is_told_of_the_start_the_reload_and_the_end() {
    let nfsd = Nfsd::start(&["--servers", "1"]);
    let daemon = Daemon::start(&embedded(&nfsd), &[]);
    let place = daemon.state().with_file_name("notify");
    let socket = UnixDatagram::bind(&place).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_midas"))
        .args(["serve", "--socket"])
        .arg(place.with_file_name("another"))
        .arg("--config")
        .arg(place.with_file_name("midas.toml"))
        .env("NOTIFY_SOCKET", &place)
        .env("WATCHDOG_USEC", "100000")
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut child = Child(child);
    let until = |what: &str| loop {
        let said = heard(&socket);
        if said.starts_with(what) {
            return said;
        }
        assert_eq!(said, "WATCHDOG=1", "instead of {what}");
    };
    until("READY=1\n");
    until("WATCHDOG=1");
    let pid = rustix::process::Pid::from_child(&child.0);
    rustix::process::kill_process(pid, Signal::HUP).unwrap();
    assert!(until("RELOADING=1\n").contains("\nMONOTONIC_USEC="));
    until("READY=1\n");
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    until("STOPPING=1\n");
    assert!(child.0.wait().unwrap().success());
}

#[test]
fn paper_starts_with_the_targets_of_the_daemon_before_it_and_a_broken_state_is_ignored() {
    let nfsd = Nfsd::start(&["--servers", "2"]);
    let mut daemon = Daemon::start(&embedded(&nfsd), &[]);
    daemon.rewrite("policy = \"first-fit\"", "policy = \"paper\"");
    let targets = "{\"imbalance\":0.2,\"latency_p99_ns\":5000000,\"rtt_ns\":100000}";
    for (version, known) in [(1, true), (2, false)] {
        daemon.signal(Signal::TERM);
        daemon.ended();
        let state = format!("{{\"version\":{version},\"exports\":{{\"/scratch\":{targets}}}}}");
        std::fs::write(daemon.state(), state).unwrap();
        daemon.again();
        match known {
            true => assert!(daemon.said(" targets from before ", 1).contains("imbalance=0.2 p99_ms=5")),
            false => assert!(daemon.said(" state ignored ", 1).contains("its version is 2, not 1")),
        }
        assert!(daemon.mounted().0.nfs(&Call::Null).is_ok());
    }
}
