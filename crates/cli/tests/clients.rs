//! Real clients of `midas serve`, as they come: with nothing but its name, over IPv4 and IPv6, with every tool that asks a server.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::{Raw, call, handle};
use midas_lab::{
    Guest, PATIENCE, PORTMAP, Part, Scratch, USUAL_NFS, bounded, free_port, loopback, nfs_cat, nfs_cp, nfs_ls,
    null_call, require, rpcinfo, showmount, succeeded,
};
use midas_net::{Caller, Client};
use midas_nfs::nfs3::{Call, DirOp, Nfsstat3, Procedure};
use midas_nfs::{portmap, rpc};
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use support::counted::Counted;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site, client};

/// A host of its own for the proxy: portmap is where clients look for it, and tells them the rest;
/// and whether NFS is where a client looks that names no version, or somebody else holds that port
/// on every address.
fn host() -> (Ipv4Addr, String, bool) {
    let host = loopback(1, &[PORTMAP]);
    let usual = TcpListener::bind((host, USUAL_NFS)).is_ok();
    let nfs = if usual { USUAL_NFS } else { 0 };
    let listen = format!("nfs = \"{host}:{nfs}\"\nmount = \"{host}:0\"\nportmap = \"{host}:{PORTMAP}\"");
    (host, listen, usual)
}

#[test]
fn m_the_kernel_client_does_everything_over_three_unmodified_servers_and_mounts_with_nothing_but_a_name() {
    if !(require(Part::Ganesha) && require(Part::KernelClient) && require(Part::Rpcinfo)) {
        return;
    }
    let heads = Counted::start(3);
    let (_, listen, usual) = host();
    let proxy = Site { listen, ..heads.site() }.start();
    // A head of Ganesha 4.3 answers INVAL to GETATTR of a device or socket that another head has made (seen directly, without
    // a proxy): no pool of such heads can serve them.
    let guest = Guest::of(&proxy.endpoint()).option("nconnect=4").scenario("basic").env("DEVICES", "no");
    let guest = if usual { guest } else { guest.env("PLAIN_OPTIONS", "vers=3") };
    let transcript = guest.with("rpcbind").with("rpc.statd").with("flock").scenario("plain").run();
    println!("{} in {:?}", transcript.text, transcript.took);
    transcript.expect_all_ok();
    assert_eq!(fs::read_dir(heads.ganesha.export()).unwrap().count(), 0, "the scenarios remove what they made");
    for count in &heads.counts {
        // The keeper asks for nothing but these.
        let keepers = [Procedure::Null, Procedure::Getattr, Procedure::Fsinfo, Procedure::Readdir];
        let calls = count.calls();
        let theirs = |number: &u32| keepers.iter().any(|procedure| *procedure as u32 == *number);
        let clients: u64 = calls.iter().filter(|(number, _)| !theirs(number)).map(|(_, count)| count).sum();
        println!("{}: {calls:?}", count.address);
        assert!(clients > 0, "{calls:?}");
    }
}

#[test]
fn k_every_tool_finds_it_through_portmap() {
    if !(require(Part::Rpcinfo) && require(Part::Showmount) && require(Part::Libnfs)) {
        return;
    }
    let nfsd = Nfsd::start(&["--servers", "3", "--export", "/data"]);
    let (host, listen, _) = host();
    let proxy = Site { listen, ..Site::of(&nfsd.endpoints()) }.start();
    let name = host.to_string();
    assert!(succeeded(&showmount(&["-e", &name])).contains("/scratch 127.0.0.0/8"));
    Client::connect(proxy.mount[0], &Caller::ROOT, PATIENCE).unwrap().mount(b"/scratch").unwrap();
    assert!(succeeded(&showmount(&["-a", &name])).contains("127.0.0.1:/scratch"));
    for (transport, program, version) in
        [("tcp", "100003", "3"), ("tcp", "100005", "3"), ("tcp", "100005", "1"), ("tcp", "100021", "4")]
    {
        let said = succeeded(&rpcinfo(&["-T", transport, &name, program, version]));
        assert!(said.contains("ready and waiting"), "{said}");
    }
    for (transport, program, version) in [("tcp", "100003", "4"), ("tcp", "100227", "3"), ("udp", "100003", "3")] {
        let output = rpcinfo(&["-T", transport, &name, program, version]);
        assert!(!output.status.success(), "{program} version {version} over {transport}: {output:?}");
    }
    for form in [&["-p", name.as_str()][..], &[&name]] {
        let said = succeeded(&rpcinfo(form));
        assert!(["100000", "100003", "100005"].iter().all(|program| said.contains(program)), "{said}");
    }
    // libnfs asks portmap for both ports.
    let (scratch, url) = (Scratch::new(), format!("nfs://{host}/scratch/copy?version=3"));
    let local = scratch.path().join("local");
    fs::write(&local, "content").unwrap();
    succeeded(&nfs_cp(&local.display().to_string(), &url));
    assert_eq!(succeeded(&bounded("nfs-cat", PATIENCE).arg(&url).output().unwrap()), "content");
    let listing = bounded("nfs-ls", PATIENCE).arg(format!("nfs://{host}/scratch?version=3")).output().unwrap();
    assert!(succeeded(&listing).contains("copy"));
}

#[test]
fn k_without_portmap_tools_are_told_the_ports() {
    if !(require(Part::Rpcinfo) && require(Part::Libnfs)) {
        return;
    }
    let nfsd = Nfsd::start(&["--servers", "3", "--export", "/data"]);
    let proxy = Serve::start(&nfsd.endpoints());
    let endpoint = proxy.endpoint();
    for (port, program, version, there) in [
        (endpoint.nfs_port, 100_003, 3, true),
        (endpoint.nfs_port, 100_003, 2, false),
        (endpoint.nfs_port, 100_003, 4, false),
        (endpoint.mount_port, 100_005, 3, true),
        (endpoint.mount_port, 100_005, 1, true),
        (endpoint.nfs_port, 100_227, 3, false),
    ] {
        let output = null_call(endpoint.address, port, program, version);
        assert_eq!(output.status.success(), there, "{program} version {version}: {output:?}");
    }
    let scratch = Scratch::new();
    let local = scratch.path().join("local");
    fs::write(&local, "content").unwrap();
    succeeded(&nfs_cp(&local.display().to_string(), &endpoint.url("/copy")));
    assert!(succeeded(&nfs_ls(&endpoint, "")).contains("copy"));
    assert_eq!(nfs_cat(&endpoint, "/copy").stdout, b"content");
    assert!(!nfs_cat(&endpoint, "/absent").status.success());
}

/// A LOOKUP goes to a server and comes back.
fn works(nfs: SocketAddr, mount: SocketAddr) {
    let (mut client, root) = client(nfs, mount);
    let what = DirOp { dir: handle(&root), name: b"absent" };
    assert_eq!(client.nfs(&Call::Lookup { what }).unwrap().status(), Nfsstat3::NOENT, "{nfs}");
}

#[test]
fn m_listeners_and_servers_are_of_either_family_and_client_lists_know_both() {
    let nfsd = Nfsd::start(&["--servers", "2", "--export", "/data", "--listen", "[::1]:0"]);
    let (v4, v6) =
        (|port| SocketAddr::from(([127, 0, 0, 1], port)), |port| SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], port)));
    let servers = || nfsd.addresses.clone();
    let start = |listen: &str, clients| {
        Site { listen: listen.to_owned(), clients, ..Site::over(servers(), None, "/data") }.start()
    };
    let own = start("nfs = [\"[::1]:0\", \"127.0.0.1:0\"]\nmount = \"[::1]:0\"", "\"::1\", \"127.0.0.1\"");
    let mount = own.mount[0];
    works(own.nfs[0], mount);
    works(own.nfs[1], mount);
    // One listener for both: who comes over IPv4 is an IPv4 client, in every list.
    for (clients, four, six) in
        [("\"127.0.0.0/8\"", true, false), ("\"::1\"", false, true), ("\"127.0.0.1\", \"::/0\"", true, true)]
    {
        let both = start("nfs = \"[::]:0\"", clients);
        let port = both.nfs[0].port();
        for (address, may) in [(v4(port), four), (v6(port), six)] {
            let mounted = Client::connect(address, &Caller::ROOT, PATIENCE).unwrap().mount(b"/scratch");
            assert_eq!(mounted.is_ok(), may, "{address} with clients {clients}: {mounted:?}");
            if may {
                works(address, address);
            }
        }
    }
}

/// Questions of portmap and what its answers must be, over any transport.
fn portmap_answers(local: SocketAddr, other: SocketAddr, mut ask: impl FnMut(Vec<u8>) -> Vec<u8>) {
    let opaque = |text: &str| {
        let mut out = Vec::new();
        midas_nfs::xdr::put::opaque(&mut out, text.as_bytes());
        out
    };
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let getaddr = |netid: &str| [words(&[100_003, 3]), opaque(netid), opaque(""), opaque("")].concat();
    let netid = |address: SocketAddr| if address.is_ipv4() { "tcp" } else { "tcp6" };
    let universal = |at: SocketAddr| opaque(&format!("{}.{}.{}", at.ip(), at.port() / 256, at.port() % 256));
    let nfs = u32::from(local.port());
    let cases = [
        (2, 0, vec![], vec![]),
        (2, 3, words(&[100_003, 3, 6, 0]), words(&[nfs])),
        (2, 3, words(&[100_003, 3, 17, 0]), words(&[0])),
        // Its status monitor has nothing to tell: there is none. Locks are refused by name where NFS is.
        (2, 3, words(&[100_024, 1, 6, 0]), words(&[0])),
        (2, 3, words(&[100_021, 4, 6, 0]), words(&[nfs])),
        (2, 1, words(&[100_003, 3, 6, 99]), words(&[0])),
        (3, 3, getaddr(netid(local)), universal(local)),
        (4, 3, getaddr(""), universal(local)),
        (4, 9, getaddr(netid(local)), universal(local)),
        (4, 3, getaddr(netid(other)), universal(other)),
        (3, 3, getaddr("udp"), opaque("")),
    ];
    for (number, (version, procedure, args, expected)) in cases.into_iter().enumerate() {
        let answer = ask(call(number as u32, portmap::PROGRAM, version, procedure, &args));
        let reply = rpc::Reply::decode(&answer).unwrap();
        assert_eq!((reply.xid, reply.results), (number as u32, Ok(&expected[..])), "case {number} at {local}");
    }
    let other = ask(call(99, portmap::PROGRAM, 5, 0, &[]));
    let refused = rpc::Refusal::ProgMismatch { low: 2, high: 4 };
    assert_eq!(rpc::Reply::decode(&other).unwrap().results, Err(refused));
}

#[test]
fn k_portmap_answers_over_tcp_and_udp_in_both_families() {
    let nfsd = Nfsd::start(&["--export", "/data"]);
    let host = loopback(1, &[]);
    let (four, six) = (
        SocketAddr::from((host, free_port(host))),
        SocketAddr::from((Ipv6Addr::LOCALHOST, free_port(Ipv6Addr::LOCALHOST))),
    );
    let listen = format!("nfs = [\"{host}:0\", \"[::1]:0\"]\nportmap = [\"{four}\", \"{six}\"]");
    let proxy = Site { listen, clients: "\"127.0.0.0/8\", \"::1\"", ..Site::of(&[nfsd.endpoint(0)]) }.start();
    let [first, second] = proxy.nfs[..] else { panic!("it listens twice: {:?}", proxy.nfs) };
    for (at, local, other) in [(four, first, second), (six, second, first)] {
        let mut tcp = Raw::connect(at);
        portmap_answers(local, other, |question| {
            tcp.send(&question);
            tcp.receive()
        });
        let udp =
            UdpSocket::bind(SocketAddr::new(if at.is_ipv4() { [127, 0, 0, 1].into() } else { at.ip() }, 0)).unwrap();
        udp.connect(at).unwrap();
        udp.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = vec![0; 1 << 16];
        portmap_answers(local, other, |question| {
            udp.send(&question).unwrap();
            let length = udp.recv(&mut answer).unwrap();
            answer[..length].to_vec()
        });
        // Other programs are not there, garbage has no answer, a long one is cut; and the next question is answered.
        udp.send(&call(7, 100_003, 3, 0, &[])).unwrap();
        let length = udp.recv(&mut answer).unwrap();
        assert_eq!(rpc::Reply::decode(&answer[..length]).unwrap().results, Err(rpc::Refusal::ProgUnavail));
        for garbage in [vec![], vec![1, 2, 3], vec![0xff; 60_000]] {
            udp.send(&garbage).unwrap();
        }
        udp.send(&call(8, portmap::PROGRAM, 2, 0, &[])).unwrap();
        let length = udp.recv(&mut answer).unwrap();
        assert_eq!(rpc::Reply::decode(&answer[..length]).unwrap().xid, 8);
        tcp.alive();
    }
}

#[test]
fn k_strangers_get_no_answer_over_udp() {
    let nfsd = Nfsd::start(&["--export", "/data"]);
    let host = loopback(1, &[]);
    let port = free_port(host);
    let listen = format!("nfs = \"{host}:0\"\nportmap = \"{host}:{port}\"");
    let _proxy = Site { listen, clients: "\"127.0.0.1\"", ..Site::of(&[nfsd.endpoint(0)]) }.start();
    let at = |source: Ipv4Addr| {
        let udp = UdpSocket::bind((source, 0)).unwrap();
        udp.connect((host, port)).unwrap();
        udp.set_read_timeout(Some(PATIENCE)).unwrap();
        udp
    };
    let (stranger, known) = (at(host), at(Ipv4Addr::LOCALHOST));
    stranger.send(&call(1, portmap::PROGRAM, 2, 0, &[])).unwrap();
    known.send(&call(2, portmap::PROGRAM, 2, 0, &[])).unwrap();
    let mut answer = [0; 64];
    assert!(known.recv(&mut answer).is_ok());
    // The stranger asked first, and questions are answered in their order.
    stranger.set_nonblocking(true).unwrap();
    assert!(stranger.recv(&mut answer).is_err());
}
