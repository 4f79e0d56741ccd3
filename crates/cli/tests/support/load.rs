//! `midas bench` at work on a proxy, beside the test.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use super::serve::Serve;
use midas_lab::Endpoint;
use serde_json::Value;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
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
        self.end_without(&["errors_unexpected", "timeouts", "connections_lost", "unmatched", "dropped"])
    }

    /// The same where the proxy itself was restarted: its clients had to connect anew.
    pub(crate) fn end_of_restarted(self) -> Value {
        self.end_without(&["errors_unexpected", "timeouts", "unmatched", "dropped"])
    }

    fn end_without(self, bad: &[&str]) -> Value {
        let report: Value = serde_json::from_str(&self.report.recv().unwrap()).unwrap();
        let arm = &report["cells"][0]["arms"][0];
        let counts = &arm["counts"];
        println!("{counts}");
        assert!(counts["answered"].as_u64().unwrap() > 1000, "{counts}");
        for bad in bad {
            assert_eq!(counts[*bad], 0, "{bad}: {counts} {}", arm["errors"]);
        }
        counts.clone()
    }
}
