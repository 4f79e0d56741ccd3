//! What the control plane says and is told: the JSON of `/api/v1`, for the daemon and for the commands alike.
//!
//! Fields are only ever added within `v1`; readers ignore what they do not know.

pub mod watch;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where commands find the daemon if nobody says.
pub const SOCKET: &str = "/run/midas/midas.sock";
/// GET: [`Status`].
pub const STATUS: &str = "/api/v1/status";
/// GET: 200 with [`Done`] if calls are served, otherwise 503 with the reasons in [`Fault`]. `?reads`: reads alone.
pub const READY: &str = "/ready";
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
/// GET: [`Cluster`].
pub const CLUSTER: &str = "/api/v1/cluster";
/// POST [`Held`]: [`Holdings`]. Changes nothing.
pub const CACHE: &str = "/api/v1/cache";
/// POST [`Invalidate`]: [`Done`].
pub const INVALIDATE: &str = "/api/v1/invalidate";
/// POST [`Warm`]: [`Warming`], one line after another, until the last says how it ended. Ends when the connection is closed.
pub const WARM: &str = "/api/v1/warm";

/// How the daemon is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The daemon's version.
    pub version: String,
    /// How long it runs.
    pub uptime_seconds: u64,
    /// Time of day at its start, in milliseconds since 1970. It is read once: it stays while the daemon runs, and another start has another.
    #[serde(default)]
    pub started_unix_ms: u64,
    /// Why it is not ready; empty when it is.
    pub not_ready: Vec<String>,
    /// Of these, why changes hang though reads are served.
    #[serde(default)]
    pub writes_hang: Vec<String>,
    /// Whether every call goes to its home, whatever the policies.
    pub bypass: bool,
    /// Client connections now.
    pub clients: u64,
    /// Calls answered so far.
    pub calls: u64,
    /// Calls that wait for a server that may serve them, now.
    pub held: u64,
    /// How often it could not be told which export a client's handle belongs to: such calls wait.
    #[serde(default)]
    pub unknown_owners: u64,
    /// What is written down of calls that must not be executed twice; none if nothing is.
    #[serde(default)]
    pub journal: Option<Journaled>,
    /// How it stands in its cluster; none if it is alone.
    #[serde(default)]
    pub cluster: Option<Membership>,
    /// In the order of the file.
    pub exports: Vec<Export>,
    /// In the order of the file.
    pub pools: Vec<Pool>,
}

/// Calls that must not be executed twice, on disk (`[state] journal`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journaled {
    /// Whether nothing can be written now: such calls wait.
    pub broken: bool,
    /// Entries written so far.
    pub written: u64,
    /// Times that a call had to wait because it could not be written down.
    pub refused: u64,
    /// Times that a file could be written again after it could not.
    pub anew: u64,
    /// Calls of the daemon's life before that came again.
    pub recalled: u64,
}

/// How a daemon stands in its cluster; [`Cluster`] has the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// What the cluster is called.
    pub name: String,
    /// Which member this daemon is.
    pub me: String,
    /// Whether it is in the view, in this life.
    pub in_view: bool,
    /// Whether too few members hear it and are heard by it: its view may be an old one. Reads go to the servers, mutations on exports with leases
    /// wait.
    pub cut_off: bool,
    /// How many members are in the view.
    pub present: usize,
    /// Of how many.
    pub members: usize,
    /// Why it takes no part any more.
    pub failed: Option<String>,
}

/// The cluster as this daemon sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// What it is called.
    pub name: String,
    /// Which member this daemon is.
    pub me: String,
    /// The number of the view; 0 if none was agreed yet.
    pub epoch: u64,
    /// Whether this daemon is in it, in this life.
    pub in_view: bool,
    /// Whether too few members hear it and are heard by it, for `suspect_after`: it is no part of a majority, and the view may be an old one. Reads go
    /// to the servers, mutations on exports with leases wait.
    #[serde(default)]
    pub cut_off: bool,
    /// How many members are in the view.
    pub present: usize,
    /// Who leads the consensus, as far as this daemon knows.
    pub leader: Option<String>,
    /// Of the consensus.
    pub term: u64,
    /// In the order of the configuration, this one included.
    pub members: Vec<Member>,
    /// What came from the network and was refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Frames and datagrams that had no way.
    pub lost: u64,
    /// Why this daemon takes no part any more.
    pub failed: Option<String>,
    /// What it may do with its cache, and what that costs.
    pub leases: Leases,
    /// Reads that it had from other members instead of servers, and they from it.
    pub fetches: Fetches,
    /// What members tell each other of their load.
    pub shares: Shares,
}

/// Reads between proxies. What a peer does not answer goes to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetches {
    /// Peers were asked for so many.
    pub asked: u64,
    /// They answered these.
    pub fetched: u64,
    /// They refused these, or spoke of an object so new that they may not have heard of it.
    pub refused: u64,
    /// They gave no answer to these in time, or their link broke.
    pub late: u64,
    /// So many of peers were answered here.
    pub lent: u64,
    /// And refused.
    pub declined: u64,
}

/// Load shares: each tells what a member has in flight at the servers of one pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// By this daemon, each to every other member.
    pub told: u64,
    /// Of others, taken in.
    pub heard: u64,
    /// Of others, late or of another pool.
    pub refused: u64,
    /// How long a change waits on average until it is told, in the pool where that is longest.
    pub lag_ms: f64,
    /// Bytes of the largest that was told.
    pub bytes: u64,
}

/// How a daemon stands with the other members: leases of theirs, announcements of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Leases {
    /// For how long answers may come from its cache from now on; 0 if they may not.
    pub live_ms: f64,
    /// Why they may not, though the others would let it.
    pub blocked: Option<String>,
    /// Whether its mutations may leave: it is in the view of a majority that it hears, and knows what the others knew.
    pub acts: bool,
    /// Mutations in the cluster that are known here and not over.
    pub pending: usize,
    /// Its own that wait for others.
    pub waiting: usize,
    /// For how long the first of them has.
    pub longest_ms: f64,
    /// Its own that were announced so far.
    pub announced: u64,
    /// Its own that left without, under a hold.
    pub held: u64,
    /// Keys under write pressure that are held now: announced once for any number of calls.
    pub holds: usize,
    /// Announcements that were let through.
    pub permitted: u64,
    /// How long those waited on average.
    pub wait_mean_ms: f64,
    /// And at most.
    pub wait_max_ms: f64,
    /// Announcements that were refused: another attempt, or another mutation of the name.
    pub refused: u64,
    /// Mutations of others that were marked here.
    pub marked: u64,
    /// Times that everything was forgotten because leases were lost.
    pub flushed: u64,
    /// Messages said.
    pub messages: u64,
    /// Frames that they went in.
    pub frames: u64,
    /// Messages of others that could not be read.
    pub malformed: u64,
}

/// A member of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is shown as such")]
pub struct Member {
    /// As the configuration calls it.
    pub name: String,
    /// Where it is reached.
    pub address: String,
    /// It votes, and serves nobody.
    pub witness: bool,
    /// Its last life that was heard of.
    pub incarnation: Option<String>,
    /// Whether messages pass both ways.
    pub up: bool,
    /// Whether this life of it is in the view.
    pub in_view: bool,
    /// Whether it said that it leaves.
    pub leaving: bool,
    /// Whether its pools and exports are the same; none if it has not said.
    pub same_config: Option<bool>,
    /// The number of its view, as it last said.
    pub epoch: Option<u64>,
    /// The version of messages that both speak.
    pub version: Option<u16>,
    /// The daemon's version.
    pub software: String,
    /// What it said of itself, if it speaks no version of messages that this daemon speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unequal: Option<String>,
    /// Round trip of the last heartbeat.
    pub rtt_ms: Option<f64>,
    /// Since it was last heard.
    pub silent_ms: Option<f64>,
    /// To it.
    pub frames_sent: u64,
    /// To it.
    pub bytes_sent: u64,
    /// From it.
    pub frames_received: u64,
    /// From it.
    pub bytes_received: u64,
    /// To it.
    pub datagrams_sent: u64,
    /// From it.
    pub datagrams_received: u64,
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
    /// Calls that only one server could serve, by why: `fence` (others may answer with the state
    /// before a change), `start` (nobody knows yet what was changed), `uncommitted`, `listing`,
    /// `maker` (no other server knows it), `doubt`.
    #[serde(default)]
    pub bound: BTreeMap<String, u64>,
    /// Names and objects that are read at one server alone, because others may answer with the state before a change.
    #[serde(default)]
    pub fences: u64,
    /// What its cache does and holds, outside of its subtrees.
    #[serde(default)]
    pub cache: Caching,
    /// Its parts that are cached in another way, in the order of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subtrees: Vec<Subtree>,
}

/// A part of an export that is cached in another way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subtree {
    /// As clients see it.
    pub path: String,
    /// How far its cache may be trusted.
    pub mode: Setting,
    /// What its cache does and holds.
    pub cache: Caching,
}

/// What an export's cache does and holds. Counts are since the daemon's start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Caching {
    /// The mode in force: `strict` while it is demoted or bypassed.
    pub mode: String,
    /// Why it is not the mode that was asked for.
    pub demoted: Option<String>,
    /// What became of the reads that it was asked for.
    pub reads: Reads,
    /// Keys that are remembered, with or without a value.
    pub entries: u64,
    /// What the kept values take.
    pub bytes: u64,
    /// Replies, or parts of them, that were kept.
    pub kept: u64,
    /// And that were not, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Answers that were compared with the server's.
    pub checked: u64,
    /// Of those, the ones that differed.
    pub different: u64,
}

/// What became of reads that a cache was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reads {
    /// Answered from the cache.
    pub answered: u64,
    /// Of those: that there is no such name.
    pub absent: u64,
    /// Waited for the same read of another client.
    pub joined: u64,
    /// Asked of a server.
    pub fetched: u64,
}

impl Reads {
    /// All of them.
    pub const fn all(&self) -> u64 {
        self.answered + self.joined + self.fetched
    }

    /// How much of all a part is; none of nothing.
    pub fn share(&self, part: u64) -> Option<f64> {
        (self.all() > 0).then(|| part as f64 / self.all() as f64)
    }
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
    /// Whether it is down and was fenced since: nothing that was sent to it before runs any more.
    #[serde(default)]
    pub fenced: bool,
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
    /// The mode of the cache that holds for the object.
    #[serde(default)]
    pub mode: String,
    /// Whose mode it is, in a sentence.
    #[serde(default)]
    pub mode_because: String,
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
    /// Drain it though no other server of its pool takes calls: all calls wait then.
    #[serde(default)]
    pub force: bool,
}

/// Home routing for everything, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bypass {
    /// Which.
    pub on: bool,
}

/// Whose cache to show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// One export; all if not given.
    pub export: Option<String>,
}

/// What caches hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Holdings {
    /// In the order of the file, each export followed by its subtrees.
    pub exports: Vec<Holding>,
}

/// What the cache of an export, or of one of its subtrees, holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Holding {
    /// The export, or the subtree.
    pub path: String,
    /// Whether it is a subtree: a part of the export before it that is cached in another way.
    #[serde(default)]
    pub subtree: bool,
    /// What it did.
    pub cache: Caching,
    /// By kind.
    pub kinds: Vec<Amount>,
    /// By the names in the export's root, which come first themselves; the largest, at most 100.
    pub subtrees: Vec<Amount>,
    /// The other subtrees together, and what no name that is held leads to.
    pub elsewhere: Amount,
    /// What became of reads, by procedure.
    pub reads: BTreeMap<String, Reads>,
}

/// A part of what is held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// A kind, or a path.
    pub what: String,
    /// Values.
    pub entries: u64,
    /// What they take, their keeping included.
    pub bytes: u64,
}

/// What to forget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invalidate {
    /// Paths below exports, as clients see them.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Everything, instead: of `export`, or of all exports.
    #[serde(default)]
    pub all: bool,
    /// Only with `all`.
    pub export: Option<String>,
}

/// What to fill a cache with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Warm {
    /// Directories below exports, as clients see them.
    pub paths: Vec<String>,
    /// How many directories deep; 0: the names of these alone. All if not given.
    pub depth: Option<u32>,
    /// Names, at most; a million if not given.
    pub limit: Option<u64>,
    /// On whose behalf: then this user may look names up at once. Root if not given.
    #[serde(default)]
    pub uid: u32,
    /// The user's group.
    #[serde(default)]
    pub gid: u32,
    /// Further groups: permissions are known for exactly these.
    #[serde(default)]
    pub gids: Vec<u32>,
}

/// How far a walk is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warming {
    /// The directory that was read last.
    pub at: String,
    /// Directories that were read.
    pub directories: u64,
    /// Directories that are known and not yet read.
    pub ahead: u64,
    /// Directories that could not be read.
    pub failed: u64,
    /// Names in them.
    pub names: u64,
    /// Attributes, names and the like that were kept.
    pub kept: u64,
    /// And that the cache's rules did not let in.
    pub refused: u64,
    /// How it ended; not yet, if there is nothing.
    pub ended: Option<String>,
    /// Whether it ended because something went wrong.
    #[serde(default)]
    pub broken: bool,
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
