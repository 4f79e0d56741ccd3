//! What the cluster's thread calls: frames and views go to the lease protocol, datagrams are load shares. Until the daemon is complete the last view is
//! kept for it and the rest is lost, which the protocol is made for.

use super::Accord;
use super::loads::Loads;
use crate::clock::{Clock, duration};
use midas_cluster::{Above, Link, Sender, View as Agreed};
use midas_core::peer::lease::{Life, MemberId, View};
use midas_core::time::Span;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// The daemon, once it is complete.
pub(crate) type Slot = Arc<OnceLock<Running>>;

/// What the cluster's thread needs of the daemon.
pub(crate) struct Running {
    pub(crate) accord: Arc<Accord>,
    pub(crate) shared: Option<Arc<crate::event::Shared>>,
    pub(crate) clock: Clock,
    /// Configured members, and which of them this is.
    pub(crate) members: usize,
    pub(crate) me: u8,
    /// Whether loads are shared.
    pub(crate) shares: bool,
}

/// The half of the cluster that knows what it is for.
pub(crate) struct Upper {
    slot: Slot,
    sender: Sender,
    early: Option<Agreed>,
    /// Members that frames pass to, a bit each.
    reached: u64,
    loads: Option<Loads>,
}

impl Upper {
    pub(crate) fn new(slot: Slot, sender: Sender) -> Self {
        Self { slot, sender, early: None, reached: 0, loads: None }
    }

    fn loads(&mut self) -> Option<&mut Loads> {
        let running = self.slot.get().filter(|running| running.shares)?;
        if self.loads.is_none() {
            let shared = Arc::clone(running.shared.as_ref()?);
            let sharing = Arc::clone(&running.accord.sharing);
            self.loads = Some(Loads::new(running.clock.now(), shared, sharing, running.me, running.members));
        }
        self.loads.as_mut()
    }

    /// Tells the loads, if something changed; when to look again.
    fn tell_loads(&mut self) -> Option<Span> {
        let running = self.slot.get()?;
        let (now, me, members) = (running.clock.now(), running.me, running.members as u8);
        let (tell, next) = self.loads()?.due(now);
        for share in tell {
            (0..members).filter(|peer| *peer != me).for_each(|peer| self.sender.datagram(peer, &share));
        }
        Some(next.since(now))
    }
}

impl Above for Upper {
    fn view(&mut self, view: &Agreed) {
        match self.slot.get() {
            Some(running) => running.accord.view(meaning(view)),
            None => self.early = Some(view.clone()),
        }
    }

    fn frame(&mut self, from: u8, incarnation: u64, _version: u16, bytes: &[u8]) {
        if let Some(running) = self.slot.get() {
            running.accord.hear(Life { member: MemberId(from), incarnation }, bytes);
        }
    }

    fn datagram(&mut self, from: u8, _incarnation: u64, bytes: &[u8]) {
        let Some(now) = self.slot.get().map(|running| running.clock.now()) else { return };
        if let Some(loads) = self.loads() {
            loads.hear(now, from, bytes, Span::ZERO);
        }
    }

    fn link(&mut self, peer: u8, link: Link) {
        match link {
            Link::Up { .. } => self.reached |= 1 << peer,
            Link::Down => self.reached &= !(1 << peer),
        }
        self.slot.get().into_iter().for_each(|running| running.accord.fetches.links(self.reached));
        if link == Link::Down {
            self.slot.get().into_iter().for_each(|running| running.accord.unheard(peer));
            self.loads().into_iter().for_each(|loads| loads.forget(peer));
        }
    }

    fn tick(&mut self) -> Option<Instant> {
        let running = self.slot.get()?;
        if let Some(view) = self.early.take() {
            running.accord.view(meaning(&view));
        }
        running.accord.fetches.links(self.reached);
        let next = running.accord.tick();
        for (to, frames) in running.accord.outgoing(midas_cluster::FRAME_MAX) {
            for frame in frames {
                self.sender.send(to.0, frame);
            }
        }
        let next = self.tell_loads().map_or(next, |loads| next.min(loads));
        Some(Instant::now() + duration(next).min(LOOK))
    }
}

/// A view as the protocol names it.
fn meaning(view: &Agreed) -> View {
    let life = |(member, incarnation): &(u8, u64)| Life { member: MemberId(*member), incarnation: *incarnation };
    View { epoch: view.epoch, lives: view.members.iter().map(life).collect() }
}

/// Nothing is waited for longer.
const LOOK: std::time::Duration = std::time::Duration::from_secs(1);
