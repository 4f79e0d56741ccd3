//! This proxy among others: the lease protocol (`core::peer::lease`) between its event loops, its caches and the cluster's thread.
//!
//! A loop that has a mutation announces it and goes on; when all others have dropped what it changes, the loop is told by mail. What is heard
//! is carried out under one lock and in the protocol's order: marks are in the caches before their acknowledgement is in the outbox, and an answer's
//! lease is published last. The lock is never held over a system call, and a part's lock may be taken under it, never the other way round.

mod above;
mod fetch;
mod hearing;
mod holds;
mod joining;
mod journal;
mod late;
mod leases;
mod loads;
mod owners;
mod votes;
mod wire;

use above::{Running, Slot, Upper};
pub(crate) use fetch::{Fetches, RECORD_MOST, patience};
use holds::Holds;
pub(crate) use joining::Joining;
use journal::Journal;
use late::Lates;
pub(crate) use leases::Leases;
pub(crate) use loads::Sharing;
use owners::Owners;
use votes::Votes;
pub(crate) use votes::{Down, digest};
pub(crate) use wire::ANSWER_MOST;

use crate::cached;
use crate::clock::Clock;
use crate::event::{Mail, Mailbox, Shared};
use crate::pool::lock;
use midas_core::cache::Mark;
use midas_core::key::Key;
use midas_core::peer::lease::{
    AttemptId, Effect, Intent, Life, Member, MemberId, Message, Operation, Outcome, Past, Purpose, Refusal, Rules,
    Sight, State, Terms, Told, Trace, View,
};
use midas_core::time::{Span, Time};
use midas_net::DigestKey;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// An attempt of unknown end that a server is asked about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doubted {
    pub(crate) id: AttemptId,
    /// Whether it can be told from what it would have left behind.
    pub(crate) trace: Trace,
    /// When that was said.
    pub(crate) since: Time,
}

/// What is kept in a cache, as all proxies name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Label {
    /// The export: a digest of its path.
    pub(crate) export: u32,
    /// The object or directory that it belongs to.
    pub(crate) place: Key,
    pub(crate) key: Key,
}

/// A call of this proxy that waits for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Among those of its loop that were not sent.
    Clearing(usize),
    /// On a link, to be sent again.
    Flight { link: usize, xid: u32 },
}

/// The protocol's state, shared by the loops and the cluster's thread.
pub(crate) struct Accord {
    pub(crate) leases: Arc<Leases>,
    /// What is fetched from other proxies.
    pub(crate) fetches: Fetches,
    pub(crate) sharing: Arc<Sharing>,
    owners: Owners,
    votes: Votes,
    /// Late copies of this proxy's calls, as the others know them.
    lates: Lates,
    clock: Clock,
    inner: Mutex<Inner>,
    /// The cluster's thread's alone.
    journal: Mutex<Journal>,
    around: OnceLock<Around>,
    /// Calls that were lost with their members, counted, for who does not want to wait for the lock.
    lost: AtomicU64,
    /// The term of a grant.
    lease: Span,
    /// What calls are known by among the members.
    digests: DigestKey,
}

/// What is there only when the daemon runs.
struct Around {
    shared: Weak<Shared>,
    mailboxes: Vec<Mailbox>,
    /// Has the cluster's thread send what is in the outbox.
    wake: Box<dyn Fn() + Send + Sync>,
}

struct Inner {
    member: Member<Label>,
    /// What others change, as the caches have it.
    marks: HashMap<AttemptId, Vec<(Label, Mark<Key>)>>,
    /// Who waits for a permit, and since when.
    waiting: HashMap<AttemptId, Waiting>,
    /// Keys under write pressure.
    holds: Holds,
    /// What is to be said, by member.
    outbox: Vec<Vec<u8>>,
    /// What is to be written before that: intents of what must not be executed twice, and how they ended.
    unwritten: Vec<u8>,
    /// Those whose end was not written.
    open: HashSet<AttemptId>,
    counts: Counts,
}

#[derive(Clone, Copy)]
struct Waiting {
    event_loop: usize,
    place: Place,
    since: Time,
}

/// What was done so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Mutations of this proxy that were announced.
    pub announced: u64,
    /// Those that left under a hold instead, without an announcement.
    pub held: u64,
    /// Announcements that were let through.
    pub permitted: u64,
    /// How long those waited in all.
    pub waited: Span,
    /// And at most.
    pub waited_max: Span,
    /// Announcements that others, or this proxy itself, refused.
    pub refused: u64,
    /// Mutations of others that were marked here.
    pub marked: u64,
    /// Times that everything was forgotten because a lease was lost.
    pub flushed: u64,
    /// Messages that could not be read.
    pub malformed: u64,
    /// Messages said.
    pub messages: u64,
    /// Frames that they went in.
    pub frames: u64,
}

/// How things stand.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The view that it acts in.
    pub view: Option<View>,
    /// Whether mutations may leave.
    pub acts: bool,
    /// For how long answers may come from the cache.
    pub leased_for: Span,
    /// Attempts that are known and not over.
    pub pending: usize,
    /// Keys of this proxy under write pressure, announced once.
    pub holds: usize,
    /// Calls of this proxy that wait for others.
    pub waiting: usize,
    /// How long the longest of them has.
    pub longest: Span,
    /// Whether members differ, so that nothing is answered from caches.
    pub blocked: bool,
    /// What was done so far.
    pub counts: Counts,
}

impl Accord {
    /// For this life of a member of a cluster of these, each of which serves clients or not.
    fn new(
        clock: Clock,
        (life, serving): (Life, &[bool]),
        (terms, past): (Terms, Past<Label>),
        journal: Journal,
        digests: DigestKey,
    ) -> Self {
        let inner = Inner {
            member: Member::new(clock.now(), life, terms, Rules::ALL, past),
            marks: HashMap::new(),
            waiting: HashMap::new(),
            holds: Holds::default(),
            outbox: vec![Vec::new(); terms.size],
            unwritten: Vec::new(),
            open: HashSet::new(),
            counts: Counts::default(),
        };
        Self {
            leases: Arc::new(Leases::new(clock)),
            fetches: Fetches::new(life, serving, terms.lease),
            sharing: Arc::default(),
            owners: Owners::default(),
            votes: Votes::default(),
            lates: Lates::new(terms.lease),
            clock,
            inner: Mutex::new(inner),
            journal: Mutex::new(journal),
            around: OnceLock::new(),
            lost: AtomicU64::new(0),
            lease: terms.lease,
            digests,
        }
    }

    /// What makes two records the same operation, at whichever proxy they come in: the client, its
    /// number for the call, and the call. All members make it with one key, that nobody else has.
    pub(crate) fn operation(&self, client: IpAddr, xid: u32, record: &[u8]) -> Operation {
        Operation(self.digests.of_call(client, xid, record).bits())
    }

    /// The caches, the loops, and how to have the outbox sent. Once, before anything is heard.
    pub(crate) fn attach(&self, shared: &Arc<Shared>, mailboxes: Vec<Mailbox>, wake: Box<dyn Fn() + Send + Sync>) {
        let around = Around { shared: Arc::downgrade(shared), mailboxes, wake };
        assert!(self.around.set(around).is_ok(), "attached once");
    }

    /// Another view.
    pub(crate) fn view(&self, view: View) {
        self.fetches.view(&view);
        self.step(|now, inner| inner.member.view(now, view));
    }

    /// Frames of that member may have been lost.
    pub(crate) fn unheard(&self, member: u8) {
        self.lates.unheard(member);
        self.step(|now, inner| inner.member.unheard(now, MemberId(member)));
    }

    /// Asks a peer for a read; its answer has this number.
    pub(crate) fn fetch(&self, peer: u8, event_loop: usize, export: u32, record: &[u8]) -> u64 {
        let (id, first) = self.fetches.ask(peer, event_loop, export, record);
        self.ring(first);
        id
    }

    /// Answers a peer's read; without results it asks a server.
    pub(crate) fn lend(&self, to: Life, id: u64, results: Option<&[u8]>) {
        self.ring(self.fetches.answer(to, id, results));
    }

    fn ring(&self, needed: bool) {
        if let Some(around) = self.around.get().filter(|_| needed) {
            (around.wake)();
        }
    }

    /// Time passed. When it must be told so again.
    pub(crate) fn tick(&self) -> Span {
        self.step(|now, inner| {
            inner.member.tick(now);
            self.tend_lates(now, inner);
            inner.rest(now, holds::QUIET);
            let next = inner.member.next_at().since(now);
            let soon = inner.holds.len() > 0 || !self.lates.is_empty();
            if soon { next.min(holds::QUIET) } else { next }
        })
    }

    /// No further calls come: what is held and not needed is released.
    pub(crate) fn release(&self) {
        self.step(|now, inner| inner.rest(now, Span::ZERO));
    }

    /// What is to be said now, by member, in frames of at most so many bytes. What it follows from is written when this returns.
    pub(crate) fn outgoing(&self, most: usize) -> Vec<(MemberId, Vec<Vec<u8>>)> {
        let mut journal = lock(&self.journal);
        let mut inner = lock(&self.inner);
        let (unwritten, full) = (std::mem::take(&mut inner.unwritten), journal.full());
        let anew = full.then(|| inner.intents());
        let all = inner.outbox.iter_mut().enumerate().filter(|(_, said)| !said.is_empty());
        let cut =
            |(member, said): (usize, &mut Vec<u8>)| (MemberId(member as u8), wire::frames(std::mem::take(said), most));
        let frames: Vec<_> = all.map(cut).collect();
        inner.counts.frames += frames.iter().map(|(_, frames)| frames.len() as u64).sum::<u64>();
        drop(inner);
        let written = match anew {
            Some(all) => journal.begin_anew(&all),
            None => journal.append(&unwritten),
        };
        // What is not durable is not said: it waits, but not for ever.
        let frames = if written { frames } else { self.keep_back(frames) };
        let fetched = self.fetches.outgoing().into_iter();
        let fetched = fetched.map(|(member, said)| (MemberId(member), wire::frames(said, most)));
        frames.into_iter().chain(fetched).collect()
    }

    /// What cannot be said now is said later, before what comes then. What is too much is lost, as messages may be.
    fn keep_back(&self, frames: Vec<(MemberId, Vec<Vec<u8>>)>) -> Vec<(MemberId, Vec<Vec<u8>>)> {
        let mut inner = lock(&self.inner);
        for (member, frames) in frames {
            let said = &mut inner.outbox[usize::from(member.0)];
            let later = std::mem::take(said);
            let all: Vec<u8> = frames.into_iter().flatten().chain(later).collect();
            *said = if all.len() <= KEPT_BACK_MAX { all } else { Vec::new() };
        }
        Vec::new()
    }

    /// Whether a mutation of these keys, and of no name, that may run twice leaves under a hold: which, and until when it may. Otherwise it is
    /// announced, and if such calls come often its keys are held from then on.
    pub(crate) fn under_hold(&self, keys: &[Label]) -> Option<(AttemptId, Time)> {
        self.step(|now, inner| {
            let entered = inner.holds.enter(now, keys);
            match entered {
                Some(_) => inner.counts.held += 1,
                None if inner.holds.pressed(now, keys) => inner.hold(now, keys),
                None => {}
            }
            entered
        })
    }

    /// A mutation wants to leave that was refused so often; its loop is told when it may, or that it must not. Of what must not be executed
    /// twice, whether this is the first that the others hear.
    pub(crate) fn announce(
        &self,
        (event_loop, place): (usize, Place),
        (operation, first): (Option<Operation>, bool),
        (keys, names): (Vec<Label>, Vec<Label>),
        (led, rank): (Option<bool>, u32),
    ) -> Result<AttemptId, Refusal> {
        let (operation, more_of) = if first { (operation, None) } else { (None, operation) };
        let intent = Intent { operation, keys: keys.into(), names: names.into(), server: None, more_of, led, rank };
        self.step(|now, inner| {
            inner.counts.announced += 1;
            let kept = intent.part_of().is_some().then(|| intent.clone());
            let announced = inner.member.announce(now, intent, Purpose::Call);
            if let (Ok(id), Some(intent)) = (&announced, kept) {
                inner.opens(*id, intent);
            }
            match announced {
                Ok(id) => drop(inner.waiting.insert(id, Waiting { event_loop, place, since: now })),
                Err(_) => inner.counts.refused += 1,
            }
            announced
        })
    }

    /// A call that its client has sent before, through another member: why it would be refused.
    pub(crate) fn tried(&self, operation: Operation) -> Option<Refusal> {
        self.step(|now, inner| inner.member.tried(now, operation))
    }

    /// The time after which that is asked again: well before others may have the names that it keeps.
    pub(crate) const fn ask_again(&self) -> Span {
        Span::from_nanos(self.lease.as_nanos() / ASK_AGAIN)
    }

    /// The number of calls that must run once and were lost with their members, as far as is known.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// A mutation that was let through did not leave in time, or is to be sent again.
    pub(crate) fn again(&self, (event_loop, place): (usize, Place), ids: impl IntoIterator<Item = AttemptId>) {
        let mut mail = Vec::new();
        self.step(|now, inner| {
            for id in ids {
                match inner.holds.until(id) {
                    // It renews itself: what cannot leave under it now is over.
                    Some(until) if now < until => mail.push(Mail::Cleared { place, id, until }),
                    None if inner.member.again(now, id) => {
                        inner.waiting.insert(id, Waiting { event_loop, place, since: now });
                    }
                    Some(_) | None => mail.push(Mail::Barred { place, id, why: Refusal::Over }),
                }
            }
        });
        if let Some(around) = self.around.get() {
            for mail in mail {
                around.mailboxes[event_loop].send(mail);
            }
        }
    }

    /// A mutation is over. Until when, if at all, what it changed is not to be kept.
    pub(crate) fn ended(&self, ids: impl IntoIterator<Item = AttemptId>, outcome: &Outcome) -> Option<Time> {
        let mut taint = None;
        self.step(|now, inner| {
            for id in ids.into_iter().filter(|id| !inner.holds.leave(*id, outcome)).collect::<Vec<_>>() {
                inner.waiting.remove(&id);
                inner.ends(id, outcome);
                taint = taint.max(inner.member.ended(now, id, outcome.clone()));
            }
            inner.rest(now, holds::QUIET);
        });
        taint
    }

    /// Somebody looked whether an attempt in doubt was executed: these are its results; none if it was not. False if that can no longer be
    /// known, because somebody else may have changed the same meanwhile.
    pub(crate) fn found_out(&self, doubt: &Doubted, results: Option<&[u8]>) -> bool {
        let state = match results {
            Some(results) => State::Ended(Some(results).filter(|results| results.len() <= ANSWER_MOST).map(Into::into)),
            None => State::Cancelled,
        };
        self.step(|now, inner| {
            let known = inner.member.found_out(now, doubt.id, (doubt.trace, doubt.since), &state);
            inner.settled(doubt.id);
            known
        })
    }

    /// Whether the object that these results say was made came from another operation, as far as is remembered.
    pub(crate) fn made_by_another(&self, operation: Operation, results: &[u8]) -> bool {
        // The status, that there is a handle, and that.
        let [.., b0, b1, b2, b3] = results.first_chunk::<12>().copied().unwrap_or_default();
        let Some(made) = results.get(..12 + u32::from_be_bytes([b0, b1, b2, b3]) as usize) else { return false };
        lock(&self.inner).member.answers_but_of(operation).any(|answer| answer.starts_with(made))
    }

    /// What others may keep of these objects is not true.
    pub(crate) fn drop_elsewhere(&self, labels: &[Label]) {
        self.step(|now, inner| {
            for label in labels {
                self.fetches.dropped(now, label.place);
            }
            inner.member.tell_dropped(labels);
        });
    }

    /// Members differ, or no longer: until they agree nothing is answered from caches. Whether that is news.
    pub(crate) fn block(&self, blocked: bool) -> bool {
        if self.leases.blocked() == blocked {
            return false;
        }
        if let Some(shared) = self.around.get().and_then(|around| around.shared.upgrade()).filter(|_| !blocked) {
            shared.exports.iter().for_each(|export| export.areas.own().cached.lease_lost());
            self.leases.flushed();
        }
        self.leases.block(blocked) != blocked
    }

    /// Whether announcements are answered: outside of the majority's view nothing is let through.
    pub(crate) fn acts(&self) -> bool {
        lock(&self.inner).member.acts(self.clock.now())
    }

    /// How long a change of a peer's load takes to be known here, on average, in the pool where that is longest.
    pub(crate) fn share_age(&self) -> Span {
        let shared = self.around.get().and_then(|around| around.shared.upgrade());
        let ages = shared.iter().flat_map(|shared| &shared.pools).map(|pool| pool.servers.share_age());
        ages.max().unwrap_or_default()
    }

    /// Whether no mutation of this proxy waits or may still run.
    pub(crate) fn quiet(&self) -> bool {
        lock(&self.inner).member.quiet()
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(crate) fn standing(&self) -> Standing {
        let inner = lock(&self.inner);
        let now = self.clock.now();
        Standing {
            view: inner.member.acting_in().cloned(),
            acts: inner.member.acts(now),
            leased_for: inner.member.answers_until().since(now),
            pending: inner.member.pending(),
            holds: inner.holds.len(),
            waiting: inner.waiting.len(),
            blocked: self.leases.blocked(),
            longest: inner.waiting.values().map(|waiting| now.since(waiting.since)).max().unwrap_or_default(),
            counts: inner.counts,
        }
    }

    /// Something happens, and what follows from it is carried out.
    fn step<T>(&self, happens: impl FnOnce(Time, &mut Inner) -> T) -> T {
        let mut inner = lock(&self.inner);
        let now = self.clock.now();
        let before = inner.counts.messages;
        let result = happens(now, &mut inner);
        if let Some(around) = self.around.get() {
            self.carry_out(now, around, &mut inner);
        }
        self.leases.publish(inner.member.answers_until());
        self.lost.store(inner.member.lost(), Ordering::Relaxed);
        let said = inner.counts.messages > before;
        drop(inner);
        self.ring(said);
        result
    }

    fn carry_out(&self, now: Time, around: &Around, inner: &mut Inner) {
        let Some(shared) = around.shared.upgrade() else { return };
        while let Some(effect) = inner.member.effect() {
            match effect {
                Effect::Send(to, message) => {
                    wire::encode(&mut inner.outbox[usize::from(to.member.0)], &message);
                    inner.counts.messages += 1;
                }
                Effect::Flush => {
                    shared.exports.iter().for_each(|export| export.areas.own().cached.lease_lost());
                    self.leases.flushed();
                    inner.counts.flushed += 1;
                }
                Effect::Mark(id, intent) => {
                    if intent.part_of().is_some() {
                        inner.opens(id, intent.clone());
                    }
                    let mark = |label: Label| Some((label, shared.cached(label)?.mark(now, label.place, label.key)));
                    let own = intent.keys.iter().copied();
                    let all = own.flat_map(|label| std::iter::once(label).chain(shared.twins(label)));
                    inner.marks.insert(id, all.filter_map(mark).collect());
                    inner.counts.marked += 1;
                }
                Effect::Unmark(id) => {
                    inner.settled(id);
                    for (label, mark) in inner.marks.remove(&id).unwrap_or_default() {
                        if let Some(cached) = shared.cached(label) {
                            cached.unmark(now, label.place, mark);
                        }
                    }
                }
                Effect::Drop(labels) => {
                    for label in labels {
                        self.fetches.dropped(now, label.place);
                        let Some(cached) = shared.cached(label) else { continue };
                        cached.gone(now, label.place);
                        if label.key != label.place {
                            cached.changed_elsewhere(now, label.key, label.place);
                        }
                    }
                }
                Effect::Permit(id, until) if inner.holds.permitted(id, until) => {}
                Effect::Refused(id, _) if inner.holds.refused(id) => inner.counts.refused += 1,
                Effect::Recall(id) => {
                    inner.holds.refused(id);
                    // What follows from that is carried out with the rest.
                    inner.rest(now, holds::QUIET);
                }
                Effect::Permit(id, until) => {
                    let Some(Waiting { event_loop, place, since }) = inner.waiting.remove(&id) else { continue };
                    let waited = now.since(since);
                    inner.counts.permitted += 1;
                    inner.counts.waited = inner.counts.waited + waited;
                    inner.counts.waited_max = inner.counts.waited_max.max(waited);
                    around.mailboxes[event_loop].send(Mail::Cleared { place, id, until });
                }
                Effect::Refused(id, why) => {
                    inner.counts.refused += 1;
                    let Some(Waiting { event_loop, place, .. }) = inner.waiting.remove(&id) else { continue };
                    around.mailboxes[event_loop].send(Mail::Barred { place, id, why });
                }
            }
        }
    }
}

impl Inner {
    /// What must not be executed twice may be, from now on.
    fn opens(&mut self, id: AttemptId, intent: Intent<Label>) {
        journal::tell(
            &mut self.unwritten,
            Told { id, intent, state: State::Pending, age: Span::ZERO, sight: Sight::Clear },
        );
        self.open.insert(id);
    }

    fn closes(&mut self, id: AttemptId, state: &State) {
        // What nobody knows may be found out.
        if *state != State::Unknown && self.open.remove(&id) {
            wire::encode(&mut self.unwritten, &Message::Over { id, state: state.clone() });
        }
    }

    /// Somebody said how an attempt ended: what is believed of that.
    fn settled(&mut self, id: AttemptId) {
        if let Some(state) = self.member.state(id).filter(|state| **state != State::Pending).cloned() {
            self.closes(id, &state);
        }
    }

    /// One's own ended. What is lost may still run.
    fn ends(&mut self, id: AttemptId, outcome: &Outcome) {
        match outcome {
            Outcome::Replied(answer) => self.closes(id, &State::Ended(answer.clone())),
            Outcome::Copied(answer) => self.closes(id, &State::Copied(answer.clone())),
            Outcome::NeverLeft => self.closes(id, &State::Cancelled),
            Outcome::Lost => {}
        }
    }

    /// All that is to be known after a crash. Ends that nobody told are found here.
    fn intents(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        let known: Vec<Told<Label>> = self.member.intents().collect();
        let open = |told: &&Told<Label>| matches!(told.state, State::Pending | State::Unknown);
        self.open = known.iter().filter(open).map(|told| told.id).collect();
        for told in known {
            journal::tell(&mut all, told);
        }
        all
    }

    /// Holds these keys, if nobody minds.
    fn hold(&mut self, now: Time, keys: &[Label]) {
        let intent = Intent {
            operation: None,
            keys: keys.into(),
            names: [].into(),
            server: None,
            more_of: None,
            led: None,
            rank: 0,
        };
        if let Ok(id) = self.member.announce(now, intent, Purpose::Hold) {
            self.holds.begin(now, keys, id);
        }
    }

    /// Ends what is held and quiet.
    fn rest(&mut self, now: Time, quiet: Span) {
        for (id, outcome) in self.holds.rest(now, quiet) {
            self.member.ended(now, id, outcome);
        }
    }
}

impl Shared {
    /// The entries of the same object under its other handles.
    fn twins(&self, label: Label) -> impl Iterator<Item = Label> {
        let others = self.cached(label).map_or_else(Vec::new, |cached| cached.other_handles(label.place));
        others.into_iter().flat_map(move |place| cached::guards(place).map(|key| Label { place, key, ..label }))
    }

    /// The cache that a label belongs to; none if the members' exports are not the same.
    fn cached(&self, label: Label) -> Option<&crate::cached::Cached> {
        self.exports.iter().map(|export| &export.areas.own().cached).find(|cached| cached.name() == label.export)
    }
}

/// A call in doubt is asked about again after this part of a term.
const ASK_AGAIN: u64 = 8;
/// Bytes for one member that wait until what they follow from is on disk.
const KEPT_BACK_MAX: usize = 4 << 20;
