//! `midas sim cluster`: several proxies that cache together, under every fault, and whether a client ever sees it.

use super::batch::on_all_cores;
use super::output::print;
use super::table::Table;
use crate::failure::Failure;
use crate::progress::Progress;
use clap::Args;
use midas_core::time::Span;
use midas_sim::cluster::{Family, Outcome, PROXIES, Setting, Wrong, run};
use serde_json::{Value, json};

/// Simulate proxies that cache together while messages, clocks, processes, connections and views fail.
///
/// The lease and cache code is the daemon's. Every answer must have been true at some moment between question and answer, nothing that must run
/// once may run twice, and when all faults are over everybody must get on. A family of worlds aims at one rule of the protocol
/// (docs/leases.md); 'all' takes them in turn. A broken promise ends the command with its seed and what happened before it.
#[derive(Args, Debug)]
pub(crate) struct Cluster {
    /// How many worlds for each number of proxies
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many proxies, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [3, 5, 9])]
    proxies: Vec<usize>,
    /// Which worlds
    #[arg(long, default_value = "all")]
    family: String,
    /// Print one JSON object with a row for each number of proxies, and nothing else
    #[arg(long)]
    json: bool,
}

/// What all worlds with so many proxies came to.
#[derive(Debug, Default)]
struct Row {
    proxies: usize,
    runs: usize,
    violations: usize,
    executed_twice: usize,
    reads: u64,
    hits: u64,
    fetched: u64,
    mutations: u64,
    messages: u64,
    waits: Vec<Span>,
}

impl Cluster {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let families = self.families()?;
        if let Some(wrong) = self.proxies.iter().find(|proxies| !PROXIES.contains(proxies)) {
            let (least, most) = (PROXIES.start(), PROXIES.end());
            return Err(Failure::Usage(format!("--proxies must be in {least}..{most}, got {wrong}")));
        }
        let worlds = |proxies: usize| {
            let seeds = self.from..self.from.saturating_add(self.seeds);
            let families = &families;
            seeds.map(move |seed| Setting { family: families[seed as usize % families.len()], proxies, seed })
        };
        let settings: Vec<Setting> = self.proxies.iter().flat_map(|proxies| worlds(*proxies)).collect();
        let mut progress = Progress::new("world", settings.len());
        let name = |setting: &Setting| format!("{} with {} proxies", setting.family.name(), setting.proxies);
        let outcomes = on_all_cores(&settings, name, |setting| run(*setting), &mut progress);
        drop(progress);
        let rows: Vec<Row> = self.proxies.iter().map(|proxies| Row::of(*proxies, &settings, &outcomes)).collect();
        print(&match self.json {
            true => json!({ "seeds": self.seeds, "family": self.family, "rows": rows.iter().map(Row::json).collect::<Vec<_>>() })
                .to_string()
                + "\n",
            false => text(&rows),
        })?;
        match settings.iter().zip(&outcomes).find(|(_, outcome)| outcome.violation.is_some()) {
            Some((setting, outcome)) => Err(broken(*setting, outcome)),
            None => Ok(()),
        }
    }

    fn families(&self) -> Result<Vec<Family>, Failure> {
        let all = Family::all();
        match all.iter().find(|family| family.name() == self.family) {
            Some(family) => Ok(vec![*family]),
            None if self.family == "all" => Ok(all),
            None => {
                let names: Vec<String> = all.iter().map(|family| family.name()).collect();
                Err(Failure::Usage(format!("no family '{}'; possible: all, {}", self.family, names.join(", "))))
            }
        }
    }
}

impl Row {
    fn of(proxies: usize, settings: &[Setting], outcomes: &[Outcome]) -> Self {
        let mut row = Self { proxies, ..Self::default() };
        for (_, outcome) in settings.iter().zip(outcomes).filter(|(setting, _)| setting.proxies == proxies) {
            row.runs += 1;
            row.violations += usize::from(outcome.violation.is_some());
            row.executed_twice += usize::from(outcome.violation.as_ref().is_some_and(|v| v.wrong == Wrong::Twice));
            row.reads += outcome.reads;
            row.hits += outcome.hits;
            row.fetched += outcome.fetched;
            row.mutations += outcome.mutations;
            row.messages += outcome.messages;
            row.waits.extend(&outcome.waits);
        }
        row.waits.sort_unstable();
        row
    }

    /// In milliseconds.
    fn wait(&self, share: f64) -> f64 {
        let at = (self.waits.len() as f64 * share) as usize;
        self.waits.get(at).or(self.waits.last()).map_or(0.0, |span| span.as_millis_f64())
    }

    fn hit_share(&self) -> f64 {
        self.hits as f64 / self.reads.max(1) as f64
    }

    fn json(&self) -> Value {
        json!({
            "proxies": self.proxies,
            "runs": self.runs,
            "violations": self.violations,
            "executed_twice": self.executed_twice,
            "reads": self.reads,
            "hit_share": self.hit_share(),
            "fetched": self.fetched,
            "mutations": self.mutations,
            "messages": self.messages,
            "waited_ms": { "p50": self.wait(0.5), "p99": self.wait(0.99), "max": self.wait(1.0) },
        })
    }
}

fn text(rows: &[Row]) -> String {
    let heads = [
        "proxies",
        "worlds",
        "violations",
        "twice",
        "reads",
        "hits",
        "fetched",
        "mutations",
        "waited p50",
        "p99",
        "max",
    ];
    let mut table = Table::new(&heads);
    for row in rows {
        let wait = |share| format!("{:.0} ms", row.wait(share));
        table.row(vec![
            row.proxies.to_string(),
            row.runs.to_string(),
            row.violations.to_string(),
            row.executed_twice.to_string(),
            row.reads.to_string(),
            format!("{:.3}", row.hit_share()),
            row.fetched.to_string(),
            row.mutations.to_string(),
            wait(0.5),
            wait(0.99),
            wait(1.0),
        ]);
    }
    table.show(0) + "a lease is 1000 ms; waits are those of mutations at their proxy, faults and all\n"
}

fn broken(setting: Setting, outcome: &Outcome) -> Failure {
    let Setting { family, proxies, seed } = setting;
    let Some(violation) = &outcome.violation else { unreachable!("only broken worlds are told of") };
    let from = violation.trace.len().saturating_sub(TRACE_LINES);
    let short = |line: &String| line.chars().take(TRACE_WIDTH).collect::<String>();
    let trace = violation.trace[from..].iter().map(short).collect::<Vec<_>>().join("\n  ");
    let again = format!("midas sim cluster --family {} --proxies {proxies} --from {seed} --seeds 1", family.name());
    Failure::Broken(format!("{violation}\n  {trace}\nto see it again: {again}"))
}

/// What is shown of the time before a violation.
const TRACE_LINES: usize = 30;
const TRACE_WIDTH: usize = 160;
