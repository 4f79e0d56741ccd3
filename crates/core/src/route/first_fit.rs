//! The default policy: stay at home unless another server is better by a gap; then the first that fits, in the key's own ring order.
//!
//! Every server is looked at with its exact count of calls in flight, so each own dispatch moves the picture at once and a batch stops
//! by itself; that is why there is no steering cap. Going round in ring order, not to the least loaded, keeps a hot key on few servers.
//! Mutations of one directory are balanced over its first `width` servers.

use crate::control::knobs::Knobs;
use crate::decision::Why;
use crate::id::{ServerId, ServerSet};
use crate::load::Load;
use crate::rng::Rng;
use crate::route::feasible::{Feasible, Target};
use crate::route::pin::Pins;
use crate::route::width::Widths;
use crate::servers::Servers;
use crate::time::Time;

/// What belongs to keys.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) pins: Pins,
    widths: Widths,
}

/// One decision's view: the servers, the knobs, the feasible set.
pub(crate) struct Scene<'a> {
    pub(crate) now: Time,
    pub(crate) servers: &'a Servers,
    pub(crate) knobs: &'a Knobs,
    pub(crate) feasible: &'a Feasible,
    pub(crate) target: &'a Target,
}

impl State {
    pub(crate) fn new(keys: usize) -> Self {
        Self { pins: Pins::new(keys), widths: Widths::new(keys) }
    }

    #[inline]
    pub(crate) fn choose(&mut self, scene: &Scene<'_>, rng: &mut Rng) -> (ServerId, Why) {
        if scene.servers.shares_are_useless() {
            return scene.without_news(rng);
        }
        match scene.target.op.mutates() {
            true => self.mutation(scene),
            false => self.read(scene, rng),
        }
    }

    #[inline]
    fn read(&mut self, scene: &Scene<'_>, rng: &mut Rng) -> (ServerId, Why) {
        let (home, work) = scene.home();
        if work < scene.knobs.gap_min() {
            return (home, Why::Home);
        }
        let least = scene.least();
        if let Some(pinned) = self.pinned(scene, work, least) {
            return (pinned, Why::Pinned);
        }
        match scene.fit(work, least, rng) {
            None => (home, Why::Home),
            Some(server) => {
                self.pins.pin(scene.target.object, server, scene.now + scene.knobs.pin);
                (server, Why::Steered { from: home, gap: work - scene.servers.work(server) })
            }
        }
    }

    /// A pin is followed only while it still pays.
    fn pinned(&self, scene: &Scene<'_>, home: Load, least: Load) -> Option<ServerId> {
        let server = self.pins.find(scene.now, scene.target.object)?;
        if server == scene.feasible.primary || !scene.feasible.set.contains(server) {
            return None;
        }
        let work = scene.servers.work(server);
        (work < home && work < least + scene.knobs.gap + scene.knobs.gap).then_some(server)
    }

    fn mutation(&mut self, scene: &Scene<'_>) -> (ServerId, Why) {
        let (home, work) = scene.home();
        if !scene.knobs.split || work < scene.knobs.gap_min() {
            return (home, Why::Home);
        }
        let directory = scene.target.home;
        let width = self.widths.find(scene.now, directory).max(scene.knobs.width_min);
        let (best, best_work) = scene.best_of(width, work);
        let least = scene.least();
        let crowded = best_work - least >= scene.gap_now(best_work, least);
        if crowded || width > scene.knobs.width_min {
            let grown = if crowded { scene.grown(width) } else { width };
            self.widths.set(scene.now, directory, grown);
        }
        match best == home {
            true => (home, Why::Home),
            false => (best, Why::Split { width }),
        }
    }
}

impl Scene<'_> {
    fn home(&self) -> (ServerId, Load) {
        (self.feasible.primary, self.servers.work(self.feasible.primary))
    }

    /// The least work in the feasible set.
    fn least(&self) -> Load {
        self.least_of(&self.feasible.set)
    }

    #[inline]
    fn least_of(&self, set: &ServerSet) -> Load {
        set.iter().map(|server| self.servers.work(server)).min().unwrap_or(Load::ZERO)
    }

    /// Another server that is better by the gap, if there is one.
    fn fit(&self, home: Load, least: Load, rng: &mut Rng) -> Option<ServerId> {
        let gap = self.gap_now(home, least);
        if home - least < gap {
            return None;
        }
        let enough = home - gap.min(Load::calls(2));
        if self.servers.shares_are_old() {
            return self.better_of_two(enough, rng);
        }
        let bound = least + self.knobs.gap.max(gap);
        let fits = |server: &ServerId| {
            let work = self.servers.work(*server);
            work <= enough && work < bound
        };
        let fitting = self.feasible.set.iter().filter(fits);
        match self.knobs.patience.is_some() && least >= Load::ONE && least < Load::calls(2) {
            // One call ahead everywhere, and all take the same time: the oldest is done first.
            true => fitting.max_by_key(|server| self.servers.head_age(self.now, *server)),
            false => self.servers.ring.first_of(self.target.home, &fitting.collect()),
        }
    }

    /// The gap that holds for this call: at least a share of what everyone has, so that long queues are not shuffled for nothing. With a
    /// gap of one, a home whose only call ahead is nearly done is not left.
    #[inline]
    fn gap_now(&self, home: Load, least: Load) -> Load {
        let nearly_done =
            || self.knobs.patience.is_some_and(|age| self.servers.head_age(self.now, self.feasible.primary) >= age);
        match self.knobs.gap <= Load::ONE && home < Load::calls(2) && nearly_done() {
            true => Load::calls(2),
            false => self.knobs.gap.max(Load::from_raw(least.raw() / GAP_SHARE)),
        }
    }

    /// Shares too old to tell who is least loaded: two at random, so that proxies do not herd.
    fn better_of_two(&self, enough: Load, rng: &mut Rng) -> Option<ServerId> {
        let draw = |rng: &mut Rng| {
            let nth = rng.below(self.feasible.set.len());
            self.feasible.set.iter().nth(nth)
        };
        let (a, b) = (draw(rng)?, draw(rng)?);
        let better = if self.servers.work(b) < self.servers.work(a) { b } else { a };
        (self.servers.work(better) <= enough).then_some(better)
    }

    /// No news of the peers: nobody knows who is idle, but what homes are offered is known. A home keeps its fair share of its own calls; the
    /// rest goes where there is room, to the better of two drawn in proportion to it. So every server gets the same, as with a random choice,
    /// and most calls stay at home.
    fn without_news(&self, rng: &mut Rng) -> (ServerId, Why) {
        let home = self.feasible.primary;
        let stays = rng.unit() * self.servers.offer(home) < 1.0;
        if stays || (self.target.op.mutates() && !self.knobs.split) {
            return (home, Why::Home);
        }
        let (Some(a), Some(b)) = (self.roomy(rng), self.roomy(rng)) else { return (home, Why::Home) };
        let to = if self.servers.work(b) < self.servers.work(a) { b } else { a };
        match to == home {
            true => (home, Why::Home),
            false => (to, Why::Overflow),
        }
    }

    /// A server drawn in proportion to the room that its own home calls leave.
    fn roomy(&self, rng: &mut Rng) -> Option<ServerId> {
        let count = self.feasible.set.len();
        let draw = |rng: &mut Rng| self.feasible.set.iter().nth(rng.below(count));
        let room = |rng: &mut Rng, server: &ServerId| rng.unit() > self.servers.offer(*server);
        (0..DRAWS).find_map(|_| draw(rng).filter(|server| room(rng, server))).or_else(|| draw(rng))
    }

    /// The first of the directory's `width` servers that fits a mutation, and its work.
    fn best_of(&self, width: u16, home: Load) -> (ServerId, Load) {
        let stay = (self.feasible.primary, home);
        let narrowed = self.first_in_order(usize::from(width));
        let mine = narrowed.as_ref().unwrap_or(&self.feasible.set);
        let least = self.least_of(mine);
        if home - least < self.gap_now(home, least) {
            return stay;
        }
        let fits = |server: &ServerId| {
            let work = self.servers.work(*server);
            work < least + self.knobs.gap && work < home
        };
        let fitting = mine.iter().filter(fits).collect();
        let best = self.servers.ring.first_of(self.target.home, &fitting);
        best.map_or(stay, |server| (server, self.servers.work(server)))
    }

    /// The first `count` feasible servers of the directory's order; none if there are no more than that.
    fn first_in_order(&self, count: usize) -> Option<ServerSet> {
        if count >= self.feasible.set.len() {
            return None;
        }
        let order = self.servers.ring.order(self.target.home);
        Some(order.filter(|server| self.feasible.set.contains(*server)).take(count).collect())
    }

    fn grown(&self, width: u16) -> u16 {
        width.saturating_mul(2).min(self.feasible.set.len() as u16).max(width)
    }
}

/// A gap is at least this fraction of the least work: a quarter.
const GAP_SHARE: u32 = 4;
/// Draws before any server will do.
const DRAWS: usize = 32;
