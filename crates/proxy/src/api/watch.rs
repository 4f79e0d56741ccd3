//! What can be watched: hot spots, the course of things, the log of decisions, calls as they pass.
//!
//! Fields are only ever added within `v1`; readers ignore what they do not know, and take what is missing as its default.

use super::{Cluster, Status};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// GET: server-sent events. First one `past`, a list of [`Point`]s; then a `frame`, [`Frame`], every [`EVERY_MS`].
pub const LIVE: &str = "/api/v1/live";
/// GET: [`Hot`].
pub const HOT: &str = "/api/v1/hot";
/// GET, `?since=NUMBER`: the list of [`Event`]s that are still known and newer.
pub const JOURNAL: &str = "/api/v1/journal";
/// GET, `?path=PATH&op=OP`: [`super::Explanation`] without the handle, for whoever may only read.
pub const WHERE: &str = "/api/v1/where";
/// GET, [`Filter`] as a query: a line of JSON, [`Traced`], for every call that passes; on the control socket alone.
pub const TRACE: &str = "/api/v1/trace";

/// Time between two frames, in milliseconds.
pub const EVERY_MS: u64 = 500;
/// Points that are kept: five minutes.
pub const POINTS_MAX: usize = 600;
/// Events that are kept.
pub const EVENTS_MAX: usize = 1024;

/// Everything at one moment. What `midas top` and the page show.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// What the charts show.
    pub point: Point,
    /// As `midas status --json`.
    pub status: Status,
    /// As `midas hot --json`.
    pub hot: Hot,
    /// New since the frame before.
    pub events: Vec<Event>,
    /// As `midas cluster --json`, where there is one.
    pub cluster: Option<Cluster>,
}

/// A moment of the charts. Rates and shares are of the time since the point before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Point {
    /// Of the points since the daemon's start.
    pub number: u64,
    /// Since the daemon's start.
    pub uptime_ms: u64,
    /// Pool by pool, server by server, in the order of the status.
    pub servers: Vec<ServerPoint>,
    /// Answered calls a second, by procedure; those that did not happen are left out.
    pub procedures: BTreeMap<String, f64>,
    /// Answered calls a second by outcome: `hit`, `absent` (a hit: there is no such name), `joined`, `forwarded`, `here` (answered or refused without cache and server).
    pub outcomes: BTreeMap<String, f64>,
    /// The share of reads that caches answered, joined ones included, by procedure.
    pub hits: BTreeMap<String, f64>,
    /// In the order of the status.
    pub exports: Vec<ExportPoint>,
}

/// A server at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerPoint {
    /// Calls of this proxy under way there, and, where there are others, of theirs.
    pub queue: f64,
    /// Calls a second sent there.
    pub calls: f64,
    /// Smoothed median latency.
    pub p50_ms: f64,
    /// Smoothed tail latency.
    pub p99_ms: f64,
}

/// An export at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExportPoint {
    /// The share of routed calls that left their home by choice.
    pub steered: f64,
    /// The share of routed calls that only one server could serve.
    pub bound: f64,
    /// What the controller steers by; none while it has no targets.
    pub pressure: Option<f64>,
    /// Knobs turn when the pressure stays below the first or above the second.
    pub thresholds: [f64; 2],
    /// The load imbalance that the pressure is made of.
    pub imbalance: f64,
    /// Every knob by the word that users read, TTLs by class as `ttl_ms CLASS`.
    pub knobs: BTreeMap<String, f64>,
}

/// Who asks most: what is hottest is first within two seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hot {
    /// How far back it looks: 0.75 to 1.5.
    pub seconds: f64,
    /// Calls in that time, all of them; those that came while it was read are nobody's below.
    pub calls: u64,
    /// Time that servers spent on them, all of it: of each server no more than the time that passed.
    pub server_ms: f64,
    /// Most calls first: the first 20 by calls, and the first 20 by time.
    pub directories: Vec<Spot>,
    /// Most calls first.
    pub clients: Vec<Spot>,
    /// Most calls first.
    pub users: Vec<Spot>,
}

/// Something that is asked for, or someone who asks, much.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spot {
    /// The path of a directory, where it is known, a client's address, a user's number; of a directory without a known path `#` and its digest.
    pub name: String,
    /// A directory's digest, as traces show it.
    pub digest: Option<String>,
    /// A directory's handle; on the control socket alone.
    pub handle: Option<String>,
    /// The job that a client works for, where the site says so.
    pub job: Option<String>,
    /// Calls; too many by `error` at most.
    pub calls: u64,
    /// By how much `calls` may be too high.
    pub error: u64,
    /// Time that servers surely spent on them, from when they had answered the call before: what a call waits for others is not its own. Of a
    /// server that works on several at once it is the call's share.
    pub server_ms: f64,
    /// The share of them that caches answered.
    pub hits: f64,
}

/// Something that was done or decided, with its reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
    /// From 1, growing. Of old ones the decisions are forgotten first.
    pub number: u64,
    /// Since the daemon's start.
    pub uptime_ms: u64,
    /// `knob`, `health`, `cache`, `cluster`, `change` (by an administrator), or `decision` (a sample of the calls that left their home, or wait).
    pub kind: String,
    /// The export, server, member or path that it is about.
    pub about: String,
    /// What, in a sentence.
    pub what: String,
    /// Why, in a sentence.
    pub why: String,
}

/// Which calls to trace. What is given must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// A client's address.
    pub client: Option<String>,
    /// A path that the call's directory or object lies at or below.
    pub path: Option<String>,
    /// A procedure's name, in either case.
    pub procedure: Option<String>,
    /// A server's name.
    pub server: Option<String>,
    /// A reason, as in [`Traced::why`].
    pub reason: Option<String>,
}

/// A call that was answered. A file of such lines is a workload: `trace:FILE`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Traced {
    /// When it came, in microseconds since the daemon's start.
    pub at_us: u64,
    /// The client's address.
    pub client: String,
    /// Its user, if it says so.
    pub uid: Option<u32>,
    /// The procedure's name, in capitals.
    pub procedure: String,
    /// The digest of the directory of a call on a name, of the object otherwise.
    pub place: String,
    /// The name in the directory.
    pub name: Option<String>,
    /// The digest of what a LOOKUP, CREATE, MKDIR, SYMLINK or LINK led to, so that calls on it can be told.
    pub found: Option<String>,
    /// Of RENAME: the digest of the other directory, and the name there.
    pub to: Option<(String, String)>,
    /// The path, where it is known.
    pub path: Option<String>,
    /// The server that answered; none if nobody was asked.
    pub server: Option<String>,
    /// Its home, if it was routed.
    pub home: Option<String>,
    /// `hit`, `absent`, `joined`, `here`, or why it went where it went (`home`, `steered`, ..).
    pub why: String,
    /// NFS's word for how it ended, in capitals.
    pub status: String,
    /// From its arrival to its answer.
    pub took_us: u64,
    /// Lines that were left out before this one because whoever reads is too slow.
    pub missed: u64,
}
