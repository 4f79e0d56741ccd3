//! A random world around one cache in lease mode: servers that run calls late, connections that break, leases that lapse.
//! The truth is a version per key; what the cache answers must be the truth, and what a joiner gets must not be older than
//! the truth when it joined.

use super::*;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

const KEYS: u64 = 6;

/// What a random walk saw.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) answers: u64,
    pub(super) joins: u64,
    pub(super) kept: u64,
    pub(super) stale_answers: u64,
    pub(super) stale_joins: u64,
    pub(super) past_horizon: u64,
}

impl Seen {
    pub(super) fn violations(&self) -> u64 {
        self.stale_answers + self.stale_joins + self.past_horizon
    }
}

/// Something that happens later, with the number of the call it happens to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A read leaves for the server.
    Leave(usize),
    /// A read runs at the server.
    Look(usize),
    /// A read's reply arrives.
    Arrive(usize),
    /// A mutation runs at the server.
    Change(u64),
    /// A mutation ends, known or not.
    End(usize, bool),
    /// The lease is back.
    Resume,
}

struct Flight {
    ticket: Option<Fetch<u64>>,
    key: u64,
    brings: u64,
    /// For each reader: the truth when it began to wait.
    readers: Vec<u64>,
}

struct World {
    now: Time,
    rng: Rng,
    cache: Cache<u64, u64>,
    truth: [u64; KEYS as usize],
    due: BinaryHeap<Reverse<(Time, u64, Event)>>,
    events: u64,
    flights: Vec<Flight>,
    marks: Vec<Option<Mark<u64>>>,
    seen: Seen,
}

/// `steps` random steps of a world that starts after an unclean stop.
pub(super) fn walk(rules: Rules, seed: u64, steps: usize) -> Seen {
    let hold = Span::from_millis(500);
    let params = params(|s| {
        (s.server_hold_max, s.lease_age_max) = (hold, Span::from_millis(300));
        s.pressure_marks = 1_000;
    });
    let mut world = World {
        now: Time::ZERO,
        rng: Rng::new(seed),
        cache: Cache::new(params, rules, Time::ZERO, CleanStart::No),
        truth: [0; KEYS as usize],
        due: BinaryHeap::new(),
        events: 0,
        flights: Vec::new(),
        marks: Vec::new(),
        seen: Seen::default(),
    };
    for key in 0..KEYS {
        world.later(hold.scale(0.9), Event::Change(key));
    }
    for _ in 0..steps {
        world.step();
    }
    world.seen
}

impl World {
    fn step(&mut self) {
        let next = self.now + Span::from_secs_f64(2e-3 * self.rng.exponential());
        while self.due.peek().is_some_and(|Reverse((time, ..))| *time <= next) {
            let Reverse((time, _, event)) = self.due.pop().unwrap();
            self.now = time;
            self.happen(event);
        }
        self.now = next;
        let key = self.rng.below(KEYS as usize) as u64;
        match self.rng.below(1_000) {
            0 => self.lapse(),
            1 => drop(self.cache.tick(self.now)),
            2..60 => self.mutate(key),
            60.. => self.read(key),
        }
    }

    /// Within `most`, and before it.
    fn later(&mut self, most: Span, event: Event) {
        let delay = most.scale(self.rng.unit());
        self.events += 1;
        self.due.push(Reverse((self.now + delay, self.events, event)));
    }

    fn read(&mut self, key: u64) {
        let truth = self.truth[key as usize];
        match self.cache.read(self.now, key, Class(0)) {
            Read::Answer { value, horizon, .. } => {
                self.seen.answers += 1;
                self.seen.stale_answers += u64::from(value != truth);
                self.seen.past_horizon += u64::from(self.now >= horizon);
            }
            Read::Join(flight) => {
                self.seen.joins += 1;
                let joined = |f: &&mut Flight| f.ticket.as_ref().is_some_and(|ticket| ticket.flight() == flight);
                self.flights.iter_mut().rev().find(joined).expect("it is still out").readers.push(truth);
            }
            Read::Fetch(ticket) => {
                let id = self.flights.len();
                self.flights.push(Flight { ticket: Some(ticket), key, brings: 0, readers: [truth].to_vec() });
                self.later(Span::from_millis(10), Event::Leave(id));
            }
        }
    }

    fn mutate(&mut self, key: u64) {
        let id = self.marks.len();
        self.marks.push(Some(self.cache.mark(self.now, key)));
        let broken = self.rng.chance(0.1);
        let (run, end) = if broken { (495, 10) } else { (20, 20) };
        let runs = Span::from_millis(run).scale(self.rng.unit());
        let ends = if broken { Span::ZERO } else { runs } + Span::from_millis(end).scale(self.rng.unit());
        self.events += 2;
        self.due.push(Reverse((self.now + runs, self.events - 1, Event::Change(key))));
        self.due.push(Reverse((self.now + ends, self.events, Event::End(id, broken))));
    }

    /// Peers no longer tell us of their mutations.
    fn lapse(&mut self) {
        self.cache.set_mode(Mode::Strict);
        for key in 0..KEYS {
            self.later(Span::from_millis(20), Event::Change(key));
        }
        self.events += 1;
        self.due.push(Reverse((self.now + Span::from_millis(20), self.events, Event::Resume)));
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Leave(id) => {
                self.cache.sent(self.flights[id].ticket.as_ref().expect("it has not arrived"));
                self.later(Span::from_millis(20), Event::Look(id));
            }
            Event::Look(id) => {
                self.flights[id].brings = self.truth[self.flights[id].key as usize];
                self.later(Span::from_millis(40), Event::Arrive(id));
            }
            Event::Arrive(id) => self.arrive(id),
            Event::Change(key) => self.truth[key as usize] += 1,
            Event::End(id, broken) => {
                let ended = if broken { Ended::Unknown } else { Ended::Done };
                let mark = self.marks[id].take().expect("it ends once");
                self.cache.end(self.now, mark, ended);
            }
            Event::Resume => self.cache.set_mode(Mode::Lease),
        }
    }

    fn arrive(&mut self, id: usize) {
        let flight = &mut self.flights[id];
        let (brings, readers) = (flight.brings, core::mem::take(&mut flight.readers));
        let ticket = flight.ticket.take().expect("it arrives once");
        self.seen.stale_joins += readers.iter().filter(|&&truth| brings < truth).count() as u64;
        let fill = self.cache.filled(self.now, ticket, &brings, Facts { cost: 1, ..Facts::default() });
        self.seen.kept += u64::from(matches!(fill, Fill::Kept { .. }));
    }
}
