//! Whether calls may go to a server. A server that fails [`FAILURES_MAX`] times in a row, or that the driver declares down, leaves, comes back on probation, and starts slowly.
//!
//! Errors are not speed: a server that fails fast has a short queue and must not look idle, so failures in a row close it
//! and otherwise make its calls count for more. The driver declares what only it can see (a connection that
//! is gone, an administrator's drain, handles that differ); everything else follows from how calls end.

use crate::id::{ServerId, ServerSet};
use crate::key::Key;
use crate::servers::Servers;
use crate::time::{Span, Time};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A server's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Health {
    /// Takes calls.
    Up,
    /// Takes one call at a time, to see whether it answers.
    Probation,
    /// Closed because its answers were errors; probation follows after a back-off.
    Failing,
    /// Closed by the driver: it does not answer.
    Down,
    /// Closed by the administrator.
    Drained,
    /// Closed for good: its handles differ from the pool's.
    Quarantined,
}

impl Health {
    /// Every state.
    pub const ALL: [Self; 6] = [Self::Up, Self::Probation, Self::Failing, Self::Down, Self::Drained, Self::Quarantined];

    /// The word that users read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Probation => "probation",
            Self::Failing => "failing",
            Self::Down => "down",
            Self::Drained => "drained",
            Self::Quarantined => "quarantined",
        }
    }

    const fn open(self) -> bool {
        matches!(self, Self::Up | Self::Probation)
    }
}

impl Servers {
    /// A server's state.
    #[inline]
    pub fn health(&self, server: ServerId) -> Health {
        Health::ALL[self.slots[server.index()].health.load(Relaxed) as usize]
    }

    /// Changes a server's state: the driver's word.
    pub fn set_health(&self, now: Time, server: ServerId, health: Health) {
        let before = self.slots[server.index()].health.swap(health as u8, Relaxed);
        self.entered(now, server, Health::ALL[before as usize], health);
    }

    /// Changes a server's state if it is still what the rules looked at: they never overrule the driver, nor a probe the
    /// administrator.
    pub fn shift(&self, now: Time, server: ServerId, from: Health, to: Health) {
        let state = &self.slots[server.index()].health;
        if state.compare_exchange(from as u8, to as u8, Relaxed, Relaxed).is_ok() {
            self.entered(now, server, from, to);
        }
    }

    fn entered(&self, now: Time, server: ServerId, before: Health, health: Health) {
        let slot = &self.slots[server.index()];
        slot.health_since.store(now.as_nanos(), Relaxed);
        slot.failures.store(0, Relaxed);
        match (before.open(), health.open()) {
            // One that was there before the first call need not start slowly.
            (false, true) if now > Time::ZERO => slot.window.store(WINDOW_FIRST, Relaxed),
            // What is bound to one that is closed still goes there.
            (_, false) => slot.window.store(WINDOW_FULL, Relaxed),
            (false | true, true) => {}
        }
        match (before == Health::Probation, health == Health::Probation) {
            (false, true) => drop(self.probing.fetch_add(1, Relaxed)),
            (true, false) => drop(self.probing.fetch_sub(1, Relaxed)),
            (true, true) | (false, false) => {}
        }
        // Two changes at once may set the bit in either order: it is set again until it says what the state says.
        for _ in 0..ENTER_TRIES {
            let open = self.health(server).open();
            set_bit(&self.open[server.index() / 64], server.index() % 64, open);
            if self.health(server).open() == open {
                break;
            }
        }
    }

    /// The servers that take calls now; one on probation only while it is idle.
    #[inline]
    pub(crate) fn open_set(&self) -> ServerSet {
        let mut set = ServerSet::of_words(self.len(), |word| self.open[word].load(Relaxed));
        if self.probing.load(Relaxed) > 0 {
            for server in self.ids().filter(|s| self.health(*s) == Health::Probation && self.in_flight(*s) > 0) {
                set.remove(server);
            }
        }
        set
    }

    /// The one server of a bound call, if it takes it: a drained server still ends what was begun there.
    pub(crate) fn open_to_bound(&self, server: ServerId) -> ServerSet {
        let only = ServerSet::only(server);
        if self.health(server) == Health::Drained { only } else { self.open_set().and(&only) }
    }

    /// Whether the last object that a server failed at is this one; from now on it is.
    pub(crate) fn failed_before(&self, server: ServerId, object: Key) -> bool {
        self.slots[server.index()].failed_object.swap(object.0, Relaxed) == object.0
    }

    /// Learns from how a call that was sent at `sent` ended.
    #[inline]
    pub(crate) fn judge(&self, now: Time, sent: Time, server: ServerId, failed: bool) {
        let slot = &self.slots[server.index()];
        let share = slot.error_share.load(Relaxed);
        let sample = if failed { ERROR_ONE } else { 0 };
        slot.error_share.store((share * 15 + sample) / 16, Relaxed);
        let window = slot.window.load(Relaxed);
        if window < WINDOW_FULL && !failed {
            let wider = if window < WINDOW_WIDE { window + 1 } else { WINDOW_FULL };
            slot.window.store(wider, Relaxed);
        }
        let run = if failed { slot.failures.fetch_add(1, Relaxed) + 1 } else { 0 };
        let probe = sent.as_nanos() >= slot.health_since.load(Relaxed);
        match (self.health(server), failed) {
            (Health::Up, true) if run >= FAILURES_MAX => self.shift(now, server, Health::Up, Health::Failing),
            (Health::Probation, true) if probe => self.shift(now, server, Health::Probation, Health::Failing),
            (Health::Up, false) => slot.failures.store(0, Relaxed),
            (Health::Probation, false) if probe => {
                slot.backoff.store(0, Relaxed);
                slot.error_share.store(0, Relaxed);
                self.shift(now, server, Health::Probation, Health::Up);
            }
            // A call that left before the server was closed says nothing about what it is now.
            (Health::Up, true)
            | (Health::Probation | Health::Failing | Health::Down | Health::Drained | Health::Quarantined, _) => {}
        }
    }

    /// Lets servers whose back-off is over prove themselves.
    pub(crate) fn tick_health(&self, now: Time) {
        for server in self.ids().filter(|server| self.health(*server) == Health::Failing) {
            let slot = &self.slots[server.index()];
            let wait = (BACKOFF_MIN * (1 << slot.backoff.load(Relaxed).min(8))).min(BACKOFF_MAX);
            if now.since(Time::from_nanos(slot.health_since.load(Relaxed))) >= wait {
                slot.backoff.fetch_add(1, Relaxed);
                self.shift(now, server, Health::Failing, Health::Probation);
            }
        }
    }

    /// How much more a call at this server counts for its errors and its slow start: 1 when all is well.
    pub(crate) fn caution(&self, now: Time, server: ServerId) -> f64 {
        let slot = &self.slots[server.index()];
        let errors = f64::from(slot.error_share.load(Relaxed)) / f64::from(ERROR_ONE);
        let since = Time::from_nanos(slot.health_since.load(Relaxed));
        let ramp = match self.health(server) == Health::Up && since > Time::ZERO {
            true => (now.since(since).as_secs_f64() / SLOW_START.as_secs_f64()).clamp(0.1, 1.0),
            false => 1.0,
        };
        1.0 / (ramp * (1.0 - errors).max(0.05))
    }
}

fn set_bit(word: &AtomicU64, bit: usize, value: bool) {
    match value {
        true => drop(word.fetch_or(1 << bit, Relaxed)),
        false => drop(word.fetch_and(!(1 << bit), Relaxed)),
    }
}

/// So many errors in a row close a server.
pub const FAILURES_MAX: u32 = 3;
/// The first wait before probation; doubles up to [`BACKOFF_MAX`].
pub const BACKOFF_MIN: Span = Span::from_secs(1);
/// The longest wait before probation.
pub const BACKOFF_MAX: Span = Span::from_secs(30);
/// How long a server that came back takes less than its share.
pub const SLOW_START: Span = Span::from_secs(10);
/// Calls that a server has at once when it has just come back.
pub const WINDOW_FIRST: u32 = 8;
/// From here on it may have as many as there are.
const WINDOW_WIDE: u32 = 1024;
/// No window: as many calls as there are.
pub(crate) const WINDOW_FULL: u32 = u32::MAX;
/// More than any number of changes that meet.
const ENTER_TRIES: usize = 8;
/// The error share in fixed point: 1 is this.
const ERROR_ONE: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::placement::Placement;
    use crate::route::ring::Member;
    use std::string::String;

    fn pool(count: u64) -> Servers {
        let members: std::vec::Vec<_> = (0..count).map(|i| Member { identity: i, weight: 1.0 }).collect();
        Servers::new(&members, Placement::Ring)
    }

    /// Plays a script on server 0: `x` a failed call, `.` a good one, `t` a tick a second later; draws the states.
    fn play(script: &str) -> String {
        let servers = pool(2);
        let mut now = Time::from_nanos(1);
        script
            .chars()
            .map(|step| {
                match step {
                    'x' => servers.judge(now, now, ServerId(0), true),
                    '.' => servers.judge(now, now, ServerId(0), false),
                    _ => {
                        now += Span::from_secs(1);
                        servers.tick_health(now);
                    }
                }
                assert_eq!(servers.open_set().contains(ServerId(0)), servers.health(ServerId(0)).open());
                servers.health(ServerId(0)).name().chars().next().unwrap()
            })
            .collect()
    }

    #[test]
    fn a_server_that_fails_leaves_and_comes_back_on_probation() {
        let cases = [
            ("..x.xx.", "uuuuuuu"),
            ("xxx", "uuf"),
            ("xxxt.", "uufpu"),
            ("xxxtxttt", "uufpffpp"),
            ("xxxtxtt.", "uufpffpu"),
        ];
        for (script, want) in cases {
            assert_eq!(play(script), want, "{script}");
        }
    }

    #[test]
    fn on_probation_a_server_takes_one_call_at_a_time() {
        let servers = pool(2);
        servers.set_health(Time::from_nanos(1), ServerId(1), Health::Probation);
        assert!(servers.open_set().contains(ServerId(1)));
        servers.dispatch(Time::from_nanos(2), ServerId(1));
        assert!(!servers.open_set().contains(ServerId(1)));
        servers.land(Time::from_nanos(3), ServerId(1));
        assert!(servers.open_set().contains(ServerId(1)));
    }

    #[test]
    fn a_server_that_came_back_gets_a_few_calls_at_once_and_one_more_for_each_answer() {
        let (servers, at) = (pool(2), |secs| Time::from_nanos(1) + Span::from_secs(secs));
        assert_eq!(servers.window(ServerId(0)), WINDOW_FULL, "from the beginning");
        servers.set_health(at(1), ServerId(0), Health::Drained);
        assert_eq!(servers.window(ServerId(0)), WINDOW_FULL, "what is bound to it still goes there");
        servers.set_health(at(2), ServerId(0), Health::Probation);
        assert_eq!(servers.window(ServerId(0)), WINDOW_FIRST, "also where no other server could take them");
        servers.judge(at(3), at(3), ServerId(0), false);
        assert_eq!((servers.health(ServerId(0)), servers.window(ServerId(0))), (Health::Up, WINDOW_FIRST + 1));
        servers.dispatch(at(4), ServerId(0));
        servers.land(at(4), ServerId(0));
        assert_eq!(servers.window(ServerId(0)), WINDOW_FIRST + 1, "one that was not sent says nothing");
        for calls in 2..=10 {
            servers.judge(at(4), at(4), ServerId(0), false);
            assert_eq!(servers.window(ServerId(0)), WINDOW_FIRST + calls);
        }
        (0..=WINDOW_WIDE).for_each(|_| servers.judge(at(5), at(5), ServerId(0), false));
        assert_eq!(servers.window(ServerId(0)), WINDOW_FULL);
    }

    #[test]
    fn what_left_before_a_server_was_closed_does_not_decide_its_probation() {
        let (servers, at) = (pool(2), |secs| Time::from_nanos(1) + Span::from_secs(secs));
        (0..3).for_each(|_| servers.judge(at(10), at(5), ServerId(0), true));
        servers.tick_health(at(11));
        assert_eq!(servers.health(ServerId(0)), Health::Probation);
        servers.judge(at(12), at(5), ServerId(0), true);
        servers.judge(at(12), at(5), ServerId(0), false);
        assert_eq!(servers.health(ServerId(0)), Health::Probation);
        servers.judge(at(13), at(12), ServerId(0), false);
        assert_eq!(servers.health(ServerId(0)), Health::Up);
    }

    #[test]
    fn a_server_that_came_back_starts_slowly_and_errors_are_not_speed() {
        let servers = pool(1);
        let at = |secs| Time::from_nanos(1) + Span::from_secs(secs);
        assert_eq!(servers.caution(at(0), ServerId(0)), 1.0);
        servers.set_health(at(0), ServerId(0), Health::Down);
        servers.set_health(at(5), ServerId(0), Health::Up);
        let got = [5, 10, 15].map(|secs| servers.caution(at(secs), ServerId(0)));
        assert_eq!(got, [10.0, 2.0, 1.0]);
        servers.judge(at(30), at(30), ServerId(0), true);
        assert!(servers.caution(at(30), ServerId(0)) > 1.06);
    }
}
