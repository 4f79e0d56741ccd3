//! The parts of the world that are not MIDAS: servers, their service times, the truth about the namespace.

pub mod attribute_cache;
pub mod capabilities;
pub mod server;
pub mod truth;
