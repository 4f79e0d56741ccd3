//! Every scenario file, 32 seeds, both policies, all checkers.

mod support;

use support::{root, text};

#[test]
fn every_scenario_keeps_every_invariant_over_32_seeds() {
    let said = text("sim scenarios --seeds 32 --policy paper,first-fit");
    println!("{said}");
    let files = std::fs::read_dir(root().join("scenarios")).unwrap().count();
    assert!(files >= 12 && said.contains(&format!("{} runs in ", files * 32 * 2)), "{files} files");
    assert!(said.ends_with("no invariant broken\n"));
}
