//! Lease mode: nothing stale while every writer passes a proxy, and each coherence rule is needed for that. The checkers see it: in
//! lease mode an answer older than what was promised is a violation.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use midas_core::cache::{Estimator, Mode, Rule, Rules, broken};
use midas_core::time::Span;
use midas_sim::check::Invariant;
use midas_sim::config::{CacheConfig, Config};
use midas_sim::fault::Faults;
use midas_sim::policy::Contender;
use midas_workload::Service;
use midas_workload::Spec;

fn leases(policy: &str, workload: &str, rules: Rules) -> Config {
    let cache = CacheConfig {
        mode: Mode::Lease,
        stale_target: 1e-3,
        estimator: Estimator::Object,
        rules,
        entries_max: 100_000,
    };
    Config {
        cache: Some(cache),
        duration: Span::from_secs(30),
        directories: 128,
        ..Config::new(Contender::parse(policy).unwrap(), Spec::parse(workload).unwrap())
    }
}

/// A few names, written half of the time; long calls that overtake each other; proxies that hear of each other late.
fn hot(rules: Rules) -> Config {
    Config {
        servers: 4,
        proxies: 4,
        directories: 2,
        files: 3,
        write_share: 0.3,
        load: 0.6,
        service: Service::parse("exp:100ms").unwrap(),
        rtt: Span::from_millis(20),
        duration: Span::from_secs(120),
        faults: Faults { loss: 0.05, ..Faults::default() },
        ..leases("random", "uniform", rules)
    }
}

#[test]
fn lease_mode_answers_nothing_stale_whatever_the_workload_the_proxies_and_the_loss() {
    for workload in ["zipf:1.1", "spotify", "job-start:64x20x8", "checkpoint"] {
        for proxies in [1, 4] {
            for seed in 1..=3 {
                let faults = Faults { loss: 0.01, ..Faults::default() };
                let config = Config { proxies, seed, faults, ..leases("first-fit", workload, Rules::ALL) };
                let row = midas_sim::run(&config).unwrap_or_else(|violation| panic!("{workload}: {violation}")).row;
                assert_eq!(row.stale_share, 0.0, "{workload}, {proxies} proxies");
                assert!(row.cache_hit_share > 0.0, "{workload}, {proxies} proxies: the cache was at work");
            }
        }
    }
}

#[test]
fn a_few_hot_names_that_are_written_all_the_time_are_never_stale() {
    for seed in SEEDS {
        let row = midas_sim::run(&Config { seed, ..hot(Rules::ALL) }).unwrap_or_else(|broken| panic!("{broken}")).row;
        assert!(row.stale_share == 0.0 && row.cache_hit_share > 0.01, "{row:?}");
    }
}

#[test]
fn without_any_one_rule_of_the_protocol_some_seed_sees_a_stale_answer() {
    let rules = [Rule::Pending, Rule::DropBeforeSend, Rule::Epoch, Rule::EndBump, Rule::Join];
    for rule in rules {
        let rules = broken::without(rule, "the simulator must see a stale answer");
        let seen = SEEDS.into_iter().find_map(|seed| midas_sim::run(&Config { seed, ..hot(rules) }).err());
        let violation = seen.unwrap_or_else(|| panic!("without {rule:?} nothing was stale"));
        assert_eq!(violation.invariant, Invariant::Horizon, "{violation}");
    }
}

const SEEDS: [u64; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
