//! Why something that came over the network was not taken, counted by reason.

use std::fmt;

/// Why a message or a connection was refused. Each refusal closes its connection; a datagram is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not our protocol at all.
    Garbage,
    /// A greeting for a cluster of another name.
    Cluster,
    /// A greeting that was not made with our key, or was made for another greeting than ours.
    Key,
    /// A greeting by or for somebody whom the configuration does not name.
    Member,
    /// No version of the messages that both speak.
    Version,
    /// A length above the limit.
    Length,
    /// A frame that is forged, damaged, replayed or out of order.
    Frame,
    /// A frame that says nothing that we know.
    Meaning,
    /// No greeting in time.
    Late,
    /// Too many strangers at once.
    Crowd,
    /// A datagram of a session that we do not have, or forged, or damaged.
    Datagram,
    /// A datagram that is not newer than another one.
    Old,
}

impl Refusal {
    /// All, in the order of the counters.
    pub const ALL: [Self; 12] = [
        Self::Garbage,
        Self::Cluster,
        Self::Key,
        Self::Member,
        Self::Version,
        Self::Length,
        Self::Frame,
        Self::Meaning,
        Self::Late,
        Self::Crowd,
        Self::Datagram,
        Self::Old,
    ];

    /// What surfaces call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Garbage => "garbage",
            Self::Cluster => "cluster",
            Self::Key => "key",
            Self::Member => "member",
            Self::Version => "version",
            Self::Length => "length",
            Self::Frame => "frame",
            Self::Meaning => "meaning",
            Self::Late => "late",
            Self::Crowd => "crowd",
            Self::Datagram => "datagram",
            Self::Old => "old",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Refusals so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused([u64; Refusal::ALL.len()]);

impl Refused {
    pub(crate) fn count(&mut self, why: Refusal) {
        self.0[why as usize] += 1;
    }

    /// For this reason.
    pub fn of(&self, why: Refusal) -> u64 {
        self.0[why as usize]
    }

    /// Every reason with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Refusal, u64)> + '_ {
        Refusal::ALL.into_iter().zip(self.0)
    }
}
