//! Which view holds: a thread of its own, so that a slow disk delays votes and nothing else.
//!
//! It drives the consensus, keeps its log before anything follows from it, and while this member leads it proposes the view that
//! [`choice`] finds better. It knows the other members only by what the cluster's thread tells it.

mod choice;
mod consensus;
mod log;

#[cfg(test)]
mod tests;

pub(crate) use choice::Report;

use crate::post::{Order, Post};
use crate::session::Kind;
use crate::settings::Settings;
use choice::Choice;
use consensus::{Consensus, Outcome, TICKS_ELECTION};
use log::{Log, Owner};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What the thread is told.
pub(crate) enum Told {
    /// A voter's message.
    Message(u8, Vec<u8>),
    /// The way to a voter or back was broken, and works again.
    Reconnected(u8),
    /// What members say of themselves, this one included; none of whom was silent for `suspect_after`.
    Reports(Vec<Option<Report>>),
}

/// The thread; it ends when this is dropped.
pub(crate) struct Views {
    told: Option<SyncSender<Told>>,
    thread: Option<JoinHandle<()>>,
}

impl Views {
    /// Starts with what the state directory remembers. Another process with the same directory would be the same voter twice: an error.
    pub(crate) fn start(settings: &Settings, me: u8, post: &Arc<Post>) -> io::Result<Self> {
        let mut voter = Voter::new(settings, me, Arc::clone(post))?;
        let (told, received) = sync_channel(TOLD_MAX);
        let run = move || voter.run(&received);
        let thread = thread::Builder::new().name("views".to_owned()).spawn(run)?;
        Ok(Self { told: Some(told), thread: Some(thread) })
    }

    /// Tells it; what it cannot take is lost, as on a network.
    pub(crate) fn tell(&self, told: Told) {
        if let Some(sender) = &self.told {
            let _full = sender.try_send(told);
        }
    }
}

impl Drop for Views {
    fn drop(&mut self) {
        drop(self.told.take());
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

struct Voter {
    consensus: Consensus,
    choice: Choice,
    reports: Vec<Option<Report>>,
    file: PathBuf,
    owner: Owner,
    post: Arc<Post>,
    led: (Option<u8>, u64),
    tick: Duration,
    _lock: File,
}

impl Voter {
    fn new(settings: &Settings, me: u8, post: Arc<Post>) -> io::Result<Self> {
        fs::create_dir_all(&settings.state_dir)?;
        let lock = lock(&settings.state_dir.join("cluster.lock"))?;
        let file = settings.state_dir.join("cluster.views");
        let members = settings.members.iter().map(|member| member.name.clone()).collect();
        let owner = Owner { cluster: settings.name.clone(), me: settings.me.clone(), members };
        let log = Log::load(&file, &owner)?;
        // The last view of the life before is told first; entries behind it come through the consensus.
        if log.base().1.epoch > 0 {
            post.give(Order::View(log.base().1.clone()));
        }
        let consensus = Consensus::new(me, settings.members.len(), log)?;
        let choice = Choice::new(Instant::now(), settings.suspect_after);
        let tick = settings.suspect_after / TICKS_SUSPECT;
        let reports = vec![None; settings.members.len()];
        Ok(Self { consensus, choice, reports, file, owner, post, led: (None, 0), tick, _lock: lock })
    }

    fn run(&mut self, received: &Receiver<Told>) {
        let mut next = Instant::now();
        loop {
            match received.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(told) => self.take(told),
                Err(RecvTimeoutError::Timeout) => {
                    next = Instant::now() + self.tick;
                    self.consensus.tick();
                    self.improve();
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if let Err(error) = self.settle() {
                let said = format!("the log of views cannot be kept: {}: {error}", self.file.display());
                return self.post.give(Order::Failed(said));
            }
        }
    }

    fn take(&mut self, told: Told) {
        match told {
            Told::Message(from, bytes) => {
                // Signed by a member, so at worst of a version that we do not know: the protocol bears its loss.
                let _understood = self.consensus.handle(from, &bytes);
            }
            Told::Reconnected(peer) => self.consensus.reconnected(peer),
            Told::Reports(reports) => self.reports = reports,
        }
    }

    fn improve(&mut self) {
        if self.consensus.may_propose()
            && let Some(members) = self.choice.better(Instant::now(), self.consensus.latest(), &self.reports)
        {
            self.consensus.propose(members);
        }
    }

    /// Keeps, then tells and sends.
    fn settle(&mut self) -> io::Result<()> {
        let Outcome { views, messages } = self.consensus.settle();
        self.consensus.log().save(&self.file, &self.owner)?;
        for view in views {
            self.choice.learned(Instant::now());
            self.post.give(Order::View(view));
        }
        for (to, bytes) in messages {
            self.post.give(Order::Frame(to, Kind::Vote, bytes));
        }
        let led = (self.consensus.leader(), self.consensus.term());
        if led != self.led {
            self.led = led;
            self.post.give(Order::Leader(led.0, led.1));
        }
        Ok(())
    }
}

fn lock(path: &Path) -> io::Result<File> {
    let file = File::create(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let said = format!("{}: another daemon with this state directory runs", path.display());
            Err(io::Error::new(ErrorKind::AddrInUse, said))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Messages that wait for the thread.
const TOLD_MAX: usize = 1024;
/// Ticks in `suspect_after`: an election takes one to two of [`TICKS_ELECTION`], so that a leader is found before a member is suspected.
const TICKS_SUSPECT: u32 = 6 * TICKS_ELECTION as u32;
