//! `midas bench coherence`: clients that read and change a few hot names and files, and write down all that they saw.
//!
//! What is measured is not speed but what is seen: every change leaves a version that no other one leaves, so that
//! `midas-history` can tell from a read which change it saw. One thread and one connection a client, one call at a time: that is what a
//! client's real-time order is made of, and it needs no event loop.

mod actor;
mod line;
mod plan;

use crate::action::Action;
use crate::clock::{Clock, span};
use crate::config::{Config, Load, Pace};
use crate::error::RunError;
use crate::site::{Run, Site};
use crate::target::Target;
use crate::tree::{Handle, Shape};
use crate::wire::Template;
use actor::{Actor, identity};
use midas_core::rng::mix;
use midas_history::{Kind, Name, Place, Record, Writer, status};
use midas_nfs::nfs3::Reply;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A run, decided before anything is sent.
#[derive(Clone, Debug)]
pub struct Coherence {
    /// Servers or proxies of one namespace; clients are spread over them in turn.
    pub targets: Vec<Target>,
    /// Clients, each with a connection of its own.
    pub clients: u32,
    /// Ends after so many calls of all clients ..
    pub calls: u64,
    /// .. or after this time, whichever is first.
    pub duration: Duration,
    /// Directories.
    pub directories: u32,
    /// In each: files that stay and whose attributes change.
    pub files: u32,
    /// In each: names of files that all clients make, remove and rename.
    pub names: u32,
    /// Share of calls that change something.
    pub changes: f64,
    /// Who changes; rights are asked for by the next user.
    pub uid: u32,
    /// The group of both.
    pub gid: u32,
    /// After so long without an answer nobody knows whether a call was executed, and its connection is given up. What is not answered when its
    /// connection ends before that is sent again, as clients do.
    pub timeout: Duration,
    /// One seed is one sequence of calls for each client, as far as the answers are the same.
    pub seed: u64,
    /// Leave the run's directory behind.
    pub keep: bool,
    /// Where every call is written to.
    pub history: PathBuf,
}

/// What a run was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Calls in the history.
    pub calls: u64,
    /// Why the run's directory is still there, if it should not be.
    pub left_behind: Option<String>,
    /// Calls that nobody answered, however often they were sent.
    pub silent: u64,
    /// These, and those that ended as nothing in this load may.
    pub failed: u64,
    /// What the first of these was, and its status.
    pub strange: Option<(&'static str, u32)>,
    /// Calls that were sent again, because their connection ended; of them through another target; and changes of them more than 5 s after the
    /// first sending.
    pub resent: u64,
    /// See `resent`.
    pub elsewhere: u64,
    /// See `resent`.
    pub late: u64,
    /// LOOKUPs that told an object's handle with another one's attributes: these are not in the history.
    pub mixed: u64,
    /// How long it took.
    pub took: Duration,
}

impl Coherence {
    /// Usual numbers: 16 clients on 2 directories with 4 files and 4 contested names each.
    pub fn new(targets: Vec<Target>, history: PathBuf) -> Self {
        Self {
            targets,
            clients: 16,
            calls: u64::MAX,
            duration: Duration::from_secs(10),
            directories: 2,
            files: 4,
            names: 4,
            changes: 0.3,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            timeout: Duration::from_secs(10),
            seed: 1,
            keep: false,
            history,
        }
    }

    /// What is wrong with it, in one line.
    pub fn check(&self) -> Result<(), String> {
        let least = |what: &str, value: u32| match value {
            0 => Err(format!("{what} must be at least 1")),
            _ => Ok(()),
        };
        least("--clients", self.clients)?;
        least("--directories", self.directories)?;
        least("--files", self.files)?;
        least("--names", self.names)?;
        if self.clients > CLIENTS {
            return Err(format!("--clients must be at most {CLIENTS}: each is a thread and a connection"));
        }
        match (0.0..=1.0).contains(&self.changes) {
            true => Ok(()),
            false => Err(format!("--changes is a share from 0 to 1, got {}", self.changes)),
        }
    }
}

/// What all clients share.
#[derive(Debug)]
pub(crate) struct World<'a> {
    config: &'a Coherence,
    directories: Vec<Handle>,
    /// Directory by directory.
    files: Vec<Handle>,
    clock: Clock,
    /// The next version.
    versions: AtomicU64,
    /// Calls that are left.
    left: AtomicU64,
    counts: Counts,
    fileids: Fileids,
    /// What every call is marked with: the run, and a number of its own.
    machine: String,
    stamps: &'a AtomicU32,
    until: u64,
    stop: &'a AtomicBool,
}

/// What becomes of calls; see [`Done`].
#[derive(Debug, Default)]
struct Counts {
    silent: AtomicU64,
    failed: AtomicU64,
    strange: OnceLock<(&'static str, u32)>,
    resent: AtomicU64,
    elsewhere: AtomicU64,
    late: AtomicU64,
    mixed: AtomicU64,
}

/// The fileids of objects, by their handles: attributes with another one are another object's.
///
/// A LOOKUP that looks twice, for attributes and for a handle, may find one object's of the one and
/// another's of the other when a name changes in between (docs/consistency.md).
#[derive(Debug, Default)]
struct Fileids(Mutex<HashMap<u64, u64>>);

impl Fileids {
    /// Attributes with this fileid, in a reply that tells this object, are its own.
    fn own(&self, object: u64, fileid: u64, reply: &Reply<'_>) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match reply {
            Reply::Lookup(_) => return known.get(&object).is_none_or(|known| *known == fileid),
            Reply::Create(_) => drop(known.entry(object).or_insert(fileid)),
            // What is asked for by its handle is sure.
            _ => drop(known.insert(object, fileid)),
        }
        true
    }
}

/// Runs it; `stop` ends it early, with everything removed. `watch` is told what is done, how much, of how much (0: nobody knows).
pub fn run(config: &Coherence, stop: &AtomicBool, watch: &mut dyn FnMut(&str, usize, usize)) -> Result<Done, RunError> {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let id = format!("{:010x}", mix(started.as_nanos() as u64 ^ u64::from(std::process::id()) << 40) & 0xff_ffff_ffff);
    let shared = Run {
        template: Template::new(&format!("midas-bench-{id}"), config.gid),
        id,
        stamps: AtomicU32::new(0),
        uid: config.uid,
        gid: config.gid,
        patience: config.timeout,
    };
    let writer = Writer::create(&config.history).map_err(|error| RunError::File(config.history.clone(), error))?;
    let first = &config.targets[0];
    let mut names = Config::new(first.clone(), Load::Op(Action::Getattr), Pace::Closed { depth: 1 });
    names.shape = Shape { directories: config.directories, files: config.files };
    let site = Site::open(first, &shared, &names, stop, watch)?;
    let result = calls(config, (&site, &shared), stop, &writer, watch);
    // Before anything else is asked of the servers: what was seen is not lost because they answer no more.
    let written = writer.close().map_err(|error| RunError::File(config.history.clone(), error));
    let removed = if config.keep { Ok(()) } else { site.remove(watch) };
    let left_behind =
        removed.err().map(|what| format!("{}: clean-up: {what}; {} is left behind", first.name, shared.directory()));
    Ok(Done { calls: written?, left_behind, ..result? })
}

fn calls(
    config: &Coherence,
    (site, run): (&Site<'_>, &Run),
    stop: &AtomicBool,
    writer: &Writer,
    watch: &mut dyn FnMut(&str, usize, usize),
) -> Result<Done, RunError> {
    let clock = Clock::new();
    let start = clock.now();
    let world = World {
        config,
        directories: site.tree.directories.clone(),
        files: site.tree.files.clone(),
        clock,
        versions: AtomicU64::new(1),
        left: AtomicU64::new(config.calls),
        counts: Counts::default(),
        fileids: Fileids::default(),
        machine: run.directory(),
        stamps: &run.stamps,
        until: start.saturating_add(span(config.duration)),
        stop,
    };
    let addresses =
        config.targets.iter().map(|target| target.nfs().map_err(|what| RunError::target(&target.name, what)));
    let addresses = addresses.collect::<Result<Vec<SocketAddr>, RunError>>()?;
    write_beginning(&world, writer);
    std::thread::scope(|scope| {
        let (world, addresses) = (&world, &addresses);
        let actor = move |number: u32| Actor::new(world, number, addresses, writer.scribe());
        let threads: Vec<_> = (0..config.clients).map(|number| scope.spawn(move || actor(number).run())).collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            let done = config.calls - world.left.load(Ordering::Relaxed);
            watch("calls", done as usize, if config.calls == u64::MAX { 0 } else { config.calls as usize });
            std::thread::sleep(TELL);
        }
    });
    match stop.load(Ordering::Relaxed) {
        true => Err(RunError::Interrupted),
        false => {
            let Counts { silent, failed, strange, resent, elsewhere, late, mixed } = world.counts;
            let [silent, failed, resent, elsewhere, late, mixed] =
                [silent, failed, resent, elsewhere, late, mixed].map(AtomicU64::into_inner);
            let took = Duration::from_nanos(clock.now() - start);
            let left_behind = None;
            Ok(Done {
                calls: 0,
                left_behind,
                silent,
                failed,
                strange: strange.into_inner(),
                resent,
                elsewhere,
                late,
                mixed,
                took,
            })
        }
    }
}

/// What is there before the first call is in the history as the calls that made it.
fn write_beginning(world: &World<'_>, writer: &Writer) {
    let (mut scribe, now) = (writer.scribe(), world.clock.now());
    for (number, handle) in world.files.iter().enumerate() {
        let (dir, file) = (number as u32 / world.config.files, number as u32 % world.config.files);
        let mut record = Record::new(Kind::CreateNew);
        record.at = Some(Place { dir, name: Some(Name { letter: Name::STAYS, number: file }) });
        (record.start, record.end, record.status, record.found) = (now, now, status::OK, identity(handle.bytes()));
        scribe.add(&record);
    }
}

/// A thread each.
const CLIENTS: u32 = 1024;
/// How often progress is told.
const TELL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use midas_nfs::nfs3::{Failed, Nfsstat3, WccData};

    #[test]
    fn attributes_of_another_object_are_known_by_their_fileid() {
        let fileids = Fileids::default();
        let lookup = Reply::Lookup(Err(Failed { status: Nfsstat3::OK, attributes: None }));
        let create = Reply::Create(Err(Failed { status: Nfsstat3::OK, attributes: WccData::default() }));
        let getattr = Reply::Getattr(Err(Failed { status: Nfsstat3::OK, attributes: () }));
        let told = [(&lookup, 5), (&create, 6), (&lookup, 6), (&lookup, 5), (&getattr, 5), (&lookup, 5), (&lookup, 6)];
        let own = told.map(|(reply, fileid)| fileids.own(1, fileid, reply));
        assert_eq!(own, [true, true, true, false, true, true, false]);
    }
}
