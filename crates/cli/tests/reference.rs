//! Beside the figures of an independent simulator with the same defaults: mean latency of every balanced policy within 10 %.
//!
//! `data/reference.csv` holds those figures, means over five seeds of its own. Ours are means over more seeds: on-off and diurnal spend
//! seconds to minutes above the capacity, so their means differ much between seeds.

mod support;

use support::{Rows, rows};

const SEEDS: u32 = 20;
const TOLERANCE: f64 = 0.10;
#[test]
fn every_balanced_policy_is_within_ten_percent_of_an_independent_simulator() {
    let reference = reference();
    let names = |pick: fn(&Figure) -> &String| {
        let mut names: Vec<&str> = reference.iter().map(|figure| pick(figure).as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.join(",")
    };
    let (policies, workloads) = (names(|figure| &figure.policy), names(|figure| &figure.workload));
    let rows = rows(&format!("sim compare --servers 8 --policy {policies} --workload {workloads} --seeds {SEEDS}"));
    let far: Vec<String> = reference.iter().filter_map(|figure| compare(&rows, figure)).collect();
    assert!(far.is_empty(), "{}", far.join("\n"));
}

fn compare(rows: &Rows, figure: &Figure) -> Option<String> {
    let Figure { policy, workload, mean_ms } = figure;
    let ours = rows.values(policy, workload, "latency_mean_ms");
    let count = ours.len() as f64;
    let mean = ours.iter().sum::<f64>() / count;
    let variance = ours.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (count - 1.0);
    let (off, error) = (mean / mean_ms - 1.0, (variance / count).sqrt() / mean);
    let line = format!(
        "{policy} {workload}: {mean:.1} ms +- {:.1} %, reference {mean_ms} ms, {:+.1} %",
        error * 100.0,
        off * 100.0
    );
    println!("{line}");
    (off.abs() > TOLERANCE).then_some(line)
}

struct Figure {
    policy: String,
    workload: String,
    mean_ms: f64,
}

fn reference() -> Vec<Figure> {
    let mut lines = include_str!("data/reference.csv").lines();
    assert_eq!(lines.next(), Some("policy,workload,servers,latency_mean_ms"));
    let figure = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        assert!(cells.len() == 4 && cells[2] == "8", "{line}");
        Figure { policy: cells[0].into(), workload: cells[1].into(), mean_ms: cells[3].parse().expect("a figure") }
    };
    let figures: Vec<Figure> = lines.map(figure).collect();
    assert_eq!(figures.len(), 10 * 11);
    figures
}
