//! The command line's manners: one line on stderr for what is impossible, nothing but rows where a script reads.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use midas_lab::Scratch;
use serde_json::Value;
use std::path::PathBuf;
use support::{impossible, midas, rows, text};

/// What was typed, and what its one line must name.
const IMPOSSIBLE: [(&str, &str); 43] = [
    ("frob", "possible: bench, history, sim"),
    ("sim frob", "possible: list, run, compare"),
    ("sim run --bogus", "unexpected argument '--bogus'"),
    ("sim run --servers 0", "1..1024"),
    ("sim run --servers 1025", "1..1024"),
    ("sim run --servers x", "--servers"),
    ("sim run --workers 0", "1..1024"),
    ("sim run --proxies 0", "1..64"),
    ("sim run --proxies 65", "1..64"),
    ("sim run --policy fastest", "rr, rr-client, rr-directory, hash-directory"),
    ("sim run --policy paper:x=y", "key=directory|object"),
    ("sim compare --policy rr,,jsq", "unknown policy ''"),
    ("sim run --workload zipfian", "uniform zipf:S hot:S bursts"),
    ("sim run --workload zipf:9", "a number from 0 to 5"),
    ("sim run --service gauss:1ms", "const:T, exp:T, lognormal:T, bimodal:T"),
    ("sim run --service const:0s", "above 0 and at most 60s"),
    ("sim run --rtt 5", "ns, us, ms, s, m, h"),
    ("sim run --rtt 11s", "at most 10s"),
    ("sim run --duration 0s", "above 0 and at most 24h"),
    ("sim run --duration 25h", "above 0 and at most 24h"),
    ("sim run --load 0", "above 0 and at most 4"),
    ("sim run --load nan", "above 0 and at most 4"),
    ("sim run --directories 0", "1..1048576"),
    ("sim run --files 0", "1..1048576"),
    ("sim run --write-share 2", "0..1"),
    ("sim run --seeds 0", "1..100000"),
    ("sim run --seed 18446744073709551615 --seeds 2", "--seed"),
    ("sim run --slow 2", "K:FACTOR"),
    ("sim run --slow 9:2", "0..8"),
    ("sim run --slow 1:0", "0.01..1000"),
    ("sim run --failing 9", "0..8"),
    ("sim run --loss 1", "0..1"),
    ("sim run --share-loss -0.5", "0..1"),
    ("sim run --share-interval 5ms", "at least 2"),
    ("sim run --proxies 2 --share-interval soon", "auto, off or a time"),
    ("sim run --cache fast", "off, strict, lease, ttl, immutable"),
    ("sim run --stale-target 0.1", "--cache ttl"),
    ("sim run --cache ttl --stale-target 2", "between 0 and 1"),
    ("sim run --cache ttl --estimator guess", "object, paper"),
    ("sim run --bypass-rate 5", "needs a cache"),
    ("sim run --csv", "--csv <FILE>"),
    ("sim scenarios --dir crates", "a .toml file"),
    ("sim hazard --entries 5", "1000..1000000000"),
];

#[test]
fn what_is_impossible_is_said_in_one_line_that_names_what_is_possible() {
    impossible(&IMPOSSIBLE);
}

#[test]
fn a_bad_scenario_is_named_with_its_line() {
    let scratch = Scratch::new();
    let dir = scratch.path();
    for (text, named) in [
        ("workload = \"uniform\"\nsevers = 3\n", "bad.toml:2"),
        ("servers = 5000\n", "bad.toml: --servers must be in 1..1024"),
        ("servers = \n", "bad.toml:1"),
    ] {
        std::fs::write(dir.join("bad.toml"), text).unwrap();
        let output = midas(&format!("sim scenarios --dir {}", dir.display()));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(named), "{said}");
    }
}

#[test]
fn a_row_has_every_key_and_a_pipe_sees_no_progress() {
    let keys = [
        "policy",
        "workload",
        "service",
        "servers",
        "proxies",
        "load",
        "seed",
        "mean_queue",
        "worst_queue",
        "dispersion",
        "latency_mean_ms",
        "latency_p50_ms",
        "latency_p99_ms",
        "latency_p999_ms",
        "steered_share",
        "bad_move_share",
        "bad_move_share_reads",
        "servers_per_directory",
        "cache_hit_share",
        "stale_share",
        "digest",
    ];
    for command in ["run", "compare"] {
        let typed = format!("sim {command} --policy rr,first-fit --seeds 3 --duration 5s");
        let found = rows(&typed).0;
        assert_eq!(found.len(), 6, "one row a seed and policy");
        for row in &found {
            for key in keys {
                assert!(row.get(key).is_some_and(|v| !v.is_null()), "{key} is missing");
            }
        }
        assert!(midas(&typed).stderr.is_empty());
    }
}

#[test]
fn every_command_explains_itself() {
    let help = text("sim --help");
    let listed = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let commands: Vec<&str> = listed
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(
        ["list", "run", "compare", "paper", "theory", "hazard", "scenarios"].iter().all(|name| commands.contains(name)),
        "{help}"
    );
    for command in commands.into_iter().filter(|name| *name != "help") {
        assert!(text(&format!("sim {command} --help")).contains("Usage: midas sim"), "{command}");
    }
    for typed in ["--help", "--version", "sim list"] {
        assert!(!text(typed).is_empty());
    }
}

#[test]
fn files_hold_the_rows_that_are_printed() {
    let scratch = Scratch::new();
    let (csv, out) = (scratch.path().join("rows.csv"), scratch.path().join("out/deep"));
    let files = format!("--csv {} --out {}", csv.display(), out.display());
    let printed = rows(&format!("sim run --policy paper:key=object,pin=free,rr --duration 2s {files}")).0;
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    let saved: Value = serde_json::from_str(&read(out.join("rows.json"))).unwrap();
    assert_eq!(saved["rows"].as_array(), Some(&printed));
    assert_eq!(read(csv.clone()), read(out.join("rows.csv")));
    assert_eq!(read(csv).lines().count(), 3);
    assert!(read(out.join("table.txt")).contains("mean queue"));
}

#[test]
fn a_file_that_cannot_be_written_fails_in_one_line() {
    for typed in ["--csv nowhere/rows.csv", "--out Makefile"] {
        let output = midas(&format!("sim run --duration 1s {typed}"));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        assert!(output.stdout.is_empty());
    }
}
