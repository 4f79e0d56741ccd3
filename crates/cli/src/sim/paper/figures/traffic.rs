//! Figure 1: the calls of every workload, one dot each.

use super::Figure;
use super::canvas::{Area, Axis, DOT, DOT_RADIUS, FAINT, GRID, INK, LABEL_SIZE, Painted, TITLE_SIZE, font, grid};
use crate::failure::Failure;
use crate::sim::paper::setting::{Study, TRACED};
use plotters::prelude::*;

pub(crate) fn draw(study: &Study) -> Result<Figure, Failure> {
    let workloads = &study.setting.workloads;
    let title = "Figure 1. Traffic patterns";
    let svg = grid(title, workloads.len(), 560, |index, area| panel(area, study, workloads[index]))?;
    let step = workloads.iter().map(|workload| step(calls(study, workload).len())).max().unwrap_or(1);
    let thinned = match step {
        1 => "Each dot is a call".to_owned(),
        step => format!("Each dot is a call; of the busiest workload one call in {step} is drawn"),
    };
    Ok(Figure {
        file: "figure-1-traffic.svg",
        title: title.to_owned(),
        caption: format!(
            "{thinned}: when it came and which directory it went to; where calls fall on one point the dot is larger. A \
             horizontal line is a popular directory, a vertical band a burst. Above: calls in each second. First seed; every \
             policy sees exactly these calls."
        ),
        svg,
    })
}

fn panel(area: &Area, study: &Study, workload: &str) -> Painted {
    let calls = calls(study, workload);
    let (above, below) = area.split_vertically(180);
    rate(&above, study, workload, calls)?;
    let top = calls.iter().map(|(_, directory)| *directory).max().unwrap_or(0);
    let mut chart = ChartBuilder::on(&below)
        .margin(8)
        .margin_right(44)
        .x_label_area_size(70)
        .y_label_area_size(120)
        .build_cartesian_2d(0.0..study.setting.seconds as f64, 0.0..f64::from(top) + 1.0)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .axis_style(GRID)
        .label_style(font(LABEL_SIZE, FAINT))
        .x_labels(6)
        .y_labels(4)
        .x_label_formatter(&|seconds| format!("{seconds:.0}"))
        .y_label_formatter(&|directory| format!("{directory:.0}"))
        .x_desc("time (s)")
        .y_desc("directory")
        .draw()?;
    let drawn = calls.iter().step_by(step(calls.len()));
    chart.draw_series(
        drawn.map(|(seconds, directory)| Circle::new((*seconds, f64::from(*directory)), DOT_RADIUS, DOT.filled())),
    )?;
    Ok(())
}

/// How many calls came in each second.
fn rate(area: &Area, study: &Study, workload: &str, calls: &[(f64, u32)]) -> Painted {
    let mut seconds = vec![0_u32; study.setting.seconds as usize];
    for (at, _) in calls {
        if let Some(count) = seconds.get_mut(*at as usize) {
            *count += 1;
        }
    }
    let top = f64::from(seconds.iter().copied().max().unwrap_or(0).max(1));
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(44)
        .caption(format!("{workload}, {} calls", calls.len()), font(TITLE_SIZE, INK))
        .y_label_area_size(120)
        .build_cartesian_2d(0.0..seconds.len() as f64, Axis { range: 0.0..top * 1.1, ticks: vec![0.0, top] })?;
    chart
        .configure_mesh()
        .disable_mesh()
        .disable_x_axis()
        .axis_style(GRID)
        .label_style(font(LABEL_SIZE, FAINT))
        .y_label_formatter(&|calls| format!("{calls:.0}"))
        .y_desc("calls/s")
        .draw()?;
    let steps = seconds.iter().zip(0_u32..).flat_map(|(count, second)| {
        let (from, to, count) = (f64::from(second), f64::from(second + 1), f64::from(*count));
        [(from, count), (to, count)]
    });
    // One outline, down to the axis at both ends: separate bars would show seams.
    let outline = std::iter::once((0.0, 0.0)).chain(steps).chain([(seconds.len() as f64, 0.0)]);
    chart.draw_series([Polygon::new(outline.collect::<Vec<_>>(), DOT.filled())])?;
    Ok(())
}

/// The same under every policy; whichever was traced tells it.
fn calls<'a>(study: &'a Study, workload: &str) -> &'a [(f64, u32)] {
    TRACED.iter().find_map(|policy| study.trace(policy, workload)).map_or(&[], |run| &run.arrivals)
}

fn step(calls: usize) -> usize {
    calls.div_ceil(DOTS_MAX).max(1)
}

/// Dots of a panel: more would be one patch of colour, and megabytes.
const DOTS_MAX: usize = 30_000;
