//! How a line comes to be: accepted or dialled, greeted, proven.

use super::{Driver, FIRST};
use crate::greeting::{Greeting, common, letter};
use crate::line::{Incoming, Line, Stage};
use crate::peer::Heard;
use crate::refusal::Refusal;
use crate::session::{Kind, Open, Seal};
use crate::settings::{Above, Unequal};
use crate::views::Told;
use mio::net::TcpStream;
use mio::{Interest, Token};
use rustix::net::sockopt;
use std::io::{self, ErrorKind};
use std::time::Instant;

impl<A: Above> Driver<A> {
    pub(super) fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => {
                    self.make_room();
                    // Whoever cannot be registered is dropped, and comes again if it is a member.
                    let _key = self.open(socket, Stage::Stranger, Instant::now());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// The oldest stranger goes: a member shows itself within one round trip, whoever waits longer is none.
    fn make_room(&mut self) {
        let strangers = self.keys(Line::strange);
        if strangers.len() >= STRANGERS_MAX
            && let Some(oldest) = strangers.into_iter().min_by_key(|key| self.lines[*key].since)
        {
            self.refused.count(Refusal::Crowd);
            self.close(oldest);
        }
    }

    fn open(&mut self, socket: TcpStream, stage: Stage, now: Instant) -> io::Result<usize> {
        socket.set_nodelay(true)?;
        // What nobody takes for so long is lost: the path is cut, though neither end may ever be told.
        sockopt::set_tcp_user_timeout(&socket, USER_TIMEOUTS * self.settings.suspect_after.as_millis() as u32)?;
        let entry = self.lines.vacant_entry();
        let key = entry.key();
        let line = entry.insert(Line::new(socket, stage, now));
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(&mut line.socket, Token(FIRST + key), interest) {
            self.lines.remove(key);
            return Err(error);
        }
        Ok(key)
    }

    /// Begins a connection to a member; its greeting leaves as soon as it stands.
    pub(super) fn dial(&mut self, index: u8, now: Instant) {
        let address = self.settings.members[usize::from(index)].address;
        let dialled = TcpStream::connect(address).and_then(|socket| {
            let asked = self.greeting(index)?.ask(&self.settings.key);
            let bytes = asked.0.clone();
            let key = self.open(socket, Stage::Dialling(index, asked), now)?;
            self.lines[key].output().extend(bytes);
            Ok(key)
        });
        let Some(peer) = &mut self.peers[usize::from(index)] else { return };
        peer.dial_at = now + self.settings.heartbeat;
        peer.out = dialled.ok();
    }

    /// The greeting of a stranger.
    pub(super) fn welcome(&mut self, key: usize, bytes: &[u8]) -> Result<usize, Refusal> {
        let Some(asked) = letter(bytes)? else { return Ok(0) };
        let greeting = asked.open(&self.settings.key, &self.settings.name, None)?;
        let peer = self.settings.members.iter().position(|member| member.name == greeting.from);
        let peer = peer.map(|peer| peer as u8).filter(|peer| *peer != self.me && greeting.to == self.settings.me);
        let peer = peer.ok_or(Refusal::Member)?;
        let version = self.common(peer, &greeting)?;
        let answer = self.greeting(peer).map_err(|_| Refusal::Late)?.answer(&self.settings.key, &asked);
        let open = Open::new(asked.keys(&self.settings.key, &answer));
        let line = &mut self.lines[key];
        line.output().extend(&answer.0);
        let (incarnation, software) = (greeting.incarnation, greeting.software);
        line.stage = Stage::Answered(Incoming { peer, incarnation, version, software, open });
        self.touched.push(key);
        Ok(asked.len())
    }

    /// A member whom we dialled answers.
    pub(super) fn answered(&mut self, key: usize, bytes: &[u8]) -> Result<usize, Refusal> {
        let Some(answer) = letter(bytes)? else { return Ok(0) };
        let Stage::Dialling(index, asked) = &self.lines[key].stage else { return Err(Refusal::Garbage) };
        let index = *index;
        let greeting = answer.open(&self.settings.key, &self.settings.name, Some(asked))?;
        let named = greeting.from == self.settings.members[usize::from(index)].name && greeting.to == self.settings.me;
        if !named {
            return Err(Refusal::Member);
        }
        let version = self.common(index, &greeting)?;
        let Stage::Dialling(_, asked) = &self.lines[key].stage else { return Err(Refusal::Garbage) };
        let seal = Seal::new(asked.keys(&self.settings.key, &answer));
        self.lines[key].stage = Stage::Sending(index, seal);
        let Some(peer) = &mut self.peers[usize::from(index)] else { return Err(Refusal::Member) };
        peer.reached = Some((greeting.incarnation, version));
        // The life that we knew is over, and so is what it sends.
        let over = peer.heard.as_ref().is_some_and(|heard| heard.incarnation != greeting.incarnation);
        if let Some(old) = peer.back.filter(|_| over) {
            self.close(old);
        }
        let pulse = self.pulse(index, Instant::now());
        self.send(index, Kind::Pulse, &pulse.bytes());
        self.views.tell(Told::Reconnected(index));
        self.relink(index);
        Ok(answer.len())
    }

    /// The version that a member and this one speak. One that speaks none of ours is told of, once.
    fn common(&mut self, index: u8, greeting: &Greeting) -> Result<u16, Refusal> {
        let version = common(&self.settings.versions, &greeting.versions);
        let theirs = Unequal { versions: greeting.versions.clone(), software: greeting.software.clone() };
        let unequal = version.is_err().then_some(theirs);
        let Some(peer) = &mut self.peers[usize::from(index)] else { return version };
        if peer.unequal != unequal {
            peer.unequal.clone_from(&unequal);
            if let Some(unequal) = &unequal {
                self.above.unequal(index, unequal);
            }
        }
        version
    }

    /// A frame came under the session's keys: the greeting was not an old one.
    pub(super) fn proven(&mut self, key: usize) {
        let now = Instant::now();
        let stage = std::mem::replace(&mut self.lines[key].stage, Stage::Stranger);
        let Stage::Answered(incoming) = stage else { unreachable!("only what was answered is proven") };
        let (index, incarnation, version) = (incoming.peer, incoming.incarnation, incoming.version);
        let software = incoming.software.clone();
        self.lines[key].stage = Stage::Receiving(incoming);
        // What was on its way on another line may be lost: whoever is above is told that the link was down.
        let before = self.peers[usize::from(index)].as_mut().and_then(|peer| peer.back.take());
        if let Some(old) = before {
            self.close(old);
        }
        let Some(peer) = &mut self.peers[usize::from(index)] else { return };
        peer.back = Some(key);
        match &mut peer.heard {
            Some(heard) if heard.incarnation == incarnation => heard.version = version,
            heard => {
                *heard = Some(Heard { incarnation, version, software, at: now, pulse: None, pulse_at: now });
            }
        }
        // We send to a life that is over.
        let over = peer.out.filter(|_| peer.reached.is_some_and(|(reached, _)| reached != incarnation));
        if let Some(old) = over {
            self.close(old);
        }
        if over.is_some() || self.peers[usize::from(index)].as_ref().is_some_and(|peer| peer.out.is_none()) {
            self.dial(index, now);
        }
        self.views.tell(Told::Reconnected(index));
        self.relink(index);
    }
}

/// A member that is busy for `suspect_after` and reads nothing is suspected, not cut off: what is on its way would be lost.
const USER_TIMEOUTS: u32 = 3;
/// Connections at once that have not shown that a member is at their other end.
const STRANGERS_MAX: usize = 32;
