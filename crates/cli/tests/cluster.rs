//! Two proxies and a witness: they agree, one that is lost is missed, and one that is cut off or configured otherwise says so.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::{Scratch, common_port, create, loopback, until};
use midas_net::Client;
use midas_nfs::nfs3::{Call, FileHandle, Reply};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use support::members::{Members, cluster};
use support::midas;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};

fn metrics(daemon: &Serve) -> String {
    get(daemon, "/metrics")
}

fn get(daemon: &Serve, path: &str) -> String {
    let mut stream = UnixStream::connect(daemon.socket()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: midas\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Where the first of three members listens; the others have the next addresses and the same port.
fn three() -> SocketAddrV4 {
    let first = loopback(3, &[]);
    SocketAddrV4::new(first, common_port(first, 3))
}

/// The table of two proxies, a and b, and a witness, w, for one of them.
fn table(first: SocketAddrV4, member: u32, key: &Path) -> String {
    let at = |member: u32| SocketAddrV4::new(Ipv4Addr::from(u32::from(*first.ip()) + member), first.port());
    format!(
        "[cluster]\nname = \"test\"\nlisten = \"{}\"\nme = \"{}\"\nkey_file = \"{}\"\nlease = \"1s\"\nsuspect_after = \"2s\"\n\
         members = [\"a={}\", \"b={}\", \"w={} witness\"]\n",
        at(member),
        ["a", "b", "w"][member as usize],
        key.display(),
        at(0),
        at(1),
        at(2)
    )
}

fn witness(site: &Site) -> Serve {
    Serve::launch(&site.config(), |command| {
        command.arg("--witness");
    })
}

fn leased(daemon: &Serve) -> bool {
    let leases = &cluster(daemon)["leases"];
    leases["live_ms"].as_f64().is_some_and(|live| live > 0.0) && leases["blocked"].is_null() && leases["acts"] == true
}

/// Whether the root's attributes came from the proxy's cache.
fn from_cache(nfsd: &mut Nfsd, (client, root): &mut (Client, Vec<u8>)) -> bool {
    let mut asked = || nfsd.executed("GETATTR").iter().sum::<u64>();
    let before = asked();
    for _ in 0..READS {
        let reply = client.nfs(&Call::Getattr { object: FileHandle::new(root).unwrap() }).unwrap();
        assert!(matches!(reply, Reply::Getattr(Ok(_))), "{reply:?}");
    }
    asked() - before < READS
}

fn present(daemon: &Serve) -> u64 {
    cluster(daemon)["present"].as_u64().unwrap_or_default()
}

#[test]
fn two_proxies_and_a_witness_agree_and_go_on_when_one_is_lost() {
    let (nfsd, place) = (Nfsd::start(&["--servers", "2"]), Scratch::new());
    let key = place.path().join("key");
    assert!(midas(&format!("cluster key {}", key.display())).status.success());
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!midas(&format!("cluster key {}", key.display())).status.success(), "a key is not written over");
    let first = three();
    let site = |member: u32| Site { more: table(first, member, &key), ..Site::of(&nfsd.endpoints()) };
    let (a, b, w) = (site(0).start(), site(1).start(), witness(&site(2)));
    until("all three agree", || [&a, &b, &w].into_iter().all(|daemon| present(daemon) == 3));
    let seen = cluster(&a);
    assert_eq!(seen["members"][2]["witness"], true);
    assert_eq!(seen["members"][1]["same_config"], true);
    assert!(seen["leader"].is_string() && seen["in_view"] == true, "{seen}");
    let shown = midas(&format!("cluster --socket {}", a.socket().display()));
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("with 3 of 3 members") && shown.contains("witness"), "{shown}");
    let metrics = metrics(&a);
    for line in [
        "midas_cluster_member_up{member=\"b\"} 1",
        "midas_cluster_member_in_view{member=\"w\"} 1",
        "midas_cluster_in_view 1",
        "midas_cluster_refused_total{reason=\"key\"} 0",
        "midas_cluster_shares_total{way=\"told\"} ",
    ] {
        assert!(metrics.contains(line), "no {line} in:\n{metrics}");
    }
    drop(w);
    until("they go on without the witness", || present(&a) == 2 && present(&b) == 2);
    assert_eq!(cluster(&a)["members"][2]["up"], false);
    drop(b);
    until("the other is seen to be gone", || cluster(&a)["members"][1]["up"] == false);
    assert_eq!(present(&a), 2, "one of three is no majority: no new view");
}

#[test]
fn who_is_cut_off_says_so_on_every_surface_and_lets_calls_without_leases_pass_at_once() {
    let nfsd = Nfsd::start(&["--servers", "2"]);
    let members = Members::start(|| Site::of(&nfsd.endpoints()));
    let (lost, alone) = (&members.daemons[2], "c is cut off from the majority: reads go to the servers");
    assert!(metrics(lost).contains("midas_cluster_cut_off 0") && !lost.command("status").contains(alone));
    let said = |what: &str| until(what, || get(lost, "/api/v1/journal?since=0").contains(what));
    said("lets mutations pass");
    members.cut_off(2);
    until("it knows", || cluster(lost)["cut_off"] == true);
    let seen = cluster(lost);
    assert_eq!((&seen["leases"]["acts"], &seen["present"]), (&Value::from(false), &Value::from(3)), "{seen}");
    for surface in ["cluster", "status", "top --once"] {
        let shown = lost.command(surface);
        assert!(shown.contains(alone), "midas {surface} says:\n{shown}");
    }
    let status: Value = serde_json::from_str(&lost.command("status --json")).unwrap();
    assert_eq!(status["cluster"]["cut_off"], true, "{status}");
    let metrics = metrics(lost);
    assert!(metrics.contains("midas_cluster_cut_off 1") && metrics.contains("midas_cluster_acts 0"), "{metrics}");
    said("is cut off from the majority");
    said("holds mutations back");
    let (mut client, root) = lost.client();
    let start = Instant::now();
    (0..CREATES).for_each(|file| drop(create(&mut client, &root, format!("f{file}").as_bytes())));
    assert!(start.elapsed() < INTENT_WAIT * CREATES / 2, "nobody is there to be waited for: {:?}", start.elapsed());
    members.heal();
    members.whole();
    until("it is cut off no longer", || cluster(lost)["cut_off"] == false);
    said("is cut off no longer");
}

#[test]
fn a_member_whose_writes_hang_is_not_ready_says_why_and_is_ready_again_when_it_is_back() {
    let nfsd = Nfsd::start(&["--servers", "2"]);
    let members = Members::start(|| Site { export: LEASED, ..Site::of(&nfsd.endpoints()) });
    let (lost, near) = (&members.daemons[2], &members.daemons[0]);
    let ask = |daemon: &Serve, what: &str| midas(&format!("ready {what} --socket {}", daemon.socket().display()));
    until("all are ready", || members.daemons.iter().all(|daemon| ask(daemon, "--writes").status.success()));
    assert!(get(lost, "/ready").starts_with("HTTP/1.1 200"));
    members.cut_off(2);
    let why = "writes hang: c is cut off from the majority of its cluster";
    for what in ["", "--writes"] {
        until("it is not ready", || ask(lost, what).status.code() == Some(1));
        let said = String::from_utf8(ask(lost, what).stderr).unwrap();
        assert!(said.contains(why), "midas ready {what}: {said}");
    }
    for path in ["/ready", "/ready?writes"] {
        let answer = get(lost, path);
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains(why), "{path}: {answer}");
    }
    let told: Value = serde_json::from_slice(&ask(lost, "--json").stdout).unwrap();
    assert!(told["error"].as_str().unwrap().contains(why), "{told}");
    // Reads go to the servers.
    assert!(ask(lost, "--reads").status.success() && get(lost, "/ready?reads").starts_with("HTTP/1.1 200"));
    assert!(get(lost, "/ready?all").starts_with("HTTP/1.1 400"));
    for surface in ["status", "top --once"] {
        let shown = lost.command(surface);
        assert!(shown.contains(why), "midas {surface} says:\n{shown}");
    }
    let status: Value = serde_json::from_str(&lost.command("status --json")).unwrap();
    assert_eq!((&status["writes_hang"][0], &status["not_ready"][0]), (&Value::from(why), &Value::from(why)));
    assert!(metrics(lost).contains("midas_writes_ready 0") && metrics(lost).contains("midas_ready 1"));
    members.missed(2);
    until("the others serve writes", || ask(near, "--writes").status.success());
    members.heal();
    members.whole();
    until("it is ready again", || ask(lost, "--writes").status.success());
    assert!(metrics(lost).contains("midas_writes_ready 1"));
}

#[test]
fn members_that_differ_answer_nothing_from_caches_until_they_agree_and_everything_else_goes_on() {
    let (mut nfsd, place) = (Nfsd::start(&["--servers", "2", "--truth"]), Scratch::new());
    let key = place.path().join("key");
    midas_proxy::create_cluster_key(&key).unwrap();
    let first = three();
    let site = |member: u32, clients: &'static str| Site {
        export: LEASED,
        clients,
        more: table(first, member, &key),
        ..Site::of(&nfsd.endpoints())
    };
    let (a, b) = (site(0, ALL).start(), site(1, HALF).start());
    let _w = witness(&site(2, ALL));
    until("both see that they differ", || {
        [&a, &b].into_iter().all(|daemon| cluster(daemon)["leases"]["blocked"].is_string())
    });
    let shown = a.command("cluster");
    assert!(shown.contains("blocked, a member in the view has another configuration"), "{shown}");
    assert!(shown.contains("another configuration: no leases"), "{shown}");
    let (mut near, mut far) = (a.client(), b.client());
    for (number, client) in [&mut near, &mut far].into_iter().enumerate() {
        let (calls, root) = client;
        create(calls, root, format!("f{number}").as_bytes());
        assert!(!from_cache(&mut nfsd, client) && !from_cache(&mut nfsd, client), "reads go to the servers");
    }
    b.rewrite(HALF, ALL);
    b.signal(Signal::HUP);
    until("they hold leases", || leased(&a) && leased(&b));
    until("caches are used again", || from_cache(&mut nfsd, &mut near) && from_cache(&mut nfsd, &mut far));
    let (calls, root) = &mut far;
    create(calls, root, b"together");
}

#[test]
fn with_a_witness_one_proxy_goes_on_with_leases_and_mutations_when_the_other_dies() {
    let (mut nfsd, place) = (Nfsd::start(&["--servers", "2", "--truth"]), Scratch::new());
    let key = place.path().join("key");
    midas_proxy::create_cluster_key(&key).unwrap();
    let first = three();
    let site = |member: u32| Site { export: LEASED, more: table(first, member, &key), ..Site::of(&nfsd.endpoints()) };
    let (a, mut b, _w) = (site(0).start(), site(1).start(), witness(&site(2)));
    until("both hold leases", || present(&a) == 3 && leased(&a) && leased(&b));
    let mut client = a.client();
    b.signal(Signal::KILL);
    b.ended();
    create(&mut client.0, &client.1, b"while it is missed");
    until("the other goes on with the witness", || present(&a) == 2 && leased(&a));
    assert_eq!(cluster(&a)["cut_off"], false);
    create(&mut client.0, &client.1, b"without it");
    until("it answers from its cache", || from_cache(&mut nfsd, &mut client));
}

const LEASED: &str = "mode = \"lease\"\nwriters = \"midas-only\"\nserver_hold_max = \"2s\"\n";
/// Clients of an export: two ways to say everyone who calls here.
const ALL: &str = "\"127.0.0.0/8\"";
const HALF: &str = "\"127.0.0.0/9\"";
const READS: u64 = 20;
const CREATES: u32 = 20;
/// How long a call without leases would wait for members that do not answer.
const INTENT_WAIT: Duration = Duration::from_millis(500);
