//! `make install`, run into directories of its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::{PATIENCE, Part, Scratch, bounded, require};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{midas, root};

/// A unit's exposure in systemd's own reckoning, of 100: what is left is the network, which a proxy needs.
const EXPOSURE_MAX: &str = "20";

/// Runs one target with this binary, free of the variables of a make that runs the tests.
fn make(target: &str, variables: &[String]) -> Output {
    let mut command = Command::new("make");
    command.current_dir(root()).arg(target).arg(format!("MIDAS={}", env!("CARGO_BIN_EXE_midas"))).args(variables);
    for inherited in ["MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL"] {
        command.env_remove(inherited);
    }
    let output = command.output().expect("make runs");
    assert!(output.status.success(), "make {target}: {output:?}");
    output
}

/// Every file below, by its path from there.
fn files(below: &Path) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut waiting: Vec<PathBuf> = vec![below.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => waiting.push(entry.path()),
                false => found.push(entry.path().strip_prefix(below).unwrap().display().to_string()),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_package_holds_binary_pages_completions_unit_user_and_example_and_all_go_again() {
    let scratch = Scratch::new();
    let destination = [format!("DESTDIR={}", scratch.path().display())];
    make("install", &destination);
    let installed = files(scratch.path());
    let (pages, rest): (Vec<String>, Vec<String>) = installed.into_iter().partition(|file| file.contains("/man1/"));
    let listed = midas("man --list");
    let mut listed: Vec<String> = String::from_utf8_lossy(&listed.stdout)
        .lines()
        .map(|page| format!("usr/local/share/man/man1/{page}"))
        .collect();
    listed.sort();
    assert!(listed.len() > 20 && pages == listed, "{pages:?}");
    let want = [
        "etc/midas/midas.toml.example",
        "usr/local/bin/midas",
        "usr/local/lib/systemd/system/midas.service",
        "usr/local/lib/sysusers.d/midas.conf",
        "usr/local/share/bash-completion/completions/midas",
        "usr/local/share/doc/midas/LICENSE",
        "usr/local/share/doc/midas/grafana/midas.json",
        "usr/local/share/doc/midas/metrics.md",
        "usr/local/share/doc/midas/operating.md",
        "usr/local/share/doc/midas/prometheus/midas.rules.yml",
        "usr/local/share/doc/midas/prometheus/prometheus.yml",
        "usr/local/share/fish/vendor_completions.d/midas.fish",
        "usr/local/share/zsh/site-functions/_midas",
    ];
    assert_eq!(rest, want);
    let completed = |file: &str| fs::read_to_string(scratch.path().join(file)).unwrap();
    assert!(completed(want[4]).contains("complete -F _midas"));
    assert!(completed(want[11]).contains("complete -c midas"));
    assert!(completed(want[12]).starts_with("#compdef midas"));
    let unit = fs::read_to_string(scratch.path().join(want[2])).unwrap();
    assert!(unit.contains("ExecStart=/usr/local/bin/midas serve\n") && !unit.contains("@BINDIR@"), "{unit}");
    let example = scratch.path().join(want[0]);
    let checked = midas(&format!("check --config {}", example.display()));
    assert!(checked.status.success(), "{checked:?}");
    let own = scratch.path().join("etc/midas/midas.toml");
    fs::copy(&example, &own).unwrap();
    make("uninstall", &destination);
    assert_eq!(files(scratch.path()), ["etc/midas/midas.toml"], "the administrator's own file stays");
}

#[test]
fn systemd_takes_the_unit_and_finds_it_little_exposed() {
    if !require(Part::SystemdAnalyze) {
        return;
    }
    let scratch = Scratch::new();
    let at = |place: &str| scratch.path().join(place).display().to_string();
    make("install", &[format!("PREFIX={}", at("usr")), format!("SYSCONFDIR={}", at("etc"))]);
    let unit = at("usr/lib/systemd/system/midas.service");
    let analyze =
        |arguments: &[&str]| bounded("systemd-analyze", PATIENCE).args(arguments).arg(&unit).output().unwrap();
    let verified = analyze(&["verify"]);
    assert!(verified.status.success() && verified.stderr.is_empty(), "{verified:?}");
    let exposed = analyze(&["security", "--offline=true", "--no-pager", &format!("--threshold={EXPOSURE_MAX}")]);
    println!("{}", String::from_utf8_lossy(&exposed.stdout).lines().last().unwrap_or_default());
    assert!(exposed.status.success(), "{}", String::from_utf8_lossy(&exposed.stdout));
}

/// A drain that is cut short drops calls: the unit must give it the time that the daemon allows itself.
#[test]
fn the_unit_has_what_the_daemon_relies_on() {
    let unit = fs::read_to_string(root().join("dist/midas.service")).unwrap();
    let has = |line: &str| unit.lines().any(|other| other == line);
    for line in [
        "Type=notify",
        "ExecReload=/bin/kill -HUP $MAINPID",
        "TimeoutStopSec=40s",
        "RuntimeDirectory=midas",
        "StateDirectory=midas",
        "User=midas",
        "AmbientCapabilities=CAP_NET_BIND_SERVICE",
    ] {
        assert!(has(line), "{line}");
    }
    let user = fs::read_to_string(root().join("dist/midas.sysusers")).unwrap();
    assert!(user.lines().any(|line| line.starts_with("u midas - ")), "{user}");
}
