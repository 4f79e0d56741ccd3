//! A view: who takes part, under which number. Entries of the replicated log are views; one counts only if its number is higher than all
//! before it, so that of two proposals for the same number the first in the log wins, everywhere.

use serde::{Deserialize, Serialize};

/// Who takes part. At least a majority of the configured members, unless its epoch is 0: nothing was agreed yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Grows with every view; numbers may be left out.
    pub epoch: u64,
    /// The index of each member in the configuration, with its incarnation; in the order of the configuration.
    pub members: Vec<(u8, u64)>,
}

impl View {
    /// The next view of the log, in its order; whether it counts.
    pub(crate) fn succeed(&mut self, next: Self) -> bool {
        let newer = next.epoch > self.epoch;
        if newer {
            *self = next;
        }
        newer
    }

    /// The incarnation of a member that takes part.
    pub fn incarnation(&self, member: u8) -> Option<u64> {
        self.members.iter().find(|(index, _)| *index == member).map(|(_, incarnation)| *incarnation)
    }
}

/// The least number of members that are more than half.
pub(crate) fn majority(members: usize) -> usize {
    members / 2 + 1
}
