//! `midas sim compare`: policies beside each other on identical calls.

use super::batch::run_all;
use super::options::Options;
use super::output::Output;
use super::table::Table;
use crate::failure::Failure;
use crate::progress::Progress;
use clap::Args;
use midas_sim::report::Row;

/// Compare policies over workloads on identical calls.
///
/// Prints the mean over seeds for every workload and policy and, where jsq is among the policies, a summary relative to that oracle:
/// geometric means over the workloads.
#[derive(Args, Debug)]
pub(crate) struct Compare {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    output: Output,
}

impl Compare {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let configs = self.options.configs()?;
        self.output.prepare()?;
        let runs = run_all(&configs, &mut Progress::new("simulating", configs.len()))?;
        let rows: Vec<Row> = runs.into_iter().map(|run| run.row).collect();
        let cells = over_seeds(&rows);
        let mut text = details(&cells);
        if let Some(summary) = summary(&cells, "jsq") {
            text.push('\n');
            text.push_str(&summary);
        }
        self.output.write(&rows, &text)
    }
}

/// One policy on one workload, averaged over seeds.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) policy: String,
    pub(crate) workload: String,
    pub(crate) mean_queue: f64,
    pub(crate) worst_queue: f64,
    pub(crate) dispersion: f64,
    pub(crate) mean_ms: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) steered: f64,
    pub(crate) bad: f64,
    pub(crate) bad_reads: f64,
    pub(crate) spread: f64,
}

/// Averages neighbouring rows of the same policy and workload.
pub(crate) fn over_seeds(rows: &[Row]) -> Vec<Cell> {
    rows.chunk_by(|a, b| (&a.policy, &a.workload) == (&b.policy, &b.workload)).map(cell).collect()
}

fn cell(rows: &[Row]) -> Cell {
    let mean = |value: &dyn Fn(&Row) -> f64| rows.iter().map(value).sum::<f64>() / rows.len() as f64;
    Cell {
        policy: rows[0].policy.clone(),
        workload: rows[0].workload.clone(),
        mean_queue: mean(&|row| row.mean_queue),
        worst_queue: mean(&|row| f64::from(row.worst_queue)),
        dispersion: mean(&|row| row.dispersion),
        mean_ms: mean(&|row| row.latency.mean.as_millis_f64()),
        p50_ms: mean(&|row| row.latency.p50.as_millis_f64()),
        p99_ms: mean(&|row| row.latency.p99.as_millis_f64()),
        steered: mean(&|row| row.steered_share),
        bad: mean(&|row| row.bad_move_share),
        bad_reads: mean(&|row| row.bad_move_share_reads),
        spread: mean(&|row| row.servers_per_directory),
    }
}

fn details(cells: &[Cell]) -> String {
    let mut table = Table::new(&[
        "workload",
        "policy",
        "mean queue",
        "worst",
        "dispersion",
        "mean ms",
        "p50 ms",
        "p99 ms",
        "steered",
        "bad moves",
        "servers/dir",
    ]);
    for cell in cells {
        table.row(vec![
            cell.workload.clone(),
            cell.policy.clone(),
            format!("{:.3}", cell.mean_queue),
            format!("{:.1}", cell.worst_queue),
            format!("{:.3}", cell.dispersion),
            format!("{:.1}", cell.mean_ms),
            format!("{:.1}", cell.p50_ms),
            format!("{:.1}", cell.p99_ms),
            format!("{:.3}", cell.steered),
            format!("{:.4}", cell.bad),
            format!("{:.2}", cell.spread),
        ]);
    }
    table.show(2)
}

/// Every policy relative to a yardstick, if that was run too.
pub(crate) fn summary(cells: &[Cell], yardstick: &str) -> Option<String> {
    let against: Vec<&Cell> = cells.iter().filter(|cell| cell.policy == yardstick).collect();
    if against.is_empty() {
        return None;
    }
    let mut table =
        Table::new(&["policy", "mean", "p99", "worst queue", "steered", "bad moves", "of reads", "servers/dir"]);
    let mut seen: Vec<&str> = Vec::new();
    for cell in cells {
        if seen.contains(&cell.policy.as_str()) {
            continue;
        }
        seen.push(&cell.policy);
        let mine: Vec<&Cell> = cells.iter().filter(|other| other.policy == cell.policy).collect();
        let relative = |value: &dyn Fn(&Cell) -> f64| {
            let logs = mine.iter().zip(&against).map(|(a, b)| libm::log(value(a) / value(b)));
            libm::exp(logs.sum::<f64>() / mine.len() as f64)
        };
        let mean = |value: &dyn Fn(&Cell) -> f64| mine.iter().map(|cell| value(cell)).sum::<f64>() / mine.len() as f64;
        table.row(vec![
            cell.policy.clone(),
            format!("{:.3}", relative(&|c| c.mean_ms)),
            format!("{:.3}", relative(&|c| c.p99_ms)),
            format!("{:.3}", relative(&|c| c.worst_queue)),
            format!("{:.3}", mean(&|c| c.steered)),
            format!("{:.4}", mean(&|c| c.bad)),
            format!("{:.4}", mean(&|c| c.bad_reads)),
            format!("{:.2}", mean(&|c| c.spread)),
        ]);
    }
    let heading =
        format!("relative to {yardstick}: geometric mean over the workloads; shares: mean over the workloads\n");
    Some(heading + &table.show(1))
}
