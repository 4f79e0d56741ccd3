//! What is said of a mutation: who attempts it, what it changes, how it ended (R5, R8, R11).

use super::view::Life;
use crate::time::Span;
use alloc::boxed::Box;

/// What a client asks for once, however often it says so: a digest of the client, the xid and the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Operation(pub u128);

/// One try to have an operation executed. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    /// Who tries.
    pub owner: Life,
    /// Counts that life's attempts.
    pub sequence: u64,
}

/// What an attempt would change. The same for as long as it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent<K> {
    /// What must not be executed twice; none for what may.
    pub operation: Option<Operation>,
    /// What must be dropped from every cache.
    pub keys: Box<[K]>,
    /// Those of the keys that one mutation at a time may change: names, and what must show later whether this call ran.
    pub names: Box<[K]>,
    /// Where it will be executed, if reads of its keys must go there: servers that know of each other's changes late.
    pub server: Option<u16>,
    /// The operation that this announces more of: it was announced before by the same owner, and what its names lead to was found since.
    pub more_of: Option<Operation>,
    /// Whether the first name of its operation leads somewhere, if that is known.
    pub led: Option<bool>,
    /// How often it was refused before: of two that wait for each other, who waits longer comes first.
    pub rank: u32,
}

impl<K> Intent<K> {
    /// The operation that this is a part of.
    pub fn part_of(&self) -> Option<Operation> {
        self.operation.or(self.more_of)
    }

    /// It is over: only what it was is remembered.
    pub(super) fn forget_keys(&mut self) {
        (self.keys, self.names) = (Box::default(), Box::default());
    }
}

/// How an attempt stands. Goes from the first to one of the others, never back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It may run.
    Pending,
    /// The server replied: what it said, if somebody may ask again.
    Ended(Option<Box<[u8]>>),
    /// The same, but a copy that was sent before may still run for a while.
    Copied(Option<Box<[u8]>>),
    /// It cannot run any more, and nobody knows whether it did.
    Unknown,
    /// It never left.
    Cancelled,
}

/// An attempt as one member tells it another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told<K> {
    /// Which.
    pub id: AttemptId,
    /// What it would change.
    pub intent: Intent<K>,
    /// How it stands.
    pub state: State,
    /// How long ago it was last announced there, at most.
    pub age: Span,
    /// What can be told from its names, if it is in doubt.
    pub sight: Sight,
}

/// Whether the names of an attempt will show if it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sight {
    /// They will, as far as is known.
    Clear,
    /// It is known from a disk alone: what was changed since nobody knows, unless somebody who was there tells of it.
    Unconfirmed,
    /// Something that nobody waits for may have changed the same, or may yet.
    Blurred,
}

/// Why an attempt is not let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another attempt of the operation is under way.
    UnderWay,
    /// The operation was executed: what the server said, if that is still known.
    Executed(Option<Box<[u8]>>),
    /// Nobody knows whether this attempt of the operation was executed; whether it shows.
    Doubtful(AttemptId, Trace),
    /// Another mutation of a name of its is under way, or one of the same at another server.
    Busy,
    /// This attempt is over.
    Over,
}

/// Whether an operation in doubt can be told from what it would have left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// Nobody else has changed the same since it was announced, nor will before [`super::Member::found_out`], for a term at least. Whether its
    /// first name led somewhere before, if that is known; how long ago it was announced.
    Sure(Option<bool>, Span),
    /// Somebody else may have.
    Blurred,
}
