//! Many ranks of a job create one file at the same moment, through a proxy in lease mode. Mutations
//! of one name run one after the other there; what each costs must not depend on how many wait. The
//! servers take 300 us for a call, one after the other, as quick ones do: of one that takes no time
//! nothing but the round trips of the proxy would be measured.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::raw::{self, Raw, handle};
use midas_nfs::nfs3::{Call, CreateHow, DirOp, Nfsstat3, Sattr3};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};

/// In turns: so many at one server directly, so many through the proxy, and twice as many. On a
/// machine with other work the least of some rounds is compared.
#[test]
fn ranks_that_create_one_name_cost_twice_the_server_and_twice_as_many_cost_twice_as_much() {
    let mut nfsd = Nfsd::start(&["--servers", "3", "--service", "const:300us", "--workers", "1", "--truth"]);
    let proxy = proxy(&nfsd);
    let (_, root) = proxy.client();
    let (_, servers_root) = nfsd.endpoint(0).client();
    let [mut direct, mut through, mut twice] = [Duration::MAX; 3];
    for round in 0..ROUNDS {
        let name = |of: &str| format!("{of}.{round}").into_bytes();
        direct = direct.min(created(nfsd.addresses[0], &servers_root, &name("direct"), RANKS));
        through = through.min(created(proxy.nfs[0], &root, &name("through"), RANKS));
        twice = twice.min(created(proxy.nfs[0], &root, &name("twice"), 2 * RANKS));
        eprintln!("{round}: directly {direct:?}, through {through:?}, twice as many {twice:?}");
    }
    let looked_up: u64 = nfsd.executed("LOOKUP").iter().sum();
    assert!(looked_up < 100, "{looked_up} names were looked up: where the one leads is known to whoever is next");
    // The aims hold on a quiet machine, and `make soak` asks for them. What this is against is
    // another order: 31 s instead of one, and four times as long for twice as many.
    let (of_direct, of_half) = if std::env::var_os("MIDAS_SOAK").is_some() { (2.0, 2.2) } else { (4.0, 3.0) };
    assert!(through.as_secs_f64() <= of_direct * direct.as_secs_f64(), "{through:?} of {direct:?}");
    assert!(twice.as_secs_f64() <= of_half * through.as_secs_f64(), "{twice:?} of {through:?}");
}

fn proxy(nfsd: &Nfsd) -> Serve {
    let export = "mode = \"lease\"\nwriters = \"midas-only\"\n";
    Site { export, ..Site::of(&nfsd.endpoints()) }.start()
}

/// How long it takes until so many ranks have created one file, all at once.
fn created(at: SocketAddr, dir: &[u8], name: &[u8], ranks: u32) -> Duration {
    let how = CreateHow::Unchecked(Sattr3 { mode: Some(0o644), ..Sattr3::default() });
    let call = Call::Create { place: DirOp { dir: handle(dir), name }, how };
    let first = XIDS.fetch_add(ranks, Ordering::Relaxed);
    let records: Vec<Vec<u8>> = (first..first + ranks).map(|xid| raw::in_one_fragment(&raw::nfs(xid, &call))).collect();
    let mut connections: Vec<Raw> = (0..CONNECTIONS).map(|_| Raw::connect(at)).collect();
    let each = (ranks / CONNECTIONS) as usize;
    let begun = Instant::now();
    for (connection, records) in connections.iter_mut().zip(records.chunks(each)) {
        connection.say(&records.concat());
    }
    for connection in &mut connections {
        for _ in 0..each {
            assert_eq!(raw::status(&connection.receive()), Nfsstat3::OK);
        }
    }
    begun.elapsed()
}

const RANKS: u32 = 8000;
const CONNECTIONS: u32 = 100;
const ROUNDS: u32 = 2;
static XIDS: AtomicU32 = AtomicU32::new(1);
