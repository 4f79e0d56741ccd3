//! Until when an entry may be served: the earliest of everything that bounds it, and never at that moment or later.

use crate::time::{Span, Time};

/// The first moment at which an entry must no longer be served.
///
/// Paper: P12. It only ever moves closer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Horizon(Time);

impl Horizon {
    /// `life` from when the value was known to be true.
    pub fn after(true_at: Time, life: Span) -> Self {
        Self(true_at + life)
    }

    /// Bounded by one more thing, if it applies.
    pub fn at_most(self, until: Option<Time>) -> Self {
        Self(until.map_or(self.0, |until| self.0.min(until)))
    }

    /// Whether an entry with this horizon may be served at `now`.
    pub fn covers(self, now: Time) -> bool {
        now < self.0
    }

    /// The moment itself.
    pub const fn until(self) -> Time {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_bound_wins_and_the_horizon_itself_is_outside() {
        let at = Time::from_nanos;
        let life = Horizon::after(at(10), Span::from_nanos(5));
        for (lease, until) in [(None, 15), (Some(12), 12), (Some(20), 15), (Some(3), 3)] {
            let horizon = life.at_most(lease.map(at));
            assert_eq!(horizon.until(), at(until));
            assert!(horizon.covers(at(until - 1)) && !horizon.covers(at(until)));
        }
    }
}
