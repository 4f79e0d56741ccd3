//! What a server does with a record: refuse it, answer it at once, or let it wait for a worker. No sockets here.

use super::attribute_cache::{AttributeCache, Truly};
use super::fault::Fault;
use super::service::ServiceTimes;
use super::station::Station;
use super::truth::{Executed, Mark, Truth};
use crate::{Identity, Namespace, User};
use midas_net::{CallId, Known, RecordKey, Replays, Terms, Verdict};
use midas_nfs::nfs3::{self, DirOp, FileHandle, Nfsstat3, Procedure, Reply};
use midas_nfs::portmap::{self, Mapping};
use midas_nfs::rpc::{self, Credential, NotACall, Refusal, flavor};
use midas_nfs::{mount, record};
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// One server: its queue, its memory of answers, and what is wrong with it.
pub(super) struct Server {
    pub(super) identity: Identity,
    pub(super) station: Station<Job>,
    pub(super) fault: Fault,
    pub(super) truth: Option<Arc<Truth>>,
    namespace: Arc<Namespace>,
    export: Vec<u8>,
    mappings: Vec<Mapping>,
    service: ServiceTimes,
    replays: Replays<Asker>,
    /// What calls are known by.
    digests: RecordKey,
    mounts: VecDeque<(IpAddr, Vec<u8>)>,
    machines: RandomState,
    atime: bool,
    /// What it answers from, if it believes for a while what it once knew.
    cache: Option<AttributeCache>,
    started: Instant,
    arrivals: u64,
}

/// Everything that a server is made of.
pub(super) struct Parts {
    pub(super) identity: Identity,
    pub(super) namespace: Arc<Namespace>,
    pub(super) export: Vec<u8>,
    pub(super) mappings: Vec<Mapping>,
    pub(super) service: ServiceTimes,
    pub(super) workers: usize,
    pub(super) truth: Option<Arc<Truth>>,
    pub(super) machines: RandomState,
    pub(super) atime: bool,
    pub(super) attribute_cache: Duration,
}

/// Where an answer goes: a connection, and which of those that had its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asker {
    pub(super) slot: usize,
    pub(super) generation: u32,
}

/// Where a record came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) asker: Asker,
    pub(super) client: IpAddr,
    pub(super) local: IpAddr,
    pub(super) door: Door,
    /// Whether the client has closed its side: what it sent before is late.
    pub(super) closed: bool,
}

/// Which socket it came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    /// The server's own: every program answers.
    Nfs,
    /// The port mapper's: no other program is there.
    Portmap,
}

/// A call that waits for a worker, its service time, or the end of a hang.
#[derive(Debug)]
pub(super) struct Job {
    origin: Origin,
    record: Box<[u8]>,
    known: Option<Known>,
    expects: usize,
    arrived: Instant,
    /// From then to the end of its service, once that has come.
    took: Duration,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Its answer was appended.
    Answered,
    /// Its answer was appended, for the newest of those who asked.
    AnsweredTo(Asker),
    /// Its answer will come, and will be about so long.
    Queued { expects: usize },
    /// It was sent again: the answer that another asker waited for goes to this one.
    Joined { displaced: Asker },
    /// Nothing that could be answered.
    Ignored,
}

/// An answer whose time has come.
pub(super) struct Finished {
    pub(super) to: Asker,
    pub(super) expected: usize,
}

impl Server {
    pub(super) fn new(now: Instant, parts: Parts) -> Self {
        Self {
            identity: parts.identity,
            station: Station::new(now, parts.workers),
            fault: Fault::None,
            truth: parts.truth,
            namespace: parts.namespace,
            export: parts.export,
            mappings: parts.mappings,
            service: parts.service,
            replays: Replays::new(Terms::of_one_in(1)),
            digests: RecordKey::random(),
            mounts: VecDeque::new(),
            machines: parts.machines,
            atime: parts.atime,
            cache: (!parts.attribute_cache.is_zero()).then(|| AttributeCache::new(parts.attribute_cache)),
            started: now,
            arrivals: 0,
        }
    }

    /// A record came in; an answer that is ready is appended to `out`.
    pub(super) fn take(&mut self, now: Instant, origin: &Origin, record: &[u8], out: &mut Vec<u8>) -> Taken {
        self.answer(now, origin, record, None, out)
    }

    /// A call whose time has come: its answer is put into `out`.
    pub(super) fn finish(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Finished> {
        let (mut job, done) = self.station.done(now)?;
        job.took = done.saturating_duration_since(job.arrived);
        let expected = job.expects;
        let to = match self.answer(now, &job.origin, &job.record, Some(&job), out) {
            Taken::AnsweredTo(newest) => newest,
            Taken::Answered | Taken::Queued { .. } | Taken::Joined { .. } | Taken::Ignored => job.origin.asker,
        };
        Some(Finished { to, expected })
    }

    /// Answers at once, or later; `job` is the record's job when it has waited already.
    fn answer(&mut self, now: Instant, origin: &Origin, record: &[u8], job: Option<&Job>, out: &mut Vec<u8>) -> Taken {
        let (xid, why) = match rpc::Call::decode(record) {
            Ok(call) => match self.call(now, (origin, record, job), &call, out) {
                Ok(taken) => return taken,
                Err(why) => (call.xid, why),
            },
            Err(NotACall::Refuse { xid, why }) => (xid, why),
            Err(NotACall::Unanswerable) => return Taken::Ignored,
        };
        record::put(out, |out| rpc::Reply::refuse(out, xid, why));
        Taken::Answered
    }

    fn call(
        &mut self,
        now: Instant,
        (origin, record, job): (&Origin, &[u8], Option<&Job>),
        call: &rpc::Call<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Taken, Refusal> {
        let credential = Credential::decode(&call.credential)?;
        if origin.door == Door::Portmap && call.program != portmap::PROGRAM {
            return Err(Refusal::ProgUnavail);
        }
        if call.program == nfs3::PROGRAM {
            return self.nfs(now, (origin, record, job), (call, &credential), out);
        }
        if job.is_none() && self.hangs(now) {
            return Ok(self.later(now, origin, record, Duration::ZERO, None, SMALL));
        }
        match call.program {
            mount::PROGRAM => self.mount(origin, call, out)?,
            portmap::PROGRAM => self.portmap(origin, call, out)?,
            _ => return Err(Refusal::ProgUnavail),
        }
        Ok(Taken::Answered)
    }

    fn nfs(
        &mut self,
        now: Instant,
        (origin, record, job): (&Origin, &[u8], Option<&Job>),
        (call, credential): (&rpc::Call<'_>, &Credential<'_>),
        out: &mut Vec<u8>,
    ) -> Result<Taken, Refusal> {
        if call.version != nfs3::VERSION {
            return Err(Refusal::ProgMismatch { low: nfs3::VERSION, high: nfs3::VERSION });
        }
        let procedure = Procedure::from_number(call.procedure).ok_or(Refusal::ProcUnavail)?;
        let arguments = nfs3::Call::decode(procedure, call.args).map_err(|_| Refusal::GarbageArgs)?;
        let waits = job.is_none() && self.hangs(now);
        if procedure == Procedure::Null {
            if waits {
                return Ok(self.later(now, origin, record, Duration::ZERO, None, SMALL));
            }
            record::put(out, |out| rpc::Reply::accept(out, call.xid));
            return Ok(Taken::Answered);
        }
        if let Fault::Fail(status) = self.fault {
            accept(out, call.xid, |out| Reply::failed(procedure, status).encode(out));
            return Ok(Taken::Answered);
        }
        let service = if job.is_none() { self.demand(procedure) } else { Duration::ZERO };
        let queues = job.is_none() && (waits || !service.is_zero() || self.station.len() > 0);
        let known = match job.and_then(|job| job.known) {
            Some(known) => Some(known),
            None if procedure.idempotent() && !writes(procedure) => None,
            // A client that is gone may have sent it again elsewhere, and something newer after it.
            None if job.is_none() && origin.closed => return Ok(Taken::Ignored),
            None => match self.replays.begin(now, self.call_id(origin, procedure, record), origin.asker) {
                Verdict::New(known) => Some(known),
                Verdict::Joined(displaced) => return Ok(Taken::Joined { displaced }),
                Verdict::Done(_) if waits => None,
                Verdict::Done(results) => {
                    accept(out, call.xid, |out| out.extend_from_slice(results));
                    return Ok(Taken::Answered);
                }
            },
        };
        if queues {
            return Ok(self.later(now, origin, record, service, known, expects(&arguments)));
        }
        let took = job.map_or(Duration::ZERO, |job| job.took);
        let newest = self.execute((now, took), call.xid, credential, &arguments, known.as_ref(), out);
        Ok(newest.map_or(Taken::Answered, Taken::AnsweredTo))
    }

    fn call_id(&self, origin: &Origin, procedure: Procedure, record: &[u8]) -> CallId {
        CallId::new(&self.digests, origin.client, procedure, record)
    }

    fn later(
        &mut self,
        now: Instant,
        origin: &Origin,
        record: &[u8],
        service: Duration,
        known: Option<Known>,
        expects: usize,
    ) -> Taken {
        let job = Job { origin: *origin, record: record.into(), known, expects, arrived: now, took: Duration::ZERO };
        self.station.arrive(now, service, record.len(), job);
        Taken::Queued { expects }
    }

    /// How long a call takes; drawn by the call's number, so that one seed is one sequence of service times.
    fn demand(&mut self, procedure: Procedure) -> Duration {
        let more = match self.fault {
            Fault::Slow(more) => more,
            _ => Duration::ZERO,
        };
        self.arrivals += 1;
        self.service.demand(self.arrivals, procedure) + more
    }

    /// Executes and answers; who gets the answer, where the call was sent again from elsewhere meanwhile.
    fn execute(
        &mut self,
        (now, took): (Instant, Duration),
        xid: u32,
        credential: &Credential<'_>,
        call: &nfs3::Call<'_>,
        known: Option<&Known>,
        out: &mut Vec<u8>,
    ) -> Option<Asker> {
        let who = User::of(credential);
        let begin = record::begin(out);
        rpc::Reply::accept(out, xid);
        let results = out.len();
        let status = match &mut self.cache {
            None => self.namespace.execute(&self.identity, &who, call, out),
            Some(cache) => {
                let truly = Truly { namespace: &self.namespace, identity: &self.identity, now };
                cache.execute(truly, &who, call, out)
            }
        };
        record::end(out, begin);
        if let nfs3::Call::Read { file, .. } = call
            && self.atime
            && status == Nfsstat3::OK
        {
            self.namespace.accessed(&self.identity, *file);
        }
        let procedure = call.procedure();
        if let Some(truth) = &self.truth {
            let (mark, unique) = self.mark(credential);
            let server = self.identity.server;
            truth.executed(now, Executed { at: Duration::ZERO, took, server, procedure, mark, status }, unique);
        }
        self.replays.finish(now, known?, &out[results..])
    }

    /// The client's own number for a call, and whether it makes them unique.
    fn mark(&self, credential: &Credential<'_>) -> (Mark, bool) {
        match credential {
            Credential::None => (Mark { machine: 0, stamp: 0 }, false),
            Credential::Sys(sys) => (
                Mark { machine: self.machines.hash_one(sys.machinename), stamp: sys.stamp },
                sys.machinename.starts_with(UNIQUE),
            ),
        }
    }

    /// Whether the server is in a hang now.
    pub(super) fn hangs(&self, now: Instant) -> bool {
        match self.fault {
            Fault::Hang => true,
            Fault::Stall { hang, every } => self.phase(now, every) < hang,
            Fault::None
            | Fault::Slow(_)
            | Fault::Fail(_)
            | Fault::Down
            | Fault::OtherHandles
            | Fault::WrongXid
            | Fault::HalfReply
            | Fault::Mute => false,
        }
    }

    /// When a stall begins or ends next.
    pub(super) fn next_turn(&self, now: Instant) -> Option<Instant> {
        match self.fault {
            Fault::Stall { hang, every } => {
                let phase = self.phase(now, every);
                let turn = if phase < hang { hang } else { every };
                Some(now + turn.saturating_sub(phase))
            }
            _ => None,
        }
    }

    fn phase(&self, now: Instant, every: Duration) -> Duration {
        let since = now.saturating_duration_since(self.started).as_nanos();
        Duration::from_nanos((since % every.as_nanos().max(1)) as u64)
    }

    /// A crash and a fresh start: what was not durable is lost, and clients can tell by the verifier.
    pub(super) fn restart(&mut self, now: Instant) {
        self.station.clear(now);
        self.replays.clear();
        if let Some(cache) = &mut self.cache {
            cache.clear();
        }
        self.namespace.crash(self.identity.server);
        self.identity.write_verifier = write_verifier(self.identity.server);
    }

    fn mount(&mut self, origin: &Origin, call: &rpc::Call<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
        if !matches!(call.version, mount::VERSION_OLD | mount::VERSION) {
            return Err(Refusal::ProgMismatch { low: mount::VERSION_OLD, high: mount::VERSION });
        }
        let question = mount::Call::decode(call.version, call.procedure, call.args)
            .ok_or(Refusal::ProcUnavail)?
            .map_err(|_| Refusal::GarbageArgs)?;
        let begin = record::begin(out);
        rpc::Reply::accept(out, call.xid);
        match question {
            mount::Call::Null => {}
            mount::Call::Mnt(path) => self.mnt(origin, path, out),
            mount::Call::Dump => {
                let names: Vec<_> = self.mounts.iter().map(|(client, path)| (client.to_string(), path)).collect();
                mount::put_dump(out, names.iter().map(|(client, path)| (client.as_bytes(), path.as_slice())));
            }
            mount::Call::Umnt(path) => self.mounts.retain(|(client, at)| *client != origin.client || at != path),
            mount::Call::Umntall => self.mounts.retain(|(client, _)| *client != origin.client),
            mount::Call::Export => mount::put_exports(out, [(self.export.as_slice(), &[][..])]),
        }
        record::end(out, begin);
        Ok(())
    }

    fn mnt(&mut self, origin: &Origin, path: &[u8], out: &mut Vec<u8>) {
        match self.walk(path) {
            Ok(handle) => {
                let handle = FileHandle::new(&handle).expect("it came from the namespace");
                let mounted = mount::Mounted { handle, flavors: vec![flavor::SYS, flavor::NONE] };
                mount::Mounted::encode(Ok(&mounted), out);
                let entry = (origin.client, path.to_vec());
                if !self.mounts.contains(&entry) {
                    self.mounts.truncate(MOUNTS_MOST - 1);
                    self.mounts.push_front(entry);
                }
            }
            Err(Nfsstat3(stat)) => mount::Mounted::encode(Err(mount::MountStat(stat)), out),
        }
    }

    /// The handle of the export or of a directory below it; a path that goes up is none of them.
    fn walk(&self, path: &[u8]) -> Result<Vec<u8>, Nfsstat3> {
        let export = self.export.strip_suffix(b"/").unwrap_or(&self.export);
        let below = path.strip_prefix(export).filter(|rest| rest.is_empty() || rest[0] == b'/');
        let names = below.ok_or(Nfsstat3::NOENT)?.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let root = self.namespace.root(&self.identity).bytes().to_vec();
        names.take(DEPTH_MOST).try_fold(root, |at, name| match name {
            b".." => Err(Nfsstat3::NOENT),
            name => self.lookup(&at, name),
        })
    }

    fn lookup(&self, dir: &[u8], name: &[u8]) -> Result<Vec<u8>, Nfsstat3> {
        let dir = FileHandle::new(dir).ok_or(Nfsstat3::BADHANDLE)?;
        let mut results = Vec::new();
        let call = nfs3::Call::Lookup { what: DirOp { dir, name } };
        self.namespace.execute(&self.identity, &User::new(0, 0, &[]), &call, &mut results);
        match Reply::decode(Procedure::Lookup, &results) {
            Ok(Reply::Lookup(Ok(found))) if found.attributes.is_some_and(|at| at.ftype == nfs3::Ftype3::Dir) => {
                Ok(found.object.bytes().to_vec())
            }
            Ok(Reply::Lookup(Ok(_))) => Err(Nfsstat3::NOTDIR),
            Ok(failed) => Err(failed.status()),
            Err(_) => Err(Nfsstat3::SERVERFAULT),
        }
    }

    fn portmap(&self, origin: &Origin, call: &rpc::Call<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let (low, high) = portmap::VERSIONS;
        if !(low..=high).contains(&call.version) {
            return Err(Refusal::ProgMismatch { low, high });
        }
        let question = portmap::Call::decode(call.version, call.procedure, call.args)
            .ok_or(Refusal::ProcUnavail)?
            .map_err(|_| Refusal::GarbageArgs)?;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32);
        accept(out, call.xid, |out| question.answer(out, call.version, &self.mappings, origin.local, seconds));
        Ok(())
    }
}

fn accept(out: &mut Vec<u8>, xid: u32, results: impl FnOnce(&mut Vec<u8>)) {
    record::put(out, |out| {
        rpc::Reply::accept(out, xid);
        results(out);
    });
}

/// Whether it changes data, which a late copy of the same call must not bring back.
const fn writes(procedure: Procedure) -> bool {
    matches!(procedure, Procedure::Write | Procedure::Commit)
}

/// About how long the answer to a call will be.
const fn expects(call: &nfs3::Call<'_>) -> usize {
    let more = match call {
        nfs3::Call::Read { count, .. } | nfs3::Call::Readdir { count, .. } => *count,
        nfs3::Call::Readdirplus { maxcount, .. } => *maxcount,
        _ => 0,
    };
    let most = 1 << 20;
    SMALL + if more > most { most as usize } else { more as usize }
}

/// Another one at every start, and on every server.
pub(super) fn write_verifier(server: u16) -> [u8; 8] {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    (nanos << 8 | u64::from(server & 0xff)).to_be_bytes()
}

/// Machine names of clients that never use a stamp twice.
const UNIQUE: &[u8] = b"midas-bench-";
/// The answer to most calls.
pub(super) const SMALL: usize = 256;
/// Mounts that DUMP tells of.
const MOUNTS_MOST: usize = 256;
/// Names in a path that is mounted.
const DEPTH_MOST: usize = 512;
