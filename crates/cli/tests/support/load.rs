//! `midas bench` at work on a proxy, beside the test.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use super::serve::Serve;
use midas_lab::Endpoint;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub(crate) struct Load {
    report: Receiver<String>,
}

impl Load {
    /// Starts it; it ends by itself.
    pub(crate) fn start(proxy: &Serve, options: &str) -> Self {
        let Endpoint { address, nfs_port, mount_port, path } = proxy.endpoint();
        Self::at(&format!("{address}:{nfs_port}{path}?mount={mount_port}"), options)
    }

    /// The same at any target.
    pub(crate) fn at(target: &str, options: &str) -> Self {
        let typed = format!("bench {target} {options} --json");
        let (sender, report) = channel();
        // If it fails its words are in the panic, and nothing is sent.
        thread::spawn(move || sender.send(super::text(&typed)));
        Self { report }
    }

    /// It must still be at work.
    pub(crate) fn goes_on(&self) {
        self.goes_on_for(Duration::ZERO);
    }

    /// Lets that time pass, in which it must be at work.
    pub(crate) fn goes_on_for(&self, time: Duration) {
        let ended = self.report.recv_timeout(time);
        assert_eq!(ended, Err(RecvTimeoutError::Timeout), "the load ended too early");
    }

    /// Waits for its end: the counts, in which no client may have seen an error.
    pub(crate) fn end(self) -> Value {
        self.end_without(&BAD)
    }

    /// The same where the proxy itself was restarted: its clients had to connect anew.
    pub(crate) fn end_of_restarted(self) -> Value {
        self.end_without(&["errors_unexpected", "timeouts", "unmatched", "dropped"])
    }

    fn end_without(self, bad: &[&str]) -> Value {
        let counts = counts(&self.report.recv().unwrap(), bad);
        assert!(counts["answered"].as_u64().unwrap() > 1000, "{counts}");
        counts
    }
}

/// Load that goes on until it is ended, however long that takes: in rounds of a few seconds.
pub(crate) struct Rounds {
    over: Arc<AtomicBool>,
    running: JoinHandle<u64>,
}

impl Rounds {
    /// Starts the first; the options say nothing of its length.
    pub(crate) fn start(proxy: &Serve, options: &str) -> Self {
        let Endpoint { address, nfs_port, mount_port, path } = proxy.endpoint();
        let typed = format!("bench {address}:{nfs_port}{path}?mount={mount_port} {options} --duration {ROUND} --json");
        let over = Arc::<AtomicBool>::default();
        let ended = Arc::clone(&over);
        let running = thread::spawn(move || {
            let mut answered = 0;
            while !ended.load(Ordering::Relaxed) {
                answered += counts(&super::text(&typed), &BAD)["answered"].as_u64().unwrap();
            }
            answered
        });
        Self { over, running }
    }

    /// No round has failed until now.
    pub(crate) fn goes_on(&self) {
        assert!(!self.running.is_finished(), "the load has failed");
    }

    /// Waits for the end of this round. No client may have seen an error.
    pub(crate) fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        assert!(self.running.join().unwrap() > 1000, "there was no load");
    }
}

/// What a report counts; none of these may be there.
fn counts(report: &str, bad: &[&str]) -> Value {
    let report: Value = serde_json::from_str(report).unwrap();
    let arm = &report["cells"][0]["arms"][0];
    let counts = &arm["counts"];
    println!("{counts}");
    for bad in bad {
        assert_eq!(counts[*bad], 0, "{bad}: {counts} {}", arm["errors"]);
    }
    counts.clone()
}

const BAD: [&str; 5] = ["errors_unexpected", "timeouts", "connections_lost", "unmatched", "dropped"];
const ROUND: &str = "4s";
