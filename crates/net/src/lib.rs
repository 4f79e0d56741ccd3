//! RPC records over TCP: what the embedded servers, the load generator and the proxy share of their event loops.
//!
//! A loop is one thread that owns its connections: one read and one write for a batch of records, buffers lent from a pool so
//! that an idle connection holds none. The loops themselves stay with their owners; here are the parts: [`Connection`],
//! [`Buffers`], [`Budget`], [`Purse`], [`Alarm`], [`Replays`], and a blocking [`Client`] for set-up, tools and tests.

mod alarm;
mod budget;
mod buffers;
mod client;
mod connection;
mod datagram;
mod dial;
mod digest;
mod replay;
mod reserve;

pub use alarm::Alarm;
pub use budget::{Budget, Purse};
pub use buffers::{Buffers, Scratch};
pub use client::{Caller, Client, ClientError, Mount};
pub use connection::{Connection, Ended, Flow, Go};
pub use datagram::local_for;
pub use dial::{Source, begin, dial};
pub use digest::{Digest, DigestKey, RecordKey};
pub use replay::{Bound, CallId, Known, Replays, Terms, Verdict};
pub use reserve::Reservation;
