//! Ranks by popularity: rank r (from 0) is drawn in proportion to 1 / (r + 1)^s.
//!
//! Vose's alias table: built once in O(n), then one random word and one table entry a draw, whatever the exponent. Inverting the
//! cumulative sum would be simpler, and a binary search slower for every call of every simulation.

use alloc::vec::Vec;
use midas_core::rng::Rng;

/// A zipf distribution over ranks `0..n`.
#[derive(Clone, Debug)]
pub struct Zipf(Vec<Column>);

/// A column of the table holds its own rank and, above `keep`, one other.
#[derive(Clone, Copy, Debug)]
struct Column {
    keep: u64,
    other: u32,
}

impl Zipf {
    /// The distribution over `n` ranks (at least one) with exponent `s`; 0 is uniform.
    pub fn new(n: u32, s: f64) -> Self {
        let weights: Vec<f64> = (1..=n.max(1)).map(|rank| libm::pow(f64::from(rank), -s)).collect();
        Self(columns(&weights))
    }

    /// A rank.
    pub fn sample(&self, rng: &mut Rng) -> u32 {
        let point = u128::from(rng.next_u64()) * self.0.len() as u128;
        let (rank, within) = ((point >> 64) as usize, point as u64);
        let column = self.0[rank];
        if within <= column.keep { rank as u32 } else { column.other }
    }
}

/// Levels the weights: every column that lacks weight is filled up by one that has too much.
fn columns(weights: &[f64]) -> Vec<Column> {
    let scale = weights.len() as f64 / weights.iter().sum::<f64>();
    let mut level: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
    let mut table: Vec<Column> = (0..weights.len() as u32).map(|own| Column { keep: u64::MAX, other: own }).collect();
    let (mut poor, mut rich): (Vec<usize>, Vec<usize>) = (0..level.len()).partition(|&rank| level[rank] < 1.0);
    while let (Some(&lacking), Some(&giving)) = (poor.last(), rich.last()) {
        poor.pop();
        table[lacking] = Column { keep: (level[lacking] * TWO_TO_64) as u64, other: giving as u32 };
        level[giving] -= 1.0 - level[lacking];
        if level[giving] < 1.0 {
            rich.pop();
            poor.push(giving);
        }
    }
    table
}

const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn frequencies_match_theory() {
        const DRAWS: usize = 400_000;
        for (n, s) in [(1, 1.0), (2, 0.0), (63, 1.0), (1024, 0.0), (1024, 0.9), (1024, 1.4), (50, 5.0)] {
            let (zipf, mut rng) = (Zipf::new(n, s), Rng::new(3));
            let mut counts = vec![0.0_f64; n as usize];
            (0..DRAWS).for_each(|_| counts[zipf.sample(&mut rng) as usize] += 1.0);
            let total: f64 = (1..=n).map(|rank| libm::pow(f64::from(rank), -s)).sum();
            let want = |rank: usize| DRAWS as f64 * libm::pow((rank + 1) as f64, -s) / total;
            let cells: Vec<usize> = (0..n as usize).filter(|&rank| want(rank) >= 5.0).collect();
            let chi_square: f64 =
                cells.iter().map(|&rank| libm::pow(counts[rank] - want(rank), 2.0) / want(rank)).sum();
            let freedom = cells.len() as f64;
            assert!(chi_square < freedom + 5.0 * (2.0 * freedom).sqrt(), "n {n}, s {s}: chi-square {chi_square}");
        }
    }

    #[test]
    fn no_ranks_at_all_is_one_rank() {
        assert_eq!(Zipf::new(0, 1.0).sample(&mut Rng::new(1)), 0);
    }
}
