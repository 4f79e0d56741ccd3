//! Plays a history in the order of time: begins and ends calls on every register that they touch.

use crate::Mode;
use crate::file::{BadHistory, Blocks};
use crate::frontier::{Frontier, Verdict};
use crate::meaning::{Key, Sure, meaning};
use crate::record::{ABSENT, Kind, Name, Place, Record, SILENT, status};
use crate::report::{Count, Report, Violation};
use crate::staleness::Staleness;
use crate::step::{Need, Step, Then};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;

/// Checks files; `watch` is told now and then how many calls of how many are done.
pub fn check(paths: &[PathBuf], mode: Mode, watch: &mut dyn FnMut(u64, u64)) -> Result<Report, BadHistory> {
    let mut blocks = Blocks::open(paths)?;
    let (total, mut done) = (blocks.total(), 0_u64);
    let mut checker = Checker::new(mode);
    for record in &mut blocks {
        checker.add(record?);
        done += 1;
        if done.is_multiple_of(TOLD) {
            watch(done, total);
        }
    }
    Ok(checker.finish())
}

/// A check under way.
#[derive(Debug)]
pub struct Checker {
    mode: Mode,
    registers: Registers,
    /// Calls under way by their end.
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    under_way: HashMap<u64, UnderWay, foldhash::fast::FixedState>,
    /// The names of every directory that were ever touched.
    names: HashMap<u32, BTreeSet<Name>>,
    /// The latest ctime that an ended call saw.
    times: Generations<u64, u64>,
    /// Times of change that ran backwards; the next look at the object says whether they were torn.
    backwards: Vec<Backwards>,
    /// A CREATE over an unknown file was not answered: any size may have become 0.
    cut: bool,
    number: u64,
    first: u64,
    last: u64,
    /// Calls of each kind.
    kinds: BTreeMap<Kind, Count>,
    report: Report,
}

#[derive(Debug)]
struct UnderWay {
    record: Rc<Record>,
    /// The steps that are still open.
    open: Vec<(Key, Step, usize)>,
    /// For every object seen: the latest ctime that was known when the call began.
    floors: Vec<u64>,
}

/// An object's time of change that is before one that was known.
#[derive(Debug)]
struct Backwards {
    object: u64,
    ctime: u64,
    known: u64,
    record: Rc<Record>,
}

impl Backwards {
    /// Whether it has the seconds of the time that was known and the nanoseconds of the one after.
    fn torn(&self, after: u64) -> bool {
        self.ctime / SECOND == self.known / SECOND && self.ctime % SECOND == after % SECOND
    }
}

impl Checker {
    /// Before the first call.
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            registers: Registers::default(),
            ends: BinaryHeap::new(),
            under_way: HashMap::default(),
            names: HashMap::new(),
            times: Generations::default(),
            backwards: Vec::new(),
            cut: false,
            number: 0,
            first: u64::MAX,
            last: 0,
            kinds: BTreeMap::new(),
            report: Report::default(),
        }
    }

    /// The next call by its start.
    pub fn add(&mut self, record: Record) {
        // Of calls that begin and end at one moment nobody knows the order: they overlap.
        while self.ends.peek().is_some_and(|end| end.0.0 < record.start) {
            self.end_next();
        }
        self.count(&record);
        let unknown = record_is_lost(&record);
        let record = Rc::new(record);
        let mut open = Vec::new();
        let newcomers = self.newcomers(&record);
        for (key, step, sure) in self.steps(&record, &newcomers) {
            self.begin((key, step, sure), unknown, &record, &mut open);
        }
        if unknown {
            self.cut |= record.kind == Kind::CreateOver;
            return;
        }
        let known = |object: u64| if newcomers.contains(&object) { None } else { self.times.get(&object).copied() };
        let floors = record.seen.iter().map(|seen| known(seen.object).unwrap_or(0)).collect();
        self.ends.push(Reverse((record.end, self.number)));
        self.under_way.insert(self.number, UnderWay { record, open, floors });
        self.report.concurrency = self.report.concurrency.max(self.under_way.len());
    }

    /// After the last call.
    pub fn finish(mut self) -> Report {
        while !self.ends.is_empty() {
            self.end_next();
        }
        for backwards in std::mem::take(&mut self.backwards) {
            self.ran_backwards(&backwards);
        }
        let mut report = self.report;
        report.kinds = self.kinds.into_values().collect();
        report.kinds.sort_by_key(|count| Reverse(count.calls));
        (report.registers, report.forgotten) = (self.registers.made, self.registers.objects.forgotten);
        report.objects = self.times.made;
        report.seconds = self.last.saturating_sub(self.first) as f64 / 1e9;
        report
    }

    fn count(&mut self, record: &Record) {
        self.number += 1;
        self.report.calls += 1;
        let kind = record.kind.name();
        let count = self.kinds.entry(record.kind).or_insert(Count { kind, calls: 0, done: 0, silent: 0 });
        count.calls += 1;
        count.done += u64::from(record.status == status::OK);
        count.silent += u64::from(record.status == SILENT);
        (self.first, self.last) = (self.first.min(record.start), self.last.max(record.end));
        self.report.unknown += u64::from(record_is_lost(record));
    }

    /// What a call means, with the names that a whole listing does not show.
    fn steps(&mut self, record: &Record, newcomers: &HashSet<u64>) -> Vec<(Key, Step, Sure)> {
        let mut steps = Vec::new();
        meaning(record, |key, step, sure| steps.push((key, step, sure)));
        steps.retain(|(key, step, _)| self.registers.keeps(*key, *step) && self.is_checked(*key));
        steps.retain(|(key, _, _)| key.object().is_none_or(|object| !newcomers.contains(&object)));
        for (key, _, _) in &steps {
            if let Key::Name(dir, name) = key {
                self.names.entry(*dir).or_default().insert(*name);
            }
        }
        if let (Kind::CreateOver, Some(Place { dir, name: Some(name) })) = (record.kind, record.at) {
            self.cut_others(Key::Name(dir, name), record.found, &mut steps);
        }
        if let (true, Some(at)) = (record.complete, record.at) {
            let shown: BTreeSet<Name> = record.names.iter().map(|(name, _)| *name).collect();
            let known = self.names.get(&at.dir).into_iter().flatten();
            let missing = known.filter(|name| !shown.contains(name));
            let absent = Step::read(Need::Is(ABSENT));
            steps.extend(missing.map(|name| (Key::Name(at.dir, *name), absent, Sure::Yes)));
        }
        if self.cut {
            let perhaps = |step: &Step| *step == Step::read(Need::Is(0));
            let cut = steps.iter_mut().filter(|(key, step, _)| matches!(key, Key::Size(_)) && perhaps(step));
            cut.for_each(|(_, step, _)| *step = Step::write(Then::Set(0)));
        }
        steps
    }

    /// What came to its name while a listing with attributes ran: the listing may show it with those of what the name led to before.
    fn newcomers(&mut self, record: &Record) -> HashSet<u64> {
        let (Kind::Readdirplus, Some(Place { dir, .. })) = (record.kind, record.at) else { return HashSet::new() };
        let mut shown: HashSet<u64> = HashSet::new();
        for (name, object) in record.names.iter().filter(|(_, object)| *object != ABSENT) {
            let there = match &self.registers.of(Key::Name(dir, *name), self.mode).state {
                State::Exact(frontier) => frontier.rests_at(*object),
                State::Bounded(_) => true,
            };
            if !there || self.times.get(object).is_none() {
                shown.insert(*object);
            }
        }
        shown
    }

    /// What a CREATE cuts is what the name leads to when it is opened, which may not be what is found afterwards.
    fn cut_others(&mut self, name: Key, found: u64, steps: &mut Vec<(Key, Step, Sure)>) {
        let State::Exact(frontier) = &self.registers.of(name, self.mode).state else { return };
        for object in frontier.values().into_iter().filter(|object| ![ABSENT, found].contains(object)) {
            let zero = Step::write(Then::Set(0));
            steps.extend([Key::Size(object), Key::Mtime(object)].map(|key| (key, zero, Sure::Perhaps)));
        }
    }

    /// How many links there are is not a version that anyone wrote: it has no age.
    fn is_checked(&self, key: Key) -> bool {
        !matches!((self.mode, key), (Mode::Bounded(_), Key::Links(_)))
    }

    fn begin(
        &mut self,
        (key, step, sure): (Key, Step, Sure),
        lost: bool,
        record: &Rc<Record>,
        open: &mut Vec<(Key, Step, usize)>,
    ) {
        self.report.steps += 1;
        let register = self.registers.of(key, self.mode);
        match &mut register.state {
            State::Exact(frontier) => {
                let begun = frontier.begin(step, lost || sure == Sure::Perhaps);
                self.report.undecided += u64::from(begun.is_err());
                if let (Ok(Some(place)) | Err(place), false) = (begun, lost) {
                    open.push((key, step, place));
                }
            }
            State::Bounded(staleness) => {
                staleness.begin(step);
                if !lost && sure == Sure::Yes {
                    open.push((key, step, 0));
                }
            }
        }
        if !step.is_read() {
            register.changed(record);
        }
    }

    fn end_next(&mut self) {
        let Some(Reverse((now, number))) = self.ends.pop() else { return };
        let Some(UnderWay { record, open, floors }) = self.under_way.remove(&number) else { return };
        for (key, step, place) in open {
            self.end(now, key, step, place, &record);
        }
        for (seen, floor) in record.seen.iter().zip(floors) {
            let newest = self.times.get(&seen.object).copied().unwrap_or(0);
            self.times.insert(seen.object, newest.max(seen.ctime));
            self.settle_backwards(seen.object, seen.ctime);
            if seen.ctime < floor && self.mode == Mode::Linearizable {
                let (object, ctime, record) = (seen.object, seen.ctime, Rc::clone(&record));
                self.backwards.push(Backwards { object, ctime, known: floor, record });
            }
        }
    }

    /// An object was seen again: of the times of it that ran backwards it is now known whether they were torn.
    fn settle_backwards(&mut self, object: u64, after: u64) {
        if self.backwards.is_empty() {
            return;
        }
        let (known, open) = std::mem::take(&mut self.backwards)
            .into_iter()
            .partition::<Vec<_>, _>(|backwards| backwards.object == object && after > backwards.known);
        self.backwards = open;
        for backwards in known {
            match backwards.torn(after) {
                true => self.report.torn += 1,
                false => self.ran_backwards(&backwards),
            }
        }
    }

    fn ran_backwards(&mut self, Backwards { object, ctime, known, record }: &Backwards) {
        self.violation(|| Violation {
            register: format!("ctime of {}", crate::record::short(*object)),
            call: record.to_string(),
            saw: format!("was {ctime} though an earlier call had seen {known}"),
            changes: Vec::new(),
        });
    }

    fn end(&mut self, now: u64, key: Key, step: Step, place: usize, record: &Rc<Record>) {
        let register = self.registers.of(key, self.mode);
        let verdict = match (&mut register.state, self.mode) {
            (State::Exact(frontier), _) => frontier.end(place),
            (State::Bounded(staleness), Mode::Bounded(bound)) => {
                staleness.end(step, record.start, now);
                staleness.trim(now, bound);
                let fine = !step.is_read() || staleness.admits(step.need, record.start, bound);
                if fine { Verdict::Fine } else { Verdict::Impossible }
            }
            (State::Bounded(_), Mode::Linearizable) => Verdict::Fine,
        };
        match verdict {
            Verdict::Fine => {}
            Verdict::TooMany => self.report.undecided += 1,
            Verdict::Impossible if matches!(key, Key::Name(..)) && record.is_presumed() => self.report.presumed += 1,
            Verdict::Impossible => {
                let changes: Vec<Rc<Record>> = register.changes.iter().cloned().collect();
                self.violation(|| Violation {
                    register: key.to_string(),
                    call: record.to_string(),
                    saw: key.words(step.need),
                    changes: changes.iter().map(ToString::to_string).collect(),
                });
            }
        }
    }

    fn violation(&mut self, words: impl FnOnce() -> Violation) {
        self.report.violations += 1;
        if self.report.shown.len() < Report::SHOWN {
            self.report.shown.push(words());
        }
    }
}

/// Whether it may have changed something without anyone knowing.
fn record_is_lost(record: &Record) -> bool {
    record.kind.changes() && record.is_unknown()
}

/// Registers: names for ever, attributes as long as their objects are in use.
#[derive(Debug, Default)]
struct Registers {
    names: HashMap<Key, Register, foldhash::fast::FixedState>,
    objects: Generations<Key, Register>,
    made: u64,
}

#[derive(Clone, Debug)]
struct Register {
    state: State,
    /// The latest changes, for words.
    changes: VecDeque<Rc<Record>>,
}

#[derive(Clone, Debug)]
enum State {
    Exact(Frontier),
    Bounded(Staleness),
}

impl Registers {
    /// Links are counted only where every name is known.
    fn keeps(&self, key: Key, step: Step) -> bool {
        !matches!(key, Key::Links(_)) || matches!(step.then, Then::Set(_)) || self.names.contains_key(&key)
    }

    fn of(&mut self, key: Key, mode: Mode) -> &mut Register {
        let made = &mut self.made;
        let make = || {
            *made += 1;
            let state = match mode {
                Mode::Linearizable => State::Exact(Frontier::new(key.initial())),
                Mode::Bounded(_) => State::Bounded(Staleness::new(key.initial())),
            };
            Register { state, changes: VecDeque::new() }
        };
        match key {
            Key::Name(..) | Key::Links(_) => self.names.entry(key).or_insert_with(make),
            Key::Size(_) | Key::Mtime(_) | Key::Mode(_) | Key::Text(_) => self.objects.of(key, make),
        }
    }
}

impl Register {
    fn changed(&mut self, record: &Rc<Record>) {
        if self.changes.len() == CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back(Rc::clone(record));
    }
}

/// A map that forgets what was not used for longest, in two generations.
#[derive(Debug)]
struct Generations<K, V> {
    young: HashMap<K, V, foldhash::fast::FixedState>,
    old: HashMap<K, V, foldhash::fast::FixedState>,
    made: u64,
    forgotten: u64,
}

impl<K, V> Default for Generations<K, V> {
    fn default() -> Self {
        Self { young: HashMap::default(), old: HashMap::default(), made: 0, forgotten: 0 }
    }
}

impl<K: Copy + Eq + std::hash::Hash, V> Generations<K, V> {
    fn of(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        if !self.young.contains_key(&key) {
            if self.young.len() >= GENERATION {
                self.forgotten += self.old.len() as u64;
                self.old = std::mem::take(&mut self.young);
            }
            let value = self.old.remove(&key).unwrap_or_else(|| {
                self.made += 1;
                make()
            });
            self.young.insert(key, value);
        }
        self.young.get_mut(&key).expect("it is there by now")
    }

    fn get(&self, key: &K) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }
}

impl Generations<u64, u64> {
    fn insert(&mut self, key: u64, value: u64) {
        *self.of(key, || value) = value;
    }
}

/// Registers of objects in a generation: about 200 bytes each.
const GENERATION: usize = 500_000;
/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// Changes that are told with a violation.
const CHANGES: usize = 4;
/// Calls between two words about progress.
const TOLD: u64 = 1 << 16;
