//! What the servers of a pool say of themselves and of each other: whether they answer, whether they are one file system, how soon
//! one sees what was changed through another.
//!
//! Blocking, one call at a time, bounded by `Asking::patience`. Facts alone: what is to be done about them is said by whoever asked.
//! Writes only where it was told to, and takes back all that it wrote, whichever way it ends.

mod cookies;
mod crew;
mod greet;
mod listing;
mod moving;
mod parity;
mod seen;
mod staleness;
mod trial;

pub use cookies::Cookies;
pub use greet::{Greeting, Service, greet, mount_port};
pub use moving::{Cost, Moving};
pub use parity::Parity;
pub use seen::{Object, Ports, RootUser, Seen};
pub use staleness::{Pair, Staleness};
pub use trial::Trial;

use crate::config::Server;
use crew::Crew;
use midas_net::ClientError;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How servers are asked.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    /// For each answer.
    pub patience: Duration,
    /// Whether a scratch directory may be made, used and removed.
    pub write: bool,
    /// Ends it as soon as it may: what was made is removed first.
    pub stop: &'a AtomicBool,
}

impl Asking<'_> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Why a server did not say what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nobody is there, or nobody answers.
    Silent(String),
    /// It answered, and refused.
    Refused(String),
}

impl Trouble {
    fn interrupted() -> Self {
        Self::Silent("interrupted".to_owned())
    }

    fn of(what: &str, error: &ClientError) -> Self {
        match error {
            ClientError::Io(error) => Self::Silent(format!("{what}: {error}")),
            ClientError::TooLong(_) | ClientError::Malformed(_) | ClientError::Refused(_) | ClientError::Status(_) => {
                Self::Refused(format!("{what}: {error}"))
            }
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent(text) | Self::Refused(text) => f.write_str(text),
        }
    }
}

/// What a pool's servers say of one export. Servers are numbered in the order in which they were given.
#[derive(Debug)]
pub struct Survey {
    /// Server by server.
    pub seen: Vec<Result<Seen, Trouble>>,
    /// Who belongs together, of those that were seen.
    pub parity: Parity,
    /// Whether a listing may go on at another server.
    pub cookies: Cookies,
    /// What writing showed; none if it was not asked for.
    pub trial: Option<Result<Trial, Trouble>>,
    /// What could not be removed.
    pub left_behind: Option<String>,
}

/// Asks all servers about the export that they call `source`.
pub fn survey(servers: &[Server], source: &str, asking: &Asking<'_>) -> Survey {
    let seen = all(servers, |server| seen::look(server, source, asking));
    let parity = parity::judge(servers, &seen, asking);
    let mut crew = Crew::of(servers, &seen, &parity.members, asking);
    let trial = asking.write.then(|| trial::run(&mut crew));
    let cookies = match &trial {
        Some(Ok((_, cookies))) => cookies.clone(),
        Some(Err(_)) | None => cookies::judge(&mut crew, &parity.directories),
    };
    let left_behind = crew.undo().err();
    Survey { seen, parity, cookies, trial: trial.map(|trial| trial.map(|(trial, _)| trial)), left_behind }
}

/// Asks every server at once, so that one that hangs delays no other. At most `AT_ONCE` at a time.
pub fn all<S: Sync, T: Send>(servers: &[S], ask: impl Fn(&S) -> T + Sync) -> Vec<T> {
    let ask = &ask;
    let mut answers = Vec::with_capacity(servers.len());
    for some in servers.chunks(AT_ONCE) {
        thread::scope(|scope| {
            let asked: Vec<_> = some.iter().map(|server| scope.spawn(move || ask(server))).collect();
            answers.extend(asked.into_iter().map(|thread| thread.join().expect("asking does not panic")));
        });
    }
    answers
}

/// Threads that ask.
const AT_ONCE: usize = 64;
