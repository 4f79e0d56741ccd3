//! Invariant 5 for `paper`: in any interval, steers <= f_max x eligible + 1.

use midas_core::control::knobs::Knobs;
use midas_core::decision::{Route, Why};
use midas_core::route::paper::{Eligible, PinCost, Reading};

/// Steers less their allowance, and the least that this was: their difference is the worst interval that ends now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BudgetCheck {
    excess: f64,
    least: f64,
}

impl BudgetCheck {
    pub(super) fn routed(&mut self, reading: Reading, route: &Route, knobs: &Knobs) -> Result<(), String> {
        let steered = match route.why {
            Why::Steered { .. } => true,
            Why::Pinned => reading.pin == PinCost::Token,
            Why::Home
            | Why::Overflow
            | Why::Capped
            | Why::Rerouted(_)
            | Why::Panic
            | Why::Turn
            | Why::Split { .. }
            | Why::Observed { .. } => false,
        };
        let margin = matches!(route.why, Why::Steered { .. } | Why::Capped);
        let eligible = knobs.steering && (reading.eligible == Eligible::Every || margin);
        if eligible {
            self.excess -= knobs.steer_share.as_f64();
        }
        if steered {
            self.excess += 1.0;
        }
        let worst = self.excess - self.least;
        self.least = self.least.min(self.excess);
        match worst <= 1.0 + 1e-6 {
            true => Ok(()),
            false => Err(format!("steers exceed f_max x eligible + 1 by {}", worst - 1.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use midas_core::id::ServerId;
    use midas_core::load::Load;

    #[test]
    fn the_checker_sees_an_overdrawn_budget() {
        let route = |why| Route { to: ServerId(1), home: ServerId(0), why };
        let (mut check, knobs) = (BudgetCheck::default(), Knobs::default());
        let steer = route(Why::Steered { from: ServerId(0), gap: Load::ONE });
        assert!(check.routed(Reading::default(), &steer, &knobs).is_ok());
        assert!((0..8).all(|_| check.routed(Reading::default(), &route(Why::Home), &knobs).is_ok()));
        assert!(check.routed(Reading::default(), &steer, &knobs).is_ok(), "the tenth call after the first");
        assert!(check.routed(Reading::default(), &steer, &knobs).is_err());
    }
}
