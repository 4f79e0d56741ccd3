//! Ttl mode keeps the staleness that it was told; lease mode is proven in the simulator's own tests.

mod support;

use support::rows;

#[test]
fn stale_entries_stay_below_the_target_over_a_million_entries_for_stationary_hazards() {
    let rows = rows("sim hazard --entries 1000000").0;
    let mut ours = 0;
    for row in &rows {
        let (share, half) = (row["entries"]["share"].as_f64().unwrap(), row["entries"]["half_width"].as_f64().unwrap());
        let target = row["stale_target"].as_f64().unwrap();
        let name = format!("{} {} p* {target} gap {} ms", row["changes"], row["estimator"], row["read_gap_ms"]);
        println!("{name}: stale {share:.6} +- {half:.6}, hits {}", row["hit_share"]);
        if row["estimator"] == "object" && row["changes"] == "stationary" {
            ours += 1;
            assert!(row["entries"]["of"].as_u64().unwrap() >= 1_000_000, "{name}");
            assert!(share + half <= 1.1 * target, "{name}");
            assert!(share - half >= 0.1 * target, "{name}: the target is used, not avoided");
            assert_eq!(row["verdict"], "holds");
        }
    }
    assert_eq!(ours, 6, "two targets, three read gaps");
    assert!(rows.iter().any(|row| row["estimator"] == "paper"), "the paper's estimator stands beside ours");
}
