//! `ttl` exports whose files others change past MIDAS (issue 5): the stale share of the answers from the cache, counted from outside, stays
//! under 1.2 p*, for files that change at constant rates and in bursts.
//!
//! Every change leaves a size that no other change of the file leaves. An answer is stale if a larger size was acknowledged to its writer
//! before the read began. What a server is asked for cannot be stale, so all stale answers are hits; hits are the reads less the GETATTRs that the
//! server executed, whose number holds MIDAS's own probes and checks too: the share is never told too small. Each world has its own
//! daemon and server, so that counts are its own. The interval is over files, which are independent, as if each were expected to show none.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_bench::Target;
use midas_bench::coherence::{Coherence, run};
use midas_core::rng::Rng;
use midas_lab::raw::{self, Raw, handle};
use midas_lab::{Scratch, create};
use midas_net::Client;
use midas_nfs::nfs3::{Call, Nfsstat3, Procedure, Reply, Sattr3};
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
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
    let mut worlds: Vec<World> =
        [1e-2, 1e-3].iter().flat_map(|p| Changes::ALL.map(|changes| World::new(*p, changes))).collect();
    let seen: Vec<Seen> = thread::scope(|scope| {
        let running: Vec<_> = worlds.iter().map(|world| scope.spawn(|| world.live(span))).collect();
        running.into_iter().map(|world| world.join().unwrap()).collect()
    });
    support::all_hold(worlds.iter_mut().zip(&seen).flat_map(|(world, seen)| world.judge(seen)));
}

/// How files change.
#[derive(Clone, Copy, Debug)]
enum Changes {
    /// Each at its own constant hazard.
    Steady,
    /// Each quiet for a time of its own, then quickly for a second.
    Bursty,
}

/// Files on a server of their own, and a daemon with an export of them.
struct World {
    nfsd: Nfsd,
    proxy: Serve,
    target: f64,
    changes: Changes,
    files: Vec<File>,
    executed: u64,
}

struct File {
    handle: Vec<u8>,
    /// The last size that a writer was told to be in force.
    size: AtomicU64,
}

/// What its readers saw: reads, and stale answers of each file.
struct Seen {
    reads: u64,
    stale: Vec<u64>,
}

impl Changes {
    const ALL: [Self; 2] = [Self::Steady, Self::Bursty];
}

impl World {
    fn new(target: f64, changes: Changes) -> Self {
        let mut nfsd = Nfsd::start(&["--memory", "--truth"]);
        let (mut direct, root) = nfsd.endpoint(0).client();
        let file = |number: usize| {
            let handle = create(&mut direct, &root, format!("f{number}").as_bytes());
            File { handle, size: AtomicU64::new(0) }
        };
        let files = (0..FILES).map(file).collect();
        let more = format!("mode = \"ttl\"\nstale_target = {target}\n");
        let proxy = Site { more, ..Site::of(&nfsd.endpoints()) }.start();
        let executed = getattrs(&mut nfsd);
        Self { nfsd, proxy, target, changes, files, executed }
    }

    /// Readers through the proxy and a writer past it, for so long.
    fn live(&self, span: Duration) -> Seen {
        let (going, stop) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || self.write(&stop));
            let seen = self.read(Raw::connect(self.proxy.nfs[0]), span);
            drop(going);
            seen
        })
    }

    /// GETATTRs of random files, many at once, until the time is over.
    fn read(&self, mut to: Raw, span: Duration) -> Seen {
        let (mut rng, end) = (Rng::new(7), Instant::now() + span);
        let mut seen = Seen { reads: 0, stale: vec![0; FILES] };
        while Instant::now() < end {
            let asked: Vec<usize> = (0..AT_ONCE).map(|_| rng.below(FILES)).collect();
            let least: Vec<u64> = asked.iter().map(|file| self.files[*file].size.load(Ordering::SeqCst)).collect();
            let calls = asked.iter().zip(0..).map(|(file, xid)| raw::getattr(xid, &self.files[*file].handle));
            to.say(&calls.flat_map(|call| raw::in_one_fragment(&call)).collect::<Vec<u8>>());
            for _ in &asked {
                let answer = to.receive();
                let place = raw::xid(&answer) as usize;
                let size = match Reply::decode(Procedure::Getattr, raw::results(&answer)).unwrap() {
                    Reply::Getattr(Ok(attributes)) => attributes.size,
                    other => panic!("{other:?}"),
                };
                seen.reads += 1;
                seen.stale[asked[place]] += u64::from(size < least[place]);
            }
        }
        seen
    }

    /// Changes files when their time comes, directly at the server.
    fn write(&self, stop: &Receiver<()>) {
        let (mut client, _) = self.nfsd.endpoint(0).client();
        let (mut rng, start) = (Rng::new(11), Instant::now());
        let mut lives: Vec<Life> = (0..FILES).map(|_| Life::new(self.changes, &mut rng)).collect();
        let first = lives.iter_mut().enumerate().map(|(file, life)| Reverse((life.next(&mut rng), file)));
        let mut due: BinaryHeap<_> = first.collect();
        while let Some(Reverse((at, file))) = due.pop() {
            match stop.recv_timeout(at.saturating_sub(start.elapsed())) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
            self.files[file].change(&mut client);
            due.push(Reverse((at + lives[file].next(&mut rng), file)));
        }
    }

    /// What was seen, and what does not hold.
    fn judge(&mut self, seen: &Seen) -> Vec<Option<String>> {
        let cache: Value = serde_json::from_str(&self.proxy.command("cache --json")).unwrap();
        let told = &cache["exports"][0]["cache"];
        let asked = getattrs(&mut self.nfsd) - self.executed;
        let hits = (seen.reads - asked.min(seen.reads)) as f64;
        let stale: u64 = seen.stale.iter().sum();
        let squares: u64 = seen.stale.iter().map(|count| count * count).sum();
        let (share, half) = (stale as f64 / hits, 1.96 * (squares as f64).sqrt() / hits);
        let figure = |name: &str| told[name].as_u64().unwrap() as f64;
        let (checked, different) = (figure("checked"), figure("different"));
        let changes: u64 = self.files.iter().map(|file| file.size.load(Ordering::SeqCst)).sum();
        let name = format!("{:?} p* {}", self.changes, self.target);
        println!(
            "{name}: {changes} changes, {} reads, {hits} hits, {stale} stale: {share:.6} + {half:.6}; \
             MIDAS: {different} of {checked}: {:.6}",
            seen.reads,
            different / checked
        );
        let enough = |what: &str, count: f64, least: f64| {
            (count < least).then(|| format!("{name}: {count} {what}, at least {least} are needed"))
        };
        // The checks are a random part of the hits: what they show is what there is, within what they can tell.
        let spread = 4.0 * (different.max(share * checked) + 4.0).sqrt() / checked;
        let apart = (different / checked - share).abs() - half - spread;
        vec![
            (apart > 0.0).then(|| format!("{name}: MIDAS measured {different} of {checked}, the truth is {share}")),
            enough("hits", hits, 20.0 / self.target),
            enough("checks", checked, 1.0 / self.target),
            support::at_most(&format!("{name}, upper limit"), share + half, 1.2 * self.target),
        ]
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

fn getattrs(nfsd: &mut Nfsd) -> u64 {
    nfsd.executed("GETATTR").iter().sum()
}

impl File {
    fn change(&self, client: &mut Client) {
        let size = self.size.load(Ordering::SeqCst) + 1;
        let new_attributes = Sattr3 { size: Some(size), ..Sattr3::default() };
        let call = Call::Setattr { object: handle(&self.handle), new_attributes, guard: None };
        assert_eq!(client.nfs(&call).unwrap().status(), Nfsstat3::OK);
        self.size.store(size, Ordering::SeqCst);
    }
}

/// When a file changes.
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

const FILES: usize = 64;
/// Calls under way of a reader.
const AT_ONCE: usize = 16;
/// Mean seconds between changes, from the file that changes most to the one that changes least.
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
const FULL: Duration = Duration::from_secs(600);
