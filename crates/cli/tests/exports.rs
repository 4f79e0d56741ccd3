//! Several exports in one daemon: a handle does not say whose it is, and every export has rules of its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::handle;
use midas_lab::{PATIENCE, Scratch, mkdir};
use midas_net::{Caller, Client, ClientError, Mount};
use midas_nfs::nfs3::{Call, CreateHow, DirOp, Nfsstat3, Reply, Sattr3};
use std::net::SocketAddr;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};

/// `/open` and `/closed` over servers of their own; the second is read-only and not for everyone.
fn config(open: &Nfsd, closed: &Nfsd) -> String {
    let pool = |name: &str, nfsd: &Nfsd| {
        let servers: Vec<String> = nfsd.addresses.iter().map(|address| format!("\"{address}\"")).collect();
        format!("[[pool]]\nname = \"{name}\"\nservers = [{}]\nstaleness = \"0s\"\n", servers.join(", "))
    };
    format!(
        "[listen]\nnfs = \"127.0.0.1:0\"\nmount = \"127.0.0.1:0\"\n{}{}\
         [[export]]\npath = \"/open\"\nsource = \"/\"\npool = \"one\"\nclients = [\"127.0.0.0/8\"]\naccess = \"rw\"\nsquash = \"none\"\ninsecure = true\n\
         [[export]]\npath = \"/closed\"\nsource = \"/\"\npool = \"two\"\nclients = [\"127.0.0.1\"]\nsquash = \"none\"\ninsecure = true\n",
        pool("one", open),
        pool("two", closed),
    )
}

fn connect(address: SocketAddr) -> Client {
    Client::connect(address, &Caller::ROOT, PATIENCE).unwrap()
}

fn root(proxy: &Serve, path: &str) -> Vec<u8> {
    mount(proxy, path).unwrap().root
}

fn mount(proxy: &Serve, path: &str) -> Result<Mount, ClientError> {
    connect(proxy.mount[0]).mount(path.as_bytes())
}

fn create(client: &mut Client, dir: &[u8], name: &[u8]) -> Result<Vec<u8>, Nfsstat3> {
    let place = DirOp { dir: handle(dir), name };
    match client.nfs(&Call::Create { place, how: CreateHow::Guarded(Sattr3::default()) }).unwrap() {
        Reply::Create(Ok(made)) => Ok(made.object.unwrap().bytes().to_vec()),
        failed => Err(failed.status()),
    }
}

fn getattr(client: &mut Client, object: &[u8]) -> Nfsstat3 {
    client.nfs(&Call::Getattr { object: handle(object) }).unwrap().status()
}

#[test]
fn each_handle_finds_its_export_also_in_a_proxy_that_has_never_seen_it() {
    let (one, two) = (Scratch::new(), Scratch::new());
    let over = |scratch: &Scratch| Nfsd::start(&["--servers", "2", "--dir", scratch.path().to_str().unwrap()]);
    let (open, closed) = (over(&one), over(&two));
    let first = Serve::of(&config(&open, &closed));
    let (open_root, closed_root) = (root(&first, "/open"), root(&first, "/closed"));
    assert_ne!(open_root, closed_root, "these servers' handles differ");
    let mut before = connect(first.nfs[0]);
    let file = create(&mut before, &open_root, b"file").unwrap();
    assert_eq!(create(&mut before, &closed_root, b"file"), Err(Nfsstat3::ROFS));
    drop(first);

    let second = Serve::of(&config(&open, &closed));
    let mut after = connect(second.nfs[0]);
    assert_eq!(getattr(&mut after, &file), Nfsstat3::OK);
    assert_eq!(create(&mut after, &closed_root, b"file"), Err(Nfsstat3::ROFS));
    assert!(create(&mut after, &open_root, b"another").is_ok());
    let mut nobodys = file.clone();
    nobodys[0] ^= 0xff;
    assert!(matches!(getattr(&mut after, &nobodys), Nfsstat3::STALE | Nfsstat3::BADHANDLE));
    let from = DirOp { dir: handle(&open_root), name: b"file" };
    let to = DirOp { dir: handle(&closed_root), name: b"file" };
    assert_eq!(after.nfs(&Call::Rename { from, to }).unwrap().status(), Nfsstat3::XDEV);
}

#[test]
fn exports_whose_handles_are_the_same_are_not_both_served() {
    let (one, two) = (Nfsd::start(&["--servers", "1"]), Nfsd::start(&["--servers", "1"]));
    let proxy = Serve::of(&config(&one, &two));
    let mounts = [mount(&proxy, "/open"), mount(&proxy, "/closed")];
    assert_eq!(mounts.iter().filter(|mount| mount.is_ok()).count(), 1, "{mounts:?}");
}

#[test]
fn nothing_leads_above_an_exports_root() {
    let nfsd = Nfsd::start(&["--servers", "2"]);
    let (mut direct, top) = nfsd.endpoint(0).client();
    mkdir(&mut direct, &top, b"below");
    let proxy = Site { source: "/below".to_owned(), ..Site::of(&nfsd.endpoints()) }.start();
    let (mut client, root) = proxy.client();
    assert_ne!(root, top);
    assert_eq!(client.walk(&root, b"..").unwrap(), root);
    let dir = handle(&root);
    let (cookie, cookieverf, dircount, maxcount) = (0, [0; 8], 4096, 8192);
    let listed = client.nfs(&Call::Readdirplus { dir, cookie, cookieverf, dircount, maxcount }).unwrap();
    let Reply::Readdirplus(Ok(page)) = listed else { panic!("{listed:?}") };
    let names: Vec<_> = page.entries().map(Result::unwrap).map(|plus| (plus.entry.name, plus.handle)).collect();
    assert_eq!(names, [(b".".as_slice(), Some(dir)), (b"..".as_slice(), None)]);
}
