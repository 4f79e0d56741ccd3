//! `midas top` on a running daemon: the numbers are those of `midas status --json`, and the terminal is given back.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::handle;
use midas_lab::{PATIENCE, bounded, mkdir, readable, until};
use midas_nfs::nfs3::{Call, Nfsstat3};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use support::lines::Lines;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};
use support::text;

const ADMIN: &str = "[admin]\ntcp = \"127.0.0.1:0\"\n";

/// A proxy over three servers that has answered some calls.
fn world() -> (Nfsd, Serve) {
    let nfsd = Nfsd::start(&["--servers", "3"]);
    let proxy = Site { more: ADMIN.to_owned(), ..Site::of(&nfsd.endpoints()) }.start();
    let (mut client, root) = proxy.client();
    let directory = mkdir(&mut client, &root, b"run 7");
    for _ in 0..200 {
        assert_eq!(client.nfs(&Call::Getattr { object: handle(&directory) }).unwrap().status(), Nfsstat3::OK);
    }
    (nfsd, proxy)
}

/// The status as it stands, without what the clock alone changes.
fn timeless(mut status: Value) -> Value {
    status.as_object_mut().expect("an object").remove("uptime_seconds");
    status
}

fn status(proxy: &Serve) -> Value {
    timeless(serde_json::from_str(&proxy.command("status --json")).unwrap())
}

/// What `ask` says while the daemon's numbers stand still, and these numbers.
fn at_rest(proxy: &Serve, mut ask: impl FnMut() -> String) -> (String, Value) {
    let mut found = None;
    until("the daemon's numbers stand still", || {
        let (before, said, after) = (status(proxy), ask(), status(proxy));
        found = (before == after).then_some((said, after));
        found.is_some()
    });
    found.unwrap()
}

fn figure(server: &Value, name: &str) -> String {
    format!("{:.3}", server[name].as_f64().unwrap())
}

#[test]
fn the_numbers_are_those_of_the_status_over_the_socket_and_over_tcp() {
    let (_nfsd, proxy) = world();
    let address = proxy.admin.unwrap();
    let over_tcp = |options: &str| text(&format!("top {options} --address {address}"));
    let over_socket = |options: &str| proxy.command(&format!("top {options}"));
    for ask in [&over_tcp as &dyn Fn(&str) -> String, &over_socket] {
        let (said, status) = at_rest(&proxy, || ask("--once --json"));
        let frame: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(timeless(frame["status"].clone()), status);
        let (said, status) = at_rest(&proxy, || ask("--once --width 140"));
        assert!(said.contains(&format!("{} calls answered", status["calls"])), "{said}");
        assert!(said.contains(&format!("{} clients", status["clients"])), "{said}");
        for server in status["pools"][0]["servers"].as_array().unwrap() {
            let name = server["name"].as_str().unwrap();
            let row: Vec<&str> = said.lines().find(|line| line.starts_with(name)).unwrap().split_whitespace().collect();
            let shown = |what: &str| assert!(row.contains(&what), "no {what} of {server} in {row:?}");
            shown(server["health"].as_str().unwrap());
            shown(&server["in_flight"].to_string());
            for name in ["latency_p50_ms", "latency_p99_ms", "service_ms"] {
                shown(&figure(server, name));
            }
        }
    }
}

#[test]
fn every_view_is_printed_and_colours_only_if_asked_for() {
    let (_nfsd, proxy) = world();
    let views = [
        ("servers", "server"),
        ("hot", "directories, last"),
        ("exports", "knobs"),
        ("events", "newest first"),
        ("cluster", "no [cluster]"),
    ];
    for (view, word) in views {
        let said = proxy.command(&format!("top --once --view {view} --width 120 --height 60"));
        assert!(said.contains(word) && !said.contains('\x1b'), "{said}");
        assert!(said.lines().all(|line| line.chars().count() <= 120), "{said}");
    }
    let coloured = proxy.command("top --once --color always");
    assert!(coloured.contains("\x1b[32mup"), "{coloured}");
    let (mut client, root) = proxy.client();
    until("the client is among those who ask", || {
        client.nfs(&Call::Getattr { object: handle(&root) }).unwrap();
        proxy.command("top --once --view hot").contains("127.0.0.1")
    });
}

#[test]
fn frames_come_one_after_another_as_lines_of_json() {
    let (_nfsd, proxy) = world();
    let mut command = Command::new(env!("CARGO_BIN_EXE_midas"));
    command.args(["top", "--json", "--socket"]).arg(proxy.socket()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = Lines::of(child.stdout.take().unwrap());
    let number = |line: &str| serde_json::from_str::<Value>(line).unwrap()["point"]["number"].as_u64().unwrap();
    let numbers: Vec<u64> = (1..=3).map(|times| number(&lines.wait("\"point\"", times))).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(numbers[0] < numbers[1] && numbers[1] < numbers[2], "{numbers:?}");
}

/// `midas top` on a terminal of its own, 100 columns by 30 rows.
struct Session {
    child: Child,
    keys: ChildStdin,
    seen: Arc<Mutex<Vec<u8>>>,
    pid: std::path::PathBuf,
}

impl Session {
    fn start(proxy: &Serve) -> Self {
        let pid = proxy.socket().with_extension("pid");
        let typed = format!(
            "stty cols 100 rows 30; echo $$ > {}; exec {} top --socket {}",
            pid.display(),
            env!("CARGO_BIN_EXE_midas"),
            proxy.socket().display()
        );
        let mut command = bounded("script", PATIENCE);
        command.args(["-qfec", &typed, "/dev/null"]).env("NO_COLOR", "1").env("SHELL", "/bin/sh");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
        let shared = Arc::clone(&seen);
        thread::spawn(move || {
            let mut some = [0; 4096];
            while let Some(count) = screen.read(&mut some).ok().filter(|count| *count > 0) {
                shared.lock().unwrap().extend_from_slice(&some[..count]);
            }
        });
        Self { child, keys, seen, pid }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    fn count(&self, what: &str) -> usize {
        self.seen().matches(what).count()
    }

    /// Waits until something was drawn so many times.
    fn until(&self, what: &str, times: usize) {
        until(&format!("'{what}' is drawn {times} times"), || self.count(what) >= times);
    }

    /// Waits for its end: the screen is the user's again, with the cursor.
    fn end(mut self, code: i32) {
        let status = self.child.wait().unwrap();
        until("the terminal is left", || self.seen().contains("\x1b[?1049l"));
        let seen = self.seen();
        assert_eq!(status.code(), Some(code), "{seen}");
        assert!(seen.rfind("\x1b[?25h") > seen.rfind("\x1b[?25l"), "the cursor is hidden: {seen}");
    }
}

#[test]
fn keys_change_the_view_and_the_terminal_is_given_back() {
    let (_nfsd, proxy) = world();
    let mut session = Session::start(&proxy);
    session.until("[1 servers]", 1);
    session.press("2");
    session.until("[2 hot]", 1);
    session.press("\t");
    session.until("[3 exports]", 1);
    session.press("?");
    session.until("q, Esc, Ctrl-C  end", 1);
    session.press("?p");
    session.until("paused", 1);
    session.press("q");
    session.end(0);
}

/// A terminal's window is closed, or its connection breaks: whoever drew to it must not stay, least
/// of all at full speed.
#[test]
fn a_terminal_that_goes_away_ends_it() {
    let (_nfsd, proxy) = world();
    let session = Session::start(&proxy);
    session.until("[1 servers]", 1);
    let pid = Pid::from_raw(fs::read_to_string(&session.pid).unwrap().trim().parse().unwrap()).unwrap();
    let top = pidfd_open(pid, PidfdFlags::empty()).unwrap();
    // `script` is the other end of the terminal.
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(parent).unwrap(), Signal::KILL).unwrap();
    if !readable(&top, PATIENCE) {
        kill_process(pid, Signal::KILL).unwrap();
        panic!("it outlives its terminal");
    }
    let Session { mut child, .. } = session;
    child.wait().unwrap();
}

#[test]
fn a_daemon_that_goes_away_is_waited_for_and_a_signal_gives_the_terminal_back() {
    let (_nfsd, mut proxy) = world();
    let session = Session::start(&proxy);
    // Only what changed is drawn: words that were partly there before never come whole, a server's name does.
    let server = proxy.servers()[0]["name"].as_str().unwrap().to_owned();
    session.until(&server, 1);
    // The line of views moves down for the words that the daemon is gone, and back up when it is not.
    let drawn = session.count("[1 servers]");
    proxy.signal(Signal::KILL);
    proxy.ended();
    session.until("the daemon is gone", 1);
    session.until("[1 servers]", drawn + 1);
    let drawn = session.count("[1 servers]");
    proxy.again();
    session.until("[1 servers]", drawn + 1);
    let pid = fs::read_to_string(&session.pid).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    session.end(0);
}
