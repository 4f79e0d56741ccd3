//! Objects that must be read where they were changed, because other servers may still answer with the state before.
//!
//! Unlike a pin, a fence is a matter of correctness: it is never forgotten early. When the table is full, everything that would need a new
//! fence raises one fence around everything instead: all calls then stay at home until it ends.

use crate::id::ServerId;
use crate::key::Key;
use crate::time::Time;
use alloc::collections::BTreeMap;

/// At most [`FENCES_MAX`] fenced objects.
#[derive(Clone, Debug, Default)]
pub struct Fences {
    by_object: BTreeMap<Key, (ServerId, Time)>,
    /// While this lies in the future everything goes home.
    all_until: Time,
}

impl Fences {
    /// No fence but one around everything until a point in time.
    pub fn new(all_until: Time) -> Self {
        Self { by_object: BTreeMap::new(), all_until }
    }

    /// Fences an object at the server that changed it.
    pub fn raise(&mut self, now: Time, object: Key, server: ServerId, until: Time) {
        if until <= now {
            return;
        }
        if self.by_object.len() >= FENCES_MAX && !self.by_object.contains_key(&object) {
            self.by_object.retain(|_, (_, until)| now < *until);
        }
        if self.by_object.len() >= FENCES_MAX && !self.by_object.contains_key(&object) {
            self.raise_all(until);
            return;
        }
        self.by_object.insert(object, (server, until));
    }

    /// Fences everything at home until a point in time.
    pub fn raise_all(&mut self, until: Time) {
        self.all_until = self.all_until.max(until);
    }

    /// The server that must answer for this object now.
    pub fn find(&self, now: Time, object: Key) -> Option<ServerId> {
        self.fence(now, object).map(|(server, _)| server)
    }

    /// The server that must answer for a name: the one that changed it or its directory last, since an answer tells of both.
    #[inline]
    pub fn find_named(&self, now: Time, name: Key, directory: Key) -> Option<ServerId> {
        let fences = [self.fence(now, name), self.fence(now, directory)];
        fences.into_iter().flatten().max_by_key(|(_, until)| *until).map(|(server, _)| server)
    }

    #[inline]
    fn fence(&self, now: Time, object: Key) -> Option<(ServerId, Time)> {
        self.by_object.get(&object).filter(|(_, until)| now < *until).copied()
    }

    /// Whether every object counts as fenced at home.
    pub fn all(&self, now: Time) -> bool {
        now < self.all_until
    }
}

/// Fences kept one by one.
pub const FENCES_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

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
    }

    #[test]
    fn of_a_name_and_its_directory_the_one_that_was_changed_last_counts() {
        let (mut fences, now) = (Fences::default(), Time::from_nanos(1));
        let later = |seconds| now + Span::from_secs(seconds);
        fences.raise(now, Key(1), ServerId(1), later(10));
        assert_eq!(fences.find_named(now, Key(1), Key(2)), Some(ServerId(1)));
        fences.raise(now, Key(2), ServerId(2), later(20));
        assert_eq!(fences.find_named(now, Key(1), Key(2)), Some(ServerId(2)));
        assert_eq!(fences.find_named(later(20), Key(1), Key(2)), None);
    }

    #[test]
    fn a_coherent_pool_needs_no_fences() {
        let mut fences = Fences::default();
        fences.raise(Time::from_nanos(5), Key(1), ServerId(0), Time::from_nanos(5));
        assert_eq!(fences.find(Time::from_nanos(5), Key(1)), None);
    }
}
