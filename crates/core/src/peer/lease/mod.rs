//! When a proxy may answer from its cache, and when a mutation may leave: leases between proxies, over servers that cannot be fenced.
//!
//! Sans-I/O: the driver says what happens ([`Member::view`], [`Member::hear`], [`Member::tick`], [`Member::announce`]) and carries out the
//! [`Effect`]s in their order. The rules R1-R14 are those of docs/leases.md; each is a [`Rule`] that tests can take away. It must never let a
//! call leave that a cache somewhere does not know of, nor let an operation leave twice. It is not gossip because two halves of a split
//! cluster would both believe themselves whole. Grants go between all members of a view: with at most sixteen that is the simplest thing that is safe.

mod attempt;
mod book;
mod grant;
mod message;
mod round;
mod rules;
#[cfg(test)]
mod tests;
mod trace;
mod turn;
mod view;

pub use attempt::{AttemptId, Intent, Operation, Refusal, Sight, State, Told, Trace};
pub use message::{Memory, Message};
#[doc(hidden)]
pub use rules::broken;
pub use rules::{Rule, Rules};
pub use view::{Life, MEMBERS_MAX, MemberId, View};

use crate::time::{Span, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use book::Book;
use grant::Peer;
use round::Rounds;

/// One member's part in the protocol.
///
/// Invariant: what [`Effect::Permit`] let through was acknowledged, in one view and within a term, by a majority and by all who may answer from a cache.
#[derive(Debug)]
pub struct Member<K> {
    me: Life,
    terms: Terms,
    rules: Rules,
    /// The newest view that is known, if this life belongs to it.
    view: Option<View>,
    epoch: u64,
    /// Until then grants of an earlier life may be in use (R2).
    start_until: Time,
    /// The last view in which every other member told what it knew (R9).
    installed: u64,
    /// Whether the view before this one was installed.
    remembers: bool,
    /// Whether no call of the life before this one can run.
    tidy: bool,
    /// Until then calls may run that nobody here knows of (R10); zero once that has passed.
    unclean_until: Time,
    leased: bool,
    peers: Vec<Peer>,
    book: Book<K>,
    rounds: Rounds,
    /// Attempts of calls that must run once and were lost with their owners, counted.
    lost: u64,
    effects: VecDeque<Effect<K>>,
}

/// Times that all members agree on, and how many they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Configured members, witnesses included.
    pub size: usize,
    /// L: how long a grant is good for.
    pub lease: Span,
    /// H: how long a call may wait in a server after its connection broke.
    pub hold: Span,
    /// S: how late a server may know of what was changed at another one.
    pub stale: Span,
    /// By how much one clock may be faster than another, in thousandths.
    pub drift: u32,
    /// How long what an operation led to is remembered for a client that asks again.
    pub remember: Span,
}

/// What a life knows of the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past<K> {
    /// Whether that ended in order: no call of it can run.
    pub tidy: bool,
    /// What it wrote down of intents.
    pub intents: Vec<Told<K>>,
}

/// What the driver must do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<K> {
    /// Say this.
    Send(Life, Message<K>),
    /// Forget everything that is kept; reads under way fill nothing (R4).
    Flush,
    /// Another member changes this: drop it, keep nothing of it, send reads of it there.
    Mark(AttemptId, Intent<K>),
    /// It is over.
    Unmark(AttemptId),
    /// What is kept of these is not true.
    Drop(Box<[K]>),
    /// This call may leave until then; a call under a hold likewise.
    Permit(AttemptId, Time),
    /// This call must not leave.
    Refused(AttemptId, Refusal),
    /// Somebody must change alone what this hold of one's own is on: it should end.
    Recall(AttemptId),
}

/// What is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// One call.
    Call,
    /// Any number of calls, until it is released (R12).
    Hold,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server replied; what it said, if a client may ask again.
    Replied(Option<Box<[u8]>>),
    /// The same, but it was sent more than once: an earlier copy may still run.
    Copied(Option<Box<[u8]>>),
    /// It never left.
    NeverLeft,
    /// Its connection broke: it may still run (R8).
    Lost,
}

impl<K: Copy + Ord> Member<K> {
    /// A life that begins.
    pub fn new(now: Time, me: Life, terms: Terms, rules: Rules, past: Past<K>) -> Self {
        let size = 1..=MEMBERS_MAX;
        assert!(size.contains(&terms.size) && usize::from(me.member.0) < terms.size, "a member of its cluster");
        // The grants of the life before, and the fences that it knew.
        let known = terms.longer(terms.lease.max(terms.stale));
        let wait = if rules.has(Rule::RestartWait) && terms.size > 1 { known } else { Span::ZERO };
        let mut member = Self {
            me,
            terms,
            rules,
            view: None,
            epoch: 0,
            start_until: now + wait,
            installed: 0,
            remembers: false,
            tidy: past.tidy,
            unclean_until: Time::ZERO,
            leased: false,
            peers: (0..terms.size).map(|_| Peer::default()).collect(),
            book: Book::new(rules),
            rounds: Rounds::default(),
            lost: 0,
            effects: VecDeque::new(),
        };
        for told in past.intents {
            member.recall_intent(now, told);
        }
        member
    }

    /// A view was agreed on. Late and old ones do no harm.
    pub fn view(&mut self, now: Time, view: View) {
        if view.epoch <= self.epoch {
            return;
        }
        let old = core::mem::replace(&mut self.epoch, view.epoch);
        if let Some(before) = self.view.take() {
            let me = self.me;
            let others = before.lives.into_iter().filter(|life| *life != me);
            others.for_each(|life| self.say(life, Message::Release { epoch: old }));
        }
        self.remembers = self.installed != 0 && self.installed + 1 == view.epoch;
        self.book.deferred.clear();
        self.lapse();
        self.peers.iter_mut().for_each(|peer| peer.new_view(now, old));
        if view.has(self.me) {
            self.view = Some(view);
        }
        self.lose_owners(now);
        self.begin_rounds(now);
        self.install(now);
        self.tick(now);
    }

    /// A message came.
    pub fn hear(&mut self, now: Time, from: Life, message: Message<K>) {
        // A lease that lapsed is noticed before another one comes.
        self.settle(now);
        match message {
            Message::Ask { epoch, asked, since } => self.asked(now, from, epoch, (asked, since)),
            Message::Tell { epoch, asked, part, told } => self.told_part(now, from, epoch, (asked, part), told),
            Message::Grant { epoch, asked, stamp, past, told, open, upto, parts } => {
                if self.heard_parts(from, asked, parts) {
                    self.granted(now, from, epoch, (asked, stamp, past), (told, open, upto));
                }
            }
            Message::Release { epoch } => self.released(now, from, epoch),
            Message::Announce { epoch, id, round, intent } => self.announced(now, from, epoch, (id, round), intent),
            Message::Acknowledge { epoch, id, round } => self.acknowledged(now, from, epoch, (id, round)),
            Message::Refuse { epoch, id, round, why } => self.refused(now, from, epoch, (id, round), why),
            Message::Found { id, state } => {
                if self.view.as_ref().is_some_and(|view| view.has(from)) {
                    self.learn(now, id, &state);
                }
            }
            Message::Drop { keys } => self.effects.push_back(Effect::Drop(keys)),
            Message::Over { id, state } => {
                if id.owner == from {
                    self.book.deferred.remove(&id);
                    self.over(now, id, state);
                }
            }
            Message::Lost { id } => {
                if id.owner == from {
                    self.linger(now, id);
                }
            }
        }
        self.answer_deferred(now);
        self.settle(now);
    }

    /// Time passed.
    pub fn tick(&mut self, now: Time) {
        self.book_due(now);
        self.ask_again(now);
        self.rounds_due(now);
        self.answer_deferred(now);
        self.settle(now);
    }

    /// When [`Self::tick`] must come at the latest.
    pub fn next_at(&self) -> Time {
        let lease = if self.leased { self.leases_until() } else { Time::FAR };
        let clean = Some(self.unclean_until).filter(|until| *until > Time::ZERO);
        let soonest = [Some(lease), clean, self.asks_at(), self.book.next_at(), self.rounds.next_at()];
        soonest.into_iter().flatten().min().unwrap_or(Time::FAR)
    }

    /// What is to be done, the oldest first.
    pub fn effect(&mut self) -> Option<Effect<K>> {
        self.effects.pop_front()
    }

    /// Until when answers may come from the cache (R4). Must be asked after the effects were carried out.
    pub fn answers_until(&self) -> Time {
        match self.leased {
            true => self.leases_until(),
            false if !self.rules.has(Rule::Lease) && self.view.is_some() => Time::FAR,
            false => Time::ZERO,
        }
    }

    /// The view it acts in; none outside of the majority, as far as it knows.
    pub const fn acting_in(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// Whether it may acknowledge and announce now: it waited out the old view and knows what the others knew (R2, R9).
    pub fn acts(&self, now: Time) -> bool {
        let installed = self.installed == self.epoch || self.installed + 1 == self.epoch && self.installed != 0;
        self.view.is_some() && now >= self.quiet_until() && (installed || !self.rules.has(Rule::Installed))
    }

    /// What it would want to know after a crash: intents whose end matters to clients (P13).
    pub fn intents(&self) -> impl Iterator<Item = Told<K>> + '_ {
        // Nobody knows how long it will lie on a disk.
        let kept = self.book.told(Time::ZERO).filter(|told| told.intent.part_of().is_some());
        kept.map(|told| match told.state {
            // Whether it ran may show: others will tell.
            State::Unknown if told.sight != Sight::Blurred => Told { state: State::Pending, ..told },
            _ => told,
        })
    }

    /// How an attempt stands, if it is known.
    pub fn state(&self, id: AttemptId) -> Option<&State> {
        self.book.state(id)
    }

    /// Whether an attempt may have run, or may still: reads of what it changed go where it did until the others know.
    pub fn may_have_run(&self, id: AttemptId) -> bool {
        self.book.state(id).is_some_and(|state| *state != State::Cancelled)
    }

    /// The number of attempts of calls that must run once that this member has seen lost with their owners.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Attempts that are known and not over.
    pub fn pending(&self) -> usize {
        self.book.pending()
    }

    /// What it can say of the time before this view. Who still waits for calls that nobody knows of remembers too little.
    fn memory(&self) -> Memory {
        let clean = self.unclean_until == Time::ZERO;
        match (self.remembers && clean, self.tidy) {
            (true, _) => Memory::View,
            (false, true) => Memory::Tidy,
            (false, false) => Memory::None,
        }
    }

    fn others(&self) -> impl Iterator<Item = Life> + '_ {
        let me = self.me;
        self.view.iter().flat_map(|view| view.lives.iter().copied()).filter(move |life| *life != me)
    }

    /// Whether this comes from the view that holds here.
    fn current(&self, from: Life, epoch: u64) -> bool {
        let Some(view) = &self.view else { return false };
        let epoch = epoch == self.epoch || !self.rules.has(Rule::Epoch);
        epoch && view.has(from) && from.member != self.me.member
    }

    fn peer(&mut self, life: Life) -> &mut Peer {
        &mut self.peers[usize::from(life.member.0)]
    }

    fn say(&mut self, to: Life, message: Message<K>) {
        self.effects.push_back(Effect::Send(to, message));
    }

    fn say_all(&mut self, message: &Message<K>) {
        let others: Vec<Life> = self.others().collect();
        for life in others {
            self.say(life, message.clone());
        }
    }
}

impl Terms {
    /// A span that is surely over elsewhere when it is over here.
    fn longer(&self, span: Span) -> Span {
        Span::from_nanos(span.as_nanos() / 1000 * (1000 + u64::from(self.drift)))
    }

    /// A span that is surely not over elsewhere while it is not over here.
    fn shorter(&self, span: Span) -> Span {
        Span::from_nanos(span.as_nanos() / 1000 * 1000_u64.saturating_sub(u64::from(self.drift)))
    }

    const fn majority(&self) -> usize {
        self.size / 2 + 1
    }
}
