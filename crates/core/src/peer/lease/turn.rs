//! Whose turn it is: one mutation at a time of a name, and of what must show later whether a call ran.
//!
//! Whoever announces such a one is let through by a member when nothing there clashes with it. If something does it waits, unanswered, until
//! that is over; of two that wait for each other the one gives way that was refused less often.

use super::attempt::{AttemptId, Intent, Refusal, Sight};
use super::book::{Book, Record};
use super::view::Life;
use super::{Effect, Member, Message, Outcome, Rule};
use crate::time::{Span, Time};
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Another's attempt that waits here for its turn.
#[derive(Clone, Debug)]
pub(super) struct Deferred<K> {
    epoch: u64,
    round: u32,
    intent: Intent<K>,
}

impl<K: Copy + Ord> Book<K> {
    /// Whether somebody must come before this attempt, or it would change the same at another server than one under way.
    pub(super) fn busy(&self, now: Time, (me, id): (Life, Option<AttemptId>), intent: &Intent<K>) -> bool {
        let waits = |key: &K| !intent.names.contains(key) && self.wanted.get(key).is_some_and(|until| now < *until);
        let elsewhere = |other: &Record<K>| {
            let servers = intent.server.zip(other.intent.server).filter(|_| other.trace.is_none());
            servers.is_some_and(|(ours, theirs)| ours != theirs)
        };
        let fenced = |key: &K| self.on(*key, id).any(|(_, other)| elsewhere(other));
        intent.keys.iter().any(waits)
            || self.rules.has(Rule::Fence) && intent.keys.iter().any(fenced)
            || self.clashing(now, (me, id), intent).next().is_some()
    }

    /// Other attempts that change one of its names, or it one of theirs. What a member changes beside others it answers for itself: whoever
    /// must change it alone waits for each of them.
    fn clashing(
        &self,
        now: Time,
        (me, id): (Life, Option<AttemptId>),
        intent: &Intent<K>,
    ) -> impl Iterator<Item = AttemptId> {
        let rules = self.rules;
        let clashes = move |key: &K, of: AttemptId, other: &Record<K>| {
            let (ours, theirs) = (intent.names.contains(key), other.intent.names.contains(key));
            // For what a lost member changes beside others nobody answers.
            let named = theirs || ours && (of.owner == me || other.is_orphan());
            let blocks = match other.trace {
                Some(until) => now < until && rules.has(Rule::Trace),
                None if other.deadline.is_none() => true,
                // A lost call does not block a name, unless somebody will ask whether it ran, or whether this one did.
                None => other.is_orphan() && (!theirs || other.sight != Sight::Blurred) && rules.has(Rule::Trace),
            };
            named && blocks && rules.has(Rule::Name)
        };
        let on = move |key: &K| {
            let key = *key;
            self.on(key, id).filter(move |(of, other)| clashes(&key, *of, other)).map(|(of, _)| of)
        };
        intent.keys.iter().flat_map(on)
    }

    /// The attempts on a key, but for this one.
    pub(super) fn on(&self, key: K, id: Option<AttemptId>) -> impl Iterator<Item = (AttemptId, &Record<K>)> {
        let ids = self.keys.get(&key).into_iter().flatten().copied().filter(move |other| Some(*other) != id);
        ids.filter_map(|other| Some((other, self.records.get(&other)?)))
    }

    /// Whether this life changes one of these beside others, as far as is known.
    pub(super) fn changes(&self, owner: Life, names: &[K]) -> bool {
        let ids = |name: &K| self.keys.get(name).into_iter().flatten().filter(|id| id.owner == owner);
        let pending = |id: &AttemptId| self.records.get(id).is_some_and(|record| record.trace.is_none());
        names.iter().flat_map(ids).any(pending)
    }

    /// Somebody must change these alone and could not: whoever changes them beside others comes later.
    pub(super) fn want(&mut self, now: Time, until: Time, names: &[K]) {
        if self.wanted.len() >= WANTED_MAX {
            self.wanted.retain(|_, until| now < *until);
        }
        let Self { wanted, keys, records, .. } = self;
        for name in names {
            let mut others = keys.get(name).into_iter().flatten().filter_map(|id| records.get(id));
            if wanted.len() < WANTED_MAX && others.any(|other| !other.intent.names.contains(name)) {
                wanted.insert(*name, until);
            }
        }
    }
}

impl<K: Copy + Ord> Member<K> {
    /// Somebody must change these alone: one's own holds on them should end, and nobody should begin to change them beside others.
    pub(super) fn make_way(&mut self, now: Time, names: &[K]) {
        self.book.want(now, now + Span::from_nanos(self.terms.lease.as_nanos() / WANTED), names);
        let ids = names.iter().filter_map(|name| self.book.keys.get(name)).flatten();
        let held: Vec<AttemptId> = ids.filter(|id| self.rounds.holds(**id)).copied().collect();
        self.effects.extend(held.into_iter().map(Effect::Recall));
    }

    /// A member is about to change something: what is kept of it goes before it is acknowledged.
    pub(super) fn announced(
        &mut self,
        now: Time,
        from: Life,
        epoch: u64,
        (id, round): (AttemptId, u32),
        intent: Intent<K>,
    ) {
        if !self.current(from, epoch) || id.owner != from || !self.acts(now) {
            return;
        }
        let entered = match self.enter(now, id, &intent) {
            Err(Refusal::Busy) if self.give_way(now, id, &intent) => self.enter(now, id, &intent),
            entered => entered,
        };
        self.book.deferred.remove(&id);
        let epoch = self.epoch;
        match entered {
            Ok(()) => self.say(from, Message::Acknowledge { epoch, id, round }),
            Err(Refusal::Busy) if self.will_be_free(now, id, &intent) => {
                self.book.deferred.insert(id, Deferred { epoch, round, intent });
            }
            Err(why) => self.say(from, Message::Refuse { epoch, id, round, why }),
        }
    }

    /// One's own attempts that clash with this one, may not leave yet and come after it are given up for now. Whether there were any.
    fn give_way(&mut self, now: Time, id: AttemptId, intent: &Intent<K>) -> bool {
        let first = |other: &AttemptId| {
            let rank = self.book.intent(*other).map_or(0, |other| other.rank);
            (intent.rank, Reverse(id)) > (rank, Reverse(*other))
        };
        let clashing = self.book.clashing(now, (self.me, Some(id)), intent).filter(|other| other.owner == self.me);
        let later: Vec<AttemptId> = clashing.filter(|other| self.rounds.waits(*other) && first(other)).collect();
        for other in &later {
            self.ended(now, *other, Outcome::NeverLeft);
            self.effects.push_back(Effect::Refused(*other, Refusal::Busy));
        }
        !later.is_empty()
    }

    /// Whether all that clashes with this one is under way and will end, or give way by itself: then nothing is said until then.
    fn will_be_free(&self, now: Time, id: AttemptId, intent: &Intent<K>) -> bool {
        let ends = |other: AttemptId| {
            let lives =
                self.book.records.get(&other).is_some_and(|other| other.deadline.is_none() && other.trace.is_none());
            lives && (other.owner != self.me || self.rounds.leaves(other))
        };
        let mut clashing = self.book.clashing(now, (self.me, Some(id)), intent).peekable();
        let room = self.book.deferred.len() < DEFERRED_MAX;
        room && clashing.peek().is_some() && clashing.all(ends)
    }

    /// Something is over: those who waited for that.
    pub(super) fn answer_deferred(&mut self, now: Time) {
        while core::mem::take(&mut self.book.freed) {
            let waiting: Vec<AttemptId> = self.book.deferred.keys().copied().collect();
            for id in waiting {
                let Some(Deferred { epoch, round, intent }) = self.book.deferred.remove(&id) else { continue };
                self.announced(now, id.owner, epoch, (id, round), intent);
            }
        }
    }
}

/// What is kept for who must change it alone, for this part of a term: such a one asks again sooner.
const WANTED: u64 = 8;
/// Keys that are kept so, before those whose time has passed are looked for.
const WANTED_MAX: usize = 1 << 10;
/// Announcements that wait for their turn at a member.
const DEFERRED_MAX: usize = 1 << 12;
