//! Another member as this one knows it.

use crate::pulse::Pulse;
use crate::settings::{Link, Member, Unequal};
use crate::status::Traffic;
use std::time::{Duration, Instant};

/// Another member.
pub(crate) struct Peer {
    pub(crate) member: Member,
    /// When it may be dialled again.
    pub(crate) dial_at: Instant,
    /// The line on which we send or will send, and to which incarnation with which version once it answered.
    pub(crate) out: Option<usize>,
    pub(crate) reached: Option<(u64, u16)>,
    /// The line on which it sends.
    pub(crate) back: Option<usize>,
    pub(crate) heard: Option<Heard>,
    pub(crate) rtt: Option<Duration>,
    /// As the upper half knows it.
    pub(crate) told: Link,
    pub(crate) traffic: Traffic,
    /// What it said of itself when it last spoke none of our versions.
    pub(crate) unequal: Option<Unequal>,
}

/// The last life of a member that was heard of.
#[derive(Clone)]
pub(crate) struct Heard {
    pub(crate) incarnation: u64,
    pub(crate) version: u16,
    pub(crate) software: String,
    pub(crate) at: Instant,
    pub(crate) pulse: Option<Pulse>,
    pub(crate) pulse_at: Instant,
}

impl Peer {
    pub(crate) fn new(member: Member, now: Instant) -> Self {
        Self {
            member,
            dial_at: now,
            out: None,
            reached: None,
            back: None,
            heard: None,
            rtt: None,
            told: Link::Down,
            traffic: Traffic::default(),
            unequal: None,
        }
    }

    /// Whether frames pass both ways, to and from one life of it.
    pub(crate) fn link(&self) -> Link {
        match (&self.heard, self.reached, self.back) {
            (Some(heard), Some((incarnation, version)), Some(_)) if heard.incarnation == incarnation => {
                Link::Up { incarnation, version }
            }
            (Some(_) | None, _, _) => Link::Down,
        }
    }

    /// What it said of itself, if it was heard lately.
    pub(crate) fn recent(&self, now: Instant, limit: Duration) -> Option<&Heard> {
        self.heard.as_ref().filter(|heard| now.duration_since(heard.at) < limit)
    }

    /// A pulse came: our last one was answered by it.
    pub(crate) fn beat(&mut self, now: Instant, clock: u64, pulse: Pulse) {
        let Some(heard) = &mut self.heard else { return };
        (heard.pulse, heard.pulse_at) = (Some(pulse), now);
        if pulse.echo > 0 {
            let round = clock.saturating_sub(pulse.echo).saturating_sub(pulse.held);
            self.rtt = Some(Duration::from_micros(round));
        }
    }
}
