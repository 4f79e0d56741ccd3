//! A parallel job starts: every client looks for every library along the search path, with one call in flight, until it has found
//! it. Measured is the time until the last client has found its last library.
//!
//! Unlike a slice it has no length: it ends when its work is done. Names are made before the clock runs, at a server of their own
//! where one is named: a cache that saw them made would know them already.

use crate::config::Config;
use crate::error::RunError;
use crate::lane::open;
use crate::site::{Run, Site};
use crate::target::Target;
use crate::tree::{Handle, Name, Shape};
use crate::wire::Mark;
use midas_net::{Buffers, Connection, Go, Scratch, Source, dial};
use midas_nfs::nfs3::{Call, DirOp, Nfsstat3, Procedure, Reply};
use midas_nfs::rpc;
use midas_workload::{Look, walk};
use mio::{Events, Interest, Poll, Token};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A job and where it starts.
#[derive(Clone, Debug)]
pub struct Start {
    /// The servers that clients are spread over evenly.
    pub targets: Vec<Target>,
    /// Where names are made; none: at the first of the targets.
    pub prepare: Option<Target>,
    /// How many clients, each with a connection of its own.
    pub clients: u32,
    /// How many libraries each looks for.
    pub libraries: u32,
    /// Directories along the search path.
    pub path: u32,
    /// A call without an answer for so long ends the run.
    pub timeout: Duration,
    /// Leave the names behind.
    pub keep: bool,
}

/// What was seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Started {
    /// Clients that started.
    pub clients: u32,
    /// LOOKUPs of all clients.
    pub calls: u64,
    /// Those of names that are not there.
    pub missing: u64,
    /// Distinct names that were looked up.
    pub names: u64,
    /// From the first call to the last answer.
    pub seconds: f64,
    /// Why the run's directory is still there, if it should not be.
    pub left_behind: Option<String>,
}

impl Start {
    /// Runs it; `stop` ends it early.
    pub fn run(&self, stop: &AtomicBool) -> Result<Started, RunError> {
        let first = self.prepare.as_ref().unwrap_or(&self.targets[0]);
        let config = self.config(first, self.libraries);
        let bare = self.config(first, 0);
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let (run, _) = Run::new(&config, began);
        let silent: &mut dyn FnMut(&str, usize, usize) = &mut |_, _, _| {};
        let made = Site::open(first, &run, &config, stop, silent)?;
        let result = self.search(&run, &bare, stop);
        // What was seen is not lost because the servers answer no more.
        let removed = if self.keep { Ok(()) } else { made.remove(silent) };
        let left_behind =
            removed.err().map(|what| format!("{}: clean-up: {what}; {} is left behind", first.name, run.directory()));
        result.map(|started| Started { left_behind, ..started })
    }

    fn config(&self, target: &Target, files: u32) -> Config {
        let load = crate::config::Load::Op(crate::action::Action::Lookup);
        let mut config = Config::new(target.clone(), load, crate::config::Pace::Closed { depth: 1 });
        config.shape = Shape { directories: self.path, files };
        (config.connections, config.timeout) = (self.clients, self.timeout);
        config
    }

    /// Finds the search path at every target, then lets all clients go.
    fn search(&self, run: &Run, bare: &Config, stop: &AtomicBool) -> Result<Started, RunError> {
        let silent: &mut dyn FnMut(&str, usize, usize) = &mut |_, _, _| {};
        let mut sites = Vec::new();
        for target in &self.targets {
            sites.push(Site::open(target, run, bare, stop, silent)?);
        }
        let clients = (0..self.clients as usize)
            .map(|number| self.client(&sites[number % sites.len()]))
            .collect::<Result<Vec<_>, RunError>>()?;
        Job { start: self, run, clients, searching: 0, buffers: Buffers::new() }.go(stop)
    }

    fn client<'s>(&self, site: &'s Site<'_>) -> Result<Client<'s, impl Iterator<Item = Look> + use<>>, RunError> {
        let failed = |error: std::io::Error| RunError::target(&site.target.name, error);
        let socket = dial(site.address, Source::Any, self.timeout).map_err(failed)?;
        socket.set_nonblocking(true)?;
        let connection = open(mio::net::TcpStream::from_std(socket))?;
        let looks = walk(self.libraries, self.path);
        Ok(Client { target: &site.target.name, path: &site.tree.directories, connection, looks, now: None, xid: 0 })
    }
}

/// One client in the middle of its search.
struct Client<'s, L> {
    target: &'s str,
    path: &'s [Handle],
    connection: Connection,
    looks: L,
    /// What it looks for now.
    now: Option<Look>,
    xid: u32,
}

struct Job<'s, L> {
    start: &'s Start,
    run: &'s Run,
    clients: Vec<Client<'s, L>>,
    /// Clients that are not done.
    searching: usize,
    buffers: Buffers,
}

impl<L: Iterator<Item = Look>> Job<'_, L> {
    fn go(mut self, stop: &AtomicBool) -> Result<Started, RunError> {
        let (mut poll, mut events, mut scratch) = (Poll::new()?, Events::with_capacity(EVENTS), Scratch::new());
        self.searching = self.clients.len();
        for (number, client) in self.clients.iter_mut().enumerate() {
            poll.registry().register(client.connection.socket(), Token(number), Interest::READABLE)?;
        }
        let began = Instant::now();
        for number in 0..self.clients.len() {
            self.next(number)?;
        }
        let mut heard = Instant::now();
        while self.searching > 0 {
            poll.poll(&mut events, Some(WATCH)).or_else(|error| match error.kind() {
                std::io::ErrorKind::Interrupted => Ok(()),
                _ => Err(error),
            })?;
            match (stop.load(Ordering::Relaxed), events.is_empty()) {
                (true, _) => return Err(RunError::Interrupted),
                (false, false) => heard = Instant::now(),
                (false, true) if heard.elapsed() > self.start.timeout => {
                    return Err(RunError::target(&self.start.targets[0].name, "no answer in time"));
                }
                (false, true) => {}
            }
            for event in &events {
                self.receive(event.token().0, &mut scratch)?;
            }
        }
        Ok(self.start.seen(began.elapsed()))
    }

    /// Sends a client's next call, if it has one.
    fn next(&mut self, number: usize) -> Result<(), RunError> {
        let client = &mut self.clients[number];
        client.now = client.looks.next();
        let Some(look) = client.now else {
            self.searching -= 1;
            return Ok(());
        };
        client.xid = client.xid.wrapping_add(1);
        let name = match look.missing {
            true => Name::Made { letter: b'm', slice: 0, maker: look.entry, count: look.library },
            false => Name::File(look.library),
        }
        .text();
        let what = DirOp { dir: client.path[look.entry as usize].borrow(), name: name.bytes() };
        let mark = Mark { xid: client.xid, stamp: number as u32, uid: self.run.uid };
        self.run.template.put(client.connection.output(&mut self.buffers), mark, &Call::Lookup { what });
        let flushed = client.connection.flush(&mut self.buffers);
        flushed.map(drop).map_err(|ended| RunError::target(client.target, ended))
    }

    fn receive(&mut self, number: usize, scratch: &mut Scratch) -> Result<(), RunError> {
        let client = &mut self.clients[number];
        let (xid, look, mut answer) = (client.xid, client.now, None);
        client.connection.output(&mut self.buffers);
        let received = client.connection.receive(scratch, |record, _| {
            answer = Some(understood(record, xid));
            Go::Continue(())
        });
        received.map_err(|ended| RunError::target(client.target, ended))?;
        match (answer, look) {
            (None, _) => Ok(()),
            (Some(Some(Nfsstat3::OK)), Some(Look { missing: false, .. }))
            | (Some(Some(Nfsstat3::NOENT)), Some(Look { missing: true, .. })) => self.next(number),
            (Some(answer), look) => {
                Err(RunError::target(client.target, format!("{answer:?} is no answer to {look:?}")))
            }
        }
    }
}

impl Start {
    fn seen(&self, took: Duration) -> Started {
        let looks = walk(self.libraries, self.path);
        let names = looks.clone().count() as u64;
        let missing = looks.filter(|look| look.missing).count() as u64;
        let all = u64::from(self.clients);
        Started {
            clients: self.clients,
            calls: all * names,
            missing: all * missing,
            names,
            seconds: took.as_secs_f64(),
            left_behind: None,
        }
    }
}

/// The status of the answer to this call.
fn understood(record: &[u8], xid: u32) -> Option<Nfsstat3> {
    let reply = rpc::Reply::decode(record).ok().filter(|reply| reply.xid == xid)?;
    Some(Reply::decode(Procedure::Lookup, reply.results.ok()?).ok()?.status())
}

const EVENTS: usize = 1024;
/// How often someone who waits may end it.
const WATCH: Duration = Duration::from_millis(100);
