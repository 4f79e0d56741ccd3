//! x
#![allow(dead_code, missing_docs, unreachable_pub)]

mod view;
mod views;
pub use view::View;
