//! One event loop's connection to one server: calls leave under xids of our own, replies come back in any order, and a
//! connection that is lost is made again while its calls wait.

use crate::claim::Claim;
use crate::exclusive::Exclusive;
use crate::flight::Flights;
use crate::realm::Sent;
use crate::relay::Waits;
use crate::whose::Owner;
use midas_core::id::ServerId;
use midas_core::time::{Span, Time};
use midas_net::{Budget, Buffers, Connection, Source, begin};
use midas_nfs::nfs3::Procedure;
use midas_nfs::record;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

/// A server's connection and the calls that are under way on it.
pub(crate) struct Link {
    /// The number of its pool.
    pub(crate) pool: usize,
    pub(crate) server: ServerId,
    pub(crate) flights: Flights<Flight>,
    pub(crate) state: State,
    address: SocketAddr,
    token: Token,
    record_limit: usize,
    budget: Budget,
    retry_at: Time,
    backoff: Span,
    /// Where the last connection came from.
    port: Option<u16>,
    /// Whether nobody listened since the last connection: the server has started anew, and has lost what it knew of calls.
    pub(crate) restarted: bool,
    /// Since when its server takes no calls, as far as its loop has seen.
    pub(crate) closed: Option<Time>,
    /// Calls that a server which has started anew has perhaps executed before.
    pub(crate) doubts: Vec<u32>,
    /// Calls that were moved away while the connection stands, by their xids: an answer may still come.
    pub(crate) moved: HashMap<u32, Moved>,
    /// When the last connection broke.
    pub(crate) lost_at: Option<Time>,
}

/// A call that was moved away from this server.
pub(crate) struct Moved {
    /// The number of its late copy.
    pub(crate) late: u64,
    pub(crate) procedure: Procedure,
    /// Where the call finds the answer.
    pub(crate) first: Arc<OnceLock<Box<[u8]>>>,
}

pub(crate) enum State {
    /// Nothing; calls wait.
    Down,
    /// On its way, since then.
    Connecting(TcpStream, Time),
    /// Calls go.
    Up(Connection),
}

/// A call that waits for a server's answer.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct Flight {
    pub(crate) waits: Waits,
    pub(crate) owner: Owner,
    /// The number of the export that routes it.
    pub(crate) realm: usize,
    pub(crate) sent: Sent,
    /// When it was first routed; kept when it moves.
    pub(crate) since: Time,
    /// When it was last sent.
    pub(crate) sent_at: Time,
    /// Whether any of it may have reached the server.
    pub(crate) left: bool,
    /// Whether it was sent more than once: an earlier copy may run after the answer.
    pub(crate) resent: bool,
    /// Whether it was sent again on another connection: who listens there may have lost its memory.
    pub(crate) reconnected: bool,
    /// Whether it is to be sent again, and other proxies must know first.
    pub(crate) overdue: bool,
    /// Whether it is being found out if it was executed.
    pub(crate) asked: bool,
    /// How many servers' answers to it were in doubt.
    pub(crate) tries: u8,
    /// What it holds of the cache.
    pub(crate) claim: Option<Claim>,
    /// Its turn at what it changes.
    pub(crate) turn: Option<Exclusive>,
}

impl Link {
    pub(crate) fn new(
        (pool, server): (usize, ServerId),
        address: SocketAddr,
        token: Token,
        record_limit: usize,
        budget: Budget,
    ) -> Self {
        Self {
            pool,
            server,
            flights: Flights::new(),
            state: State::Down,
            address,
            token,
            record_limit,
            budget,
            retry_at: Time::ZERO,
            backoff: BACKOFF_FIRST,
            port: None,
            restarted: false,
            closed: None,
            doubts: Vec::new(),
            moved: HashMap::new(),
            lost_at: None,
        }
    }

    /// Begins to connect if it is time to, and gives up what takes too long.
    pub(crate) fn tend(&mut self, now: Time, registry: &Registry) {
        match &self.state {
            State::Down if now >= self.retry_at => match self.connect(registry) {
                Ok(socket) => self.state = State::Connecting(socket, now),
                Err(_) => self.refused(now),
            },
            State::Connecting(_, since) if now.since(*since) > PATIENCE => self.refused(now),
            State::Down | State::Connecting(..) | State::Up(_) => {}
        }
    }

    fn connect(&self, registry: &Registry) -> io::Result<TcpStream> {
        let source = self.port.map_or(Source::Reserved, Source::Same);
        let mut socket = TcpStream::from_std(begin(self.address, source)?);
        registry.register(&mut socket, self.token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(socket)
    }

    /// A socket that was connecting has something to say: whether calls can go now.
    pub(crate) fn connected(&mut self, now: Time, buffers: &mut Buffers) -> bool {
        let State::Connecting(socket, _) = &self.state else { return matches!(self.state, State::Up(_)) };
        match socket.take_error() {
            Ok(None) if socket.peer_addr().is_ok() => {}
            Ok(None) => return false,
            Ok(Some(_)) | Err(_) => {
                self.refused(now);
                return false;
            }
        }
        let State::Connecting(socket, _) = std::mem::replace(&mut self.state, State::Down) else { return false };
        self.port = socket.local_addr().ok().map(|address| address.port());
        match Connection::new(socket, self.record_limit, self.budget.clone()) {
            Ok(connection) => {
                self.state = State::Up(connection);
                self.backoff = BACKOFF_FIRST;
                self.resend(now, buffers);
                true
            }
            Err(_) => {
                self.failed(now);
                false
            }
        }
    }

    /// For how long its server has taken no calls.
    pub(crate) fn closed_for(&mut self, now: Time, closed: bool) -> Span {
        self.closed = self.closed.or(Some(now)).filter(|_| closed);
        self.closed.map_or(Span::ZERO, |since| now.since(since))
    }

    fn refused(&mut self, now: Time) {
        self.restarted = true;
        self.failed(now);
    }

    /// The connection is gone: made again after a pause that grows.
    pub(crate) fn failed(&mut self, now: Time) {
        if matches!(self.state, State::Up(_)) {
            self.lost_at = Some(now);
            self.moved.clear();
        }
        self.state = State::Down;
        self.retry_at = now + self.backoff;
        self.backoff = (self.backoff * 2).min(BACKOFF_MOST);
    }

    /// Takes a call; it leaves with the next flush, or when there is a connection.
    #[inline]
    pub(crate) fn take(&mut self, now: Time, make: impl FnOnce() -> Flight, call: &[u8], buffers: &mut Buffers) {
        let xid = self.flights.insert(make, call);
        self.send(now, xid, buffers);
    }

    /// The xids of the calls that meet a condition.
    pub(crate) fn chosen(&mut self, is: impl Fn(&Flight) -> bool) -> Vec<u32> {
        let all: Vec<u32> = self.flights.xids().collect();
        all.into_iter().filter(|xid| self.flights.get_mut(*xid).is_some_and(|(flight, _)| is(flight))).collect()
    }

    /// Sends calls again that have had no answer for so long, under the xid that the server may know.
    pub(crate) fn repeat(&mut self, now: Time, after: Span, buffers: &mut Buffers) {
        let late = |flight: &Flight| flight.left && !flight.asked && now.since(flight.sent_at) >= after;
        for xid in self.chosen(late) {
            // What a server that started anew has perhaps executed is found out first.
            if self.doubts.contains(&xid) {
                continue;
            }
            if let Some((flight, _)) = self.flights.get_mut(xid) {
                flight.sent_at = now;
                self.send(now, xid, buffers);
            }
        }
    }

    /// After a reconnect every call that is still here goes again, under the xid that the server may know. One that has started anew
    /// does not: there it must be found out first what it has executed.
    fn resend(&mut self, now: Time, buffers: &mut Buffers) {
        let restarted = std::mem::take(&mut self.restarted);
        // Nobody has found out yet: a connection that was lost meanwhile says nothing of them.
        let doubted = std::mem::take(&mut self.doubts);
        let mut xids: Vec<u32> = self.flights.xids().collect();
        xids.sort_by_key(|xid| self.flights.get_mut(*xid).map(|(flight, _)| flight.since));
        for xid in xids {
            match self.flights.get_mut(xid) {
                Some((flight, _))
                    if (restarted || doubted.contains(&xid)) && flight.left && !flight.waits.procedure.idempotent() =>
                {
                    self.doubts.push(xid);
                }
                // The answer is on its way, and says whether to send it.
                Some((flight, _)) if flight.asked => {}
                Some((flight, _)) => {
                    flight.reconnected |= flight.left;
                    self.send(now, xid, buffers);
                }
                None => {}
            }
        }
    }

    /// Sends a call that is here, if there is a connection. A mutation that other proxies must know of waits until they do.
    pub(crate) fn send(&mut self, now: Time, xid: u32, buffers: &mut Buffers) {
        if let (State::Up(connection), Some((flight, call))) = (&mut self.state, self.flights.get_mut(xid)) {
            if matches!(&flight.claim, Some(Claim::Changes(changes)) if changes.patient() && !changes.may_leave(now)) {
                flight.overdue = true;
                return;
            }
            flight.resent |= flight.left;
            flight.left = true;
            connection.put(buffers, &record::head(call.len(), xid), call.get(4..).unwrap_or_default());
        }
    }
}

/// A connection that is not there after so long will not come.
const PATIENCE: Span = Span::from_secs(3);
const BACKOFF_FIRST: Span = Span::from_millis(50);
const BACKOFF_MOST: Span = Span::from_secs(2);
