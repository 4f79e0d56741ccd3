//! The daemon: unmodified NFSv3 clients mount it, unmodified servers stand behind it.
//!
//! One call, in reading order: `event` (a client's record) -> `dispatch` (refuse, answer here, or forward) -> `translate` (what it
//! means to `core`) -> `upstream` (sent, held, moved) -> `realm` (where it goes) -> `link` (a server's connection) -> `relay` (its reply)
//! -> the client. `keeper` asks the servers how they are and runs the controllers; `clerk` does what waits for a server.

pub mod api;
pub mod config;
pub mod log;
pub mod survey;

mod abandon;
mod accord;
mod admin;
mod agreed;
mod ask_again;
mod cached;
mod claim;
mod clerk;
mod client_table;
mod clock;
mod cookies;
mod counters;
mod cut;
mod datagram;
mod dispatch;
mod drain;
mod event;
mod exclusive;
mod fence;
mod fencing;
mod fetching;
mod finding;
mod flight;
mod generations;
mod homes;
mod intents;
mod keeper;
mod key_map;
mod life;
mod link;
mod made;
mod mountd;
mod objects;
mod peers;
mod pool;
mod prepare;
mod presence;
mod queue;
mod realm;
mod regulate;
mod relay;
mod reload;
mod resolving;
mod rtt;
#[cfg(test)]
mod samples;
mod sampling;
mod seating;
mod seed;
mod serve;
mod settle;
mod shared;
mod stalled;
mod state;
mod ties;
mod translate;
mod under_way;
mod unresolved;
mod upstream;
mod verifier;
mod verify;
mod wakes;
mod watch;
mod whose;
mod witness;

pub use accord::{Counts, Standing};
pub use serve::Proxy;
pub use witness::Witness;

/// Makes a file with a new key for a cluster; one that exists is left alone.
pub fn create_cluster_key(file: &std::path::Path) -> std::io::Result<()> {
    midas_cluster::Key::create(file)
}
