//! What may be answered without asking a server, for how long, and whom a read may wait with.
//!
//! Pure state: the driver says what happens, the cache says what may be done. It must never serve an entry at or past its
//! horizon (P12), nor, in lease mode, one that a mutation may have changed. It is not a map with timeouts because a late
//! reply must not bring old state back: a fill needs a ticket from before, and every [`Rule`] must let it pass.

mod bypass;
mod changes;
mod fill;
mod flight;
mod guard;
mod hash;
mod history;
mod horizon;
mod mark;
mod mode;
mod params;
mod pressure;
mod rules;
mod sample;
mod stats;
mod store;
#[cfg(test)]
mod tests;
mod ttl;

pub use changes::{Clock, Left};
pub use fill::{Facts, Fill, Refusal};
pub use flight::{Fetch, FlightId};
pub use guard::{Guard, Next, Watched};
pub use hash::{Fixed, Folding};
pub use horizon::Horizon;
pub use mark::{Ended, Mark};
pub use mode::{Joins, Mode};
pub use params::{Impossible, Params, Settings};
#[doc(hidden)]
pub use rules::broken;
pub use rules::{Rule, Rules};
pub use sample::{Course, Lessons, Staleness, Verdict};
pub use stats::Stats;
pub use store::Departures;
pub use ttl::{Estimator, TtlStep};

use crate::time::{Span, Time};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bypass::Bypass;
use changes::Changes;
use core::hash::Hash;
use flight::Flights;
use history::History;
use mark::{Marked, Marks};
use pressure::Pressure;
use sample::Sampler;
use stats::Counts;
use store::{Dropped, Kept, Store};
use ttl::Classes;

/// The cache of one shard. `K` names what is read, `V` is what is answered.
#[derive(Debug)]
pub struct Cache<K, V> {
    spread: Fixed,
    params: Params,
    rules: Rules,
    store: Store<K, V>,
    flights: Flights<K>,
    marks: Marks<K>,
    changes: Changes<K>,
    clock: Arc<Clock>,
    /// The change that was the last flush.
    flushed: u64,
    pressure: Pressure<K>,
    classes: Classes,
    sampler: Sampler,
    guard: Guard,
    sampled: bool,
    ticked: Time,
    bypass: Bypass,
    counts: Counts,
}

/// A cache class: backend, namespace and operation folded to a small index. Paper: P10.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(pub u8);

/// Cache classes, at most; an index beyond is folded back.
pub const CLASSES_MAX: usize = 32;

impl Class {
    const fn index(self) -> usize {
        self.0 as usize % CLASSES_MAX
    }
}

/// What is kept, and what makes it untrue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<K> {
    /// Its own name.
    pub key: K,
    /// The key whose mutations drop it: its own, or that of the object that it tells something of.
    pub guard: K,
    /// Its class.
    pub class: Class,
}

impl<K: Copy> Entry<K> {
    /// One that is dropped by mutations of itself.
    pub const fn own(key: K, class: Class) -> Self {
        Self { key, guard: key, class }
    }
}

/// A value that may be answered.
#[derive(Debug)]
pub struct Hit<'a, V> {
    /// What to answer.
    pub value: &'a V,
    /// How long ago it was known to be true.
    pub age: Span,
    /// When it must no longer be served.
    pub horizon: Time,
}

/// Whether the former life of this proxy left calls behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanStart {
    /// It stopped in order, or never was: no call of it runs.
    Yes,
    /// It may have: lease mode fills nothing for `server_hold_max`.
    No,
}

/// What to do with a read.
#[derive(Debug)]
pub enum Read<K, V> {
    /// Answer it now.
    Answer {
        /// What to answer.
        value: V,
        /// How long ago it was known to be true.
        age: Span,
        /// When it must no longer be served.
        horizon: Time,
    },
    /// Wait for that flight and answer what it brings.
    Join(FlightId),
    /// Ask a server.
    Fetch(Fetch<K>),
}

impl<K: Copy + Eq + Hash + Ord, V> Cache<K, V> {
    /// What a remembered key takes in bytes, whether its value is kept or not; without its places in tables and queues.
    pub const SLOT: usize = size_of::<store::Slot<K, V>>();

    /// An empty cache with a clock of its own.
    pub fn new(params: Params, rules: Rules, now: Time, start: CleanStart) -> Self {
        Self::sharing(Arc::default(), params, rules, now, start)
    }

    /// An empty cache of one of several shards, which a reply may fill together.
    pub fn sharing(clock: Arc<Clock>, params: Params, rules: Rules, now: Time, start: CleanStart) -> Self {
        let all_until = match start {
            CleanStart::No if rules.has(Rule::CleanStart) => now + params.server_hold_max,
            CleanStart::Yes | CleanStart::No => Time::ZERO,
        };
        let spread = Fixed::new(params.spread);
        Self {
            params,
            rules,
            spread,
            store: Store::new(params.entries_max, params.bytes_max, spread),
            flights: Flights::new(flight::FLIGHT_KEYS_MAX, spread),
            marks: Marks::new(mark::MARKED_KEYS_MAX, all_until, spread),
            changes: Changes::new(spread),
            clock,
            flushed: 0,
            pressure: Pressure::new(&params),
            classes: Classes::new(&params),
            sampler: Sampler::new(params.stale_target),
            guard: Guard::new(0),
            sampled: false,
            ticked: now,
            bypass: Bypass::new(params.entries_max, params.bypass_below),
            counts: Counts::default(),
        }
    }

    /// What may be answered for this key now.
    pub fn get(&mut self, now: Time, key: &K) -> Option<Hit<'_, V>> {
        if !self.params.mode.answers() {
            return None;
        }
        let hash = self.spread.of(key);
        self.store.keep_within(self.bypass.limit());
        let room = self.store.full().then_some(self.store.len());
        let slot = self.store.read(hash, key);
        self.bypass.note(hash, slot.is_some(), room);
        let slot = &*slot?;
        let hit = served(now, self.params.mode, self.rules, &self.sampler, slot)?;
        self.sampled = match self.params.mode {
            Mode::Strict => false,
            Mode::Lease | Mode::Immutable => self.guard.hit(),
            Mode::Ttl => self.sampler.hit(slot.class),
        };
        Some(hit)
    }

    /// The same for what only helps to answer. It is not what was asked for: it is never checked, and says nothing of whether what is
    /// asked for fits.
    pub fn glance(&mut self, now: Time, key: &K) -> Option<Hit<'_, V>> {
        let mode = self.params.mode;
        let slot = self.store.read(self.spread.of(key), key).filter(|_| mode.answers())?;
        served(now, mode, self.rules, &self.sampler, slot)
    }

    /// What is kept, to be changed in place by whoever knows what has become of it: it stays as large as it is, and until when.
    pub fn amend(&mut self, key: &K) -> Option<&mut V> {
        self.store.read(self.spread.of(key), key)?.value.as_mut()
    }

    /// Whether a value is kept for this key; asking does not count as a use of it.
    pub fn contains(&self, key: &K) -> bool {
        self.store.peek(key).is_some_and(|slot| slot.value.is_some())
    }

    /// A flight of this call that a read may join: one that could still fill what these guards protect (R14).
    pub fn join(&self, now: Time, call: &K, guards: &[K]) -> Option<FlightId> {
        let joins = match self.params.mode.joins() {
            Joins::Fillable if !self.rules.has(Rule::Join) => Joins::Any,
            joins @ (Joins::Waiting | Joins::Fillable | Joins::Any) => joins,
        };
        let unmarked = |left: Left, guard: &K| {
            let none = |at| self.marks.of_mutations(at, guard) == Marked::No;
            none(now) && none(left.at)
        };
        let fills = |left: Left| {
            let same = |guard: &K| unmarked(left, guard) && !self.changes.since(left, guard);
            left.changes >= self.flushed && guards.iter().all(same)
        };
        self.flights.join(call, joins, fills)
    }

    /// A read leaves now that nobody may join.
    pub fn left(&self, now: Time) -> Left {
        self.clock.left(now)
    }

    /// A read goes to a server; those that follow may join it.
    pub fn begin(&mut self, now: Time, call: K, class: Class) -> Fetch<K> {
        self.flights.begin(self.clock.left(now), call, class)
    }

    /// Whether the last hit is to be checked against the server; said once. Its outcome goes to [`Self::verdict`].
    pub fn sampled(&mut self) -> bool {
        core::mem::take(&mut self.sampled)
    }

    /// So many hits were answered by what was said here before: they count among those of which some are checked.
    pub fn repeated(&mut self, hits: u32) {
        match self.params.mode {
            Mode::Lease | Mode::Immutable => self.guard.repeated(hits),
            Mode::Strict | Mode::Ttl => {}
        }
    }

    /// What went of what was kept: a hit may be given again, inside its horizon, for as long as this stands.
    pub fn departures(&self) -> &Arc<Departures> {
        self.store.departures()
    }

    /// What the check of an answer showed. A wrong one is dropped.
    pub fn verdict(&mut self, now: Time, key: K, class: Class, verdict: Verdict) -> Next {
        if verdict == Verdict::Different {
            self.invalidate(now, key);
        }
        match self.params.mode {
            Mode::Strict => Next::Nothing,
            Mode::Lease | Mode::Immutable => self.guard.verdict(now, self.spread.of(&key), verdict),
            Mode::Ttl => {
                self.sampler.verdict(now, class, verdict);
                Next::Nothing
            }
        }
    }

    /// Hits of a class until now, in ttl mode.
    pub fn hits(&self, class: Class) -> u64 {
        self.sampler.hits(class)
    }

    /// One of several parts: what all of them have learned of a class stands for what it learned itself.
    pub fn follow(&mut self, class: Class, course: Course) {
        self.sampler.follow(class, course);
    }

    /// What the second look showed that [`Next::LookAgain`] asked for.
    pub fn looked_again(&mut self, now: Time, key: K, verdict: Verdict) -> Next {
        self.guard.looked_again(now, self.spread.of(&key), verdict)
    }

    /// The call of this ticket left for the server: from now on strict mode does not join it.
    pub fn sent(&mut self, fetch: &Fetch<K>) {
        self.flights.sent(fetch);
    }

    /// The flight is over, whatever became of it: what it was for, and when it left.
    pub fn landed(&mut self, fetch: Fetch<K>) -> (Entry<K>, Left) {
        self.flights.end(fetch)
    }

    /// Keeps what a read that left then has brought for later reads, if every rule allows it.
    pub fn offer(&mut self, now: Time, left: Left, entry: Entry<K>, value: V, facts: Facts) -> Fill {
        match self.coherent(now, left, &entry, facts).and_then(|()| self.keep(now, left, &entry, value, facts)) {
            Ok(horizon) => {
                self.counts.kept += 1;
                Fill::Kept { horizon: horizon.until() }
            }
            Err(why) => {
                self.counts.refusals[why as usize] += 1;
                Fill::Refused(why)
            }
        }
    }

    /// Whether what a read that left then says of this guard's object is still true.
    pub fn holds(&self, now: Time, left: Left, guard: &K) -> bool {
        self.since_flush(left).is_ok() && self.unchanged(now, left, guard).is_ok()
    }

    /// A mutation of `key` is about to leave: what it guards is dropped and nothing of it is filled until it ended (R5, R13).
    pub fn mark(&mut self, now: Time, key: K) -> Mark<K> {
        let Dropped { class, served } = if self.rules.has(Rule::DropBeforeSend) {
            self.store.forget_guarded(&key)
        } else {
            Dropped { class: self.store.peek(&key).map(|slot| slot.class), served: true }
        };
        self.note_write(now, class);
        self.pressure.note(now, key, served);
        let change = self.clock.tick();
        self.changes.note(&key, change);
        self.marks.begin(key, Left { at: now, changes: change })
    }

    /// Whether no mutation is unfinished, and none whose end is unknown may still run.
    pub fn settled(&self, now: Time) -> bool {
        self.marks.settled(now)
    }

    /// The mutation is over, or nobody will ever know (R8).
    pub fn end(&mut self, now: Time, mark: Mark<K>, ended: Ended) {
        let hold = match ended {
            Ended::Unknown if self.rules.has(Rule::UnknownHold) => self.params.server_hold_max,
            Ended::Unknown | Ended::Done => Span::ZERO,
            Ended::Until(until) => until.since(now),
        };
        if self.rules.has(Rule::EndBump) {
            self.changes.note(&mark.key, self.clock.tick());
        }
        self.store.forget_guarded(&mark.key);
        self.marks.end(now, mark, hold);
    }

    /// The mutation is over, and the server has told what it left behind: kept as if it had been read, unless another mutation ran meanwhile.
    pub fn end_with(&mut self, now: Time, mark: Mark<K>, class: Class, value: V, facts: Facts) -> Fill {
        let Mark { key, begun } = mark;
        let alone = self.marks.pending(&key) == 1 && !self.changes.since(begun, &key) && begun.changes >= self.flushed;
        self.end(now, mark, Ended::Done);
        match alone {
            true => self.offer(now, self.clock.left(begun.at), Entry::own(key, class), value, facts),
            false => Fill::Refused(Refusal::EpochChanged),
        }
    }

    /// What is known of `key`, and what it guards, is no longer true.
    pub fn invalidate(&mut self, now: Time, key: K) {
        if let Some(class) = self.store.forget_guarded(&key).class {
            self.classes.invalidated(now, class);
        }
        self.changes.note(&key, self.clock.tick());
    }

    /// A lease lapsed or the view changed: everything goes, and no read that is out fills any more (R4).
    pub fn flush(&mut self) {
        self.store.clear();
        self.flushed = self.clock.tick();
    }

    /// Servers may answer with an old state until then: no reply that leaves before fills anything.
    pub fn doubt_servers(&mut self, until: Time) {
        self.marks.doubt(until);
    }

    /// The slow loop: class TTLs and old holds; the TTLs that moved. Paper: P10, every 30 s.
    pub fn tick(&mut self, now: Time) -> Vec<TtlStep> {
        let steps = self.classes.tick(&self.params);
        self.marks.sweep(now - self.params.server_hold_max);
        let elapsed = now.since(core::mem::replace(&mut self.ticked, now));
        self.sampler.tick(now);
        self.guard.tick(elapsed);
        match self.params.mode {
            Mode::Ttl => steps,
            Mode::Strict | Mode::Lease | Mode::Immutable => Vec::new(),
        }
    }

    /// Another mode; nothing that was kept under the old one survives. A proxy whose lease lapsed goes to
    /// [`Mode::Strict`] and comes back through here, so what it read in between fills nothing.
    pub fn set_mode(&mut self, mode: Mode) {
        if mode != self.params.mode {
            self.params = self.params.with_mode(mode);
            // Demoted, it still shows why.
            if mode.answers() {
                self.guard.rearm();
            }
            self.flush();
        }
    }

    /// H: how long a call may linger in a server after its connection broke.
    pub fn hold_max(&self) -> Span {
        self.params.server_hold_max
    }

    /// The mode in force.
    pub fn mode(&self) -> Mode {
        self.params.mode
    }

    /// Whether the key is held uncacheable because it is written all the time.
    pub fn held(&self, now: Time, key: K) -> bool {
        self.pressure.holds(now, &key)
    }

    /// The time to live of a class as of the last tick. Paper: P10.
    pub fn ttl_of(&self, class: Class) -> Span {
        self.classes.ttl(class)
    }

    /// h_c: invalidations a second as the paper estimates them. Paper: P10.
    pub fn hazard_of(&self, class: Class) -> f64 {
        self.classes.hazard(class)
    }

    /// W_c: the share of writes among a class's calls. Paper: P10.
    pub fn write_fraction(&self, class: Class) -> f64 {
        self.classes.write_fraction(class)
    }

    /// The stale share of a class's hits in ttl mode, as the checked ones show it.
    pub fn staleness(&self, class: Class) -> Staleness {
        self.sampler.staleness(class)
    }

    /// What was seen of writers that bypass MIDAS since the mode was set.
    pub fn watched(&self) -> Watched {
        self.guard.watched()
    }

    /// Every kept value with its class and cost, in no order; those past their horizon too, until they are replaced.
    pub fn for_each(&self, seen: impl FnMut(&K, &V, Class, usize)) {
        self.store.for_each(seen);
    }

    /// What it did and holds.
    pub fn stats(&self) -> Stats {
        let c = &self.counts;
        Stats {
            entries: self.store.len(),
            bytes: self.store.bytes(),
            flights: self.flights.keys(),
            marked: self.marks.len(),
            answers: c.answers,
            joins: c.joins,
            fetches: c.fetches,
            kept: c.kept,
            refusals: c.refusals,
            hit_share: c.hit_share(),
            bypassing: self.bypass.aside(),
        }
    }

    /// R13 and the rest: whether this reply can be the truth from now on.
    fn coherent(&self, now: Time, left: Left, entry: &Entry<K>, facts: Facts) -> Result<(), Refusal> {
        match () {
            () if !self.params.mode.answers() => Err(Refusal::Strict),
            () => self.since_flush(left).and_then(|()| self.unchanged(now, left, &entry.guard)),
        }?;
        match () {
            () if self.rules.has(Rule::Forward) && self.knows_newer(left, &entry.key, facts) => Err(Refusal::Older),
            () if self.pressure.holds(now, &entry.guard) => Err(Refusal::WritePressure),
            () => Ok(()),
        }
    }

    /// R4: what left before all was forgotten proves nothing.
    fn since_flush(&self, left: Left) -> Result<(), Refusal> {
        match self.rules.has(Rule::Generation) && left.changes < self.flushed {
            true => Err(Refusal::Generation),
            false => Ok(()),
        }
    }

    /// Whether nothing that this guards can have changed since that read left.
    fn unchanged(&self, now: Time, left: Left, guard: &K) -> Result<(), Refusal> {
        let marked = self.marks.of(now, guard);
        // A call that lingered may have run while this read was on its way, though its hold is over by now.
        let held = marked == Marked::Held || self.marks.of(left.at, guard) == Marked::Held;
        match () {
            () if self.rules.has(Rule::Pending) && marked == Marked::Pending => Err(Refusal::Pending),
            () if held => Err(Refusal::Hold),
            () if self.rules.has(Rule::Epoch) && self.changes.since(left, guard) => Err(Refusal::EpochChanged),
            () => Ok(()),
        }
    }

    fn knows_newer(&self, left: Left, key: &K, facts: Facts) -> bool {
        self.store.peek(key).is_some_and(|slot| {
            left.at < slot.history.seen || facts.changed_at.is_some_and(|changed| changed < slot.history.newest)
        })
    }

    fn keep(&mut self, now: Time, left: Left, entry: &Entry<K>, value: V, facts: Facts) -> Result<Horizon, Refusal> {
        let hash = self.spread.of(&entry.key);
        if !self.bypass.admits(hash) {
            return Err(Refusal::NotAdmitted);
        }
        let history = self.look(now, left.at, entry, facts);
        let horizon = self.horizon(now, left.at, entry.class, &history, facts);
        let kept = horizon.ok().map(|horizon| Kept { value, horizon, cost: facts.cost });
        self.store.put(hash, *entry, history, kept);
        horizon
    }

    /// What this reply adds to what is known of its object.
    fn look(&mut self, now: Time, left: Time, entry: &Entry<K>, facts: Facts) -> History {
        let Some(before) = self.store.peek(&entry.key).map(|slot| slot.history) else {
            return History::first(left, facts.changed_at);
        };
        if before.shows_change(facts.changed_at) {
            self.classes.invalidated(now, entry.class);
        }
        before.look(left, facts.changed_at, self.params.memory)
    }

    /// Paper: P12. The least of everything that bounds this entry.
    fn horizon(
        &mut self,
        now: Time,
        left: Time,
        class: Class,
        history: &History,
        facts: Facts,
    ) -> Result<Horizon, Refusal> {
        let p = &self.params;
        let life = match (p.mode, p.estimator) {
            (Mode::Strict, _) => return Err(Refusal::Strict),
            (Mode::Lease, _) => Horizon::after(left, p.lease_age_max),
            (Mode::Immutable, _) => Horizon::after(left, p.immutable_age_max),
            // From the arrival, as in the paper: from the departure, its floor of one round trip would keep nothing.
            (Mode::Ttl, Estimator::Paper) => Horizon::after(now, self.classes.ttl(class)),
            (Mode::Ttl, Estimator::Object) => Horizon::after(left, self.object_life(class, history)?),
        };
        let horizon = life.at_most(facts.lease_until);
        match () {
            () if facts.cost > self.params.bytes_max => Err(Refusal::TooLarge),
            () if !horizon.covers(now) => Err(Refusal::Late),
            () => Ok(horizon),
        }
    }

    fn object_life(&mut self, class: Class, history: &History) -> Result<Span, Refusal> {
        let life = history.life(self.params.stale_target).min(self.params.ttl_max);
        match life.scale(self.sampler.factor(class)) {
            Span::ZERO => Err(Refusal::Unproven),
            life if life < self.params.rtt => Err(Refusal::HazardTooHigh),
            life => {
                self.classes.granted(class, life);
                Ok(life)
            }
        }
    }

    fn note_write(&mut self, now: Time, class: Option<Class>) {
        if let Some(class) = class {
            self.classes.wrote(class);
            self.classes.invalidated(now, class);
        }
    }
}

/// A slot's value, if it may still be served.
fn served<'s, K, V>(
    now: Time,
    mode: Mode,
    rules: Rules,
    sampler: &Sampler,
    slot: &'s store::Slot<K, V>,
) -> Option<Hit<'s, V>> {
    let (value, seen, until) = (slot.value.as_ref()?, slot.history.seen, slot.horizon.until());
    let horizon = match mode {
        // What was kept before a cut is cut as well.
        Mode::Ttl => sampler.reach(slot.class, seen, until),
        Mode::Strict | Mode::Lease | Mode::Immutable => until,
    };
    let live = now < horizon || !rules.has(Rule::Horizon);
    live.then(|| Hit { value, age: now.since(seen), horizon })
}

/// For drivers whose every call is about one entry.
impl<K: Copy + Eq + Hash + Ord, V: Clone> Cache<K, V> {
    /// A read of `key`: answered, joined, or to be fetched.
    pub fn read(&mut self, now: Time, key: K, class: Class) -> Read<K, V> {
        self.classes.read(class);
        if let Some(Hit { value, age, horizon }) = self.get(now, &key) {
            let answer = Read::Answer { value: value.clone(), age, horizon };
            self.counts.answers += 1;
            return answer;
        }
        if let Some(flight) = self.join(now, &key, &[key]) {
            self.counts.joins += 1;
            return Read::Join(flight);
        }
        self.counts.fetches += 1;
        Read::Fetch(self.begin(now, key, class))
    }

    /// The reply came; its flight is over. Keeps the value for later reads if every rule allows it.
    pub fn filled(&mut self, now: Time, fetch: Fetch<K>, value: &V, facts: Facts) -> Fill {
        let (entry, left) = self.landed(fetch);
        self.offer(now, left, entry, value.clone(), facts)
    }

    /// No reply came; the flight is over.
    pub fn failed(&mut self, _now: Time, fetch: Fetch<K>) {
        self.landed(fetch);
    }
}
