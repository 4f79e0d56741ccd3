//! What is simulated against closed forms, and the paper's evaluation: the commands that users run, at their full length.

mod support;

use midas_lab::Scratch;
use support::text;

#[test]
fn queues_bins_and_the_potential_agree_with_their_closed_forms() {
    let printed = text("sim theory");
    println!("{printed}");
    let parsed: serde_json::Value =
        serde_json::from_str(&text("sim theory --seed 2 --json")).expect("--json prints JSON");
    let rows = parsed["rows"].as_array().expect("rows");
    let of = |name: &str| rows.iter().filter(|row| row["name"].as_str().is_some_and(|n| n.starts_with(name))).count();
    assert!(of("M/M/") >= 9 && of("M/D/1") >= 3, "every queue at every load: {parsed}");
    assert!(rows.len() >= 60 && rows.iter().all(|row| row["holds"] == true), "{parsed}");
    let queues = rows.iter().filter(|row| row["name"].as_str().is_some_and(|n| n.starts_with("M/")));
    for row in queues {
        let off = row["relative_error"].as_f64().expect("a number").abs();
        let half = row["half_width"].as_f64().expect("a number") / row["closed_form"].as_f64().expect("a number");
        assert!(off <= 0.02 && half <= 0.02, "{row}");
    }
}

#[test]
fn the_demo_writes_a_report_with_every_claim() {
    let scratch = Scratch::new();
    let printed = text(&format!("sim paper --quick --out {}", scratch.path().display()));
    assert!(printed.contains("MIDAS lowers the mean queue by about 23 %"), "{printed}");
    let report = std::fs::read_to_string(scratch.path().join("report.html")).expect("the report");
    assert!(report.contains("<svg") && report.contains("Figure 3"), "the report holds its figures");
}
