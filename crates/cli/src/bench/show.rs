//! A report as text for people.

use crate::sim::table::Table;
use midas_bench::Spread;
use midas_bench::report::{ArmReport, CellReport, Latency, Report};
use std::fmt::Write as _;

/// Tables: one of procedures for each cell and arm, and where there are several arms one that compares them.
pub(crate) fn text(report: &Report) -> String {
    let mut text = String::new();
    for cell in &report.cells {
        let _ = writeln!(text, "{}", heading(cell, report));
        let accounted = cell.arms.iter().any(|arm| arm.summary.server_cpu_us_per_call.is_some());
        if cell.arms.len() > 1 || report.run.slices > 1 || accounted {
            text += &comparison(cell);
            text.push('\n');
        }
        for arm in &cell.arms {
            text += &details(arm, cell.arms.len() > 1);
        }
        text.push('\n');
    }
    text
}

fn heading(cell: &CellReport, report: &Report) -> String {
    let run = &report.run;
    let pace = match cell.rate {
        Some(rate) => format!("open loop, {rate} calls/s asked for, at most {} under way a connection", cell.depth),
        None => format!("closed loop, {} under way a connection", cell.depth),
    };
    let length = match run.slices {
        1 => format!("{} s", run.slice_seconds),
        slices => format!("{slices} x {} s", run.slice_seconds),
    };
    format!("{}: {pace}, {} connection(s), {length}", cell.load, run.connections)
}

fn comparison(cell: &CellReport) -> String {
    let mut table = Table::new(&[
        "target",
        "answers/s",
        "min..max",
        "iqr",
        "p50 us",
        "p99 us",
        "ratio",
        "min..max",
        "cpu us/call",
        "foreign",
    ]);
    for arm in &cell.arms {
        let summary = &arm.summary;
        let rate = summary.answered_per_second;
        let ratio = arm.ratio.as_ref().and_then(|ratio| ratio.answered_per_second);
        let median = |spread: Option<Spread>, digits| spread.map_or("-".into(), |s| format!("{:.digits$}", s.median));
        let range = |spread: Option<Spread>, digits| {
            spread.map_or("-".into(), |s| format!("{:.digits$}..{:.digits$}", s.min, s.max))
        };
        table.row(vec![
            arm.target.clone(),
            median(rate, 0),
            range(rate, 0),
            rate.map_or("-".into(), |s| format!("{:.0}", s.q3 - s.q1)),
            median(summary.p50_us, 1),
            median(summary.p99_us, 1),
            median(ratio, 3),
            range(ratio, 3),
            median(summary.server_cpu_us_per_call, 2),
            median(summary.foreign_cpu, 2),
        ]);
    }
    table.show(1)
}

fn details(arm: &ArmReport, named: bool) -> String {
    let mut text = String::new();
    let counts = &arm.counts;
    let seconds = |spread: Option<Spread>| spread.map_or(0.0, |spread| spread.median);
    let _ = writeln!(
        text,
        "{}offered {:.0}/s, answered {:.0}/s",
        if named { format!("{}: ", arm.target) } else { String::new() },
        seconds(arm.summary.offered_per_second),
        seconds(arm.summary.answered_per_second)
    );
    let mut table = Table::new(&["procedure", "calls", "mean us", "p50", "p90", "p99", "p99.9", "max"]);
    for procedure in &arm.procedures {
        table.row(latency(procedure.procedure, &procedure.latency));
    }
    if let Some(delay) = &arm.send_delay {
        table.row(latency("(send delay)", delay));
    }
    text += &table.show(1);
    for error in &arm.errors {
        let expected = if error.expected { "expected" } else { "UNEXPECTED" };
        let _ = writeln!(text, "{expected}: {} {} ({}) x {}", error.procedure, error.name, error.class, error.count);
    }
    let noted = [
        ("DROPPED", counts.dropped),
        ("connections lost", counts.connections_lost),
        ("failed to connect", counts.connect_failures),
        ("reconnects", counts.reconnects),
        ("sent again", counts.retransmissions),
        ("unmatched replies", counts.unmatched),
    ];
    let noted: Vec<String> =
        noted.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{what} {count}")).collect();
    if !noted.is_empty() {
        let _ = writeln!(text, "{}", noted.join(", "));
    }
    text
}

fn latency(name: &str, latency: &Latency) -> Vec<String> {
    let mut cells = vec![name.to_owned(), latency.calls.to_string()];
    let figures = [latency.mean_us, latency.p50_us, latency.p90_us, latency.p99_us, latency.p999_us, latency.max_us];
    cells.extend(figures.map(|figure| format!("{figure:.1}")));
    cells
}
