//! Every key that a configuration may have, with its default: the reader takes unknown keys and defaults from here, the
//! document its tables.

use std::fmt;

/// A table of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Keys before the first table.
    Top,
    /// Where clients connect.
    Listen,
    /// Servers; there may be several.
    Pool,
    /// What clients mount; there may be several.
    Export,
    /// A part of an export that is cached in another way; there may be several, or none.
    Subtree,
    /// What is kept of all exports' answers.
    Cache,
    /// The proxies that belong together.
    Cluster,
    /// What is taken at most.
    Limits,
    /// What is said.
    Log,
    /// Where the daemon is controlled.
    Admin,
    /// What those who watch are told.
    Watch,
    /// What outlives it.
    State,
}

/// A key that a table may have.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its table.
    pub table: Table,
    /// What is typed.
    pub name: &'static str,
    /// What it takes, with its unit and range.
    pub takes: &'static str,
    /// What holds if it is not given.
    pub default: Fallback,
    /// Whether a reload changes it; otherwise a restart does.
    pub live: bool,
    /// What it decides.
    pub meaning: &'static str,
}

/// What holds for a key that is not given.
#[derive(Clone, Copy, Debug)]
pub enum Fallback {
    /// It must be given.
    Mandatory,
    /// This value, as TOML.
    Value(&'static str),
    /// What these words say.
    Words(&'static str),
}

impl Table {
    /// All, in the order of the document.
    pub const ALL: [Self; 12] = [
        Self::Top,
        Self::Listen,
        Self::Pool,
        Self::Export,
        Self::Subtree,
        Self::Cache,
        Self::Cluster,
        Self::Limits,
        Self::Log,
        Self::Admin,
        Self::Watch,
        Self::State,
    ];

    /// The name in the file; none before the first table.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Top => None,
            Self::Listen => Some("listen"),
            Self::Pool => Some("pool"),
            Self::Export => Some("export"),
            Self::Subtree => Some("subtree"),
            Self::Cache => Some("cache"),
            Self::Cluster => Some("cluster"),
            Self::Limits => Some("limits"),
            Self::Log => Some("log"),
            Self::Admin => Some("admin"),
            Self::Watch => Some("watch"),
            Self::State => Some("state"),
        }
    }

    /// Whether there may be several: `[[pool]]`.
    pub const fn is_list(self) -> bool {
        match self {
            Self::Pool | Self::Export | Self::Subtree => true,
            Self::Top
            | Self::Listen
            | Self::Cache
            | Self::Cluster
            | Self::Limits
            | Self::Log
            | Self::Admin
            | Self::Watch
            | Self::State => false,
        }
    }

    /// The table that it stands in; none for one that stands on its own.
    pub const fn parent(self) -> Option<Self> {
        match self {
            Self::Subtree => Some(Self::Export),
            Self::Top
            | Self::Listen
            | Self::Pool
            | Self::Export
            | Self::Cache
            | Self::Cluster
            | Self::Limits
            | Self::Log
            | Self::Admin
            | Self::Watch
            | Self::State => None,
        }
    }

    /// The table of this name that stands in this one.
    pub fn inner(self, name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.parent() == Some(self) && table.name() == Some(name))
    }

    /// Its keys, in the order of the document.
    pub fn keys(self) -> impl Iterator<Item = &'static Key> {
        KEYS.iter().filter(move |key| key.table == self)
    }

    /// Its key of this name.
    pub fn key(self, name: &str) -> Option<&'static Key> {
        self.keys().find(|key| key.name == name)
    }

    /// Its keys as a table of a Markdown document.
    pub fn markdown(self) -> String {
        let head = "| key | takes | default | reload | meaning |\n|---|---|---|---|---|\n".to_owned();
        self.keys().fold(head, |text, key| text + &key.row())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = self.parent().and_then(Self::name).map_or_else(String::new, |parent| format!("{parent}."));
        match (self.name(), self.is_list()) {
            (None, _) => f.write_str("the top level"),
            (Some(name), true) => write!(f, "[[{parent}{name}]]"),
            (Some(name), false) => write!(f, "[{parent}{name}]"),
        }
    }
}

impl Key {
    fn row(&self) -> String {
        let default = match self.default {
            Fallback::Mandatory => "mandatory".to_owned(),
            Fallback::Value(value) => format!("`{value}`"),
            Fallback::Words(words) => words.to_owned(),
        };
        let reload = if self.live { "yes" } else { "restart" };
        format!("| `{}` | {} | {default} | {reload} | {} |\n", self.name, self.takes, self.meaning)
    }
}

const RESTART: Key =
    Key { table: Table::Top, name: "", takes: "", default: Fallback::Mandatory, live: false, meaning: "" };
const LISTEN: Key = Key { table: Table::Listen, takes: "`address:port`, one or a list", ..RESTART };
const POOL: Key = Key { table: Table::Pool, ..RESTART };
const EXPORT: Key = Key { table: Table::Export, ..RESTART };
const LIVE: Key = Key { live: true, ..EXPORT };
const CLUSTER: Key = Key { table: Table::Cluster, ..RESTART };
const SUBTREE: Key = Key { table: Table::Subtree, default: Fallback::Words("the export's"), ..RESTART };
const LIMIT: Key = Key { table: Table::Limits, ..RESTART };

/// Every key.
pub const KEYS: &[Key] = &[
    Key {
        name: "threads",
        takes: "count, 1..256",
        default: Fallback::Words("the number of cores"),
        meaning: "event loops; each has its own connections to every server",
        ..RESTART
    },
    Key {
        name: "nfs",
        default: Fallback::Value("\"0.0.0.0:2049\""),
        meaning: "where NFS is answered; `[::]:2049` takes IPv6 and IPv4, port 0 is any free one",
        ..LISTEN
    },
    Key {
        name: "mount",
        default: Fallback::Words("where `nfs` is"),
        meaning: "where MOUNT is answered; without it clients mount with `mountport=` the port of `nfs`, or ask portmap",
        ..LISTEN
    },
    Key {
        name: "portmap",
        default: Fallback::Words("not offered"),
        meaning: "where portmap is answered; clients that name no ports ask at port 111",
        ..LISTEN
    },
    Key {
        name: "name",
        takes: "letters, digits, `-`, `_`, `.`",
        meaning: "what exports and commands call the pool",
        ..POOL
    },
    Key {
        name: "servers",
        takes: "`host:port`, one or a list of at most 1024",
        meaning: "the servers, which share one namespace; a host name must have one address, which is looked up at start and at reload",
        ..POOL
    },
    Key {
        name: "mount_port",
        takes: "port, 1..65535",
        default: Fallback::Words("each server's NFS port"),
        meaning: "where the servers answer MOUNT; nobody's portmap is asked",
        ..POOL
    },
    Key {
        name: "staleness",
        takes: "time, 0s..24h",
        default: Fallback::Value("\"65s\""),
        live: true,
        meaning: "how long another server may answer with old attributes after a change; 0s only if servers cache no attributes \
                  (Ganesha: `Attr_Expiration_Time = 0`)",
        ..POOL
    },
    Key {
        name: "moves",
        takes: "`free` or `none`",
        default: Fallback::Value("\"free\""),
        meaning: "what it costs to serve a call at another server than its home: nothing, or too much (heads over CephFS, whose \
                  capabilities follow each call); with `none` every call stays at its home; without `staleness` a file's home is its directory's",
        ..POOL
    },
    Key {
        name: "failover_after",
        takes: "time, 1s..24h",
        default: Fallback::Value("\"30s\""),
        meaning: "how long a call that may not move waits for its server before it is verified elsewhere",
        ..POOL
    },
    Key {
        name: "connections",
        takes: "count, 1..64",
        default: Fallback::Value("1"),
        meaning: "connections of one event loop to one server",
        ..POOL
    },
    Key {
        name: "in_flight_max",
        takes: "count, 1..65536",
        default: Fallback::Value("4096"),
        meaning: "calls in flight at one server: a slow one cannot take all of the proxy",
        ..POOL
    },
    Key {
        name: "call_timeout",
        takes: "time, 100ms..10m",
        default: Fallback::Value("\"10s\""),
        meaning: "a call without an answer for so long has failed, and its server gets no further calls for now",
        ..POOL
    },
    Key {
        name: "probe_interval",
        takes: "time, 50ms..10m",
        default: Fallback::Value("\"1s\""),
        meaning: "how often a server is asked for its health (NULL and GETATTR of the root)",
        ..POOL
    },
    Key {
        name: "probe_timeout",
        takes: "time, 50ms..10m",
        default: Fallback::Value("\"5s\""),
        meaning: "a probe without an answer for so long has failed",
        ..POOL
    },
    Key {
        name: "rate_peak",
        takes: "calls a second, 1..1000000000",
        default: Fallback::Words("the highest rate seen"),
        meaning: "what the servers can do at most; only `policy = \"paper\"` asks, whose warm-up looks for a minute below 30 % of it",
        ..POOL
    },
    Key {
        name: "on_down",
        takes: "a command of the shell",
        default: Fallback::Words("none"),
        meaning: "fences a server that took calls and has been down for half of `failover_after`, while another one is open (without a cluster, one that was drained and is empty is not fenced); it is told \
                  `MIDAS_POOL`, `MIDAS_SERVER` and `MIDAS_ADDRESS`, has 60 s and three tries; when it succeeds nothing waits for \
                  `server_hold_max` on that server's account; in a cluster calls that other members moved away from it are still waited \
                  for",
        ..POOL
    },
    Key { name: "path", takes: "absolute path", meaning: "what clients mount", ..EXPORT },
    Key {
        name: "source",
        takes: "absolute path",
        default: Fallback::Words("the same as `path`"),
        meaning: "what the servers export",
        ..EXPORT
    },
    Key { name: "pool", takes: "name of a pool", meaning: "which servers", ..EXPORT },
    Key {
        name: "clients",
        takes: "network or address, one or a list of at most 1024",
        meaning: "who may mount and call; everyone is `[\"0.0.0.0/0\", \"::/0\"]`",
        ..LIVE
    },
    Key {
        name: "access",
        takes: "`ro`, `rw`",
        default: Fallback::Value("\"ro\""),
        meaning: "whether clients may change anything",
        ..LIVE
    },
    Key {
        name: "squash",
        takes: "`root`, `all`, `none`",
        default: Fallback::Value("\"root\""),
        meaning: "which users become the anonymous one",
        ..LIVE
    },
    Key {
        name: "anon_uid",
        takes: "number, 0..4294967295",
        default: Fallback::Value("65534"),
        meaning: "the anonymous user",
        ..LIVE
    },
    Key {
        name: "anon_gid",
        takes: "number, 0..4294967295",
        default: Fallback::Value("65534"),
        meaning: "its group",
        ..LIVE
    },
    Key {
        name: "insecure",
        takes: "`true`, `false`",
        default: Fallback::Value("false"),
        meaning: "whether client ports of 1024 and above are accepted: then every user of a client can speak as any other",
        ..LIVE
    },
    Key {
        name: "policy",
        takes: "`first-fit`, `paper`, `hash-directory`, `rr-directory`, `rr`, `observe`",
        default: Fallback::Value("\"first-fit\""),
        meaning: "how calls are routed; `first-fit:gap=2` and `paper:key=object` have options (`midas sim list`)",
        ..LIVE
    },
    Key {
        name: "preset",
        takes: "`scratch`, `software-tree`, `dataset`",
        default: Fallback::Words("none"),
        meaning: "what the export is for: sets `mode`, and what goes with it; a key that is given beside it wins ([The cache](#the-cache))",
        ..EXPORT
    },
    Key {
        name: "mode",
        takes: "`strict`, `lease`, `ttl`, `immutable`",
        default: Fallback::Value("\"strict\""),
        meaning: "how far the cache may be trusted ([The cache](#the-cache)); `strict`: not at all",
        ..LIVE
    },
    Key {
        name: "writers",
        takes: "`anyone`, `midas-only`",
        default: Fallback::Value("\"anyone\""),
        meaning: "who changes the files; `lease` and `immutable` need `midas-only`: nobody but clients of this MIDAS",
        ..EXPORT
    },
    Key {
        name: "lease_age_max",
        takes: "time, 1s..1h",
        default: Fallback::Value("\"30s\""),
        meaning: "`lease`: the oldest answer from the cache; after that the server is asked whether it still holds",
        ..EXPORT
    },
    Key {
        name: "server_hold_max",
        takes: "time, 1s..1h",
        default: Fallback::Value("\"60s\""),
        meaning: "how long a server may still execute a call that was cut off or moved away: for so long nobody else changes the same, \
                  through whichever member, it is not cached, and after a crash of MIDAS nothing is; file systems may take longer to \
                  end a dead head's calls (CephFS 300 s): raise it there, or set `on_down`",
        ..EXPORT
    },
    Key {
        name: "immutable_age_max",
        takes: "time, 1s..24h",
        default: Fallback::Value("\"1h\""),
        meaning: "`immutable`: the oldest answer from the cache",
        ..EXPORT
    },
    Key {
        name: "stale_target",
        takes: "number between 0 and 1, both excluded",
        default: Fallback::Value("0.001"),
        meaning: "`ttl`: the share of answers from the cache that may be out of date; the paper's `p*`",
        ..EXPORT
    },
    Key {
        name: "ttl_max",
        takes: "time, 100ms..24h",
        default: Fallback::Value("\"10m\""),
        meaning: "`ttl`: the oldest answer from the cache, however rarely its file seems to change",
        ..EXPORT
    },
    Key {
        name: "absent_max",
        takes: "time, 0s..24h",
        default: Fallback::Value("\"1h\""),
        meaning: "every mode: how long a name is believed missing, at most; `0s`: not at all",
        ..EXPORT
    },
    Key {
        name: "path",
        takes: "absolute path below the export's",
        default: Fallback::Mandatory,
        meaning: "the directory whose files, and those of all directories below it, are cached in this way",
        ..SUBTREE
    },
    Key {
        name: "preset",
        takes: "`scratch`, `software-tree`, `dataset`",
        default: Fallback::Words("none"),
        meaning: "what the subtree is for: sets `mode`, and what goes with it",
        ..SUBTREE
    },
    Key {
        name: "mode",
        takes: "`strict`, `lease`, `ttl`, `immutable`",
        default: Fallback::Mandatory,
        live: true,
        meaning: "how far the cache may be trusted here; need not be given beside a preset",
        ..SUBTREE
    },
    Key {
        name: "writers",
        takes: "`anyone`, `midas-only`",
        meaning: "who changes the files of the subtree",
        ..SUBTREE
    },
    Key { name: "lease_age_max", takes: "time, 1s..1h", meaning: "as in the export", ..SUBTREE },
    Key { name: "immutable_age_max", takes: "time, 1s..24h", meaning: "as in the export", ..SUBTREE },
    Key {
        name: "stale_target",
        takes: "number between 0 and 1, both excluded",
        meaning: "as in the export",
        ..SUBTREE
    },
    Key { name: "ttl_max", takes: "time, 100ms..24h", meaning: "as in the export", ..SUBTREE },
    Key { name: "absent_max", takes: "time, 0s..24h", meaning: "as in the export", ..SUBTREE },
    Key {
        table: Table::Cache,
        name: "memory",
        takes: "size, 1MiB..1TiB",
        default: Fallback::Value("\"256MiB\""),
        meaning: "what is kept of all exports' answers; at the limit what is least used goes",
        ..RESTART
    },
    Key {
        name: "name",
        takes: "letters, digits, `-`, `_`, `.`",
        meaning: "what the cluster is called; members of another one are refused",
        ..CLUSTER
    },
    Key {
        name: "listen",
        takes: "`address:port`",
        default: Fallback::Value("\"0.0.0.0:7049\""),
        meaning: "where the other members reach this one, TCP and UDP",
        ..CLUSTER
    },
    Key {
        name: "members",
        takes: "a list of two to 16: `name=host:port`, and ` witness` behind one that votes and serves nobody",
        meaning: "all proxies of the cluster, in the same order everywhere ([cluster.md](cluster.md))",
        ..CLUSTER
    },
    Key {
        name: "key_file",
        takes: "absolute path",
        default: Fallback::Value("\"/etc/midas/cluster.key\""),
        meaning: "the secret of the cluster, the same everywhere, readable by its owner alone (`midas cluster key FILE` makes one)",
        ..CLUSTER
    },
    Key {
        name: "me",
        takes: "name of a member",
        default: Fallback::Words("the member that is called as this host is"),
        meaning: "which member this is",
        ..CLUSTER
    },
    Key {
        name: "lease",
        takes: "time, 100ms..60s",
        default: Fallback::Value("\"2s\""),
        meaning: "how long a member may answer from its cache without hearing from the others; a dead one delays changes by as much",
        ..CLUSTER
    },
    Key {
        name: "suspect_after",
        takes: "time, 500ms..60s",
        default: Fallback::Value("\"3s\""),
        meaning: "how long a member may be silent before the others agree to go on without it",
        ..CLUSTER
    },
    Key {
        name: "shares",
        takes: "true or false",
        default: Fallback::Value("true"),
        meaning: "whether it tells the others what it has in flight at the servers, and heeds what they tell",
        ..CLUSTER
    },
    Key {
        name: "connections",
        takes: "count, 1..1000000",
        default: Fallback::Value("16384"),
        meaning: "client connections; at the limit the oldest idle one of the address that has most is ended for a new one",
        ..LIMIT
    },
    Key {
        name: "strangers",
        takes: "count, 0..1000000",
        default: Fallback::Value("64"),
        meaning: "of these, connections of clients on no export's list, in all; they may ask for NULL, portmap and MOUNT",
        ..LIMIT
    },
    Key {
        name: "record",
        takes: "size, 64KiB..64MiB",
        default: Fallback::Value("\"2MiB\""),
        meaning: "one call or reply, the largest READ or WRITE included; a larger one closes the connection",
        ..LIMIT
    },
    Key {
        name: "calls_per_client",
        takes: "count, 1..65536",
        default: Fallback::Value("4096"),
        meaning: "calls in flight of one client connection; at the limit it is not read",
        ..LIMIT
    },
    Key {
        name: "memory",
        takes: "size, 16MiB..1TiB, at least 4 records",
        default: Fallback::Value("\"1GiB\""),
        meaning: "calls and replies under way over all connections; at the limit clients are not read",
        ..LIMIT
    },
    Key {
        name: "drain",
        takes: "time, 0s..24h",
        default: Fallback::Value("\"30s\""),
        meaning: "how long calls under way may take to end after SIGTERM",
        ..LIMIT
    },
    Key {
        name: "answers_kept",
        takes: "time, 1s..24h",
        default: Fallback::Value("\"120s\""),
        meaning: "how long the answer of a change is kept for a client that sends the same call again, counted from the answer",
        ..LIMIT
    },
    Key {
        table: Table::Log,
        name: "format",
        takes: "`text`, `json`",
        default: Fallback::Value("\"text\""),
        live: true,
        meaning: "the form of a line",
    },
    Key {
        table: Table::Log,
        name: "level",
        takes: "`error`, `warn`, `info`, `debug`",
        default: Fallback::Value("\"info\""),
        live: true,
        meaning: "the least important events that are said",
    },
    Key {
        table: Table::Admin,
        name: "socket",
        takes: "absolute path of at most 107 bytes",
        default: Fallback::Value("\"/run/midas/midas.sock\""),
        meaning: "the unix socket that every live command uses",
        ..RESTART
    },
    Key {
        table: Table::Admin,
        name: "tcp",
        takes: "`address:port`",
        default: Fallback::Words("off"),
        meaning: "the same over TCP, read-only: metrics and status",
        ..RESTART
    },
    Key {
        table: Table::Watch,
        name: "jobs_file",
        takes: "absolute path",
        default: Fallback::Words("none"),
        meaning: "which job a client works for: lines of an address and a job; read again when it changes ([dashboard.md](dashboard.md#jobs))",
        ..RESTART
    },
    Key {
        table: Table::Watch,
        name: "jobs_command",
        takes: "a command of the shell",
        default: Fallback::Words("none"),
        meaning: "prints the same; where both name a client, the file has the last word",
        ..RESTART
    },
    Key {
        table: Table::Watch,
        name: "jobs_every",
        takes: "time, 1s..24h",
        default: Fallback::Value("\"30s\""),
        meaning: "how often the command is run; it may take 10 s",
        ..RESTART
    },
    Key {
        table: Table::State,
        name: "file",
        takes: "absolute path",
        default: Fallback::Value("\"/var/lib/midas/state.json\""),
        meaning: "where the targets of the warm-up are kept over a restart",
        ..RESTART
    },
    Key {
        table: Table::State,
        name: "journal",
        takes: "true, false",
        default: Fallback::Value("false"),
        meaning: "whether calls that must not be executed twice are written beside `file` before they are sent, so that a crash \
                  of MIDAS forgets none; without a cluster, which always does",
        ..RESTART
    },
];
