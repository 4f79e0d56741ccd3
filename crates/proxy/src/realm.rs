//! An export: its rules, and what the core decides its calls with, shared by all event loops.
//!
//! Keys are split over parts, each behind a short lock that is never held over a system call. What is known of the servers
//! belongs to the pool and is atomics.

use crate::agreed::{Agreed, Belief};
use crate::cached::{Areas, Epoch, Told};
use crate::clerk::Leads;
use crate::clock::file_time;
use crate::config::Export;
use crate::counters::Turns;
use crate::generations::Generations;
use crate::pool::{Pool, lock};
use crate::seed;
use crate::ties::Ties;
use crate::translate::{Kind, Meaning};
use crate::whose::Whose;
use arc_swap::ArcSwap;
use midas_core::cache::{Cache, CleanStart, Mode, Params, Rules, Settings as CacheSettings};
use midas_core::control::knobs::Knobs;
use midas_core::control::warmup::{Origin, Targets};
use midas_core::control::{Controller, Settings};
use midas_core::decision::{Exclusion, Route, Why};
use midas_core::id::ServerId;
use midas_core::key::Key;
use midas_core::op::Op;
use midas_core::route::Router;
use midas_core::route::feasible::{Bound, Target};
use midas_core::route::policy::Policy;
use midas_core::shard::{Outcome, Pass, Shard, Ticket, UnderWay};
use midas_core::time::{Span, Time};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// Everything that decides about one export's calls.
pub(crate) struct Realm {
    /// Its number among the exports.
    pub(crate) number: usize,
    pub(crate) pool: Arc<Pool>,
    /// Of its draws.
    pub(crate) seed: u64,
    rules: ArcSwap<Export>,
    parts: Box<[Mutex<Part>]>,
    pub(crate) controller: Mutex<Controller>,
    /// How often it turned each knob.
    pub(crate) turns: Turns,
    /// What the controller turned last; what holds stands in every part.
    knobs: Mutex<Knobs>,
    bypass: AtomicBool,
    belief: Mutex<Belief>,
    pub(crate) areas: Areas,
    modes: Mutex<Modes>,
    /// What every admitted server agrees on, once there is one.
    agreed: ArcSwap<Option<Agreed>>,
}

pub(crate) struct Part {
    pub(crate) shard: Shard<u64, ()>,
    ties: Ties,
    /// What decisions of this part read: behind the lock that they hold anyway.
    knobs: Knobs,
    /// Where names lead, that they lead nowhere, or that nobody may see it; known of pools with `staleness` only.
    pub(crate) names: Generations<Leads>,
    /// Which server alone knows an object: devices and sockets, of which other heads of Ganesha
    /// know nothing but their names.
    makers: Generations<ServerId>,
    /// Calls sent, by the reason's code.
    routes: [u64; Why::NAMES.len()],
    /// Calls sent to the one server that may serve them, by the reason's code.
    binds: [u64; Bound::NAMES.len()],
}

/// A call that has a server: to be settled when it ends.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) ticket: Ticket<u64>,
    pub(crate) meaning: Meaning,
    /// When it left, for what its reply teaches of where objects lie.
    pub(crate) epoch: Option<Epoch>,
    /// What it changes or reads besides its object and its place; none for most calls.
    beside: Option<Box<Beside>>,
    /// What is known of the object that it makes.
    pub(crate) makes: Makes,
    /// The object that its name resolves to: the answer of a server that says otherwise is not believed.
    pub(crate) expects: Option<Key>,
    /// Whether it was perhaps executed by a server that is gone: nothing else may change the same object until that is known.
    pub(crate) doubtful: bool,
}

/// What a call changes or reads besides its object and its place.
#[derive(Debug)]
struct Beside {
    changed: Vec<Key>,
    /// Keys that count as being changed or read until it ends, each with the key of its part.
    under_way: Vec<(Key, UnderWay)>,
}

/// What a call that makes an object finds under its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Makes {
    /// Nobody knows, or it makes nothing.
    Unknown,
    /// Nothing: no server can know anything old of what it makes.
    New,
    /// This object, which it takes as it is (UNCHECKED CREATE): its directory does not change.
    Over(Key),
}

/// What would become of a call.
#[derive(Debug)]
pub(crate) struct Would {
    /// The call, bound where it must be.
    pub(crate) target: Target,
    pub(crate) knobs: Knobs,
    pub(crate) route: Result<Route, Exclusion>,
}

/// What a call has lived through that its way depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wishes {
    /// A server that it waited for in vain: it is no longer tied to it.
    pub(crate) forsaken: Option<ServerId>,
    /// The one to ask instead of one whose answer is in doubt.
    pub(crate) instead: Option<ServerId>,
    /// Whether it was answered otherwise than is known: the fence's server is asked.
    pub(crate) strictly: bool,
    /// Whether it is sent as it is, though it cuts a file (see `cut`): it was tried in two steps.
    pub(crate) whole: bool,
}

/// What an export's cache may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Modes {
    /// As it was told, part by part.
    pub(crate) wanted: Vec<Mode>,
    /// Why it does not do that.
    pub(crate) demoted: Option<String>,
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
    /// `seed` is that of its draws. `first` is the number of its own part among those of all
    /// exports; what its parts are told begins with that one.
    pub(crate) fn new(
        (number, first): (usize, usize),
        seed: u64,
        export: Export,
        pool: Arc<Pool>,
        targets: Option<Targets>,
        told: &[(String, Told)],
    ) -> Self {
        let now = pool.time(Instant::now());
        let staleness = pool.staleness();
        let servers = pool.config.servers.len();
        let controller = controller(&pool, seed, export.policy, targets);
        let knobs = controller.knobs();
        let of_part = |part: usize| seed::of_part(seed, part as u64);
        let parts = (0..PARTS).map(of_part);
        let parts = parts.map(|seed| Mutex::new(Part::new(now, (export.policy, knobs), staleness, seed)));
        let areas = Areas::new(now, first, told).expect("a configuration was checked");
        // Nobody knows what was changed elsewhere just before the start.
        areas.doubt_servers(now + staleness);
        Self {
            number,
            seed,
            parts: parts.collect(),
            turns: Turns::default(),
            knobs: Mutex::new(knobs),
            bypass: AtomicBool::new(false),
            controller: Mutex::new(controller),
            belief: Mutex::new(Belief::new(servers)),
            areas,
            agreed: ArcSwap::from_pointee(None),
            modes: Mutex::new(Modes {
                wanted: told.iter().map(|(_, told)| told.settings.mode).collect(),
                demoted: None,
            }),
            rules: ArcSwap::from_pointee(export),
            pool,
        }
    }

    /// Who may do what, as it is now.
    pub(crate) fn rules(&self) -> arc_swap::Guard<Arc<Export>> {
        self.rules.load()
    }

    /// Chooses a server for a call, or says why none may serve it now. A call that was given up at a server is no longer tied to it.
    pub(crate) fn send(
        &self,
        now: Time,
        meaning: &Meaning,
        Wishes { forsaken, instead, strictly, whole: _ }: Wishes,
    ) -> Result<Sent, (Exclusion, Option<ServerId>)> {
        let epoch = self.areas.epoch(now);
        let (second, unbound) = (self.second_bound(now, meaning), self.target(meaning));
        let mut part = self.part(meaning.place);
        let waits_on = |(server, why): &(ServerId, Bound)| Some(*server) != forsaken || *why == Bound::PerhapsExecuted;
        let expects = part.expects(now, meaning).filter(|_| forsaken.is_none() && instead.is_none() && !strictly);
        let bound = self.bound(now, &mut part, meaning, second).filter(|bound| expects.is_none() && waits_on(bound));
        // What was fenced at a server that is waited for no longer is read at home, or where that is now.
        let acting = || Some((self.pool.servers.acting_home(meaning.place)?, Bound::Fenced));
        let bound = match forsaken.is_some() && self.stale() {
            true => bound.or_else(|| {
                // What it does not know is not kept.
                self.areas.doubt_servers(now + self.pool.staleness());
                acting()
            }),
            false => bound,
        };
        let bound = instead.map(|server| (server, Bound::Fenced)).or(bound);
        let Part { shard, routes, binds, knobs, .. } = &mut *part;
        let target = Target { bound, ..unbound };
        // What is cached is kept elsewhere (`areas`).
        let sent = match expects {
            Some(_) => shard.send_anywhere(now, &self.pool.servers, knobs, &target, Pass::NOTHING),
            None => shard.send(now, &self.pool.servers, knobs, &target, Pass::NOTHING),
        };
        match sent {
            Ok(ticket) => {
                routes[ticket.route.why.code()] += 1;
                if let Some((_, why)) = bound {
                    binds[why.code()] += 1;
                }
                // Those that follow before it is answered go to the same server (nfs3.md, G1).
                if meaning.kind == (Kind::Write { unstable: true }) {
                    part.ties.writing(now, meaning.object, ticket.route.to);
                }
                drop(part);
                // Nobody else changes the name any more: where it leads is known.
                let (changed, makes) = (self.changed_too(meaning), self.makes(meaning));
                let Some(under_way) = self.leave_too(now, meaning, &changed, ticket.route.to) else {
                    self.part(meaning.place).shard.take_back(now, &self.pool.servers, ticket);
                    return Err((Exclusion::FencedElsewhere, None));
                };
                let some = !changed.is_empty() || !under_way.is_empty();
                let beside = some.then(|| Box::new(Beside { changed, under_way }));
                let (meaning, doubtful) = (self.movable(meaning), false);
                Ok(Sent { ticket, meaning, epoch, beside, makes, expects, doubtful })
            }
            Err((_, why)) => Err((why, bound.map(|(server, _)| server))),
        }
    }

    /// A call as routing sees it. Where moves cost something a file's home is its directory's; but
    /// with `staleness` a change must be where it is looked for after a start, when nobody knows yet
    /// in which directory a file lies.
    fn target(&self, meaning: &Meaning) -> Target {
        let target = Target::new(meaning.op, meaning.place, meaning.object);
        if !self.pool.stays() {
            return target;
        }
        let by_handle = meaning.place == meaning.object;
        let home = if by_handle { self.home_of(meaning.place) } else { meaning.place };
        Target { home, stays: true, ..target }
    }

    /// What the home of calls by this handle is the home of: see [`Realm::target`].
    pub(crate) fn home_of(&self, object: Key) -> Key {
        let directory = (self.pool.stays() && !self.stale()).then(|| self.pool.homes.directory(object));
        directory.flatten().unwrap_or(object)
    }

    /// What [`Realm::send`] would do with this call now. Changes nothing.
    pub(crate) fn would(&self, now: Instant, meaning: &Meaning) -> Would {
        let now = self.pool.time(now);
        let (second, unbound) = (self.second_bound(now, meaning), self.target(meaning));
        let mut part = self.part(meaning.place);
        let knobs = part.knobs;
        let bound = self.bound(now, &mut part, meaning, second);
        let target = Target { bound, ..unbound };
        let (target, route) = part.shard.would(now, &self.pool.servers, &knobs, &target);
        Would { target, knobs, route }
    }

    /// Whether every call goes to its home, whatever the policy.
    pub(crate) fn bypassed(&self) -> bool {
        self.bypass.load(Ordering::Relaxed)
    }

    /// Sends every call to its home from now on, or no longer.
    pub(crate) fn set_bypass(&self, on: bool) {
        let knobs = lock(&self.knobs);
        self.bypass.store(on, Ordering::Relaxed);
        self.hand_out(&knobs);
        self.apply(knobs.caching, &lock(&self.modes));
    }

    /// What the cache may do, as it was told and as it is.
    pub(crate) fn modes(&self) -> Modes {
        lock(&self.modes).clone()
    }

    /// Another mode of one part from now on; whoever calls has seen that its writers permit it. What was demoted is armed again.
    pub(crate) fn set_mode(&self, area: usize, mode: Mode) {
        let knobs = lock(&self.knobs);
        let mut modes = lock(&self.modes);
        modes.wanted[area] = mode;
        modes.demoted = None;
        self.apply(knobs.caching, &modes);
    }

    /// The cache is not to be trusted: nothing is answered from it until an administrator says so. Whether this is news.
    pub(crate) fn demote(&self, why: &str) -> bool {
        let knobs = lock(&self.knobs);
        let mut modes = lock(&self.modes);
        let news = modes.demoted.is_none();
        modes.demoted.get_or_insert_with(|| why.to_owned());
        self.apply(knobs.caching, &modes);
        news
    }

    fn apply(&self, caching: bool, modes: &Modes) {
        let caching = caching && !self.bypassed() && modes.demoted.is_none();
        self.areas.set_modes(modes.wanted.iter().map(|wanted| if caching { *wanted } else { Mode::Strict }));
    }

    /// Every decision reads its part's knobs behind the part's lock: when this returns, whatever is decided from then on reads these.
    fn hand_out(&self, knobs: &Knobs) {
        let knobs = match self.bypassed() {
            true => Knobs { bypass: true, caching: false, ..*knobs },
            false => *knobs,
        };
        self.parts.iter().for_each(|part| lock(part).knobs = knobs);
    }

    /// A decision reads what holds and counts what it did behind its part's lock: who has had every lock once knows that every later
    /// decision reads what was written before.
    pub(crate) fn settle_in(&self) {
        self.parts.iter().for_each(|part| drop(lock(part)));
    }

    /// The policy in force, but for a bypass.
    pub(crate) fn policy(&self) -> Policy {
        lock(&self.parts[0]).shard.router().policy()
    }

    /// Another policy from now on, with a controller of its own.
    pub(crate) fn set_policy(&self, policy: Policy) {
        let mut current = lock(&self.controller);
        // Those of a warm-up that failed are nobody's: the next one may find better.
        let found = current.targets().filter(|(_, origin)| *origin != Origin::Default);
        let targets = found.map(|(targets, _)| targets);
        *current = controller(&self.pool, self.seed, policy, targets);
        self.publish(&current);
        self.parts.iter().for_each(|part| lock(part).shard.router().set_policy(policy));
    }

    /// Takes over what a reload may change: for calls that come from now on.
    pub(crate) fn reload(&self, export: Export) {
        let policy = (self.rules().policy != export.policy).then_some(export.policy);
        let before = self.modes().wanted;
        let after = export.modes_after(&self.rules(), &before);
        self.rules.store(Arc::new(export));
        // What users may see may be another now.
        self.areas.flush();
        if let Some(policy) = policy {
            self.set_policy(policy);
        }
        for (area, (before, after)) in before.into_iter().zip(after).enumerate() {
            if before != after {
                self.set_mode(area, after);
            }
        }
    }

    /// Takes over the pool's staleness.
    pub(crate) fn reload_staleness(&self, now: Instant) {
        let (now, staleness) = (self.pool.time(now), self.pool.staleness());
        self.parts.iter().for_each(|part| lock(part).shard.set_staleness(now, staleness));
        // What was filled before may be an old state that a longer staleness would have kept out.
        self.areas.doubt_servers(now + staleness);
        self.areas.flush();
        let mut controller = lock(&self.controller);
        controller.set_split(staleness == Span::ZERO);
        self.publish(&controller);
    }

    /// Calls sent so far, by the reason's code.
    pub(crate) fn routes(&self) -> [u64; Why::NAMES.len()] {
        let mut total = [0; Why::NAMES.len()];
        for part in &self.parts {
            total.iter_mut().zip(lock(part).routes).for_each(|(total, count)| *total += count);
        }
        total
    }

    /// Calls sent so far to the one server that might serve them, by the reason's code.
    pub(crate) fn binds(&self) -> [u64; Bound::NAMES.len()] {
        let mut total = [0; Bound::NAMES.len()];
        for part in &self.parts {
            total.iter_mut().zip(lock(part).binds).for_each(|(total, count)| *total += count);
        }
        total
    }

    /// Names and objects that have a fence of their own.
    pub(crate) fn fences(&self, now: Instant) -> u64 {
        let now = self.pool.time(now);
        self.parts.iter().map(|part| lock(part).shard.fences(now) as u64).sum()
    }

    /// This server alone knows an object.
    pub(crate) fn known_at(&self, object: Key, server: ServerId) {
        self.part(object).makers.insert(object, server);
    }

    /// This server knows it too: one that is known to do so already stays the one to ask.
    pub(crate) fn known_too(&self, object: Key, server: ServerId) {
        let mut part = self.part(object);
        if part.makers.find(object).is_none() {
            part.makers.insert(object, server);
        }
    }

    /// Adds the files with data at each server that is not committed.
    pub(crate) fn count_uncommitted(&self, now: Instant, at: &mut [u64]) {
        let now = self.pool.time(now);
        for part in &self.parts {
            lock(part).ties.uncommitted(now).for_each(|server| at[server.index()] += 1);
        }
    }

    /// A later page may go where its cookie means the same.
    fn movable(&self, meaning: &Meaning) -> Meaning {
        match meaning.kind {
            Kind::List { first } => Meaning { movable: first || self.pool.cookies.portable(), ..*meaning },
            Kind::Plain | Kind::Write { .. } | Kind::Commit { .. } | Kind::Fsinfo => *meaning,
        }
    }

    /// Where the second object of a call must be read, or is known at all.
    fn second_bound(&self, now: Time, meaning: &Meaning) -> Option<(ServerId, Bound)> {
        let maker = || {
            let (file, _) = meaning.second.filter(|_| meaning.op == Op::Link)?;
            self.maker(&mut self.part(file).makers, file)
        };
        self.second_fence(now, meaning).or_else(maker)
    }

    /// The server that alone knows an object; a drained one is asked all the same, one that is gone is not waited for.
    fn maker(&self, makers: &mut Generations<ServerId>, object: Key) -> Option<(ServerId, Bound)> {
        if makers.is_empty() {
            return None;
        }
        makers.find(object).filter(|server| self.pool.ends(*server)).map(|server| (server, Bound::Maker))
    }

    /// The one server that may serve a call; `second` is where its second object must be read.
    fn bound(
        &self,
        now: Time,
        Part { shard, ties, makers, .. }: &mut Part,
        meaning: &Meaning,
        second: Option<(ServerId, Bound)>,
    ) -> Option<(ServerId, Bound)> {
        let servers = &self.pool.servers;
        let fence = match self.stale() {
            true => {
                let Meaning { op, place, object, .. } = *meaning;
                shard.fenced_at(now, servers, &Target::new(op, place, object)).or(second)
            }
            false => second,
        };
        match meaning.kind {
            Kind::List { .. } if self.pool.cookies.portable() => fence,
            // Listings begin at home, where every proxy looks for them; elsewhere only while the home is closed.
            Kind::List { first: true } => fence.or_else(|| {
                let home = servers.ring().home(meaning.place).filter(|home| self.pool.open(*home))?;
                Some((home, Bound::Listing))
            }),
            Kind::List { first: false } => {
                let server = ties.listed_at(meaning.tie).or_else(|| servers.ring().home(meaning.place))?;
                Some((server, Bound::Listing))
            }
            Kind::Plain | Kind::Write { .. } | Kind::Commit { .. } | Kind::Fsinfo => {
                let doubt = ties.doubted(meaning.object).filter(|_| meaning.op.mutates());
                let written = || ties.uncommitted_at(now, meaning.object);
                // Data is where it was written. Attributes are known where they were changed last,
                // which LINK does elsewhere.
                let bound = match meaning.op {
                    Op::Read | Op::Write | Op::Commit => doubt.or_else(written).or(fence),
                    _ => doubt.or(fence).or_else(written),
                };
                bound.or_else(|| self.maker(makers, meaning.object))
            }
        }
    }

    /// A call ended. What is known of it is spent.
    pub(crate) fn settle(&self, now: Time, sent: &mut Sent, end: End) {
        let server = sent.ticket.route.to;
        let spares = sent.ticket.spares() && matches!(end, End::Answered { .. });
        if matches!(end, End::Answered { ok: false, .. }) {
            sent.ticket.refuse();
        }
        let mut part = self.part(sent.meaning.place);
        let outcome = match end {
            End::Answered { .. } => Outcome::Answered(None),
            End::Failed => Outcome::Failed,
            End::Lost => Outcome::Lost,
        };
        part.shard.settle(now, &self.pool.servers, &mut self.pool.recorder(), &mut sent.ticket, outcome);
        if sent.doubtful {
            part.ties.resolved(sent.meaning.object);
        }
        part.learn(now, &self.pool, &sent.meaning, server, end);
        drop(part);
        let executed = matches!(end, End::Answered { ok: true, .. });
        // What was refused has changed nothing. (A file that a CREATE resized has its fence from the answer.)
        if let Some(beside) = sent.beside.take() {
            if !spares {
                self.fence_too(now, &beside.changed, server, end);
            }
            self.over_too(now, beside.under_way);
        }
        if self.stale() && sent.meaning.op.mutates() {
            match executed {
                true => self.renamed(now, server, &sent.meaning),
                false => self.unsure_of_names(&sent.meaning, spares),
            }
        }
    }

    /// A call's server is gone, and the call was perhaps executed.
    pub(crate) fn doubt(&self, sent: &mut Sent) {
        // A listing changes nothing.
        if sent.meaning.op == Op::List {
            return;
        }
        if !std::mem::replace(&mut sent.doubtful, true) {
            self.part(sent.meaning.place).ties.doubt(sent.meaning.object, sent.ticket.route.to);
        }
    }

    /// It is known now what became of such a call.
    pub(crate) fn resolved(&self, meaning: &Meaning) {
        self.part(meaning.place).ties.resolved(meaning.object);
    }

    /// A call has a server but did not leave for it.
    pub(crate) fn take_back(&self, now: Time, sent: Sent) {
        if let Some(beside) = sent.beside {
            self.over_too(now, beside.under_way);
        }
        self.part(sent.meaning.place).shard.take_back(now, &self.pool.servers, sent.ticket);
    }

    /// Takes over what the controller turned.
    pub(crate) fn publish(&self, controller: &Controller) {
        let mut knobs = lock(&self.knobs);
        if *knobs != controller.knobs() {
            *knobs = controller.knobs();
            self.hand_out(&knobs);
        }
        self.apply(knobs.caching, &lock(&self.modes));
    }

    /// What clients are told of the pool; none before the first server was admitted.
    pub(crate) fn agreed(&self) -> arc_swap::Guard<Arc<Option<Agreed>>> {
        self.agreed.load()
    }

    /// A server says what it exports: whether it belongs, as soon as that can be said.
    pub(crate) fn heard(&self, server: ServerId, said: Agreed, whose: &Whose) -> Option<bool> {
        self.believe(server, Some(said), whose)
    }

    /// A server does not answer: the others need not wait for its word.
    pub(crate) fn silent(&self, server: ServerId, whose: &Whose) {
        self.believe(server, None, whose);
    }

    fn believe(&self, server: ServerId, said: Option<Agreed>, whose: &Whose) -> Option<bool> {
        let mut belief = lock(&self.belief);
        let belongs = belief.heard(server.index(), said);
        if self.agreed().as_ref().as_ref() != belief.agreed() {
            // Whoever can mount it can use it: the handle is known before. If another has it already, the keeper says so.
            if let Some(agreed) = belief.agreed() {
                let _taken = whose.claim(&agreed.root, (agreed.fsid, agreed.fileid), self.number);
                self.areas.set_root(Key::of(&agreed.root));
                let grain = agreed.limits.map(|limits| file_time(limits.time_delta).since(Time::ZERO));
                self.areas.set_grain(grain);
            }
            self.agreed.store(Arc::new(belief.agreed().cloned()));
        }
        belongs
    }

    pub(crate) fn part(&self, key: Key) -> MutexGuard<'_, Part> {
        lock(&self.parts[(key.0 % PARTS as u64) as usize])
    }
}

/// A controller for an export of this pool.
fn controller(pool: &Pool, seed: u64, policy: Policy, targets: Option<Targets>) -> Controller {
    let settings = Settings {
        policy,
        rate_peak: pool.config.rate_peak.map_or(0.0, |peak| peak as f64),
        targets,
        steer_share: 0.10,
        split: pool.staleness() == Span::ZERO,
        seed,
    };
    Controller::new(settings, pool.config.servers.len())
}

impl Part {
    /// The object that a fenced name resolves to, if its LOOKUP may go anywhere: an answer that agrees is true.
    fn expects(&mut self, now: Time, meaning: &Meaning) -> Option<Key> {
        let settled = meaning.op == Op::Lookup && self.shard.name_is_settled(now, meaning.object, meaning.place);
        if settled { self.names.find(meaning.object).and_then(Leads::object) } else { None }
    }

    fn new(now: Time, (policy, knobs): (Policy, Knobs), staleness: Span, seed: u64) -> Self {
        let params = Params::new(CacheSettings::default()).expect("the default settings are valid");
        let cache = Cache::new(params, Rules::ALL, now, CleanStart::Yes);
        let router = Router::of_part(policy, seed, PART_KEYS);
        let routes = [0; Why::NAMES.len()];
        let (ties, names, makers) = (Ties::default(), Generations::default(), Generations::default());
        let (shard, binds) = (Shard::new(now, router, cache, staleness), [0; Bound::NAMES.len()]);
        Self { shard, ties, knobs, names, makers, routes, binds }
    }

    fn learn(&mut self, now: Time, pool: &Pool, meaning: &Meaning, server: ServerId, end: End) {
        match (meaning.kind, end) {
            (Kind::Write { .. }, End::Answered { unstable: true, .. }) => {
                self.ties.written(now, meaning.object, server);
            }
            (Kind::Write { unstable: true }, End::Answered { ok: true, .. }) => {
                self.ties.durable(meaning.object, server);
            }
            (Kind::Commit { whole: true }, End::Answered { ok: true, .. }) => {
                self.ties.committed(meaning.object, server);
            }
            (Kind::List { .. }, End::Answered { ok: true, .. }) => {
                let home = pool.servers.ring().home(meaning.place);
                self.ties.listed(meaning.tie, Some(server).filter(|_| Some(server) != home));
            }
            (Kind::Plain | Kind::Write { .. } | Kind::Commit { .. } | Kind::List { .. } | Kind::Fsinfo, _) => {}
        }
    }
}

/// Parts of the key space, and how many keys each remembers a steer or a width of.
const PARTS: usize = 64;
const PART_KEYS: usize = 256;
