//! One server's event loop: a thread that owns its sockets. One read and one write for a batch of calls.
//!
//! A client that sends more than it may have in flight, or that does not read its answers, is not read until it is ready again:
//! calls are delayed, never refused.

use super::dispatch::{Asker, Origin, Server, Taken};
use super::fault::Fault;
use midas_net::{Alarm, Budget, Buffers, Connection, Ended, Flow, Scratch};
use mio::net::{TcpListener, UdpSocket};
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
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

/// The loop's own state; [`Loop::run`] returns when it was told to stop.
pub(super) struct Loop {
    server: Server,
    poll: Poll,
    listener: Option<TcpListener>,
    address: SocketAddr,
    portmap: Option<(TcpListener, UdpSocket)>,
    commands: Receiver<Command>,
    alarm: Alarm,
    peers: Slab<Peer>,
    generation: u32,
    buffers: Buffers,
    scratch: Scratch,
    budget: Budget,
    bounds: Bounds,
    /// Peers that have more to be read, in turn.
    ready: Vec<usize>,
    /// Peers that are not read for now although they have more.
    paused: Vec<usize>,
    answer: Vec<u8>,
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
    /// Bytes of unfinished records over all connections.
    pub unfinished: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { connections: 16_384, record: (1 << 20) + 4096, calls: 16_384, unread: 4 << 20, unfinished: 64 << 20 }
    }
}

struct Peer {
    connection: Connection,
    origin: Origin,
    waiting: usize,
    paused: bool,
    queued: bool,
    last: bool,
    heard: Instant,
}

/// The sockets and channels of a loop.
pub(super) struct Doors {
    pub(super) poll: Poll,
    pub(super) listener: TcpListener,
    pub(super) portmap: Option<(TcpListener, UdpSocket)>,
    pub(super) commands: Receiver<Command>,
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
            portmap: doors.portmap,
            commands: doors.commands,
            alarm,
            peers: Slab::new(),
            generation: 0,
            buffers: Buffers::new(),
            scratch: Scratch::new(),
            budget: Budget::new(bounds.unfinished),
            bounds,
            ready: Vec::new(),
            paused: Vec::new(),
            answer: Vec::new(),
        };
        Ok((event_loop, waker))
    }

    /// Serves until told to stop.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        loop {
            let timeout = match (self.ready.is_empty(), self.paused.is_empty()) {
                (false, _) => Some(Duration::ZERO),
                (true, false) => Some(LOOK_AGAIN),
                (true, true) => None,
            };
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            let now = Instant::now();
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(now, false),
                    PORTMAP => self.accept(now, true),
                    PORTMAP_UDP => self.datagrams(now),
                    ALARM => self.alarm.rang(),
                    WAKER => {
                        if self.obey(now)? {
                            return Ok(());
                        }
                    }
                    Token(slot) => self.ready_now(slot - FIRST, event.is_writable()),
                }
            }
            self.serve(now);
            self.work(Instant::now());
            self.look_again();
            self.set_alarm(Instant::now())?;
        }
    }

    /// A socket can be read or written again.
    fn ready_now(&mut self, slot: usize, writable: bool) {
        let Some(peer) = self.peers.get_mut(slot) else { return };
        if writable && peer.connection.unsent() > 0 {
            self.flush(slot);
        }
        self.enqueue(slot);
    }

    fn enqueue(&mut self, slot: usize) {
        if let Some(peer) = self.peers.get_mut(slot).filter(|peer| !peer.queued) {
            peer.queued = true;
            self.ready.push(slot);
        }
    }

    /// Every peer that has something gets one read.
    fn serve(&mut self, now: Instant) {
        for slot in std::mem::take(&mut self.ready) {
            let Some(peer) = self.peers.get_mut(slot) else { continue };
            peer.queued = false;
            if over(peer, &self.bounds) || self.server.station.full() {
                if !std::mem::replace(&mut peer.paused, true) {
                    self.paused.push(slot);
                }
                continue;
            }
            match self.receive(now, slot) {
                Ok(Flow::Drained) => {}
                Ok(Flow::More) => self.enqueue(slot),
                Ok(Flow::Waiting) => self.pause(slot),
                Err(ended) => {
                    self.end(slot, &ended);
                    continue;
                }
            }
            self.flush(slot);
        }
        if let Some(truth) = self.server.truth.clone() {
            truth.queue(now, self.server.identity.server, self.server.station.len());
        }
    }

    fn pause(&mut self, slot: usize) {
        if let Some(peer) = self.peers.get_mut(slot)
            && !std::mem::replace(&mut peer.paused, true)
        {
            self.paused.push(slot);
        }
    }

    fn receive(&mut self, now: Instant, slot: usize) -> Result<Flow, Ended> {
        let Some(peer) = self.peers.get_mut(slot) else { return Err(Ended::Closed) };
        let (origin, waiting, last) = (peer.origin, &mut peer.waiting, &mut peer.last);
        peer.heard = now;
        let server = &mut self.server;
        peer.connection.output(&mut self.buffers);
        peer.connection.receive(&mut self.scratch, |record, out| {
            let before = out.len();
            match server.take(now, &origin, record, out) {
                Taken::Answered => *last |= spoil(server.fault, out, before),
                Taken::Queued => *waiting += 1,
                Taken::Ignored => {}
            }
        })
    }

    /// Calls whose service is over are executed and answered.
    fn work(&mut self, now: Instant) {
        let hangs = self.server.hangs(now);
        self.server.station.stop(now, hangs);
        let mut changed = Vec::new();
        loop {
            self.answer.clear();
            let Some(Asker { slot, generation }) = self.server.finish(now, &mut self.answer) else { break };
            if let Some(truth) = &self.server.truth {
                truth.queue(now, self.server.identity.server, self.server.station.len());
            }
            let peer = self.peers.get_mut(slot).filter(|peer| peer.origin.asker.generation == generation);
            if let Some(peer) = peer {
                peer.last |= spoil(self.server.fault, &mut self.answer, 0);
                peer.connection.output(&mut self.buffers).extend_from_slice(&self.answer);
                peer.waiting = peer.waiting.saturating_sub(1);
                changed.push(slot);
            }
        }
        changed.dedup();
        for slot in changed {
            self.flush(slot);
        }
    }

    fn flush(&mut self, slot: usize) {
        let Some(peer) = self.peers.get_mut(slot) else { return };
        match peer.connection.flush(&mut self.buffers) {
            Ok(true) if peer.last => self.end(slot, &Ended::Closed),
            Ok(_) => {}
            Err(ended) => self.end(slot, &ended),
        }
    }

    /// Peers that were paused and need not be any more get their turn. One that holds the beginning of a record, sends nothing
    /// more and keeps others waiting is ended.
    fn look_again(&mut self) {
        let full = self.server.station.full();
        let now = Instant::now();
        for slot in std::mem::take(&mut self.paused) {
            let Some(peer) = self.peers.get_mut(slot) else { continue };
            if full || over(peer, &self.bounds) {
                self.paused.push(slot);
                continue;
            }
            peer.paused = false;
            self.enqueue(slot);
        }
        if !self.paused.is_empty() || self.budget.left() == 0 {
            self.end_stalled(now);
        }
    }

    fn end_stalled(&mut self, now: Instant) {
        let stalled = |peer: &Peer| {
            peer.connection.mid_record() && !peer.paused && now.saturating_duration_since(peer.heard) > STALL
        };
        let slots: Vec<usize> = self.peers.iter().filter(|(_, peer)| stalled(peer)).map(|(slot, _)| slot).collect();
        for slot in slots {
            self.end(slot, &Ended::Closed);
        }
    }

    fn set_alarm(&mut self, now: Instant) -> io::Result<()> {
        let turn = self.server.next_turn(now);
        let next = [self.server.station.next_done(), turn].into_iter().flatten().min();
        self.alarm.set(now, next)
    }

    fn accept(&mut self, now: Instant, portmap: bool) {
        loop {
            let listener = match portmap {
                true => self.portmap.as_ref().map(|(tcp, _)| tcp),
                false => self.listener.as_ref(),
            };
            let Some(accepted) = listener.map(TcpListener::accept) else { return };
            match accepted {
                Ok((socket, client)) if self.peers.len() < self.bounds.connections => {
                    // A socket that is gone already needs no answer.
                    let _gone = self.welcome(now, socket, client);
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(_) => return,
            }
        }
    }

    fn welcome(&mut self, now: Instant, socket: mio::net::TcpStream, client: SocketAddr) -> io::Result<()> {
        let local = socket.local_addr()?.ip().to_canonical();
        let mut connection = Connection::new(socket, self.bounds.record, self.budget.clone())?;
        self.generation = self.generation.wrapping_add(1);
        let entry = self.peers.vacant_entry();
        let slot = entry.key();
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(connection.socket(), Token(FIRST + slot), interest)?;
        let asker = Asker { slot, generation: self.generation };
        let origin = Origin { asker, client: client.ip().to_canonical(), local };
        entry.insert(Peer { connection, origin, waiting: 0, paused: false, queued: false, last: false, heard: now });
        Ok(())
    }

    /// Portmap over UDP: one question, one answer, nothing else is taken.
    fn datagrams(&mut self, now: Instant) {
        let Some((_, socket)) = &self.portmap else { return };
        let mut question = [0; DATAGRAM];
        for _ in 0..EVENTS {
            let Ok((length, client)) = socket.recv_from(&mut question) else { return };
            let local = socket.local_addr().map_or(IpAddr::from([127, 0, 0, 1]), |address| address.ip());
            let asker = Asker { slot: usize::MAX, generation: 0 };
            let origin = Origin { asker, client: client.ip(), local };
            self.answer.clear();
            let taken = self.server.take_portmap(now, &origin, &question[..length], &mut self.answer);
            if taken == Taken::Answered {
                // A datagram may get lost; the client asks again.
                let _lost = socket.send_to(&self.answer[midas_nfs::record::MARK..], client);
            }
        }
    }

    /// Carries commands out; whether to stop.
    fn obey(&mut self, now: Instant) -> io::Result<bool> {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Fault(fault) => self.fault(fault)?,
                Command::Drop => self.drop_all(),
                Command::Restart => {
                    self.drop_all();
                    self.server.restart(now);
                }
                Command::Stop => return Ok(true),
            }
        }
        Ok(false)
    }

    fn fault(&mut self, fault: Fault) -> io::Result<()> {
        self.server.fault = fault;
        self.server.identity.salt = u32::from(fault == Fault::OtherHandles);
        if fault == Fault::Down {
            self.listener = None;
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
        self.ready.clear();
        self.paused.clear();
    }

    fn end(&mut self, slot: usize, _why: &Ended) {
        self.peers.try_remove(slot);
    }
}

/// Whether a peer must wait before it is read again.
fn over(peer: &Peer, bounds: &Bounds) -> bool {
    peer.waiting >= bounds.calls || peer.connection.unsent() >= bounds.unread
}

/// What a fault makes of an answer that begins at `at`; whether the connection ends with it.
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
/// Paused peers are looked at this often when nothing else happens.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Silence in the middle of a record, while others wait for memory.
const STALL: Duration = Duration::from_secs(30);
