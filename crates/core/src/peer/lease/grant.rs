//! Leases: asked for, given, held, lapsed (R2-R4, R9, R10).

use super::attempt::AttemptId;
use super::view::{Life, MemberId};
use super::{Effect, Member, Memory, Message, Rule, State, Told};
use crate::time::{Span, Time};
use alloc::vec::Vec;

/// What is between this member and another one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Peer {
    /// Until when a grant of ours may be in use there.
    pub(super) given_until: Time,
    /// The life that has it.
    given_to: Option<Life>,
    /// Until then what it was told in parts is on its way, and not said again though it asks: it would drown in it.
    told_until: Time,
    /// Until when one of an older view may be.
    old_until: Time,
    /// The life that has that one, and the newest view in which it was given; none if several lives may.
    old_to: Option<(Life, u64)>,
    /// Until when its grant may be used here.
    held_until: Time,
    /// The end of the grant itself: until then its giver asks here before it lets others change anything.
    asks_until: Time,
    /// When it was last asked for one.
    asked: Option<Time>,
    /// The parts that came ahead of the grant that was asked for then.
    heard: Option<(Time, u64)>,
    /// When it last told what it knows, in this view, by its own clock.
    merged: Option<Time>,
    /// What it can say of the time before this view.
    past: Memory,
}

impl Peer {
    /// Another view: what was granted in the `old` one is no longer renewed.
    pub(super) fn new_view(&mut self, now: Time, old: u64) {
        let given = self.given_to.filter(|_| now < self.given_until).map(|life| (life, old));
        let mixed = now < self.old_until && given.is_some_and(|(life, _)| self.old_to.is_none_or(|(to, _)| to != life));
        *self = Self {
            old_until: self.old_until.max(self.given_until),
            old_to: if mixed { None } else { given.or(self.old_to) },
            ..Self::default()
        };
    }

    /// That life uses no grant of this view or of one before it.
    fn released(&mut self, now: Time, from: Life, epoch: u64, current: u64) {
        if self.old_to.is_some_and(|(life, given)| life == from && given <= epoch) {
            self.old_until = self.old_until.min(now);
        }
        if current <= epoch && self.given_to == Some(from) {
            self.given_until = self.given_until.min(now);
        }
    }
}

impl<K: Copy + Ord> Member<K> {
    /// A member wants to answer from its cache.
    pub(super) fn asked(&mut self, now: Time, from: Life, epoch: u64, (asked, since): (Time, Option<Time>)) {
        if !self.current(from, epoch) || now < self.quiet_until() {
            return;
        }
        if since.is_none() && now < self.peer(from).told_until {
            return;
        }
        let term = now - self.terms.longer(self.terms.lease);
        let told = match (self.rules.has(Rule::Carry), since) {
            (true, None) => self.book.told(now).collect(),
            (true, Some(since)) => self.book.told_since(now, since.min(term), self.me).collect(),
            (false, _) => Vec::new(),
        };
        let (until, epoch, past) = (now + self.terms.lease, self.epoch, self.memory());
        // What is too much for one message goes ahead; what is too much for all of them is not granted.
        let (mut told, mut parts) = (told, 0);
        if told.len() > PART * PARTS_MAX as usize {
            return;
        }
        let own = |told: &&Told<K>| told.id.owner == self.me && told.state == State::Pending;
        let open = told.iter().filter(own).map(|told| told.id).collect();
        while told.len() > PART {
            let part = told.split_off(told.len() - PART);
            self.say(from, Message::Tell { epoch, asked, part: parts, told: part });
            parts += 1;
        }
        let on_its_way = now + Span::from_nanos(self.terms.lease.as_nanos() / RENEW);
        let peer = self.peer(from);
        peer.told_until = if parts > 0 { on_its_way } else { Time::ZERO };
        peer.given_until = peer.given_until.max(until);
        peer.given_to = Some(from);
        let upto = self.book.upto();
        self.say(from, Message::Grant { epoch, asked, stamp: now, past, told, open, upto, parts });
    }

    /// A part of what a member knows, ahead of its grant.
    pub(super) fn told_part(
        &mut self,
        now: Time,
        from: Life,
        epoch: u64,
        (asked, part): (Time, u32),
        told: Vec<Told<K>>,
    ) {
        if !self.current(from, epoch) || part >= PARTS_MAX {
            return;
        }
        self.merge_all(now, from, told);
        let peer = self.peer(from);
        let heard = peer.heard.filter(|(of, _)| *of == asked).map_or(0, |(_, parts)| parts);
        peer.heard = Some((asked, heard | 1 << part));
    }

    /// What a member tells is known here too. Of a member that is in the view itself another one knows nothing new to tell that is unfinished:
    /// what is not known here may be over and forgotten, and would be told to and fro for ever.
    pub(super) fn merge_all(&mut self, now: Time, from: Life, told: Vec<Told<K>>) {
        for told in told {
            let owner = told.id.owner;
            let lives = owner != from && self.view.as_ref().is_some_and(|view| view.has(owner));
            let unheard = told.state == State::Pending && self.book.state(told.id).is_none();
            if !(lives && unheard) {
                self.merge(now, told);
            }
        }
    }

    /// Whether every part came that went ahead of a grant.
    pub(super) fn heard_parts(&mut self, from: Life, asked: Time, parts: u32) -> bool {
        let all = if parts >= PARTS_MAX { u64::MAX } else { (1 << parts) - 1 };
        let heard = self.peer(from).heard.filter(|(of, _)| *of == asked).map_or(0, |(_, parts)| parts);
        heard & all == all
    }

    /// A grant came. What it carries is known before it counts.
    pub(super) fn granted(
        &mut self,
        now: Time,
        from: Life,
        epoch: u64,
        (asked, stamp, past): (Time, Time, Memory),
        (told, open, upto): (Vec<Told<K>>, Vec<AttemptId>, u64),
    ) {
        if !self.current(from, epoch) {
            return;
        }
        self.merge_all(now, from, told);
        // Those that it told the end of are over by now, each in its own way.
        if self.rules.has(Rule::Carry) {
            self.close_unlisted(now, from, upto, &open);
        }
        let term = match self.rules.has(Rule::Drift) {
            true => self.terms.shorter(self.terms.lease),
            false => self.terms.lease,
        };
        let peer = self.peer(from);
        // In another view it would have told everything.
        let lapsed = peer.merged.is_some() && peer.asks_until <= now;
        (peer.held_until, peer.asks_until) = (peer.held_until.max(asked + term), peer.asks_until.max(asked + term));
        (peer.merged, peer.past) = (Some(stamp), past);
        if lapsed {
            self.book.unasked();
        }
        self.install(now);
    }

    /// A member of an older view uses its grants no longer.
    pub(super) fn released(&mut self, now: Time, from: Life, epoch: u64) {
        let current = self.epoch;
        self.peer(from).released(now, from, epoch, current);
    }

    /// Until then grants of an older view, or of an earlier life, may be in use (R2).
    pub(super) fn quiet_until(&self) -> Time {
        let old = self.peers.iter().map(|peer| peer.old_until).max().unwrap_or_default();
        let waits = if self.rules.has(Rule::ViewWait) { old } else { Time::ZERO };
        waits.max(self.start_until)
    }

    /// Whether every other member has told what it knew: then the view holds here (R9), and is clean or not (R10).
    pub(super) fn install(&mut self, now: Time) {
        let merged = |life: Life| self.peers[usize::from(life.member.0)].merged.is_some();
        if self.view.is_none() || self.installed == self.epoch || !self.others().all(merged) {
            return;
        }
        self.installed = self.epoch;
        self.seal();
        if !self.remembers {
            let patience = self.terms.longer(self.terms.lease + self.terms.hold);
            self.book.away(now, patience);
        }
        if self.clean() {
            self.disown(now);
        } else if self.rules.has(Rule::Clean) {
            self.unclean_until = now + self.terms.longer(self.terms.lease + self.terms.hold);
        }
        self.resume_rounds(now);
    }

    /// Whether every call that may run is known here: most remember the view before, or all are here and left nothing behind.
    fn clean(&self) -> bool {
        let past = |life: Life| self.peers[usize::from(life.member.0)].past;
        let said = self.others().map(past).chain([self.memory()]);
        let (mut members, mut tidy, mut remember) = (0, 0, 0);
        for memory in said {
            members += 1;
            tidy += usize::from(memory != Memory::None);
            remember += usize::from(memory == Memory::View);
        }
        remember >= self.terms.majority() || (tidy == members && members == self.terms.size)
    }

    /// Questions that are due.
    pub(super) fn ask_again(&mut self, now: Time) {
        let due: Vec<Life> = self.others().filter(|life| self.ask_at(*life) <= now).collect();
        for life in due {
            let epoch = self.epoch;
            let peer = self.peer(life);
            let since = peer.merged;
            peer.asked = Some(now);
            self.say(life, Message::Ask { epoch, asked: now, since });
        }
    }

    /// When the next question is due.
    pub(super) fn asks_at(&self) -> Option<Time> {
        self.others().map(|life| self.ask_at(life)).min()
    }

    /// A grant is renewed when half of it is over; who gave none yet is asked more often, but not while its answer is on its way in parts: every
    /// question is answered with all that is known, and what waits in a connection would only grow.
    fn ask_at(&self, life: Life) -> Time {
        let peer = &self.peers[usize::from(life.member.0)];
        let Some(at) = peer.asked else { return Time::ZERO };
        let holds = at + self.terms.shorter(self.terms.lease) <= peer.held_until;
        let is_told = peer.heard.is_some_and(|(of, _)| of == at);
        let patience = if holds || is_told { RENEW } else { RETRY };
        at + Span::from_nanos(self.terms.lease.as_nanos() / patience)
    }

    /// Until when every other member's grant is good.
    pub(super) fn leases_until(&self) -> Time {
        self.others().map(|life| self.peers[usize::from(life.member.0)].held_until).min().unwrap_or(Time::FAR)
    }

    /// What that member says may be lost: its grant counts no longer, since what it said without being acknowledged, to drop what is kept of new
    /// objects, may be lost too.
    pub fn unheard(&mut self, now: Time, member: MemberId) {
        if let Some(peer) = self.peers.get_mut(usize::from(member.0)) {
            (peer.held_until, peer.asked, peer.heard) = (Time::ZERO, None, None);
        }
        self.settle(now);
    }

    /// No answer from the cache until every lease is there again.
    pub(super) fn lapse(&mut self) {
        self.leased = false;
    }

    /// Notices leases that lapsed, and those that are complete.
    pub(super) fn settle(&mut self, now: Time) {
        if now >= self.unclean_until {
            self.unclean_until = Time::ZERO;
        }
        let live = self.view.is_some()
            && self.installed == self.epoch
            && now >= self.unclean_until
            && now < self.leases_until();
        match (self.leased, live) {
            (true, false) => self.lapse(),
            (false, true) => {
                // What was kept, and what left, before this moment is from another time (R4).
                if self.rules.has(Rule::Flush) {
                    self.effects.push_back(Effect::Flush);
                }
                self.book.outlast(now);
                self.leased = true;
            }
            (true, true) | (false, false) => {}
        }
    }
}

/// Attempts in a part, and parts ahead of a grant: far more than are remembered and under way.
const PART: usize = 512;
const PARTS_MAX: u32 = 64;
/// A grant is renewed after this part of its term.
const RENEW: u64 = 2;
/// A question that was not answered is asked again after this part of a term.
const RETRY: u64 = 8;
