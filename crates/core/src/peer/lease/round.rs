//! One's own attempts: announced, acknowledged, let through, over (R6-R8, R11, R12).

use super::attempt::{AttemptId, Intent, Operation, Refusal, State};
use super::view::{Life, Members};
use super::{Effect, Member, Message, Outcome, Purpose, Rule};
use crate::time::{Span, Time};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Announcements of this life's attempts.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    open: BTreeMap<AttemptId, Round>,
    due: BTreeSet<(Time, AttemptId)>,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    purpose: Purpose,
    /// Counts announcements; 0 if there was none in this view.
    number: u32,
    announced: Time,
    acknowledged: Members,
    stage: Stage,
    due: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It may not leave yet.
    Waiting,
    /// It may have left.
    Permitted,
    /// It may have left, and wants to leave again, or others to follow it.
    Again,
}

impl Rounds {
    pub(super) fn next_at(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Whether it is a hold.
    pub(super) fn holds(&self, id: AttemptId) -> bool {
        self.open.get(&id).is_some_and(|round| round.purpose == Purpose::Hold)
    }

    /// Whether it may have left and does not ask again, or is a hold.
    pub(super) fn leaves(&self, id: AttemptId) -> bool {
        let leaves = |round: &Round| round.purpose == Purpose::Hold || round.stage == Stage::Permitted;
        self.open.get(&id).is_some_and(leaves)
    }

    /// Whether it is a call that may not leave yet, and never might.
    pub(super) fn waits(&self, id: AttemptId) -> bool {
        self.open.get(&id).is_some_and(|round| round.purpose == Purpose::Call && round.stage == Stage::Waiting)
    }

    pub(super) fn end(&mut self, id: AttemptId) {
        if let Some(round) = self.open.remove(&id) {
            self.due.remove(&(round.due, id));
        }
    }

    fn schedule(&mut self, id: AttemptId, at: Time) {
        if let Some(round) = self.open.get_mut(&id) {
            self.due.remove(&(core::mem::replace(&mut round.due, at), id));
            if at < Time::FAR {
                self.due.insert((at, id));
            }
        }
    }
}

impl<K: Copy + Ord> Member<K> {
    /// A call wants to leave. [`Effect::Permit`] says when it may; a refusal that it must not.
    pub fn announce(&mut self, now: Time, intent: Intent<K>, purpose: Purpose) -> Result<AttemptId, Refusal> {
        if let Some(why) = self.refusal(now, None, &intent) {
            return Err(why);
        }
        let id = self.book.next_id(self.me);
        self.book.insert(now, id, intent, State::Pending);
        self.book.overlay(id);
        let round = Round {
            purpose,
            number: 0,
            announced: now,
            acknowledged: Members::default(),
            stage: Stage::Waiting,
            due: Time::FAR,
        };
        self.rounds.open.insert(id, round);
        self.begin_round(now, id);
        Ok(id)
    }

    /// An operation that a client sends once more is refused as its announcement would be; none if nobody
    /// has tried it, or its last try never left. Asking keeps others from its names for as long as an
    /// announcement would: a call that waits for its turn here must not lose them to those before it.
    pub fn tried(&mut self, now: Time, operation: Operation) -> Option<Refusal> {
        let nothing = || Box::default();
        let (keys, names) = (nothing(), nothing());
        let alone = Intent { operation: Some(operation), keys, names, server: None, more_of: None, led: None, rank: 0 };
        self.refusal(now, None, &alone)
    }

    /// A call that was let through did not leave in time, or must be sent again. False if it is over: it must be announced anew.
    pub fn again(&mut self, now: Time, id: AttemptId) -> bool {
        let Some(round) = self.rounds.open.get_mut(&id) else { return false };
        if round.stage == Stage::Permitted {
            round.stage = Stage::Again;
            self.begin_round(now, id);
        }
        true
    }

    /// It is over. Until when, if at all, nothing that it changed is to be kept.
    pub fn ended(&mut self, now: Time, id: AttemptId, outcome: Outcome) -> Option<Time> {
        let taint = self.taint(now, id);
        let state = match outcome {
            Outcome::Replied(answer) => State::Ended(answer),
            Outcome::Copied(answer) => State::Copied(answer),
            Outcome::NeverLeft => State::Cancelled,
            Outcome::Lost => {
                self.rounds.schedule(id, Time::FAR);
                self.say_all(&Message::Lost { id });
                self.linger(now, id);
                return None;
            }
        };
        self.rounds.end(id);
        if self.book.state(id) == Some(&State::Pending) {
            self.say_all(&Message::Over { id, state: state.clone() });
        }
        self.over(now, id, state);
        self.answer_deferred(now);
        taint
    }

    /// Whether no attempt of this life waits or may still run.
    pub fn quiet(&self) -> bool {
        self.rounds.open.is_empty() && !self.book.awaits(self.me)
    }

    /// Something was found to be different from what others may keep.
    pub fn tell_dropped(&mut self, keys: &[K]) {
        self.say_all(&Message::Drop { keys: keys.into() });
    }

    /// Everything that waits is announced in the new view.
    pub(super) fn begin_rounds(&mut self, now: Time) {
        let ids: Vec<AttemptId> = self.rounds.open.keys().copied().collect();
        for id in ids {
            if let Some(round) = self.rounds.open.get_mut(&id) {
                round.acknowledged = Members::default();
                round.announced = Time::ZERO;
                if round.stage == Stage::Permitted && round.purpose == Purpose::Hold {
                    round.stage = Stage::Again;
                }
            }
            self.begin_round(now, id);
        }
    }

    /// What could not be announced before is now.
    pub(super) fn resume_rounds(&mut self, now: Time) {
        let waits = |(_, round): &(&AttemptId, &Round)| round.announced == Time::ZERO || round.number == 0;
        let ids: Vec<AttemptId> = self.rounds.open.iter().filter(waits).map(|(id, _)| *id).collect();
        for id in ids {
            self.begin_round(now, id);
        }
    }

    /// Another announcement, that all must answer, unless nothing waits for it.
    fn begin_round(&mut self, now: Time, id: AttemptId) {
        let Some(round) = self.rounds.open.get(&id).filter(|round| round.stage != Stage::Permitted) else { return };
        if !self.acts(now) {
            let quiet = self.quiet_until();
            let soon = if now < quiet { quiet } else { now + self.retry() };
            self.rounds.schedule(id, soon);
            return;
        }
        let number = round.number + 1;
        if let Some(round) = self.rounds.open.get_mut(&id) {
            (round.number, round.announced, round.acknowledged) = (number, now, Members::default());
        }
        self.tell_round(now, id);
        self.permit(now, id);
    }

    /// Says it to those who did not acknowledge.
    fn tell_round(&mut self, now: Time, id: AttemptId) {
        let (Some(round), Some(intent)) = (self.rounds.open.get(&id).copied(), self.book.intent(id).cloned()) else {
            return;
        };
        let epoch = self.epoch;
        let to: Vec<Life> = self.others().filter(|life| !round.acknowledged.has(life.member)).collect();
        for life in to {
            self.say(life, Message::Announce { epoch, id, round: round.number, intent: intent.clone() });
        }
        let next = now + self.retry();
        self.rounds.schedule(id, next);
    }

    /// Rounds whose time has come: announced again, anew if the old announcement is of no use any more.
    pub(super) fn rounds_due(&mut self, now: Time) {
        while let Some((_, id)) = self.rounds.due.first().copied().filter(|(at, _)| *at <= now) {
            let Some(round) = self.rounds.open.get(&id).copied() else { return };
            self.rounds.schedule(id, Time::FAR);
            let stale = round.number == 0 || now >= round.announced + Span::from_nanos(self.terms.lease.as_nanos() / 2);
            match round.stage {
                Stage::Permitted if round.purpose == Purpose::Hold => drop(self.again(now, id)),
                Stage::Permitted => {}
                Stage::Waiting | Stage::Again if stale || !self.acts(now) => self.begin_round(now, id),
                Stage::Waiting | Stage::Again => {
                    self.tell_round(now, id);
                    // A grant may have run out meanwhile.
                    self.permit(now, id);
                }
            }
        }
    }

    pub(super) fn acknowledged(&mut self, now: Time, from: Life, epoch: u64, (id, number): (AttemptId, u32)) {
        if !self.current(from, epoch) {
            return;
        }
        let recent = self.rules.has(Rule::Recent);
        let Some(round) = self.rounds.open.get_mut(&id).filter(|round| round.number == number || !recent) else {
            return;
        };
        round.acknowledged.insert(from.member);
        self.permit(now, id);
    }

    /// Somebody knows better. What may have left already is not called back by that.
    pub(super) fn refused(&mut self, now: Time, from: Life, epoch: u64, (id, number): (AttemptId, u32), why: Refusal) {
        let waits = |round: &&Round| round.number == number && round.stage != Stage::Permitted;
        let Some(round) = self.rounds.open.get(&id).filter(waits).copied() else { return };
        if !self.current(from, epoch) {
            return;
        }
        match round.stage {
            Stage::Waiting => {
                self.ended(now, id, Outcome::NeverLeft);
            }
            Stage::Again => {
                if let Some(round) = self.rounds.open.get_mut(&id) {
                    round.stage = Stage::Permitted;
                }
                self.rounds.schedule(id, Time::FAR);
            }
            Stage::Permitted => {}
        }
        self.effects.push_back(Effect::Refused(id, why));
    }

    /// Whether a call may leave: R6, R7, R9.
    fn permit(&mut self, now: Time, id: AttemptId) {
        let Some(round) = self.rounds.open.get(&id).copied().filter(|round| round.stage != Stage::Permitted) else {
            return;
        };
        let until = if self.rules.has(Rule::Recent) { round.announced + self.terms.lease } else { Time::FAR };
        let names = self.book.intent(id).map(|intent| &*intent.names).unwrap_or_default();
        let silent = |life: Life| {
            let peer = &self.peers[usize::from(life.member.0)];
            round.acknowledged.has(life.member) || peer.given_until <= now && !self.book.changes(life, names)
        };
        let all = !self.rules.has(Rule::Wait) || self.others().all(silent);
        let most = 1 + round.acknowledged.len() >= self.terms.majority() || !self.rules.has(Rule::Majority);
        if !(round.number > 0 && self.acts(now) && now < until && all && most) {
            return;
        }
        if let Some(round) = self.rounds.open.get_mut(&id) {
            round.stage = Stage::Permitted;
        }
        self.effects.push_back(Effect::Permit(id, until));
        let renew = match round.purpose {
            Purpose::Call => Time::FAR,
            Purpose::Hold => round.announced + Span::from_nanos(self.terms.lease.as_nanos() / 2),
        };
        self.rounds.schedule(id, renew);
    }

    /// How long an answer is waited for.
    fn retry(&self) -> Span {
        Span::from_nanos(self.terms.lease.as_nanos() / RETRY)
    }
}

/// An announcement that was not answered is said again after this part of a term.
const RETRY: u64 = 8;
