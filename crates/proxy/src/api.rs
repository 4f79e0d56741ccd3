//! What the control plane says and is told: the JSON of `/api/v1`, for the daemon and for the commands alike.
//!
//! Fields are only ever added within `v1`; readers ignore what they do not know.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where commands find the daemon if nobody says.
pub const SOCKET: &str = "/run/midas/midas.sock";
/// GET: [`Status`].
pub const STATUS: &str = "/api/v1/status";
/// POST [`Explain`]: [`Explanation`]. Changes nothing.
pub const EXPLAIN: &str = "/api/v1/explain";
/// POST [`Set`]: [`Done`].
pub const SET: &str = "/api/v1/set";
/// POST [`Drain`]: [`Done`].
pub const DRAIN: &str = "/api/v1/drain";
/// POST [`Drain`]: [`Done`].
pub const UNDRAIN: &str = "/api/v1/undrain";
/// POST [`Bypass`]: [`Done`].
pub const BYPASS: &str = "/api/v1/bypass";

/// How the daemon is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The daemon's version.
    pub version: String,
    /// How long it runs.
    pub uptime_seconds: u64,
    /// Why it is not ready; empty when it is.
    pub not_ready: Vec<String>,
    /// Whether every call goes to its home, whatever the policies.
    pub bypass: bool,
    /// Client connections now.
    pub clients: u64,
    /// Calls answered so far.
    pub calls: u64,
    /// Calls that wait for a server that may serve them, now.
    pub held: u64,
    /// In the order of the file.
    pub exports: Vec<Export>,
    /// In the order of the file.
    pub pools: Vec<Pool>,
}

/// An export.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Export {
    /// What clients mount.
    pub path: String,
    /// The pool that serves it.
    pub pool: String,
    /// How its calls are routed.
    pub policy: Setting,
    /// How far its cache may be trusted.
    pub mode: Setting,
    /// Servers that belong to it and take calls now.
    pub admitted: usize,
    /// Calls by why they went where they went.
    pub routes: BTreeMap<String, u64>,
}

/// A value that can be changed while the daemon runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// What holds now.
    pub now: String,
    /// What the file says: holds again after a restart.
    pub file: String,
}

impl Setting {
    /// Whether it was changed.
    pub fn changed(&self) -> bool {
        self.now != self.file
    }
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// In the order of the file.
    pub servers: Vec<Server>,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// As the file calls it.
    pub name: String,
    /// Where it answers NFS.
    pub address: String,
    /// Whether calls may go there.
    pub health: String,
    /// Calls under way there.
    pub in_flight: u64,
    /// Calls sent there so far.
    pub dispatched: u64,
    /// Files with data there that is not committed: until it is, their calls go there, drained or not.
    pub uncommitted: u64,
    /// Why it does not belong to its pool, in words.
    pub foreign: Option<String>,
    /// Its median latency in milliseconds.
    pub latency_p50_ms: f64,
    /// Its tail latency in milliseconds.
    pub latency_p99_ms: f64,
    /// Its service time in milliseconds; 0 while unknown.
    pub service_ms: f64,
    /// How much a call there counts: more than 1 if it is slow, errs, or has just come back.
    pub weight: f64,
}

/// What to explain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explain {
    /// A path below an export, as clients see it.
    pub path: Option<String>,
    /// Or a file handle in hexadecimal digits.
    pub handle: Option<String>,
    /// What is done with it; getattr if not given.
    pub op: Option<String>,
}

/// Where a call would go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The export.
    pub export: String,
    /// Its pool.
    pub pool: String,
    /// What is done.
    pub op: String,
    /// The handle whose home counts: the directory's for a call on a name, the object's otherwise.
    pub handle: String,
    /// The name in that directory.
    pub name: Option<String>,
    /// The policy that decides.
    pub policy: String,
    /// The home, whatever its health.
    pub home: String,
    /// The one server that may serve it, and why.
    pub bound: Option<Bound>,
    /// Every server of the pool, the home's order first.
    pub servers: Vec<Candidate>,
    /// Where it would go now; none if it would wait.
    pub to: Option<String>,
    /// The reason in a word.
    pub why: String,
    /// The reason in a sentence.
    pub because: String,
}

/// What ties a call to a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// The server.
    pub server: String,
    /// Why.
    pub because: String,
}

/// A server as a decision sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// As the file calls it.
    pub name: String,
    /// Whether calls may go there.
    pub health: String,
    /// Why this call may not; none if it may.
    pub excluded: Option<String>,
    /// Calls under way there.
    pub in_flight: u64,
    /// The same, with calls at a slow server counted for more.
    pub work: f64,
}

/// Changes an export until the daemon ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// The export's path.
    pub export: String,
    /// How its calls are routed from now on.
    pub policy: Option<String>,
    /// How far its cache may be trusted from now on.
    pub mode: Option<String>,
}

/// Names a server that is to take no new calls, or is to take them again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// As the file calls it.
    pub server: String,
}

/// Home routing for everything, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bypass {
    /// Which.
    pub on: bool,
}

/// What a change did, in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// The line.
    pub done: String,
}

/// Why a request was refused, in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The line.
    pub error: String,
}
