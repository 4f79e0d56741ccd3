//! Servers that die under load, come back, or do not: clients see a delay, never an error, and nothing runs twice or is lost.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::{Endpoint, Ganesha, PATIENCE, Part, Scratch, readable, require};
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use support::load::Load;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};

/// These tests measure: each has the machine for itself.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A load with its history.
struct Told {
    load: Load,
    history: PathBuf,
    _scratch: Scratch,
    /// CLOCK_MONOTONIC, as the history has it, at the start; and our own clock then.
    start: (u64, Instant),
}

impl Told {
    fn start(proxy: &Serve, load: &str, duration: Duration) -> Self {
        let scratch = Scratch::new();
        let history = scratch.path().join("history");
        File::create(&history).unwrap();
        let (seconds, file) = (duration.as_secs(), history.display());
        let options = format!("{load} --duration {seconds}s --timeout 60s --history {file}");
        let start = (monotonic(), Instant::now());
        Self { load: Load::start(proxy, &options), history, _scratch: scratch, start }
    }

    /// Waits until so many more calls have ended: what is to happen next then happens under load.
    fn wait(&self, calls: usize) {
        let mut growth = File::from(init(CreateFlags::CLOEXEC).unwrap());
        add_watch(&growth, &self.history, WatchFlags::MODIFY).unwrap();
        let mut file = File::open(&self.history).unwrap();
        // What was there before does not count.
        file.seek(SeekFrom::End(0)).unwrap();
        let mut seen = 0;
        while seen < calls {
            assert!(readable(&growth, PATIENCE), "no call ends");
            let _event = growth.read(&mut [0; 1024]).unwrap();
            seen += new_lines(&mut file);
        }
        self.load.goes_on();
    }

    fn now(&self) -> u64 {
        self.start.0 + self.start.1.elapsed().as_nanos() as u64
    }

    /// Goes on for so long, and long enough for calls to have ended.
    fn run(&self, span: Duration) {
        let until = Instant::now() + span;
        self.wait(1000);
        self.load.goes_on_for(until.saturating_duration_since(Instant::now()));
    }

    /// When every call began and ended; no client may have seen an error.
    fn end(self) -> Vec<Span> {
        self.load.end();
        let lines = BufReader::new(File::open(self.history).unwrap()).lines();
        lines.map(|line| Span::of(&line.unwrap())).collect()
    }
}

/// A call of the history.
struct Span {
    creates: bool,
    intended: u64,
    finished: u64,
}

impl Span {
    /// There are millions of lines: only what is wanted of them is read.
    fn of(line: &str) -> Self {
        let number = |name: &str| {
            let digits = line.split(name).nth(1).unwrap();
            digits.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
        };
        let creates = line.contains("\"procedure\":\"CREATE\"");
        Self { creates, intended: number("\"intended\":"), finished: number("\"finished\":") }
    }
}

fn new_lines(file: &mut File) -> usize {
    let mut text = Vec::new();
    file.read_to_end(&mut text).unwrap();
    String::from_utf8_lossy(&text).matches('\n').count()
}

fn monotonic() -> u64 {
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    let seconds: f64 = uptime.split_whitespace().next().unwrap().parse().unwrap();
    (seconds * 1e9) as u64
}

fn took(call: &Span) -> Duration {
    Duration::from_nanos(call.finished - call.intended)
}

fn proxy(servers: &[Endpoint], failover_after: &str) -> Serve {
    let pool = format!("failover_after = \"{failover_after}\"\nprobe_interval = \"200ms\"\nprobe_timeout = \"1s\"\n");
    // Shorter than a call waits for its server: what was cut off cannot run any more when it is sent again.
    Site { pool, export: "server_hold_max = \"1s\"\n", ..Site::of(servers) }.start()
}

/// The p99 of calls that began in this second half of a second, in ms; none if nearly none did.
fn p99(calls: &[Span], from: u64, to: u64) -> Option<f64> {
    let begun = |call: &&Span| (from..to).contains(&call.intended);
    let mut spans: Vec<Duration> = calls.iter().filter(begun).map(took).collect();
    spans.sort_unstable();
    (spans.len() >= 100).then(|| spans[spans.len() * 99 / 100].as_secs_f64() * 1e3)
}

#[test]
fn a_server_that_crashes_and_comes_back_costs_no_error_and_soon_no_time() {
    let _turn = alone();
    if !require(Part::Ganesha) {
        return;
    }
    let mut ganesha = Ganesha::start(3, 0);
    let proxy = proxy(ganesha.heads(), "30s");
    let load = Told::start(&proxy, MIXED, Duration::from_secs(60));
    let mut crashes = Vec::new();
    for head in [1, 2] {
        load.run(Duration::from_secs(8));
        crashes.push(load.now());
        ganesha.kill(head);
        load.run(Duration::from_secs(8));
        ganesha.restart(head);
    }
    let calls = load.end();
    for crash in crashes {
        let window = |at: u64| p99(&calls, at, at + HALF_SECOND);
        let before: Vec<f64> = (1..=6).filter_map(|step| window(crash - step * HALF_SECOND)).collect();
        let after: Vec<f64> = (4..10).filter_map(|step| window(crash + step * HALF_SECOND)).collect();
        println!(
            "p99 by half seconds: the last before a crash {before:.1?} ms, from two seconds after it {after:.1?} ms"
        );
        assert!(before.len() >= 4 && after.len() >= 4, "there was no load to measure");
        // A few milliseconds more are the machine's.
        assert!(median(after) < 2.0 * median(before) + 20.0);
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn a_server_that_crashes_for_good_delays_every_call_by_failover_after_at_most() {
    let _turn = alone();
    if !require(Part::Ganesha) {
        return;
    }
    let ganesha = Ganesha::start(3, 0);
    let proxy = proxy(ganesha.heads(), "5s");
    let load = Told::start(&proxy, MIXED, Duration::from_secs(15));
    load.run(Duration::from_secs(4));
    let crash = load.now();
    ganesha.kill(0);
    let calls = load.end();
    let longest = calls.iter().map(took).max().unwrap();
    let waited = calls.iter().filter(|call| took(call) > Duration::from_secs(3)).count();
    // What a busy machine makes of a call without any crash.
    let usual = calls.iter().filter(|call| call.finished < crash).map(took).max().unwrap();
    println!("the longest call took {longest:?}, before the crash {usual:?}; {waited} waited for the server in vain");
    assert!(waited > 0, "no call was perhaps executed: the test shows nothing");
    // Two heads carry then what three did.
    assert!(longest <= Duration::from_millis(5500) + 2 * usual, "{longest:?}");
}

/// Three embedded servers that keep the truth, under a load, with two things that happen to the second one: the calls, and how many
/// CREATEs were executed.
fn counted(load: &str, first: &str, second: Option<&str>) -> (Vec<Span>, u64) {
    let mut nfsd = Nfsd::start(&["--servers", "3", "--truth", "--service", "const:1ms", "--export", "/scratch"]);
    let proxy = proxy(&nfsd.endpoints(), "4s");
    let load = Told::start(&proxy, load, Duration::from_secs(5));
    load.wait(1000);
    nfsd.tell(first);
    load.wait(500);
    if let Some(second) = second {
        nfsd.tell(second);
    }
    let calls = load.end();
    let truth = nfsd.truth();
    let longest = calls.iter().map(took).max().unwrap();
    println!("{first}, {second:?}: the longest call took {longest:?}, {truth}");
    assert!(longest < Duration::from_secs(20), "far more than failover_after, even on a slow machine: {longest:?}");
    assert_eq!((&truth["doubles"], &truth["uncompared"]), (&Value::from(0), &Value::from(0)), "{first}: {truth}");
    (calls, nfsd.executed("CREATE").iter().sum())
}

const EVENTS: [(&str, Option<&str>); 3] = [
    ("restart 1", None),
    ("fault 1 down", Some("fault 1 none")),
    // Executed, and not answered, and then gone for good.
    ("fault 1 half-reply", Some("fault 1 down")),
];

#[test]
fn on_servers_that_count_nothing_is_executed_twice_and_nothing_is_lost() {
    let _turn = alone();
    for (first, second) in EVENTS {
        let load = "--op create --connections 16 --depth 8 --directories 4 --files 1";
        let (calls, executed) = counted(load, first, second);
        // The load makes four files before it begins.
        let made = 4 + calls.iter().filter(|call| call.creates).count() as u64;
        assert_eq!(executed, made, "{first}: every CREATE that was answered was executed once");
    }
}

#[test]
fn renames_and_removals_are_not_executed_twice_either() {
    let _turn = alone();
    for (first, second) in EVENTS {
        counted("--workload spotify --connections 16 --depth 8", first, second);
    }
}

#[test]
fn a_server_that_forgets_every_handle_is_not_believed() {
    let _turn = alone();
    let mut nfsd = Nfsd::start(&["--servers", "3", "--export", "/scratch"]);
    let proxy = proxy(&nfsd.endpoints(), "4s");
    let load = Told::start(&proxy, "--op lookup --connections 4 --depth 4", Duration::from_secs(3));
    load.wait(1000);
    nfsd.tell("fault 1 other-handles");
    load.wait(1000);
    load.end();
}

/// Reads and changes, 64 connections with 32 calls each. Without removals: a head of Ganesha 4.3 answers STALE to a READDIRPLUS of a
/// directory from which another call removes a name, without any proxy. With few enough CREATEs: past its limit of open files it answers JUKEBOX.
const MIXED: &str = "--workload zipf:1.1 --write-share 0.01 --connections 64 --depth 32";
const HALF_SECOND: u64 = 500_000_000;
