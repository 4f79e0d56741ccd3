//! How close `first-fit` comes to an oracle that knows every queue, and what it moves for that.

mod support;

use support::{Rows, all_hold, at_most, rows};

const WORKLOADS: &str =
    "uniform,zipf:0.9,zipf:1.1,zipf:1.4,bursts,flash:10,flash:100,checkpoint,diurnal,on-off,shifting";
const POLICIES: [&str; 14] = [
    "rr",
    "rr-client",
    "rr-directory",
    "hash-directory",
    "hash-object",
    "bounded-load",
    "random",
    "p2c",
    "p2c-stale",
    "peak-ewma",
    "prequal",
    "jsq",
    "paper",
    "first-fit",
];

fn ratio(rows: &Rows, figure: &str, limit: f64) -> Option<String> {
    at_most(&format!("first-fit / jsq, {figure}"), rows.relative("first-fit", "jsq", figure), limit)
}

fn share(rows: &Rows, figure: &str, limit: f64) -> Option<String> {
    at_most(&format!("first-fit, {figure}"), rows.share("first-fit", figure), limit)
}

#[test]
fn first_fit_on_8_servers_stays_near_the_oracle_and_beats_the_study() {
    let rows = rows(&format!("sim compare --servers 8 --workload {WORKLOADS} --policy all --seeds 5"));
    assert_eq!(rows.0.len(), POLICIES.len() * 11 * 5);
    for policy in POLICIES {
        let mean = rows.relative(policy, "jsq", "latency_mean_ms");
        println!("{policy}: mean latency {mean:.3} of jsq's");
    }
    all_hold([
        // What must be reached, then what an independent study reached.
        ratio(&rows, "latency_mean_ms", 1.18),
        ratio(&rows, "latency_mean_ms", 1.14),
        ratio(&rows, "latency_p99_ms", 1.40),
        ratio(&rows, "latency_p99_ms", 1.29),
        ratio(&rows, "worst_queue", 1.7),
        ratio(&rows, "worst_queue", 1.53),
        share(&rows, "steered_share", 0.30),
        share(&rows, "bad_move_share", 0.05),
        share(&rows, "bad_move_share", 0.04),
        share(&rows, "bad_move_share_reads", 0.005),
    ]);
}

#[test]
fn first_fit_on_64_servers_stays_near_the_oracle() {
    let command = format!("sim compare --servers 64 --workload {WORKLOADS} --policy jsq,paper,first-fit --seeds 2");
    let rows = rows(&command);
    println!("paper: mean latency {:.1} of jsq's", rows.relative("paper", "jsq", "latency_mean_ms"));
    all_hold([
        ratio(&rows, "latency_mean_ms", 1.22),
        ratio(&rows, "latency_p99_ms", 2.0),
        share(&rows, "steered_share", 0.45),
    ]);
}
