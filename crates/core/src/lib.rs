//! What MIDAS decides, and nothing else: no I/O, no clock, no log, no NFS.
//!
//! The daemon and the simulator run this very crate. Time is an argument, chance is injected, and nothing here can fail.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod cache;
pub mod op;
pub mod rng;
pub mod time;
