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

/// Measure how many cache entries and answers are stale in ttl mode, by estimator, against the target p*.
///
/// An entry is stale if its object changes before the entry's horizon, read or not; an answer, if it is no longer true. Objects have hazards of
/// 1e-4 to 1 change a second, log-uniform. Intervals are 95 %, over independent objects. 'loop': our estimator with hits checked against the
/// server and lives scaled by what that shows; 'object': the same without; 'paper': the paper's.
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
/// Likewise for answers: what users are promised.
const ANSWERS_TOLERANCE: f64 = 1.2;

impl Hazard {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if !(1_000..=1_000_000_000).contains(&self.entries) {
            return Err(Failure::Usage(format!("--entries must be in 1000..1000000000, got {}", self.entries)));
        }
        let settings = Setting::table(self.entries, self.seed);
        let mut progress = Progress::new("measuring", settings.len());
        let name = |setting: &Setting| format!("p* {} {}", setting.stale_target, estimator(setting));
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
        "<= 1.1 p*",
        "answers",
        "stale answers",
        "95 %",
        "<= 1.2 p*",
        "hits",
        "factor",
        "checks",
    ]);
    for (setting, measured) in rows {
        let Share { of, share, half_width } = measured.entries;
        table.row(vec![
            setting.changes.name().to_owned(),
            estimator(setting).to_owned(),
            setting.stale_target.to_string(),
            show_span(setting.read_gap),
            of.to_string(),
            format!("{share:.6}"),
            format!("+- {half_width:.6}"),
            verdict(setting, &measured.entries).to_owned(),
            measured.answers.of.to_string(),
            format!("{:.6}", measured.answers.share),
            format!("+- {:.6}", measured.answers.half_width),
            answers_verdict(setting, &measured.answers).to_owned(),
            format!("{:.4}", measured.hit_share),
            format!("{:.2}", measured.believed.factor),
            measured.believed.samples.to_string(),
        ]);
    }
    format!("{}\n{}", table.show(2), by_decade(rows))
}

/// The stationary worlds again, objects apart by how often they change.
fn by_decade(rows: &[(Setting, Measured)]) -> String {
    let headings = ["estimator", "p*", "read gap", "1e-4..1e-3", "1e-3..1e-2", "1e-2..1e-1", "1e-1..1"];
    let mut table = Table::new(&headings);
    for (setting, measured) in rows.iter().filter(|(setting, _)| setting.changes == Changes::Stationary) {
        let name = [estimator(setting).to_owned(), setting.stale_target.to_string(), show_span(setting.read_gap)];
        let shares = measured.decades.map(|decade| format!("{:.6} +- {:.6}", decade.share, decade.half_width));
        table.row(name.into_iter().chain(shares).collect());
    }
    format!("stale entries by the hazard of their objects, in changes a second\n{}", table.show(1))
}

/// Ours with the loop, ours alone, or the paper's.
fn estimator(setting: &Setting) -> &'static str {
    if setting.checked { "loop" } else { setting.estimator.name() }
}

fn answers_verdict(setting: &Setting, share: &Share) -> &'static str {
    share.below(ANSWERS_TOLERANCE * setting.stale_target).name()
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
        "estimator": estimator(setting),
        "stale_target": setting.stale_target,
        "read_gap_ms": setting.read_gap.as_millis_f64(),
        "seed": setting.seed,
        "entries": share(&measured.entries),
        "answers": share(&measured.answers),
        "hit_share": measured.hit_share,
        "verdict": verdict(setting, &measured.entries),
        "answers_verdict": answers_verdict(setting, &measured.answers),
        "factor": measured.believed.factor,
        "checks": measured.believed.samples,
        "believed": { "share": measured.believed.share, "low": measured.believed.low, "high": measured.believed.high },
        "decades": decades.collect::<Vec<_>>(),
    })
}
