//! `midas sim run`: one setting, seed by seed.

use super::batch::run_all;
use super::options::Options;
use super::output::Output;
use super::table::Table;
use crate::failure::Failure;
use crate::progress::Progress;
use clap::Args;
use midas_core::control::Actuation;
use midas_sim::report::{Row, Run as Simulated};

/// Simulate one setting and print what happened, seed by seed.
#[derive(Args, Debug)]
pub(crate) struct Run {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    output: Output,
    /// Print every knob that the controller turned, with its cause
    #[arg(long)]
    actuations: bool,
}

impl Run {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let configs = self.options.configs()?;
        self.output.prepare()?;
        let runs = run_all(&configs, &mut Progress::new("simulating", configs.len()))?;
        let mut text = table(runs.iter().map(|run| &run.row));
        if self.actuations {
            text.extend(runs.iter().map(actuations));
        }
        let rows: Vec<Row> = runs.into_iter().map(|run| run.row).collect();
        self.output.write(&rows, &text)
    }
}

fn table<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let mut table = Table::new(&[
        "policy",
        "workload",
        "seed",
        "mean queue",
        "worst",
        "dispersion",
        "mean ms",
        "p50 ms",
        "p99 ms",
        "steered",
        "bad moves",
        "hits",
        "stale",
        "failed",
        "digest",
    ]);
    for row in rows {
        table.row(vec![
            row.policy.clone(),
            row.workload.clone(),
            row.seed.to_string(),
            format!("{:.3}", row.mean_queue),
            row.worst_queue.to_string(),
            format!("{:.3}", row.dispersion),
            format!("{:.2}", row.latency.mean.as_millis_f64()),
            format!("{:.2}", row.latency.p50.as_millis_f64()),
            format!("{:.2}", row.latency.p99.as_millis_f64()),
            format!("{:.3}", row.steered_share),
            format!("{:.4}", row.bad_move_share),
            format!("{:.3}", row.cache_hit_share),
            format!("{:.6}", row.stale_share),
            format!("{:.5}", row.failed_share),
            format!("{:016x}", row.digest),
        ]);
    }
    table.show(2)
}

fn actuations(run: &Simulated) -> String {
    let line = |(proxy, event): &(u32, Actuation)| {
        let (at, knob) = (event.at.as_secs_f64(), event.knob.name());
        format!("  {at:9.3} s  proxy {proxy}  {knob} {} -> {}: {}\n", event.from, event.to, event.cause)
    };
    let heading = format!("\n{} {} seed {}: knobs turned\n", run.row.policy, run.row.workload, run.row.seed);
    heading + &run.actuations.iter().map(line).collect::<String>()
}
