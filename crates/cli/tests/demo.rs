//! `midas demo` and `midas sim live`: the wire in one process, with nothing left behind.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::Scratch;
use rustix::process::{Pid, test_kill_process_group};
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

/// Runs `midas` in an empty directory, as the leader of a group of processes: neither may hold anything afterwards.
fn alone(arguments: &str) -> Output {
    let scratch = Scratch::new();
    let child = Command::new(env!("CARGO_BIN_EXE_midas"))
        .args(arguments.split_whitespace())
        .current_dir(scratch.path())
        .envs(["HOME", "TMPDIR"].map(|name| (name, scratch.path())))
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let group = Pid::from_child(&child);
    let output = child.wait_with_output().unwrap();
    assert!(test_kill_process_group(group).is_err(), "a process outlived midas {arguments}");
    let left: Vec<_> = scratch.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "midas {arguments} left {left:?}");
    output
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Half of all calls are in one directory: static placement cannot but put them on one server, whatever the machine does.
#[test]
fn a_hot_directory_is_on_one_server_by_static_placement_and_on_all_with_midas() {
    let output = alone("demo --duration 3s --json");
    assert!(output.status.success(), "{output:?}");
    let report = json(&output);
    let [placed, midas] = report["arms"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!((&placed["policy"], &midas["policy"]), (&"hash-directory".into(), &"first-fit".into()));
    let imbalance = |arm: &Value| arm["imbalance"].as_f64().unwrap();
    assert!(imbalance(placed) > 1.8 && imbalance(midas) < 0.8 * imbalance(placed), "{report}");
    for arm in [placed, midas] {
        let calls: Vec<u64> = arm["calls_per_server"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        assert_eq!(calls.len(), 4);
        assert_eq!(Some(calls.iter().sum()), arm["calls"].as_u64(), "each call was executed once: {report}");
    }
}

#[test]
fn the_demo_prints_one_table_with_both_rows_and_says_what_to_do_next() {
    let output = alone("demo --duration 1s");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let row = |name: &str, policy: &str| {
        text.lines().any(|line| line.starts_with(name) && line.contains(policy) && line.contains("  "))
    };
    assert!(row("static placement", "hash-directory") && row("MIDAS", "first-fit"), "{text}");
    assert!(text.contains("Next") && text.contains("midas serve"), "{text}");
}

/// A short run: whether the two agree is for `make live-vs-sim`, that the exit code says what the rows say is for here.
#[test]
fn the_wire_and_the_simulator_stand_side_by_side_and_the_exit_code_tells() {
    let output = alone("sim live --duration 4s --seeds 1 --service const:20ms --policy rr-directory,first-fit --json");
    let report = json(&output);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(
        rows.iter().map(|row| row["policy"].as_str().unwrap()).collect::<Vec<_>>(),
        ["rr-directory", "first-fit"]
    );
    for row in rows {
        assert_eq!((&row["failed"], &row["sim"]["calls"]), (&0.into(), &row["wire"]["calls"]), "{row}");
        let queue = |side: &str| row[side]["mean_queue"].as_f64().unwrap();
        let off = (queue("wire") / queue("sim") - 1.0).abs();
        assert_eq!(row["agrees"], off <= report["tolerance"].as_f64().unwrap(), "{row}");
    }
    let agree = rows.iter().all(|row| row["agrees"] == true);
    assert_eq!(output.status.code(), Some(i32::from(!agree)), "{output:?}");
}

/// A short run: that load shares make the difference is for `make live-cluster`, that the arms are played in full and judged is for here.
#[test]
fn one_proxy_and_three_with_and_without_shares_are_played_and_the_exit_code_tells() {
    let output = alone("sim live --duration 4s --seeds 1 --servers 4 --proxies 3 --policy first-fit --json");
    let report = json(&output);
    let rows = report["rows"].as_array().unwrap();
    let arm = |row: &serde_json::Value| (row["proxies"].as_u64().unwrap(), row["shares"].as_bool().unwrap());
    assert_eq!(rows.iter().map(arm).collect::<Vec<_>>(), [(1, true), (3, true), (3, false)]);
    for row in rows {
        assert_eq!((&row["failed"], &row["sim"]["calls"]), (&0.into(), &row["wire"]["calls"]), "{row}");
        let queue = |row: &serde_json::Value| row["wire"]["mean_queue"].as_f64().unwrap();
        let off = (queue(row) / queue(&rows[0]) - 1.0).abs();
        assert_eq!(row["holds"], (off <= report["tolerance"].as_f64().unwrap()) == arm(row).1, "{row}");
    }
    let hold = rows.iter().all(|row| row["holds"] == true);
    assert_eq!(output.status.code(), Some(i32::from(!hold)), "{output:?}");
}

#[test]
fn what_cannot_be_played_is_refused_in_one_line() {
    support::impossible(&[
        ("demo --duration 2m", "1s..60s"),
        ("demo --duration soon", "--duration"),
        ("sim live --policy jsq", "jsq"),
        ("sim live --seeds 0", "--seeds"),
        ("sim live --proxies 17", "--proxies"),
        ("sim live --workload hot:2", "hot:S"),
        ("sim live --workload spotify", "lookups and creates"),
    ]);
}
