//! What is known of attempts, one's own and others' (R5, R8, R10, R11).
//!
//! Invariant: an attempt that is over stays over. Who is not over marks its keys, and so does, for a while, who ended on a name that a lost
//! call may still change. Bounded: unfinished ones by the calls under way in the cluster, finished ones by [`FINISHED_MAX`].

use super::attempt::{AttemptId, Intent, Operation, Refusal, Sight, State, Told, Trace};
use super::turn::Deferred;
use super::view::Life;
use super::{Effect, Member, Rule};
use crate::time::{Span, Time};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

/// Every attempt that matters.
#[derive(Debug)]
pub(super) struct Book<K> {
    pub(super) records: BTreeMap<AttemptId, Record<K>>,
    /// Attempts of an operation, and those that announce more of them.
    pub(super) operations: BTreeMap<Operation, Vec<AttemptId>>,
    /// Attempts that are not over, or in doubt with a trace that is not blurred, by what they change.
    pub(super) keys: BTreeMap<K, Vec<AttemptId>>,
    /// What somebody must change alone and could not yet: until then nobody begins to change it beside others.
    pub(super) wanted: BTreeMap<K, Time>,
    /// Others' announcements that wait until something is over.
    pub(super) deferred: BTreeMap<AttemptId, Deferred<K>>,
    /// Whether something is over since they were looked at.
    pub(super) freed: bool,
    /// What a call that was lost or copied may change until then.
    pub(super) shaken: BTreeMap<K, Time>,
    /// Until when servers other than this one may not know what the key is.
    pub(super) fences: BTreeMap<(K, u16), Time>,
    /// When a record must be looked at.
    pub(super) due: BTreeSet<(Time, AttemptId)>,
    /// Those that are over, the oldest first.
    pub(super) finished: VecDeque<(Time, AttemptId)>,
    /// The same of those that may be executed twice: nobody asks for them again.
    pub(super) passed: VecDeque<(Time, AttemptId)>,
    /// The newest of one's own.
    pub(super) sequence: u64,
    pub(super) pending: usize,
    pub(super) rules: super::Rules,
}

#[derive(Debug)]
pub(super) struct Record<K> {
    pub(super) intent: Intent<K>,
    pub(super) state: State,
    /// When it was first acknowledged somewhere, as far as is known.
    pub(super) begun: Time,
    /// When it was last acknowledged here.
    pub(super) heard: Time,
    /// When it was last acknowledged here, or by another member that told of it.
    pub(super) learned: Time,
    /// When it cannot run any more, though nobody says so.
    pub(super) deadline: Option<Time>,
    /// What has become of its owner.
    pub(super) owner: Owner,
    /// Whether another member knows of it, or it is one's own.
    pub(super) shared: bool,
    /// Whether its names will show if it ran.
    pub(super) sight: Sight,
    /// In doubt, and its names show whether it ran. Until then nobody else changes them; who does afterwards blurs them.
    pub(super) trace: Option<Time>,
    /// The end of that though somebody asks here: other members may not have been asked.
    pub(super) traced_until: Time,
    /// Whether caches are told to keep nothing of it.
    pub(super) marks: bool,
    /// It ended, but until then a copy of it, or a lost call on a name of its, may change the same.
    pub(super) until: Option<Time>,
}

/// What has become of the owner of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It is in the view, as far as is known.
    Here,
    /// It has left it.
    Gone,
    /// And all of a view without it have told when they last let the attempt through.
    Counted,
}

impl<K> Record<K> {
    /// Whether its owner is gone.
    pub(super) fn is_orphan(&self) -> bool {
        self.owner != Owner::Here
    }

    /// Whether it is over and nothing of it is to be kept all the same.
    const fn lingers(&self) -> bool {
        self.until.is_some()
    }

    /// Only what it was is remembered, if it is over and nobody needs more.
    pub(super) fn tidy_up(&mut self) {
        if self.state != State::Pending && !self.marks && self.until.is_none() && self.trace.is_none() {
            self.intent.forget_keys();
        }
    }
}

impl<K> Book<K> {
    pub(super) const fn new(rules: super::Rules) -> Self {
        Self {
            records: BTreeMap::new(),
            operations: BTreeMap::new(),
            keys: BTreeMap::new(),
            wanted: BTreeMap::new(),
            deferred: BTreeMap::new(),
            freed: false,
            shaken: BTreeMap::new(),
            fences: BTreeMap::new(),
            due: BTreeSet::new(),
            finished: VecDeque::new(),
            passed: VecDeque::new(),
            sequence: 0,
            pending: 0,
            rules,
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
    pub(super) fn told(&self, now: Time) -> impl Iterator<Item = Told<K>> + '_ {
        self.records.iter().map(move |known| tell(now, known))
    }

    /// What is unfinished, and what of one's own ended since then, or marks though it ended: its end may have been said to nobody's ears.
    pub(super) fn told_since(&self, now: Time, then: Time, me: Life) -> impl Iterator<Item = Told<K>> + '_ {
        let unfinished = self.records.iter().filter(|(_, record)| record.state == State::Pending);
        let recent =
            self.finished.iter().rev().take_while(move |(at, _)| *at >= then).filter(move |(_, id)| id.owner == me);
        let ended = recent.filter_map(|(_, id)| self.records.get_key_value(id));
        let lingering = self.records.iter().filter(move |(id, record)| id.owner == me && record.lingers());
        let ended = ended.filter(|(_, record)| record.intent.operation.is_some() && !record.lingers());
        unfinished.chain(lingering).chain(ended).map(move |known| tell(now, known))
    }

    /// A new one that may run.
    pub(super) fn insert(&mut self, now: Time, id: AttemptId, intent: Intent<K>, state: State) {
        if let Some(operation) = intent.part_of() {
            self.operations.entry(operation).or_default().push(id);
        }
        let mut sight = Sight::Blurred;
        if state == State::Pending {
            self.pending += 1;
            for name in &intent.names {
                self.wanted.remove(name);
            }
            intent.keys.iter().for_each(|key| self.keys.entry(*key).or_default().push(id));
            if !intent.names.iter().any(|key| self.shaken.get(key).is_some_and(|until| now < *until)) {
                sight = Sight::Clear;
            }
        } else {
            let remembered = remembered(&intent, &state, false);
            self.over_since(remembered).push_back((now, id));
        }
        let (deadline, until, trace) = (None, None, None);
        let (owner, shared, marks) = (Owner::Here, true, false);
        let record = Record {
            intent,
            state,
            begun: now,
            heard: now,
            learned: now,
            deadline,
            owner,
            shared,
            sight,
            trace,
            traced_until: Time::ZERO,
            marks,
            until,
        };
        self.records.insert(id, record);
    }

    /// One that may run, as another member told that acknowledged it so long ago.
    fn insert_told(&mut self, now: Time, id: AttemptId, intent: Intent<K>, age: Span) {
        self.insert(now, id, intent, State::Pending);
        if let Some(record) = self.records.get_mut(&id) {
            (record.begun, record.heard, record.learned) = (now - age, now - age, now - age);
        }
    }

    /// Why nobody may begin this now.
    fn refusal(&self, now: Time, (me, id): (Life, Option<AttemptId>), intent: &Intent<K>) -> Option<Refusal> {
        let rules = self.rules;
        let tries = intent.operation.and_then(|operation| self.operations.get(&operation)).into_iter().flatten();
        let tries = tries.filter(|other| Some(**other) != id).filter_map(|id| Some((*id, self.records.get(id)?)));
        let executed = |(_, record): (AttemptId, &Record<K>)| match &record.state {
            State::Ended(answer) | State::Copied(answer) => Some(Refusal::Executed(answer.clone())),
            State::Pending | State::Unknown | State::Cancelled => None,
        };
        let doubtful = |(id, record): (AttemptId, &Record<K>)| {
            let sure = || Trace::Sure(self.led(id), now.since(record.begun));
            let trace = if self.is_blurred(id) { Trace::Blurred } else { sure() };
            let tried = record.state == State::Unknown && record.intent.operation.is_some();
            (tried && rules.has(Rule::Doubt)).then_some(Refusal::Doubtful(id, trace))
        };
        // One that is known to have run says more than others of which less is known.
        let same = tries.clone().find_map(executed).or_else(|| {
            // What announces more of an operation is under way with it, and keeps others from it.
            let owner = id.map_or(me, |id| id.owner);
            let more = |id: AttemptId, record: &Record<K>| record.intent.more_of.is_some() && id.owner == owner;
            let under_way = |(id, record): (AttemptId, &Record<K>)| record.state == State::Pending && !more(id, record);
            // Whether it shows is not known before it is known what became of those beside it.
            let unsettled = |(id, record): (AttemptId, &Record<K>)| record.trace.is_some() && self.is_shaken(id);
            let waits = tries.clone().any(under_way) || tries.clone().any(unsettled);
            if waits { Some(Refusal::UnderWay) } else { tries.clone().find_map(doubtful) }
        });
        let once = same.filter(|_| rules.has(Rule::Once));
        let fenced = rules.has(Rule::Fence) && self.fenced(now, intent);
        once.or_else(|| (fenced || self.busy(now, (me, id), intent)).then_some(Refusal::Busy))
    }

    /// It blocks nothing any more.
    pub(super) fn leave(&mut self, id: AttemptId, of: &[K]) {
        for key in of {
            if let Some(ids) = self.keys.get_mut(key) {
                ids.retain(|other| *other != id);
                if ids.is_empty() {
                    self.keys.remove(key);
                }
            }
        }
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

    /// Until when a lost call may still change one of these names. Of two that must not run at once one is lost, though nobody said so here:
    /// since before the other was let through, and until then at most.
    fn tainted(&self, id: AttemptId, names: &[K], at_most: Option<Time>) -> Option<Time> {
        let lost = |name: &K, other: &Record<K>| {
            let clashes =
                other.state == State::Pending && other.intent.names.contains(name) && self.rules.has(Rule::Name);
            other.deadline.or_else(|| at_most.filter(|_| clashes))
        };
        let of = |name: &K| self.on(*name, Some(id)).filter_map(|(_, other)| lost(name, other)).max();
        names.iter().filter_map(of).max()
    }

    /// It is over: what it changes is free, though until then nothing of it is to be kept. What is in doubt may show until then whether it ran.
    fn close(&mut self, now: Time, id: AttemptId, state: State, (until, trace): (Option<Time>, Option<Time>)) {
        let Some(record) = self.records.get_mut(&id) else { return };
        let keys = record.intent.keys.clone();
        (record.state, record.deadline, record.until) = (state, None, until);
        self.pending -= 1;
        self.freed = true;
        self.leave(id, &keys);
        if let Some(trace) = trace {
            self.trace(trace, id);
        }
        let Some(record) = self.records.get_mut(&id) else { return };
        record.tidy_up();
        let remembered = remembered(&record.intent, &record.state, record.is_orphan());
        self.over_since(remembered).push_back((now, id));
    }

    const fn over_since(&mut self, remembered: bool) -> &mut VecDeque<(Time, AttemptId)> {
        if remembered { &mut self.finished } else { &mut self.passed }
    }

    /// Forgets what no client asks for any more.
    fn forget(&mut self, now: Time, remember: Span) {
        let Self { records, passed, finished, .. } = self;
        let traces = |record: &Record<K>| record.trace.is_some_and(|until| now < until);
        let needed = |id: AttemptId| records.get(&id).is_some_and(|record| record.marks || traces(record));
        let mut over = lapsed(now, remember, passed, PASSED_MAX, needed);
        over.extend(lapsed(now, remember, finished, FINISHED_MAX, needed));
        for id in over {
            self.untrace(id);
            let Some(record) = self.records.remove(&id) else { continue };
            let Some(operation) = record.intent.part_of() else { continue };
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
    /// Why nobody may begin this now. What must be changed alone is kept for it for a while, and what is in doubt for who asks.
    pub(super) fn refusal(&mut self, now: Time, id: Option<AttemptId>, intent: &Intent<K>) -> Option<Refusal> {
        let why = self.book.refusal(now, (self.me, id), intent)?;
        match (&why, intent.operation) {
            (Refusal::Busy, _) => {
                self.make_way(now, &intent.names);
            }
            (Refusal::Doubtful(_, Trace::Sure(..)) | Refusal::UnderWay, Some(operation)) => {
                self.book.extend(now + self.terms.lease, operation);
            }
            _ => {}
        }
        // Whoever holds no leases may have missed that others changed the same.
        let hearsay = matches!(why, Refusal::Doubtful(_, Trace::Sure(..))) && !self.vouches(now);
        Some(if hearsay { Refusal::UnderWay } else { why })
    }

    /// Another's attempt, as its owner announces it: whether it is kept as marked from now on.
    pub(super) fn enter(&mut self, now: Time, id: AttemptId, intent: &Intent<K>) -> Result<(), Refusal> {
        if self.book.state(id).is_some_and(|state| *state != State::Pending) {
            return Err(Refusal::Over);
        }
        self.supersede(now, id, intent);
        // One that was told by another, or before it was announced, was not let through by that.
        if let Some(why) = self.refusal(now, Some(id), intent) {
            return Err(why);
        }
        match self.book.records.get_mut(&id) {
            // Announced once more it is under way again.
            Some(record) => {
                (record.heard, record.learned, record.deadline, record.owner) = (now, now, None, Owner::Here);
            }
            None => {
                self.book.insert(now, id, intent.clone(), State::Pending);
                self.mark(id);
            }
        }
        self.book.overlay(id);
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
        let Told { id, intent, state, age, sight } = told;
        if id.owner == self.me {
            return;
        }
        let over = state != State::Pending;
        let news = self.book.state(id).is_none();
        if let Some(record) = self.book.records.get_mut(&id) {
            record.begun = record.begun.min(now - age);
            record.shared |= self.view.is_some();
        }
        let doubtful = matches!(state, State::Pending | State::Unknown);
        // In doubt, and somebody has changed the same.
        let blurred = doubtful && sight == Sight::Blurred;
        if doubtful && sight == Sight::Clear {
            self.confirm(id);
        }
        // It ended and is told with what it changes, though that shows nothing: it may change once more.
        let shows = doubtful && !blurred;
        let lingers = over && !shows && !intent.keys.is_empty() && self.rules.has(Rule::Linger);
        match self.book.state(id) {
            Some(State::Unknown) if lingers => {
                let restored = self.book.records.get_mut(&id).filter(|record| !record.marks);
                if let Some(record) = restored {
                    (record.intent.keys, record.intent.names) = (intent.keys, intent.names);
                    self.keep_marked(now, id);
                }
                self.over(now, id, state);
            }
            // Who did not hear its last announcement takes it for over too early.
            Some(State::Pending) if state == State::Unknown => {}
            Some(_) if over => self.over(now, id, state),
            Some(_) => self.announced_elsewhere(now, id, age),
            None if state == State::Unknown && !blurred && intent.part_of().is_some() && self.is_gone(id.owner) => {
                // Whether it may still run is not known here: it is as if it were told of in time.
                self.book.insert_told(now, id, intent, age);
                self.mark(id);
                self.lose(now, id);
            }
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
                self.book.insert_told(now, id, intent, age);
                if !self.is_gone(id.owner) {
                    self.book.overlay(id);
                }
                self.mark(id);
                self.lose(now, id);
            }
        }
        if let Some(record) = self.book.records.get_mut(&id).filter(|_| blurred || news) {
            // Who tells of it was there when it was announced.
            record.sight = sight;
            if record.sight != Sight::Clear {
                self.book.untrace(id);
            }
        }
    }

    /// Another member let an attempt through, perhaps later than this one: a lost one may run for as long as that one knows.
    fn announced_elsewhere(&mut self, now: Time, id: AttemptId, age: Span) {
        let open = |record: &&mut Record<K>| record.state == State::Pending && record.owner != Owner::Counted;
        let Some(record) = self.book.records.get_mut(&id).filter(open) else { return };
        record.learned = record.learned.max(now - age);
        if record.is_orphan() {
            self.lose(now, id);
        }
    }

    /// An attempt is over, says who must know.
    pub(super) fn over(&mut self, now: Time, id: AttemptId, state: State) {
        if let Some(record) = self.book.records.get_mut(&id).filter(|record| record.state == State::Unknown) {
            // Somebody does know.
            if state != State::Pending {
                record.state = state;
            }
            if record.state != State::Unknown {
                self.book.untrace(id);
            }
            return;
        }
        let Some(record) = self.book.records.get(&id).filter(|record| record.state == State::Pending) else { return };
        if state == State::Pending {
            return;
        }
        let doubt = state == State::Unknown && record.is_orphan() && record.intent.part_of().is_some();
        let held = now + self.terms.longer(self.terms.hold);
        let taints = self.rules.has(Rule::Taint) && !matches!(state, State::Cancelled);
        let taint = taints.then(|| self.book.tainted(id, &record.intent.names, Some(held))).flatten();
        // Whether it ran nobody knows: so it hides what others did.
        if state == State::Unknown && record.deadline.is_some() {
            self.book.hide(id);
        }
        let copies = matches!(state, State::Copied(_)) && self.rules.has(Rule::Linger);
        let copies = copies.then_some(held);
        if state != State::Cancelled {
            self.book.fence(now, now + self.terms.longer(self.terms.stale), id);
        }
        let until = taint.max(copies).filter(|until| now < *until);
        // Its client may have to wait for its own proxy to come back.
        let trace = doubt.then(|| now + self.terms.longer(self.terms.lease + self.terms.hold));
        self.book.close(now, id, state, (until, trace));
        if let Some(until) = copies {
            self.book.shake(now, until, id);
        }
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

    /// All of a view have told what they let through of those who are not in it.
    pub(super) fn seal(&mut self) {
        for record in self.book.records.values_mut().filter(|record| record.owner == Owner::Gone) {
            record.owner = Owner::Counted;
        }
    }

    /// Whether that life is in the view no longer. Outside of every view nothing is known of anybody.
    fn is_gone(&self, owner: Life) -> bool {
        self.view.as_ref().is_some_and(|view| !view.has(owner))
    }

    /// If its owner is gone it may run for as long as it was let through, and until then at least.
    fn lose(&mut self, at_least: Time, id: AttemptId) {
        let lost = self.is_gone(id.owner);
        let span = self.terms.longer(self.terms.lease + self.terms.hold);
        let patience = if self.rules.has(Rule::Lost) { span } else { Span::ZERO };
        let Some(record) = self.book.records.get_mut(&id) else { return };
        if lost && record.owner == Owner::Here && record.intent.part_of().is_some() {
            self.lost += 1;
        }
        record.owner = match (lost, record.owner) {
            (false, _) => Owner::Here,
            (true, Owner::Here) => Owner::Gone,
            (true, before) => before,
        };
        // What a server does not know of yet does not show there.
        if self.terms.stale > Span::ZERO {
            record.sight = Sight::Blurred;
        }
        record.deadline = lost.then(|| (record.learned + patience).max(at_least));
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
        self.book.freed = true;
        self.book.due.insert((until, id));
        self.book.shake(now, until, id);
    }

    /// Records whose time has come.
    pub(super) fn book_due(&mut self, now: Time) {
        while let Some((at, id)) = self.book.due.first().copied().filter(|(at, _)| *at <= now) {
            self.book.due.remove(&(at, id));
            let Some(record) = self.book.records.get(&id) else { continue };
            match (&record.state, record.deadline) {
                // Another member may have let it through later than this one.
                (State::Pending, Some(deadline))
                    if deadline <= now && record.is_orphan() && self.installed != self.epoch =>
                {
                    let later = now + Span::from_nanos(self.terms.lease.as_nanos() / POSTPONED);
                    self.lose(later, id);
                }
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
    pub(super) fn taint(&self, now: Time, id: AttemptId) -> Option<Time> {
        let names = &self.book.intent(id)?.names;
        let held = now + self.terms.longer(self.terms.hold);
        self.book.tainted(id, names, Some(held)).filter(|_| self.rules.has(Rule::Taint))
    }

    fn mark(&mut self, id: AttemptId) {
        let Some(record) = self.book.records.get_mut(&id) else { return };
        record.marks = true;
        let mut intent = record.intent.clone();
        if record.state != State::Pending {
            (intent.operation, intent.more_of) = (None, None);
        }
        self.effects.push_back(Effect::Mark(id, intent));
    }

    /// What ended cannot change any more.
    fn settled(&mut self, id: AttemptId) {
        self.unmark(id);
        if let Some(record) = self.book.records.get_mut(&id) {
            record.until = None;
            record.tidy_up();
        }
    }

    /// Caches may keep it again.
    fn unmark(&mut self, id: AttemptId) {
        let Some(record) = self.book.records.get_mut(&id).filter(|record| record.marks) else { return };
        record.marks = false;
        let keys = record.intent.keys.clone();
        record.tidy_up();
        self.effects.push_back(Effect::Unmark(id));
        if !self.rules.has(Rule::Set) {
            let shares = |record: &Record<K>| record.marks && record.intent.keys.iter().any(|key| keys.contains(key));
            let same: Vec<AttemptId> = self.book.records.iter().filter(|(_, r)| shares(r)).map(|(id, _)| *id).collect();
            self.effects.extend(same.into_iter().map(Effect::Unmark));
        }
    }
}

/// Takes out the oldest that nobody asks for any more. One that is still needed counts as one that ended now: it must not keep the others.
fn lapsed(
    now: Time,
    remember: Span,
    queue: &mut VecDeque<(Time, AttemptId)>,
    most: usize,
    needed: impl Fn(AttemptId) -> bool,
) -> Vec<AttemptId> {
    let mut over = Vec::new();
    for _ in 0..queue.len() {
        let full = queue.len() > most;
        let Some((_, id)) = queue.front().copied().filter(|(at, _)| full || now.since(*at) >= remember) else { break };
        queue.pop_front();
        match needed(id) {
            true => queue.push_back((now, id)),
            false => over.push(id),
        }
    }
    over
}

/// Whether a client may ask for an attempt that is over. One that never left is of no use to it, but to a lost member that comes back and knows
/// of its own alone; one that announced more of an operation is, as long as it is in doubt.
fn remembered<K>(intent: &Intent<K>, state: &State, orphan: bool) -> bool {
    match (intent.operation, state) {
        (Some(_), State::Cancelled) => orphan,
        (Some(_), _) => true,
        (None, State::Unknown) => intent.more_of.is_some(),
        (None, _) => false,
    }
}

fn tell<K: Copy>(now: Time, (id, record): (&AttemptId, &Record<K>)) -> Told<K> {
    let traced = record.state != State::Unknown || record.trace.is_some();
    let sight = if traced { record.sight } else { Sight::Blurred };
    Told { id: *id, intent: record.intent.clone(), state: record.state.clone(), age: now.since(record.heard), sight }
}

/// What a lost member's call did is not asked before every other one has told what it knows; whether they have, after this part of a term each.
const POSTPONED: u64 = 8;
/// Attempts that may be executed twice and are over: a late message of one finds it.
const PASSED_MAX: usize = 1 << 10;
/// Attempts that are over and remembered, at most: what the parts of a grant hold.
const FINISHED_MAX: usize = 1 << 14;
