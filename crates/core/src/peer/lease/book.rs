//! What is known of attempts, one's own and others' (R5, R8, R10, R11).
//!
//! Invariant: an attempt that is over stays over. Who is not over marks its keys, and so does, for a while, who ended on a name that a lost
//! call may still change. Bounded: unfinished ones by the calls under way in the cluster, finished ones by [`FINISHED_MAX`].

use super::attempt::{AttemptId, Intent, Operation, Refusal, State, Told};
use super::view::Life;
use super::{Effect, Member, Rule};
use crate::time::{Span, Time};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

/// Every attempt that matters.
#[derive(Debug)]
pub(super) struct Book<K> {
    records: BTreeMap<AttemptId, Record<K>>,
    /// Attempts of an operation.
    operations: BTreeMap<Operation, Vec<AttemptId>>,
    /// Attempts that are not over, by what they change.
    keys: BTreeMap<K, Vec<AttemptId>>,
    /// Until when servers other than this one may not know what the key is.
    fences: BTreeMap<(K, u16), Time>,
    /// When a record must be looked at.
    due: BTreeSet<(Time, AttemptId)>,
    /// Those that are over, the oldest first.
    finished: VecDeque<(Time, AttemptId)>,
    /// The same of those that may be executed twice: nobody asks for them again.
    passed: VecDeque<(Time, AttemptId)>,
    /// The newest of one's own.
    sequence: u64,
    pending: usize,
}

#[derive(Debug)]
struct Record<K> {
    intent: Intent<K>,
    state: State,
    /// When it was last acknowledged here, or told.
    learned: Time,
    /// When it cannot run any more, though nobody says so.
    deadline: Option<Time>,
    /// Whether caches are told to keep nothing of it.
    marks: bool,
    /// It ended, but until then a copy of it, or a lost call on a name of its, may change the same.
    until: Option<Time>,
}

impl<K> Record<K> {
    /// Whether it is over and nothing of it is to be kept all the same.
    const fn lingers(&self) -> bool {
        self.until.is_some()
    }
}

impl<K> Default for Book<K> {
    fn default() -> Self {
        Self {
            records: BTreeMap::new(),
            operations: BTreeMap::new(),
            keys: BTreeMap::new(),
            fences: BTreeMap::new(),
            due: BTreeSet::new(),
            finished: VecDeque::new(),
            passed: VecDeque::new(),
            sequence: 0,
            pending: 0,
        }
    }
}

impl<K: Copy + Ord> Book<K> {
    pub(super) fn next_id(&mut self, owner: Life) -> AttemptId {
        self.sequence += 1;
        AttemptId { owner, sequence: self.sequence }
    }

    pub(super) const fn upto(&self) -> u64 {
        self.sequence
    }

    pub(super) const fn pending(&self) -> usize {
        self.pending
    }

    pub(super) fn next_at(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Whether something of this life may still run, or may have run unknown.
    pub(super) fn awaits(&self, owner: Life) -> bool {
        self.due.iter().any(|(_, id)| id.owner == owner)
    }

    pub(super) fn state(&self, id: AttemptId) -> Option<&State> {
        self.records.get(&id).map(|record| &record.state)
    }

    pub(super) fn intent(&self, id: AttemptId) -> Option<&Intent<K>> {
        self.records.get(&id).map(|record| &record.intent)
    }

    /// All of it, as others are told.
    pub(super) fn told(&self) -> impl Iterator<Item = Told<K>> + '_ {
        self.records.iter().map(tell)
    }

    /// What is unfinished, and what of one's own ended since then, or marks though it ended: its end may have been said to nobody's ears.
    pub(super) fn told_since(&self, then: Time, me: Life) -> impl Iterator<Item = Told<K>> + '_ {
        let unfinished = self.records.iter().filter(|(_, record)| record.state == State::Pending);
        let recent =
            self.finished.iter().rev().take_while(move |(at, _)| *at >= then).filter(move |(_, id)| id.owner == me);
        let ended = recent.filter_map(|(_, id)| self.records.get_key_value(id));
        let lingering = self.records.iter().filter(move |(id, record)| id.owner == me && record.lingers());
        let ended = ended.filter(|(_, record)| record.intent.operation.is_some() && !record.lingers());
        unfinished.chain(lingering).chain(ended).map(tell)
    }

    /// A new one that may run.
    pub(super) fn insert(&mut self, now: Time, id: AttemptId, intent: Intent<K>, state: State) {
        if let Some(operation) = intent.operation {
            self.operations.entry(operation).or_default().push(id);
        }
        if state == State::Pending {
            self.pending += 1;
            intent.keys.iter().for_each(|key| self.keys.entry(*key).or_default().push(id));
        } else {
            let operation = intent.operation.filter(|_| state != State::Cancelled);
            self.over_since(operation).push_back((now, id));
        }
        self.records.insert(id, Record { intent, state, learned: now, deadline: None, marks: false, until: None });
    }

    /// Why nobody may begin this now.
    fn refusal(&self, now: Time, id: Option<AttemptId>, intent: &Intent<K>, rules: super::Rules) -> Option<Refusal> {
        let others = intent.operation.and_then(|operation| self.operations.get(&operation));
        let others = others.into_iter().flatten().filter(|other| Some(**other) != id);
        let same = others.filter_map(|other| self.records.get(other)).find_map(|record| match &record.state {
            State::Cancelled => None,
            State::Pending => Some(Refusal::UnderWay),
            State::Ended(answer) | State::Copied(answer) => Some(Refusal::Executed(answer.clone())),
            State::Unknown => rules.has(Rule::Doubt).then_some(Refusal::Doubtful),
        });
        let once = same.filter(|_| rules.has(Rule::Once));
        let fenced = rules.has(Rule::Fence) && self.fenced(now, intent);
        once.or_else(|| (fenced || self.busy(id, intent, rules)).then_some(Refusal::Busy))
    }

    /// Whether another attempt changes one of its names, or changes the same at another server.
    fn busy(&self, id: Option<AttemptId>, intent: &Intent<K>, rules: super::Rules) -> bool {
        let clashes = |key: &K, other: &Record<K>| {
            let named = intent.names.contains(key) || other.intent.names.contains(key);
            let elsewhere = intent.server.zip(other.intent.server).is_some_and(|(ours, theirs)| ours != theirs);
            // A lost call does not block a name, but where it may run the next one must.
            named && other.deadline.is_none() && rules.has(Rule::Name) || elsewhere && rules.has(Rule::Fence)
        };
        let others = |key: &K| {
            let ids = self.keys.get(key).into_iter().flatten().filter(|other| Some(**other) != id);
            ids.filter_map(|other| self.records.get(other)).any(|other| clashes(key, other))
        };
        intent.keys.iter().any(others)
    }

    /// Whether one of its keys was changed elsewhere a moment ago.
    fn fenced(&self, now: Time, intent: &Intent<K>) -> bool {
        let Some(server) = intent.server else { return false };
        let fences = |key: &K| self.fences.range((*key, 0)..=(*key, u16::MAX));
        let elsewhere = |((_, at), until): (&(K, u16), &Time)| *at != server && now < *until;
        intent.keys.iter().any(|key| fences(key).any(elsewhere))
    }

    /// It may have run: what it changed is known where it ran, and elsewhere by then.
    fn fence(&mut self, now: Time, until: Time, id: AttemptId) {
        let Some(intent) = self.records.get(&id).map(|record| &record.intent) else { return };
        let Some(server) = intent.server else { return };
        self.fences.retain(|_, until| now < *until);
        self.fences.extend(intent.keys.iter().map(|key| ((*key, server), until)));
    }

    /// Until when a lost call may still change one of these names.
    fn tainted(&self, id: AttemptId, names: &[K]) -> Option<Time> {
        let lost = |other: &AttemptId| self.records.get(other).and_then(|record| record.deadline);
        let of =
            |name: &K| self.keys.get(name).into_iter().flatten().filter(|other| **other != id).filter_map(lost).max();
        names.iter().filter_map(of).max()
    }

    /// It is over: what it changes is free, though until then nothing of it is to be kept.
    fn close(&mut self, now: Time, id: AttemptId, state: State, until: Option<Time>) {
        let Self { records, keys, pending, .. } = self;
        let Some(record) = records.get_mut(&id) else { return };
        record.until = until;
        for key in &record.intent.keys {
            if let Some(ids) = keys.get_mut(key) {
                ids.retain(|other| *other != id);
                if ids.is_empty() {
                    keys.remove(key);
                }
            }
        }
        *pending -= 1;
        (record.state, record.deadline) = (state, None);
        if !record.marks && until.is_none() {
            record.intent.forget_keys();
        }
        // A try that never left is of no use to who asks again.
        let operation = record.intent.operation.filter(|_| record.state != State::Cancelled);
        self.over_since(operation).push_back((now, id));
    }

    fn over_since(&mut self, operation: Option<Operation>) -> &mut VecDeque<(Time, AttemptId)> {
        if operation.is_some() { &mut self.finished } else { &mut self.passed }
    }

    /// Forgets what no client asks for any more.
    fn forget(&mut self, now: Time, remember: Span) {
        let Self { records, passed, finished, .. } = self;
        let marks = |id: AttemptId| records.get(&id).is_some_and(|record| record.marks);
        let mut over = lapsed(now, remember, passed, PASSED_MAX, marks);
        over.extend(lapsed(now, remember, finished, FINISHED_MAX, marks));
        for id in over {
            let Some(record) = self.records.remove(&id) else { continue };
            let Some(operation) = record.intent.operation else { continue };
            if let Some(ids) = self.operations.get_mut(&operation) {
                ids.retain(|other| *other != id);
                if ids.is_empty() {
                    self.operations.remove(&operation);
                }
            }
        }
    }
}

impl<K: Copy + Ord> Member<K> {
    pub(super) fn refusal(&self, now: Time, id: Option<AttemptId>, intent: &Intent<K>) -> Option<Refusal> {
        self.book.refusal(now, id, intent, self.rules)
    }

    /// Another's attempt, as its owner announces it: whether it is kept as marked from now on.
    pub(super) fn enter(&mut self, now: Time, id: AttemptId, intent: Intent<K>) -> Result<(), Refusal> {
        if self.book.state(id).is_some_and(|state| *state != State::Pending) {
            return Err(Refusal::Over);
        }
        self.supersede(now, id, &intent);
        // One that was told by another, or before it was announced, was not let through by that.
        if let Some(why) = self.refusal(now, Some(id), &intent) {
            return Err(why);
        }
        match self.book.records.get_mut(&id) {
            // Announced once more it is under way again.
            Some(record) => (record.learned, record.deadline) = (now, None),
            None => {
                self.book.insert(now, id, intent, State::Pending);
                self.mark(id);
            }
        }
        Ok(())
    }

    /// Nobody tries an operation anew whose last try may have left: what is still known of that came after its end.
    fn supersede(&mut self, now: Time, id: AttemptId, intent: &Intent<K>) {
        let tries = intent.operation.and_then(|operation| self.book.operations.get(&operation));
        let older = |other: &&AttemptId| other.owner == id.owner && other.sequence < id.sequence;
        let over: Vec<AttemptId> = tries.into_iter().flatten().filter(older).copied().collect();
        for other in over {
            self.over(now, other, State::Cancelled);
        }
    }

    /// What another member knows is known here too (R3).
    pub(super) fn merge(&mut self, now: Time, told: Told<K>) {
        let Told { id, intent, state } = told;
        if id.owner == self.me {
            return;
        }
        let over = state != State::Pending;
        // It ended and is told with what it changes: that may change once more.
        let lingers = over && !intent.keys.is_empty() && self.rules.has(Rule::Linger);
        match self.book.state(id) {
            Some(State::Unknown) if lingers => {
                let restored = self.book.records.get_mut(&id).filter(|record| !record.marks);
                if let Some(record) = restored {
                    (record.intent.keys, record.intent.names) = (intent.keys, intent.names);
                    self.keep_marked(now, id);
                }
                self.over(now, id, state);
            }
            Some(_) if over => self.over(now, id, state),
            Some(_) => {}
            None if over && intent.operation.is_none() && intent.server.is_none() && !lingers => {}
            None if over => {
                let ran = state != State::Cancelled;
                self.book.insert(now, id, intent, state);
                if ran {
                    self.book.fence(now, now + self.terms.longer(self.terms.stale), id);
                }
                if lingers {
                    self.keep_marked(now, id);
                }
            }
            None => {
                self.book.insert(now, id, intent, state);
                self.mark(id);
                self.lose(now, id);
            }
        }
    }

    /// An attempt is over, says who must know.
    pub(super) fn over(&mut self, now: Time, id: AttemptId, state: State) {
        if let Some(record) = self.book.records.get_mut(&id).filter(|record| record.state == State::Unknown) {
            // Somebody does know.
            if state != State::Pending {
                record.state = state;
            }
            return;
        }
        let Some(record) = self.book.records.get(&id).filter(|record| record.state == State::Pending) else { return };
        if state == State::Pending {
            return;
        }
        let taint = match self.rules.has(Rule::Taint) && !matches!(state, State::Cancelled) {
            true => self.book.tainted(id, &record.intent.names),
            false => None,
        };
        let copies = matches!(state, State::Copied(_)) && self.rules.has(Rule::Linger);
        let copies = copies.then(|| now + self.terms.longer(self.terms.hold));
        if state != State::Cancelled {
            self.book.fence(now, now + self.terms.longer(self.terms.stale), id);
        }
        let until = taint.max(copies).filter(|until| now < *until);
        self.book.close(now, id, state, until);
        match until {
            Some(until) => {
                self.book.due.insert((until, id));
            }
            None => self.unmark(id),
        }
    }

    /// What was told of as over, and may change once more, for as long as that can be.
    fn keep_marked(&mut self, now: Time, id: AttemptId) {
        let until = now + self.terms.longer(self.terms.lease + self.terms.hold);
        let Some(record) = self.book.records.get_mut(&id) else { return };
        record.until = Some(until);
        self.book.due.insert((until, id));
        self.mark(id);
    }

    /// The attempts of a member that it does not call unfinished are over.
    pub(super) fn close_unlisted(&mut self, now: Time, owner: Life, upto: u64, open: &[AttemptId]) {
        let range = AttemptId { owner, sequence: 0 }..=AttemptId { owner, sequence: upto };
        let pending = self.book.records.range(range).filter(|(_, record)| record.state == State::Pending);
        let listed: BTreeSet<AttemptId> = open.iter().copied().collect();
        let closed: Vec<AttemptId> = pending.map(|(id, _)| *id).filter(|id| !listed.contains(id)).collect();
        for id in closed {
            self.over(now, id, State::Unknown);
        }
    }

    /// The view changed: calls of members outside of it may still leave and run for a while, and nobody will tell (R10).
    pub(super) fn lose_owners(&mut self, now: Time) {
        let pending = self.book.records.iter().filter(|(_, record)| record.state == State::Pending);
        let ids: Vec<AttemptId> = pending.map(|(id, _)| *id).filter(|id| id.owner != self.me).collect();
        for id in ids {
            self.lose(now, id);
        }
    }

    fn lose(&mut self, now: Time, id: AttemptId) {
        // Outside of every view nothing is known of anybody.
        let lost = self.view.as_ref().is_some_and(|view| !view.has(id.owner));
        let span = self.terms.longer(self.terms.lease + self.terms.hold);
        let patience = if self.rules.has(Rule::Lost) { span } else { Span::ZERO };
        let Some(record) = self.book.records.get_mut(&id) else { return };
        record.deadline = lost.then(|| (record.learned + patience).max(now));
        if let Some(deadline) = record.deadline {
            self.book.due.insert((deadline, id));
        }
    }

    /// The connection of a call broke.
    pub(super) fn linger(&mut self, now: Time, id: AttemptId) {
        let span = self.terms.longer(self.terms.hold);
        let until = now + if self.rules.has(Rule::Linger) { span } else { Span::ZERO };
        let Some(record) = self.book.records.get_mut(&id).filter(|record| record.state == State::Pending) else {
            return;
        };
        record.deadline = Some(until);
        self.book.due.insert((until, id));
    }

    /// Records whose time has come.
    pub(super) fn book_due(&mut self, now: Time) {
        while let Some((at, id)) = self.book.due.first().copied().filter(|(at, _)| *at <= now) {
            self.book.due.remove(&(at, id));
            let Some(record) = self.book.records.get(&id) else { continue };
            match (&record.state, record.deadline) {
                (State::Pending, Some(deadline)) if deadline <= now => {
                    if id.owner == self.me {
                        self.say_all(&super::Message::Over { id, state: State::Unknown });
                        self.rounds.end(id);
                    }
                    self.over(now, id, State::Unknown);
                }
                // A deadline that was moved or taken back.
                (State::Pending, _) => {}
                (State::Ended(_) | State::Copied(_) | State::Unknown | State::Cancelled, _) => self.settled(id),
            }
        }
        self.book.forget(now, self.terms.remember);
    }

    /// Until when what ended on these names is not to be kept: a lost call may change it.
    pub(super) fn taint(&self, id: AttemptId) -> Option<Time> {
        let names = &self.book.intent(id)?.names;
        self.book.tainted(id, names).filter(|_| self.rules.has(Rule::Taint))
    }

    fn mark(&mut self, id: AttemptId) {
        let Some(record) = self.book.records.get_mut(&id) else { return };
        record.marks = true;
        let operation = record.intent.operation.filter(|_| record.state == State::Pending);
        self.effects.push_back(Effect::Mark(id, Intent { operation, ..record.intent.clone() }));
    }

    /// What ended cannot change any more.
    fn settled(&mut self, id: AttemptId) {
        self.unmark(id);
        if let Some(record) = self.book.records.get_mut(&id) {
            record.until = None;
            record.intent.forget_keys();
        }
    }

    /// Caches may keep it again.
    fn unmark(&mut self, id: AttemptId) {
        let Some(record) = self.book.records.get_mut(&id).filter(|record| record.marks) else { return };
        record.marks = false;
        let keys = record.intent.keys.clone();
        if record.state != State::Pending {
            record.intent.forget_keys();
        }
        self.effects.push_back(Effect::Unmark(id));
        if !self.rules.has(Rule::Set) {
            let shares = |record: &Record<K>| record.marks && record.intent.keys.iter().any(|key| keys.contains(key));
            let same: Vec<AttemptId> = self.book.records.iter().filter(|(_, r)| shares(r)).map(|(id, _)| *id).collect();
            self.effects.extend(same.into_iter().map(Effect::Unmark));
        }
    }
}

/// Takes out the oldest that nobody asks for any more. One that still marks counts as one that ended now: it must not keep the others.
fn lapsed(
    now: Time,
    remember: Span,
    queue: &mut VecDeque<(Time, AttemptId)>,
    most: usize,
    marks: impl Fn(AttemptId) -> bool,
) -> Vec<AttemptId> {
    let mut over = Vec::new();
    for _ in 0..queue.len() {
        let full = queue.len() > most;
        let Some((_, id)) = queue.front().copied().filter(|(at, _)| full || now.since(*at) >= remember) else { break };
        queue.pop_front();
        match marks(id) {
            true => queue.push_back((now, id)),
            false => over.push(id),
        }
    }
    over
}

fn tell<K: Copy>((id, record): (&AttemptId, &Record<K>)) -> Told<K> {
    Told { id: *id, intent: record.intent.clone(), state: record.state.clone() }
}

/// Attempts that may be executed twice and are over: a late message of one finds it.
const PASSED_MAX: usize = 1 << 10;
/// Attempts that are over and remembered, at most: what the parts of a grant hold.
const FINISHED_MAX: usize = 1 << 14;
