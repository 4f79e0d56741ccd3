//! Three daemons of one cluster, each of which reaches each other one on a way of its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use super::midas;
use super::relay::Way;
use super::serve::{Serve, Site};
use midas_bench::Target;
use midas_lab::{Scratch, free_port, loopback, until};
use rustix::process::Signal;
use serde_json::Value;
use std::net::SocketAddr;

pub(crate) struct Members {
    pub(crate) daemons: Vec<Serve>,
    /// From one to another.
    ways: Vec<((usize, usize), Way)>,
    _key: Scratch,
}

/// What happens to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is stopped for longer than a lease.
    Stop,
    /// It is killed and started again.
    Kill,
    /// Nothing that it says arrives, and nothing that is said to it.
    CutOff,
    /// Nothing that it says to the next one arrives.
    OneWay,
}

impl Fault {
    pub(crate) const ALL: [Self; 4] = [Self::CutOff, Self::Kill, Self::OneWay, Self::Stop];
}

impl Members {
    /// Starts three that are such a site each; returns when all are in the view and hold leases.
    pub(crate) fn start(site: impl Fn() -> Site) -> Self {
        let (address, scratch) = (loopback(1, &[]), Scratch::new());
        let homes = NAMES.map(|_| SocketAddr::from((address, free_port(address))));
        let pairs = (0..3).flat_map(|from| (0..3).filter(move |to| *to != from).map(move |to| (from, to)));
        let ways: Vec<((usize, usize), Way)> = pairs.map(|pair| (pair, Way::to(homes[pair.1], address))).collect();
        let key = scratch.path().join("key");
        midas_proxy::create_cluster_key(&key).unwrap();
        let start = |me: usize| {
            let way = |to: usize| ways.iter().find(|(pair, _)| *pair == (me, to)).map(|(_, way)| way.address);
            let member = |to: usize| format!("\"{}={}\"", NAMES[to], way(to).unwrap_or(homes[to]));
            let members: Vec<String> = (0..3).map(member).collect();
            let cluster = format!(
                "[cluster]\nname = \"test\"\nme = \"{}\"\nlisten = \"{}\"\nmembers = [{}]\nkey_file = \"{}\"\n\
                 lease = \"1s\"\nsuspect_after = \"1500ms\"\n",
                NAMES[me],
                homes[me],
                members.join(", "),
                key.display()
            );
            let site = site();
            Site { more: site.more + &cluster, ..site }.start()
        };
        let daemons = (0..3).map(start).collect();
        let members = Self { daemons, ways, _key: scratch };
        members.whole();
        members
    }

    /// For clients of each of them.
    pub(crate) fn targets(&self) -> Vec<Target> {
        let target = |daemon: &Serve| format!("{}/scratch?mount={}", daemon.nfs[0], daemon.mount[0].port());
        self.daemons.iter().map(|daemon| Target::parse(&target(daemon)).unwrap()).collect()
    }

    /// Waits until all are in the view and hold leases.
    pub(crate) fn whole(&self) {
        let live = |seen: &Value| seen["leases"]["live_ms"].as_f64().is_some_and(|live| live > 0.0);
        let well = |daemon: &Serve| Some(cluster(daemon)).is_some_and(|seen| seen["present"] == 3 && live(&seen));
        until("every daemon is in the view and holds leases", || self.daemons.iter().all(well));
    }

    /// Waits until the others go on without this one.
    pub(crate) fn missed(&self, lost: usize) {
        let others = || self.daemons.iter().enumerate().filter(|(number, _)| *number != lost);
        until("the others go on", || others().all(|(_, daemon)| cluster(daemon)["present"] == 2));
    }

    /// Lets something happen to one of them, until the others go on without it, and have it back.
    pub(crate) fn suffer(&mut self, fault: Fault, lost: usize) {
        match fault {
            Fault::Stop => {
                self.daemons[lost].stop();
                self.missed(lost);
                self.daemons[lost].signal(Signal::CONT);
            }
            Fault::Kill => {
                self.kill(lost);
                self.missed(lost);
                self.daemons[lost].again();
            }
            Fault::CutOff => {
                self.cut_off(lost);
                self.missed(lost);
                self.heal();
            }
            Fault::OneWay => {
                self.between(|(from, to)| from == lost && to == (lost + 1) % 3).for_each(Way::cut);
                // Either of the two may be left out.
                until("some go on", || self.daemons.iter().any(|daemon| cluster(daemon)["present"] == 2));
                self.heal();
            }
        }
        self.whole();
    }

    pub(crate) fn kill(&mut self, lost: usize) {
        self.daemons[lost].signal(Signal::KILL);
        self.daemons[lost].ended();
    }

    /// Nothing passes to this one, or from it.
    pub(crate) fn cut_off(&self, lost: usize) {
        self.between(|(from, to)| from == lost || to == lost).for_each(Way::cut);
    }

    pub(crate) fn heal(&self) {
        self.between(|_| true).for_each(Way::heal);
    }

    fn between(&self, which: impl Fn((usize, usize)) -> bool) -> impl Iterator<Item = &Way> {
        self.ways.iter().filter(move |(pair, _)| which(*pair)).map(|(_, way)| way)
    }
}

/// What one daemon says of its cluster; null if it does not answer.
pub(crate) fn cluster(daemon: &Serve) -> Value {
    let output = midas(&format!("cluster --json --socket {}", daemon.socket().display()));
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

const NAMES: [&str; 3] = ["a", "b", "c"];
