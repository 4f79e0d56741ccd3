//! A deterministic simulator of metadata servers behind MIDAS and behind its rivals.
//!
//! It runs the very policy code that the daemon runs, on simulated time. One seed is one world: same seed, same digest.

pub mod baseline;
mod call;
pub mod check;
pub mod cluster;
pub mod config;
pub mod fault;
pub mod hazard;
mod metrics;
pub mod model;
pub mod policy;
mod proxy;
pub mod queue;
pub mod report;
pub mod theory;
mod world;

pub use world::{run, warmup};
