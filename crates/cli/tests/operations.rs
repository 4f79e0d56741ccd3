//! `midas serve` in an administrator's hands: reloaded, ended, its servers drained and restarted, all under load.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::{handle, in_one_fragment, nfs, status, xid};
use midas_lab::{Endpoint, Ganesha, PATIENCE, Part, Scratch, readable, require, until};
use midas_net::{Caller, Client, ClientError};
use midas_nfs::nfs3::{Call, CreateHow, DirOp, Nfsstat3, Sattr3};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::sync::{Condvar, Mutex};
use std::thread::{self, ScopedJoinHandle};
use support::load::Load;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};
use support::writer::Writer;

/// A proxy that sees quickly what its servers do, and whose policy can be changed.
fn site(servers: &[Endpoint]) -> Site {
    let pool = "probe_interval = \"200ms\"\n".to_owned();
    Site { pool, export: "policy = \"first-fit\"\n", ..Site::of(servers) }
}

/// Load that ends by itself.
fn load(proxy: &Serve, seconds: u32) -> Load {
    let options = format!("--workload zipf:1.1 --depth 8 --connections 8 --duration {seconds}s --timeout 30s");
    Load::start(proxy, &options)
}

fn create<'a>(dir: &'a [u8], name: &'a str) -> Call<'a> {
    let place = DirOp { dir: handle(dir), name: name.as_bytes() };
    Call::Create { place, how: CreateHow::Guarded(Sattr3 { mode: Some(0o644), ..Sattr3::default() }) }
}

#[test]
fn a_reload_under_load_drops_nothing_and_holds_for_connections_that_were_there() {
    let nfsd = Nfsd::start(&["--servers", "3", "--truth"]);
    let daemon = site(&nfsd.endpoints()).start();
    let (mut client, root) = daemon.client();
    let load = load(&daemon, 8);
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
    load.end();
    daemon.rewrite("access = \"rw\"", "access = \"ro\"");
    daemon.signal(Signal::HUP);
    daemon.said("access changed from rw to ro", 1);
    let refused = client.nfs(&create(&root, "late")).unwrap();
    assert_eq!(refused.status(), Nfsstat3::ROFS, "{refused:?}");
}

/// Which daemon listens: the first, the second and so on.
#[derive(Default)]
struct Turn(Mutex<u32>, Condvar);

impl Turn {
    fn next(&self) {
        *self.0.lock().unwrap() += 1;
        self.1.notify_all();
    }

    /// Waits until one listens that came after this one.
    fn after(&self, last: u32) -> u32 {
        let waits = |turn: &mut u32| *turn <= last;
        let (turn, _) = self.1.wait_timeout_while(self.0.lock().unwrap(), PATIENCE, waits).unwrap();
        assert!(*turn > last, "nobody listens");
        *turn
    }
}

/// One client of many: creates names in batches on one connection, and when that ends sends what was not answered again, as it was, on
/// another. GUARDED, so that a name that was made without an answer shows.
fn create_names(address: SocketAddr, turn: &Turn, root: &[u8], client: u32) -> BTreeSet<String> {
    let (mut connection, mut at) = (None, 0);
    let mut made = BTreeSet::new();
    for batch in 0..BATCHES {
        let mut open: Vec<(u32, String)> =
            (0..BATCH).map(|i| ((client << 20) + batch * BATCH + i, format!("{client}-{batch}-{i}"))).collect();
        let record = |(number, name): &(u32, String)| in_one_fragment(&nfs(*number, &create(root, name)));
        let mut bytes: Vec<u8> = open.iter().flat_map(record).collect();
        while !open.is_empty() {
            let Some(here) = &mut connection else {
                at = turn.after(at);
                // One that has ended already has a successor soon.
                connection = Client::connect(address, &Caller::ROOT, PATIENCE).ok();
                bytes = open.iter().flat_map(record).collect();
                continue;
            };
            match here.exchange(&std::mem::take(&mut bytes)) {
                Ok(answer) => {
                    let ours = open.iter().position(|(number, _)| *number == xid(answer));
                    let (_, name) = open.swap_remove(ours.expect("an answer to one of ours"));
                    assert_eq!(status(answer), Nfsstat3::OK, "{name}");
                    made.insert(name);
                }
                Err(ClientError::Io(_)) => connection = None,
                Err(error) => panic!("{error}"),
            }
        }
    }
    made
}

const BATCHES: u32 = 600;
const BATCH: u32 = 16;
const CLIENTS: u32 = 8;

#[test]
fn sigterm_answers_what_was_read_and_clients_go_on_at_the_next_daemon_without_an_error() {
    let mut nfsd = Nfsd::start(&["--servers", "3", "--truth"]);
    let mut daemon = site(&nfsd.endpoints()).start();
    let (_, root) = daemon.client();
    let (address, turn) = (daemon.nfs[0], Turn::default());
    turn.next();
    let made: usize = thread::scope(|scope| {
        let (turn, root) = (&turn, &root);
        let run = |client| scope.spawn(move || create_names(address, turn, root, client));
        let clients: Vec<_> = (0..CLIENTS).map(run).collect();
        for _ in 0..2 {
            let created = |nfsd: &mut Nfsd| nfsd.executed("CREATE").iter().sum::<u64>();
            let before = created(&mut nfsd);
            until("there is load", || {
                assert!(!clients.iter().all(ScopedJoinHandle::is_finished), "the load ended before the daemon");
                created(&mut nfsd) >= before + 500
            });
            daemon.signal(Signal::TERM);
            let (status, took) = daemon.ended();
            let drained = daemon.said(" drained ", 1);
            println!("ended after {took:?}: {drained}");
            assert!(status.success() && drained.contains("clients_left=0"), "{status} {drained}");
            daemon.again();
            turn.next();
        }
        clients.into_iter().map(|client| client.join().unwrap().len()).sum()
    });
    assert_eq!(made as u32, CLIENTS * BATCHES * BATCH);
    assert_eq!(nfsd.truth()["doubles"], 0);
}

#[test]
fn a_second_signal_ends_a_drain_and_the_drain_has_its_limit() {
    for second in [true, false] {
        let mut nfsd = Nfsd::start(&["--servers", "1", "--truth"]);
        let more = if second { "" } else { "[limits]\ndrain = \"1s\"" }.to_owned();
        let mut daemon = Site { more, ..site(&nfsd.endpoints()) }.start();
        let (mut client, root) = daemon.client();
        nfsd.tell("fault 0 hang");
        // Words are heard in their order: when this is answered, it hangs.
        nfsd.truth();
        let waits = thread::spawn(move || client.nfs(&create(&root, "never")).is_err());
        daemon.until(0, "asked", |server| server["in_flight"] == 1);
        daemon.signal(Signal::TERM);
        daemon.said(" draining ", 1);
        if second {
            daemon.signal(Signal::TERM);
        }
        let (status, _) = daemon.ended();
        match second {
            true => assert_eq!(status.code(), Some(143)),
            false => {
                let drained = daemon.said(" drained ", 1);
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
    let daemon = site(&nfsd.endpoints()).start();
    let (_, root) = daemon.client();
    let of = |name: &'static str| DirOp { dir: handle(&root), name: name.as_bytes() };
    let calls = [
        create(&root, "a"),
        Call::Rename { from: of("a"), to: of("b") },
        Call::Remove { object: of("b") },
        Call::Mkdir { place: of("d"), attributes: Sattr3::default() },
        Call::Rmdir { object: of("d") },
    ];
    for (number, call) in (77..).zip(&calls) {
        let answer = |number: u32| {
            let mut connection = Client::connect(daemon.nfs[0], &Caller::ROOT, PATIENCE).unwrap();
            connection.exchange(&in_one_fragment(&nfs(number, call))).unwrap().to_vec()
        };
        let (first, second) = (answer(number), answer(number));
        assert_eq!(status(&first), Nfsstat3::OK, "{call:?}");
        assert!(first == second, "{call:?}");
        // Executed again, every one of them would fail.
        assert_ne!(status(&answer(number + 1000)), Nfsstat3::OK, "{call:?}");
    }
}

/// Which server holds data that is not committed.
fn holder(daemon: &Serve) -> usize {
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
    until("its connections are lost", || witness.nfs(&Call::Null).is_err());
}

/// Drain, restart and undrain of the server that holds data that is not committed: of a file that is committed while its server is drained,
/// and of one that is not before its server restarts.
fn drained_and_restarted(daemon: &Serve, mut restart: impl FnMut(usize)) {
    let load = load(daemon, 10);
    let mut early = Writer::create(daemon.client(), "early", 4 << 20);
    early.write();
    let first = holder(daemon);
    let name = |server: usize| daemon.servers()[server]["name"].as_str().unwrap().to_owned();
    daemon.command(&format!("drain {}", name(first)));
    daemon.until(first, "drained", |server| server["health"] == "drained");
    assert_eq!(early.commit(), 0, "a drained server ends what was begun there");
    daemon.until(first, "empty", |server| server["uncommitted"] == 0 && server["in_flight"] == 0);
    let before = daemon.servers()[first]["dispatched"].as_u64().unwrap();
    early.check(&mut daemon.client().0);
    assert_eq!(daemon.servers()[first]["dispatched"].as_u64().unwrap(), before, "nothing new goes to a drained server");
    restart(first);
    daemon.command(&format!("undrain {}", name(first)));
    daemon.until(first, "back", back);

    let mut late = Writer::create(daemon.client(), "late", 4 << 20);
    late.write();
    let second = holder(daemon);
    daemon.command(&format!("drain {}", name(second)));
    restart(second);
    assert_eq!(late.commit(), 1, "its server has lost it, so it is sent again");
    daemon.until(second, "empty", |server| server["uncommitted"] == 0 && server["in_flight"] == 0);
    daemon.command(&format!("undrain {}", name(second)));
    daemon.until(second, "back", back);
    let mut reader = daemon.client().0;
    early.check(&mut reader);
    late.check(&mut reader);
    load.end();
}

#[test]
fn an_embedded_server_is_drained_restarted_and_taken_back_and_no_byte_is_lost() {
    let mut nfsd = Nfsd::start(&["--servers", "3", "--truth"]);
    let daemon = site(&nfsd.endpoints()).start();
    drained_and_restarted(&daemon, |server| crash(&mut nfsd, server));
    assert_eq!(nfsd.truth()["doubles"], 0);
}

#[test]
fn a_real_server_is_drained_restarted_and_taken_back_and_no_byte_is_lost() {
    if !require(Part::Ganesha) {
        return;
    }
    let mut ganesha = Ganesha::start(3, 0);
    let daemon = site(ganesha.heads()).start();
    drained_and_restarted(&daemon, |head| {
        ganesha.kill(head);
        ganesha.restart(head);
    });
}

#[test]
fn a_restart_between_write_and_commit_makes_the_client_send_again() {
    let mut nfsd = Nfsd::start(&["--servers", "3"]);
    let daemon = site(&nfsd.endpoints()).start();
    let mut file = Writer::create(daemon.client(), "file", 4 << 20);
    file.write();
    crash(&mut nfsd, holder(&daemon));
    assert_eq!(file.commit(), 1);
    file.check(&mut daemon.client().0);
}

#[test]
fn events_are_told_as_lines_of_json() {
    let mut nfsd = Nfsd::start(&["--servers", "2"]);
    let daemon = Serve::with(&site(&nfsd.endpoints()).config(), |command| {
        command.args(["--log-format", "json"]);
    });
    let of = |line: String| -> Value { serde_json::from_str(&line).unwrap() };
    assert_eq!(of(daemon.said("\"serving\"", 1))["nfs"], daemon.nfs[0].to_string());
    daemon.rewrite("[\"127.0.0.0/8\"]", "[\"10.0.0.0/8\"]");
    let (_client, root) = daemon.client();
    daemon.signal(Signal::HUP);
    daemon.said("\"reloaded\"", 1);
    daemon.said("connections ended", 1);
    let mut client = Client::connect(daemon.nfs[0], &Caller::ROOT, PATIENCE).unwrap();
    let object = handle(&root);
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
    assert!(readable(socket, PATIENCE), "it says nothing");
    let mut buffer = [0; 1024];
    let length = socket.recv(&mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

#[test]
fn systemd_is_told_of_the_start_the_reload_and_the_end() {
    let (nfsd, scratch) = (Nfsd::start(&["--servers", "1"]), Scratch::new());
    let place = scratch.path().join("notify");
    let socket = UnixDatagram::bind(&place).unwrap();
    let mut daemon = Serve::launch(&site(&nfsd.endpoints()).config(), |command| {
        command.env("NOTIFY_SOCKET", &place).env("WATCHDOG_USEC", "100000");
    });
    let until = |what: &str| loop {
        let said = heard(&socket);
        if said.starts_with(what) {
            return said;
        }
        assert_eq!(said, "WATCHDOG=1", "instead of {what}");
    };
    until("READY=1\n");
    until("WATCHDOG=1");
    daemon.signal(Signal::HUP);
    assert!(until("RELOADING=1\n").contains("\nMONOTONIC_USEC="));
    until("READY=1\n");
    daemon.signal(Signal::TERM);
    until("STOPPING=1\n");
    assert!(daemon.ended().0.success());
}

#[test]
fn paper_starts_with_the_targets_of_the_daemon_before_it_and_a_broken_state_is_ignored() {
    let nfsd = Nfsd::start(&["--servers", "2"]);
    let mut daemon = site(&nfsd.endpoints()).start();
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
        assert!(daemon.client().0.nfs(&Call::Null).is_ok());
    }
}
