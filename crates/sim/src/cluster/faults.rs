//! Faults: thrown by dice, or as a script says.

use super::World;
use super::event::{Event, Fault};
use midas_core::peer::lease::Rule;
use midas_core::time::{Span, Time};

impl World {
    /// One throw for every fault.
    pub(super) fn dice(&mut self) {
        if self.now >= self.plan.calm {
            return;
        }
        self.queue.push(self.now + self.plan.terms.lease.scale(THROW), Event::Dice);
        let faults = self.plan.faults;
        let nodes = self.nodes.len();
        let node = self.rng.below(nodes);
        let (to, back) = (self.rng.below(nodes), 10 + self.rng.below(1500) as u64);
        let thousandths = 50 + self.rng.below(2500) as u64;
        let group = self.rng.below(1 << nodes) as u32;
        let throws = [
            (faults.crash, Fault::Crash { node, back }),
            (faults.crash_all, Fault::CrashAll { back }),
            (faults.leave, Fault::Leave { node, back }),
            (faults.pause, Fault::Pause { node, thousandths }),
            (faults.one_way, Fault::OneWay { from: node, to, thousandths }),
            (faults.cut, Fault::Cut { node, thousandths }),
            (faults.split, Fault::Split { group, thousandths }),
            (faults.broken, Fault::Break { node }),
            (faults.whim, Fault::Whim { node }),
        ];
        for (chance, fault) in throws {
            if self.rng.chance(chance) {
                self.fault(fault);
            }
        }
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        self.note(|| format!("{fault:?}"));
        let nodes = self.nodes.len();
        match fault {
            Fault::Crash { node, back } => self.crash(node, back, false),
            Fault::CrashAll { back } => (0..nodes).for_each(|node| self.crash(node, back, false)),
            Fault::Leave { node, back } => {
                if self.nodes[node].idle() {
                    self.crash(node, back, true);
                }
            }
            Fault::Pause { node, thousandths } => {
                let until = self.now + self.leases(thousandths);
                let paused = &mut self.nodes[node].paused_until;
                *paused = (*paused).max(until);
            }
            Fault::OneWay { from, to, thousandths } => self.cut(vec![(from, to)], thousandths),
            Fault::Cut { node, thousandths } => {
                let ways = (0..nodes).flat_map(|other| [(node, other), (other, node)]).collect();
                self.cut(ways, thousandths);
            }
            Fault::Split { group, thousandths } => {
                let side = |node: usize| group >> node & 1;
                let all = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
                self.cut(all.filter(|(from, to)| side(*from) != side(*to)).collect(), thousandths);
            }
            Fault::Break { node } => self.break_calls(self.nodes[node].life),
            Fault::Deaf { node, thousandths } => {
                let until = self.now + self.leases(thousandths);
                self.council.deafen(node, until);
            }
            Fault::Whim { node } => self.council.dislike(node),
        }
    }

    fn crash(&mut self, node: usize, back: u64, tidy: bool) {
        if !self.nodes[node].up {
            return;
        }
        let life = self.nodes[node].life;
        self.break_calls(life);
        let disk = self.plan.disks && self.laws.lease.has(Rule::Recall);
        self.nodes[node].die(tidy, disk);
        self.queue.push(self.now + self.leases(back), Event::Restart { node });
    }

    pub(super) fn restart(&mut self, node: usize) {
        if self.nodes[node].up {
            return;
        }
        self.note(|| format!("{node} comes back"));
        self.nodes[node].rise(self.now, &self.plan, self.laws);
        self.pump(node);
    }

    /// From now on nothing goes wrong.
    pub(super) fn calm(&mut self) {
        self.net.heal_all();
        for node in 0..self.nodes.len() {
            self.nodes[node].paused_until = Time::ZERO;
            self.restart(node);
        }
    }

    fn cut(&mut self, ways: Vec<(usize, usize)>, thousandths: u64) {
        let cut = self.net.cut(ways);
        self.queue.push(self.now + self.leases(thousandths), Event::Heal { cut });
    }

    fn leases(&self, thousandths: u64) -> Span {
        Span::from_nanos(self.plan.terms.lease.as_nanos() / 1000 * thousandths)
    }
}

/// How often dice are thrown, in leases.
const THROW: f64 = 0.25;
