//! Where a call would go, and why: the daemon's own decision, taken on copies.

use super::routes::Refusal;
use crate::api::{Bound, Candidate, Explain, Explanation};
use crate::cached::Area;
use crate::clerk::Lines;
use crate::clock::duration;
use crate::config::nearest::suggestion;
use crate::event::Shared;
use crate::finding::{self, Found};
use crate::pool::Pool;
use crate::realm::{Realm, Would};
use crate::translate::Meaning;
use crate::watch::decision::{Stays, because, waits};
use axum::http::StatusCode;
use midas_core::cache::Mode;
use midas_core::id::ServerId;
use midas_core::key::Key;
use midas_core::op::Op;
use midas_core::route::feasible::{self, exclusion};
use midas_net::{Caller, Client, ClientError};
use midas_nfs::nfs3::{FileHandle, Nfsstat3};
use std::time::Instant;

/// Waits for a server where a path must be looked up.
pub(super) fn explain(shared: &Shared, asked: &Explain) -> Result<Explanation, Refusal> {
    let op = op(asked.op.as_deref().unwrap_or(Op::Getattr.name()))?;
    let object = match (&asked.path, &asked.handle) {
        (Some(path), None) => of_path(shared, op, path)?,
        (None, Some(handle)) => of_handle(shared, handle)?,
        (Some(_), Some(_)) | (None, None) => return Err(Refusal::wrong("a path or a handle, one of them")),
    };
    let Object { export, area, handle, name } = object;
    let bytes = FileHandle::new(&handle).ok_or_else(|| Refusal::wrong("a handle has 1..64 bytes"))?;
    let meaning = Meaning::on(op, bytes, name.as_deref().unwrap_or_default().as_bytes());
    let (mode, mode_because) = mode(export, area, &handle);
    let would = export.would(Instant::now(), &meaning);
    Ok(Explanation { mode: mode.name().to_owned(), mode_because, ..explanation(export, op, &handle, name, &would) })
}

/// What is called on.
struct Object<'s> {
    export: &'s Realm,
    /// The part of the export that its path lies in, where that is known.
    area: Option<&'s Area>,
    handle: Vec<u8>,
    /// In the directory that the handle is of, for a call on a name.
    name: Option<String>,
}

fn op(typed: &str) -> Result<Op, Refusal> {
    Op::ALL.into_iter().find(|op| op.name() == typed).ok_or_else(|| {
        let names = Op::ALL.map(Op::name);
        Refusal::wrong(format!("unknown op '{typed}'{}", suggestion(typed, &names)))
    })
}

fn of_handle<'s>(shared: &'s Shared, typed: &str) -> Result<Object<'s>, Refusal> {
    let handle = hex(typed).ok_or_else(|| {
        Refusal::wrong(format!("'{typed}' is no path (they begin with '/') and no handle (2..128 hexadecimal digits)"))
    })?;
    let number = match finding::whose(shared, &mut Lines::default(), &handle) {
        Found::Of(owner) => shared.whose.exports_of(owner).next().unwrap_or(0),
        Found::Nowhere => return Err(Refusal::unknown(format!("no server knows the handle {typed}"))),
        Found::Unknown => {
            let said = "it cannot be told now which export the handle belongs to".to_owned();
            return Err(Refusal(StatusCode::SERVICE_UNAVAILABLE, said));
        }
    };
    Ok(Object { export: &shared.exports[number], area: None, handle, name: None })
}

fn hex(typed: &str) -> Option<Vec<u8>> {
    let digits = typed.strip_prefix("0x").unwrap_or(typed);
    let fits = digits.len().is_multiple_of(2) && (2..=2 * HANDLE_MOST).contains(&digits.len());
    if !fits || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).ok();
    (0..digits.len()).step_by(2).map(byte).collect()
}

pub(super) fn show_hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

fn of_path<'s>(shared: &'s Shared, op: Op, path: &str) -> Result<Object<'s>, Refusal> {
    let (export, mut names) = names(shared, path)?;
    let name = match on_name(op) {
        false => None,
        true => match names.pop() {
            Some(name) => Some(name.to_owned()),
            None => return Err(Refusal::wrong(format!("{} takes a name below {path}", op.name()))),
        },
    };
    Ok(Object { export, area: Some(export.areas.at(&names)), handle: walk(export, &names)?, name })
}

/// The export that holds a path, and the names that lead there from its root.
pub(super) fn names<'s, 'p>(shared: &'s Shared, path: &'p str) -> Result<(&'s Realm, Vec<&'p str>), Refusal> {
    let (export, below) = below(shared, path)?;
    let names: Vec<&str> = below.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    match names.contains(&"..") {
        true => Err(Refusal::wrong("no '..' in a path")),
        false => Ok((export, names)),
    }
}

/// The export that holds the path, the longest if several do, and what is below it.
fn below<'s, 'p>(shared: &'s Shared, path: &'p str) -> Result<(&'s Realm, &'p str), Refusal> {
    let below = |export: &'s Realm| {
        let at = export.rules().path.trim_end_matches('/').to_owned();
        let rest = path.strip_prefix(&at).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
        Some((export, rest))
    };
    let found = shared.exports.iter().filter_map(below).min_by_key(|(_, rest)| rest.len());
    found.ok_or_else(|| {
        let paths: Vec<String> = shared.exports.iter().map(|export| export.rules().path.clone()).collect();
        Refusal::unknown(format!("'{path}' is below no export; there are: {}", paths.join(", ")))
    })
}

/// Whether a call is placed by its directory.
const fn on_name(op: Op) -> bool {
    match op {
        Op::Lookup | Op::Create | Op::Remove | Op::Rename | Op::Link => true,
        Op::Getattr
        | Op::Access
        | Op::List
        | Op::Readlink
        | Op::Statfs
        | Op::Read
        | Op::Setattr
        | Op::Write
        | Op::Commit => false,
    }
}

/// The handle that names lead to from an export's root, as a server says.
pub(super) fn walk(export: &Realm, names: &[&str]) -> Result<Vec<u8>, Refusal> {
    let pool = &export.pool;
    let root = export.agreed().as_ref().as_ref().map(|agreed| agreed.root.clone()).ok_or_else(|| unready(pool))?;
    let server = pool.server(pool.some_open(0).ok_or_else(|| unready(pool))?);
    let path = names.join("/");
    let said = |error: ClientError| {
        let text = format!("{}: '{path}': {error}", server.name);
        match error {
            ClientError::Status(Nfsstat3::NOENT | Nfsstat3::NOTDIR) => Refusal::unknown(text),
            _ => Refusal(StatusCode::BAD_GATEWAY, text),
        }
    };
    let patience = duration(pool.config.probe_timeout);
    let mut client = Client::connect(server.address, &Caller::ROOT, patience).map_err(|error| said(error.into()))?;
    client.walk(&root, path.as_bytes()).map_err(said)
}

fn unready(pool: &Pool) -> Refusal {
    Refusal(StatusCode::SERVICE_UNAVAILABLE, format!("no server of pool {} takes calls", pool.config.name))
}

fn explanation(export: &Realm, op: Op, handle: &[u8], name: Option<String>, would: &Would) -> Explanation {
    let pool = &export.pool;
    let named = |server: ServerId| pool.server(server).name.clone();
    let Would { target, knobs, route } = would;
    let order = pool.servers.ring().order(target.home);
    let candidate = |server| Candidate {
        name: named(server),
        health: pool.servers.health(server).name().to_owned(),
        excluded: exclusion(&pool.servers, target, server).map(|why| why.reason().to_owned()),
        in_flight: pool.servers.in_flight(server).into(),
        work: pool.servers.work(server).as_f64(),
    };
    let home = route.as_ref().map_or_else(|_| pool.servers.ring().home(target.home), |route| Some(route.home));
    let policy = match knobs.bypass {
        true => "bypass".to_owned(),
        false => export.policy().to_string(),
    };
    let stays = match (knobs.bypass, target.stays) {
        (true, _) => Some(Stays::Bypass),
        (false, true) => Some(Stays::Moves),
        (false, false) => None,
    };
    let (to, why, because) = match route {
        Ok(route) => (Some(named(route.to)), route.why.name(), because(route, stays, &named)),
        Err(why) => (None, why.name(), waits(*why)),
    };
    Explanation {
        export: export.rules().path.clone(),
        pool: pool.config.name.clone(),
        op: op.name().to_owned(),
        handle: show_hex(handle),
        name,
        policy,
        mode: String::new(),
        mode_because: String::new(),
        home: home.map(named).unwrap_or_default(),
        bound: target.bound.map(|(server, why)| Bound { server: named(server), because: bound(why).to_owned() }),
        servers: order.map(candidate).collect(),
        to,
        why: why.to_owned(),
        because,
    }
}

/// The mode that holds for an object, and whose it is. Calls name handles: where one lies must have been seen.
fn mode(export: &Realm, at: Option<&Area>, handle: &[u8]) -> (Mode, String) {
    let known = export.areas.of(export.pool.time(Instant::now()), Key::of(handle));
    let Some(area) = at.or(known) else {
        let why = "nobody knows in which subtree it lies: it was not looked up through MIDAS, or has several names";
        return (Mode::Strict, why.to_owned());
    };
    let whose = match area.number == export.areas.own().number {
        true => "the export's own".to_owned(),
        false => format!("of the subtree {}", area.path),
    };
    let seen = known.is_some_and(|known| known.number == area.number);
    let yet = if seen { "" } else { ", once it was looked up through MIDAS by its only name; strict until then" };
    (area.cached.mode(), whose + yet)
}

fn bound(why: feasible::Bound) -> &'static str {
    match why {
        feasible::Bound::Listing => "a listing goes on where its cookies come from",
        feasible::Bound::Uncommitted => "it has written data there that is not committed",
        feasible::Bound::Fenced => "others may answer with the state before a change",
        feasible::Bound::Unknown => "it is not known what was changed before, so everything stays at home",
        feasible::Bound::Maker => "no other server knows it",
        feasible::Bound::PerhapsExecuted => "a change of it was perhaps executed there",
    }
}

/// Bytes of a handle.
const HANDLE_MOST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_read_as_captures_show_them() {
        assert_eq!(hex("0x00ff"), Some(vec![0, 255]));
        assert_eq!(hex("01C0"), Some(vec![1, 192]));
        assert_eq!(show_hex(&[1, 192]), "01c0");
        for wrong in ["", "0", "0x", "0g", "äöü", "+1", &"00".repeat(65)] {
            assert_eq!(hex(wrong), None, "{wrong}");
        }
    }
}
