//! The servers that share one namespace: what is known of them, shared by the exports that they serve.

use crate::clock::Clock;
use crate::config;
use midas_core::control::Controller;
use midas_core::health::Health;
use midas_core::id::ServerId;
use midas_core::key::Key;
use midas_core::route::placement::Placement;
use midas_core::route::ring::Member;
use midas_core::servers::Servers;
use midas_core::telemetry::recorder::Recorder;
use midas_core::time::Time;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A pool as all event loops see it.
pub(crate) struct Pool {
    pub(crate) config: config::Pool,
    pub(crate) servers: Servers,
    /// Where the links to its servers begin in every event loop.
    pub(crate) first_link: usize,
    recorder: Mutex<Recorder>,
    /// Why a server does not belong, in words.
    foreign: Mutex<Vec<Option<String>>>,
    /// Connections that were made to each server.
    connects: Box<[AtomicU64]>,
    clock: Clock,
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
        let connects = members.iter().map(|_| AtomicU64::new(0)).collect();
        Self { config, servers, first_link, recorder, foreign, connects, clock }
    }

    pub(crate) fn time(&self, now: Instant) -> Time {
        self.clock.at(now)
    }

    pub(crate) fn server(&self, server: ServerId) -> &config::Server {
        &self.config.servers[server.index()]
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

    /// Some server that takes calls, beginning with this one.
    pub(crate) fn some_open(&self, first: usize) -> Option<ServerId> {
        let count = self.config.servers.len();
        (0..count).map(|step| ServerId(((first + step) % count) as u16)).find(|server| self.open(*server))
    }

    /// A server does not answer.
    pub(crate) fn down(&self, now: Instant, server: ServerId) {
        for open in [Health::Up, Health::Probation] {
            self.servers.shift(self.time(now), server, open, Health::Down);
        }
    }

    /// A connection to a server was made.
    pub(crate) fn connected(&self, server: ServerId) {
        self.connects[server.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Connections that were made to a server so far.
    pub(crate) fn connects(&self, server: ServerId) -> u64 {
        self.connects[server.index()].load(Ordering::Relaxed)
    }

    pub(crate) fn recorder(&self) -> MutexGuard<'_, Recorder> {
        lock(&self.recorder)
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

    /// Says why a server does not belong to the pool; `None`: it does. Whether that is news.
    pub(crate) fn set_foreign(&self, server: ServerId, why: Option<String>) -> bool {
        let place = &mut lock(&self.foreign)[server.index()];
        let news = *place != why;
        *place = why;
        news
    }

    /// Why a server does not belong to the pool.
    pub(crate) fn foreign(&self, server: ServerId) -> Option<String> {
        lock(&self.foreign)[server.index()].clone()
    }
}

/// What is behind these locks is counted and remembered, not promised: a thread that died did not leave it wrong.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
