//! Events that the simulator plays in a second on one core.

#[path = "../../core/benches/operations/drive.rs"]
mod drive;

use drive::Operation;
use midas_core::time::Span;
use midas_sim::config::Config;
use midas_sim::policy::Contender;
use midas_workload::Spec;
use std::hint::black_box;

fn main() {
    let worlds = [("uniform", 8), ("zipf:1.1", 64)];
    let policies = ["first-fit", "paper", "hash-directory"];
    let operations: Vec<Operation> = worlds
        .into_iter()
        .flat_map(|(workload, servers)| policies.into_iter().map(move |policy| world(policy, workload, servers)))
        .collect();
    drive::drive(&operations);
}

/// One unit is one event; what a world takes to be built counts too.
fn world(policy: &str, workload: &str, servers: u32) -> Operation {
    let contender = Contender::parse(policy).expect("a policy of that name");
    let workload = Spec::parse(workload).expect("a workload of that name");
    let name = format!("simulator event {policy}, {workload}");
    let config =
        Config { servers, duration: Span::from_secs(4_000 / u64::from(servers)), ..Config::new(contender, workload) };
    let counted = config.clone();
    Operation {
        name,
        size: servers as usize,
        units: Box::new(move || midas_sim::run(&counted).expect("no invariant is broken").row.events),
        samples: 10,
        target: Some(EVENT_TARGET),
        prepare: Box::new(move || {
            let config = config.clone();
            Box::new(move |times| (0..times).for_each(|_| drop(black_box(midas_sim::run(&config)))))
        }),
    }
}

/// Two million events a second.
const EVENT_TARGET: u64 = 500;
