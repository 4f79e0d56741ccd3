//! The daemon's only clock: the core's time, counted from the start.

use midas_core::time::{Span, Time};
use std::time::{Duration, Instant};

/// Time since the daemon started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }

    /// The core's name for an instant. One, not zero, is the start: the core takes zero for never.
    pub(crate) fn at(self, now: Instant) -> Time {
        Time::from_nanos(1 + now.saturating_duration_since(self.0).as_nanos() as u64)
    }
}

/// A span as the standard library has it.
pub(crate) const fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}
