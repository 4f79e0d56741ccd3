//! The servers that share one namespace: what is known of them, shared by the exports that they serve.

use crate::clock::Clock;
use crate::config;
use crate::cookies::Cookies;
use crate::homes::Homes;
use crate::rtt::RoundTrips;
use midas_core::control::Controller;
use midas_core::health::Health;
use midas_core::id::ServerId;
use midas_core::key::Key;
use midas_core::route::placement::Placement;
use midas_core::route::ring::Member;
use midas_core::servers::Servers;
use midas_core::telemetry::recorder::Recorder;
use midas_core::time::{Span, Time};
use midas_nfs::nfs3::Reply;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A pool as all event loops see it.
pub(crate) struct Pool {
    pub(crate) config: config::Pool,
    pub(crate) servers: Servers,
    /// Where the links to its servers begin in every event loop.
    pub(crate) first_link: usize,
    pub(crate) cookies: Cookies,
    /// Where files lie; nothing is learned where moves are free.
    pub(crate) homes: Homes,
    /// Servers are admitted one after the other, so that each is compared with those before it.
    pub(crate) admission: Mutex<()>,
    recorder: Mutex<Recorder>,
    round_trips: Mutex<RoundTrips>,
    /// Why a server does not belong, in words.
    foreign: Mutex<Vec<Option<String>>>,
    /// Why a server was last closed, in words.
    closed: Mutex<Vec<String>>,
    /// What the administrator wants of each server; its health is what it is.
    drained: Box<[AtomicBool]>,
    /// In nanoseconds: a reload changes it.
    staleness: AtomicU64,
    /// Servers that were judged: they belong, or not, or do not answer.
    judged: Box<[AtomicBool]>,
    /// Connections that were made to each server.
    connects: Box<[AtomicU64]>,
    /// Servers that are down and were fenced since: nothing that was sent to them before runs any more.
    fenced: Box<[AtomicBool]>,
    /// How often each was fenced, and how often that failed.
    fences: Box<[[AtomicU64; 2]]>,
    /// The same for all pools.
    pub(crate) clock: Clock,
}

impl Pool {
    pub(crate) fn new(clock: Clock, config: config::Pool, first_link: usize) -> Self {
        let members: Vec<Member> = config
            .servers
            .iter()
            .map(|server| Member { identity: Key::of(server.name.as_bytes()).0, weight: 1.0 })
            .collect();
        let servers = Servers::new(&members, Placement::Ring);
        let now = clock.at(Instant::now());
        // Nobody belongs to the pool before it has shown that it does.
        for server in servers.ids() {
            servers.set_health(now, server, Health::Down);
        }
        let recorder = Mutex::new(Recorder::new(members.len()));
        let foreign = Mutex::new(vec![None; members.len()]);
        let (cookies, admission) = (Cookies::new(members.len()), Mutex::new(()));
        let judged = members.iter().map(|_| AtomicBool::new(false)).collect();
        let connects = members.iter().map(|_| AtomicU64::new(0)).collect();
        let fenced = members.iter().map(|_| AtomicBool::new(false)).collect();
        let fences = members.iter().map(|_| <[AtomicU64; 2]>::default()).collect();
        let closed = Mutex::new(vec!["not heard of yet".to_owned(); members.len()]);
        let drained = members.iter().map(|_| AtomicBool::new(false)).collect();
        let staleness = AtomicU64::new(config.staleness.as_nanos());
        let round_trips = Mutex::new(RoundTrips::new(members.len()));
        Self {
            config,
            servers,
            first_link,
            cookies,
            homes: Homes::default(),
            admission,
            recorder,
            round_trips,
            foreign,
            closed,
            drained,
            staleness,
            judged,
            connects,
            fenced,
            fences,
            clock,
        }
    }

    pub(crate) fn time(&self, now: Instant) -> Time {
        self.clock.at(now)
    }

    pub(crate) fn server(&self, server: ServerId) -> &config::Server {
        &self.config.servers[server.index()]
    }

    /// How long another server may answer with old attributes.
    pub(crate) fn staleness(&self) -> Span {
        Span::from_nanos(self.staleness.load(Ordering::Relaxed))
    }

    pub(crate) fn set_staleness(&self, staleness: Span) {
        self.staleness.store(staleness.as_nanos(), Ordering::Relaxed);
    }

    /// Whether calls stay at their homes, whatever the load: a file's is its directory's.
    pub(crate) fn stays(&self) -> bool {
        self.config.moves.stay()
    }

    /// Learns where files lie from a reply to a call on this directory, or on a name in it.
    pub(crate) fn learn_homes(&self, directory: Key, name: Option<&[u8]>, reply: &Reply<'_>) {
        if self.stays() {
            self.homes.learn_from(directory, name, reply);
        }
    }

    /// Links that each event loop has to this pool.
    pub(crate) fn links(&self) -> usize {
        self.config.servers.len() * self.config.connections
    }

    /// The links to one server, as numbers in an event loop.
    pub(crate) fn links_of(&self, server: ServerId) -> std::ops::Range<usize> {
        let first = self.first_link + server.index() * self.config.connections;
        first..first + self.config.connections
    }

    /// Whether new calls may go there.
    pub(crate) fn open(&self, server: ServerId) -> bool {
        matches!(self.servers.health(server), Health::Up | Health::Probation)
    }

    /// Whether this is the last server that takes calls.
    pub(crate) fn only_open(&self, server: ServerId) -> bool {
        self.open(server) && self.some_open(server.index() + 1) == Some(server)
    }

    /// Whether a server takes calls that no other may have: a drained one ends what was begun there.
    pub(crate) fn ends(&self, server: ServerId) -> bool {
        self.open(server) || self.servers.health(server) == Health::Drained
    }

    /// Some server that takes calls, beginning with this one.
    pub(crate) fn some_open(&self, first: usize) -> Option<ServerId> {
        let count = self.config.servers.len();
        (0..count).map(|step| ServerId(((first + step) % count) as u16)).find(|server| self.open(*server))
    }

    /// A server does not answer: what is bound to it waits, and is settled elsewhere after a time.
    pub(crate) fn down(&self, now: Time, server: ServerId, why: &dyn Display) {
        let health = self.servers.health(server);
        match health {
            Health::Up | Health::Probation | Health::Failing | Health::Drained => {
                lock(&self.closed)[server.index()] = why.to_string();
                self.servers.shift(now, server, health, Health::Down);
            }
            Health::Down | Health::Quarantined => {}
        }
    }

    /// A server answers, and belongs: it takes calls again, but for one that is drained. `fresh`: it was there before this daemon, so
    /// nothing speaks against it, and it need not start slowly.
    pub(crate) fn answers(&self, now: Instant, server: ServerId, fresh: bool) {
        self.fenced[server.index()].store(false, Ordering::Relaxed);
        let health = self.servers.health(server);
        match (health, self.drained(server)) {
            (Health::Drained, true) | (Health::Up | Health::Probation | Health::Failing, false) => {}
            (Health::Down, false) if fresh => self.servers.shift(Time::ZERO, server, health, Health::Up),
            (Health::Down | Health::Quarantined | Health::Drained, false) => {
                self.servers.shift(self.time(now), server, health, Health::Probation);
            }
            (Health::Up | Health::Probation | Health::Failing | Health::Down | Health::Quarantined, true) => {
                self.servers.shift(self.time(now), server, health, Health::Drained);
            }
        }
    }

    /// A server answers and does not belong.
    pub(crate) fn quarantine(&self, now: Instant, server: ServerId, why: String) {
        self.set_foreign(server, Some(why));
        self.servers.set_health(self.time(now), server, Health::Quarantined);
    }

    /// No new calls for a server; what was begun there ends there.
    pub(crate) fn drain(&self, now: Instant, server: ServerId) {
        self.drained[server.index()].store(true, Ordering::Relaxed);
        for open in [Health::Up, Health::Probation, Health::Failing] {
            self.servers.shift(self.time(now), server, open, Health::Drained);
        }
    }

    /// It takes calls again: at once, if it answers; otherwise as any server does that was away.
    pub(crate) fn undrain(&self, now: Instant, server: ServerId) {
        self.drained[server.index()].store(false, Ordering::Relaxed);
        self.servers.shift(self.time(now), server, Health::Drained, Health::Probation);
    }

    /// Whether the administrator wants no new calls there; its health says whether it answers.
    pub(crate) fn drained(&self, server: ServerId) -> bool {
        self.drained[server.index()].load(Ordering::Relaxed)
    }

    /// How a server is, in a word or two.
    pub(crate) fn standing(&self, server: ServerId) -> String {
        let health = self.servers.health(server);
        match self.drained(server) && health != Health::Drained {
            true => format!("{}, drained", health.name()),
            false => health.name().to_owned(),
        }
    }

    /// Why a server was last closed.
    pub(crate) fn closed(&self, server: ServerId) -> String {
        lock(&self.closed)[server.index()].clone()
    }

    /// A server that is down was fenced.
    pub(crate) fn set_fenced(&self, server: ServerId) {
        self.fenced[server.index()].store(true, Ordering::Relaxed);
        let why = &mut lock(&self.closed)[server.index()];
        if !why.ends_with(FENCED) {
            why.push_str(FENCED);
        }
    }

    /// Whether nothing that was sent to a server before it went down can run any more.
    pub(crate) fn fenced(&self, server: ServerId) -> bool {
        self.fenced[server.index()].load(Ordering::Relaxed)
    }

    /// The command that fences a server has ended.
    pub(crate) fn count_fence(&self, server: ServerId, done: bool) {
        self.fences[server.index()][usize::from(!done)].fetch_add(1, Ordering::Relaxed);
    }

    /// How often a server was fenced, and how often that failed.
    pub(crate) fn fences(&self, server: ServerId) -> [u64; 2] {
        self.fences[server.index()].each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// A connection to a server was made.
    pub(crate) fn connected(&self, server: ServerId) {
        self.connects[server.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Connections that were made to a server so far.
    pub(crate) fn connects(&self, server: ServerId) -> u64 {
        self.connects[server.index()].load(Ordering::Relaxed)
    }

    /// It is known how a server stands to the pool.
    pub(crate) fn set_judged(&self, server: ServerId) {
        self.judged[server.index()].store(true, Ordering::Relaxed);
    }

    /// Whether that is known of every server.
    pub(crate) fn judged(&self) -> bool {
        self.judged.iter().all(|judged| judged.load(Ordering::Relaxed))
    }

    pub(crate) fn recorder(&self) -> MutexGuard<'_, Recorder> {
        lock(&self.recorder)
    }

    /// A NULL to this server took so long.
    pub(crate) fn round_trip(&self, server: ServerId, took: Duration) {
        let took = Span::from_nanos(took.as_nanos() as u64);
        self.servers.publish_rtt(lock(&self.round_trips).took(server, took));
    }

    /// One tick of the controllers of the exports that these servers serve.
    pub(crate) fn tick<'c>(&self, now: Instant, controllers: impl Iterator<Item = &'c mut Controller>) {
        let now = self.time(now);
        let mut recorder = self.recorder();
        for controller in controllers {
            controller.look(now, &self.servers, &recorder);
        }
        recorder.rotate();
    }

    /// Says why a server does not belong to the pool; `None`: it does.
    pub(crate) fn set_foreign(&self, server: ServerId, why: Option<String>) {
        lock(&self.foreign)[server.index()] = why;
    }

    /// Why a server does not belong to the pool.
    pub(crate) fn foreign(&self, server: ServerId) -> Option<String> {
        lock(&self.foreign)[server.index()].clone()
    }
}

/// What is added to why a server is closed.
const FENCED: &str = "; fenced by on_down";

/// What is behind these locks is counted and remembered, not promised: a thread that died did not leave it wrong.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn pool() -> Pool {
        let text = "[[pool]]\nname = \"p\"\nservers = [\"127.0.0.1:1\", \"127.0.0.2:1\"]\n\
                    [[export]]\npath = \"/\"\npool = \"p\"\nclients = \"127.0.0.1\"\n";
        Pool::new(Clock::new(), Config::parse(text).unwrap().pools()[0].clone(), 0)
    }

    /// `d` drain, `u` undrain, `a` it answers, `f` for the first time, `x` it does not, `q` it does not belong.
    fn play(script: &str) -> String {
        let (pool, now, server) = (pool(), Instant::now(), ServerId(0));
        for step in script.chars() {
            match step {
                'd' => pool.drain(now, server),
                'u' => pool.undrain(now, server),
                'a' => pool.answers(now, server, false),
                'f' => pool.answers(now, server, true),
                'x' => pool.down(pool.time(now), server, &"silent"),
                _ => pool.quarantine(now, server, "other handles".to_owned()),
            }
        }
        pool.standing(server)
    }

    #[test]
    fn a_drain_is_a_wish_and_health_is_the_truth() {
        let cases = [
            ("", "down"),
            ("a", "probation"),
            ("f", "up"),
            ("df", "drained"),
            ("ad", "drained"),
            ("ada", "drained"),
            ("adx", "down, drained"),
            ("adxa", "drained"),
            ("adxu", "down"),
            ("adu", "probation"),
            ("adq", "quarantined, drained"),
            ("adqua", "probation"),
            ("d", "down, drained"),
            ("da", "drained"),
            ("dau", "probation"),
        ];
        for (script, want) in cases {
            assert_eq!(play(script), want, "{script}");
        }
    }
}
