//! Where balancing pays most, where it must do no harm, and what it does about servers that are slow or broken.

mod support;

use support::{all_hold, at_most, rows};

#[test]
fn with_bimodal_calls_near_capacity_round_robin_queues_five_times_as_much() {
    let rows = rows(
        "sim compare --servers 16 --load 0.9 --workload uniform --service bimodal:100ms --policy rr,jsq,first-fit --seeds 5",
    );
    let mean = |policy, figure| rows.mean(policy, "uniform", figure);
    for policy in ["rr", "jsq", "first-fit"] {
        println!("{policy}: mean queue {}, p99 {} ms", mean(policy, "mean_queue"), mean(policy, "latency_p99_ms"));
    }
    all_hold([
        at_most(
            "5 x first-fit's mean queue / rr's",
            5.0 * mean("first-fit", "mean_queue") / mean("rr", "mean_queue"),
            1.0,
        ),
        at_most(
            "4 x first-fit's p99 / rr's",
            4.0 * mean("first-fit", "latency_p99_ms") / mean("rr", "latency_p99_ms"),
            1.0,
        ),
    ]);
}

#[test]
fn where_round_robin_is_the_best_there_is_first_fit_does_no_harm() {
    let rows =
        rows("sim compare --workload uniform --policy rr,jsq,first-fit:gap=1,first-fit:gap=2,first-fit --seeds 5");
    let against = |policy: &str, figure: &str, limit| {
        let ratio = rows.mean(policy, "uniform", figure) / rows.mean("rr", "uniform", figure);
        at_most(&format!("{policy} / rr, {figure}"), ratio, limit)
    };
    all_hold([
        against("first-fit:gap=2", "latency_mean_ms", 1.35),
        against("first-fit:gap=2", "latency_p99_ms", 2.0),
        against("first-fit:gap=1", "latency_mean_ms", 1.05),
        against("first-fit", "latency_mean_ms", 1.05),
        against("first-fit", "latency_p99_ms", 2.0),
    ]);
}

#[test]
fn two_slow_servers_of_sixteen_cost_little_while_round_robin_never_catches_up() {
    for workload in ["uniform", "zipf:1.1"] {
        let setting = format!("sim compare --servers 16 --workload {workload} --seeds 5");
        let healthy = rows(&format!("{setting} --policy first-fit"));
        let slow = rows(&format!("{setting} --policy first-fit,rr --slow 2:2"));
        let p99 = slow.mean("first-fit", workload, "latency_p99_ms");
        let ratio = p99 / healthy.mean("first-fit", workload, "latency_p99_ms");
        all_hold([
            at_most(&format!("{workload}: p99 with slow servers / without"), ratio, 1.4),
            at_most(&format!("{workload}: longest queue"), slow.mean("first-fit", workload, "worst_queue"), 20.0),
        ]);
        // At 1.4 times what a slow server can do, 300 s leave 600 calls waiting.
        assert!(slow.mean("rr", workload, "worst_queue") > 500.0, "rr is unstable");
    }
}

#[test]
fn two_servers_of_twenty_that_fail_fast_are_left_alone() {
    for workload in ["uniform", "zipf:1.1"] {
        let setting = format!("sim run --servers 20 --failing 2 --workload {workload} --policy rr,first-fit --seeds 3");
        let rows = rows(&setting);
        let failed = |policy| rows.mean(policy, workload, "failed_share");
        all_hold([at_most(&format!("{workload}: failures / rr's"), failed("first-fit") / failed("rr"), 0.05)]);
    }
}
