//! The cache's bound on memory (issue 5): while names are looked up that nobody asked for before and that are not there, resident memory
//! stays under the bound plus a stated base, and a hot set keeps its share of hits.
//!
//! A million names here, ten million where there is time (`make soak`). The hot set is asked for by GETATTR and the scan by LOOKUP, so
//! that the servers' own counts tell the misses of the one from those of the other.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};

#[test]
fn a_scan_of_names_fills_no_more_memory_than_it_may_and_leaves_the_hot_set_alone() {
    let (names, long) =
        if std::env::var_os("MIDAS_SOAK").is_some() { (10_000_000, "300s") } else { (1_000_000, "20s") };
    let mut nfsd = Nfsd::start(&["--memory", "--truth"]);
    // An entry that grows too old is a miss that no scan has made.
    let export = "mode = \"lease\"\nwriters = \"midas-only\"\nlease_age_max = \"1h\"\n";
    let more = "[cache]\nmemory = \"64MiB\"\n".to_owned();
    let proxy = Site { export, more, ..Site::of(&nfsd.endpoints()) }.start();
    let alone = hot_share(&proxy, &mut nfsd, "20s", |_| {});
    let during = hot_share(&proxy, &mut nfsd, long, |nfsd| {
        let (before, mut scanned) = (lookups(nfsd), 0);
        for _ in 0..names / LEAST_A_RUN {
            assert!(bench(&proxy, SCAN).wait().unwrap().success(), "the scan went on");
            scanned = lookups(nfsd) - before;
            if scanned >= names {
                eprintln!("{scanned} names were looked up");
                return;
            }
        }
        panic!("{scanned} names were looked up");
    });
    let (_, highest) = proxy.memory();
    eprintln!("hits: {alone:.4} alone, {during:.4} during the scan; at most {} MiB resident", highest >> 20);
    assert!(highest <= (64 << 20) + BASE, "{} MiB resident", highest >> 20);
    assert!(during >= alone - 0.05, "hits: {alone} alone, {during} during the scan");
    assert!(alone > 0.5, "the hot set is answered from the cache at all: {alone}");
}

/// The share of a hot set's GETATTRs that no server saw, from before something is done until after it.
fn hot_share(proxy: &Serve, nfsd: &mut Nfsd, span: &str, then: impl FnOnce(&mut Nfsd)) -> f64 {
    let before: u64 = nfsd.executed("GETATTR").iter().sum();
    let mut hot = bench(proxy, &format!("{HOT_NAMES} --op getattr --depth 8 --duration {span}"));
    then(nfsd);
    // Otherwise it was not there all the time.
    assert!(!midas_lab::readable(hot.stdout.as_ref().unwrap(), Duration::ZERO), "the hot set's load ended too early");
    let report: Value = serde_json::from_reader(hot.stdout.take().unwrap()).unwrap();
    hot.wait().unwrap();
    let missed = nfsd.executed("GETATTR").iter().sum::<u64>() - before;
    let answered = report["cells"][0]["arms"][0]["counts"]["answered"].as_u64().unwrap();
    1.0 - missed as f64 / answered as f64
}

fn lookups(nfsd: &mut Nfsd) -> u64 {
    nfsd.executed("LOOKUP").iter().sum()
}

fn bench(proxy: &Serve, load: &str) -> Child {
    let at = format!("{}/scratch?mount={}", proxy.nfs[0], proxy.mount[0].port());
    let mut command = Command::new(env!("CARGO_BIN_EXE_midas"));
    command.arg("bench").arg(at).args(load.split_whitespace()).arg("--json");
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Names of a directory lie in one part of the cache: many directories use all of it.
const HOT_NAMES: &str = "--directories 256 --files 16";
const SCAN: &str = "--directories 256 --files 1 --op scan --depth 64 --connections 4 --warmup 0s --duration 4s";
/// Names that a run of the scan looks up at least, however slow the machine is.
const LEAST_A_RUN: u64 = 10_000;
/// What the daemon takes besides, as measured in strict mode, where nothing is cached: 9 MiB at its start, and 38 MiB after three hot sets
/// were made and removed, most of it answers to mutations that are kept for clients who ask again.
const BASE: u64 = 40 << 20;
