//! What a reply says, and what becomes of it: kept until a horizon, or refused for a reason.

use crate::time::Time;

/// What a reply says about its object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// When the object last changed, on the driver's clock (whose origin must lie before any file's change); for a missing
    /// name, when its directory did.
    pub changed_at: Option<Time>,
    /// Until when the server promised not to change it.
    pub lease_until: Option<Time>,
    /// What keeping the value costs, in bytes.
    pub cost: usize,
}

/// What became of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Later reads are answered with it.
    Kept {
        /// Until when.
        horizon: Time,
    },
    /// It answers who waits for it, and nobody else.
    Refused(Refusal),
}

/// Why a reply was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Refusal {
    /// The mode keeps nothing.
    Strict,
    /// A mutation of the key is unfinished.
    Pending,
    /// A mutation of the key began or ended since the read left.
    EpochChanged,
    /// The cache was flushed since the read left.
    Generation,
    /// A mutation may still run in a server.
    Hold,
    /// The key is written too often to be worth it.
    WritePressure,
    /// A newer state of the object is known.
    Older,
    /// The object changes too often to stay below p* for one round trip.
    HazardTooHigh,
    /// The first look at an object without a change time.
    Unproven,
    /// The horizon passed while the reply was on its way.
    Late,
    /// The cache stands aside.
    NotAdmitted,
    /// It would need more than the whole cache.
    TooLarge,
}

impl Refusal {
    /// Every reason.
    pub const ALL: [Self; 12] = [
        Self::Strict,
        Self::Pending,
        Self::EpochChanged,
        Self::Generation,
        Self::Hold,
        Self::WritePressure,
        Self::Older,
        Self::HazardTooHigh,
        Self::Unproven,
        Self::Late,
        Self::NotAdmitted,
        Self::TooLarge,
    ];

    /// The words that users read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Pending => "pending",
            Self::EpochChanged => "epoch-changed",
            Self::Generation => "generation",
            Self::Hold => "hold",
            Self::WritePressure => "write-pressure",
            Self::Older => "older",
            Self::HazardTooHigh => "hazard-too-high",
            Self::Unproven => "unproven",
            Self::Late => "late",
            Self::NotAdmitted => "not-admitted",
            Self::TooLarge => "too-large",
        }
    }
}
