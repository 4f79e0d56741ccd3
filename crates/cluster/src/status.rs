//! How the cluster is, as this member sees it.

use crate::refusal::Refused;
use crate::settings::Unequal;
use crate::view::View;
use std::net::SocketAddr;
use std::time::Duration;

/// How the cluster is.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The index of this member.
    pub me: u8,
    /// In the order of the configuration, this one included.
    pub members: Vec<MemberStatus>,
    /// The last view that was learned; epoch 0 if none was.
    pub view: View,
    /// Whether too few members hear this one and are heard by it, for `suspect_after`: it is no part of a majority, and its view may be an old one.
    pub cut_off: bool,
    /// Who leads the consensus, as far as this member knows.
    pub leader: Option<u8>,
    /// Of the consensus.
    pub term: u64,
    /// What was refused, by reason.
    pub refused: Refused,
    /// Frames and datagrams that were too long, too many or had no way.
    pub lost: u64,
    /// Why this member takes no part any more.
    pub failed: Option<String>,
}

/// How one member is.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is shown as such")]
pub struct MemberStatus {
    /// Its name.
    pub name: String,
    /// Where it is reached.
    pub address: SocketAddr,
    /// Whether it only votes.
    pub witness: bool,
    /// Its last life that was heard of.
    pub incarnation: Option<u64>,
    /// Whether frames pass both ways.
    pub up: bool,
    /// Whether it is in the view with this incarnation.
    pub in_view: bool,
    /// Of the last pulse that it answered.
    pub rtt: Option<Duration>,
    /// Since it was last heard.
    pub silent: Option<Duration>,
    /// The version of messages that both speak.
    pub version: Option<u16>,
    /// What it calls itself.
    pub software: String,
    /// What it said of itself, if it speaks none of our versions.
    pub unequal: Option<Unequal>,
    /// The epoch of its view, as it last said.
    pub epoch: Option<u64>,
    /// Whether it said that it leaves.
    pub leaving: bool,
    /// Whether what should be equal at all members is; none if it has not said.
    pub same: Option<bool>,
    /// What passed.
    pub traffic: Traffic,
}

/// What passed between this member and another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Frames sent.
    pub frames_sent: u64,
    /// Bytes sent, with their headers.
    pub bytes_sent: u64,
    /// Frames received.
    pub frames_received: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Frames and datagrams that had no way.
    pub lost: u64,
}
