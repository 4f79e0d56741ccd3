//! The house rules, as a test: each breach is one line, `file:line: what`.
//!
//! It reads text, not syntax trees: comments and literals are blanked, braces are counted. That is enough for these
//! rules, sees inside macro calls (which a parser leaves as opaque tokens), and needs no dependency.
//! The test's own directory is exempt from the rules on text, because it must spell out what it forbids.

mod code;
mod documents;
mod manifest;
mod source;

use source::{Finding, Source, has_extension};
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn functions_and_files_are_short() {
    over(rust_files, |source| [code::long_functions(source), code::long_file(source)].concat());
}

#[test]
fn nothing_is_left_for_later() {
    over(all_files, code::leftovers);
}

#[test]
fn no_committed_file_names_a_path_of_one_machine() {
    over(all_files, code::machine_paths);
}

#[test]
fn only_tests_unwrap() {
    over(product_files, code::unwraps);
}

#[test]
fn tests_wait_for_events() {
    // Its server is slow on purpose.
    let slow = "crates/bench/tests/support/mod.rs";
    let tests = || rust_files().into_iter().filter(|source| source.path.contains("/tests/") && source.path != slow);
    over(|| tests().collect(), code::pauses);
}

#[test]
fn tests_listen_on_ports_that_nobody_else_has() {
    // What gives ports out takes them as they come.
    let giver = "crates/lab/src/address.rs";
    let tests = |source: &Source| {
        let path = &source.path;
        (path.contains("/tests/") && !path.contains("/src/") || path.starts_with("crates/lab/src/")) && path != giver
    };
    over(|| rust_files().into_iter().filter(tests).collect(), code::fixed_ports);
}

#[test]
fn type_names_say_what_the_type_is() {
    over(rust_files, code::empty_type_names);
}

#[test]
fn the_simulated_world_has_no_clock_and_no_platform_mathematics() {
    over(deterministic_files, |source| [code::platform_mathematics(source), code::clock_reads(source)].concat());
}

#[test]
fn the_core_is_no_std_and_depends_on_little() {
    over(|| files_named(&["crates/core/Cargo.toml"]), manifest::foreign_dependencies);
    over(|| files_named(&["crates/core/src/lib.rs", "crates/workload/src/lib.rs"]), code::missing_no_std);
}

#[test]
fn every_element_of_the_paper_is_where_the_table_says() {
    over(
        || files_named(&["docs/paper.md"]),
        |source| documents::broken_elements(source, |path| fs::read_to_string(root().join(path)).ok()),
    );
}

#[test]
fn links_between_documents_resolve() {
    over(documents_of_the_project, |source| documents::broken_links(source, |path| root().join(path).exists()));
}

fn over(files: impl Fn() -> Vec<Source>, rule: impl Fn(&Source) -> Vec<Finding>) {
    let lines: Vec<String> = files()
        .iter()
        .flat_map(|source| rule(source).into_iter().map(|found| format!("{}:{found}", source.path)))
        .collect();
    assert!(lines.is_empty(), "{} breach(es) of the house rules:\n{}", lines.len(), lines.join("\n"));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every readable text in the repository, except what is built and this test itself.
fn all_files() -> Vec<Source> {
    let mut paths = Vec::new();
    walk(&root(), "", &mut paths);
    paths.sort();
    let texts: Vec<&str> = paths.iter().map(String::as_str).filter(|path| !path.starts_with(OWN_DIRECTORY)).collect();
    files_named(&texts)
}

fn rust_files() -> Vec<Source> {
    all_files().into_iter().filter(Source::is_rust).collect()
}

fn product_files() -> Vec<Source> {
    rust_files().into_iter().filter(|source| source.path.contains("/src/")).collect()
}

fn deterministic_files() -> Vec<Source> {
    const CRATES: [&str; 3] = ["crates/core/src/", "crates/workload/src/", "crates/sim/src/"];
    rust_files().into_iter().filter(|source| CRATES.iter().any(|prefix| source.path.starts_with(prefix))).collect()
}

fn documents_of_the_project() -> Vec<Source> {
    let is_document = |path: &str| {
        ["README.md", "ARCHITECTURE.md", "lab/README.md"].contains(&path)
            || path.starts_with("docs/") && has_extension(path, "md")
    };
    all_files().into_iter().filter(|source| is_document(&source.path)).collect()
}

/// The named files that exist and are text.
fn files_named(paths: &[&str]) -> Vec<Source> {
    paths.iter().filter_map(|path| Some(Source::new(path, &fs::read_to_string(root().join(path)).ok()?))).collect()
}

fn walk(directory: &Path, prefix: &str, paths: &mut Vec<String>) {
    for entry in fs::read_dir(directory).expect("a directory of the repository can be read") {
        let entry = entry.expect("an entry of the repository can be read");
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if NOT_OURS.contains(&path.as_str()) {
            continue;
        }
        if entry.path().is_dir() {
            walk(&entry.path(), &format!("{path}/"), paths);
        } else {
            paths.push(path);
        }
    }
}

const OWN_DIRECTORY: &str = "crates/cli/tests/tidy/";
/// What git keeps, what is built or found, and the fuzzer's inputs, which are no text.
const NOT_OURS: [&str; 9] = [
    ".git",
    "target",
    "out",
    "fuzz/target",
    "fuzz/artifacts",
    "fuzz/coverage",
    "fuzz/corpus",
    "web/node_modules",
    "web/dist",
];

#[test]
fn the_walk_finds_the_repository() {
    let paths: Vec<String> = all_files().into_iter().map(|source| source.path).collect();
    for expected in ["Makefile", ".ci/run", "crates/core/src/lib.rs", "crates/cli/src/main.rs"] {
        assert!(paths.iter().any(|path| path == expected), "{expected} is not among the files that are checked");
    }
    assert!(!paths.iter().any(|path| path.starts_with("target/") || path.starts_with(OWN_DIRECTORY)));
    assert!(deterministic_files().len() >= 3 && !product_files().is_empty());
}
