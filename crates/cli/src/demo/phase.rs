//! The load, phase by phase: the same seed is the same calls at the same times, whoever is to serve them.

use super::town::{
    CHECKPOINTS, HOMES, HOMES_FIRST, JOB_FIRST, LIBRARIES, LIBRARIES_FILES, PACKAGES_FIRST, PROJECT, RANKS,
    STORM_FIRST, USERS, files,
};
use midas_core::op::Op;
use midas_core::rng::Rng;
use midas_core::time::{Span, Time};
use midas_workload::Request;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Users at their desks.
    Calm,
    /// They, and one machine that asks for the names of one directory all the time.
    Storm,
    /// All ranks of a job look for the same libraries along the same search path; most are not where they look.
    JobStart,
    /// All ranks write their files into one directory.
    Checkpoint,
}

impl Phase {
    pub(super) const ALL: [Self; 4] = [Self::Calm, Self::Storm, Self::JobStart, Self::Checkpoint];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Storm => "storm",
            Self::JobStart => "job start",
            Self::Checkpoint => "checkpoint",
        }
    }

    /// How long calls come.
    pub(super) fn lasts(self, unit: Span) -> Span {
        unit * match self {
            Self::Calm | Self::Checkpoint => 1,
            Self::Storm => 3,
            Self::JobStart => 2,
        }
    }

    /// Calls offered, of what the servers can do.
    pub(super) const fn load(self) -> f64 {
        match self {
            Self::Calm => 0.3,
            Self::Storm => 0.7,
            Self::JobStart => 0.75,
            Self::Checkpoint => 0.5,
        }
    }

    /// Its calls in order of time; `capacity` is what the servers can do, in calls a second.
    pub(super) fn calls(self, seed: u64, unit: Span, capacity: f64) -> Vec<Request> {
        let mut rng = Rng::for_purpose(seed, self as u64);
        let (lasts, rate) = (self.lasts(unit), self.load() * capacity);
        let mut fresh = Fresh::default();
        match self {
            Self::Calm => arrivals(&mut rng, rate, lasts, |rng, at| at_desks(rng, at, &mut fresh)),
            Self::Storm => arrivals(&mut rng, rate, lasts, |rng, at| match rng.chance(HOT) {
                true => in_project(rng, at, &mut fresh),
                false => at_desks(rng, at, &mut fresh),
            }),
            Self::JobStart => job_start(&mut rng, rate, lasts),
            Self::Checkpoint => arrivals(&mut rng, rate, lasts, |_, at| {
                let file = fresh.next();
                request(at, Op::Create, JOB_FIRST + file % RANKS, (CHECKPOINTS, file), true)
            }),
        }
    }
}

/// Numbers of files that are not there yet, in any directory.
#[derive(Default)]
struct Fresh(u32);

impl Fresh {
    fn next(&mut self) -> u32 {
        self.0 += 1;
        FRESH_FIRST + self.0
    }
}

/// The same calls for another arm: what is created is new there too.
pub(super) fn anew(calls: &[Request], arm: u32) -> Vec<Request> {
    let renamed = |call: &Request| match call.op {
        Op::Create => Request { file: call.file + arm * ARM_STRIDE, ..*call },
        _ => *call,
    };
    calls.iter().map(renamed).collect()
}

/// Calls of a Poisson process.
fn arrivals(rng: &mut Rng, rate: f64, lasts: Span, mut call: impl FnMut(&mut Rng, Time) -> Request) -> Vec<Request> {
    let (mut at, end, mut calls) = (0.0, lasts.as_secs_f64(), Vec::new());
    loop {
        at += rng.exponential() / rate;
        if at >= end {
            return calls;
        }
        calls.push(call(rng, Time::ZERO + Span::from_secs_f64(at)));
    }
}

fn at_desks(rng: &mut Rng, at: Time, fresh: &mut Fresh) -> Request {
    let directory = HOMES_FIRST + rng.below(HOMES as usize) as u32;
    let client = directory % USERS;
    look_or_create(rng, at, client, directory, fresh)
}

fn in_project(rng: &mut Rng, at: Time, fresh: &mut Fresh) -> Request {
    let client = STORM_FIRST + rng.below(2) as u32;
    look_or_create(rng, at, client, PROJECT, fresh)
}

fn look_or_create(rng: &mut Rng, at: Time, client: u32, directory: u32, fresh: &mut Fresh) -> Request {
    match rng.chance(CREATES) {
        true => request(at, Op::Create, client, (directory, fresh.next()), true),
        false => request(at, Op::Lookup, client, (directory, rng.below(files(directory) as usize) as u32), false),
    }
}

/// Every rank walks the same path for the same libraries, a step at about the same time as the others.
fn job_start(rng: &mut Rng, rate: f64, lasts: Span) -> Vec<Request> {
    let path = LIBRARIES - PACKAGES_FIRST + 1;
    let step = f64::from(RANKS) / rate;
    let steps = (lasts.as_secs_f64() / step) as u32;
    let mut calls = Vec::new();
    for (number, rank) in (0..steps).flat_map(|number| (0..RANKS).map(move |rank| (number, rank))) {
        let (library, directory) = (number / path % LIBRARIES_FILES, PACKAGES_FIRST + number % path);
        let at = Time::ZERO + Span::from_secs_f64((f64::from(number) + rng.unit()) * step);
        calls.push(request(at, Op::Lookup, JOB_FIRST + rank, (directory, library), directory != LIBRARIES));
    }
    calls.sort_by_key(|call| call.at);
    calls
}

const fn request(at: Time, op: Op, client: u32, (directory, file): (u32, u32), missing: bool) -> Request {
    Request { at, op, client, directory, file, missing, target: None }
}

/// Of the storm's calls, those in the one directory.
const HOT: f64 = 0.5;
/// The share of calls that make a file.
const CREATES: f64 = 0.05;
/// Beyond every file that is there from the start.
const FRESH_FIRST: u32 = 1000;
/// Beyond what any phase creates.
const ARM_STRIDE: u32 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: Span = Span::from_secs(2);
    const CAPACITY: f64 = 800.0;

    fn calls(phase: Phase) -> Vec<Request> {
        phase.calls(7, UNIT, CAPACITY)
    }

    #[test]
    fn one_seed_is_one_load_and_another_is_another() {
        for phase in Phase::ALL {
            assert_eq!(calls(phase), calls(phase));
            assert_ne!(calls(phase), phase.calls(8, UNIT, CAPACITY));
        }
    }

    #[test]
    fn as_many_calls_come_as_the_load_says_in_order_and_in_time() {
        for phase in Phase::ALL {
            let calls = calls(phase);
            let expected = phase.load() * CAPACITY * phase.lasts(UNIT).as_secs_f64();
            assert!((calls.len() as f64 / expected - 1.0).abs() < 0.15, "{}: {}", phase.name(), calls.len());
            assert!(calls.is_sorted_by_key(|call| call.at));
            assert!(calls.iter().all(|call| call.at < Time::ZERO + phase.lasts(UNIT)), "{}", phase.name());
        }
    }

    #[test]
    fn half_of_the_storm_is_one_directory_and_all_of_that_one_machine() {
        let calls = calls(Phase::Storm);
        let hot: Vec<_> = calls.iter().filter(|call| call.directory == PROJECT).collect();
        let share = hot.len() as f64 / calls.len() as f64;
        assert!((share - HOT).abs() < 0.05, "{share}");
        assert!(hot.iter().all(|call| (STORM_FIRST..JOB_FIRST).contains(&call.client)));
        assert!(calls.iter().all(|call| call.directory == PROJECT || call.client < USERS));
    }

    #[test]
    fn a_job_looks_for_the_same_names_and_most_are_not_there() {
        let calls = calls(Phase::JobStart);
        let missing = calls.iter().filter(|call| call.missing).count() as f64 / calls.len() as f64;
        assert!(missing > 0.85, "{missing}");
        let mut names: Vec<_> = calls.iter().map(|call| (call.directory, call.file)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len() * RANKS as usize, calls.len());
        assert!(calls.iter().all(|call| call.missing == (call.file >= files(call.directory))));
    }

    #[test]
    fn a_checkpoint_is_new_names_in_one_directory_in_every_arm() {
        let calls = calls(Phase::Checkpoint);
        assert!(calls.iter().all(|call| call.op == Op::Create && call.directory == CHECKPOINTS));
        let mut files: Vec<u32> = (0..3).flat_map(|arm| anew(&calls, arm)).map(|call| call.file).collect();
        files.sort_unstable();
        files.dedup();
        assert_eq!(files.len(), 3 * calls.len());
    }

    #[test]
    fn lookups_are_the_same_in_every_arm() {
        let calls = calls(Phase::JobStart);
        assert_eq!(anew(&calls, 5), calls);
    }
}
