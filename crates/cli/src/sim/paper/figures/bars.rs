//! Comparisons over all policies: a bar and a dot for each, a panel for each workload.

use super::Figure;
use super::canvas::{
    Area, Axis, FAINT, GRID, INK, LABEL_SIZE, Painted, TITLE_SIZE, font, from_zero, grid, log1, of_policy, powers,
    show_log1, show_short,
};
use crate::failure::Failure;
use crate::sim::compare::Cell;
use crate::sim::paper::setting::Study;
use plotters::prelude::*;

/// Mean and 99th percentile of the latency.
pub(crate) fn latency(study: &Study) -> Result<Figure, Failure> {
    let bars = Bars {
        title: "Latency of every policy: mean (bar) and 99th percentile (dot)",
        axis: |top| from(SERVICE_MS, top),
        place: |ms| libm::log10(ms.max(1.0)),
        show: |at| show_short(libm::pow(10.0, at)),
        bar: |cell| cell.mean_ms,
        dot: |cell| cell.p99_ms,
        unit: "latency (ms), logarithmic",
    };
    Ok(Figure {
        file: "latency.svg",
        title: bars.title.to_owned(),
        caption: "Bar: mean; dot: 99th percentile; mean over the seeds. The axis begins with the service time."
            .to_owned(),
        svg: bars.draw(study)?,
    })
}

/// Mean and worst queue.
pub(crate) fn queues(study: &Study) -> Result<Figure, Failure> {
    let bars = Bars {
        title: "Queues of every policy: mean (bar) and longest (dot)",
        axis: from_zero,
        place: log1,
        show: show_log1,
        bar: |cell| cell.mean_queue,
        dot: |cell| cell.worst_queue,
        unit: "calls in queue, logarithmic",
    };
    Ok(Figure {
        file: "queues.svg",
        title: bars.title.to_owned(),
        caption: "Bar: mean queue of a server; dot: the longest queue of any server; mean over the seeds.".to_owned(),
        svg: bars.draw(study)?,
    })
}

struct Bars {
    title: &'static str,
    axis: fn(f64) -> Axis,
    /// Where a value stands on the axis, and back.
    place: fn(f64) -> f64,
    show: fn(f64) -> String,
    bar: fn(&Cell) -> f64,
    dot: fn(&Cell) -> f64,
    unit: &'static str,
}

impl Bars {
    fn draw(&self, study: &Study) -> Result<String, Failure> {
        let workloads = &study.setting.workloads;
        let height = 170 + 40 * study.setting.policies.len() as u32;
        grid(self.title, workloads.len() + 1, height, |index, area| match workloads.get(index) {
            Some(workload) => self.panel(area, study, workload),
            None => legend(area),
        })
    }

    fn panel(&self, area: &Area, study: &Study, workload: &str) -> Painted {
        let policies = &study.setting.policies;
        let top = study.cells.iter().filter(|cell| cell.workload == workload).map(self.dot).fold(1.0, f64::max);
        let count = policies.len() as f64;
        // From the top down, in the order of the list.
        let middle = |index: usize| count - index as f64 - 0.5;
        let rows = Axis { range: 0.0..count, ticks: (0..policies.len()).map(middle).collect() };
        let axis = (self.axis)(top);
        let left = axis.range.start;
        let mut chart = ChartBuilder::on(area)
            .margin(24)
            .margin_right(44)
            .caption(workload, font(TITLE_SIZE, INK))
            .x_label_area_size(70)
            .y_label_area_size(230)
            .build_cartesian_2d(axis, rows)?;
        let name = |at: &f64| policies[((count - at) as usize).min(policies.len() - 1)].to_owned();
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style(font(LABEL_SIZE, FAINT))
            .x_label_formatter(&|at| (self.show)(*at))
            .y_label_formatter(&name)
            .x_desc(self.unit)
            .draw()?;
        for (index, policy) in policies.iter().enumerate() {
            let Some(cell) = study.cell(policy, workload) else { continue };
            let (y, colour) = (middle(index), of_policy(policy));
            let (bar, dot) = ((self.place)((self.bar)(cell)), (self.place)((self.dot)(cell)));
            chart.draw_series([Rectangle::new([(left, y - 0.32), (bar.max(left), y + 0.32)], colour.filled())])?;
            chart.draw_series([PathElement::new([(bar.max(left), y), (dot, y)], colour.stroke_width(3))])?;
            chart.draw_series([Circle::new((dot, y), 8, colour.filled())])?;
        }
        Ok(())
    }
}

/// A logarithmic axis from a value above zero.
fn from(low: f64, top: f64) -> Axis {
    let ticks = powers().filter(|power| *power >= low && *power <= top).map(libm::log10).collect();
    Axis { range: libm::log10(low)..libm::log10(top.max(low * 10.0)) + 0.08, ticks }
}

fn legend(area: &Area) -> Painted {
    let groups = [
        ("rr", "calls in turn"),
        ("rr-directory", "static placement"),
        ("random", "other balancers"),
        ("jsq", "the oracle"),
        ("paper", "MIDAS, the paper's policy"),
        ("first-fit", "MIDAS, our policy"),
    ];
    for ((policy, meaning), y) in groups.into_iter().zip((100..).step_by(64)) {
        area.draw(&Rectangle::new([(90, y - 14), (150, y + 14)], of_policy(policy).filled()))?;
        area.draw_text(meaning, &font(LABEL_SIZE, INK), (176, y - 12))?;
    }
    Ok(())
}

const SERVICE_MS: f64 = 100.0;
