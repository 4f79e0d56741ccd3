//! Every policy that can be simulated: the core's own, and their rivals.

use crate::baseline::Rival;
use midas_core::route::policy::Policy;
use std::fmt;

/// A policy of the core, or a rival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// Runs the core's code.
    Core(Policy),
    /// A rival.
    Rival(Rival),
}

impl Contender {
    /// The names in the order of the tables.
    pub const NAMES: [&'static str; 14] = [
        "rr",
        "rr-client",
        "rr-directory",
        "hash-directory",
        "hash-object",
        "bounded-load",
        "random",
        "p2c",
        "p2c-stale",
        "peak-ewma",
        "prequal",
        "jsq",
        "paper",
        "first-fit",
    ];

    /// The policy that was typed, or one line that says what is possible.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some((rival, _, _)) = Rival::ALL.into_iter().find(|(_, name, _)| *name == text) {
            return Ok(Self::Rival(rival));
        }
        let name = text.split(':').next().unwrap_or(text);
        match Self::NAMES.contains(&name) && Rival::ALL.iter().all(|(_, rival, _)| *rival != name) {
            true => Policy::parse(text).map(Self::Core),
            false => Err(format!("unknown policy '{text}'; possible: {}, all", Self::NAMES.join(", "))),
        }
    }

    /// Whether the paper's warm-up must come before it is measured. Paper: P2.
    pub fn warms_up(self) -> bool {
        matches!(self, Self::Core(Policy::Paper(_)))
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Core(policy) => policy.fmt(f),
            Self::Rival(rival) => f.write_str(rival.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_policy_and_shows_as_typed() {
        for name in Contender::NAMES.into_iter().chain(["paper:key=object", "first-fit:gap=1"]) {
            assert_eq!(Contender::parse(name).unwrap().to_string(), name);
        }
        for wrong in ["fastest", "rr:x", "paper:x=y", "jsq:2"] {
            let error = Contender::parse(wrong).unwrap_err();
            assert!(error.contains("possible") && !error.contains('\n'), "{error}");
        }
    }
}
