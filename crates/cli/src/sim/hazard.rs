//! `midas sim hazard`: does the cache in ttl mode keep the probability of staleness that it was told?

use super::batch::on_all_cores;
use super::output::print;
use super::table::Table;
use crate::failure::Failure;
use crate::progress::Progress;
use clap::Args;
use midas_sim::hazard::{Changes, DECADES, Hazard as Setting, Measured, Share};
use midas_workload::units::show_span;
use serde_json::{Value, json};

/// Measure how many cache entries go stale in ttl mode, by estimator, against the target p*.
///
/// An entry is stale if its object changes before the entry's horizon, read or not. Objects have hazards of 1e-4 to 1 change a second,
/// log-uniform. Intervals are 95 %, over independent objects.
#[derive(Args, Debug)]
pub(crate) struct Hazard {
    /// Entries to keep for each row
    #[arg(long, default_value_t = 1_000_000)]
    entries: u64,
    /// The world's seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object with a row for each measurement, and nothing else
    #[arg(long)]
    json: bool,
}

/// Above the target by this much is still kept: what a measurement can tell apart.
const TOLERANCE: f64 = 1.1;

impl Hazard {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if !(1_000..=1_000_000_000).contains(&self.entries) {
            return Err(Failure::Usage(format!("--entries must be in 1000..1000000000, got {}", self.entries)));
        }
        let settings = Setting::table(self.entries, self.seed);
        let mut progress = Progress::new("measuring", settings.len());
        let name = |setting: &Setting| format!("p* {} {}", setting.stale_target, setting.estimator.name());
        let measured = on_all_cores(&settings, name, Setting::measure, &mut progress);
        drop(progress);
        let rows: Vec<(Setting, Measured)> = settings.into_iter().zip(measured).collect();
        print(&match self.json {
            true => json!({ "rows": rows.iter().map(to_json).collect::<Vec<_>>() }).to_string() + "\n",
            false => text(&rows),
        })
    }
}

fn text(rows: &[(Setting, Measured)]) -> String {
    let mut table = Table::new(&[
        "changes",
        "estimator",
        "p*",
        "read gap",
        "entries",
        "stale entries",
        "95 %",
        "stale answers",
        "hits",
        "<= 1.1 p*",
    ]);
    for (setting, measured) in rows {
        let Share { of, share, half_width } = measured.entries;
        table.row(vec![
            setting.changes.name().to_owned(),
            setting.estimator.name().to_owned(),
            setting.stale_target.to_string(),
            show_span(setting.read_gap),
            of.to_string(),
            format!("{share:.6}"),
            format!("+- {half_width:.6}"),
            format!("{:.6}", measured.answers.share),
            format!("{:.4}", measured.hit_share),
            verdict(setting, &measured.entries).to_owned(),
        ]);
    }
    format!("{}\n{}", table.show(2), by_decade(rows))
}

/// The stationary worlds again, objects apart by how often they change.
fn by_decade(rows: &[(Setting, Measured)]) -> String {
    let headings = ["estimator", "p*", "read gap", "1e-4..1e-3", "1e-3..1e-2", "1e-2..1e-1", "1e-1..1"];
    let mut table = Table::new(&headings);
    for (setting, measured) in rows.iter().filter(|(setting, _)| setting.changes == Changes::Stationary) {
        let name = [setting.estimator.name().to_owned(), setting.stale_target.to_string(), show_span(setting.read_gap)];
        let shares = measured.decades.map(|decade| format!("{:.6} +- {:.6}", decade.share, decade.half_width));
        table.row(name.into_iter().chain(shares).collect());
    }
    format!("stale entries by the hazard of their objects, in changes a second\n{}", table.show(1))
}

fn verdict(setting: &Setting, share: &Share) -> &'static str {
    share.below(TOLERANCE * setting.stale_target).name()
}

fn to_json((setting, measured): &(Setting, Measured)) -> Value {
    let share = |share: &Share| json!({ "of": share.of, "share": share.share, "half_width": share.half_width });
    let decades = measured.decades.iter().enumerate().map(|(i, decade)| {
        let from = libm::pow(10.0, i as f64 - DECADES as f64);
        json!({ "hazard_from": from, "hazard_to": 10.0 * from, "entries": share(decade) })
    });
    json!({
        "changes": setting.changes.name(),
        "estimator": setting.estimator.name(),
        "stale_target": setting.stale_target,
        "read_gap_ms": setting.read_gap.as_millis_f64(),
        "seed": setting.seed,
        "entries": share(&measured.entries),
        "answers": share(&measured.answers),
        "hit_share": measured.hit_share,
        "verdict": verdict(setting, &measured.entries),
        "decades": decades.collect::<Vec<_>>(),
    })
}
