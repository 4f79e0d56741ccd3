//! The same stories over every kind of namespace, through `execute`, with replies decoded as a client decodes them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod containment;
mod data;
mod listing;
mod names;
mod permissions;
mod script;
mod together;
mod world;
