//! What can be seen of the daemon while it runs: hot spots, calls as they pass, what was decided.
//!
//! Event loops say what they saw (`Seen`); everything else happens beside them, and nothing that is kept grows without a bound.

mod frames;
mod journal;
mod members;
mod past;
mod spots;
mod tracer;

pub(crate) use frames::{Frames, WATCHERS, Watcher};
pub(crate) use journal::{Journal, Said};
pub(crate) use members::Members;
pub(crate) use past::Past;
pub(crate) use spots::Spots;
pub(crate) use tracer::{LISTENERS, Passed, Tracer, Wants};

use midas_core::decision::Route;
use midas_core::key::Key;
use midas_core::time::Span;
use midas_nfs::nfs3::{Nfsstat3, Procedure};
use std::net::IpAddr;

/// All that is watched.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) spots: Spots,
    pub(crate) tracer: Tracer,
    pub(crate) journal: Journal,
    pub(crate) past: Past,
    pub(crate) frames: Frames,
}

impl Watch {
    /// For so many event loops.
    pub(crate) fn new(loops: usize) -> Self {
        Self {
            spots: Spots::new(loops),
            tracer: Tracer::default(),
            journal: Journal::default(),
            past: Past::default(),
            frames: Frames::default(),
        }
    }
}

/// An NFS call that was answered, as an event loop saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) client: IpAddr,
    pub(crate) uid: Option<u32>,
    pub(crate) procedure: Procedure,
    /// The number of the export.
    pub(crate) realm: usize,
    /// The directory of a call on a name, the object otherwise.
    pub(crate) place: Key,
    pub(crate) handle: &'a [u8],
    pub(crate) name: Option<&'a [u8]>,
    /// Of RENAME: the other directory, and the name there.
    pub(crate) to: Option<(Key, &'a [u8])>,
    /// Of LINK: the file that it gives a name to.
    pub(crate) linked: Option<Key>,
    pub(crate) outcome: Outcome,
    /// None: refused as a call.
    pub(crate) status: Option<Nfsstat3>,
    /// From its arrival to its answer.
    pub(crate) took: Span,
}

/// Who answered a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The cache.
    Hit,
    /// The cache: there is no such name.
    Absent,
    /// A server, asked for another client's call.
    Joined,
    /// A server.
    Forwarded(Route),
    /// Neither: the rules, or an answer that was given before.
    Here,
}

impl Outcome {
    /// The words that users read, in the order of their codes.
    pub(crate) const NAMES: [&'static str; 5] = ["hit", "absent", "joined", "forwarded", "here"];

    /// Dense from 0: for counting.
    pub(crate) const fn code(self) -> usize {
        match self {
            Self::Hit => 0,
            Self::Absent => 1,
            Self::Joined => 2,
            Self::Forwarded(_) => 3,
            Self::Here => 4,
        }
    }

    /// The word that users read: who answered or, of a server, why it was that one.
    pub(crate) const fn why(self) -> &'static str {
        match self {
            Self::Forwarded(route) => route.why.name(),
            Self::Hit | Self::Absent | Self::Joined | Self::Here => Self::NAMES[self.code()],
        }
    }
}
