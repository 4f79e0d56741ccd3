//! Exports: what their controllers and caches do; below, calls by procedure.

use super::grid::{Cell, Column, grid};
use super::paint::Paint;
use super::text::{clean, rate, share, wrap};
use crate::cache::summary;
use midas_proxy::api::watch::{ExportPoint, Frame, Point};
use midas_proxy::api::{Export, Setting};
use ratatui::text::Line;

/// A row for each export, then its knobs, routes and cache, then procedures.
pub(crate) fn lines(frame: &Frame, paint: Paint, width: usize) -> Vec<Line<'static>> {
    let exports: Vec<(&Export, ExportPoint)> = frame
        .status
        .exports
        .iter()
        .enumerate()
        .map(|(at, export)| (export, frame.point.exports.get(at).cloned().unwrap_or_default()))
        .collect();
    let rows: Vec<Vec<Cell>> = exports.iter().map(|(export, point)| row(export, point, paint)).collect();
    let mut lines = grid(&columns(), &rows, paint, width);
    for (export, point) in &exports {
        lines.push(Line::default());
        lines.push(Line::styled(clean(&export.path), paint.head()));
        lines.extend(details(export, point).iter().flat_map(|text| indented(text, width)));
    }
    lines.push(Line::default());
    lines.extend(procedures(&frame.point, paint, width));
    lines
}

fn columns() -> Vec<Column> {
    vec![
        Column::name("export", 12),
        Column::words("policy", 10),
        Column::words("mode", 8).leaves(4),
        Column::figure("hits"),
        Column::figure("steered").leaves(5),
        Column::figure("bound").leaves(1),
        Column::figure("pressure"),
        Column::figure("turns below..above").leaves(3),
        Column::figure("imbalance").leaves(2),
        Column::figure("entries").leaves(1),
    ]
}

fn row(export: &Export, point: &ExportPoint, paint: Paint) -> Vec<Cell> {
    let reads = &export.cache.reads;
    let hits = reads.share(reads.answered + reads.joined).map_or_else(|| "-".to_owned(), share);
    let [below, above] = point.thresholds;
    let pressure = match point.pressure {
        Some(pressure) if pressure > above => Cell::Text(format!("{pressure:.3}"), paint.warn()),
        Some(pressure) => Cell::text(format!("{pressure:.3}")),
        None => Cell::text("-"),
    };
    vec![
        Cell::text(clean(&export.path)),
        Cell::text(setting(&export.policy)),
        Cell::text(setting(&export.mode)),
        Cell::text(hits),
        Cell::text(share(point.steered)),
        Cell::text(share(point.bound)),
        pressure,
        Cell::text(format!("{below:.3}..{above:.3}")),
        Cell::text(format!("{:.3}", point.imbalance)),
        Cell::text(export.cache.entries.to_string()),
    ]
}

/// What was changed has a star; the details say what the file says.
fn setting(setting: &Setting) -> String {
    format!("{}{}", clean(&setting.now), if setting.changed() { "*" } else { "" })
}

fn details(export: &Export, point: &ExportPoint) -> Vec<String> {
    let mut details = Vec::new();
    let knobs: Vec<String> = point.knobs.iter().map(|(name, value)| format!("{name} {}", short(*value))).collect();
    details.push(match knobs.is_empty() {
        true => "no knobs".to_owned(),
        false => format!("knobs: {}", knobs.join(", ")),
    });
    for (key, setting) in [("policy", &export.policy), ("mode", &export.mode)] {
        if setting.changed() {
            details.push(format!("* {key} changed; {} in the file", setting.file));
        }
    }
    let total: u64 = export.routes.values().sum();
    let routes = export.routes.iter().filter(|(_, count)| **count > 0);
    let routes: Vec<String> = routes.map(|(why, count)| format!("{why} {count}")).collect();
    if total > 0 {
        details.push(format!("{total} calls routed: {}", routes.join(", ")));
    }
    details.extend(crate::status::bound(export));
    details.push(summary(&export.path, &export.cache));
    details.extend(export.subtrees.iter().map(|subtree| {
        format!("subtree {}: mode {}; {}", subtree.path, subtree.mode.now, summary(&subtree.path, &subtree.cache))
    }));
    details
}

/// At most three places behind the point, none that is a zero at the end.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn indented(text: &str, width: usize) -> Vec<Line<'static>> {
    wrap(&clean(text), width.saturating_sub(4)).into_iter().map(|line| Line::raw(format!("  {line}"))).collect()
}

fn procedures(point: &Point, paint: Paint, width: usize) -> Vec<Line<'static>> {
    let mut known: Vec<(&String, f64)> = point.procedures.iter().map(|(name, calls)| (name, *calls)).collect();
    known.sort_by(|a, b| b.1.total_cmp(&a.1));
    let row = |(name, calls): &(&String, f64)| {
        let hits = point.hits.get(*name).map_or_else(|| "-".to_owned(), |hits| share(*hits));
        vec![Cell::text(clean(name)), Cell::text(rate(*calls)), Cell::text(hits)]
    };
    let rows: Vec<Vec<Cell>> = known.iter().map(row).collect();
    let columns = [Column::words("procedure", 11), Column::figure("calls/s"), Column::figure("hits")];
    let mut lines = grid(&columns, &rows, paint, width);
    if rows.is_empty() {
        lines.push(Line::styled("  no calls now", paint.dim()));
    }
    let outcomes: Vec<String> =
        point.outcomes.iter().map(|(name, calls)| format!("{name} {}/s", rate(*calls))).collect();
    if !outcomes.is_empty() {
        lines.extend(indented(&format!("answered: {}", outcomes.join(", ")), width));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn knobs_are_short() {
        for (value, want) in [(2.0, "2"), (0.25, "0.25"), (1.0 / 3.0, "0.333"), (100.0, "100"), (0.0, "0")] {
            assert_eq!(short(value), want);
        }
    }
}
