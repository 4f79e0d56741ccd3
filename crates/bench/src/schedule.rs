//! When calls should start in an open loop. Times come from the seed alone: nothing that a server does moves them.

use crate::clock::Nanos;
use crate::config::Arrivals;
use midas_core::rng::Rng;
use midas_core::time::Span;
use midas_workload::{Request, Setting, Spec, Stream, stream};
use std::time::Duration;

/// A call that is due, or will be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Due {
    /// Since the slice began.
    pub(crate) at: Nanos,
    /// What a workload asks for; nothing where one procedure is called over and over.
    pub(crate) request: Option<Request>,
}

/// The times of one event loop's calls, in order.
#[derive(Debug)]
pub(crate) struct Schedule {
    kind: Kind,
    next: Option<Due>,
}

#[derive(Debug)]
enum Kind {
    /// Nothing is scheduled: a closed loop.
    Empty,
    Steady {
        rng: Rng,
        arrivals: Arrivals,
        /// Seconds between calls, on average.
        gap: f64,
        now: f64,
        end: f64,
    },
    Stream(Box<Share>),
}

/// One event loop's part of all the run's event loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) worker: u32,
    pub(crate) workers: u32,
    pub(crate) connections: u32,
}

impl Part {
    /// Whether a client's calls belong to this loop.
    pub(crate) fn has(self, client: u32) -> bool {
        client % self.connections % self.workers == self.worker
    }

    /// The connection of a client, among those of its loop.
    pub(crate) fn lane(self, client: u32) -> usize {
        (client % self.connections / self.workers) as usize
    }
}

impl Schedule {
    pub(crate) fn closed() -> Self {
        Self { kind: Kind::Empty, next: None }
    }

    /// One procedure: each loop makes its part of the rate.
    pub(crate) fn steady(arrivals: Arrivals, rate: f64, length: Duration, seed: u64, part: Part) -> Self {
        let gap = f64::from(part.workers) / rate;
        let now = match arrivals {
            Arrivals::Poisson => 0.0,
            // The first call of every loop falls between those of the others.
            Arrivals::Constant => f64::from(part.worker) / rate - gap,
        };
        let rng = Rng::for_purpose(seed, u64::from_be_bytes(*b"arrivals").wrapping_add(u64::from(part.worker)));
        Self::started(Kind::Steady { rng, arrivals, gap, now, end: length.as_secs_f64() })
    }

    /// A workload at its own times.
    pub(crate) fn workload(share: Share) -> Self {
        Self::started(Kind::Stream(Box::new(share)))
    }

    fn started(kind: Kind) -> Self {
        let mut schedule = Self { kind, next: None };
        schedule.next = schedule.kind.next();
        schedule
    }

    /// When the next call is due.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.next.map(|due| due.at)
    }

    /// The next call, if it is due.
    pub(crate) fn take(&mut self, now: Nanos) -> Option<Due> {
        let due = self.next.filter(|due| due.at <= now)?;
        self.next = self.kind.next();
        Some(due)
    }
}

impl Kind {
    fn next(&mut self) -> Option<Due> {
        match self {
            Self::Empty => None,
            Self::Steady { rng, arrivals, gap, now, end } => {
                *now += match arrivals {
                    Arrivals::Poisson => *gap * rng.exponential(),
                    Arrivals::Constant => *gap,
                };
                (*now < *end).then_some(Due { at: (*now * 1e9) as Nanos, request: None })
            }
            Self::Stream(share) => {
                share.next().map(|request| Due { at: request.at.as_nanos(), request: Some(request) })
            }
        }
    }
}

/// The calls of a workload that belong to one event loop. Every loop draws the whole stream and leaves what is not its own:
/// the stream stays one world, however many loops there are.
#[derive(Debug)]
pub(crate) struct Share {
    stream: Stream,
    part: Part,
    /// Whose turn it is, where clients take turns: those of a recording may be fewer than loops.
    turn: Option<u32>,
}

impl Share {
    pub(crate) fn new(spec: &Spec, setting: &Setting, part: Part) -> Self {
        Self { stream: stream(spec, setting), part, turn: None }
    }

    /// The same for a closed loop, which must always have a next call.
    pub(crate) fn in_turn(spec: &Spec, setting: &Setting, part: Part) -> Self {
        Self { turn: spec.replayed().map(|_| 0), ..Self::new(spec, setting, part) }
    }

    /// From the beginning once more; turns go on.
    pub(crate) fn again(&mut self, spec: &Spec, setting: &Setting) {
        self.stream = stream(spec, setting);
    }
}

impl Iterator for Share {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        loop {
            let mut request = self.stream.next()?;
            if let Some(turn) = &mut self.turn {
                request.client = *turn;
                *turn = turn.wrapping_add(1);
            }
            if self.part.has(request.client) {
                return Some(request);
            }
        }
    }
}

/// A cluster whose usual load is `rate`: the workloads' own rates are stated relative to it.
pub(crate) fn setting(rate: f64, length: Duration) -> Setting {
    let load = 0.7;
    // Many slow workers rather than a fast one: a service time of whole nanoseconds would round the rate.
    let workers = 1000;
    let service_mean = Span::from_secs_f64(load * f64::from(workers) / rate);
    let duration = Span::from_nanos(crate::clock::span(length));
    Setting { servers: 1, workers, service_mean, load, duration, ..Setting::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn times(mut schedule: Schedule) -> Vec<Nanos> {
        std::iter::from_fn(|| schedule.take(Nanos::MAX)).map(|due| due.at).collect()
    }

    fn part(worker: u32, workers: u32) -> Part {
        Part { worker, workers, connections: 6 }
    }

    #[test]
    fn loops_share_the_rate_and_their_times_do_not_repeat() {
        for arrivals in [Arrivals::Poisson, Arrivals::Constant] {
            let mut all: Vec<Nanos> =
                (0..3).flat_map(|w| times(Schedule::steady(arrivals, 30_000.0, SECOND, 1, part(w, 3)))).collect();
            all.sort_unstable();
            let before = all.len();
            all.dedup();
            assert_eq!(all.len(), before, "{arrivals:?}");
            assert!((29_000..=31_000).contains(&before), "{arrivals:?}: {before}");
            assert!(all.last().is_some_and(|last| *last < 1_000_000_000));
        }
    }

    #[test]
    fn constant_times_have_equal_distances() {
        let times = times(Schedule::steady(Arrivals::Constant, 1000.0, SECOND, 1, part(0, 1)));
        assert_eq!(times.len(), 1000);
        assert!(times.windows(2).all(|pair| (999_990..=1_000_010).contains(&(pair[1] - pair[0]))));
    }

    #[test]
    fn a_workload_is_one_stream_over_all_loops_at_the_rate_that_was_asked_for() {
        let spec = Spec::parse("zipf:1.1").unwrap();
        let setting = Setting { clients: 12, ..setting(50_000.0, SECOND) };
        let whole: Vec<Request> = stream(&spec, &setting).collect();
        assert!((49_000..=51_000).contains(&whole.len()), "{}", whole.len());
        let mut shared: Vec<Request> = (0..2).flat_map(|w| Share::new(&spec, &setting, part(w, 2))).collect();
        shared.sort_by_key(|request| request.at);
        assert_eq!(shared.len(), whole.len());
        assert!(shared.iter().all(|request| part(0, 2).lane(request.client) < 3));
    }

    #[test]
    fn nothing_is_taken_before_it_is_due() {
        let mut schedule = Schedule::steady(Arrivals::Constant, 1000.0, SECOND, 1, part(0, 1));
        let first = schedule.next_at().unwrap();
        assert!(first.checked_sub(1).is_none_or(|before| schedule.take(before).is_none()));
        assert_eq!(schedule.take(first).map(|due| due.at), Some(first));
    }
}
