//! The daemon: unmodified NFSv3 clients mount it, unmodified servers stand behind it.
//!
//! One call, in reading order: `event` (a client's record) -> `dispatch` (refuse, answer here, or forward) -> `translate` (what it
//! means to `core`) -> `realm` (where it goes) -> `link` (a server's connection) -> the reply -> `realm` (what it taught) -> the client.
//! `keeper` asks the servers how they are, and runs the controller.

pub mod config;
pub mod survey;

mod clock;
mod dispatch;
mod event;
mod flight;
mod keeper;
mod link;
mod mountd;
mod realm;
mod serve;
mod ties;
mod translate;
mod verifier;

pub use serve::Proxy;
