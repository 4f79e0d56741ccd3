//! The demo on the terminal: a line a phase while it runs, a summary, or one JSON object.

use super::arm::Arm;
use super::figures::{Figures, fall};
use super::phase::Phase;
use super::site::{CAPACITY, PROXIES, SERVERS, Site, TARGETS};
use crate::sim::table::Table;
use midas_core::route::policy::Policy;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// What one policy made of the calls, phase by phase.
pub(super) struct Played {
    pub(super) arm: Arm,
    pub(super) phases: Vec<Figures>,
}

impl Played {
    fn storm(&self) -> &Figures {
        let at = Phase::ALL.iter().position(|phase| *phase == Phase::Storm);
        &self.phases[at.expect("the storm is a phase")]
    }

    pub(super) fn total(&self) -> Figures {
        Figures::total(&self.phases)
    }

    fn json(&self) -> Value {
        let phase = |(phase, figures): (&Phase, &Figures)| {
            let mut value = figures.json();
            value["phase"] = json!(phase.name());
            value
        };
        let phases: Vec<Value> = Phase::ALL.iter().zip(&self.phases).map(phase).collect();
        let Arm { policy, cache } = self.arm;
        let (policy, total) = (policy.to_string(), self.total().json());
        json!({ "arm": self.arm.to_string(), "policy": policy, "cache": cache, "phases": phases, "total": total })
    }
}

/// What is said at the start, but for the pages.
pub(super) fn opening(calls: usize, seed: u64) -> String {
    let each = CAPACITY / SERVERS as f64;
    let phases = Phase::ALL.map(|phase| format!("{} ({:.0} %)", phase.name(), phase.load() * 100.0));
    format!(
        "{SERVERS} servers of {each:.0} calls a second over one namespace, {PROXIES} proxies in front of them, all in this process.\n\
         The same {calls} calls for every policy (seed {seed}): {} of what the servers can do.\n\
         Half of the storm is one directory, /project, and one client.\n",
        phases.join(", "),
    )
}

/// The head of the lines that come while it runs.
pub(super) fn head() -> String {
    line(["policy", "phase", "calls", "worst queue", "p99 servers", "p99 clients", "at servers", "errors"])
}

/// One phase of one policy, done.
pub(super) fn row(arm: Arm, phase: Phase, figures: &Figures) -> String {
    line([
        &arm.to_string(),
        phase.name(),
        &figures.offered.to_string(),
        &figures.servers.worst_queue.to_string(),
        &format!("{:.1} ms", figures.server_p99()),
        &format!("{:.1} ms", figures.client_p99()),
        &figures.executed().to_string(),
        &figures.errors.to_string(),
    ])
}

/// Widths are fixed: nobody knows the next line yet.
fn line([policy, phase, calls, queue, servers, clients, executed, errors]: [&str; 8]) -> String {
    format!(
        "{policy:<15}  {phase:<10}  {calls:>6}  {queue:>11}  {servers:>11}  {clients:>11}  {executed:>10}  {errors:>6}\n"
    )
}

/// Figures of all policies, and what became of the storm.
pub(super) fn summary(all: &[Played]) -> String {
    let of = |figures: fn(&Played) -> Figures| {
        let heads = ["", "policy", "worst queue", "p99 ms servers", "p99 ms clients", "calls at servers", "errors"];
        let mut table = Table::new(&heads);
        for played in all {
            let figures = figures(played);
            let by_server: Vec<String> = figures.servers.executed.iter().map(ToString::to_string).collect();
            table.row(vec![
                played.arm.title().to_owned(),
                played.arm.to_string(),
                figures.servers.worst_queue.to_string(),
                format!("{:.1}", figures.server_p99()),
                format!("{:.1}", figures.client_p99()),
                format!("{} ({})", figures.executed(), by_server.join(" ")),
                figures.errors.to_string(),
            ]);
        }
        table.show(2)
    };
    let (storm, total) = (of(|played| played.storm().clone()), of(Played::total));
    let claim = Claim::of(all).map_or_else(String::new, |claim| format!("\n{}", claim.text()));
    format!("The storm:\n{storm}\nAll phases:\n{total}{}{claim}", of_paper(all))
}

/// What must be known of the paper's figures.
fn of_paper(all: &[Played]) -> String {
    let (imbalance, p99_ns, _) = TARGETS;
    let p99 = p99_ns / 1_000_000;
    match all.iter().any(|played| matches!(played.arm.policy, Policy::Paper(_))) {
        true => format!(
            "paper: its targets were given (imbalance {imbalance}, p99 {p99} ms), as a state file has them; a warm-up of its own takes a quiet minute.\n"
        ),
        false => String::new(),
    }
}

/// Everything as one object.
pub(super) fn report(site: &Site, (seed, seconds): (u64, f64), calls: usize, all: &[Played]) -> Value {
    json!({
        "seed": seed,
        "seconds": seconds,
        "servers": SERVERS,
        "proxies": PROXIES,
        "pages": site.pages(),
        "calls": calls,
        "paper_targets": "given",
        "arms": all.iter().map(Played::json).collect::<Vec<_>>(),
        "storm": Claim::of(all).map(|claim| claim.json()),
    })
}

/// The storm without MIDAS and with it, without the cache.
struct Claim {
    queue: (f64, f64),
    p99: (f64, f64),
}

impl Claim {
    fn of(all: &[Played]) -> Option<Self> {
        let storm = |arm: Arm| all.iter().find(|played| played.arm == arm).map(Played::storm);
        let (placed, midas) = (storm(Arm::PLACED)?, storm(Arm::MIDAS)?);
        let queue = |figures: &Figures| figures.servers.worst_queue as f64;
        Some(Self { queue: (queue(placed), queue(midas)), p99: (placed.server_p99(), midas.server_p99()) })
    }

    fn falls(&self) -> (f64, f64) {
        (fall(self.queue.0, self.queue.1), fall(self.p99.0, self.p99.1))
    }

    fn json(&self) -> Value {
        let (queue, p99) = self.falls();
        json!({ "worst_queue_fell": queue, "server_p99_fell": p99, "halved": queue >= 0.5 && p99 >= 0.5 })
    }

    fn text(&self) -> String {
        let (queue, p99) = self.falls();
        format!(
            "The storm, static placement -> MIDAS without cache: worst queue {} -> {} ({:+.0} %), p99 at the servers {:.0} -> {:.0} ms ({:+.0} %).\n",
            self.queue.0,
            self.queue.1,
            -queue * 100.0,
            self.p99.0,
            self.p99.1,
            -p99 * 100.0,
        )
    }
}

/// One line that is rewritten while a phase runs, on a terminal only.
pub(super) struct Ticker {
    on: bool,
    start: Instant,
    shown: bool,
}

impl Ticker {
    pub(super) fn new(wanted: bool) -> Self {
        Self { on: wanted && std::io::stderr().is_terminal(), start: Instant::now(), shown: false }
    }

    pub(super) fn tick(&mut self, arm: Arm, phase: Phase, site: &Site) {
        if self.on {
            self.shown = true;
            let queues: Vec<String> = site.queues().iter().map(ToString::to_string).collect();
            let (seconds, queues) = (self.start.elapsed().as_secs_f64(), queues.join(" "));
            eprint!("\r\x1b[K{arm:<15}  {:<10}  {seconds:.1} s  queues: {queues}", phase.name());
            let _ = std::io::stderr().flush();
        }
    }
}

impl Drop for Ticker {
    /// Leaves no half line behind.
    fn drop(&mut self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}

/// How often the line is rewritten.
pub(super) const TICK: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::figures::Servers;

    fn played(arm: Arm, worst_queue: usize, p99: u64) -> Played {
        let storm = Figures {
            offered: 100,
            servers: Servers { executed: vec![60, 40], sojourns: vec![Duration::from_millis(p99)], worst_queue },
            ..Figures::default()
        };
        Played { arm, phases: vec![Figures::default(), storm, Figures::default(), Figures::default()] }
    }

    #[test]
    fn the_summary_has_every_policy_and_says_what_the_storm_lost() {
        let text = summary(&[played(Arm::PLACED, 400, 2000), played(Arm::MIDAS, 8, 20)]);
        assert!(text.contains("400 -> 8 (-98 %)") && text.contains("2000 -> 20 ms (-99 %)"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("static placement")).count(), 2, "{text}");
        assert_eq!(text.lines().filter(|line| line.contains("100 (60 40)")).count(), 4, "{text}");
    }

    #[test]
    fn what_did_not_fall_by_half_is_said_so() {
        let halved = |queue, p99| {
            Claim::of(&[played(Arm::PLACED, 10, 100), played(Arm::MIDAS, queue, p99)]).unwrap().json()["halved"].clone()
        };
        assert_eq!((halved(5, 50), halved(6, 50), halved(5, 51)), (json!(true), json!(false), json!(false)));
    }

    #[test]
    fn nothing_is_claimed_of_policies_that_were_not_played() {
        assert!(Claim::of(&[played(Arm::MIDAS, 1, 1)]).is_none());
        assert!(!summary(&[played(Arm::MIDAS, 1, 1)]).contains("->"));
    }

    #[test]
    fn lines_stand_below_each_other() {
        let row = row(Arm { cache: true, ..Arm::MIDAS }, Phase::Checkpoint, &played(Arm::MIDAS, 8, 20).phases[1]);
        assert_eq!(row.len(), head().len());
        assert!(row.starts_with("first-fit+cache  checkpoint"), "{row}");
    }
}
