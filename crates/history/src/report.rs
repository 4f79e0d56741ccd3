//! What a check found, for people and for programs.

use serde::Serialize;
use std::fmt;

/// A check's result.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Calls.
    pub calls: u64,
    /// By kind, the most first.
    pub kinds: Vec<Count>,
    /// Changes of which nobody knows whether they were executed.
    pub unknown: u64,
    /// Objects that were seen.
    pub objects: u64,
    /// Registers that were checked.
    pub registers: u64,
    /// Single observations and changes of registers.
    pub steps: u64,
    /// Most calls under way at once.
    pub concurrency: usize,
    /// From the first start to the last end.
    pub seconds: f64,
    /// Registers given up for a while because too many orders were possible: nothing is known of these stretches.
    pub undecided: u64,
    /// Registers of objects that were forgotten to save memory, and would be taken up anew.
    pub forgotten: u64,
    /// Times of change whose seconds were the old ones and whose nanoseconds were the new: servers' kernels read them one after the other.
    pub torn: u64,
    /// Changes that were sent again and answered as done though their name was at no moment as they need it: nobody knew the end of the first
    /// sending, and what it would have left was there.
    pub presumed: u64,
    /// All violations.
    pub violations: u64,
    /// The first of them, at most [`Report::SHOWN`].
    pub shown: Vec<Violation>,
}

impl Report {
    /// Violations that are told in words.
    pub const SHOWN: usize = 20;
}

/// How often.
#[derive(Clone, Debug, Serialize)]
pub struct Count {
    /// What.
    pub kind: &'static str,
    /// How often.
    pub calls: u64,
    /// How often it was done.
    pub done: u64,
    /// How often without an answer.
    pub silent: u64,
}

/// Something that nobody may see.
#[derive(Clone, Debug, Serialize)]
pub struct Violation {
    /// What it is about.
    pub register: String,
    /// The call that cannot be explained.
    pub call: String,
    /// What it says.
    pub saw: String,
    /// The latest changes of that register, the last one last.
    pub changes: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} says that it {}, and no order of the calls allows that",
            self.register, self.call, self.saw
        )?;
        match self.changes.is_empty() {
            true => writeln!(f, "    nothing is known that changed it"),
            false => self.changes.iter().try_for_each(|change| writeln!(f, "    before: {change}")),
        }
    }
}
