//! The live cache of an export: what servers answered, kept under `core`'s rules and given to other clients (nfs3.md, D and E).
//!
//! Keys are split over parts, each behind a short lock; several are taken one after the other, never two at once. What a reply teaches
//! is offered to each part with the moment when its call left: a mutation in between refuses it there. In an export whose writers
//! all come through MIDAS every mutation is marked, whatever the mode, so that the mode may change at any time.

mod answer;
mod areas;
mod check;
mod forget;
mod held;
mod label;
mod learn;
mod memo;
mod names;
mod places;
mod question;
mod share;
#[cfg(test)]
mod tests;
mod touch;
mod turns;
mod twins;

pub(crate) use areas::{Area, Areas};
use check::Checks;
pub(crate) use check::{Heard, Sample};
pub(crate) use held::Amount;
use label::Of;
pub(crate) use label::{Kind, Who};
pub(crate) use learn::Learned;
pub(crate) use memo::{Asks, Memo};
pub(crate) use places::{Epoch, Places};
pub(crate) use question::Question;
pub(crate) use share::{Asked, Fetching, Landed};
#[cfg(test)]
use touch::Target;
pub(crate) use touch::{Claimed, Stale, Touched, Unfound, made};
use turns::Turns;
use twins::{FileId, Met, Twins};

use crate::accord::Leases;
use crate::key_map::KeyMap;
use crate::pool::lock;
use crate::relay::Waits;
use crate::wakes::Wakes;
use midas_core::cache::{
    Cache, Class, CleanStart, Clock, Departures, Ended, FlightId, Impossible, Left, Lessons, Mark, Mode, Params, Rule,
    Rules, Settings, Stats,
};
use midas_core::key::Key;
use midas_core::time::{Span, Time};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// What is kept of an export's answers.
pub(crate) struct Cached {
    /// The mode in force; every part's cache has it too.
    mode: AtomicU8,
    /// Whether mutations are marked, whatever the mode.
    watches: bool,
    rules: Rules,
    clock: Arc<Clock>,
    parts: Box<[Mutex<Part>]>,
    /// What has gone of each part.
    departures: Box<[Arc<Departures>]>,
    /// What hits of all parts teach in ttl mode.
    lessons: Mutex<Lessons>,
    /// No missing name is believed missing for longer.
    absent_max: Span,
    loose: Loose,
    /// Leases of the other proxies, if there are such.
    leases: Option<Arc<Leases>>,
    /// What other proxies call the export.
    name: u32,
    /// Reads that have not left and may be shared in every mode.
    waiting: AtomicU32,
    /// Its number among the parts of its export, and where objects lie among those; none if it is the only one.
    area: usize,
    places: Option<Arc<Places>>,
    /// How those are woken that wait for names.
    wakes: OnceLock<Arc<Wakes>>,
    /// The handles under which each object is known.
    twins: Twins,
}

/// Mutations that left in a mode that does not ask what their names lead to: until they have ended, a mode that relies on it waits.
#[derive(Debug, Default)]
struct Loose {
    running: AtomicU32,
    /// Until then one whose end is unknown may still run, in nanoseconds.
    until: AtomicU64,
}

/// One part of the key space.
pub(crate) struct Part {
    cache: Cache<Key, Box<[u8]>>,
    /// Calls under way that others wait with.
    joined: HashMap<FlightId, Joined>,
    /// Where hits go that are to be checked.
    checks: Option<Checks>,
    /// Mutations that wait for names.
    turns: Turns,
    /// Names that mutations of this proxy are under way of; whether another proxy has changed them since.
    claimed: KeyMap<bool>,
    /// Some of the keys that were changed last.
    changed: [Key; CHANGED],
    /// Until when what was told since a read began may be told.
    reach: Time,
    /// How fine the servers' times are.
    grain: Span,
}

impl Part {
    /// This key is changed; whether it was a while ago too.
    fn changes(&mut self, key: Key) -> bool {
        core::mem::replace(&mut self.changed[key.0 as usize % CHANGED], key) == key
    }
}

/// A read under way, and who waits with it.
struct Joined {
    /// What it asks, to the byte.
    identity: Box<[u8]>,
    waits: Vec<Waits>,
}

/// What an export's cache is told.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// Bounds and times; `bytes_max` is for all parts.
    pub(crate) settings: Settings,
    /// No missing name is believed missing for longer.
    pub(crate) absent_max: Span,
    /// Whether mutations are marked, whatever the mode: all writers come through MIDAS, or other parts of the export have other modes.
    pub(crate) watches: bool,
    pub(crate) start: CleanStart,
    pub(crate) rules: Rules,
    /// Leases of the other proxies, if there are such.
    pub(crate) leases: Option<Arc<Leases>>,
    /// What other proxies call the export.
    pub(crate) name: u32,
}

impl Cached {
    pub(crate) fn new(now: Time, told: &Told) -> Result<Self, Impossible> {
        let room = told.settings.bytes_max / PARTS;
        let entries_max = (room / (ENTRY_USUAL + twins::PLACE)).max(1);
        // Keys are remembered beyond their values, and handles by file id: their room is set aside.
        let bytes_max = room.saturating_sub(entries_max * (KEY + twins::PLACE)).max(1);
        let params = Params::new(Settings { bytes_max, entries_max, ..told.settings })?;
        let clock = Arc::new(Clock::default());
        let part = |_| {
            let cache = Cache::sharing(Arc::clone(&clock), params, told.rules, now, told.start);
            let (joined, turns) = (HashMap::new(), Turns::default());
            Mutex::new(Part {
                cache,
                joined,
                checks: None,
                turns,
                claimed: KeyMap::default(),
                changed: [Key(0); CHANGED],
                reach: Time::FAR,
                grain: GRAIN,
            })
        };
        let parts: Box<[_]> = (0..PARTS).map(part).collect();
        let departures = parts.iter().map(|part| Arc::clone(lock(part).cache.departures())).collect();
        let mode = AtomicU8::new(told.settings.mode as u8);
        Ok(Self {
            mode,
            watches: told.watches,
            rules: told.rules,
            clock,
            parts,
            departures,
            lessons: Mutex::new(Lessons::new(params.stale_target)),
            absent_max: told.absent_max,
            loose: Loose::default(),
            leases: told.leases.clone(),
            name: told.name,
            waiting: AtomicU32::new(0),
            area: 0,
            places: None,
            wakes: OnceLock::new(),
            twins: Twins::new(entries_max * PARTS),
        })
    }

    /// The same as one of several parts of an export.
    fn within(self, area: usize, places: Option<Arc<Places>>) -> Self {
        Self { area, places, ..self }
    }

    /// Whether what is kept here of an object may be told: another part may promise more.
    fn tells(&self, now: Time, object: Key) -> bool {
        self.places.as_ref().is_none_or(|places| places.area(now, object) == Some(self.area))
    }

    /// H: how long a call may linger in a server after its connection broke.
    pub(crate) fn hold_max(&self) -> Span {
        self.part(Key(0)).cache.hold_max()
    }

    /// The mode in force.
    pub(crate) fn mode(&self) -> Mode {
        Mode::ALL[usize::from(self.mode.load(Ordering::Relaxed)) % Mode::ALL.len()]
    }

    /// Whether calls may be answered from here.
    pub(crate) fn answers(&self, now: Time) -> bool {
        let mode = self.mode();
        mode.answers() && (mode == Mode::Ttl || self.loose.none(now) && self.leased())
    }

    /// Its number among the parts of its export.
    pub(crate) const fn area(&self) -> usize {
        self.area
    }

    /// What other proxies call the export.
    pub(crate) const fn name(&self) -> u32 {
        self.name
    }

    /// Whether no other proxy can have changed anything unmarked.
    fn leased(&self) -> bool {
        self.leases.as_ref().is_none_or(|leases| leases.live())
    }

    /// Leases were lost: what was kept under them may not be true.
    pub(crate) fn lease_lost(&self) {
        if self.relies_on_marks() {
            self.flush();
        }
    }

    /// Whether what a read that leaves now says of this may be kept.
    pub(crate) fn keeps(&self, now: Time, place: Key, key: Key) -> bool {
        self.part(place).cache.holds(now, self.left(now), &key)
    }

    /// Another proxy changes something.
    pub(crate) fn mark(&self, now: Time, place: Key, key: Key) -> Mark<Key> {
        let mut part = self.part(place);
        part.claimed.entry(key).and_modify(|overtaken| *overtaken = true);
        part.changes(key);
        part.cache.mark(now, key)
    }

    /// That is over.
    pub(crate) fn unmark(&self, now: Time, place: Key, mark: Mark<Key>) {
        self.part(place).cache.end(now, mark, Ended::Done);
    }

    /// How fine the servers' times are, as they say; none if they do not.
    pub(crate) fn set_grain(&self, grain: Option<Span>) {
        self.parts.iter().for_each(|part| lock(part).grain = grain.unwrap_or(GRAIN));
    }

    /// Whether there is any use in asking: calls may be answered, or one waits here that others may wait with.
    #[inline]
    pub(crate) fn useful(&self, now: Time) -> bool {
        self.answers(now) || (self.some_wait() && !self.mode().answers())
    }

    /// Whether reads wait here that may be shared in every mode: hardly ever.
    #[inline]
    pub(crate) fn some_wait(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Whether mutations must be marked before they leave.
    pub(crate) fn watches(&self) -> bool {
        self.watches || self.mode().answers()
    }

    /// Whether a mutation must know what its names lead to.
    fn finds_targets(&self) -> bool {
        // Another proxy may rely on them where this one does not.
        (self.relies_on_marks() || self.leases.is_some()) && self.rules.has(Rule::Targets)
    }

    /// Whether what is kept is true because nobody changes it unmarked.
    fn relies_on_marks(&self) -> bool {
        matches!(self.mode(), Mode::Lease | Mode::Immutable)
    }

    /// A mutation is over of which it was not known what its names led to.
    fn loose_ended(&self, now: Time, ended: Ended, hold: Span) {
        self.loose.hold(now, ended, hold);
        if self.relies_on_marks() {
            self.flush();
        }
        self.loose.running.fetch_sub(1, Ordering::SeqCst);
    }

    /// Another mode from now on: when this returns, nothing is answered that was kept before.
    pub(crate) fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
        for part in &self.parts {
            let mut part = lock(part);
            part.cache.set_mode(mode);
            part.turns.forget();
        }
        self.twins.clear();
    }

    /// All is forgotten, and what is on its way fills nothing.
    pub(crate) fn flush(&self) {
        for part in &self.parts {
            let mut part = lock(part);
            part.cache.flush();
            part.turns.forget();
        }
        self.twins.clear();
    }

    /// Servers may answer with an old state until then: nothing is filled before.
    pub(crate) fn doubt_servers(&self, until: Time) {
        self.parts.iter().for_each(|part| lock(part).cache.doubt_servers(until));
    }

    /// Whether no mutation of ours may still run.
    pub(crate) fn settled(&self, now: Time) -> bool {
        self.loose.none(now) && self.parts.iter().all(|part| lock(part).cache.settled(now))
    }

    /// A server does not know this object (any more): what is kept of it goes, and names that lead to it lead to nothing known.
    pub(crate) fn gone(&self, now: Time, object: Key) {
        let mut part = self.part(object);
        for key in guards(object) {
            part.cache.invalidate(now, key);
        }
    }

    /// Notes that a handle leads to this object, before anything is kept under it.
    fn saw_handle(&self, now: Time, id: FileId, handle: Key) {
        let met = self.meet(now, id, handle, false);
        if met.new && !met.others.is_empty() {
            // The object may have been changed by another handle since this answer's call left.
            self.gone(now, handle);
        }
    }

    /// An object was changed by this handle: what is kept of it under others is not true any more.
    /// Whether other members are to be told.
    fn changed_by(&self, now: Time, id: FileId, handle: Key) -> bool {
        // Where nothing is kept, here or elsewhere, nothing can be old.
        if !self.mode().answers() && self.leases.is_none() {
            return false;
        }
        let met = self.meet(now, id, handle, self.leases.is_some());
        met.others.iter().for_each(|other| self.gone(now, *other));
        met.untold && self.leases.is_some()
    }

    /// Another member says that an object was changed by this handle.
    pub(crate) fn changed_elsewhere(&self, now: Time, id: Key, handle: Key) {
        let met = self.meet(now, FileId::heard(id), handle, false);
        met.others.iter().for_each(|other| self.gone(now, *other));
    }

    /// The other handles of the object that this one leads to, as far as they are known.
    pub(crate) fn other_handles(&self, handle: Key) -> Vec<Key> {
        self.twins.of(handle)
    }

    fn meet(&self, now: Time, id: FileId, handle: Key, tell: bool) -> Met {
        let cached = |handle: Key| self.part(handle).cache.contains(&Of(handle).attributes().key);
        let met = self.twins.meet(id, handle, tell, cached);
        met.lost.iter().chain(&met.untied).for_each(|lost| self.gone(now, *lost));
        met
    }

    /// The slow loop's part.
    pub(crate) fn tick(&self, now: Time) {
        let mut hits = [0; Kind::ALL.len()];
        for part in &self.parts {
            let cache = &mut lock(part).cache;
            cache.tick(now);
            hits.iter_mut().zip(Kind::ALL).for_each(|(hits, kind)| *hits += cache.hits(kind.class()));
        }
        let of = |class| Kind::ALL.iter().position(|kind| kind.class() == class).map_or(0, |kind| hits[kind]);
        lock(&self.lessons).tick(now, of);
        for kind in Kind::ALL.into_iter().filter(|kind| kind.measured() == *kind) {
            self.teach(kind.class());
        }
    }

    /// For how long entries of a kind live in ttl mode, on average over the parts.
    pub(crate) fn ttl(&self, kind: Kind) -> Span {
        let of_part = |part: &Mutex<Part>| lock(part).cache.ttl_of(kind.class()).as_nanos() / self.parts.len() as u64;
        Span::from_nanos(self.parts.iter().map(of_part).fold(0, u64::saturating_add))
    }

    /// All parts go by what they learned together, and kinds that are not checked by what was learned of those that are.
    fn teach(&self, class: Class) {
        // Held over all parts: a newer lesson comes after this one.
        let lessons = lock(&self.lessons);
        let course = lessons.course(class);
        for part in &self.parts {
            let (mut part, like_it) = (lock(part), |kind: &Kind| kind.measured().class() == class);
            Kind::ALL.into_iter().filter(like_it).for_each(|kind| part.cache.follow(kind.class(), course));
        }
    }

    /// A read leaves now: what it brings may be learned later.
    pub(crate) fn left(&self, now: Time) -> Left {
        self.clock.left(now)
    }

    /// What it did and holds.
    pub(crate) fn stats(&self) -> Vec<Stats> {
        let with_keys = |stats: Stats| Stats { bytes: stats.bytes + stats.entries * KEY, ..stats };
        self.parts.iter().map(|part| with_keys(lock(part).cache.stats())).collect()
    }

    /// Answers that were compared with the server's since the mode was set, and those that differed.
    pub(crate) fn comparisons(&self) -> (u64, u64) {
        let mut sum = (0, 0);
        for part in &self.parts {
            let guard = lock(part).cache.watched();
            sum = (sum.0 + guard.samples, sum.1 + guard.differences.saturating_sub(guard.dismissed));
        }
        let lessons = lock(&self.lessons);
        let stale = Kind::ALL.map(|kind| lessons.staleness(kind.class()));
        stale.iter().fold(sum, |sum, stale| (sum.0 + stale.samples, sum.1 + stale.stale))
    }

    fn part(&self, place: Key) -> MutexGuard<'_, Part> {
        lock(&self.parts[part_of(place)])
    }
}

impl Loose {
    /// One of them has ended so; it may run on for a while where that is not known.
    fn hold(&self, now: Time, ended: Ended, hold: Span) {
        let until = match ended {
            Ended::Done => return,
            Ended::Unknown => now + hold,
            Ended::Until(until) => until,
        };
        self.until.fetch_max(until.as_nanos(), Ordering::Relaxed);
    }

    fn none(&self, now: Time) -> bool {
        self.running.load(Ordering::SeqCst) == 0 && now.as_nanos() >= self.until.load(Ordering::Relaxed)
    }
}

/// The keys that guard everything that is kept of an object: its attributes, who may do what, where its names lead.
pub(crate) const fn guards(object: Key) -> [Key; 3] {
    [Of(object).attributes().key, Of(object).permission(), Of(object).children().key]
}

/// The part that an object's entries are in.
fn part_of(place: Key) -> usize {
    (place.0 % PARTS as u64) as usize
}

/// Parts of the key space.
pub(crate) const PARTS: usize = 64;
/// What a value takes besides its bytes: the allocator's share.
pub(crate) const ENTRY_OVERHEAD: usize = 16;
/// What a remembered key takes: its slot, and its places in the index (up to 12 bytes), the queues (12) and the ghost (16).
const KEY: usize = Cache::<Key, Box<[u8]>>::SLOT + 40;
/// How fine a server's times are that does not say: those of old file systems.
const GRAIN: Span = Span::from_secs(1);
/// Keys of a part that are remembered as changed.
const CHANGED: usize = 64;
/// A usual entry, most of which are names: as many are remembered as would fit.
const ENTRY_USUAL: usize = KEY + ENTRY_OVERHEAD + 56;
