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
            Family::Target => {
                self.mix = NAMES;
                self.names = 2;
                self.few_views();
                self.faults.cut = 0.5;
                self.patience = self.terms.lease;
            }
        }
    }

    fn aim_at(&mut self, rule: Rule, rng: &mut Rng) {
        match rule {
            Rule::Epoch | Rule::Incarnation | Rule::ViewWait | Rule::RestartWait => self.aim_at_views(rule, rng),
            Rule::Carry | Rule::Drift | Rule::Flush | Rule::Lease => self.aim_at_grants(rule),
            Rule::Set | Rule::Wait | Rule::Majority | Rule::Recent | Rule::Installed => self.aim_at_rounds(rule, rng),
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
                self.holds = true;
                self.service = self.terms.lease.scale(0.15);
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
        match rule {
            Rule::Incarnation => {
                (self.faults.crash, self.faults.slow) = (0.3, 0.2);
            }
            Rule::RestartWait => {
                // All but one forget their grants, and that one hears nothing of it.
                let last = self.terms.size - 1;
                for lease in [3, 6] {
                    let at = self.at(lease, 10 * rng.below(100) as u64);
                    let crashes = (0..last).map(|node| (at, Fault::Crash { node, back: 5 }));
                    self.script.extend(crashes);
                    self.script.push((at, Fault::Cut { node: last, thousandths: 2500 }));
                }
                self.mix = OBJECTS;
                self.think = self.terms.lease.scale(0.01);
            }
            _ => {
                (self.faults.whim, self.faults.late_view, self.faults.slow) = (0.4, 0.7, 0.2);
                self.mix = OBJECTS;
            }
        }
    }

    fn aim_at_grants(&mut self, rule: Rule) {
        self.few_views();
        self.mix = OBJECTS;
        self.faults.cut = 0.3;
        match rule {
            Rule::Carry => self.service = self.terms.lease.scale(0.2),
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
            Rule::Majority => {
                self.suspicion = self.terms.lease.scale(0.1);
                (self.faults.cut, self.faults.split) = (0.2, 0.2);
            }
            Rule::Recent => {
                self.suspicion = self.terms.lease.scale(0.1);
                self.set_hold(self.terms.lease.scale(0.3));
                self.faults.pause = 0.3;
                self.patience = self.terms.lease * 4;
                self.mix = Mix { bump: 3, ..OBJECTS };
            }
            _ => self.strangers(rng),
        }
    }

    /// A majority of those who know nothing of what the majority before them did.
    fn strangers(&mut self, rng: &mut Rng) {
        let size = self.terms.size;
        let half = size / 2;
        self.suspicion = self.terms.lease.scale(0.05);
        self.patience = self.terms.lease.scale(0.4);
        self.mix = ONCE;
        self.elsewhere = true;
        (self.think, self.faults.broken) = (self.terms.lease.scale(0.01), 0.2);
        let start = 100 * rng.below(10) as u64;
        // First the lower half and the one in the middle; then that one, who is too slow to tell, and the upper half.
        let (first, then) = ((1 << (half + 1)) - 1, (1 << half) - 1);
        self.script.push((self.at(3, start), Fault::Split { group: first, thousandths: 3000 }));
        self.script.push((self.at(6, start), Fault::Split { group: then, thousandths: 2500 }));
        self.script.push((self.at(6, start + 120), Fault::Pause { node: half, thousandths: 2000 }));
    }

    fn aim_at_lost_calls(&mut self, rule: Rule, rng: &mut Rng) {
        let lease = self.terms.lease;
        self.suspicion = lease.scale(0.1);
        self.elsewhere = true;
        match rule {
            Rule::Linger => {
                self.mix = OBJECTS;
                (self.faults.broken, self.service) = (0.5, lease.scale(0.1));
            }
            Rule::Doubt => {
                self.set_hold(lease.scale(0.3));
                self.mix = ONCE;
                (self.faults.broken, self.service) = (0.5, lease.scale(0.1));
            }
            Rule::Clean => {
                self.set_hold(lease * 4);
                self.mix = OBJECTS;
                self.service = lease.scale(0.2);
                let at = self.at(2, 10 * rng.below(50) as u64);
                self.script.push((at, Fault::CrashAll { back: 10 }));
            }
            Rule::Lost | Rule::Taint => {
                self.set_hold(lease * 4);
                self.mix = if rule == Rule::Lost { OBJECTS } else { NAMES };
                self.names = 2;
                (self.faults.crash, self.service) = (0.2, lease.scale(0.1));
            }
            _ => {
                self.mix = ONCE;
                self.patience = lease;
                self.service = lease.scale(0.1);
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
const NAMES: Mix = Mix { read_name: 6, read_object: 10, make: 2, remove: 2, rename: 3, ..READS };
