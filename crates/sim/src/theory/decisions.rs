//! The fall of V on the core's own decisions. Paper: P20.
//!
//! A proxy's parts, wired as in the simulator, decide calls that come and go at random. Each time a call leaves its home, V with the call where
//! it went is compared with V had it stayed, by the proxy's exact counts. At home the call would itself have counted, so a gap of one before
//! it is counted is a gap of two in the paper's terms.

use super::interval::Estimate;
use super::potential::scaled;
use super::row::{Subject, Table, TheoryRow, Tolerance};
use crate::config::Config;
use crate::model::truth::Entry;
use crate::policy::Contender;
use crate::proxy::{Proxy, directory_key};
use midas_core::id::ServerId;
use midas_core::op::Op;
use midas_core::rng::Rng;
use midas_core::route::feasible::Target;
use midas_core::route::policy::{Gap, Policy};
use midas_core::shard::{Asked, Call, Outcome, Ticket};
use midas_core::time::{Span, Time};
use midas_workload::{Spec, Zipf};

/// One row for each gap.
pub(super) fn table(seed: u64) -> Table {
    let row = |gap: u8| {
        let count = Play::new(Policy::FirstFit(Gap::Fixed(gap)), seed).count();
        let subject = Subject {
            table: TITLE,
            name: format!("first-fit:gap={gap}"),
            parameter: format!("{} steers", count.steers),
        };
        TheoryRow::judge(subject, 0.0, count.kept(), Tolerance::Exact)
    };
    Table { title: TITLE, note: NOTE, rows: (1..=8).map(row).collect() }
}

/// Steers, and those that did not lower V.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    steers: u64,
    kept: u64,
}

impl Count {
    /// Without a steer nothing was shown.
    fn kept(self) -> Estimate {
        Estimate::exact(if self.steers == 0 { f64::NAN } else { self.kept as f64 })
    }

    fn steer(&mut self, loads: &mut [i64], home: ServerId, to: ServerId) {
        let went = scaled(loads);
        loads[to.index()] -= 1;
        loads[home.index()] += 1;
        self.steers += 1;
        self.kept += u64::from(went >= scaled(loads));
    }
}

/// A proxy at which calls come and go.
struct Play {
    proxy: Proxy,
    rng: Rng,
    zipf: Zipf,
    flying: Vec<Ticket<Entry>>,
}

impl Play {
    fn new(policy: Policy, seed: u64) -> Self {
        let workload = Spec::parse("uniform").expect("a workload of that name exists");
        let config = Config { seed, ..Config::new(Contender::Core(policy), workload) };
        Self {
            proxy: Proxy::new(&config, 0),
            rng: Rng::for_purpose(seed, 0x0064_6563_6973_696f),
            zipf: Zipf::new(DIRECTORIES, 1.1),
            flying: Vec::new(),
        }
    }

    fn count(mut self) -> Count {
        let mut count = Count::default();
        for step in 0..STEPS {
            let now = Time::ZERO + Span::from_millis(1) * step;
            match self.rng.chance(COMES) && self.flying.len() < FLYING {
                true => self.come(now, &mut count),
                false => self.go(now),
            }
        }
        count
    }

    fn come(&mut self, now: Time, count: &mut Count) {
        let place = directory_key(None, self.zipf.sample(&mut self.rng));
        let op = if self.rng.chance(0.2) { Op::Create } else { Op::Lookup };
        let target = Target::new(op, place, place.child(self.rng.below(64) as u64));
        let Proxy { shard, servers, controller, .. } = &mut self.proxy;
        let knobs = controller.knobs();
        let Asked::Through(pass) = shard.ask(now, &knobs, &Call { target, entry: None, touches: &[] }) else { return };
        let Ok(ticket) = shard.send(now, servers, &knobs, &target, pass) else { return };
        if ticket.route.steered() {
            let mut loads: Vec<i64> = servers.ids().map(|server| i64::from(servers.in_flight(server))).collect();
            count.steer(&mut loads, ticket.route.home, ticket.route.to);
        }
        self.flying.push(ticket);
    }

    fn go(&mut self, now: Time) {
        if !self.flying.is_empty() {
            let mut ticket = self.flying.swap_remove(self.rng.below(self.flying.len()));
            let Proxy { shard, servers, recorder, .. } = &mut self.proxy;
            shard.settle(now, servers, recorder, &mut ticket, Outcome::Answered(None));
        }
    }
}

const TITLE: &str = "The fall of V with the core's own moves";
const NOTE: &str = "\
Moves of the core's first-fit (steered, pinned or split) after which V was not lower than if the call had stayed, by
the proxy's own counts. A row holds if there were moves and each lowered V.";
const STEPS: u64 = 200_000;
const DIRECTORIES: u32 = 256;
/// Slightly more come than go, so the number in flight wanders up to its bound.
const COMES: f64 = 0.52;
/// Eight servers with 12 calls each.
const FLYING: usize = 96;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_lower_v_and_a_move_that_does_not_is_counted() {
        let table = table(9);
        assert!(table.rows.iter().all(|row| row.holds), "{table}");
        let mut count = Count::default();
        count.steer(&mut [2, 3], ServerId(0), ServerId(1));
        assert_eq!(count, Count { steers: 1, kept: 1 }, "from an equal server: nothing was gained");
        assert!(Count::default().kept().mean.is_nan());
    }
}
