//! What a run is: one world, one policy, one seed.

use crate::fault::Faults;
use crate::policy::Contender;
use midas_core::cache::{Estimator, Mode, Rules};
use midas_core::id::SERVERS_MAX;
use midas_core::key::Key;
use midas_core::route::moves::Moves;
use midas_core::time::Span;
use midas_workload::Service;
use midas_workload::{Setting, Spec};

/// Everything that a run depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The policy.
    pub policy: Contender,
    /// The calls.
    pub workload: Spec,
    /// Metadata servers: 1..=1024.
    pub servers: u32,
    /// Workers of each.
    pub workers: u32,
    /// Proxies: 1..=64.
    pub proxies: u32,
    /// Offered load relative to the capacity.
    pub load: f64,
    /// Service times.
    pub service: Service,
    /// Round trip between a proxy and a server, and between two proxies.
    pub rtt: Span,
    /// How long calls come.
    pub duration: Span,
    /// Directories in the namespace.
    pub directories: u32,
    /// Names in a directory.
    pub files: u32,
    /// The share of calls that write, in workloads that have no mix of their own.
    pub write_share: f64,
    /// One seed is one world.
    pub seed: u64,
    /// How proxies tell each other their load.
    pub shares: ShareInterval,
    /// The cache, if there is one.
    pub cache: Option<CacheConfig>,
    /// How long a server answers with what it once knew, whatever others have changed; proxies are told.
    pub staleness: Span,
    /// Whether proxies send reads to where a change ran for that long; without it stale answers are counted.
    pub fences: bool,
    /// The state that servers keep of what they serve.
    pub heads: Heads,
    /// The freedom of the core's policies to move calls from their homes.
    pub moves: Moves,
    /// What goes wrong.
    pub faults: Faults,
    /// Whether the queues over time are kept, for figures.
    pub trace: Option<Span>,
    /// Where keys are at home, if that is not drawn from the seed.
    pub homes: Option<Homes>,
}

/// The state that servers keep of what they serve, and take from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Heads {
    /// Nothing: any server serves any call at the same price.
    #[default]
    SharedNothing,
    /// Capabilities, as heads over CephFS ([`Capabilities`]), whose metadata servers have so many cores together.
    ///
    /// [`Capabilities`]: crate::model::capabilities::Capabilities
    Caps {
        /// Cores of the metadata servers; none: as many as are needed.
        mds: Option<f64>,
    },
}

impl Heads {
    /// The names that users may type.
    pub const USAGE: &'static str = "shared-nothing, caps, caps:mds=CORES";

    /// The heads that were typed, or one line that says what is possible.
    pub fn parse(text: &str) -> Result<Self, String> {
        let cores = |text: &str| text.parse::<f64>().ok().filter(|cores| *cores >= 0.01 && *cores <= 1000.0);
        match (text, text.strip_prefix("caps:mds=").map(cores)) {
            ("shared-nothing", _) => Ok(Self::SharedNothing),
            ("caps", _) => Ok(Self::Caps { mds: None }),
            (_, Some(mds @ Some(_))) => Ok(Self::Caps { mds }),
            (_, Some(None)) => Err(format!("--heads caps:mds=CORES takes 0.01..1000 cores, got '{text}'")),
            (_, None) => Err(format!("unknown heads '{text}'; possible: {}", Self::USAGE)),
        }
    }
}

/// The ring and the keys of a pool that exists, so that its homes are the simulated ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Homes {
    /// What places each server on the ring.
    pub servers: Vec<u64>,
    /// Every directory's key, by its number.
    pub directories: Vec<Key>,
}

/// How often load shares are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareInterval {
    /// As the core chooses for the service time and the number of proxies.
    Auto,
    /// Never: own counts only.
    Off,
    /// So often.
    Every(Span),
}

/// A cache in every proxy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheConfig {
    /// What it may do.
    pub mode: Mode,
    /// p*. Paper: P10.
    pub stale_target: f64,
    /// How hazards are estimated.
    pub estimator: Estimator,
    /// The coherence rules; only tests switch one off.
    pub rules: Rules,
    /// How many entries it may hold.
    pub entries_max: usize,
}

impl Config {
    /// The study's defaults: m = 8, load 0.7, constant 100 ms, round trip 1 ms, one proxy, 300 s. Paper: P19.
    pub fn new(policy: Contender, workload: Spec) -> Self {
        let Setting { directories, files, write_share, .. } = Setting::default();
        Self {
            policy,
            workload,
            servers: 8,
            workers: 1,
            proxies: 1,
            load: 0.7,
            service: Service::PAPER,
            rtt: Span::from_millis(1),
            duration: Span::from_secs(300),
            directories,
            files,
            write_share,
            seed: 1,
            shares: ShareInterval::Auto,
            cache: None,
            staleness: Span::ZERO,
            fences: true,
            heads: Heads::default(),
            moves: Moves::default(),
            faults: Faults::default(),
            trace: None,
            homes: None,
        }
    }

    /// What is impossible about it, in one line; nothing is simulated then.
    pub fn check(&self) -> Result<(), String> {
        let range = |name: &str, value: u32, low: u32, high: u32| match (low..=high).contains(&value) {
            true => Ok(()),
            false => Err(format!("{name} must be in {low}..{high}, got {value}")),
        };
        range("--servers", self.servers, 1, SERVERS_MAX as u32)?;
        range("--workers", self.workers, 1, 1024)?;
        range("--proxies", self.proxies, 1, 64)?;
        range("--directories", self.directories, 1, 1 << 20)?;
        range("--files", self.files, 1, 1 << 20)?;
        range("--slow", self.faults.slow.map_or(0, |slow| slow.servers), 0, self.servers)?;
        range("--failing", self.faults.failing, 0, self.servers)?;
        if !(self.load > 0.0 && self.load <= 4.0) {
            return Err(format!("--load must be above 0 and at most 4, got {}", self.load));
        }
        if self.duration == Span::ZERO || self.duration > Span::from_secs(86_400) {
            return Err("--duration must be above 0 and at most 24h".to_owned());
        }
        if self.staleness > Span::ZERO && self.proxies > 1 {
            return Err("--staleness takes one proxy: fences are not shared".to_owned());
        }
        if self.staleness > Span::from_secs(86_400) {
            return Err("--staleness must be at most 24h".to_owned());
        }
        if self.rtt > Span::from_secs(10) {
            return Err("--rtt must be at most 10s".to_owned());
        }
        if self.faults.slow.is_some_and(|slow| !(slow.factor >= 0.01 && slow.factor <= 1000.0)) {
            return Err("--slow K:FACTOR takes a factor in 0.01..1000".to_owned());
        }
        let share = |name: &str, value: f64| match (0.0..1.0).contains(&value) {
            true => Ok(()),
            false => Err(format!("{name} must be in 0..1, got {value}")),
        };
        if !(0.0..=1.0).contains(&self.write_share) {
            return Err(format!("--write-share must be in 0..1, got {}", self.write_share));
        }
        if self.homes.as_ref().is_some_and(|homes| homes.counts() != (self.servers, self.directories)) {
            return Err("homes must be given for every server and every directory".to_owned());
        }
        share("--loss", self.faults.loss)?;
        share("--share-loss", self.faults.share_loss)
    }

    /// How long reads stay where a change ran.
    pub(crate) fn fenced_for(&self) -> Span {
        // Rivals know no fences.
        let fences = self.fences && matches!(self.policy, Contender::Core(_));
        if fences { self.staleness } else { Span::ZERO }
    }

    /// Whether it is followed what every read sees.
    pub(crate) fn follows(&self) -> bool {
        self.cache.is_some() || self.staleness > Span::ZERO
    }

    /// The same as the workload crate wants it.
    pub fn setting(&self) -> Setting {
        Setting {
            servers: self.servers,
            workers: self.workers,
            service_mean: self.service.mean(),
            load: self.load,
            duration: self.duration,
            directories: self.directories,
            files: self.files,
            write_share: self.write_share,
            seed: self.seed,
            ..Setting::default()
        }
    }
}

impl Homes {
    fn counts(&self) -> (u32, u32) {
        (self.servers.len() as u32, self.directories.len() as u32)
    }
}
