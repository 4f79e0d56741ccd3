//! What a run is at: one line on a terminal that is rewritten, or a line now and then where that was asked for.

use midas_bench::{Doing, Event, Pace};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Tells people how a run is doing.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Between two lines.
    interval: Option<Duration>,
    terminal: bool,
    shown: Option<Instant>,
    /// The slice that was last told of, with its calls by then and when.
    before: (u32, u64, f64),
}

impl Watch {
    /// A line every `interval`, also where stderr is no terminal.
    pub(crate) fn new(interval: Option<Duration>) -> Self {
        Self { interval, terminal: std::io::stderr().is_terminal(), shown: None, before: (0, 0, 0.0) }
    }

    pub(crate) fn see(&mut self, event: &Event<'_>) {
        let every = match (self.interval, self.terminal) {
            (Some(interval), _) => interval,
            (None, true) => REWRITE,
            (None, false) => return,
        };
        if self.shown.is_some_and(|at| at.elapsed() < every) {
            return;
        }
        self.shown = Some(Instant::now());
        let line = self.line(event);
        match self.interval {
            Some(_) => eprintln!("{line}"),
            None => eprint!("\r\x1b[K{line}"),
        }
        let _ = std::io::stderr().flush();
    }

    fn line(&mut self, event: &Event<'_>) -> String {
        match event {
            Event::Names { target, what, done, total: 0 } => format!("{target}: {what} {done}"),
            Event::Names { target, what, done, total } => format!("{target}: {what} {done}/{total}"),
            Event::Slice { target, cell, number: (number, total), doing } => {
                let Doing { seconds, ended, failed, dropped, reconnects } = *doing;
                let (same, calls, at) = self.before;
                let (calls, at) = if same == *number { (calls, at) } else { (0, 0.0) };
                self.before = (*number, ended, seconds);
                let rate = (ended.saturating_sub(calls)) as f64 / (seconds - at).max(1e-3);
                let pace = match cell.pace {
                    Pace::Closed { depth } => format!("depth {depth}"),
                    Pace::Open { rate, .. } => format!("{rate}/s"),
                };
                format!(
                    "{target}: {} {pace}, slice {number}/{total}, {seconds:.1} s, {rate:.0} calls/s, {failed} failed, \
                     {dropped} dropped, {reconnects} reconnects",
                    cell.load
                )
            }
        }
    }
}

impl Drop for Watch {
    /// Leaves no half line behind.
    fn drop(&mut self) {
        if self.shown.is_some() && self.interval.is_none() {
            eprint!("\r\x1b[K");
        }
    }
}

const REWRITE: Duration = Duration::from_millis(200);
