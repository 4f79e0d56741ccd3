//! What is said of a mutation: who attempts it, what it changes, how it ended (R5, R8, R11).

use super::view::Life;
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
    /// Those of the keys that are names: one mutation of a name at a time.
    pub names: Box<[K]>,
    /// Where it will be executed, if reads of its keys must go there: servers that know of each other's changes late.
    pub server: Option<u16>,
}

impl<K> Intent<K> {
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
}

/// Why an attempt is not let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another attempt of the operation is under way.
    UnderWay,
    /// The operation was executed: what the server said, if that is still known.
    Executed(Option<Box<[u8]>>),
    /// Nobody knows whether the operation was executed.
    Doubtful,
    /// Another mutation of a name of its is under way, or one of the same at another server.
    Busy,
    /// This attempt is over.
    Over,
}
