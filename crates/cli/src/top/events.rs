//! The log: what was done and decided, and why. The newest is the first.

use super::paint::Paint;
use super::text::{clean, wrap};
use midas_proxy::api::watch::Event;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use std::collections::VecDeque;

/// Every event, in as many lines as it needs.
pub(crate) fn lines(log: &VecDeque<Event>, paint: Paint, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled("events, newest first", paint.head())];
    if log.is_empty() {
        lines.push(Line::styled("  nothing was decided or done yet that is worth a line", paint.dim()));
    }
    lines.extend(log.iter().rev().flat_map(|event| of(event, paint, width)));
    lines
}

fn of(event: &Event, paint: Paint, width: usize) -> Vec<Line<'static>> {
    let Event { about, what, why, .. } = event;
    let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
    let said = wrap(&clean(&format!("{about}: {what}{why}")), width.saturating_sub(INDENT));
    let front = format!("{:>10}  {:8}  ", clock(event.uptime_ms), clean(&event.kind));
    let line = |(at, text): (usize, String)| match at {
        0 => Line::from(vec![Span::styled(front.clone(), style(&event.kind, paint)), Span::raw(text)]),
        _ => Line::raw(format!("{}{text}", " ".repeat(INDENT))),
    };
    said.into_iter().enumerate().map(line).collect()
}

fn style(kind: &str, paint: Paint) -> Style {
    match kind {
        "health" | "cluster" => paint.warn(),
        "change" => paint.head(),
        "decision" => paint.dim(),
        _ => paint.good(),
    }
}

/// Since the daemon's start.
fn clock(uptime_ms: u64) -> String {
    let seconds = uptime_ms / 1000;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

const INDENT: usize = 22;
