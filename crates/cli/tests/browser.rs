//! The dashboard in a real Chromium: a storm is seen to rise and to fall, the storm's directory and client are named, everything can be clicked, and
//! the numbers are those of `midas status --json`. What is looked at is in web/test/browser.mjs; here is the stage.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::{Part, require};
use std::process::Command;
use support::nfsd::Nfsd;
use support::root;
use support::serve::{Serve, Site};

#[test]
fn a_browser_sees_a_storm_come_and_go() {
    if !(require(Part::Chromium) && require(Part::Node)) {
        return;
    }
    let nfsd = Nfsd::start(&["--servers", "4", "--service", "const:2ms"]);
    let more = "[admin]\ntcp = \"127.0.0.1:0\"\n".to_owned();
    let daemon = Site { more, ..Site::of(&nfsd.endpoints()) }.start();
    let seen = browser(&daemon).output().expect("node runs");
    let said = String::from_utf8_lossy(&seen.stdout);
    println!("{said}");
    assert!(seen.status.success(), "{said}\n{}", String::from_utf8_lossy(&seen.stderr));
    assert!(said.contains("browser: all seen"), "{said}");
}

/// What it needs to know of the stage. `MIDAS_SHOTS`, if it is set, goes through: screenshots are put there.
fn browser(daemon: &Serve) -> Command {
    let web = root().join("web");
    let endpoint = daemon.endpoint();
    let mut command = Command::new("node");
    command
        .arg(web.join("test/browser.mjs"))
        .env("MIDAS", env!("CARGO_BIN_EXE_midas"))
        .env("MIDAS_PAGE", format!("http://{}/", daemon.admin.expect("it was asked for")))
        .env("MIDAS_SOCKET", daemon.socket())
        .env("MIDAS_TARGET", format!("{}{}?mount={}", daemon.nfs[0], endpoint.path, endpoint.mount_port));
    command
}
