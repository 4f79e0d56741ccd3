//! Whether a call ran whose proxy died: what it was to change shows that, as long as nobody else changes the same.
//!
//! A lost member's call that must run once keeps others from its names until it cannot run any more, and for as long again, so that a client
//! who sends it again has it found out what became of it. What may change the same all the same (a lost call, a copy that may still run, whoever
//! comes after that time) blurs the trace: then nobody can know.

use super::attempt::{AttemptId, Intent, Operation, Sight, State, Told, Trace};
use super::book::{Book, Record};
use super::{Member, Message, Rule};
use crate::time::{Span, Time};
use alloc::vec;
use alloc::vec::Vec;

impl<K: Copy + Ord> Book<K> {
    /// A copy of this attempt's call, or a call that nobody waits for, may change what it does, until then.
    pub(super) fn shake(&mut self, now: Time, until: Time, id: AttemptId) {
        let Some(keys) = self.records.get(&id).map(|record| record.intent.keys.clone()) else { return };
        self.blur(id, &keys, |_, _| true);
        if self.shaken.len() >= SHAKEN_MAX {
            self.shaken.retain(|_, until| now < *until);
        }
        for key in keys {
            let last = self.shaken.entry(key).or_default();
            *last = until.max(*last);
        }
    }

    /// It is announced, and may be let through: what lost calls did before on its keys shows no longer.
    pub(super) fn overlay(&mut self, id: AttemptId) {
        let Some(keys) = self.intent(id).map(|intent| intent.keys.clone()) else { return };
        self.blur(id, &keys, |_, other| other.trace.is_some() || other.deadline.is_some());
    }

    /// This attempt may change names of others: these, of those, show no longer whether they ran.
    pub(super) fn blur(&mut self, id: AttemptId, keys: &[K], which: impl Fn(AttemptId, &Record<K>) -> bool) {
        let keys = if self.rules.has(Rule::Trace) { keys } else { &[] };
        let same = self.parts_of(id);
        for key in keys {
            let others = self.keys.get(key).into_iter().flatten().filter(|other| !same.contains(other));
            for other in others.copied().collect::<Vec<_>>() {
                let Some(record) = self.records.get_mut(&other) else { continue };
                if record.intent.names.contains(key) && which(other, record) {
                    record.sight = Sight::Blurred;
                    self.untrace(other);
                }
            }
        }
    }

    /// It was lost, and nobody will know whether it ran: what others did beside it does not show. What its owner announced later did not run
    /// beside it: there it was over, or lost while its owner lived, which is told and shakes those behind it.
    pub(super) fn hide(&mut self, id: AttemptId) {
        let Some(keys) = self.intent(id).map(|intent| intent.keys.clone()) else { return };
        self.blur(id, &keys, |other, _| !is_later(other, id));
    }

    /// Whether a lost call of another operation may change a name of its operation, or may have.
    pub(super) fn is_shaken(&self, id: AttemptId) -> bool {
        let parts = self.parts_of(id);
        let lost = |(other, record): (AttemptId, &Record<K>)| {
            record.deadline.is_some() && !parts.contains(&other) && !is_later(id, other)
        };
        let shaken = |part: &Intent<K>| part.names.iter().any(|name| self.on(*name, None).any(lost));
        parts.iter().filter_map(|part| self.intent(*part)).any(shaken)
    }

    /// Another try of this attempt's operation is known to have run.
    fn has_run(&self, id: AttemptId) -> bool {
        let operation = self.intent(id).and_then(Intent::part_of);
        let mut tries = operation.and_then(|operation| self.operations.get(&operation)).into_iter().flatten();
        tries.any(|other| *other != id && matches!(self.state(*other), Some(State::Ended(_) | State::Copied(_))))
    }

    /// It is not asked any more, or in vain, whether it ran.
    pub(super) fn untrace(&mut self, id: AttemptId) {
        let Some(record) = self.records.get_mut(&id).filter(|record| record.trace.is_some()) else { return };
        record.trace = None;
        let keys = record.intent.keys.clone();
        record.tidy_up();
        self.leave(id, &keys);
    }

    /// Where the first name of an operation led: one of its parts tells.
    pub(super) fn led(&self, id: AttemptId) -> Option<bool> {
        self.parts_of(id).into_iter().find_map(|part| self.intent(part)?.led)
    }

    /// What could be changed by now while this member was not asked shows nothing any more.
    pub(super) fn outlast(&mut self, now: Time) {
        let over = |record: &Record<K>| record.trace.is_some_and(|until| until <= now);
        let over: Vec<AttemptId> = self.records.iter().filter(|(_, record)| over(record)).map(|(id, _)| *id).collect();
        for id in over {
            self.untrace(id);
        }
    }

    /// A member whose grant had lapsed may have let others change the names of what it knew to be over:
    /// it did not ask here, and what it said was not heard.
    pub(super) fn unasked(&mut self) {
        let traced = self.records.iter().filter(|(_, record)| record.trace.is_some()).map(|(id, _)| *id);
        for id in traced.collect::<Vec<_>>() {
            self.untrace(id);
        }
    }

    /// This member was not in the view before. The others may have forgotten lost calls whose time is
    /// over, this long for running and as long for showing, and what was changed after them.
    pub(super) fn away(&mut self, now: Time, patience: Span) {
        let over = |record: &Record<K>| match record.state {
            State::Unknown => record.trace.is_some() && record.traced_until <= now,
            State::Pending => record.is_orphan() && record.learned + patience + patience <= now,
            State::Ended(_) | State::Copied(_) | State::Cancelled => false,
        };
        let over: Vec<AttemptId> = self.records.iter().filter(|(_, record)| over(record)).map(|(id, _)| *id).collect();
        for id in over {
            if let Some(record) = self.records.get_mut(&id) {
                record.sight = Sight::Blurred;
            }
            self.untrace(id);
        }
    }

    /// All that was announced of an operation with this attempt: an earlier or later try of its owner is another matter.
    pub(super) fn parts_of(&self, id: AttemptId) -> Vec<AttemptId> {
        let operation = self.intent(id).and_then(Intent::part_of);
        let tries = operation.and_then(|operation| self.operations.get(&operation)).into_iter().flatten().copied();
        let tries = tries.filter(|other| other.owner == id.owner);
        let begins = |other: &AttemptId| self.intent(*other).is_some_and(|intent| intent.operation.is_some());
        let (before, after): (Vec<_>, Vec<_>) = tries.clone().filter(begins).partition(|other| *other <= id);
        let (from, to) = (before.into_iter().max(), after.into_iter().min());
        let is_part = |other: &AttemptId| from.is_none_or(|from| from <= *other) && to.is_none_or(|to| *other < to);
        let parts: Vec<AttemptId> = tries.filter(is_part).collect();
        if parts.is_empty() { vec![id] } else { parts }
    }

    /// Whether a part of this attempt's operation is in doubt and its names do not show whether it ran.
    pub(super) fn is_blurred(&self, id: AttemptId) -> bool {
        let mut parts = self.parts_of(id).into_iter().filter_map(|part| self.records.get(&part));
        parts.any(|part| part.state == State::Unknown && part.trace.is_none())
    }

    /// Its names show whether it ran, until then at least.
    pub(super) fn trace(&mut self, until: Time, id: AttemptId) {
        let Self { records, keys, .. } = self;
        let clear = |record: &&mut Record<K>| record.sight == Sight::Clear && !record.intent.names.is_empty();
        let Some(record) = records.get_mut(&id).filter(clear) else { return };
        record.traced_until = until;
        if record.trace.replace(until).is_none() {
            for key in &record.intent.keys {
                keys.entry(*key).or_default().push(id);
            }
        }
    }

    /// Somebody finds out whether this ran: its names wait for that.
    pub(super) fn extend(&mut self, until: Time, operation: Operation) {
        for id in self.operations.get(&operation).into_iter().flatten() {
            if let Some(trace) = self.records.get_mut(id).and_then(|record| record.trace.as_mut()) {
                *trace = until.max(*trace);
            }
        }
    }
}

impl<K: Copy + Ord> Member<K> {
    /// Whoever looked since then found what an attempt in doubt left behind, or that it never ran and will not; the others are told. False if
    /// its trace was relied on and may be blurred by now: nothing is known then.
    pub fn found_out(&mut self, now: Time, id: AttemptId, (trace, since): (Trace, Time), state: &State) -> bool {
        // Whoever refused it, perhaps half a term before, keeps its names for a term. Who keeps them
        // here would know of what changed them.
        let kept = |record: &Record<K>| record.state == State::Unknown && record.trace.is_some();
        let kept = self.book.records.get(&id).is_some_and(kept);
        let late = !kept && now.since(since) > self.terms.shorter(Span::from_nanos(self.terms.lease.as_nanos() / 2));
        let over = self.book.state(id).filter(|state| **state != State::Unknown).cloned();
        if let Some(known @ (State::Ended(_) | State::Copied(_) | State::Cancelled)) = &over {
            // Whoever refused it has not heard that it is over, and would refuse it for as long as it is announced.
            self.say_all(&Message::Found { id, state: known.clone() });
        }
        let hidden = self.book.is_blurred(id) || self.book.is_shaken(id) || self.book.has_run(id);
        if trace != Trace::Blurred && (late || over.is_some() || hidden || !self.vouches(now)) {
            return false;
        }
        self.say_all(&Message::Found { id, state: state.clone() });
        self.learn(now, id, state);
        true
    }

    /// Whether it is asked before others change what is in doubt here.
    pub(super) fn vouches(&self, now: Time) -> bool {
        self.leased && now < self.leases_until()
    }

    /// What other operations led to, as far as it is remembered.
    pub fn answers_but_of(&self, operation: Operation) -> impl Iterator<Item = &[u8]> {
        let others = self.book.records.values().filter(move |record| record.intent.operation != Some(operation));
        others.filter_map(|record| match &record.state {
            State::Ended(answer) | State::Copied(answer) => answer.as_deref(),
            State::Pending | State::Unknown | State::Cancelled => None,
        })
    }

    /// It was found out whether an attempt in doubt ran.
    pub(super) fn learn(&mut self, now: Time, id: AttemptId, state: &State) {
        for part in self.book.parts_of(id) {
            if self.book.records.get(&part).is_some_and(|record| record.is_orphan() || record.state == State::Unknown) {
                self.over(now, part, state.clone());
            }
        }
    }

    /// What the life before wrote down.
    pub(super) fn recall_intent(&mut self, now: Time, told: Told<K>) {
        let id = told.id;
        self.merge(now, told);
        if let Some(record) = self.book.records.get_mut(&id) {
            record.sight = record.sight.max(Sight::Unconfirmed);
            record.shared = false;
            self.book.untrace(id);
        }
    }

    /// Every call that may have left is known to somebody: what only the life before this one wrote down never left.
    pub(super) fn disown(&mut self, now: Time) {
        let alone = |record: &Record<K>| !record.shared && record.is_orphan() && record.state == State::Pending;
        let ids: Vec<AttemptId> =
            self.book.records.iter().filter(|(_, record)| alone(record)).map(|(id, _)| *id).collect();
        for id in ids {
            // Those who heard of it from here wait for it.
            self.say_all(&Message::Found { id, state: State::Cancelled });
            self.over(now, id, State::Cancelled);
        }
    }

    /// Somebody who was there tells of what is known from a disk alone, and that nobody has changed the same.
    pub(super) fn confirm(&mut self, id: AttemptId) {
        let waits = |record: &&mut Record<K>| record.state == State::Pending && record.sight == Sight::Unconfirmed;
        if let Some(record) = self.book.records.get_mut(&id).filter(waits) {
            record.sight = Sight::Clear;
        }
    }
}

/// Whether an attempt was announced after another one of the same life.
fn is_later(id: AttemptId, than: AttemptId) -> bool {
    id.owner == than.owner && id.sequence > than.sequence
}

/// Keys that a lost call may change, before those whose time has passed are looked for.
const SHAKEN_MAX: usize = 1 << 10;
