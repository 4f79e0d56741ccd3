//! Two proxies and a witness: they agree, and one that is lost is missed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::{Scratch, loopback, until};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use support::midas;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};

/// What one daemon says of its cluster; null if it does not answer yet.
fn cluster(daemon: &Serve) -> Value {
    let output = midas(&format!("cluster --json --socket {}", daemon.socket().display()));
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

fn metrics(daemon: &Serve) -> String {
    let mut stream = UnixStream::connect(daemon.socket()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: midas\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
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
    let first = u32::from(loopback(3, &[PORT]));
    let at = |member: u32| format!("{}:{PORT}", Ipv4Addr::from(first + member));
    let site = |member: u32| Site {
        more: format!(
            "[cluster]\nname = \"test\"\nlisten = \"{}\"\nme = \"{}\"\nkey_file = \"{}\"\nsuspect_after = \"2s\"\n\
             members = [\"a={}\", \"b={}\", \"w={} witness\"]\n",
            at(member),
            ["a", "b", "w"][member as usize],
            key.display(),
            at(0),
            at(1),
            at(2)
        ),
        ..Site::of(&nfsd.endpoints())
    };
    let (a, b) = (site(0).start(), site(1).start());
    let w = Serve::launch(&site(2).config(), |command| {
        command.arg("--witness");
    });
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

const PORT: u16 = 7049;
