//! `midas check`: what a configuration means, or what is wrong with it.

use crate::failure::Failure;
use clap::Args;
use midas_core::time::Span;
use midas_proxy::config::{Cluster, Config, ConfigError, Entry, Export, Pool, Subtree, Table};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::PathBuf;

/// Read a configuration of `midas serve` and say what it means, or every mistake with its line and column
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The configuration
    #[arg(long, value_name = "FILE", default_value = Config::PATH)]
    config: PathBuf,
    /// Print one JSON object: every key with its value, or the mistakes
    #[arg(long)]
    json: bool,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let file = self.config.display().to_string();
        match (Config::load(&self.config), self.json) {
            (Ok(config), true) => print(&meaning(&file, &config).to_string()),
            (Ok(config), false) => print(&summary(&file, &config)),
            (Err(error), true) => print(&mistakes(&file, &error).to_string()).and(Err(failure(&file, &error))),
            (Err(error), false) => {
                eprintln!("{error}");
                Err(failure(&file, &error))
            }
        }
    }
}

fn failure(file: &str, error: &ConfigError) -> Failure {
    let errors = if error.count() == 1 { "error" } else { "errors" };
    Failure::Broken(format!("{file} has {} {errors}", error.count()))
}

fn summary(file: &str, config: &Config) -> String {
    let listen = config.entries().into_iter().filter(|entry| entry.place.table == Table::Listen);
    let listen: Vec<String> = listen.map(|entry| format!("{} {}", entry.key, entry.value)).collect();
    let mut lines = vec![format!("ok: {file}"), format!("  listen: {}", listen.join(", "))];
    lines.extend(config.pools().iter().map(|pool| format!("  pool {}", of_pool(config, pool))));
    for export in config.exports() {
        lines.push(format!("  export {}", of_export(config, export)));
        let subtree = |it: &Subtree| format!("    subtree {}: {}", it.path, it.mode.name());
        lines.extend(export.subtrees.iter().map(subtree));
    }
    lines.extend(config.cluster().map(|cluster| of_cluster(config, cluster)));
    lines.extend(config.warnings().into_iter().map(|warning| format!("warning: {warning}")));
    lines.join("\n")
}

fn of_pool(config: &Config, pool: &Pool) -> String {
    let text = value_of(config, Table::Pool, &pool.name);
    let servers = if pool.servers.len() == 1 { "server" } else { "servers" };
    let bound = match pool.staleness == Span::ZERO || pool.servers.len() == 1 {
        true => "",
        false => " (for so long calls on what was changed go to one server)",
    };
    let (count, staleness) = (pool.servers.len(), text("staleness"));
    format!("{}: {count} {servers} ({}), staleness {staleness}{bound}", pool.name, text("servers"))
}

fn of_export(config: &Config, export: &Export) -> String {
    let text = value_of(config, Table::Export, &export.path);
    let insecure = if export.insecure { ", insecure" } else { "" };
    format!(
        "{}: {} of {}, {} for {}, squash {}{insecure}, {}, {}",
        export.path,
        export.source,
        text("pool"),
        text("access"),
        text("clients"),
        text("squash"),
        text("policy"),
        text("mode")
    )
}

fn of_cluster(config: &Config, cluster: &Cluster) -> String {
    let members =
        config.entries().into_iter().find(|entry| entry.place.table == Table::Cluster && entry.key == "members");
    let members = members.map_or_else(String::new, |entry| entry.value);
    format!("  cluster {}: {} of {members}, listens at {}", cluster.name, cluster.me, cluster.listen)
}

/// The values of one pool or export, by key.
fn value_of(config: &Config, table: Table, name: &str) -> impl Fn(&str) -> String {
    let of = |entry: &Entry| entry.place.table == table && entry.place.name.as_deref() == Some(name);
    let entries: Vec<Entry> = config.entries().into_iter().filter(of).collect();
    move |key| entries.iter().find(|entry| entry.key == key).map_or_else(String::new, |entry| entry.value.clone())
}

/// The tables of the file, each with every key.
fn meaning(file: &str, config: &Config) -> Value {
    let mut tables = Map::new();
    let entries = config.entries();
    for group in entries.chunk_by(|one, next| one.place == next.place) {
        let table = group[0].place.table;
        let keys = group.iter().map(|entry| (entry.key.to_owned(), Value::from(entry.value.clone())));
        match (table.name(), table.is_list()) {
            (None, _) => tables.extend(keys),
            (Some(name), false) => drop(tables.insert(name.to_owned(), Value::Object(keys.collect()))),
            (Some(name), true) => {
                let list = tables.entry(name).or_insert_with(|| json!([]));
                list.as_array_mut().expect("a list is only added to").push(Value::Object(keys.collect()));
            }
        }
    }
    json!({ "schema": SCHEMA, "ok": true, "file": file, "warnings": config.warnings(), "config": tables })
}

fn mistakes(file: &str, error: &ConfigError) -> Value {
    let errors = error.problems().iter().map(|problem| {
        let (line, column) = problem.place.unzip();
        json!({ "line": line, "column": column, "text": problem.text })
    });
    json!({ "schema": SCHEMA, "ok": false, "file": file, "count": error.count(), "errors": errors.collect::<Vec<_>>() })
}

fn print(text: &str) -> Result<(), Failure> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(|error| Failure::Broken(error.to_string()))
}

/// Changes when a field goes away or changes its meaning.
const SCHEMA: &str = "midas-check/1";
