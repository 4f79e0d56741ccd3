//! Hot spots: who asks most, and for what.

use super::app::Sort;
use super::grid::{Cell, Column, grid};
use super::paint::Paint;
use super::text::{clean, rate, share};
use midas_proxy::api::watch::{Hot, Spot};
use ratatui::text::Line;

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Directories,
    Clients,
    Users,
}

impl Which {
    const fn name(self) -> &'static str {
        match self {
            Self::Directories => "directories",
            Self::Clients => "clients",
            Self::Users => "users",
        }
    }

    fn of(self, hot: &Hot) -> &[Spot] {
        match self {
            Self::Directories => &hot.directories,
            Self::Clients => &hot.clients,
            Self::Users => &hot.users,
        }
    }
}

/// How they are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) sort: Sort,
    pub(crate) paint: Paint,
    pub(crate) width: usize,
    /// Rows, at most.
    pub(crate) most: usize,
}

/// The first of them; and how many there are, if not all are shown.
pub(crate) fn lines(which: Which, hot: &Hot, look: Look) -> Vec<Line<'static>> {
    let Look { sort, paint, width, most } = look;
    let mut spots: Vec<&Spot> = which.of(hot).iter().collect();
    match sort {
        Sort::Calls => spots.sort_by_key(|spot| std::cmp::Reverse(spot.calls)),
        Sort::Time => spots.sort_by(|a, b| b.server_ms.total_cmp(&a.server_ms)),
    }
    let of = if spots.len() > most { format!("{} of {} ", most, spots.len()) } else { String::new() };
    let title = format!("{of}{}, last {:.0} s", which.name(), hot.seconds);
    let jobs = spots.iter().any(|spot| spot.job.is_some());
    let rows: Vec<Vec<Cell>> = spots.iter().take(most).map(|spot| row(spot, hot, jobs)).collect();
    let mut lines = grid(&columns(title, jobs, sort), &rows, paint, width);
    if rows.is_empty() {
        lines.push(Line::styled(format!("  no calls in the last {:.0} s", hot.seconds), paint.dim()));
    }
    lines
}

fn columns(title: String, jobs: bool, sort: Sort) -> Vec<Column> {
    let (calls, time) = match sort {
        Sort::Calls => ("calls▾", "server ms"),
        Sort::Time => ("calls", "server ms▾"),
    };
    let mut columns = vec![Column::name(title, 21)];
    columns.extend(jobs.then(|| Column::words("job", 8).leaves(4)));
    columns.push(Column::figure("calls/s").leaves(2));
    columns.push(Column::figure(calls));
    columns.push(Column::figure("error").leaves(1));
    columns.push(Column::figure(time).leaves(5));
    columns.push(Column::figure("hits").leaves(3));
    columns
}

fn row(spot: &Spot, hot: &Hot, jobs: bool) -> Vec<Cell> {
    let a_second = if hot.seconds > 0.0 { spot.calls as f64 / hot.seconds } else { 0.0 };
    let mut row = vec![Cell::text(clean(&spot.name))];
    row.extend(jobs.then(|| Cell::text(spot.job.as_deref().map_or_else(|| "-".to_owned(), clean))));
    let figures = [
        rate(a_second),
        spot.calls.to_string(),
        spot.error.to_string(),
        format!("{:.1}", spot.server_ms),
        share(spot.hits),
    ];
    row.extend(figures.map(Cell::text));
    row
}
