//! Hot spots: a storm is named while it lasts, and what is kept of many clients and directories does not grow.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::{self, Raw, handle};
use midas_lab::{PATIENCE, create, mkdir, until};
use midas_net::Caller;
use midas_nfs::nfs3::{self, Call, DirOp, Nfsstat3};
use midas_nfs::rpc::{OpaqueAuth, flavor};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};

/// A connection from this address, on behalf of this user.
struct Wire {
    raw: Raw,
    credential: Vec<u8>,
    xid: u32,
}

impl Wire {
    fn new(proxy: &Serve, from: Ipv4Addr, uid: u32) -> Self {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::V4(SocketAddrV4::new(from, 0))).unwrap();
        connect(&socket, &proxy.nfs[0]).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let credential = Caller { uid, gid: uid, gids: Vec::new() }.encode(0, b"test");
        Self { raw: Raw(stream), credential, xid: u32::from(from) }
    }

    fn call(&mut self, call: &Call<'_>) -> Nfsstat3 {
        self.send(call);
        raw::status(&self.raw.receive())
    }

    fn send(&mut self, call: &Call<'_>) {
        let (mut args, program) = (Vec::new(), (nfs3::PROGRAM, nfs3::VERSION, call.procedure() as u32));
        call.encode(&mut args);
        self.xid += 1;
        let credential = OpaqueAuth { flavor: flavor::SYS, body: &self.credential };
        self.raw.send(&raw::with_credential(self.xid, program, credential, &args));
    }

    /// So many of them at once.
    fn calls(&mut self, call: &Call<'_>, count: usize) {
        (0..count).for_each(|_| self.send(call));
        assert!((0..count).all(|_| raw::status(&self.raw.receive()) == Nfsstat3::OK));
    }
}

fn hot(proxy: &Serve) -> Value {
    serde_json::from_str(&proxy.command("hot --json")).unwrap()
}

/// Calls of all kinds on names and files of a directory until told to stop.
fn storm(mut wire: Wire, directory: &[u8], file: &[u8], stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let what = DirOp { dir: handle(directory), name: b"result" };
        assert_eq!(wire.call(&Call::Lookup { what }), Nfsstat3::OK);
        assert_eq!(wire.call(&Call::Getattr { object: handle(file) }), Nfsstat3::OK);
        assert_eq!(wire.call(&Call::Access { object: handle(directory), access: 0x3f }), Nfsstat3::OK);
    }
}

/// What is in the first place of a kind: its name and its share of all calls.
fn first(hot: &Value, kind: &str) -> (String, f64) {
    let spot = &hot[kind][0];
    let share = spot["calls"].as_f64().unwrap_or_default() / hot["calls"].as_f64().unwrap().max(1.0);
    (spot["name"].as_str().unwrap_or_default().to_owned(), share)
}

fn a_storm_is_named(export: &'static str, hits: bool) {
    let nfsd = Nfsd::start(&["--servers", "2"]);
    let jobs = midas_lab::Scratch::new();
    let file = jobs.path().join("jobs");
    fs::write(&file, "127.0.0.77 4711\n").unwrap();
    let more = format!("[admin]\ntcp = \"127.0.0.1:0\"\n[watch]\njobs_file = \"{}\"\n", file.display());
    let proxy = Site { export, more, ..Site::of(&nfsd.endpoints()) }.start();
    let (mut client, root) = proxy.client();
    let run = mkdir(&mut client, &root, b"run 7");
    let stormy = mkdir(&mut client, &run, b"storm");
    let result = create(&mut client, &stormy, b"result");
    let calm: Vec<Vec<u8>> =
        (0..20).map(|number| mkdir(&mut client, &root, format!("calm{number}").as_bytes())).collect();
    for directory in calm.iter().cycle().take(200) {
        client.nfs(&Call::Getattr { object: handle(directory) }).unwrap();
    }
    something_heavier(&proxy, &calm[0]);
    let wire = Wire::new(&proxy, Ipv4Addr::new(127, 0, 0, 77), 1234);
    // On a busy machine a question alone takes long.
    let asked = Instant::now();
    hot(&proxy);
    let question = asked.elapsed();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (start, _calm) = (Instant::now(), Calm(&stop));
        scope.spawn(|| storm(wire, &stormy, &result, &stop));
        let named = |hot: &Value| {
            let places = [("directories", "/scratch/run 7/storm"), ("clients", "127.0.0.77"), ("users", "1234")];
            places.iter().all(|(kind, want)| first(hot, kind).0 == *want)
        };
        until("the storm to be named", || named(&hot(&proxy)));
        let took = start.elapsed();
        let asked = Instant::now();
        hot(&proxy);
        let question = question.max(asked.elapsed());
        assert!(took < Duration::from_secs(2) + 3 * question, "it took {took:?}, a question {question:?}");
        until("the storm to be most of what happens", || first(&hot(&proxy), "directories").1 > 0.5);
        until("the client's job", || hot(&proxy)["clients"][0]["job"] == "4711");
        let seen = hot(&proxy);
        let share = seen["directories"][0]["hits"].as_f64().unwrap();
        assert_eq!(share > 0.5, hits, "{seen:#}");
        // Of hits a sample is looked at, and a call on a file says nothing of its directory's handle.
        until("the socket to show handles", || hot(&proxy)["directories"][0]["handle"].is_string());
        let text = proxy.command("hot --by time");
        assert!(text.contains("/scratch/run 7/storm") && text.contains("4711"), "{text}");
        let open: Value = serde_json::from_str(&get(&proxy, "/api/v1/hot")).unwrap();
        assert_eq!(first(&open, "directories").0, "/scratch/run 7/storm");
        assert!(open["directories"].as_array().unwrap().iter().all(|spot| spot["handle"].is_null()), "{open:#}");
    });
}

/// Another user's storm, in which many calls are always under way: for two seconds, and until it is the first of everything. It has ended.
fn something_heavier(proxy: &Serve, directory: &[u8]) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (start, _calm) = (Instant::now(), Calm(&stop));
        for number in 0..2 {
            let mut wire = Wire::new(proxy, Ipv4Addr::new(127, 0, 0, 66 + number), 99);
            scope.spawn({
                let stop = &stop;
                move || {
                    while !stop.load(Ordering::Relaxed) {
                        wire.calls(&Call::Getattr { object: handle(directory) }, 64);
                    }
                }
            });
        }
        until("the heavier load to be named", || {
            let hot = hot(proxy);
            let named = first(&hot, "directories").1 > 0.9 && first(&hot, "users").0 == "99";
            named && start.elapsed() > Duration::from_secs(2)
        });
    });
}

/// Ends a storm, whichever way the test ends.
struct Calm<'s>(&'s AtomicBool);

impl Drop for Calm<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_storm_is_named_by_directory_client_user_and_job_within_two_seconds() {
    a_storm_is_named("", false);
}

#[test]
fn a_storm_that_the_cache_answers_is_named_too() {
    a_storm_is_named("writers = \"midas-only\"\nmode = \"lease\"\n", true);
}

/// One server works on one call after the other. A storm's calls always wait there, and in a calm directory one call after another.
#[test]
fn servers_time_is_no_more_than_the_time_that_passed_and_who_waits_behind_a_storm_is_not_charged_for_it() {
    let nfsd = Nfsd::start(&["--servers", "1", "--service", "getattr=const:2ms"]);
    let proxy = Serve::start(&nfsd.endpoints());
    let (mut client, root) = proxy.client();
    let [stormy, calm] = [&b"storm"[..], b"calm"].map(|name| mkdir(&mut client, &root, name));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _calm = Calm(&stop);
        for (last, directory, count) in [(7, &stormy, 16), (8, &stormy, 16), (9, &calm, 1)] {
            let (mut wire, stop) = (Wire::new(&proxy, Ipv4Addr::new(127, 0, 0, last), 1), &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    wire.calls(&Call::Getattr { object: handle(directory) }, count);
                }
            });
        }
        let spent = |hot: &Value, name: &str| {
            let spots = hot["directories"].as_array().unwrap();
            spots
                .iter()
                .find(|spot| spot["name"] == name)
                .and_then(|spot| spot["server_ms"].as_f64())
                .unwrap_or_default()
        };
        // A machine that stands still may blur one look. Waiting in the queue would be thirty times the time that passes, and all of it for
        // the calm directory.
        let mut looks = 0;
        until("the storm to have the server's time, and the calm directory little", || {
            let hot = hot(&proxy);
            let (passed, all) = (1e3 * hot["seconds"].as_f64().unwrap(), hot["server_ms"].as_f64().unwrap());
            let (storm, calm) = (spent(&hot, "/scratch/storm"), spent(&hot, "/scratch/calm"));
            looks += usize::from(all < 1.2 * passed && storm > 0.5 * passed && (0.0..0.3 * passed).contains(&calm));
            looks >= 5
        });
    });
}

#[test]
fn five_hundred_clients_on_two_thousand_directories_add_no_line_of_metrics_and_little_memory() {
    let nfsd = Nfsd::start(&["--servers", "2"]);
    let more = "[admin]\ntcp = \"127.0.0.1:0\"\n".to_owned();
    let proxy = Site { more, ..Site::of(&nfsd.endpoints()) }.start();
    let (mut client, root) = proxy.client();
    let directories: Vec<Vec<u8>> =
        (0..2000).map(|number| mkdir(&mut client, &root, format!("d{number}").as_bytes())).collect();
    let visit = |client: u16, calls: usize| {
        let [high, low] = client.to_be_bytes();
        let mut wire = Wire::new(&proxy, Ipv4Addr::new(127, 1, high, low), u32::from(client));
        for directory in directories.iter().cycle().skip(usize::from(client) * 4).take(calls) {
            assert_eq!(wire.call(&Call::Getattr { object: handle(directory) }), Nfsstat3::OK);
        }
    };
    visit(1, 4);
    let (lines, memory) = (get(&proxy, "/metrics").lines().count(), proxy.memory().0);
    for client in 1..=500 {
        visit(client, 4);
    }
    assert_eq!(get(&proxy, "/metrics").lines().count(), lines);
    until("some of each kind are told", || {
        visit(1, 4);
        let told = hot(&proxy);
        let counts = ["directories", "clients", "users"].map(|kind| told[kind].as_array().unwrap().len());
        assert!(counts.iter().all(|count| *count <= 40), "{told:#}");
        counts.iter().all(|count| *count > 0)
    });
    let grown = proxy.memory().0.saturating_sub(memory);
    assert!(grown < 16 << 20, "{grown} bytes more");
}

/// What the TCP address of the control plane answers.
fn get(proxy: &Serve, path: &str) -> String {
    let mut stream = TcpStream::connect(proxy.admin.unwrap()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: midas\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    body.to_owned()
}
