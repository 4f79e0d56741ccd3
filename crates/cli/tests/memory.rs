//! The cache's bound on memory (issue 5): while names are looked up that nobody asked for before and that are not there, and rights are asked
//! for that nobody asked for before, resident memory stays under the bound plus a stated base, and a hot set keeps its share of hits.
//!
//! A million names here, ten million where there is time (`make soak`). The hot set is half of what the cache has room for, and is read so
//! seldom that more comes between two reads of a file than the other half holds: a cache that lets go of what was not read for longest
//! would lose it, which is played beside it on the same calls. The hot set is asked for by GETATTR and the scan by LOOKUP and ACCESS, so
//! that the server's own counts tell the misses of the one from those of the other.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_core::rng::Rng;
use midas_lab::mkdir;
use midas_lab::raw::{self, Raw, handle};
use midas_net::Caller;
use midas_nfs::nfs3::{self, Call, CreateHow, DirOp, Nfsstat3, Procedure, Reply, Sattr3};
use midas_nfs::rpc::{OpaqueAuth, flavor};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::io::{BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;
use support::nfsd::Nfsd;
use support::serve::Site;

#[test]
fn a_scan_of_names_fills_no_more_memory_than_it_may_and_leaves_the_hot_set_alone() {
    let names: u64 = if std::env::var_os("MIDAS_SOAK").is_some() { 10_000_000 } else { 1_000_000 };
    let mut nfsd = Nfsd::start(&["--memory", "--truth"]);
    let tree = Tree::make(&nfsd);
    // An entry that grows too old is a miss that no scan has made.
    let export = "mode = \"lease\"\nwriters = \"midas-only\"\nlease_age_max = \"1h\"\n";
    let more = "[cache]\nmemory = \"64MiB\"\n".to_owned();
    let proxy = Site { export, more, ..Site::of(&nfsd.endpoints()) }.start();
    let mut client = Pipe::to(proxy.nfs[0]);
    let (mut rng, mut misses) = (Rng::new(3), Misses::of(&mut nfsd));
    let mut lru = Lru::default();
    // Each twice: what was read but once is not hot. Then as often again: what it is without the scan.
    let each: Vec<Asked> = (0..2).flat_map(|_| (0..HOT).map(Asked::Hot)).collect();
    client.calls(each.iter().map(|asked| tree.call(*asked)), |_| {});
    misses.since(&mut nfsd);
    let again: Vec<Asked> = (0..HOT).map(|_| Asked::Hot(rng.below(HOT as usize) as u64)).collect();
    client.calls(again.iter().map(|asked| tree.call(*asked)), |_| {});
    let alone = 1.0 - misses.since(&mut nfsd)[0] as f64 / HOT as f64;

    let began = Instant::now();
    let groups = names.div_ceil(GROUP.names);
    let scan = || Scan::new(groups);
    client.calls(scan().map(|asked| tree.call(asked)), |_| {});
    let [missed, looked_up, asked] = misses.since(&mut nfsd);
    let during = 1.0 - missed as f64 / (groups * GROUP.hot) as f64;
    let took = began.elapsed();

    let (_, highest) = proxy.memory();
    let cache: Value = serde_json::from_str(&proxy.command("cache --json")).unwrap();
    let held = cache["exports"][0]["cache"]["entries"].as_u64().unwrap();
    lru.room = held as usize;
    let _hits = each.into_iter().chain(again).filter(|asked| lru.read(*asked)).count();
    let hot = |asked: &Asked| matches!(asked, Asked::Hot(_));
    let kept = scan().filter(|asked| lru.read(*asked) && hot(asked)).count();
    let of_lru = kept as f64 / (groups * GROUP.hot) as f64;
    eprintln!(
        "hits of {HOT} files: {alone:.4} alone, {during:.4} during a scan of {looked_up} names and {asked} rights in {took:.0?}, \
         {of_lru:.4} by LRU; {held} entries, at most {} MiB resident: {cache}",
        highest >> 20
    );
    assert!(looked_up >= names && asked >= groups, "every one was new: {looked_up} names, {asked} rights");
    assert!((held / 3..=held * 2 / 3).contains(&HOT), "the hot set is about half of {held} entries");
    assert!(of_lru < alone - 0.3, "a scan that LRU can stand shows nothing: {of_lru}");
    assert!(highest <= (64 << 20) + BASE, "{} MiB resident", highest >> 20);
    assert!(alone > 0.95, "the hot set is answered from the cache at all: {alone}");
    assert!(during >= alone - 0.05, "hits: {alone} alone, {during} during the scan");
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Asked {
    /// Attributes of a file.
    Hot(u64),
    /// A name that is not there.
    Name(u64),
    /// What someone may do.
    Rights(u64),
}

/// Calls of each kind, in turn.
struct Group {
    hot: u64,
    names: u64,
}

/// The scan with the hot set among it, in groups of calls; one of each is for rights.
struct Scan {
    rng: Rng,
    groups: u64,
    group: u64,
    at: u64,
}

impl Scan {
    fn new(groups: u64) -> Self {
        Self { rng: Rng::new(5), groups, group: 0, at: 0 }
    }
}

impl Iterator for Scan {
    type Item = Asked;

    fn next(&mut self) -> Option<Asked> {
        let at = self.at;
        self.at = (at + 1) % (GROUP.hot + GROUP.names + 1);
        match at {
            _ if self.group == self.groups => None,
            at if at < GROUP.hot => Some(Asked::Hot(self.rng.below(HOT as usize) as u64)),
            at if at < GROUP.hot + GROUP.names => Some(Asked::Name(self.group * GROUP.names + at - GROUP.hot)),
            _ => {
                self.group += 1;
                Some(Asked::Rights(self.group))
            }
        }
    }
}

/// What is on the server.
struct Tree {
    /// The names of a directory lie in one part of the cache: many directories use all of it.
    directories: Vec<Vec<u8>>,
    files: Vec<Vec<u8>>,
}

impl Tree {
    fn make(nfsd: &Nfsd) -> Self {
        let (mut client, root) = nfsd.endpoint(0).client();
        let directories = (0..DIRECTORIES).map(|n| mkdir(&mut client, &root, format!("d{n}").as_bytes())).collect();
        let dir = mkdir(&mut client, &root, b"hot");
        let create = |n: u64| {
            let name = format!("f{n}");
            let place = DirOp { dir: handle(&dir), name: name.as_bytes() };
            raw::nfs(n as u32, &Call::Create { place, how: CreateHow::Guarded(Sattr3::default()) })
        };
        let mut files = Vec::with_capacity(HOT as usize);
        Pipe::to(nfsd.addresses[0]).calls((0..HOT).map(create), |answer| {
            match Reply::decode(Procedure::Create, raw::results(answer)).unwrap() {
                Reply::Create(Ok(made)) => files.push(made.object.unwrap().bytes().to_vec()),
                other => panic!("{other:?}"),
            }
        });
        Self { directories, files }
    }

    fn call(&self, asked: Asked) -> Vec<u8> {
        let directory = |n: u64| handle(&self.directories[(n % DIRECTORIES) as usize]);
        match asked {
            Asked::Hot(file) => raw::getattr(file as u32, &self.files[file as usize]),
            Asked::Name(n) => {
                let name = format!("name-{n}");
                raw::nfs(n as u32, &Call::Lookup { what: DirOp { dir: directory(n), name: name.as_bytes() } })
            }
            // Of a directory for one user after the other.
            Asked::Rights(n) => {
                let call = Call::Access { object: directory(n), access: 0x3f };
                let uid = 1 + (n / DIRECTORIES) as u32;
                let body = Caller { uid, gid: uid, gids: Vec::new() }.encode(0, b"test");
                let mut args = Vec::new();
                call.encode(&mut args);
                let access = (nfs3::PROGRAM, nfs3::VERSION, Procedure::Access as u32);
                raw::with_credential(n as u32, access, OpaqueAuth { flavor: flavor::SYS, body: &body }, &args)
            }
        }
    }
}

/// A connection with many calls under way.
struct Pipe {
    to: Raw,
    from: BufReader<TcpStream>,
}

impl Pipe {
    fn to(address: SocketAddr) -> Self {
        let to = Raw::connect(address);
        let from = BufReader::with_capacity(1 << 16, to.0.try_clone().unwrap());
        Self { to, from }
    }

    /// Makes all calls; each answer is shown, and says that it was done or that there is no such name.
    fn calls(&mut self, calls: impl Iterator<Item = Vec<u8>>, mut answered: impl FnMut(&[u8])) {
        let (mut batch, mut waiting) = (Vec::new(), 0);
        for call in calls {
            batch.extend(raw::in_one_fragment(&call));
            waiting += 1;
            if waiting % BATCH == 0 {
                self.to.say(&batch);
                batch.clear();
            }
            if waiting == UNDER_WAY {
                (0..BATCH).for_each(|_| self.answer(&mut answered));
                waiting -= BATCH;
            }
        }
        self.to.say(&batch);
        (0..waiting).for_each(|_| self.answer(&mut answered));
    }

    fn answer(&mut self, answered: &mut impl FnMut(&[u8])) {
        let mut mark = [0; 4];
        self.from.read_exact(&mut mark).unwrap();
        let mut answer = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
        self.from.read_exact(&mut answer).unwrap();
        assert!([Nfsstat3::OK, Nfsstat3::NOENT].contains(&raw::status(&answer)), "{:?}", raw::status(&answer));
        answered(&answer);
    }
}

/// What the server was asked for: GETATTRs, LOOKUPs and ACCESSes.
struct Misses([u64; 3]);

impl Misses {
    fn of(nfsd: &mut Nfsd) -> Self {
        Self(["GETATTR", "LOOKUP", "ACCESS"].map(|procedure| nfsd.executed(procedure).iter().sum()))
    }

    /// Since the last time.
    fn since(&mut self, nfsd: &mut Nfsd) -> [u64; 3] {
        let before = std::mem::replace(self, Self::of(nfsd));
        [0, 1, 2].map(|at| self.0[at] - before.0[at])
    }
}

/// A cache that lets go of what was not read for longest.
#[derive(Default)]
struct Lru {
    room: usize,
    /// When each was read last.
    read: HashMap<Asked, u64>,
    /// Every read, but for those of old that were not the last.
    order: VecDeque<(Asked, u64)>,
    now: u64,
}

impl Lru {
    /// Whether it was there.
    fn read(&mut self, asked: Asked) -> bool {
        self.now += 1;
        let hit = self.read.insert(asked, self.now).is_some();
        self.order.push_back((asked, self.now));
        while let Some(&(oldest, at)) = self.order.front() {
            let last = self.read.get(&oldest) == Some(&at);
            if last && self.read.len() <= self.room {
                break;
            }
            if last {
                self.read.remove(&oldest);
            }
            self.order.pop_front();
        }
        hit
    }
}

/// Half of what 64 MiB have room for.
const HOT: u64 = 130_000;
/// Four of the scan's calls for one of the hot set's.
const GROUP: Group = Group { hot: 2, names: 7 };
const DIRECTORIES: u64 = 1024;
/// Calls that are sent at once, and that are under way at most.
const BATCH: usize = 64;
const UNDER_WAY: usize = 4 * BATCH;
/// What the daemon takes besides: 9 MiB at its start; during the scan 72 MiB were resident in all.
const BASE: u64 = 24 << 20;
