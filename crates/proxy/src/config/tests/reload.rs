//! What a reload finds changed.

use super::*;

#[test]
fn an_outline_of_a_change_has_no_values() {
    let new = parsed(&format!("{SHORT}[watch]\njobs_command = \"jobs --password=x\"\n"));
    let outlines: Vec<String> = parsed(SHORT).differences(&new).iter().map(Change::outline).collect();
    assert_eq!(outlines, ["[watch]: jobs_command changed"]);
}

#[test]
fn the_order_of_pools_and_exports_makes_no_difference() {
    let pool = |name: &str| format!("[[pool]]\nname = \"{name}\"\nservers = \"10.0.0.1:1\"\n");
    let export =
        |path: &str, pool: &str| format!("[[export]]\npath = \"/{path}\"\npool = \"{pool}\"\nclients = \"::1\"\n");
    let one = parsed(&[pool("a"), pool("b"), export("x", "a"), export("y", "b")].concat());
    let other = parsed(&[export("y", "b"), pool("b"), export("x", "a"), pool("a")].concat());
    assert_eq!(one.differences(&other), []);
    assert_eq!(one.pool_of(&one.exports()[1]).name, "b");
}
