//! Whose a handle is, where one pool has several exports with one fsid: the rules of the export
//! that an object lies in hold for it, whatever the proxy has forgotten.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::handle;
use midas_lab::{Ganesha, PATIENCE, Part, create, mkdir, require};
use midas_net::{Caller, Client, ClientError, Source};
use midas_nfs::nfs3::{Call, CreateHow, DirOp, Nfsstat3, Reply, Sattr3, StableHow};
use rustix::process::Signal;
use serde_json::Value;
use std::net::SocketAddr;
use support::coherent::soak;
use support::members::Members;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};

/// An export of the pool: its path, its source and its own lines.
type Rules<'a> = (&'a str, &'a str, &'a str);

const EVERYONE: &str = "clients = [\"127.0.0.0/8\"]\ninsecure = true\n";

fn config(addresses: &[SocketAddr], exports: &[Rules<'_>]) -> String {
    let listen = Site::over(addresses.to_vec(), None, "/").listen;
    let servers: Vec<String> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
    let pool = format!("[[pool]]\nname = \"heads\"\nservers = [{}]\nstaleness = \"0s\"\n", servers.join(", "));
    format!("[listen]\n{listen}\n{pool}{}", tables(exports))
}

fn tables(exports: &[Rules<'_>]) -> String {
    let table = |(path, source, lines): &Rules<'_>| {
        format!("[[export]]\npath = \"{path}\"\nsource = \"{source}\"\npool = \"heads\"\n{lines}")
    };
    exports.iter().map(table).collect()
}

/// `/scratch` may be written, `/software` only read; both lie in one file system.
fn two(addresses: &[SocketAddr]) -> String {
    let writable = format!("{EVERYONE}access = \"rw\"\nsquash = \"none\"\n");
    let readable = format!("{EVERYONE}squash = \"root\"\n");
    config(addresses, &[("/scratch", "/scratch", &writable), ("/software", "/software", &readable)])
}

fn connect(address: SocketAddr) -> Client {
    Client::connect(address, &Caller::ROOT, PATIENCE).unwrap()
}

fn root(proxy: &Serve, path: &str) -> Vec<u8> {
    connect(proxy.mount[0]).mount(path.as_bytes()).unwrap().root
}

fn write(client: &mut Client, file: &[u8]) -> Nfsstat3 {
    let (file, data) = (handle(file), b"kept".as_slice());
    client.nfs(&Call::Write { file, offset: 0, count: 4, stable: StableHow::FileSync, data }).unwrap().status()
}

fn create_in(client: &mut Client, dir: &[u8], name: &[u8]) -> Nfsstat3 {
    let place = DirOp { dir: handle(dir), name };
    client.nfs(&Call::Create { place, how: CreateHow::Guarded(Sattr3::default()) }).unwrap().status()
}

fn lookup(client: &mut Client, dir: &[u8], name: &[u8]) -> Vec<u8> {
    client.walk(dir, name).unwrap()
}

/// Servers with both sources and a file in each, below a directory.
fn servers() -> Nfsd {
    let nfsd = Nfsd::start(&["--servers", "2"]);
    let (mut direct, top) = nfsd.endpoint(0).client();
    for source in [b"scratch".as_slice(), b"software"] {
        let below = mkdir(&mut direct, &top, source);
        let dir = mkdir(&mut direct, &below, b"dir");
        create(&mut direct, &dir, b"file");
    }
    nfsd
}

#[test]
fn what_may_be_written_is_still_written_after_a_restart() {
    // A handle that was not learned again had the strictest rules of all exports of its pool, and its data was lost.
    let nfsd = servers();
    let mut proxy = Serve::of(&two(&nfsd.addresses));
    let mut client = connect(proxy.nfs[0]);
    let (scratch, software) = (root(&proxy, "/scratch"), root(&proxy, "/software"));
    let dir = lookup(&mut client, &scratch, b"dir");
    let made = create(&mut client, &dir, b"made");
    let found = lookup(&mut client, &dir, b"file");
    let other = lookup(&mut client, &software, b"dir/file");
    let installed = lookup(&mut client, &software, b"dir");
    assert_eq!((write(&mut client, &made), write(&mut client, &other)), (Nfsstat3::OK, Nfsstat3::ROFS));
    for signal in [Signal::TERM, Signal::KILL] {
        proxy.signal(signal);
        proxy.ended();
        proxy.again();
        let mut client = connect(proxy.nfs[0]);
        assert_eq!(write(&mut client, &made), Nfsstat3::OK, "after {signal:?}");
        assert_eq!(write(&mut client, &found), Nfsstat3::OK, "after {signal:?}");
        assert_eq!(write(&mut client, &other), Nfsstat3::ROFS, "after {signal:?}");
        assert_eq!(create_in(&mut client, &dir, format!("{signal:?}").as_bytes()), Nfsstat3::OK);
        assert_eq!(create_in(&mut client, &installed, b"new"), Nfsstat3::ROFS);
    }
}

#[test]
fn a_directory_that_lies_deep_is_known_after_a_restart() {
    let nfsd = servers();
    let mut proxy = Serve::of(&two(&nfsd.addresses));
    let mut client = connect(proxy.nfs[0]);
    let mut dir = lookup(&mut client, &root(&proxy, "/scratch"), b"dir");
    for _ in 0..300 {
        dir = mkdir(&mut client, &dir, b"d");
    }
    proxy.signal(Signal::KILL);
    proxy.ended();
    proxy.again();
    assert_eq!(create_in(&mut connect(proxy.nfs[0]), &dir, b"new"), Nfsstat3::OK);
}

#[test]
fn a_directory_below_an_export_that_lies_in_another_is_mounted_by_the_inner_rules() {
    // `/all` = `/`; `/secret` may be read by another client alone. MNT of `/all/secret/x` gave its handle to everyone.
    let nfsd = Nfsd::start(&["--servers", "1"]);
    let (mut direct, top) = nfsd.endpoint(0).client();
    let secret = mkdir(&mut direct, &top, b"secret");
    mkdir(&mut direct, &secret, b"x");
    let all = format!("{EVERYONE}access = \"rw\"\nsquash = \"none\"\n");
    let theirs = "clients = [\"127.9.9.9\"]\ninsecure = true\n";
    let proxy = Serve::of(&config(&nfsd.addresses, &[("/all", "/", &all), ("/hidden", "/secret", theirs)]));
    let mut mount = connect(proxy.mount[0]);
    for path in ["/all/secret", "/all/secret/x", "/all/./secret//x", "/hidden", "/hidden/x"] {
        let refused = mount.mount(path.as_bytes());
        assert!(matches!(refused, Err(ClientError::Status(Nfsstat3::ACCES))), "{path}: {refused:?}");
    }
    let mut client = connect(proxy.nfs[0]);
    let x = direct.walk(&top, b"secret/x").unwrap();
    let all = root(&proxy, "/all");
    let found = lookup(&mut client, &all, b"secret");
    for dir in [&x, &found] {
        assert_eq!(create_in(&mut client, dir, b"new"), Nfsstat3::ACCES);
        let what = DirOp { dir: handle(dir), name: b"x" };
        assert_eq!(client.nfs(&Call::Lookup { what }).unwrap().status(), Nfsstat3::ACCES);
    }
}

#[test]
fn over_ganesha_an_export_that_lies_in_another_keeps_its_rules_by_every_handle() {
    // Ganesha puts the export into the handle: by way of the outer one, the inner one's root has another handle.
    if !require(Part::Ganesha) {
        return;
    }
    let ganesha = Ganesha::start_exporting(1, 0, &["all", "all/secret"]);
    std::fs::create_dir_all(ganesha.export().join("all/secret/x")).unwrap();
    let at = |source: &str| format!("{}/{source}", ganesha.heads()[0].path);
    let theirs = tables(&[("/hidden", &at("all/secret"), "clients = [\"127.9.9.9\"]\ninsecure = true\n")]);
    let proxy = Site { source: at("all"), more: theirs, ..Site::of(ganesha.heads()) }.start();
    let (mut client, all) = proxy.client();
    let secret = lookup(&mut client, &all, b"secret");
    assert_eq!(create_in(&mut client, &secret, b"new"), Nfsstat3::ACCES);
    let what = DirOp { dir: handle(&secret), name: b"x" };
    assert_eq!(client.nfs(&Call::Lookup { what }).unwrap().status(), Nfsstat3::ACCES);
    let refused = connect(proxy.mount[0]).mount(b"/scratch/secret/x");
    assert!(matches!(refused, Err(ClientError::Status(Nfsstat3::ACCES))), "{refused:?}");
    assert_eq!(create_in(&mut client, &all, b"new"), Nfsstat3::OK);
}

/// Who the servers say has made a file.
fn maker(client: &mut Client, dir: &[u8], name: &[u8]) -> (u32, u32) {
    let place = DirOp { dir: handle(dir), name };
    match client.nfs(&Call::Create { place, how: CreateHow::Guarded(Sattr3::default()) }).unwrap() {
        Reply::Create(Ok(made)) => made.attributes.map(|made| (made.uid, made.gid)).unwrap(),
        failed => panic!("{failed:?}"),
    }
}

#[test]
fn an_export_that_squashes_everyone_does_so_beside_one_that_squashes_the_superuser() {
    // Of a handle whose export was not known, the first rule that changed anything was the only one.
    let nfsd = servers();
    let root_only = format!("{EVERYONE}access = \"rw\"\nsquash = \"root\"\nanon_uid = 1111\nanon_gid = 1112\n");
    let everyone = format!("{EVERYONE}access = \"rw\"\nsquash = \"all\"\nanon_uid = 2221\nanon_gid = 2222\n");
    let exports: [Rules<'_>; 2] = [("/scratch", "/scratch", &root_only), ("/software", "/software", &everyone)];
    let mut proxy = Serve::of(&config(&nfsd.addresses, &exports));
    let dirs = ["/scratch", "/software"].map(|path| {
        let mut client = connect(proxy.nfs[0]);
        let dir = lookup(&mut client, &root(&proxy, path), b"dir");
        let mode = Sattr3 { mode: Some(0o777), ..Sattr3::default() };
        let (mut direct, top) = nfsd.endpoint(0).client();
        let object = direct.walk(&top, format!("{}/dir", &path[1..]).as_bytes()).unwrap();
        assert_eq!(object, dir);
        let call = Call::Setattr { object: handle(&object), new_attributes: mode, guard: None };
        assert_eq!(direct.nfs(&call).unwrap().status(), Nfsstat3::OK);
        dir
    });
    proxy.signal(Signal::KILL);
    proxy.ended();
    proxy.again();
    let user = Caller { uid: 500, gid: 500, gids: vec![501] };
    for (name, caller, want) in [
        (b"root".as_slice(), &Caller::ROOT, [(1111, 1112), (2221, 2222)]),
        (b"user", &user, [(500, 500), (2221, 2222)]),
    ] {
        let mut client = Client::connect(proxy.nfs[0], caller, PATIENCE).unwrap();
        for (dir, want) in dirs.iter().zip(want) {
            assert_eq!(maker(&mut client, dir, name), want);
        }
    }
}

#[test]
fn a_file_with_names_below_two_exports_may_do_what_either_permits_also_after_a_restart() {
    let nfsd = servers();
    let (mut direct, top) = nfsd.endpoint(0).client();
    let (file, link) = (direct.walk(&top, b"software/dir/file").unwrap(), direct.walk(&top, b"scratch/dir").unwrap());
    let link = DirOp { dir: handle(&link), name: b"linked" };
    assert_eq!(direct.nfs(&Call::Link { file: handle(&file), link }).unwrap().status(), Nfsstat3::OK);
    let mut proxy = Serve::of(&two(&nfsd.addresses));
    let mut client = connect(proxy.nfs[0]);
    let roots = ["/scratch", "/software"].map(|path| root(&proxy, path));
    assert_eq!(lookup(&mut client, &roots[1], b"dir/file"), file);
    assert_eq!(write(&mut client, &file), Nfsstat3::ROFS, "one name is known");
    assert_eq!(lookup(&mut client, &roots[0], b"dir/linked"), file);
    assert_eq!(write(&mut client, &file), Nfsstat3::OK, "both are");
    proxy.signal(Signal::TERM);
    proxy.ended();
    proxy.again();
    let mut client = connect(proxy.nfs[0]);
    for _ in 0..2 {
        assert_eq!(lookup(&mut client, &roots[1], b"dir/file"), file);
    }
    assert_eq!(write(&mut client, &file), Nfsstat3::OK, "both are still, whichever was looked up, however often");
    assert_eq!(lookup(&mut client, &roots[0], b"dir/linked"), file);
    let dir = lookup(&mut client, &roots[0], b"dir");
    let object = DirOp { dir: handle(&dir), name: b"linked" };
    assert_eq!(client.nfs(&Call::Remove { object }).unwrap().status(), Nfsstat3::OK);
    assert_eq!(write(&mut client, &file), Nfsstat3::ROFS, "one is gone");
}

#[test]
fn a_file_that_was_moved_before_its_directory_was_removed_is_known_after_a_restart() {
    let nfsd = servers();
    let mut proxy = Serve::of(&two(&nfsd.addresses));
    let mut client = connect(proxy.nfs[0]);
    let scratch = root(&proxy, "/scratch");
    let old = mkdir(&mut client, &scratch, b"old");
    let file = create(&mut client, &old, b"file");
    let (from, to) = (DirOp { dir: handle(&old), name: b"file" }, DirOp { dir: handle(&scratch), name: b"moved" });
    assert_eq!(client.nfs(&Call::Rename { from, to }).unwrap().status(), Nfsstat3::OK);
    let object = DirOp { dir: handle(&scratch), name: b"old" };
    assert_eq!(client.nfs(&Call::Rmdir { object }).unwrap().status(), Nfsstat3::OK);
    proxy.signal(Signal::TERM);
    proxy.ended();
    proxy.again();
    assert_eq!(write(&mut connect(proxy.nfs[0]), &file), Nfsstat3::OK);
}

#[test]
fn over_ganesha_what_may_be_written_is_written_after_a_restart() {
    if !require(Part::Ganesha) {
        return;
    }
    let ganesha = Ganesha::start_coherent(2);
    for name in ["scratch/dir", "software/dir"] {
        std::fs::create_dir_all(ganesha.export().join(name)).unwrap();
        std::fs::write(ganesha.export().join(name).join("file"), b"old").unwrap();
    }
    let at = |source: &str| format!("{}/{source}", ganesha.heads()[0].path);
    let readable = format!("{EVERYONE}squash = \"root\"\n");
    let software = tables(&[("/software", &at("software"), &readable)]);
    let site = Site { source: at("scratch"), more: software, ..Site::of(ganesha.heads()) };
    let mut proxy = site.start();
    let mut client = connect(proxy.nfs[0]);
    let [file, other] = ["/scratch", "/software"].map(|path| lookup(&mut client, &root(&proxy, path), b"dir/file"));
    let dir = lookup(&mut client, &root(&proxy, "/scratch"), b"dir");
    for signal in [Signal::TERM, Signal::KILL] {
        proxy.signal(signal);
        proxy.ended();
        proxy.again();
        let mut client = connect(proxy.nfs[0]);
        assert_eq!((write(&mut client, &file), write(&mut client, &other)), (Nfsstat3::OK, Nfsstat3::ROFS));
        assert_eq!(create_in(&mut client, &dir, format!("{signal:?}").as_bytes()), Nfsstat3::OK);
    }
}

#[test]
fn a_member_that_has_not_seen_a_file_knows_from_the_others_whose_it_is() {
    let nfsd = servers();
    let readable = format!("{EVERYONE}squash = \"root\"\n");
    let site = || {
        let more = tables(&[("/software", "/software", &readable)]);
        Site { source: "/scratch".to_owned(), more, ..Site::of(&nfsd.endpoints()) }
    };
    let mut members = Members::start(site);
    let mut client = connect(members.daemons[0].nfs[0]);
    let [file, other] =
        ["/scratch", "/software"].map(|path| lookup(&mut client, &root(&members.daemons[0], path), b"dir/file"));
    let dir = lookup(&mut client, &root(&members.daemons[0], "/scratch"), b"dir");
    let made = create(&mut client, &dir, b"made");
    let check = |daemon: &Serve| {
        let mut client = connect(daemon.nfs[0]);
        assert_eq!(write(&mut client, &file), Nfsstat3::OK);
        assert_eq!(write(&mut client, &made), Nfsstat3::OK);
        assert_eq!(write(&mut client, &other), Nfsstat3::ROFS);
    };
    check(&members.daemons[1]);
    // A client comes to another member when its own is gone: the others were told of the names.
    members.kill(0);
    members.missed(0);
    check(&members.daemons[2]);
    check(&members.daemons[1]);
}

/// An export of the mixed load: where it lies, and its lines. The last one lies in the first.
fn mixed() -> [(&'static str, &'static str, String); 4] {
    [
        ("/scratch", "/scratch", format!("{EVERYONE}access = \"rw\"\nsquash = \"none\"\n")),
        ("/software", "/software", format!("{EVERYONE}squash = \"root\"\n")),
        (
            "/private",
            "/private",
            "clients = [\"127.0.0.0/8\"]\naccess = \"rw\"\nsquash = \"all\"\nanon_uid = 77\nanon_gid = 77\n".to_owned(),
        ),
        ("/hidden", "/scratch/hidden", "clients = [\"127.9.9.9\"]\ninsecure = true\naccess = \"rw\"\n".to_owned()),
    ]
}

/// Seeded chance, the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// What a client asks of an object, or of a name in a directory; and what it is told.
fn asked(client: &mut Client, what: usize, dir: &[u8], file: &[u8]) -> (Nfsstat3, Option<u32>) {
    let (place, object) = (DirOp { dir: handle(dir), name: b"file-0" }, handle(file));
    let mode = Sattr3 { mode: Some(0o640), ..Sattr3::default() };
    let call = match what {
        0 => Call::Getattr { object },
        1 => Call::Access { object, access: 0x3f },
        2 => Call::Read { file: object, offset: 0, count: 16 },
        3 => Call::Write { file: object, offset: 0, count: 4, stable: StableHow::FileSync, data: b"text" },
        4 => Call::Setattr { object, new_attributes: mode, guard: None },
        5 => Call::Lookup { what: place },
        6 => Call::Create { place, how: CreateHow::Unchecked(Sattr3::default()) },
        _ => Call::Getattr { object: handle(dir) },
    };
    let reply = client.nfs(&call).unwrap();
    let access = match &reply {
        Reply::Access(Ok(ok)) => Some(ok.access),
        _ => None,
    };
    (reply.status(), access)
}

/// A caller, and whether it calls from a reserved port.
fn callers() -> Vec<(Caller, Source)> {
    let user = |uid| Caller { uid, gid: uid, gids: Vec::new() };
    let who = [Caller::ROOT, user(77), user(500)];
    who.into_iter().flat_map(|who| [Source::Reserved, Source::Any].map(|source| (who.clone(), source))).collect()
}

/// An object of the mixed load: its export's number, a directory and a file in it.
type Object = (usize, Vec<u8>, Vec<u8>);

/// Makes some directories of each export, and files in each.
fn grown(nfsd: &Nfsd) -> Vec<Object> {
    let (mut direct, top) = nfsd.endpoint(0).client();
    let open = |direct: &mut Client, object: &[u8], mode| {
        let attributes = Sattr3 { mode: Some(mode), ..Sattr3::default() };
        let call = Call::Setattr { object: handle(object), new_attributes: attributes, guard: None };
        assert_eq!(direct.nfs(&call).unwrap().status(), Nfsstat3::OK);
    };
    let mut objects = Vec::new();
    for (export, (_, source, _)) in mixed().iter().enumerate() {
        let (above, name) = source.rsplit_once('/').unwrap();
        let above = direct.walk(&top, above.as_bytes()).unwrap();
        let below = mkdir(&mut direct, &above, name.as_bytes());
        open(&mut direct, &below, 0o777);
        for dir in 0..DIRS {
            let dir = mkdir(&mut direct, &below, format!("dir-{dir}").as_bytes());
            open(&mut direct, &dir, 0o777);
            for file in 0..FILES {
                let file = create(&mut direct, &dir, format!("file-{file}").as_bytes());
                open(&mut direct, &file, 0o666);
                objects.push((export, dir.clone(), file));
            }
        }
    }
    objects
}

/// A connection of each caller.
fn each_caller(address: SocketAddr) -> Vec<Client> {
    let connect = |(who, source): (Caller, Source)| Client::connect_from(source, address, &who, PATIENCE).unwrap();
    callers().into_iter().map(connect).collect()
}

/// The mixed load: what it is about, and proxies of each export alone, which say what is right.
struct Mixed {
    nfsd: Nfsd,
    objects: Vec<Object>,
    _alone: Vec<Serve>,
    single: Vec<Vec<Client>>,
    chance: Chance,
}

impl Mixed {
    fn new() -> Self {
        let nfsd = Nfsd::start(&["--servers", "2"]);
        let (exports, objects) = (mixed(), grown(&nfsd));
        // The last one admits nobody here.
        let of = |(path, source, lines): &(&str, &str, String)| {
            Serve::of(&config(&nfsd.addresses, &[(path, source, lines.as_str())]))
        };
        let alone: Vec<Serve> = exports[..3].iter().map(of).collect();
        let single = alone.iter().map(|proxy| each_caller(proxy.nfs[0])).collect();
        Self { nfsd, objects, _alone: alone, single, chance: Chance(20) }
    }

    /// What clients hold they were given: everything is listed once, through a proxy.
    fn list_all(&self, proxy: &Serve) {
        let mut client = connect(proxy.nfs[0]);
        let seen = self.objects.iter().step_by(FILES).filter(|(_, dir, _)| list(&mut client, dir)).count();
        assert_eq!(seen, 3 * DIRS, "of the export that admits nobody here nothing is seen");
    }

    /// So many calls through these proxies; each is answered as its export alone would.
    fn run(&mut self, proxies: &[&Serve], calls: usize) {
        let mut through: Vec<Vec<Client>> = proxies.iter().map(|proxy| each_caller(proxy.nfs[0])).collect();
        for number in 0..calls {
            let (export, dir, file) = &self.objects[self.chance.below(self.objects.len())];
            let (at, caller) = (self.chance.below(through.len()), self.chance.below(callers().len()));
            let what = self.chance.below(8);
            // Nobody has got a file of the export that admits nobody; its directories tell their parents.
            let what = if *export < self.single.len() { what } else { 5 + what % 3 };
            let told = asked(&mut through[at][caller], what, dir, file);
            let want = match self.single.get_mut(*export) {
                Some(alone) => asked(&mut alone[caller], what, dir, file),
                None => (Nfsstat3::ACCES, None),
            };
            assert_eq!(told, want, "call {number} through {at}: {what} of caller {caller}, export {export}");
        }
    }
}

fn unknown(proxy: &Serve) -> Value {
    serde_json::from_str::<Value>(&proxy.command("status --json")).unwrap()["unknown_owners"].clone()
}

#[test]
fn mixed_calls_get_what_each_export_alone_would_say_through_restarts_and_a_table_that_overflows() {
    let calls = soak().unwrap_or(6000) as usize;
    let mut mixed_load = Mixed::new();
    let exports = mixed();
    let all: Vec<Rules<'_>> = exports.iter().map(|(path, source, lines)| (*path, *source, lines.as_str())).collect();
    let mut proxy = Serve::with(&config(&mixed_load.nfsd.addresses, &all), |command| {
        command.env("MIDAS_TEST_OBJECTS", "256");
    });
    mixed_load.list_all(&proxy);
    for round in 0..ROUNDS {
        mixed_load.run(&[&proxy], calls / ROUNDS);
        assert_eq!(unknown(&proxy), 0);
        proxy.signal(if round % 2 == 0 { Signal::KILL } else { Signal::TERM });
        proxy.ended();
        proxy.again();
    }
}

#[test]
fn mixed_calls_get_what_each_export_alone_would_say_through_members_that_fail() {
    let calls = soak().unwrap_or(3000) as usize;
    let mut mixed_load = Mixed::new();
    let exports = mixed();
    let others: Vec<Rules<'_>> = exports[1..].iter().map(|(path, at, lines)| (*path, *at, lines.as_str())).collect();
    let endpoints = mixed_load.nfsd.endpoints();
    let site = || Site { source: "/scratch".to_owned(), more: tables(&others), ..Site::of(&endpoints) };
    let mut members = Members::start(site);
    mixed_load.list_all(&members.daemons[0]);
    for lost in [0, 1] {
        mixed_load.run(&members.daemons.iter().collect::<Vec<_>>(), calls / 4);
        members.kill(lost);
        members.missed(lost);
        let left: Vec<&Serve> = members.daemons.iter().enumerate().filter(|it| it.0 != lost).map(|it| it.1).collect();
        mixed_load.run(&left, calls / 4);
        assert!(left.iter().all(|daemon| unknown(daemon) == 0));
        members.daemons[lost].again();
        members.whole();
    }
}

/// Lists a directory with its files; whether the client may.
fn list(client: &mut Client, dir: &[u8]) -> bool {
    let (cookie, cookieverf, dircount, maxcount) = (0, [0; 8], 8192, 32768);
    let dir = handle(dir);
    client.nfs(&Call::Readdirplus { dir, cookie, cookieverf, dircount, maxcount }).unwrap().status() == Nfsstat3::OK
}

#[test]
fn nothing_leads_above_an_exports_root_by_another_handle_of_it() {
    // Ganesha does not look at every bit of a handle: one that differs there was not taken for the
    // root, and `..` of it led out.
    if !require(Part::Ganesha) {
        return;
    }
    let ganesha = Ganesha::start_coherent(1);
    std::fs::create_dir_all(ganesha.export().join("below/dir")).unwrap();
    let proxy = Site { source: format!("{}/below", ganesha.heads()[0].path), ..Site::of(ganesha.heads()) }.start();
    let (mut direct, top) = ganesha.heads()[0].client();
    let (mut client, root) = proxy.client();
    let fileid = |client: &mut Client, object: &[u8]| match client.nfs(&Call::Getattr { object: handle(object) }) {
        Ok(Reply::Getattr(Ok(of))) => Some((of.fsid, of.fileid)),
        _ => None,
    };
    let own = fileid(&mut direct, &root).unwrap();
    let mut others = 0;
    for bit in 0..8 * root.len() {
        let mut other = root.clone();
        other[bit / 8] ^= 1 << (bit % 8);
        if fileid(&mut direct, &other) != Some(own) {
            continue;
        }
        others += 1;
        let above = client.walk(&other, b"..").unwrap();
        assert_ne!(fileid(&mut direct, &above), fileid(&mut direct, &top), "bit {bit} leads out of the export");
        assert_eq!(fileid(&mut direct, &above), Some(own), "bit {bit}");
    }
    println!("{others} other handles of the root");
}

/// A file's size, if the server takes this handle for one of the file's.
fn size(client: &mut Client, file: &[u8], fileid: Option<u64>) -> Option<u64> {
    match client.nfs(&Call::Getattr { object: handle(file) }) {
        Ok(Reply::Getattr(Ok(of))) if fileid.is_none_or(|fileid| of.fileid == fileid) => Some(of.size),
        _ => None,
    }
}

#[test]
fn what_is_changed_by_another_handle_of_the_same_file_is_seen_by_all_and_the_cache_stays() {
    // Ganesha does not look at every bit of a handle: what a client changed by one of its own making
    // was answered to others as before, and whoever did that could have the cache demoted.
    if !require(Part::Ganesha) {
        return;
    }
    let ganesha = Ganesha::start_coherent(1);
    let export = "mode = \"lease\"\nwriters = \"midas-only\"\n";
    let proxy = Site { export, ..Site::of(ganesha.heads()) }.start();
    let ((mut direct, _), (mut reader, root)) = (ganesha.heads()[0].client(), proxy.client());
    let (mut writer, _) = proxy.client();
    let file = create(&mut reader, &root, b"file");
    let Reply::Getattr(Ok(of)) = direct.nfs(&Call::Getattr { object: handle(&file) }).unwrap() else { panic!() };
    let (mut others, mut wanted) = (0_u32, 0);
    for bit in 0..8 * file.len() {
        let mut other = file.clone();
        other[bit / 8] ^= 1 << (bit % 8);
        if size(&mut direct, &other, Some(of.fileid)).is_none() {
            continue;
        }
        others += 1;
        // Twice: what was read once may not be kept.
        for _ in 0..2 {
            assert_eq!(size(&mut reader, &file, None), Some(wanted), "bit {bit}");
        }
        wanted = u64::from(others) * 10;
        let new_attributes = Sattr3 { size: Some(wanted), ..Sattr3::default() };
        let call = Call::Setattr { object: handle(&other), new_attributes, guard: None };
        assert_eq!(writer.nfs(&call).unwrap().status(), Nfsstat3::OK, "bit {bit}");
        assert_eq!(size(&mut reader, &file, None), Some(wanted), "bit {bit}: an old answer");
        assert_eq!(size(&mut writer, &other, None), Some(wanted), "bit {bit}: an old answer by the other handle");
    }
    assert!(others > 0, "no bit of a handle is ignored: nothing was tested");
    let status: Value = serde_json::from_str(&proxy.command("status --json")).unwrap();
    let cache = &status["exports"][0]["cache"];
    assert_eq!((&cache["mode"], &cache["demoted"]), (&Value::from("lease"), &Value::Null), "{status}");
    println!("{others} other handles of the file");
}

#[test]
fn a_cache_is_not_used_where_exports_lie_in_each_other() {
    // A file of both may have two handles, so that what is changed by one is not dropped for the other.
    let nfsd = Nfsd::start(&["--servers", "1"]);
    let (mut direct, top) = nfsd.endpoint(0).client();
    let outer = mkdir(&mut direct, &top, b"outer");
    mkdir(&mut direct, &outer, b"inner");
    let cached = format!("{EVERYONE}access = \"rw\"\nmode = \"ttl\"\n");
    let plain = format!("{EVERYONE}access = \"rw\"\n");
    let exports: [Rules<'_>; 2] = [("/a", "/outer", &cached), ("/b", "/outer/inner", &plain)];
    let proxy = Serve::of(&config(&nfsd.addresses, &exports));
    let status: Value = serde_json::from_str(&proxy.command("status --json")).unwrap();
    let why = status["exports"][0]["cache"]["demoted"].as_str().unwrap_or_default();
    assert!(why.contains("/b lies in /a"), "{status}");
    assert_eq!(status["exports"][1]["cache"]["demoted"], Value::Null, "it has none");
}

/// Directories of each export of the mixed load, files in each, and how often the proxy is started again.
const DIRS: usize = 8;
const FILES: usize = 24;
const ROUNDS: usize = 6;
