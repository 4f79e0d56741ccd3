//! Calls that are recorded and played again: in the simulator and over real sockets, as many as there were.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::{Scratch, until};
use midas_proxy::api::watch::Traced;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use support::load::Load;
use support::nfsd::Nfsd;
use support::serve::Serve;
use support::{impossible, midas, rows, text};

/// A `midas trace` that writes to a file.
struct Trace {
    child: Child,
}

impl Trace {
    fn start(proxy: &Serve, options: &str, to: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midas"));
        command.arg("trace").arg("--socket").arg(proxy.socket()).args(options.split_whitespace());
        command.stdout(File::create(to).unwrap()).stderr(Stdio::piped());
        Self { child: command.spawn().unwrap() }
    }

    /// Interrupts it, as Ctrl-C does: what it said at the end.
    fn end(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        assert!(self.child.wait().unwrap().success());
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// A trace as `midas trace --json` writes it: a job looks around, and works in a directory of its own.
fn written(scratch: &Scratch) -> (String, usize) {
    let call = |at_us: u64, procedure: &str, place: u64, name: Option<&str>, found: Option<u64>| Traced {
        at_us,
        client: format!("10.0.0.{}", at_us % 3),
        procedure: procedure.to_owned(),
        place: format!("{place:016x}"),
        name: name.map(str::to_owned),
        found: found.map(|found| format!("{found:016x}")),
        why: "home".to_owned(),
        status: "OK".to_owned(),
        ..Traced::default()
    };
    let mut calls = vec![call(1_000, "LOOKUP", 1, Some("run"), Some(2)), call(900, "FSINFO", 1, None, None)];
    for number in 0..20 {
        let (at, name, file) = (2_000 + number * 20_000, format!("f{number}"), 100 + number);
        calls.push(Traced { status: "NOENT".to_owned(), ..call(at, "LOOKUP", 2, Some(&name), None) });
        calls.push(call(at + 1_000, "CREATE", 2, Some(&name), Some(file)));
        calls.push(call(at + 2_000, "WRITE", file, None, None));
        calls.push(call(at + 3_000, "COMMIT", file, None, None));
        calls.push(call(at + 4_000, "GETATTR", file, None, None));
        let to = Some((format!("{:016x}", 3), name.clone()));
        calls.push(Traced { to, ..call(at + 5_000, "RENAME", 2, Some(&name), None) });
        calls.push(call(at + 6_000, "READLINK", 900, None, None));
    }
    calls.push(call(500_000, "READDIRPLUS", 2, None, None));
    let lines: String = calls.iter().map(|call| serde_json::to_string(call).unwrap() + "\n").collect();
    let file = scratch.path().join("written.trace");
    fs::write(&file, lines).unwrap();
    (file.display().to_string(), calls.len())
}

/// Plays a trace in the simulator, and over sockets at a server of its own.
fn plays(file: &str, calls: usize) {
    for command in ["run --policy first-fit", "compare --policy rr,jsq"] {
        let played = rows(&format!("sim {command} --workload trace:{file} --service const:1ms"));
        for row in &played.0 {
            assert_eq!((&row["calls"], &row["workload"]), (&calls.into(), &format!("trace:{file}").into()), "{row}");
        }
    }
    let nfsd = Nfsd::start(&["--servers", "1"]);
    for options in ["", "--connections 4 --threads 2"] {
        let at = format!("{}/", nfsd.addresses[0]);
        let report: Value =
            serde_json::from_str(&text(&format!("bench {at} --workload trace:{file} {options} --json"))).unwrap();
        let arm = &report["cells"][0]["arms"][0];
        let counts = &arm["counts"];
        assert_eq!(made(arm), calls as u64, "{counts}");
        for bad in ["errors_unexpected", "timeouts", "dropped", "unmatched"] {
            assert_eq!(counts[bad], 0, "{bad}: {counts} {}", arm["errors"]);
        }
    }
}

/// Calls that were sent and ended, whenever that was.
fn made(arm: &Value) -> u64 {
    arm["procedures"].as_array().unwrap().iter().map(|procedure| procedure["calls"].as_u64().unwrap()).sum()
}

#[test]
fn a_trace_is_played_call_by_call_in_the_simulator_and_over_sockets() {
    let scratch = Scratch::new();
    let (file, calls) = written(&scratch);
    plays(&file, calls);
    // A part of it, faster, and over and over.
    let part = rows(&format!("sim run --workload trace:{file} --duration 100ms"));
    let some = part.0[0]["calls"].as_u64().unwrap();
    assert!(some > 10 && some < calls as u64, "{some}");
    let nfsd = Nfsd::start(&["--servers", "1"]);
    let bench = |options: &str| -> Value {
        let typed = format!("bench {}/ --workload trace:{file} {options} --json", nfsd.addresses[0]);
        serde_json::from_str::<Value>(&text(&typed)).unwrap()["cells"][0]["arms"][0].clone()
    };
    assert_eq!(made(&bench("--rate 1000")), calls as u64);
    let closed = bench("--depth 1 --connections 8 --threads 4 --duration 1s --warmup 0s");
    assert!(made(&closed) > calls as u64, "{closed}");
}

#[test]
fn a_trace_that_cannot_be_read_is_refused_with_its_line() {
    let scratch = Scratch::new();
    let (file, _) = written(&scratch);
    let good = fs::read_to_string(&file).unwrap();
    let bad = scratch.path().join("bad.trace");
    fs::write(&bad, format!("{good}{}", good.lines().next().unwrap().replace("LOOKUP", "STAT"))).unwrap();
    let (bad, line) = (bad.display().to_string(), good.lines().count() + 1);
    let said = format!("line {line}: unknown procedure 'STAT'");
    let empty = scratch.path().join("empty.trace");
    fs::write(&empty, "\n").unwrap();
    impossible(&[
        (&format!("sim run --workload trace:{bad}"), &said),
        (&format!("bench h:1 --workload trace:{bad}"), &said),
        (&format!("bench h:1 --workload trace:{file} --rate 5,6"), "one number with a trace"),
        (&format!("sim compare --workload trace:{}", empty.display()), "it holds no call"),
        ("sim run --workload trace:/nowhere/x", "/nowhere/x: "),
    ]);
}

#[test]
fn calls_are_traced_as_they_pass_and_the_trace_is_a_workload() {
    let (nfsd, scratch) = (Nfsd::start(&["--servers", "2"]), Scratch::new());
    let proxy = Serve::start(&nfsd.endpoints());
    let (all, some) = (scratch.path().join("all.trace"), scratch.path().join("some.trace"));
    let (trace, lookups) = (Trace::start(&proxy, "--json", &all), Trace::start(&proxy, "--op lookup", &some));
    let count = |file: &Path| fs::read_to_string(file).unwrap().lines().count();
    until("both listen", || {
        let (mut client, root) = proxy.client();
        let what = midas_nfs::nfs3::DirOp { dir: midas_lab::raw::handle(&root), name: b"no" };
        client.nfs(&midas_nfs::nfs3::Call::Lookup { what }).unwrap();
        count(&all) > 0 && count(&some) > 0
    });
    let answered = || {
        let status: Value = serde_json::from_str(&proxy.command("status --json")).unwrap();
        status["calls"].as_u64().unwrap() as usize
    };
    let (before, calls) = (count(&all), answered());
    Load::start(&proxy, "--workload spotify --rate 900 --directories 8 --files 8 --duration 2s").end();
    // Lines of calls before the load may still have been on their way.
    until("all are written down", || count(&all) - before >= answered() - calls);
    let said = trace.end();
    let lines = count(&all);
    assert_eq!(said, format!("{lines} calls, 0 missed\n"));
    let traced: Vec<Traced> =
        fs::read_to_string(&all).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(traced.iter().all(|call| call.client == "127.0.0.1" && call.place.len() == 16 && !call.why.is_empty()));
    let found = traced.iter().filter(|call| call.procedure == "LOOKUP" && call.status == "OK");
    assert!(found.clone().count() > 100 && found.clone().all(|call| call.found.is_some() && call.name.is_some()));
    assert!(traced.iter().any(|call| call.procedure == "RENAME" && call.to.is_some()));
    assert!(lookups.end().ends_with(" calls, 0 missed\n"));
    let shown = fs::read_to_string(&some).unwrap();
    assert!(shown.lines().all(|line| line.contains("  LOOKUP  ")), "{shown}");
    plays(&all.display().to_string(), lines);
}

#[test]
fn what_cannot_be_traced_is_refused_and_a_trace_ends_by_its_limits() {
    let nfsd = Nfsd::start(&["--servers", "2"]);
    let proxy = Serve::start(&nfsd.endpoints());
    let cases = [
        ("--procedure lokup", "did you mean 'lookup'?"),
        ("--reason steerd", "did you mean 'steered'?"),
        ("--client here", "no client's address"),
        ("--server nobody", "unknown server 'nobody'"),
        ("--path scratch", "begins with '/'"),
    ];
    for (options, why) in cases {
        let output = midas(&format!("trace {options} --socket {}", proxy.socket().display()));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(2) && said.contains(why) && said.lines().count() == 1,
            "{options}: {said}"
        );
    }
    let output = midas(&format!("trace --seconds 1 --path /scratch/none --socket {}", proxy.socket().display()));
    assert!(output.status.success() && output.stdout.is_empty());
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "0 calls, 0 missed\n");
}
