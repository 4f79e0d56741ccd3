//! Means of independent replications with their 95 % confidence intervals.

/// A mean that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) mean: f64,
    /// Half the width of the 95 % confidence interval.
    pub(super) half_width: f64,
}

impl Estimate {
    /// Something that was counted, not sampled.
    pub(super) fn exact(mean: f64) -> Self {
        Self { mean, half_width: 0.0 }
    }

    /// The mean of independent samples.
    pub(super) fn of(samples: &[f64]) -> Self {
        let (count, mean) = (samples.len() as f64, mean(samples));
        let variance = samples.iter().map(|sample| (sample - mean) * (sample - mean)).sum::<f64>() / (count - 1.0);
        Self { mean, half_width: student(count - 1.0) * libm::sqrt(variance / count) }
    }

    /// The mean of the first of each pair, corrected by the second, whose expectation is known: a control variate. The part of the
    /// samples' deviation that their controls' deviation explains, by regression, is taken out of the mean and of the interval.
    pub(super) fn controlled(samples: &[(f64, f64)], expected: f64) -> Self {
        let (values, controls): (Vec<f64>, Vec<f64>) = samples.iter().copied().unzip();
        let (value, control) = (mean(&values), mean(&controls));
        let products = |f: fn((f64, f64)) -> f64| samples.iter().map(|(y, x)| f((y - value, x - control))).sum::<f64>();
        let (xx, xy, yy) = (products(|(_, x)| x * x), products(|(y, x)| x * y), products(|(y, _)| y * y));
        if xx == 0.0 {
            return Self::of(&values);
        }
        let (slope, off, count) = (xy / xx, control - expected, samples.len() as f64);
        let rest = (yy - slope * xy).max(0.0) / (count - 2.0);
        let variance = rest * (1.0 / count + off * off / xx);
        Self { mean: value - slope * off, half_width: student(count - 2.0) * libm::sqrt(variance) }
    }
}

fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

/// The 97.5 % quantile of Student's t: the normal one and three terms in 1/n, good to 0.2 % from n = 5 on.
fn student(n: f64) -> f64 {
    let z = NORMAL;
    let (z3, z5, z7) = (z * z * z, z * z * z * z * z, z * z * z * z * z * z * z);
    let first = (z3 + z) / 4.0;
    let second = (5.0 * z5 + 16.0 * z3 + 3.0 * z) / 96.0;
    let third = (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / 384.0;
    z + first / n + second / (n * n) + third / (n * n * n)
}

/// The 97.5 % quantile of the standard normal distribution.
const NORMAL: f64 = 1.959_963_984_540_054;

#[cfg(test)]
mod tests {
    use super::*;
    use midas_core::rng::Rng;

    #[test]
    fn students_quantiles_are_the_tabulated_ones() {
        for (n, want) in [(5.0, 2.571), (7.0, 2.365), (15.0, 2.131), (30.0, 2.042), (120.0, 1.980)] {
            assert!((student(n) - want).abs() < 0.002 * want, "{n}: {} is not {want}", student(n));
        }
    }

    #[test]
    fn both_intervals_cover_the_truth_19_times_in_20_and_a_control_narrows_them() {
        let mut rng = Rng::new(3);
        let (mut plain, mut controlled, mut widths) = (0, 0, (0.0, 0.0));
        for _ in 0..2_000 {
            let pairs: Vec<(f64, f64)> = (0..12)
                .map(|_| {
                    let shared = rng.normal();
                    (5.0 + shared + 0.5 * rng.normal(), 2.0 + shared)
                })
                .collect();
            let values: Vec<f64> = pairs.iter().map(|(value, _)| *value).collect();
            let (a, b) = (Estimate::of(&values), Estimate::controlled(&pairs, 2.0));
            plain += i32::from((a.mean - 5.0).abs() <= a.half_width);
            controlled += i32::from((b.mean - 5.0).abs() <= b.half_width);
            widths = (widths.0 + a.half_width, widths.1 + b.half_width);
        }
        for covered in [plain, controlled] {
            assert!((1_860..=1_940).contains(&covered), "{covered} of 2000");
        }
        assert!(widths.1 < 0.7 * widths.0, "{widths:?}");
    }
}
