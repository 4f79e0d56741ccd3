//! Put in and take out: a client that mounted a server works on when the server's address moves to `midas serve`, and back.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::{Endpoint, Guest, PATIENCE, Part, Transcript, loopback, require};
use midas_nfs::nfs3::Procedure;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;
use support::counted::Counted;
use support::over::Over;
use support::serve::{Serve, Site};
use support::switch::Switch;

/// Names in the directory that is listed: long ones, so that a listing is many pages.
const LARGE: usize = 6_000;

/// What the address led to, and the calls that it carried there before it moved on.
type Stay = (SocketAddr, BTreeMap<u32, u64>);

#[test]
fn a_mounted_client_works_on_when_its_servers_address_moves_to_the_proxy_and_back() {
    if !(require(Part::Ganesha) && require(Part::KernelClient)) {
        return;
    }
    let heads = Counted::start(3);
    let (transcript, stays) = takes_out(&heads, &site(&heads, Cache::Off), Cache::Off, &["takeout"]);
    transcript.expect_all_ok();
    assert_eq!(stays.len(), 10);
    shows_that_both_were_used(&stays);
}

#[test]
fn it_does_so_with_the_cache_on_and_what_was_changed_past_the_proxy_is_seen_through_it() {
    if !(require(Part::Ganesha) && require(Part::KernelClient)) {
        return;
    }
    let heads = Counted::start(3);
    let proxy = site(&heads, Cache::On);
    let (transcript, stays) = takes_out(&heads, &proxy, Cache::On, &["takeout", "takeout-cached"]);
    transcript.expect_all_ok();
    assert_eq!(stays.len(), 16);
    shows_that_both_were_used(&stays);
    let pages = |(_, calls): &Stay| calls.get(&(Procedure::Readdirplus as u32)).copied().unwrap_or(0);
    let (asked, reached) = (stays.iter().skip(1).step_by(2).map(pages).sum(), heads.calls(&[Procedure::Readdirplus]));
    println!("{asked} pages were asked for through the proxy, {reached} at the servers");
    assert!(reached < asked, "pages came from the cache");
}

/// Why the cache is turned off before: a proxy that is not told goes on answering as it was told to.
#[test]
fn a_cache_that_was_left_on_is_found_out() {
    if !(require(Part::Ganesha) && require(Part::KernelClient)) {
        return;
    }
    let heads = Counted::start(3);
    let proxy = site(&heads, Cache::LeftOn);
    let (transcript, _) = takes_out(&heads, &proxy, Cache::LeftOn, &["takeout-cached"]);
    // Some hits are asked for once more a little later. One of those may see the change before the
    // client asks again: it drops what is old on the way, and the client is told the truth.
    let status: Value = serde_json::from_str(&proxy.command("status --json")).unwrap();
    let different = status["exports"][0]["cache"]["different"].as_u64().unwrap();
    let found = transcript.text.contains("FAIL: takeout-cached.sh: change it while the proxy is out");
    assert!(found || different > 0, "{status} {}", transcript.text);
}

/// What the proxy does while the address leads to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cache {
    /// It does not cache.
    Off,
    /// It caches as long as it is in: docs/operating.md, 'Taking it out with the cache on'.
    On,
    /// It is never told that it is out.
    LeftOn,
}

impl Cache {
    const fn export(self) -> &'static str {
        match self {
            Self::Off => "",
            Self::On => "writers = \"midas-only\"\n",
            Self::LeftOn => "writers = \"midas-only\"\nmode = \"lease\"\nlease_age_max = \"10m\"\n",
        }
    }
}

fn site(heads: &Counted, cache: Cache) -> Serve {
    Site { export: cache.export(), ..heads.site() }.start()
}

/// Runs scenarios that move a server's address to a proxy and back; what they said and where it led, one stay after another.
fn takes_out(heads: &Counted, proxy: &Serve, cache: Cache, scenarios: &[&str]) -> (Transcript, Vec<Stay>) {
    let large = heads.ganesha.export().join("large");
    fs::create_dir(&large).unwrap();
    for number in 1..=LARGE {
        fs::write(large.join(format!("{:a<150}-{number}", "")), "").unwrap();
    }
    let head = &heads.ganesha.heads()[0];
    let address = loopback(1, &[]);
    let direct = SocketAddr::new(head.address.into(), head.nfs_port);
    let switch = Switch::start((address, 0).into(), direct);
    let mover = TcpListener::bind((address, 0)).unwrap();
    let asked = mover.local_addr().unwrap();
    let mounted = Endpoint { address, nfs_port: switch.address.port(), ..head.clone() };
    let guest = Guest::of(&mounted)
        .option(&format!("mountaddr={}", head.address))
        .env("MOVER", &asked.port().to_string())
        .env("LARGE", &LARGE.to_string());
    let guest = scenarios.iter().fold(guest, |guest, scenario| guest.scenario(scenario));
    let (transcript, stays) = thread::scope(|scope| {
        let moves = scope.spawn(|| move_on(&mover, &switch, (direct, proxy), cache));
        let over = Over(asked);
        let transcript = guest.run();
        drop(over);
        (transcript, moves.join().unwrap())
    });
    println!("{} in {:?}", transcript.text, transcript.took);
    for (target, calls) in &stays {
        println!("{target}: {calls:?}");
    }
    (transcript, stays)
}

/// Moves the address from one target to the other whenever it is asked to.
fn move_on(mover: &TcpListener, switch: &Switch, (direct, proxy): (SocketAddr, &Serve), cache: Cache) -> Vec<Stay> {
    let mut stays = Vec::new();
    for asker in mover.incoming() {
        let asker = asker.unwrap();
        let mut how = String::new();
        BufReader::new(&asker).read_line(&mut how).unwrap();
        // Where servers still execute calls that were cut off, nothing may be cached.
        let end = match how.trim() {
            "over" => break,
            "end" => true,
            _ => cache == Cache::On && stays.len() % 2 == 0,
        };
        let mode = |mode| (cache == Cache::On).then(|| proxy.command(&format!("set /scratch mode={mode}")));
        let patience = if end { PATIENCE } else { Duration::ZERO };
        let (from, (answered, calls)) = if stays.len() % 2 == 0 {
            let left = switch.lead_to(proxy.nfs[0], patience);
            mode("lease");
            (direct, left)
        } else {
            mode("strict");
            (proxy.nfs[0], switch.lead_to(direct, patience))
        };
        stays.push((from, calls));
        let said = if answered || !end { "moved" } else { "calls under way were not answered" };
        writeln!(&asker, "{said}").unwrap();
    }
    stays
}

/// Both sides carried writes (the first two stays), changes of names (the fifth and sixth) and pages of the listing (the next four).
fn shows_that_both_were_used(stays: &[Stay]) {
    let carried = |stays: &[Stay], wanted: &[Procedure]| {
        let of = |(_, calls): &Stay| wanted.iter().any(|procedure| calls.contains_key(&(*procedure as u32)));
        assert!(stays.iter().all(of), "{wanted:?}");
    };
    carried(&stays[..2], &[Procedure::Write]);
    for change in [Procedure::Mkdir, Procedure::Rename, Procedure::Link, Procedure::Remove, Procedure::Rmdir] {
        carried(&stays[4..6], &[change]);
    }
    carried(&stays[6..10], &[Procedure::Readdir, Procedure::Readdirplus]);
}
