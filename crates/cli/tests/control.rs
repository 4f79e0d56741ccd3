//! `midas serve` and the commands that control it, over embedded servers.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::{self, Raw, handle};
use midas_lab::{Scratch, mkdir, until};
use midas_net::Client;
use midas_nfs::nfs3::{Call, DirOp, Nfsstat3};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::thread;
use support::load::Load;
use support::midas;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};

struct World {
    _nfsd: Nfsd,
    proxy: Serve,
    servers: Vec<String>,
}

impl World {
    /// A proxy over three servers.
    fn new(nfsd: &[&str], lines: &str) -> Self {
        let nfsd = Nfsd::start(&[&["--servers", "3"], nfsd].concat());
        let servers = nfsd.addresses.iter().map(ToString::to_string).collect();
        let proxy = Site { more: lines.to_owned(), ..Site::of(&nfsd.endpoints()) }.start();
        Self { proxy, _nfsd: nfsd, servers }
    }

    /// What a command printed that must succeed.
    fn run(&self, command: &str) -> String {
        let (code, out, said) = self.try_run(command);
        assert_eq!(code, Some(0), "midas {command}: {said}");
        out
    }

    fn try_run(&self, command: &str) -> (Option<i32>, String, String) {
        let output = midas(&format!("{command} --socket {}", self.proxy.socket().display()));
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    fn json(&self, command: &str) -> Value {
        serde_json::from_str(&self.run(&format!("{command} --json"))).unwrap()
    }

    /// Calls sent so far, by why they went where they went.
    fn routes(&self) -> BTreeMap<String, u64> {
        serde_json::from_value(self.json("status")["exports"][0]["routes"].clone()).unwrap()
    }

    /// One figure of every server.
    fn servers(&self, figure: &str) -> Vec<Value> {
        let status = self.json("status");
        status["pools"][0]["servers"].as_array().unwrap().iter().map(|server| server[figure].clone()).collect()
    }
}

fn getattr(client: &mut Client, object: &[u8]) {
    assert_eq!(client.nfs(&Call::Getattr { object: handle(object) }).unwrap().status(), Nfsstat3::OK);
}

#[test]
fn what_is_explained_is_what_happens_and_asking_changes_nothing() {
    let world = World::new(&[], "");
    let (mut client, root) = world.proxy.client();
    let directory = mkdir(&mut client, &root, b"run 7");
    let status = world.run("status");
    for word in ["ready", "export /scratch of heads: policy first-fit, mode strict", "pool heads", &world.servers[2]] {
        assert!(status.contains(word), "no '{word}' in:\n{status}");
    }
    let before = (world.routes(), world.servers("dispatched"));
    let explain = |body: &str| -> Value {
        let (status, answer) =
            http(&mut UnixStream::connect(world.proxy.socket()).unwrap(), "POST /api/v1/explain", body);
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str(&answer).unwrap()
    };
    let by_path = explain(r#"{"path": "/scratch/run 7"}"#);
    let hex = by_path["handle"].as_str().unwrap();
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    assert_eq!((0..hex.len()).step_by(2).map(byte).collect::<Vec<u8>>(), directory);
    let by_handle = world.json(&format!("explain {hex}"));
    let inside = explain(r#"{"path": "/scratch/run 7/new", "op": "create"}"#);
    for other in [&by_handle, &inside] {
        assert_eq!((&other["home"], &other["handle"]), (&by_path["home"], &by_path["handle"]), "{other}");
    }
    assert_eq!((&inside["op"], &inside["name"]), (&"create".into(), &"new".into()));
    assert_eq!((world.routes(), world.servers("dispatched")), before, "asking changed something");
    let next = world.servers.iter().position(|server| by_path["to"] == **server).unwrap();
    getattr(&mut client, &directory);
    for (server, (before, after)) in before.1.iter().zip(world.servers("dispatched")).enumerate() {
        let calls = after.as_u64().unwrap() - before.as_u64().unwrap();
        assert_eq!(calls, u64::from(server == next), "server {server}; explained: {by_path}");
    }
    let text = world.run(&format!("explain {hex} --op write"));
    assert!(text.starts_with("write in /scratch, pool heads, policy first-fit\n"), "{text}");
    assert_eq!(text.matches("may serve it").count(), 3, "{text}");
}

#[test]
fn a_mode_is_set_where_the_exports_writers_permit_it_and_shown_beside_the_files() {
    let world = World::new(&[], "writers = \"midas-only\"");
    let modes = ["lease", "ttl", "immutable", "strict"];
    for mode in modes {
        let said = world.run(&format!("set /scratch mode={mode}"));
        assert_eq!(said, format!("/scratch: mode {mode}, until the daemon ends\n"));
        let want = serde_json::json!({ "now": mode, "file": "strict" });
        assert_eq!(world.json("status")["exports"][0]["mode"], want);
    }
    world.run("set /scratch mode=lease");
    assert!(world.run("status").contains("mode lease (changed; strict in the file)"));
}

#[test]
fn what_cannot_be_is_refused_in_one_line_that_names_what_is_possible() {
    let world = World::new(&[], "");
    let near = format!("did you mean '{}'?", world.servers[0]);
    let cases = [
        ("set /scrach policy=rr", "did you mean '/scratch'?"),
        ("set /scratch policy=hash-diretory", "did you mean 'hash-directory'?"),
        ("set /scratch policy=first-fit:gap=9", "1..8"),
        ("set /scratch mode=lease", "needs writers = \"midas-only\""),
        ("set /scratch mode=immutable policy=rr", "needs writers = \"midas-only\""),
        ("set /scratch mode=strikt", "did you mean 'strict'?"),
        ("set /scratch access=ro", "policy=.., mode=.."),
        (&format!("drain {}", world.servers[0].replace("127.0.0.1", "127.0.0.l")), &near),
        (&format!("undrain {}", world.servers[1]), "is not drained"),
        ("explain /other", "/scratch"),
        ("explain /scratch --op loopup", "did you mean 'lookup'?"),
        ("explain /scratch --op create", "takes a name"),
        ("explain /scratch/missing", "NOENT"),
        ("explain xyz", "hexadecimal"),
        ("bypass maybe", "on, off"),
    ];
    for (command, named) in cases {
        let (code, out, said) = world.try_run(command);
        assert_eq!((code, out.as_str()), (Some(2), ""), "midas {command}: {said}");
        assert!(said.lines().count() == 1 && said.starts_with("midas: "), "midas {command}: {said}");
        assert!(said.contains(named), "midas {command} does not name '{named}': {said}");
    }
    let export = &world.json("status")["exports"][0];
    assert_eq!((&export["policy"]["now"], &export["mode"]["now"]), (&"first-fit".into(), &"strict".into()), "changed");
    let output = midas("status --socket /nowhere/midas.sock");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.starts_with("midas: no daemon at /nowhere"), "{said}");
    let config = world.proxy.socket().with_file_name("midas.toml");
    // With a state and ports of its own: those that are in use are refused before.
    let other = |line: &str| match line.split_once(" = ") {
        Some((key @ ("nfs" | "mount"), _)) => format!("{key} = \"127.0.0.1:0\"\n"),
        _ => format!("{}\n", line.replace("state.json", "other.json")),
    };
    let other: String = std::fs::read_to_string(&config).unwrap().lines().map(other).collect();
    std::fs::write(&config, other).unwrap();
    let (code, _, said) = world.try_run(&format!("serve --config {}", config.display()));
    assert!(code == Some(1) && said.contains("another daemon answers there"), "{said}");
}

#[test]
fn under_load_every_change_holds_for_every_call_after_its_command_returned() {
    let world = World::new(&["--service", "const:1ms"], "");
    let load = Load::start(&world.proxy, "--op lookup --depth 4 --connections 8 --duration 40s --timeout 60s");
    let until = |what: &str, there: &dyn Fn() -> bool| {
        until(what, || {
            load.goes_on();
            there()
        });
    };
    let moved = |routes: &BTreeMap<String, u64>| routes["steered"] + routes["pinned"];
    until("first-fit moved calls", &|| moved(&world.routes()) > 200);

    let only = |why: &str, calls: u64| {
        let before = world.routes();
        until("the change was seen at work", &|| world.routes()[why] > before[why] + calls);
        let after = world.routes();
        for (other, count) in before.iter().filter(|(other, _)| *other != why) {
            assert_eq!(after[other], *count, "calls went '{other}' after the command that leaves only '{why}'");
        }
    };
    world.run("bypass on");
    only("home", 500);
    assert!(world.run("status").contains("bypass is on"));
    world.run("bypass off");
    let before = moved(&world.routes());
    until("first-fit moved calls again", &|| moved(&world.routes()) > before + 100);

    world.run("set /scratch policy=rr");
    only("turn", 500);
    assert!(world.run("status").contains("policy rr (changed; first-fit in the file)"));

    let sent = |server: usize| world.servers("dispatched")[server].as_u64().unwrap();
    world.run(&format!("drain {}", world.servers[1]));
    let (drained, others) = (sent(1), sent(0));
    until("the others took its calls", &|| sent(0) > others + 300);
    assert_eq!((sent(1), &world.servers("health")[1]), (drained, &"drained".into()));
    world.run(&format!("undrain {}", world.servers[1]));
    until("it took calls again", &|| sent(1) > drained + 100);

    load.end();
}

#[test]
fn metrics_follow_their_format_and_count_what_happened() {
    let world = World::new(&[], "[admin]\ntcp = \"127.0.0.1:0\"");
    let (mut client, root) = world.proxy.client();
    for _ in 0..7 {
        getattr(&mut client, &root);
    }
    let tcp = || TcpStream::connect(world.proxy.admin.unwrap()).unwrap();
    let (status, text) = http(&mut tcp(), "GET /metrics", "");
    assert_eq!(status, 200);
    let samples = parse(&text);
    let value = |series: &str| *samples.get(series).unwrap_or_else(|| panic!("no {series} in:\n{text}"));
    assert_eq!(value("midas_calls_total{procedure=\"GETATTR\",status=\"ok\"}"), 7.0);
    assert_eq!(value("midas_answers_total{procedure=\"GETATTR\",outcome=\"forwarded\"}"), 7.0);
    assert_eq!(value("midas_call_duration_seconds_count{procedure=\"GETATTR\",outcome=\"forwarded\"}"), 7.0);
    assert_eq!(value("midas_refusals_total{reason=\"read_only\"}"), 0.0);
    assert_eq!(value("midas_client_connections_accepted_total"), 2.0, "one for MOUNT, one for NFS");
    assert!(value("midas_client_connections") >= 1.0);
    let sum =
        |family: &str| samples.iter().filter(|(series, _)| series.starts_with(family)).map(|(_, it)| it).sum::<f64>();
    assert_eq!((sum("midas_routes_total{"), sum("midas_server_calls_total{")), (7.0, 7.0));
    assert_eq!(sum("midas_server_duration_seconds_count{"), 7.0);
    assert_eq!(sum("midas_answers_total{"), sum("midas_calls_total{"), "every call was answered by somebody");
    assert_eq!(sum("midas_server_health{"), 3.0, "every server is in one state");
    assert!(sum("midas_server_connects_total{") >= 3.0);
    assert!(value("midas_bytes_total{way=\"to_servers\"}") > 7.0 * 40.0);

    for (request, want) in [
        ("GET /health", 200),
        ("GET /ready", 200),
        ("GET /api/v1/status", 200),
        ("GET /nothing", 404),
        ("POST /api/v1/bypass", 405),
        ("POST /api/v1/explain", 405),
        ("DELETE /metrics", 405),
    ] {
        assert_eq!(http(&mut tcp(), request, r#"{"on": true}"#).0, want, "{request}");
    }
    assert_eq!(world.json("status")["bypass"], false, "TCP is read-only");
}

#[test]
fn latency_is_told_by_procedure_and_outcome_and_of_hits_by_a_sample() {
    let world = World::new(&[], "writers = \"midas-only\"\nmode = \"lease\"");
    let (mut client, root) = world.proxy.client();
    let scrape = || {
        let (status, text) = http(&mut UnixStream::connect(world.proxy.socket()).unwrap(), "GET /metrics", "");
        assert_eq!(status, 200);
        parse(&text)
    };
    let asked = 2048;
    (0..asked).for_each(|_| getattr(&mut client, &root));
    mkdir(&mut client, &root, b"new");
    let samples = scrape();
    let value = |series: &str| samples.get(series).copied().unwrap_or_default();
    let answers = |outcome| value(&format!("midas_answers_total{{procedure=\"GETATTR\",outcome=\"{outcome}\"}}"));
    let timed = |of: &str, outcome| {
        value(&format!("midas_call_duration_seconds_count{{procedure=\"{of}\",outcome=\"{outcome}\"}}"))
    };
    assert!(answers("miss") >= 1.0 && answers("hit") + answers("miss") == f64::from(asked), "{samples:?}");
    assert_eq!((timed("GETATTR", "miss"), timed("GETATTR", "forwarded")), (answers("miss"), 0.0));
    assert_eq!((timed("MKDIR", "forwarded"), timed("MKDIR", "miss"), timed("GETATTR", "hit")), (1.0, 0.0, 0.0));
    let fetched = "midas_cache_reads_total{export=\"/scratch\",procedure=\"GETATTR\",fate=\"fetched\"}";
    assert_eq!(value(fetched), answers("miss"));
    let hits = value("midas_hit_duration_seconds_count{procedure=\"GETATTR\"}");
    assert!(hits >= 1.0 && hits < answers("hit") / 8.0, "{hits} of {} hits", answers("hit"));
    let took = value("midas_hit_duration_seconds_sum{procedure=\"GETATTR\"}") / hits;
    assert!(took > 0.0 && took < 1.0, "{took} s");
}

#[test]
fn without_a_server_it_lives_and_is_not_ready_and_says_why() {
    let scratch = Scratch::new();
    let file = scratch.path().join("midas.toml");
    let config = "[listen]\nnfs = \"127.0.0.1:0\"\n[[pool]]\nname = \"heads\"\nservers = [\"127.0.0.1:1\"]\n\
         [[export]]\npath = \"/scratch\"\npool = \"heads\"\nclients = [\"127.0.0.0/8\"]\n\
         [admin]\nsocket = \"/nowhere/at/all\"\n";
    std::fs::write(&file, config).unwrap();
    let refused = midas(&format!("serve --config {}", file.display()));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(1) && said.contains("/nowhere/at/all"), "{said}");
    let proxy = Serve::launch(config, |_| {});
    // It is never ready, so nothing tells that it listens.
    until("the control socket answers", || UnixStream::connect(proxy.socket()).is_ok());
    let ask = |request| http(&mut UnixStream::connect(proxy.socket()).unwrap(), request, "");
    let (health, ready) = (ask("GET /health"), ask("GET /ready"));
    assert_eq!(health.0, 200, "{health:?}");
    assert!(ready.0 == 503 && ready.1.contains("export /scratch: no server"), "{ready:?}");
    let waits = proxy.said("not ready", 1);
    assert!(waits.contains("exports_without_server=/scratch servers_open=0"), "{waits}");
    let (config, socket) = (proxy.state().with_file_name("midas.toml"), scratch.path().join("second"));
    let second = midas(&format!("serve --config {} --socket {}", config.display(), socket.display()));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(second.status.code() == Some(1) && said.contains("another daemon runs with the state file"), "{said}");
}

#[test]
fn while_a_write_waits_for_a_server_for_long_it_is_not_ready_and_reads_that_are_served_are() {
    let mut nfsd = Nfsd::start(&["--servers", "2"]);
    let proxy = Serve::start(&nfsd.endpoints());
    let ask = |request| http(&mut UnixStream::connect(proxy.socket()).unwrap(), request, "");
    assert_eq!(ask("GET /ready").0, 200);
    let (mut client, root) = proxy.client();
    for server in 0..2 {
        nfsd.tell(&format!("fault {server} down"));
    }
    let waits = thread::spawn(move || drop(mkdir(&mut client, &root, b"late")));
    until("the write has waited for long", || ask("GET /ready?writes").1.contains("waited for a server for 1"));
    let (status, said) = ask("GET /ready");
    assert!(status == 503 && said.contains("writes hang: one has waited for a server for 1"), "{said}");
    for server in 0..2 {
        nfsd.tell(&format!("fault {server} none"));
    }
    waits.join().unwrap();
    until("it is ready again", || ask("GET /ready").0 == 200);
}

/// One exchange over a connection of its own.
fn http(stream: &mut (impl Read + Write), request: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let head =
        "Host: midas\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: application/openmetrics-text";
    write!(stream, "{request} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split_whitespace().nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Reads OpenMetrics and holds it to its rules: a family is described before its samples and stands together, names fit its type, no
/// series comes twice, buckets only grow and end with all, and the end is marked.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let (mut samples, mut families, mut family) = (BTreeMap::new(), BTreeSet::new(), (String::new(), String::new()));
    let mut bucket = 0.0;
    assert!(text.ends_with("\n# EOF\n"), "no end");
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            if let Some((name, kind)) = comment.strip_prefix("TYPE ").and_then(|it| it.split_once(' ')) {
                assert!(families.insert(name.to_owned()), "{name} is described twice");
                family = (name.to_owned(), kind.to_owned());
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
        let (name, labels) = series.split_once('{').map_or((series, ""), |(name, rest)| (name, rest));
        assert!(
            name.bytes().all(|letter| letter.is_ascii_lowercase() || matches!(letter, b'_' | b'0'..=b'9')),
            "{line}"
        );
        assert!(labels.is_empty() || labels.ends_with("\"}"), "{line}");
        let suffix = name.strip_prefix(family.0.as_str()).unwrap_or_else(|| panic!("{name} is not of {}", family.0));
        match (family.1.as_str(), suffix) {
            ("gauge", "") | ("counter", "_total") => {}
            // A series begins with these.
            ("histogram", "_sum" | "_count") => bucket = 0.0,
            ("histogram", "_bucket") => {
                assert!(value >= bucket, "{line}");
                bucket = value;
            }
            (kind, _) => panic!("{line} is no {kind}"),
        }
        assert!(samples.insert(series.to_owned(), value).is_none(), "{series} comes twice");
    }
    for (series, count) in samples.iter().filter(|(series, _)| series.contains("_seconds_count{")) {
        let all = series.replace("_count{", "_bucket{le=\"+Inf\",");
        assert_eq!(samples.get(&all), Some(count), "{all}");
    }
    samples
}

/// One typing error must not stop every client: what nobody else serves is drained only on purpose,
/// over the socket as by the command.
#[test]
fn the_last_server_that_takes_calls_is_drained_by_force_alone() {
    let world = World::new(&[], "");
    let [first, second, third] = [0, 1, 2].map(|server| &world.servers[server]);
    world.run(&format!("drain {first}"));
    world.run(&format!("drain {second}"));
    let (code, out, said) = world.try_run(&format!("drain {third}"));
    assert!(code != Some(0) && out.is_empty(), "{out} {said}");
    for word in ["last server of heads that takes calls", "--force", third] {
        assert!(said.contains(word), "no '{word}' in: {said}");
    }
    let body = format!("{{\"server\": \"{third}\"}}");
    let (status, answer) = http(&mut UnixStream::connect(world.proxy.socket()).unwrap(), "POST /api/v1/drain", &body);
    assert!(status == 400 && answer.contains("--force"), "{status} {answer}");
    assert_eq!(world.servers("health")[2], "up", "nothing was changed");
    // One that is drained already is not the last that takes calls.
    world.run(&format!("drain {first}"));
    let said = world.run(&format!("drain {third} --force"));
    assert!(said.contains("no other server of heads takes calls"), "{said}");
    world.run(&format!("undrain {third}"));
}

/// Two hundred calls wait for the only server when it comes back. It may have eight at once, and
/// one more for each that it has answered: at most 128 when the rest is less than that.
#[test]
fn a_server_that_comes_back_is_not_given_all_that_waited_at_once() {
    let nfsd = Nfsd::start(&["--service", "const:300ms", "--workers", "256"]);
    let proxy = Site::of(&nfsd.endpoints()).start();
    let (_, root) = proxy.client();
    let server = nfsd.addresses[0];
    proxy.command(&format!("drain {server} --force"));
    let mut clients: Vec<Raw> = (0..4).map(|_| Raw::connect(proxy.nfs[0])).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let call = |call: usize| {
            let name = format!("{number} {call}").into_bytes();
            raw::in_one_fragment(&raw::nfs(
                call as u32 + 1,
                &Call::Lookup { what: DirOp { dir: handle(&root), name: &name } },
            ))
        };
        client.say(&(0..50).flat_map(call).collect::<Vec<u8>>());
    }
    let status = || -> Value { serde_json::from_str(&proxy.command("status --json")).unwrap() };
    until("all wait", || status()["held"] == 200);
    proxy.command(&format!("undrain {server}"));
    let mut most = 0;
    until("none waits", || {
        let status = status();
        let under_way = status["pools"][0]["servers"][0]["in_flight"].as_u64().unwrap();
        most = most.max(under_way);
        status["held"] == 0 && under_way == 0
    });
    for client in &mut clients {
        for _ in 0..50 {
            assert_eq!(raw::status(&client.receive()), Nfsstat3::NOENT);
        }
    }
    assert!((1..=128).contains(&most), "{most} at once");
}

/// A server that hangs takes connections and says nothing. The log and the events say that, and not
/// what the system calls its socket.
#[test]
fn a_server_that_hangs_is_said_not_to_answer() {
    let nfsd = Nfsd::start(&[]);
    let pool = "probe_timeout = \"200ms\"\n".to_owned();
    let proxy = Site { pool, ..Site::of(&nfsd.endpoints()) }.start();
    proxy.until(0, "it takes calls", |server| server["health"] == "up");
    nfsd.signal(Signal::STOP);
    let said = proxy.said("server is down", 1);
    let events = proxy.command("top --once --view events --width 200");
    nfsd.signal(Signal::CONT);
    for text in [said, events] {
        assert!(text.contains("it did not answer within 200 ms"), "{text}");
        assert!(!text.contains("temporarily unavailable"), "{text}");
    }
}
