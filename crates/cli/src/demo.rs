//! `midas demo`: a hot directory on four servers, without and with MIDAS, in one process that leaves nothing behind.

use crate::failure::Failure;
use crate::progress::seconds;
use crate::signal;
use crate::sim::output::print;
use crate::sim::table::Table;
use crate::stage::{Answers, Plan, Stage, Work};
use clap::Args;
use midas_core::route::policy::{Gap, Policy};
use midas_core::time::Span;
use midas_workload::units::parse_span;
use midas_workload::{Request, Service, Setting, Spec, stream};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Show what MIDAS does: a hot directory on four real NFS servers, static placement against `first-fit`
///
/// Starts four embedded metadata servers and a proxy on free loopback ports, sends the same LOOKUPs and CREATEs through it twice,
/// half of them in one directory, and prints what clients and servers saw. Needs no privileges and leaves nothing behind.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How long calls come, for each of the two
    #[arg(long, default_value = "12s")]
    duration: String,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

/// What one policy made of the calls.
struct Arm {
    name: &'static str,
    policy: Policy,
    answers: Answers,
    servers: Vec<Work>,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let duration = parse_span(&self.duration).map_err(|error| Failure::Usage(format!("--duration: {error}")))?;
        if !(Span::from_secs(1)..=LONGEST).contains(&duration) {
            return Err(Failure::Usage("--duration must be in 1s..60s".into()));
        }
        let setting = setting(duration);
        let workload = Spec::parse(WORKLOAD).map_err(|error| Failure::Broken(error.to_string()))?;
        let calls: Vec<Request> = stream(&workload, &setting).collect();
        let stop = signal::stop()?;
        if !self.json {
            print(&opening(&setting, calls.len()))?;
        }
        let mut arms = Vec::new();
        for (name, policy, what) in CASES {
            if !self.json {
                print(&format!("{name}: {what}\n"))?;
            }
            arms.push(play((name, policy), &setting, &calls, &stop)?);
        }
        match self.json {
            true => print(&format!("{}\n", json!({ "arms": arms.iter().map(Arm::json).collect::<Vec<_>>() }))),
            false => print(&format!("\n{}\n{NEXT}", table(&arms))),
        }
    }
}

fn setting(duration: Span) -> Setting {
    Setting {
        servers: 4,
        service_mean: Span::from_millis(5),
        load: 0.7,
        duration,
        directories: 256,
        files: 16,
        ..Setting::default()
    }
}

fn opening(setting: &Setting, calls: usize) -> String {
    format!(
        "{} metadata servers of {} calls a second each, one namespace, one proxy in front of them, all on this machine.\n\
         {calls} LOOKUPs and CREATEs in {} s: {:.0} % of what the servers can do, half of it in one hot directory.\n\n",
        setting.servers,
        1.0 / setting.service_mean.as_secs_f64(),
        setting.duration.as_secs_f64(),
        setting.load * 100.0,
    )
}

fn play(
    (name, policy): (&'static str, Policy),
    setting: &Setting,
    calls: &[Request],
    stop: &AtomicBool,
) -> Result<Arm, Failure> {
    let service = Service::parse(SERVICE).map_err(Failure::Broken)?;
    let Setting { servers, directories, files, .. } = *setting;
    let stage = Stage::start(&Plan { policy, servers, service, directories, files, proxies: 1, shares: true })?;
    let mut players = stage.players()?;
    let start = Instant::now() + SOON;
    let answers = thread::scope(|scope| {
        let (ended, end) = mpsc::channel::<()>();
        let playing = scope.spawn(move || {
            let _ended = ended;
            players[0].play(calls, start, start + PATIENCE, stop)
        });
        seconds(name, setting.duration, &end);
        playing.join().expect("the player does not panic")
    });
    let answers = answers.map_err(|error| Failure::Broken(format!("{name}: {error}")))?;
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::Broken("interrupted".into()));
    }
    if answers.latencies.len() < calls.len() || answers.failed > 0 {
        let said = format!("{} of {} calls answered, {} errors", answers.latencies.len(), calls.len(), answers.failed);
        return Err(Failure::Broken(format!("{name}: {said}")));
    }
    Ok(Arm { name, policy, answers, servers: stage.work(start, Instant::now()) })
}

impl Arm {
    fn latency(&self, quantile: f64) -> Duration {
        let mut sorted = self.answers.latencies.clone();
        sorted.sort_unstable();
        sorted[((sorted.len() as f64 * quantile) as usize).min(sorted.len() - 1)]
    }

    fn mean(&self) -> Duration {
        self.answers.latencies.iter().sum::<Duration>() / self.answers.latencies.len() as u32
    }

    fn calls(&self) -> Vec<u64> {
        self.servers.iter().map(|server| server.calls).collect()
    }

    /// The busiest server's calls relative to the mean.
    fn imbalance(&self) -> f64 {
        let calls = self.calls();
        let (most, sum) = (calls.iter().max().copied().unwrap_or(0), calls.iter().sum::<u64>());
        most as f64 * calls.len() as f64 / sum.max(1) as f64
    }

    fn worst_queue(&self) -> usize {
        self.servers.iter().map(|server| server.worst_queue).max().unwrap_or(0)
    }

    fn json(&self) -> Value {
        json!({
            "policy": self.policy.to_string(),
            "calls": self.answers.latencies.len(),
            "latency_mean_ms": self.mean().as_secs_f64() * 1e3,
            "latency_p99_ms": self.latency(0.99).as_secs_f64() * 1e3,
            "calls_per_server": self.calls(),
            "worst_queue": self.worst_queue(),
            "imbalance": self.imbalance(),
        })
    }
}

fn table(arms: &[Arm]) -> String {
    let mut table =
        Table::new(&["", "policy", "mean ms", "p99 ms", "calls per server", "worst queue", "busiest / mean"]);
    for arm in arms {
        let calls: Vec<String> = arm.calls().iter().map(ToString::to_string).collect();
        table.row(vec![
            arm.name.to_owned(),
            arm.policy.to_string(),
            format!("{:.1}", arm.mean().as_secs_f64() * 1e3),
            format!("{:.1}", arm.latency(0.99).as_secs_f64() * 1e3),
            calls.join(" "),
            arm.worst_queue().to_string(),
            format!("{:.2}", arm.imbalance()),
        ]);
    }
    table.show(2)
}

const CASES: [(&str, Policy, &str); 2] = [
    ("static placement", Policy::HashDirectory, "every directory has its server, the hot one too .."),
    (
        "MIDAS",
        Policy::FirstFit(Gap::Auto),
        "a call leaves its directory's server where another has clearly less to do ..",
    ),
];
const WORKLOAD: &str = "hot:0.5";
const SERVICE: &str = "const:5ms";
const LONGEST: Span = Span::from_secs(60);
const SOON: Duration = Duration::from_millis(100);
/// Static placement needs 1.75 times as long as calls come until all are answered.
const PATIENCE: Duration = Duration::from_secs(300);
const NEXT: &str = "\
Next, with servers of your own:
  midas check --config midas.toml    what a configuration means (docs/operating.md has every key)
  midas serve --config midas.toml    the proxy; clients mount it instead of a server
And to look further: midas nfsd --help (servers to play with), midas bench --help (load), make live-vs-sim (is the simulator
right?), make demo-paper (the paper's evaluation).
";
