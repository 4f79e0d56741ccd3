//! `midas bench`: a load generator for any NFSv3 server or proxy.
//!
//! A [`Config`] says what is measured, [`run`] measures it and removes what it made, a [`report::Report`] says what was found.
//! Closed loops wait for answers before they call again and so hide stalls; open loops call at times that are fixed beforehand
//! and count latency from there. [`ceiling`] is the other end: a responder that shows how fast this machine's network and our
//! own parts can be at all.

mod action;
pub mod ceiling;
mod clock;
pub mod coherence;
mod config;
mod desk;
mod error;
mod history;
mod job;
mod lane;
mod pipe;
mod processor;
pub mod report;
mod run;
mod schedule;
mod site;
mod slice;
mod slots;
mod source;
mod spread;
mod start;
mod tally;
mod target;
mod tree;
mod warning;
mod wire;
mod worker;

pub use action::Action;
pub use config::{Arrivals, Cell, Config, Load, Pace};
pub use error::RunError;
pub use processor::pin;
pub use run::{Event, run};
pub use slice::Doing;
pub use spread::Spread;
pub use start::{Start, Started};
pub use target::Target;
pub use tree::Shape;
