//! Other proxies, as far as decisions need them. Paper: P13, P18.

pub mod share;

pub use share::{Share, Shares, share_interval};
