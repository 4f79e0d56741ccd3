//! What was found, for people and for programs.

use super::finding::{About, Finding, Level};
use super::{Examined, duration};
use crate::failure::Failure;
use midas_core::route::moves::Moves;
use midas_proxy::survey::{Cookies, Greeting, Service, Survey, Trouble};
use serde_json::{Value, json};
use std::io::Write;

pub(super) fn print(pools: &[Examined<'_>], as_json: bool) -> Result<(), Failure> {
    let text = match as_json {
        true => json!({ "schema": SCHEMA, "pools": pools.iter().map(of_pool).collect::<Vec<_>>() }).to_string(),
        false => pools.iter().map(words).collect::<Vec<_>>().join("\n"),
    };
    writeln!(std::io::stdout().lock(), "{text}").map_err(|error| Failure::Broken(error.to_string()))
}

fn words(examined: &Examined<'_>) -> String {
    let mut lines = vec![format!("pool {}", examined.pool.name)];
    for server in &examined.pool.servers {
        lines.push(format!("  {}", server.name));
        let of = |about: &About| about.server.as_ref() == Some(&server.name);
        lines.extend(examined.findings.iter().filter(|finding| of(&finding.about)).map(line));
    }
    for (export, _) in &examined.exports {
        lines.push(format!("  {} on all servers", export.source));
        let of = |about: &About| about.server.is_none() && about.export.as_ref() == Some(&export.source);
        lines.extend(examined.findings.iter().filter(|finding| of(&finding.about)).map(line));
    }
    let keys = [("staleness", staleness(examined)), ("moves", moves(examined).map(str::to_owned))];
    let told: Vec<String> =
        keys.into_iter().filter_map(|(key, value)| Some(format!("\n  {key} = \"{}\"", value?))).collect();
    if !told.is_empty() {
        lines.push(format!("midas.toml, pool {}: what was measured says{}", examined.pool.name, told.concat()));
    }
    lines.join("\n")
}

fn line(finding: &Finding) -> String {
    let mark = match finding.level {
        Level::Well | Level::Note => finding.level.name(),
        Level::Change => "CHANGE",
        Level::Unasked => "NO ANSWER",
    };
    match &finding.about {
        About { server: Some(_), export: Some(export) } => format!("    {mark:<10}{export}: {}", finding.text),
        About { server: _, export: _ } => format!("    {mark:<10}{}", finding.text),
    }
}

/// Another value of `staleness` than the file's, if what was measured says so.
fn staleness(examined: &Examined<'_>) -> Option<String> {
    let needed = examined.staleness_s?;
    (duration(examined.pool.staleness).as_secs() != needed).then(|| format!("{needed}s"))
}

/// The same of `moves`.
fn moves(examined: &Examined<'_>) -> Option<&'static str> {
    let measured = examined.moves.filter(|moves| *moves != examined.pool.moves)?;
    Moves::NAMES.iter().find(|(_, moves)| *moves == measured).map(|(name, _)| *name)
}

fn of_pool(examined: &Examined<'_>) -> Value {
    let servers = examined.pool.servers.iter().zip(&examined.greetings);
    let servers: Vec<Value> = servers.map(|(server, greeting)| of_server(&server.name, greeting)).collect();
    let name = |server: usize| examined.pool.servers[server].name.as_str();
    let exports = examined.exports.iter();
    let exports: Vec<Value> = exports.map(|(export, survey)| of_export(&export.source, survey, &name)).collect();
    let findings = examined.findings.iter().map(|finding| {
        let About { server, export } = &finding.about;
        json!({ "level": finding.level.name(), "topic": finding.topic, "server": server, "export": export, "text": finding.text })
    });
    json!({
        "name": examined.pool.name,
        "servers": servers,
        "exports": exports,
        "findings": findings.collect::<Vec<_>>(),
        "toml": { "staleness": staleness(examined), "moves": moves(examined) },
    })
}

fn of_server(name: &str, greeting: &Greeting) -> Value {
    let service = |service: &Result<Service, Trouble>| match service {
        Ok(Service { versions, round_trip }) => {
            json!({ "versions": versions, "round_trip_us": round_trip.as_secs_f64() * 1e6 })
        }
        Err(_) => Value::Null,
    };
    json!({ "name": name, "nfs": service(&greeting.nfs), "mount": service(&greeting.mount) })
}

fn of_export<'n>(source: &str, survey: &Survey, name: &dyn Fn(usize) -> &'n str) -> Value {
    let names = |servers: &mut dyn Iterator<Item = usize>| servers.map(name).collect::<Vec<_>>();
    let cookies = match survey.cookies {
        Cookies::Portable { .. } => Some(true),
        Cookies::Bound { .. } => Some(false),
        Cookies::Unknown(_) => None,
    };
    let staleness = survey.trial.as_ref().and_then(|trial| trial.as_ref().ok()).map(|trial| {
        let pairs = trial.staleness.pairs.iter();
        let pair = |pair: &midas_proxy::survey::Pair| {
            json!({ "from": name(pair.from), "to": name(pair.to), "after_s": pair.after.map(|after| after.as_secs_f64()) })
        };
        pairs.map(pair).collect::<Vec<_>>()
    });
    let moving = survey.trial.as_ref().and_then(|trial| trial.as_ref().ok()?.moving.as_ref().ok()?.as_ref());
    let moving = moving.map(|moving| {
        let cost = |cost: &midas_proxy::survey::Cost| {
            let us = [cost.alone, cost.shared].map(|time| time.as_secs_f64() * 1e6);
            json!({ "calls": cost.what, "server": name(cost.server), "alone_us": us[0], "shared_us": us[1] })
        };
        moving.costs.iter().map(cost).collect::<Vec<_>>()
    });
    json!({
        "source": source,
        "members": names(&mut survey.parity.members.iter().copied()),
        "strangers": names(&mut survey.parity.strangers.iter().map(|(server, _)| *server)),
        "cookies_portable": cookies,
        "staleness": staleness,
        "moves": moving,
    })
}

/// Changes when a field goes away or changes its meaning.
const SCHEMA: &str = "midas-doctor/1";
