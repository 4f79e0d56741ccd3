//! One script of NFSv3 calls, errors included, that every server must answer alike.
//!
//! The script is data ([`script`]): calls whose handles are symbols. [`run`] plays it against a server, in one fresh directory
//! that it removes, and writes down what can be compared between servers: never handles, file numbers or times, but how they
//! relate. [`diff`] says where two transcripts differ, [`ALLOWED`] where the RFC lets servers differ. A crate of its own
//! because `midas-lab`, which starts the servers, knows no protocol. For tests: what no server may do panics.

mod allowed;
mod describe;
mod listing;
mod names;
mod rpc;
mod run;
mod script;
mod step;
mod transcript;

pub use allowed::{ALLOWED, Allowed, Kind, faults, idle, rows};
pub use run::{Target, run};
pub use script::script;
pub use step::{Act, Args, Cut, Filling, Listing, Login, Port, Raw, Step, Who};
pub use transcript::{Difference, Line, Transcript, diff};
