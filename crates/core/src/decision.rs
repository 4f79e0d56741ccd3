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
    /// The words that users read, in the order of their codes.
    pub const NAMES: [&'static str; 10] =
        ["home", "steered", "pinned", "split", "overflow", "capped", "rerouted", "panic", "turn", "observed"];

    /// The reason's code, dense from 0: for counting.
    pub const fn code(self) -> usize {
        match self {
            Self::Home => 0,
            Self::Steered { .. } => 1,
            Self::Pinned => 2,
            Self::Split { .. } => 3,
            Self::Overflow => 4,
            Self::Capped => 5,
            Self::Rerouted(_) => 6,
            Self::Panic => 7,
            Self::Turn => 8,
            Self::Observed { .. } => 9,
        }
    }

    /// The word that users read.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self.code()]
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
    /// Every reason, in the order of their codes.
    pub const ALL: [Self; 11] = [
        Self::Down,
        Self::Failing,
        Self::Probation,
        Self::Drained,
        Self::Quarantined,
        Self::OtherSubtree,
        Self::PlacedElsewhere,
        Self::ListingElsewhere,
        Self::UncommittedElsewhere,
        Self::FencedElsewhere,
        Self::PerhapsExecutedElsewhere,
    ];

    /// The reason's code, dense from 0: for counting.
    pub const fn code(self) -> usize {
        self as usize
    }

    /// The word that programs read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Failing => "failing",
            Self::Probation => "probation",
            Self::Drained => "drained",
            Self::Quarantined => "quarantined",
            Self::OtherSubtree => "other_subtree",
            Self::PlacedElsewhere => "placed_elsewhere",
            Self::ListingElsewhere => "listing_elsewhere",
            Self::UncommittedElsewhere => "uncommitted_elsewhere",
            Self::FencedElsewhere => "fenced_elsewhere",
            Self::PerhapsExecutedElsewhere => "perhaps_executed_elsewhere",
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_dense_and_names_differ() {
        for (code, why) in Exclusion::ALL.into_iter().enumerate() {
            assert_eq!(why.code(), code);
            assert!(Exclusion::ALL.iter().all(|other| *other == why || other.name() != why.name()));
        }
        let whys = [
            Why::Home,
            Why::Steered { from: ServerId(0), gap: Load::ONE },
            Why::Pinned,
            Why::Split { width: 2 },
            Why::Overflow,
            Why::Capped,
            Why::Rerouted(Exclusion::Down),
            Why::Panic,
            Why::Turn,
            Why::Observed { would: ServerId(0) },
        ];
        assert!(whys.iter().enumerate().all(|(code, why)| why.code() == code));
        assert_eq!(whys.len(), Why::NAMES.len());
    }
}
