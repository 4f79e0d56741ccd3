//! Whether one register is linearizable, exactly and while the history passes by.
//!
//! The frontier is the set of all states in which the register can be after what has ended: a value, and which of the calls
//! under way have already taken effect. A call must have an effect in some order before it ends; a state in which it cannot is
//! dropped, and when none is left there is no order. Effects are tried only when a call ends (Lowe's just-in-time rule), reads
//! take effect as soon as they can (they change nothing), and a call that may hide before a blind write is not tried there but
//! marked `free`. So the frontier stays as small as the number of changes under way, and the work near-linear.

use crate::step::{Step, Value};
use std::collections::{BTreeSet, HashSet};

/// One register and the calls under way on it.
#[derive(Clone, Debug)]
pub(crate) struct Frontier {
    pending: Vec<Option<Pending>>,
    states: Vec<State>,
    /// Calls that were under way when there was no state left: until they have ended the register may hold anything.
    doubted: u64,
    /// Calls under way that found no place: until they have ended, too. Some never end.
    outside: usize,
    /// Since it was given up and until it is known again: the values that it may have had.
    given: Option<BTreeSet<u64>>,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    step: Step,
    /// It may have an effect until it ends, or none; some never end.
    optional: bool,
}

/// One possibility. Bits are places in `pending`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct State {
    value: Value,
    /// Calls under way that have had their effect.
    done: u64,
    /// Calls under way that have not, or have had it where nobody saw it: as one likes.
    free: u64,
}

/// What a step found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fine,
    /// No order of the calls explains it.
    Impossible,
    /// More possibilities than are looked at.
    TooMany,
}

impl Frontier {
    pub(crate) fn new(value: Value) -> Self {
        Self {
            pending: Vec::new(),
            states: vec![State { value, done: 0, free: 0 }],
            doubted: 0,
            outside: 0,
            given: None,
        }
    }

    /// A call begins: its place, or none if nothing about it is open any more; an error: too many are under way, this is its place.
    pub(crate) fn begin(&mut self, step: Step, optional: bool) -> Result<Option<usize>, usize> {
        let sees = |state: &State| step.need.sees(state.value);
        if step.is_read() && (self.in_doubt() || self.states.iter().all(sees)) {
            return Ok(None);
        }
        if let (Some(given), Some(value)) = (&mut self.given, step.gives()) {
            given.insert(value);
        }
        let place = match self.pending.iter().position(Option::is_none) {
            Some(place) => place,
            None if self.pending.len() == PENDING => {
                let known = self.in_doubt();
                self.outside += 1;
                if known {
                    return Ok(Some(PENDING));
                }
                self.reset();
                return Err(PENDING);
            }
            None => {
                self.pending.push(None);
                self.pending.len() - 1
            }
        };
        self.pending[place] = Some(Pending { step, optional });
        if step.is_read() {
            self.states.iter_mut().filter(|state| sees(state)).for_each(|state| state.done |= 1 << place);
        }
        Ok(Some(place))
    }

    /// A call ends.
    pub(crate) fn end(&mut self, place: usize) -> Verdict {
        if place == PENDING {
            self.outside -= 1;
            self.doubt(self.doubted);
            return Verdict::Fine;
        }
        let Some(Pending { step, optional }) = self.pending.get(place).copied().flatten() else {
            return Verdict::Fine;
        };
        let bit = 1 << place;
        if self.in_doubt() {
            self.pending[place] = None;
            self.doubt(self.doubted & !bit);
            return Verdict::Fine;
        }
        let mut next = Vec::with_capacity(self.states.len());
        for state in &self.states {
            if optional || (state.done | state.free) & bit != 0 {
                next.push(State { done: state.done & !bit, free: state.free & !bit, ..*state });
            }
            if state.done & bit == 0 && !self.explore(*state, place, step, &mut next) {
                self.give_up(place);
                return Verdict::TooMany;
            }
        }
        if next.is_empty() {
            self.give_up(place);
            return Verdict::Impossible;
        }
        self.pending[place] = None;
        self.states = next;
        self.prune();
        if self.given.is_some() && self.states.iter().all(|state| state.value.is_known()) {
            self.given = None;
        }
        Verdict::Fine
    }

    /// Whether it can have this value now, and no call under way changes it.
    pub(crate) fn rests_at(&self, value: u64) -> bool {
        let changing = self.pending.iter().flatten().any(|pending| !pending.step.is_read());
        !changing && self.states.iter().any(|state| state.value == Value::Is(value))
    }

    /// The values that it can have now, or that calls under way may give it; each once.
    pub(crate) fn values(&self) -> BTreeSet<u64> {
        let now = self.states.iter().filter_map(|state| match state.value {
            Value::Is(value) => Some(value),
            Value::Unknown | Value::Something => None,
        });
        let soon = self.pending.iter().flatten().filter_map(|pending| pending.step.gives());
        now.chain(soon).chain(self.given.iter().flatten().copied()).collect()
    }

    /// Every way in which the call at `place` can have its effect now, after any of those under way; false: too many.
    fn explore(&self, from: State, place: usize, step: Step, found: &mut Vec<State>) -> bool {
        let bit = 1 << place;
        let mut seen: HashSet<State, foldhash::fast::FixedState> = [from].into_iter().collect();
        // The second: the last step was one that could have hidden, and nobody has seen it.
        let mut open = vec![(from, false)];
        while let Some((state, unseen)) = open.pop() {
            if let Some((after, _)) = (!(unseen && step.is_blind())).then(|| self.apply(state, place, step)).flatten() {
                found.push(State { done: after.done & !bit, free: after.free & !bit, ..after });
                // Other effects can follow later as well; what an unknown value turns out to be is a decision.
                if step.is_read() && state.value.is_known() {
                    continue;
                }
            }
            for (other, pending) in self.pending.iter().enumerate() {
                let Some(Pending { step: between, .. }) = *pending else { continue };
                let skipped = other == place
                    || state.done & 1 << other != 0
                    || between.is_read() && state.value.is_known()
                    || unseen && between.is_blind();
                if skipped {
                    continue;
                }
                let Some((after, noticed)) = self.apply(state, other, between) else { continue };
                if seen.insert(after) {
                    open.push((after, between.can_hide() && !noticed));
                }
            }
            if seen.len() > STATES || found.len() > STATES {
                return false;
            }
        }
        true
    }

    /// One call has its effect; whether a read saw it.
    fn apply(&self, state: State, place: usize, step: Step) -> Option<(State, bool)> {
        let value = step.apply(state.value)?;
        let (mut done, mut free) = (state.done | 1 << place, state.free);
        for (other, pending) in self.pending.iter().enumerate() {
            let Some(pending) = pending else { continue };
            let bit = 1_u64 << other;
            if done & bit == 0 && pending.step.is_read() {
                done |= if pending.step.need.sees(value) { bit } else { 0 };
            } else if done & bit == 0 && step.is_blind() && pending.step.can_hide() {
                free |= bit;
            }
        }
        free &= !done;
        Some((State { value, done, free }, done != state.done | 1 << place))
    }

    /// Leaves out what another possibility covers.
    fn prune(&mut self) {
        self.states.sort_unstable();
        self.states.dedup();
        if self.states.len() > 1 && self.states.len() <= COMPARED {
            let optional =
                self.pending.iter().enumerate().filter(|(_, pending)| pending.is_some_and(|call| call.optional));
            let optional = optional.fold(0, |bits, (place, _)| bits | 1_u64 << place);
            let states = std::mem::take(&mut self.states);
            let covered = |state: &&State| states.iter().any(|other| other != *state && other.covers(state, optional));
            self.states = states.iter().filter(|state| !covered(state)).copied().collect();
        }
    }

    /// The end of the call at `place` left no state, or too many.
    fn give_up(&mut self, place: usize) {
        self.reset();
        self.pending[place] = None;
        self.doubt(self.doubted & !(1 << place));
    }

    /// The register may hold anything, and what is under way may or may not have had its effect.
    fn reset(&mut self) {
        self.given = Some(self.values());
        let ending = |pending: &Option<Pending>| pending.is_some_and(|call| !call.optional);
        let places = self.pending.iter().enumerate().filter(|(_, pending)| ending(pending));
        self.doubt(places.fold(0, |bits, (place, _)| bits | 1 << place));
    }

    /// What began since then and is under way may have had its effect unseen, too.
    fn doubt(&mut self, calls: u64) {
        self.doubted = calls;
        let places = self.pending.iter().enumerate().filter(|(_, pending)| pending.is_some());
        let free = places.fold(0, |bits, (place, _)| bits | 1 << place) & !calls;
        self.states = vec![State { value: Value::Unknown, done: calls, free }];
    }

    fn in_doubt(&self) -> bool {
        self.doubted != 0 || self.outside != 0
    }
}

impl State {
    /// Whatever can follow on `other` can follow on this too. Of two that cover each other they are equal, and one is gone.
    fn covers(&self, other: &Self, optional: u64) -> bool {
        let optional = self.free | optional;
        self.value == other.value
            && self.done & !other.done == 0
            && other.done & !self.done & !optional == 0
            && other.free & !self.free == 0
    }
}

/// Calls under way on one register.
const PENDING: usize = 64;
/// Possibilities that are looked at before the register is given up.
const STATES: usize = 1 << 14;
/// Frontiers up to this size are freed of what is covered.
const COMPARED: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Need, Then};
    use midas_core::rng::Rng;

    /// A call on the register: from when to when, and what.
    #[derive(Clone, Copy, Debug)]
    struct Call {
        start: u64,
        end: Option<u64>,
        /// It need not have happened, though it ended.
        optional: bool,
        step: Step,
    }

    #[test]
    fn the_frontier_says_what_a_search_of_all_orders_says() {
        let (mut right, mut wrong) = (0, 0);
        for seed in 0..40_000 {
            let mut rng = Rng::new(seed);
            let first = if rng.chance(0.7) { Value::Is(0) } else { Value::Unknown };
            let calls = history(&mut rng);
            let want = search(first, &calls, &mut vec![false; calls.len()]);
            // Of a value that nobody knows only what it is is remembered, not what it is not: nothing is flagged that is right.
            let leaves_known = |call: &Call| !matches!(call.step.then, Then::Forget(_) | Then::Fill(_));
            let known = first.is_known() && calls.iter().all(leaves_known);
            let got = stream(first, &calls, None);
            assert!(got == want || !known && got, "seed {seed}: {got}, first {first:?}, {calls:#?}");
            let given_up = Some(rng.below(2 * calls.len()));
            assert!(!want || stream(first, &calls, given_up), "seed {seed}: {given_up:?}, first {first:?}, {calls:#?}");
            if want { right += 1 } else { wrong += 1 }
        }
        assert!(right > 5_000 && wrong > 5_000, "{right} right and {wrong} wrong ones are no test");
    }

    fn history(rng: &mut Rng) -> Vec<Call> {
        let count = 2 + rng.below(5);
        let span = 3 + rng.below(15);
        (0..count)
            .map(|_| {
                let start = rng.below(span) as u64;
                let step = Step { need: need(rng), then: then(rng) };
                let lost = !step.is_read() && rng.chance(0.1);
                let optional = lost || !step.is_read() && rng.chance(0.1);
                Call { start, end: (!lost).then(|| start + rng.below(8) as u64), optional, step }
            })
            .collect()
    }

    fn need(rng: &mut Rng) -> Need {
        let value = |rng: &mut Rng| rng.below(4) as u64;
        match rng.below(8) {
            0 => Need::Not(value(rng)),
            1 => Need::Bits(2, rng.below(2) as u64 * 2),
            2..6 => Need::Is(value(rng)),
            _ => Need::Any,
        }
    }

    fn then(rng: &mut Rng) -> Then {
        match rng.below(10) {
            0 => Then::Add(1),
            1 => Then::Max(rng.below(4) as u64),
            2 => Then::Forget(0),
            3 => Then::Fill(0),
            4..7 => Then::Set(rng.below(4) as u64),
            _ => Then::Keep,
        }
    }

    /// Every order, without any of the frontier's ideas: a call may come next if no other one that is left ended before it began.
    fn search(value: Value, calls: &[Call], taken: &mut Vec<bool>) -> bool {
        if calls.iter().zip(&*taken).all(|(call, taken)| *taken || call.optional) {
            return true;
        }
        let ends = calls.iter().zip(&*taken).filter(|(_, taken)| !**taken).filter_map(|(call, _)| call.end);
        let until = ends.min().unwrap_or(u64::MAX);
        for next in 0..calls.len() {
            if taken[next] || calls[next].start > until {
                continue;
            }
            if calls[next].optional {
                taken[next] = true;
                let found = search(value, calls, taken);
                taken[next] = false;
                if found {
                    return true;
                }
            }
            // What is unknown is found out by guessing.
            let guesses: Vec<Value> = match value {
                Value::Is(_) => vec![value],
                Value::Something => (1..=10).map(Value::Is).collect(),
                Value::Unknown => (0..=10).map(Value::Is).collect(),
            };
            for guess in guesses {
                if let Some(after) = calls[next].step.apply(guess) {
                    taken[next] = true;
                    let found = search(after, calls, taken);
                    taken[next] = false;
                    if found {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Whether the frontier finds no fault, if it is given up before this event.
    fn stream(first: Value, calls: &[Call], given_up: Option<usize>) -> bool {
        let mut events: Vec<(u64, bool, usize)> = Vec::new();
        for (number, call) in calls.iter().enumerate() {
            events.push((call.start, false, number));
            events.extend(call.end.map(|end| (end, true, number)));
        }
        events.sort_unstable();
        let (mut frontier, mut places) = (Frontier::new(first), vec![None; calls.len()]);
        events.iter().enumerate().all(|(event, (_, ends, number))| {
            if given_up == Some(event) {
                frontier.reset();
            }
            match (ends, places[*number]) {
                (false, _) => {
                    places[*number] = frontier.begin(calls[*number].step, calls[*number].optional).unwrap();
                    true
                }
                (true, Some(place)) => frontier.end(place) == Verdict::Fine,
                (true, None) => true,
            }
        })
    }

    #[test]
    fn many_blind_writes_at_once_are_few_possibilities() {
        let mut frontier = Frontier::new(Value::Is(0));
        let write = |value| Step::write(Then::Set(value));
        let places: Vec<usize> = (1..=40).map(|value| frontier.begin(write(value), false).unwrap().unwrap()).collect();
        for place in places {
            assert_eq!(frontier.end(place), Verdict::Fine);
            assert!(frontier.states.len() <= 41, "{}", frontier.states.len());
        }
        let place = frontier.begin(Step::read(Need::Is(7)), false).unwrap().unwrap();
        assert_eq!(frontier.end(place), Verdict::Fine);
        assert_eq!(frontier.begin(Step::read(Need::Is(7)), false), Ok(None));
        let place = frontier.begin(Step::read(Need::Is(8)), false).unwrap().unwrap();
        assert_eq!(frontier.end(place), Verdict::Impossible);
    }

    #[test]
    fn a_register_with_too_many_orders_is_given_up_and_goes_on() {
        let mut frontier = Frontier::new(Value::Is(0));
        let add = |value| Step::write(Then::Add(1_i64 << value));
        let places: Vec<usize> = (0..40).map(|value| frontier.begin(add(value), false).unwrap().unwrap()).collect();
        assert_eq!(frontier.end(places[0]), Verdict::TooMany);
        assert_eq!(frontier.begin(Step::read(Need::Is(3)), false), Ok(None), "nobody knows what it holds");
        assert!(places[1..].iter().all(|place| frontier.end(*place) == Verdict::Fine));
        for (value, want) in [(3, Verdict::Fine), (4, Verdict::Impossible), (5, Verdict::Fine)] {
            let place = frontier.begin(Step::read(Need::Is(value)), false).unwrap().unwrap();
            assert_eq!(frontier.end(place), want, "whoever looks first says what it is");
        }
    }

    #[test]
    fn a_register_with_more_calls_than_places_says_nothing_until_all_of_them_have_ended() {
        let mut frontier = Frontier::new(Value::Is(0));
        let write = |value| Step::write(Then::Set(value));
        let first: Vec<usize> = (0..PENDING).map(|_| frontier.begin(write(1), true).unwrap().unwrap()).collect();
        let outside = frontier.begin(write(2), false).unwrap_err();
        assert_eq!(frontier.begin(write(3), false), Ok(Some(outside)), "it is said once");
        // Places that are used again belong to those who have them.
        assert!(first[1..].iter().all(|place| frontier.end(*place) == Verdict::Fine));
        let later = frontier.begin(write(4), false).unwrap().unwrap();
        assert!(first.contains(&later));
        for _ in 0..2 {
            assert_eq!(frontier.begin(Step::read(Need::Is(9)), false), Ok(None), "the ones outside may write");
            assert_eq!(frontier.end(outside), Verdict::Fine);
        }
        // (what is read, what that is): the later one was done unseen, or comes; so does one of the first, once; and no more.
        let reads = [(9, Verdict::Fine), (4, Verdict::Fine), (1, Verdict::Fine), (4, Verdict::Impossible)];
        for (value, want) in reads {
            let place = frontier.begin(Step::read(Need::Is(value)), false).unwrap().unwrap();
            assert_eq!(frontier.end(place), want, "{value}");
        }
        assert_eq!((frontier.end(later), frontier.end(first[0])), (Verdict::Fine, Verdict::Fine));
    }
}
