//! What each family makes likely: the faults, the times and the calls under which its rule is all that stands between a client and a wrong
//! answer. Chance alone hardly gets to some of them, so those have a script.

use super::event::Fault;
use super::family::{Family, Faults, Mix, Plan};
use midas_core::peer::lease::Rule;
use midas_core::rng::Rng;
use midas_core::time::{Span, Time};

impl Plan {
    /// Some of a family's worlds have other faults too.
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
            Family::Cache(_) => self.slow_reads(),
            Family::Target => self.aim_at_targets(rng),
            Family::Lender => {
                (self.mix, self.think) = (OBJECTS, self.terms.lease.scale(0.01));
                self.cut_off(0.05, 0.2);
            }
        }
    }

    /// A name that is known here moves while nobody hears of the mutation that relies on it; that one takes its time.
    fn aim_at_targets(&mut self, rng: &mut Rng) {
        let lease = self.terms.lease;
        self.mix = Mix { read_name: 12, read_object: 12, make: 1, remove: 1, rename: 1, ..READS };
        (self.names, self.objects, self.clients) = (4, 6, 12);
        self.suspicion = lease.scale(0.1);
        self.set_hold(lease.scale(0.3));
        (self.heavy, self.patience) = (20.0, lease * 4);
        for lease in [2, 5] {
            let (at, node) = (self.at(lease, 10 * rng.below(50) as u64), rng.below(self.terms.size));
            self.script.push((at, Fault::Cut { node, thousandths: 2000 }));
        }
    }

    fn aim_at(&mut self, rule: Rule, rng: &mut Rng) {
        let lease = self.terms.lease;
        (self.mix, self.elsewhere) = (OBJECTS, true);
        match rule {
            Rule::Epoch => self.three_views(),
            Rule::ViewWait => self.cut_off(0.05, 0.2),
            Rule::RestartWait => self.all_but_one_forget(rng),
            Rule::Installed => self.amnesia(),
            Rule::Carry => {
                self.cut_off(4.0, 0.15);
                self.set_hold(lease * 2);
                (self.heavy, self.objects) = (40.0, 4);
                self.mix = Mix { set: 1, ..OBJECTS };
            }
            Rule::Drift => {
                self.cut_off(4.0, 0.2);
                (self.extreme, self.think) = (true, lease.scale(0.01));
            }
            Rule::Flush | Rule::Lease | Rule::Wait => self.cut_off(4.0, 0.2),
            Rule::Majority => {
                self.cut_off(0.1, 0.2);
                self.faults.split = 0.2;
            }
            Rule::Set => self.service = lease.scale(0.05),
            Rule::Recent => self.long_sleep(rng),
            Rule::Linger => {
                (self.heavy, self.faults.broken) = (10.0, 0.5);
                if rng.chance(0.5) {
                    self.come_and_go(rng);
                }
            }
            Rule::Doubt => {
                self.set_hold(lease.scale(0.3));
                (self.mix, self.heavy, self.faults.broken) = (ONCE, 10.0, 0.5);
            }
            Rule::Clean => {
                self.all_crash(rng, OBJECTS, 4);
                if rng.chance(0.5) {
                    self.one_by_one(rng);
                }
            }
            Rule::Recall => self.all_crash(rng, ONCE, 1),
            Rule::Lost => self.one_dies(rng),
            Rule::Taint => {
                self.set_hold(lease * 4);
                self.faults.broken = 0.2;
                (self.mix, self.names, self.objects, self.clients) = (REMOVALS, 4, 6, 10);
                (self.think, self.heavy) = (lease.scale(0.015), 15.0);
            }
            Rule::Trace => {
                self.one_dies(rng);
                self.set_hold(lease.scale(0.5));
                (self.mix, self.names, self.clients) = (CHANGES, 3, 10);
                self.patience = lease.scale(0.3);
            }
            Rule::Once | Rule::Identity => {
                (self.mix, self.holds) = (Mix { set: 4, bump: 4, ..ONCE }, true);
                (self.patience, self.service) = (lease.scale(0.2), lease.scale(0.15));
            }
            Rule::Quiet => (self.holds, self.heavy) = (true, 30.0),
            Rule::Name => {
                (self.mix, self.names) = (NAMES, 2);
                self.service = lease.scale(0.03);
            }
            Rule::Fence => self.set_stale(lease.scale(0.6)),
        }
    }

    /// Single proxies hear nothing for a while, and are suspected after so many leases.
    fn cut_off(&mut self, suspicion: f64, cut: f64) {
        self.suspicion = self.terms.lease.scale(suspicion);
        self.faults.cut = cut;
    }

    /// All but one forget their grants, and that one hears nothing of it.
    fn all_but_one_forget(&mut self, rng: &mut Rng) {
        let last = self.terms.size - 1;
        (self.suspicion, self.think) = (self.terms.lease.scale(0.05), self.terms.lease.scale(0.01));
        for lease in [3, 6] {
            let at = self.at(lease, 10 * rng.below(100) as u64);
            self.script.extend((0..last).map(|node| (at, Fault::Crash { node, back: 5 })));
            self.script.push((at, Fault::Cut { node: last, thousandths: 2500 }));
        }
    }

    /// Long enough that nobody waits for the sleeper any more, who finds all acknowledgements when it wakes.
    fn long_sleep(&mut self, rng: &mut Rng) {
        let lease = self.terms.lease;
        self.set_hold(lease.scale(0.3));
        (self.suspicion, self.delay, self.think) = (lease.scale(0.05), lease.scale(0.02), lease.scale(0.01));
        (self.clients, self.mix) = (9, Mix { set: 5, ..OBJECTS });
        let first = rng.below(self.terms.size);
        for (lease, node) in [(2, first), (6, (first + 1) % self.terms.size)] {
            let at = self.at(lease, 10 * rng.below(20) as u64);
            self.script.push((at, Fault::Pause { node, thousandths: 3300 }));
        }
    }

    /// All memory is lost while calls wait in servers.
    fn all_crash(&mut self, rng: &mut Rng, mix: Mix, hold: u64) {
        let lease = self.terms.lease;
        self.set_hold(lease * hold);
        (self.mix, self.heavy, self.suspicion, self.patience) = (mix, 20.0, lease.scale(0.1), lease);
        let at = self.at(2, 10 * rng.below(50) as u64);
        self.script.push((at, Fault::CrashAll { back: 10 }));
    }

    /// Those that died at once come back one after another: the last ones find a view that others have filled.
    fn one_by_one(&mut self, rng: &mut Rng) {
        let at = self.script.pop().map_or(Time::ZERO, |(at, _)| at);
        let (size, most) = (self.terms.size, self.terms.size / 2 + 1);
        self.script.extend((0..size).map(|node| {
            let back = if node < most { 10 } else { 300 + rng.below(3500) as u64 };
            (at, Fault::Crash { node, back })
        }));
    }

    /// Proxies start anew, one after another, while copies of calls that ended may still run.
    fn come_and_go(&mut self, rng: &mut Rng) {
        self.set_hold(self.terms.lease * 4);
        (self.suspicion, self.objects) = (self.terms.lease.scale(0.1), 4);
        for lease in 2..7 {
            let (at, node) = (self.at(lease, 10 * rng.below(80) as u64), rng.below(self.terms.size));
            self.script.push((at, Fault::Crash { node, back: 10 }));
        }
    }

    /// One proxy dies for long, and its calls live on.
    fn one_dies(&mut self, rng: &mut Rng) {
        self.set_hold(self.terms.lease * 4);
        self.suspicion = self.terms.lease.scale(0.1);
        (self.objects, self.heavy) = (4, 30.0);
        let (at, node) = (self.at(2, 10 * rng.below(50) as u64), rng.below(self.terms.size));
        self.script.push((at, Fault::Crash { node, back: 5000 }));
    }

    /// The first proxy joins and the last one leaves, and those between know only of the first change, the last one of neither.
    fn three_views(&mut self) {
        let last = self.terms.size - 1;
        (self.suspicion, self.think) = (self.terms.lease.scale(0.05), self.terms.lease.scale(0.01));
        self.script.push((self.at(2, 50), Fault::Cut { node: 0, thousandths: 1200 }));
        self.script.push((self.at(3, 150), Fault::Deaf { node: last, thousandths: 4500 }));
        for node in 1..last {
            self.script.push((self.at(3, 650), Fault::Deaf { node, thousandths: 4000 }));
        }
        self.script.push((self.at(3, 720), Fault::Whim { node: last }));
        self.script.push((self.at(3, 840), Fault::Deaf { node: 0, thousandths: 4000 }));
    }

    /// The only one that knows of a call besides who made it forgets it, and who made it is the last to learn that both others are there.
    fn amnesia(&mut self) {
        let (last, half) = (self.terms.size - 1, self.terms.size / 2);
        (self.faults, self.disks) = (Faults::default(), false);
        self.set_stale(Span::ZERO);
        self.set_hold(self.terms.lease * 2);
        (self.mix, self.heavy, self.think) = (ONCE, 10.0, self.terms.lease.scale(0.01));
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

    /// The cluster's rules keep marks in place; what a slow read brings is the cache's concern.
    fn slow_reads(&mut self) {
        self.mix = OBJECTS;
        self.service = self.terms.lease.scale(0.05);
    }

    fn set_hold(&mut self, hold: Span) {
        self.terms.hold = hold;
    }

    fn set_stale(&mut self, stale: Span) {
        (self.stale, self.terms.stale) = (stale, stale);
    }

    fn at(&self, leases: u64, thousandths: u64) -> Time {
        Time::ZERO + self.terms.lease * leases + Span::from_nanos(self.terms.lease.as_nanos() / 1000 * thousandths)
    }
}

const READS: Mix = Mix { read_name: 0, read_object: 10, set: 0, bump: 0, make: 0, remove: 0, rename: 0 };
const OBJECTS: Mix = Mix { set: 2, ..READS };
const ONCE: Mix = Mix { bump: 4, make: 2, ..READS };
const REMOVALS: Mix = Mix { read_name: 2, read_object: 20, make: 2, remove: 2, rename: 2, ..READS };
const CHANGES: Mix = Mix { read_object: 4, set: 4, bump: 6, make: 2, remove: 2, rename: 2, ..READS };
const NAMES: Mix = Mix { read_name: 6, read_object: 10, make: 2, remove: 2, rename: 3, ..READS };
