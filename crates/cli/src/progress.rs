//! Progress of long work: one line that is rewritten, on a terminal only.

use midas_core::time::Span;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Counts parts that are done.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    total: usize,
    done: usize,
    shown: Option<Instant>,
    terminal: bool,
}

impl Progress {
    pub(crate) fn new(what: &'static str, total: usize) -> Self {
        Self { what, total, done: 0, shown: None, terminal: std::io::stderr().is_terminal() }
    }

    /// One more part is done.
    pub(crate) fn step(&mut self, name: &str) {
        self.at(self.done + 1, name);
    }

    /// So many parts are done.
    pub(crate) fn at(&mut self, done: usize, name: &str) {
        self.done = done;
        let due = self.shown.is_none_or(|at| at.elapsed() >= Duration::from_millis(100));
        if self.terminal && (due || self.done == self.total) {
            self.shown = Some(Instant::now());
            eprint!("\r\x1b[K{} {}/{} {name}", self.what, self.done, self.total);
            let _ = std::io::stderr().flush();
        }
    }
}

/// Counts the seconds until the other end of a channel is gone.
pub(crate) fn seconds(name: &str, expected: Span, end: &Receiver<()>) {
    let mut progress = Progress::new("second", expected.as_secs_f64().ceil() as usize);
    while matches!(end.recv_timeout(Duration::from_secs(1)), Err(RecvTimeoutError::Timeout)) {
        progress.step(name);
    }
}

impl Drop for Progress {
    /// Leaves no half line behind.
    fn drop(&mut self) {
        if self.shown.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}
