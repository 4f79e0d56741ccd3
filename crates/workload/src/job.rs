//! A parallel job starts: every rank looks for every library along the search path, and about nine in ten names are not there.
//!
//! Each rank's calls follow each other at exponential gaps, so the ranks together are a Poisson process whose next call belongs
//! to any active rank: no queue of ranks is kept in order of time. What it must never do is wait for answers: it is an open loop
//! like every other source, and a job that the servers could not finish in [`PATIENCE`] is given up, or jobs would pile up.

use alloc::vec::Vec;
use midas_core::op::Op;
use midas_core::rng::Rng;

use crate::arrival::{Beat, sane};
use crate::pattern::{instant, purpose, shuffled};
use crate::request::{Request, Setting};

/// How large a job is. None is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub ranks: u32,
    pub libraries: u32,
    pub entries: u32,
}

/// One look of a rank for a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Which library, from 0.
    pub library: u32,
    /// Where along the search path, from 0.
    pub entry: u32,
    /// Whether it is not there.
    pub missing: bool,
}

/// The looks of one rank, one after the other: every library along a search path of so many entries, until it is found.
pub fn walk(libraries: u32, entries: u32) -> impl Iterator<Item = Look> + Clone {
    (0..libraries).flat_map(move |library| {
        let found = found_at(library, entries);
        (0..found).map(move |entry| Look { library, entry, missing: entry + 1 < found })
    })
}

/// The calls of all jobs, in order of time.
#[derive(Clone, Debug)]
pub(crate) struct Jobs {
    shape: Shape,
    /// The search path: directories in the order in which they are tried.
    path: Vec<u32>,
    /// Calls per second of one active rank.
    pace: f64,
    files: u32,
    clients: u32,
    end: f64,
    rng: Rng,
    /// The job that runs or comes next, from 0.
    job: u64,
    now: f64,
    /// Ranks that have not started, the next one last.
    waiting: Vec<(f64, u32)>,
    active: Vec<Rank>,
}

/// A rank in the middle of its search.
#[derive(Clone, Copy, Debug)]
struct Rank {
    number: u32,
    library: u32,
    entry: u32,
}

impl Jobs {
    /// Jobs of `shape`, aimed at the setting's cluster.
    pub(crate) fn new(shape: Shape, setting: &Setting, path_order: &mut Rng) -> Self {
        let directories = shuffled(setting.directories, path_order);
        let mut jobs = Self {
            shape,
            path: directories.into_iter().cycle().take(shape.entries as usize).collect(),
            pace: sane(setting.scaled(STORM)) / f64::from(shape.ranks),
            files: setting.files.max(1),
            clients: setting.clients.max(1),
            end: setting.seconds(),
            rng: purpose(setting.seed, *b"ranks...", 0),
            job: 0,
            now: 0.0,
            waiting: Vec::new(),
            active: Vec::new(),
        };
        jobs.assemble();
        jobs
    }

    /// Intended calls per second at `t` seconds: every rank's first call within [`SPREAD`], then the storm's rate for as long as
    /// a rank needs on average.
    pub(crate) fn rate(&self, t: f64) -> f64 {
        let Some(since) = JOBS.inside(t).filter(|_| t < self.end && self.pace > 0.0) else { return 0.0 };
        let ranks = f64::from(self.shape.ranks);
        let first = if since < SPREAD { ranks / SPREAD } else { 0.0 };
        let follow = if since < (self.calls_per_rank() - 1.0) / self.pace { ranks * self.pace } else { 0.0 };
        first + follow
    }

    fn calls_per_rank(&self) -> f64 {
        (0..self.shape.libraries).map(|library| f64::from(found_at(library, self.shape.entries))).sum()
    }

    /// Draws when each rank of the present job starts.
    fn assemble(&mut self) {
        let opens = JOBS.opens(self.job);
        self.now = opens;
        self.active.clear();
        self.waiting = (0..self.shape.ranks).map(|rank| (opens + SPREAD * self.rng.unit(), rank)).collect();
        self.waiting.sort_by(|a, b| b.0.total_cmp(&a.0));
    }

    /// The time of the next call and who makes it, as a position among the active ranks; none when the job is over.
    fn turn(&mut self) -> Option<(f64, usize)> {
        let follows = self.now + self.rng.exponential() / (self.pace * self.active.len() as f64);
        let starts = self.waiting.last().map_or(f64::INFINITY, |&(start, _)| start);
        let at = if follows < starts { follows } else { starts };
        if at >= JOBS.opens(self.job) + PATIENCE || !at.is_finite() {
            return None;
        }
        if at < starts {
            return Some((at, self.rng.below(self.active.len())));
        }
        let (_, number) = self.waiting.pop()?;
        self.active.push(Rank { number, library: 0, entry: 0 });
        Some((at, self.active.len() - 1))
    }

    /// The call that the rank in `place` makes, which moves it on.
    fn call(&mut self, at: f64, place: usize) -> Request {
        let Rank { number, library, entry } = self.active[place];
        let missing = entry + 1 < found_at(library, self.shape.entries);
        self.advance(place, missing);
        Request {
            at: instant(at),
            op: Op::Lookup,
            client: number % self.clients,
            directory: self.path[entry as usize],
            file: if missing { self.files.saturating_add(library) } else { library % self.files },
            missing,
            target: None,
        }
    }

    fn advance(&mut self, place: usize, missing: bool) {
        let rank = &mut self.active[place];
        if missing {
            rank.entry += 1;
        } else if rank.library + 1 < self.shape.libraries {
            (rank.library, rank.entry) = (rank.library + 1, 0);
        } else {
            self.active.swap_remove(place);
        }
    }
}

impl Iterator for Jobs {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        // A load of nothing starts no jobs either.
        if self.pace == 0.0 {
            return None;
        }
        while self.now < self.end {
            if let Some((at, place)) = self.turn() {
                self.now = at;
                return (at < self.end).then(|| self.call(at, place));
            }
            self.job += 1;
            self.assemble();
        }
        None
    }
}

/// The place along the path, from 1, where a library lies: 10 on average, so that nine names in ten are missing. Libraries take
/// the places around it in turns, as far as the path reaches; on a path of less than 10 they all lie in its last directory.
const fn found_at(library: u32, entries: u32) -> u32 {
    if entries < USUAL {
        return entries;
    }
    let reach = if entries - USUAL < USUAL - 1 { entries - USUAL } else { USUAL - 1 };
    USUAL - reach + (library + reach) % (2 * reach + 1)
}

/// The mean place at which a library is found.
const USUAL: u32 = 10;
/// What the ranks of a job offer together, in units of the capacity at load 0.7.
const STORM: f64 = 3.0;
/// Seconds within which the ranks of a job start.
const SPREAD: f64 = 0.05;
/// Seconds after which what is left of a job is given up: at 3 times the capacity, 30 seconds' worth of work in every 60.
const PATIENCE: f64 = 10.0;
/// A job a minute.
const JOBS: Beat = Beat { first: 5.0, lasts: PATIENCE, every: 60.0 };

#[cfg(test)]
mod tests {
    use super::*;
    use midas_core::time::Span;
    use std::collections::BTreeMap;

    const SHAPE: Shape = Shape { ranks: 16, libraries: 20, entries: 12 };

    fn jobs(shape: Shape, service: Span) -> Vec<Request> {
        let setting = Setting { service_mean: service, duration: Span::from_secs(60), ..Setting::default() };
        Jobs::new(shape, &setting, &mut Rng::new(1)).collect()
    }

    #[test]
    fn nine_names_in_ten_are_missing_where_the_path_allows_it() {
        for (entries, want) in [(1, 0.0), (2, 0.5), (10, 0.9), (12, 0.9), (19, 0.9), (100, 0.9)] {
            let calls = jobs(Shape { ranks: 16, libraries: 19 * 5, entries }, Span::from_micros(10));
            let share = calls.iter().filter(|call| call.missing).count() as f64 / calls.len() as f64;
            assert!((share - want).abs() < 0.001, "{entries} entries: {share} is not {want}");
        }
    }

    #[test]
    fn every_rank_walks_the_path_until_it_finds_each_library() {
        let calls = jobs(SHAPE, Span::from_micros(10));
        let mut ranks: BTreeMap<u32, Vec<(u32, bool)>> = BTreeMap::new();
        for call in &calls {
            ranks.entry(call.client).or_default().push((call.directory, call.missing));
        }
        assert_eq!(ranks.len(), 16);
        let walk = &ranks[&0];
        assert!(ranks.values().all(|other| other == walk), "all ranks search the same path for the same libraries");
        assert_eq!(walk.iter().filter(|(_, missing)| !missing).count(), 20);
        assert_eq!(walk.len(), 200);
        let looks: Vec<bool> = super::walk(20, 12).map(|look| look.missing).collect();
        assert_eq!(looks, walk.iter().map(|(_, missing)| *missing).collect::<Vec<_>>());
    }

    #[test]
    fn ranks_start_within_fifty_milliseconds_and_the_rest_is_given_up_after_ten_seconds() {
        let calls = jobs(SHAPE, Span::from_millis(100));
        let seconds: Vec<f64> = calls.iter().map(|call| call.at.as_secs_f64()).collect();
        assert!(seconds.is_sorted());
        assert!(seconds[0] >= 5.0 && seconds[15] < 5.06 && *seconds.last().unwrap() < 15.0);
    }

    #[test]
    fn names_that_are_missing_lie_beyond_the_names_that_exist() {
        for call in jobs(Shape { libraries: 100, ..SHAPE }, Span::from_micros(10)) {
            assert_eq!(call.missing, call.file >= 63);
        }
    }
}
