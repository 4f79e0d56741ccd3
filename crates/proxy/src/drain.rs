//! The end of a loop's clients when the daemon is told to end: no call is read any more, those under way are answered, and each
//! connection is closed so that its last answer arrives.
//!
//! A socket that is closed with calls unread is reset, and a reset overtakes answers: the client would send again what was executed. So our
//! side is closed first, and what still comes is thrown away until the client has closed its own: it was not executed, and is sent again
//! to whoever serves next.

use crate::event::{Client, Loop};
use std::io::{ErrorKind, Read};
use std::net::Shutdown;
use std::time::{Duration, Instant};

impl Loop {
    /// Looks at every client once.
    pub(crate) fn wind_down(&mut self, now: Instant) {
        let over = |client: &mut Client| match client.closing {
            Some(since) => gone(client) || now.saturating_duration_since(since) > LINGER,
            None if client.waiting == 0 && client.connection.unsent() == 0 => {
                client.closing = Some(now);
                client.connection.socket().shutdown(Shutdown::Write).is_err()
            }
            None => false,
        };
        let ended: Vec<usize> =
            self.clients.iter_mut().filter_map(|(slot, client)| over(client).then_some(slot)).collect();
        for slot in ended {
            self.end(slot);
        }
    }
}

/// Whether the client has closed its side. What it sent is thrown away.
fn gone(client: &mut Client) -> bool {
    let mut thrown = [0; CHUNK];
    for _ in 0..CHUNKS {
        match client.connection.socket().read(&mut thrown) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
    false
}

/// A client that has not closed its side after so long is not waited for.
const LINGER: Duration = Duration::from_secs(2);
const CHUNK: usize = 16 << 10;
/// Read at once from one client.
const CHUNKS: usize = 64;
