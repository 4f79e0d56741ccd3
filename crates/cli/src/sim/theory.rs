//! `midas sim theory`: the simulator and the core against closed forms.

use super::output::print;
use crate::failure::Failure;
use clap::Args;
use midas_sim::theory::{TheoryRow, theory};
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};

/// Compare what is simulated with closed forms: queues, balls into bins, the potential V.
///
/// Takes about 20 seconds. Exits with 1 if a comparison does not hold.
#[derive(Args, Debug)]
pub(crate) struct Theory {
    /// The world's seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object with a row for each comparison, and nothing else
    #[arg(long)]
    json: bool,
}

impl Theory {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let terminal = std::io::stderr().is_terminal();
        let mut progress = |what: &str| {
            if terminal {
                eprint!("\r\x1b[K{what}");
                let _ = std::io::stderr().flush();
            }
        };
        let theory = theory(self.seed, &mut progress);
        progress("");
        let text = match self.json {
            true => json!({ "rows": theory.rows().iter().map(to_json).collect::<Vec<_>>() }).to_string(),
            false => theory.to_string(),
        };
        print(&(text + "\n"))?;
        match theory.holds() {
            true => Ok(()),
            false => Err(Failure::Broken("a comparison does not hold".into())),
        }
    }
}

fn to_json(row: &TheoryRow) -> Value {
    json!({
        "table": row.table,
        "name": row.name,
        "parameter": row.parameter,
        "closed_form": row.closed_form,
        "measured": row.measured,
        "half_width": row.half_width,
        "relative_error": row.relative_error,
        "asymptotic": row.asymptotic,
        "holds": row.holds,
    })
}
