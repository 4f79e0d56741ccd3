//! Figures 2 to 4: every server's queue over time under one policy.
//!
//! A workload has the same axis under every policy, so that figures can be laid beside each other; it is logarithmic, because the worst
//! queues differ a thousandfold.

use super::Figure;
use super::canvas::{
    Area, FAINT, GRID, INK, LABEL_SIZE, Painted, TITLE_SIZE, font, from_zero, grid, log1, of_server, show_log1,
};
use crate::failure::Failure;
use crate::sim::paper::setting::{Study, TRACED};
use midas_sim::report::Run;
use plotters::prelude::*;

/// A figure of one policy.
pub(crate) struct Lines {
    pub(crate) file: &'static str,
    pub(crate) number: &'static str,
    pub(crate) policy: &'static str,
    pub(crate) name: &'static str,
}

impl Lines {
    pub(crate) fn draw(&self, study: &Study) -> Result<Figure, Failure> {
        let workloads = &study.setting.workloads;
        let (number, name, policy) = (self.number, self.name, self.policy);
        let title = format!("Figure {number}. Queue length over time, {name}");
        let svg = grid(&title, workloads.len() + 1, 440, |index, area| match workloads.get(index) {
            Some(workload) => panel(area, study, self.policy, workload, workload),
            None => legend(area, study.setting.servers),
        })?;
        Ok(Figure {
            file: self.file,
            title,
            caption: format!(
                "Every line is a server, under policy {policy}. Calls at a server, waiting or in service, logarithmic; a \
                 workload's axis is the same in figures 2 to 4. First seed."
            ),
            svg,
        })
    }
}

/// What it is all about, in one row: a hot directory that moves, under static placement, the paper's policy and ours.
pub(crate) fn before_after(study: &Study) -> Result<Figure, Failure> {
    let columns = [("rr-directory", "static placement"), ("paper", "the paper's policy"), ("first-fit", "MIDAS")];
    let title = format!("Calls in queue at each server, workload {HOT}: a hot directory that moves every 20 s");
    let svg = grid(&title, columns.len(), 440, |index, area| match columns.get(index) {
        Some((policy, heading)) => panel(area, study, policy, HOT, heading),
        None => Ok(()),
    })?;
    let caption = "Every line is a server. Logarithmic; the same calls in all three. First seed.".to_owned();
    Ok(Figure { file: "before-after.svg", title, caption, svg })
}

/// One policy on one workload over time, under a heading that also tells the worst queue.
fn panel(area: &Area, study: &Study, policy: &str, workload: &str, heading: &str) -> Painted {
    let Some(run) = study.trace(policy, workload) else { return Ok(()) };
    let seconds = study.setting.seconds as f64;
    let mut chart = ChartBuilder::on(area)
        .margin(24)
        .margin_right(44)
        .caption(format!("{heading}, at most {}", run.row.worst_queue), font(TITLE_SIZE, INK))
        .x_label_area_size(70)
        .y_label_area_size(100)
        .build_cartesian_2d(0.0..seconds, from_zero(highest(study, workload)))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .label_style(font(LABEL_SIZE, FAINT))
        .x_labels(6)
        .x_label_formatter(&|seconds| format!("{seconds:.0}"))
        .y_label_formatter(&|at| show_log1(*at))
        .x_desc("time (s)")
        .y_desc("calls in queue")
        .draw()?;
    let step = seconds / (run.queues.len().max(2) - 1) as f64;
    for server in longest(run) {
        let points =
            run.queues.iter().enumerate().map(|(i, queues)| (i as f64 * step, log1(f64::from(queues[server]))));
        chart.draw_series(LineSeries::new(points, of_server(server).stroke_width(3)))?;
    }
    Ok(())
}

/// The longest queue of a workload under any policy that is drawn.
fn highest(study: &Study, workload: &str) -> f64 {
    let runs = TRACED.iter().filter_map(|policy| study.trace(policy, workload));
    runs.flat_map(|run| run.queues.iter().flatten()).max().map_or(1.0, |queue| f64::from(*queue))
}

/// The servers to draw, those with the longest queues last, on top.
fn longest(run: &Run) -> Vec<usize> {
    let total = |server: usize| run.queues.iter().map(|queues| u64::from(queues[server])).sum::<u64>();
    let mut servers: Vec<usize> = (0..run.row.servers as usize).collect();
    servers.sort_by_key(|server| total(*server));
    servers.split_off(servers.len().saturating_sub(LINES_MAX))
}

fn legend(area: &Area, servers: u32) -> Painted {
    if servers as usize > LINES_MAX {
        let note = format!("{servers} servers: the {LINES_MAX} with the longest queues are drawn");
        return area.draw_text(&note, &font(LABEL_SIZE, FAINT), (60, 60));
    }
    for (server, place) in (0..servers as usize).zip(0..) {
        let (x, y) = (90 + place / 4 * 260, 90 + place % 4 * 60);
        area.draw(&PathElement::new([(x, y), (x + 60, y)], of_server(server).stroke_width(8)))?;
        area.draw_text(&format!("server {}", server + 1), &font(LABEL_SIZE, INK), (x + 80, y - 12))?;
    }
    Ok(())
}

/// The workload of [`before_after`].
const HOT: &str = "shifting";
/// Lines of a panel: more cannot be told apart.
const LINES_MAX: usize = 8;
