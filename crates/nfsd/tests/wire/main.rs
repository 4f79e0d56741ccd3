//! The server over real sockets, by the letters of the protocol's checklist: B is RPC over TCP, C retransmission, F
//! directories, K MOUNT and portmap.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod directories;
mod faults;
mod mount;
mod rpc;
mod support;
