//! Changes while the daemon runs: overrides, which end with it. What cannot be is refused before anything is changed.

use super::routes::Refusal;
use super::status::bypassed;
use crate::api::{Bypass, Drain, Set};
use crate::config::Level;
use crate::config::caching::refusal;
use crate::config::nearest::suggestion;
use crate::config::parse_policy;
use crate::event::Shared;
use crate::log;
use crate::pool::Pool;
use crate::realm::Realm;
use crate::watch::Said;
use midas_core::cache::Mode;
use midas_core::id::ServerId;
use std::sync::Arc;
use std::time::Instant;

pub(super) fn set(shared: &Shared, told: &Set) -> Result<String, Refusal> {
    let (export, area) = part(shared, &told.export)?;
    if area > 0 && told.policy.is_some() {
        return Err(Refusal::wrong(format!("{} is a subtree: its calls are routed as its export's are", told.export)));
    }
    let policy = told.policy.as_deref().map(parse_policy).transpose().map_err(Refusal::wrong)?;
    let mode = told.mode.as_deref().map(|typed| mode(export, area, typed)).transpose()?;
    if let Some(policy) = policy {
        export.set_policy(policy);
        log::answer(Level::Info, "policy set", &[("export", &told.export), ("policy", &policy)]);
        say(shared, &told.export, format!("policy {policy}"));
    }
    if let Some(mode) = mode {
        let demoted = export.modes().demoted;
        export.set_mode(area, mode);
        log::answer(Level::Info, "mode set", &[("export", &told.export), ("mode", &mode.name())]);
        say(shared, &told.export, format!("mode {}", mode.name()));
        if let Some(why) = demoted {
            let what = "may cache again";
            shared.watch.journal.say(
                Said::Cache,
                &told.export,
                what,
                format!("an administrator says so; before: {why}"),
            );
        }
    }
    let policy = policy.map(|policy| format!("policy {policy}"));
    let mode = mode.map(|mode| format!("mode {}", mode.name()));
    let said: Vec<String> = policy.into_iter().chain(mode).collect();
    match said.is_empty() {
        true => Err(Refusal::wrong("nothing to set; possible: policy, mode")),
        false => {
            let late = if bypassed(shared) { "; it waits for the end of the bypass" } else { "" };
            Ok(format!("{}: {}, until the daemon ends{late}", told.export, said.join(", ")))
        }
    }
}

/// What an administrator did.
fn say(shared: &Shared, about: &str, what: impl Into<String>) {
    shared.watch.journal.say(Said::Change, about, what, "an administrator says so");
}

/// A mode that the writers permit.
fn mode(export: &Realm, area: usize, typed: &str) -> Result<Mode, Refusal> {
    let names = Mode::ALL.map(Mode::name);
    let unknown = || Refusal::wrong(format!("unknown mode '{typed}'{}", suggestion(typed, &names)));
    let mode = Mode::parse(typed).ok_or_else(unknown)?;
    let rules = export.rules();
    let subtree = area.checked_sub(1).and_then(|subtree| rules.subtrees.get(subtree));
    let caching = subtree.map_or(&rules.caching, |subtree| &subtree.caching);
    match caching.writers.permit(mode) {
        true => Ok(mode),
        false => Err(Refusal::wrong(format!("mode: {}", refusal(mode)))),
    }
}

/// The export or subtree with this path: the export, and the number of the part among its parts.
fn part<'s>(shared: &'s Shared, path: &str) -> Result<(&'s Realm, usize), Refusal> {
    let subtree = |export: &'s Realm| Some((export, export.areas.iter().position(|area| area.path == path)?));
    match export(shared, path) {
        Ok(export) => Ok((export, 0)),
        Err(unknown) => shared.exports.iter().find_map(subtree).ok_or(unknown),
    }
}

pub(super) fn export<'s>(shared: &'s Shared, path: &str) -> Result<&'s Realm, Refusal> {
    shared.exports.iter().find(|export| export.rules().path == path).ok_or_else(|| {
        let paths: Vec<String> = shared.exports.iter().map(|export| export.rules().path.clone()).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        Refusal::unknown(format!("unknown export '{path}'{}", suggestion(path, &paths)))
    })
}

/// When this returns, no decision is under way that took the server for an open one.
pub(super) fn drain(shared: &Shared, told: &Drain) -> Result<String, Refusal> {
    let places = places(shared, &told.server)?;
    if let Some((pool, _)) = places.iter().find(|(pool, server)| pool.only_open(*server)).filter(|_| !told.force) {
        return Err(Refusal::wrong(last_open(&told.server, &pool.config.name)));
    }
    let mut alone = Vec::new();
    for (pool, server) in &places {
        pool.drain(Instant::now(), *server);
        log::answer(Level::Info, "drain", &[("server", &told.server)]);
        say(shared, &told.server, "drained: it takes no new calls");
        shared.exports.iter().filter(|export| Arc::ptr_eq(&export.pool, pool)).for_each(Realm::settle_in);
        if pool.some_open(0).is_none() {
            alone.push(pool.config.name.as_str());
        }
    }
    let alone = match alone.is_empty() {
        true => String::new(),
        false => format!("; no other server of {} takes calls: they wait", alone.join(", ")),
    };
    Ok(format!("{} takes no new calls, until `midas undrain` or the daemon ends{alone}", told.server))
}

fn last_open(server: &str, pool: &str) -> String {
    format!(
        "{server} is the last server of {pool} that takes calls: all calls would wait; `--force` drains it all the same"
    )
}

/// It comes back as any server does that was away: it must answer and belong.
pub(super) fn undrain(shared: &Shared, told: &Drain) -> Result<String, Refusal> {
    let mut places = places(shared, &told.server)?;
    let standing = places.first().map_or_else(String::new, |(pool, server)| pool.standing(*server));
    places.retain(|(pool, server)| pool.drained(*server));
    for (pool, server) in &places {
        pool.undrain(Instant::now(), *server);
        log::answer(Level::Info, "undrain", &[("server", &told.server)]);
        say(shared, &told.server, "undrained: it takes calls again once it has answered");
    }
    match places.is_empty() {
        true => Err(Refusal::wrong(format!("{} is not drained: it is {standing}", told.server))),
        false => Ok(format!("{} takes calls again once it has answered", told.server)),
    }
}

/// A server may stand in several pools.
fn places<'s>(shared: &'s Shared, name: &str) -> Result<Vec<(&'s Arc<Pool>, ServerId)>, Refusal> {
    let all = || shared.pools.iter().flat_map(|pool| pool.servers.ids().map(move |server| (pool, server)));
    let found: Vec<_> = all().filter(|(pool, server)| pool.server(*server).name == name).collect();
    match found.is_empty() {
        true => {
            let names: Vec<&str> = all().map(|(pool, server)| pool.server(server).name.as_str()).collect();
            Err(Refusal::unknown(format!("unknown server '{name}'{}", suggestion(name, &names))))
        }
        false => Ok(found),
    }
}

/// When this returns, no decision is under way that a policy takes.
pub(super) fn bypass(shared: &Shared, told: Bypass) -> String {
    for export in &shared.exports {
        export.set_bypass(told.on);
    }
    log::answer(Level::Info, if told.on { "bypass on" } else { "bypass off" }, &[]);
    let done = match told.on {
        true => "bypass is on: every call goes to its home",
        false => "bypass is off: the policies decide",
    };
    say(shared, "every export", done);
    done.to_owned()
}
