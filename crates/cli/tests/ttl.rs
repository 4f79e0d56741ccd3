//! `ttl` exports whose objects others change past MIDAS (issue 5): the stale share of the answers from the cache, counted from outside for
//! attributes, names that lead somewhere, names that do not and rights, stays under 1.2 p*, for objects that change at constant rates
//! and in bursts.
//!
//! Every change gives an object its next version. Sizes and handles tell versions apart, rights tell eight of them, a missing name tells that
//! the version is even. An answer is stale if it is of no version that was in force at any moment from before its call left until after it
//! came. Hits are the daemon's own count of what its cache answered, without reads that were joined; stale answers are counted of all reads.
//! Each world has its own daemon and server, so that counts are its own. The interval is over objects, which are independent, as if each
//! were expected to show none.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_bench::Target;
use midas_bench::coherence::{Coherence, run};
use midas_core::rng::Rng;
use midas_lab::raw::{self, Raw, handle};
use midas_lab::{Scratch, create, mkdir};
use midas_net::{Caller, Client};
use midas_nfs::nfs3::{self, Call, DirOp, Nfsstat3, Procedure, Reply, Sattr3};
use midas_nfs::rpc::{OpaqueAuth, flavor};
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};
use support::midas;
use support::nfsd::Nfsd;
use support::serve::{Serve, Site};

#[test]
fn the_stale_share_of_hits_stays_under_the_target_while_others_write() {
    let span = if std::env::var_os("MIDAS_SOAK").is_some() { FULL } else { SHORT };
    let worlds: Vec<World> =
        [1e-2, 1e-3].iter().flat_map(|p| Changes::ALL.map(|changes| World::new(*p, changes))).collect();
    let seen: Vec<Seen> = thread::scope(|scope| {
        let running: Vec<_> = worlds.iter().map(|world| scope.spawn(|| world.live(span))).collect();
        running.into_iter().map(|world| world.join().unwrap()).collect()
    });
    support::all_hold(worlds.iter().zip(&seen).flat_map(|(world, seen)| world.judge(seen)));
}

/// How objects change.
#[derive(Clone, Copy, Debug)]
enum Changes {
    /// Each at its own constant hazard.
    Steady,
    /// Each quiet for a time of its own, then quickly for a second.
    Bursty,
}

/// Objects on a server of their own, and a daemon with an export of them.
struct World {
    nfsd: Nfsd,
    proxy: Serve,
    target: f64,
    changes: Changes,
    things: Vec<Thing>,
}

/// What changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// The size of a file.
    Size,
    /// A name that is there and then is not, each time of a new file.
    Name,
    /// What others than its owner may do with a file.
    Rights,
}

struct Thing {
    what: What,
    /// The file, or the directory of the name.
    handle: Vec<u8>,
    /// The version that the writer has asked for last, and the last one that it was told to be in force.
    asked: AtomicU64,
    told: AtomicU64,
    /// Files that the name led to, with their versions.
    files: Mutex<HashMap<Vec<u8>, u64>>,
}

/// What its readers saw: for each kind of answer, answers and stale ones of each object.
struct Seen {
    reads: [u64; Kind::ALL.len()],
    stale: [Vec<u64>; Kind::ALL.len()],
}

/// Answers whose stale share has a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Attributes,
    Names,
    Absent,
    Rights,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Attributes, Self::Names, Self::Absent, Self::Rights];
    /// MIDAS compares these with the server.
    const CHECKED: [Self; 3] = [Self::Attributes, Self::Names, Self::Absent];
}

impl Changes {
    const ALL: [Self; 2] = [Self::Steady, Self::Bursty];
}

impl World {
    fn new(target: f64, changes: Changes) -> Self {
        let nfsd = Nfsd::start(&["--memory"]);
        let (mut direct, root) = nfsd.endpoint(0).client();
        let mut thing = |number: usize| {
            let (what, name) = (What::ALL[number % What::ALL.len()], format!("t{number}"));
            // A directory for each name: what changes beside a name is not what is measured.
            let handle = match what {
                What::Size | What::Rights => create(&mut direct, &root, name.as_bytes()),
                What::Name => mkdir(&mut direct, &root, name.as_bytes()),
            };
            let thing = Thing { what, handle, asked: 0.into(), told: 0.into(), files: Mutex::default() };
            thing.change(&mut direct);
            thing
        };
        let things = (0..THINGS).map(&mut thing).collect();
        let more = format!("mode = \"ttl\"\nstale_target = {target}\n");
        let proxy = Site { more, ..Site::of(&nfsd.endpoints()) }.start();
        Self { nfsd, proxy, target, changes, things }
    }

    /// Readers through the proxy and a writer past it, for so long; longer where a machine is too busy for enough hits.
    fn live(&self, span: Duration) -> Seen {
        let (going, stop) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || self.write(&stop));
            let (mut to, mut rng) = (Raw::connect(self.proxy.nfs[0]), Rng::new(7));
            let mut seen = Seen { reads: [0; Kind::ALL.len()], stale: Kind::ALL.map(|_| vec![0; THINGS]) };
            for _ in 0..SPANS_MOST {
                self.read(&mut to, &mut rng, span, &mut seen);
                let told = self.told();
                if Kind::ALL.iter().all(|kind| hits(&told, *kind) as f64 >= 4.0 * self.hits_least()) {
                    break;
                }
            }
            drop(going);
            seen
        })
    }

    /// Of each kind: as many that some are stale if the target's share is. It takes four times as many where it can.
    fn hits_least(&self) -> f64 {
        5.0 / self.target
    }

    /// What the daemon says of its cache.
    fn told(&self) -> Value {
        let cache: Value = serde_json::from_str(&self.proxy.command("cache --json")).unwrap();
        cache["exports"][0].clone()
    }

    /// Reads of random objects, many at once, until the time is over.
    fn read(&self, to: &mut Raw, rng: &mut Rng, span: Duration, seen: &mut Seen) {
        let end = Instant::now() + span;
        while Instant::now() < end {
            let asked: Vec<usize> = (0..AT_ONCE).map(|_| rng.below(THINGS)).collect();
            let told: Vec<u64> = asked.iter().map(|thing| self.things[*thing].told.load(Ordering::SeqCst)).collect();
            let calls = asked.iter().zip(0..).map(|(thing, xid)| self.things[*thing].ask(xid));
            to.say(&calls.flat_map(|call| raw::in_one_fragment(&call)).collect::<Vec<u8>>());
            for _ in &asked {
                let answer = to.receive();
                let place = raw::xid(&answer) as usize;
                let (kind, stale) = self.things[asked[place]].judge(told[place], raw::results(&answer));
                seen.reads[kind as usize] += 1;
                seen.stale[kind as usize][asked[place]] += u64::from(stale);
            }
        }
    }

    /// Changes objects when their time comes, directly at the server.
    fn write(&self, stop: &Receiver<()>) {
        let (mut client, _) = self.nfsd.endpoint(0).client();
        let (mut rng, start) = (Rng::new(11), Instant::now());
        let mut lives: Vec<Life> = (0..THINGS).map(|_| Life::new(self.changes, &mut rng)).collect();
        let first = lives.iter_mut().enumerate().map(|(thing, life)| Reverse((life.next(&mut rng), thing)));
        let mut due: BinaryHeap<_> = first.collect();
        while let Some(Reverse((at, thing))) = due.pop() {
            match stop.recv_timeout(at.saturating_sub(start.elapsed())) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
            self.things[thing].change(&mut client);
            due.push(Reverse((at + lives[thing].next(&mut rng), thing)));
        }
    }

    /// What was seen, and what does not hold.
    fn judge(&self, seen: &Seen) -> Vec<Option<String>> {
        let told = self.told();
        let changes: u64 = self.things.iter().map(|thing| thing.told.load(Ordering::SeqCst) - 1).sum();
        let name = format!("{:?} p* {}", self.changes, self.target);
        let shares = Kind::ALL.map(|kind| Share::of(hits(&told, kind), &seen.stale[kind as usize]));
        let mut broken = Vec::new();
        let mut enough = |what: &str, count: f64, least: f64| {
            broken.push((count < least).then(|| format!("{name}: {count} {what}, at least {least} are needed")));
        };
        for (kind, share) in Kind::ALL.iter().zip(&shares) {
            println!("{name}, {kind:?}: {} reads, {share:?}", seen.reads[*kind as usize]);
            enough(&format!("hits of {kind:?}"), share.hits, self.hits_least());
        }
        let figure = |name: &str| told["cache"][name].as_u64().unwrap() as f64;
        let (checked, different) = (figure("checked"), figure("different"));
        println!("{name}: {changes} changes, MIDAS measured {different} of {checked}");
        enough("checks", checked, 1.0 / self.target);
        for (kind, share) in Kind::ALL.iter().zip(&shares) {
            // Three that nobody saw are one case in twenty.
            let upper = (share.stale + share.half).max(3.0 / share.hits);
            broken.push(support::at_most(&format!("{name}, {kind:?}, upper limit"), upper, 1.2 * self.target));
        }
        // The checks are a random part of the hits of each kind: what they show is what there is, within what they can tell.
        let of_checked = || Kind::CHECKED.iter().map(|kind| &shares[*kind as usize]);
        let low = of_checked().map(|share| share.stale - share.half).fold(f64::MAX, f64::min);
        let high = of_checked().map(|share| share.stale + share.half).fold(0.0, f64::max);
        let spread = |share: f64| 4.0 * (different.max(share * checked) + 4.0).sqrt() / checked;
        let measured = different / checked;
        let apart = measured > high + spread(high) || measured < low - spread(low);
        let what = || format!("{name}: MIDAS measured {different} of {checked}, the truth is {low} to {high}");
        broken.push(apart.then(what));
        broken
    }
}

/// Answers of the cache, as the daemon has counted them.
fn hits(told: &Value, kind: Kind) -> u64 {
    let fate = |procedure: &str, fate: &str| told["reads"][procedure][fate].as_u64().unwrap();
    match kind {
        Kind::Attributes => fate("GETATTR", "answered"),
        Kind::Names => fate("LOOKUP", "answered") - fate("LOOKUP", "absent"),
        Kind::Absent => fate("LOOKUP", "absent"),
        Kind::Rights => fate("ACCESS", "answered"),
    }
}

/// The stale share of hits.
#[derive(Debug)]
struct Share {
    hits: f64,
    stale: f64,
    /// Half of its interval.
    half: f64,
}

impl Share {
    fn of(hits: u64, stale: &[u64]) -> Self {
        let hits = hits as f64;
        let squares: u64 = stale.iter().map(|count| count * count).sum();
        Self { hits, stale: stale.iter().sum::<u64>() as f64 / hits, half: 1.96 * (squares as f64).sqrt() / hits }
    }
}

impl What {
    const ALL: [Self; 3] = [Self::Size, Self::Name, Self::Rights];
}

impl Thing {
    /// Gives it its next version.
    fn change(&self, client: &mut Client) {
        let version = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let set = |client: &mut Client, new_attributes: Sattr3| {
            let call = Call::Setattr { object: handle(&self.handle), new_attributes, guard: None };
            assert_eq!(client.nfs(&call).unwrap().status(), Nfsstat3::OK);
        };
        match self.what {
            What::Size => set(client, Sattr3 { size: Some(version), ..Sattr3::default() }),
            What::Rights => {
                let mode = 0o600 | (version % RIGHTS) as u32;
                set(client, Sattr3 { mode: Some(mode), ..Sattr3::default() });
            }
            What::Name if version.is_multiple_of(2) => {
                let call = Call::Remove { object: DirOp { dir: handle(&self.handle), name: NAME } };
                assert_eq!(client.nfs(&call).unwrap().status(), Nfsstat3::OK);
            }
            What::Name => {
                let file = create(client, &self.handle, NAME);
                self.files.lock().unwrap().insert(file, version);
            }
        }
        self.told.store(version, Ordering::SeqCst);
    }

    /// A read of it.
    fn ask(&self, xid: u32) -> Vec<u8> {
        match self.what {
            What::Size => raw::getattr(xid, &self.handle),
            What::Name => raw::nfs(xid, &Call::Lookup { what: DirOp { dir: handle(&self.handle), name: NAME } }),
            What::Rights => {
                let other = Caller { uid: 1000, gid: 1000, gids: Vec::new() }.encode(0, b"test");
                let mut args = Vec::new();
                Call::Access { object: handle(&self.handle), access: ACCESS.iter().sum() }.encode(&mut args);
                let access = (nfs3::PROGRAM, nfs3::VERSION, Procedure::Access as u32);
                raw::with_credential(xid, access, OpaqueAuth { flavor: flavor::SYS, body: &other }, &args)
            }
        }
    }

    /// What was answered, and whether that is of no version that was in force since the call left: then `told` was.
    fn judge(&self, told: u64, results: &[u8]) -> (Kind, bool) {
        let asked = self.asked.load(Ordering::SeqCst);
        let procedure = match self.what {
            What::Size => Procedure::Getattr,
            What::Name => Procedure::Lookup,
            What::Rights => Procedure::Access,
        };
        match Reply::decode(procedure, results).unwrap() {
            Reply::Getattr(Ok(attributes)) => (Kind::Attributes, attributes.size < told),
            Reply::Lookup(Ok(found)) => {
                // One that the writer does not know yet is its latest.
                let version = self.files.lock().unwrap().get(found.object.bytes()).copied();
                (Kind::Names, version.is_some_and(|version| version < told))
            }
            Reply::Lookup(Err(failed)) if failed.status == Nfsstat3::NOENT => {
                (Kind::Absent, !(told..=asked).any(|version| version.is_multiple_of(2)))
            }
            Reply::Access(Ok(ok)) => {
                let [read, modify, execute] = ACCESS.map(|bit| u64::from(ok.access & bit != 0));
                let rights = read << 2 | modify << 1 | execute;
                (Kind::Rights, !(told..=asked).any(|version| version % RIGHTS == rights))
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_clients_of_a_ttl_export_saw_was_true_within_its_bound() {
    let (nfsd, scratch) = (Nfsd::start(&["--memory", "--servers", "2"]), Scratch::new());
    let export = "mode = \"ttl\"\nstale_target = 0.5\nttl_max = \"500ms\"\n";
    let proxy = Site { export, ..Site::of(&nfsd.endpoints()) }.start();
    let target = |address, path: &str, mount| Target::parse(&format!("{address}{path}?mount={mount}")).unwrap();
    // Half of the clients go past MIDAS.
    let past = nfsd.addresses[0];
    let targets = vec![target(proxy.nfs[0], "/scratch", proxy.mount[0].port()), target(past, "/", past.port())];
    let history = scratch.path().join("calls");
    let config = Coherence { calls: CALLS, duration: LIMIT, changes: 0.1, ..Coherence::new(targets, history) };
    run(&config, &AtomicBool::new(false), &mut |_, _, _| {}).unwrap();
    let cache: Value = serde_json::from_str(&proxy.command("cache --json")).unwrap();
    let answered = cache["exports"][0]["cache"]["reads"]["answered"].as_u64().unwrap();
    assert!(answered > CALLS / 50, "hardly anything was answered from the cache: {answered}");
    let history = config.history.display();
    // An entry lives for half a second from when its read left; the rest is for calls that are slow.
    let said = support::text(&format!("history check {history} --mode ttl --bound 800ms"));
    assert!(said.contains("no violation"), "{said}");
    let strict = midas(&format!("history check {history} --mode strict"));
    assert_eq!(strict.status.code(), Some(1), "old answers were given: {}", String::from_utf8_lossy(&strict.stdout));
}

/// When an object changes.
struct Life {
    changes: Changes,
    /// The mean time between changes, or between bursts.
    gap: f64,
    /// Changes that are left of a burst.
    left: u32,
}

impl Life {
    fn new(changes: Changes, rng: &mut Rng) -> Self {
        let (low, high): (f64, f64) = match changes {
            Changes::Steady => GAPS,
            Changes::Bursty => QUIET,
        };
        Self { changes, gap: low * (high / low).powf(rng.unit()), left: 0 }
    }

    /// How long until the next change.
    fn next(&mut self, rng: &mut Rng) -> Duration {
        let mean = match (self.changes, self.left) {
            (Changes::Steady, _) => self.gap,
            (Changes::Bursty, 0) => {
                self.left = (BURST * rng.exponential()) as u32;
                self.gap
            }
            (Changes::Bursty, left) => {
                self.left = left - 1;
                BURST_GAP
            }
        };
        Duration::from_secs_f64(mean * rng.exponential())
    }
}

const THINGS: usize = 64 * What::ALL.len();
/// The name that comes and goes.
const NAME: &[u8] = b"name";
/// READ, MODIFY and EXECUTE: for each a bit of the mode.
const ACCESS: [u32; 3] = [0x01, 0x04, 0x20];
/// Versions that they tell apart.
const RIGHTS: u64 = 8;
/// Calls under way of a reader.
const AT_ONCE: usize = 16;
/// Mean seconds between changes, from the object that changes most to the one that changes least.
const GAPS: (f64, f64) = (0.5, 100.0);
/// The same between bursts.
const QUIET: (f64, f64) = (5.0, 200.0);
/// Changes of a burst, and the seconds between them.
const BURST: f64 = 20.0;
const BURST_GAP: f64 = 0.05;
const CALLS: u64 = 40_000;
/// Far more than it takes.
const LIMIT: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(40);
/// Spans that a run takes at most.
const SPANS_MOST: u32 = 4;
const FULL: Duration = Duration::from_secs(600);
