//! M balls into M bins, each into the emptiest of d random ones: the fullest bin against theory. Paper: P20.
//!
//! One choice: loads are Poisson(1). More choices: the share of bins with at least i balls follows the mean-field equation
//! ds_i/dt = s_(i-1)^d - s_i^d to t = 1. The asymptotic forms stand beside, not in the verdict: they hide a constant that is as large as the
//! maximum itself at any size that occurs.

use super::interval::Estimate;
use super::row::{Subject, Table, TheoryRow, Tolerance};
use midas_core::rng::{Rng, mix};

/// All sizes and numbers of choices.
pub(super) fn table(seed: u64, progress: &mut dyn FnMut(&str)) -> Table {
    let mut rows = Vec::new();
    for choices in CHOICES {
        progress(&format!("balls into bins, d = {choices}"));
        for bits in SIZES {
            let throws = (THROWN >> bits).clamp(THROWS.0, THROWS.1);
            rows.push(compare(bits, choices, measure(bits, choices, throws, seed)));
        }
    }
    Table { title: TITLE, note: NOTE, rows }
}

fn compare(bits: u32, choices: u32, measured: Estimate) -> TheoryRow {
    let name = if choices == 1 { "1 choice".to_owned() } else { format!("{choices} choices") };
    let subject = Subject { table: TITLE, name, parameter: format!("M = 2^{bits}") };
    let bins = libm::ldexp(1.0, bits.cast_signed());
    TheoryRow::judge(subject, maximum(bins, choices), measured, Tolerance::Within(1.0))
        .beside(asymptotic(bins, choices))
}

/// The mean over throws of the fullest bin.
fn measure(bits: u32, choices: u32, throws: u64, seed: u64) -> Estimate {
    let purpose = u64::from(bits) << 32 | u64::from(choices) << 24;
    let maxima: Vec<f64> = (0..throws)
        .map(|throw| fullest(1 << bits, choices, &mut Rng::for_purpose(mix(seed), purpose | throw)))
        .collect();
    Estimate::of(&maxima)
}

/// Throws as many balls as bins; the candidates of a ball are drawn with replacement.
fn fullest(bins: usize, choices: u32, rng: &mut Rng) -> f64 {
    let mut loads = vec![0_u16; bins];
    for _ in 0..bins {
        let mut best = rng.below(bins);
        for _ in 1..choices {
            let other = rng.below(bins);
            if loads[other] < loads[best] {
                best = other;
            }
        }
        loads[best] += 1;
    }
    f64::from(loads.into_iter().max().unwrap_or(0))
}

/// The expected maximum of that many independent bins: sum over i >= 1 of 1 - (1 - s_i)^M. For one choice it is that of independent
/// Poisson(1) variables, exactly; thrown balls are these under the condition that they sum to M, which is lost in the noise here.
pub(super) fn maximum(bins: f64, choices: u32) -> f64 {
    let tails = if choices == 1 { poisson_tails() } else { mean_field_tails(choices) };
    tails[1..].iter().map(|tail| -libm::expm1(bins * libm::log1p(-tail))).sum()
}

/// P(X >= i) for X of Poisson(1), from the smallest term up so that nothing is lost.
fn poisson_tails() -> [f64; LEVELS] {
    let mut terms = [libm::exp(-1.0); LEVELS];
    (1..LEVELS).for_each(|k| terms[k] = terms[k - 1] / k as f64);
    let mut tails = terms;
    (0..LEVELS - 1).rev().for_each(|i| tails[i] += tails[i + 1]);
    tails
}

/// s_i(1) by Runge and Kutta's fourth order.
fn mean_field_tails(choices: u32) -> [f64; LEVELS] {
    let step = 1.0 / f64::from(STEPS);
    let mut s = [0.0; LEVELS];
    s[0] = 1.0;
    for _ in 0..STEPS {
        let a = slope(&s, choices);
        let b = slope(&ahead(&s, &a, step / 2.0), choices);
        let c = slope(&ahead(&s, &b, step / 2.0), choices);
        let d = slope(&ahead(&s, &c, step), choices);
        let mean: [f64; LEVELS] = std::array::from_fn(|i| (a[i] + 2.0 * b[i] + 2.0 * c[i] + d[i]) / 6.0);
        s = ahead(&s, &mean, step);
    }
    s
}

fn slope(s: &[f64; LEVELS], choices: u32) -> [f64; LEVELS] {
    let power = |x: f64| (1..choices).fold(x, |product, _| product * x);
    std::array::from_fn(|i| if i == 0 { 0.0 } else { power(s[i - 1]) - power(s[i]) })
}

fn ahead(s: &[f64; LEVELS], slope: &[f64; LEVELS], step: f64) -> [f64; LEVELS] {
    std::array::from_fn(|i| s[i] + step * slope[i])
}

/// ln M / ln ln M for one choice, ln ln M / ln d for more.
fn asymptotic(bins: f64, choices: u32) -> f64 {
    let (once, twice) = (libm::log(bins), libm::log(libm::log(bins)));
    match choices {
        1 => once / twice,
        more => twice / libm::log(f64::from(more)),
    }
}

const TITLE: &str = "Balls into bins";
const NOTE: &str = "\
Mean of the fullest bin, M balls into M bins. Closed forms: one choice, the expected maximum of M independent
Poisson(1) variables; d choices, that of M bins with the tails of the mean-field equation. Beside them the asymptotic
ln M / ln ln M and ln ln M / ln d, which leave out an O(1). A row holds if error and half width are at most one ball.";
const CHOICES: [u32; 4] = [1, 2, 3, 4];
/// Powers of two.
const SIZES: [u32; 7] = [8, 10, 12, 14, 16, 18, 20];
/// Balls thrown for one row, as far as the bounds of throws allow.
const THROWN: u64 = 1 << 24;
/// The fewest and the most throws of one row.
const THROWS: (u64, u64) = (16, 256);
/// More balls than a bin ever gets: P(X >= 32) is below 1e-35 for one choice.
const LEVELS: usize = 32;
const STEPS: u32 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_field_of_one_choice_is_poisson() {
        let (exact, field) = (poisson_tails(), mean_field_tails(1));
        for i in 0..LEVELS {
            assert!((exact[i] - field[i]).abs() < 1e-11, "level {i}: {} and {}", exact[i], field[i]);
        }
    }

    #[test]
    fn the_mean_field_of_two_choices_has_its_known_values() {
        // s_1 solves ds/dt = 1 - s^2, so s_1(1) = tanh 1; and there are as many balls as bins.
        let tails = mean_field_tails(2);
        assert!((tails[1] - libm::tanh(1.0)).abs() < 1e-11, "{}", tails[1]);
        assert!((tails[1..].iter().sum::<f64>() - 1.0).abs() < 1e-11);
        assert!(tails.windows(2).all(|pair| pair[1] <= pair[0]));
    }

    #[test]
    fn the_poisson_maximum_is_that_of_direct_sampling() {
        let mut rng = Rng::new(2);
        let mut poisson = || {
            let (mut time, mut count) = (rng.exponential(), 0);
            while time < 1.0 {
                time += rng.exponential();
                count += 1;
            }
            f64::from(count)
        };
        for bins in [1_usize, 4, 64] {
            let maxima: Vec<f64> = (0..4_000).map(|_| (0..bins).map(|_| poisson()).fold(0.0, f64::max)).collect();
            let (got, want) = (Estimate::of(&maxima), maximum(bins as f64, 1));
            assert!((got.mean - want).abs() < 2.0 * got.half_width, "{bins} bins: {got:?} and {want}");
        }
    }

    #[test]
    fn throws_agree_and_another_number_of_choices_is_flagged() {
        for choices in CHOICES {
            let measured = measure(12, choices, 16, 1);
            assert!(compare(12, choices, measured).holds, "{choices} choices: {measured:?}");
        }
        assert!(!compare(12, 1, measure(12, 2, 16, 1)).holds, "two choices taken for one");
        assert!(!compare(12, 2, measure(12, 1, 16, 1)).holds, "one choice taken for two");
    }
}
