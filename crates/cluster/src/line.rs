//! One TCP connection between two members: who dialled sends, the other one only answers the greeting.

use crate::greeting::Letter;
use crate::session::{Kind, Open, Seal};
use mio::net::TcpStream;
use std::io::{self, ErrorKind, Read, Write};
use std::time::Instant;

/// A connection and how far it has come.
pub(crate) struct Line {
    pub(crate) socket: TcpStream,
    pub(crate) stage: Stage,
    pub(crate) since: Instant,
    pub(crate) input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
}

/// How far a connection has come.
pub(crate) enum Stage {
    /// Somebody dialled us and has said nothing that we understood.
    Stranger,
    /// Its greeting was answered; that it is not an old one is known with its first frame.
    Answered(Incoming),
    /// A member sends.
    Receiving(Incoming),
    /// We dialled, and wait for the answer to this greeting.
    Dialling(u8, Letter),
    /// We send to a member.
    Sending(u8, Seal),
}

/// A member at the other end.
pub(crate) struct Incoming {
    pub(crate) peer: u8,
    pub(crate) incarnation: u64,
    pub(crate) version: u16,
    pub(crate) software: String,
    pub(crate) open: Open,
}

impl Line {
    pub(crate) fn new(socket: TcpStream, stage: Stage, now: Instant) -> Self {
        Self { socket, stage, since: now, input: Vec::new(), output: Vec::new(), written: 0 }
    }

    /// Whose it is, once that is known.
    pub(crate) fn peer(&self) -> Option<u8> {
        match &self.stage {
            Stage::Stranger => None,
            Stage::Answered(incoming) | Stage::Receiving(incoming) => Some(incoming.peer),
            Stage::Dialling(peer, _) | Stage::Sending(peer, _) => Some(*peer),
        }
    }

    /// Whether it was not shown yet that a member is at the other end.
    pub(crate) fn unproven(&self) -> bool {
        match self.stage {
            Stage::Stranger | Stage::Answered(_) | Stage::Dialling(..) => true,
            Stage::Receiving(_) | Stage::Sending(..) => false,
        }
    }

    /// Whether somebody else began it and has not shown that it is a member.
    pub(crate) fn strange(&self) -> bool {
        matches!(self.stage, Stage::Stranger | Stage::Answered(_))
    }

    /// Reads once; false if there is nothing now.
    pub(crate) fn read(&mut self, scratch: &mut [u8]) -> io::Result<bool> {
        match self.socket.read(scratch) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.input.extend_from_slice(&scratch[..count]);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Where to append what leaves with the next [`Line::flush`]. What was written is forgotten first.
    pub(crate) fn output(&mut self) -> &mut Vec<u8> {
        self.output.drain(..self.written);
        self.written = 0;
        &mut self.output
    }

    /// Queues a frame; how many bytes it has. None where we do not send.
    pub(crate) fn frame(&mut self, kind: Kind, body: &[u8]) -> Option<usize> {
        self.output();
        let Stage::Sending(_, seal) = &mut self.stage else { return None };
        let before = self.output.len();
        seal.frame(kind, body, &mut self.output);
        Some(self.output.len() - before)
    }

    /// Bytes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.output.len() - self.written
    }

    /// Writes what the socket takes now.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.written < self.output.len() {
            match self.socket.write(&self.output[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                // Not connected yet: it tells when it is.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.written = 0;
        self.output.shrink_to(OUTPUT_KEPT);
        Ok(())
    }
}

/// Room that an idle connection holds.
const OUTPUT_KEPT: usize = 64 << 10;
