//! What a call under way holds of the caches of its pool's exports: a read that others may wait with, or the marks of what it changes and, among
//! several proxies, its announcements to the others.

use crate::accord::{ANSWER_MOST, Accord, Label};
use crate::cached::{self, Area, Claimed, Fetching, Question, Stale, Touched, Unfound, Who};
use crate::dispatch::Forward;
use crate::event::Shared;
use crate::queue::{NameAt, Queued};
use crate::translate::Kind;
use crate::verify::Before;
use crate::wakes::Waiter;
use crate::whose::Owner;
use midas_core::cache::Ended;
use midas_core::key::Key;
use midas_core::op::Op;
use midas_core::peer::lease::{AttemptId, Outcome};
use midas_core::time::Time;
use midas_nfs::nfs3::{self, Procedure, Reply};
use midas_nfs::rpc::{self, Credential};
use std::sync::Arc;

/// What a call holds. None where nothing is cached.
#[derive(Debug)]
pub(crate) enum Claim {
    /// It reads.
    Reads(Box<Fetching>),
    /// It changes something.
    Changes(Box<Changes>),
}

/// What a mutation marks and announces.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Its marks, by the number of the export.
    touched: Vec<(usize, Touched)>,
    /// What the others were told of, and until when it may leave; none while they are waited for.
    attempts: Vec<(AttemptId, Option<Time>)>,
    /// How many marks of each export they were told of.
    told: Vec<usize>,
    /// Whether they were told where its first name led.
    told_led: bool,
    /// How often leases were lost when it was marked.
    flushes: u64,
    /// Whether caches rely on it: then it leaves only when the others know of it.
    patient: bool,
}

/// What a mutation needs of the other proxies.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Clearance {
    /// Nothing more: it may leave.
    Given,
    /// They must be told of these; the second are names, and what nobody else may change meanwhile; then whether the first name leads somewhere.
    Tell(Vec<Label>, Vec<Label>, Option<bool>),
    /// What they said was too long ago.
    Lapsed,
    /// What it relied on may not be true any more: it must be marked anew.
    Void,
}

/// Whether a mutation may leave.
pub(crate) enum Prepared {
    /// It may.
    Ready(Option<Claim>),
    /// It may when these names were looked up.
    Find(Claim, Vec<Unfound>),
    /// Not while another mutation of the same name is under way, or waits and is older.
    Busy,
}

impl Changes {
    /// What the other proxies must say before it leaves.
    pub(crate) fn clearance(&self, shared: &Shared, accord: &Accord) -> Clearance {
        let assumed = self.touched.iter().any(|(_, touched)| touched.assumed());
        if assumed && (accord.leases.flushes() != self.flushes || !accord.leases.live()) {
            return Clearance::Void;
        }
        let (mut keys, mut names) = (Vec::new(), Vec::new());
        for (index, (export, touched)) in self.touched.iter().enumerate() {
            let export = shared.exports[*export].areas.own().cached.name();
            let told = self.told.get(index).copied().unwrap_or_default();
            let label = |(place, key, _)| Label { export, place, key };
            keys.extend(touched.labels(told).map(label));
            // All of them, whatever was told before: a lost call on a name may change what the name is found to lead to.
            names.extend(touched.labels(0).filter(|(_, _, name)| *name).map(label));
            names.extend(touched.alone().map(|(place, key)| Label { export, place, key }));
        }
        let (now, led) = (accord.now(), self.led());
        match () {
            () if self.attempts.is_empty() || !keys.is_empty() || led.is_some() && !self.told_led => {
                Clearance::Tell(keys, names, led)
            }
            // Where its names lead was known while the others kept them: now it must be found out anew.
            () if !self.may_leave(now) && self.has_names() => Clearance::Void,
            () if !self.may_leave(now) => Clearance::Lapsed,
            () => Clearance::Given,
        }
    }

    /// Whether its names may lead elsewhere by now.
    pub(crate) fn outdated(&self, accord: &Accord) -> bool {
        self.has_names() && accord.leases.flushes() != self.flushes
    }

    /// Whether what was known of its names when it was marked is not true any more: asked when the others cannot change them any more.
    pub(crate) fn overtaken(&self, shared: &Shared) -> bool {
        let overtaken = |(export, touched): &(usize, Touched)| shared.exports[*export].areas.overtaken(touched);
        self.touched.iter().filter(|(_, touched)| touched.assumed()).any(overtaken)
    }

    /// What it shows of the time before it left, if nobody else can have changed the same since.
    pub(crate) fn before(&self, procedure: Procedure, known: Before) -> Before {
        let takes_away = matches!(procedure, Procedure::Remove | Procedure::Rmdir | Procedure::Rename);
        let sure = !self.touched.is_empty() && self.touched.iter().all(|(_, touched)| touched.sure(takes_away));
        match (known, self.led()) {
            (Before::Known(None) | Before::Unknown, led) if sure => Before::Known(led),
            (Before::Known(_) | Before::Unknown, _) => known,
        }
    }

    fn led(&self) -> Option<bool> {
        self.touched.iter().find_map(|(_, touched)| touched.led())
    }

    fn has_names(&self) -> bool {
        self.touched.iter().any(|(_, touched)| touched.labels(0).any(|(_, _, name)| name))
    }

    /// Whether it waits for the others for as long as it takes.
    pub(crate) const fn patient(&self) -> bool {
        self.patient
    }

    /// The others are told of everything that is marked so far.
    pub(crate) fn told(&mut self, id: AttemptId) {
        self.attempts.push((id, None));
        self.told = self.touched.iter().map(|(_, touched)| touched.len()).collect();
        self.told_led = self.led().is_some();
    }

    /// They let it through.
    pub(crate) fn cleared(&mut self, id: AttemptId, until: Time) {
        let of_that = self.attempts.iter_mut().filter(|(attempt, _)| *attempt == id);
        of_that.for_each(|(_, permitted)| *permitted = Some(until));
    }

    /// All that the others were told.
    pub(crate) fn attempts(&self) -> impl Iterator<Item = AttemptId> + '_ {
        self.attempts.iter().map(|(id, _)| *id)
    }

    /// Those that are not let through any more: the others are asked again.
    pub(crate) fn lapsed(&mut self, now: Time) -> Vec<AttemptId> {
        let over = self.attempts.iter_mut().filter(|(_, until)| until.is_none_or(|until| until <= now));
        over.map(|(id, until)| {
            *until = None;
            *id
        })
        .collect()
    }

    /// Whether it, or a copy of it, may leave now: the others know of it, and of when it may run.
    pub(crate) fn may_leave(&self, now: Time) -> bool {
        self.attempts.iter().all(|(_, until)| until.is_some_and(|until| now < until))
    }

    /// Whether the others are waited for.
    pub(crate) fn waits(&self) -> bool {
        self.attempts.iter().any(|(_, until)| until.is_none())
    }

    /// It was found where a name leads.
    pub(crate) fn found(&mut self, now: Time, shared: &Shared, object: Key, unfound: &Unfound) {
        for (export, touched) in &mut self.touched {
            shared.exports[*export].areas.found(now, object, unfound, touched);
        }
    }

    /// It leads nowhere.
    pub(crate) fn found_nothing(&mut self, unfound: &Unfound) {
        self.touched.iter_mut().for_each(|(_, touched)| touched.found_nothing(unfound));
    }

    /// A server did not say where a name leads, and would refuse the call as well.
    pub(crate) fn unsure(&mut self) {
        self.touched.iter_mut().for_each(|(_, touched)| touched.unsure());
    }
}

/// Marks what a call changes that came then, in every export that may have it cached. Its place
/// among those that wait is kept while it must wait, and given back otherwise.
pub(crate) fn prepare(
    now: Time,
    shared: &Arc<Shared>,
    (queued, since, event_loop): (&mut Option<Queued>, Time, u32),
    realm: usize,
    (op, procedure): (Op, Procedure),
    record: &[u8],
) -> Prepared {
    let waited = queued.take();
    let changes = op.mutates() || op == Op::Commit;
    if !changes || watching(shared, realm).next().is_none() {
        // The others should know of what must not be executed twice, though they keep nothing.
        let told = changes && !procedure.idempotent() && shared.accord().is_some();
        return Prepared::Ready(told.then(|| Claim::Changes(Box::default())));
    }
    let call = rpc::Call::args_of(record).and_then(|args| nfs3::Call::decode(procedure, args).ok());
    // It was decoded when it came.
    let Some(call) = call else { return Prepared::Ready(None) };
    let new = || Waiter { since, number: shared.wakes.number(), event_loop };
    let who = waited.as_ref().map_or_else(new, Queued::waiter);
    let flushes = shared.accord().map_or(0, |accord| accord.leases.flushes());
    let (mut claims, mut unfound) = (Changes { flushes, patient: true, ..Changes::default() }, Vec::new());
    for (export, area) in watching(shared, realm) {
        match area.cached.claim(now, who, &call) {
            Claimed::Marked(touched, names) => {
                claims.touched.push((export, touched));
                unfound.extend(names);
            }
            Claimed::Busy(names) => {
                for (export, touched) in claims.touched {
                    shared.exports[export].areas.give_back(now, touched, who);
                }
                let area = area.cached.area();
                let names = names.into_iter().map(|(place, name)| NameAt { export, area, place, name });
                *queued = Some(waited.unwrap_or_else(|| Queued::new(shared, who)).waits_for(names));
                return Prepared::Busy;
            }
        }
    }
    for (export, touched) in &mut claims.touched {
        shared.exports[*export].areas.crosses(now, &call, touched);
    }
    unfound.dedup();
    match unfound.is_empty() {
        true => Prepared::Ready(Some(Claim::Changes(Box::new(claims)))),
        false => Prepared::Find(Claim::Changes(Box::new(claims)), unfound),
    }
}

/// A read that nothing is kept of must wait: what it may be shared as until it leaves.
pub(crate) fn shared(now: Time, shared: &Shared, forward: &Forward, record: &[u8]) -> Option<Claim> {
    let Owner::Export(realm) = forward.owner else { return None };
    // A cookie means something to the server alone that its own client lists at.
    let lists = matches!(forward.meaning.kind, Kind::List { .. });
    if lists && !shared.exports[realm].pool.cookies.portable() {
        return None;
    }
    let call = rpc::Call::decode(record).ok()?;
    let credential = Credential::decode(&call.credential).ok().filter(|it| matches!(it, Credential::Sys(_)))?;
    let question = Question::of(&nfs3::Call::decode(forward.procedure, call.args).ok()?, &forward.meaning)?;
    let question = Some(question).filter(|question| question.is_all_of(call.args))?;
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
    changes: Changes,
    mut ended: Ended,
    reply: Option<(Procedure, &[u8])>,
) {
    if let Some(accord) = shared.accord().filter(|_| !changes.attempts.is_empty()) {
        let taint = accord.ended(changes.attempts(), &outcome(ended, reply));
        ended = match (ended, taint, reply) {
            (Ended::Done, Some(until), Some(_)) => Ended::Until(until),
            (Ended::Unknown, Some(until), _) => {
                let hold =
                    changes.touched.first().map(|(export, _)| shared.exports[*export].areas.own().cached.hold_max());
                Ended::Until(until.max(now + hold.unwrap_or_default()))
            }
            (ended, ..) => ended,
        };
    }
    if let (Some(accord), Some((procedure, results))) = (shared.accord(), reply)
        && let Some(new) = Reply::decode(procedure, results).ok().and_then(|reply| cached::made(&reply))
    {
        // Before it can be asked for: a peer may not have heard of it.
        accord.fetches.dropped(now, new);
    }
    let mut stale = Vec::new();
    for (export, touched) in changes.touched {
        let areas = &shared.exports[export].areas;
        let export = areas.own().cached.name();
        let label = |Stale { object, id }| Label { export, place: object, key: id };
        stale.extend(areas.ended(now, touched, ended, reply).into_iter().map(label));
    }
    if let Some(accord) = shared.accord().filter(|_| !stale.is_empty()) {
        accord.drop_elsewhere(&stale);
    }
}

/// What the other proxies are told of an end.
fn outcome(ended: Ended, reply: Option<(Procedure, &[u8])>) -> Outcome {
    let answer = reply.and_then(|(procedure, results)| {
        let asked_again = !procedure.idempotent() && results.len() <= ANSWER_MOST;
        asked_again.then(|| results.into())
    });
    match (ended, reply) {
        (Ended::Done | Ended::Until(_), Some(_)) => Outcome::Replied(answer),
        (Ended::Done | Ended::Until(_), None) => Outcome::NeverLeft,
        (Ended::Unknown, Some(_)) => Outcome::Copied(answer),
        (Ended::Unknown, None) => Outcome::Lost,
    }
}

/// The parts of the exports that share a pool, with the exports' numbers, where mutations are marked.
fn watching(shared: &Shared, realm: usize) -> impl Iterator<Item = (usize, &Area)> {
    let pool = &shared.exports[realm].pool;
    let exports = shared.exports.iter().filter(move |export| Arc::ptr_eq(&export.pool, pool));
    let areas = exports.flat_map(|export| export.areas.iter().map(|area| (export.number, area)));
    areas.filter(|(_, area)| area.cached.watches())
}
