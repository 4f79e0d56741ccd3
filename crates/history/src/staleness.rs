//! Whether every value that was read from a register was current not longer than a bound before the read began.
//!
//! A value is surely over once a write has ended that began after the value's own write had ended. With unique versions a
//! read names its write; of values that come again (no name) the latest time counts.

use crate::record::ABSENT;
use crate::step::{Need, Step, Then, Value};
use std::collections::HashMap;

/// The values that one register has had.
#[derive(Clone, Debug, Default)]
pub(crate) struct Staleness {
    lives: HashMap<u64, Life, foldhash::fast::FixedState>,
    /// Those that are not surely over.
    living: Vec<u64>,
    /// Something was left that nobody knows, before the history began or in it: until when it can be current.
    unknown: Option<Life>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Life {
    /// Writes of it that are under way, or will never end.
    pending: u32,
    /// When the last of its writes ended.
    ended: u64,
    /// When it was surely over.
    over: Option<u64>,
}

impl Life {
    fn begin(&mut self) {
        *self = Self { pending: self.pending + 1, over: None, ..*self };
    }

    fn end(&mut self, now: u64) {
        *self = Self { pending: self.pending.saturating_sub(1), ended: now, ..*self };
    }

    /// A write that began at `start` ends now.
    fn overwritten(&mut self, start: u64, now: u64) {
        if self.pending == 0 && self.ended < start {
            self.over.get_or_insert(now);
        }
    }

    fn reaches(&self, since: u64) -> bool {
        self.over.is_none_or(|over| over >= since)
    }
}

impl Staleness {
    pub(crate) fn new(value: Value) -> Self {
        let mut register = Self::default();
        match value {
            Value::Is(value) => {
                register.lives.insert(value, Life::default());
                register.living.push(value);
            }
            Value::Unknown | Value::Something => register.unknown = Some(Life::default()),
        }
        register
    }

    /// A write begins: from now on its value may be read.
    pub(crate) fn begin(&mut self, step: Step) {
        match (step.then, left(step)) {
            (Then::Keep, _) => {}
            (_, Some(value)) => {
                self.lives.entry(value).or_default().begin();
                if !self.living.contains(&value) {
                    self.living.push(value);
                }
            }
            (_, None) => self.unknown.get_or_insert_default().begin(),
        }
    }

    /// A write that began at `start` ends now: what ended before it began is over.
    pub(crate) fn end(&mut self, step: Step, start: u64, now: u64) {
        let own = left(step);
        let overwrites = |value: u64| match step.then {
            Then::Set(_) | Then::Forget(_) => true,
            // A write that grows does not end a larger size; what was there when a name was filled may be there still.
            Then::Max(new) => value <= new,
            Then::Fill(_) => value == ABSENT,
            Then::Add(_) | Then::Keep => false,
        };
        let lives = &mut self.lives;
        self.living.retain(|value| {
            let Some(life) = lives.get_mut(value) else { return false };
            if Some(*value) != own && overwrites(*value) {
                life.overwritten(start, now);
            }
            life.over.is_none()
        });
        match (step.then, own, &mut self.unknown) {
            (Then::Keep, ..) => {}
            (_, Some(own), unknown) => {
                self.lives.entry(own).and_modify(|life| life.end(now));
                if let (Then::Set(_) | Then::Forget(_), Some(life)) = (step.then, unknown) {
                    life.overwritten(start, now);
                }
            }
            (_, None, unknown) => unknown.iter_mut().for_each(|life| life.end(now)),
        }
    }

    /// Whether a read that began at `start` and ends now may have found this.
    pub(crate) fn admits(&self, need: Need, start: u64, bound: u64) -> bool {
        let since = start.saturating_sub(bound);
        let late = |life: &Life| life.reaches(since);
        let found = match need {
            Need::Is(value) => self.lives.get(&value).is_some_and(late),
            Need::Any | Need::Not(_) | Need::Bits(..) => {
                self.lives.iter().any(|(value, life)| need.admits(*value) && late(life))
            }
        };
        found || self.unknown.as_ref().is_some_and(late)
    }

    /// Forgets what no read can find any more.
    pub(crate) fn trim(&mut self, now: u64, bound: u64) {
        if self.lives.len() >= LIVES {
            let since = now.saturating_sub(bound).saturating_sub(SLACK);
            self.lives.retain(|_, life| life.reaches(since));
        }
    }
}

/// The value that a write leaves, where that is known.
fn left(step: Step) -> Option<u64> {
    match step.then {
        Then::Set(value) | Then::Max(value) => Some(value),
        Then::Forget(value) | Then::Fill(value) => Some(value).filter(|value| *value != ABSENT),
        Then::Add(_) | Then::Keep => None,
    }
}

/// Values that are kept before old ones are looked for.
const LIVES: usize = 4096;
/// A read may have begun this long ago, in nanoseconds.
const SLACK: u64 = 60_000_000_000;
