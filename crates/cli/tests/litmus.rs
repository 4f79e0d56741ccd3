//! Close-to-open under the Linux kernel's client, with the cache on.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::{Guest, Part, require};
use std::fs;
use std::time::Duration;
use support::counted::Counted;
use support::serve::Site;

/// Of writing on one mount and opening on the other.
const ROUNDS: usize = 200;
/// Under emulation, beside other tests.
const LIMIT: Duration = Duration::from_secs(900);

#[test]
fn what_was_closed_on_one_mount_is_opened_on_another_with_the_cache_on() {
    if !(require(Part::Ganesha) && require(Part::KernelClient)) {
        return;
    }
    let heads = Counted::start(3);
    let export = "mode = \"lease\"\nwriters = \"midas-only\"\n";
    let proxy = Site { export, ..heads.site() }.start();
    let guest = Guest::of(&proxy.endpoint()).env("ROUNDS", &ROUNDS.to_string()).scenario("litmus").limit(LIMIT);
    let transcript = guest.run();
    println!("{} in {:?}", transcript.text, transcript.took);
    for count in &heads.counts {
        println!("{}: {:?}", count.address, count.calls());
    }
    transcript.expect_all_ok();
    assert_eq!(fs::read_dir(heads.ganesha.export()).unwrap().count(), 0, "the scenario removes what it made");
}
