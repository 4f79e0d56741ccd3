//! Whether a call ran whose proxy died: what it was to change shows that, as long as nobody else changes the same.
//!
//! A lost member's call that must run once keeps others from its names until it cannot run any more, and for as long again, so that a client
//! who sends it again has it found out what became of it. What may change the same all the same (a lost call, a copy that may still run, whoever
//! comes after that time) blurs the trace: then nobody can know.

use super::attempt::{AttemptId, Operation, State, Told};
use super::book::{Book, Record, Sight};
use super::{Member, Message, Rule};
use crate::time::Time;
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
        for key in keys {
            let others = self.keys.get(key).into_iter().flatten().filter(|other| **other != id);
            for other in others.copied().collect::<Vec<_>>() {
                let Some(record) = self.records.get_mut(&other) else { continue };
                if record.intent.names.contains(key) && which(record) {
                    record.sight = Sight::Blurred;
                    self.untrace(other);
                }
            }
        }
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
    pub(super) fn tell_led(&mut self, id: AttemptId, led: Option<(Operation, bool)>) {
        let Some((operation, _)) = led else { return };
        for other in self.operations.get(&operation).into_iter().flatten().filter(|other| other.owner == id.owner) {
            if let Some(record) = self.records.get_mut(other) {
                record.intent.led = record.intent.led.or(led);
            }
        }
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
    /// Whoever looked found what an operation in doubt left behind, or that it never ran and will not; the others are told. False if that can
    /// no longer be known: somebody else has changed the same meanwhile.
    pub fn found_out(&mut self, now: Time, operation: Operation, state: &State) -> bool {
        let ids = self.book.operations.get(&operation).into_iter().flatten();
        let mut tries = ids.filter_map(|id| self.book.records.get(id));
        if tries.any(|record| record.state == State::Unknown && record.trace.is_none()) {
            return false;
        }
        self.say_all(&Message::Found { operation, state: state.clone() });
        self.learn(now, operation, state);
        true
    }

    /// The attempts of an operation that are known.
    pub fn attempts_of(&self, operation: Operation) -> &[AttemptId] {
        self.book.operations.get(&operation).map(Vec::as_slice).unwrap_or_default()
    }

    /// It was found out whether an operation in doubt ran.
    pub(super) fn learn(&mut self, now: Time, operation: Operation, state: &State) {
        let ids: Vec<AttemptId> = self.book.operations.get(&operation).into_iter().flatten().copied().collect();
        for id in ids {
            if self.book.records.get(&id).is_some_and(|record| record.orphan || record.state == State::Unknown) {
                self.over(now, id, state.clone());
            }
        }
    }

    /// What the life before wrote down.
    pub(super) fn recall_intent(&mut self, now: Time, told: Told<K>) {
        let id = told.id;
        self.merge(now, told);
        let clear = |record: &&mut Record<K>| record.sight == Sight::Clear;
        if let Some(record) = self.book.records.get_mut(&id).filter(clear) {
            record.sight = Sight::Unconfirmed;
            self.book.untrace(id);
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
