//! The daemon: unmodified NFSv3 clients mount it, unmodified servers stand behind it.

pub mod config;
