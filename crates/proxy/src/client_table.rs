//! The table of client connections, by address: who has how many, and who must give one up at a limit.
//!
//! An address on no export's list is a stranger. Strangers share a small number of connections. The
//! table is asked when a connection comes or goes and when the lists change, never for a call.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// All client connections of the daemon.
#[derive(Default)]
pub(crate) struct ClientTable(Mutex<Addresses>);

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    pub(crate) connections: usize,
    /// Of these, strangers' in all.
    pub(crate) strangers: usize,
}

/// Where a new connection goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// To the event loop with the fewest.
    Free,
    /// To this event loop, in the place of an idle connection of this address.
    InsteadOf { event_loop: usize, address: IpAddr },
    /// Nowhere.
    Full,
}

/// What an event loop must know of a connection's address.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) stranger: bool,
    /// Bytes of unfinished records that all connections of the address hold.
    pub(crate) held: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Addresses {
    of: HashMap<IpAddr, Entry>,
    listed: Ranking,
    strangers: Ranking,
    /// Places that strangers have taken from each other lately.
    taken: Taken,
}

/// How many places were taken from others lately. Each costs an event loop more than to turn its taker away.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    since: Option<Instant>,
    count: u32,
}

impl Taken {
    /// Whether one more may be taken now.
    fn one_more(&mut self, now: Instant) -> bool {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= TAKEN_IN) {
            (self.since, self.count) = (Some(now), 0);
        }
        self.count += 1;
        self.count <= TAKEN_MOST
    }
}

/// Addresses by the number of their connections.
#[derive(Default)]
struct Ranking {
    connections: usize,
    order: BTreeSet<(usize, IpAddr)>,
}

struct Entry {
    standing: Standing,
    connections: usize,
    taken: Taken,
    /// By event loop.
    seats: BTreeMap<usize, Seats>,
}

/// The connections of one address in one event loop.
#[derive(Default)]
struct Seats {
    /// Those on their way to the loop included.
    connections: usize,
    /// Slots by generation, so in the order in which they came.
    slots: BTreeMap<u32, u32>,
    /// The generation that was looked at last when an idle one was wanted.
    looked_at: u32,
}

impl ClientTable {
    /// Decides about a new connection; `listed` tells whether an address is on any export's list.
    pub(crate) fn admit(&self, now: Instant, client: IpAddr, caps: Caps, listed: impl Fn(IpAddr) -> bool) -> Admission {
        let mut table = self.table();
        let known = table.of.get(&client).map(|entry| entry.standing.stranger);
        let stranger = known.unwrap_or_else(|| !listed(client));
        let (strangers, all) = (table.strangers.connections, table.listed.connections + table.strangers.connections);
        let full_of_strangers = stranger && strangers >= caps.strangers;
        if !full_of_strangers && all < caps.connections {
            return Admission::Free;
        }
        let Addresses { of, taken, .. } = &mut *table;
        let taken = if stranger { Some(taken) } else { of.get_mut(&client).map(|entry| &mut entry.taken) };
        if taken.is_some_and(|taken| !taken.one_more(now)) {
            return Admission::Full;
        }
        // A stranger never takes a listed client's place.
        let ranking = if stranger || strangers > 0 { &table.strangers } else { &table.listed };
        let most = ranking.order.last().map(|(_, address)| *address);
        let seats = most.and_then(|address| {
            let seats = table.of.get(&address)?.seats.iter();
            Some((address, seats.max_by_key(|(_, seats)| seats.slots.len()).map(|(event_loop, _)| *event_loop)?))
        });
        seats.map_or(Admission::Full, |(address, event_loop)| Admission::InsteadOf { event_loop, address })
    }

    /// Counts a connection that is on its way to an event loop.
    pub(crate) fn enter(&self, client: IpAddr, event_loop: usize, listed: impl Fn(IpAddr) -> bool) {
        let mut table = self.table();
        table.of.entry(client).or_insert_with(|| {
            let standing = Standing { stranger: !listed(client), held: Arc::default() };
            Entry { standing, connections: 0, taken: Taken::default(), seats: BTreeMap::new() }
        });
        table.change(client, |entry| {
            entry.connections += 1;
            entry.seats.entry(event_loop).or_default().connections += 1;
        });
    }

    /// Notes where a connection sits that was counted before. None if it was not.
    pub(crate) fn seat(&self, client: IpAddr, event_loop: usize, (slot, generation): (u32, u32)) -> Option<Standing> {
        let mut table = self.table();
        let entry = table.of.get_mut(&client)?;
        entry.seats.entry(event_loop).or_default().slots.insert(generation, slot);
        Some(entry.standing.clone())
    }

    /// A connection is gone, or never got its seat.
    pub(crate) fn leave(&self, client: IpAddr, event_loop: usize, generation: Option<u32>) {
        let mut table = self.table();
        table.change(client, |entry| {
            entry.connections = entry.connections.saturating_sub(1);
            let Some(seats) = entry.seats.get_mut(&event_loop) else { return };
            seats.connections = seats.connections.saturating_sub(1);
            if let Some(generation) = generation {
                seats.slots.remove(&generation);
            }
            if seats.connections == 0 {
                entry.seats.remove(&event_loop);
            }
        });
    }

    /// The oldest idle connection of an address in an event loop; if all that are looked at are busy, one of
    /// the next few addresses with most connections, which are strangers only if this one is.
    pub(crate) fn oldest_idle(&self, client: IpAddr, event_loop: usize, idle: impl Fn(u32) -> bool) -> Option<u32> {
        let mut table = self.table();
        let stranger = table.of.get(&client)?.standing.stranger;
        let ranking = if stranger { &table.strangers } else { &table.listed };
        let has_seats = |of: &IpAddr| table.of.get(of).is_some_and(|entry| entry.seats.contains_key(&event_loop));
        let most = ranking.order.iter().rev().take(RANKS).map(|(_, address)| *address);
        let next: Vec<IpAddr> = most.filter(|of| *of != client && has_seats(of)).take(NEXT).collect();
        std::iter::once(client).chain(next).find_map(|of| table.of.get_mut(&of)?.oldest_idle(event_loop, &idle))
    }

    /// The lists have changed: every address is judged again.
    pub(crate) fn judge(&self, listed: impl Fn(IpAddr) -> bool) {
        let mut table = self.table();
        let addresses: Vec<IpAddr> = table.of.keys().copied().collect();
        for address in addresses {
            let stranger = !listed(address);
            table.change(address, |entry| entry.standing.stranger = stranger);
        }
    }

    /// Whether an address that has connections is a stranger's.
    pub(crate) fn stranger(&self, client: IpAddr) -> bool {
        self.table().of.get(&client).is_some_and(|entry| entry.standing.stranger)
    }

    /// Connections of listed clients, and of strangers.
    pub(crate) fn connections(&self) -> (usize, usize) {
        let table = self.table();
        (table.listed.connections, table.strangers.connections)
    }

    fn table(&self) -> MutexGuard<'_, Addresses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Addresses {
    /// Changes an address's entry, and its place in the rankings with it.
    fn change(&mut self, client: IpAddr, change: impl FnOnce(&mut Entry)) {
        let Self { of, listed, strangers, .. } = self;
        let Some(entry) = of.get_mut(&client) else { return };
        let (before, was_stranger) = (entry.connections, entry.standing.stranger);
        change(entry);
        let (after, is_stranger) = (entry.connections, entry.standing.stranger);
        if was_stranger { &mut *strangers } else { &mut *listed }.take(client, before);
        if is_stranger { strangers } else { listed }.put(client, after);
        if after == 0 {
            of.remove(&client);
        }
    }
}

impl Entry {
    /// A busy connection that was passed over is looked at again after the others. No more than a few are looked at.
    fn oldest_idle(&mut self, event_loop: usize, idle: impl Fn(u32) -> bool) -> Option<u32> {
        let seats = self.seats.get_mut(&event_loop)?;
        let behind = seats.slots.range(..=seats.looked_at);
        let ahead = seats.slots.range(seats.looked_at.saturating_add(1)..);
        let mut looked_at = seats.looked_at;
        let mut found = None;
        for (generation, slot) in ahead.chain(behind).take(LOOKS) {
            if idle(*slot) {
                found = Some(*slot);
                break;
            }
            looked_at = *generation;
        }
        seats.looked_at = looked_at;
        found
    }
}

impl Ranking {
    fn take(&mut self, client: IpAddr, connections: usize) {
        self.connections -= connections;
        self.order.remove(&(connections, client));
    }

    fn put(&mut self, client: IpAddr, connections: usize) {
        self.connections += connections;
        if connections > 0 {
            self.order.insert((connections, client));
        }
    }
}

/// An address takes at most so many places from others in this time, and strangers take so many together.
const TAKEN_MOST: u32 = 20;
const TAKEN_IN: Duration = Duration::from_millis(100);
/// Connections that are looked at for an idle one.
const LOOKS: usize = 64;
/// Other addresses whose connections are looked at, and how many are gone through to find these.
const NEXT: usize = 2;
const RANKS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const CAPS: Caps = Caps { connections: 8, strangers: 2 };

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    /// Addresses below 100 are listed.
    fn listed(client: IpAddr) -> bool {
        client < address(100)
    }

    fn fill(table: &ClientTable, client: IpAddr, event_loop: usize, generations: std::ops::Range<u32>) {
        for generation in generations {
            table.enter(client, event_loop, listed);
            table.seat(client, event_loop, (generation, generation)).unwrap();
        }
    }

    #[test]
    fn at_the_limit_the_address_with_most_gives_one_up() {
        let table = ClientTable::default();
        fill(&table, address(1), 0, 0..2);
        fill(&table, address(2), 0, 2..3);
        fill(&table, address(2), 1, 0..5);
        let instead = Admission::InsteadOf { event_loop: 1, address: address(2) };
        assert_eq!(table.admit(Instant::now(), address(3), CAPS, listed), instead);
        table.leave(address(1), 0, Some(1));
        assert_eq!(table.admit(Instant::now(), address(3), CAPS, listed), Admission::Free);
    }

    #[test]
    fn strangers_have_a_cap_of_their_own_and_take_no_place_of_others() {
        let table = ClientTable::default();
        fill(&table, address(200), 0, 0..1);
        fill(&table, address(201), 0, 1..2);
        let full = table.admit(Instant::now(), address(202), CAPS, listed);
        assert_eq!(full, Admission::InsteadOf { event_loop: 0, address: address(201) });
        assert_eq!(table.admit(Instant::now(), address(1), CAPS, listed), Admission::Free);
        fill(&table, address(1), 1, 0..6);
        // The daemon is full: a stranger goes before a listed client does.
        let full = table.admit(Instant::now(), address(2), CAPS, listed);
        assert_eq!(full, Admission::InsteadOf { event_loop: 0, address: address(201) });
        table.leave(address(200), 0, Some(0));
        table.leave(address(201), 0, Some(1));
        fill(&table, address(1), 1, 6..8);
        assert_eq!(table.admit(Instant::now(), address(200), CAPS, listed), Admission::Full);
        assert_eq!(table.connections(), (8, 0));
    }

    #[test]
    fn an_address_takes_only_so_many_places_from_others_and_strangers_so_many_together() {
        let (table, now) = (ClientTable::default(), Instant::now());
        fill(&table, address(1), 0, 0..6);
        fill(&table, address(200), 0, 6..8);
        let taken = |now: Instant, clients: &[u8]| {
            let admit = |last: &u8| table.admit(now, address(*last), CAPS, listed) != Admission::Full;
            clients.iter().cycle().take(10 * TAKEN_MOST as usize).filter(|last| admit(last)).count()
        };
        assert_eq!(taken(now, &[200, 201, 202]), TAKEN_MOST as usize);
        assert_eq!(taken(now, &[1]), TAKEN_MOST as usize);
        assert_eq!(taken(now, &[2]), 10 * TAKEN_MOST as usize, "who has none yet may always take one");
        assert_eq!(taken(now + TAKEN_IN, &[201, 200]), TAKEN_MOST as usize);
    }

    #[test]
    fn a_busy_connection_is_passed_over_and_looked_at_again_after_the_others() {
        let table = ClientTable::default();
        fill(&table, address(1), 0, 1..5);
        assert_eq!(table.oldest_idle(address(1), 0, |slot| slot > 2), Some(3));
        assert_eq!(table.oldest_idle(address(1), 0, |slot| slot < 3), Some(1));
        assert_eq!(table.oldest_idle(address(1), 0, |_| false), None);
        assert_eq!(table.oldest_idle(address(9), 0, |_| true), None);
        fill(&table, address(2), 1, 10..13);
        fill(&table, address(3), 0, 20..22);
        fill(&table, address(200), 0, 30..31);
        assert_eq!(table.oldest_idle(address(1), 0, |slot| slot > 9), Some(20), "another address gives one up");
        assert_eq!(table.oldest_idle(address(200), 0, |slot| slot < 30), None, "no listed one for a stranger's");
    }

    #[test]
    fn who_is_taken_from_the_lists_is_a_stranger_from_then_on() {
        let table = ClientTable::default();
        fill(&table, address(1), 0, 0..2);
        fill(&table, address(200), 0, 2..3);
        assert!(!table.stranger(address(1)) && table.stranger(address(200)));
        table.judge(|client| client == address(200));
        assert!(table.stranger(address(1)) && !table.stranger(address(200)));
        assert_eq!(table.connections(), (1, 2));
        table.leave(address(1), 0, Some(0));
        table.leave(address(1), 0, Some(1));
        assert_eq!(table.connections(), (1, 0));
        assert!(!table.stranger(address(1)), "nothing is kept of an address without connections");
    }
}
