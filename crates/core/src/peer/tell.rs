//! When to tell the peers: at once when something changed, as long as that is not too often.
//!
//! A proxy that tells every change at once makes the others' view exact but for the network's delay, and says nothing while nothing
//! happens. A token bucket keeps what a proxy receives from all its peers below [`SHARES_MAX`] a second, whatever happens; when it is
//! empty, changes are gathered and told together. A call that left matters more than one that came back: only the former may take the
//! last tokens, since it is what makes two proxies run into the same server.

use crate::peer::Share;
use crate::servers::Servers;
use crate::time::{Span, Time};

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A call left for a server.
    Left,
    /// A call came back.
    Landed,
}

/// When to tell next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing to tell.
    Never,
    /// Now.
    Now,
    /// At that time, with whatever has changed by then.
    At(Time),
}

/// The sender's side of load shares.
#[derive(Clone, Debug)]
pub struct Teller {
    rate: f64,
    tokens: f64,
    filled: Time,
    since: Option<Time>,
    left: bool,
    sequence: u64,
}

impl Teller {
    /// For a proxy with that many peers.
    pub fn new(now: Time, peers: usize) -> Self {
        let rate = SHARES_MAX / peers.max(1) as f64;
        // A proxy that restarts goes on above what it said before.
        Self { rate, tokens: BURST, filled: now, since: None, left: false, sequence: now.as_nanos() }
    }

    /// Something changed.
    pub fn note(&mut self, now: Time, change: Change) {
        self.since.get_or_insert(now);
        self.left |= change == Change::Left;
    }

    /// Whether it is time to tell.
    pub fn due(&mut self, now: Time) -> Due {
        if self.since.is_none() {
            return Due::Never;
        }
        let passed = now.since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + passed * self.rate).min(BURST);
        self.filled = now;
        let need = if self.left { 1.0 } else { RESERVE };
        match self.tokens >= need - 1e-9 {
            true => Due::Now,
            false => Due::At(now + Span::from_secs_f64((need - self.tokens) / self.rate).max(Span::from_nanos(1))),
        }
    }

    /// The share to send now.
    pub fn tell(&mut self, now: Time, servers: &Servers) -> Share {
        self.tokens -= 1.0;
        self.left = false;
        self.sequence += 1;
        let waited = self.since.take().map_or(Span::ZERO, |since| now.since(since));
        Share::of(self.sequence, servers, waited)
    }
}

/// Load shares a second that a proxy receives at most, but for the peers' bursts.
pub const SHARES_MAX: f64 = 18_000.0;
/// Shares that may follow each other at once.
const BURST: f64 = 8.0;
/// Calls that came back leave so many tokens for calls that leave.
const RESERVE: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::placement::Placement;
    use crate::route::ring::Member;

    #[test]
    fn changes_are_told_at_once_and_never_too_often() {
        let servers = Servers::new(&[Member { identity: 1, weight: 1.0 }], Placement::Ring);
        let mut teller = Teller::new(Time::ZERO, 18);
        let mut now = Time::ZERO;
        assert_eq!(teller.due(now), Due::Never);
        let mut sent = 0;
        for _ in 0..100_000 {
            now += Span::from_micros(10);
            teller.note(now, Change::Left);
            if teller.due(now) == Due::Now {
                teller.tell(now, &servers);
                sent += 1;
            }
        }
        assert!((990..=1_010).contains(&sent), "1000 a second and a burst: {sent}");
    }

    #[test]
    fn landings_leave_room_for_departures() {
        let servers = Servers::new(&[Member { identity: 1, weight: 1.0 }], Placement::Ring);
        let (mut teller, now) = (Teller::new(Time::ZERO, 1), Time::ZERO);
        let mut told = 0;
        loop {
            teller.note(now, Change::Landed);
            if teller.due(now) != Due::Now {
                break;
            }
            teller.tell(now, &servers);
            told += 1;
        }
        assert_eq!(told, 5);
        assert!(matches!(teller.due(now), Due::At(at) if at > now));
        teller.note(now, Change::Left);
        assert_eq!(teller.due(now), Due::Now);
        assert_eq!(teller.tell(now + Span::from_millis(2), &servers).waited, Span::from_millis(2));
    }
}
