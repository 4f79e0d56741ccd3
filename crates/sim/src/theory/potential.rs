//! V(L) = sum of (L_i - mean)^2, and what moving calls does to it. Paper: P20.
//!
//! Every move between two servers of random load vectors is carried out, and V is computed before and after from its definition, in whole
//! numbers: m^2 V = sum of (m L_i - sum L)^2. So agreement means equality, and nothing hides in a rounding.

use super::interval::Estimate;
use super::row::{Subject, Table, TheoryRow, Tolerance};
use midas_core::rng::Rng;

/// The fall of V with every single move, by the gap that admits it.
pub(super) fn moves(seed: u64) -> Table {
    let tried = Tried::all(seed);
    let row = |gap: usize| {
        let subject =
            Subject { table: MOVES, name: "largest change of V".to_owned(), parameter: format!("gap >= {gap}") };
        TheoryRow::judge(subject, change(1, whole(gap)) as f64, tried.largest(1, gap), Tolerance::Exact)
    };
    let subject =
        Subject { table: MOVES, name: "moves off the formula".to_owned(), parameter: format!("{} moves", tried.count) };
    let off = TheoryRow::judge(subject, 0.0, tried.off(), Tolerance::Exact);
    Table { title: MOVES, note: MOVES_NOTE, rows: (1..=GAPS).map(row).chain([off]).collect() }
}

/// The smallest gap from which a batch lowers V.
pub(super) fn batches(seed: u64) -> Table {
    let tried = Tried::all(seed);
    let row = |batch: usize| {
        let subject = Subject {
            table: BATCHES,
            name: "smallest gap that lowers V".to_owned(),
            parameter: format!("batch {batch}"),
        };
        TheoryRow::judge(subject, batch as f64 + 1.0, tried.smallest(batch), Tolerance::Exact)
    };
    Table { title: BATCHES, note: BATCHES_NOTE, rows: (1..=BATCH).map(row).collect() }
}

/// What a batch changes V by when it leaves a server with `gap` more calls than the one it goes to.
const fn change(batch: i64, gap: i64) -> i64 {
    2 * batch * -gap + 2 * batch * batch
}

/// m^2 V: whole numbers throughout.
pub(super) fn scaled(loads: &[i64]) -> i64 {
    let (count, sum) = (whole(loads.len()), loads.iter().sum::<i64>());
    loads.iter().map(|load| (count * load - sum) * (count * load - sum)).sum()
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).expect("counts here are below a hundred")
}

/// All moves that were tried.
struct Tried {
    /// The largest change of V, in calls squared, by batch and gap.
    largest: [[Option<i64>; LOADS]; BATCH + 1],
    count: u64,
    off: u64,
}

impl Tried {
    fn all(seed: u64) -> Self {
        let mut tried = Self { largest: [[None; LOADS]; BATCH + 1], count: 0, off: 0 };
        let mut rng = Rng::for_purpose(seed, 0x0070_6f74_656e_7469);
        for _ in 0..VECTORS {
            let servers = 2 + rng.below(SERVERS - 1);
            let mut loads: Vec<i64> = (0..servers).map(|_| whole(rng.below(LOADS))).collect();
            tried.pairs(&mut loads);
        }
        tried
    }

    fn pairs(&mut self, loads: &mut [i64]) {
        let before = scaled(loads);
        for from in 0..loads.len() {
            for to in 0..loads.len() {
                let (gap, most) = (loads[from] - loads[to], loads[from].min(whole(BATCH)));
                for batch in (1..=most).filter(|_| gap > 0) {
                    loads[from] -= batch;
                    loads[to] += batch;
                    self.note(batch, gap, scaled(loads) - before, whole(loads.len()));
                    loads[from] += batch;
                    loads[to] -= batch;
                }
            }
        }
    }

    fn note(&mut self, batch: i64, gap: i64, scaled_change: i64, servers: i64) {
        self.count += 1;
        self.off += u64::from(scaled_change != change(batch, gap) * servers * servers);
        let largest = &mut self.largest[batch as usize][gap as usize];
        *largest = (*largest).max(Some(scaled_change.div_euclid(servers * servers)));
    }

    fn largest(&self, batch: usize, gap: usize) -> Estimate {
        let largest = self.largest[batch][gap..].iter().flatten().max();
        Estimate::exact(largest.map_or(f64::NAN, |change| *change as f64))
    }

    /// One more than the largest gap at which some move did not lower V.
    fn smallest(&self, batch: usize) -> Estimate {
        let stuck = self.largest[batch].iter().rposition(|largest| largest.is_some_and(|change| change >= 0));
        Estimate::exact(stuck.map_or(f64::NAN, |gap| gap as f64 + 1.0))
    }

    fn off(&self) -> Estimate {
        Estimate::exact(if self.count == 0 { f64::NAN } else { self.off as f64 })
    }
}

const MOVES: &str = "The fall of V with every move";
const MOVES_NOTE: &str = "\
The largest change of V = sum (L_i - mean)^2 over all moves of one call that a gap admits, in random load vectors.
Closed form: 2(L_j - L_p) + 2 at the smallest gap, so a gap of 1 does not lower V and a gap of 2 always does.
A row holds if they are equal; the last row counts moves of 1..8 calls that differ from 2b(L_j - L_p) + 2b^2.";
const BATCHES: &str = "The batch condition";
const BATCHES_NOTE: &str = "\
The smallest gap from which moving b calls at once always lowers V. Closed form: 2b(L_j - L_p) + 2b^2 < 0, so b + 1.
A row holds if they are equal.";
/// Gaps shown: the range of Delta_L. Paper: P6.
const GAPS: usize = 8;
/// Batches tried.
const BATCH: usize = 8;
const VECTORS: usize = 400;
/// Servers of the largest vector.
const SERVERS: usize = 16;
/// Loads are below this.
const LOADS: usize = 25;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scaled_potential_is_the_defined_one() {
        for loads in [&[0, 0][..], &[3, 1], &[5, 0, 1, 2], &[7, 7, 9]] {
            let mean = loads.iter().sum::<i64>() as f64 / loads.len() as f64;
            let defined: f64 = loads.iter().map(|load| libm::pow(*load as f64 - mean, 2.0)).sum();
            let got = scaled(loads) as f64 / (loads.len() * loads.len()) as f64;
            assert!((got - defined).abs() < 1e-9, "{loads:?}: {got} is not {defined}");
        }
    }

    #[test]
    fn every_row_holds_and_only_gaps_above_one_lower_v() {
        let table = moves(4);
        assert!(table.rows.iter().all(|row| row.holds), "{table}");
        let falls: Vec<bool> = table.rows[..GAPS].iter().map(|row| row.measured < 0.0).collect();
        assert_eq!(falls, [false, true, true, true, true, true, true, true]);
        let table = batches(4);
        assert!(table.rows.iter().all(|row| row.holds), "{table}");
    }

    #[test]
    fn a_wrong_closed_form_is_flagged() {
        let tried = Tried::all(4);
        let subject = || Subject { table: BATCHES, name: String::new(), parameter: String::new() };
        assert!(
            !TheoryRow::judge(subject(), 3.0, tried.smallest(3), Tolerance::Exact).holds,
            "a gap of b is not enough"
        );
        assert!(!TheoryRow::judge(subject(), -2.0, tried.largest(1, 1), Tolerance::Exact).holds, "a gap of 1 keeps V");
        let mut wrong = Tried { count: 0, off: 0, ..tried };
        wrong.note(1, 2, -2 * 9 + 1, 3);
        assert!(wrong.off().mean == 1.0, "a change that is not the formula's is counted");
    }
}
