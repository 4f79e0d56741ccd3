//! A running `midas demo` that goes on and on, ended with its value.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use super::lines::Lines;
use midas_lab::Scratch;
use rustix::process::{Pid, Signal, kill_process};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

pub(crate) struct Demo {
    child: Child,
    /// Where its proxies show themselves.
    pub(crate) pages: Vec<SocketAddr>,
    _scratch: Scratch,
}

impl Demo {
    /// Returns when it has said where its dashboards are; a round of all policies takes about so many seconds.
    pub(crate) fn start(seconds: u32) -> Self {
        let scratch = Scratch::new();
        let mut child = Command::new(env!("CARGO_BIN_EXE_midas"))
            .args(["demo", "--headless", "--keep", "--seconds", &seconds.to_string()])
            .env("TMPDIR", scratch.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let lines = Lines::of(child.stdout.take().expect("it is piped"));
        let said = lines.wait("dashboard: http://", 1);
        let pages = said.split("http://").skip(1).map(|page| page.split('/').next().unwrap().parse().unwrap());
        Self { pages: pages.collect(), child, _scratch: scratch }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It cleans up: first it is asked to end.
        let _asked = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _status = self.child.wait();
    }
}
