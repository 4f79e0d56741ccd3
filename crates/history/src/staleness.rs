//! Whether every value that was read from a register was current not longer than a bound before the read began.
//!
//! A value is surely over once a write has ended that began after the value's own write had ended. With unique versions a
//! read names its write; of values that come again (no name) the latest time counts.

use crate::step::{Need, Step, Then};
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

#[derive(Clone, Copy, Debug)]
struct Life {
    /// When its write ended; [`NEVER`] while it is under way.
    ended: u64,
    /// When it was surely over.
    over: u64,
}

impl Staleness {
    pub(crate) fn new(value: Option<u64>) -> Self {
        let (mut register, first) = (Self::default(), Life { ended: 0, over: NEVER });
        match value {
            Some(value) => {
                register.lives.insert(value, first);
                register.living.push(value);
            }
            None => register.unknown = Some(first),
        }
        register
    }

    /// A write begins: from now on its value may be read.
    pub(crate) fn begin(&mut self, step: Step) {
        match step.then {
            Then::Set(value) | Then::Max(value) => {
                self.lives.insert(value, Life { ended: NEVER, over: NEVER });
                if !self.living.contains(&value) {
                    self.living.push(value);
                }
            }
            Then::Forget | Then::Add(_) => self.unknown = Some(Life { ended: NEVER, over: NEVER }),
            Then::Keep => {}
        }
    }

    /// A write that began at `start` ends now: what ended before it began is over.
    pub(crate) fn end(&mut self, step: Step, start: u64, now: u64) {
        let (own, least) = match step.then {
            Then::Set(value) => (Some(value), u64::MAX),
            // A write that grows does not end a larger size.
            Then::Max(value) => (Some(value), value),
            Then::Forget => (None, u64::MAX),
            Then::Add(_) | Then::Keep => return,
        };
        let lives = &mut self.lives;
        self.living.retain(|value| {
            let Some(life) = lives.get_mut(value) else { return false };
            if life.ended < start && *value <= least && Some(*value) != own {
                life.over = now;
            }
            life.over == NEVER
        });
        if let Some(life) = own.and_then(|own| self.lives.get_mut(&own)) {
            life.ended = life.ended.min(now);
        }
        match &mut self.unknown {
            Some(life) if own.is_none() => life.ended = now,
            Some(life) if life.ended < start && life.over == NEVER && least == u64::MAX => life.over = now,
            Some(_) | None => {}
        }
    }

    /// Whether a read that began at `start` and ends now may have found this.
    pub(crate) fn admits(&self, need: Need, start: u64, bound: u64) -> bool {
        let since = start.saturating_sub(bound);
        let late = |life: &Life| life.over >= since;
        let found = match need {
            Need::Is(value) => self.lives.get(&value).is_some_and(late),
            Need::Any | Need::Not(_) | Need::Either(..) | Need::Bits(..) => {
                self.lives.iter().any(|(value, life)| need.admits(*value) && late(life))
            }
        };
        found || self.unknown.as_ref().is_some_and(late)
    }

    /// Forgets what no read can find any more.
    pub(crate) fn trim(&mut self, now: u64, bound: u64) {
        if self.lives.len() >= LIVES {
            self.lives.retain(|_, life| life.over.saturating_add(bound).saturating_add(SLACK) > now);
        }
    }
}

const NEVER: u64 = u64::MAX;
/// Values that are kept before old ones are looked for.
const LIVES: usize = 4096;
/// A read may have begun this long ago, in nanoseconds.
const SLACK: u64 = 60_000_000_000;
