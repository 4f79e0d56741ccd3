//! What can be seen of the daemon while it runs: hot spots, calls as they pass, what was decided.
//!
//! Event loops say what they saw (`Seen`); everything else happens beside them, and nothing that is kept grows without a bound.

pub(crate) mod decision;
mod frames;
mod journal;
pub(crate) mod labels;
mod members;
mod names;
mod past;
mod spots;
mod tracer;

pub(crate) use frames::{Door, Frames, Watcher};
pub(crate) use journal::{Journal, Said};
pub(crate) use labels::Labels;
pub(crate) use members::Members;
pub(crate) use names::{Names, printable};
pub(crate) use past::Past;
pub(crate) use spots::{Corner, Heat, Spots};
pub(crate) use tracer::{LISTENERS, Passed, Tracer, Wants};

use crate::counters::status;
use crate::dispatch::Origin;
use crate::event::Shared;
use crate::translate::{handles, names as names_of};
use decision::Decisions;
use midas_core::decision::Route;
use midas_core::key::Key;
use midas_core::time::{Span, Time};
use midas_nfs::nfs3::{self, Nfsstat3, Procedure};
use midas_nfs::rpc::{self, Credential};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// All that is watched.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) spots: Spots,
    pub(crate) names: Names,
    pub(crate) labels: Labels,
    pub(crate) tracer: Tracer,
    pub(crate) journal: Journal,
    pub(crate) past: Past,
    pub(crate) frames: Frames,
    decisions: Decisions,
}

impl Watch {
    /// For so many event loops.
    pub(crate) fn new(loops: usize) -> Self {
        Self {
            spots: Spots::new(loops),
            names: Names::default(),
            labels: Labels::default(),
            tracer: Tracer::default(),
            journal: Journal::default(),
            past: Past::default(),
            frames: Frames::default(),
            decisions: Decisions::default(),
        }
    }

    /// This loop saw a call answered, with these results of NFS.
    #[inline]
    pub(crate) fn saw(&self, number: usize, seen: &Seen<'_>, results: Option<&[u8]>) {
        if cfg!(feature = "uncounted") {
            return;
        }
        self.spots.saw(number, &self.names, seen);
        if self.tracer.listening() {
            self.tracer.saw(seen, results);
        }
    }

    /// While somebody listens every hit is told, and counted for itself.
    pub(crate) fn look(&self) {
        self.spots.look_at_all(self.tracer.listening());
    }

    /// What people are shown of an object: its path, or its digest.
    pub(crate) fn shown(&self, object: Key) -> String {
        self.names.path_at_once(object).unwrap_or_else(|| format!("#{}", digest(object)))
    }
}

/// An object without its handle: who has that can call on it.
pub(crate) fn digest(object: Key) -> String {
    format!("{:016x}", object.0)
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
    /// What a server spent on it; zero if none was asked for it alone.
    pub(crate) served: Span,
    /// When it was answered.
    pub(crate) at: Time,
}

impl Seen<'_> {
    /// Whether it is surely a directory that it is about.
    fn on_directory(&self) -> bool {
        let lists = matches!(self.procedure, Procedure::Readdir | Procedure::Readdirplus);
        lists || matches!(self.procedure, Procedure::Fsstat | Procedure::Fsinfo) || self.name.is_some()
    }
}

/// Whose call it is, and when it came. Small: it travels with every call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whom {
    client: Ipv6Addr,
    /// `NOBODY` if it does not say.
    uid: u32,
    since: Time,
}

impl Whom {
    /// Another proxy, which watches its own clients.
    pub(crate) const PEER: Self = Self { client: Ipv6Addr::UNSPECIFIED, uid: NOBODY, since: Time::ZERO };

    /// A client.
    pub(crate) fn of(now: Time, origin: &Origin, credential: &Credential<'_>) -> Self {
        let client = match origin.client.ip() {
            IpAddr::V4(client) => client.to_ipv6_mapped(),
            IpAddr::V6(client) => client,
        };
        let uid = match credential {
            Credential::Sys(sys) => sys.uid,
            Credential::None => NOBODY,
        };
        Self { client, uid, since: now }
    }

    /// How long it has waited; not known of another proxy's.
    pub(crate) fn waited(&self, now: Time) -> Option<Span> {
        (self.since != Time::ZERO).then(|| now.since(self.since))
    }
}

/// What a call's record says, for those who watch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) procedure: Procedure,
    pub(crate) realm: usize,
    pub(crate) place: Key,
    handle: &'a [u8],
    pub(crate) name: Option<&'a [u8]>,
    to: Option<(Key, &'a [u8])>,
    linked: Option<Key>,
}

impl<'a> Asked<'a> {
    /// From the arguments of a call on this place.
    pub(crate) fn of(procedure: Procedure, (realm, place): (usize, Key), args: &'a [u8]) -> Self {
        if let Some((handle, name)) = nfs3::subject(procedure, args) {
            return Self { procedure, realm, place, handle: handle.bytes(), name, to: None, linked: None };
        }
        let call = nfs3::Call::decode(procedure, args).ok();
        let handle = call.as_ref().and_then(handles).map_or(&[][..], |(handle, _)| handle.bytes());
        let (name, to) = call.as_ref().map_or((None, None), names_of);
        let linked = match call {
            Some(nfs3::Call::Link { file, .. }) => Some(Key::of(file.bytes())),
            _ => None,
        };
        Self { procedure, realm, place, handle, name, to, linked }
    }

    /// From its record.
    pub(crate) fn in_record(procedure: Procedure, at: (usize, Key), record: &'a [u8]) -> Self {
        Self::of(procedure, at, rpc::Call::args_of(record).unwrap_or_default())
    }

    /// It was answered so, now.
    pub(crate) fn answered(&self, now: Time, whom: Whom, outcome: Outcome, status: Option<Nfsstat3>) -> Seen<'a> {
        let Self { procedure, realm, place, handle, name, to, linked } = *self;
        Seen {
            client: IpAddr::V6(whom.client).to_canonical(),
            uid: Some(whom.uid).filter(|uid| *uid != NOBODY),
            procedure,
            realm,
            place,
            handle,
            name,
            to,
            linked,
            outcome,
            status,
            took: now.since(whom.since),
            served: Span::ZERO,
            at: now,
        }
    }

    /// This loop saw it answered so, with these results; a server spent so much on it.
    pub(crate) fn tell(
        &self,
        (now, number): (Time, usize),
        shared: &Shared,
        whom: Whom,
        (outcome, served): (Outcome, Span),
        results: Option<&[u8]>,
    ) {
        if cfg!(feature = "uncounted") || whom.client.is_unspecified() {
            return;
        }
        let seen = Seen { served, ..self.answered(now, whom, outcome, results.and_then(status)) };
        shared.watch.saw(number, &seen, results);
        decision::moved(shared, &seen);
    }
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

/// What is behind the mutex, unless somebody else has it: event loops do not wait for those who watch.
fn at_once<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The user that no system has.
const NOBODY: u32 = u32::MAX;
