//! One event loop: a thread that owns its clients and its own connection to every server, so that a call never crosses threads.
//! One read and one write for a batch of calls.

use crate::accord::Place;
use crate::cached::Memo;
use crate::clerk::{About, Desk, Job, Leads, Unknown};
use crate::client_table::Standing;
use crate::config::Limits;
use crate::counters::{Bytes, Tally};
use crate::dispatch::{self, Batch, Moment, Origin, Taken};
use crate::fetching::Loans;
use crate::link::Link;
use crate::log;
use crate::mountd::Below;
use crate::presence::Ends;
use crate::queue::Parked;
use crate::relay::Relay;
pub(crate) use crate::shared::Shared;
use crate::unresolved::{Resolution, Unresolved};
use crate::upstream::{self, Held};
use crate::verify::Verdict;
use midas_core::key::Key;
use midas_core::peer::lease::{AttemptId, Life, Refusal};
use midas_core::time::Time;
use midas_net::{Budget, Buffers, Connection, Ended, Flow, Go, Purse, Scratch};
use midas_nfs::record;
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// Where an answer goes: a loop, a place in it, and which of those that had the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) event_loop: u32,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// What loops are sent.
pub(crate) enum Mail {
    /// A new client.
    Client(TcpStream, SocketAddr),
    /// A new client, in the place of an idle connection of this address.
    Instead(TcpStream, SocketAddr, IpAddr),
    /// The lists of clients have changed.
    Relisted,
    /// An answer for a client of this loop, to a call that another loop carried, and what the client holds for it here.
    Answer(Asker, Vec<u8>, usize),
    /// The same for a client that does not wait for it by name any more, and may need it yet.
    Copy(Asker, Vec<u8>),
    /// A client of this loop waits for one answer less.
    Displaced(Asker),
    /// A question that calls wait for was resolved.
    Sorted { unknown: Arc<Unknown>, how: Resolution },
    /// It was found out whether a call was executed.
    Verified { about: About, verdict: Verdict },
    /// It was found out where the names of a call lead; none if nobody could tell.
    Led { number: usize, found: Option<Vec<Leads>> },
    /// The other proxies let a call leave until then.
    Cleared { place: Place, id: AttemptId, until: Time },
    /// They do not.
    Barred { place: Place, id: AttemptId, why: Refusal },
    /// Another proxy asks for a read.
    Asked { from: Life, id: u64, export: u32, record: Box<[u8]> },
    /// A call that waited for this key may take it.
    Turn { number: usize, key: Key },
    /// One that was asked for a read answers; without results a server must be asked.
    Fetched { id: u64, results: Option<Box<[u8]>> },
}

/// How to reach a loop.
#[derive(Clone)]
pub(crate) struct Mailbox {
    pub(crate) mail: Sender<Mail>,
    pub(crate) waker: Arc<Waker>,
    /// Clients of the loop, those on their way to it included.
    pub(crate) clients: Arc<AtomicUsize>,
    /// Set by the loop at every tick.
    pub(crate) alive: Arc<AtomicBool>,
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
    pub(crate) number: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) poll: Poll,
    mail: Receiver<Mail>,
    pub(crate) others: Vec<Mailbox>,
    pub(crate) desk: Desk,
    pub(crate) clients: Slab<Client>,
    count: Arc<AtomicUsize>,
    pub(crate) generation: u32,
    pub(crate) links: Vec<Link>,
    /// Calls that no server may serve now, or that no link has a place for.
    pub(crate) held: VecDeque<Box<Held>>,
    /// Calls that wait for their turn at a name.
    pub(crate) parked: Parked,
    /// Calls that wait until something is known.
    pub(crate) unresolved: Unresolved,
    /// Calls that were perhaps executed, while that is found out.
    pub(crate) doubted: Slab<Box<Held>>,
    /// Calls that wait until another one that changes the same is over.
    pub(crate) turning: Slab<Box<Held>>,
    /// Calls whose names are looked up.
    pub(crate) finding: Slab<Box<Held>>,
    /// Calls that other proxies were told of, and when.
    pub(crate) clearing: Slab<(Time, Box<Held>)>,
    /// Reads that go from proxy to proxy.
    pub(crate) loans: Loans,
    pub(crate) buffers: Buffers,
    pub(crate) scratch: Scratch,
    /// For calls that carry data: they leave room for others.
    large: Budget,
    pub(crate) purse: Purse,
    ready: Vec<Asker>,
    /// The room of the last batch's `ready`.
    spare: Vec<Asker>,
    paused: Vec<Asker>,
    pub(crate) touched: Vec<usize>,
    /// Answers that may be given again.
    pub(crate) memo: Memo,
    /// When the batch began: read once for all of its calls.
    pub(crate) now: Instant,
    /// The same, as the core names it.
    pub(crate) time: Time,
    tick_at: Instant,
    tick_count: u64,
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct Client {
    pub(crate) connection: Connection,
    pub(crate) origin: Origin,
    ends: Ends,
    pub(crate) waiting: usize,
    /// Bytes that its calls hold, answers to come included.
    pub(crate) owed: usize,
    /// Bytes of answers that it has not taken, as the purse knows them.
    unread: usize,
    /// When it last sent or took something.
    pub(crate) moved: Instant,
    pub(crate) paused: bool,
    /// Since when nothing is read from it.
    pub(crate) unread_since: Option<Instant>,
    queued: bool,
    /// Whether its last turn brought a call.
    called: bool,
    read_closed: bool,
    ending: bool,
    /// When our side of it was closed, at the end of the daemon.
    pub(crate) closing: Option<Instant>,
}

impl Client {
    /// Whether nothing would be lost with its connection but the beginning of a call.
    pub(crate) fn idle(&self) -> bool {
        self.waiting == 0 && self.connection.unsent() == 0
    }

    /// A call is over; it held so much.
    pub(crate) fn answered(&mut self, cost: usize) {
        self.waiting = self.waiting.saturating_sub(1);
        // A call that came again on another connection is answered there: what nobody waits for is owed by nobody.
        self.owed = if self.waiting == 0 { 0 } else { self.owed.saturating_sub(cost) };
    }
}

impl Loop {
    pub(crate) fn new(
        number: usize,
        shared: Arc<Shared>,
        poll: Poll,
        mail: Receiver<Mail>,
        (others, desk): (Vec<Mailbox>, Desk),
    ) -> Self {
        let large = shared.memory.capped(shared.limits.memory / 4 * 3);
        let purse = Purse::new(shared.memory.clone());
        let unresolved = Unresolved::new(shared.room_for_unresolved());
        let links = links(&shared);
        Self {
            number,
            poll,
            mail,
            count: Arc::clone(&others[number].clients),
            others,
            desk,
            clients: Slab::new(),
            generation: 0,
            links,
            held: VecDeque::new(),
            parked: Parked::default(),
            unresolved,
            doubted: Slab::new(),
            turning: Slab::new(),
            finding: Slab::new(),
            clearing: Slab::new(),
            loans: Loans::default(),
            buffers: Buffers::new(),
            scratch: Scratch::new(),
            large,
            purse,
            ready: Vec::new(),
            spare: Vec::new(),
            paused: Vec::new(),
            touched: Vec::new(),
            memo: Memo::default(),
            now: Instant::now(),
            time: Time::ZERO,
            tick_at: Instant::now(),
            tick_count: 0,
            shared,
        }
    }

    /// Serves until told to stop.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let mut looks = 0;
        self.shared.wakes.settle(self.number, &self.others[self.number].waker);
        while !self.shared.stop.load(Ordering::Relaxed) {
            let idle = self.ready.is_empty() && looks == 0 && !self.shared.wakes.any(self.number);
            let timeout = if idle { TICK } else { Duration::ZERO };
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            let now = Instant::now();
            (self.now, self.time) = (now, self.shared.clock.at(now));
            let mut mail = false;
            for event in &events {
                match event.token() {
                    WAKER => mail = true,
                    Token(link) if link < FIRST_CLIENT => self.link_ready(self.time, link - FIRST_LINK, event),
                    Token(slot) => self.client_ready(slot - FIRST_CLIENT, event),
                }
            }
            // After what is told of older connections: a new client may get the slot of one that makes room for it.
            if mail {
                self.read_mail();
            }
            self.serve();
            self.send_woken(self.time);
            if now >= self.tick_at {
                self.tick_at = now + TICK;
                self.tick(now);
            }
            // What came meanwhile joins the batch: writes are what costs. Servers first: they have work to do.
            looks += 1;
            if events.is_empty() || looks > LOOKS {
                looks = 0;
                self.flush_links(self.time);
                self.flush_touched();
            }
        }
        self.flush_touched();
        Ok(())
    }

    fn read_mail(&mut self) {
        let now = self.time;
        while let Ok(mail) = self.mail.try_recv() {
            match mail {
                Mail::Client(socket, address) => self.seat(socket, address),
                Mail::Instead(socket, address, of) => self.seat_instead(socket, address, of),
                Mail::Relisted => self.relisted(),
                Mail::Answer(asker, answer, cost) => self.answer(asker, &answer, cost),
                Mail::Copy(asker, answer) => self.copy(asker, &answer),
                Mail::Displaced(asker) => self.waited(asker),
                Mail::Sorted { unknown, how } => self.question_resolved(&unknown, how),
                Mail::Turn { number, key } => self.turn_came(now, number, key),
                Mail::Led { number, found } => self.led(now, number, found),
                Mail::Cleared { place, id, until } => self.let_through(now, place, id, until),
                Mail::Barred { place, id, why } => self.turned_down(now, place, id, why),
                Mail::Asked { from, id, export, record } => self.asked(now, (from, id), export, &record),
                Mail::Fetched { id, results } => self.fetched(now, id, results.as_deref()),
                Mail::Verified { about: About::Recalled(number), verdict } => self.verified(now, number, verdict),
                Mail::Verified { about: About::Cut(number), verdict } => self.cut_over(now, number, verdict),
                Mail::Verified { about: About::Waiting { link, xid }, verdict } => {
                    self.remembered(now, link, xid, verdict);
                }
            }
        }
    }

    /// Gives up a place that was counted for a connection.
    pub(crate) fn unseat(&mut self, client: IpAddr, generation: Option<u32>) {
        self.shared.client_table.leave(client, self.number, generation);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn welcome(&mut self, socket: TcpStream, client: SocketAddr) -> io::Result<()> {
        let ends = Ends { client, local: socket.local_addr()? };
        let local = ends.local.ip().to_canonical();
        self.generation = self.generation.wrapping_add(1).max(1);
        let entry = self.clients.vacant_entry();
        let slot = entry.key();
        let seat = (slot as u32, self.generation);
        let Some(standing) = self.shared.client_table.seat(client.ip(), self.number, seat) else {
            return Err(ErrorKind::NotFound.into());
        };
        let budget = memory_of(&self.shared, &self.large, &standing);
        let mut connection = Connection::new(socket, self.shared.limits.record, budget)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(connection.socket(), Token(FIRST_CLIENT + slot), interest)?;
        let asker = Asker { event_loop: self.number as u32, slot: slot as u32, generation: self.generation };
        let origin = Origin { asker, client, local, stranger: standing.stranger, closed: false };
        self.shared.presence.came(asker, ends);
        entry.insert(Client {
            connection,
            origin,
            ends,
            waiting: 0,
            owed: 0,
            unread: 0,
            moved: Instant::now(),
            paused: false,
            unread_since: None,
            queued: false,
            called: false,
            read_closed: false,
            ending: false,
            closing: None,
        });
        self.tally().welcomed.add(1);
        Ok(())
    }

    fn client_ready(&mut self, slot: usize, event: &Event) {
        let Some(client) = self.clients.get_mut(slot) else { return };
        if event.is_error() || event.is_read_closed() && event.is_write_closed() {
            self.end(slot);
            return;
        }
        if event.is_read_closed() {
            client.read_closed = true;
            self.closed(slot);
        }
        let Some(client) = self.clients.get_mut(slot) else { return };
        if event.is_writable() && client.connection.unsent() > 0 {
            self.touched.push(slot);
        }
        if event.is_readable() || event.is_read_closed() {
            self.enqueue(slot);
        }
    }

    /// A client has closed its side. What it sent before is read on, for its reads are answered; its changes are late.
    fn closed(&mut self, slot: usize) {
        let Some(client) = self.clients.get_mut(slot).filter(|client| !client.origin.closed) else { return };
        client.origin.closed = true;
        self.shared.presence.left(client.origin.asker);
    }

    fn enqueue(&mut self, slot: usize) {
        // A stranger has one turn a tick.
        let rests = |client: &Client| client.origin.stranger && client.paused;
        let takes = |client: &&mut Client| !client.queued && !client.ending && !rests(client);
        if let Some(client) = self.clients.get_mut(slot).filter(takes) {
            client.queued = true;
            self.ready.push(client.origin.asker);
        }
    }

    /// What this loop counts.
    pub(crate) fn tally(&self) -> &Tally {
        &self.shared.tallies[self.number]
    }

    pub(crate) fn slot_of(&self, asker: Asker) -> Option<usize> {
        let client = self.clients.get(asker.slot as usize)?;
        (client.origin.asker == asker).then_some(asker.slot as usize)
    }

    fn over(&self, client: &Client) -> bool {
        let limits = &self.shared.limits;
        let held = client.owed + client.connection.unsent();
        let full = client.waiting >= limits.calls_per_client || held >= self.share(client) || self.purse.empty();
        let waits = self.unresolved.full_for(client.origin.client.ip());
        full || waits || self.shared.draining.load(Ordering::Relaxed)
    }

    /// Bytes that one connection may hold.
    fn share(&self, client: &Client) -> usize {
        if client.origin.stranger { STRANGER_SHARE } else { self.shared.limits.memory / SHARES }
    }

    /// Whether peers must help themselves.
    pub(crate) fn hard_pressed(&self) -> bool {
        self.purse.empty() || self.shared.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn pause(&mut self, slot: usize) {
        if let Some(client) = self.clients.get_mut(slot).filter(|client| !client.paused) {
            client.paused = true;
            self.paused.push(client.origin.asker);
        }
    }

    /// Every client that has something gets one read; its calls go to their links.
    fn serve(&mut self) {
        let mut ready = std::mem::replace(&mut self.ready, std::mem::take(&mut self.spare));
        let crowd = ready.len() > 1;
        for asker in ready.drain(..) {
            let Some(slot) = self.slot_of(asker) else { continue };
            self.clients[slot].queued = false;
            // A newer connection has its address and port: what it sent before is nobody's.
            let replaced = !self.clients[slot].origin.closed && !self.shared.presence.here(asker);
            if replaced || self.too_late_to_read(slot) {
                self.end(slot);
                continue;
            }
            if self.over(&self.clients[slot]) {
                self.keep_back(slot);
                continue;
            }
            let received = self.receive(slot, crowd);
            // Its answers may have found it gone.
            if self.slot_of(asker).is_none() {
                continue;
            }
            if !matches!(received, Ok(Flow::Waiting)) {
                self.clients[slot].unread_since = None;
            }
            match received {
                Ok(_) if self.clients[slot].origin.stranger && self.clients[slot].called => self.pause(slot),
                Ok(Flow::Drained) if !self.clients[slot].read_closed => {}
                Ok(Flow::Drained | Flow::More) => self.enqueue(slot),
                Ok(Flow::Waiting) => {
                    self.keep_back(slot);
                    continue;
                }
                Err(Ended::Closed) => {
                    self.closed(slot);
                    self.clients[slot].ending = true;
                }
                Err(error @ (Ended::Failed(_) | Ended::TooLong(_))) => {
                    if let Ended::TooLong(claim) = error {
                        let client = self.clients[slot].origin.client.ip();
                        log::warn("client ended", &[("client", &client), ("why", &claim)]);
                    }
                    self.end(slot);
                    continue;
                }
            }
            self.touched.push(slot);
        }
        self.spare = ready;
        if self.unresolved.len() > 0 {
            self.ask_questions();
        }
    }

    /// Reads once from a client; in a crowd, a turn takes no more than some calls.
    fn receive(&mut self, slot: usize, crowd: bool) -> Result<Flow, Ended> {
        let share = self.share(&self.clients[slot]);
        let Self { shared, clients, links, unresolved, buffers, scratch, others, number, desk, purse, memo, .. } = self;
        let (now, time) = (self.now, self.time);
        let Client { connection, origin, waiting, owed, moved, called, .. } = &mut clients[slot];
        *called = false;
        let (limit, address) = (shared.limits.calls_per_client, origin.client.ip());
        let mut turn = if origin.stranger { STRANGER_TURN } else { TURN };
        let tally = &shared.tallies[*number];
        let (mut batch, mut displaced) = (Batch::new(shared, *number, memo), Vec::new());
        let (mut fresh, mut read) = (Vec::new(), 0);
        let before = connection.output(buffers).len();
        let flow = connection.receive(scratch, |record, out| {
            *waiting += 1;
            *called = true;
            read += record::MARK + record.len();
            match dispatch::take(Moment { instant: now, time }, shared, origin, &mut batch, record, out) {
                Taken::Done => *waiting -= 1,
                Taken::Joined { displaced: asker } => displaced.push(asker),
                Taken::Shared(cost) => {
                    *owed += cost;
                    purse.spend(cost);
                }
                Taken::Find(below, xid) => find(desk, &others[*number], origin, below, xid),
                Taken::Unsorted(unknown) => match unresolved.add(now, (origin, record), unknown) {
                    Some(cost) => {
                        *owed += cost;
                        purse.spend(cost);
                    }
                    None => {
                        dispatch::give_up(tally, record, out);
                        *waiting -= 1;
                    }
                },
                Taken::Forward(forward, squashed, claim) => {
                    let record = squashed.as_deref().unwrap_or(record);
                    *owed += forward.cost;
                    purse.spend(forward.cost);
                    fresh.extend(upstream::begin(
                        time,
                        shared,
                        links,
                        buffers,
                        (origin.asker, &forward, claim),
                        record,
                    ));
                }
            }
            turn = turn.saturating_sub(1);
            let more = *waiting < limit && *owed + out.len() < share && !purse.empty();
            let next = (turn > 0 || !crowd && !origin.stranger) && !unresolved.full_for(address);
            if more && next { Go::Continue(()) } else { Go::Break(()) }
        });
        if !matches!(flow, Ok(Flow::Waiting)) {
            *moved = now;
        }
        tally.moved(Bytes::FromClients, read);
        tally.moved(Bytes::ToClients, connection.output(buffers).len() - before);
        for asker in displaced {
            self.displace(asker);
        }
        for call in fresh {
            if call.is_due(&self.shared) { self.try_call(time, call) } else { self.hold_new(time, call) }
        }
        flow
    }

    /// Another connection waits for the answer instead.
    pub(crate) fn displace(&mut self, asker: Asker) {
        match asker.event_loop as usize == self.number {
            true => self.waited(asker),
            false => self.others[asker.event_loop as usize].send(Mail::Displaced(asker)),
        }
    }

    fn waited(&mut self, asker: Asker) {
        if let Some(slot) = self.slot_of(asker) {
            self.clients[slot].answered(0);
            self.flush(slot);
        }
    }

    fn answer(&mut self, asker: Asker, answer: &[u8], cost: usize) {
        self.purse.earn(cost);
        if asker.is_peer() {
            return self.loans.lend(&self.shared, asker, answer);
        }
        if let Some(slot) = self.slot_of(asker) {
            self.clients[slot].answered(cost);
        }
        self.copy(asker, answer);
    }

    fn copy(&mut self, asker: Asker, answer: &[u8]) {
        let Some(slot) = self.slot_of(asker) else { return };
        self.clients[slot].connection.output(&mut self.buffers).extend_from_slice(answer);
        self.tally().moved(Bytes::ToClients, answer.len());
        self.flush(slot);
    }

    pub(crate) fn flush(&mut self, slot: usize) {
        let Some(client) = self.clients.get_mut(slot) else { return };
        let before = client.connection.unsent();
        let flushed = client.connection.flush(&mut self.buffers);
        let after = client.connection.unsent();
        self.purse.earn(std::mem::replace(&mut client.unread, after));
        self.purse.spend(after);
        if after < before {
            client.moved = self.now;
        }
        match flushed {
            Ok(true) if client.ending && client.waiting == 0 => self.end(slot),
            Ok(_) if client.paused && !client.origin.stranger && !self.over(&self.clients[slot]) => {
                self.clients[slot].paused = false;
                self.enqueue(slot);
            }
            Ok(_) => {}
            Err(_) => self.end(slot),
        }
    }

    fn tick(&mut self, now: Instant) {
        self.tend_links(self.time);
        if self.shared.accord().is_some() {
            self.tend_clearing(self.time);
            self.tend_overdue(self.time);
            self.tend_loans(self.time);
        }
        self.abandon_parked(self.time);
        self.abandon_turning(self.time);
        self.tend_turns(self.time);
        self.send_held(self.time);
        self.tend_unresolved(now);
        if self.tick_count.is_multiple_of(STALL_LOOK) {
            self.end_stalled(now);
            self.try_parked(self.time);
            let longest = self.longest_change();
            self.tally().change_waits_ms.set(longest.as_nanos() / 1_000_000);
        }
        self.tick_count += 1;
        self.others[self.number].alive.store(true, Ordering::Relaxed);
        if self.shared.draining.load(Ordering::Relaxed) {
            self.wind_down(now);
        }
        self.tally().held.set((self.held.len() + self.parked.len() + self.turning.len()) as u64);
        self.tally().unresolved.set(self.unresolved.len() as u64);
        for asker in std::mem::take(&mut self.paused) {
            let Some(slot) = self.slot_of(asker) else { continue };
            self.clients[slot].paused = false;
            self.enqueue(slot);
        }
    }

    pub(crate) fn relay(&mut self) -> Relay<'_> {
        let Self { shared, clients, buffers, others, number, touched, purse, loans, now, .. } = self;
        Relay { shared, clients, buffers, others, number: *number, touched, purse, loans, now: *now }
    }

    /// Sends what a batch has for clients.
    pub(crate) fn flush_touched(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for slot in touched.drain(..) {
            self.flush(slot);
        }
        self.touched = touched;
    }

    pub(crate) fn end(&mut self, slot: usize) {
        if let Some(client) = self.clients.try_remove(slot) {
            self.purse.earn(client.unread);
            self.shared.presence.ended(client.origin.asker, client.ends);
            self.forget_unresolved(slot);
            self.unseat(client.origin.client.ip(), Some(client.origin.asker.generation));
            self.tally().ended.add(1);
        }
    }
}

/// Finds a directory to mount: that waits for a server, which this loop must not.
fn find(desk: &Desk, home: &Mailbox, origin: &Origin, below: Below, xid: u32) {
    if desk.give(Job::Find { below: Box::new(below), xid, asker: origin.asker }).is_err() {
        home.send(Mail::Answer(origin.asker, Below::too_many(xid), 0));
    }
}

/// The memory for unfinished large records of a connection. Strangers have little, and all of it in common.
fn memory_of(shared: &Shared, large: &Budget, standing: &Standing) -> Budget {
    let Limits { memory, record, .. } = shared.limits;
    match standing.stranger {
        true => shared.stranger_memory.clone(),
        false => large.share((memory / ADDRESS_SHARES).max(2 * record), Arc::clone(&standing.held)),
    }
}

fn links(shared: &Shared) -> Vec<Link> {
    // Replies are as large as the servers make them, and must be read whatever clients hold.
    let (reply_limit, replies) = (shared.limits.record.max(REPLY_LEAST), Budget::new(usize::MAX));
    let mut links = Vec::new();
    for (number, pool) in shared.pools.iter().enumerate() {
        for link in 0..pool.links() {
            let server = midas_core::id::ServerId((link / pool.config.connections) as u16);
            let token = Token(FIRST_LINK + links.len());
            links.push(Link::new((number, server), pool.server(server).address, token, reply_limit, replies.clone()));
        }
    }
    links
}

pub(crate) const WAKER: Token = Token(0);
const FIRST_LINK: usize = 1;
const FIRST_CLIENT: usize = 1 << 16;
const EVENTS: usize = 1024;
/// How often a batch looks for more before it is sent.
const LOOKS: u32 = 3;
/// Reconnects, timeouts and held calls are looked at this often.
const TICK: Duration = Duration::from_millis(20);
/// One client may hold this part of the memory, with its calls and the answers to them.
const SHARES: usize = 16;
/// Stalled clients and late changes are looked for every so many ticks.
const STALL_LOOK: u64 = 50;
/// The largest reply that a server may send at least.
const REPLY_LEAST: usize = 16 << 20;
/// Calls that one client has taken in a row while others wait for their turn.
const TURN: usize = 256;
/// The same of a stranger, which has one turn a tick; and what one of its connections may hold.
const STRANGER_TURN: usize = 16;
const STRANGER_SHARE: usize = 64 << 10;
/// The part of the memory that unfinished records of one address may take.
const ADDRESS_SHARES: usize = 2;
