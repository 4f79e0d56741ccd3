//! The replicated log of views as this member sees it: messages in, messages out, ticks.
//!
//! The protocol is Raft as `raft` has it; here is only what we ask of it. It touches no socket, no disk and no clock: whoever drives it keeps
//! the log before anything of [`Consensus::settle`] is sent or told.

use super::log::{Log, encode, view_of};
use crate::view::View;
use protobuf::Message as _;
use raft::eraftpb::{Entry, Message};
use raft::{Config, RawNode, SnapshotStatus, StateRole};
use slog::{Discard, Logger, o};
use std::io;

/// One voter.
pub(crate) struct Consensus {
    raft: RawNode<Log>,
    latest: View,
    applied: u64,
}

/// What follows from what happened, in this order: keep the log, tell the views, send the messages.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) views: Vec<View>,
    pub(crate) messages: Vec<(u8, Vec<u8>)>,
}

impl Consensus {
    /// The voter with this index of so many, with what it remembers.
    pub(crate) fn new(me: u8, members: usize, log: Log) -> io::Result<Self> {
        let (applied, latest) = (log.base().0, log.base().1.clone());
        let config = Config {
            id: id(me),
            election_tick: TICKS_ELECTION,
            heartbeat_tick: TICKS_HEARTBEAT,
            applied,
            // A leader that hears no majority stands down, and who was away does not unseat one that has a majority.
            check_quorum: true,
            pre_vote: true,
            max_inflight_msgs: INFLIGHT_MAX,
            max_size_per_msg: MESSAGE_MAX,
            ..Config::default()
        };
        let quiet = Logger::root(Discard, o!());
        let raft = RawNode::new(&config, log.with_voters(members), &quiet).map_err(io::Error::other)?;
        Ok(Self { raft, latest, applied })
    }

    /// Time passes.
    pub(crate) fn tick(&mut self) {
        self.raft.tick();
    }

    /// A message of another voter; false if it is none.
    pub(crate) fn handle(&mut self, from: u8, bytes: &[u8]) -> bool {
        match Message::parse_from_bytes(bytes) {
            Ok(message) if message.from == id(from) && message.to == self.raft.raft.id => {
                self.raft.step(message).is_ok()
            }
            Ok(_) | Err(_) => false,
        }
    }

    /// Messages to this voter may have been lost.
    pub(crate) fn reconnected(&mut self, peer: u8) {
        self.raft.report_unreachable(id(peer));
        self.raft.report_snapshot(id(peer), SnapshotStatus::Failure);
    }

    /// Whether this voter may propose now: it leads, and everything before is settled.
    pub(crate) fn may_propose(&self) -> bool {
        let raft = &self.raft.raft;
        raft.state == StateRole::Leader && raft.raft_log.last_index() == self.applied
    }

    /// Proposes the view after the latest.
    pub(crate) fn propose(&mut self, members: Vec<(u8, u64)>) {
        let view = View { epoch: self.latest.epoch + 1, members };
        // Refused by one that does not lead: then another proposes.
        let _refused = self.raft.propose(Vec::new(), encode(&view));
    }

    /// What follows from all that happened since the last time.
    pub(crate) fn settle(&mut self) -> Outcome {
        let mut outcome = Outcome::default();
        while self.raft.has_ready() {
            let mut ready = self.raft.ready();
            let mut messages = ready.take_messages();
            if !ready.snapshot().is_empty() {
                let view = self.raft.mut_store().restore(ready.snapshot());
                self.applied = ready.snapshot().get_metadata().index;
                self.learn(view, &mut outcome.views);
            }
            self.raft.mut_store().append(ready.entries());
            if let Some(state) = ready.hs() {
                self.raft.mut_store().vote(state);
            }
            self.apply(&ready.take_committed_entries(), &mut outcome.views);
            messages.extend(ready.take_persisted_messages());
            let mut light = self.raft.advance(ready);
            if let Some(index) = light.commit_index() {
                self.raft.mut_store().commit(index);
            }
            messages.extend(light.take_messages());
            self.apply(&light.take_committed_entries(), &mut outcome.views);
            self.raft.advance_apply();
            outcome.messages.extend(messages.iter().map(wire));
        }
        let (applied, latest) = (self.applied, self.latest.clone());
        self.raft.mut_store().compact(applied, &latest);
        outcome
    }

    /// What must be kept.
    pub(crate) fn log(&mut self) -> &mut Log {
        self.raft.mut_store()
    }

    /// The last view that was decided.
    pub(crate) fn latest(&self) -> &View {
        &self.latest
    }

    /// Who leads as far as this voter knows.
    pub(crate) fn leader(&self) -> Option<u8> {
        self.raft.raft.leader_id.checked_sub(1).map(|leader| leader as u8)
    }

    pub(crate) fn term(&self) -> u64 {
        self.raft.raft.term
    }

    fn apply(&mut self, entries: &[Entry], views: &mut Vec<View>) {
        for entry in entries {
            self.applied = entry.index;
            if let Some(view) = view_of(&entry.data) {
                self.learn(view, views);
            }
        }
    }

    fn learn(&mut self, view: View, views: &mut Vec<View>) {
        if self.latest.succeed(view.clone()) {
            views.push(view);
        }
    }
}

/// The library counts from one.
fn id(member: u8) -> u64 {
    u64::from(member) + 1
}

fn wire(message: &Message) -> (u8, Vec<u8>) {
    let bytes = message.write_to_bytes().expect("a message that the library made is whole");
    ((message.to - 1) as u8, bytes)
}

/// Ticks without a leader after which a voter stands for election; the library draws from here to twice as many.
pub(crate) const TICKS_ELECTION: usize = 10;
const TICKS_HEARTBEAT: usize = 2;
/// Messages with entries to one voter that were not answered.
const INFLIGHT_MAX: usize = 16;
/// Bytes of entries in one message: all that a log keeps fits.
const MESSAGE_MAX: u64 = 256 << 10;
