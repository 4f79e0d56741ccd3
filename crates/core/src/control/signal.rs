//! How unbalanced and how late the pool is, as numbers without a unit. Paper: P4.

use crate::control::warmup::Targets;
use crate::time::Span;

/// What the fast loop looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Signals {
    /// B: the coefficient of variation of the smoothed loads.
    pub imbalance: f64,
    /// The pool's smoothed tail latency.
    pub latency_p99: Span,
    /// P: how far both are past their targets.
    pub pressure: f64,
}

impl Signals {
    /// The signals of these smoothed loads. The paper adds a ratio to a time; we take the second term relative to its target, so that P has
    /// no unit: the one departure from the letter.
    pub fn new(loads: impl Iterator<Item = f64> + Clone, latency_p99: Span, targets: Option<&Targets>) -> Self {
        let imbalance = imbalance(loads);
        let pressure = targets.map_or(0.0, |targets| {
            let late = latency_p99.as_secs_f64() / targets.latency_p99.as_secs_f64() - 1.0;
            W1 * (imbalance - targets.imbalance).max(0.0) + W2 * late.max(0.0)
        });
        Self { imbalance, latency_p99, pressure }
    }
}

/// B = std / (mean + epsilon).
pub fn imbalance(loads: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = loads.clone().count().max(1) as f64;
    let mean = loads.clone().sum::<f64>() / count;
    let variance = loads.map(|load| (load - mean) * (load - mean)).sum::<f64>() / count;
    libm::sqrt(variance) / (mean + EPSILON)
}

const W1: f64 = 1.0;
const W2: f64 = 1.0;
const EPSILON: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imbalance_and_pressure_follow_the_paper() {
        let targets = Targets { imbalance: 0.2, latency_p99: Span::from_millis(100), rtt: Span::from_millis(1) };
        let cases = [
            ([3.0, 3.0, 3.0, 3.0], 100, 0.0, 0.0),
            ([0.0, 0.0, 0.0, 4.0], 100, 1.732, 1.532),
            ([3.0, 3.0, 3.0, 3.0], 150, 0.0, 0.5),
            ([0.0, 0.0, 0.0, 0.0], 50, 0.0, 0.0),
        ];
        for (loads, p99, imbalance, pressure) in cases {
            let got = Signals::new(loads.into_iter(), Span::from_millis(p99), Some(&targets));
            assert!((got.imbalance - imbalance).abs() < 1e-3, "{loads:?}: {got:?}");
            assert!((got.pressure - pressure).abs() < 1e-3, "{loads:?}: {got:?}");
        }
    }
}
