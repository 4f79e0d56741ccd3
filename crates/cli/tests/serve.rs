//! `midas serve` between real clients and real servers.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_conformance::{Difference, diff, faults, run};
use midas_lab::{Ganesha, Guest, Part, Scratch, nfs_cat, nfs_cp, nfs_ls, require, until};
use std::fs;
use support::load::Rounds;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};
use support::target;

#[test]
fn the_kernel_clients_calls_are_spread_over_all_servers() {
    if !require(Part::KernelClient) {
        return;
    }
    let mut nfsd = Nfsd::start(&["--servers", "3", "--truth"]);
    let proxy = Serve::start(&nfsd.endpoints());
    Guest::of(&proxy.endpoint()).scenario("basic").option("nconnect=4").run().expect_all_ok();
    let truth = nfsd.truth();
    for server in truth["servers"].as_array().unwrap() {
        let calls: u64 = server["calls"].as_object().unwrap().values().filter_map(serde_json::Value::as_u64).sum();
        println!("{calls} calls: {server}");
        assert!(calls > 20, "{truth}");
    }
    assert_eq!(truth["doubles"], 0);
}

#[test]
fn libnfs_copies_lists_and_reads_through_it() {
    if !(require(Part::Ganesha) && require(Part::Libnfs)) {
        return;
    }
    let ganesha = Ganesha::start(3, 0);
    let proxy = Serve::start(ganesha.heads());
    let (server, scratch) = (proxy.endpoint(), Scratch::new());
    let local = scratch.path().join("local");
    let content: Vec<u8> = (0..5_000_000_u32).map(|i| (i * 7 / 3) as u8).collect();
    fs::write(&local, &content).unwrap();
    let copied = nfs_cp(&local.display().to_string(), &server.url("/copy"));
    assert!(copied.status.success(), "{copied:?}");
    assert!(fs::read(ganesha.export().join("copy")).unwrap() == content, "what arrived is what was sent");
    assert!(nfs_cat(&server, "/copy").stdout == content);
    assert!(String::from_utf8_lossy(&nfs_ls(&server, "").stdout).contains("copy"));
}

/// Two files may have different write verifiers here: theirs is composed of their servers' (RFC 1813, 3.3.7 asks only that it
/// changes when data may be lost). Nothing else may differ.
#[test]
fn the_script_gives_the_same_results_through_it_as_directly() {
    let nfsd = Nfsd::start(&["--servers", "3", "--export", "/scratch"]);
    let proxy = Serve::start(&nfsd.endpoints());
    let directly = run(&target(&nfsd.endpoint(0)));
    let through = run(&target(&proxy.endpoint()));
    let differences = diff(&directly, &through);
    let told = differences.iter().filter(|difference| difference.fact != "verf").map(ToString::to_string);
    assert_eq!(told.collect::<Vec<_>>().join("\n"), "");
}

/// What the proxy answers itself (MOUNT, refusals of RPC) differs from Ganesha as our servers do, and its write verifiers are composed.
/// All the rest is Ganesha's; of several heads, see [`of_several_heads`].
#[test]
fn the_script_gives_the_same_results_over_ganesha_as_at_ganesha() {
    if !require(Part::Ganesha) {
        return;
    }
    let ganesha = Ganesha::start(3, 0);
    let proxy = Serve::start(ganesha.heads());
    let directly = run(&target(&ganesha.heads()[0]));
    let differences = diff(&directly, &run(&target(&proxy.endpoint())));
    println!("{} steps, {} differences, all allowed", directly.0.len(), differences.len());
    let mut told = faults(&differences);
    told.retain(|difference| difference.fact != "verf" && !of_several_heads(difference));
    assert_eq!(told.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), "");
}

/// What heads of Ganesha 4.3 over one file system do without a proxy, too (crates/cli/tests/lab.rs shows the first two): a
/// removed file is not stale at any head as long as one of them has it open, a head that knew a directory's parent does not
/// see that another head moved it, and none but its maker knows a device or socket.
fn of_several_heads(difference: &Difference) -> bool {
    let among = |value: &Option<String>, values: &[&str]| value.as_deref().is_some_and(|value| values.contains(&value));
    let open = difference.fact == "status"
        && among(&difference.first, &["STALE"])
        && among(&difference.second, &["OK", "NOENT"]);
    let parent = difference.step == "its parent is the other directory";
    open || parent || ["device", "socket"].iter().any(|special| difference.step.contains(special))
}

/// Calls that all servers have executed.
fn served(nfsd: &mut Nfsd) -> u64 {
    let truth = nfsd.truth();
    let calls = |server: &serde_json::Value| -> u64 {
        server["calls"].as_object().unwrap().values().filter_map(serde_json::Value::as_u64).sum()
    };
    truth["servers"].as_array().unwrap().iter().map(calls).sum()
}

/// Calls that wait at one server.
fn waiting(nfsd: &mut Nfsd, server: usize) -> u64 {
    nfsd.truth()["servers"][server]["queue"].as_u64().unwrap()
}

#[test]
fn two_daemons_with_one_configuration_draw_differently_and_so_do_their_exports() {
    let (nfsd, second) = (Nfsd::start(&["--servers", "2"]), Nfsd::start(&["--export", "/other"]));
    let address = second.addresses[0];
    let more = format!(
        "[[pool]]\nname = \"other\"\nservers = \"{address}\"\n\
         [[export]]\npath = \"/other\"\npool = \"other\"\nclients = [\"127.0.0.0/8\"]\n[log]\nlevel = \"debug\"\n"
    );
    let site = Site { more, ..Site::of(&nfsd.endpoints()) };
    // Proxies that draw alike steer the same calls to the same servers at the same time.
    let daemons: Vec<Serve> = (0..2).map(|_| site.start()).collect();
    let seeds = daemons.iter().flat_map(|daemon| {
        ["/scratch", "/other"].map(|export| {
            let line = daemon.said(&format!("seeded export={export}"), 1);
            line.split_once("seed=").unwrap().1.to_owned()
        })
    });
    let seeds: std::collections::BTreeSet<String> = seeds.collect();
    assert_eq!(seeds.len(), 4, "{seeds:?}");
}

#[test]
fn servers_go_down_hang_and_restart_and_clients_see_no_error_and_nothing_runs_twice() {
    let mut nfsd = Nfsd::start(&["--servers", "3", "--truth"]);
    let proxy = Serve::start(&nfsd.endpoints());
    let load = Rounds::start(&proxy, "--workload zipf:1.1 --depth 8 --connections 8 --timeout 30s");
    let mut done = served(&mut nfsd);
    for command in ["fault 1 down", "fault 1 none", "fault 2 hang", "fault 2 none", "drop 0", "restart 0"] {
        // What came before has been lived through: calls wait where the server hangs, and go on everywhere else.
        until("calls are served", || {
            load.goes_on();
            served(&mut nfsd) >= done + 2000
        });
        nfsd.tell(command);
        if command.ends_with("hang") {
            until("a call meets the hanging server", || {
                load.goes_on();
                waiting(&mut nfsd, 2) > 0
            });
        }
        done = if command.ends_with("hang") { 0 } else { served(&mut nfsd) };
    }
    load.end();
    assert_eq!(nfsd.truth()["doubles"], 0);
}
