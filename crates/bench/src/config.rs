//! What a run is: decided before anything is sent.

use crate::action::Action;
use crate::target::Target;
use crate::tree::Shape;
use midas_core::op::Op;
use midas_workload::Spec;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A whole run: every cell is measured at every target.
#[derive(Clone, Debug)]
pub struct Config {
    /// Servers; the first is what the others are compared with.
    pub targets: Vec<Target>,
    /// What is measured, one after another.
    pub cells: Vec<Cell>,
    /// Connections to a server.
    pub connections: u32,
    /// Event loops; at most one a connection.
    pub threads: u32,
    /// Users that call in turn.
    pub users: u32,
    /// The first user.
    pub uid: u32,
    /// Every user's group.
    pub gid: u32,
    /// The names to work on.
    pub shape: Shape,
    /// Bytes of a READ or WRITE.
    pub size: u32,
    /// Measured time of a slice.
    pub slice: Duration,
    /// Slices of a cell at each target.
    pub slices: u32,
    /// Time at the beginning of each slice that is not counted.
    pub warmup: Duration,
    /// After so long without an answer a call counts as lost.
    pub timeout: Duration,
    /// Calls that may wait in an open loop because they cannot be sent yet.
    pub backlog: usize,
    /// One seed, one sequence of calls.
    pub seed: u64,
    /// Share of writes in workloads without a mix of their own.
    pub write_share: f64,
    /// Processors to run on, one an event loop in turn; empty: wherever the system puts them.
    pub pin: Vec<usize>,
    /// Leave the run's directory behind.
    pub keep: bool,
    /// Where every call is written to.
    pub history: Option<PathBuf>,
    /// Processes of the targets, by the target's name, whose processor time is accounted.
    pub pids: Vec<(String, u32)>,
}

impl Config {
    /// A run against one target with everything else as usual.
    pub fn new(target: Target, load: Load, pace: Pace) -> Self {
        Self {
            targets: vec![target],
            cells: vec![Cell { load, pace }],
            connections: 1,
            threads: 1,
            users: 1,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            shape: Shape { directories: 16, files: 64 },
            size: 4096,
            slice: Duration::from_secs(10),
            slices: 1,
            warmup: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
            backlog: 100_000,
            seed: 1,
            write_share: 0.2,
            pin: Vec::new(),
            keep: false,
            history: None,
            pids: Vec::new(),
        }
    }

    pub(crate) fn uses(&self, action: Action) -> bool {
        self.cells.iter().any(|cell| cell.load.uses(action))
    }

    /// Whether it can be run; the error is one line that says what is possible.
    pub fn check(&self) -> Result<(), String> {
        let within = |option: &str, value: u64, most: u64| match (1..=most).contains(&value) {
            true => Ok(()),
            false => Err(format!("--{option} must be in 1..{most}, got {value}")),
        };
        within("connections", self.connections.into(), CONNECTIONS)?;
        within("threads", self.threads.into(), THREADS)?;
        within("users", self.users.into(), USERS)?;
        within("directories", self.shape.directories.into(), NAMES)?;
        within("files", self.shape.files.into(), NAMES)?;
        within("size", self.size.into(), SIZE)?;
        within("slices", self.slices.into(), SLICES)?;
        within("backlog", self.backlog as u64, BACKLOG)?;
        if self.shape.names() as u64 > NAMES {
            return Err(format!("--directories x --files must be at most {NAMES}, got {}", self.shape.names()));
        }
        if !(0.0..=1.0).contains(&self.write_share) {
            return Err(format!("--write-share must be in 0..1, got {}", self.write_share));
        }
        let times = [("the measured time", self.slice), ("--timeout", self.timeout)];
        for (what, time) in times {
            if time.is_zero() || time > LONGEST {
                return Err(format!("{what} must be above 0 and at most 24h"));
            }
        }
        if self.warmup > LONGEST {
            return Err("--warmup must be at most 24h".to_owned());
        }
        let twice = |(index, target): (usize, &Target)| self.targets[..index].iter().any(|t| t.name == target.name);
        if let Some((_, target)) = self.targets.iter().enumerate().find(|(index, target)| twice((*index, target))) {
            return Err(format!(
                "two targets are called '{}': give each a name, as in NAME=HOST:PORT/PATH",
                target.name
            ));
        }
        self.cells.iter().try_for_each(|cell| cell.check(self))
    }
}

/// One thing that is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Which calls.
    pub load: Load,
    /// When they are sent.
    pub pace: Pace,
}

impl Cell {
    /// How long it takes to play a recording once, if that is what it is.
    pub fn once(&self) -> Option<Duration> {
        match (&self.load, self.pace) {
            (Load::Workload(spec), Pace::Open { .. }) => {
                Some(Duration::from_nanos(spec.replayed()?.length().as_nanos()))
            }
            (Load::Op(_) | Load::Workload(_), Pace::Open { .. } | Pace::Closed { .. }) => None,
        }
    }

    /// The names of a recording. Of directories that are very different in size, the largest do not get all of theirs: what is beyond
    /// shares objects with the rest, and is not found by name.
    pub fn shape(&self) -> Option<Shape> {
        let Load::Workload(spec) = &self.load else { return None };
        let replay = spec.replayed()?;
        let most = (RECORDED / replay.directories()).max(1);
        Some(Shape { directories: replay.directories(), files: replay.files().min(most) })
    }

    fn check(&self, config: &Config) -> Result<(), String> {
        let depth = u64::from(self.pace.depth());
        if depth == 0 || depth * u64::from(config.connections) > UNDER_WAY {
            return Err(format!(
                "--depth must be at least 1, and --depth x --connections at most {UNDER_WAY}, got {depth}"
            ));
        }
        if let Some(rate) = self.pace.rate()
            && !(rate > 0.0 && rate <= RATE)
        {
            return Err(format!("--rate must be above 0 and at most {RATE}, got {rate}"));
        }
        // The one workload that brings its own namespace.
        let Shape { directories, files } = config.shape;
        match self.load.to_string() == "epoch" && (directories, files) != (1000, 1000) {
            true => Err("workload epoch reads 1000 x 1000 names: add --directories 1000 --files 1000".to_owned()),
            false => Ok(()),
        }
    }
}

/// Which calls are made.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// One procedure over and over.
    Op(Action),
    /// A workload as the simulator knows it.
    Workload(Spec),
}

impl Load {
    /// Whether names are needed that are only made for this action.
    fn uses(&self, action: Action) -> bool {
        match self {
            Self::Op(own) => *own == action,
            Self::Workload(spec) => {
                let has = |op: Op| Action::of(op) == action && spec.replayed().is_some_and(|replay| replay.has(op));
                Op::ALL.into_iter().any(has)
            }
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Op(action) => f.write_str(action.name()),
            Self::Workload(spec) => write!(f, "{spec}"),
        }
    }
}

/// When calls are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// The next call when an earlier one is answered.
    Closed {
        /// Calls under way on a connection.
        depth: u32,
    },
    /// At times that are fixed beforehand, whatever the server does.
    Open {
        /// Calls a second.
        rate: f64,
        /// How the times of a single procedure are spread; workloads have their own.
        arrivals: Arrivals,
        /// The most calls under way on a connection; what comes on top waits, and its waiting counts.
        depth: u32,
    },
}

impl Pace {
    pub(crate) const fn depth(self) -> u32 {
        match self {
            Self::Closed { depth } | Self::Open { depth, .. } => depth,
        }
    }

    pub(crate) const fn rate(self) -> Option<f64> {
        match self {
            Self::Closed { .. } => None,
            Self::Open { rate, .. } => Some(rate),
        }
    }
}

/// How times are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// As from many independent clients.
    Poisson,
    /// At equal distances.
    Constant,
}

/// Bounds of what can be asked for.
const CONNECTIONS: u64 = 10_000;
const THREADS: u64 = 64;
const USERS: u64 = 100_000;
const NAMES: u64 = 1 << 24;
/// Names that are made for a recording.
const RECORDED: u32 = 1 << 18;
const SIZE: u64 = 1 << 20;
const SLICES: u64 = 10_000;
const BACKLOG: u64 = 1 << 24;
const UNDER_WAY: u64 = 1 << 20;
const RATE: f64 = 1e8;
const LONGEST: Duration = Duration::from_secs(86_400);
