//! One event loop: a thread that owns its clients and its own connection to every server, so that a call never crosses threads.
//! One read and one write for a batch of calls.

use crate::clock::duration;
use crate::dispatch::{self, Forward, Origin, Taken};
use crate::link::{Flight, Link, State};
use crate::mountd::{Below, Mountd};
use crate::realm::{End, Realm};
use crate::translate::Kind;
use crate::verifier::composed;
use midas_core::health::Health;
use midas_net::{Budget, Buffers, Connection, Ended, Flow, Go, Replays, Scratch};
use midas_nfs::nfs3::{Nfsstat3, Procedure, Reply, StableHow};
use midas_nfs::{record, rpc};
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What all event loops share.
pub(crate) struct Shared {
    pub(crate) realm: Realm,
    pub(crate) mountd: Mountd,
    pub(crate) limits: crate::config::Limits,
    pub(crate) stop: AtomicBool,
    /// Threads that look for a directory to mount.
    finding: AtomicUsize,
    replays: [Mutex<Replays<Asker>>; REPLAYS],
}

impl Shared {
    pub(crate) fn new(realm: Realm, mountd: Mountd, limits: crate::config::Limits) -> Self {
        let replays = std::array::from_fn(|_| Mutex::default());
        Self { realm, mountd, limits, stop: AtomicBool::new(false), finding: AtomicUsize::new(0), replays }
    }

    /// The duplicate requests of calls with this xid.
    pub(crate) fn replays(&self, xid: u32) -> MutexGuard<'_, Replays<Asker>> {
        self.replays[xid as usize % REPLAYS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where an answer goes: a loop, a place in it, and which of those that had the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) event_loop: usize,
    pub(crate) slot: usize,
    pub(crate) generation: u32,
}

/// What loops are sent.
pub(crate) enum Mail {
    /// A new client.
    Client(TcpStream, SocketAddr),
    /// An answer for a client of this loop, to a call that another loop carried.
    Answer(Asker, Vec<u8>),
    /// A client of this loop waits for one answer less.
    Displaced(Asker),
}

/// How to reach a loop.
#[derive(Clone)]
pub(crate) struct Mailbox {
    pub(crate) mail: Sender<Mail>,
    pub(crate) waker: Arc<Waker>,
    pub(crate) clients: Arc<AtomicUsize>,
}

impl Mailbox {
    pub(crate) fn send(&self, mail: Mail) {
        // A loop that has ended has no clients that could miss it.
        let _ended = self.mail.send(mail);
        let _ended = self.waker.wake();
    }
}

/// An event loop's own state.
pub(crate) struct Loop {
    number: usize,
    shared: Arc<Shared>,
    poll: Poll,
    mail: Receiver<Mail>,
    others: Vec<Mailbox>,
    clients: Slab<Client>,
    count: Arc<AtomicUsize>,
    generation: u32,
    links: Vec<Link>,
    /// Calls that no server may serve now, or that no link has a place for.
    held: VecDeque<Box<Held>>,
    buffers: Buffers,
    scratch: Scratch,
    budget: Budget,
    ready: Vec<Asker>,
    paused: Vec<Asker>,
    touched: Vec<usize>,
    tick_at: Instant,
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
struct Client {
    connection: Connection,
    origin: Origin,
    waiting: usize,
    paused: bool,
    queued: bool,
    read_closed: bool,
    ending: bool,
}

struct Held {
    asker: Asker,
    forward: Forward,
    record: Vec<u8>,
}

impl Loop {
    pub(crate) fn new(
        number: usize,
        shared: Arc<Shared>,
        poll: Poll,
        mail: Receiver<Mail>,
        others: Vec<Mailbox>,
    ) -> Self {
        let budget = Budget::new(shared.limits.memory / 2);
        // Replies are as large as the servers make them, and must be read whatever clients hold.
        let (reply_limit, replies) = (shared.limits.record.max(REPLY_LEAST), Budget::new(usize::MAX));
        let servers = shared.realm.servers.ids().zip(&shared.realm.pool.servers);
        let link = |(index, (id, server)): (usize, (_, &crate::config::Server))| {
            Link::new(id, server.address, Token(FIRST_LINK + index), reply_limit, replies.clone())
        };
        let links = servers.enumerate().map(link).collect();
        Self {
            number,
            poll,
            mail,
            count: Arc::clone(&others[number].clients),
            others,
            clients: Slab::new(),
            generation: 0,
            links,
            held: VecDeque::new(),
            buffers: Buffers::new(),
            scratch: Scratch::new(),
            budget,
            ready: Vec::new(),
            paused: Vec::new(),
            touched: Vec::new(),
            tick_at: Instant::now(),
            shared,
        }
    }

    /// Serves until told to stop.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        while !self.shared.stop.load(Ordering::Relaxed) {
            let timeout = if self.ready.is_empty() { TICK } else { Duration::ZERO };
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            let now = Instant::now();
            for event in &events {
                match event.token() {
                    WAKER => self.read_mail(now),
                    Token(link) if link < FIRST_CLIENT => self.link_ready(now, link - FIRST_LINK, event),
                    Token(slot) => self.client_ready(slot - FIRST_CLIENT, event),
                }
            }
            self.serve(now);
            self.flush_links(now);
            if now >= self.tick_at {
                self.tick_at = now + TICK;
                self.tick(now);
            }
        }
        Ok(())
    }

    fn read_mail(&mut self, now: Instant) {
        while let Ok(mail) = self.mail.try_recv() {
            match mail {
                Mail::Client(socket, address) => {
                    // A socket that is gone already needs no place.
                    let _gone = self.welcome(socket, address);
                }
                Mail::Answer(asker, answer) => self.answer(now, asker, &answer),
                Mail::Displaced(asker) => self.waited(asker),
            }
        }
    }

    fn welcome(&mut self, socket: TcpStream, client: SocketAddr) -> io::Result<()> {
        let local = socket.local_addr()?.ip().to_canonical();
        let mut connection = Connection::new(socket, self.shared.limits.record, self.budget.clone())?;
        self.generation = self.generation.wrapping_add(1);
        let entry = self.clients.vacant_entry();
        let slot = entry.key();
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(connection.socket(), Token(FIRST_CLIENT + slot), interest)?;
        let asker = Asker { event_loop: self.number, slot, generation: self.generation };
        let origin = Origin { asker, client, local };
        let (waiting, paused, queued, read_closed, ending) = (0, false, false, false, false);
        entry.insert(Client { connection, origin, waiting, paused, queued, read_closed, ending });
        self.count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn client_ready(&mut self, slot: usize, event: &Event) {
        let Some(client) = self.clients.get_mut(slot) else { return };
        if event.is_error() || event.is_read_closed() && event.is_write_closed() {
            self.end(slot);
            return;
        }
        client.read_closed |= event.is_read_closed();
        if event.is_writable() && client.connection.unsent() > 0 {
            self.flush(slot);
        }
        self.enqueue(slot);
    }

    fn enqueue(&mut self, slot: usize) {
        if let Some(client) = self.clients.get_mut(slot).filter(|client| !client.queued && !client.ending) {
            client.queued = true;
            self.ready.push(client.origin.asker);
        }
    }

    fn slot_of(&self, asker: Asker) -> Option<usize> {
        let client = self.clients.get(asker.slot)?;
        (client.origin.asker == asker).then_some(asker.slot)
    }

    fn over(&self, client: &Client) -> bool {
        client.waiting >= self.shared.limits.calls_per_client || client.connection.unsent() >= UNREAD
    }

    fn pause(&mut self, slot: usize) {
        if let Some(client) = self.clients.get_mut(slot).filter(|client| !client.paused) {
            client.paused = true;
            self.paused.push(client.origin.asker);
        }
    }

    /// Every client that has something gets one read; its calls go to their links.
    fn serve(&mut self, now: Instant) {
        for asker in std::mem::take(&mut self.ready) {
            let Some(slot) = self.slot_of(asker) else { continue };
            self.clients[slot].queued = false;
            if self.over(&self.clients[slot]) {
                self.pause(slot);
                continue;
            }
            match self.receive(now, slot) {
                Ok(Flow::Drained) if !self.clients[slot].read_closed => {}
                Ok(Flow::Drained | Flow::More) => self.enqueue(slot),
                Ok(Flow::Waiting) => {
                    self.pause(slot);
                    continue;
                }
                Err(Ended::Closed) => self.clients[slot].ending = true,
                Err(Ended::Failed(_) | Ended::TooLong(_)) => {
                    self.end(slot);
                    continue;
                }
            }
            self.flush(slot);
        }
    }

    fn receive(&mut self, now: Instant, slot: usize) -> Result<Flow, Ended> {
        let Self { shared, clients, links, held, buffers, scratch, others, number, .. } = self;
        let Client { connection, origin, waiting, .. } = &mut clients[slot];
        let limit = shared.limits.calls_per_client;
        let mut displaced = Vec::new();
        connection.output(buffers);
        let flow = connection.receive(scratch, |record, out| {
            match dispatch::take(now, shared, origin, record, out) {
                Taken::Done => {}
                Taken::Joined { displaced: asker } => {
                    *waiting += 1;
                    displaced.push(asker);
                }
                Taken::Find(below, xid) => {
                    *waiting += 1;
                    find(shared, &others[*number], origin, below, xid);
                }
                Taken::Forward(forward) => {
                    *waiting += 1;
                    let call = Held { asker: origin.asker, forward, record: Vec::new() };
                    if let Err(waits) = send(now, shared, links, buffers, call, record) {
                        held.push_back(waits);
                    }
                }
            }
            if *waiting < limit && out.len() < UNREAD { Go::Continue(()) } else { Go::Break(()) }
        });
        let (others, number) = (others.clone(), *number);
        for asker in displaced {
            match asker.event_loop == number {
                true => self.waited(asker),
                false => others[asker.event_loop].send(Mail::Displaced(asker)),
            }
        }
        flow
    }

    fn waited(&mut self, asker: Asker) {
        if let Some(slot) = self.slot_of(asker) {
            let client = &mut self.clients[slot];
            client.waiting = client.waiting.saturating_sub(1);
            self.flush(slot);
        }
    }

    fn link_ready(&mut self, now: Instant, index: usize, event: &Event) {
        let Some(link) = self.links.get_mut(index) else { return };
        if !link.connected(now, &mut self.buffers) {
            if matches!(link.state, State::Down) {
                self.lost(now, index);
            }
            return;
        }
        if event.is_readable() || event.is_read_closed() {
            self.read_link(now, index, event.is_read_closed());
        }
    }

    /// Reads replies until the server has no more for now; to the end, if it will send no more.
    fn read_link(&mut self, now: Instant, index: usize, closed: bool) {
        loop {
            let Self { shared, clients, links, buffers, scratch, others, number, touched, .. } = self;
            let Link { state: State::Up(connection), flights, server, .. } = &mut links[index] else { return };
            let name = &shared.realm.pool.servers[server.index()].name;
            let flow = connection.receive(scratch, |reply, _| {
                let xid = reply.first_chunk::<4>().map(|xid| u32::from_be_bytes(*xid));
                if let Some(flight) = xid.and_then(|xid| flights.remove(xid)) {
                    let mut relay = Relay { shared, clients, buffers, others, number: *number, touched };
                    relay.reply(now, name, flight, reply);
                }
                Go::Continue(())
            });
            match flow {
                Ok(Flow::More) => {}
                Ok(Flow::Drained) if closed => {}
                Ok(Flow::Drained | Flow::Waiting) => break,
                Err(_) => {
                    links[index].failed(now);
                    self.lost(now, index);
                    break;
                }
            }
        }
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for slot in touched {
            self.flush(slot);
        }
    }

    fn answer(&mut self, _now: Instant, asker: Asker, answer: &[u8]) {
        let Some(slot) = self.slot_of(asker) else { return };
        let client = &mut self.clients[slot];
        client.waiting = client.waiting.saturating_sub(1);
        client.connection.output(&mut self.buffers).extend_from_slice(answer);
        self.flush(slot);
    }

    fn flush(&mut self, slot: usize) {
        let Some(client) = self.clients.get_mut(slot) else { return };
        match client.connection.flush(&mut self.buffers) {
            Ok(true) if client.ending && client.waiting == 0 => self.end(slot),
            Ok(_) if client.paused && !self.over(&self.clients[slot]) => {
                self.clients[slot].paused = false;
                self.enqueue(slot);
            }
            Ok(_) => {}
            Err(_) => self.end(slot),
        }
    }

    fn flush_links(&mut self, now: Instant) {
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            let State::Up(connection) = &mut link.state else { continue };
            if connection.unsent() > 0 && connection.flush(&mut self.buffers).is_err() {
                link.failed(now);
                self.lost(now, index);
            }
        }
    }

    /// A server's connection is gone: it leaves the feasible set at once, and what may move is sent elsewhere.
    fn lost(&mut self, now: Instant, index: usize) {
        let server = self.links[index].server;
        let realm = &self.shared.realm;
        if matches!(realm.servers.health(server), Health::Up | Health::Probation) {
            realm.servers.set_health(realm.time(now), server, Health::Down);
        }
        self.move_away(now, index, Duration::ZERO);
    }

    /// Calls that may move and have waited for so long go elsewhere.
    fn move_away(&mut self, now: Instant, index: usize, waited: Duration) {
        let link = &mut self.links[index];
        let old: Vec<u32> = link.flights.xids().collect();
        for xid in old {
            let movable = |flight: &Flight| {
                let may = flight.sent.meaning.movable || !flight.left;
                may && now.saturating_duration_since(flight.since) >= waited
            };
            if !self.links[index].flights.get_mut(xid).is_some_and(|(flight, _)| movable(flight)) {
                continue;
            }
            let Some((flight, record)) = self.links[index].flights.remove_with(xid) else { continue };
            let Flight { asker, xid, procedure, sent, known, left, .. } = flight;
            let forward = Forward { xid, procedure, meaning: sent.meaning, known, squashed: None };
            match left {
                true => self.shared.realm.settle(now, sent, End::Lost),
                false => self.shared.realm.take_back(now, sent),
            }
            self.held.push_back(Box::new(Held { asker, forward, record }));
        }
        self.send_held(now);
    }

    fn send_held(&mut self, now: Instant) {
        for _ in 0..self.held.len() {
            let Some(mut call) = self.held.pop_front() else { return };
            // A read that nobody waits for any more need not be asked.
            if call.forward.meaning.movable && self.slot_of(call.asker).is_none() {
                continue;
            }
            let record = std::mem::take(&mut call.record);
            if let Err(held) = send(now, &self.shared, &mut self.links, &mut self.buffers, *call, &record) {
                self.held.push_back(held);
            }
        }
    }

    fn tick(&mut self, now: Instant) {
        let timeout = duration(self.shared.realm.pool.call_timeout);
        for index in 0..self.links.len() {
            self.links[index].tend(now, self.poll.registry());
            let open = matches!(
                self.shared.realm.servers.health(self.links[index].server),
                Health::Up | Health::Probation | Health::Failing
            );
            if self.links[index].flights.len() > 0 {
                self.move_away(now, index, if open { timeout } else { MOVE_AFTER });
            }
        }
        self.send_held(now);
        self.flush_links(now);
        for asker in std::mem::take(&mut self.paused) {
            let Some(slot) = self.slot_of(asker) else { continue };
            self.clients[slot].paused = false;
            self.enqueue(slot);
        }
    }

    fn end(&mut self, slot: usize) {
        if self.clients.try_remove(slot).is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Finds a directory to mount in a thread of its own: mounts are rare, and this loop must not wait.
fn find(shared: &Arc<Shared>, home: &Mailbox, origin: &Origin, below: Below, xid: u32) {
    let (shared, home, origin) = (Arc::clone(shared), home.clone(), *origin);
    if shared.finding.fetch_add(1, Ordering::Relaxed) >= FINDING_MOST {
        shared.finding.fetch_sub(1, Ordering::Relaxed);
        home.send(Mail::Answer(origin.asker, Below::too_many(xid)));
        return;
    }
    std::thread::spawn(move || {
        let client = origin.client.ip().to_canonical();
        home.send(Mail::Answer(origin.asker, below.find(&shared.mountd, &shared.realm, client, xid)));
        shared.finding.fetch_sub(1, Ordering::Relaxed);
    });
}

/// Routes a call and puts it on its link; given back if it must wait.
fn send(
    now: Instant,
    shared: &Shared,
    links: &mut [Link],
    buffers: &mut Buffers,
    call: Held,
    record: &[u8],
) -> Result<(), Box<Held>> {
    let Held { asker, forward, .. } = call;
    let keep = |forward: Forward| Box::new(Held { asker, forward, record: record.to_vec() });
    let Ok(sent) = shared.realm.send(now, forward.meaning) else { return Err(keep(forward)) };
    let link = &mut links[sent.ticket.route.to.index()];
    if link.flights.full() || link.flights.len() >= shared.realm.pool.in_flight_max {
        shared.realm.take_back(now, sent);
        return Err(keep(forward));
    }
    let Forward { xid, procedure, known, squashed, .. } = forward;
    let flight = Flight { asker, xid, procedure, sent, known, since: now, left: false };
    link.take(flight, squashed.as_deref().unwrap_or(record), buffers);
    Ok(())
}

/// What relaying a reply needs of the loop.
struct Relay<'a> {
    shared: &'a Shared,
    clients: &'a mut Slab<Client>,
    buffers: &'a mut Buffers,
    others: &'a [Mailbox],
    number: usize,
    touched: &'a mut Vec<usize>,
}

impl Relay<'_> {
    fn reply(&mut self, now: Instant, server: &str, flight: Flight, reply: &[u8]) {
        let Flight { asker, xid, procedure, sent, known, .. } = flight;
        let kind = sent.meaning.kind;
        let results = rpc::Reply::decode(reply).ok().and_then(|reply| reply.results.ok());
        let status = results.and_then(|results| results.first_chunk::<4>()).map(|word| u32::from_be_bytes(*word));
        let mut changed = None;
        let mut unstable = false;
        if let (Some(0), Some(results)) = (status, results) {
            (changed, unstable) = self.changed(server, procedure, kind, results);
        }
        let end = match status.map(Nfsstat3) {
            Some(Nfsstat3::IO | Nfsstat3::SERVERFAULT) => End::Failed,
            Some(status) => End::Answered { ok: status == Nfsstat3::OK, unstable },
            // A refusal is about the call, not about the server.
            None => End::Answered { ok: false, unstable },
        };
        self.shared.realm.settle(now, sent, end);
        let results = changed.as_deref().or(results);
        let newest = known.and_then(|known| {
            let mut replays = self.shared.replays(xid);
            // WRITE and COMMIT are recognised only while they run.
            match results.filter(|_| !procedure.idempotent()) {
                Some(results) => replays.finish(&known, results),
                None => replays.forget(&known),
            }
        });
        let asker = newest.unwrap_or(asker);
        match (&changed, results) {
            (Some(_), Some(results)) => {
                let mut whole = Vec::new();
                dispatch::answer(&mut whole, xid, |out| out.extend_from_slice(results));
                self.give(asker, &[&whole]);
            }
            _ => self.give(asker, &[&record::mark(reply.len()), &xid.to_be_bytes(), &reply[4..]]),
        }
    }

    /// Results that are ours to change, and whether what was written may be lost by a crash.
    fn changed(&self, server: &str, procedure: Procedure, kind: Kind, results: &[u8]) -> (Option<Vec<u8>>, bool) {
        let mut out = Vec::new();
        match (kind, Reply::decode(procedure, results)) {
            (Kind::Write { .. }, Ok(Reply::Write(Ok(mut ok)))) => {
                ok.verf = composed(server, ok.verf);
                Reply::Write(Ok(ok)).encode(&mut out);
                (Some(out), ok.committed == StableHow::Unstable)
            }
            (Kind::Commit { .. }, Ok(Reply::Commit(Ok(mut ok)))) => {
                ok.verf = composed(server, ok.verf);
                Reply::Commit(Ok(ok)).encode(&mut out);
                (Some(out), false)
            }
            (Kind::Fsinfo, Ok(Reply::Fsinfo(Ok(ok)))) => {
                let limits = self.shared.realm.agreed().and_then(|agreed| agreed.limits).unwrap_or(ok);
                let most = self.shared.limits.record.saturating_sub(OVERHEAD) as u32;
                let ok = midas_nfs::nfs3::FsinfoOk {
                    attributes: ok.attributes,
                    rtmax: limits.rtmax.min(most),
                    rtpref: limits.rtpref.min(most),
                    wtmax: limits.wtmax.min(most),
                    wtpref: limits.wtpref.min(most),
                    ..limits
                };
                Reply::Fsinfo(Ok(ok)).encode(&mut out);
                (Some(out), false)
            }
            _ => (None, false),
        }
    }

    fn give(&mut self, asker: Asker, parts: &[&[u8]]) {
        if asker.event_loop != self.number {
            self.others[asker.event_loop].send(Mail::Answer(asker, parts.concat()));
            return;
        }
        let Some(client) = self.clients.get_mut(asker.slot).filter(|client| client.origin.asker == asker) else {
            return;
        };
        client.waiting = client.waiting.saturating_sub(1);
        let out = client.connection.output(self.buffers);
        for part in parts {
            out.extend_from_slice(part);
        }
        self.touched.push(asker.slot);
    }
}

pub(crate) const WAKER: Token = Token(0);
const FIRST_LINK: usize = 1;
const FIRST_CLIENT: usize = 1 << 16;
const EVENTS: usize = 1024;
/// Reconnects, timeouts and held calls are looked at this often.
const TICK: Duration = Duration::from_millis(20);
/// Calls that may move leave a server that is down after so long.
const MOVE_AFTER: Duration = Duration::from_millis(20);
/// Bytes of answers that one client may leave unread.
const UNREAD: usize = 4 << 20;
/// The largest reply that a server may send at least.
const REPLY_LEAST: usize = 16 << 20;
/// Room for headers in a record that carries data.
const OVERHEAD: usize = 4096;
/// Directories to mount that are looked for at once.
const FINDING_MOST: usize = 16;
/// Locks of the duplicate request cache.
const REPLAYS: usize = 16;
