//! An event loop's calls that cannot leave yet: those that wait for a server or for a moment, and
//! those that wait for their turn at a name.
//!
//! The first are tried at every tick, and at every reply as many as there were replies: a reply
//! makes one place free. The others are not tried at all: each is parked until the mutation before
//! it has ended, and then woken alone. So what a call costs does not depend on how many wait.

use crate::event::{Loop, Shared};
use crate::upstream::Held;
use crate::wakes::Waiter;
use midas_core::key::Key;
use midas_core::time::{Span, Time};
use std::collections::HashMap;
use std::sync::Arc;

/// A name in one cache of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameAt {
    pub(crate) export: usize,
    pub(crate) area: usize,
    /// The directory.
    pub(crate) place: Key,
    pub(crate) name: Key,
}

/// The place of a mutation among those that wait for its names. It is given back when it is
/// dropped, wherever its call ends, so that nobody waits for a call that is gone.
pub(crate) struct Queued {
    shared: Arc<Shared>,
    waiter: Waiter,
    names: Vec<NameAt>,
}

impl Queued {
    /// The place of a mutation that waits for nothing yet.
    pub(crate) fn new(shared: &Arc<Shared>, waiter: Waiter) -> Self {
        Self { shared: Arc::clone(shared), waiter, names: Vec::new() }
    }

    pub(crate) const fn waiter(&self) -> Waiter {
        self.waiter
    }

    /// The mutation waits for these names too.
    pub(crate) fn waits_for(mut self, names: impl IntoIterator<Item = NameAt>) -> Self {
        for name in names {
            if !self.names.contains(&name) {
                self.names.push(name);
            }
        }
        self
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        for NameAt { export, area, place, name } in self.names.drain(..) {
            self.shared.exports[export].areas.leave(area, (place, name), self.waiter);
        }
    }
}

/// The calls that wait for their turn at a name, by the number of their place.
#[derive(Default)]
pub(crate) struct Parked {
    calls: HashMap<u64, Box<Held>>,
    /// The last time that members were asked about calls that wait and that they have sent before, and
    /// how many calls had been lost with members then.
    pub(crate) asked: (Time, u64),
}

impl Parked {
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut Held)> {
        self.calls.iter_mut().map(|(number, call)| (*number, &mut **call))
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<Box<Held>> {
        self.calls.remove(&number)
    }
}

impl Loop {
    /// Keeps a call that has just come and cannot leave now.
    pub(crate) fn hold_new(&mut self, now: Time, call: Box<Held>) {
        let call = if call.queued.is_some() { self.first_of_all(now, call) } else { Some(call) };
        if let Some(call) = call {
            self.hold(call);
        }
    }

    /// Keeps a call that cannot leave now.
    pub(crate) fn hold(&mut self, call: Box<Held>) {
        match &call.queued {
            Some(queued) => drop(self.parked.calls.insert(queued.waiter.number, call)),
            None => self.held.push_back(call),
        }
    }

    /// Tries the calls whose turn it is. One that is given up passes its turn on, so it is looked
    /// again, at most as often as calls wait.
    pub(crate) fn send_woken(&mut self, now: Time) {
        for _ in 0..=self.parked.len() {
            if !self.shared.wakes.any(self.number) {
                return;
            }
            for number in self.shared.wakes.take(self.number) {
                if let Some(call) = self.parked.calls.remove(&number) {
                    self.try_call(now, call);
                }
            }
        }
    }

    /// Tries some of the calls that have waited long for their turn: none waits for ever for a bell that nobody rang.
    pub(crate) fn try_parked(&mut self, now: Time) {
        let late = |call: &Held| now.since(call.errand.since) >= LONG;
        let turning = self.turning.iter().filter(|(_, call)| late(call));
        let keys: Vec<Key> = turning.filter_map(|(_, call)| call.turn.as_ref()?.waits_for()).take(SOME).collect();
        // Whoever waits first for a key is woken, if it is free.
        for key in keys {
            self.shared.turns.pass_on(key);
        }
        let parked = self.parked.calls.iter().filter(|(_, call)| late(call));
        let mut parked: Vec<(Time, u64)> = parked.map(|(number, call)| (call.errand.since, *number)).collect();
        parked.sort_unstable();
        for (_, number) in parked.into_iter().take(SOME) {
            if let Some(call) = self.parked.calls.remove(&number) {
                self.try_call(now, call);
            }
        }
    }

    /// Tries every call that is held once.
    pub(crate) fn send_held(&mut self, now: Time) {
        self.send_some(now, self.held.len());
    }

    /// Tries so many of the calls that are held, those first that have not been tried for longest.
    pub(crate) fn send_some(&mut self, now: Time, most: usize) {
        for _ in 0..most.min(self.held.len()) {
            let Some(call) = self.held.pop_front() else { return };
            self.try_call(now, call);
        }
    }
}

/// Calls that have waited for so long for their turn are tried without being woken, so many at once.
const LONG: Span = Span::from_secs(2);
const SOME: usize = 64;
