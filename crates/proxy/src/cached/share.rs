//! Reads on their way: identical ones share one call (nfs3.md, D4). A client that joins gets of the reply only what is still true for it:
//! attributes that a mutation may have changed since the call left are taken out. Where nothing is answered from a cache only a call that
//! still waits here is shared: it leaves after all who wait with it have come.

use super::label::{Kind, Of, Who};
use super::memo::Basis;
use super::question::Question;
use super::{Cached, Joined, Part};
use crate::dispatch;
use crate::relay::Waits;
use midas_core::cache::{Fetch, Left};
use midas_core::key::Key;
use midas_core::time::Time;
use midas_nfs::nfs3::{Call, EntryPlus, Fattr3, LookupOk, Procedure, Reply};
use std::sync::atomic::Ordering;

/// What becomes of a read.
pub(crate) enum Asked {
    /// Its answer was appended; it may be given again while this stands.
    Answered(Kind, Option<Basis>),
    /// It waits with another.
    Joined,
    /// It goes to a server; others may join it.
    Fetch(Box<Fetching>),
    /// It goes to a server, and nothing is kept of it.
    Pass,
}

/// A read that others may wait with.
#[derive(Debug)]
pub(crate) struct Fetching {
    fetch: Fetch<Key>,
    place: Key,
    procedure: Procedure,
    /// Arguments, then who asks.
    identity: Box<[u8]>,
    who: Who,
    /// The part of the export where it was asked for.
    area: usize,
    /// Whether it has not left yet, and may be shared in strict mode.
    waiting: bool,
    /// Whether a cache that answers was asked for it, and did not know.
    missed: bool,
}

/// A call that came back.
#[derive(Debug, Default)]
pub(crate) struct Landed {
    /// Who waited with it.
    pub(crate) waits: Vec<Waits>,
    /// What everybody is told, if that is not what the server said.
    pub(crate) all: Option<Vec<u8>>,
    /// What those who waited are told, if that is less.
    pub(crate) joined: Option<Vec<u8>>,
}

impl Fetching {
    pub(super) const fn area(&self) -> usize {
        self.area
    }

    pub(crate) const fn missed(&self) -> bool {
        self.missed
    }

    fn args(&self) -> &[u8] {
        &self.identity[..self.identity.len() - self.who.bytes().len()]
    }
}

impl Cached {
    /// Answers a read, or says how it goes on. `args` are its arguments to the byte, `place` the object or directory that it names.
    pub(crate) fn ask(
        &self,
        now: Time,
        (question, args): (&Question<'_>, &[u8]),
        (place, who): (Key, &Who),
        waits: Waits,
        out: &mut Vec<u8>,
    ) -> Asked {
        if !self.mode().answers() {
            let joins = self.join_waiting(now, (question, args), (place, who), waits);
            return if joins { Asked::Joined } else { Asked::Pass };
        }
        let begin = out.len();
        let mut told = None;
        dispatch::answer(out, waits.xid, |out| told = self.results(now, (question, args), (place, who), out));
        if let Some((kind, basis)) = told {
            // Where objects lie among subtrees is looked up each time, and so is a stale share that must be measured.
            let again = self.relies_on_marks() && self.places.is_none();
            return Asked::Answered(kind, basis.filter(|_| again));
        }
        out.truncate(begin);
        self.join(now, &question.guards(place), args, (place, who), waits)
    }

    /// Lets a read wait with one that has not left yet.
    fn join_waiting(
        &self,
        now: Time,
        (question, args): (&Question<'_>, &[u8]),
        (place, who): (Key, &Who),
        waits: Waits,
    ) -> bool {
        self.some_wait() && self.part(place).joins(now, &question.guards(place), (place, args, who), waits)
    }

    /// A read must wait here: those that follow may wait with it, until it leaves.
    pub(crate) fn waits(
        &self,
        now: Time,
        args: &[u8],
        (place, who): (Key, &Who),
        procedure: Procedure,
    ) -> Box<Fetching> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let fetching = self.begin(now, &mut self.part(place), args, (place, who), procedure);
        Box::new(Fetching { waiting: true, missed: false, ..fetching })
    }

    /// It leaves now: who comes from now on must not wait with it, unless the mode allows more.
    pub(crate) fn leaves(&self, fetching: &mut Fetching) {
        if std::mem::take(&mut fetching.waiting) {
            self.part(fetching.place).cache.sent(&fetching.fetch);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn begin(
        &self,
        now: Time,
        part: &mut Part,
        args: &[u8],
        (place, who): (Key, &Who),
        procedure: Procedure,
    ) -> Fetching {
        let fetch = part.cache.begin(now, named(place, procedure, args, who), Kind::Attributes.class());
        let identity: Box<[u8]> = [args, who.bytes()].concat().into();
        part.joined.insert(fetch.flight(), Joined { identity: identity.clone(), waits: Vec::new() });
        Fetching { fetch, place, procedure, identity, who: *who, area: self.area, waiting: false, missed: true }
    }

    fn join(&self, now: Time, guards: &[Key; 2], args: &[u8], (place, who): (Key, &Who), waits: Waits) -> Asked {
        let mut part = self.part(place);
        if part.joins(now, guards, (place, args, who), waits) {
            return Asked::Joined;
        }
        let fetching = self.begin(now, &mut part, args, (place, who), waits.procedure);
        part.cache.sent(&fetching.fetch);
        Asked::Fetch(Box::new(fetching))
    }

    /// A read came back: what it teaches is learned.
    pub(crate) fn landed(&self, now: Time, mut fetching: Fetching, results: Option<&[u8]>) -> Landed {
        self.leaves(&mut fetching);
        let left = fetching.fetch.left();
        let all = results.and_then(|results| self.unmixed(now, left, &fetching, results));
        let results = all.as_deref().or(results);
        if let Some(results) = results {
            self.learn(now, left, fetching.args(), &fetching.who, (fetching.procedure, results));
        }
        let Fetching { fetch, place, procedure, .. } = fetching;
        let waits = {
            let mut part = self.part(place);
            let joined = part.joined.remove(&fetch.flight());
            part.cache.landed(fetch);
            joined.map_or_else(Vec::new, |joined| joined.waits)
        };
        let joined = match (waits.is_empty(), results) {
            (false, Some(results)) => self.still_true(now, left, place, procedure, results),
            _ => None,
        };
        Landed { waits, all, joined }
    }

    /// The results without attributes of what came to its name, or left it, while the call was under way: servers look at a name twice, for
    /// attributes and for a handle, and may find one file's of the one and another's of the other (docs/consistency.md). None if nothing did.
    fn unmixed(&self, now: Time, left: Left, fetching: &Fetching, results: &[u8]) -> Option<Vec<u8>> {
        let Fetching { place, procedure, .. } = *fetching;
        if !matches!(procedure, Procedure::Lookup | Procedure::Readdirplus) || !self.relies_on_marks() {
            return None;
        }
        let part = self.part(place);
        let quiet = |name: &[u8]| part.cache.holds(now, left, &Of(place).name(name, Kind::Name).key);
        // No name changes without its directory.
        if part.cache.holds(now, left, &place) {
            return None;
        }
        match (Call::decode(procedure, fetching.args()).ok()?, Reply::decode(procedure, results).ok()?) {
            (Call::Lookup { what }, Reply::Lookup(Ok(ok))) if ok.attributes.is_some() && !quiet(what.name) => {
                let mut out = Vec::new();
                Reply::Lookup(Ok(LookupOk { attributes: None, ..ok })).encode(&mut out);
                Some(out)
            }
            (_, Reply::Readdirplus(Ok(page))) => {
                let mut entries = page.entries();
                let mut all: Vec<_> = entries.by_ref().collect::<Result<_, _>>().ok()?;
                let mixed = |plus: &&mut EntryPlus<'_>| plus.attributes.is_some() && !quiet(plus.entry.name);
                let mixed = all.iter_mut().filter(mixed).map(|plus| plus.attributes = None).count();
                (mixed > 0).then(|| crate::fencing::with_entries(&page, &all, entries.eof() == Some(true)))
            }
            _ => None,
        }
    }

    /// A read is given up; it comes back if others wait with it.
    pub(crate) fn forsaken(&self, mut fetching: Box<Fetching>) -> Option<Box<Fetching>> {
        let mut part = self.part(fetching.place);
        let flight = fetching.fetch.flight();
        if part.joined.get(&flight).is_some_and(|joined| !joined.waits.is_empty()) {
            return Some(fetching);
        }
        part.joined.remove(&flight);
        drop(part);
        self.leaves(&mut fetching);
        self.part(fetching.place).cache.landed(fetching.fetch);
        None
    }

    /// The results without attributes that may have changed since their call left; none if they may be given as they are.
    fn still_true(&self, now: Time, left: Left, place: Key, procedure: Procedure, results: &[u8]) -> Option<Vec<u8>> {
        let holds = |key: Key| self.tells(now, key) && self.part(key).cache.holds(now, left, &key);
        let keep = |key: Key, attributes: Option<Fattr3>| attributes.filter(|_| holds(key));
        let told = match Reply::decode(procedure, results).ok()? {
            Reply::Lookup(Ok(mut ok)) => {
                ok.attributes = keep(Key::of(ok.object.bytes()), ok.attributes);
                ok.dir_attributes = keep(place, ok.dir_attributes);
                Reply::Lookup(Ok(ok))
            }
            Reply::Lookup(Err(mut failed)) => {
                failed.attributes = keep(place, failed.attributes);
                Reply::Lookup(Err(failed))
            }
            Reply::Access(Ok(mut ok)) => {
                ok.attributes = keep(place, ok.attributes);
                Reply::Access(Ok(ok))
            }
            Reply::Access(Err(mut failed)) => {
                failed.attributes = keep(place, failed.attributes);
                Reply::Access(Err(failed))
            }
            Reply::Fsinfo(Ok(mut ok)) => {
                ok.attributes = keep(place, ok.attributes);
                Reply::Fsinfo(Ok(ok))
            }
            Reply::Pathconf(Ok(mut ok)) => {
                ok.attributes = keep(place, ok.attributes);
                Reply::Pathconf(Ok(ok))
            }
            Reply::Readdirplus(Ok(page)) => {
                let mut entries = page.entries();
                let mut all: Vec<_> = entries.by_ref().collect::<Result<_, _>>().ok()?;
                for plus in &mut all {
                    let key = plus.handle.map(|handle| Key::of(handle.bytes()));
                    plus.attributes = key.and_then(|key| keep(key, plus.attributes));
                }
                return Some(crate::fencing::with_entries(&page, &all, entries.eof() == Some(true)));
            }
            _ => return None,
        };
        let mut out = Vec::new();
        told.encode(&mut out);
        (out != results).then_some(out)
    }
}

impl Part {
    /// Whether a read waits with another one now.
    fn joins(&mut self, now: Time, guards: &[Key; 2], (place, args, who): (Key, &[u8], &Who), waits: Waits) -> bool {
        let flight = self.cache.join(now, &named(place, waits.procedure, args, who), guards);
        let Some(joined) = flight.and_then(|flight| self.joined.get_mut(&flight)) else { return false };
        let same = joined.identity.strip_prefix(args) == Some(who.bytes()) && joined.waits.len() < JOINED_MOST;
        if same {
            joined.waits.push(waits);
        }
        same
    }
}

/// The key of a call.
fn named(place: Key, procedure: Procedure, args: &[u8], who: &Who) -> Key {
    place.child(procedure as u64).named(args).named(who.bytes())
}

/// Clients that wait with one call; those beyond send their own.
const JOINED_MOST: usize = 4096;
