//! A whole run: set up, every cell in slices that take turns over the targets, clean up, report.
//!
//! Slices of the targets alternate, in an order that rotates with the rounds: what the machine does meanwhile meets all of them
//! alike, and ratios are taken inside of a round. Whatever happens, the work directory is removed again.

use crate::clock::Clock;
use crate::config::{Cell, Config, Load, Pace};
use crate::error::RunError;
use crate::history::History;
use crate::processor::{is_there, pin};
use crate::report::{
    ArmReport, CellReport, CountReport, ErrorReport, Latency, ProcedureReport, Ratio, Report, RunReport, SCHEMA,
    SliceReport, Summary, TargetReport,
};
use crate::site::{Run, Site};
use crate::slice::{Doing, Place, Sample, Slicer};
use crate::spread::Spread;
use crate::tally::Tally;
use crate::warning;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a run is at, for those who wait for it.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Names are made, found or removed.
    Names {
        /// The target.
        target: &'a str,
        /// What is done.
        what: &'a str,
        /// How many so far.
        done: usize,
        /// Of how many; 0: nobody knows.
        total: usize,
    },
    /// A slice is under way.
    Slice {
        /// The target.
        target: &'a str,
        /// What is measured.
        cell: &'a Cell,
        /// The slice's number, from 1, and how many there are.
        number: (u32, u32),
        /// How it is doing.
        doing: Doing,
    },
}

/// Runs it all; `stop` ends it early, with everything removed.
pub fn run(config: &Config, stop: &AtomicBool, watch: &mut dyn FnMut(Event<'_>)) -> Result<Report, RunError> {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (shared, machine) = Run::new(config, started);
    if !config.pin.is_empty() {
        pin(&config.pin)?;
    }
    if let Some((name, pid)) = config.pids.iter().find(|(_, pid)| !is_there(*pid)) {
        return Err(RunError::target(name, format!("there is no process {pid} to account")));
    }
    let history = match &config.history {
        Some(path) => Some(History::create(path).map_err(|error| RunError::File(path.clone(), error))?),
        None => None,
    };
    let data = vec![0x5a; config.size as usize];
    let mut slicer = Slicer { config, run: &shared, clock: Clock::new(), stop, history, data };
    let mut sites = Vec::new();
    let result = open_all(&slicer, &mut sites, watch).and_then(|()| measure(&slicer, &sites, watch));
    let written = match (slicer.history.take(), &config.history) {
        (Some(history), Some(path)) => history.close().map_err(|error| RunError::File(path.clone(), error)),
        (Some(_) | None, _) => Ok(()),
    };
    // What was measured is not lost because servers answer no more.
    let left_behind = remove_all(config, &sites, watch);
    let cells = result?;
    written?;
    let mut warnings = warning::of(config, &cells);
    warnings.extend(left_behind);
    let targets = sites.iter().map(target_report).collect();
    let run = run_report(config, &shared, machine, started);
    Ok(Report { schema: SCHEMA, version: env!("CARGO_PKG_VERSION"), run, targets, cells, warnings })
}

fn open_all<'a>(
    slicer: &Slicer<'a>,
    sites: &mut Vec<Site<'a>>,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<(), RunError> {
    for target in &slicer.config.targets {
        let mut tell = |what: &str, done, total| watch(Event::Names { target: &target.name, what, done, total });
        sites.push(Site::open(target, slicer.run, slicer.config, slicer.stop, &mut tell)?);
    }
    Ok(())
}

/// Removes what was made; a sentence for each target where that failed.
fn remove_all(config: &Config, sites: &[Site<'_>], watch: &mut dyn FnMut(Event<'_>)) -> Vec<String> {
    let mut left_behind = Vec::new();
    for site in sites.iter().filter(|site| site.made && !config.keep) {
        let target = &site.target.name;
        let mut tell = |what: &str, done, total| watch(Event::Names { target, what, done, total });
        if let Err(what) = site.remove(&mut tell) {
            left_behind.push(format!("{target}: clean-up: {what}; the work directory is left behind"));
        }
    }
    left_behind
}

fn measure(
    slicer: &Slicer<'_>,
    sites: &[Site<'_>],
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Vec<CellReport>, RunError> {
    let config = slicer.config;
    let (arms, mut number) = (sites.len(), 0);
    let total = config.slices * (arms * config.cells.len()) as u32;
    let mut reports = Vec::new();
    for cell in &config.cells {
        let mut samples: Vec<Vec<Sample>> = (0..arms).map(|_| Vec::new()).collect();
        for round in 0..config.slices {
            for position in 0..arms {
                let arm = (position + round as usize) % arms;
                let (site, place) = (&sites[arm], Place { number, round, position: position as u32 });
                number += 1;
                let target = &site.target.name;
                let mut told = |doing| watch(Event::Slice { target, cell, number: (number, total), doing });
                samples[arm].push(slicer.slice(site, cell, place, &mut told)?);
            }
        }
        reports.push(cell_report(config, cell, &samples));
        tidy(config, cell, sites, watch)?;
    }
    Ok(reports)
}

/// What one cell made must not slow down the next.
fn tidy(config: &Config, cell: &Cell, sites: &[Site<'_>], watch: &mut dyn FnMut(Event<'_>)) -> Result<(), RunError> {
    let leaves = matches!(cell.load, Load::Op(action) if action.leaves_names());
    if !leaves || config.keep || config.cells.len() == 1 {
        return Ok(());
    }
    for site in sites.iter().filter(|site| site.made) {
        let target = &site.target.name;
        let mut tell = |what: &str, done, total| watch(Event::Names { target, what, done, total });
        site.tidy(&mut tell).map_err(|what| RunError::target(target, format!("between cells: {what}")))?;
    }
    Ok(())
}

fn cell_report(config: &Config, cell: &Cell, samples: &[Vec<Sample>]) -> CellReport {
    let slices: Vec<Vec<SliceReport>> = samples
        .iter()
        .zip(&config.targets)
        .map(|(arm, target)| arm.iter().map(|sample| slice_report(config, sample, &target.name)).collect())
        .collect();
    let first = slices[0].clone();
    let mut arms = Vec::new();
    for ((samples, slices), target) in samples.iter().zip(slices).zip(&config.targets) {
        let ratio = (!arms.is_empty()).then(|| ratio(&slices, &first));
        arms.push(arm_report(&target.name, samples, slices, ratio));
    }
    CellReport {
        load: cell.load.to_string(),
        mode: match cell.pace {
            Pace::Closed { .. } => "closed",
            Pace::Open { .. } => "open",
        },
        depth: cell.pace.depth(),
        rate: cell.pace.rate(),
        arms,
    }
}

fn arm_report(target: &str, samples: &[Sample], slices: Vec<SliceReport>, ratio: Option<Ratio>) -> ArmReport {
    let mut all = Tally::new();
    for sample in samples {
        all.merge(&sample.tally);
    }
    let procedure = |(procedure, histogram): (midas_nfs::nfs3::Procedure, &_)| ProcedureReport {
        procedure: procedure.name(),
        latency: Latency::of(histogram),
    };
    ArmReport {
        target: target.to_owned(),
        summary: summary(&slices),
        ratio,
        procedures: all.latencies().map(procedure).collect(),
        errors: all.errors.iter().map(ErrorReport::of).collect(),
        counts: CountReport::of(&all),
        send_delay: all.send_delay.as_ref().map(Latency::of),
        slices,
    }
}

fn slice_report(config: &Config, sample: &Sample, target: &str) -> SliceReport {
    let Sample { tally, used, ended, round, position } = sample;
    let seconds = config.slice.as_secs_f64();
    // A target may be several processes.
    let of_target = config.pids.iter().zip(&used.others).filter(|((name, _), _)| name == target);
    let server_cpu = of_target.filter_map(|(_, cpu)| *cpu).reduce(|one, other| one + other);
    SliceReport {
        round: *round,
        position: *position,
        offered_per_second: tally.counts.offered as f64 / seconds,
        answered_per_second: tally.counts.answered as f64 / seconds,
        latency: Latency::of(&tally.overall()),
        counts: CountReport::of(tally),
        generator_cpu: used.own,
        server_cpu,
        server_cpu_us_per_call: server_cpu.filter(|_| *ended > 0).map(|cpu| cpu * used.seconds * 1e6 / *ended as f64),
        foreign_cpu: used.foreign,
    }
}

fn summary(slices: &[SliceReport]) -> Summary {
    let of = |figure: fn(&SliceReport) -> f64| Spread::of(slices.iter().map(figure));
    // A slice without a call has no latency.
    let latency =
        |figure: fn(&Latency) -> f64| Spread::of(slices.iter().filter_map(|slice| slice.latency.some()).map(figure));
    Summary {
        answered_per_second: of(|slice| slice.answered_per_second),
        offered_per_second: of(|slice| slice.offered_per_second),
        mean_us: latency(|latency| latency.mean_us),
        p50_us: latency(|latency| latency.p50_us),
        p90_us: latency(|latency| latency.p90_us),
        p99_us: latency(|latency| latency.p99_us),
        p999_us: latency(|latency| latency.p999_us),
        server_cpu_us_per_call: Spread::of(slices.iter().filter_map(|slice| slice.server_cpu_us_per_call)),
        foreign_cpu: Spread::of(slices.iter().filter_map(|slice| slice.foreign_cpu)),
    }
}

/// Round by round: what disturbed a round disturbed both.
fn ratio(slices: &[SliceReport], first: &[SliceReport]) -> Ratio {
    let of = |figure: fn(&SliceReport) -> f64| {
        Spread::of(slices.iter().zip(first).map(|(slice, first)| figure(slice) / figure(first)))
    };
    Ratio {
        answered_per_second: of(|slice| slice.answered_per_second),
        p50_us: of(|slice| slice.latency.some().map_or(f64::NAN, |latency| latency.p50_us)),
        p99_us: of(|slice| slice.latency.some().map_or(f64::NAN, |latency| latency.p99_us)),
        server_cpu_us_per_call: of(|slice| slice.server_cpu_us_per_call.unwrap_or(f64::NAN)),
    }
}

fn target_report(site: &Site<'_>) -> TargetReport {
    TargetReport { name: site.target.name.clone(), address: site.target.to_string(), made: site.made }
}

fn run_report(config: &Config, shared: &Run, machine: String, started: Duration) -> RunReport {
    RunReport {
        id: shared.id.clone(),
        machine,
        started_unix: started.as_secs(),
        seed: config.seed,
        connections: config.connections,
        threads: config.threads.min(config.connections),
        users: config.users,
        directories: config.shape.directories,
        files: config.shape.files,
        size: config.size,
        slice_seconds: config.slice.as_secs_f64(),
        slices: config.slices,
        warmup_seconds: config.warmup.as_secs_f64(),
        timeout_seconds: config.timeout.as_secs_f64(),
        pin: config.pin.clone(),
    }
}
