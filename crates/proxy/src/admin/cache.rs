//! The caches as administrators see them: what they did, what they hold, and what is to be forgotten.

use super::change::export;
use super::explain::{names, walk};
use super::routes::Refusal;
use crate::api::{Amount, Caching, Held, Holding, Holdings, Invalidate, Reads};
use crate::cached::{self, Area, Kind};
use crate::config::Level;
use crate::counters::{self, Fate, PROCEDURES};
use crate::event::Shared;
use crate::log;
use crate::realm::Realm;
use crate::watch::Said;
use axum::http::StatusCode;
use midas_core::cache::{Refusal as Refused, Stats};
use midas_core::key::Key;
use midas_nfs::nfs3::{DirOp, FileHandle, Procedure};
use std::collections::BTreeMap;
use std::time::Instant;

/// What the cache of a part of an export did and holds, without a walk over it.
pub(super) fn caching(shared: &Shared, export: &Realm, area: &Area) -> Caching {
    let total = total(&area.cached.stats());
    let (checked, different) = area.cached.comparisons();
    let by_procedure = counters::reads(&shared.tallies, area.number);
    Caching {
        mode: area.cached.mode().name().to_owned(),
        demoted: export.modes().demoted,
        reads: reads(&std::array::from_fn(|fate| by_procedure.iter().map(|counts| counts[fate]).sum())),
        entries: total.entries as u64,
        bytes: total.bytes as u64,
        kept: total.kept,
        refused: Refused::ALL.into_iter().map(|why| (why.name().to_owned(), total.refused(why))).collect(),
        checked,
        different,
    }
}

/// All parts together.
pub(super) fn total(parts: &[Stats]) -> Stats {
    parts.iter().fold(Stats::default(), |mut total, part| {
        total.entries += part.entries;
        total.bytes += part.bytes;
        total.kept += part.kept;
        total.refusals.iter_mut().zip(part.refusals).for_each(|(total, count)| *total += count);
        total
    })
}

fn reads(counts: &[u64; Fate::ALL.len()]) -> Reads {
    let of = |fate: Fate| counts[fate as usize];
    let (absent, joined, fetched) = (of(Fate::Absent), of(Fate::Joined), of(Fate::Fetched));
    Reads { answered: of(Fate::Answered) + absent, absent, joined, fetched }
}

/// Reads every entry: not for an event loop.
pub(super) fn held(shared: &Shared, asked: &Held) -> Result<Holdings, Refusal> {
    let exports = match &asked.export {
        Some(path) => vec![export(shared, path)?],
        None => shared.exports.iter().collect(),
    };
    let areas = exports.into_iter().flat_map(|export| export.areas.iter().map(move |area| (export, area)));
    Ok(Holdings { exports: areas.map(|(export, area)| holding(shared, export, area)).collect() })
}

fn holding(shared: &Shared, export: &Realm, area: &Area) -> Holding {
    let path = area.path.clone();
    // A subtree's entries lie below its own directory, which only a server can name.
    let subtree = area.number != export.areas.own().number;
    let root = match subtree {
        false => export.agreed().as_ref().as_ref().map(|agreed| agreed.root.clone()),
        true => names(shared, &path).and_then(|(export, names)| walk(export, &names)).ok(),
    };
    let held = area.cached.held(root.as_deref());
    let kinds = Kind::ALL.iter().zip(held.kinds).map(|(kind, it)| amount(kind.name().to_owned(), it)).collect();
    let below = |name: &[u8]| match name {
        [] => path.clone(),
        name => format!("{}/{}", path.trim_end_matches('/'), String::from_utf8_lossy(name)),
    };
    let mut subtrees: Vec<Amount> = held.subtrees.iter().map(|(name, it)| amount(below(name), *it)).collect();
    let mut elsewhere = amount("elsewhere".to_owned(), held.elsewhere);
    for smaller in subtrees.drain(SUBTREES.min(subtrees.len())..) {
        elsewhere.entries += smaller.entries;
        elsewhere.bytes += smaller.bytes;
    }
    Holding {
        subtree,
        cache: caching(shared, export, area),
        kinds,
        subtrees,
        elsewhere,
        reads: by_procedure(shared, area),
        path,
    }
}

fn amount(what: String, cached::Amount { entries, bytes }: cached::Amount) -> Amount {
    Amount { what, entries, bytes }
}

/// Of the procedures that the cache was asked for.
fn by_procedure(shared: &Shared, area: &Area) -> BTreeMap<String, Reads> {
    let counts = counters::reads(&shared.tallies, area.number);
    let named = (0..PROCEDURES as u32).map_while(Procedure::from_number).zip(&counts);
    let asked = named.filter(|(_, counts)| counts.iter().any(|count| *count > 0));
    asked.map(|(procedure, counts)| (procedure.name().to_owned(), reads(counts))).collect()
}

/// Asks a server for the way to each path: waits.
pub(super) fn invalidate(shared: &Shared, told: &Invalidate) -> Result<String, Refusal> {
    match (told.all, told.paths.as_slice()) {
        (true, []) => all(shared, told.export.as_deref()),
        (false, [_, ..]) if told.export.is_none() => {
            for (done, path) in told.paths.iter().enumerate() {
                one(shared, path).map_err(|refusal| refusal.after(&told.paths[..done]))?;
                shared.watch.journal.say(
                    Said::Change,
                    path,
                    "what is cached of it is forgotten",
                    "an administrator says so",
                );
            }
            Ok(format!("forgotten: {}; the next calls on it ask the servers", told.paths.join(", ")))
        }
        _ => Err(Refusal::wrong("paths, or all and perhaps an export: one of the two")),
    }
}

fn all(shared: &Shared, only: Option<&str>) -> Result<String, Refusal> {
    let exports = match only {
        Some(path) => vec![export(shared, path)?],
        None => shared.exports.iter().collect(),
    };
    for export in &exports {
        export.areas.flush();
    }
    let paths: Vec<String> = exports.iter().map(|export| export.rules().path.clone()).collect();
    let paths = paths.join(", ");
    log::answer(Level::Info, "cache forgotten", &[("exports", &paths)]);
    shared.watch.journal.say(Said::Change, &*paths, "everything cached is forgotten", "an administrator says so");
    Ok(format!("everything is forgotten of {paths}"))
}

/// Forgets a name, what it led to as far as was known, and what it leads to now.
fn one(shared: &Shared, path: &str) -> Result<(), Refusal> {
    let (export, mut names) = names(shared, path)?;
    let now = || export.pool.time(Instant::now());
    let last = names.pop();
    let handle = walk(export, &names)?;
    let dir = FileHandle::new(&handle).ok_or_else(|| Refusal::wrong("a server gave no handle"))?;
    let Some(name) = last else {
        export.areas.iter().for_each(|area| area.cached.forget(now(), Key::of(&handle)));
        return Ok(());
    };
    let what = DirOp { dir, name: name.as_bytes() };
    let led: Vec<Key> = export.areas.iter().filter_map(|area| area.cached.forget_name(now(), &what)).collect();
    names.push(name);
    let leads = match walk(export, &names) {
        Ok(object) => Some(Key::of(&object)),
        // It is not there: what was known of it is forgotten all the same.
        Err(Refusal(StatusCode::NOT_FOUND, _)) => None,
        Err(other) => return Err(other),
    };
    for object in led.into_iter().chain(leads) {
        export.areas.iter().for_each(|area| area.cached.forget(now(), object));
    }
    Ok(())
}

/// Subtrees that are shown each.
const SUBTREES: usize = 100;
