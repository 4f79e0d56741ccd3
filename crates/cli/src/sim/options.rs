//! What was typed -> what it means. The same options come from the command line and from a scenario file.

use crate::failure::Failure;
use clap::Args;
use midas_core::cache::{Estimator, Mode, Rules};
use midas_core::route::moves::Moves;
use midas_core::time::Span;
use midas_sim::config::{CacheConfig, Config, Heads, ShareInterval};
use midas_sim::fault::{Faults, Slow};
use midas_sim::policy::Contender;
use midas_workload::Service;
use midas_workload::Spec;
use midas_workload::units::parse_span;
use serde::Deserialize;

/// The world to simulate.
#[derive(Args, Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct Options {
    /// Metadata servers (1..1024)
    #[arg(long, default_value_t = 8)]
    servers: u32,
    /// Calls that a server works on at once
    #[arg(long, default_value_t = 1)]
    workers: u32,
    /// Proxies (1..64)
    #[arg(long, default_value_t = 1)]
    proxies: u32,
    /// Workloads, separated by commas; `all` for every one (see `midas sim list`); or trace:FILE, written by `midas trace --json`
    #[arg(long, default_value = "zipf:1.1")]
    workload: String,
    /// Policies, separated by commas; `all` for every one (see `midas sim list`)
    #[arg(long, default_value = "first-fit")]
    policy: String,
    /// Offered load, relative to what the servers can do
    #[arg(long, default_value_t = 0.7, allow_negative_numbers = true)]
    load: f64,
    /// Service times: const:T, exp:T, lognormal:T or bimodal:T; +ops multiplies by the kind of call (--load then counts lookups)
    #[arg(long, default_value = "const:100ms")]
    service: String,
    /// Round trip between proxy and server, and between two proxies
    #[arg(long, default_value = "1ms")]
    rtt: String,
    /// How long calls come [default: 300s; of a trace, all of it]
    #[arg(long)]
    duration: Option<String>,
    /// Directories in the namespace
    #[arg(long, default_value_t = 1024)]
    directories: u32,
    /// Names in a directory
    #[arg(long, default_value_t = 63)]
    files: u32,
    /// Share of calls that write, in workloads without a mix of their own
    #[arg(long, default_value_t = 0.2, allow_negative_numbers = true)]
    write_share: f64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds
    #[arg(long, default_value_t = 1)]
    seeds: u32,
    /// K:FACTOR, the first K servers take FACTOR times as long
    #[arg(long)]
    slow: Option<String>,
    /// So many servers answer at once, with an error
    #[arg(long, default_value_t = 0)]
    failing: u32,
    /// Share of messages that are lost and sent again
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    loss: f64,
    /// Share of load shares that are lost for good
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    share_loss: f64,
    /// How often proxies tell each other their load: auto, off, or a time
    #[arg(long, default_value = "auto")]
    share_interval: String,
    /// The cache: off, strict, lease, ttl or immutable
    #[arg(long, default_value = "off")]
    cache: String,
    /// With a cache: how many entries each proxy's may hold
    #[arg(long, default_value_t = 100_000)]
    cache_entries: usize,
    /// With --cache ttl: the probability that an entry goes stale before it expires (p*; 1e-4 if not given)
    #[arg(long, allow_negative_numbers = true)]
    stale_target: Option<f64>,
    /// With --cache ttl: how hazards are estimated, object (ours) or paper
    #[arg(long)]
    estimator: Option<String>,
    /// How long a server answers with attributes and names that it once knew, whatever others have
    /// changed; every stale answer is found
    #[arg(long, default_value = "0s", value_name = "TIME")]
    staleness: String,
    /// With --staleness: let proxies send reads anywhere; stale answers are counted
    #[arg(long, requires = "staleness")]
    no_fences: bool,
    /// What servers keep of what they serve: shared-nothing; or caps, as heads over CephFS that take
    /// capabilities from each other; or caps:mds=CORES, where the metadata servers behind them have
    /// so many cores
    #[arg(long, default_value = "shared-nothing")]
    heads: String,
    /// Whether paper and first-fit may move calls from their homes: free, or none
    #[arg(long, default_value = "free")]
    moves: String,
    /// With a cache: mutations a second that reach the servers past all proxies
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    bypass_rate: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            servers: 8,
            workers: 1,
            proxies: 1,
            workload: "zipf:1.1".into(),
            policy: "first-fit".into(),
            load: 0.7,
            service: "const:100ms".into(),
            rtt: "1ms".into(),
            duration: None,
            directories: 1024,
            files: 63,
            write_share: 0.2,
            seed: 1,
            seeds: 1,
            slow: None,
            failing: 0,
            loss: 0.0,
            share_loss: 0.0,
            share_interval: "auto".into(),
            cache: "off".into(),
            cache_entries: 100_000,
            stale_target: None,
            estimator: None,
            staleness: "0s".into(),
            no_fences: false,
            heads: "shared-nothing".into(),
            moves: "free".into(),
            bypass_rate: 0.0,
        }
    }
}

impl Options {
    /// Every run that was asked for: policies x workloads x seeds.
    pub(crate) fn configs(&self) -> Result<Vec<Config>, Failure> {
        let policies = many(&self.policy, &Contender::NAMES, Contender::parse)?;
        let examples: Vec<&str> = Spec::list().iter().map(|described| described.example).collect();
        let workloads = many(&self.workload, &examples, crate::workload::parse)?;
        if !(1..=100_000).contains(&self.seeds) {
            return Err(Failure::Usage(format!("--seeds must be in 1..100000, got {}", self.seeds)));
        }
        if self.seed.checked_add(u64::from(self.seeds)).is_none() {
            return Err(Failure::Usage(format!("--seed must be at most {}", u64::MAX - u64::from(self.seeds))));
        }
        let mut configs = Vec::new();
        for workload in &workloads {
            for policy in &policies {
                let config = self.config(*policy, workload.clone())?;
                configs.extend((0..u64::from(self.seeds)).map(|i| Config { seed: self.seed + i, ..config.clone() }));
            }
        }
        Ok(configs)
    }

    /// The same options with other policies and seeds: a scenario file is run with several.
    pub(crate) fn with(self, policy: &str, seeds: u32) -> Self {
        Self { policy: policy.to_owned(), seeds, ..self }
    }

    fn config(&self, policy: Contender, workload: Spec) -> Result<Config, Failure> {
        // A recording brings its own names and, if nobody says another, its length.
        let replay = workload.replayed().map(|it| (it.length(), it.directories(), it.files()));
        let (usual, directories, files) = replay.unwrap_or((DURATION, self.directories, self.files));
        let config = Config {
            servers: self.servers,
            workers: self.workers,
            proxies: self.proxies,
            load: self.load,
            service: Service::parse(&self.service).map_err(Failure::Usage)?,
            rtt: span("--rtt", &self.rtt)?,
            duration: self.duration.as_deref().map_or(Ok(usual), |typed| span("--duration", typed))?,
            directories,
            files,
            write_share: self.write_share,
            seed: self.seed,
            shares: self.shares()?,
            cache: self.cache()?,
            faults: self.faults()?,
            staleness: span("--staleness", &self.staleness)?,
            fences: !self.no_fences,
            heads: Heads::parse(&self.heads).map_err(Failure::Usage)?,
            moves: self.moves()?,
            ..Config::new(policy, workload)
        };
        config.check().map_err(Failure::Usage)?;
        Ok(config)
    }

    fn shares(&self) -> Result<ShareInterval, Failure> {
        match (self.share_interval.as_str(), self.proxies) {
            ("auto", _) => Ok(ShareInterval::Auto),
            ("off", _) => Ok(ShareInterval::Off),
            (_, 1) => Err(Failure::Usage("--share-interval needs --proxies of at least 2".into())),
            (text, _) => match parse_span(text) {
                Ok(every) if every >= Span::from_micros(50) => Ok(ShareInterval::Every(every)),
                Ok(_) => Err(Failure::Usage("--share-interval must be at least 50us".into())),
                Err(_) => Err(Failure::Usage(format!(
                    "--share-interval takes auto, off or a time such as 10ms, got '{text}'"
                ))),
            },
        }
    }

    fn moves(&self) -> Result<Moves, Failure> {
        let named = Moves::NAMES.into_iter().find(|(name, _)| *name == self.moves);
        let possible = Moves::NAMES.map(|(name, _)| name).join(", ");
        let unknown = || Failure::Usage(format!("--moves takes one of {possible}, got '{}'", self.moves));
        named.map(|(_, moves)| moves).ok_or_else(unknown)
    }

    fn cache(&self) -> Result<Option<CacheConfig>, Failure> {
        let mode = match self.cache.as_str() {
            "off" => None,
            name => Some(Mode::parse(name).ok_or_else(|| {
                Failure::Usage(format!("unknown cache mode '{name}'; possible: off, strict, lease, ttl, immutable"))
            })?),
        };
        if mode != Some(Mode::Ttl) && (self.stale_target.is_some() || self.estimator.is_some()) {
            return Err(Failure::Usage("--stale-target and --estimator need --cache ttl".into()));
        }
        if mode.is_none() && self.bypass_rate > 0.0 {
            return Err(Failure::Usage("--bypass-rate needs a cache: without one nothing can be stale".into()));
        }
        if !(1..=10_000_000).contains(&self.cache_entries) {
            return Err(Failure::Usage(format!("--cache-entries must be in 1..10000000, got {}", self.cache_entries)));
        }
        let estimator = match self.estimator.as_deref() {
            None => Estimator::Object,
            Some(name) => Estimator::parse(name)
                .ok_or_else(|| Failure::Usage(format!("unknown estimator '{name}'; possible: object, paper")))?,
        };
        let stale_target = self.stale_target.unwrap_or(1e-4);
        if !(stale_target > 0.0 && stale_target < 1.0) {
            return Err(Failure::Usage(format!("--stale-target must lie between 0 and 1, got {stale_target}")));
        }
        let entries_max = self.cache_entries;
        Ok(mode.map(|mode| CacheConfig { mode, stale_target, estimator, rules: Rules::ALL, entries_max }))
    }

    fn faults(&self) -> Result<Faults, Failure> {
        let wrong = |text: &str| Failure::Usage(format!("--slow takes K:FACTOR such as 2:2.0, got '{text}'"));
        let slow = match &self.slow {
            None => None,
            Some(text) => {
                let (servers, factor) = text.split_once(':').ok_or_else(|| wrong(text))?;
                let servers = servers.parse().map_err(|_| wrong(text))?;
                Some(Slow { servers, factor: factor.parse().map_err(|_| wrong(text))? })
            }
        };
        if !(self.bypass_rate >= 0.0 && self.bypass_rate <= 1e6) {
            return Err(Failure::Usage(format!("--bypass-rate must be in 0..1000000, got {}", self.bypass_rate)));
        }
        let (loss, share_loss, bypass_rate) = (self.loss, self.share_loss, self.bypass_rate);
        Ok(Faults { slow, failing: self.failing, loss, share_loss, bypass_rate })
    }
}

pub(super) fn span(option: &str, text: &str) -> Result<Span, Failure> {
    parse_span(text).map_err(|error| Failure::Usage(format!("{option}: {error}")))
}

/// How long calls come if nobody says.
const DURATION: Span = Span::from_secs(300);

/// A list of names separated by commas, or `all`. An option of a policy may hold commas too: a part without a name of its own belongs to the one
/// before.
pub(crate) fn many<T>(text: &str, all: &[&str], parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, Failure> {
    if text == "all" {
        return all.iter().map(|name| parse(name).map_err(Failure::Usage)).collect();
    }
    let mut names: Vec<String> = Vec::new();
    for part in text.split(',') {
        match names.last_mut() {
            Some(last) if part.contains('=') && !part.contains(':') => {
                last.push(',');
                last.push_str(part);
            }
            Some(_) | None => names.push(part.to_owned()),
        }
    }
    names.iter().map(|name| parse(name).map_err(Failure::Usage)).collect()
}
