//! What was decided, and why. One enum feeds tests, logs, the dashboard, `explain` and the figures.

use crate::id::ServerId;
use crate::load::Load;

/// Where a call goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Route {
    /// The server that gets the call.
    pub to: ServerId,
    /// The key's home, whether or not it takes calls.
    pub home: ServerId,
    /// The reason.
    pub why: Why,
}

impl Route {
    /// Whether the call leaves its home by choice.
    pub fn steered(&self) -> bool {
        match self.why {
            Why::Steered { .. } | Why::Pinned | Why::Split { .. } | Why::Overflow => true,
            Why::Home | Why::Turn | Why::Rerouted(_) | Why::Panic | Why::Capped | Why::Observed { .. } => false,
        }
    }
}

/// Why a call goes where it goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// At home; nothing was better by the margin.
    Home,
    /// Away from a loaded server, which had `gap` more work than the target.
    Steered {
        /// Where it would have gone: the home, or the next in its order if the home is closed.
        from: ServerId,
        /// Work there less work at the target, as this proxy saw it.
        gap: Load,
    },
    /// An earlier steer of the same key still holds. Paper: P7.
    Pinned,
    /// A mutation in a directory whose mutations are split over `width` servers.
    Split {
        /// How many servers share the directory's mutations.
        width: u16,
    },
    /// What its home cannot take of its own calls, while there is no news of the peers.
    Overflow,
    /// Would have been steered, but the steering cap is used up. Paper: P8.
    Capped,
    /// The home does not take this call; this is the next in its order.
    Rerouted(Exclusion),
    /// Every server looks dead, so none is excluded.
    Panic,
    /// Round-robin: it was this server's turn.
    Turn,
    /// Stays at home because the policy only observes; it would have gone to `would`.
    Observed {
        /// Where the call would have gone.
        would: ServerId,
    },
}

impl Why {
    /// The word that users read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Home => "home",
            Self::Steered { .. } => "steered",
            Self::Pinned => "pinned",
            Self::Split { .. } => "split",
            Self::Overflow => "overflow",
            Self::Capped => "capped",
            Self::Rerouted(_) => "rerouted",
            Self::Panic => "panic",
            Self::Turn => "turn",
            Self::Observed { .. } => "observed",
        }
    }
}

/// Why a server may not serve a call. Paper: P14.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// It does not answer.
    Down,
    /// Its answers are errors.
    Failing,
    /// It is on probation and has its one call.
    Probation,
    /// The administrator drains it.
    Drained,
    /// Its handles differ from the pool's.
    Quarantined,
    /// The subtree lives elsewhere.
    OtherSubtree,
    /// The servers' own table places the key elsewhere.
    PlacedElsewhere,
    /// A listing is in progress at another server, whose cookies it uses.
    ListingElsewhere,
    /// Another server holds written data that is not committed.
    UncommittedElsewhere,
    /// Another server executed a mutation of it, and the others may still answer with the state before.
    FencedElsewhere,
    /// Another server has perhaps executed this mutation.
    PerhapsExecutedElsewhere,
}

impl Exclusion {
    /// The sentence that users read.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Down => "it does not answer",
            Self::Failing => "its answers are errors",
            Self::Probation => "it is on probation and has its one call",
            Self::Drained => "it is drained",
            Self::Quarantined => "its handles differ from the pool's",
            Self::OtherSubtree => "the subtree lives elsewhere",
            Self::PlacedElsewhere => "the servers place the key elsewhere",
            Self::ListingElsewhere => "a listing is in progress elsewhere",
            Self::UncommittedElsewhere => "uncommitted writes lie elsewhere",
            Self::FencedElsewhere => "another server changed it and this one may not know yet",
            Self::PerhapsExecutedElsewhere => "another server has perhaps executed it",
        }
    }
}
