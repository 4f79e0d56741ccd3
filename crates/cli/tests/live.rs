//! The stream that pages and `midas top` watch, over real sockets: it says what `midas status` says, and nothing can be changed over TCP.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::handle;
use midas_lab::{PATIENCE, until};
use midas_nfs::nfs3::{Call, Nfsstat3};
use midas_proxy::api::{self, watch};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};

struct World {
    _nfsd: Nfsd,
    proxy: Serve,
    servers: Vec<String>,
}

impl World {
    fn new() -> Self {
        let nfsd = Nfsd::start(&["--servers", "3"]);
        let servers = nfsd.addresses.iter().map(ToString::to_string).collect();
        let more = "[admin]\ntcp = \"127.0.0.1:0\"".to_owned();
        let proxy = Site { more, ..Site::of(&nfsd.endpoints()) }.start();
        Self { proxy, _nfsd: nfsd, servers }
    }

    fn tcp(&self) -> TcpStream {
        let stream = TcpStream::connect(self.proxy.admin.unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn watch(&self) -> Watched<TcpStream> {
        Watched::of(self.tcp())
    }

    fn get(&self, address: &str) -> (u16, Value) {
        let (status, body) = asked(self.tcp(), "GET", address);
        (status, serde_json::from_str(&body).unwrap())
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.proxy.command("status --json")).unwrap()
    }
}

/// A stream of events, read one after the other.
struct Watched<S: Read>(BufReader<S>);

impl<S: Read + Write> Watched<S> {
    fn of(mut stream: S) -> Self {
        // HTTP/1.0: the body is the stream as it is.
        write!(stream, "GET {} HTTP/1.0\r\nHost: midas\r\n\r\n", watch::LIVE).unwrap();
        let mut reader = BufReader::new(stream);
        let head = lines(&mut reader);
        assert!(head[0].contains(" 200 ") && head.iter().any(|line| line.contains("text/event-stream")), "{head:?}");
        Self(reader)
    }

    /// The next event; none at the end.
    fn next(&mut self) -> Option<(String, Value)> {
        let lines = lines(&mut self.0);
        let field = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name));
        Some((field("event: ")?.to_owned(), serde_json::from_str(field("data: ")?).unwrap()))
    }

    fn frame(&mut self) -> Value {
        let (name, frame) = self.next().expect("it goes on");
        assert_eq!(name, "frame");
        frame
    }

    fn past(&mut self) -> Vec<Value> {
        let (name, past) = self.next().expect("it begins");
        assert_eq!(name, "past");
        past.as_array().unwrap().clone()
    }
}

/// Lines up to an empty one.
fn lines(reader: &mut impl BufRead) -> Vec<String> {
    let line = |line: std::io::Result<String>| line.unwrap().trim_end().to_owned();
    reader.lines().map(line).take_while(|line| !line.is_empty()).collect()
}

fn asked(mut stream: impl Read + Write, method: &str, address: &str) -> (u16, String) {
    let body = r#"{"on": true}"#;
    let head = "Host: midas\r\nConnection: close\r\nContent-Type: application/json";
    write!(stream, "{method} {address} HTTP/1.1\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split_whitespace().nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn without_time(status: &Value) -> Value {
    let mut status = status.clone();
    status["uptime_seconds"] = Value::Null;
    status
}

fn calls(world: &World, count: usize) {
    let (mut client, root) = world.proxy.client();
    for _ in 0..count {
        assert_eq!(client.nfs(&Call::Getattr { object: handle(&root) }).unwrap().status(), Nfsstat3::OK);
    }
}

#[test]
fn the_stream_says_what_the_status_says_and_begins_with_the_past() {
    let world = World::new();
    let (mut tcp, mut unix) = (world.watch(), Watched::of(UnixStream::connect(world.proxy.socket()).unwrap()));
    tcp.past();
    unix.past();
    let before = world.status()["calls"].as_u64().unwrap();
    calls(&world, 50);
    let after = world.status()["calls"].as_u64().unwrap();
    assert_eq!(after, before + 50);
    let (mut seen, mut number, mut rate) = (0, 0, 0.0);
    while seen < after {
        let frame = tcp.frame();
        let (now, point) = (frame["status"]["calls"].as_u64().unwrap(), frame["point"]["number"].as_u64().unwrap());
        assert!((seen..=after).contains(&now) && point > number, "{seen} {number} {frame}");
        (seen, number) = (now, point);
        rate += frame["point"]["procedures"]["GETATTR"].as_f64().unwrap_or_default();
        assert_eq!(frame["point"]["servers"].as_array().unwrap().len(), 3);
        assert_eq!(frame["point"]["exports"][0]["thresholds"], serde_json::json!([0.02, 0.1]));
    }
    assert!(rate > 0.0, "no point showed the calls");
    // Nobody calls any more: both show the same numbers.
    until("the stream and the status agree", || without_time(&tcp.frame()["status"]) == without_time(&world.status()));
    assert!(unix.frame()["point"]["number"].as_u64().unwrap() > 0);
    // Who comes later sees what was, without a gap, and then what is.
    let mut late = world.watch();
    let past = late.past();
    let numbers: Vec<u64> = past.iter().map(|point| point["number"].as_u64().unwrap()).collect();
    assert!(numbers[0] == 1 && numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
    let total: f64 = past.iter().filter_map(|point| point["procedures"]["GETATTR"].as_f64()).sum();
    assert!(total > 0.0 && late.frame()["point"]["number"].as_u64() > numbers.last().copied());
}

#[test]
fn what_an_administrator_does_is_an_event() {
    let world = World::new();
    let mut watched = world.watch();
    watched.past();
    world.proxy.command(&format!("drain {}", world.servers[1]));
    let mut events: Vec<Value> = Vec::new();
    let has = |events: &[Value], kind: &str, what: &str| {
        let is = |it: &&Value| it["kind"] == kind && it["what"].as_str().unwrap().contains(what);
        events.iter().find(is).is_some_and(|it| it["about"] == *world.servers[1] && it["why"] != "")
    };
    while !(has(&events, "change", "drained") && has(&events, "health", "drained")) {
        events.extend(watched.frame()["events"].as_array().unwrap().iter().cloned());
    }
    let number = |event: &Value| event["number"].as_u64().unwrap();
    assert!(number(&events[0]) == 1 && events.windows(2).all(|pair| number(&pair[1]) == number(&pair[0]) + 1));
    let (status, journal) = world.get("/api/v1/journal");
    assert!(status == 200 && journal.as_array().unwrap().starts_with(&events), "{journal}");
    let last = number(events.last().unwrap());
    let (_, later) = world.get(&format!("/api/v1/journal?since={}", last - 1));
    assert_eq!(number(&later[0]), last);
    for (query, why) in [("since=x", "a number"), ("sinse=1", "unknown field")] {
        let (status, said) = world.get(&format!("/api/v1/journal?{query}"));
        assert!(status == 400 && said["error"].as_str().unwrap().contains(why), "{said}");
    }
    let (status, explained) = world.get("/api/v1/where?path=%2Fscratch&op=getattr");
    assert_eq!((status, &explained["handle"], &explained["export"]), (200, &"".into(), &"/scratch".into()));
    assert!(world.servers.iter().any(|server| explained["to"] == **server), "{explained}");
    assert_eq!(world.get("/api/v1/where?path=/nothing").0, 404);
    // Every name is a call to a server: over TCP there are only so many.
    for (names, end) in [(63, 404), (64, 400)] {
        let (status, said) = world.get(&format!("/api/v1/where?path=/scratch{}", "/a".repeat(names)));
        assert_eq!(status, end, "{said}");
    }
}

#[test]
fn nothing_can_be_changed_over_tcp() {
    let world = World::new();
    let before = world.status();
    let addresses = [
        api::STATUS,
        api::CLUSTER,
        api::EXPLAIN,
        api::SET,
        api::DRAIN,
        api::UNDRAIN,
        api::BYPASS,
        api::CACHE,
        api::INVALIDATE,
        api::WARM,
        watch::LIVE,
        watch::HOT,
        watch::JOURNAL,
        watch::WHERE,
        watch::TRACE,
        "/metrics",
        "/health",
        "/ready",
        "/",
        "/anything",
    ];
    for (method, address) in ["POST", "PUT", "DELETE", "PATCH"].iter().flat_map(|it| addresses.map(|at| (it, at))) {
        let (status, said) = asked(world.tcp(), method, address);
        assert!(status == 405 && said.contains("TCP is read-only"), "{method} {address}: {status} {said}");
    }
    // What shows handles or calls is not there at all.
    for address in [api::EXPLAIN, api::CACHE, watch::TRACE] {
        assert!([404, 405].contains(&asked(world.tcp(), "GET", address).0), "{address}");
    }
    assert_eq!(without_time(&world.status()), without_time(&before));
    assert_eq!(
        world.get("/api/v1/journal").1.as_array().unwrap().iter().filter(|it| it["kind"] == "change").count(),
        0
    );
}

#[test]
fn there_are_so_many_watchers_and_their_streams_end_with_the_daemon() {
    let mut world = World::new();
    let mut all: Vec<_> = (0..32).map(|_| world.watch()).collect();
    let (status, said) = world.get(watch::LIVE);
    assert!(status == 503 && said["error"].as_str().unwrap().contains("32 watch already"), "{said}");
    let mut socket = Watched::of(UnixStream::connect(world.proxy.socket()).unwrap());
    socket.past();
    assert!(socket.frame()["point"].is_object(), "those of TCP take no place on the socket");
    drop(all.split_off(1));
    until("a place is free again", || {
        let mut stream = world.tcp();
        write!(stream, "GET {} HTTP/1.0\r\nHost: midas\r\n\r\n", watch::LIVE).unwrap();
        lines(&mut BufReader::new(stream))[0].contains(" 200 ")
    });
    world.proxy.signal(Signal::TERM);
    let mut last = all.remove(0);
    while last.next().is_some() {}
    assert!(world.proxy.ended().0.success());
}
