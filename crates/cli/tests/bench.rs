//! `midas bench` against `midas bench ceiling`, as a user starts them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use support::{impossible, midas, root, text};

/// A responder that ends with the test.
struct Ceiling {
    child: Child,
    address: String,
}

impl Ceiling {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midas"));
        command.args(["bench", "ceiling", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let address = ready.trim().strip_prefix("midas bench ceiling: ready on ").unwrap().to_owned();
        Self { child, address }
    }
}

impl Drop for Ceiling {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What was typed, and what its one line must name.
const IMPOSSIBLE: [(&str, &str); 27] = [
    ("bench", "which target?"),
    ("bench host", "[NAME=]HOST:PORT[/PATH][?mount=PORT]"),
    ("bench h:1 --targets a=h:1,b=h:2", "cannot be used with"),
    ("bench --targets a=h:1,b=h:2 --slices 3", "at least 7"),
    ("bench --targets a=h:1,a=h:2", "two targets are called 'a'"),
    ("bench --targets a=h:1,b=h:2 --duration 3s", "cannot be used with"),
    ("bench h:1 --op stat", "possible: getattr, lookup, missing"),
    ("bench h:1 --op getattr --workload uniform", "cannot be used with"),
    ("bench h:1 --workload hut", "uniform zipf:S hot:S bursts"),
    ("bench h:1 --workload epoch", "--directories 1000 --files 1000"),
    ("bench h:1 --depth 0", "at least 1"),
    ("bench h:1 --depth one", "numbers separated by commas"),
    ("bench h:1 --depth 1000000 --connections 10", "--depth x --connections"),
    ("bench h:1 --rate 0", "above 0"),
    ("bench h:1 --rate nan", "above 0"),
    ("bench h:1 --rate 5 --arrivals bursty", "poisson or constant"),
    ("bench h:1 --rate 5 --depth 1,2", "one number with --rate"),
    ("bench h:1 --connections 0", "1..10000"),
    ("bench h:1 --threads 65", "1..64"),
    ("bench h:1 --size 0", "1..1048576"),
    ("bench h:1 --files 0", "1..16777216"),
    ("bench h:1 --duration 5", "ns, us, ms, s, m, h"),
    ("bench h:1 --duration 0s", "above 0"),
    ("bench h:1 --timeout 25h", "at most 24h"),
    ("bench h:1 --pin x", "--pin takes numbers"),
    ("bench h:1 --pid other=1", "no target"),
    ("bench ceiling --listen here", "--listen"),
];

#[test]
fn what_is_impossible_is_said_in_one_line_that_names_what_is_possible() {
    impossible(&IMPOSSIBLE);
}

#[test]
fn what_goes_wrong_is_one_line_and_exit_code_1() {
    let free = format!("127.0.0.1:{}", midas_lab::free_port(std::net::Ipv4Addr::LOCALHOST));
    let output = midas(&format!("bench {free}/"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
}

#[test]
fn a_matrix_over_two_targets_gives_medians_and_ratios_as_json() {
    let (one, two) = (Ceiling::start(), Ceiling::start());
    let report: Value = serde_json::from_str(&text(&format!(
        "bench --targets one={}/,two={}/x --op getattr,create --depth 1,16 --slices 7 --slice 30ms --json --pid one={}",
        one.address,
        two.address,
        one.child.id()
    )))
    .unwrap();
    assert_eq!(report["schema"], "midas-bench/1");
    let cells = report["cells"].as_array().unwrap();
    let shape: Vec<(&str, u64)> =
        cells.iter().map(|cell| (cell["load"].as_str().unwrap(), cell["depth"].as_u64().unwrap())).collect();
    assert_eq!(shape, [("getattr", 1), ("getattr", 16), ("create", 1), ("create", 16)]);
    for cell in cells {
        let [one, two] = cell["arms"].as_array().unwrap().as_slice() else { panic!("two arms") };
        assert_eq!((one["target"].as_str(), two["target"].as_str()), (Some("one"), Some("two")));
        assert!(one["ratio"].is_null() && two["ratio"]["answered_per_second"]["median"].as_f64().unwrap() > 0.0);
        assert!(one["slices"][0]["server_cpu"].is_number() && two["slices"][0]["server_cpu"].is_null());
        for arm in [one, two] {
            assert!(arm["summary"]["answered_per_second"]["median"].as_f64().unwrap() > 100.0);
            assert_eq!(arm["counts"]["errors_unexpected"], 0);
            assert_eq!(arm["slices"].as_array().unwrap().len(), 7);
        }
    }
}

#[test]
fn a_person_sees_a_table_and_a_script_that_asks_sees_progress() {
    let ceiling = Ceiling::start();
    let typed = format!(
        "bench {}/ --workload spotify --rate 2000 --duration 500ms --warmup 0s --interval 100ms",
        ceiling.address
    );
    let output = midas(&typed);
    let (told, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{said}");
    for expected in ["spotify: open loop, 2000 calls/s", "procedure", "LOOKUP", "(send delay)", "p99.9"] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    assert!(said.lines().filter(|line| line.contains("calls/s")).count() >= 2, "{said}");
}

#[test]
fn sigterm_ends_a_run_in_good_order() {
    let ceiling = Ceiling::start();
    let mut command = Command::new(env!("CARGO_BIN_EXE_midas"));
    let target = format!("{}/", ceiling.address);
    command.args(["bench", &target, "--duration", "60s", "--interval", "10ms"]).stderr(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("slice 1/1")), "it runs");
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(rest.last().map(String::as_str), Some("midas: interrupted; what was made is removed again"));
}

#[test]
fn the_help_teaches() {
    let help = text("bench --help");
    for expected in
        ["coordinated omission", "use --rate for latency", "Examples:", "midas bench ceiling", "docs/bench.md"]
    {
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(expected), "{expected}");
    }
    assert!(root().join("docs/bench.md").exists());
}
