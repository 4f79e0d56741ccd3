//! One connection of the generator, with the calls that are under way on it. A lost connection is made again, and what is under
//! way is sent again with the same xids, as a client with a hard mount does.

use crate::clock::Nanos;
use crate::schedule::Due;
use crate::slots::Slots;
use midas_net::{Budget, Connection, Source, begin};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

/// A connection, there or not, and its calls.
#[derive(Debug)]
pub(crate) struct Lane {
    /// The connection's number in the run.
    pub(crate) number: u32,
    pub(crate) link: Link,
    pub(crate) slots: Slots,
    /// Calls that are due and cannot be sent yet.
    pub(crate) backlog: VecDeque<Due>,
    /// Before this no call can have waited too long.
    pub(crate) check_at: Nanos,
    /// Attempts to connect that failed one after another.
    failures: u32,
}

/// A connection's state.
#[derive(Debug)]
pub(crate) enum Link {
    Up(Connection),
    Connecting { connection: Connection, until: Nanos },
    Down { until: Nanos },
}

impl Lane {
    pub(crate) fn new(number: u32, connection: Connection, slots: Slots) -> Self {
        Self { number, link: Link::Up(connection), slots, backlog: VecDeque::new(), check_at: 0, failures: 0 }
    }

    /// It is gone: it will be tried again, soon at first.
    pub(crate) fn fail(&mut self, now: Nanos) {
        let wait = RETRY_FIRST.saturating_mul(1 << self.failures.min(16)).min(RETRY_LAST);
        self.failures += 1;
        self.link = Link::Down { until: now + wait };
    }

    /// Begins to connect.
    pub(crate) fn connect(
        &mut self,
        (address, source): (SocketAddr, Source),
        registry: &Registry,
        token: Token,
        now: Nanos,
    ) -> io::Result<()> {
        let mut connection = open(TcpStream::from_std(begin(address, source)?))?;
        registry.register(connection.socket(), token, Interest::READABLE | Interest::WRITABLE)?;
        self.link = Link::Connecting { connection, until: now + CONNECT_PATIENCE };
        Ok(())
    }

    /// Something happened to a socket that connects: whether it is connected now.
    pub(crate) fn connected(&mut self) -> io::Result<bool> {
        let Link::Connecting { connection, .. } = &mut self.link else { return Ok(false) };
        if let Some(error) = connection.socket().take_error()? {
            return Err(error);
        }
        match connection.socket().peer_addr() {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(false),
            Err(error) => return Err(error),
        }
        let link = std::mem::replace(&mut self.link, Link::Down { until: 0 });
        if let Link::Connecting { connection, .. } = link {
            self.link = Link::Up(connection);
        }
        self.failures = 0;
        Ok(true)
    }
}

/// A connection over a socket, with room for the largest reply.
pub(crate) fn open(socket: TcpStream) -> io::Result<Connection> {
    Connection::new(socket, RECORD_LIMIT, Budget::new(usize::MAX))
}

/// Waits between attempts to connect.
const RETRY_FIRST: Nanos = 10_000_000;
const RETRY_LAST: Nanos = 1_000_000_000;
/// An attempt to connect that takes longer has failed.
const CONNECT_PATIENCE: Nanos = 3_000_000_000;
/// Larger than any READ that is asked for.
const RECORD_LIMIT: usize = 4 << 20;
