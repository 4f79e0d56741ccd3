//! One server's event loop: a thread that owns its sockets. One read and one write for a batch of calls.
//!
//! A client that sends more than it may have in flight, or that does not read its answers, is not read until it is ready again:
//! calls are delayed, never refused.

use super::dispatch::{Asker, Door, Finished, Origin, SMALL, Server, Taken};
use super::fault::Fault;
use midas_net::{Alarm, Budget, Buffers, Connection, Ended, Flow, Go, Reservation, Scratch, local_for};
use mio::event::Event;
use mio::net::{TcpListener, TcpStream, UdpSocket};
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// What a server is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Misbehave in this way from now on.
    Fault(Fault),
    /// Close every connection; new ones are welcome.
    Drop,
    /// Crash and start again: connections, queued calls and unstable data are lost, the write verifier is a new one.
    Restart,
    /// End.
    Stop,
}

/// A command, and where it is told that the server has obeyed.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) command: Command,
    pub(super) obeyed: Sender<()>,
}

/// The loop's own state; [`Loop::run`] returns when it was told to stop.
pub(super) struct Loop {
    server: Server,
    poll: Poll,
    listener: Option<TcpListener>,
    address: SocketAddr,
    _kept: Reservation,
    portmap: Option<(TcpListener, UdpSocket)>,
    commands: Receiver<Order>,
    alarm: Alarm,
    peers: Slab<Peer>,
    /// Who has which pair of addresses.
    connections: HashMap<Ends, Asker>,
    generation: u32,
    buffers: Buffers,
    scratch: Scratch,
    budget: Budget,
    bounds: Bounds,
    /// Peers that have more to be read, in turn.
    ready: Vec<Asker>,
    /// Peers that are not read for now: over a bound, or without room for their record.
    paused: Vec<Asker>,
    /// Whether somebody waits for room that others hold.
    starved: bool,
    /// A door could not be served to its end: out of descriptors, or too many at once.
    knocking: bool,
    /// When to look at the paused and the doors again, and when to look for those who stall.
    look_at: Instant,
    stall_at: Instant,
    /// Bytes of answers that are not sent yet or will come, over all peers.
    pending: usize,
    answer: Vec<u8>,
}

/// Both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ends {
    client: SocketAddr,
    local: SocketAddr,
}

/// What one server takes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Connections; further ones are closed at once.
    pub connections: usize,
    /// Bytes of a record.
    pub record: usize,
    /// Calls of one connection that wait for their answer.
    pub calls: usize,
    /// Bytes of answers that one connection has not read.
    pub unread: usize,
    /// Bytes of answers over all connections; past it, each may leave only a few unread.
    pub unread_all: usize,
    /// Bytes of unfinished records over all connections.
    pub unfinished: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 16_384,
            record: (1 << 20) + 4096,
            calls: 16_384,
            unread: 4 << 20,
            unread_all: 128 << 20,
            unfinished: 64 << 20,
        }
    }
}

#[expect(clippy::struct_excessive_bools, reason = "four independent facts")]
struct Peer {
    connection: Connection,
    origin: Origin,
    ends: Ends,
    waiting: usize,
    /// Bytes of answers that will come.
    expected: usize,
    /// What this peer adds to the loop's `pending`.
    counted: usize,
    paused: bool,
    queued: bool,
    /// The other side sends no more: what is left must be read to its end.
    read_closed: bool,
    /// All was read: it ends with its last answer.
    ending: bool,
    /// A part of an answer was sent: nothing comes after that, as from a server that died.
    cut: bool,
    heard: Instant,
}

impl Peer {
    fn pending(&self) -> usize {
        self.connection.unsent() + self.expected
    }
}

/// The sockets and channels of a loop.
pub(super) struct Doors {
    pub(super) poll: Poll,
    pub(super) listener: TcpListener,
    /// Keeps the listener's port while nobody listens.
    pub(super) kept: Reservation,
    pub(super) portmap: Option<(TcpListener, UdpSocket)>,
    pub(super) commands: Receiver<Order>,
}

impl Loop {
    /// Registers the doors; the waker tells the loop that a command is there.
    pub(super) fn new(mut doors: Doors, server: Server, bounds: Bounds) -> io::Result<(Self, Arc<Waker>)> {
        let registry = doors.poll.registry();
        registry.register(&mut doors.listener, LISTENER, Interest::READABLE)?;
        if let Some((tcp, udp)) = &mut doors.portmap {
            registry.register(tcp, PORTMAP, Interest::READABLE)?;
            registry.register(udp, PORTMAP_UDP, Interest::READABLE)?;
        }
        let alarm = Alarm::new(registry, ALARM)?;
        let waker = Arc::new(Waker::new(registry, WAKER)?);
        let address = doors.listener.local_addr()?;
        let event_loop = Self {
            server,
            poll: doors.poll,
            listener: Some(doors.listener),
            address,
            _kept: doors.kept,
            portmap: doors.portmap,
            commands: doors.commands,
            alarm,
            peers: Slab::new(),
            connections: HashMap::new(),
            generation: 0,
            buffers: Buffers::new(),
            scratch: Scratch::new(),
            budget: Budget::new(bounds.unfinished),
            bounds,
            ready: Vec::new(),
            paused: Vec::new(),
            starved: false,
            knocking: false,
            look_at: Instant::now(),
            stall_at: Instant::now(),
            pending: 0,
            answer: Vec::new(),
        };
        Ok((event_loop, waker))
    }

    /// Serves until told to stop.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        loop {
            let timeout = match (self.ready.is_empty(), self.paused.is_empty() && !self.knocking) {
                (false, _) => Some(Duration::ZERO),
                (true, false) => Some(LOOK_AGAIN),
                (true, true) => None,
            };
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            let now = Instant::now();
            let mut knocks = [None; 2];
            for event in &events {
                match event.token() {
                    LISTENER => knocks[0] = Some(Door::Nfs),
                    PORTMAP => knocks[1] = Some(Door::Portmap),
                    PORTMAP_UDP => self.datagrams(now),
                    ALARM => self.alarm.rang(),
                    WAKER => {
                        if self.obey(now)? {
                            return Ok(());
                        }
                    }
                    Token(slot) => self.ready_now(slot - FIRST, event),
                }
            }
            // After what is told of older connections: a new one may have the slot of one that it replaces.
            knocks.into_iter().flatten().for_each(|door| self.accept(now, door));
            self.serve(now);
            self.work(Instant::now());
            self.look_again(now);
            self.set_alarm(Instant::now())?;
        }
    }

    /// A socket can be read or written again, or is gone.
    fn ready_now(&mut self, slot: usize, event: &Event) {
        let Some(peer) = self.peers.get_mut(slot) else { return };
        if event.is_error() || event.is_read_closed() && event.is_write_closed() {
            self.end(slot);
            return;
        }
        if event.is_read_closed() {
            (peer.read_closed, peer.origin.closed) = (true, true);
        }
        if event.is_writable() && peer.connection.unsent() > 0 {
            self.flush(slot);
        }
        self.enqueue(slot);
    }

    fn enqueue(&mut self, slot: usize) {
        if let Some(peer) = self.peers.get_mut(slot).filter(|peer| !peer.queued && !peer.ending) {
            peer.queued = true;
            self.ready.push(peer.origin.asker);
        }
    }

    fn pause(&mut self, slot: usize) {
        if let Some(peer) = self.peers.get_mut(slot).filter(|peer| !peer.paused) {
            peer.paused = true;
            self.paused.push(peer.origin.asker);
        }
    }

    /// The slot of a peer that still is who it was.
    fn slot_of(&self, asker: Asker) -> Option<usize> {
        let peer = self.peers.get(asker.slot)?;
        (peer.origin.asker == asker).then_some(asker.slot)
    }

    /// Whether a peer must wait before it is read again.
    fn over(&self, peer: &Peer) -> bool {
        let unread = if self.pending < self.bounds.unread_all { self.bounds.unread } else { UNREAD_LEAST };
        peer.waiting >= self.bounds.calls || peer.pending() >= unread || self.server.station.full()
    }

    /// Every peer that has something gets one read.
    fn serve(&mut self, now: Instant) {
        for asker in std::mem::take(&mut self.ready) {
            let Some(slot) = self.slot_of(asker) else { continue };
            self.peers[slot].queued = false;
            if self.over(&self.peers[slot]) {
                self.pause(slot);
                continue;
            }
            match self.receive(now, slot) {
                Ok(Flow::Drained) if !self.peers[slot].read_closed => {}
                Ok(Flow::Drained | Flow::More) => self.enqueue(slot),
                Ok(Flow::Waiting) => {
                    self.starved = true;
                    self.pause(slot);
                    continue;
                }
                Err(Ended::Closed) => self.peers[slot].ending = true,
                Err(Ended::Failed(_) | Ended::TooLong(_)) => {
                    self.flush(slot);
                    self.end(slot);
                    continue;
                }
            }
            self.flush(slot);
        }
        if let Some(truth) = &self.server.truth {
            truth.queue(now, self.server.identity.server, self.server.station.len());
        }
    }

    fn receive(&mut self, now: Instant, slot: usize) -> Result<Flow, Ended> {
        let Self { server, peers, buffers, scratch, bounds, .. } = self;
        let Peer { connection, origin, waiting, expected, ending, cut, heard, .. } = &mut peers[slot];
        let mut displaced = Vec::new();
        connection.output(buffers);
        let flow = connection.receive(scratch, |record, out| {
            let before = out.len();
            match server.take(now, origin, record, out) {
                Taken::Answered | Taken::AnsweredTo(_) if *cut => out.truncate(before),
                Taken::Answered | Taken::AnsweredTo(_) => *cut = spoil(server.fault, out, before),
                Taken::Queued { expects } => {
                    *waiting += 1;
                    *expected += expects;
                }
                Taken::Joined { displaced: asker } => {
                    *waiting += 1;
                    *expected += SMALL;
                    displaced.push(asker);
                }
                Taken::Ignored => {}
            }
            *ending |= *cut;
            let more = out.len() + *expected < bounds.unread && *waiting < bounds.calls && !server.station.full();
            if more { Go::Continue(()) } else { Go::Break(()) }
        });
        if !matches!(flow, Ok(Flow::Waiting)) {
            *heard = now;
        }
        for asker in displaced {
            self.waited(asker, SMALL);
        }
        flow
    }

    /// A peer waits for one answer less.
    fn waited(&mut self, asker: Asker, expected: usize) -> Option<usize> {
        let slot = self.slot_of(asker)?;
        let peer = &mut self.peers[slot];
        peer.waiting = peer.waiting.saturating_sub(1);
        peer.expected = peer.expected.saturating_sub(expected);
        Some(slot)
    }

    /// Calls whose service is over are executed and answered.
    fn work(&mut self, now: Instant) {
        let hangs = self.server.hangs(now);
        self.server.station.stop(now, hangs);
        let mut changed = Vec::new();
        loop {
            self.answer.clear();
            let Some(Finished { to, expected }) = self.server.finish(now, &mut self.answer) else { break };
            if let Some(truth) = &self.server.truth {
                truth.queue(now, self.server.identity.server, self.server.station.len());
            }
            if let Some(slot) = self.waited(to, expected) {
                let peer = &mut self.peers[slot];
                if !peer.cut {
                    peer.cut = spoil(self.server.fault, &mut self.answer, 0);
                    peer.ending |= peer.cut;
                    peer.connection.output(&mut self.buffers).extend_from_slice(&self.answer);
                }
                changed.push(slot);
            }
        }
        changed.sort_unstable();
        changed.dedup();
        for slot in changed {
            self.flush(slot);
        }
    }

    /// Sends what there is; a peer that was over its bound may be read again, and one that has had its last answer ends.
    fn flush(&mut self, slot: usize) {
        let Some(peer) = self.peers.get_mut(slot) else { return };
        let sent = peer.connection.flush(&mut self.buffers);
        self.pending = self.pending - peer.counted + peer.pending();
        peer.counted = peer.pending();
        match sent {
            Ok(true) if peer.ending && (peer.waiting == 0 || peer.cut) => self.end(slot),
            Ok(_) => self.resume(slot),
            Err(_) => self.end(slot),
        }
    }

    fn resume(&mut self, slot: usize) {
        if self.peers[slot].paused && !self.over(&self.peers[slot]) {
            self.peers[slot].paused = false;
            self.enqueue(slot);
        }
    }

    /// From time to time: peers that were paused and need not be any more get their turn, doors are tried again, and while
    /// somebody waits for room, those who hold some and neither send nor read are ended.
    fn look_again(&mut self, now: Instant) {
        if now < self.look_at || (self.paused.is_empty() && !self.knocking) {
            return;
        }
        self.look_at = now + LOOK_AGAIN;
        if std::mem::take(&mut self.knocking) {
            self.accept(now, Door::Nfs);
            self.accept(now, Door::Portmap);
            self.datagrams(now);
        }
        for asker in std::mem::take(&mut self.paused) {
            let Some(slot) = self.slot_of(asker).filter(|slot| self.peers[*slot].paused) else { continue };
            self.peers[slot].paused = false;
            match self.over(&self.peers[slot]) {
                true => self.pause(slot),
                false => self.enqueue(slot),
            }
        }
        if now >= self.stall_at && std::mem::take(&mut self.starved) {
            self.stall_at = now + STALL_LOOK;
            self.end_stalled(now);
        }
    }

    fn end_stalled(&mut self, now: Instant) {
        let ours = |peer: &Peer| peer.paused && peer.connection.unsent() == 0;
        let stalled = |peer: &Peer| {
            peer.connection.reserved() > 0 && !ours(peer) && now.saturating_duration_since(peer.heard) > STALL
        };
        let slots: Vec<usize> = self.peers.iter().filter(|(_, peer)| stalled(peer)).map(|(slot, _)| slot).collect();
        for slot in slots {
            self.end(slot);
        }
    }

    fn set_alarm(&mut self, now: Instant) -> io::Result<()> {
        let turn = self.server.next_turn(now);
        let next = [self.server.station.next_done(), turn].into_iter().flatten().min();
        self.alarm.set(now, next)
    }

    fn accept(&mut self, now: Instant, door: Door) {
        loop {
            let listener = match door {
                Door::Nfs => self.listener.as_ref(),
                Door::Portmap => self.portmap.as_ref().map(|(tcp, _)| tcp),
            };
            let Some(accepted) = listener.map(TcpListener::accept) else { return };
            match accepted {
                Ok((socket, client)) if self.peers.len() < self.bounds.connections => {
                    // A socket that is gone already needs no answer.
                    let _gone = self.welcome(now, socket, client, door);
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(_) => {
                    // Out of descriptors: the socket stays where it is, and no event will tell of it again.
                    self.knocking = true;
                    return;
                }
            }
        }
    }

    fn welcome(&mut self, now: Instant, socket: TcpStream, client: SocketAddr, door: Door) -> io::Result<()> {
        let ends = Ends { client, local: socket.local_addr()? };
        let local = ends.local.ip().to_canonical();
        self.replace(ends);
        let mut connection = Connection::new(socket, self.bounds.record, self.budget.clone())?;
        self.generation = self.generation.wrapping_add(1);
        let entry = self.peers.vacant_entry();
        let slot = entry.key();
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(connection.socket(), Token(FIRST + slot), interest)?;
        let asker = Asker { slot, generation: self.generation };
        let origin = Origin { asker, client: client.ip().to_canonical(), local, door, closed: false };
        self.connections.insert(ends, asker);
        entry.insert(Peer {
            connection,
            origin,
            ends,
            waiting: 0,
            expected: 0,
            counted: 0,
            paused: false,
            queued: false,
            read_closed: false,
            ending: false,
            cut: false,
            heard: now,
        });
        Ok(())
    }

    /// An older connection between the same ends is over, whatever of it was not read.
    fn replace(&mut self, ends: Ends) {
        if let Some(slot) = self.connections.get(&ends).and_then(|older| self.slot_of(*older)) {
            self.end(slot);
        }
    }

    /// Portmap over UDP: one question, one answer, nothing else is taken.
    fn datagrams(&mut self, now: Instant) {
        let Some((_, socket)) = &self.portmap else { return };
        let mut question = [0; DATAGRAM];
        for _ in 0..EVENTS {
            let (length, client) = match socket.recv_from(&mut question) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            let asker = Asker { slot: usize::MAX, generation: 0 };
            let origin = Origin {
                asker,
                client: client.ip(),
                local: local_for(socket, client),
                door: Door::Portmap,
                closed: false,
            };
            self.answer.clear();
            let taken = self.server.take(now, &origin, &question[..length], &mut self.answer);
            if taken == Taken::Answered {
                // A datagram may get lost; the client asks again.
                let _lost = socket.send_to(&self.answer[midas_nfs::record::MARK..], client);
            }
        }
        self.knocking = true;
    }

    /// Carries commands out; whether to stop.
    fn obey(&mut self, now: Instant) -> io::Result<bool> {
        while let Ok(Order { command, obeyed }) = self.commands.try_recv() {
            match command {
                Command::Fault(fault) => self.fault(now, fault)?,
                Command::Drop => self.drop_all(),
                Command::Restart => {
                    self.drop_all();
                    self.server.restart(now);
                }
                Command::Stop => return Ok(true),
            }
            // Who gave it may be gone.
            let _gone = obeyed.send(());
        }
        Ok(false)
    }

    fn fault(&mut self, now: Instant, fault: Fault) -> io::Result<()> {
        self.server.fault = fault;
        self.server.identity.salt = u32::from(fault == Fault::OtherHandles);
        if fault == Fault::Down {
            // A process that is gone remembers nothing: neither queued calls nor the answers that it gave.
            self.listener = None;
            self.server.restart(now);
            self.drop_all();
        } else if self.listener.is_none() {
            let mut listener = TcpListener::bind(self.address)?;
            self.poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
            self.listener = Some(listener);
        }
        Ok(())
    }

    fn drop_all(&mut self) {
        self.peers.clear();
        self.connections.clear();
        self.ready.clear();
        self.paused.clear();
        self.pending = 0;
    }

    fn end(&mut self, slot: usize) {
        if let Some(peer) = self.peers.try_remove(slot) {
            self.pending -= peer.counted;
            if self.connections.get(&peer.ends) == Some(&peer.origin.asker) {
                self.connections.remove(&peer.ends);
            }
        }
    }
}

/// Makes of an answer that begins at `at` what the fault wants; true if nothing may come after it.
fn spoil(fault: Fault, out: &mut Vec<u8>, at: usize) -> bool {
    let mark = midas_nfs::record::MARK;
    match fault {
        Fault::WrongXid => {
            if let Some(byte) = out.get_mut(at + mark) {
                *byte ^= 0x55;
            }
            false
        }
        Fault::HalfReply => {
            out.truncate(at + (out.len() - at) / 2);
            true
        }
        Fault::Mute => {
            out.truncate(at);
            false
        }
        Fault::None
        | Fault::Hang
        | Fault::Stall { .. }
        | Fault::Slow(_)
        | Fault::Fail(_)
        | Fault::Down
        | Fault::OtherHandles => false,
    }
}

const LISTENER: Token = Token(0);
const PORTMAP: Token = Token(1);
const PORTMAP_UDP: Token = Token(2);
const WAKER: Token = Token(3);
const ALARM: Token = Token(4);
/// Connections' tokens begin here.
const FIRST: usize = 8;
/// Events taken at once.
const EVENTS: usize = 1024;
/// The largest question that portmap takes over UDP.
const DATAGRAM: usize = 2048;
/// Paused peers and doors are looked at this often.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Silence while one holds room that others wait for, and how often that is looked for.
const STALL: Duration = Duration::from_secs(30);
const STALL_LOOK: Duration = Duration::from_secs(1);
/// Bytes of answers that a connection may leave unread when all together leave too many.
const UNREAD_LEAST: usize = 64 << 10;
