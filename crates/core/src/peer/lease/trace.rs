//! Whether a call ran whose proxy died: what it was to change shows that, as long as nobody else changes the same.
//!
//! A lost member's call that must run once keeps others from its names until it cannot run any more, and for as long again, so that a client
//! who sends it again has it found out what became of it. What may change the same all the same (a lost call, a copy that may still run, whoever
//! comes after that time) blurs the trace: then nobody can know.

use super::attempt::{AttemptId, Intent, Operation, Sight, State, Told, Trace};
use super::book::{Book, Record};
use super::view::Life;
use super::{Member, Message, Rule};
use crate::time::{Span, Time};
use alloc::vec;
use alloc::vec::Vec;

impl<K: Copy + Ord> Book<K> {
    /// A call that nobody waits for may change what this attempt does, until then.
    pub(super) fn shake(&mut self, now: Time, until: Time, id: AttemptId) {
        let Some(keys) = self.records.get(&id).map(|record| record.intent.keys.clone()) else { return };
        self.blur(id, &keys, |_| true);
        if self.shaken.len() >= SHAKEN_MAX {
            self.shaken.retain(|_, until| now < *until);
        }
        for key in keys {
            let last = self.shaken.entry(key).or_default();
            *last = until.max(*last);
        }
    }

    /// This attempt may change names of others: these, of those, show no longer whether they ran.
    pub(super) fn blur(&mut self, id: AttemptId, keys: &[K], which: impl Fn(&Record<K>) -> bool) {
        let keys = if self.rules.has(Rule::Trace) { keys } else { &[] };
        let operation = self.intent(id).and_then(Intent::part_of);
        let same = [vec![id], self.parts_of(id.owner, operation)].concat();
        for key in keys {
            let others = self.keys.get(key).into_iter().flatten().filter(|other| !same.contains(other));
            for other in others.copied().collect::<Vec<_>>() {
                let Some(record) = self.records.get_mut(&other) else { continue };
                if record.intent.names.contains(key) && which(record) {
                    record.sight = Sight::Blurred;
                    self.untrace(other);
                }
            }
        }
    }

    /// Whether a lost call of another operation may change one of its names.
    pub(super) fn is_shaken(&self, id: AttemptId) -> bool {
        let Some(intent) = self.intent(id) else { return false };
        let same = self.parts_of(id.owner, intent.part_of());
        let lost = |(other, record): (AttemptId, &Record<K>)| record.deadline.is_some() && !same.contains(&other);
        intent.names.iter().any(|name| self.on(*name, Some(id)).any(lost))
    }

    /// It is not asked any more, or in vain, whether it ran.
    pub(super) fn untrace(&mut self, id: AttemptId) {
        let Some(record) = self.records.get_mut(&id).filter(|record| record.trace.is_some()) else { return };
        record.trace = None;
        let keys = record.intent.keys.clone();
        record.tidy_up();
        self.leave(id, &keys);
    }

    /// Where the first name of an operation led is known of all attempts of this owner.
    pub(super) fn tell_led(&mut self, id: AttemptId, intent: &Intent<K>) {
        for other in intent.led.map_or_else(Vec::new, |_| self.parts_of(id.owner, intent.part_of())) {
            if let Some(record) = self.records.get_mut(&other) {
                record.intent.led = record.intent.led.or(intent.led);
            }
        }
    }

    /// All that an owner announced of an operation.
    pub(super) fn parts_of(&self, owner: Life, operation: Option<Operation>) -> Vec<AttemptId> {
        let all = operation.and_then(|operation| self.operations.get(&operation)).into_iter().flatten();
        all.filter(|other| other.owner == owner).copied().collect()
    }

    /// Whether a part of this attempt's operation is in doubt and its names do not show whether it ran.
    pub(super) fn is_blurred(&self, id: AttemptId) -> bool {
        let operation = self.intent(id).and_then(Intent::part_of);
        let parts = self.parts_of(id.owner, operation).into_iter().filter_map(|part| self.records.get(&part));
        parts.into_iter().any(|part| part.state == State::Unknown && part.trace.is_none())
    }

    /// Its names show whether it ran, until then at least.
    pub(super) fn trace(&mut self, until: Time, id: AttemptId) {
        let Self { records, keys, .. } = self;
        let clear = |record: &&mut Record<K>| record.sight == Sight::Clear && !record.intent.names.is_empty();
        let Some(record) = records.get_mut(&id).filter(clear) else { return };
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
        // Whoever refused it, perhaps half a term before, keeps its names for a term.
        let late = now.since(since) > self.terms.shorter(Span::from_nanos(self.terms.lease.as_nanos() / 2));
        let lost = late || self.book.is_blurred(id);
        if trace != Trace::Blurred && lost {
            return false;
        }
        self.say_all(&Message::Found { id, state: state.clone() });
        self.learn(now, id, state);
        true
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
        let operation = self.book.intent(id).and_then(Intent::part_of);
        for part in self.book.parts_of(id.owner, operation) {
            if self.book.records.get(&part).is_some_and(|record| record.orphan || record.state == State::Unknown) {
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
        let alone = |record: &Record<K>| !record.shared && record.orphan && record.state == State::Pending;
        let ids: Vec<AttemptId> =
            self.book.records.iter().filter(|(_, record)| alone(record)).map(|(id, _)| *id).collect();
        for id in ids {
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

/// Keys that a lost call may change, before those whose time has passed are looked for.
const SHAKEN_MAX: usize = 1 << 10;
