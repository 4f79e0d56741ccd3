//! Ttl mode keeps the staleness that it was told; lease mode is proven in the simulator's own tests.

mod support;

use serde_json::Value;
use support::rows;

#[test]
fn stale_answers_and_entries_stay_below_the_target_with_writers_that_bypass_us() {
    let rows = rows("sim hazard --entries 1000000").0;
    for row in &rows {
        println!("{}: hits {}, factor {}", name(row), row["hit_share"], row["factor"]);
    }
    for row in rows.iter().filter(|row| row["estimator"] == "loop") {
        let target = row["stale_target"].as_f64().unwrap();
        // Readers that come because of a change see it late more often than the hazard says: the loop lowers that, not always below p*.
        let most = if row["changes"] == "followed" { 1.6 } else { 1.2 };
        assert!(share(row, "answers").1 <= most * target, "{}", name(row));
        let checks = row["checks"].as_f64().unwrap();
        assert!(checks <= row["answers"]["of"].as_f64().unwrap() / 100.0 + 10.0 / target + 1.0, "{}", name(row));
    }
    for row in rows.iter().filter(|row| row["estimator"] == "loop" && row["changes"] != "followed") {
        let target = row["stale_target"].as_f64().unwrap();
        assert!(row["entries"]["of"].as_u64().unwrap() >= 1_000_000, "{}", name(row));
        assert!(share(row, "entries").1 <= 1.1 * target, "{}", name(row));
        assert!(share(row, "entries").0 >= 0.1 * target, "{}: the target is used, not avoided", name(row));
    }
    let worlds = |estimator| rows.iter().filter(|row| row["estimator"] == estimator).count();
    assert_eq!(["loop", "object", "paper"].map(worlds), [16; 3], "both targets, eight worlds and read gaps");
}

/// The limits of the 95 % interval.
fn share(row: &Value, what: &str) -> (f64, f64) {
    let figure = |of: &str| row[what][of].as_f64().expect("a number");
    let (share, half) = (figure("share"), figure("half_width"));
    (share - half, share + half)
}

fn name(row: &Value) -> String {
    let (entries, answers) = (share(row, "entries"), share(row, "answers"));
    let (changes, estimator, target, gap) =
        (&row["changes"], &row["estimator"], &row["stale_target"], &row["read_gap_ms"]);
    format!("{changes} {estimator} p* {target} gap {gap} ms: entries {entries:.6?}, answers {answers:.6?}")
}
