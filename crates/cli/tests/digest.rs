//! One seed is one world: the same digest twice, and the digests written here whatever the build. They change when a decision of the
//! core, the simulator or a workload changes; then look at why, and write down the new ones, which a failure prints.

mod support;

use support::rows;

/// Options, and the digest of seed 7.
const GOLDEN: [(&str, &str); 10] = [
    ("--policy first-fit --workload zipf:1.1", "e11bf0d42b9993f9"),
    ("--policy first-fit --workload bursts --proxies 4 --share-loss 0.1", "5e6b78bea5b29d04"),
    (
        "--policy first-fit --workload spotify --proxies 4 --cache lease --loss 0.01 --service lognormal:50ms+ops",
        "bb41d58331c6bb65",
    ),
    ("--policy first-fit --workload shifting --slow 2:2 --failing 1 --service exp:100ms", "a6b97d662b68f5bc"),
    ("--policy paper --workload zipf:1.4", "da0caad78bea7670"),
    ("--policy paper --workload on-off --cache ttl --bypass-rate 5 --service bimodal:50ms", "c03eef114ccc59da"),
    ("--policy jsq --workload diurnal", "435643f32f854b4f"),
    ("--policy prequal --workload flash:10", "674ca8c134fd61c2"),
    ("--policy peak-ewma --workload checkpoint", "70152120823f955a"),
    ("--policy rr-client --workload job-start:16x10x8 --service const:10ms", "3f92309339a5fd91"),
];

fn digest(options: &str) -> String {
    let rows = rows(&format!("sim run --seed 7 --duration 20s {options}")).0;
    rows[0]["digest"].as_str().expect("a digest").to_owned()
}

#[test]
fn same_seed_same_digest_in_every_build() {
    let found: Vec<(&str, String)> = GOLDEN.iter().map(|(options, _)| (*options, digest(options))).collect();
    let listed: Vec<String> = found.iter().map(|(options, digest)| format!("    ({options:?}, {digest:?}),")).collect();
    let same = found.iter().zip(GOLDEN).all(|(found, golden)| found.1 == golden.1);
    assert!(same, "digests differ from those written down; found:\n{}", listed.join("\n"));
}

#[test]
fn the_same_command_twice_prints_the_same_bytes() {
    let command = "sim compare --workload zipf:1.1,bursts --policy all --seeds 2 --duration 5s --proxies 3 --json";
    assert_eq!(support::text(command), support::text(command));
}
