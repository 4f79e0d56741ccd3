//! What is true, and since when: names that lead to objects, and objects that change, executed in one order.
//!
//! Every change of a key has a number of its own, so an answer says exactly which state it saw. Servers share this one truth; with `stale` they
//! see each other's changes late.

use midas_core::rng::Rng;
use midas_core::time::{Span, Time};
use std::collections::BTreeMap;

/// What is cached, marked and fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Key {
    Name(u8),
    Object(u8),
}

/// What clients ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Read(Key),
    /// Idempotent.
    Set(u8),
    /// As `Set`, but must not run twice: a guarded SETATTR.
    Bump(u8),
    /// A name for an object, unless the name is taken.
    Make(u8, u8),
    Remove(u8),
    Rename(u8, u8),
}

impl Action {
    /// What is known to change before a server was asked.
    pub(super) fn keys(self) -> Vec<Key> {
        let mut keys = self.names();
        match self {
            Self::Set(object) | Self::Make(_, object) => keys.push(Key::Object(object)),
            Self::Read(_) | Self::Bump(_) | Self::Remove(_) | Self::Rename(..) => {}
        }
        keys
    }

    pub(super) fn names(self) -> Vec<Key> {
        match self {
            Self::Read(_) | Self::Set(_) => Vec::new(),
            // What it did shows as long as nobody else changes the same.
            Self::Bump(object) => vec![Key::Object(object)],
            Self::Make(name, _) | Self::Remove(name) => vec![Key::Name(name)],
            Self::Rename(from, to) => vec![Key::Name(from), Key::Name(to)],
        }
    }

    /// Whether what its names lead to changes too.
    pub(super) const fn has_targets(self) -> bool {
        matches!(self, Self::Remove(_) | Self::Rename(..))
    }

    /// Whether it may run twice.
    pub(super) const fn idempotent(self) -> bool {
        matches!(self, Self::Read(_) | Self::Set(_))
    }
}

/// One state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) number: u32,
    /// Where a name leads.
    pub(super) leads: Option<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Change {
    at: Time,
    seen: Seen,
    /// Which operation made it.
    by: u64,
    /// When each server knows of it.
    known: [Time; SERVERS_MAX],
}

#[derive(Debug)]
pub(super) struct Truth {
    keys: BTreeMap<Key, Vec<Change>>,
    /// How often an operation ran that must run once, and how often since it changed something.
    ran: BTreeMap<u64, (u32, u32)>,
    stale: Span,
}

impl Truth {
    pub(super) fn new(names: u8, objects: u8, stale: Span) -> Self {
        let first =
            |leads| vec![Change { at: Time::ZERO, seen: Seen { number: 0, leads }, by: 0, known: Default::default() }];
        let named = (0..names).map(|name| (Key::Name(name), first(Some(name % objects).filter(|_| name % 2 == 0))));
        let keys = named.chain((0..objects).map(|object| (Key::Object(object), first(None)))).collect();
        Self { keys, ran: BTreeMap::new(), stale }
    }

    /// What a server answers.
    pub(super) fn read(&self, now: Time, server: u16, key: Key) -> Seen {
        let known = |change: &&Change| change.known[usize::from(server)] <= now;
        self.keys[&key].iter().rev().find(known).expect("every server knows the first state").seen
    }

    /// Executes a mutation; whether it did anything.
    pub(super) fn run(&mut self, now: Time, server: u16, operation: u64, action: Action, rng: &mut Rng) -> bool {
        let changes = self.changes(action);
        if !action.idempotent() {
            let (ran, since) = self.ran.entry(operation).or_default();
            (*ran, *since) = (*ran + 1, *since + u32::from(*since > 0 || !changes.is_empty()));
        }
        for (key, leads) in &changes {
            self.change(now, (server, operation), *key, *leads, rng);
        }
        !changes.is_empty()
    }

    /// What an action changes now.
    fn changes(&self, action: Action) -> Vec<(Key, Option<u8>)> {
        match action {
            Action::Set(object) | Action::Bump(object) => vec![(Key::Object(object), None)],
            Action::Make(name, object) if self.leads(name).is_none() => {
                vec![(Key::Name(name), Some(object)), (Key::Object(object), None)]
            }
            Action::Make(..) | Action::Read(_) => Vec::new(),
            Action::Remove(name) => match self.leads(name) {
                Some(object) => vec![(Key::Name(name), None), (Key::Object(object), None)],
                None => Vec::new(),
            },
            Action::Rename(from, to) => match (self.leads(from), self.leads(to)) {
                (None, _) => Vec::new(),
                (Some(moved), replaced) if replaced == Some(moved) => Vec::new(),
                (Some(moved), replaced) => {
                    let objects = [Some(moved), replaced].into_iter().flatten();
                    let names = [(Key::Name(from), None), (Key::Name(to), Some(moved))];
                    names.into_iter().chain(objects.map(|object| (Key::Object(object), None))).collect()
                }
            },
        }
    }

    fn leads(&self, name: u8) -> Option<u8> {
        self.keys[&Key::Name(name)].last().expect("a first state").seen.leads
    }

    fn change(&mut self, now: Time, (server, by): (u16, u64), key: Key, leads: Option<u8>, rng: &mut Rng) {
        let stale = self.stale;
        let history = self.keys.get_mut(&key).expect("keys are fixed");
        let last = *history.last().expect("a first state");
        // Servers learn of changes in their order.
        let known = std::array::from_fn(|other| match other == usize::from(server) {
            true => now,
            false => (now + stale.scale(rng.unit())).max(last.known[other]),
        });
        history.push(Change { at: now, seen: Seen { number: last.seen.number + 1, leads }, by, known });
    }

    /// Whether it shows that an operation ran: nobody has changed since what it was to change. One that changed nothing shows nothing.
    pub(super) fn shows(&self, operation: u64, action: Action) -> bool {
        let last = |key: &Key| self.keys[key].last().is_some_and(|change| change.by == operation);
        action.names().first().is_some_and(last)
    }

    /// Whether a state was current at some moment of this time.
    pub(super) fn was(&self, key: Key, seen: Seen, from: Time, to: Time) -> bool {
        let history = &self.keys[&key];
        let at = seen.number as usize;
        let until = history.get(at + 1).map_or(Time::FAR, |next| next.at);
        history[at].at <= to && from <= until
    }

    /// When a state began and ended.
    pub(super) fn times(&self, key: Key, seen: Seen) -> (Time, Time) {
        let history = &self.keys[&key];
        let at = seen.number as usize;
        (history[at].at, history.get(at + 1).map_or(Time::FAR, |next| next.at))
    }

    /// How often an operation ran, and how often since it changed something, that time included.
    pub(super) fn runs(&self, operation: u64) -> (u32, u32) {
        self.ran.get(&operation).copied().unwrap_or_default()
    }
}

pub(super) const SERVERS_MAX: usize = 3;
