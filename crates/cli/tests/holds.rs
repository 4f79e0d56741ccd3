//! A file that is written all the time, at one of three live proxies: announced once, and still true at the others.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use midas_lab::raw::handle;
use midas_lab::{PATIENCE, Scratch, create, free_port, loopback, mounted, until};
use midas_net::Client;
use midas_nfs::nfs3::{Call, Reply, StableHow};
use midas_nfsd::{Config, Limits, Namespace, Nfsd};
use midas_proxy::{Proxy, Standing};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// Far more than it takes, also where sixteen WRITEs are seldom done in a quarter of a second.
const WRITES_MOST: u64 = 50_000;
const HELD: u64 = 100;
const CHECKED: u64 = 50;

#[test]
fn a_file_that_is_written_all_the_time_is_announced_once_and_seen_as_it_is_everywhere() {
    let listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); 2];
    let nfsd =
        Nfsd::start(&Config { listen, ..Config::default() }, &Arc::new(Namespace::memory(Limits::default()))).unwrap();
    let scratch = Scratch::new();
    let proxies = three(&nfsd.addresses(), &scratch);
    let through = |proxy: &Proxy| mounted(proxy.nfs()[0], proxy.mount()[0], "/scratch");
    let ((mut writer, root), (mut reader, _)) = (through(&proxies[0]), through(&proxies[1]));
    let file = create(&mut writer, &root, b"f");
    let before = standing(&proxies[0]).counts;

    let mut written = 0;
    while standing(&proxies[0]).counts.held < HELD {
        write(&mut writer, &file, written);
        written += 1;
        assert!(written < WRITES_MOST, "never held: {:?}", standing(&proxies[0]));
    }
    for _ in 0..CHECKED {
        write(&mut writer, &file, written);
        written += 1;
        assert_eq!(size(&mut reader, &file), written, "what was written before is seen through another proxy");
    }
    let after = standing(&proxies[0]).counts;
    assert_eq!((after.announced - before.announced) + (after.held - before.held), written, "each one way or the other");
    assert!(after.held >= HELD, "{after:?}");

    until("the hold is released", || standing(&proxies[0]).holds == 0);
    let dispatched = |proxy: &Proxy| proxy.dispatched().iter().sum::<u32>();
    until("another proxy keeps it again", || {
        let before = dispatched(&proxies[1]);
        assert_eq!(size(&mut reader, &file), written);
        dispatched(&proxies[1]) == before
    });
    write(&mut writer, &file, written);
    assert_eq!(size(&mut reader, &file), written + 1, "and drops it when it is written again");
}

fn standing(proxy: &Proxy) -> Standing {
    proxy.among_peers().unwrap()
}

/// One byte more.
fn write(client: &mut Client, file: &[u8], offset: u64) {
    let call = Call::Write { file: handle(file), offset, count: 1, stable: StableHow::FileSync, data: b"x" };
    match client.nfs(&call).unwrap() {
        Reply::Write(Ok(_)) => {}
        other => panic!("WRITE: {other:?}"),
    }
}

fn size(client: &mut Client, file: &[u8]) -> u64 {
    match client.nfs(&Call::Getattr { object: handle(file) }).unwrap() {
        Reply::Getattr(Ok(found)) => found.size,
        other => panic!("GETATTR: {other:?}"),
    }
}

/// Proxies in lease mode that have leases of each other.
fn three(servers: &[SocketAddr], scratch: &Scratch) -> Vec<Proxy> {
    let (address, names) = (loopback(1, &[]), ["a", "b", "c"]);
    let ports = names.map(|_| free_port(address));
    let members: Vec<String> = names.iter().zip(ports).map(|(me, port)| format!("\"{me}={address}:{port}\"")).collect();
    let servers: Vec<String> = servers.iter().map(|server| format!("\"{server}\"")).collect();
    let directory = scratch.path().display();
    midas_proxy::create_cluster_key(&scratch.path().join("key")).unwrap();
    let start = |(me, port): (&str, u16)| {
        std::fs::create_dir_all(scratch.path().join(me)).unwrap();
        let text = format!(
            "threads = 1\n[listen]\nnfs = \"127.0.0.1:0\"\nmount = \"127.0.0.1:0\"\n\
             [[pool]]\nname = \"heads\"\nservers = [{}]\nstaleness = \"0s\"\n\
             [[export]]\npath = \"/scratch\"\nsource = \"/\"\npool = \"heads\"\nclients = [\"127.0.0.0/8\"]\naccess = \"rw\"\n\
             squash = \"none\"\ninsecure = true\nmode = \"lease\"\nwriters = \"midas-only\"\n\
             [state]\nfile = \"{directory}/{me}/state\"\n[cluster]\nname = \"test\"\nme = \"{me}\"\nlisten = \"{address}:{port}\"\n\
             members = [{}]\nkey_file = \"{directory}/key\"\nsuspect_after = \"10s\"\n",
            servers.join(", "),
            members.join(", ")
        );
        Proxy::start_member(&midas_proxy::config::Config::parse(&text).unwrap()).unwrap()
    };
    let proxies: Vec<Proxy> = names.into_iter().zip(ports).map(start).collect();
    assert!(proxies.iter().all(|proxy| proxy.ready(PATIENCE)));
    until("every proxy holds leases", || proxies.iter().all(Proxy::leased));
    proxies
}
