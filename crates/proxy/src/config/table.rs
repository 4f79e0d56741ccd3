//! From the document to the [`Config`]: table by table, then what must fit together.

use super::address::collide;
use super::caching::{Writers, caching, subtrees};
use super::cluster;
use super::key::Table;
use super::nearest::{nearest, suggestion};
use super::reading::{Reading, Section};
use super::value::{
    self, Typed, choice, count, export_path, file, flag, one_or_many, placed, server, show_size, size, socket, time,
};
use super::{
    Access, Admin, Anonymous, Cache, Config, Export, Level, Limits, Listen, Log, LogFormat, Pool, Server, Squash,
    State, Watch,
};
use midas_core::id::SERVERS_MAX;
use midas_core::route::moves::Moves;
use midas_core::time::Span;
use std::net::SocketAddr;
use toml::de::{DeTable, DeValue};

/// The configuration in a text; without one, what is wrong has been said.
pub(super) fn document(text: &str, reading: &mut Reading<'_>) -> Option<Config> {
    let (root, broken) = DeTable::parse_recoverable(text);
    if !broken.is_empty() {
        // What follows a broken line is guesswork: no meaning is looked for.
        for error in broken {
            reading.wrong(error.span().map_or(0, |span| span.start), format!("this is not TOML: {}", error.message()));
        }
        return None;
    }
    let root = root.get_ref();
    unknown_tables(root, reading);
    let threads = threads(root, reading);
    let (listen, listeners) = listen(&single(root, Table::Listen, reading), reading);
    let (pools, names) = pools(root, reading);
    let exports = exports(root, (&names, pools.as_deref()), reading);
    let cache = cache(&single(root, Table::Cache, reading), reading);
    let limits = limits(&single(root, Table::Limits, reading), reading);
    let cluster = clustered(root, &listeners, reading);
    let log = log(&single(root, Table::Log, reading), reading);
    let admin = admin(&single(root, Table::Admin, reading), &listeners, reading);
    let watch = watch(&single(root, Table::Watch, reading), reading);
    let state = state(&single(root, Table::State, reading), reading);
    Some(Config {
        threads: threads?,
        listen: listen?,
        pools: pools?,
        exports: exports?,
        cache: cache?,
        cluster: cluster?,
        limits: limits?,
        log: log?,
        admin: admin?,
        watch: watch?,
        state: state?,
    })
}

/// Tables that are unknown, and those that are written as the other kind of table.
fn unknown_tables(root: &DeTable<'_>, reading: &mut Reading<'_>) {
    for (name, value) in root {
        let (name, at) = (name.get_ref().as_ref(), name.span().start);
        match (table_called(name), value.get_ref()) {
            (Some(table), _) if table.parent().is_some() => {
                reading.wrong(at, format!("'{name}' stands in an export; write {table} below its [[export]]"));
            }
            (None, DeValue::Table(_)) => reading.wrong(at, unknown_table(name, &format!("[{name}]"))),
            (None, typed) if is_table(typed) => reading.wrong(at, unknown_table(name, &format!("[[{name}]]"))),
            (Some(table), typed) if !is_kind(table, typed) => {
                reading.wrong(at, format!("'{name}' is a table; write {table}"));
            }
            (None | Some(_), _) => {}
        }
    }
}

fn unknown_table(name: &str, typed: &str) -> String {
    let names = Table::ALL.into_iter().filter(|table| table.parent().is_none()).filter_map(Table::name);
    match nearest(name, names).and_then(table_called) {
        Some(near) => format!("unknown table {typed}; did you mean {near}?"),
        None => {
            let outer = |table: &&Table| table.name().is_some() && table.parent().is_none();
            let all = Table::ALL.iter().filter(outer).map(ToString::to_string);
            format!("unknown table {typed}; possible: {}", all.collect::<Vec<_>>().join(", "))
        }
    }
}

fn table_called(name: &str) -> Option<Table> {
    Table::ALL.into_iter().find(|table| table.name() == Some(name))
}

fn is_kind(table: Table, typed: &DeValue<'_>) -> bool {
    match typed {
        DeValue::Array(list) => table.is_list() && list.iter().all(|member| member.get_ref().is_table()),
        DeValue::Table(_) => !table.is_list(),
        DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {
            false
        }
    }
}

fn single<'t>(root: &'t DeTable<'t>, table: Table, reading: &mut Reading<'_>) -> Section<'t> {
    let found = table.name().and_then(|name| root.get(name));
    match found.map(|value| (value.get_ref(), value.span().start)) {
        Some((DeValue::Table(typed), at)) => Section::open(table, typed, at, reading),
        // Another type has been told.
        Some(_) | None => Section::absent(table),
    }
}

fn several<'t>(root: &'t DeTable<'t>, table: Table, most: usize, reading: &mut Reading<'_>) -> Vec<Section<'t>> {
    let Some(found) = table.name().and_then(|name| root.get(name)) else {
        reading.wrong(0, format!("missing {table}: at least one is needed"));
        return Vec::new();
    };
    let DeValue::Array(list) = found.get_ref() else { return Vec::new() };
    if list.is_empty() || list.len() > most {
        reading.wrong(found.span().start, format!("there must be 1..{most} of {table}, got {}", list.len()));
        return Vec::new();
    }
    let typed = list.iter().filter_map(|member| Some((member.get_ref().as_table()?, member.span().start)));
    typed.map(|(typed, at)| Section::open(table, typed, at, reading)).collect()
}

fn threads(root: &DeTable<'_>, reading: &mut Reading<'_>) -> Option<usize> {
    let is_key =
        |name: &str, value: &DeValue<'_>| !is_table(value) && Table::ALL.iter().all(|table| table.name() != Some(name));
    let keys: DeTable<'_> = root
        .iter()
        .filter(|(name, value)| is_key(name.get_ref(), value.get_ref()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let given = Section::open(Table::Top, &keys, 0, reading).given("threads", reading, count(1, THREADS_MAX))?;
    let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get().min(THREADS_MAX as usize));
    Some(given.map_or_else(cores, |given| given as usize))
}

/// Whether this was written with a header, one or several times.
fn is_table(typed: &DeValue<'_>) -> bool {
    let many =
        |typed: &DeValue<'_>| typed.as_array().is_some_and(|list| list.iter().any(|one| one.get_ref().is_table()));
    typed.is_table() || many(typed)
}

type Listener = (&'static str, Typed<SocketAddr>);

/// Where clients connect, and the same with offsets for whoever else listens.
fn listen(section: &Section<'_>, reading: &mut Reading<'_>) -> (Option<Listen>, Vec<Listener>) {
    let addresses = || one_or_many(LISTEN_MAX, value::address);
    let nfs = section.read("nfs", reading, addresses());
    let mount = section.given("mount", reading, addresses());
    let portmap = section.given("portmap", reading, addresses());
    let named = [("nfs", nfs.clone().map(Some)), ("mount", mount.clone()), ("portmap", portmap.clone())];
    let mut listeners: Vec<Listener> = Vec::new();
    for (name, typed) in named {
        for one in typed.flatten().into_iter().flatten() {
            no_collision(&listeners, name, &one, reading);
            listeners.push((name, one));
        }
    }
    let plain = |typed: Vec<Typed<SocketAddr>>| typed.into_iter().map(|one| one.value).collect();
    let optional = |typed: Option<Vec<Typed<SocketAddr>>>| typed.map(plain).unwrap_or_default();
    let listen = || Some(Listen { nfs: plain(nfs?), mount: optional(mount?), portmap: optional(portmap?) });
    (listen(), listeners)
}

fn no_collision(others: &[Listener], name: &str, one: &Typed<SocketAddr>, reading: &mut Reading<'_>) {
    let taken = others.iter().find(|(_, other)| collide(one.value, other.value));
    if let Some((by, other)) = taken {
        // Listeners that are only there by default are not in the text: the one that is gets the blame.
        let hint = if name == "mount" && *by == "nfs" { "; leave mount out to answer it there" } else { "" };
        let at = one.at.max(other.at);
        reading.wrong(at, format!("{name}: the port of {} is taken by {by} at {}{hint}", one.value, other.value));
    }
}

/// The pools, and the name of every pool that has one; `None` among the names is a pool without.
fn pools(root: &DeTable<'_>, reading: &mut Reading<'_>) -> (Option<Vec<Pool>>, Vec<Option<String>>) {
    let mut pools = Vec::new();
    let mut names: Vec<Option<String>> = Vec::new();
    let sections = several(root, Table::Pool, POOLS_MAX, reading);
    for section in &sections {
        let name = section.read("name", reading, placed(value::name));
        if let Some(name) = &name
            && names.iter().flatten().any(|other| *other == name.value)
        {
            reading.wrong(name.at, format!("there are two pools called '{}'", name.value));
        }
        names.push(name.as_ref().map(|name| name.value.clone()));
        pools.push(pool(section, name.map(|name| name.value), reading));
    }
    if sections.is_empty() {
        // What is wrong with the pools has been told once.
        names.push(None);
    }
    (pools.into_iter().collect(), names)
}

fn pool(section: &Section<'_>, name: Option<String>, reading: &mut Reading<'_>) -> Option<Pool> {
    let servers = section.read("servers", reading, one_or_many(SERVERS_MAX, server));
    let mount_port = section.given("mount_port", reading, count(1, u64::from(u16::MAX)));
    let staleness = section.read("staleness", reading, time(Span::ZERO, DAY));
    let moves = section.read("moves", reading, choice(&Moves::NAMES));
    let failover_after = section.read("failover_after", reading, time(Span::from_secs(1), DAY));
    let connections = section.read("connections", reading, count(1, 64));
    let in_flight_max = section.read("in_flight_max", reading, count(1, CALLS_MAX));
    let call_timeout = section.read("call_timeout", reading, time(Span::from_millis(100), PATIENCE_MAX));
    let probe_interval = section.read("probe_interval", reading, time(PROBE_MIN, PATIENCE_MAX));
    let probe_timeout = section.read("probe_timeout", reading, time(PROBE_MIN, PATIENCE_MAX));
    let rate_peak = section.given("rate_peak", reading, count(1, RATE_MAX));
    let on_down = section.given("on_down", reading, value::command);
    let servers = servers?;
    no_server_twice(&servers, reading);
    let mount_port = mount_port?;
    let mount =
        |address: SocketAddr| SocketAddr::new(address.ip(), mount_port.map_or(address.port(), |port| port as u16));
    let servers =
        servers.into_iter().map(|Typed { value: (name, address), .. }| Server { name, address, mount: mount(address) });
    Some(Pool {
        name: name?,
        servers: servers.collect(),
        staleness: staleness?,
        moves: moves?,
        failover_after: failover_after?,
        connections: connections? as usize,
        in_flight_max: in_flight_max? as usize,
        call_timeout: call_timeout?,
        probe_interval: probe_interval?,
        probe_timeout: probe_timeout?,
        rate_peak: rate_peak?,
        on_down: on_down?,
    })
}

fn no_server_twice(servers: &[Typed<(String, SocketAddr)>], reading: &mut Reading<'_>) {
    for (index, Typed { value: (name, address), at }) in servers.iter().enumerate() {
        let before = servers[..index].iter().map(|typed| &typed.value).find(|(_, other)| other == address);
        match before {
            Some((other, _)) if other == name => reading.wrong(*at, format!("servers: '{name}' is there twice")),
            Some((other, _)) => reading.wrong(*at, format!("servers: '{name}' is '{other}': both are {address}")),
            None => {}
        }
    }
}

fn exports(
    root: &DeTable<'_>,
    (names, pools): (&[Option<String>], Option<&[Pool]>),
    reading: &mut Reading<'_>,
) -> Option<Vec<Export>> {
    let sections = several(root, Table::Export, EXPORTS_MAX, reading);
    let mut exports = Vec::new();
    let mut paths: Vec<String> = Vec::new();
    for section in &sections {
        let path = section.read("path", reading, placed(export_path));
        if let Some(path) = &path {
            if paths.contains(&path.value) {
                reading.wrong(path.at, format!("there are two exports with the path '{}'", path.value));
            }
            paths.push(path.value.clone());
        }
        exports.push(export(section, path.map(|path| path.value), names, reading));
    }
    let exports: Vec<Export> = exports.into_iter().collect::<Option<_>>()?;
    for (section, export) in sections.iter().zip(&exports) {
        if let Some((server, other)) = pools.and_then(|pools| past_marks(pools, &exports, export)) {
            let said = format!(
                "writers: '{}' writes to the same files at {server} through another pool, unnoticed here: give both exports one pool, or \
                 write \"anyone\"",
                other.path
            );
            reading.wrong(section.place("writers"), said);
        }
        if let Some(other) = overlapped(&exports, export) {
            let said = format!(
                "writers: '{}' writes to the same files through another export, where they may have other handles: what is changed there \
                 is not noticed here; write \"anyone\", or export disjoint directories",
                other.path
            );
            reading.wrong(section.place("writers"), said);
        }
    }
    Some(exports)
}

/// An export whose changes are not marked in this one, which relies on marks: they are kept by pool. The server shows that the files are the same.
fn past_marks<'e>(pools: &'e [Pool], exports: &'e [Export], export: &Export) -> Option<(&'e str, &'e Export)> {
    let shared = |other: &Export| {
        let here = &pools[export.pool].servers;
        pools[other.pool].servers.iter().find(|server| here.iter().any(|mine| mine.address == server.address))
    };
    let writes = |other: &&Export| {
        other.pool != export.pool && other.access == Access::ReadWrite && overlap(&other.source, &export.source)
    };
    let mut others = exports.iter().filter(writes).filter_map(|other| Some((shared(other)?.name.as_str(), other)));
    others.next().filter(|_| export.caching.writers == Writers::MidasOnly)
}

/// An export of the same pool that changes files of this one, which relies on nobody else doing so.
fn overlapped<'e>(exports: &'e [Export], export: &Export) -> Option<&'e Export> {
    let writes = |other: &&Export| {
        other.pool == export.pool
            && other.path != export.path
            && other.access == Access::ReadWrite
            && overlap(&other.source, &export.source)
    };
    exports.iter().filter(|_| export.caching.writers == Writers::MidasOnly).find(writes)
}

/// Whether one of two directories lies in the other, or is it.
fn overlap(one: &str, other: &str) -> bool {
    let names = |path: &str| path.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let (one, other) = (names(one), names(other));
    one.iter().zip(&other).all(|(one, other)| one == other)
}

fn export(
    section: &Section<'_>,
    path: Option<String>,
    pools: &[Option<String>],
    reading: &mut Reading<'_>,
) -> Option<Export> {
    let source = section.given("source", reading, export_path);
    let pool = section.read("pool", reading, placed(value::reference));
    let pool = pool.and_then(|name| pool_called(&name, pools, reading));
    let clients = section.read("clients", reading, one_or_many(CLIENTS_MAX, value::network));
    let access = section.read("access", reading, choice(&Access::NAMES));
    let squash = section.read("squash", reading, choice(&Squash::NAMES));
    let uid = section.read("anon_uid", reading, count(0, u64::from(u32::MAX)));
    let gid = section.read("anon_gid", reading, count(0, u64::from(u32::MAX)));
    let insecure = section.read("insecure", reading, flag);
    let policy = section.read("policy", reading, value::policy);
    let caching = caching(section, reading);
    let subtrees = subtrees(section, path.as_deref(), caching.as_ref().map(|(_, _, caching)| *caching), reading);
    let (path, (preset, mode, caching)) = (path?, caching?);
    Some(Export {
        source: source?.unwrap_or_else(|| path.clone()),
        path,
        pool: pool?,
        clients: clients?.into_iter().map(|client| client.value).collect(),
        access: access?,
        squash: squash?,
        anonymous: Anonymous { uid: uid? as u32, gid: gid? as u32 },
        insecure: insecure?,
        policy: policy?,
        preset,
        mode,
        caching,
        subtrees: subtrees?,
    })
}

fn pool_called(name: &Typed<String>, pools: &[Option<String>], reading: &mut Reading<'_>) -> Option<usize> {
    let found = pools.iter().position(|pool| pool.as_ref() == Some(&name.value));
    // A pool whose name is wrong may be the one that is meant: that has been told.
    if found.is_none() && pools.iter().all(Option::is_some) {
        let known: Vec<&str> = pools.iter().flatten().map(String::as_str).collect();
        reading.wrong(name.at, format!("unknown pool '{}'{}", name.value, suggestion(&name.value, &known)));
    }
    found
}

fn cache(section: &Section<'_>, reading: &mut Reading<'_>) -> Option<Cache> {
    Some(Cache { memory: section.read("memory", reading, size(1 << 20, 1 << 40))? })
}

/// The cluster, if the file has one.
#[expect(clippy::option_option, reason = "the outer one is every reader's: what is wrong has been said")]
fn clustered(
    root: &DeTable<'_>,
    listeners: &[Listener],
    reading: &mut Reading<'_>,
) -> Option<Option<cluster::Cluster>> {
    if Table::Cluster.name().is_none_or(|name| root.get(name).is_none()) {
        return Some(None);
    }
    let (cluster, listen) = cluster::cluster(&single(root, Table::Cluster, reading), reading)?;
    no_collision(listeners, "listen", &listen, reading);
    Some(Some(cluster))
}

fn limits(section: &Section<'_>, reading: &mut Reading<'_>) -> Option<Limits> {
    let connections = section.read("connections", reading, count(1, 1_000_000));
    let strangers = section.read("strangers", reading, count(0, 1_000_000));
    let record = section.read("record", reading, size(64 << 10, 64 << 20));
    let calls_per_client = section.read("calls_per_client", reading, count(1, CALLS_MAX));
    let memory = section.read("memory", reading, size(16 << 20, 1 << 40));
    let drain = section.read("drain", reading, time(Span::ZERO, DAY));
    let answers_kept = section.read("answers_kept", reading, time(Span::from_secs(1), DAY));
    let (record, memory) = (record?, memory?);
    if memory < MEMORY_RECORDS_MIN * record {
        let needed = show_size((MEMORY_RECORDS_MIN * record) as u64);
        let said =
            format!("memory must hold {MEMORY_RECORDS_MIN} records of {}: at least {needed}", show_size(record as u64));
        reading.wrong(section.place("memory"), said);
    }
    let (connections, calls_per_client) = (connections? as usize, calls_per_client? as usize);
    let (strangers, drain, answers_kept) = (strangers? as usize, drain?, answers_kept?);
    Some(Limits { connections, strangers, record, calls_per_client, memory, drain, answers_kept })
}

fn log(section: &Section<'_>, reading: &mut Reading<'_>) -> Option<Log> {
    let format = section.read("format", reading, choice(&LogFormat::NAMES));
    let level = section.read("level", reading, choice(&Level::NAMES));
    Some(Log { format: format?, level: level? })
}

fn admin(section: &Section<'_>, listeners: &[Listener], reading: &mut Reading<'_>) -> Option<Admin> {
    let socket = section.read("socket", reading, socket);
    let tcp = section.given("tcp", reading, placed(value::address));
    if let Some(Some(tcp)) = &tcp {
        no_collision(listeners, "tcp", tcp, reading);
    }
    Some(Admin { socket: socket?, tcp: tcp?.map(|tcp| tcp.value) })
}

fn watch(section: &Section<'_>, reading: &mut Reading<'_>) -> Option<Watch> {
    let jobs_file = section.given("jobs_file", reading, file);
    let jobs_command = section.given("jobs_command", reading, value::command);
    let jobs_every = section.read("jobs_every", reading, time(Span::from_secs(1), DAY));
    Some(Watch { jobs_file: jobs_file?, jobs_command: jobs_command?, jobs_every: jobs_every? })
}

fn state(section: &Section<'_>, reading: &mut Reading<'_>) -> Option<State> {
    let journal = section.read("journal", reading, flag);
    Some(State { file: section.read("file", reading, file)?, journal: journal? })
}

const THREADS_MAX: u64 = 256;
const LISTEN_MAX: usize = 64;
const POOLS_MAX: usize = 64;
const EXPORTS_MAX: usize = 1024;
const CLIENTS_MAX: usize = 1024;
const CALLS_MAX: u64 = 65_536;
const RATE_MAX: u64 = 1_000_000_000;
/// With fewer, a few large writes would stop everything else.
const MEMORY_RECORDS_MIN: usize = 4;
const DAY: Span = Span::from_secs(24 * 3600);
const PATIENCE_MAX: Span = Span::from_secs(600);
const PROBE_MIN: Span = Span::from_millis(50);
