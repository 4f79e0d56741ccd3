//! A few samples as what is typical of them and how far they scatter.

use serde::Serialize;

/// Median, quartiles and extremes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Half of the samples are below.
    pub median: f64,
    /// A quarter of them is below.
    pub q1: f64,
    /// Three quarters of them are below.
    pub q3: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of some samples; none if there is none. What is no number is left out.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = samples.into_iter().filter(|sample| sample.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let [q1, median, q3] = [0.25, 0.5, 0.75].map(|share| quantile(&sorted, share));
        Some(Self { median, q1, q3, min, max })
    }
}

/// Between the two samples around the place, in proportion.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, part) = (place as usize, place.fract());
    let above = sorted[(below + 1).min(sorted.len() - 1)];
    sorted[below] + part * (above - sorted[below])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_small_samples() {
        let cases: [(&[f64], [f64; 5]); 3] = [
            (&[3.0], [3.0, 3.0, 3.0, 3.0, 3.0]),
            (&[4.0, 1.0], [1.0, 1.75, 2.5, 3.25, 4.0]),
            (&[7.0, 1.0, 5.0, f64::NAN, 3.0, 9.0], [1.0, 3.0, 5.0, 7.0, 9.0]),
        ];
        for (samples, [min, q1, median, q3, max]) in cases {
            assert_eq!(Spread::of(samples.iter().copied()), Some(Spread { median, q1, q3, min, max }));
        }
        assert_eq!(Spread::of([]), None);
    }
}
