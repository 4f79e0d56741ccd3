//! Calls as they pass, for whoever asks.

/// Who listens, and what they want to hear.
#[derive(Debug, Default)]
pub(crate) struct Tracer;
