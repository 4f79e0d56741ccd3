//! The steering cap: a leaky bucket of depth 1.
//!
//! Paper: P8. Every eligible call fills it by `share`, every call that leaves its home takes a whole token; so in any interval
//! steers <= share x eligible + 1, which a checker tests to the letter. Lock-free, so that all shards share one bucket.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The bucket. Starts full.
#[derive(Debug)]
pub struct SteerBudget(AtomicU32);

impl Default for SteerBudget {
    fn default() -> Self {
        Self(AtomicU32::new(TOKEN))
    }
}

impl SteerBudget {
    /// An eligible call came: fills by `share` of a token.
    pub fn fill(&self, share: Share) {
        let _ = self.0.fetch_update(Relaxed, Relaxed, |level| Some((level + share.0).min(TOKEN)));
    }

    /// Another bucket, as full as this one.
    pub fn copy(&self) -> Self {
        Self(AtomicU32::new(self.0.load(Relaxed)))
    }

    /// Takes a token if there is one.
    pub fn take(&self) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |level| level.checked_sub(TOKEN)).is_ok()
    }
}

/// The largest share of eligible calls that may leave their home, in millionths, rounded down so that the bound holds exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

impl Share {
    /// A share, kept in 0..=1.
    pub fn new(share: f64) -> Self {
        Self((share.clamp(0.0, 1.0) * f64::from(TOKEN)) as u32)
    }

    /// As a number.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(TOKEN)
    }
}

/// A token in millionths, so that shares such as 0.1 are exact.
const TOKEN: u32 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use std::vec::Vec;

    #[test]
    fn in_any_interval_steers_stay_within_share_of_eligible_plus_one() {
        let (budget, share, mut rng) = (SteerBudget::default(), Share::new(0.1), Rng::new(9));
        let steered: Vec<bool> = (0..4_000)
            .map(|_| {
                budget.fill(share);
                rng.chance(0.4) && budget.take()
            })
            .collect();
        for from in 0..steered.len() {
            let mut steers = 0.0;
            for (eligible, steer) in (1..).zip(&steered[from..]) {
                steers += f64::from(u8::from(*steer));
                assert!(steers <= 0.1 * f64::from(eligible) + 1.0);
            }
        }
        assert!(steered.iter().filter(|steer| **steer).count() > 300, "the budget is used");
    }
}
