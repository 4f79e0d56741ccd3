//! One non-blocking TCP connection that carries records both ways.
//!
//! Reading: the loop's scratch buffer is read into and records are used where they lie; only the rest of a record that is not
//! whole yet is kept, and it grows with what came, never with what was claimed; the rest of a large one is read into its own place. Writing:
//! whatever a batch appends to [`Connection::output`] leaves with one write, and what is large goes from where it lies ([`Connection::put`]).

use crate::{Budget, Buffers, Scratch};
use midas_nfs::record::{Records, Step, TooLong};
use mio::net::TcpStream;
use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, recv, sockopt};
use std::fmt;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::ops::ControlFlow;
use std::time::Duration;

/// A connection, registered with its loop by its owner.
#[derive(Debug)]
pub struct Connection {
    socket: TcpStream,
    records: Records,
    limit: usize,
    /// The beginning of a record that is not whole yet.
    partial: Vec<u8>,
    /// Bytes that `partial` must hold before another look is worth while.
    needed: usize,
    /// Whether the last record was large: the next may be, and what is read of it before that is known is copied.
    large: bool,
    budget: Budget,
    reserved: usize,
    output: Vec<u8>,
    sent: usize,
}

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The socket is empty for now.
    Drained,
    /// There may be more: read again when the others had their turn.
    More,
    /// A large record waits for its reservation: read again later.
    Waiting,
}

/// Whether a batch of records goes on after one of them.
pub type Go = ControlFlow<()>;

/// Why a connection is over.
#[derive(Debug)]
pub enum Ended {
    /// The other side closed it.
    Closed,
    /// The network failed.
    Failed(io::Error),
    /// A record larger than the limit: what follows cannot be found.
    TooLong(TooLong),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed by the other side"),
            Self::Failed(error) => write!(f, "{error}"),
            Self::TooLong(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Ended {}

impl Connection {
    /// Takes a socket over; records of up to `limit` bytes are accepted.
    pub fn new(socket: TcpStream, limit: usize, budget: Budget) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        // A client that lost its power must not keep its place for ever.
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, KEEPALIVE)?;
        Ok(Self {
            socket,
            records: Records::new(limit),
            limit,
            partial: Vec::new(),
            needed: 0,
            large: false,
            budget,
            reserved: 0,
            output: Vec::new(),
            sent: 0,
        })
    }

    /// The socket, to register it.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Reads once and hands every whole record to `each`, with [`Connection::output`] to append answers to: take that before.
    /// When `each` breaks, the records after that one are kept for the next time.
    pub fn receive(
        &mut self,
        scratch: &mut Scratch,
        mut each: impl FnMut(&[u8], &mut Vec<u8>) -> Go,
    ) -> Result<Flow, Ended> {
        if !self.partial.is_empty() && self.partial.len() >= self.needed {
            self.split_kept(&mut each)?;
            return Ok(Flow::More);
        }
        if !self.reserve() {
            return Ok(Flow::Waiting);
        }
        match self.partial.is_empty() || self.reserved == 0 {
            true => self.receive_fresh(&mut scratch.0, &mut each),
            false => self.receive_on(&mut each),
        }
    }

    /// Little or nothing is kept from before: records lie in the scratch buffer.
    fn receive_fresh(
        &mut self,
        scratch: &mut [u8],
        each: &mut impl FnMut(&[u8], &mut Vec<u8>) -> Go,
    ) -> Result<Flow, Ended> {
        let kept = self.partial.len();
        // Unless the largest record could be reserved, what one read may leave behind stays small: two halves that wait for
        // each other's room would wait for ever.
        let room = if self.budget.left() > self.limit && !self.large { scratch.len() } else { kept + FREE };
        scratch[..kept].copy_from_slice(&self.partial);
        let Some(read) = read(&mut self.socket, &mut scratch[kept..room])? else {
            return Ok(Flow::Drained);
        };
        let (used, needed) = split(&mut self.records, &scratch[..kept + read], &mut self.output, each)?;
        self.partial.clear();
        self.partial.extend_from_slice(&scratch[used..kept + read]);
        self.needed = needed;
        self.large = needed > FREE;
        self.settle();
        Ok(if kept + read == room || self.look_again() { Flow::More } else { Flow::Drained })
    }

    /// A large record has begun: what is missing of it is read into its place.
    fn receive_on(&mut self, each: &mut impl FnMut(&[u8], &mut Vec<u8>) -> Go) -> Result<Flow, Ended> {
        // The record's own size, and not twice as much.
        self.partial.reserve_exact(self.needed - self.partial.len());
        let room = self.partial.capacity() - self.partial.len();
        let Some(read) = read_into(&self.socket, &mut self.partial)? else {
            return Ok(Flow::Drained);
        };
        match self.partial.len() >= self.needed {
            true => self.split_kept(each)?,
            false => self.settle(),
        }
        Ok(if read == room || self.look_again() { Flow::More } else { Flow::Drained })
    }

    fn split_kept(&mut self, each: &mut impl FnMut(&[u8], &mut Vec<u8>) -> Go) -> Result<(), Ended> {
        let (used, needed) = split(&mut self.records, &self.partial, &mut self.output, each)?;
        self.partial.drain(..used);
        self.needed = needed;
        self.settle();
        Ok(())
    }

    /// Whether whole records are kept because the last batch was broken off.
    fn look_again(&self) -> bool {
        !self.partial.is_empty() && self.partial.len() >= self.needed
    }

    /// A record that is large reserves what it will take before it is read on. One in several fragments does not say what it
    /// will take: it may be the largest.
    fn reserve(&mut self) -> bool {
        let wanted = if self.records.held() > FREE { self.limit } else { self.needed };
        if wanted <= FREE.max(self.reserved) {
            return true;
        }
        let more = wanted - self.reserved;
        let reserved = self.budget.reserve(more);
        self.reserved += if reserved { more } else { 0 };
        reserved
    }

    /// Accounts for what is held now, and gives back what is not. An idle connection holds next to nothing.
    fn settle(&mut self) {
        if self.partial.len() <= FREE && self.partial.capacity() > 2 * FREE {
            self.partial.shrink_to(self.partial.len());
        }
        let held = self.partial.len() + self.records.held();
        if held <= FREE {
            self.budget.release(std::mem::take(&mut self.reserved));
            return;
        }
        // What is held counts, whether or not there was room for it: also whole records that wait for their turn.
        self.reserve();
        if held > self.reserved {
            self.budget.force(held - self.reserved);
            self.reserved = held;
        }
    }

    /// Bytes that are held under the budget.
    pub const fn reserved(&self) -> usize {
        self.reserved
    }

    /// Bytes that may still be held under the budget.
    pub fn left(&self) -> usize {
        self.budget.left()
    }

    /// Where answers and calls are appended; they leave with the next [`Connection::flush`].
    #[inline]
    pub fn output(&mut self, buffers: &mut Buffers) -> &mut Vec<u8> {
        if self.output.capacity() == 0 {
            self.output = buffers.take();
        }
        &mut self.output
    }

    /// Sends one record, its mark and first word apart, after what waits: what is large and need not wait is not copied. An error shows
    /// at the next flush.
    #[inline]
    pub fn put(&mut self, buffers: &mut Buffers, head: &[u8; HEAD], body: &[u8]) {
        if body.len() >= LARGE {
            return self.put_large(buffers, *head, body);
        }
        let output = self.output(buffers);
        output.reserve(HEAD + body.len());
        output.extend_from_slice(head);
        output.extend_from_slice(body);
    }

    #[cold]
    fn put_large(&mut self, buffers: &mut Buffers, head: [u8; HEAD], body: &[u8]) {
        let mut gone = 0;
        if self.flush(buffers).is_ok_and(|all| all) {
            gone = self.socket.write_vectored(&[IoSlice::new(&head), IoSlice::new(body)]).unwrap_or(0);
        }
        let output = self.output(buffers);
        for part in [&head[..], body] {
            let sent = gone.min(part.len());
            gone -= sent;
            output.extend_from_slice(&part[sent..]);
        }
    }

    /// Bytes that wait to be sent.
    #[inline]
    pub fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Whether the beginning of a record is held.
    pub fn mid_record(&self) -> bool {
        !self.partial.is_empty() || self.records.held() > 0
    }

    /// Bytes of memory that this connection holds beyond its own size.
    pub fn held(&self) -> usize {
        self.partial.capacity() + self.output.capacity() + self.records.held()
    }

    /// Sends what it can; whether all of it went.
    pub fn flush(&mut self, buffers: &mut Buffers) -> Result<bool, Ended> {
        while self.sent < self.output.len() {
            match self.socket.write(&self.output[self.sent..]) {
                Ok(0) => return Err(Ended::Closed),
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.compact();
                    return Ok(false);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Ended::Failed(error)),
            }
        }
        self.sent = 0;
        buffers.give(std::mem::take(&mut self.output));
        Ok(true)
    }

    /// A slow reader's sent bytes do not pile up in front of the unsent ones.
    fn compact(&mut self) {
        if self.sent > self.output.len() / 2 {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// The largest record that is taken.
    pub const fn limit(&self) -> usize {
        self.limit
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.budget.release(self.reserved);
    }
}

/// Hands whole records on; bytes used, and how many the rest must hold before it is worth another look.
fn split(
    records: &mut Records,
    input: &[u8],
    output: &mut Vec<u8>,
    each: &mut impl FnMut(&[u8], &mut Vec<u8>) -> Go,
) -> Result<(usize, usize), Ended> {
    let mut used = 0;
    loop {
        match records.next(&input[used..]).map_err(Ended::TooLong)? {
            Step::Record { body, consumed } => {
                let go = each(body, output);
                used += consumed;
                if go.is_break() {
                    return Ok((used, 0));
                }
            }
            Step::More { consumed, needed } => return Ok((used + consumed, needed)),
        }
    }
}

/// One read; none if there is nothing now.
fn read(socket: &mut TcpStream, into: &mut [u8]) -> Result<Option<usize>, Ended> {
    loop {
        match socket.read(into) {
            Ok(0) => return Err(Ended::Closed),
            Ok(read) => return Ok(Some(read)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Ended::Failed(error)),
        }
    }
}

/// One read into what a buffer has room for; none if there is nothing now.
fn read_into(socket: &TcpStream, buffer: &mut Vec<u8>) -> Result<Option<usize>, Ended> {
    loop {
        match recv(socket, spare_capacity(buffer), RecvFlags::empty()).map_err(io::Error::from) {
            Ok((0, _)) => return Err(Ended::Closed),
            Ok((read, _)) => return Ok(Some(read)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Ended::Failed(error)),
        }
    }
}

/// A record's mark and its first word, the xid.
const HEAD: usize = 8;
/// A record that is worth a write of its own.
const LARGE: usize = 64 << 10;
/// An unfinished record takes this much without a reservation.
const FREE: usize = 16 << 10;
/// Silence after which the other side is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);
