//! Histories of calls, and whether anyone saw what nobody may see.
//!
//! A [`Record`] is one call of one client with what it saw; a [`Writer`] puts records into a file, block by block. [`check`]
//! reads files in the order of time and holds every observation against registers: one for each (directory, name) and one for each
//! attribute of an object. `docs/consistency.md` is the model in words. Nothing here speaks NFS: the load generator
//! translates, so that a checker's mistake is not the generator's.

mod check;
mod codec;
mod file;
mod frontier;
mod meaning;
mod record;
mod report;
mod staleness;
mod step;

pub use check::{Checker, check};
pub use file::{BadHistory, Blocks, Scribe, Writer};
pub use record::{ABSENT, Attributes, Kind, Name, Place, Record, SILENT, short, status};
pub use report::{Count, Report, Violation};

/// What is held against a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every register is linearizable in real time: what `strict` and `lease` promise.
    Linearizable,
    /// Every value read was current at some moment not longer than this many nanoseconds before the call began.
    Bounded(u64),
}
