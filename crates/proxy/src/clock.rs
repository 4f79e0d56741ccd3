//! The daemon's only clock: the core's time. It is the time of day when the daemon started, and runs evenly from there, so that files'
//! change times lie on it too.

use midas_core::time::{Span, Time};
use midas_nfs::nfs3::Nfstime3;
use std::time::{Duration, Instant, SystemTime};

/// A moment by both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    /// Never zero, which the core takes for never.
    nanos: u64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), nanos: (since_1970.as_nanos() as u64).max(1) }
    }

    /// This moment.
    pub(crate) fn now(self) -> Time {
        self.at(Instant::now())
    }

    /// The core's name for an instant.
    pub(crate) fn at(self, now: Instant) -> Time {
        Time::from_nanos(self.nanos + now.saturating_duration_since(self.start).as_nanos() as u64)
    }
}

/// The core's name for a file's time.
pub(crate) fn file_time(time: Nfstime3) -> Time {
    Time::from_nanos(u64::from(time.seconds) * 1_000_000_000 + u64::from(time.nseconds.min(999_999_999)))
}

/// A span as the standard library has it.
pub(crate) const fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}
