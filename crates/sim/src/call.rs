//! Calls that have not ended, and what a request means to the core.

use crate::config::{Config, Homes};
use crate::model::server::CallId;
use crate::model::truth::{Entry, Kind};
use crate::proxy::directory_key;
use midas_core::id::ServerId;
use midas_core::key::Key;
use midas_core::op::Op;
use midas_core::route::feasible::Target;
use midas_core::shard::{Pass, Ticket};
use midas_core::time::Time;
use midas_workload::Request;

/// A call that has not ended.
#[derive(Debug)]
pub(crate) struct Flying {
    pub(crate) request: Request,
    pub(crate) number: u64,
    /// What its service demand is drawn by: the same call has the same under every policy, warm-up or not.
    pub(crate) draw: u64,
    pub(crate) begun: Time,
    pub(crate) measured: bool,
    pub(crate) proxy: u32,
    pub(crate) server: ServerId,
    pub(crate) stage: Stage,
    /// What the server answered.
    pub(crate) value: u64,
    pub(crate) changed: Time,
    /// What a read must see at least.
    pub(crate) promised: u64,
    pub(crate) failed: bool,
    /// Versions that a mutation made, in the order of its touches.
    pub(crate) made: Vec<u64>,
}

/// Where a call is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Waits for another call's answer.
    Joined,
    /// Waits until so many peers have acknowledged.
    Announced(Pass<Entry>, u32),
    /// Waits at its proxy until the change of another call is over.
    Held(Pass<Entry>),
    /// On its way to a server, there, or on its way back.
    Sent(Ticket<Entry>),
    /// Ended, and between two owners.
    Gone,
}

impl Flying {
    /// A call that its client has just issued.
    pub(crate) fn new(request: Request, number: u64, proxy: u32) -> Self {
        Self {
            request,
            number,
            draw: WARMUP_DRAWS + number,
            begun: request.at,
            measured: false,
            proxy,
            server: ServerId(0),
            stage: Stage::Gone,
            value: 0,
            changed: Time::ZERO,
            promised: 0,
            failed: false,
            made: Vec::new(),
        }
    }
}

/// The table of calls that have not ended.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    slots: Vec<Option<Flying>>,
    free: Vec<CallId>,
}

impl Calls {
    /// How many there are.
    pub(crate) fn flying(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn get(&self, call: CallId) -> &Flying {
        self.slots[call as usize].as_ref().expect(NOT_ENDED)
    }

    pub(crate) fn get_mut(&mut self, call: CallId) -> &mut Flying {
        self.slots[call as usize].as_mut().expect(NOT_ENDED)
    }

    pub(crate) fn keep(&mut self, flying: Flying) -> CallId {
        match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = Some(flying);
                id
            }
            None => {
                self.slots.push(Some(flying));
                self.slots.len() as CallId - 1
            }
        }
    }

    pub(crate) fn take(&mut self, call: CallId) -> Flying {
        self.free.push(call);
        self.slots[call as usize].take().expect(NOT_ENDED)
    }
}

/// Calls of the warm-up draw from here on, those that are measured from 1.
const WARMUP_DRAWS: u64 = 1 << 40;
const NOT_ENDED: &str = "an event names a call that has not ended";

/// The entry that could answer a request.
pub(crate) fn entry_of(request: &Request) -> Option<Entry> {
    let entry = |kind, file| Some(Entry { kind, directory: request.directory, file });
    match request.op {
        Op::Lookup => entry(Kind::Name, request.file),
        Op::Getattr | Op::Access | Op::Readlink => entry(Kind::Attributes, request.file),
        Op::List => entry(Kind::Listing, 0),
        Op::Statfs
        | Op::Read
        | Op::Create
        | Op::Remove
        | Op::Rename
        | Op::Link
        | Op::Setattr
        | Op::Write
        | Op::Commit => None,
    }
}

/// The entries that a request changes.
pub(crate) fn touches_of(request: &Request) -> Vec<Entry> {
    let names = |directory, file| {
        [
            Entry { kind: Kind::Name, directory, file },
            Entry { kind: Kind::Attributes, directory, file },
            Entry { kind: Kind::Listing, directory, file: 0 },
        ]
    };
    let mut touches = match request.op {
        Op::Create | Op::Remove | Op::Rename | Op::Link => names(request.directory, request.file).to_vec(),
        Op::Setattr | Op::Write => names(request.directory, request.file)[1..2].to_vec(),
        Op::Lookup | Op::Getattr | Op::Access | Op::List | Op::Readlink | Op::Statfs | Op::Read | Op::Commit => {
            Vec::new()
        }
    };
    if let Some((directory, file)) = request.target {
        touches.extend(names(directory, file));
        touches.sort_unstable();
        touches.dedup();
    }
    touches
}

/// What else a rename changes: the other directory, and the name there.
pub(crate) fn second_of(homes: Option<&Homes>, request: &Request) -> Option<(Key, Key)> {
    let (directory, file) = request.target?;
    let place = directory_key(homes, directory);
    Some((place, place.child(u64::from(file))))
}

/// A request as routing sees it.
pub(crate) fn target_of(config: &Config, request: &Request) -> Target {
    let place = directory_key(config.homes.as_ref(), request.directory);
    Target { stays: config.moves.stay(), ..Target::new(request.op, place, place.child(u64::from(request.file))) }
}
