//! What happens, and to whom: a paused process meets its events later.

use super::truth::{Action, Key, Seen};
use midas_core::peer::lease::{Life, Message, View};
use midas_core::time::Time;

#[derive(Debug)]
pub(super) enum Event {
    /// A message reaches a life.
    Hear { to: Life, from: Life, message: Message<Key> },
    /// A life learns of a view.
    View { to: Life, view: View },
    /// A life's member wanted to be woken.
    Tick(Life),
    /// A client's call reaches a node.
    Request { node: usize, request: Request },
    /// A server's answer reaches the node.
    Reply { to: Life, call: u64, brought: Brought },
    /// A proxy is asked for a read by another, whose flight it is.
    Fetch { to: Life, from: Life, flight: u64, key: Key },
    /// The answer, if there is one.
    Fetched { to: Life, flight: u64, seen: Option<Seen> },
    /// It is not waited for any longer.
    Silent { to: Life, flight: u64 },
    /// A connection broke under this call.
    Broke { to: Life, call: u64 },
    /// A mutation that was refused tries again.
    Retry { to: Life, operation: u64 },
    /// Marks that outlasted their call may end.
    Free { to: Life, token: u64 },
    /// Whether a hold is still of use.
    Rest { to: Life, object: u8 },
    /// A call is executed, unless it was moved to another turn.
    Run { call: u64, turn: u32 },
    /// A client is answered.
    Answer { client: usize, operation: u64 },
    /// A client wants something new.
    Next { client: usize },
    /// A client has waited long.
    Impatient { client: usize, operation: u64, tries: u32 },
    /// Chance, or the family's script.
    Fault(Fault),
    /// The dice of chance are thrown.
    Dice,
    /// A node comes back.
    Restart { node: usize },
    /// Cuts made by this number are healed.
    Heal { cut: u64 },
    /// The consensus looks around.
    Council,
    /// Every fault ends.
    Calm,
    /// Every node is asked for one more mutation.
    Probe,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The process dies and comes back after this long in thousandths of a lease.
    Crash { node: usize, back: u64 },
    /// All of them.
    CrashAll { back: u64 },
    /// It ends in order, if nothing of it is under way.
    Leave { node: usize, back: u64 },
    /// It does nothing until so many thousandths of a lease have passed.
    Pause { node: usize, thousandths: u64 },
    /// No message passes from the one to the other.
    OneWay { from: usize, to: usize, thousandths: u64 },
    /// Nor back.
    Cut { node: usize, thousandths: u64 },
    /// The nodes whose bit is set hear only each other, as do the rest.
    Split { group: u32, thousandths: u64 },
    /// Its connections to the servers break.
    Break { node: usize },
    /// It learns of no view.
    Deaf { node: usize, thousandths: u64 },
    /// The consensus leaves it out of the next view.
    Whim { node: usize },
}

/// A client's call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) client: usize,
    pub(super) operation: u64,
    pub(super) action: Action,
    /// Whether it was sent before.
    pub(super) copy: bool,
}

/// What a server answers.
#[derive(Clone, Debug)]
pub(super) enum Brought {
    Seen(Vec<Seen>),
    Shown(bool),
    Done,
}

impl Event {
    /// The node that must be running for it.
    pub(super) fn node(&self) -> Option<usize> {
        let of = |life: &Life| Some(usize::from(life.member.0));
        match self {
            Self::Hear { to, .. }
            | Self::View { to, .. }
            | Self::Tick(to)
            | Self::Reply { to, .. }
            | Self::Fetch { to, .. }
            | Self::Fetched { to, .. }
            | Self::Silent { to, .. }
            | Self::Broke { to, .. }
            | Self::Retry { to, .. }
            | Self::Free { to, .. }
            | Self::Rest { to, .. } => of(to),
            Self::Request { node, .. } => Some(*node),
            Self::Run { .. }
            | Self::Answer { .. }
            | Self::Next { .. }
            | Self::Impatient { .. }
            | Self::Fault(_)
            | Self::Dice
            | Self::Restart { .. }
            | Self::Heal { .. }
            | Self::Council
            | Self::Calm
            | Self::Probe => None,
        }
    }

    /// A number for the digest.
    pub(super) fn kind(&self) -> u64 {
        match self {
            Self::Hear { to, from, message } => {
                1 + (u64::from(to.member.0) << 8) + (u64::from(from.member.0) << 16) + (kind_of(message) << 24)
            }
            Self::View { to, view } => 2 + (u64::from(to.member.0) << 8) + (view.epoch << 16),
            Self::Tick(to) => 3 + (u64::from(to.member.0) << 8),
            Self::Request { node, request } => 4 + ((*node as u64) << 8) + (request.operation << 16),
            Self::Reply { call, .. } => 5 + (call << 8),
            Self::Broke { call, .. } => 6 + (call << 8),
            Self::Retry { operation, .. } => 7 + (operation << 8),
            Self::Free { token, .. } => 8 + (token << 8),
            Self::Rest { object, .. } => 9 + (u64::from(*object) << 8),
            Self::Run { call, .. } => 10 + (call << 8),
            Self::Answer { operation, .. } => 11 + (operation << 8),
            Self::Next { client } => 12 + ((*client as u64) << 8),
            Self::Impatient { operation, .. } => 13 + (operation << 8),
            Self::Fault(_) => 14,
            Self::Dice => 15,
            Self::Restart { node } => 16 + ((*node as u64) << 8),
            Self::Heal { cut } => 17 + (cut << 8),
            Self::Council => 18,
            Self::Calm => 19,
            Self::Probe => 20,
            Self::Fetch { flight, .. } => 21 + (flight << 8),
            Self::Fetched { flight, .. } => 22 + (flight << 8),
            Self::Silent { flight, .. } => 23 + (flight << 8),
        }
    }
}

fn kind_of<K>(message: &Message<K>) -> u64 {
    match message {
        Message::Ask { .. } => 1,
        Message::Grant { .. } => 2,
        Message::Release { .. } => 3,
        Message::Announce { .. } => 4,
        Message::Acknowledge { .. } => 5,
        Message::Refuse { .. } => 6,
        Message::Over { .. } => 7,
        Message::Drop { .. } => 8,
        Message::Tell { .. } => 9,
        Message::Lost { .. } => 10,
        Message::Found { .. } => 11,
    }
}

/// A clock that runs at its own rate from its own origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// Millionths of the true rate.
    pub(super) rate: u64,
    pub(super) offset: u64,
}

impl Clock {
    pub(super) fn local(self, now: Time) -> Time {
        let run = u128::from(now.as_nanos()) * u128::from(self.rate) / 1_000_000;
        Time::from_nanos(self.offset + run as u64)
    }

    /// The first true moment at which it shows this.
    pub(super) fn real(self, local: Time) -> Time {
        let run = u128::from(local.as_nanos().saturating_sub(self.offset)) * 1_000_000;
        Time::from_nanos(u64::try_from(run / u128::from(self.rate)).map_or(u64::MAX, |nanos| nanos.saturating_add(1)))
    }
}
