//! What a reader must know before believing the figures.

use crate::config::Config;
use crate::report::{ArmReport, CellReport};

/// One sentence for each thing that is wrong with a cell at a target.
pub(crate) fn of(config: &Config, cells: &[CellReport]) -> Vec<String> {
    let mut warnings = Vec::new();
    for cell in cells {
        for arm in &cell.arms {
            let place = format!("{} at {}", cell.load, arm.target);
            let said = [dropped(arm), errors(arm), lost(arm), history(arm), busy(config, arm), foreign(arm), idle(arm)];
            warnings.extend(said.into_iter().flatten().map(|what| format!("{place}: {what}")));
        }
    }
    warnings
}

fn dropped(arm: &ArmReport) -> Option<String> {
    let counts = &arm.counts;
    (counts.dropped > 0).then(|| {
        format!(
            "{} of {} calls were dropped, never sent: the server is slower than the rate, and latencies leave them out",
            counts.dropped, counts.offered
        )
    })
}

fn errors(arm: &ArmReport) -> Option<String> {
    (arm.counts.errors_unexpected > 0).then(|| format!("{} calls failed unexpectedly", arm.counts.errors_unexpected))
}

fn lost(arm: &ArmReport) -> Option<String> {
    let counts = &arm.counts;
    (counts.connections_lost > 0).then(|| {
        format!("{} connections were lost, {} calls sent again", counts.connections_lost, counts.retransmissions)
    })
}

fn history(arm: &ArmReport) -> Option<String> {
    let counts = &arm.counts;
    (counts.history_waits > 0).then(|| {
        format!(
            "the generator waited {} times ({} us) for the history's file",
            counts.history_waits, counts.history_waited_us
        )
    })
}

/// A generator that had no time left measured itself.
fn busy(config: &Config, arm: &ArmReport) -> Option<String> {
    let loops = f64::from(config.threads.min(config.connections));
    let most = arm.slices.iter().filter_map(|slice| slice.generator_cpu).fold(0.0, f64::max);
    (most > BUSY * loops)
        .then(|| format!("the generator used {most:.2} processors of {loops}: it may be the limit, try more --threads"))
}

/// A server whose process is not known counts as foreign, if it is on this machine.
fn foreign(arm: &ArmReport) -> Option<String> {
    let typical = arm.summary.foreign_cpu?.median;
    let (limit, hint) = match arm.summary.server_cpu_us_per_call {
        Some(_) => (FOREIGN, ""),
        None => (FOREIGN + 1.0, " (the server too: name its process with --pid)"),
    };
    (typical > limit).then(|| format!("others used {typical:.2} processors meanwhile{hint}"))
}

fn idle(arm: &ArmReport) -> Option<String> {
    (arm.counts.answered == 0).then(|| "no call was answered in the measured time".to_owned())
}

/// Share of a processor above which a loop had no time left.
const BUSY: f64 = 0.95;
/// Processors used by others that disturb a measurement.
const FOREIGN: f64 = 0.25;
