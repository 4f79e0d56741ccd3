//! `midas doctor`: asks every server of a configuration how it is, and says in words what to change.

mod finding;
mod judge;
mod show;

pub(crate) use finding::SAME_HANDLES;
pub(crate) use judge::{dearest, staleness_s};

use crate::failure::Failure;
use crate::signal;
use clap::Args;
use finding::{Finding, Level};
use midas_core::route::moves::Moves;
use midas_proxy::config::{Config, Export, Pool};
use midas_proxy::survey::{self, Asking, Greeting, Survey};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Ask every server of a configuration how it is, and say what to change
///
/// Exit status: 0 all is well, 1 something must be changed, 2 a server could not be asked. Nothing is changed on any server; with
/// --write a scratch directory (.midas-doctor-*) is made in each export and removed again, also on Ctrl-C.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The configuration (see `midas check`)
    #[arg(long, value_name = "FILE", default_value = Config::PATH)]
    config: PathBuf,
    /// Also measure what only writing shows: how soon servers see each other's changes, what it costs that a call moves, their clocks,
    /// who root becomes
    #[arg(long)]
    write: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A pool and what was found.
struct Examined<'a> {
    pool: &'a Pool,
    greetings: Vec<Greeting>,
    exports: Vec<(&'a Export, Survey)>,
    findings: Vec<Finding>,
    /// What `staleness` must be at least, in seconds, if it was measured on every export.
    staleness_s: Option<u64>,
    /// What `moves` should be, if that was measured on every export.
    moves: Option<Moves>,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let config = Config::load(&self.config).map_err(|error| Failure::Broken(error.to_string()))?;
        let stop = signal::stop()?;
        let mut pools = Vec::new();
        for pool in config.pools() {
            let asking = Asking { patience: duration(pool.probe_timeout), write: self.write, stop: &stop };
            pools.push(examine(&config, pool, &asking));
            if stop.load(Ordering::Relaxed) {
                let left =
                    pools.iter().flat_map(|pool| &pool.exports).find_map(|(_, found)| found.left_behind.as_ref());
                let left =
                    left.map_or_else(|| "nothing was left behind".to_owned(), |left| format!("left behind: {left}"));
                return Err(Failure::Broken(format!("interrupted; {left}")));
            }
        }
        show::print(&pools, self.json)?;
        verdict(&pools)
    }
}

fn examine<'a>(config: &'a Config, pool: &'a Pool, asking: &Asking<'_>) -> Examined<'a> {
    let greetings = survey::all(&pool.servers, |server| survey::greet(server, asking));
    let mut findings: Vec<Finding> = pool
        .servers
        .iter()
        .zip(&greetings)
        .flat_map(|(server, greeting)| judge::greeting(&server.name, greeting))
        .collect();
    let mut exports = Vec::new();
    for export in config.exports().iter().filter(|export| config.pool_of(export).name == pool.name) {
        if asking.stop.load(Ordering::Relaxed) {
            break;
        }
        let survey = survey::survey(&pool.servers, &export.source, asking);
        findings.extend(judge::export(pool, export, &greetings, &survey));
        exports.push((export, survey));
    }
    let measured = exports.iter().map(|(_, survey)| judge::staleness_s(survey));
    let staleness_s = measured.collect::<Option<Vec<u64>>>().and_then(|all| all.into_iter().max());
    let moves = dearest(exports.iter().map(|(_, survey)| survey));
    Examined { pool, greetings, exports, findings, staleness_s, moves }
}

fn verdict(pools: &[Examined<'_>]) -> Result<(), Failure> {
    let count = |level| pools.iter().flat_map(|pool| &pool.findings).filter(|finding| finding.level == level).count();
    match (count(Level::Change), count(Level::Unasked)) {
        (0, 0) => Ok(()),
        (0, unasked) => Err(Failure::Unanswered(format!("{unasked} of the questions could not be asked"))),
        (1, _) => Err(Failure::Broken("one thing must be changed".to_owned())),
        (change, _) => Err(Failure::Broken(format!("{change} things must be changed"))),
    }
}

fn duration(span: midas_core::time::Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}
