//! What waits for servers and so has no place in an event loop: directories to mount, whose a handle is, whether a call was executed.
//! A few threads, a bounded queue.

use crate::cached::Unfound;
use crate::clock::duration;
use crate::cut::Cut;
use crate::dispatch;
use crate::event::{Asker, Mail, Mailbox, Shared};
use crate::finding::{self, Found};
use crate::log;
use crate::mountd::Below;
use crate::realm::Realm;
use crate::unresolved::Resolution;
use crate::verify::{self, Before, Doubt, Verdict};
use midas_core::key::Key;
use midas_net::{Caller, Client};
use midas_nfs::nfs3::{Call, DirOp, FileHandle, Nfsstat3, Reply};
use midas_nfs::rpc::{self, Credential};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Something to find out.
pub(crate) enum Job {
    /// A directory to mount.
    Find { below: Box<Below>, xid: u32, asker: Asker },
    /// Something that calls wait for; for this loop.
    Sort { unknown: Arc<Unknown>, event_loop: usize },
    /// Where names lead that a call changes; the call's record tells on whose behalf.
    Lead { realm: usize, names: Vec<Unfound>, record: Vec<u8>, event_loop: usize, number: usize },
    /// Whether a call was executed; for this loop.
    Verify { doubt: Doubt, event_loop: usize, about: About },
    /// A CREATE to be done in two steps; for this loop.
    Cut { cut: Box<Cut>, event_loop: usize, number: usize },
}

/// Which call is meant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum About {
    /// One that was taken from its server, by its number.
    Recalled(usize),
    /// A CREATE that was done in two steps, by its number.
    Cut(usize),
    /// One that waits on a link for its server, by its xid.
    Waiting { link: usize, xid: u32 },
}

/// What must be known before a call can be taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Unknown {
    /// Whose a handle is.
    Owner(Vec<u8>),
    /// Which object a name leads to, as this user sees it (see `fencing`).
    Target { realm: usize, dir: Vec<u8>, name: Vec<u8>, caller: Caller },
}

/// How jobs are given to the clerks. Questions that clients' handles and names raise have clerks of
/// their own, and so have directories to mount and files to cut: they cannot hold up other jobs.
#[derive(Clone)]
pub(crate) struct Desk {
    jobs: SyncSender<Job>,
    questions: SyncSender<Job>,
    walks: SyncSender<Job>,
    cuts: SyncSender<Job>,
    under_way: Arc<UnderWay>,
}

/// The jobs that are given to a desk.
pub(crate) struct Given {
    jobs: Receiver<Job>,
    questions: Receiver<Job>,
    walks: Receiver<Job>,
    cuts: Receiver<Job>,
    under_way: Arc<UnderWay>,
}

/// The walks to directories to mount that are under way, by clients' addresses.
#[derive(Default)]
struct UnderWay(Mutex<HashMap<IpAddr, usize>>);

impl UnderWay {
    /// Whether one more may begin.
    fn begin(&self, client: IpAddr) -> bool {
        let mut of = crate::pool::lock(&self.0);
        let count = of.entry(client).or_default();
        let may = *count < WALKS_OF_ADDRESS;
        *count += usize::from(may);
        may
    }

    /// A job is over, which was for this client if it was a walk.
    fn end(&self, client: Option<IpAddr>) {
        let Some(client) = client else { return };
        let mut of = crate::pool::lock(&self.0);
        if let Some(count) = of.get_mut(&client) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                of.remove(&client);
            }
        }
    }
}

impl Desk {
    /// Gives a job; it comes back if there are too many.
    pub(crate) fn give(&self, job: Job) -> Result<(), Job> {
        let walks_for = job.walks_for();
        if walks_for.is_some_and(|client| !self.under_way.begin(client)) {
            return Err(job);
        }
        let to = match job {
            Job::Sort { .. } => &self.questions,
            Job::Find { .. } => &self.walks,
            Job::Lead { .. } | Job::Verify { .. } => &self.jobs,
            Job::Cut { .. } => &self.cuts,
        };
        to.try_send(job).map_err(|error| {
            self.under_way.end(walks_for);
            match error {
                TrySendError::Full(job) | TrySendError::Disconnected(job) => job,
            }
        })
    }
}

/// A desk and the jobs that are given to it.
pub(crate) fn desk() -> (Desk, Given) {
    let ((give, jobs), (ask, questions)) = (sync_channel(JOBS), sync_channel(JOBS));
    let ((walk, walks), (cut, cuts)) = (sync_channel(WALKS), sync_channel(CUTS));
    let under_way = Arc::<UnderWay>::default();
    let given = Given { jobs, questions, walks, cuts, under_way: Arc::clone(&under_way) };
    (Desk { jobs: give, questions: ask, walks: walk, cuts: cut, under_way }, given)
}

/// Starts the threads; they end when every desk is gone.
pub(crate) fn start(shared: &Arc<Shared>, mailboxes: &[Mailbox], given: Given) -> Vec<JoinHandle<()>> {
    let Given { jobs, questions, walks, cuts, under_way } = given;
    let clerk = |jobs: &Arc<Mutex<Receiver<Job>>>| {
        let (shared, mailboxes, jobs) = (Arc::clone(shared), mailboxes.to_vec(), Arc::clone(jobs));
        let under_way = Arc::clone(&under_way);
        thread::spawn(move || {
            let mut lines = Lines::default();
            loop {
                let job = crate::pool::lock(&jobs).recv();
                let Ok(job) = job else { return };
                let walks_for = job.walks_for();
                let (event_loop, mail) = job.done(&shared, &mut lines);
                under_way.end(walks_for);
                mailboxes[event_loop].send(mail);
            }
        })
    };
    let of = |clerks: usize, jobs: Receiver<Job>| -> Vec<JoinHandle<()>> {
        let jobs = Arc::new(Mutex::new(jobs));
        (0..clerks).map(|_| clerk(&jobs)).collect()
    };
    [of(CLERKS, jobs), of(CLERKS, questions), of(WALKERS, walks), of(CLERKS, cuts)].into_iter().flatten().collect()
}

impl Job {
    /// The client that a directory to mount is looked for.
    fn walks_for(&self) -> Option<IpAddr> {
        match self {
            Self::Find { below, .. } => Some(below.client()),
            Self::Sort { .. } | Self::Lead { .. } | Self::Verify { .. } | Self::Cut { .. } => None,
        }
    }

    fn done(self, shared: &Shared, lines: &mut Lines) -> (usize, Mail) {
        match self {
            Self::Find { below, xid, asker } => {
                (asker.event_loop as usize, Mail::Answer(asker, below.find(shared, lines, xid), 0))
            }
            Self::Sort { unknown, event_loop } => {
                let how = sort(shared, lines, &unknown);
                (event_loop, Mail::Sorted { unknown, how })
            }
            Self::Lead { realm, names, record, event_loop, number } => {
                let found = lead(shared, lines, realm, &names, &record);
                (event_loop, Mail::Led { number, found })
            }
            Self::Cut { cut, event_loop, number } => {
                let verdict = cut.done(shared, lines);
                (event_loop, Mail::Verified { about: About::Cut(number), verdict })
            }
            Self::Verify { doubt, event_loop, about } => {
                let pool = &shared.exports[doubt.realm].pool;
                let verdict = verify::look(pool, lines, &doubt);
                let outcome = match &verdict {
                    Verdict::Answer(_) | Verdict::Made { .. } => "it is answered",
                    Verdict::Send(_) => "it is sent",
                    Verdict::Unknown => "not known yet",
                };
                let others = match doubt.before {
                    Before::Known(Some(true)) => "changed nothing, the name was taken",
                    Before::Known(Some(false)) => "changed nothing, the name was free",
                    Before::Known(None) => "changed nothing",
                    Before::Unknown => "may have changed the same",
                };
                let (asked, call) = (&pool.server(doubt.witness).name, doubt.procedure);
                log::info(
                    "call in doubt",
                    &[("asked", asked), ("call", &call), ("others", &others), ("outcome", &outcome)],
                );
                (event_loop, Mail::Verified { about, verdict })
            }
        }
    }
}

/// Resolves a question.
fn sort(shared: &Shared, lines: &mut Lines, unknown: &Unknown) -> Resolution {
    match unknown {
        Unknown::Owner(handle) => match finding::whose(shared, lines, handle) {
            Found::Of(_) => Resolution::Known,
            Found::Nowhere => Resolution::Nowhere,
            Found::Unknown => Resolution::Untold,
        },
        Unknown::Target { realm, dir, name, caller } => {
            let export = &shared.exports[*realm];
            let left = export.pool.time(Instant::now());
            match look_for(export, lines, (dir, name), caller) {
                Ok(leads) => {
                    export.learn_target(left, Key::of(dir), name, leads);
                    Resolution::Known
                }
                // Taken for free, it would be changed without a fence.
                Err(Untold) => Resolution::Untold,
            }
        }
    }
}

/// Where names lead; none if it cannot be told of all of them.
fn lead(shared: &Shared, lines: &mut Lines, realm: usize, names: &[Unfound], record: &[u8]) -> Option<Vec<Leads>> {
    let export = &shared.exports[realm];
    let call = rpc::Call::decode(record).ok()?;
    let caller = dispatch::caller(&Credential::decode(&call.credential).ok()?);
    names.iter().map(|Unfound { dir, name, .. }| look_for(export, lines, (dir, name), &caller).ok()).collect()
}

/// Where a name leads, though its user may not see it: it is marked or fenced all the same.
fn look_for(export: &Realm, lines: &mut Lines, name: (&[u8], &[u8]), caller: &Caller) -> Result<Leads, Untold> {
    match look(export, lines, name, caller) {
        Ok(Leads::Refused) => look(export, lines, name, &Caller::ROOT),
        found => found,
    }
}

/// Where a name leads, as the server says that knows its directory's names; of a directory that it does not know, another one is asked.
fn look(export: &Realm, lines: &mut Lines, (dir, name): (&[u8], &[u8]), caller: &Caller) -> Result<Leads, Untold> {
    let pool = &export.pool;
    let knows = export.knows_names(Instant::now(), Key::of(dir));
    let first = knows.or_else(|| pool.some_open(0)).ok_or(Untold)?;
    let what = DirOp { dir: FileHandle::new(dir).ok_or(Untold)?, name };
    let patience = duration(pool.config.probe_timeout);
    for server in [Some(first), pool.some_open(first.index() + 1)].into_iter().flatten() {
        let found = lines.ask(pool.server(server).address, caller, patience, |nfs| {
            let found = match nfs.nfs(&Call::Lookup { what }).map_err(|_| Untold)? {
                Reply::Lookup(Ok(found)) => Ok(Key::of(found.object.bytes())),
                Reply::Lookup(Err(failed)) => Err(failed.status),
                _ => return Err(Untold),
            };
            // The superuser is asked last. If its port is why it is refused, nothing is known.
            match found {
                Err(status) if *caller == Caller::ROOT && refused_for_port(nfs, status) => Err(Untold),
                found => Ok(found),
            }
        })?;
        match found {
            Err(Nfsstat3::STALE | Nfsstat3::BADHANDLE) => {}
            found => return Leads::of(found),
        }
    }
    Ok(Leads::Refused)
}

/// Where a name leads that a mutation changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leads {
    To(Key),
    Nowhere,
    /// Its user may not look it up, or its directory is not known: the mutation should fail as well.
    Refused,
}

impl Leads {
    /// What a LOOKUP shows that ended so.
    fn of(found: Result<Key, Nfsstat3>) -> Result<Self, Untold> {
        match found {
            Ok(object) => Ok(Self::To(object)),
            Err(Nfsstat3::NOENT | Nfsstat3::NOTDIR | Nfsstat3::NAMETOOLONG | Nfsstat3::INVAL) => Ok(Self::Nowhere),
            Err(Nfsstat3::ACCES | Nfsstat3::PERM) => Ok(Self::Refused),
            Err(_) => Err(Untold),
        }
    }

    pub(crate) fn object(self) -> Option<Key> {
        match self {
            Self::To(object) => Some(object),
            Self::Nowhere | Self::Refused => None,
        }
    }
}

/// Nobody could tell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Untold;

/// Whether a server may have refused a question for the port that it came from. All reserved ports
/// were in use then.
pub(crate) fn refused_for_port(nfs: &Client, status: Nfsstat3) -> bool {
    matches!(status, Nfsstat3::PERM | Nfsstat3::ACCES) && nfs.lacks_port()
}

/// Connections that a clerk keeps: one for each server, as there are few reserved ports.
#[derive(Default)]
pub(crate) struct Lines(Vec<(SocketAddr, Client)>);

impl Lines {
    /// Asks what must not be asked twice.
    pub(crate) fn ask_once<T>(
        &mut self,
        address: SocketAddr,
        caller: &Caller,
        (probe, patience): (Duration, Duration),
        question: impl FnOnce(&mut Client) -> Result<T, Untold>,
    ) -> Result<T, Untold> {
        // A line that was kept shows first that it still leads somewhere.
        self.ask(address, caller, probe, |nfs| nfs.nfs(&Call::Null).map(drop).map_err(|_| Untold))?;
        let known = self.0.iter().position(|(at, _)| *at == address).ok_or(Untold)?;
        let (_, mut line) = self.0.remove(known);
        line.patience(patience).map_err(|_| Untold)?;
        let answer = question(&mut line)?;
        self.0.push((address, line));
        Ok(answer)
    }

    pub(crate) fn ask<T>(
        &mut self,
        address: SocketAddr,
        caller: &Caller,
        patience: Duration,
        mut question: impl FnMut(&mut Client) -> Result<T, Untold>,
    ) -> Result<T, Untold> {
        let known = self.0.iter().position(|(at, _)| *at == address);
        let kept = known.map(|line| self.0.remove(line).1);
        // One that was kept may be closed by now.
        let answered = kept.and_then(|mut line| {
            line.become_caller(caller);
            line.patience(patience).ok()?;
            question(&mut line).ok().map(|answer| (line, answer))
        });
        let (line, answer) = match answered {
            Some(answered) => answered,
            None => {
                let mut line = Client::connect(address, caller, patience).map_err(|_| Untold)?;
                let answer = question(&mut line)?;
                (line, answer)
            }
        };
        self.0.push((address, line));
        if self.0.len() > LINES {
            self.0.remove(0);
        }
        Ok(answer)
    }
}

/// Clerks for questions, as many for look-ups and verdicts, and as many for CREATEs in two steps.
const CLERKS: usize = 4;
/// Clerks for directories to mount.
const WALKERS: usize = 2;
/// Connections that a clerk keeps.
const LINES: usize = 16;
/// Jobs that wait.
const JOBS: usize = 1024;
/// CREATEs in two steps that wait: each has its place at a server already.
const CUTS: usize = 4 * CLERKS;
/// Directories to mount that wait, and those of one address with what is looked for now.
const WALKS: usize = JOBS / 4;
const WALKS_OF_ADDRESS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use midas_nfs::nfs3::{CreateHow, Sattr3};
    use midas_nfsd::{Config, Limits, Namespace, Nfsd};
    use std::net::Ipv4Addr;

    #[test]
    fn directories_to_mount_have_places_of_their_own_and_one_client_has_few_of_them() {
        let (desk, given) = desk();
        let find = |client: u32| {
            let below = Box::new(Below::of((Ipv4Addr::from(client), 1).into()));
            let asker = Asker { event_loop: 0, slot: 0, generation: 0 };
            desk.give(Job::Find { below, xid: 1, asker }).is_ok()
        };
        assert_eq!((0..2 * WALKS).filter(|_| find(1)).count(), WALKS_OF_ADDRESS);
        let others = (0..2 * WALKS as u32).filter(|client| find(2 + client)).count();
        assert_eq!(others, WALKS - WALKS_OF_ADDRESS);
        let lead = || Job::Lead { realm: 0, names: Vec::new(), record: Vec::new(), event_loop: 0, number: 0 };
        assert!((0..JOBS).all(|_| desk.give(lead()).is_ok()), "they take no other job's place");
        let done = given.walks.try_recv().unwrap();
        assert!(!find(1), "one is looked for now");
        given.under_way.end(done.walks_for());
        assert!(find(1));
        assert!(!find(1));
    }

    #[test]
    fn all_users_share_one_connection_to_a_server() {
        let listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
        let memory = Arc::new(Namespace::memory(Limits::default()));
        let nfsd = Nfsd::start(&Config { listen, ..Config::default() }, &memory).unwrap();
        let (address, patience) = (nfsd.addresses()[0], Duration::from_secs(10));
        let mut root = Client::connect(address, &Caller::ROOT, patience).unwrap();
        let top = root.mount(b"/").unwrap().root;
        let object = FileHandle::new(&top).unwrap();
        let new_attributes = Sattr3 { mode: Some(0o777), ..Sattr3::default() };
        root.nfs(&Call::Setattr { object, new_attributes, guard: None }).unwrap();
        let mut lines = Lines::default();
        let mut ports = Vec::new();
        for uid in [1000, 1001, 1000] {
            let caller = Caller { uid, gid: uid, gids: Vec::new() };
            let name = format!("{}", ports.len());
            let place = DirOp { dir: object, name: name.as_bytes() };
            let create = Call::Create { place, how: CreateHow::Guarded(Sattr3::default()) };
            let made = lines.ask(address, &caller, patience, |nfs| {
                ports.push(nfs.port().unwrap());
                match nfs.nfs(&create).map_err(|_| Untold)? {
                    Reply::Create(Ok(made)) => Ok(made.attributes.map(|of| of.uid)),
                    _ => Err(Untold),
                }
            });
            assert_eq!(made, Ok(Some(uid)));
        }
        assert_eq!(ports, [ports[0]; 3]);
    }

    #[test]
    fn who_may_not_look_a_name_up_has_not_shown_that_it_leads_nowhere() {
        for (found, want) in [
            (Ok(Key(7)), Ok(Leads::To(Key(7)))),
            (Err(Nfsstat3::NOENT), Ok(Leads::Nowhere)),
            (Err(Nfsstat3::NOTDIR), Ok(Leads::Nowhere)),
            (Err(Nfsstat3::ACCES), Ok(Leads::Refused)),
            (Err(Nfsstat3::PERM), Ok(Leads::Refused)),
            (Err(Nfsstat3::JUKEBOX), Err(Untold)),
        ] {
            assert_eq!(Leads::of(found), want, "{found:?}");
        }
    }
}
