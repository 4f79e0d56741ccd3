//! The dashboard in a real Chromium: a storm of the demo is seen to rise and to fall, its directory, client and user are named, everything can
//! be clicked; the numbers are those of `midas status --json`; a daemon that ends and comes back is told of. What is looked at is in
//! web/test/browser.mjs; here is the stage.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::{Part, free_port, require};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use support::demo::Demo;
use support::nfsd::Nfsd;
use support::root;
use support::serve::{Serve, Site};
use support::writer::Writer;

#[test]
fn a_browser_sees_a_storm_come_and_go() {
    if !(require(Part::Chromium) && require(Part::Node)) {
        return;
    }
    // The demo never rests. Numbers are compared at a daemon that does, and that has no cluster.
    let nfsd = Nfsd::start(&["--servers", "4"]);
    // Its page will be where it was.
    let more = format!("[admin]\ntcp = \"127.0.0.1:{}\"\n", free_port(Ipv4Addr::LOCALHOST));
    let mut quiet = Site { more, ..Site::of(&nfsd.endpoints()) }.start();
    let _writers = ["a", "b", "c"].map(|name| writer(&quiet, name));
    let demo = Demo::start(ROUND);
    assert_eq!(demo.pages.len(), 2, "one of each proxy");
    let mut node = browser(demo.pages[0], &quiet).stdout(Stdio::piped()).spawn().expect("node runs");
    let mut last = String::new();
    for line in BufReader::new(node.stdout.take().expect("it is piped")).lines().map_while(Result::ok) {
        println!("{line}");
        match line.as_str() {
            END => {
                quiet.signal(Signal::TERM);
                assert!(quiet.ended().0.success(), "it ends as it should");
            }
            AGAIN => quiet.again(),
            _ => {}
        }
        last = line;
    }
    assert!(node.wait().unwrap().success() && last == "browser: all seen", "the last that was said: {last}");
}

#[test]
fn a_page_forgets_what_it_shows_for_another_daemon_and_for_no_clock() {
    if !require(Part::Node) {
        return;
    }
    let seen = Command::new("node").arg("--test").arg(root().join("web/test/store.mjs")).output().expect("node runs");
    assert!(
        seen.status.success(),
        "{}{}",
        String::from_utf8_lossy(&seen.stdout),
        String::from_utf8_lossy(&seen.stderr)
    );
}

/// A client that stays, with a file whose data is not committed.
fn writer(quiet: &Serve, name: &str) -> Writer {
    let mut writer = Writer::create(quiet.client(), name, 1);
    writer.write();
    writer
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
/// What the browser asks for.
const END: &str = "browser: end the daemon";
const AGAIN: &str = "browser: start the daemon again";
