//! The dashboard in a real Chromium: a storm of the demo is seen to rise and to fall, its directory, client and user are named, everything can
//! be clicked; and the numbers are those of `midas status --json`. What is looked at is in web/test/browser.mjs; here is the stage.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::{Part, require};
use std::net::SocketAddr;
use std::process::Command;
use support::demo::Demo;
use support::nfsd::Nfsd;
use support::root;
use support::serve::{Serve, Site};

#[test]
fn a_browser_sees_a_storm_come_and_go() {
    if !(require(Part::Chromium) && require(Part::Node)) {
        return;
    }
    // The demo never rests. Numbers are compared at a daemon that does, and that has no cluster.
    let nfsd = Nfsd::start(&["--servers", "4"]);
    let more = "[admin]\ntcp = \"127.0.0.1:0\"\n".to_owned();
    let quiet = Site { more, ..Site::of(&nfsd.endpoints()) }.start();
    let demo = Demo::start(ROUND);
    assert_eq!(demo.pages.len(), 2, "one of each proxy");
    let seen = browser(demo.pages[0], &quiet).output().expect("node runs");
    let said = String::from_utf8_lossy(&seen.stdout);
    println!("{said}");
    assert!(seen.status.success(), "{said}\n{}", String::from_utf8_lossy(&seen.stderr));
    assert!(said.contains("browser: all seen"), "{said}");
}

/// What it needs to know of the stage. `MIDAS_SHOTS`, if it is set, goes through: screenshots are put there.
fn browser(demo: SocketAddr, quiet: &Serve) -> Command {
    let web = root().join("web");
    let endpoint = quiet.endpoint();
    let mut command = Command::new("node");
    command
        .arg(web.join("test/browser.mjs"))
        .env("MIDAS", env!("CARGO_BIN_EXE_midas"))
        .env("MIDAS_PAGE", format!("http://{demo}/"))
        .env("MIDAS_QUIET", format!("http://{}/", quiet.admin.expect("it was asked for")))
        .env("MIDAS_SOCKET", quiet.socket())
        .env("MIDAS_TARGET", format!("{}{}?mount={}", quiet.nfs[0], endpoint.path, endpoint.mount_port));
    command
}

/// Seconds of a round of the demo: well within the browser's patience, which then sees a storm under every policy.
const ROUND: u32 = 30;
