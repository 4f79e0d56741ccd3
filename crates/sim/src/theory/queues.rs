//! The simulator's queue against queueing theory: M/M/1, M/D/1 and M/M/c. Paper: P20.
//!
//! Every point is [`crate::run`] itself with one server and no network, so this checks the world that all other figures come from. It must
//! never use a queue of its own. Near saturation the mean converges slowly; the work that really came, whose expectation is
//! the load, serves as a control variate, which about halves the calls that are needed.

use super::interval::Estimate;
use super::row::{Subject, Table, TheoryRow, Tolerance};
use crate::config::Config;
use crate::policy::Contender;
use midas_core::op::Op;
use midas_core::rng::mix;
use midas_core::route::policy::Policy;
use midas_core::time::Span;
use midas_workload::Service;
use midas_workload::Spec;

/// A queue with a closed form: Poisson arrivals, one FIFO queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    /// Exponential service, that many workers.
    Exponential(u32),
    /// Constant service, one worker.
    Constant,
}

impl System {
    const ALL: [Self; 4] = [Self::Exponential(1), Self::Constant, Self::Exponential(2), Self::Exponential(8)];

    fn name(self) -> String {
        match self {
            Self::Exponential(workers) => format!("M/M/{workers}"),
            Self::Constant => "M/D/1".to_owned(),
        }
    }

    fn workers(self) -> u32 {
        match self {
            Self::Exponential(workers) => workers,
            Self::Constant => 1,
        }
    }

    fn service(self) -> Service {
        let text = match self {
            Self::Exponential(_) => "exp:1ms",
            Self::Constant => "const:1ms",
        };
        Service::parse(text).expect("a service time of that form exists")
    }

    /// The mean time from arrival to answer, in service times. One worker: 1/(mu - lambda). Paper: P20.
    pub(super) fn response(self, load: f64) -> f64 {
        match self {
            Self::Exponential(workers) => 1.0 + erlang_c(workers, load) / (f64::from(workers) * (1.0 - load)),
            // Pollaczek and Khinchine, without variance in the service time.
            Self::Constant => 1.0 + load / (2.0 * (1.0 - load)),
        }
    }

    /// Calls at load 0.9 for a half width of about 1 %. What a queue remembers makes the mean vary: most with one worker, less
    /// with constant service, and least where most of a response is service.
    fn calls(self) -> u64 {
        match self {
            Self::Exponential(1..=2) => 6_400_000,
            Self::Exponential(_) => 2_400_000,
            Self::Constant => 3_200_000,
        }
    }
}

/// All points.
pub(super) fn table(seed: u64, progress: &mut dyn FnMut(&str)) -> Table {
    let mut rows = Vec::new();
    for system in System::ALL {
        for (load, fewer) in LOADS {
            progress(&format!("{} at load {load}", system.name()));
            let seed = mix(seed ^ mix(rows.len() as u64 + 1));
            rows.push(compare(system, load, measure(system, load, system.calls() / fewer, seed)));
        }
    }
    Table { title: TITLE, note: NOTE, rows }
}

fn compare(system: System, load: f64, measured: Estimate) -> TheoryRow {
    let subject = Subject { table: TITLE, name: system.name(), parameter: format!("load {load}") };
    TheoryRow::judge(subject, system.response(load), measured, Tolerance::Share(WITHIN))
}

/// The mean response in service times over about that many calls.
fn measure(system: System, load: f64, calls: u64, seed: u64) -> Estimate {
    let calls = calls / REPLICATIONS;
    let samples: Vec<(f64, f64)> =
        (1..=REPLICATIONS).map(|index| replicate(&world(system, load, calls, mix(seed ^ mix(index))))).collect();
    Estimate::controlled(&samples, load)
}

fn world(system: System, load: f64, calls: u64, seed: u64) -> Config {
    let workload = Spec::parse("uniform").expect("a workload of that name exists");
    let service = system.service();
    let seconds = calls as f64 * service.mean().as_secs_f64() / (load * f64::from(system.workers()));
    Config {
        servers: 1,
        workers: system.workers(),
        load,
        service,
        rtt: Span::ZERO,
        duration: Span::from_secs_f64(seconds),
        seed,
        ..Config::new(Contender::Core(Policy::HashDirectory), workload)
    }
}

/// One world's mean response in service times, and the work that came relative to what the workers could do.
fn replicate(config: &Config) -> (f64, f64) {
    let row = crate::run(config).expect("calls that always stay at home break no invariant").row;
    let demand = |number| config.service.demand(config.seed, number, Op::Lookup).as_secs_f64();
    let work: f64 = (1..=row.calls).map(demand).sum();
    let response = row.latency.mean.as_secs_f64() / config.service.mean().as_secs_f64();
    (response, work / (f64::from(config.workers) * config.duration.as_secs_f64()))
}

/// The probability that a call must wait, by Erlang's B for one worker more at a time.
pub(super) fn erlang_c(workers: u32, load: f64) -> f64 {
    let offered = f64::from(workers) * load;
    let blocked = (1..=workers).fold(1.0, |b, k| offered * b / (f64::from(k) + offered * b));
    blocked / (1.0 - load * (1.0 - blocked))
}

const TITLE: &str = "Queues";
const NOTE: &str = "\
Mean response in service times, simulated with one server. Closed forms: Erlang C (one worker: 1/(mu - lambda)) and
Pollaczek-Khinchine. A row holds if the error and the half width of the 95 % interval are each at most 2 %.";
/// Loads, and how many times fewer calls than at 0.9 do.
const LOADS: [(f64, u64); 3] = [(0.5, 20), (0.7, 5), (0.9, 1)];
const WITHIN: f64 = 0.02;
/// Enough for a variance; few enough that each is long beside the empty start, which costs about 100 calls at load 0.9.
const REPLICATIONS: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms_have_their_known_values() {
        let cases = [
            (erlang_c(1, 0.5), 0.5),
            (erlang_c(2, 0.5), 1.0 / 3.0),
            (erlang_c(8, 0.9), 0.701_6),
            (System::Exponential(1).response(0.5), 2.0),
            (System::Exponential(1).response(0.9), 10.0),
            (System::Exponential(2).response(0.5), 4.0 / 3.0),
            (System::Constant.response(0.5), 1.5),
            (System::Constant.response(0.9), 5.5),
        ];
        for (i, (got, want)) in cases.into_iter().enumerate() {
            assert!((got - want).abs() < 1e-3, "case {i}: {got} is not {want}");
        }
    }

    #[test]
    fn a_short_run_agrees_and_a_wrong_closed_form_is_flagged() {
        for system in [System::Exponential(1), System::Constant, System::Exponential(2)] {
            let measured = measure(system, 0.5, 240_000, 11);
            let right = compare(system, 0.5, measured);
            assert!(right.holds, "{right:?}");
        }
        let measured = measure(System::Constant, 0.5, 240_000, 11);
        let wrong = compare(System::Exponential(1), 0.5, measured);
        assert!(!wrong.holds, "constant service taken for exponential: {wrong:?}");
        let shifted = compare(System::Constant, 0.55, measured);
        assert!(!shifted.holds, "another load's closed form: {shifted:?}");
    }

    #[test]
    fn same_seed_same_measurement() {
        let measure = |seed| measure(System::Exponential(2), 0.7, 6_400, seed);
        assert_eq!(measure(5), measure(5));
        assert_ne!(measure(5), measure(6));
    }
}
