//! The configuration of `midas serve`: a TOML file becomes a [`Config`], or every mistake in it with its line and column.
//!
//! A `Config` in hand is valid, names are resolved, and nothing can change it: what is changed while the daemon runs is kept
//! elsewhere, as overrides. Not read by serde's derive, which ends at the first mistake and forgets where things stood.

mod address;
pub(crate) mod caching;
mod change;
mod cluster;
mod entry;
mod error;
mod key;
pub(crate) mod nearest;
mod network;
mod reading;
mod table;
mod value;
mod warning;

#[cfg(test)]
mod tests;

pub use caching::{Caching, Preset, Writers};
pub use change::{Applies, Change, Difference};
pub use cluster::{Cluster, ClusterMember};
pub use entry::{Entry, Place};
pub use error::{ConfigError, PROBLEMS_MAX, Problem};
pub use key::{Fallback, KEYS, Key, Table};
pub use network::Network;
pub(crate) use value::parse_policy;

use midas_core::cache::Mode;
use midas_core::route::moves::Moves;
use midas_core::route::policy::Policy;
use midas_core::time::Span;
use reading::Reading;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// What `midas serve` was told to do.
///
/// Made from a file alone, so that these hold: at least one pool and one export, names and paths unique, every export's pool
/// exists, every pool has 1..=`SERVERS_MAX` different servers, no two listeners want the same port, every value is in its range,
/// and no export has a mode that its writers do not permit.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    threads: usize,
    listen: Listen,
    pools: Vec<Pool>,
    exports: Vec<Export>,
    cache: Cache,
    cluster: Option<Cluster>,
    limits: Limits,
    log: Log,
    admin: Admin,
    watch: Watch,
    state: State,
}

/// Where clients connect. Port 0 is any free one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// NFS; at least one.
    pub nfs: Vec<SocketAddr>,
    /// MOUNT on addresses of its own; if there is none, MOUNT is answered where NFS is.
    pub mount: Vec<SocketAddr>,
    /// Portmap; if there is none, it is not offered.
    pub portmap: Vec<SocketAddr>,
}

/// Servers that share one namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// What exports call it.
    pub name: String,
    /// In the order of the file: a server's index is its `ServerId`.
    pub servers: Vec<Server>,
    /// How long another server may answer with old attributes.
    pub staleness: Span,
    /// What it costs to serve a call at another server than its home.
    pub moves: Moves,
    /// How long a call that may not move waits for its server.
    pub failover_after: Span,
    /// Connections of one event loop to one server.
    pub connections: usize,
    /// Calls in flight at one server: its bulkhead.
    pub in_flight_max: usize,
    /// A call without an answer for so long has failed.
    pub call_timeout: Span,
    /// How often a server's health is asked.
    pub probe_interval: Span,
    /// A probe without an answer for so long has failed.
    pub probe_timeout: Span,
    /// Calls a second that the servers can do at most; if not given, what was seen tells. Paper: P2.
    pub rate_peak: Option<u64>,
    /// The command that fences a server which is down.
    pub on_down: Option<String>,
}

/// A server of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// As the file calls it, port included: stable when its address changes.
    pub name: String,
    /// Where it answers NFS.
    pub address: SocketAddr,
    /// Where it answers MOUNT.
    pub mount: SocketAddr,
}

/// What clients may mount, who may, and how its calls are routed.
#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    /// What clients mount.
    pub path: String,
    /// What the servers export.
    pub source: String,
    /// Index into [`Config::pools`].
    pub pool: usize,
    /// Who may mount and call; at least one.
    pub clients: Vec<Network>,
    /// What they may do.
    pub access: Access,
    /// Which users become the anonymous one.
    pub squash: Squash,
    /// The anonymous user.
    pub anonymous: Anonymous,
    /// Whether client ports of 1024 and above are accepted.
    pub insecure: bool,
    /// How its calls are routed.
    pub policy: Policy,
    /// What the file says that it is for; `mode` and `caching` have what follows from it.
    pub preset: Option<Preset>,
    /// How far the cache may be trusted.
    pub mode: Mode,
    /// Who else writes, and how old answers may become. Its writers permit its mode.
    pub caching: Caching,
    /// Its parts that are cached in another way: different paths below its own.
    pub subtrees: Vec<Subtree>,
}

/// A directory of an export, and all that lies below it, as far as no other subtree has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Subtree {
    /// As clients see it, the export's path included.
    pub path: String,
    /// What the file says that it is for.
    pub preset: Option<Preset>,
    /// How far the cache may be trusted.
    pub mode: Mode,
    /// Who else writes, and how old answers may become. Its writers permit its mode.
    pub caching: Caching,
}

/// What the clients of an export may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read.
    ReadOnly,
    /// Read and change.
    ReadWrite,
}

/// Which users become the anonymous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Squash {
    /// User 0 and group 0.
    Root,
    /// All.
    All,
    /// None.
    None,
}

/// Who a squashed user becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anonymous {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// The cache of all exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Bytes of what is kept, at most.
    pub memory: usize,
}

/// What the daemon takes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Client connections; at the limit an idle one is ended for a new one.
    pub connections: usize,
    /// Of these, connections of clients on no export's list, in all.
    pub strangers: usize,
    /// Bytes of one record; a larger claim closes the connection.
    pub record: usize,
    /// Calls in flight of one client connection; at the limit it is not read.
    pub calls_per_client: usize,
    /// Bytes of records and replies under way, over all connections.
    pub memory: usize,
    /// How long calls under way may take to end when the daemon is told to.
    pub drain: Span,
    /// How long the answers of changes are kept for clients that ask again.
    pub answers_kept: Span,
}

/// What is said on stderr, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// The form of a line.
    pub format: LogFormat,
    /// The least important level that is said.
    pub level: Level,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs: one object a line.
    Json,
}

/// How important an event is, most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something does not work.
    Error,
    /// Something will not work for long.
    Warn,
    /// Something changed.
    Info,
    /// For those who look for a fault.
    Debug,
}

/// Where the daemon is controlled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// The unix socket of every live command.
    pub socket: PathBuf,
    /// A read-only copy of it over TCP.
    pub tcp: Option<SocketAddr>,
}

/// What those who watch are told beside what passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Says which job a client works for.
    pub jobs_file: Option<PathBuf>,
    /// Says so too, on its standard output.
    pub jobs_command: Option<String>,
    /// How often it is run.
    pub jobs_every: Span,
}

/// What outlives the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Targets of the warm-up.
    pub file: PathBuf,
    /// Whether calls that must not be executed twice are written down beside it.
    pub journal: bool,
}

/// Finds the addresses of a host name.
pub type Resolve<'r> = &'r dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// The address that this `host:port` of a file means, asked of the system; or one line that says what is wrong.
pub fn address_of(text: &str) -> Result<SocketAddr, String> {
    address::parse(text, &address::ask_system)
}

impl Config {
    /// Where the file is if nobody says.
    pub const PATH: &'static str = "/etc/midas/midas.toml";

    /// The configuration in this file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = error::read(path)?;
        Self::parse(&text).map_err(|error| error.in_file(path))
    }

    /// The configuration in this text. Asks the system for the addresses of host names.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        Self::parse_with(text, &address::ask_system)
    }

    /// The configuration in this text, with somebody else's addresses of host names.
    pub fn parse_with(text: &str, resolve: Resolve<'_>) -> Result<Self, ConfigError> {
        let mut reading = Reading::new(resolve);
        let config = table::document(text, &mut reading);
        match (config, reading.end(text)) {
            (Some(config), None) => Ok(config),
            (_, Some(error)) => Err(error),
            (None, None) => unreachable!("without a problem there is a configuration"),
        }
    }

    /// Event loops.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Where clients connect.
    pub fn listen(&self) -> &Listen {
        &self.listen
    }

    /// In the order of the file.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// In the order of the file.
    pub fn exports(&self) -> &[Export] {
        &self.exports
    }

    /// The pool of one of this configuration's exports.
    pub fn pool_of(&self, export: &Export) -> &Pool {
        &self.pools[export.pool]
    }

    /// The cache of all exports.
    pub fn cache(&self) -> Cache {
        self.cache
    }

    /// The proxies that it belongs to, if it is not alone.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    /// What the daemon takes at most.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// What is said on stderr.
    pub fn log(&self) -> Log {
        self.log
    }

    /// Where the daemon is controlled.
    pub fn admin(&self) -> &Admin {
        &self.admin
    }

    /// What those who watch are told beside what passes.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// What outlives the daemon.
    pub fn state(&self) -> &State {
        &self.state
    }
}

impl Config {
    /// The same with another form of log lines.
    #[must_use]
    pub fn with_log_format(mut self, format: LogFormat) -> Self {
        self.log.format = format;
        self
    }

    /// The same with another control socket.
    #[must_use]
    pub fn with_socket(mut self, socket: PathBuf) -> Self {
        self.admin.socket = socket;
        self
    }
}

impl Export {
    /// Whether a client at this address is on the list.
    pub fn admits(&self, client: std::net::IpAddr) -> bool {
        self.clients.iter().any(|network| network.contains(client))
    }
}

impl Access {
    /// What users type.
    pub const NAMES: [(&'static str, Self); 2] = [("ro", Self::ReadOnly), ("rw", Self::ReadWrite)];
}

impl Squash {
    /// What users type.
    pub const NAMES: [(&'static str, Self); 3] = [("root", Self::Root), ("all", Self::All), ("none", Self::None)];
}

impl LogFormat {
    /// What users type.
    pub const NAMES: [(&'static str, Self); 2] = [("text", Self::Text), ("json", Self::Json)];
}

impl Level {
    /// What users type.
    pub const NAMES: [(&'static str, Self); 4] =
        [("error", Self::Error), ("warn", Self::Warn), ("info", Self::Info), ("debug", Self::Debug)];
}
