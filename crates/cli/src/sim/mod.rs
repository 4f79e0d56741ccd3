//! `midas sim`: the simulator.

mod batch;
mod cluster;
mod compare;
mod hazard;
mod list;
mod live;
pub(crate) mod options;
pub(crate) mod output;
mod paper;
mod run;
mod scenarios;
pub(crate) mod table;
mod theory;

use crate::failure::Failure;
use clap::Subcommand;

/// The simulator's commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Sim {
    /// List workloads, policies, service times and cache modes
    List,
    /// Simulate one setting and print what happened, seed by seed
    Run(run::Run),
    /// Compare policies over workloads on identical calls
    Compare(compare::Compare),
    /// Compare what is simulated with closed forms: queues, balls into bins, the potential V
    Theory(theory::Theory),
    /// Measure how many cache entries go stale in ttl mode, by estimator
    Hazard(hazard::Hazard),
    /// Reproduce the paper's evaluation: its figures, its tables, its claims against what is measured
    Paper(paper::Paper),
    /// Play the same calls on the wire and in the simulator, and compare the servers' queues
    Live(live::Live),
    /// Simulate proxies that cache together, under every fault, and look for wrong answers
    Cluster(cluster::Cluster),
    /// Run every scenario file over many seeds with all checkers
    Scenarios(scenarios::Scenarios),
}

impl Sim {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Self::List => list::list(),
            Self::Run(run) => run.run(),
            Self::Compare(compare) => compare.run(),
            Self::Theory(theory) => theory.run(),
            Self::Hazard(hazard) => hazard.run(),
            Self::Paper(paper) => paper.run(),
            Self::Live(live) => live.run(),
            Self::Cluster(cluster) => cluster.run(),
            Self::Scenarios(scenarios) => scenarios.run(),
        }
    }
}
