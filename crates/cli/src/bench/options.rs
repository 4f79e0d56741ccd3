//! What was typed -> what it means.

use crate::failure::Failure;
use clap::Args;
use midas_bench::{Action, Arrivals, Cell, Config, Load, Pace, Shape, Target};
use midas_workload::units::parse_span;
use midas_workload::{Replay, Spec};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// What is measured, where, and for how long.
#[derive(Args, Debug)]
pub(crate) struct Options {
    // Not a doc comment, where brackets would be links.
    #[arg(value_name = "TARGET", help = "The server: [NAME=]HOST:PORT[/PATH][?mount=PORT]")]
    target: Option<String>,
    /// Several servers, separated by commas: compared in slices that take turns; ratios are to the first
    #[arg(long, value_name = "TARGET,...", conflicts_with = "target")]
    targets: Option<String>,
    /// Port of MOUNT, for targets that do not say their own; without it, the port of NFS
    #[arg(long, value_name = "PORT")]
    mount_port: Option<u16>,

    /// Procedures, each measured by itself: getattr, lookup, access, readlink, readdir, readdirplus, create, remove, mkdir, rename,
    /// setattr, read, write, null, link, fsstat, commit (remove and rename make their files first); missing and scan are LOOKUPs of
    /// names that are not there: of some over and over, of a new one every time
    #[arg(long, value_name = "OP,...", default_value = "getattr", conflicts_with = "workload", help_heading = "Load")]
    op: String,
    /// A workload as in the simulator, such as zipf:1.1 or spotify (see `midas sim list`); or trace:FILE, written by `midas trace
    /// --json`, at its own times unless --rate or --depth is given, and with its own names
    #[arg(long, value_name = "SPEC", help_heading = "Load")]
    workload: Option<String>,
    /// Closed loop: calls under way on each connection, all the time [default: 1]; with --rate, the most that may be [default: 1024].
    /// A closed loop hides stalls (coordinated omission): use --rate for latency
    #[arg(long, value_name = "N,...", help_heading = "Load")]
    depth: Option<String>,
    /// Open loop: calls a second at times that are fixed beforehand; latency counts from the intended start
    #[arg(long, value_name = "R,...", help_heading = "Load")]
    rate: Option<String>,
    /// With --rate and --op: how times are spread, poisson or constant
    #[arg(long, value_name = "HOW", default_value = "poisson", help_heading = "Load")]
    arrivals: String,
    /// With --rate: calls that may wait because they cannot be sent yet; more are dropped, and that is said
    #[arg(long, value_name = "CALLS", default_value_t = 100_000, help_heading = "Load")]
    backlog: usize,
    /// Bytes of a READ or WRITE
    #[arg(long, value_name = "BYTES", default_value_t = 4096, help_heading = "Load")]
    size: u32,
    /// Share of calls that write, in workloads without a mix of their own
    #[arg(long, default_value_t = 0.2, allow_negative_numbers = true, help_heading = "Load")]
    write_share: f64,
    /// One seed is one sequence of calls; rounds count up from it
    #[arg(long, default_value_t = 1, help_heading = "Load")]
    seed: u64,

    /// Connections to a server
    #[arg(long, value_name = "C", default_value_t = 1, help_heading = "Clients")]
    connections: u32,
    /// Event loops
    #[arg(long, value_name = "T", default_value_t = 1, help_heading = "Clients")]
    threads: u32,
    /// Users that call in turn (AUTH_SYS)
    #[arg(long, value_name = "U", default_value_t = 1, help_heading = "Clients")]
    users: u32,
    /// The first user's number [default: your own]; set-up is done as this user
    #[arg(long, help_heading = "Clients")]
    uid: Option<u32>,
    /// The group [default: your own]
    #[arg(long, help_heading = "Clients")]
    gid: Option<u32>,
    /// A call without an answer for so long counts as lost
    #[arg(long, value_name = "TIME", default_value = "10s", help_heading = "Clients")]
    timeout: String,
    /// Processors to run on, one for each event loop in turn
    #[arg(long, value_name = "CORE,...", help_heading = "Clients")]
    pin: Option<String>,

    /// Directories in the work directory
    #[arg(long, default_value_t = 16, help_heading = "Names")]
    directories: u32,
    /// Files in each
    #[arg(long, default_value_t = 64, help_heading = "Names")]
    files: u32,
    /// Leave the work directory behind
    #[arg(long, help_heading = "Names")]
    keep: bool,

    /// How long is measured [default: 10s]
    #[arg(long, value_name = "TIME", conflicts_with_all = ["slice", "targets"], help_heading = "Time")]
    duration: Option<String>,
    /// Time before every measurement that is not counted [default: 1s; for slices a tenth of one]
    #[arg(long, value_name = "TIME", help_heading = "Time")]
    warmup: Option<String>,
    /// How many slices each target gets, for every operation and depth [default: 7 with --targets, else 1]
    #[arg(long, value_name = "N", help_heading = "Time")]
    slices: Option<u32>,
    /// How long a slice is [default: 1s]
    #[arg(long, value_name = "TIME", help_heading = "Time")]
    slice: Option<String>,

    /// Print one JSON object and nothing else (docs/bench.md)
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
    /// Write every call with its result to a file, one JSON line each (docs/bench.md)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    history: Option<PathBuf>,
    /// A progress line on stderr this often, also where it is no terminal
    #[arg(long, value_name = "TIME", help_heading = "Output")]
    interval: Option<String>,
    /// A target's process, to account its processor time; may be given more than once
    #[arg(long, value_name = "NAME=PID", help_heading = "Output")]
    pid: Vec<String>,
}

impl Options {
    /// The run that was asked for.
    pub(super) fn config(&self) -> Result<Config, Failure> {
        let targets = self.targets()?;
        let several = targets.len() > 1;
        let slices = self.slices.unwrap_or(if several { FEWEST } else { 1 });
        if several && slices < FEWEST {
            return Err(usage(format!("--slices must be at least {FEWEST} to compare targets, got {slices}")));
        }
        let slice = match (&self.slice, &self.duration) {
            (Some(slice), _) => time("--slice", slice)?,
            (None, Some(duration)) => time("--duration", duration)?,
            (None, None) => Duration::from_secs(if several || slices > 1 { 1 } else { 10 }),
        };
        let warmup = match &self.warmup {
            Some(warmup) => time("--warmup", warmup)?,
            None if several || slices > 1 => slice / 10,
            None => Duration::from_secs(1),
        };
        let cells = self.cells()?;
        let first = &cells[0];
        let usual = Config::new(targets[0].clone(), first.load.clone(), first.pace);
        let (slice, warmup) = match first.once() {
            // Played once, from its first call on, and its last answer is waited for.
            Some(length) if self.slice.is_none() && self.duration.is_none() => {
                (length + LAST, if self.warmup.is_some() { warmup } else { Duration::ZERO })
            }
            Some(_) | None => (slice, warmup),
        };
        let shape = first.shape().unwrap_or(Shape { directories: self.directories, files: self.files });
        let config = Config {
            pids: self.pids(&targets)?,
            targets,
            cells,
            connections: self.connections,
            threads: self.threads,
            users: self.users,
            uid: self.uid.unwrap_or(usual.uid),
            gid: self.gid.unwrap_or(usual.gid),
            shape,
            size: self.size,
            slice,
            slices,
            warmup,
            timeout: time("--timeout", &self.timeout)?,
            backlog: self.backlog,
            seed: self.seed,
            write_share: self.write_share,
            pin: self.pin.as_deref().map_or(Ok(Vec::new()), cores)?,
            keep: self.keep,
            history: self.history.clone(),
        };
        config.check().map_err(Failure::Usage)?;
        Ok(config)
    }

    /// How often progress is told.
    pub(super) fn interval(&self) -> Result<Option<Duration>, Failure> {
        self.interval.as_deref().map(|text| time("--interval", text)).transpose()
    }

    fn targets(&self) -> Result<Vec<Target>, Failure> {
        let text = self.targets.as_ref().or(self.target.as_ref()).ok_or_else(|| {
            usage(
                "which target? write [NAME=]HOST:PORT[/PATH][?mount=PORT], or --targets with several (see --help)"
                    .into(),
            )
        })?;
        let parts: Vec<&str> = if self.targets.is_some() { text.split(',').collect() } else { vec![text] };
        let mut targets = Vec::new();
        for part in parts {
            let target = Target::parse(part).map_err(usage)?;
            targets.push(Target { mount_port: target.mount_port.or(self.mount_port), ..target });
        }
        Ok(targets)
    }

    /// Every operation at every depth, or rate.
    fn cells(&self) -> Result<Vec<Cell>, Failure> {
        let loads = match &self.workload {
            Some(spec) => vec![Load::Workload(crate::workload::parse(spec).map_err(usage)?)],
            None => {
                let action = |text: &str| Action::parse(text).map(Load::Op).map_err(usage);
                self.op.split(',').map(action).collect::<Result<_, _>>()?
            }
        };
        if let [Load::Workload(spec)] = &loads[..]
            && let Some(replay) = spec.replayed()
        {
            return self.replays(replay);
        }
        let paces = self.paces()?;
        let cell = |load: &Load, pace: &Pace| Cell { load: load.clone(), pace: *pace };
        Ok(loads.iter().flat_map(|load| paces.iter().map(move |pace| cell(load, pace))).collect())
    }

    /// A recording at its own times; with --rate, faster or slower; with --depth alone, over and over.
    fn replays(&self, replay: &Replay) -> Result<Vec<Cell>, Failure> {
        if self.rate.is_none() && self.depth.is_none() {
            let pace = Pace::Open { rate: replay.rate(), arrivals: Arrivals::Constant, depth: WINDOW };
            return Ok(vec![Cell { load: Load::Workload(Spec::replay(replay.clone())), pace }]);
        }
        let cell = |pace: Pace| {
            let replay = match pace {
                Pace::Open { rate, .. } if rate > 0.0 => {
                    replay.at_rate(rate).map_err(|error| usage(error.to_string()))?
                }
                Pace::Open { .. } | Pace::Closed { .. } => replay.clone(),
            };
            Ok(Cell { load: Load::Workload(Spec::replay(replay)), pace })
        };
        let cells: Vec<Cell> = self.paces()?.into_iter().map(cell).collect::<Result<_, Failure>>()?;
        match cells.iter().filter(|cell| cell.once().is_some()).count() {
            0 | 1 => Ok(cells),
            _ => Err(usage("--rate takes one number with a trace: its length follows from it".into())),
        }
    }

    fn paces(&self) -> Result<Vec<Pace>, Failure> {
        let depths: Option<Vec<u32>> = self.depth.as_deref().map(|text| numbers("--depth", text)).transpose()?;
        let Some(rates) = &self.rate else {
            return Ok(depths.unwrap_or_else(|| vec![1]).into_iter().map(|depth| Pace::Closed { depth }).collect());
        };
        let arrivals = match self.arrivals.as_str() {
            "poisson" => Arrivals::Poisson,
            "constant" => Arrivals::Constant,
            other => return Err(usage(format!("--arrivals takes poisson or constant, got '{other}'"))),
        };
        let depth = match depths.as_deref() {
            None => WINDOW,
            Some([depth]) => *depth,
            Some(_) => return Err(usage("--depth takes one number with --rate: the most calls under way".into())),
        };
        let rates: Vec<f64> = numbers("--rate", rates)?;
        Ok(rates.into_iter().map(|rate| Pace::Open { rate, arrivals, depth }).collect())
    }

    fn pids(&self, targets: &[Target]) -> Result<Vec<(String, u32)>, Failure> {
        let known = |name: &str| targets.iter().any(|target| target.name == name);
        let pid = |text: &String| {
            let (name, pid) = text.split_once('=').unwrap_or((targets[0].name.as_str(), text));
            match pid.parse() {
                Ok(pid) if known(name) => Ok((name.to_owned(), pid)),
                Ok(_) => Err(usage(format!("--pid names '{name}', which is no target"))),
                Err(_) => Err(usage(format!("--pid takes NAME=PID, got '{text}'"))),
            }
        };
        self.pid.iter().map(pid).collect()
    }
}

/// Numbers of processors, separated by commas.
pub(super) fn cores(text: &str) -> Result<Vec<usize>, Failure> {
    numbers("--pin", text)
}

fn numbers<T: FromStr>(option: &str, text: &str) -> Result<Vec<T>, Failure> {
    let number = |part: &str| {
        part.parse()
            .map_err(|_| usage(format!("{option} takes numbers separated by commas, got '{}'", text.escape_debug())))
    };
    text.split(',').map(number).collect()
}

pub(super) fn time(option: &str, text: &str) -> Result<Duration, Failure> {
    let span = parse_span(text).map_err(|error| usage(format!("{option}: {error}")))?;
    Ok(Duration::from_nanos(span.as_nanos()))
}

fn usage(text: String) -> Failure {
    Failure::Usage(text)
}

/// After the last call of a recording: its answer is counted too.
const LAST: Duration = Duration::from_secs(1);
/// Slices of a comparison: fewer say nothing about their spread.
const FEWEST: u32 = 7;
/// Calls under way on a connection in an open loop.
const WINDOW: u32 = 1024;
