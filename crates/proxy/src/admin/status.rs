//! How the daemon is, read from what it counts.

use super::cache::caching;
use crate::api::{Export, Journaled, Pool, Server, Setting, Status, Subtree};
use crate::config;
use crate::counters::Totals;
use crate::event::Shared;
use crate::intents::Standing;
use crate::peers::Peers;
use crate::pool;
use crate::realm::Realm;
use midas_core::cache::Mode;
use midas_core::decision::Why;
use midas_core::health::Health;
use midas_core::id::ServerId;
use midas_core::route::feasible::Bound;
use midas_core::time::Span;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

pub(super) fn of(shared: &Shared) -> Status {
    let totals = Totals::of(&shared.tallies);
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_seconds: shared.started.elapsed().as_secs(),
        started_unix_ms: shared.clock.at(shared.started).as_nanos() / 1_000_000,
        not_ready: not_ready(shared, Ready::Writes),
        writes_hang: writes_hang(shared, &totals),
        bypass: bypassed(shared),
        clients: totals.welcomed - totals.ended,
        calls: totals.answers(),
        held: totals.held,
        unknown_owners: shared.whose.counts.unknown.load(Ordering::Relaxed),
        journal: journal(shared),
        cluster: shared.peers().map(Peers::membership),
        exports: shared.exports.iter().map(|export| of_export(shared, export)).collect(),
        pools: shared.pools.iter().map(|pool| of_pool(shared, pool)).collect(),
    }
}

/// What is written down of calls that must not be executed twice.
pub(super) fn journal(shared: &Shared) -> Option<Journaled> {
    let Standing { broken, written, refused, anew, recalled } = shared.intents.get()?.standing();
    Some(Journaled { broken, written, refused, anew, recalled })
}

/// What somebody wants to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ready {
    /// Reads alone.
    Reads,
    /// Reads and changes, as far as it is this daemon that serves them.
    All,
    /// Reads and changes, whoever they wait for.
    Writes,
}

/// Why not every call on every export can be served; empty if they can.
pub(super) fn not_ready(shared: &Shared, what: Ready) -> Vec<String> {
    let mut reasons = unserved(shared);
    if what != Ready::Reads {
        reasons.extend(hang_here(shared));
    }
    // One slow server is every member's: clients who left this one for it would find none that is ready.
    let dead = || shared.pools.iter().any(|pool| pool.some_open(0).is_none());
    if what == Ready::Writes || what == Ready::All && dead() {
        reasons.extend(waits_for_server(&Totals::of(&shared.tallies)));
    }
    reasons
}

/// Why changes hang: this member is cut off from the others, or some have waited for too long.
pub(super) fn writes_hang(shared: &Shared, totals: &Totals) -> Vec<String> {
    let mut reasons = hang_here(shared);
    reasons.extend(waits_for_server(totals));
    reasons
}

fn waits_for_server(totals: &Totals) -> Option<String> {
    let longest = Span::from_millis(totals.change_waits_ms);
    let said = || format!("writes hang: one has waited for a server for {:.0} s", longest.as_secs_f64());
    (longest >= WRITE_LATE).then(said)
}

/// Why changes hang at this member.
fn hang_here(shared: &Shared) -> Vec<String> {
    let leased = |export: &Realm| export.modes().wanted.contains(&Mode::Lease);
    let mut reasons = Vec::new();
    if let Some(peers) = shared.peers().filter(|_| shared.exports.iter().any(leased)) {
        let membership = peers.membership();
        let me = &membership.me;
        match &membership.failed {
            Some(why) => reasons.push(format!("writes hang: {me} takes no part in its cluster: {why}")),
            None if membership.cut_off => {
                reasons.push(format!("writes hang: {me} is cut off from the majority of its cluster"));
            }
            None if !membership.in_view => {
                reasons.push(format!("writes hang: {me} is not in the view of its cluster"));
            }
            None => {}
        }
    }
    if shared.intents.get().is_some_and(|intents| intents.standing().broken) {
        reasons.push("writes hang: the journal of calls cannot be written".to_owned());
    }
    let longest = shared.accord().map(|accord| accord.standing().longest).unwrap_or_default();
    if longest >= WRITE_LATE {
        reasons.push(format!("writes hang: one has waited for other members for {:.0} s", longest.as_secs_f64()));
    }
    reasons
}

/// Exports that no server can serve.
pub(super) fn unserved(shared: &Shared) -> Vec<String> {
    let closed = |export: &&Realm| admitted(export) == 0;
    let said = |export: &Realm| format!("export {}: no server of its pool was admitted and is up", export.rules().path);
    shared.exports.iter().filter(closed).map(said).collect()
}

pub(super) fn bypassed(shared: &Shared) -> bool {
    shared.exports.iter().any(Realm::bypassed)
}

/// Servers that belong to the export and take calls. Where none is open those count that fail: they
/// are sent what nobody else takes.
fn admitted(export: &Realm) -> usize {
    let pool = &export.pool;
    let open = pool.servers.ids().filter(|server| pool.open(*server)).count();
    let failing = || pool.servers.ids().filter(|server| pool.servers.health(*server) == Health::Failing).count();
    match (export.agreed().is_some(), open) {
        (true, 0) => failing(),
        (true, open) => open,
        (false, _) => 0,
    }
}

fn of_export(shared: &Shared, export: &Realm) -> Export {
    let (rules, wanted) = (export.rules(), export.modes().wanted);
    let setting =
        |area: usize, file: Mode| Setting { now: wanted[area].name().to_owned(), file: file.name().to_owned() };
    let subtree = |(number, subtree): (usize, &config::Subtree)| {
        let area = export.areas.iter().nth(number + 1)?;
        let (path, mode) = (subtree.path.clone(), setting(number + 1, subtree.mode));
        Some(Subtree { path, mode, cache: caching(shared, export, area) })
    };
    Export {
        path: rules.path.clone(),
        pool: export.pool.config.name.clone(),
        policy: Setting { now: export.policy().to_string(), file: rules.policy.to_string() },
        mode: setting(0, rules.mode),
        admitted: admitted(export),
        routes: Why::NAMES.iter().map(ToString::to_string).zip(export.routes()).collect(),
        bound: Bound::NAMES.iter().map(ToString::to_string).zip(export.binds()).collect(),
        fences: export.fences(Instant::now()),
        cache: caching(shared, export, export.areas.own()),
        subtrees: rules.subtrees.iter().enumerate().filter_map(subtree).collect(),
    }
}

fn of_pool(shared: &Shared, pool: &Arc<pool::Pool>) -> Pool {
    let mut uncommitted = vec![0; pool.config.servers.len()];
    for export in shared.exports.iter().filter(|export| Arc::ptr_eq(&export.pool, pool)) {
        export.count_uncommitted(Instant::now(), &mut uncommitted);
    }
    let servers = pool.servers.ids().map(|server| of_server(pool, server, uncommitted[server.index()])).collect();
    Pool { name: pool.config.name.clone(), servers }
}

fn of_server(pool: &pool::Pool, server: ServerId, uncommitted: u64) -> Server {
    let (config, view) = (pool.server(server), pool.servers.view(server));
    Server {
        name: config.name.clone(),
        address: config.address.to_string(),
        health: pool.standing(server),
        fenced: pool.fenced(server),
        foreign: pool.foreign(server),
        in_flight: pool.servers.in_flight(server).into(),
        dispatched: pool.servers.dispatched(server).into(),
        uncommitted,
        latency_p50_ms: view.latency_p50.as_millis_f64(),
        latency_p99_ms: view.latency_p99.as_millis_f64(),
        service_ms: view.service.as_millis_f64(),
        weight: view.weight.as_f64(),
    }
}

/// A change that has waited for so long hangs.
const WRITE_LATE: Span = Span::from_secs(10);
