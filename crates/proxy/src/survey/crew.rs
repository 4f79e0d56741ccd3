//! Connections to the servers that belong together, and a journal of all that was made through them.
//!
//! Everything is written down before it is made and crossed out when it is gone, so that nothing is left behind: not after an error, not
//! after an interruption, not when the server through which it was made has died.

use super::seen::{Seen, getattr, handle, lookup};
use super::{Asking, Trouble};
use crate::config::Server;
use midas_net::{Caller, Client, ClientError};
use midas_nfs::nfs3::{Call, CreateHow, DirOp, Fattr3, Nfsstat3, Reply, Sattr3};
use std::thread;
use std::time::Duration;

/// Servers are called by their place in the crew here.
pub(super) struct Crew<'a> {
    hands: Vec<Hand<'a>>,
    made: Vec<Made>,
    asking: &'a Asking<'a>,
}

struct Hand<'a> {
    number: usize,
    server: &'a Server,
    root: Vec<u8>,
    writer: Option<Caller>,
    client: Client,
    /// Whether it stopped answering: then it is not waited for again.
    lost: bool,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File,
}

struct Made {
    hand: usize,
    dir: Vec<u8>,
    name: Vec<u8>,
    kind: Kind,
}

impl<'a> Crew<'a> {
    /// Connects to these servers; those that do not answer any more are left out.
    pub(super) fn of(
        servers: &'a [Server],
        seen: &[Result<Seen, Trouble>],
        members: &[usize],
        asking: &'a Asking<'a>,
    ) -> Self {
        let hands = members.iter().take(HANDS_MAX).filter_map(|&number| {
            let (server, seen) = (&servers[number], seen[number].as_ref().ok()?);
            let caller = seen.writer.clone().unwrap_or(Caller::ROOT);
            let client = Client::connect(server.address, &caller, asking.patience).ok()?;
            Some(Hand {
                number,
                server,
                root: seen.root.handle.clone(),
                writer: seen.writer.clone(),
                client,
                lost: false,
            })
        });
        Self { hands: hands.collect(), made: Vec::new(), asking }
    }

    pub(super) fn len(&self) -> usize {
        self.hands.len()
    }

    /// The number by which whoever asked knows this server.
    pub(super) fn server(&self, hand: usize) -> usize {
        self.hands[hand].number
    }

    pub(super) fn client(&mut self, hand: usize) -> &mut Client {
        &mut self.hands[hand].client
    }

    /// Those through which the root may be changed.
    pub(super) fn writers(&self) -> Vec<usize> {
        (0..self.hands.len()).filter(|hand| self.hands[*hand].writer.is_some()).collect()
    }

    /// On whose behalf this one is used.
    pub(super) fn uid(&self, hand: usize) -> u32 {
        self.hands[hand].writer.as_ref().map_or(0, |caller| caller.uid)
    }

    pub(super) fn root(&self, hand: usize) -> Vec<u8> {
        self.hands[hand].root.clone()
    }

    pub(super) fn stopped(&self) -> bool {
        self.asking.stopped()
    }

    /// Makes a new name; it is removed at the end.
    pub(super) fn make(
        &mut self,
        hand: usize,
        dir: &[u8],
        name: &[u8],
        kind: Kind,
    ) -> Result<(Vec<u8>, Fattr3), ClientError> {
        self.made.push(Made { hand, dir: dir.to_vec(), name: name.to_vec(), kind });
        let made = made(&mut self.hands[hand].client, dir, name, kind);
        if let Err(ClientError::Status(_) | ClientError::Refused(_)) = made {
            // The server says that it made nothing: whoever has this name, it is not ours to remove.
            self.made.pop();
        }
        made
    }

    /// Removes a file that was made, before the end.
    pub(super) fn remove(&mut self, hand: usize, dir: &[u8], name: &[u8]) -> Result<(), ClientError> {
        removed(&mut self.hands[hand].client, dir, name, Kind::File)?;
        self.made.retain(|made| made.dir != dir || made.name != name);
        Ok(())
    }

    /// Removes everything that was made, the last first; tells what could not be.
    pub(super) fn undo(&mut self) -> Result<(), String> {
        let mut left = Vec::new();
        while let Some(made) = self.made.pop() {
            if let Err(why) = self.unmake(&made) {
                left.push(format!("'{}' ({why})", made.name.escape_ascii()));
            }
        }
        // The scratch directory itself came first, so it is the last that is left.
        left.pop().map_or(Ok(()), Err)
    }

    /// Where it was made, it is known at once whether it is there; others may learn of it later.
    fn unmake(&mut self, made: &Made) -> Result<(), String> {
        let mut why = "nobody answers".to_owned();
        for _ in 0..TRIES {
            let others = (0..self.hands.len()).filter(|hand| *hand != made.hand);
            for hand in [made.hand].into_iter().chain(others) {
                match self.removed_by(hand, made) {
                    Some(Ok(())) => return Ok(()),
                    Some(Err(ClientError::Status(Nfsstat3::NOENT))) if hand == made.hand => return Ok(()),
                    Some(Err(error)) => why = error.to_string(),
                    None => {}
                }
            }
            if self.hands.iter().all(|hand| hand.lost) {
                break;
            }
            thread::sleep(RETRY);
        }
        match why == Nfsstat3::NOENT.to_string() {
            true => Ok(()),
            false => Err(why),
        }
    }

    /// None if this server does not answer; a broken connection is made once more.
    fn removed_by(&mut self, hand: usize, made: &Made) -> Option<Result<(), ClientError>> {
        let Hand { server, writer, client, lost, .. } = &mut self.hands[hand];
        let caller = writer.as_ref()?;
        if *lost {
            return None;
        }
        let first = removed(client, &made.dir, &made.name, made.kind);
        if !matches!(first, Err(ClientError::Io(_))) {
            return Some(first);
        }
        let again = Client::connect(server.address, caller, self.asking.patience).map(|fresh| *client = fresh);
        let again = again.map_err(ClientError::from).and_then(|()| removed(client, &made.dir, &made.name, made.kind));
        *lost = matches!(again, Err(ClientError::Io(_)));
        (!*lost).then_some(again)
    }
}

impl Drop for Crew<'_> {
    fn drop(&mut self) {
        // Whoever asked has called `undo` and heard of it; this is for panics.
        let _told = self.undo();
    }
}

fn made(client: &mut Client, dir: &[u8], name: &[u8], kind: Kind) -> Result<(Vec<u8>, Fattr3), ClientError> {
    let place = DirOp { dir: handle(dir)?, name };
    let call = match kind {
        Kind::Directory => Call::Mkdir { place, attributes: mode(DIRECTORY_MODE) },
        Kind::File => Call::Create { place, how: CreateHow::Guarded(mode(FILE_MODE)) },
    };
    let (object, attributes) = match client.nfs(&call)? {
        Reply::Mkdir(Ok(made)) | Reply::Create(Ok(made)) => {
            (made.object.map(|object| object.bytes().to_vec()), made.attributes)
        }
        failed => return Err(ClientError::Status(failed.status())),
    };
    // Both may be missing from the reply (RFC 1813, 3.3.8). It is there, whatever looking for it says.
    let lost = |error: ClientError| match error {
        ClientError::Status(status) => ClientError::Io(std::io::Error::other(status.to_string())),
        other => other,
    };
    match (object, attributes) {
        (Some(object), Some(attributes)) => Ok((object, attributes)),
        (Some(object), None) => {
            let attributes = getattr(client, &object).map_err(lost)?;
            Ok((object, attributes))
        }
        (None, _) => match lookup(client, dir, name).map_err(lost)? {
            Some((object, attributes)) => Ok((object.handle, attributes)),
            None => Err(lost(ClientError::Status(Nfsstat3::NOENT))),
        },
    }
}

fn removed(client: &mut Client, dir: &[u8], name: &[u8], kind: Kind) -> Result<(), ClientError> {
    let object = DirOp { dir: handle(dir)?, name };
    let call = match kind {
        Kind::Directory => Call::Rmdir { object },
        Kind::File => Call::Remove { object },
    };
    match client.nfs(&call)? {
        Reply::Remove(Ok(_)) | Reply::Rmdir(Ok(_)) => Ok(()),
        failed => Err(ClientError::Status(failed.status())),
    }
}

/// Attributes that set a mode.
pub(super) fn mode(mode: u32) -> Sattr3 {
    Sattr3 { mode: Some(mode), ..Sattr3::default() }
}

/// Servers that are compared with each other, which takes the square of their number in calls.
const HANDS_MAX: usize = 16;
/// Everyone may look, so that servers which take us for different users agree.
const DIRECTORY_MODE: u32 = 0o755;
pub(super) const FILE_MODE: u32 = 0o600;
/// How often, and how soon, a removal is tried again.
const TRIES: usize = 5;
const RETRY: Duration = Duration::from_millis(200);
