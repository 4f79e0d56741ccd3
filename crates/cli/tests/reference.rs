//! Beside the figures of an independent simulator with the same defaults: mean latency of every balanced policy within 10 %.
//!
//! `data/reference.csv` holds those figures, means over five seeds (8 servers) and two (64 servers) of its own. Ours are means over more: on-off
//! and diurnal spend seconds to minutes above the capacity, so their means differ much between seeds.

mod support;

use support::{Rows, rows};

const TOLERANCE: f64 = 0.10;
/// Servers, policy, workload, and why they may differ by more; docs/simulator.md says the same.
const EXCEPTIONS: [(u32, &str, &str, &str); 1] =
    [(64, "first-fit:gap=2", "zipf:1.4", "a directory's mutations stay on two servers here; all calls move there")];
/// A workload whose phases are drawn anew with each seed: at 64 servers its mean over a few seeds has an error of 20 %. Policies are compared
/// relative to `jsq` on the same calls instead.
const RELATIVE: (u32, &str) = (64, "on-off");

#[test]
fn every_balanced_policy_is_within_ten_percent_of_an_independent_simulator() {
    check(8, 20);
}

#[test]
fn with_64_servers_too() {
    check(64, 5);
}

fn check(servers: u32, seeds: u32) {
    let reference: Vec<Figure> = reference().into_iter().filter(|figure| figure.servers == servers).collect();
    let names = |pick: fn(&Figure) -> &String| {
        let mut names: Vec<&str> = reference.iter().map(|figure| pick(figure).as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.join(",")
    };
    let (policies, workloads) = (names(|figure| &figure.policy), names(|figure| &figure.workload));
    let setting = format!("--servers {servers} --policy {policies} --workload {workloads} --seeds {seeds}");
    let rows = rows(&format!("sim compare {setting}"));
    let far: Vec<String> = reference.iter().filter_map(|figure| compare(&rows, figure, &reference)).collect();
    assert!(far.is_empty(), "{}", far.join("\n"));
    assert_eq!(reference.len(), 12 * 11);
}

fn compare(rows: &Rows, figure: &Figure, reference: &[Figure]) -> Option<String> {
    let Figure { policy, workload, servers, mean_ms } = figure;
    let (ours, error) = mean(rows, policy, workload);
    let (ours, theirs) = match (*servers, workload.as_str()) == RELATIVE {
        false => (ours, *mean_ms),
        true => {
            let oracle = |figure: &&Figure| figure.policy == "jsq" && figure.workload == *workload;
            let theirs = reference.iter().find(oracle).expect("the oracle is among the figures").mean_ms;
            (ours / mean(rows, "jsq", workload).0, mean_ms / theirs)
        }
    };
    let off = ours / theirs - 1.0;
    let line = format!(
        "{servers} servers, {policy}, {workload}: {ours:.2} +- {:.1} %, reference {theirs:.2}, {:+.1} %",
        error * 100.0,
        off * 100.0
    );
    println!("{line}");
    let excused = EXCEPTIONS.iter().any(|(m, p, w, _)| (m, *p, *w) == (servers, policy, workload));
    (off.abs() > TOLERANCE && !excused).then_some(line)
}

/// The mean over seeds, and its standard error relative to it.
fn mean(rows: &Rows, policy: &str, workload: &str) -> (f64, f64) {
    let values = rows.values(policy, workload, "latency_mean_ms");
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (count - 1.0);
    (mean, (variance / count).sqrt() / mean)
}

struct Figure {
    policy: String,
    workload: String,
    servers: u32,
    mean_ms: f64,
}

fn reference() -> Vec<Figure> {
    let mut lines = include_str!("data/reference.csv").lines();
    assert_eq!(lines.next(), Some("policy,workload,servers,latency_mean_ms"));
    let figure = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |cell: &str| cell.parse::<f64>().expect("a figure");
        Figure {
            policy: cells[0].into(),
            workload: cells[1].into(),
            servers: number(cells[2]) as u32,
            mean_ms: number(cells[3]),
        }
    };
    lines.map(figure).collect()
}
