//! What goes wrong, as one struct of numbers.

use midas_core::time::Span;

/// The faults of a run. The default is a world without any.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// So many servers (the first ones) take `factor` times as long.
    pub slow: Option<Slow>,
    /// So many servers (the last ones) answer at once, with an error.
    pub failing: u32,
    /// The share of messages between proxies and servers that are lost and come again after a retransmission timeout.
    pub loss: f64,
    /// The share of load shares that are lost for good.
    pub share_loss: f64,
    /// Mutations a second that reach the servers past all proxies.
    pub bypass_rate: f64,
}

/// Slow servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slow {
    /// How many.
    pub servers: u32,
    /// How many times slower.
    pub factor: f64,
}

/// How long until a lost message is sent again: TCP's least retransmission timeout.
pub const RETRANSMIT: Span = Span::from_millis(200);
/// How fast a failing server answers.
pub const FAIL_AFTER: Span = Span::from_micros(100);
