//! An export and its pool: what the core decides with, shared by all event loops.
//!
//! Keys are split over parts, each behind a short lock that is never held over a system call. What is known of the servers is
//! atomics.

use crate::clock::Clock;
use crate::config::{Export, Pool};
use crate::rtt::RoundTrips;
use crate::ties::Ties;
use crate::translate::{Kind, Meaning};
use midas_core::cache::{Cache, CleanStart, Params, Rules, Settings as CacheSettings};
use midas_core::control::knobs::Knobs;
use midas_core::control::{Controller, Settings};
use midas_core::decision::Exclusion;
use midas_core::health::Health;
use midas_core::id::ServerId;
use midas_core::key::Key;
use midas_core::route::Router;
use midas_core::route::feasible::Target;
use midas_core::route::placement::Placement;
use midas_core::route::policy::Policy;
use midas_core::route::ring::Member;
use midas_core::servers::Servers;
use midas_core::shard::{Asked, Call, Outcome, Shard, Ticket};
use midas_core::telemetry::recorder::Recorder;
use midas_core::time::{Span, Time};
use midas_nfs::nfs3::FsinfoOk;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

/// Everything that decides about one export's calls.
pub(crate) struct Realm {
    pub(crate) export: Export,
    pub(crate) pool: Pool,
    pub(crate) servers: Servers,
    parts: Box<[Mutex<Part>]>,
    recorder: Mutex<Recorder>,
    round_trips: Mutex<RoundTrips>,
    controller: Mutex<Controller>,
    knobs: RwLock<Knobs>,
    /// What every admitted server agrees on, once there is one.
    agreed: RwLock<Option<Agreed>>,
    clock: Clock,
}

/// What servers must have in common to be one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) root: Vec<u8>,
    pub(crate) fsid: u64,
    pub(crate) fileid: u64,
    /// The least of every server's limits.
    pub(crate) limits: Option<FsinfoOk>,
}

struct Part {
    shard: Shard<u64, ()>,
    ties: Ties,
}

/// A call that has a server: to be settled when it ends.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) ticket: Ticket<u64>,
    pub(crate) meaning: Meaning,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The server answered; whether well, and whether what it wrote may be lost by a crash.
    Answered { ok: bool, unstable: bool },
    /// The server answered that it could not.
    Failed,
    /// No answer will come.
    Lost,
}

impl Realm {
    pub(crate) fn new(clock: Clock, export: Export, pool: Pool) -> Self {
        let members: Vec<Member> = pool
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
        let parts = (0..PARTS).map(|part| Mutex::new(Part::new(now, export.policy, pool.staleness, part as u64)));
        let settings = Settings {
            policy: export.policy,
            rate_peak: pool.rate_peak.map_or(0.0, |peak| peak as f64),
            targets: None,
            steer_share: 0.10,
            split: pool.staleness == Span::ZERO,
            seed: 1,
        };
        let controller = Controller::new(settings, members.len());
        Self {
            parts: parts.collect(),
            recorder: Mutex::new(Recorder::new(members.len())),
            round_trips: Mutex::new(RoundTrips::new(members.len())),
            knobs: RwLock::new(controller.knobs()),
            controller: Mutex::new(controller),
            agreed: RwLock::new(None),
            export,
            pool,
            servers,
            clock,
        }
    }

    /// Chooses a server for a call, or says why none may serve it now.
    pub(crate) fn send(&self, now: Instant, meaning: Meaning) -> Result<Sent, Exclusion> {
        let now = self.clock.at(now);
        let knobs = *self.knobs.read().unwrap_or_else(PoisonError::into_inner);
        let mut part = self.part(meaning.place);
        let Part { shard, ties } = &mut *part;
        let listing = matches!(meaning.kind, Kind::List { first: false });
        let bound = ties.find(now, meaning.object, listing).or_else(|| {
            // Listings begin at home, where every proxy looks for them; elsewhere only while the home is closed.
            let home = self.servers.ring().home(meaning.place).filter(|_| matches!(meaning.kind, Kind::List { .. }))?;
            let open = matches!(self.servers.health(home), Health::Up | Health::Probation);
            (listing || open).then_some((home, midas_core::route::feasible::Bound::Listing))
        });
        let target = Target { op: meaning.op, place: meaning.place, object: meaning.object, subtree: None, bound };
        let call = Call { target, entry: None, touches: &[] };
        let pass = match shard.ask(now, &knobs, &call) {
            Asked::Through(pass) => pass,
            Asked::Answer { .. } | Asked::Join(_) => unreachable!("without an entry nothing is answered or joined"),
        };
        match shard.send(now, &self.servers, &knobs, &target, pass) {
            Ok(ticket) => Ok(Sent { ticket, meaning }),
            Err((pass, why)) => {
                shard.give_up(now, pass);
                Err(why)
            }
        }
    }

    /// A call ended.
    pub(crate) fn settle(&self, now: Instant, sent: Sent, end: End) {
        let now = self.clock.at(now);
        let server = sent.ticket.route.to;
        let mut part = self.part(sent.meaning.place);
        let mut recorder = lock(&self.recorder);
        let outcome = match end {
            End::Answered { .. } => Outcome::Answered(None),
            End::Failed => Outcome::Failed,
            End::Lost => Outcome::Lost,
        };
        part.shard.settle(now, &self.servers, &mut recorder, sent.ticket, outcome);
        part.learn(now, &sent.meaning, server, end);
    }

    /// A call has a server but did not leave for it.
    pub(crate) fn take_back(&self, now: Instant, sent: Sent) {
        self.part(sent.meaning.place).shard.take_back(self.clock.at(now), &self.servers, sent.ticket);
    }

    /// One tick of the controller.
    pub(crate) fn tick(&self, now: Instant) {
        let mut controller = lock(&self.controller);
        controller.tick(self.clock.at(now), &self.servers, &mut lock(&self.recorder));
        *self.knobs.write().unwrap_or_else(PoisonError::into_inner) = controller.knobs();
    }

    /// A NULL to this server took so long.
    pub(crate) fn round_trip(&self, server: ServerId, took: std::time::Duration) {
        let took = Span::from_nanos(took.as_nanos() as u64);
        self.servers.publish_rtt(lock(&self.round_trips).took(server, took));
    }

    pub(crate) fn time(&self, now: Instant) -> Time {
        self.clock.at(now)
    }

    /// What clients are told of the pool; none before the first server was admitted.
    pub(crate) fn agreed(&self) -> Option<Agreed> {
        self.agreed.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A server says what it exports: it is admitted if it agrees with those before, and lowers the common limits.
    pub(crate) fn admit(&self, candidate: Agreed) -> bool {
        let mut agreed = self.agreed.write().unwrap_or_else(PoisonError::into_inner);
        match &mut *agreed {
            None => {
                *agreed = Some(candidate);
                true
            }
            Some(known) => {
                let same =
                    (&known.root, known.fsid, known.fileid) == (&candidate.root, candidate.fsid, candidate.fileid);
                if same {
                    known.limits = least(known.limits, candidate.limits);
                }
                same
            }
        }
    }

    fn part(&self, key: Key) -> MutexGuard<'_, Part> {
        lock(&self.parts[(key.0 % PARTS as u64) as usize])
    }
}

impl Part {
    fn new(now: Time, policy: Policy, staleness: Span, number: u64) -> Self {
        let params = Params::new(CacheSettings::default()).expect("the default settings are valid");
        let cache = Cache::new(params, Rules::ALL, now, CleanStart::Yes);
        let router = Router::new(policy, number);
        Self { shard: Shard::new(now, router, cache, staleness), ties: Ties::default() }
    }

    fn learn(&mut self, now: Time, meaning: &Meaning, server: ServerId, end: End) {
        match (meaning.kind, end) {
            (Kind::Write { .. }, End::Answered { unstable: true, .. }) => {
                self.ties.written(now, meaning.object, server);
            }
            (Kind::Commit { whole: true }, End::Answered { ok: true, .. }) => {
                self.ties.committed(meaning.object, server);
            }
            (Kind::List { .. }, End::Answered { ok: true, .. }) => self.ties.listed(now, meaning.object, server),
            (Kind::Plain | Kind::Write { .. } | Kind::Commit { .. } | Kind::List { .. } | Kind::Fsinfo, _) => {}
        }
    }
}

/// The limits that hold for both.
fn least(one: Option<FsinfoOk>, other: Option<FsinfoOk>) -> Option<FsinfoOk> {
    let (Some(one), Some(other)) = (one, other) else { return one.or(other) };
    Some(FsinfoOk {
        rtmax: one.rtmax.min(other.rtmax),
        rtpref: one.rtpref.min(other.rtpref),
        rtmult: one.rtmult.max(other.rtmult),
        wtmax: one.wtmax.min(other.wtmax),
        wtpref: one.wtpref.min(other.wtpref),
        wtmult: one.wtmult.max(other.wtmult),
        dtpref: one.dtpref.min(other.dtpref),
        maxfilesize: one.maxfilesize.min(other.maxfilesize),
        time_delta: one.time_delta.max(other.time_delta),
        properties: one.properties & other.properties,
        attributes: one.attributes,
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is counted and remembered, not promised: a thread that died did not leave it wrong.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Parts of the key space.
const PARTS: usize = 64;
