//! What was done and decided, with reasons: the last of it, numbered.

use super::at_once;
use crate::api::watch::{EVENTS_MAX, Event};
use crate::pool::lock;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Instant;

/// The last events. Written a few times a second at most: a lock is cheap enough.
#[derive(Debug)]
pub(crate) struct Journal {
    started: Instant,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Of the last one.
    number: u64,
    events: VecDeque<Event>,
    /// Samples come so often that they would push out all others.
    decisions: VecDeque<Event>,
}

/// What kind of event it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Knob,
    Health,
    Cache,
    Cluster,
    /// By an administrator.
    Change,
    /// A sample of the calls that left their home, or wait.
    Decision,
}

impl Said {
    const fn name(self) -> &'static str {
        match self {
            Self::Knob => "knob",
            Self::Health => "health",
            Self::Cache => "cache",
            Self::Cluster => "cluster",
            Self::Change => "change",
            Self::Decision => "decision",
        }
    }
}

impl Default for Journal {
    fn default() -> Self {
        Self { started: Instant::now(), kept: Mutex::default() }
    }
}

impl Journal {
    /// Something happened. Event loops say decisions alone: a sample that comes while somebody reads is left out.
    pub(crate) fn say(&self, kind: Said, about: impl Into<String>, what: impl Into<String>, why: impl Into<String>) {
        let uptime_ms = self.started.elapsed().as_millis() as u64;
        let (about, what, why) = (about.into(), what.into(), why.into());
        let kept = if kind == Said::Decision { at_once(&self.kept) } else { Some(lock(&self.kept)) };
        let Some(mut kept) = kept else { return };
        kept.number += 1;
        let event = Event { number: kept.number, uptime_ms, kind: kind.name().to_owned(), about, what, why };
        let (ring, most) = match kind {
            Said::Decision => (&mut kept.decisions, DECISIONS_MAX),
            Said::Knob | Said::Health | Said::Cache | Said::Cluster | Said::Change => (&mut kept.events, OTHERS_MAX),
        };
        if ring.len() == most {
            ring.pop_front();
        }
        ring.push_back(event);
    }

    /// Those that are still known and newer than this number, oldest first.
    pub(crate) fn since(&self, number: u64) -> Vec<Event> {
        let kept = lock(&self.kept);
        let all = kept.events.iter().chain(&kept.decisions);
        let mut newer: Vec<Event> = all.filter(|event| event.number > number).cloned().collect();
        drop(kept);
        newer.sort_unstable_by_key(|event| event.number);
        newer
    }
}

/// Of what is kept, samples of calls.
const DECISIONS_MAX: usize = 256;
/// And all else.
const OTHERS_MAX: usize = EVENTS_MAX - DECISIONS_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_are_kept_and_none_is_told_twice() {
        let journal = Journal::default();
        for number in 0..OTHERS_MAX + 3 {
            journal.say(Said::Knob, "/scratch", format!("event {number}"), "");
        }
        let all = journal.since(0);
        assert_eq!((all.len(), all[0].number), (OTHERS_MAX, 4));
        assert!(all.windows(2).all(|pair| pair[1].number == pair[0].number + 1));
        let last = all.last().map_or(0, |event| event.number);
        assert!(journal.since(last).is_empty());
        journal.say(Said::Health, "a", "is down", "no answer");
        assert_eq!(journal.since(last).iter().map(|event| event.what.as_str()).collect::<Vec<_>>(), ["is down"]);
    }

    #[test]
    fn samples_of_calls_push_out_none_but_each_other() {
        let journal = Journal::default();
        for _ in 0..OTHERS_MAX {
            (0..3).for_each(|_| journal.say(Said::Decision, "/scratch", "GETATTR", "at home"));
            journal.say(Said::Knob, "/scratch", "turned", "");
        }
        let all = journal.since(0);
        let decisions = all.iter().filter(|event| event.kind == "decision").count();
        assert_eq!((decisions, all.len()), (DECISIONS_MAX, EVENTS_MAX));
        assert!(all.windows(2).all(|pair| pair[0].number < pair[1].number), "by number");
        let last: Vec<u64> = journal.since(4 * OTHERS_MAX as u64 - 3).iter().map(|event| event.number).collect();
        assert_eq!(last, [2, 1, 0].map(|before| 4 * OTHERS_MAX as u64 - before));
    }
}
