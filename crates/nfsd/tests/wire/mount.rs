//! K: MOUNT, portmap and rpcbind.

use crate::support::{client, plain, start};
use midas_lab::raw::{Raw, call, mnt, results};
use midas_lab::{PATIENCE, mkdir};
use midas_net::{Caller, Client, ClientError};
use midas_nfs::nfs3::{self, Nfsstat3};
use midas_nfs::rpc::Refusal;
use midas_nfs::xdr::Reader;
use midas_nfs::{mount, portmap};
use midas_nfsd::Config;
use std::net::{SocketAddr, UdpSocket};

/// The pairs that DUMP tells.
fn dump(raw: &mut Raw, version: u32) -> Vec<(String, String)> {
    raw.send(&mnt(version, &mount::Call::Dump));
    let answer = raw.receive();
    let mut from = Reader::new(results(&answer));
    let text = |from: &mut Reader<'_>| String::from_utf8(from.opaque(1024).unwrap().to_vec()).unwrap();
    let mut pairs = Vec::new();
    while from.bool().unwrap() {
        pairs.push((text(&mut from), text(&mut from)));
    }
    pairs
}

#[test]
fn k_mnt_gives_the_root_of_the_export_and_of_directories_below_it() {
    let (_nfsd, address) = start(&Config { export: "/data/set".to_owned(), ..Config::default() });
    let mut client = Client::connect(address, &Caller::ROOT, PATIENCE).unwrap();
    let root = client.mount(b"/data/set").unwrap().root;
    let below = mkdir(&mut client, &root, b"below");
    assert_eq!(client.mount(b"/data/set/").unwrap().root, root);
    assert_eq!(client.mount(b"/data/set/below").unwrap().root, below);
    for missing in [&b"/data"[..], b"/", b"/data/settle", b"/data/set/none", b""] {
        assert!(matches!(client.mount(missing), Err(ClientError::Status(Nfsstat3::NOENT))));
    }
}

#[test]
fn k_dump_tells_who_mounted_what_until_umnt_and_umntall() {
    let (_nfsd, address) = plain();
    let (_, _) = client(address);
    let mut raw = Raw::connect(address);
    let mounted = [("127.0.0.1".to_owned(), "/".to_owned())];
    for version in [1, 3] {
        assert_eq!(dump(&mut raw, version), mounted);
    }
    raw.send(&mnt(3, &mount::Call::Umnt(b"/other")));
    raw.receive();
    assert_eq!(dump(&mut raw, 3), mounted);
    for end in [mount::Call::Umnt(b"/"), mount::Call::Umntall] {
        let (_, _) = client(address);
        raw.send(&mnt(3, &end));
        raw.receive();
        assert_eq!(dump(&mut raw, 3), []);
    }
}

#[test]
fn k_export_lists_the_path_and_version_1_has_no_mnt() {
    let (_nfsd, address) = plain();
    let (mut client, _) = client(address);
    assert_eq!(client.exports().unwrap(), [b"/"]);
    let mut raw = Raw::connect(address);
    raw.send(&mnt(1, &mount::Call::Export));
    let answer = raw.receive();
    assert_eq!(mount::exports(results(&answer), 9).unwrap(), [b"/"]);
    assert_eq!(raw.refused(&mnt(1, &mount::Call::Mnt(b"/"))), Refusal::ProcUnavail);
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}

#[test]
fn k_getport_and_getaddr_answer_on_every_port_over_tcp_and_on_their_own_over_udp() {
    let mapper = SocketAddr::from(([127, 0, 0, 1], 0));
    let free = SocketAddr::new(mapper.ip(), midas_lab::free_port(mapper.ip()));
    let (_nfsd, address) = start(&Config { portmap: Some(free), ..Config::default() });
    let nlm = 100_021;
    for (program, port) in [(nfs3::PROGRAM, address.port()), (mount::PROGRAM, address.port()), (nlm, 0)] {
        let question = call(5, portmap::PROGRAM, 2, 3, &words(&[program, 3, 6, 0]));
        for at in [address, free] {
            let mut raw = Raw::connect(at);
            raw.send(&question);
            assert_eq!(results(&raw.receive()), words(&[port.into()]), "program {program} at {at}");
        }
        let socket = UdpSocket::bind(mapper).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send_to(&question, free).unwrap();
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer).unwrap();
        assert_eq!(results(&answer[..length]), words(&[port.into()]), "program {program} over UDP");
    }
}
