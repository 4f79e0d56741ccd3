//! Other proxies, as far as decisions need them. Paper: P13, P18.

pub mod lease;
pub mod share;
pub mod tell;

pub use share::{Share, Shares};
pub use tell::{Change, Due, Teller};
