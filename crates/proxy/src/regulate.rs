//! What is done four times a second: the controllers' fast tick, and telling what came of it and of the servers.

use crate::event::Shared;
use crate::keeper::{exports, pause};
use crate::log;
use crate::pool::{Pool, lock};
use crate::realm::Realm;
use crate::state::State;
use crate::watch::{Members, Said};
use midas_core::control::warmup::Origin;
use midas_core::control::{Actuation, Controller, Knob};
use midas_core::health::Health;
use midas_core::id::ServerId;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Until the daemon ends.
pub(crate) fn run(shared: &Shared, mut state: State) {
    let mut slow_at = Instant::now() + SLOW;
    let mut seen: Vec<Vec<Health>> = shared.pools.iter().map(|pool| healths(pool)).collect();
    let (mut members, mut ticks) = (Members::default(), 0_u64);
    while pause(shared, CONTROL) {
        let now = Instant::now();
        for (pool, seen) in shared.pools.iter().zip(&mut seen) {
            regulate(shared, pool, now, &mut state);
            tell_healths(shared, pool, seen);
        }
        watch_members(shared);
        ticks += 1;
        if ticks.is_multiple_of(POINT) {
            if let Some((peers, accord)) = shared.peers().zip(shared.accord()) {
                members.look(&shared.watch.journal, &peers.status(accord));
            }
            shared.watch.past.note(shared, now);
        }
        shared.watch.look();
        state.save_changed();
        if now >= slow_at {
            slow_at = now + SLOW;
            shared.exports.iter().for_each(|export| export.areas.tick(export.pool.time(now)));
        }
        log::tick(now);
    }
}

fn regulate(shared: &Shared, pool: &Arc<Pool>, now: Instant, state: &mut State) {
    let exports: Vec<_> = exports(shared, pool).collect();
    let mut controllers: Vec<_> = exports.iter().map(|export| lock(&export.controller)).collect();
    pool.tick(now, controllers.iter_mut().map(|controller| &mut **controller));
    for (export, controller) in exports.iter().zip(&mut controllers) {
        export.publish(controller);
        tell_actuations(shared, export, controller);
        match controller.targets() {
            Some((targets, Origin::Warmup | Origin::Given)) => state.keep(&export.rules().path, &targets),
            // Defaults are what a warm-up that failed leaves: the next daemon tries again.
            Some((_, Origin::Default)) | None => {}
        }
    }
}

/// While members of the cluster differ in what they serve, caches answer nothing.
fn watch_members(shared: &Shared) {
    let (Some(peers), Some(accord)) = (shared.peers(), shared.accord()) else { return };
    let differing = peers.differing();
    peers.round_trips().for_each(|(peer, took)| accord.fetches.round_trip(peer, took));
    if accord.block(!differing.is_empty()) {
        match differing.is_empty() {
            true => log::info("members agree again", &[]),
            false => log::warn("members differ: nothing is answered from caches", &[("members", &differing.join(" "))]),
        }
        let (about, what, why) = match differing.is_empty() {
            true => ("cluster".to_owned(), "caches may answer", "members have the same configuration again"),
            false => (differing.join(" "), "nothing is answered from caches", "members differ in their configuration"),
        };
        shared.watch.journal.say(Said::Cluster, about, what, why);
    }
}

fn tell_actuations(shared: &Shared, export: &Realm, controller: &mut Controller) {
    let path = export.rules().path.clone();
    for actuation in controller.drain_events() {
        export.turns.turned(&actuation);
        let Actuation { knob, from, to, cause, .. } = actuation;
        let say = if knob == Knob::Steering { log::info } else { log::debug };
        let about = format!("{path} {}", knob.name());
        say("knob turned", &[("knob", &about), ("from", &from), ("to", &to), ("cause", &cause)]);
        let what = format!("{} from {from} to {to}", knob.name());
        shared.watch.journal.say(Said::Knob, path.as_str(), what, cause.to_string());
    }
}

fn healths(pool: &Pool) -> Vec<Health> {
    pool.servers.ids().map(|server| pool.servers.health(server)).collect()
}

/// Says which servers are not as they were when last looked at, and why.
fn tell_healths(shared: &Shared, pool: &Pool, seen: &mut Vec<Health>) {
    let now = healths(pool);
    for (server, (before, health)) in pool.servers.ids().zip(seen.iter().zip(&now)).filter(|(_, (a, b))| a != b) {
        let (name, was) = (&pool.server(server).name, before.name());
        match health {
            Health::Up => log::info("server is up", &[("server", name), ("was", &was)]),
            Health::Probation => log::info("server is on probation", &[("server", name), ("was", &was)]),
            Health::Drained => log::info("server is drained", &[("server", name), ("was", &was)]),
            Health::Failing => log::warn("server is failing", &[("server", name), ("why", &"it answers with errors")]),
            Health::Down => log::warn("server is down", &[("server", name), ("why", &pool.closed(server))]),
            Health::Quarantined => {
                let why = pool.foreign(server).unwrap_or_default();
                log::error("server is quarantined", &[("server", name), ("why", &why)]);
            }
        }
        let what = format!("{}, was {was}", health.name());
        shared.watch.journal.say(Said::Health, name, what, why_so(pool, server, *health));
    }
    *seen = now;
}

fn why_so(pool: &Pool, server: ServerId, health: Health) -> String {
    match health {
        Health::Up => "it answers, and belongs to its pool".to_owned(),
        Health::Probation => "it answers again, and gets a call at a time".to_owned(),
        Health::Drained => "an administrator says so".to_owned(),
        Health::Failing => "it answers with errors".to_owned(),
        Health::Down => pool.closed(server),
        Health::Quarantined => pool.foreign(server).unwrap_or_default(),
    }
}

/// Ticks between two points of the charts: every half second, as [`crate::api::watch::EVERY_MS`] says.
const POINT: u64 = 2;
/// The slow loop: class TTLs. Paper: P10.
const SLOW: Duration = Duration::from_secs(30);
/// The controller's fast tick.
const CONTROL: Duration = Duration::from_millis(250);
