//! Objects that must be read where they were changed, because other servers may still answer with the state before.
//!
//! Unlike a pin, a fence is a matter of correctness: it is never forgotten early. When the table is full, everything that would need a new
//! fence raises one fence around everything instead: all calls then stay at home until it ends.

use crate::id::ServerId;
use crate::key::Key;
use crate::time::{Span, Time};
use alloc::collections::BTreeMap;

/// At most [`FENCES_MAX`] fenced objects.
#[derive(Clone, Debug, Default)]
pub struct Fences {
    by_object: BTreeMap<Key, Fence>,
    /// While this lies in the future everything goes home.
    all_until: Time,
    /// No fence ends before: until then there is no use in looking for one that has ended.
    first_end: Time,
}

/// One fenced object.
#[derive(Clone, Copy, Debug)]
struct Fence {
    server: ServerId,
    /// The end, if no mutation is under way.
    until: Time,
    /// Mutations of the object that are under way, all at one server.
    under_way: u32,
    runs_at: ServerId,
    /// Until then no further one leaves before those that are under way are over: another server waits for its turn.
    drains_until: Time,
}

/// What becomes of a mutation that wants to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// It may, and counts as under way.
    Counted,
    /// It may, and the table is full: everything is fenced.
    Uncounted,
    /// Another server is just changing the same, and nobody could say who was last: it waits.
    Busy,
}

impl Fence {
    fn at(server: ServerId, until: Time) -> Self {
        Self { server, until, under_way: 0, runs_at: server, drains_until: Time::ZERO }
    }

    fn stands(&self, now: Time) -> bool {
        self.under_way > 0 || now < self.until
    }
}

impl Fences {
    /// No fence but one around everything until a point in time.
    pub fn new(all_until: Time) -> Self {
        Self { all_until, ..Self::default() }
    }

    /// A mutation of an object wants to leave for a server: until it is over the object is read there, or where the fence stands already.
    /// If the table is full everything is fenced until `otherwise`.
    pub fn leave(&mut self, now: Time, object: Key, server: ServerId, otherwise: Time) -> Leave {
        if !self.has_room(now, object) {
            self.raise_all(otherwise);
            return Leave::Uncounted;
        }
        let fence = self.by_object.entry(object).or_insert(Fence::at(server, now));
        if fence.under_way > 0 && (fence.runs_at != server || now < fence.drains_until) {
            if fence.runs_at != server {
                fence.drains_until = now + TURN;
            }
            return Leave::Busy;
        }
        if !fence.stands(now) {
            fence.server = server;
        }
        fence.runs_at = server;
        fence.under_way += 1;
        Leave::Counted
    }

    /// A mutation that left is over, and has changed nothing.
    pub fn spare(&mut self, now: Time, object: Key) {
        if let Some(fence) = self.by_object.get_mut(&object) {
            fence.under_way = fence.under_way.saturating_sub(1);
            if !fence.stands(now) {
                self.by_object.remove(&object);
            }
        }
    }

    /// Fences an object at the server that changed it.
    pub fn raise(&mut self, now: Time, object: Key, server: ServerId, until: Time) {
        if until <= now {
            return;
        }
        if !self.has_room(now, object) {
            self.raise_all(until);
            return;
        }
        self.first_end = self.first_end.min(until);
        let fence = self.by_object.entry(object).or_insert(Fence::at(server, until));
        fence.server = server;
        fence.until = fence.until.max(until);
    }

    /// Fences everything at home until a point in time.
    pub fn raise_all(&mut self, until: Time) {
        self.all_until = self.all_until.max(until);
    }

    /// The server that must answer for this object now.
    pub fn find(&self, now: Time, object: Key) -> Option<ServerId> {
        self.by_object.get(&object).filter(|fence| fence.stands(now)).map(|fence| fence.server)
    }

    /// Whether a fence of this object lasts longer than that.
    pub fn lasts_past(&self, object: Key, end: Time) -> bool {
        self.by_object.get(&object).is_some_and(|fence| fence.stands(end))
    }

    /// Whether every object counts as fenced at home.
    pub fn all(&self, now: Time) -> bool {
        now < self.all_until
    }

    /// Objects that have a fence of their own, or had one that nobody has cleared away.
    pub fn len(&self) -> usize {
        self.by_object.len()
    }

    /// Objects that have a fence of their own now.
    pub fn standing(&self, now: Time) -> usize {
        self.by_object.values().filter(|fence| fence.stands(now)).count()
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.by_object.is_empty()
    }

    /// Whether an object has a fence, or can be given one.
    fn has_room(&mut self, now: Time, object: Key) -> bool {
        if self.by_object.len() < FENCES_MAX || self.by_object.contains_key(&object) {
            return true;
        }
        if self.first_end <= now {
            self.by_object.retain(|_, fence| fence.stands(now));
            self.first_end = self.by_object.values().map(|fence| fence.until).min().unwrap_or(now);
        }
        self.by_object.len() < FENCES_MAX
    }
}

/// How long those who change an object at one server let those wait who would come between another server and its turn.
const TURN: Span = Span::from_millis(100);
/// Fences kept one by one.
pub const FENCES_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_never_forgotten_early() {
        let (mut fences, now) = (Fences::default(), Time::from_nanos(1));
        let until = now + Span::from_secs(60);
        for key in 0..=FENCES_MAX as u64 {
            fences.raise(now, Key(key), ServerId(1), until);
        }
        assert!((0..FENCES_MAX as u64).all(|key| fences.find(now, Key(key)) == Some(ServerId(1))));
        assert_eq!(fences.find(now, Key(FENCES_MAX as u64)), None);
        assert!(fences.all(now) && !fences.all(until));
        fences.raise(until, Key(1 << 40), ServerId(2), until + Span::from_secs(1));
        assert_eq!(fences.find(until, Key(1 << 40)), Some(ServerId(2)));
        assert_eq!(fences.len(), 1, "what has ended makes room");
    }

    #[test]
    fn a_mutation_that_is_under_way_fences_and_one_that_changed_nothing_leaves_no_fence() {
        let (mut fences, now) = (Fences::default(), Time::from_nanos(1));
        let later = |seconds| now + Span::from_secs(seconds);
        assert_eq!(fences.leave(now, Key(1), ServerId(1), later(60)), Leave::Counted);
        assert_eq!(fences.leave(now, Key(1), ServerId(1), later(60)), Leave::Counted);
        assert_eq!(fences.find(later(1000), Key(1)), Some(ServerId(1)), "nobody knows when they will be over");
        fences.spare(later(1), Key(1));
        assert_eq!(fences.find(later(1), Key(1)), Some(ServerId(1)));
        fences.spare(later(1), Key(1));
        assert_eq!((fences.find(later(1), Key(1)), fences.is_empty()), (None, true));
    }

    #[test]
    fn two_servers_never_change_one_object_at_a_time_and_neither_is_kept_waiting() {
        let (mut fences, now) = (Fences::default(), Time::from_nanos(1));
        let later = |millis| now + Span::from_millis(millis);
        let leave = |fences: &mut Fences, server, at| fences.leave(at, Key(1), ServerId(server), later(60_000));
        assert_eq!(leave(&mut fences, 1, now), Leave::Counted);
        assert_eq!(leave(&mut fences, 2, now), Leave::Busy);
        assert_eq!(leave(&mut fences, 1, later(1)), Leave::Busy, "the other waits for its turn");
        fences.spare(later(2), Key(1));
        assert_eq!(leave(&mut fences, 2, later(2)), Leave::Counted);
        assert_eq!(leave(&mut fences, 1, later(2)), Leave::Busy);
    }

    #[test]
    fn one_that_changed_nothing_leaves_the_fence_of_another_as_it_is() {
        let (mut fences, now) = (Fences::default(), Time::from_nanos(1));
        let later = |seconds| now + Span::from_secs(seconds);
        fences.raise(now, Key(1), ServerId(1), later(10));
        assert_eq!(fences.leave(later(1), Key(1), ServerId(2), later(60)), Leave::Counted);
        assert!(fences.lasts_past(Key(1), later(10)), "nobody knows when it will be over");
        fences.spare(later(2), Key(1));
        assert_eq!(fences.find(later(9), Key(1)), Some(ServerId(1)));
        assert!(!fences.lasts_past(Key(1), later(10)) && fences.lasts_past(Key(1), later(9)));
    }

    #[test]
    fn a_coherent_pool_needs_no_fences() {
        let mut fences = Fences::default();
        fences.raise(Time::from_nanos(5), Key(1), ServerId(0), Time::from_nanos(5));
        assert_eq!(fences.find(Time::from_nanos(5), Key(1)), None);
    }
}
