//! One monotonic clock for a run. Its nanoseconds are the system's CLOCK_MONOTONIC, so that histories of several processes on
//! one machine can be laid side by side.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Nanoseconds of CLOCK_MONOTONIC.
pub(crate) type Nanos = u64;

/// Reads the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
    nanos: Nanos,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let time = clock_gettime(ClockId::Monotonic);
        let nanos = time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs();
        Self { origin: Instant::now(), nanos }
    }

    pub(crate) fn now(&self) -> Nanos {
        self.at(Instant::now())
    }

    pub(crate) fn at(&self, instant: Instant) -> Nanos {
        self.nanos + span(instant.saturating_duration_since(self.origin))
    }

    pub(crate) fn instant(&self, nanos: Nanos) -> Instant {
        self.origin + Duration::from_nanos(nanos.saturating_sub(self.nanos))
    }
}

/// A duration in nanoseconds; 584 years are enough.
pub(crate) fn span(duration: Duration) -> Nanos {
    duration.as_nanos().try_into().unwrap_or(Nanos::MAX)
}
