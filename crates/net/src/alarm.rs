//! One alarm of an event loop, exact to the timer's own precision: a poll's timeout counts whole milliseconds, which is longer
//! than most calls take.

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Wakes its loop at a given time.
#[derive(Debug)]
pub struct Alarm {
    timer: OwnedFd,
    set: Option<Instant>,
}

impl Alarm {
    /// An alarm that is not set; it reports to the loop as `token`.
    pub fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        registry.register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self { timer, set: None })
    }

    /// Wakes at `at`, or not at all. Costs nothing if that is what is set already.
    pub fn set(&mut self, now: Instant, at: Option<Instant>) -> io::Result<()> {
        if self.set == at {
            return Ok(());
        }
        // Zero would disarm it.
        let left = at.map_or(Duration::ZERO, |at| at.saturating_duration_since(now).max(Duration::from_nanos(1)));
        let value =
            Timespec { tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() };
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: none, it_value: value })?;
        self.set = at;
        Ok(())
    }

    /// The alarm went off: the next [`Alarm::set`] sets it again.
    pub fn rang(&mut self) {
        self.set = None;
    }
}
