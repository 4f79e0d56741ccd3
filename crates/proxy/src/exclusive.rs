//! The turn of a call at what it changes: two names of RENAME, one of other calls on names.
//!
//! A non-idempotent call takes its turn before it is first sent and keeps it until it is answered,
//! wherever it waits meanwhile. So nobody else changes the same through this proxy while it is not
//! known whether the call was executed, and a look at a server decides. A call that was moved away
//! from its server leaves a late copy there, which may still run: until the server has answered it,
//! is fenced, or `server_hold_max` is over, nothing else changes what the copy would change, WRITEs
//! included. The members of a cluster tell each other of their late copies (`accord::late`), which
//! count here like this proxy's own.
//!
//! Whoever must wait stands in a queue for each key and is woken by mail. Keys are taken in order,
//! so two calls cannot wait for each other.

use crate::event::{Mail, Mailbox};
use crate::key_map::KeyMap;
use crate::pool::lock;
use crate::translate::{Kind, Meaning};
use crate::verify::Before;
use midas_core::id::ServerId;
use midas_core::key::Key;
use midas_core::op::Op;
use midas_core::peer::lease::{Life, Operation};
use midas_core::time::Time;
use midas_nfs::nfs3::Procedure;
use std::collections::hash_map::Entry::Occupied;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// The keys that calls have taken, and who waits for them.
#[derive(Default)]
pub(crate) struct Turns {
    parts: [Mutex<KeyMap<Entry>>; PARTS],
    /// Late copies, by their numbers.
    late: Mutex<BTreeMap<u64, Late>>,
    /// How many there are: WRITEs look here alone while there is none.
    late_count: AtomicUsize,
    /// The next one's number. No two have one: an answer may come when its copy is forgotten.
    late_next: AtomicU64,
    /// How many late copies of this proxy have ended so far.
    late_ends: AtomicU64,
    /// Late copies of other members, by who left them and their numbers there.
    told: Mutex<HashMap<(Life, u64), Told>>,
    /// How many of those there are.
    told_count: AtomicUsize,
    mailboxes: OnceLock<Vec<Mailbox>>,
}

#[derive(Debug, Default)]
struct Entry {
    taken: bool,
    /// Late copies of calls that would change it.
    late: u32,
    /// Those of other members among them.
    told: u32,
    waiting: VecDeque<Waiter>,
}

/// A call that waits: its event loop, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) event_loop: usize,
    pub(crate) number: usize,
}

/// A sending at a server that its call was moved away from.
#[derive(Debug)]
struct Late {
    keys: Keys,
    at: Place,
    until: Time,
}

/// A late copy of another member.
#[derive(Debug)]
struct Told {
    keys: Keys,
    /// The call that left it.
    of: Operation,
    until: Time,
}

/// Who left a late copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Us,
    Another,
}

/// A server: the number of its pool, and its own.
pub(crate) type Place = (usize, ServerId);
/// What a call changes.
pub(crate) type Keys = [Option<Key>; 2];
/// No server that could be fenced.
pub(crate) const NOWHERE: Place = (usize::MAX, ServerId(0));

/// A call's turn.
#[derive(Debug)]
pub(crate) struct Exclusive {
    guard: Guard,
    /// What the first server says of the call, if it is moved away from there.
    pub(crate) first: Option<Arc<OnceLock<Box<[u8]>>>>,
    /// What is known of the time before it was executed.
    pub(crate) before: Before,
    /// Whether its first name resolved to something when a server was asked, before the call was sent again: what is
    /// there later may be the first sending's doing.
    pub(crate) seen: Option<bool>,
    /// Whether it has waited for late copies on the file that its name resolves to.
    waited_for_file: bool,
}

/// Keys that are taken until this is dropped.
struct Guard {
    turns: Arc<Turns>,
    /// In order; each once.
    keys: Keys,
    /// How many of them are taken.
    taken: u8,
    /// Whether it only waits for late copies: WRITE and SETATTR.
    passes: bool,
    /// Late copies of the call itself; none for most calls.
    copies: Option<Box<Copies>>,
}

/// Late copies of a call.
#[derive(Debug, Default)]
struct Copies {
    /// The numbers of those that it has left behind.
    left: Vec<u64>,
    /// One that is over when the call is.
    own: Option<u64>,
}

impl Exclusive {
    /// What a call must wait for; none for a call that waits for nobody.
    #[inline]
    pub(crate) fn needed(turns: &Arc<Turns>, meaning: &Meaning, procedure: Procedure) -> Option<Self> {
        // SETATTRs of a file that many set at once would wait for each other's round trips: where
        // two of them are in doubt together either may be the last.
        let sets = procedure == Procedure::Setattr;
        let passes = procedure.idempotent() || sets;
        if passes && (!turns.some_late() || !(sets || matches!(meaning.kind, Kind::Write { .. }))) {
            return None;
        }
        Some(Self::of(turns, keys(meaning), passes))
    }

    /// For a call that is not kept back by anybody.
    pub(crate) fn moved(turns: &Arc<Turns>) -> Self {
        Self::of(turns, [None; 2], true)
    }

    fn of(turns: &Arc<Turns>, keys: Keys, passes: bool) -> Self {
        let guard = Guard { turns: Arc::clone(turns), keys, taken: 0, passes, copies: None };
        Self { guard, first: None, before: Before::Unknown, seen: None, waited_for_file: false }
    }

    /// The call has left this late copy behind.
    pub(crate) fn left_copy(&mut self, number: u64) {
        self.guard.copies.get_or_insert_default().left.push(number);
    }

    /// The late copies that the call has left behind.
    pub(crate) fn copies(&self) -> &[u64] {
        self.guard.copies.as_ref().map_or(&[], |copies| &copies.left)
    }

    /// Whether the call has its turn and must not leave: another member has told of a late copy that
    /// may still change the same. WRITE and SETATTR that were moved away themselves pass.
    pub(crate) fn kept_back(&self) -> bool {
        let Guard { turns, keys, taken, passes, .. } = &self.guard;
        let looks = turns.some_told() && !(*passes && self.first.is_some());
        looks && keys.iter().take(usize::from(*taken)).flatten().any(|key| turns.is_told(*key))
    }

    /// The call was answered, and has cut this file to a size: a late copy of it would do so again.
    pub(crate) fn keeps_file(&self, file: Key) {
        self.copies().iter().for_each(|copy| self.guard.turns.keep_also(*copy, file));
    }

    /// Whether there is any use in asking [`Exclusive::waits_for_file`].
    pub(crate) fn may_wait_for_file(&self) -> bool {
        !self.waited_for_file && self.guard.turns.some_late()
    }

    /// Whether the call, which has cut this file to a size, must wait and do so again: a late copy of a
    /// WRITE may still run there. It waits once.
    pub(crate) fn waits_for_file(&mut self, file: Key) -> bool {
        if self.waited_for_file || !self.guard.turns.is_late(file) {
            return false;
        }
        self.waited_for_file = true;
        let free = self.guard.keys.iter_mut().find(|key| key.is_none());
        free.map(|free| *free = Some(file)).is_some()
    }

    /// Takes what it needs and is free. Whether it has all; otherwise whoever waits is woken when that is free.
    pub(crate) fn take(&mut self, waiter: Option<Waiter>, woken: bool) -> bool {
        let mut woken = woken;
        while let Some(key) = self.waits_for() {
            if !self.guard.turns.take(key, self.guard.passes, waiter, woken) {
                return false;
            }
            self.guard.taken += 1;
            woken = false;
        }
        true
    }

    /// The key that it must wait for next.
    pub(crate) fn waits_for(&self) -> Option<Key> {
        self.guard.keys.get(usize::from(self.guard.taken)).copied().flatten()
    }

    /// The turn of a call that the life before this one has sent. What the call would change is kept
    /// from others until it is over: their changes would make the look at a server worthless.
    pub(crate) fn sent_before(turns: &Arc<Turns>, keys: Keys) -> Self {
        let mut turn = Self { first: Some(Arc::default()), ..Self::moved(turns) };
        turn.guard.copies.get_or_insert_default().own = Some(turns.leave_keys(keys, NOWHERE, Time::FAR));
        turn
    }

    /// The turn of a call that another member has sent: it waits for no late copy of its own, which
    /// keeps others from what it would change.
    pub(crate) fn sent_elsewhere(turns: &Arc<Turns>) -> Self {
        Self { first: Some(Arc::default()), ..Self::moved(turns) }
    }

    /// For a call that was answered before, so.
    pub(crate) fn answered(turns: &Arc<Turns>, results: Box<[u8]>) -> Self {
        Self { first: Some(Arc::new(OnceLock::from(results))), ..Self::moved(turns) }
    }

    /// The first server's answer, if it came.
    pub(crate) fn first_answer(&self) -> Option<&[u8]> {
        self.first.as_ref().and_then(|first| first.get()).map(|answer| &answer[..])
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(own) = self.copies.as_ref().and_then(|copies| copies.own) {
            self.turns.answered(own);
        }
        if !self.passes {
            self.keys.iter().take(usize::from(self.taken)).flatten().for_each(|key| self.turns.release(*key));
        }
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("keys", &self.keys).field("taken", &self.taken).finish_non_exhaustive()
    }
}

/// What a call changes, in the order in which it is taken.
pub(crate) fn keys(meaning: &Meaning) -> Keys {
    let second = meaning.second.filter(|_| meaning.op == Op::Rename).map(|(_, name)| name);
    match second.filter(|second| *second != meaning.object) {
        Some(second) => [Some(meaning.object.min(second)), Some(meaning.object.max(second))],
        None => [Some(meaning.object), None],
    }
}

impl Turns {
    /// How event loops are woken, once they are there.
    pub(crate) fn wake_by(&self, mailboxes: Vec<Mailbox>) {
        // Set once, before any call comes.
        let _first = self.mailboxes.set(mailboxes);
    }

    fn part(&self, key: Key) -> &Mutex<KeyMap<Entry>> {
        &self.parts[(key.0 % PARTS as u64) as usize]
    }

    /// Takes a key, or passes it; if that must wait, in its queue. Who was woken goes before the queue.
    fn take(&self, key: Key, passes: bool, waiter: Option<Waiter>, woken: bool) -> bool {
        let mut part = lock(self.part(key));
        if passes {
            let Some(entry) = part.get_mut(&key).filter(|entry| entry.late > 0) else {
                // Nobody is kept from the next one by this.
                let next = part.get_mut(&key).filter(|_| woken).and_then(Entry::next);
                if next.is_none() && part.get(&key).is_some_and(Entry::idle) {
                    part.remove(&key);
                }
                drop(part);
                self.wake(key, next);
                return true;
            };
            entry.wait(waiter, woken);
            return false;
        }
        let entry = part.entry(key).or_default();
        if entry.taken || entry.late > 0 || !woken && !entry.waiting.is_empty() {
            entry.wait(waiter, woken);
            return false;
        }
        entry.taken = true;
        true
    }

    fn release(&self, key: Key) {
        let mut part = lock(self.part(key));
        let Occupied(mut entry) = part.entry(key) else { return };
        entry.get_mut().taken = false;
        let next = entry.get_mut().next();
        if entry.get().idle() && next.is_none() {
            entry.remove();
        }
        drop(part);
        self.wake(key, next);
    }

    /// A call waits for this key no longer.
    pub(crate) fn give_up(&self, key: Key, waiter: Waiter) {
        let mut part = lock(self.part(key));
        let Some(entry) = part.get_mut(&key) else { return };
        entry.waiting.retain(|waiting| *waiting != waiter);
        if entry.idle() {
            part.remove(&key);
        }
    }

    /// Whoever was woken for this key is not there any more, or waits for another: the next one is woken.
    pub(crate) fn pass_on(&self, key: Key) {
        let mut part = lock(self.part(key));
        let next = part.get_mut(&key).and_then(Entry::next);
        if next.is_none() && part.get(&key).is_some_and(Entry::idle) {
            part.remove(&key);
        }
        drop(part);
        self.wake(key, next);
    }

    fn wake(&self, key: Key, next: Option<Waiter>) {
        if let (Some(Waiter { event_loop, number }), Some(mailboxes)) = (next, self.mailboxes.get()) {
            mailboxes[event_loop].send(Mail::Turn { number, key });
        }
    }

    #[inline]
    fn some_late(&self) -> bool {
        self.late_count.load(Ordering::Acquire) > 0 || self.some_told()
    }

    /// A call was moved away from a server that may still execute it until then; the number of its late copy.
    pub(crate) fn leave(&self, meaning: &Meaning, at: Place, until: Time) -> u64 {
        self.leave_keys(keys(meaning), at, until)
    }

    /// The same of a call that would change these.
    pub(crate) fn leave_keys(&self, keys: Keys, at: Place, until: Time) -> u64 {
        self.may_run(keys, By::Us);
        let number = self.late_next.fetch_add(1, Ordering::Relaxed);
        let mut late = lock(&self.late);
        late.insert(number, Late { keys, at, until });
        self.late_count.store(late.len(), Ordering::Release);
        let oldest = late.first_key_value().map(|(oldest, _)| *oldest).filter(|_| late.len() > LATE_MAX);
        drop(late);
        if let Some(oldest) = oldest {
            self.answered(oldest);
        }
        number
    }

    /// A late copy, if it may still run, would change this as well.
    fn keep_also(&self, number: u64, key: Key) {
        lock(self.part(key)).entry(key).or_default().late += 1;
        let mut late = lock(&self.late);
        let free = late.get_mut(&number).and_then(|late| late.keys.iter_mut().find(|key| key.is_none()));
        let kept = free.map(|free| *free = Some(key)).is_some();
        drop(late);
        if !kept {
            self.run_no_more([Some(key), None], By::Us);
        }
    }

    /// Another member has left a late copy, or it would change other keys than was told before.
    /// Whether it is remembered: no more than so many are.
    pub(crate) fn heard(&self, whose: (Life, u64), keys: Keys, of: Operation, until: Time) -> bool {
        self.may_run(keys, By::Another);
        let mut told = lock(&self.told);
        let taken = told.len() < LATE_MAX || told.contains_key(&whose);
        let before = match taken {
            true => told.insert(whose, Told { keys, of, until }).map(|before| before.keys),
            false => Some(keys),
        };
        self.told_count.store(told.len(), Ordering::Release);
        drop(told);
        if let Some(keys) = before {
            self.run_no_more(keys, By::Another);
        }
        taken
    }

    /// Whether another member has left late copies.
    pub(crate) fn some_told(&self) -> bool {
        self.told_count.load(Ordering::Acquire) > 0
    }

    /// Whether this call has left a late copy at another member.
    pub(crate) fn was_sent_elsewhere(&self, of: Operation) -> bool {
        lock(&self.told).values().any(|told| told.of == of)
    }

    /// A late copy of another member cannot run any more.
    pub(crate) fn heard_over(&self, whose: (Life, u64)) {
        let mut told = lock(&self.told);
        let ended = told.remove(&whose);
        self.told_count.store(told.len(), Ordering::Release);
        drop(told);
        if let Some(told) = ended {
            self.run_no_more(told.keys, By::Another);
        }
    }

    fn expire_told(&self, now: Time) {
        let mut told = lock(&self.told);
        let ended: Vec<Told> = told.extract_if(|_, told| told.until <= now).map(|(_, told)| told).collect();
        self.told_count.store(told.len(), Ordering::Release);
        drop(told);
        for told in ended {
            self.run_no_more(told.keys, By::Another);
        }
    }

    /// Whether a late copy of another member may still change this.
    fn is_told(&self, key: Key) -> bool {
        lock(self.part(key)).get(&key).is_some_and(|entry| entry.told > 0)
    }

    /// Those of these late copies of this proxy that are over.
    pub(crate) fn over(&self, numbers: impl Iterator<Item = u64>) -> Vec<u64> {
        let late = lock(&self.late);
        numbers.filter(|number| !late.contains_key(number)).collect()
    }

    /// How many late copies of this proxy have ended so far.
    pub(crate) fn ends(&self) -> u64 {
        self.late_ends.load(Ordering::Acquire)
    }

    /// Whether a late copy may still change this.
    fn is_late(&self, key: Key) -> bool {
        self.some_late() && lock(self.part(key)).get(&key).is_some_and(|entry| entry.late > 0)
    }

    /// A late copy has been answered: it cannot run any more.
    pub(crate) fn answered(&self, number: u64) {
        self.end(|other, _| other == number);
    }

    /// No call that was sent to this server before can run any more.
    pub(crate) fn fenced(&self, at: Place) {
        self.end(|_, late| late.at == at);
    }

    /// Late copies whose time is over.
    pub(crate) fn expire(&self, now: Time) {
        if self.some_late() {
            self.end(|_, late| late.until <= now);
            self.expire_told(now);
        }
    }

    /// Late copies that may still run at a server, and of all servers.
    pub(crate) fn late_at(&self, at: Place) -> usize {
        lock(&self.late).values().filter(|late| late.at == at).count()
    }

    fn end(&self, over: impl Fn(u64, &Late) -> bool) {
        let mut late = lock(&self.late);
        let numbers: Vec<u64> =
            late.iter().filter(|(number, late)| over(**number, late)).map(|(number, _)| *number).collect();
        let ended: Vec<Keys> = numbers.iter().filter_map(|number| late.remove(number)).map(|it| it.keys).collect();
        self.late_count.store(late.len(), Ordering::Release);
        drop(late);
        self.late_ends.fetch_add(ended.len() as u64, Ordering::Release);
        for keys in ended {
            self.run_no_more(keys, By::Us);
        }
    }

    /// One late copy more would change these.
    fn may_run(&self, keys: Keys, by: By) {
        for key in keys.iter().flatten() {
            let mut part = lock(self.part(*key));
            let entry = part.entry(*key).or_default();
            entry.late += 1;
            entry.told += u32::from(by == By::Another);
        }
    }

    /// One late copy less would change these.
    fn run_no_more(&self, keys: Keys, by: By) {
        for key in keys.iter().flatten() {
            let mut part = lock(self.part(*key));
            let Some(entry) = part.get_mut(key) else { continue };
            entry.late = entry.late.saturating_sub(1);
            entry.told = entry.told.saturating_sub(u32::from(by == By::Another));
            // WRITEs that wait need not wait for each other.
            let next = if entry.late == 0 && !entry.taken { entry.next() } else { None };
            if entry.idle() && next.is_none() {
                part.remove(key);
            }
            drop(part);
            self.wake(*key, next);
        }
    }
}

impl Entry {
    fn wait(&mut self, waiter: Option<Waiter>, woken: bool) {
        match waiter {
            Some(waiter) if woken => self.waiting.push_front(waiter),
            Some(waiter) => self.waiting.push_back(waiter),
            None => {}
        }
    }

    /// The next one that waits, if the key is free.
    fn next(&mut self) -> Option<Waiter> {
        if self.taken || self.late > 0 { None } else { self.waiting.pop_front() }
    }

    fn idle(&self) -> bool {
        !self.taken && self.late == 0 && self.waiting.is_empty()
    }
}

/// Parts of the key space, each behind a short lock.
const PARTS: usize = 32;
/// Late copies that are remembered: beyond, the oldest is taken for over. Of other members as many:
/// beyond, none is taken.
const LATE_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use midas_nfs::nfs3::{Call, DirOp, FileHandle, StableHow};

    const OF: Operation = Operation(1);
    const WAITS: Option<Waiter> = Some(Waiter { event_loop: 0, number: 7 });

    fn named(name: &[u8]) -> DirOp<'_> {
        DirOp { dir: FileHandle::new(b"dir").unwrap(), name }
    }

    fn turn(turns: &Arc<Turns>, call: &Call<'_>) -> Option<Exclusive> {
        Exclusive::needed(turns, &Meaning::of(call).unwrap(), call.procedure())
    }

    fn remove(turns: &Arc<Turns>, name: &[u8]) -> Exclusive {
        turn(turns, &Call::Remove { object: named(name) }).unwrap()
    }

    fn write(turns: &Arc<Turns>) -> Option<Exclusive> {
        let file = FileHandle::new(b"file").unwrap();
        turn(turns, &Call::Write { file, offset: 0, count: 1, stable: StableHow::FileSync, data: b"x" })
    }

    #[test]
    fn both_names_of_a_rename_are_kept_until_it_is_over_and_nothing_is_left_then() {
        let turns = Arc::<Turns>::default();
        let mut rename = turn(&turns, &Call::Rename { from: named(b"a"), to: named(b"b") }).unwrap();
        assert!(rename.take(None, false));
        for name in [b"a", b"b"] {
            assert!(!remove(&turns, name).take(None, false));
        }
        assert!(remove(&turns, b"c").take(None, false), "another name");
        assert!(turn(&turns, &Call::Lookup { what: named(b"a") }).is_none(), "reads wait for nobody");
        drop(rename);
        for name in [b"a", b"b"] {
            assert!(remove(&turns, name).take(None, false));
        }
        assert!(turns.parts.iter().all(|part| lock(part).is_empty()));
    }

    #[test]
    fn who_waits_comes_before_who_comes_later_and_who_was_woken_before_both() {
        let turns = Arc::<Turns>::default();
        let [mut first, mut second, mut third] = [(); 3].map(|()| remove(&turns, b"a"));
        assert!(first.take(None, false) && !second.take(WAITS, false));
        drop(first);
        assert_eq!(second.waits_for(), third.waits_for());
        // It was woken, and is not here yet: its place in the queue is gone, so a third may come between.
        assert!(third.take(WAITS, false) && !second.take(WAITS, true));
        drop(third);
        assert!(second.take(WAITS, true));
    }

    #[test]
    fn what_waits_and_is_given_up_leaves_nothing_in_the_queue() {
        let turns = Arc::<Turns>::default();
        let [mut first, mut second] = [(); 2].map(|()| remove(&turns, b"a"));
        assert!(first.take(None, false) && !second.take(WAITS, false));
        turns.give_up(second.waits_for().unwrap(), WAITS.unwrap());
        drop((first, second));
        assert!(turns.parts.iter().all(|part| lock(part).is_empty()));
    }

    #[test]
    fn a_call_of_the_life_before_keeps_its_names_until_it_is_over_however_long_that_takes() {
        let turns = Arc::<Turns>::default();
        let of_name = Meaning::of(&Call::Remove { object: named(b"a") }).unwrap();
        let recalled = Exclusive::sent_before(&turns, keys(&of_name));
        turns.expire(Time::from_nanos(1 << 60));
        assert!(!remove(&turns, b"a").take(None, false));
        drop(recalled);
        assert!(remove(&turns, b"a").take(None, false));
        assert!(turns.parts.iter().all(|part| lock(part).is_empty()));
    }

    #[test]
    fn a_late_copy_keeps_its_names_and_its_file_until_it_is_answered_fenced_or_too_old() {
        let turns = Arc::<Turns>::default();
        let at = |seconds: u64| Time::from_nanos(seconds * 1_000_000_000);
        assert!(write(&turns).is_none(), "a WRITE waits for late copies alone");
        let file = FileHandle::new(b"file").unwrap();
        let moved = Meaning::of(&Call::Write { file, offset: 0, count: 1, stable: StableHow::FileSync, data: b"x" });
        let of_name = Meaning::of(&Call::Remove { object: named(b"a") }).unwrap();
        let servers = [(0, ServerId(0)), (0, ServerId(1))];
        let number = turns.leave(&moved.unwrap(), servers[0], at(10));
        turns.leave(&of_name, servers[1], at(20));
        assert!(!write(&turns).unwrap().take(None, false) && !remove(&turns, b"a").take(None, false));
        turns.answered(number);
        assert!(write(&turns).unwrap().take(None, false) && !remove(&turns, b"a").take(None, false));
        turns.expire(at(19));
        turns.fenced(servers[0]);
        assert!(!remove(&turns, b"a").take(None, false));
        turns.fenced(servers[1]);
        assert!(remove(&turns, b"a").take(None, false) && write(&turns).is_none());
        turns.leave(&of_name, servers[1], at(20));
        turns.expire(at(20));
        assert!(remove(&turns, b"a").take(None, false));
        // The first copy's answer comes now: it is not taken for another's.
        turns.leave(&of_name, servers[1], at(30));
        turns.answered(number);
        assert!(!remove(&turns, b"a").take(None, false));
        turns.fenced(servers[1]);
        assert!(turns.parts.iter().all(|part| lock(part).is_empty()));
    }

    #[test]
    fn a_late_copy_of_another_member_keeps_its_names_and_its_file_too() {
        let turns = Arc::<Turns>::default();
        let at = |seconds: u64| Time::from_nanos(seconds * 1_000_000_000);
        let life = |incarnation| Life { member: midas_core::peer::lease::MemberId(1), incarnation };
        let file = Some(Key::of(b"file"));
        let name = remove(&turns, b"a").waits_for();
        let mut has_its_turn = remove(&turns, b"a");
        assert!(has_its_turn.take(None, false) && !has_its_turn.kept_back());
        assert!(turns.heard((life(1), 7), [file, None], OF, at(10)) && !has_its_turn.kept_back());
        assert!(!write(&turns).unwrap().take(None, false) && remove(&turns, b"b").take(None, false));
        assert!(turns.heard((life(1), 7), [file, name], OF, at(10)), "it would change a name as well");
        assert!(has_its_turn.kept_back(), "it must not leave any more");
        drop(has_its_turn);
        assert!(!remove(&turns, b"a").take(None, false));
        turns.heard_over((life(2), 7));
        turns.fenced((0, ServerId(0)));
        turns.expire(at(9));
        assert!(!remove(&turns, b"a").take(None, false) && !write(&turns).unwrap().take(None, false));
        turns.heard_over((life(1), 7));
        turns.heard_over((life(1), 7));
        assert!(remove(&turns, b"a").take(None, false) && write(&turns).is_none());
        turns.heard((life(1), 8), [file, None], OF, at(10));
        assert!(turns.was_sent_elsewhere(OF) && !turns.was_sent_elsewhere(Operation(2)));
        turns.expire(at(10));
        assert!(write(&turns).is_none() && turns.parts.iter().all(|part| lock(part).is_empty()));
    }

    #[test]
    fn who_asked_before_there_was_a_late_copy_waits_for_it_all_the_same_and_once() {
        let (turns, file) = (Arc::new(Turns::default()), Key::of(b"file"));
        let mut create = remove(&turns, b"name");
        assert!(!create.waits_for_file(file));
        turns.leave(&Meaning::setattr(file), (0, ServerId(0)), Time::from_nanos(1));
        assert_eq!([create.waits_for_file(file), create.waits_for_file(file)], [true, false]);
    }

    #[test]
    fn of_ones_own_late_copies_it_is_known_which_are_over() {
        let turns = Arc::<Turns>::default();
        let until = Time::from_nanos(1);
        let of_name = Meaning::of(&Call::Remove { object: named(b"a") }).unwrap();
        let [first, second] = [0, 1].map(|server| turns.leave(&of_name, (0, ServerId(server)), until));
        let over = || turns.over([first, second].into_iter());
        assert_eq!((over(), turns.ends()), (vec![], 0));
        turns.fenced((0, ServerId(0)));
        assert_eq!((over(), turns.ends()), (vec![first], 1));
        turns.expire(until);
        assert_eq!((over(), turns.ends()), (vec![first, second], 2));
    }
}
