//! Mutations at a proxy: announced with their names, then with what the names lead to, and sent while every permit is live.

use super::World;
use super::event::{Event, Request};
use super::node::{Job, Node, Purpose, Stage, Targets, Whose, longer};
use super::servers::Wants;
use super::truth::{Key, Seen};
use midas_core::cache::Ended;
use midas_core::peer::lease::{
    AttemptId, Intent, Life, Operation, Outcome, Purpose as Announced, Refusal, State, Trace,
};
use midas_core::time::{Span, Time};

impl World {
    pub(super) fn mutate(&mut self, node: usize, request: Request) {
        let Request { client, operation, action, copy } = request;
        let now = self.now;
        let desk = &mut self.nodes[node].desk;
        if let Some(job) = desk.jobs.get_mut(&operation) {
            job.asked = now;
            return;
        }
        if !action.idempotent() && desk.done.contains(&operation) {
            return self.answer(client, operation);
        }
        if self.under_hold(node, request, copy) {
            return;
        }
        let job = Job {
            action,
            client,
            begun: now,
            asked: now,
            stage: Stage::Aside,
            tries: 0,
            server: 0,
            permits: Vec::new(),
            marks: Vec::new(),
            keys: Vec::new(),
            targets: Targets::Known,
            copied: false,
        };
        self.nodes[node].desk.jobs.insert(operation, job);
        self.try_job(node, operation);
    }

    /// A job that waited for its turn begins.
    pub(super) fn try_job(&mut self, node: usize, operation: u64) {
        let local = self.local(node);
        let Some(job) = self.nodes[node].desk.jobs.get(&operation).filter(|job| job.stage == Stage::Aside) else {
            return;
        };
        let action = job.action;
        if self.now.since(job.asked) > self.plan.patience * 3 {
            self.nodes[node].desk.jobs.remove(&operation);
            return;
        }
        let mut keys = action.keys();
        let cached = if action.has_targets() { self.cached_targets(node, &keys) } else { Some(Vec::new()) };
        let targets = match (&cached, action.has_targets()) {
            (_, false) => Targets::Known,
            (Some(_), true) => Targets::Cached(self.nodes[node].desk.flushes),
            (None, true) => Targets::Unknown,
        };
        keys.extend(cached.into_iter().flatten());
        keys.sort_unstable();
        keys.dedup();
        let Some(server) = self.server_for(node, &keys) else { return self.set_aside(node, operation) };
        let Some(job) = self.nodes[node].desk.jobs.get_mut(&operation) else { return };
        (job.stage, job.server, job.targets) = (Stage::Waiting, server, targets);
        let once = (!action.idempotent()).then_some(Operation(u128::from(operation)));
        let intent = self.intent(once, &keys, action.names(), server);
        self.announce(node, local, operation, intent);
    }

    /// What the names lead to, if the cache may be believed.
    fn cached_targets(&mut self, node: usize, names: &[Key]) -> Option<Vec<Key>> {
        let local = self.local(node);
        let node = &mut self.nodes[node];
        if !node.leased(local) {
            return None;
        }
        let seen: Option<Vec<Seen>> =
            names.iter().map(|name| node.cache.get(local, name).map(|hit| *hit.value)).collect();
        Some(seen?.iter().filter_map(|seen| seen.leads.map(Key::Object)).collect())
    }

    pub(super) fn intent(
        &self,
        operation: Option<Operation>,
        keys: &[Key],
        names: Vec<Key>,
        server: u16,
    ) -> Intent<Key> {
        let server = (self.plan.stale > Span::ZERO).then_some(server);
        Intent { operation, keys: keys.into(), names: names.into(), server, more_of: None, led: None, rank: 0 }
    }

    /// Marks what changes in the own cache and announces it.
    fn announce(&mut self, node: usize, local: Time, operation: u64, mut intent: Intent<Key>) {
        let (keys, server) = (intent.keys.clone(), intent.server);
        let Node { cache, desk, member, .. } = &mut self.nodes[node];
        let Some(job) = desk.jobs.get_mut(&operation) else { return };
        job.marks.extend(keys.iter().map(|key| cache.mark(local, *key)));
        job.keys.extend(&keys);
        intent.rank = job.tries;
        match member.announce(local, intent, Announced::Call) {
            Ok(id) => {
                job.permits.push((id, Time::ZERO));
                desk.attempts.insert(id, Whose::Job(operation));
                if let Some(server) = server {
                    self.nodes[node].pin(id, keys.into_vec(), server);
                }
            }
            Err(why) => self.job_refused(node, operation, why),
        }
    }

    pub(super) fn permitted(&mut self, node: usize, id: AttemptId, until: Time) {
        self.note(|| format!("{node} may send {id:?} until {until:?}"));
        match self.nodes[node].desk.attempts.get(&id).copied() {
            Some(Whose::Job(operation)) => {
                if let Some(job) = self.nodes[node].desk.jobs.get_mut(&operation) {
                    job.permits.iter_mut().filter(|permit| permit.0 == id).for_each(|permit| permit.1 = until);
                    self.advance(node, operation);
                }
            }
            Some(Whose::Hold(object)) => {
                if let Some(hold) = self.nodes[node].desk.holds.get_mut(&object).filter(|hold| hold.id == id) {
                    hold.until = until;
                }
            }
            None => {}
        }
    }

    /// The next step of a job whose permits may be complete. The check and the send are one step.
    fn advance(&mut self, node: usize, operation: u64) {
        let local = self.local(node);
        let leased = self.nodes[node].leased(local);
        let flushes = self.nodes[node].desk.flushes;
        let careful = self.laws.target;
        let Some(job) = self.nodes[node].desk.jobs.get_mut(&operation) else { return };
        let (server, action) = (job.server, job.action);
        if job.stage != Stage::Waiting || job.permits.iter().any(|(_, until)| *until == Time::ZERO) {
            return;
        }
        let expired: Vec<AttemptId> =
            job.permits.iter().filter(|permit| local >= permit.1).map(|permit| permit.0).collect();
        if !expired.is_empty() {
            for id in expired {
                self.again(node, local, operation, id);
            }
            return;
        }
        match job.targets {
            Targets::Cached(then) if careful && !(leased && then == flushes) => job.targets = Targets::Unknown,
            Targets::Known | Targets::Cached(_) | Targets::Unknown => {}
        }
        if job.targets == Targets::Unknown {
            job.stage = Stage::Looking;
            let call = self.call(node, server, Wants::Read(action.names()));
            self.nodes[node].desk.calls.insert(call, Purpose::Lookup(operation));
            return;
        }
        job.stage = Stage::Sent;
        self.checks.waits.push(self.now.since(job.begun));
        let call = self.call(node, server, Wants::Mutate(operation, action));
        self.nodes[node].desk.calls.insert(call, Purpose::Mutation(operation));
    }

    fn again(&mut self, node: usize, local: Time, operation: u64, id: AttemptId) {
        let Node { desk, member, .. } = &mut self.nodes[node];
        if let Some(job) = desk.jobs.get_mut(&operation) {
            job.permits.iter_mut().filter(|permit| permit.0 == id).for_each(|permit| permit.1 = Time::ZERO);
            // The name may have moved since its permit ran out, whoever looked it up.
            if self.laws.target && job.action.has_targets() {
                job.targets = Targets::Unknown;
            }
        }
        member.again(local, id);
    }

    /// Where the names lead, as of after the permit: those objects change too.
    pub(super) fn looked_up(&mut self, node: usize, operation: u64, seen: &[Seen]) {
        let local = self.local(node);
        let Some(job) = self.nodes[node].desk.jobs.get_mut(&operation) else { return };
        (job.stage, job.targets) = (Stage::Waiting, Targets::Known);
        let objects = seen.iter().filter_map(|seen| seen.leads.map(Key::Object));
        let mut more: Vec<Key> = objects.filter(|key| !job.keys.contains(key)).collect();
        more.sort_unstable();
        more.dedup();
        let (server, action, names) = (job.server, job.action, job.action.names());
        if more.is_empty() {
            return self.advance(node, operation);
        }
        // Pinned elsewhere: this server may not know what they are.
        if more.iter().flat_map(|key| self.pinned(node, *key)).any(|pinned| pinned != server) {
            return self.set_aside(node, operation);
        }
        // With the names that lead there: a lost call on one of them may change these too.
        let more_of = (!action.idempotent()).then_some(Operation(u128::from(operation)));
        let intent = Intent { more_of, ..self.intent(None, &more, names, server) };
        self.announce(node, local, operation, intent);
    }

    pub(super) fn refused(&mut self, node: usize, id: AttemptId, why: Refusal) {
        self.note(|| format!("{node} must not send {id:?}: {why:?}"));
        match self.nodes[node].desk.attempts.get(&id).copied() {
            Some(Whose::Job(operation)) => self.job_refused(node, operation, why),
            Some(Whose::Hold(object)) => self.hold_refused(node, object, id),
            None => {}
        }
    }

    fn job_refused(&mut self, node: usize, operation: u64, why: Refusal) {
        let Some(job) = self.nodes[node].desk.jobs.get(&operation).filter(|job| job.stage != Stage::Sent) else {
            return;
        };
        let client = job.client;
        if job.copied {
            return self.lost(node, operation);
        }
        match why {
            Refusal::Busy | Refusal::Over | Refusal::UnderWay => self.set_aside(node, operation),
            Refusal::Executed(answer) => {
                self.end_job(node, operation, &Outcome::NeverLeft);
                self.nodes[node].desk.jobs.remove(&operation);
                if answer.is_some() {
                    self.answer(client, operation);
                }
            }
            Refusal::Doubtful(id, Trace::Sure(..)) => self.look(node, operation, id),
            Refusal::Doubtful(_, Trace::Blurred) => {
                self.end_job(node, operation, &Outcome::NeverLeft);
                self.nodes[node].desk.jobs.remove(&operation);
            }
        }
    }

    /// A server is asked whether it was executed.
    fn look(&mut self, node: usize, operation: u64, id: AttemptId) {
        let local = self.local(node);
        self.end_job(node, operation, &Outcome::NeverLeft);
        let Some(job) = self.nodes[node].desk.jobs.get_mut(&operation) else { return };
        job.stage = Stage::Looking;
        let (server, action) = (job.server, job.action);
        let call = self.call(node, server, Wants::Look(operation, action));
        self.nodes[node].desk.calls.insert(call, Purpose::Look(operation, id, local));
    }

    /// What it left behind shows, or not.
    pub(super) fn found_out(&mut self, node: usize, operation: u64, (id, since): (AttemptId, Time), shown: bool) {
        let local = self.local(node);
        let Node { desk, member, .. } = &mut self.nodes[node];
        let Some(client) = desk.jobs.get(&operation).map(|job| job.client) else { return };
        let state = if shown { State::Ended(Some(Box::from([1]))) } else { State::Cancelled };
        let sure = member.found_out(local, id, (Trace::Sure(None, Span::ZERO), since), &state);
        if sure && shown {
            desk.jobs.remove(&operation);
            desk.done.insert(operation);
            self.answer(client, operation);
        } else {
            self.set_aside(node, operation);
        }
    }

    /// It never left, and tries again later.
    pub(super) fn set_aside(&mut self, node: usize, operation: u64) {
        self.end_job(node, operation, &Outcome::NeverLeft);
        let Some(job) = self.nodes[node].desk.jobs.get_mut(&operation) else { return };
        (job.stage, job.tries) = (Stage::Aside, (job.tries + 1).min(PATIENCE_MAX));
        let span = self.plan.delay.scale(4.0 * f64::from(job.tries));
        let to = self.nodes[node].life;
        let later = self.plan.delay + span.scale(self.rng.unit());
        self.queue.push(self.now + later, Event::Retry { to, operation });
    }

    /// The server replied.
    pub(super) fn done(&mut self, node: usize, operation: u64) {
        let copied = self.nodes[node].desk.jobs.get(&operation).is_some_and(|job| job.copied);
        let answer = Some(Box::from([1]));
        self.end_job(node, operation, &if copied { Outcome::Copied(answer) } else { Outcome::Replied(answer) });
        let desk = &mut self.nodes[node].desk;
        let Some(job) = desk.jobs.remove(&operation) else { return };
        desk.done.insert(operation);
        self.answer(job.client, operation);
    }

    /// The connection of a call broke. What may run twice is sent again.
    pub(super) fn broken(&mut self, node: usize, operation: u64) {
        let local = self.local(node);
        let again = self.rng.chance(RESENT);
        let jobs = &mut self.nodes[node].desk.jobs;
        let Some(job) = jobs.get_mut(&operation).filter(|job| again && job.action.idempotent()) else {
            return self.lost(node, operation);
        };
        (job.stage, job.copied) = (Stage::Waiting, true);
        let ids: Vec<AttemptId> = job.permits.iter().map(|(id, _)| *id).collect();
        for id in ids {
            self.again(node, local, operation, id);
        }
    }

    fn lost(&mut self, node: usize, operation: u64) {
        self.end_job(node, operation, &Outcome::Lost);
        self.nodes[node].desk.jobs.remove(&operation);
    }

    /// Attempts and marks of a job end.
    fn end_job(&mut self, node: usize, operation: u64, outcome: &Outcome) {
        let Some(job) = self.nodes[node].desk.jobs.get_mut(&operation) else { return };
        let (permits, marks) = (std::mem::take(&mut job.permits), std::mem::take(&mut job.marks));
        job.keys.clear();
        let ids = permits.into_iter().map(|(id, _)| id).collect();
        self.end_attempts(node, ids, marks, outcome);
    }

    /// What was announced is over, and so are its marks, unless a lost call may still change the same.
    pub(super) fn end_attempts(
        &mut self,
        node: usize,
        ids: Vec<AttemptId>,
        marks: Vec<midas_core::cache::Mark<Key>>,
        outcome: &Outcome,
    ) {
        let local = self.local(node);
        let lost = matches!(outcome, Outcome::Lost | Outcome::Copied(_));
        let hold = longer(&self.plan.terms, self.plan.terms.hold);
        let at = &mut self.nodes[node];
        let mut keep: Option<Time> = None;
        for id in ids {
            at.desk.attempts.remove(&id);
            keep = keep.max(at.member.ended(local, id, outcome.clone()).filter(|until| local < *until));
            let until = keep.unwrap_or(local);
            at.unpin(if lost { until + hold } else { until }, id);
        }
        let ended = if lost { Ended::Unknown } else { Ended::Done };
        match keep {
            Some(until) if *outcome != Outcome::NeverLeft => {
                self.tokens += 1;
                at.desk.kept.insert(self.tokens, marks);
                let (to, when) = (at.life, at.clock.real(until));
                self.queue.push(when, Event::Free { to, token: self.tokens });
            }
            Some(_) | None => marks.into_iter().for_each(|mark| at.cache.end(local, mark, ended)),
        }
    }

    /// Marks that outlasted their call end.
    pub(super) fn free(&mut self, to: Life, token: u64) {
        let Some(node) = self.living(to) else { return };
        let local = self.local(node);
        let Node { cache, desk, .. } = &mut self.nodes[node];
        for mark in desk.kept.remove(&token).into_iter().flatten() {
            cache.end(local, mark, Ended::Done);
        }
    }
}

/// The share of broken calls that are sent again, if they may run twice.
const RESENT: f64 = 0.5;
/// Who was refused often waits longer, up to so many times.
const PATIENCE_MAX: u32 = 16;
