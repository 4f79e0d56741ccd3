//! Many proxies that see each other's load only through shares. Latencies are in service times.

mod support;

use support::{all_hold, at_most, rows};

struct Case {
    proxies: u32,
    setting: &'static str,
    service_ms: f64,
    limit: f64,
}

const LONG: &str = "--service const:100ms --rtt 1ms --duration 100s --seeds 3";
const SHORT: &str = "--service const:0.5ms --rtt 0.2ms --duration 20s --seeds 1";

fn check(cases: &[Case]) {
    for Case { proxies, setting, service_ms, limit } in cases {
        let command = format!("sim compare --workload zipf:1.1 --servers 8 --proxies {proxies} {setting}");
        let told = rows(&format!("{command} --policy jsq,random,first-fit"));
        let mean = |policy| told.mean(policy, "zipf:1.1", "latency_mean_ms") / service_ms;
        let shares = told.mean("first-fit", "zipf:1.1", "shares_received");
        println!("{proxies} proxies, oracle {:.3}, random {:.3}", mean("jsq"), mean("random"));
        all_hold([
            at_most(&format!("{proxies} proxies, mean"), mean("first-fit"), *limit),
            at_most(&format!("{proxies} proxies, mean / random's"), mean("first-fit") / mean("random"), 1.0),
            at_most(&format!("{proxies} proxies, shares a second"), shares, 20_000.0),
        ]);
        for interval in ["off", "250ms"].into_iter().filter(|_| *proxies > 1) {
            let other = rows(&format!("{command} --policy first-fit --share-interval {interval}"));
            let other = other.mean("first-fit", "zipf:1.1", "latency_mean_ms") / service_ms;
            all_hold([at_most(
                &format!("{proxies} proxies, mean / with shares {interval}"),
                mean("first-fit") / other,
                1.0,
            )]);
        }
    }
}

#[test]
fn with_long_calls_any_number_of_proxies_is_nearly_as_good_as_one() {
    check(&[1, 4, 16, 64].map(|proxies| Case { proxies, setting: LONG, service_ms: 100.0, limit: 1.6 }));
}

#[test]
fn with_calls_as_short_as_the_network_sixteen_proxies_still_beat_chance() {
    check(&[Case { proxies: 16, setting: SHORT, service_ms: 0.5, limit: 2.5 }]);
}

#[test]
fn with_calls_as_short_as_the_network_sixty_four_proxies_still_beat_chance() {
    check(&[Case { proxies: 64, setting: SHORT, service_ms: 0.5, limit: 2.7 }]);
}
