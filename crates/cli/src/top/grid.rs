//! Tables that fit: columns are left out whole, in a stated order; names are shortened, figures never.

use super::paint::Paint;
use super::text::{bar, beginning, ending, trend, width};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    head: String,
    kind: Kind,
    /// Which goes first where there is no room: 1, then 2, ..; 0 stays.
    leaves: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Shortened to so many cells if need be: of a name the end is kept, of words the beginning.
    Name(usize),
    Words(usize),
    /// Shown whole, or not at all.
    Figure,
    /// From so many cells to so many.
    Chart(usize, usize),
}

impl Column {
    pub(crate) fn name(head: impl Into<String>, least: usize) -> Self {
        Self { head: head.into(), kind: Kind::Name(least), leaves: 0 }
    }

    pub(crate) fn words(head: impl Into<String>, least: usize) -> Self {
        Self { head: head.into(), kind: Kind::Words(least), leaves: 0 }
    }

    pub(crate) fn figure(head: impl Into<String>) -> Self {
        Self { head: head.into(), kind: Kind::Figure, leaves: 0 }
    }

    pub(crate) fn chart(head: impl Into<String>, least: usize, most: usize) -> Self {
        Self { head: head.into(), kind: Kind::Chart(least, most), leaves: 0 }
    }

    /// Left out as the so many-th.
    pub(crate) fn leaves(self, turn: u8) -> Self {
        Self { leaves: turn, ..self }
    }
}

/// What stands in a row of a column.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Text(String, Style),
    /// A part of a whole.
    Bar(f64, Style),
    /// A course, and what is its top.
    Trend(Vec<(u64, f64)>, f64, Style),
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into(), Style::new())
    }

    fn width(&self) -> usize {
        match self {
            Self::Text(text, _) => width(text),
            Self::Bar(..) | Self::Trend(..) => 0,
        }
    }

    fn draw(&self, kind: Kind, cells: usize) -> Span<'static> {
        let (text, style) = match self {
            Self::Text(text, style) => (shorten(kind, text, cells), *style),
            Self::Bar(part, style) => (bar(*part, cells), *style),
            Self::Trend(course, top, style) => (trend(course, *top, cells), *style),
        };
        Span::styled(pad(kind, &text, cells), style)
    }
}

/// Heads and rows in lines of at most so many cells.
pub(crate) fn grid(columns: &[Column], rows: &[Vec<Cell>], paint: Paint, most: usize) -> Vec<Line<'static>> {
    let places = fit(columns, rows, most);
    let line = |draw: &dyn Fn(usize, usize) -> Span<'static>| {
        let mut spans = Vec::new();
        for (place, (column, cells)) in places.iter().enumerate() {
            if place > 0 {
                spans.push(Span::raw(" ".repeat(GAP)));
            }
            spans.push(draw(*column, *cells));
        }
        Line::from(spans)
    };
    let head = |column: usize, cells: usize| {
        let Column { head, kind, .. } = &columns[column];
        Span::styled(pad(*kind, &beginning(head, cells), cells), paint.head())
    };
    let mut lines = vec![line(&head)];
    lines.extend(rows.iter().map(|row| line(&|column, cells| row[column].draw(columns[column].kind, cells))));
    lines
}

/// Which columns are shown, and how wide.
fn fit(columns: &[Column], rows: &[Vec<Cell>], most: usize) -> Vec<(usize, usize)> {
    let natural = |at: usize| {
        let cells = rows.iter().map(|row| row[at].width()).max().unwrap_or_default();
        cells.max(width(&columns[at].head))
    };
    let least = |at: usize| match columns[at].kind {
        Kind::Name(least) | Kind::Words(least) => natural(at).min(least),
        Kind::Figure => natural(at),
        Kind::Chart(least, _) => least,
    };
    let mut places: Vec<(usize, usize)> = (0..columns.len()).map(|at| (at, least(at))).collect();
    let taken = |places: &[(usize, usize)]| {
        places.iter().map(|(_, cells)| cells).sum::<usize>() + GAP * places.len().saturating_sub(1)
    };
    while taken(&places) > most {
        let next = places.iter().enumerate().filter(|(_, (at, _))| columns[*at].leaves > 0);
        let Some((place, _)) = next.min_by_key(|(_, (at, _))| columns[*at].leaves) else { break };
        places.remove(place);
    }
    // What is over goes to names first, so that as few as possible are shortened.
    let mut spare = most.saturating_sub(taken(&places));
    for charts in [false, true] {
        for (at, cells) in &mut places {
            let most = match columns[*at].kind {
                Kind::Chart(_, most) if charts => most,
                Kind::Name(_) | Kind::Words(_) if !charts => natural(*at),
                Kind::Chart(..) | Kind::Name(_) | Kind::Words(_) | Kind::Figure => *cells,
            };
            let more = most.saturating_sub(*cells).min(spare);
            *cells += more;
            spare -= more;
        }
    }
    places
}

fn shorten(kind: Kind, text: &str, cells: usize) -> String {
    match kind {
        Kind::Name(_) => ending(text, cells),
        Kind::Words(_) => beginning(text, cells),
        Kind::Figure | Kind::Chart(..) => text.to_owned(),
    }
}

fn pad(kind: Kind, text: &str, cells: usize) -> String {
    let blank = " ".repeat(cells.saturating_sub(width(text)));
    match kind {
        Kind::Figure => blank + text,
        Kind::Name(_) | Kind::Words(_) | Kind::Chart(..) => text.to_owned() + &blank,
    }
}

const GAP: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(most: usize) -> Vec<String> {
        let columns = [
            Column::name("name", 6),
            Column::figure("calls").leaves(2),
            Column::chart("chart", 4, 8).leaves(1),
            Column::figure("p99"),
        ];
        let row = |name: &str, calls: &str| {
            vec![Cell::text(name), Cell::text(calls), Cell::Bar(0.5, Style::new()), Cell::text("1.5")]
        };
        let lines = grid(&columns, &[row("/a/long/name", "1234567"), row("/b", "2")], Paint::new(false), most);
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn there_is_room_for_all() {
        assert_eq!(
            drawn(60),
            [
                "name            calls  chart     p99",
                "/a/long/name  1234567  ████      1.5",
                "/b                  2  ████      1.5"
            ]
        );
    }

    #[test]
    fn columns_leave_in_their_order_names_are_shortened_and_figures_whole() {
        assert_eq!(drawn(27)[1], "…g/name  1234567  ██    1.5");
        assert_eq!(drawn(21)[1], "…g/name  1234567  1.5");
        assert_eq!(drawn(13)[1], "…ng/name  1.5");
        for most in 11..60 {
            let lines = drawn(most);
            assert!(lines.iter().all(|line| width(line) <= most), "{lines:?}");
            assert!(lines[1].ends_with("1.5"), "{lines:?}");
            assert!(!lines[1].contains("123") || lines[1].contains("1234567"), "{lines:?}");
        }
    }
}
