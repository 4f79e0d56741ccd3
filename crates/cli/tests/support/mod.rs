//! Runs the real binary and reads its rows. Every file of tests uses a part of this.
#![allow(dead_code, reason = "each file of tests uses another part")]

pub(crate) mod clock;
pub(crate) mod coherent;
pub(crate) mod counted;
pub(crate) mod demo;
pub(crate) mod gate;
pub(crate) mod lines;
pub(crate) mod load;
pub(crate) mod members;
pub(crate) mod nfsd;
pub(crate) mod over;
pub(crate) mod relay;
pub(crate) mod serve;
pub(crate) mod stage;
pub(crate) mod switch;
pub(crate) mod writer;

use midas_conformance::Target;
use midas_lab::Endpoint;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs `midas` with arguments that are separated by blanks.
pub(crate) fn midas(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_midas"));
    command.args(arguments.split_whitespace()).current_dir(root()).output().expect("the binary runs")
}

/// Typed so, each is refused in one line that names what is possible, and nothing is printed.
pub(crate) fn impossible(cases: &[(&str, &str)]) {
    for (typed, named) in cases {
        let output = midas(typed);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "midas {typed}: {said}");
        assert!(said.lines().count() == 1 && said.starts_with("midas: "), "midas {typed}: {said}");
        assert!(said.contains(named), "midas {typed} does not name '{named}': {said}");
        assert!(output.stdout.is_empty(), "midas {typed} printed something");
    }
}

/// A server, for the script that all answer alike.
pub(crate) fn target(endpoint: &Endpoint) -> Target {
    let at = |port| SocketAddr::new(endpoint.address.into(), port);
    Target { nfs: at(endpoint.nfs_port), mount: at(endpoint.mount_port), path: endpoint.path.clone() }
}

/// Resident memory of a process now and at its highest, in bytes.
pub(crate) fn memory(pid: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).expect("the kernel tells it");
        line.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok()).expect("kibibytes") << 10
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// What a command printed that must succeed.
pub(crate) fn text(arguments: &str) -> String {
    let output = midas(arguments);
    assert!(output.status.success(), "midas {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the output is text")
}

/// The rows of a simulation.
pub(crate) fn rows(arguments: &str) -> Rows {
    let parsed: Value = serde_json::from_str(&text(&format!("{arguments} --json"))).expect("--json prints JSON");
    Rows(parsed["rows"].as_array().expect("an object with rows").clone())
}

/// Rows of figures.
pub(crate) struct Rows(pub(crate) Vec<Value>);

impl Rows {
    /// The mean over seeds of one policy on one workload.
    pub(crate) fn mean(&self, policy: &str, workload: &str, figure: &str) -> f64 {
        let values = self.values(policy, workload, figure);
        values.iter().sum::<f64>() / values.len() as f64
    }

    /// One policy's figure on one workload, seed by seed.
    pub(crate) fn values(&self, policy: &str, workload: &str, figure: &str) -> Vec<f64> {
        let of = |row: &&Value| row["policy"] == policy && row["workload"] == workload;
        let values: Vec<f64> = self.0.iter().filter(of).map(|row| row[figure].as_f64().expect("a number")).collect();
        assert!(!values.is_empty(), "no row of {policy} on {workload}");
        values
    }

    /// The geometric mean over workloads of a policy's mean figure relative to another's.
    pub(crate) fn relative(&self, policy: &str, to: &str, figure: &str) -> f64 {
        let workloads = self.workloads();
        let logs = workloads.iter().map(|w| (self.mean(policy, w, figure) / self.mean(to, w, figure)).ln());
        (logs.sum::<f64>() / workloads.len() as f64).exp()
    }

    /// The mean over workloads of a policy's mean share.
    pub(crate) fn share(&self, policy: &str, figure: &str) -> f64 {
        let workloads = self.workloads();
        workloads.iter().map(|workload| self.mean(policy, workload, figure)).sum::<f64>() / workloads.len() as f64
    }

    /// Every workload once, in order.
    pub(crate) fn workloads(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for row in &self.0 {
            let name = row["workload"].as_str().expect("a name");
            if !names.iter().any(|seen| seen == name) {
                names.push(name.to_owned());
            }
        }
        names
    }
}

/// One line of a proof: prints what was measured, and returns a line if it is above its limit.
pub(crate) fn at_most(what: &str, measured: f64, limit: f64) -> Option<String> {
    println!("{what}: {measured:.4}, at most {limit}");
    (measured.is_nan() || measured > limit).then(|| format!("{what}: {measured:.4} is above {limit}"))
}

/// Fails with every line that did not hold.
pub(crate) fn all_hold(broken: impl IntoIterator<Item = Option<String>>) {
    let broken: Vec<String> = broken.into_iter().flatten().collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
