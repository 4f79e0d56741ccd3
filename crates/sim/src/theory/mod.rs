//! What can be computed, measured: the simulator and the core against closed forms. Paper: P20.
//!
//! It must never compare a formula with itself: every measured value comes from the simulator's world, from thrown balls, from V computed
//! by its definition, or from the core's own decisions. One seed is one result.

mod balls;
mod decisions;
mod interval;
mod potential;
mod queues;
mod row;

pub use row::{Table, TheoryRow};

use std::fmt;

/// Every comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Theory {
    /// Queues, balls into bins, the fall of V, the batch condition, the core's own moves.
    pub tables: Vec<Table>,
}

/// Measures everything; `progress` hears what comes next. Takes about half a minute.
pub fn theory(seed: u64, progress: &mut dyn FnMut(&str)) -> Theory {
    let queues = queues::table(seed, progress);
    let balls = balls::table(seed, progress);
    progress("the fall of V");
    Theory { tables: vec![queues, balls, potential::moves(seed), potential::batches(seed), decisions::table(seed)] }
}

impl Theory {
    /// All comparisons, in the order of the tables.
    pub fn rows(&self) -> Vec<TheoryRow> {
        self.tables.iter().flat_map(|table| table.rows.iter().cloned()).collect()
    }

    /// Whether every comparison holds.
    pub fn holds(&self) -> bool {
        self.tables.iter().flat_map(|table| &table.rows).all(|row| row.holds)
    }
}

impl fmt::Display for Theory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for table in &self.tables {
            writeln!(f, "{table}")?;
        }
        let rows = self.rows();
        let broken: Vec<String> = rows
            .iter()
            .filter(|row| !row.holds)
            .map(|row| format!("{}: {}, {}", row.table, row.name, row.parameter))
            .collect();
        match broken.len() {
            0 => write!(f, "all {} comparisons hold", rows.len()),
            count => write!(f, "{count} of {} comparisons do not hold: {}", rows.len(), broken.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Theory {
        Theory { tables: vec![potential::moves(1), potential::batches(1)] }
    }

    #[test]
    fn the_last_line_says_that_all_hold_or_which_do_not() {
        let mut theory = small();
        let last = |theory: &Theory| theory.to_string().lines().last().unwrap_or_default().to_owned();
        assert!(theory.holds());
        assert_eq!(last(&theory), "all 17 comparisons hold");
        theory.tables[1].rows[2].holds = false;
        assert!(!theory.holds());
        assert_eq!(
            last(&theory),
            "1 of 17 comparisons do not hold: The batch condition: smallest gap that lowers V, batch 3"
        );
    }

    #[test]
    fn columns_are_aligned_and_every_row_is_handed_out() {
        let theory = small();
        assert_eq!(theory.rows().len(), 17);
        for table in &theory.tables {
            let text = table.to_string();
            let widths: Vec<usize> = text
                .lines()
                .filter(|line| line.contains("lowers V ") || line.contains("gap >="))
                .map(str::len)
                .collect();
            assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
        }
    }
}
