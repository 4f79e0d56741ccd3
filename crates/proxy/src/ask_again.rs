//! The answers that are not passed on at once, and the server that is asked again instead.

use crate::link::Flight;
use crate::pool::Pool;
use crate::relay::asks_of_object;
use midas_core::id::ServerId;
use midas_core::time::Span;
use midas_nfs::nfs3::{Nfsstat3, Procedure};

/// Who may know better. Others: of an object that a server does not know, or of what is just being
/// removed (IO), for calls that may be sent again, where what one server knows all know; and of a
/// device or socket, which no head of Ganesha knows by its handle but those that made it or looked
/// it up (INVAL): such a call was refused, so it may be sent elsewhere whatever it does. The server
/// itself: no listing fails with NOENT (RFC 1813), but a head of Ganesha says so of a directory
/// from which another call is removing a name, and knows better at once.
pub(crate) fn in_doubt(pool: &Pool, flight: &Flight, reply: &[u8]) -> Option<ServerId> {
    let [.., b0, b1, b2, b3] = reply.first_chunk::<28>()?;
    let accepted = reply[4..12] == [0, 0, 0, 1, 0, 0, 0, 0] && reply[12..24] == [0; 12];
    let status = Nfsstat3(u32::from_be_bytes([*b0, *b1, *b2, *b3]));
    let tries = match status {
        // What takes as long as a removal takes may show at every head.
        Nfsstat3::IO => IO_TRIES,
        Nfsstat3::INVAL => pool.servers.len().min(INVAL_TRIES) as u8,
        _ => TRIES,
    };
    if !accepted || flight.tries >= tries {
        return None;
    }
    let server = flight.sent.ticket.route.to;
    let next = || pool.some_open(server.index() + 1).filter(|other| *other != server);
    let procedure = flight.waits.procedure;
    if status == Nfsstat3::INVAL && (asks_of_object(procedure) || procedure == Procedure::Link) {
        // The one before was the last that had not been asked.
        let last = usize::from(flight.tries) + 1 >= pool.servers.len();
        return if last || flight.resent { None } else { next() };
    }
    if !flight.sent.meaning.movable {
        return None;
    }
    let another = || next().filter(|_| pool.staleness() == Span::ZERO);
    match (status, procedure) {
        (Nfsstat3::STALE | Nfsstat3::BADHANDLE, _) | (Nfsstat3::IO, Procedure::Getattr) => another(),
        // One that does not is not asked for ever.
        (Nfsstat3::NOENT, Procedure::Readdir | Procedure::Readdirplus) => match flight.tries {
            0 => Some(server),
            _ => another().or(Some(server)),
        },
        _ => None,
    }
}

/// Answers to one call that may be doubted.
pub(crate) const TRIES: u8 = 2;
const IO_TRIES: u8 = 8;
const INVAL_TRIES: usize = 16;
