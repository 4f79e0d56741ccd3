//! The lines that a process says: a thread reads them as they come, and wakes whoever waits for one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use midas_lab::PATIENCE;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

pub(crate) struct Lines(Arc<(Mutex<Said>, Condvar)>);

#[derive(Default)]
struct Said {
    lines: Vec<String>,
    ended: bool,
}

impl Lines {
    pub(crate) fn of(pipe: impl Read + Send + 'static) -> Self {
        let lines = Self(Arc::default());
        let shared = Arc::clone(&lines.0);
        thread::spawn(move || {
            let (said, news) = &*shared;
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                said.lock().unwrap().lines.push(line);
                news.notify_all();
            }
            said.lock().unwrap().ended = true;
            news.notify_all();
        });
        lines
    }

    /// Waits until something was said so many times; the line that said it the last of these times.
    pub(crate) fn wait(&self, what: &str, times: usize) -> String {
        let (said, news) = &*self.0;
        let found = |said: &Said| said.lines.iter().filter(|line| line.contains(what)).nth(times - 1).cloned();
        let waits = |said: &mut Said| !said.ended && found(said).is_none();
        let (said, _) = news.wait_timeout_while(said.lock().unwrap(), PATIENCE, waits).unwrap();
        let (found, all) = (found(&said), said.lines.join("\n"));
        drop(said);
        found.unwrap_or_else(|| panic!("'{what}' was not said {times} times in:\n{all}"))
    }

    /// All that was said until now.
    pub(crate) fn all(&self) -> String {
        self.0.0.lock().unwrap().lines.join("\n")
    }
}
