//! Listings of 100,000 names while others come and go and servers restart, and reads after mutations where servers believe for a minute
//! what they once knew.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::handle;
use midas_lab::{Endpoint, Ganesha, Part, create, mkdir, require, until};
use midas_net::Client;
use midas_nfs::nfs3::{Call, DirOp, Fattr3, Nfsstat3, Reply, Sattr3, StableHow, Verifier};
use std::collections::HashSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};

/// A client that has mounted.
struct Mounted {
    nfs: Client,
    root: Vec<u8>,
}

impl Mounted {
    fn at(endpoint: &Endpoint) -> Self {
        let (nfs, root) = endpoint.client();
        Self { nfs, root }
    }

    fn create(&mut self, dir: &[u8], name: &str) -> Vec<u8> {
        create(&mut self.nfs, dir, name.as_bytes())
    }

    fn mkdir(&mut self, name: &str) -> Vec<u8> {
        mkdir(&mut self.nfs, &self.root, name.as_bytes())
    }

    fn done(&mut self, call: &Call<'_>) {
        assert_eq!(self.nfs.nfs(call).unwrap().status(), Nfsstat3::OK, "{call:?}");
    }

    fn getattr(&mut self, object: &[u8]) -> Result<Fattr3, Nfsstat3> {
        match self.nfs.nfs(&Call::Getattr { object: handle(object) }).unwrap() {
            Reply::Getattr(Ok(attributes)) => Ok(attributes),
            other => Err(other.status()),
        }
    }

    fn lookup(&mut self, dir: &[u8], name: &str) -> Result<(Vec<u8>, Option<Fattr3>), Nfsstat3> {
        match self.nfs.nfs(&Call::Lookup { what: at(dir, name) }).unwrap() {
            Reply::Lookup(Ok(found)) => Ok((found.object.bytes().to_vec(), found.attributes)),
            other => Err(other.status()),
        }
    }

    /// Every name but `.` and `..`, in the order in which they come; `between` is called after each page with its number.
    fn list(&mut self, dir: &[u8], mut between: impl FnMut(usize)) -> Vec<String> {
        let (mut cookie, mut cookieverf, mut names) = (0, Verifier::default(), Vec::new());
        for page in 0.. {
            let call = Call::Readdir { dir: handle(dir), cookie, cookieverf, count: PAGE };
            let reply = self.nfs.nfs(&call).unwrap();
            let Reply::Readdir(Ok(ok)) = reply else { panic!("page {page} from {cookie}: {:?}", reply.status()) };
            let mut entries = ok.entries();
            for entry in entries.by_ref() {
                let entry = entry.unwrap();
                cookie = entry.cookie;
                names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            }
            cookieverf = ok.cookieverf;
            if entries.eof() == Some(true) {
                break;
            }
            between(page);
        }
        names.retain(|name| name != "." && name != "..");
        names
    }

    /// Attributes and handles as READDIRPLUS shows them.
    fn shown(&mut self, dir: &[u8]) -> Vec<(String, Option<Fattr3>)> {
        let (cookieverf, dircount, maxcount) = (Verifier::default(), 1 << 16, 1 << 16);
        let call = Call::Readdirplus { dir: handle(dir), cookie: 0, cookieverf, dircount, maxcount };
        let Reply::Readdirplus(Ok(page)) = self.nfs.nfs(&call).unwrap() else { panic!("READDIRPLUS") };
        let entries = page.entries().map(|plus| plus.unwrap());
        entries.map(|plus| (String::from_utf8_lossy(plus.entry.name).into_owned(), plus.attributes)).collect()
    }
}

fn at<'a>(dir: &'a [u8], name: &'a str) -> DirOp<'a> {
    DirOp { dir: handle(dir), name: name.as_bytes() }
}

fn stays(number: usize) -> String {
    format!("stays-{number}")
}

/// Lists a directory through the proxy while another client makes and removes names in it, and judges what was listed.
fn list_while_others_write(proxy: &Endpoint, dir: &[u8], between: impl FnMut(usize)) {
    let over = AtomicBool::new(false);
    let (listed, made) = thread::scope(|scope| {
        let writer = scope.spawn(|| write_until(proxy, dir, &over));
        // A listing that panics must not leave the writer at work for ever.
        let ended = Ended(&over);
        let listed = Mounted::at(proxy).list(dir, between);
        drop(ended);
        (listed, writer.join().unwrap())
    });
    println!("{} names listed while {made} came and went", listed.len());
    assert!(made > 10, "the writer hardly wrote");
    let once: HashSet<&str> = listed.iter().map(String::as_str).collect();
    assert_eq!(once.len(), listed.len(), "a name came twice");
    let stayed = (0..NAMES).filter(|number| once.contains(stays(*number).as_str())).count();
    assert_eq!(stayed, NAMES, "names are missing");
    let known = |name: &str| {
        let passing = name.strip_prefix("passes-").and_then(|number| number.parse().ok());
        name.starts_with("stays-") || passing.is_some_and(|number: usize| number < made)
    };
    assert!(listed.iter().all(|name| known(name)), "a name that never was");
}

/// Tells, when it is dropped, that the listing is over.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Makes names and removes most of them again, each name once; how many it made.
fn write_until(proxy: &Endpoint, dir: &[u8], over: &AtomicBool) -> usize {
    let mut mounted = Mounted::at(proxy);
    let name = |number| format!("passes-{number}");
    let mut made = 0;
    while !over.load(Ordering::Relaxed) {
        mounted.create(dir, &name(made));
        if made % 5 != 0 {
            mounted.done(&Call::Remove { object: at(dir, &name(made)) });
        }
        made += 1;
    }
    // What was left is removed, so that the next listing starts from what stays.
    for left in (0..made).step_by(5) {
        mounted.done(&Call::Remove { object: at(dir, &name(left)) });
    }
    made
}

/// Fills a directory through every server at once.
fn fill(servers: &[Endpoint], dir: &[u8]) {
    thread::scope(|scope| {
        for (first, server) in servers.iter().enumerate() {
            scope.spawn(move || {
                let mut mounted = Mounted::at(server);
                for number in (first..NAMES).step_by(servers.len()) {
                    mounted.create(dir, &stays(number));
                }
            });
        }
    });
}

#[test]
fn a_hundred_thousand_names_are_listed_once_each_while_servers_restart_and_while_they_are_down() {
    let mut nfsd = Nfsd::start(&["--servers", "3"]);
    let servers = nfsd.endpoints();
    let mut direct = Mounted::at(&servers[0]);
    let dir = direct.mkdir("many");
    fill(&servers, &dir);
    // The root is too small to show that cookies are portable: the listing stays where it began and waits for its server.
    let bound = Serve::start(&servers);
    list_while_others_write(&bound.endpoint(), &dir, |page| {
        if let Some(server) = [20, 40, 60].iter().position(|at| *at == page) {
            nfsd.tell(&format!("restart {server}"));
        }
    });
    drop(bound);
    let mut direct = Mounted::at(&servers[0]);
    let root = direct.root.clone();
    (0..50).for_each(|number| drop(direct.create(&root, &format!("name-{number}"))));
    // Now it can be shown, and the listing goes on elsewhere while its server is down.
    let portable = Serve::start(&servers);
    list_while_others_write(&portable.endpoint(), &dir, |page| {
        if let Some(step) = [20, 30, 40, 50, 60, 70].iter().position(|at| *at == page) {
            let fault = if step % 2 == 0 { "down" } else { "none" };
            nfsd.tell(&format!("fault {} {fault}", step / 2));
        }
    });
}

#[test]
fn a_hundred_thousand_names_are_listed_once_each_over_three_unmodified_servers() {
    if !require(Part::Ganesha) {
        return;
    }
    let ganesha = Ganesha::start(3, 0);
    let many = ganesha.export().join("many");
    fs::create_dir(&many).unwrap();
    (0..NAMES).for_each(|number| drop(fs::File::create(many.join(stays(number))).unwrap()));
    (0..50).for_each(|number| drop(fs::File::create(ganesha.export().join(format!("name-{number}"))).unwrap()));
    let proxy = Serve::start(ganesha.heads());
    let mut mounted = Mounted::at(&proxy.endpoint());
    let root = mounted.root.clone();
    let (dir, _) = mounted.lookup(&root, "many").unwrap();
    list_while_others_write(&proxy.endpoint(), &dir, |_| {});
}

/// As a head of Ganesha fails while another call removes a name: it is asked twice more before the client is told.
#[test]
fn a_listing_that_fails_as_no_listing_can_is_asked_for_again() {
    let mut nfsd = Nfsd::start(&["--servers", "1"]);
    let proxy = Serve::start(&nfsd.endpoints());
    let mut mounted = Mounted::at(&proxy.endpoint());
    let dir = mounted.mkdir("some");
    nfsd.tell("fault 0 fail:NOENT");
    until("it fails", || mounted.getattr(&dir) == Err(Nfsstat3::NOENT));
    let sent = |proxy: &Serve| proxy.servers()[0]["dispatched"].as_u64().unwrap();
    let (cookieverf, count) = (Verifier::default(), PAGE);
    let page = Call::Readdir { dir: handle(&dir), cookie: 0, cookieverf, count };
    for (call, times) in [(Call::Lookup { what: at(&dir, "name") }, 1), (page, 3)] {
        let before = sent(&proxy);
        assert_eq!(mounted.nfs.nfs(&call).unwrap().status(), Nfsstat3::NOENT);
        assert_eq!(sent(&proxy) - before, times, "{call:?}");
    }
}

/// A proxy that is told for how long servers believe what they knew.
fn believing(servers: &[Endpoint], staleness: &'static str) -> Serve {
    Site { staleness, ..Site::of(servers) }.start()
}

#[test]
fn where_servers_believe_what_they_knew_a_directorys_mutations_stay_at_one_of_them() {
    let mut nfsd = Nfsd::start(&["--servers", "3", "--truth"]);
    let proxy = believing(&nfsd.endpoints(), "60s");
    let dir = Mounted::at(&proxy.endpoint()).mkdir("busy");
    let endpoint = proxy.endpoint();
    thread::scope(|scope| {
        for client in 0..8 {
            let (dir, endpoint) = (&dir, &endpoint);
            scope.spawn(move || {
                let mut mounted = Mounted::at(endpoint);
                (0..50).for_each(|number| drop(mounted.create(dir, &format!("{client}-{number}"))));
            });
        }
    });
    let mut creates = nfsd.executed("CREATE");
    creates.sort_unstable();
    assert_eq!(creates, [0, 0, 400]);
}

/// What was read through the proxy after mutations through it, and was not true.
fn untrue(ganesha: &Ganesha, staleness: &'static str) -> Vec<String> {
    let proxy = believing(ganesha.heads(), staleness);
    let mut mounted = Mounted::at(&proxy.endpoint());
    let dir = mounted.mkdir(&format!("after-{staleness}"));
    // Made directly, so that the proxy has seen none of them.
    let mut direct = Mounted::at(&ganesha.heads()[0]);
    let files: Vec<Files> = (0..FILES).map(|number| Files::make(&mut direct, &dir, number)).collect();
    // Every head knows everything now.
    for head in ganesha.heads() {
        let mut direct = Mounted::at(head);
        direct.shown(&dir);
        for file in files.iter().flat_map(|files| [&files.stays, &files.over, &files.goes, &files.unseen]) {
            direct.lookup(&dir, &file.0).unwrap();
            direct.getattr(&file.1).unwrap();
        }
    }
    let mut untrue = Vec::new();
    for files in &files {
        files.change(&mut mounted, &dir, &mut untrue);
    }
    let shown = mounted.shown(&dir);
    for files in &files {
        let seen = shown.iter().find(|(name, _)| *name == files.over.0);
        if seen.is_none_or(|(_, attributes)| attributes.is_some_and(|seen| !Files::is_new(&seen))) {
            untrue.push(format!("{} is listed as {seen:?}", files.over.0));
        }
        for gone in [&files.stays.0, &files.goes.0, &files.unseen.0] {
            if shown.iter().any(|(name, _)| name == gone) {
                untrue.push(format!("{gone} is listed"));
            }
        }
    }
    untrue
}

/// Some files with their names.
struct Files {
    number: usize,
    /// Is changed, linked and moved over the next.
    stays: (String, Vec<u8>),
    over: (String, Vec<u8>),
    /// Is looked up and removed.
    goes: (String, Vec<u8>),
    /// Is removed without being looked up.
    unseen: (String, Vec<u8>),
}

impl Files {
    fn make(mounted: &mut Mounted, dir: &[u8], number: usize) -> Self {
        let mut make = |kind: &str| {
            let name = format!("{kind}-{number}");
            let made = mounted.create(dir, &name);
            (name, made)
        };
        Self { number, stays: make("stays"), over: make("over"), goes: make("goes"), unseen: make("unseen") }
    }

    fn is_new(seen: &Fattr3) -> bool {
        (seen.mode & 0o777, seen.size, seen.nlink) == (0o600, DATA.len() as u64, 2)
    }

    fn change(&self, through: &mut Mounted, dir: &[u8], untrue: &mut Vec<String>) {
        let Self { number, stays, over, goes, unseen } = self;
        let mut must = |what: &str, is: bool| {
            if !is {
                untrue.push(format!("{number}: {what}"));
            }
        };
        let file = handle(&stays.1);
        let new_attributes = Sattr3 { mode: Some(0o600), ..Sattr3::default() };
        through.done(&Call::Setattr { object: file, new_attributes, guard: None });
        must("mode", through.getattr(&stays.1).is_ok_and(|seen| seen.mode & 0o777 == 0o600));
        let (_, seen) = through.lookup(dir, &stays.0).unwrap();
        must("mode by LOOKUP", seen.is_none_or(|seen| seen.mode & 0o777 == 0o600));
        let count = DATA.len() as u32;
        through.done(&Call::Write { file, offset: 0, count, stable: StableHow::FileSync, data: DATA });
        must("size", through.getattr(&stays.1).is_ok_and(|seen| seen.size == u64::from(count)));
        let second = format!("second-{number}");
        through.done(&Call::Link { file, link: at(dir, &second) });
        must("links", through.getattr(&stays.1).is_ok_and(|seen| seen.nlink == 2));
        through.done(&Call::Rename { from: at(dir, &stays.0), to: at(dir, &over.0) });
        must("moved", through.getattr(&stays.1).is_ok_and(|seen| Self::is_new(&seen)));
        must("overwritten", is_gone(through.getattr(&over.1)));
        must("old name", through.lookup(dir, &stays.0) == Err(Nfsstat3::NOENT));
        must("new name", through.lookup(dir, &over.0).is_ok_and(|(object, _)| object == stays.1));
        must("name", through.lookup(dir, &goes.0).is_ok());
        for (name, object) in [goes, unseen] {
            through.done(&Call::Remove { object: at(dir, name) });
            must(name, is_gone(through.getattr(object)));
            must(name, through.lookup(dir, name) == Err(Nfsstat3::NOENT));
        }
    }
}

/// A head that another one keeps a removed file open for shows it without links: so does a single server.
fn is_gone(seen: Result<Fattr3, Nfsstat3>) -> bool {
    seen.map_or_else(|status| status == Nfsstat3::STALE, |seen| seen.nlink == 0)
}

#[test]
fn d6_after_a_mutation_through_it_every_read_through_it_is_new_though_servers_believe_for_a_minute_what_they_knew() {
    if !require(Part::Ganesha) {
        return;
    }
    let ganesha = Ganesha::start(3, 60);
    let without = untrue(&ganesha, "0s");
    println!("without fences {} answers are old, such as {:?}", without.len(), without.first());
    assert!(!without.is_empty(), "the heads believe nothing: this test shows nothing");
    assert_eq!(untrue(&ganesha, "60s"), Vec::<String>::new());
}

const NAMES: usize = 100_000;
/// Files of each kind: so many do not all have their directory's home.
const FILES: usize = 16;
const DATA: &[u8] = b"what was written";
/// Bytes of a page: some hundred names.
const PAGE: u32 = 16 << 10;
