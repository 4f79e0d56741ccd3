//! What it costs to know a call by all of its bytes: `cargo run --release -p midas-net --example digest`.

use midas_net::{CallId, RecordKey};
use midas_nfs::nfs3::Procedure;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

fn main() {
    let (key, client) = (RecordKey::random(), IpAddr::V4(Ipv4Addr::LOCALHOST));
    for (what, procedure, bytes, rounds) in [
        ("CREATE of 200 bytes", Procedure::Create, 200, 1_000_000),
        ("CREATE of 4 KiB", Procedure::Create, 4 << 10, 200_000),
        ("WRITE of 1 MiB", Procedure::Write, (1 << 20) + 200, 1000),
    ] {
        let record: Vec<u8> = (0..bytes).map(|number| number as u8).collect();
        let round = |_| {
            let _id = black_box(CallId::new(&key, client, procedure, black_box(&record)));
        };
        (0..rounds / 10).for_each(round);
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let start = Instant::now();
            (0..rounds / 5).for_each(round);
            best = best.min(start.elapsed().as_secs_f64() / f64::from(rounds / 5));
        }
        println!("{what}: {:.2} us", best * 1e6);
    }
}
