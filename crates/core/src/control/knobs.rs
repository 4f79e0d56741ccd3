//! What the controller turns. A `Copy` value that it publishes; a decision takes it as an argument.
//!
//! With the controller stopped the knobs keep their last value, and nothing waits for it.

use crate::load::Load;
use crate::route::budget::Share;
use crate::time::Span;

/// The knobs of both policies.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knobs {
    /// d: how many servers `paper` samples. Paper: P5.
    pub choices: u8,
    /// Delta_L: how much less loaded a server must be. Paper: P5.
    pub margin_load: Load,
    /// Delta_t: how much faster it must be, with this proxy's jitter. Paper: P9.
    pub margin_latency: Span,
    /// f_max: the share of eligible calls that may be steered. Paper: P8.
    pub steer_share: Share,
    /// How long a steered key stays: C for `paper` (P7), a few service times for first-fit.
    pub pin: Span,
    /// Whether `paper` may steer: not during its warm-up. Paper: P2.
    pub steering: bool,
    /// Whether the cache may answer: not during `paper`'s warm-up. Paper: P2.
    pub caching: bool,
    /// first-fit: how much more work the home must have.
    pub gap: Load,
    /// first-fit with a gap of one: a home whose only call ahead is older than this, so nearly done, is not left.
    pub patience: Option<Span>,
    /// first-fit: over how many servers every directory's mutations may go without a storm.
    pub width_min: u16,
    /// first-fit: whether mutations may be split at all (only where the pool is coherent).
    pub split: bool,
    /// The administrator's way out: every call at its directory's home, whatever the policy.
    pub bypass: bool,
}

impl Knobs {
    /// The least work at home at which first-fit looks further.
    pub(crate) fn gap_min(&self) -> Load {
        self.gap.min(Load::calls(2))
    }
}

impl Default for Knobs {
    /// Where both policies start. Paper: P5, P7, P8.
    fn default() -> Self {
        Self {
            choices: 2,
            margin_load: Load::calls(4),
            margin_latency: Span::from_millis(1),
            steer_share: Share::new(0.10),
            pin: Span::from_millis(300),
            steering: true,
            caching: true,
            gap: Load::calls(2),
            patience: None,
            width_min: WIDTH_MIN,
            split: true,
            bypass: false,
        }
    }
}

/// Two servers share a directory's mutations even without a storm: one alone has no way out of a short queue.
pub const WIDTH_MIN: u16 = 2;
