//! What becomes of a client's record: refused, answered here, or forwarded. The protocol's rules stand here, sockets do not.

use crate::cached::{Area, Asked, Asks, Kind, Memo, Question, Who};
use crate::claim::Claim;
use crate::clerk::Unknown;
use crate::config::{Access, Export, Squash};
use crate::counters::{Duplicate, Fate, ReadCount, Refused, Tally, status};
use crate::event::{Asker, Shared};
use crate::fetching;
use crate::log;
use crate::mountd::Below;
use crate::relay::Waits;
use crate::translate::{Meaning, handles};
use crate::watch::{self, Corner, Outcome, Whom};
use crate::whose::Owner;
use arc_swap::Guard;
use midas_core::cache::Mode;
use midas_core::key::Key;
use midas_core::op::Op;
use midas_core::time::{Span, Time};
use midas_net::{Caller, Known, Verdict};
use midas_nfs::nfs3::{self, FileHandle, Nfsstat3, Procedure, Reply};
use midas_nfs::rpc::{self, AuthSys, Credential, NotACall, OpaqueAuth, Refusal, flavor};
use midas_nfs::{mount, nlm, portmap, record};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

/// Where a record came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) asker: Asker,
    pub(crate) client: SocketAddr,
    pub(crate) local: IpAddr,
    /// Whether the client is on no export's list.
    pub(crate) stranger: bool,
    /// Whether the client has closed its side: what it sent before is late.
    pub(crate) closed: bool,
}

/// A moment by both clocks, read once for a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) instant: Instant,
    pub(crate) time: Time,
}

/// What became of a record.
pub(crate) enum Taken {
    /// Its answer was appended, or there is none to give.
    Done,
    /// It runs already, and its answer comes here.
    Joined { displaced: Asker },
    /// It goes to a server; the record with another credential, where the client's user is squashed.
    Forward(Forward, Option<Vec<u8>>, Option<Claim>),
    /// It waits with another call, and holds so much.
    Shared(usize),
    /// A directory to mount must be found first: its answer comes from elsewhere.
    Find(Below, u32),
    /// Something must be found out first.
    Unsorted(Unknown),
}

/// A call that goes to a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forward {
    pub(crate) xid: u32,
    pub(crate) procedure: Procedure,
    pub(crate) meaning: Meaning,
    pub(crate) known: Option<Known>,
    /// The number of the export that routes it.
    pub(crate) realm: usize,
    pub(crate) owner: Owner,
    /// Bytes that it will hold until it is answered, its answer included.
    pub(crate) cost: usize,
    /// For those who watch.
    pub(crate) whom: Whom,
}

impl Forward {
    /// What its record says, for those who watch.
    pub(crate) fn asked<'r>(&self, record: &'r [u8]) -> watch::Asked<'r> {
        watch::Asked::in_record(self.procedure, (self.realm, self.meaning.place), record)
    }
}

/// What the calls of a batch share.
pub(crate) struct Batch<'m> {
    /// Those of the last call.
    rules: Option<Rules>,
    /// The event loop's.
    memo: &'m mut Memo,
    tally: &'m Tally,
    corner: &'m Corner,
}

impl<'m> Batch<'m> {
    /// Of the event loop with this number.
    pub(crate) fn new(shared: &'m Shared, number: usize, memo: &'m mut Memo) -> Self {
        Self { rules: None, memo, tally: &shared.tallies[number], corner: shared.watch.spots.corner(number) }
    }
}

/// Looks at a record; answers that are ready are appended to `out`.
pub(crate) fn take(
    now: Moment,
    shared: &Shared,
    origin: &Origin,
    batch: &mut Batch<'_>,
    record: &[u8],
    out: &mut Vec<u8>,
) -> Taken {
    let begin = out.len();
    let (xid, why) = match rpc::Call::decode(record) {
        Ok(call) => match self::call(now, shared, origin, batch, record, &call, out) {
            Ok(taken) => return taken,
            Err(why) => (call.xid, why),
        },
        Err(NotACall::Refuse { xid, why }) => (xid, why),
        Err(NotACall::Unanswerable) => return Taken::Done,
    };
    out.truncate(begin);
    record::put(out, |out| rpc::Reply::refuse(out, xid, why));
    batch.tally.refused(Refused::Malformed);
    Taken::Done
}

fn call(
    now: Moment,
    shared: &Shared,
    origin: &Origin,
    batch: &mut Batch<'_>,
    record: &[u8],
    call: &rpc::Call<'_>,
    out: &mut Vec<u8>,
) -> Result<Taken, Refusal> {
    let credential = Credential::decode(&call.credential)?;
    if call.program == nfs3::PROGRAM && origin.stranger {
        return nfs_of_stranger(batch.tally, origin, call, out);
    }
    if call.program == nfs3::PROGRAM {
        return nfs(now, shared, origin, batch, record, (call, &credential), out);
    }
    let begin = record::begin(out);
    match call.program {
        mount::PROGRAM => {
            if let Some(below) = shared.mountd.mount(shared, origin.client, call, out)? {
                out.truncate(begin);
                return Ok(Taken::Find(below, call.xid));
            }
        }
        portmap::PROGRAM => shared.mountd.portmap(origin.local, call, out)?,
        nlm::PROGRAM => nlm::answer(call, out)?,
        _ => return Err(Refusal::ProgUnavail),
    }
    record::end(out, begin);
    Ok(Taken::Done)
}

fn nfs(
    now: Moment,
    shared: &Shared,
    origin: &Origin,
    batch: &mut Batch<'_>,
    record: &[u8],
    (call, credential): (&rpc::Call<'_>, &Credential<'_>),
    out: &mut Vec<u8>,
) -> Result<Taken, Refusal> {
    if call.version != nfs3::VERSION {
        return Err(Refusal::ProgMismatch { low: nfs3::VERSION, high: nfs3::VERSION });
    }
    let procedure = Procedure::from_number(call.procedure).ok_or(Refusal::ProcUnavail)?;
    let arguments = nfs3::Call::decode(procedure, call.args).map_err(|_| Refusal::GarbageArgs)?;
    let Batch { rules, memo, tally, corner } = batch;
    let (Some(mut meaning), Some((handle, second))) = (Meaning::of(&arguments), handles(&arguments)) else {
        tally.here(procedure, Some(Nfsstat3::OK));
        record::put(out, |out| rpc::Reply::accept(out, call.xid));
        return Ok(Taken::Done);
    };
    let owner = match owner(shared, handle, second) {
        Ok(owner) => owner,
        Err(Unowned::Unknown(handle)) => return Ok(Taken::Unsorted(Unknown::Owner(handle.bytes().to_vec()))),
        Err(Unowned::Different) => {
            tally.here(procedure, Some(Nfsstat3::XDEV));
            answer(out, call.xid, |out| Reply::failed(procedure, Nfsstat3::XDEV).encode(out));
            return Ok(Taken::Done);
        }
    };
    let rules = match rules {
        Some(same) if same.owner == owner => same,
        _ => rules.insert(Rules::of(shared, owner, origin.client)),
    };
    let routes = rules.routes;
    let rules = rules.of_call(meaning.op);
    let local = Local { shared, from: Some((origin, credential)), realm: rules.realm, tally, corner };
    if let Err(status) = rules.permitted(meaning.op) {
        tally.refused(Refused::by(status));
        tell_refused(origin.client.ip(), status);
        return Ok(local.refuse(now.time, (call, procedure, meaning.place), status, out));
    }
    if let Some(what) = shared.exports[routes].unknown_target(&arguments) {
        let (dir, name) = (what.dir.bytes().to_vec(), what.name.to_vec());
        return Ok(Taken::Unsorted(Unknown::Target { realm: routes, dir, name, caller: caller(credential) }));
    }
    let cost = COPIES * record.len() + answer_size(&arguments);
    let claim = match cache_of(now.time, shared, owner, credential, (&arguments, &meaning, call.args)) {
        Some((now, area, question)) => {
            let who = if question.personal() { rules.who(credential) } else { Who::ANYONE };
            let (args, place) = (call.args, meaning.place);
            let asks = Asks { area: area.number, procedure, question: &question, args, place, who: &who };
            match ask(now, memo, area, &asks, (origin.asker, call.xid, cost), &local, out) {
                Asked::Answered(..) => return Ok(Taken::Done),
                Asked::Joined => return Ok(Taken::Shared(cost)),
                Asked::Fetch(fetching) => Some(Claim::Reads(fetching)),
                Asked::Pass => None,
            }
        }
        None => None,
    };
    meaning.narrowed = narrowed(&rules.export, meaning.op);
    meaning.set_client(origin.client.ip());
    let known = match first(now, &local, origin, (call, procedure, meaning.place), record, out) {
        First::Yes(known) => known,
        First::No(taken) => return Ok(taken),
    };
    let (xid, whom, squashed) = (call.xid, local.whom(now.time), rules.squash(call, credential));
    let forward = Forward { xid, procedure, meaning, known, realm: routes, owner, cost, whom };
    Ok(Taken::Forward(forward, squashed, claim))
}

/// Looks at a read of another proxy's client, which has checked what the client may do. None if nothing of it may be told from a cache here.
pub(crate) fn lend(
    now: Time,
    memo: &mut Memo,
    shared: &Shared,
    asker: Asker,
    export: u32,
    record: &[u8],
    out: &mut Vec<u8>,
) -> Option<Taken> {
    let call = rpc::Call::decode(record).ok().filter(|call| call.program == nfs3::PROGRAM)?;
    let credential = Credential::decode(&call.credential).ok()?;
    let procedure = Procedure::from_number(call.procedure)?;
    let arguments = nfs3::Call::decode(procedure, call.args).ok()?;
    let meaning = Meaning::of(&arguments)?;
    let realm = shared.exports.iter().position(|it| it.areas.own().cached.name() == export)?;
    let owner = Owner::Export(realm);
    let (now, area, question) = cache_of(now, shared, owner, &credential, (&arguments, &meaning, call.args))?;
    if area.cached.mode() != Mode::Lease || !fetching::lends(&question) {
        return None;
    }
    // Whom the servers see is in the record: the other proxy has squashed whom it must.
    let who = if question.personal() { Who::of(&credential) } else { Who::ANYONE };
    let cost = COPIES * record.len() + answer_size(&arguments);
    let number = asker.event_loop as usize;
    let (tally, corner) = (&shared.tallies[number], shared.watch.spots.corner(number));
    let (args, place) = (call.args, meaning.place);
    let asks = Asks { area: area.number, procedure, question: &question, args, place, who: &who };
    let local = Local { shared, from: None, realm, tally, corner };
    match ask(now, memo, area, &asks, (asker, call.xid, cost), &local, out) {
        Asked::Answered(..) => Some(Taken::Done),
        Asked::Joined => Some(Taken::Shared(cost)),
        Asked::Fetch(fetching) => {
            let whom = Whom::PEER;
            let meaning = Meaning { narrowed: narrowed(&shared.exports[realm].rules(), meaning.op), ..meaning };
            let forward = Forward { xid: call.xid, procedure, meaning, known: None, realm, owner, cost, whom };
            Some(Taken::Forward(forward, None, Some(Claim::Reads(fetching))))
        }
        Asked::Pass => None,
    }
}

/// Asks the cache of a part of an export for a read, and counts what becomes of it. Most are answered as the last one that was the same:
/// nothing but that stands here.
#[expect(clippy::inline_always, reason = "a call of it would cost a hit as much as counting and watching do")]
#[inline(always)]
fn ask(
    now: Time,
    memo: &mut Memo,
    area: &Area,
    asks: &Asks<'_>,
    (asker, xid, cost): (Asker, u32, usize),
    local: &Local<'_>,
    out: &mut Vec<u8>,
) -> Asked {
    let begin = out.len();
    let Some((kind, counted)) = memo.give(now, &area.cached, asks, xid, out) else {
        return look_up(now, memo, area, asks, (asker, xid, cost), local, out);
    };
    local.answered(now, (kind, counted), asks, out, begin);
    Asked::Answered(kind, None)
}

/// The same of a read whose answer was not just given.
#[inline(never)]
fn look_up(
    now: Time,
    memo: &mut Memo,
    area: &Area,
    asks: &Asks<'_>,
    (asker, xid, cost): (Asker, u32, usize),
    local: &Local<'_>,
    out: &mut Vec<u8>,
) -> Asked {
    let begin = out.len();
    let waits = Waits { asker, xid, procedure: asks.procedure, known: None, cost, whom: local.whom(now) };
    let asked = area.cached.ask(now, (asks.question, asks.args), (asks.place, asks.who), waits, out);
    match &asked {
        Asked::Answered(kind, basis) => {
            if let Some(basis) = basis {
                memo.keep(now, asks, (*kind, *basis), &out[begin..]);
            }
            let counted = ReadCount::of(asks.area, asks.procedure, kind.fate());
            local.answered(now, (*kind, counted), asks, out, begin);
        }
        Asked::Joined => local.tally.read(asks.area, asks.procedure, Fate::Joined),
        Asked::Fetch(_) => local.tally.read(asks.area, asks.procedure, Fate::Fetched),
        Asked::Pass => {}
    }
    asked
}

/// Whose calls are answered without a server, for those who watch.
struct Local<'a> {
    shared: &'a Shared,
    /// None for another proxy.
    from: Option<(&'a Origin, &'a Credential<'a>)>,
    realm: usize,
    /// The event loop's.
    tally: &'a Tally,
    corner: &'a Corner,
}

impl Local<'_> {
    fn whom(&self, now: Time) -> Whom {
        self.from.map_or(Whom::PEER, |(origin, credential)| Whom::of(now, origin, credential))
    }

    /// A call of his fails here.
    fn refuse(
        &self,
        now: Time,
        (call, procedure, place): (&rpc::Call<'_>, Procedure, Key),
        status: Nfsstat3,
        out: &mut Vec<u8>,
    ) -> Taken {
        self.tally.here(procedure, Some(status));
        let begin = out.len();
        answer(out, call.xid, |out| Reply::failed(procedure, status).encode(out));
        self.tell(now, Outcome::Here, (procedure, place, call.args), &out[begin..]);
        Taken::Done
    }

    /// A cache answered a call, with the record that begins there: it is counted, and a few are looked at.
    #[expect(clippy::inline_always, reason = "a call of it would cost as much as counting does")]
    #[inline(always)]
    fn answered(&self, now: Time, (kind, counted): (Kind, ReadCount), asks: &Asks<'_>, out: &[u8], begin: usize) {
        self.tally.read_again(counted);
        if self.corner.due() {
            self.hit(now, kind, asks, out, begin);
        }
    }

    /// It is one of those that are looked at.
    #[cold]
    fn hit(&self, now: Time, kind: Kind, asks: &Asks<'_>, out: &[u8], begin: usize) {
        let outcome = if kind == Kind::Absent { Outcome::Absent } else { Outcome::Hit };
        match self.from {
            Some(_) => {
                self.tally.sampled(asks.procedure, self.shared.clock.now().since(now));
                self.tell(now, outcome, (asks.procedure, asks.place, asks.args), &out[begin..]);
            }
            // Another proxy watches its own clients: the next one is looked at instead.
            None => self.corner.pass(),
        }
    }

    /// A call of his was answered with this record: rare, or one of many.
    #[cold]
    fn tell(&self, now: Time, outcome: Outcome, (procedure, place, args): (Procedure, Key, &[u8]), answer: &[u8]) {
        let Some((origin, _)) = self.from else { return };
        let results = answer.get(record::MARK..).and_then(|reply| rpc::Reply::decode(reply).ok()?.results.ok());
        let asked = watch::Asked::of(procedure, (self.realm, place), args);
        let at = (now, origin.asker.event_loop as usize);
        asked.tell(at, self.shared, self.whom(now), (outcome, Span::ZERO), results);
    }
}

/// The part of an export whose cache may answer a call now, or have it wait with another, and what it is asked. What nobody in particular asks is asked of the
/// servers: they may refuse it.
#[inline]
fn cache_of<'s, 'c>(
    now: Time,
    shared: &'s Shared,
    owner: Owner,
    credential: &Credential<'_>,
    (call, meaning, args): (&nfs3::Call<'c>, &Meaning, &[u8]),
) -> Option<(Time, &'s Area, Question<'c>)> {
    let (Owner::Export(realm), Credential::Sys(_)) = (owner, credential) else { return None };
    let areas = Some(&shared.exports[realm].areas).filter(|areas| areas.may_answer())?;
    let question = Question::of(call, meaning).filter(|question| question.is_all_of(args))?;
    let area = areas.of(now, meaning.place).filter(|area| area.cached.useful(now))?;
    Some((now, area, question))
}

/// Whether a call is new, or was sent again.
enum First {
    /// It is; it may have to be known again.
    Yes(Option<Known>),
    No(Taken),
}

/// Looks for a call among those that must not be executed twice.
fn first(
    now: Moment,
    local: &Local<'_>,
    origin: &Origin,
    (call, procedure, place): (&rpc::Call<'_>, Procedure, Key),
    record: &[u8],
    out: &mut Vec<u8>,
) -> First {
    if procedure.idempotent() && !matches!(procedure, Procedure::Write | Procedure::Commit) {
        return First::Yes(None);
    }
    // A client that is gone may have sent it again elsewhere, and something newer after it.
    if origin.closed {
        return First::No(Taken::Done);
    }
    let (shared, xid, begin) = (local.shared, call.xid, out.len());
    let tally = local.tally;
    // Before the lock: a large record takes a while.
    let id = shared.call_id(origin.client.ip(), procedure, record);
    let mut replays = shared.replays(xid);
    match replays.begin(now.instant, id, origin.asker) {
        Verdict::New(known) => First::Yes(Some(known)),
        Verdict::Joined(displaced) => {
            tally.duplicate(Duplicate::Running);
            First::No(Taken::Joined { displaced })
        }
        Verdict::Done(results) => {
            tally.duplicate(Duplicate::Answered);
            tally.here(procedure, status(results));
            answer(out, xid, |out| out.extend_from_slice(results));
            drop(replays);
            local.tell(now.time, Outcome::Here, (procedure, place, call.args), &out[begin..]);
            First::No(Taken::Done)
        }
    }
}

/// On whose behalf something is found out for a call.
pub(crate) fn caller(credential: &Credential<'_>) -> Caller {
    match credential {
        Credential::Sys(sys) => Caller { uid: sys.uid, gid: sys.gid, gids: sys.gids().to_vec() },
        Credential::None => Caller { uid: NOBODY, gid: NOBODY, gids: Vec::new() },
    }
}

/// How large an answer may be.
fn answer_size(call: &nfs3::Call<'_>) -> usize {
    let data = match call {
        nfs3::Call::Read { count, .. } | nfs3::Call::Readdir { count, .. } => *count,
        nfs3::Call::Readdirplus { maxcount, .. } => *maxcount,
        _ => 0,
    };
    ANSWER + data.min(ANSWER_MOST) as usize
}

/// Refuses a call of a client that is on no list, whatever it is about; NULL is answered.
#[cold]
fn nfs_of_stranger(tally: &Tally, origin: &Origin, call: &rpc::Call<'_>, out: &mut Vec<u8>) -> Result<Taken, Refusal> {
    if call.version != nfs3::VERSION {
        return Err(Refusal::ProgMismatch { low: nfs3::VERSION, high: nfs3::VERSION });
    }
    let procedure = Procedure::from_number(call.procedure).ok_or(Refusal::ProcUnavail)?;
    if procedure == Procedure::Null {
        tally.here(procedure, Some(Nfsstat3::OK));
        record::put(out, |out| rpc::Reply::accept(out, call.xid));
        return Ok(Taken::Done);
    }
    tally.refused(Refused::Client);
    tally.here(procedure, Some(Nfsstat3::ACCES));
    tell_refused(origin.client.ip(), Nfsstat3::ACCES);
    answer(out, call.xid, |out| Reply::failed(procedure, Nfsstat3::ACCES).encode(out));
    Ok(Taken::Done)
}

fn tell_refused(client: IpAddr, status: Nfsstat3) {
    let (say, why): (fn(&'static str, &log::Facts<'_>), _) = match Refused::by(status) {
        Refused::Client => (log::warn, "it is not on the export's list of clients"),
        Refused::Port => (log::warn, "its port is above 1023, and the export is not insecure"),
        Refused::ReadOnly | Refused::Malformed => (log::debug, "the export is read-only"),
    };
    say("call refused", &[("client", &client.to_canonical()), ("why", &why)]);
}

/// Answers a call that cannot be taken.
pub(crate) fn fail(tally: &Tally, record: &[u8], status: Nfsstat3, out: &mut Vec<u8>) {
    if let Ok(call) = rpc::Call::decode(record)
        && let Some(procedure) = Procedure::from_number(call.procedure)
    {
        tally.here(procedure, Some(status));
        answer(out, call.xid, |out| Reply::failed(procedure, status).encode(out));
    }
}

/// Answers a call that must wait while there is no room for it.
pub(crate) fn give_up(tally: &Tally, record: &[u8], out: &mut Vec<u8>) {
    tally.given_up.add(1);
    fail(tally, record, Nfsstat3::JUKEBOX, out);
}

enum Unowned<'a> {
    Unknown(FileHandle<'a>),
    /// Two objects of different exports.
    Different,
}

fn owner<'a>(shared: &Shared, handle: FileHandle<'a>, second: Option<FileHandle<'a>>) -> Result<Owner, Unowned<'a>> {
    let of = |handle: FileHandle<'a>| shared.whose.of(handle.bytes()).ok_or(Unowned::Unknown(handle));
    let owner = of(handle)?;
    match second.map(of).transpose()? {
        Some(other) => shared.whose.common(owner, other).ok_or(Unowned::Different),
        None => Ok(owner),
    }
}

/// What one client may do with an object. A file with names below several exports is read by the
/// rules of the export that squashes least of those that admit the client, and changed by those of
/// the one that squashes least of those that may be changed. They are looked up once for a batch of
/// calls: what a reload changes holds for every batch that is read after it.
pub(crate) struct Rules {
    owner: Owner,
    /// The export that routes its calls, whoever's rules they obey: fences and uncommitted data are known in one place.
    routes: usize,
    reads: Permit,
    /// None where one export says all.
    changes: Option<Permit>,
}

/// What one export says to a client.
struct Permit {
    realm: usize,
    export: Guard<Arc<Export>>,
    /// Whether it may read, and whether it may change.
    reads: Result<(), Nfsstat3>,
    changes: Result<(), Nfsstat3>,
}

impl Rules {
    fn of(shared: &Shared, owner: Owner, client: SocketAddr) -> Self {
        let permit = |realm| Permit::of(shared, realm, client);
        if let Owner::Export(realm) = owner {
            return Self { owner, routes: realm, reads: permit(realm), changes: None };
        }
        let widest = |mutates: bool| {
            let permits = shared.whose.exports_of(owner).map(permit);
            permits.min_by_key(|permit| permit.rank(mutates)).unwrap_or_else(|| permit(0))
        };
        let routes = shared.whose.exports_of(owner).min().unwrap_or(0);
        Self { owner, routes, reads: widest(false), changes: Some(widest(true)) }
    }

    /// The export whose rules a call is for. What may be changed is asked of the one that it may be changed by.
    fn of_call(&self, op: Op) -> &Permit {
        let changes = self.changes.as_ref().filter(|it| op.mutates() || op == Op::Access && it.changes.is_ok());
        changes.unwrap_or(&self.reads)
    }
}

impl Permit {
    fn of(shared: &Shared, realm: usize, client: SocketAddr) -> Self {
        let export = shared.exports[realm].rules();
        let (reads, changes) = (permitted(&export, client, false), permitted(&export, client, true));
        Self { realm, export, reads, changes }
    }

    const fn permitted(&self, op: Op) -> Result<(), Nfsstat3> {
        if op.mutates() { self.changes } else { self.reads }
    }

    /// The widest comes first.
    fn rank(&self, mutates: bool) -> (bool, bool, u8) {
        let squash = match self.export.squash {
            Squash::None => 0,
            Squash::Root => 1,
            Squash::All => 2,
        };
        (self.reads.is_err(), mutates && self.changes.is_err(), squash)
    }

    /// Whom the servers see, if the export wants that to be another one.
    fn seen<'c>(&self, credential: &Credential<'c>) -> Option<Credential<'c>> {
        let Credential::Sys(sys) = credential else { return None };
        squash(&self.export, sys).map(Credential::Sys)
    }

    /// On whose behalf the servers answer.
    fn who(&self, credential: &Credential<'_>) -> Who {
        match self.export.squash {
            Squash::Root | Squash::All => Who::of(self.seen(credential).as_ref().unwrap_or(credential)),
            Squash::None => Who::of(credential),
        }
    }

    /// The record on behalf of the anonymous user, if the export wants that of this one.
    fn squash(&self, call: &rpc::Call<'_>, credential: &Credential<'_>) -> Option<Vec<u8>> {
        if self.export.squash == Squash::None {
            return None;
        }
        let Credential::Sys(changed) = self.seen(credential)? else { return None };
        let (mut body, mut out) = (Vec::new(), Vec::new());
        changed.encode(&mut body);
        rpc::Call { credential: OpaqueAuth { flavor: flavor::SYS, body: &body }, ..*call }.encode(&mut out);
        Some(out)
    }
}

/// The export's own rules, before anything else.
fn permitted(export: &Export, client: SocketAddr, mutates: bool) -> Result<(), Nfsstat3> {
    match () {
        () if !export.admits(client.ip().to_canonical()) => Err(Nfsstat3::ACCES),
        () if !export.insecure && client.port() >= RESERVED_END => Err(Nfsstat3::PERM),
        () if export.access == Access::ReadOnly && mutates => Err(Nfsstat3::ROFS),
        () => Ok(()),
    }
}

/// Whether a client that asks what it may do is told that it may change nothing.
fn narrowed(export: &Export, op: Op) -> bool {
    op == Op::Access && export.access == Access::ReadOnly
}

fn squash<'c>(export: &Export, sys: &AuthSys<'c>) -> Option<AuthSys<'c>> {
    let anonymous = export.anonymous;
    let all = export.squash == Squash::All;
    let root = export.squash == Squash::Root;
    let uid = if all || root && sys.uid == 0 { anonymous.uid } else { sys.uid };
    let gid_of = |gid: u32| if all || root && gid == 0 { anonymous.gid } else { gid };
    let groups_stay = if all { sys.gids().is_empty() } else { sys.gids().iter().all(|gid| gid_of(*gid) == *gid) };
    if groups_stay && (uid, gid_of(sys.gid)) == (sys.uid, sys.gid) {
        return None;
    }
    let gids: Vec<u32> = if all { Vec::new() } else { sys.gids().iter().map(|gid| gid_of(*gid)).collect() };
    let changed = AuthSys::new(sys.stamp, sys.machinename, uid, gid_of(sys.gid), &gids);
    Some(changed.expect("as many groups and as long a name as it came with"))
}

/// Appends a whole answer.
pub(crate) fn answer(out: &mut Vec<u8>, xid: u32, results: impl FnOnce(&mut Vec<u8>)) {
    record::put(out, |out| {
        rpc::Reply::accept(out, xid);
        results(out);
    });
}

/// A call lies in the table of calls under way and in the output of its link.
const COPIES: usize = 2;
/// An answer without data; and the most data that a server sends, whatever it is asked for.
const ANSWER: usize = 512;
const ANSWER_MOST: u32 = 4 << 20;
const NOBODY: u32 = 65534;
/// Ports below this one only root may use.
pub(crate) const RESERVED_END: u16 = 1024;
