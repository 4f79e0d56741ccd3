//! What is compared: a policy, with the cache or without.

use crate::failure::Failure;
use crate::sim::options::many;
use midas_core::route::policy::{Gap, Policy};
use std::fmt;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arm {
    pub(super) policy: Policy,
    /// Whether proxies answer from their common cache.
    pub(super) cache: bool,
}

impl Arm {
    /// Static placement: what MIDAS is held against.
    pub(super) const PLACED: Self = Self { policy: Policy::HashDirectory, cache: false };
    /// MIDAS without its cache.
    pub(super) const MIDAS: Self = Self { policy: Policy::FirstFit(Gap::Auto), cache: false };

    /// What is compared unless something else is typed.
    pub(super) const USUAL: &'static str = "hash-directory,rr,paper,first-fit,first-fit+cache";

    /// Policies separated by commas, each with `+cache` behind it or not.
    pub(super) fn parse_all(typed: &str) -> Result<Vec<Self>, Failure> {
        let arms = many(typed, &[], Self::parse)?;
        match arms.len() {
            0..=ARMS_MAX => Ok(arms),
            more => Err(Failure::Usage(format!("at most {ARMS_MAX} policies are compared, got {more}"))),
        }
    }

    fn parse(word: &str) -> Result<Self, String> {
        let (policy, cache) = word.strip_suffix(CACHED).map_or((word, false), |policy| (policy, true));
        Ok(Self { policy: Policy::parse(policy)?, cache })
    }

    /// The mode of the cache, as the proxies call it.
    pub(super) const fn mode(self) -> &'static str {
        if self.cache { "lease" } else { "strict" }
    }

    /// In words.
    pub(super) fn title(self) -> &'static str {
        match (self.policy, self.cache) {
            (Policy::HashDirectory, false) => "static placement",
            (Policy::HashDirectory, true) => "static placement, cache",
            (Policy::RoundRobinDirectory, false) => "directories in turn",
            (Policy::RoundRobinDirectory, true) => "directories in turn, cache",
            (Policy::RoundRobin, false) => "round-robin",
            (Policy::RoundRobin, true) => "round-robin, cache",
            (Policy::Paper(_), false) => "the paper's policy",
            (Policy::Paper(_), true) => "the paper's policy, cache",
            (Policy::FirstFit(_), false) => "MIDAS",
            (Policy::FirstFit(_), true) => "MIDAS, cache",
            (Policy::Observe, false) => "MIDAS observing",
            (Policy::Observe, true) => "MIDAS observing, cache",
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.policy, if self.cache { CACHED } else { "" })
    }
}

const CACHED: &str = "+cache";
/// Each has its share of the time.
pub(super) const ARMS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(typed: &str) -> String {
        match Arm::parse_all(typed) {
            Err(Failure::Usage(said)) => said,
            other => panic!("{typed}: {other:?}"),
        }
    }

    #[test]
    fn what_is_typed_is_what_is_shown() {
        let typed = "hash-directory,rr,paper:key=object,pin=free,first-fit,first-fit:gap=2+cache";
        let shown: Vec<String> = Arm::parse_all(typed).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(shown.join(","), typed);
        assert_eq!(shown.len(), 5);
    }

    #[test]
    fn what_is_no_policy_is_named() {
        assert!(refused("first-fit,fastest+cache").contains("'fastest'"));
        assert!(refused(&["rr"; ARMS_MAX + 1].join(",")).contains("at most"));
    }

    #[test]
    fn usually_static_placement_comes_first_and_midas_without_cache_before_the_one_with() {
        let usual = Arm::parse_all(Arm::USUAL).unwrap();
        assert_eq!((usual[0], usual[3], usual[4]), (Arm::PLACED, Arm::MIDAS, Arm { cache: true, ..Arm::MIDAS }));
    }
}
