//! Clients that come to an event loop, make room for others, or are taken from the lists.

use crate::dispatch::Origin;
use crate::event::{Client, Loop};
use crate::log;
use mio::net::TcpStream;
use std::net::{IpAddr, SocketAddr};

impl Loop {
    /// Takes a new client.
    pub(crate) fn seat(&mut self, socket: TcpStream, client: SocketAddr) {
        // A socket that is gone already needs no place.
        if self.welcome(socket, client).is_err() {
            self.unseat(client.ip(), Some(self.generation));
        }
    }

    /// Takes a new client in the place of the oldest idle connection of an address; if it has none,
    /// not. A stranger's makes way for a listed client though it has not taken its answers.
    pub(crate) fn seat_instead(&mut self, socket: TcpStream, client: SocketAddr, of: IpAddr) {
        let listed = !self.shared.client_table.stranger(client.ip());
        let makes_way = |of: &Client| of.idle() || listed && of.origin.stranger;
        let idle = |slot: u32| self.clients.get(slot as usize).is_some_and(makes_way);
        match self.shared.client_table.oldest_idle(of, self.number, idle) {
            Some(slot) => {
                self.tally().replaced.add(1);
                log::warn("idle connection ended for a new one", &[("client", &of)]);
                self.end(slot as usize);
                self.seat(socket, client);
            }
            None => {
                self.tally().turned_away.add(1);
                self.unseat(client.ip(), None);
            }
        }
    }

    /// Ends the connections of clients that were listed and are strangers now, or the other way round.
    pub(crate) fn relisted(&mut self) {
        let table = &self.shared.client_table;
        let differs = |origin: &Origin| table.stranger(origin.client.ip()) != origin.stranger;
        let slots: Vec<usize> =
            self.clients.iter().filter(|(_, client)| differs(&client.origin)).map(|(slot, _)| slot).collect();
        if !slots.is_empty() {
            log::info("connections ended: the lists of clients changed", &[("connections", &slots.len())]);
        }
        for slot in slots {
            self.end(slot);
        }
    }
}
