//! Between proxies: mutations are announced before they leave (lease mode), and load is told.

use super::{Event, World};
use crate::call::{Flying, Stage, touches_of};
use crate::check::Violation;
use crate::config::ShareInterval;
use crate::model::server::CallId;
use crate::model::truth::Entry;
use midas_core::cache::{Ended, Mode};
use midas_core::peer::{Change, Due, Share};
use midas_core::time::Time;

impl World<'_> {
    /// In lease mode a mutation leaves only after every other proxy has dropped what it changes.
    pub(super) fn announces(&self, touches: &[Entry]) -> bool {
        let lease = self.config.cache.is_some_and(|cache| cache.mode == Mode::Lease);
        lease && self.config.proxies > 1 && !touches.is_empty()
    }

    pub(super) fn announce(&mut self, now: Time, call: CallId) {
        let flying = self.calls.get(call);
        let (proxy, number) = (flying.proxy, flying.number);
        for to in (0..self.config.proxies).filter(|to| *to != proxy) {
            let at = now + self.way();
            self.queue.push(at, Event::Announce { to, call, number });
        }
    }

    pub(super) fn announced(&mut self, now: Time, to: u32, call: CallId, number: u64) {
        let touches = touches_of(&self.calls.get(call).request);
        let peer = &mut self.proxies[to as usize];
        let marks = touches.iter().map(|entry| peer.shard.cache().mark(now, *entry)).collect();
        peer.marks.insert(number, marks);
        let at = now + self.way();
        self.queue.push(at, Event::Acknowledge(call));
    }

    pub(super) fn acknowledged(&mut self, now: Time, call: CallId) -> Result<(), Violation> {
        if let Stage::Announced(_, left) = &mut self.calls.get_mut(call).stage {
            *left -= 1;
            if *left > 0 {
                return Ok(());
            }
        }
        let mut flying = self.calls.take(call);
        match std::mem::replace(&mut flying.stage, Stage::Gone) {
            Stage::Announced(pass, _) => self.send(now, flying, pass),
            Stage::Joined | Stage::Held(_) | Stage::Sent(_) | Stage::Gone => Ok(()),
        }
    }

    pub(super) fn tell_the_end(&mut self, now: Time, flying: &Flying) {
        if flying.request.op.mutates() && self.announces(&touches_of(&flying.request)) {
            for to in (0..self.config.proxies).filter(|to| *to != flying.proxy) {
                let at = now + self.way();
                self.queue.push(at, Event::Ended { to, number: flying.number });
            }
        }
    }

    pub(super) fn ended_at_peer(&mut self, now: Time, to: u32, number: u64) {
        let peer = &mut self.proxies[to as usize];
        for mark in peer.marks.remove(&number).unwrap_or_default() {
            peer.shard.cache().end(now, mark, Ended::Done);
        }
    }

    /// Something changed at a proxy: it tells its peers now, or as soon as it may.
    pub(super) fn changed(&mut self, now: Time, index: u32, change: Change) {
        let proxy = &mut self.proxies[index as usize];
        if proxy.shares.is_some() {
            proxy.teller.note(now, change);
            if self.config.shares == ShareInterval::Auto {
                self.tell_if_due(now, index);
            }
        }
    }

    fn tell_if_due(&mut self, now: Time, index: u32) {
        let proxy = &mut self.proxies[index as usize];
        match proxy.teller.due(now) {
            Due::Now => self.tell(now, index),
            Due::At(at) if at < proxy.tell_at.unwrap_or(Time::FAR) => {
                proxy.tell_at = Some(at);
                self.queue.push(at, Event::ShareSend(index));
            }
            Due::At(_) | Due::Never => {}
        }
    }

    fn tell(&mut self, now: Time, index: u32) {
        let proxy = &mut self.proxies[index as usize];
        let share = Box::new(proxy.teller.tell(now, &proxy.servers));
        self.queue.push(now + self.half(), Event::ShareArrive(index, share));
    }

    pub(super) fn share_send(&mut self, now: Time, index: u32) {
        match self.config.shares {
            ShareInterval::Every(every) => {
                self.tell(now, index);
                if !self.idle(now) {
                    let jitter = every.scale(0.9 + 0.2 * self.rng.unit());
                    self.queue.push(now + jitter, Event::ShareSend(index));
                }
            }
            ShareInterval::Auto | ShareInterval::Off => {
                self.proxies[index as usize].tell_at = None;
                self.tell_if_due(now, index);
            }
        }
    }

    pub(super) fn share_arrive(&mut self, now: Time, from: u32, share: &Share) {
        // What a proxy knows of the way: half of the round trip that it measured.
        let half = self.half();
        for to in (0..self.config.proxies).filter(|to| *to != from) {
            if self.config.faults.share_loss > 0.0 && self.rng.chance(self.config.faults.share_loss) {
                continue;
            }
            self.metrics.shares_received += u64::from(now >= self.start && now < self.end);
            let proxy = &mut self.proxies[to as usize];
            if let Some(shares) = &mut proxy.shares {
                let peer = if from < to { from } else { from - 1 };
                shares.receive(now, peer as usize, share, half, &proxy.servers);
                shares.publish(&proxy.servers);
            }
        }
    }
}
