//! Seeded streams of metadata calls, for the simulator and for the load generator.
//!
//! A [`Spec`] is what was typed (`zipf:0.9`), a [`Setting`] is the cluster it is aimed at, and [`stream`] makes calls of the
//! two, lazily and in order of time. Nothing here reads a clock or knows how a call is answered. When, where, what and who are
//! drawn from separate streams of chance: workloads that differ only in where their calls go arrive at identical times.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod arrival;
mod job;
mod pattern;
mod replay;
mod request;
mod service;
mod spec;
mod stream;
pub mod units;
mod zipf;

pub use job::{Look, walk};
pub use replay::{Replay, ReplayError};
pub use request::{Request, Setting};
pub use service::Service;
pub use spec::{Described, Spec, SpecError};
pub use stream::{Stream, stream};
pub use zipf::Zipf;
