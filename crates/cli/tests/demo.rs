//! `midas demo` and `midas sim live`: the wire in one process, with nothing left behind.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::Scratch;
use midas_net::{Caller, Client};
use rustix::process::{Pid, Signal, kill_process, test_kill_process_group};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use support::lines::Lines;

/// `midas` in an empty directory, as the leader of a group of processes: neither may hold anything afterwards.
struct Alone {
    child: Child,
    scratch: Scratch,
    arguments: String,
}

impl Alone {
    fn start(arguments: &str) -> Self {
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
        Self { child, scratch, arguments: arguments.to_owned() }
    }

    /// What it says, as it comes.
    fn lines(&mut self) -> Lines {
        Lines::of(self.child.stdout.take().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(self) -> Output {
        let Self { child, scratch, arguments } = self;
        let group = Pid::from_child(&child);
        let output = child.wait_with_output().unwrap();
        assert!(test_kill_process_group(group).is_err(), "a process outlived midas {arguments}");
        let left: Vec<_> = scratch.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "midas {arguments} left {left:?}");
        output
    }
}

fn alone(arguments: &str) -> Output {
    Alone::start(arguments).end()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The first address behind `http://` in a line.
fn address(line: &str) -> SocketAddr {
    let behind = line.split_once("http://").unwrap_or_else(|| panic!("no address in '{line}'")).1;
    behind.split('/').next().unwrap().parse().unwrap_or_else(|error| panic!("'{line}': {error}"))
}

fn answers_http(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /api/v1/status HTTP/1.1\r\nHost: midas\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The claim: with the same seed and the same calls, the storm's worst queue and its tail at the servers fall by half and more from static
/// placement to MIDAS without its cache. Service times are kept exactly by the servers, whatever else the machine does.
#[test]
fn the_storms_worst_queue_and_its_tail_at_the_servers_fall_by_half_and_every_policy_is_shown() {
    let output = alone("demo --seconds 20 --json");
    assert!(output.status.success(), "{output:?}");
    let report = json(&output);
    let arms = report["arms"].as_array().unwrap();
    let names: Vec<&str> = arms.iter().map(|arm| arm["arm"].as_str().unwrap()).collect();
    assert_eq!(names, ["hash-directory", "rr", "paper", "first-fit", "first-fit+cache"]);
    let storm = |arm: usize, figure: &str| arms[arm]["phases"][1][figure].as_f64().unwrap();
    for figure in ["worst_queue", "server_p99_ms"] {
        assert!(storm(3, figure) <= 0.5 * storm(0, figure), "{figure}: {report:#}");
    }
    assert_eq!(report["storm"]["halved"], true, "{report:#}");
    for arm in arms {
        let phases = arm["phases"].as_array().unwrap();
        let shown: Vec<&str> = phases.iter().map(|phase| phase["phase"].as_str().unwrap()).collect();
        assert_eq!(shown, ["calm", "storm", "job start", "checkpoint"]);
        assert_eq!((&arm["total"]["calls"], &arm["total"]["errors"]), (&report["calls"], &0.into()), "{report:#}");
        assert!(phases.iter().all(|phase| phase["client_p99_ms"].as_f64() > Some(0.0)), "{report:#}");
    }
    let sum = |figures: &Value| -> u64 {
        figures["server_calls"].as_array().unwrap().iter().map(|calls| calls.as_u64().unwrap()).sum()
    };
    let calls = report["calls"].as_u64().unwrap();
    // Without a cache every call reaches a server, and few others do.
    for arm in &arms[..4] {
        assert!((calls..calls + calls / 25).contains(&sum(&arm["total"])), "{}: {report:#}", arm["arm"]);
    }
    let job = &arms[4]["phases"][2];
    assert!(sum(job) < job["calls"].as_u64().unwrap() / 4, "a cache asks for every name of a job once: {report:#}");
}

#[test]
fn the_dashboards_address_comes_first_and_the_table_line_by_line() {
    let mut demo = Alone::start("demo --seconds 6 --policy hash-directory,first-fit");
    let lines = demo.lines();
    let page = address(&lines.wait("dashboard: http://127.0.0.1:", 1));
    let answer = answers_http(page);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    lines.wait("hash-directory   storm", 1);
    lines.wait("first-fit        checkpoint", 1);
    lines.wait("midas serve", 1);
    let output = demo.end();
    assert!(output.status.success(), "{output:?}");
    let text = lines.all();
    assert!(text.starts_with("dashboard: "), "{text}");
    assert!(text.contains("The storm, static placement -> MIDAS without cache: worst queue"), "{text}");
    let summed = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!((summed("static placement"), summed("MIDAS")), (2, 2), "{text}");
    assert!(TcpStream::connect(page).is_err(), "the page outlived the demo");
}

#[test]
fn headless_says_where_the_dashboard_is_and_how_it_ended() {
    let output = alone("demo --headless --seconds 4 --policy first-fit --seed 3");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("dashboard: ") && text.contains("\nAll phases:\n"), "{text}");
    assert!(!text.contains("p99 clients  at servers"), "{text}");
}

#[test]
fn interrupted_it_cleans_up_and_says_so() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut demo = Alone::start("demo --seconds 60");
        let lines = demo.lines();
        lines.wait("hash-directory   calm", 1);
        demo.signal(signal);
        let output = demo.end();
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "midas: interrupted\n");
    }
}

#[test]
fn kept_it_goes_on_until_it_is_interrupted_and_that_is_its_end() {
    let mut demo = Alone::start("demo --seconds 4 --policy first-fit --keep");
    let lines = demo.lines();
    let said = lines.wait("until Ctrl-C", 1);
    assert!(answers_http(address(&said)).starts_with("HTTP/1.1 200"));
    demo.signal(Signal::INT);
    let output = demo.end();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_directory_is_served_through_a_proxy_and_left_as_it_was() {
    let served = Scratch::new();
    std::fs::write(served.path().join("hello"), "world").unwrap();
    let mut demo = Alone::start(&format!("demo --dir {} --json", served.path().display()));
    let lines = demo.lines();
    let said: Value = serde_json::from_str(&lines.wait("mount", 1)).unwrap();
    let port = said["port"].as_u64().unwrap() as u16;
    let command = said["mount"].as_str().unwrap();
    assert!(
        command.starts_with(&format!("mount -t nfs -o vers=3,tcp,port={port},mountport={port},nolock ")),
        "{command}"
    );
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    let mut client = Client::connect(at, &Caller::ROOT, Duration::from_secs(30)).unwrap();
    let root = client.mount(b"/").unwrap().root;
    client.walk(&root, b"hello").unwrap();
    midas_lab::create(&mut client, &root, b"new");
    assert!(served.path().join("new").exists(), "what clients make is there");
    assert!(answers_http(address(said["page"].as_str().unwrap())).starts_with("HTTP/1.1 200"));
    demo.signal(Signal::TERM);
    let output = demo.end();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(std::fs::read(served.path().join("hello")).unwrap(), b"world");
    assert_eq!(served.path().read_dir().unwrap().count(), 2, "nothing else is left in it");
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
        ("demo --seconds 9", "11..300"),
        ("demo --seconds soon", "--seconds"),
        ("demo --policy jsq", "jsq"),
        ("demo --dir . --keep", "--keep"),
        ("sim live --policy jsq", "jsq"),
        ("sim live --seeds 0", "--seeds"),
        ("sim live --proxies 17", "--proxies"),
        ("sim live --workload hot:2", "hot:S"),
        ("sim live --workload spotify", "lookups and creates"),
    ]);
}
