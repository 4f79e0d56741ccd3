//! One proxy of the simulated cluster: a lease member and a cache, both the real ones, and what a driver keeps beside them.

use super::event::{Clock, Request};
use super::family::{Laws, Plan};
use super::truth::{Action, Key, Seen};
use midas_core::cache::{Cache, CleanStart, Fetch, Mark, Mode, Params, Settings};
use midas_core::peer::lease::{AttemptId, Life, Member, MemberId, Past, Terms};
use midas_core::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub(super) struct Node {
    pub(super) life: Life,
    pub(super) clock: Clock,
    pub(super) up: bool,
    /// In true time.
    pub(super) paused_until: Time,
    pub(super) member: Member<Key>,
    pub(super) cache: Cache<Key, Seen>,
    /// What this life keeps beside them.
    pub(super) desk: Desk,
    /// What the last life wrote to its disk.
    pub(super) disk: Past<Key>,
    /// The tick that is in the queue, in true time.
    pub(super) tick_at: Time,
    stale: Span,
}

/// What dies with a life.
#[derive(Debug, Default)]
pub(super) struct Desk {
    /// Marks for other members' attempts.
    pub(super) marks: BTreeMap<AttemptId, Vec<Mark<Key>>>,
    /// Where the keys of an attempt are changed, others' and own.
    pins: BTreeMap<AttemptId, (Vec<Key>, u16)>,
    /// Until when other servers may not know of a change.
    fences: BTreeMap<(Key, u16), Time>,
    /// Counts flushes.
    pub(super) flushes: u64,
    /// From then on every fence is known here.
    pub(super) fences_known: Time,
    pub(super) flights: BTreeMap<u64, Flight>,
    pub(super) calls: BTreeMap<u64, Purpose>,
    /// Flights that another proxy was asked for, not a server.
    pub(super) fetches: BTreeMap<u64, Key>,
    pub(super) jobs: BTreeMap<u64, Job>,
    pub(super) attempts: BTreeMap<AttemptId, Whose>,
    pub(super) done: BTreeSet<u64>,
    /// Marks that outlast their call.
    pub(super) kept: BTreeMap<u64, Vec<Mark<Key>>>,
    pub(super) holds: BTreeMap<u8, Hold>,
    /// When an object was last set without a hold.
    pub(super) set_at: BTreeMap<u8, Time>,
}

/// Whose attempt it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Job(u64),
    Hold(u8),
}

/// What a call to a server is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Read(u64),
    /// Where the names of a mutation lead.
    Lookup(u64),
    Mutation(u64),
    /// Whether a mutation in doubt was executed.
    Look(u64, AttemptId, Time),
    /// A mutation that goes under a hold: the object, the operation and the client that waits.
    Held(u8, u64, usize),
}

#[derive(Debug)]
pub(super) struct Flight {
    pub(super) fetch: Fetch<Key>,
    pub(super) key: Key,
    pub(super) waiting: Vec<Waiting>,
}

/// Who reads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reader {
    Client(Request),
    /// This life, for a flight of its own.
    Peer(Life, u64),
}

/// A reader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) reader: Reader,
    pub(super) asked: Time,
    /// Whether fences were known when it asked.
    pub(super) covered: bool,
}

/// A mutation under way.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) action: Action,
    pub(super) client: usize,
    pub(super) begun: Time,
    /// When a client last asked for it.
    pub(super) asked: Time,
    pub(super) stage: Stage,
    /// How often it was set aside.
    pub(super) tries: u32,
    pub(super) server: u16,
    /// Attempts with the end of their permits, the names' first.
    pub(super) permits: Vec<(AttemptId, Time)>,
    pub(super) marks: Vec<Mark<Key>>,
    pub(super) keys: Vec<Key>,
    pub(super) targets: Targets,
    /// Whether it was sent before: that copy may still run.
    pub(super) copied: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It waits for its next try.
    Aside,
    /// It waits for permits.
    Waiting,
    /// It asks where its names lead, or whether it was executed.
    Looking,
    /// It is at the server.
    Sent,
}

/// How it is known what a mutation's names lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Targets {
    /// There are none, or the server was asked after the permit.
    Known,
    /// From the cache, when there had been so many flushes.
    Cached(u64),
    Unknown,
}

/// An object under write pressure.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) id: AttemptId,
    pub(super) until: Time,
    pub(super) server: u16,
    pub(super) marks: Vec<Mark<Key>>,
    pub(super) in_flight: u32,
    pub(super) last: Time,
    /// Whether it is to be given up.
    pub(super) over: bool,
}

impl Node {
    pub(super) fn new(index: usize, clock: Clock, plan: &Plan, laws: Laws) -> Self {
        let life = Life { member: MemberId(index as u8), incarnation: 1 };
        let past = Past { tidy: true, intents: Vec::new() };
        let local = clock.local(Time::ZERO);
        Self {
            life,
            clock,
            up: true,
            paused_until: Time::ZERO,
            member: Member::new(local, life, plan.terms, laws.lease, past),
            cache: cache(plan, laws, local),
            desk: Desk::default(),
            disk: Past { tidy: false, intents: Vec::new() },
            tick_at: Time::FAR,
            stale: longer(&plan.terms, plan.stale),
        }
    }

    pub(super) fn local(&self, now: Time) -> Time {
        self.clock.local(now)
    }

    /// Everything in memory is gone.
    pub(super) fn die(&mut self, tidy: bool, disk: bool) {
        let intents = if disk { self.member.intents().collect() } else { Vec::new() };
        self.disk = Past { tidy, intents };
        self.up = false;
        self.paused_until = Time::ZERO;
        self.tick_at = Time::FAR;
        self.desk = Desk::default();
    }

    pub(super) fn rise(&mut self, now: Time, plan: &Plan, laws: Laws) {
        self.life.incarnation += 1;
        let local = self.local(now);
        let past = std::mem::replace(&mut self.disk, Past { tidy: false, intents: Vec::new() });
        self.member = Member::new(local, self.life, plan.terms, laws.lease, past);
        self.cache = cache(plan, laws, local);
        self.up = true;
    }

    /// Whether it may answer from its cache and fill it.
    pub(super) fn leased(&self, local: Time) -> bool {
        local < self.member.answers_until() && local >= self.desk.fences_known
    }

    /// Servers at which this is being changed, or was a moment ago.
    pub(super) fn pinned(&self, local: Time, key: Key) -> Vec<u16> {
        let pins = self.desk.pins.values().filter(|(keys, _)| keys.contains(&key)).map(|(_, server)| *server);
        let fences = self.desk.fences.range((key, 0)..=(key, u16::MAX)).filter(|(_, until)| local < **until);
        let mut all: Vec<u16> = pins.chain(fences.map(|((_, server), _)| *server)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// An attempt changes these at this server.
    pub(super) fn pin(&mut self, id: AttemptId, keys: Vec<Key>, server: u16) {
        self.desk.pins.insert(id, (keys, server));
    }

    /// An attempt is over, or will be by then: reads go where it may have run until the others know of it.
    pub(super) fn unpin(&mut self, until: Time, id: AttemptId) {
        let Some((keys, server)) = self.desk.pins.remove(&id) else { return };
        for key in keys.into_iter().filter(|_| self.member.may_have_run(id)) {
            let fence = self.desk.fences.entry((key, server)).or_default();
            *fence = (*fence).max(until + self.stale);
        }
    }

    /// What was kept is forgotten; what changed while nobody told is not known.
    pub(super) fn flush(&mut self, local: Time) {
        self.cache.flush();
        self.desk.flushes += 1;
        self.desk.fences_known = local + self.stale;
    }

    /// Nothing that this life does is under way.
    pub(super) fn idle(&self) -> bool {
        let desk = &self.desk;
        let quiet = desk.calls.is_empty() && desk.fetches.is_empty();
        quiet && desk.jobs.is_empty() && desk.holds.is_empty() && desk.kept.is_empty()
    }
}

/// A span that is surely over elsewhere when it is over here.
pub(super) fn longer(terms: &Terms, span: Span) -> Span {
    Span::from_nanos(span.as_nanos() / 1000 * (1000 + u64::from(terms.drift)))
}

fn cache(plan: &Plan, laws: Laws, local: Time) -> Cache<Key, Seen> {
    let settings = Settings {
        mode: Mode::Lease,
        entries_max: 64,
        lease_age_max: Span::from_secs(3600),
        server_hold_max: longer(&plan.terms, plan.terms.hold),
        pressure_marks: u32::MAX,
        ..Settings::default()
    };
    let params = Params::new(settings).expect("fixed settings are possible");
    // What a former life left behind is the members' concern here.
    Cache::new(params, laws.cache, local, CleanStart::Yes)
}
