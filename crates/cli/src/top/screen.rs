//! The whole picture: head, views, keys. It draws into cells, and knows no terminal.

use super::app::{App, Sort, View};
use super::paint::Paint;
use super::spots::{Look, Which};
use super::text::{clean, rate, share, width, wrap};
use super::{cluster, events, exports, servers, spots};
use crate::status::since;
use midas_proxy::api::watch::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use std::time::Duration;

/// As the terminal shows it.
pub(crate) fn draw(app: &mut App, area: Rect, cells: &mut Buffer) {
    let (wide, high) = (usize::from(area.width), usize::from(area.height));
    if wide < LEAST.0 || high < LEAST.1 {
        let small = format!("{} x {} at least", LEAST.0, LEAST.1);
        return put(cells, area, wrap(&small, wide).into_iter().map(Line::raw));
    }
    let mut lines = head(app, wide);
    lines.push(tabs(app));
    let room = high.saturating_sub(lines.len() + 1).max(1);
    let body = body(app, wide, room);
    let hidden = body.len().saturating_sub(room);
    app.scroll = app.scroll.min(hidden);
    lines.extend(body.into_iter().skip(app.scroll).take(room));
    lines.resize(high - 1, Line::default());
    lines.push(foot(app, hidden - app.scroll, wide));
    put(cells, area, lines);
    if app.help {
        help(area, cells);
    }
}

/// As text shows it: without what is for keys.
pub(crate) fn print(app: &mut App, area: Rect, cells: &mut Buffer) {
    let (wide, high) = (usize::from(area.width), usize::from(area.height));
    let mut lines = head(app, wide);
    lines.push(Line::default());
    let room = high.saturating_sub(lines.len()).max(2);
    let mut body = body(app, wide, room);
    if body.len() > room {
        let more = body.len() + 1 - room;
        body.truncate(room - 1);
        body.push(Line::styled(format!("{more} more: --height"), app.paint.dim()));
    }
    lines.extend(body);
    put(cells, area, lines);
}

fn put(cells: &mut Buffer, area: Rect, lines: impl IntoIterator<Item = Line<'static>>) {
    for (y, line) in (area.y..area.bottom()).zip(lines) {
        cells.set_line(area.x, y, &line, area.width);
    }
}

/// How the daemon is, in words that flow over as many lines as they need; then what is wrong, each in a line.
fn head(app: &App, wide: usize) -> Vec<Line<'static>> {
    let alarms = alarms(app).into_iter().map(|(text, style)| {
        // The first line of a long reason is enough here: `midas status` has the rest.
        Line::styled(super::text::beginning(&clean(&text), wide), style)
    });
    let Some(frame) = &app.world().frame else {
        let waiting = format!("midas top: waiting for the first frame from {}", clean(&app.source));
        return wrap(&waiting, wide).into_iter().map(Line::raw).chain(alarms).collect();
    };
    let mut lines: Vec<Line<'static>> = vec![Line::default()];
    for part in parts(app, frame) {
        let taken = lines.last().map_or(0, Line::width);
        if taken > 0 && taken + GAP + part.width() > wide {
            lines.push(Line::default());
        }
        let last = lines.last_mut().expect("there is one from the start");
        if last.width() > 0 {
            last.push_span(Span::raw(" ".repeat(GAP)));
        }
        last.push_span(part);
    }
    lines.into_iter().chain(alarms).collect()
}

fn parts(app: &App, frame: &Frame) -> Vec<Span<'static>> {
    let (status, point, paint) = (&frame.status, &frame.point, app.paint);
    let ready = match status.not_ready.is_empty() {
        true => Span::styled("ready", paint.good()),
        false => Span::styled("NOT READY", paint.bad()),
    };
    let mut parts = vec![
        Span::styled(format!("midas {}", clean(&status.version)), paint.head()),
        ready,
        Span::raw(format!("up {}", since(Duration::from_secs(status.uptime_seconds)))),
        Span::raw(format!("{} calls/s", rate(point.procedures.values().sum()))),
        Span::raw(format!("{} clients", status.clients)),
        Span::styled(format!("{} held", status.held), if status.held > 0 { paint.warn() } else { Style::new() }),
        Span::raw(format!("{} calls answered", status.calls)),
    ];
    let all: f64 = point.outcomes.values().sum();
    let hits: f64 = ["hit", "absent", "joined"].iter().filter_map(|outcome| point.outcomes.get(*outcome)).sum();
    if all > 0.0 {
        parts.push(Span::raw(format!("{} from caches", share(hits / all))));
    }
    parts
}

fn alarms(app: &App) -> Vec<(String, Style)> {
    let paint = app.paint;
    let mut alarms = Vec::new();
    if let Some((why, again)) = app.gone() {
        let again = again.as_secs_f64();
        alarms.push((format!("the daemon is gone: asked again every {again:.1} s ({why})"), paint.bad()));
    }
    if app.paused() {
        alarms.push(("paused: p goes on".to_owned(), paint.warn()));
    }
    let Some(frame) = &app.world().frame else { return alarms };
    let status = &frame.status;
    if status.bypass {
        alarms.push(("bypass is on: every call goes to its home (`midas bypass off`)".to_owned(), paint.warn()));
    }
    if let Some(cluster) = frame.cluster.as_ref().filter(|cluster| cluster.cut_off) {
        alarms.push((
            format!("{} {}", clean(&cluster.me), crate::cluster::does(None, true, cluster.in_view)),
            paint.bad(),
        ));
    }
    let reasons = status.not_ready.iter().map(|why| (format!("not ready: {why}"), paint.bad()));
    let demoted = status.exports.iter().filter_map(|export| {
        let why = export.cache.demoted.as_ref()?;
        Some((format!("{}: its cache is put back to strict: {why}", export.path), paint.bad()))
    });
    let all: Vec<(String, Style)> = reasons.chain(demoted).collect();
    let more = all.len().saturating_sub(ALARMS);
    alarms.extend(all.into_iter().take(ALARMS));
    if more > 0 {
        alarms.push((format!("and {more} more (`midas status`)"), paint.bad()));
    }
    alarms
}

fn tabs(app: &App) -> Line<'static> {
    let tab = |(at, view): (usize, &View)| {
        let style = if *view == app.view { Paint::chosen() } else { app.paint.dim() };
        // Brackets show the choice where nothing is reversed either.
        let text = match *view == app.view {
            true => format!("[{} {}]", at + 1, view.name()),
            false => format!(" {} {} ", at + 1, view.name()),
        };
        Span::styled(text, style)
    };
    Line::from(View::ALL.iter().enumerate().map(tab).collect::<Vec<_>>())
}

fn foot(app: &App, below: usize, wide: usize) -> Line<'static> {
    let sorted = if app.sort == Sort::Calls { "calls" } else { "time" };
    let keys = format!("q quit  ? keys  1-5 views  c/t sorted by {sorted}  p pause");
    let more = if below > 0 { format!("{below} more below") } else { String::new() };
    let blank = wide.saturating_sub(width(&keys) + width(&more));
    match blank {
        0 | 1 => Line::styled(if more.is_empty() { keys } else { more }, app.paint.dim()),
        blank => Line::styled(format!("{keys}{}{more}", " ".repeat(blank)), app.paint.dim()),
    }
}

/// All lines of a view; `room` is how many can be seen at once.
fn body(app: &App, wide: usize, room: usize) -> Vec<Line<'static>> {
    let world = app.world();
    let Some(frame) = &world.frame else { return Vec::new() };
    match app.view {
        View::Servers => overview(app, frame, wide, room),
        View::Hot => hot(app, frame, wide),
        View::Exports => exports::lines(frame, app.paint, wide),
        View::Events => events::lines(&world.log, app.paint, wide),
        View::Cluster => cluster::lines(frame.cluster.as_ref(), app.paint, wide),
    }
}

/// Servers; below, as much of the rest as there is room for.
fn overview(app: &App, frame: &Frame, wide: usize, room: usize) -> Vec<Line<'static>> {
    let mut lines = servers::lines(app.world(), frame, app.paint, wide);
    lines.push(Line::default());
    let rest = room.saturating_sub(lines.len());
    let look = Look { sort: app.sort, paint: app.paint, width: wide, most: 0 };
    if wide >= SIDE_BY_SIDE {
        let most = (rest / 2).clamp(5, 15);
        let (left, middle) = (wide * 4 / 10, wide * 3 / 10);
        let part = |which, width| spots::lines(which, &frame.hot, Look { width, most, ..look });
        let columns = [
            (part(Which::Directories, left - GAP), left),
            (part(Which::Clients, middle - GAP), middle),
            (part(Which::Users, wide - left - middle), 0),
        ];
        lines.extend(beside(&columns));
    } else {
        let rows = rest.saturating_sub(3);
        let directories = rows.div_ceil(2).clamp(3, 10);
        let clients = rows.saturating_sub(directories).div_ceil(2).clamp(2, 10);
        let users = rows.saturating_sub(directories + clients).clamp(2, 10);
        for (which, most) in [(Which::Directories, directories), (Which::Clients, clients), (Which::Users, users)] {
            lines.extend(spots::lines(which, &frame.hot, Look { most, ..look }));
        }
    }
    if room > lines.len() + 3 {
        lines.push(Line::default());
        let left = room - lines.len();
        lines.extend(events::lines(&app.world().log, app.paint, wide).into_iter().take(left));
    }
    lines
}

fn hot(app: &App, frame: &Frame, wide: usize) -> Vec<Line<'static>> {
    let look = Look { sort: app.sort, paint: app.paint, width: wide, most: usize::MAX };
    let total = format!(
        "{} calls in {:.1} s, {:.1} ms of the servers' time",
        frame.hot.calls, frame.hot.seconds, frame.hot.server_ms
    );
    let mut lines = vec![Line::raw(total)];
    for which in [Which::Directories, Which::Clients, Which::Users] {
        lines.push(Line::default());
        lines.extend(spots::lines(which, &frame.hot, look));
    }
    lines
}

/// Blocks of lines side by side, each beginning so many cells behind the one before.
fn beside(blocks: &[(Vec<Line<'static>>, usize)]) -> Vec<Line<'static>> {
    let high = blocks.iter().map(|(lines, _)| lines.len()).max().unwrap_or_default();
    let row = |at: usize| {
        let mut spans = Vec::new();
        for (lines, cells) in blocks {
            let line = lines.get(at).cloned().unwrap_or_default();
            let blank = cells.saturating_sub(line.width());
            spans.extend(line.spans);
            spans.push(Span::raw(" ".repeat(blank)));
        }
        Line::from(spans)
    };
    (0..high).map(row).collect()
}

fn help(area: Rect, cells: &mut Buffer) {
    let wide = KEYS.iter().map(|line| width(line)).max().unwrap_or_default() as u16 + 4;
    let (wide, high) = (wide.min(area.width), (KEYS.len() as u16).min(area.height));
    let corner = (area.x + (area.width - wide) / 2, area.y + (area.height - high) / 2);
    let over = Rect::new(corner.0, corner.1, wide, high);
    let line = |text: &&str| {
        let blank = usize::from(wide).saturating_sub(width(text) + 2);
        Line::styled(format!("  {text}{}", " ".repeat(blank)), Paint::chosen())
    };
    put(cells, over, KEYS.iter().map(line));
}

const GAP: usize = 2;
/// Columns and rows without which nothing can be said.
const LEAST: (usize, usize) = (40, 10);
/// From here on hot spots stand beside each other.
const SIDE_BY_SIDE: usize = 140;
/// Reasons that are shown at once.
const ALARMS: usize = 3;
const KEYS: [&str; 12] = [
    "",
    "1..5, Tab       servers, hot, exports, events, cluster",
    "c, t            sort hot spots by calls, by the servers' time",
    "p               pause, and go on",
    "arrows, j k     scroll; Page Up and Down, Home, End",
    "?               these keys",
    "q, Esc, Ctrl-C  end",
    "",
    "queue: calls under way there; bar and course: the same",
    "held: calls that wait for a server that may serve them",
    "error: by how much a count may be too high",
    "",
];
