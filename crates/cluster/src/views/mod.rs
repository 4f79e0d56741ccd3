//! Views.

pub(crate) mod consensus;
pub(crate) mod log;

#[cfg(test)]
mod tests;
