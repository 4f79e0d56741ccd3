//! What a proxy can see of its servers: how long calls took, and how many are in flight. Paper: P1, P3, P18. And of who asks: the heaviest.

pub mod ewma;
pub mod quantile;
pub mod recorder;
pub mod sketch;
