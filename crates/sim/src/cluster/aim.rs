//! What each family makes likely: the faults, the times and the calls under which its rule is all that stands between a client and a wrong
//! answer. Chance alone hardly gets to some of them, so those have a script.

use super::event::Fault;
use super::family::{Family, Faults, Mix, Plan};
use midas_core::cache;
use midas_core::peer::lease::Rule;
use midas_core::rng::Rng;
use midas_core::time::{Span, Time};

impl Plan {
    /// Half of a family's worlds have every other fault too.
    pub(super) fn aim(&mut self, family: Family, rng: &mut Rng) {
        if family == Family::Mixed {
            return;
        }
        if rng.chance(0.7) {
            self.faults = Faults::default();
            self.set_stale(Span::ZERO);
        }
        match family {
            Family::Mixed => {}
            Family::Lease(rule) => self.aim_at(rule, rng),
            Family::Cache(rule) => self.aim_at_cache(rule),
            Family::Target => self.aim_at_targets(rng),
        }
    }

    /// A name that is known here moves while nobody hears of the mutation that relies on it; that one takes its time.
    fn aim_at_targets(&mut self, rng: &mut Rng) {
        let lease = self.terms.lease;
        self.mix = Mix { read_name: 12, read_object: 12, make: 1, remove: 1, rename: 1, ..READS };
        (self.names, self.objects, self.clients) = (4, 6, 12);
        self.suspicion = lease.scale(0.1);
        self.set_hold(lease * 2);
        (self.heavy, self.patience) = (20.0, lease * 4);
        for lease in [2, 5] {
            let (at, node) = (self.at(lease, 10 * rng.below(50) as u64), rng.below(self.terms.size));
            self.script.push((at, Fault::Cut { node, thousandths: 2000 }));
        }
    }

    fn aim_at(&mut self, rule: Rule, rng: &mut Rng) {
        match rule {
            Rule::Epoch | Rule::ViewWait | Rule::RestartWait | Rule::Installed => self.aim_at_views(rule, rng),
            Rule::Carry | Rule::Drift | Rule::Flush | Rule::Lease => self.aim_at_grants(rule),
            Rule::Set | Rule::Wait | Rule::Majority | Rule::Recent => self.aim_at_rounds(rule, rng),
            Rule::Linger | Rule::Doubt | Rule::Clean | Rule::Lost | Rule::Taint | Rule::Recall => {
                self.aim_at_lost_calls(rule, rng);
            }
            Rule::Once | Rule::Identity => {
                self.mix = Mix { set: 4, bump: 4, ..ONCE };
                (self.holds, self.elsewhere) = (true, true);
                self.patience = self.terms.lease.scale(0.2);
                self.service = self.terms.lease.scale(0.15);
            }
            Rule::Quiet => {
                self.mix = OBJECTS;
                (self.holds, self.heavy) = (true, 30.0);
            }
            Rule::Name => {
                self.mix = NAMES;
                self.names = 2;
                self.service = self.terms.lease.scale(0.03);
            }
            Rule::Fence => self.set_stale(self.terms.lease.scale(0.6)),
        }
    }

    fn aim_at_views(&mut self, rule: Rule, rng: &mut Rng) {
        self.suspicion = self.terms.lease.scale(0.05);
        self.mix = OBJECTS;
        self.think = self.terms.lease.scale(0.01);
        let last = self.terms.size - 1;
        match rule {
            Rule::RestartWait => {
                // All but one forget their grants, and that one hears nothing of it.
                for lease in [3, 6] {
                    let at = self.at(lease, 10 * rng.below(100) as u64);
                    self.script.extend((0..last).map(|node| (at, Fault::Crash { node, back: 5 })));
                    self.script.push((at, Fault::Cut { node: last, thousandths: 2500 }));
                }
            }
            Rule::ViewWait => self.faults.cut = 0.2,
            Rule::Installed => self.amnesia(),
            _ => self.three_views(),
        }
    }

    /// The first proxy joins and the last one leaves, and those between know only of the first change, the last one of neither.
    fn three_views(&mut self) {
        let (size, last) = (self.terms.size, self.terms.size - 1);
        self.script.push((self.at(2, 50), Fault::Cut { node: 0, thousandths: 1200 }));
        self.script.push((self.at(3, 150), Fault::Deaf { node: last, thousandths: 4500 }));
        for node in 1..last {
            self.script.push((self.at(3, 650), Fault::Deaf { node, thousandths: 4000 }));
        }
        self.script.push((self.at(3, 720), Fault::Whim { node: last }));
        self.script.push((self.at(3, 840), Fault::Deaf { node: 0, thousandths: 4000 }));
        assert!(size > 2, "a majority without the last one");
    }

    /// The only one that knows of a call besides who made it forgets it, and who made it is the last to learn that both others are there.
    fn amnesia(&mut self) {
        let (last, half) = (self.terms.size - 1, self.terms.size / 2);
        (self.faults, self.disks) = (Faults::default(), false);
        self.set_stale(Span::ZERO);
        self.set_hold(self.terms.lease * 2);
        (self.mix, self.elsewhere, self.heavy) = (ONCE, true, 10.0);
        self.patience = self.terms.lease.scale(0.6);
        self.suspicion = self.terms.lease.scale(0.3);
        // The lower half is away while the others act; of those, all but the last forget.
        for node in 0..half {
            self.script.push((self.at(1, 200), Fault::Cut { node, thousandths: 3300 }));
        }
        for node in half..last {
            self.script.push((self.at(3, 200), Fault::Crash { node, back: 50 }));
        }
        self.script.push((self.at(3, 195), Fault::Break { node: last }));
        self.script.push((self.at(3, 200), Fault::Cut { node: last, thousandths: 1300 }));
        self.script.push((self.at(4, 400), Fault::Deaf { node: last, thousandths: 2500 }));
    }

    fn aim_at_grants(&mut self, rule: Rule) {
        self.few_views();
        self.mix = OBJECTS;
        self.faults.cut = 0.2;
        match rule {
            Rule::Carry => {
                self.set_hold(self.terms.lease * 2);
                (self.heavy, self.faults.cut, self.objects) = (40.0, 0.15, 4);
                self.mix = Mix { set: 1, ..OBJECTS };
            }
            Rule::Drift => {
                self.extreme = true;
                self.think = self.terms.lease.scale(0.01);
            }
            _ => {}
        }
    }

    fn aim_at_rounds(&mut self, rule: Rule, rng: &mut Rng) {
        self.mix = OBJECTS;
        match rule {
            Rule::Set => self.service = self.terms.lease.scale(0.05),
            Rule::Wait => {
                self.few_views();
                self.faults.cut = 0.3;
            }
            Rule::Recent => {
                // Long enough that nobody waits for the sleeper any more, who finds all acknowledgements when it wakes.
                self.suspicion = self.terms.lease.scale(0.05);
                self.set_hold(self.terms.lease.scale(0.3));
                (self.delay, self.think) = (self.terms.lease.scale(0.02), self.terms.lease.scale(0.01));
                self.clients = 9;
                self.mix = Mix { set: 5, ..OBJECTS };
                let node = rng.below(self.terms.size);
                for node in [node, (node + 1) % self.terms.size].into_iter().enumerate() {
                    let (lease, node) = (2 + 4 * node.0 as u64, node.1);
                    let at = self.at(lease, 10 * rng.below(20) as u64);
                    self.script.push((at, Fault::Pause { node, thousandths: 3300 }));
                }
            }
            _ => {
                self.suspicion = self.terms.lease.scale(0.1);
                (self.faults.cut, self.faults.split) = (0.2, 0.2);
            }
        }
    }

    fn aim_at_lost_calls(&mut self, rule: Rule, rng: &mut Rng) {
        let lease = self.terms.lease;
        self.suspicion = lease.scale(0.1);
        self.elsewhere = true;
        self.heavy = 10.0;
        match rule {
            Rule::Linger => {
                self.mix = OBJECTS;
                self.faults.broken = 0.5;
            }
            Rule::Doubt => {
                self.set_hold(lease.scale(0.3));
                self.mix = ONCE;
                self.faults.broken = 0.5;
            }
            Rule::Clean => {
                self.set_hold(lease * 4);
                (self.mix, self.heavy) = (OBJECTS, 20.0);
                let at = self.at(2, 10 * rng.below(50) as u64);
                self.script.push((at, Fault::CrashAll { back: 10 }));
            }
            Rule::Lost | Rule::Taint => {
                self.set_hold(lease * 4);
                (self.mix, self.objects, self.heavy) = (OBJECTS, 4, 30.0);
                if rule == Rule::Taint {
                    (self.mix, self.names, self.objects, self.clients) = (REMOVALS, 4, 6, 10);
                    self.think = lease.scale(0.015);
                    self.heavy = 15.0;
                }
                let (at, node) = (self.at(2, 10 * rng.below(50) as u64), rng.below(self.terms.size));
                self.script.push((at, Fault::Crash { node, back: 5000 }));
            }
            _ => {
                self.mix = ONCE;
                self.patience = lease;
                for lease in [2, 6] {
                    let at = self.at(lease, 10 * rng.below(50) as u64);
                    self.script.push((at, Fault::CrashAll { back: 10 }));
                }
            }
        }
    }

    /// The cluster's rules keep marks in place; what a slow read brings is the cache's concern.
    fn aim_at_cache(&mut self, _rule: cache::Rule) {
        self.mix = OBJECTS;
        self.service = self.terms.lease.scale(0.05);
    }

    fn set_hold(&mut self, hold: Span) {
        self.terms.hold = hold;
    }

    fn set_stale(&mut self, stale: Span) {
        (self.stale, self.terms.stale) = (stale, stale);
    }

    /// Whoever is cut off stays in the view.
    fn few_views(&mut self) {
        self.suspicion = self.terms.lease * 4;
    }

    fn at(&self, leases: u64, thousandths: u64) -> Time {
        Time::ZERO + self.terms.lease * leases + Span::from_nanos(self.terms.lease.as_nanos() / 1000 * thousandths)
    }
}

const READS: Mix = Mix { read_name: 0, read_object: 10, set: 0, bump: 0, make: 0, remove: 0, rename: 0 };
const OBJECTS: Mix = Mix { set: 2, ..READS };
const ONCE: Mix = Mix { bump: 4, make: 2, ..READS };
const REMOVALS: Mix = Mix { read_name: 2, read_object: 20, make: 2, remove: 2, rename: 2, ..READS };
const NAMES: Mix = Mix { read_name: 6, read_object: 10, make: 2, remove: 2, rename: 3, ..READS };
