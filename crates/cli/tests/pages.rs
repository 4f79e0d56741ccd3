//! Manual pages, completions and help: made of the command's own definition, accepted by those who read them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::{PATIENCE, Scratch, bounded};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use support::{impossible, midas, text};

/// The commands that help lists in its groups.
fn commands() -> Vec<String> {
    let help = text("--help");
    let listed = help.lines().take_while(|line| !line.starts_with("Options:"));
    let listed = listed.filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    let commands: Vec<String> = listed.map(str::to_owned).collect();
    assert!(commands.len() > 20, "{help}");
    commands
}

/// Sections in their order, each request known, nothing left open.
fn assert_page(name: &str, page: &str) {
    let title = name.trim_end_matches(".1");
    let heads: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
    assert!(heads.starts_with(&["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"]), "{name}: {heads:?}");
    assert!(page.lines().any(|line| line.starts_with(&format!(".TH {title} 1 "))), "{name}: no title in\n{page}");
    let known = [".TH", ".SH", ".PP", ".IP", ".TP", ".RS", ".RE", ".br", ".BR", ".nf", ".fi", ".ie", ".el"];
    let requests = page.lines().filter(|line| line.starts_with('.'));
    let strange: Vec<&str> = requests.filter(|line| !known.iter().any(|known| line.starts_with(known))).collect();
    assert!(strange.is_empty(), "{name}: {strange:?}");
    let count = |request: &str| page.lines().filter(|line| line.split(' ').next() == Some(request)).count();
    assert_eq!((count(".nf"), count(".RS")), (count(".fi"), count(".RE")), "{name}");
    let usage = page.lines().skip_while(|line| *line != ".SH SYNOPSIS").nth(1).unwrap_or_default();
    assert!(usage.contains("midas"), "{name}: {usage}");
}

/// groff's own words about a page, where it is installed.
fn warnings(page: &Path) -> Option<String> {
    let output = bounded("groff", PATIENCE).args(["-man", "-ww", "-Tutf8", "-z"]).arg(page).output().unwrap();
    match output.status.code() {
        Some(127) => None,
        _ => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn every_command_has_a_page_that_is_well_formed() {
    let scratch = Scratch::new();
    let directory = scratch.path().join("man1");
    text(&format!("man --out {}", directory.display()));
    let pages: BTreeSet<String> =
        fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let listed: BTreeSet<String> = text("man --list").lines().map(str::to_owned).collect();
    assert_eq!(pages, listed);
    for name in commands() {
        assert!(pages.contains(&format!("midas-{name}.1")), "{name}: {pages:?}");
    }
    for name in ["midas.1", "midas-sim-run.1", "midas-cluster-key.1"] {
        assert!(pages.contains(name), "{name}: {pages:?}");
    }
    for name in &pages {
        let file = directory.join(name);
        assert_page(name, &fs::read_to_string(&file).unwrap());
        if let Some(said) = warnings(&file) {
            assert!(said.is_empty(), "{name}: {said}");
        }
    }
}

#[test]
fn a_page_is_printed_by_the_words_of_its_command() {
    assert!(text("man").contains(".TH midas 1 "));
    let page = text("man sim run");
    assert!(page.contains(".TH midas-sim-run 1 ") && page.contains("\\-\\-servers"), "{page}");
    let page = text("man warm");
    assert!(page.contains(".SH EXAMPLES\n.nf\n") && page.contains(".SH \"SEE ALSO\"\n.BR midas (1)"), "{page}");
    impossible(&[("man frob", "possible: bench"), ("man status x", "no commands below"), ("completions tcsh", "fish")]);
}

#[test]
fn a_typo_is_answered_with_the_nearest_command() {
    impossible(&[("stats", "'status'"), ("drian a", "'drain'"), ("tops", "'top'"), ("top --onec", "'--once'")]);
}

/// Asks a real bash what it would offer behind these words.
fn completed(script: &Path, words: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let ask = format!(
        "source '{}'; COMP_WORDS=({}); COMP_CWORD={}; _midas midas '{}' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        quoted.join(" "),
        words.len() - 1,
        words[words.len() - 1],
        words[words.len() - 2],
    );
    let output = bounded("bash", PATIENCE).args(["--norc", "-c", &ask]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let scratch = Scratch::new();
    let script = scratch.path().join("midas");
    fs::write(&script, text("completions bash")).unwrap();
    let checked = bounded("bash", PATIENCE).arg("-n").arg(&script).output().unwrap();
    assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}");
    assert_eq!(completed(&script, &["midas", "statu"]), ["status"]);
    assert_eq!(completed(&script, &["midas", "top", "--onc"]), ["--once"]);
    assert_eq!(completed(&script, &["midas", "top", "--view", "ex"]), ["exports"]);
    let all = completed(&script, &["midas", ""]);
    for name in commands() {
        assert!(all.contains(&name), "{name}: {all:?}");
    }
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        assert!(text(&format!("completions {shell}")).contains("invalidate"), "{shell}");
    }
}

#[test]
fn top_says_what_to_do_where_it_cannot() {
    impossible(&[
        ("top", "midas top --once"),
        ("top --width 100", "--once"),
        ("top --once --width 20", "40..=500"),
        ("top --socket a --address b:1", "cannot be used with"),
    ]);
    let output = midas("top --once --socket /nowhere/midas.sock");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.starts_with("midas: no daemon at /nowhere"), "{said}");
    let output = midas("top --once --address 127.0.0.1:1");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("no daemon answers at 127.0.0.1:1"), "{said}");
}
