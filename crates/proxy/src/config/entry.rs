//! A configuration as a list of keys and values, defaults included: what `midas check` shows and what reloads compare.

use super::key::Table;
use super::value::show_size;
use super::{Access, Cluster, ClusterMember, Config, Export, Level, LogFormat, Pool, Preset, Squash, Subtree, Writers};
use midas_core::route::moves::Moves;
use midas_workload::units::show_span;
use std::fmt;

/// One key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it belongs.
    pub place: Place,
    /// Its key.
    pub key: &'static str,
    /// Its value, as one text: lists are separated by blanks.
    pub value: String,
}

/// A table of the configuration; of several, the one that is named.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The table.
    pub table: Table,
    /// The pool's name, the export's path.
    pub name: Option<String>,
}

impl Config {
    /// Every key with its value, in the order of the document.
    pub fn entries(&self) -> Vec<Entry> {
        let one = |table, key, value| Entry { place: Place { table, name: None }, key, value };
        let or = |text: String, absent: &str| if text.is_empty() { absent.to_owned() } else { text };
        let mut entries = vec![
            one(Table::Top, "threads", self.threads.to_string()),
            one(Table::Listen, "nfs", listed(&self.listen.nfs)),
            one(Table::Listen, "mount", or(listed(&self.listen.mount), "where nfs is")),
            one(Table::Listen, "portmap", or(listed(&self.listen.portmap), "off")),
        ];
        entries.extend(self.pools.iter().flat_map(of_pool));
        for export in &self.exports {
            entries.extend(of_export(export, &self.pool_of(export).name));
            entries.extend(export.subtrees.iter().flat_map(of_subtree));
        }
        entries.extend([one(Table::Cache, "memory", show_size(self.cache.memory as u64))]);
        entries.extend(of_cluster(self.cluster.as_ref()));
        entries.extend([
            one(Table::Limits, "connections", self.limits.connections.to_string()),
            one(Table::Limits, "strangers", self.limits.strangers.to_string()),
            one(Table::Limits, "record", show_size(self.limits.record as u64)),
            one(Table::Limits, "calls_per_client", self.limits.calls_per_client.to_string()),
            one(Table::Limits, "memory", show_size(self.limits.memory as u64)),
            one(Table::Limits, "drain", show_span(self.limits.drain)),
            one(Table::Limits, "answers_kept", show_span(self.limits.answers_kept)),
            one(Table::Log, "format", named(&LogFormat::NAMES, &self.log.format)),
            one(Table::Log, "level", named(&Level::NAMES, &self.log.level)),
            one(Table::Admin, "socket", self.admin.socket.display().to_string()),
            one(Table::Admin, "tcp", self.admin.tcp.map_or_else(|| "off".to_owned(), |tcp| tcp.to_string())),
            one(
                Table::Watch,
                "jobs_file",
                or(self.watch.jobs_file.iter().map(|file| file.display().to_string()).collect(), "none"),
            ),
            one(Table::Watch, "jobs_command", or(self.watch.jobs_command.clone().unwrap_or_default(), "none")),
            one(Table::Watch, "jobs_every", show_span(self.watch.jobs_every)),
            one(Table::State, "file", self.state.file.display().to_string()),
            one(Table::State, "journal", self.state.journal.to_string()),
        ]);
        entries
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.table.name(), &self.name) {
            (Some(table), Some(name)) => write!(f, "{table} '{name}'"),
            (Some(_) | None, _) => self.table.fmt(f),
        }
    }
}

fn of_pool(pool: &Pool) -> Vec<Entry> {
    let server = |server: &super::Server| match server.name == server.address.to_string() {
        true => server.name.clone(),
        false => format!("{}={}", server.name, server.address),
    };
    let servers: Vec<String> = pool.servers.iter().map(server).collect();
    let mount_port = match pool.servers.iter().all(|server| server.mount == server.address) {
        true => "as NFS".to_owned(),
        false => pool.servers.first().map_or_else(String::new, |server| server.mount.port().to_string()),
    };
    let values = [
        ("name", pool.name.clone()),
        ("servers", servers.join(" ")),
        ("mount_port", mount_port),
        ("staleness", show_span(pool.staleness)),
        ("moves", named(&Moves::NAMES, &pool.moves)),
        ("failover_after", show_span(pool.failover_after)),
        ("connections", pool.connections.to_string()),
        ("in_flight_max", pool.in_flight_max.to_string()),
        ("call_timeout", show_span(pool.call_timeout)),
        ("probe_interval", show_span(pool.probe_interval)),
        ("probe_timeout", show_span(pool.probe_timeout)),
        ("rate_peak", pool.rate_peak.map_or_else(|| "as seen".to_owned(), |peak| peak.to_string())),
        ("on_down", pool.on_down.clone().unwrap_or_else(|| "none".to_owned())),
    ];
    at(&Place { table: Table::Pool, name: Some(pool.name.clone()) }, values)
}

fn of_export(export: &Export, pool: &str) -> Vec<Entry> {
    let caching = &export.caching;
    let values = [
        ("path", export.path.clone()),
        ("source", export.source.clone()),
        ("pool", pool.to_owned()),
        ("clients", listed(&export.clients)),
        ("access", named(&Access::NAMES, &export.access)),
        ("squash", named(&Squash::NAMES, &export.squash)),
        ("anon_uid", export.anonymous.uid.to_string()),
        ("anon_gid", export.anonymous.gid.to_string()),
        ("insecure", export.insecure.to_string()),
        ("policy", export.policy.to_string()),
        ("preset", export.preset.map_or_else(|| "none".to_owned(), |preset| named(&Preset::NAMES, &preset))),
        ("mode", export.mode.name().to_owned()),
        ("writers", named(&Writers::NAMES, &caching.writers)),
        ("lease_age_max", show_span(caching.lease_age_max)),
        ("server_hold_max", show_span(caching.server_hold_max)),
        ("immutable_age_max", show_span(caching.immutable_age_max)),
        ("stale_target", caching.stale_target.to_string()),
        ("ttl_max", show_span(caching.ttl_max)),
        ("absent_max", show_span(caching.absent_max)),
    ];
    at(&Place { table: Table::Export, name: Some(export.path.clone()) }, values)
}

fn of_cluster(cluster: Option<&Cluster>) -> Vec<Entry> {
    let member = |ClusterMember { name, address, witness }: &ClusterMember| {
        let witness = if *witness { " witness" } else { "" };
        format!("{name}={address}{witness}")
    };
    let said = |value: &dyn Fn(&Cluster) -> String| cluster.map_or_else(|| "off".to_owned(), value);
    let values = [
        ("name", said(&|cluster| cluster.name.clone())),
        ("listen", said(&|cluster| cluster.listen.to_string())),
        ("members", said(&|cluster| cluster.members.iter().map(member).collect::<Vec<_>>().join(", "))),
        ("key_file", said(&|cluster| cluster.key_file.display().to_string())),
        ("me", said(&|cluster| cluster.me.clone())),
        ("lease", said(&|cluster| show_span(cluster.lease))),
        ("suspect_after", said(&|cluster| show_span(cluster.suspect_after))),
        ("shares", said(&|cluster| cluster.shares.to_string())),
    ];
    at(&Place { table: Table::Cluster, name: None }, values)
}

fn of_subtree(subtree: &Subtree) -> Vec<Entry> {
    let caching = &subtree.caching;
    let values = [
        ("path", subtree.path.clone()),
        ("preset", subtree.preset.map_or_else(|| "none".to_owned(), |preset| named(&Preset::NAMES, &preset))),
        ("mode", subtree.mode.name().to_owned()),
        ("writers", named(&Writers::NAMES, &caching.writers)),
        ("lease_age_max", show_span(caching.lease_age_max)),
        ("immutable_age_max", show_span(caching.immutable_age_max)),
        ("stale_target", caching.stale_target.to_string()),
        ("ttl_max", show_span(caching.ttl_max)),
        ("absent_max", show_span(caching.absent_max)),
    ];
    at(&Place { table: Table::Subtree, name: Some(subtree.path.clone()) }, values)
}

fn at<const N: usize>(place: &Place, values: [(&'static str, String); N]) -> Vec<Entry> {
    values.into_iter().map(|(key, value)| Entry { place: place.clone(), key, value }).collect()
}

fn listed<T: fmt::Display>(values: &[T]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn named<T: PartialEq>(names: &[(&str, T)], value: &T) -> String {
    names.iter().find(|(_, meant)| meant == value).map_or_else(String::new, |(name, _)| (*name).to_owned())
}
