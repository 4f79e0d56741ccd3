//! Views as a consensus may give them: one after another, always a majority, learned late and out of step, never by who hears no majority.

use super::World;
use super::event::Event;
use midas_core::peer::lease::{Life, View};
use midas_core::time::Time;

/// What is agreed on.
#[derive(Debug)]
pub(super) struct Council {
    view: View,
    /// The newest view sent to each node's life.
    told: Vec<(u64, u64)>,
    /// Until when a node learns of no view.
    deaf: Vec<Time>,
    /// Since when it looks as if another view were needed.
    suspects: Option<Time>,
    /// Who is left out for no reason, until the next view.
    whim: Option<usize>,
}

impl Council {
    pub(super) fn new(lives: Vec<Life>) -> Self {
        let (told, deaf) = (vec![(0, 0); lives.len()], vec![Time::ZERO; lives.len()]);
        Self { view: View { epoch: 1, lives }, told, deaf, suspects: None, whim: None }
    }

    pub(super) fn deafen(&mut self, node: usize, until: Time) {
        self.deaf[node] = until;
    }

    pub(super) fn dislike(&mut self, node: usize) {
        self.whim = Some(node);
    }
}

impl World {
    /// Looks who can be reached, agrees on a view, tells it.
    pub(super) fn council(&mut self) {
        let group = self.group();
        if let Some(group) = &group {
            self.agree(group);
            self.tell_views(group);
        }
        self.queue.push(self.now + self.plan.terms.lease.scale(COUNCIL), Event::Council);
    }

    /// The largest set of running nodes that hear each other, if it is a majority; found greedily, which is as good as any.
    fn group(&self) -> Option<Vec<usize>> {
        let running = |node: usize| self.nodes[node].up && self.nodes[node].paused_until <= self.now;
        let from = |first: usize| {
            let mut group = vec![first];
            for node in (0..self.nodes.len()).filter(|node| *node != first && running(*node)) {
                if group.iter().all(|member| self.net.both(*member, node)) {
                    group.push(node);
                }
            }
            group.sort_unstable();
            group
        };
        let groups = (0..self.nodes.len()).filter(|node| running(*node)).map(from);
        groups.max_by_key(Vec::len).filter(|group| group.len() > self.nodes.len() / 2)
    }

    fn agree(&mut self, group: &[usize]) {
        let mut lives: Vec<Life> = group.iter().map(|node| self.nodes[*node].life).collect();
        if let Some(node) = self.council.whim
            && lives.len() > self.nodes.len() / 2 + 1
        {
            lives.retain(|life| usize::from(life.member.0) != node);
        }
        let whim = self.council.whim.is_some();
        if lives == self.council.view.lives {
            (self.council.suspects, self.council.whim) = (None, None);
            return;
        }
        let since = *self.council.suspects.get_or_insert(self.now);
        if !whim && self.now.since(since) < self.plan.suspicion {
            return;
        }
        let epoch = self.council.view.epoch + 1;
        self.note(|| {
            format!("view {epoch}: {:?}", lives.iter().map(|l| (l.member.0, l.incarnation)).collect::<Vec<_>>())
        });
        self.council.view = View { epoch, lives };
        (self.council.suspects, self.council.whim) = (None, None);
    }

    fn tell_views(&mut self, group: &[usize]) {
        let epoch = self.council.view.epoch;
        for node in 0..self.nodes.len() {
            let life = self.nodes[node].life;
            let hears = group.iter().filter(|member| self.net.passes(**member, node)).count() > self.nodes.len() / 2;
            let deaf = self.now < self.council.deaf[node].min(self.plan.calm);
            if deaf || !self.nodes[node].up || !hears || self.council.told[node] == (life.incarnation, epoch) {
                continue;
            }
            self.council.told[node] = (life.incarnation, epoch);
            let late =
                if self.rng.chance(self.plan.faults.late_view) { self.plan.terms.lease } else { self.plan.delay };
            let view = self.council.view.clone();
            self.queue.push(self.now + late.scale(2.0 * self.rng.unit()), Event::View { to: life, view });
        }
    }
}

/// How often the consensus looks, in leases.
const COUNCIL: f64 = 0.1;
