//! What a cluster is told, and what it tells.

use crate::key::Key;
use crate::view::View;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What a member must know to take part.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The cluster's name: members of another one are refused.
    pub name: String,
    /// Which of the members this is.
    pub me: String,
    /// Where the others reach it, TCP and UDP.
    pub listen: SocketAddr,
    /// All of them, in the same order everywhere: 2..=[`MEMBERS_MAX`].
    pub members: Vec<Member>,
    /// What all of them know.
    pub key: Key,
    /// Where this member's log of views is kept.
    pub state_dir: PathBuf,
    /// Of what should be equal at all members.
    pub digest: [u8; 32],
    /// Versions of the upper half's messages that it speaks.
    pub versions: RangeInclusive<u16>,
    /// What this program calls itself.
    pub software: String,
    /// A member that was silent for so long is left out of the next view.
    pub suspect_after: Duration,
    /// How often a member says that it lives: several times in `suspect_after`.
    pub heartbeat: Duration,
}

/// A configured member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// What the configuration calls it.
    pub name: String,
    /// Where it is reached.
    pub address: SocketAddr,
    /// It votes and is in views, but serves nobody.
    pub witness: bool,
}

/// The half of a member that stands above: called on the cluster's thread, must not block. Views come with growing epochs; after a start the
/// last one from before comes first, if there was one, and names another life of this member. Frames of a member may come before its link is
/// told to be up, which needs both ways.
pub trait Above: Send + 'static {
    /// A view was agreed; perhaps long ago.
    fn view(&mut self, view: &View);
    /// A frame of a member, in the order that it was sent in, with the version of messages that both speak.
    fn frame(&mut self, from: u8, incarnation: u64, version: u16, bytes: &[u8]);
    /// A datagram of a member; some are lost, none comes twice or late.
    fn datagram(&mut self, from: u8, incarnation: u64, bytes: &[u8]);
    /// Whether frames pass both ways changed. What was sent when it went down may be lost.
    fn link(&mut self, peer: u8, link: Link);
    /// A member speaks none of our versions of messages: nothing is understood between the two
    /// until one of them is another one.
    fn unequal(&mut self, peer: u8, unequal: &Unequal) {
        let _ = (peer, unequal);
    }
    /// Called when something of the above came, when [`crate::Sender::wake`] was called, and at the time that it asked for last; when it wants to
    /// be called again.
    fn tick(&mut self) -> Option<Instant>;
}

/// What a member says of itself that speaks none of our versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unequal {
    /// The versions of messages that it speaks.
    pub versions: RangeInclusive<u16>,
    /// What its program calls itself.
    pub software: String,
}

/// The state of the way to a member and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Frames pass both ways.
    Up {
        /// Of the member at the other end.
        incarnation: u64,
        /// The version of messages that both speak.
        version: u16,
    },
    /// They do not.
    Down,
}

impl Settings {
    /// The index of this member; an error if the settings cannot work.
    pub(crate) fn index(&self) -> io::Result<u8> {
        let wrong = |said: String| Err(io::Error::new(ErrorKind::InvalidInput, said));
        if !(2..=MEMBERS_MAX).contains(&self.members.len()) {
            return wrong(format!("a cluster has 2..{MEMBERS_MAX} members, got {}", self.members.len()));
        }
        if self.heartbeat.is_zero() || self.suspect_after < self.heartbeat * BEATS_MIN {
            return wrong(format!("suspect_after must be at least {BEATS_MIN} heartbeats"));
        }
        match self.members.iter().position(|member| member.name == self.me) {
            Some(index) => Ok(index as u8),
            None => wrong(format!("'{}' is not a member of cluster '{}'", self.me, self.name)),
        }
    }
}

/// Everyone talks with everyone, and whom one hears is a mask of 16 bits.
pub const MEMBERS_MAX: usize = 16;
/// One lost beat is no silence.
const BEATS_MIN: u32 = 3;
