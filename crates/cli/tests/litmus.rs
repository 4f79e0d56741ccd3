//! Close-to-open under the Linux kernel's client, with the cache on.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::{Ganesha, Guest, Part, require};
use midas_nfs::nfs3::Procedure;
use std::fs;
use std::time::Duration;
use support::counted::{CACHED, Counted};
use support::serve::Site;

/// Of writing on one mount and opening on the other.
const ROUNDS: usize = 200;
/// Under emulation, beside other tests.
const LIMIT: Duration = Duration::from_secs(900);

const EXPORT: &str = "mode = \"lease\"\nwriters = \"midas-only\"\n";

#[test]
fn what_was_closed_on_one_mount_is_opened_on_another_with_the_cache_on() {
    if !(require(Part::Ganesha) && require(Part::KernelClient)) {
        return;
    }
    let heads = Counted::start(3);
    let proxy = Site { export: EXPORT, ..heads.site() }.start();
    let guest = Guest::of(&proxy.endpoint()).env("ROUNDS", &ROUNDS.to_string()).scenario("litmus").limit(LIMIT);
    let transcript = guest.run();
    println!("{} in {:?}", transcript.text, transcript.took);
    transcript.expect_all_ok();
    assert_eq!(fs::read_dir(heads.ganesha.export()).unwrap().count(), 0, "the scenario removes what it made");
    let (sent, reached) = (transcript.figures("sent"), heads.calls(&[&CACHED[..], &[Procedure::Getattr]].concat()));
    println!("of {sent:?} calls of the client that ask {reached} reached the servers");
    assert!(sent.len() == 2 && reached * 10 < sent.iter().sum::<u64>() * 9, "the cache answered");
}

/// A litmus test that nothing fails shows nothing.
#[test]
fn the_litmus_test_finds_a_writer_past_the_proxy() {
    if !(require(Part::Ganesha) && require(Part::KernelClient)) {
        return;
    }
    let ganesha = Ganesha::start(3, 0);
    let proxy = Site { export: EXPORT, ..Site::of(ganesha.heads()) }.start();
    let head = &ganesha.heads()[0];
    let guest = Guest::of(&proxy.endpoint())
        .env("ROUNDS", &ROUNDS.to_string())
        .env("PAST_SERVER", &head.address.to_string())
        .env("PAST_PORT", &head.nfs_port.to_string())
        .env("PAST_MOUNT_PORT", &head.mount_port.to_string())
        .env("PAST_PATH", &head.path);
    let transcript = guest.scenario("litmus").run();
    println!("{} in {:?}", transcript.text, transcript.took);
    assert!(transcript.text.contains("FAIL: litmus.sh: round "), "it saw nothing:\n{}", transcript.text);
}
