//! What is simulated: the paper's evaluation, and every reading of its two sides. Paper: P19.
//!
//! The paper compares 'round-robin' with 'MIDAS' and leaves open what either is. Each reading here is a policy of its own, and all of them
//! see identical calls.

use crate::failure::Failure;
use crate::progress::Progress;
use crate::sim::batch::run_all;
use crate::sim::compare::{Cell, over_seeds};
use midas_core::time::Span;
use midas_sim::config::Config;
use midas_sim::policy::Contender;
use midas_sim::report::{Row, Run};
use midas_workload::Spec;

/// How much is simulated.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) servers: u32,
    pub(crate) seeds: u32,
    pub(crate) seconds: u64,
    pub(crate) workloads: Vec<&'static str>,
    pub(crate) policies: Vec<&'static str>,
}

/// What one of the paper's two words may mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) policy: &'static str,
    pub(crate) meaning: &'static str,
}

/// Everything that was measured.
#[derive(Debug)]
pub(crate) struct Study {
    pub(crate) setting: Setting,
    pub(crate) rows: Vec<Row>,
    pub(crate) cells: Vec<Cell>,
    /// The first seed of the policies that are drawn over time.
    pub(crate) traces: Vec<Run>,
}

impl Setting {
    pub(crate) fn new(servers: u32, seeds: Option<u32>, quick: bool) -> Self {
        let (default_seeds, seconds) = if quick { QUICK } else { FULL };
        let seeds = seeds.unwrap_or(default_seeds);
        Self { servers, seeds, seconds, workloads: WORKLOADS.to_vec(), policies: policies() }
    }

    /// Workloads x policies x seeds, or what is impossible about them.
    pub(crate) fn configs(&self) -> Result<Vec<Config>, Failure> {
        if !(1..=SEEDS_MAX).contains(&self.seeds) {
            return Err(Failure::Usage(format!("--seeds must be in 1..{SEEDS_MAX}, got {}", self.seeds)));
        }
        let mut configs = Vec::new();
        for workload in &self.workloads {
            for policy in &self.policies {
                for seed in 1..=u64::from(self.seeds) {
                    configs.push(self.config(policy, workload, seed)?);
                }
            }
        }
        Ok(configs)
    }

    fn config(&self, policy: &str, workload: &str, seed: u64) -> Result<Config, Failure> {
        let contender = Contender::parse(policy).map_err(Failure::Usage)?;
        let spec = Spec::parse(workload).map_err(|error| Failure::Usage(error.to_string()))?;
        let every = Span::from_secs(self.seconds).scale(1.0 / SAMPLES);
        let config = Config {
            servers: self.servers,
            duration: Span::from_secs(self.seconds),
            seed,
            trace: (seed == 1 && TRACED.contains(&policy)).then_some(every),
            ..Config::new(contender, spec)
        };
        config.check().map_err(Failure::Usage)?;
        Ok(config)
    }

    /// Simulates everything.
    pub(crate) fn study(self) -> Result<Study, Failure> {
        let configs = self.configs()?;
        let runs = run_all(&configs, &mut Progress::new("simulating", configs.len()))?;
        let rows: Vec<Row> = runs.iter().map(|run| run.row.clone()).collect();
        let traces = runs.into_iter().filter(|run| !run.queues.is_empty()).collect();
        Ok(Study { setting: self, cells: over_seeds(&rows), rows, traces })
    }
}

impl Study {
    /// What a policy got on a workload.
    pub(crate) fn cell(&self, policy: &str, workload: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.policy == policy && cell.workload == workload)
    }

    /// What happened over time.
    pub(crate) fn trace(&self, policy: &str, workload: &str) -> Option<&Run> {
        self.traces.iter().find(|run| run.row.policy == policy && run.row.workload == workload)
    }
}

/// What 'round-robin (Lustre)' may mean.
pub(crate) const BASELINES: [Reading; 5] = [
    Reading { policy: "rr", meaning: "calls in turn, one dispatcher for all clients" },
    Reading { policy: "rr-client", meaning: "calls in turn, each client by itself" },
    Reading { policy: "rr-directory", meaning: "directories placed in turn, as Lustre DNE does" },
    Reading { policy: "hash-directory", meaning: "directories placed by hash, for good" },
    Reading { policy: "hash-object", meaning: "objects placed by hash, for good" },
];

/// What 'MIDAS (power of d)' may mean.
pub(crate) const MIDAS: [Reading; 4] = [
    Reading { policy: "paper", meaning: "Algorithm 1; the key is the directory" },
    Reading { policy: "paper:key=object", meaning: "Algorithm 1; the key is the object" },
    Reading { policy: "paper:pin=free", meaning: "Algorithm 1; pinned calls do not use up the cap on moves" },
    Reading { policy: "first-fit", meaning: "our own policy, the default" },
];

/// The policies whose queues are drawn over time.
pub(crate) const TRACED: [&str; 4] = ["rr", "rr-directory", "paper", "first-fit"];

/// Everyone, in the order of the bars: the readings of MIDAS last.
pub(crate) fn policies() -> Vec<&'static str> {
    let rivals = Contender::NAMES.into_iter().filter(|name| MIDAS.iter().all(|reading| reading.policy != *name));
    rivals.chain(MIDAS.map(|reading| reading.policy)).collect()
}

pub(crate) const WORKLOADS: [&str; 11] = [
    "uniform",
    "zipf:0.9",
    "zipf:1.1",
    "zipf:1.4",
    "bursts",
    "flash:10",
    "flash:100",
    "checkpoint",
    "diurnal",
    "on-off",
    "shifting",
];

/// Seeds and seconds. The quick setting still holds a flash (at 20 s) and two thirds of a day (150 s).
const FULL: (u32, u64) = (5, 300);
const QUICK: (u32, u64) = (2, 100);
const SEEDS_MAX: u32 = 1000;
/// Points of a line in a figure.
const SAMPLES: f64 = 400.0;
