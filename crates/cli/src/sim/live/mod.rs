//! `midas sim live`: is the simulator right? The same calls at the same times through a real proxy over real sockets, with
//! the same homes, and the servers' mean queues beside the simulated ones.
//!
//! Both sides measure the same: the time-averaged number of calls at a server, in service included, over the time in which
//! calls come, and the mean of that over servers. What `paper` needs before that, its warm-up, is played on the wire too.

mod balance;

use super::options::{many, span};
use super::output::print;
use super::table::Table;
use crate::failure::Failure;
use crate::nfsd::raise_file_limit;
use crate::progress::seconds;
use crate::signal;
use crate::stage::{Plan, Player, Stage};
use clap::Args;
use midas_core::op::Op;
use midas_core::time::Span;
use midas_sim::config::{Config, ShareInterval};
use midas_sim::policy::Contender;
use midas_workload::{Request, Service, Spec, stream};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Play the same calls on the wire and in the simulator, and compare the servers' queues.
///
/// For every policy and seed: embedded servers and a proxy over loopback sockets, all at the same time, and the same calls in the
/// simulator. Ends with exit code 1 if a mean queue on the wire is more than 20 % off the simulated one. With several proxies: through
/// one of them, through all, and through all without load shares, and exit code 1 unless all together are within 15 % of one, and
/// without shares not.
#[derive(Args, Debug)]
pub(crate) struct Live {
    /// Policies, separated by commas
    #[arg(long, default_value = "rr-directory,hash-directory,paper,first-fit")]
    policy: String,
    /// Proxies that the clients are spread over
    #[arg(long, default_value_t = 1)]
    proxies: u32,
    /// A workload of lookups and creates (see `midas sim list`)
    #[arg(long, default_value = "hot:0.5")]
    workload: String,
    /// Metadata servers
    #[arg(long, default_value_t = 4)]
    servers: u32,
    /// Offered load, relative to what the servers can do
    #[arg(long, default_value_t = 0.7, allow_negative_numbers = true)]
    load: f64,
    /// Service times
    #[arg(long, default_value = "const:100ms")]
    service: String,
    /// How long calls come; `paper` warms up for 90 s before
    #[arg(long, default_value = "120s")]
    duration: String,
    /// Directories in the namespace
    #[arg(long, default_value_t = 256)]
    directories: u32,
    /// Names in a directory
    #[arg(long, default_value_t = 16)]
    files: u32,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds
    #[arg(long, default_value_t = 3)]
    seeds: u32,
    /// Print one JSON object with one row a policy and seed, and nothing else
    #[arg(long)]
    json: bool,
}

/// One policy and seed, on both sides.
struct Pair {
    policy: String,
    seed: u64,
    proxies: u32,
    shares: bool,
    simulated: Figures,
    wire: Figures,
    /// Answers on the wire that were errors.
    failed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Figures {
    calls: u64,
    mean_queue: f64,
    worst_queue: u32,
}

impl Live {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let configs = self.configs()?;
        raise_file_limit();
        let stop = signal::stop_or_hangup()?;
        let pairs = all(&configs, &stop)?;
        if self.proxies > 1 {
            return balance::judge(&pairs, self.json);
        }
        let rows: Vec<Value> = pairs.iter().map(Pair::json).collect();
        match self.json {
            true => print(&format!("{}\n", json!({ "tolerance": TOLERANCE, "rows": rows })))?,
            false => print(&table(&pairs))?,
        }
        match pairs.iter().filter(|pair| !pair.agrees()).count() {
            0 => Ok(()),
            outside => Err(Failure::Broken(format!("{outside} of {} are outside", pairs.len()))),
        }
    }

    fn configs(&self) -> Result<Vec<Config>, Failure> {
        if !(1..=PROXIES_MAX).contains(&self.proxies) {
            return Err(Failure::Usage(format!("--proxies must be in 1..{PROXIES_MAX}, got {}", self.proxies)));
        }
        if !(1..=SEEDS_MAX).contains(&self.seeds) || self.seed.checked_add(u64::from(self.seeds)).is_none() {
            return Err(Failure::Usage(format!("--seeds must be in 1..{SEEDS_MAX}, got {}", self.seeds)));
        }
        let workload = Spec::parse(&self.workload).map_err(|error| Failure::Usage(error.to_string()))?;
        let service = Service::parse(&self.service).map_err(Failure::Usage)?;
        let duration = span("--duration", &self.duration)?;
        let mut configs = Vec::new();
        for policy in many(&self.policy, &[], Contender::parse)? {
            if matches!(policy, Contender::Rival(_)) {
                return Err(Failure::Usage(format!("the proxy has no policy '{policy}': it is the simulator's alone")));
            }
            let config = Config {
                servers: self.servers,
                load: self.load,
                service,
                rtt: RTT,
                duration,
                directories: self.directories,
                files: self.files,
                ..Config::new(policy, workload.clone())
            };
            config.check().map_err(Failure::Usage)?;
            if !stream(&workload, &config.setting()).all(|call| matches!(call.op, Op::Lookup | Op::Create)) {
                return Err(Failure::Usage(format!("only lookups and creates are played, and {workload} has others")));
            }
            let seeds = (0..u64::from(self.seeds)).map(|i| Config { seed: self.seed + i, ..config.clone() });
            configs.extend(seeds.flat_map(|config| balance::arms(&config, self.proxies)));
        }
        match configs.len() {
            0..=ARMS_MAX => Ok(configs),
            arms => Err(Failure::Usage(format!(
                "at most {ARMS_MAX} policies x seeds (x 3 with several proxies) run at a time, got {arms}"
            ))),
        }
    }
}

/// Runs every pair at the same time: a handful of calls a second each.
fn all(configs: &[Config], stop: &AtomicBool) -> Result<Vec<Pair>, Failure> {
    let longest = configs.iter().map(|config| warmup(config).1 + config.duration).max().unwrap_or(Span::ZERO);
    thread::scope(|scope| {
        let (ended, end) = mpsc::channel::<()>();
        let pairs: Vec<_> = configs
            .iter()
            .map(|config| {
                let ended = ended.clone();
                scope.spawn(move || {
                    let _ended = ended;
                    pair(config, stop)
                })
            })
            .collect();
        drop(ended);
        seconds("on the wire", longest, &end);
        pairs.into_iter().map(|pair| pair.join().expect("a pair does not panic")).collect()
    })
}

fn pair(config: &Config, stop: &AtomicBool) -> Result<Pair, Failure> {
    let Contender::Core(policy) = config.policy else { unreachable!("only the core's policies were taken") };
    let plan = Plan {
        policy,
        servers: config.servers,
        service: config.service,
        directories: config.directories,
        files: config.files,
        proxies: config.proxies,
        shares: config.shares != ShareInterval::Off,
    };
    let stage = Stage::start(&plan)?;
    let (wire, failed) = on_the_wire(config, &stage, stop)?;
    let config = Config { homes: Some(stage.homes()), ..config.clone() };
    drop(stage);
    let row = midas_sim::run(&config).map_err(|violation| Failure::Broken(violation.to_string()))?.row;
    let simulated = Figures { calls: row.calls, mean_queue: row.mean_queue, worst_queue: row.worst_queue };
    let Plan { proxies, shares, .. } = plan;
    Ok(Pair { policy: row.policy, seed: row.seed, proxies, shares, simulated, wire, failed })
}

fn on_the_wire(config: &Config, stage: &Stage, stop: &AtomicBool) -> Result<(Figures, u64), Failure> {
    let (quiet, before) = warmup(config);
    let calls: Vec<Request> = stream(&config.workload, &config.setting()).collect();
    let (begin, mut players) = (Instant::now() + SOON, stage.players()?);
    let start = begin + duration(before);
    let end = start + duration(config.duration);
    let broken = |error: std::io::Error| Failure::Broken(format!("{}: {error}", config.policy));
    let mut failed = together(&mut players, &quiet, begin, start, stop).map_err(broken)?;
    failed += together(&mut players, &calls, start, end, stop).map_err(broken)?;
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        thread::sleep(end.saturating_duration_since(Instant::now()).min(SOON));
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::Broken("interrupted".into()));
    }
    let work = stage.work(start, end);
    let mean_queue = work.iter().map(|server| server.mean_queue).sum::<f64>() / work.len() as f64;
    let worst_queue = work.iter().map(|server| server.worst_queue).max().unwrap_or(0) as u32;
    Ok((Figures { calls: calls.len() as u64, mean_queue, worst_queue }, failed))
}

/// Every client's calls through its proxy, all at the same time; how many failed.
fn together(
    players: &mut [Player<'_>],
    calls: &[Request],
    origin: Instant,
    end: Instant,
    stop: &AtomicBool,
) -> std::io::Result<u64> {
    let proxies = players.len();
    thread::scope(|scope| {
        let play = |(number, player): (usize, &mut Player<'_>)| {
            let its = calls.iter().filter(|call| call.client as usize % proxies == number);
            player.play(&its.copied().collect::<Vec<_>>(), origin, end, stop)
        };
        let playing: Vec<_> = players.iter_mut().enumerate().map(|player| scope.spawn(move || play(player))).collect();
        playing.into_iter().map(|one| one.join().expect("a player does not panic").map(|answers| answers.failed)).sum()
    })
}

/// The calls that a policy wants to see before it is measured, and for how long they come.
fn warmup(config: &Config) -> (Vec<Request>, Span) {
    midas_sim::warmup(config).map_or((Vec::new(), Span::ZERO), |(quiet, lasts)| (quiet.collect(), lasts))
}

const fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}

impl Pair {
    fn ratio(&self) -> f64 {
        self.wire.mean_queue / self.simulated.mean_queue
    }

    fn agrees(&self) -> bool {
        (self.ratio() - 1.0).abs() <= TOLERANCE && self.failed == 0
    }

    fn json(&self) -> Value {
        let side = |figures: &Figures| json!({ "calls": figures.calls, "mean_queue": figures.mean_queue, "worst_queue": figures.worst_queue });
        json!({
            "policy": self.policy,
            "seed": self.seed,
            "sim": side(&self.simulated),
            "wire": side(&self.wire),
            "ratio": self.ratio(),
            "failed": self.failed,
            "agrees": self.agrees(),
        })
    }
}

fn table(pairs: &[Pair]) -> String {
    let mut table = Table::new(&[
        "policy",
        "seed",
        "calls",
        "mean queue sim",
        "wire",
        "wire/sim",
        "worst queue sim",
        "wire",
        "errors",
        "within 20 %",
    ]);
    for pair in pairs {
        let Pair { simulated, wire, .. } = pair;
        table.row(vec![
            pair.policy.clone(),
            pair.seed.to_string(),
            wire.calls.to_string(),
            format!("{:.3}", simulated.mean_queue),
            format!("{:.3}", wire.mean_queue),
            format!("{:.3}", pair.ratio()),
            simulated.worst_queue.to_string(),
            wire.worst_queue.to_string(),
            pair.failed.to_string(),
            (if pair.agrees() { "yes" } else { "NO" }).to_owned(),
        ]);
    }
    table.show(1)
}

/// How far the wire may be off.
const TOLERANCE: f64 = 0.20;
/// What a message over the loopback and back takes, about.
const RTT: Span = Span::from_micros(200);
/// Calls begin when everything stands.
const SOON: Duration = Duration::from_millis(100);
const SEEDS_MAX: u32 = 64;
/// As many as a cluster has.
const PROXIES_MAX: u32 = 16;
/// Each has a dozen threads and some forty descriptors.
const ARMS_MAX: usize = 64;
