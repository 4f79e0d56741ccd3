//! What a call under way holds of the caches of its pool's exports: a read that others may wait with, or the marks of what it changes.

use crate::cached::{Area, Claimed, Fetching, Question, Touched, Unfound, Who};
use crate::dispatch::Forward;
use crate::event::Shared;
use crate::translate::Kind;
use crate::whose::Owner;
use midas_core::cache::Ended;
use midas_core::op::Op;
use midas_core::time::Time;
use midas_nfs::nfs3::{self, Procedure};
use midas_nfs::rpc::{self, Credential};
use std::sync::Arc;

/// What a call holds. None where nothing is cached.
#[derive(Debug)]
pub(crate) enum Claim {
    /// It reads.
    Reads(Box<Fetching>),
    /// It changes something: its marks, by the number of the export.
    Changes(Vec<(usize, Touched)>),
}

/// Whether a mutation may leave.
pub(crate) enum Prepared {
    /// It may.
    Ready(Option<Claim>),
    /// It may when these names were looked up.
    Find(Claim, Vec<Unfound>),
    /// Not while another mutation of the same name is under way.
    Busy,
}

/// Marks what a call changes, in every export that may have it cached.
pub(crate) fn prepare(now: Time, shared: &Shared, realm: usize, op: Op, record: &[u8]) -> Prepared {
    let changes = op.mutates() || op == Op::Commit;
    let mut watching = watching(shared, realm).peekable();
    if !changes || watching.peek().is_none() {
        return Prepared::Ready(None);
    }
    let call = rpc::Call::decode(record).ok().and_then(|call| {
        let procedure = Procedure::from_number(call.procedure)?;
        nfs3::Call::decode(procedure, call.args).ok()
    });
    // It was decoded when it came.
    let Some(call) = call else { return Prepared::Ready(None) };
    let (mut claims, mut unfound) = (Vec::new(), Vec::new());
    for (export, area) in watching {
        match area.cached.claim(now, &call) {
            Claimed::Marked(touched, names) => {
                claims.push((export, touched));
                unfound.extend(names);
            }
            Claimed::Busy => {
                changed(now, shared, claims, Ended::Done, None);
                return Prepared::Busy;
            }
        }
    }
    for (export, touched) in &mut claims {
        shared.exports[*export].areas.crosses(now, &call, touched);
    }
    unfound.dedup();
    match unfound.is_empty() {
        true => Prepared::Ready(Some(Claim::Changes(claims))),
        false => Prepared::Find(Claim::Changes(claims), unfound),
    }
}

/// A read that nothing is kept of must wait: what it may be shared as until it leaves.
pub(crate) fn shared(now: Time, shared: &Shared, forward: &Forward, record: &[u8]) -> Option<Claim> {
    let Owner::Export(realm) = forward.owner else { return None };
    // A cookie means something to the server alone that its own client lists at.
    if forward.meaning.kind == (Kind::List { first: false }) {
        return None;
    }
    let call = rpc::Call::decode(record).ok()?;
    let credential = Credential::decode(&call.credential).ok().filter(|it| matches!(it, Credential::Sys(_)))?;
    let question = Question::of(&nfs3::Call::decode(forward.procedure, call.args).ok()?, &forward.meaning)?;
    // The record is the servers' already: whom they see is in it.
    let who = if question.personal() { Who::of(&credential) } else { Who::ANYONE };
    let place = forward.meaning.place;
    let area = shared.exports[realm].areas.of(now, place).filter(|area| !area.cached.mode().answers())?;
    Some(Claim::Reads(area.cached.waits(now, call.args, (place, &who), forward.procedure)))
}

/// A mutation is over.
pub(crate) fn changed(
    now: Time,
    shared: &Shared,
    claims: Vec<(usize, Touched)>,
    ended: Ended,
    reply: Option<(Procedure, &[u8])>,
) {
    for (export, touched) in claims {
        shared.exports[export].areas.ended(now, touched, ended, reply);
    }
}

/// The parts of the exports that share a pool, with the exports' numbers, where mutations are marked.
fn watching(shared: &Shared, realm: usize) -> impl Iterator<Item = (usize, &Area)> {
    let pool = &shared.exports[realm].pool;
    let exports = shared.exports.iter().filter(move |export| Arc::ptr_eq(&export.pool, pool));
    let areas = exports.flat_map(|export| export.areas.iter().map(|area| (export.number, area)));
    areas.filter(|(_, area)| area.cached.watches())
}
