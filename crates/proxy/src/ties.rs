//! What ties a call to one server: data that is written there and not committed, a listing that was begun there, a change that it has
//! perhaps executed.
//!
//! Bounded. A COMMIT that reaches another server answers with another verifier, so the client sends its data again. Listings begin at home and go
//! on there, which needs no memory and survives a restart of the proxy; only one that began elsewhere, because the home was closed, is
//! remembered: by directory and client, since others may list the same directory at home meanwhile. Not by verifier: most servers give zeros, and those
//! that do not refuse a wrong one themselves. Where cookies are portable (`cookies`) nothing is tied.

use crate::generations::Generations;
use crate::key_map::KeyMap;
use midas_core::id::ServerId;
use midas_core::key::Key;
use midas_core::route::feasible::Bound;
use midas_core::time::{Span, Time};
use std::collections::VecDeque;

/// The ties of one part of the key space.
#[derive(Debug, Default)]
pub(crate) struct Ties {
    writes: Bounded,
    /// Listings that did not begin at home. No time ends them: clients keep cookies for hours.
    listings: Generations<ServerId>,
    /// Objects that a server which is gone has perhaps changed, and by how many calls. As many as there are such calls.
    doubts: KeyMap<(ServerId, u32)>,
}

impl Ties {
    /// Where a file's data lies that is not committed.
    pub(crate) fn uncommitted_at(&self, now: Time, file: Key) -> Option<(ServerId, Bound)> {
        self.writes.find(now, file).map(|server| (server, Bound::Uncommitted))
    }

    /// Where a listing goes on that did not begin at home.
    pub(crate) fn listed_at(&mut self, listing: Key) -> Option<ServerId> {
        self.listings.find(listing)
    }

    /// A call that would change this object is perhaps executed at a server that is gone.
    pub(crate) fn doubt(&mut self, object: Key, server: ServerId) {
        self.doubts.entry(object).or_insert((server, 0)).1 += 1;
    }

    /// It is known what became of one such call.
    pub(crate) fn resolved(&mut self, object: Key) {
        if let Some((_, calls)) = self.doubts.get_mut(&object) {
            *calls -= 1;
            if *calls == 0 {
                self.doubts.remove(&object);
            }
        }
    }

    /// Where further changes of this object must wait.
    pub(crate) fn doubted(&self, object: Key) -> Option<(ServerId, Bound)> {
        self.doubts.get(&object).map(|(server, _)| (*server, Bound::PerhapsExecuted))
    }

    /// Data that the client does not ask to be durable leaves for this server.
    pub(crate) fn writing(&mut self, now: Time, file: Key, server: ServerId) {
        self.writes.insert(now, file, server, false);
    }

    /// The server has answered that data there is not durable.
    pub(crate) fn written(&mut self, now: Time, file: Key, server: ServerId) {
        self.writes.insert(now, file, server, true);
    }

    /// The server has answered that a WRITE is durable, more than it was asked for. Where it has
    /// said so of all of them no COMMIT follows, which alone would end the tie.
    pub(crate) fn durable(&mut self, file: Key, server: ServerId) {
        if self.writes.at.get(&file).is_some_and(|tie| !tie.shown) {
            self.writes.remove(file, server);
        }
    }

    /// The servers of files whose data is not committed, one for each file.
    pub(crate) fn uncommitted(&self, now: Time) -> impl Iterator<Item = ServerId> + '_ {
        self.writes.now(now)
    }

    /// All of a file's data is durable.
    pub(crate) fn committed(&mut self, file: Key, server: ServerId) {
        self.writes.remove(file, server);
    }

    /// A page came from this server; none: from home.
    pub(crate) fn listed(&mut self, listing: Key, away: Option<ServerId>) {
        match away {
            Some(server) => self.listings.insert(listing, server),
            None => drop(self.listings.remove(listing)),
        }
    }
}

#[derive(Debug, Default)]
struct Bounded {
    at: KeyMap<Tie>,
    /// A key that came again is in it twice: its number says which place is its own.
    order: VecDeque<(Key, u64)>,
    number: u64,
}

#[derive(Clone, Copy, Debug)]
struct Tie {
    server: ServerId,
    since: Time,
    number: u64,
    /// Whether the server has answered that it has data that is not durable.
    shown: bool,
}

impl Bounded {
    fn find(&self, now: Time, key: Key) -> Option<ServerId> {
        let tie = self.at.get(&key)?;
        (now.since(tie.since) < KEPT).then_some(tie.server)
    }

    fn now(&self, now: Time) -> impl Iterator<Item = ServerId> + '_ {
        self.at.values().filter(move |tie| now.since(tie.since) < KEPT).map(|tie| tie.server)
    }

    fn insert(&mut self, now: Time, key: Key, server: ServerId, shown: bool) {
        match self.at.get_mut(&key) {
            Some(tie) => {
                let shown = shown || tie.shown && tie.server == server;
                *tie = Tie { server, since: now, shown, ..*tie };
            }
            None => {
                self.number += 1;
                self.at.insert(key, Tie { server, since: now, number: self.number, shown });
                self.order.push_back((key, self.number));
            }
        }
        while self.order.len() > TIES_MAX {
            let Some((key, number)) = self.order.pop_front() else { return };
            if self.at.get(&key).is_some_and(|tie| tie.number == number) {
                self.at.remove(&key);
            }
        }
    }

    fn remove(&mut self, key: Key, server: ServerId) {
        if self.at.get(&key).is_some_and(|tie| tie.server == server) {
            self.at.remove(&key);
        }
    }
}

/// Ties of one kind in one part.
const TIES_MAX: usize = 4096;
/// A tie that was not renewed for so long is forgotten.
const KEPT: Span = Span::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_tied_until_it_is_committed_where_it_was_written() {
        let (now, file) = (Time::from_nanos(1), Key(7));
        let mut ties = Ties::default();
        ties.written(now, file, ServerId(2));
        assert_eq!(ties.uncommitted_at(now, file), Some((ServerId(2), Bound::Uncommitted)));
        ties.committed(file, ServerId(1));
        assert!(ties.uncommitted_at(now, file).is_some());
        ties.committed(file, ServerId(2));
        assert_eq!(ties.uncommitted_at(now, file), None);
    }

    #[test]
    fn a_server_that_makes_everything_durable_at_once_ties_nothing() {
        let (now, file, server) = (Time::from_nanos(1), Key(7), ServerId(2));
        let mut ties = Ties::default();
        ties.writing(now, file, server);
        assert!(ties.uncommitted_at(now, file).is_some(), "until it is answered");
        ties.durable(file, server);
        assert_eq!(ties.uncommitted_at(now, file), None);
        ties.writing(now, file, server);
        ties.written(now, file, server);
        ties.writing(now, file, server);
        ties.durable(file, server);
        assert!(ties.uncommitted_at(now, file).is_some(), "an earlier one is not durable");
        ties.committed(file, server);
        assert_eq!(ties.uncommitted_at(now, file), None);
    }

    #[test]
    fn a_change_that_was_perhaps_executed_makes_others_wait_until_all_of_them_are_known() {
        let mut ties = Ties::default();
        ties.doubt(Key(7), ServerId(1));
        ties.doubt(Key(7), ServerId(1));
        ties.resolved(Key(7));
        assert_eq!(ties.doubted(Key(7)), Some((ServerId(1), Bound::PerhapsExecuted)));
        ties.resolved(Key(7));
        assert_eq!(ties.doubted(Key(7)), None);
    }

    #[test]
    fn only_a_listing_that_is_not_at_home_is_remembered_until_it_is() {
        let mut ties = Ties::default();
        ties.listed(Key(7), None);
        assert_eq!(ties.listed_at(Key(7)), None);
        ties.listed(Key(7), Some(ServerId(2)));
        assert_eq!((ties.listed_at(Key(7)), ties.listed_at(Key(8))), (Some(ServerId(2)), None));
        ties.listed(Key(7), None);
        assert_eq!(ties.listed_at(Key(7)), None);
    }

    #[test]
    fn ties_are_bounded_and_the_oldest_leave() {
        let now = Time::from_nanos(1);
        let mut ties = Ties::default();
        for key in 0..2 * TIES_MAX as u64 {
            ties.written(now, Key(key), ServerId(0));
        }
        assert_eq!(ties.uncommitted_at(now, Key(0)), None);
        assert!(ties.uncommitted_at(now, Key(2 * TIES_MAX as u64 - 1)).is_some());
        assert!(ties.writes.order.len() <= TIES_MAX);
    }
}
