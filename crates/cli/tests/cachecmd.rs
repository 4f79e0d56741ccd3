//! The commands about the caches, over embedded servers: filled, looked at, forgotten.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::handle;
use midas_lab::{create, mkdir, until};
use midas_net::Client;
use midas_nfs::nfs3::{Call, DirOp, Fattr3, Nfsstat3, Reply, Sattr3};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use support::midas;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};

const DIRECTORIES: usize = 3;
const FILES: usize = 60;
/// In `lib`, and in the directories in it.
const NAMES: u64 = (DIRECTORIES * FILES + DIRECTORIES) as u64;
const LEASE: &str = "mode = \"lease\"\nwriters = \"midas-only\"\nlease_age_max = \"1h\"\n";

struct World {
    nfsd: Nfsd,
    proxy: Serve,
}

impl World {
    /// A proxy over three servers that hold `lib/d0/f0`, .. and move a file's atime when it is read.
    fn new(export: &'static str) -> Self {
        let nfsd = Nfsd::start(&["--servers", "3", "--truth", "--atime"]);
        let (mut direct, root) = nfsd.endpoint(0).client();
        let lib = mkdir(&mut direct, &root, b"lib");
        for directory in 0..DIRECTORIES {
            let dir = mkdir(&mut direct, &lib, format!("d{directory}").as_bytes());
            (0..FILES).for_each(|file| drop(create(&mut direct, &dir, format!("f{file}").as_bytes())));
        }
        let proxy = Site { export, ..Site::of(&nfsd.endpoints()) }.start();
        Self { nfsd, proxy }
    }

    fn run(&self, command: &str) -> String {
        self.proxy.command(command)
    }

    fn json(&self, command: &str) -> Value {
        serde_json::from_str(&self.run(&format!("{command} --json"))).unwrap()
    }

    fn cache(&self) -> Value {
        self.json("status")["exports"][0]["cache"].clone()
    }

    fn fetched(&self) -> u64 {
        self.cache()["reads"]["fetched"].as_u64().unwrap()
    }

    /// What must fail, in one line.
    fn refused(&self, command: &str) -> String {
        let output = midas(&format!("{command} --socket {}", self.proxy.socket().display()));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.lines().count() == 1, "midas {command}: {said}");
        said
    }
}

fn lookup(client: &mut Client, dir: &[u8], name: &str) -> Option<Vec<u8>> {
    match client.nfs(&Call::Lookup { what: DirOp { dir: handle(dir), name: name.as_bytes() } }).unwrap() {
        Reply::Lookup(Ok(found)) => Some(found.object.bytes().to_vec()),
        Reply::Lookup(Err(failed)) if failed.status == Nfsstat3::NOENT => None,
        other => panic!("LOOKUP {name}: {other:?}"),
    }
}

fn getattr(client: &mut Client, object: &[u8]) {
    attributes(client, object);
}

fn attributes(client: &mut Client, object: &[u8]) -> Fattr3 {
    match client.nfs(&Call::Getattr { object: handle(object) }).unwrap() {
        Reply::Getattr(Ok(attributes)) => attributes,
        other => panic!("GETATTR: {other:?}"),
    }
}

/// Looks at everything below `lib` once.
fn walk(client: &mut Client, root: &[u8]) {
    let lib = lookup(client, root, "lib").unwrap();
    for directory in 0..DIRECTORIES {
        let dir = lookup(client, &lib, &format!("d{directory}")).unwrap();
        getattr(client, &dir);
        for file in 0..FILES {
            let file = lookup(client, &dir, &format!("f{file}")).unwrap();
            getattr(client, &file);
        }
    }
}

#[test]
fn a_walk_over_a_warm_tree_is_answered_here() {
    let mut world = World::new(LEASE);
    let said = world.run("warm /scratch/lib --json");
    let last: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!((&last["ended"], &last["broken"]), (&json!("complete"), &json!(false)), "{said}");
    assert_eq!((&last["directories"], &last["names"]), (&json!(1 + DIRECTORIES), &json!(NAMES)), "{said}");
    assert_eq!((&last["failed"], &last["refused"], &last["ahead"]), (&json!(0), &json!(0), &json!(0)), "{said}");
    assert!(last["kept"].as_u64().unwrap() >= 2 * NAMES, "a name and attributes each: {said}");

    let before: u64 = world.nfsd.executed("LOOKUP").iter().sum();
    let (mut client, root) = world.proxy.client();
    walk(&mut client, &root);
    let cache = world.cache();
    let reads = json!({ "answered": 2 * NAMES, "absent": 0, "joined": 0, "fetched": 1 });
    assert_eq!(cache["reads"], reads, "only the name of the tree itself was not in it: {cache}");
    let asked = world.nfsd.executed("LOOKUP").iter().sum::<u64>() - before;
    assert!(asked <= 1 + NAMES / 2, "{asked} lookups at the servers: more than some checks");

    let status = world.run("status");
    assert!(
        status.contains("  cache lease: 99.7 % of 367 reads answered (0.0 % missing names), 0.0 % joined"),
        "{status}"
    );
    let metrics = http(&world.proxy, "GET /metrics", "");
    for line in [
        &format!("midas_cache_reads_total{{export=\"/scratch\",procedure=\"LOOKUP\",fate=\"answered\"}} {NAMES}"),
        "midas_cache_reads_total{export=\"/scratch\",procedure=\"LOOKUP\",fate=\"fetched\"} 1",
        "midas_cache_mode{export=\"/scratch\",mode=\"lease\"} 1",
        "midas_cache_demoted{export=\"/scratch\"} 0",
        "midas_cache_refused_total{export=\"/scratch\",reason=\"pending\"} 0",
    ] {
        assert!(metrics.contains(&format!("{line}\n")), "no {line} in:\n{metrics}");
    }
}

#[test]
fn a_walk_stops_where_it_is_told_to_and_where_nothing_would_be_kept() {
    let world = World::new("writers = \"midas-only\"\n");
    let strict = world.refused("warm /scratch/lib");
    assert!(strict.contains("nothing would be kept: the mode of /scratch is strict"), "{strict}");
    world.run("set /scratch mode=lease");
    let flat = world.run("warm /scratch/lib --depth 0");
    assert!(flat.starts_with("complete: 1 directories, 3 names; "), "{flat}");
    let short = world.run("warm /scratch/lib --limit 40");
    assert!(short.starts_with("at the limit of 40 names: "), "{short}");
    for (command, named) in [
        ("warm", "<PATH>"),
        ("warm /other", "below no export"),
        ("warm /scratch/nothing", "NOENT"),
        ("warm /scratch/lib --user 5", "UID:GID"),
        ("invalidate", "<PATH>"),
        ("invalidate --all /scratch/lib", "cannot be used with"),
        ("invalidate /scratch/lib/d0 /scratch/lib /scratch/no/x", "done before that: /scratch/lib/d0, /scratch/lib"),
        ("invalidate --all --export /scrach", "did you mean '/scratch'?"),
        ("cache /scrach", "did you mean '/scratch'?"),
    ] {
        let said = world.refused(command);
        assert!(said.contains(named), "midas {command} does not name '{named}': {said}");
    }
    world.run("bypass on");
    assert!(world.refused("warm /scratch/lib").contains("bypass is on"));
}

#[test]
fn one_walk_at_a_time_and_it_ends_when_nobody_listens() {
    let nfsd = Nfsd::start(&["--servers", "1", "--service", "const:15ms"]);
    let (mut direct, root) = nfsd.endpoint(0).client();
    (0..100).for_each(|number| drop(mkdir(&mut direct, &root, format!("d{number}").as_bytes())));
    let proxy = Site { export: LEASE, ..Site::of(&nfsd.endpoints()) }.start();
    let world = World { nfsd, proxy };
    let mut first = BufReader::new(ask(&world.proxy, "POST /api/v1/warm", r#"{"paths": ["/scratch"]}"#));
    let mut progress = String::new();
    while !progress.contains("\"directories\"") {
        progress.clear();
        assert!(first.read_line(&mut progress).unwrap() > 0, "no progress");
    }
    let progress: Value = serde_json::from_str(&progress).unwrap();
    assert!(progress["ended"].is_null() && progress["ahead"].as_u64().unwrap() > 0, "{progress}");
    let second = world.refused("warm /scratch --depth 0");
    assert!(second.contains("another walk is under way"), "{second}");
    drop(first);
    world.proxy.said("cache warmed", 1);
    until("the next walk may begin", || {
        midas(&format!("warm /scratch --depth 0 --socket {}", world.proxy.socket().display())).status.success()
    });
}

#[test]
fn what_is_invalidated_is_asked_for_once_more_and_nothing_else_is() {
    let world = World::new(LEASE);
    let (mut client, root) = world.proxy.client();
    world.run("warm /scratch");
    walk(&mut client, &root);
    let lib = lookup(&mut client, &root, "lib").unwrap();
    let dir = lookup(&mut client, &lib, "d1").unwrap();
    let other = lookup(&mut client, &lib, "d2").unwrap();
    let file = lookup(&mut client, &dir, "f1").unwrap();
    assert_eq!(lookup(&mut client, &dir, "missing"), None);
    let mut before = world.fetched();
    let mut cost = |what: &str, want: u64, look: &mut dyn FnMut(&mut Client)| {
        look(&mut client);
        let now = world.fetched();
        assert_eq!(now - before, want, "{what}");
        before = now;
    };
    cost("all is known", 0, &mut |client| {
        getattr(client, &file);
        assert!(lookup(client, &dir, "f1").is_some() && lookup(client, &dir, "missing").is_none());
    });
    world.run("invalidate /scratch/lib/d1/f1 /scratch/lib/d1/missing");
    cost("its attributes", 1, &mut |client| getattr(client, &file));
    cost("its name", 1, &mut |client| assert!(lookup(client, &dir, "f1").is_some()));
    cost("a name that is not there", 1, &mut |client| assert!(lookup(client, &dir, "missing").is_none()));
    cost("once", 0, &mut |client| {
        getattr(client, &file);
        assert!(lookup(client, &dir, "f1").is_some() && lookup(client, &dir, "missing").is_none());
        assert!(lookup(client, &dir, "f2").is_some(), "its neighbour");
    });
    world.run("invalidate /scratch/lib/d1");
    cost("its names", 2, &mut |client| assert!(["f1", "f2"].iter().all(|name| lookup(client, &dir, name).is_some())));
    cost("what lies deeper, and beside", 0, &mut |client| {
        getattr(client, &file);
        assert!(lookup(client, &other, "f1").is_some());
    });
    assert_eq!(world.run("invalidate --all"), "everything is forgotten of /scratch\n");
    assert_eq!(world.cache()["bytes"], 0);
    cost("everything", 1, &mut |client| assert!(lookup(client, &other, "f1").is_some()));
}

#[test]
fn what_is_held_is_shown_by_kind_and_by_subtree() {
    let world = World::new(LEASE);
    assert!(world.run("cache").contains("no reads yet; 0 entries, 0 B"), "{}", world.run("cache"));
    let (mut client, root) = world.proxy.client();
    world.run("warm /scratch/lib");
    let held = world.json("cache")["exports"][0].clone();
    assert_eq!(held["subtrees"], json!([]), "no name that is held leads there: {held}");
    assert!(held["elsewhere"]["entries"].as_u64().unwrap() >= 2 * NAMES, "{held}");
    walk(&mut client, &root);
    assert_eq!(lookup(&mut client, &root, "missing"), None);
    let held = world.json("cache")["exports"][0].clone();
    let of = |list: &str, what: &str| {
        let rows = held[list].as_array().unwrap();
        rows.iter().find(|row| row["what"] == what).unwrap_or_else(|| panic!("no {what}: {held}"))["entries"]
            .as_u64()
            .unwrap()
    };
    assert!(of("kinds", "attributes") > NAMES && of("kinds", "names") > NAMES, "{held}");
    assert_eq!(of("kinds", "absent names"), 1);
    assert!(of("subtrees", "/scratch/lib") >= 2 * NAMES && of("subtrees", "/scratch") >= 3, "{held}");
    assert_eq!(held["elsewhere"]["entries"], 0, "{held}");
    let sum =
        |list: &str, what: &str| held[list].as_array().unwrap().iter().map(|row| row[what].as_u64().unwrap()).sum();
    for what in ["entries", "bytes"] {
        let (kinds, subtrees): (u64, u64) = (sum("kinds", what), sum("subtrees", what));
        assert_eq!(kinds, subtrees, "{what}: {held}");
    }
    // Keys without a value take room too.
    let all = held["cache"]["bytes"].as_u64().unwrap();
    assert!((all / 2..=all).contains(&sum("kinds", "bytes")), "{held}");
    assert_eq!(held["reads"]["GETATTR"], json!({ "answered": NAMES, "absent": 0, "joined": 0, "fetched": 0 }));
    let text = world.run("cache /scratch");
    for word in
        ["export /scratch: cache lease: ", "kind ", "bytes each", "/scratch/lib", "LOOKUP ", "asked of a server"]
    {
        assert!(text.contains(word), "no '{word}' in:\n{text}");
    }
}

/// A request on a connection of its own.
fn ask(proxy: &Serve, request: &str, body: &str) -> UnixStream {
    let mut stream = UnixStream::connect(proxy.socket()).unwrap();
    let head = "Host: midas\r\nConnection: close\r\nContent-Type: application/json";
    write!(stream, "{request} HTTP/1.1\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    stream
}

fn http(proxy: &Serve, request: &str, body: &str) -> String {
    let mut answer = String::new();
    ask(proxy, request, body).read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_writer_past_midas_demotes_the_export_a_reader_does_not_and_set_arms_it_again() {
    let world = World::new(LEASE);
    let (mut client, root) = world.proxy.client();
    let lib = lookup(&mut client, &root, "lib").unwrap();
    let dir = lookup(&mut client, &lib, "d0").unwrap();
    let hot: Vec<Vec<u8>> = (0..40).map(|file| lookup(&mut client, &dir, &format!("f{file}")).unwrap()).collect();
    let mut checked = 0;
    let mut look = |client: &mut Client| {
        (0..20).for_each(|_| hot.iter().for_each(|file| getattr(client, file)));
        let cache = world.cache();
        checked = cache["checked"].as_u64().unwrap().max(checked);
        (checked, cache["demoted"].as_str().map(str::to_owned))
    };
    let (mut direct, _) = world.nfsd.endpoint(0).client();
    let unread: Vec<Fattr3> = hot.iter().map(|file| attributes(&mut client, file)).collect();
    for (file, unread) in hot.iter().zip(&unread) {
        let read = Call::Read { file: handle(file), offset: 0, count: 1 };
        assert_eq!(direct.nfs(&read).unwrap().status(), Nfsstat3::OK);
        let now = attributes(&mut direct, file);
        assert!(now.atime > unread.atime, "it was read: {now:?}");
        assert_eq!(Fattr3 { atime: unread.atime, ..now }, *unread, "nothing else is new");
    }
    let before = look(&mut client).0;
    until("hits are checked", || look(&mut client).0 >= before + 20);
    assert_eq!(look(&mut client).1, None, "who reads past MIDAS changes nothing");
    assert_eq!(world.cache()["different"], 0, "and no check saw a difference");
    let kept = hot.iter().zip(&unread).filter(|(file, unread)| attributes(&mut client, file) == **unread).count();
    assert!(kept > hot.len() / 2, "what was checked is of before: {kept}");
    let before = look(&mut client).0;
    // Not the first ones of each round: these would be looked at sooner than others.
    for file in hot.iter().skip(hot.len() / 2).take(hot.len() / 10) {
        let new_attributes = Sattr3 { size: Some(1), ..Sattr3::default() };
        let change = Call::Setattr { object: handle(file), new_attributes, guard: None };
        assert_eq!(direct.nfs(&change).unwrap().status(), Nfsstat3::OK);
    }
    let mut why = None;
    until("the export is demoted", || {
        why = look(&mut client).1;
        why.is_some()
    });
    let sampled = look(&mut client).0 - before;
    assert!(sampled <= 100, "{sampled} hits were checked");
    let why = why.unwrap();
    assert!(why.contains("writes past MIDAS: #"), "{why}");
    let hex = |handle: &Vec<u8>| handle.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    assert!(hot.iter().chain([&dir]).all(|handle| !why.contains(&hex(handle))), "who may read it may not call: {why}");
    assert_eq!(world.cache()["mode"], "strict");
    assert!(world.run("status").contains("writes past MIDAS"), "it is said where people look");
    world.run("set /scratch mode=lease");
    let cache = world.cache();
    assert_eq!((&cache["mode"], &cache["demoted"]), (&json!("lease"), &Value::Null));
}
