//! Where calls go and what they do: one source of calls whose directory, name, kind and client are drawn independently.
//!
//! Four streams of chance, one a question, so that changing the answer to one leaves the others as they were. A source never
//! looks at what it issued before, except to number new names.

use alloc::vec::Vec;
use midas_core::op::Op;
use midas_core::rng::Rng;
use midas_core::time::Time;

use crate::arrival::{Arrivals, Beat};
use crate::request::{Request, Setting};
use crate::zipf::Zipf;

/// Calls that arrive by one law and are drawn from one pattern.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub arrivals: Arrivals,
    pub places: Places,
    pub names: Names,
    pub mix: Mix,
    pub clients: u32,
    pub chance: Chance,
}

/// Which directory.
#[derive(Clone, Debug)]
pub(crate) enum Places {
    /// Any of so many.
    Uniform(u32),
    /// By popularity; the map gives a rank its directory.
    Zipf { ranks: Zipf, map: Vec<u32> },
    /// A `share` of the calls goes to `width` directories that change with every window of `beat`, the rest to any.
    Focus { share: f64, width: u32, beat: Beat, map: Vec<u32> },
}

/// Which name inside the directory.
#[derive(Clone, Debug)]
pub(crate) enum Names {
    /// By popularity: name 0 most often.
    Zipf(Zipf),
    /// Any of so many.
    Uniform(u32),
    /// A name that was never used before: the next number.
    Fresh(u32),
}

/// What calls do: kinds with the cumulative share up to and including each, never empty.
#[derive(Clone, Debug)]
pub(crate) struct Mix(Vec<(f64, Op)>);

/// The streams of chance of one source.
#[derive(Clone, Debug)]
pub(crate) struct Chance {
    places: Rng,
    names: Rng,
    kinds: Rng,
    clients: Rng,
}

impl Source {
    fn request(&mut self, seconds: f64) -> Request {
        let op = self.mix.draw(&mut self.chance.kinds);
        let (directory, file) = self.place(seconds);
        Request {
            at: instant(seconds),
            op,
            client: below(&mut self.chance.clients, self.clients),
            directory,
            file: if op == Op::List { 0 } else { file },
            missing: matches!(self.names, Names::Fresh(_)),
            target: (op == Op::Rename).then(|| self.place(seconds)),
        }
    }

    fn place(&mut self, seconds: f64) -> (u32, u32) {
        let directory = self.places.draw(seconds, &mut self.chance.places);
        (directory, self.names.draw(&mut self.chance.names))
    }
}

impl Iterator for Source {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let seconds = self.arrivals.next()?;
        Some(self.request(seconds))
    }
}

impl Places {
    fn draw(&self, seconds: f64, rng: &mut Rng) -> u32 {
        match self {
            Self::Uniform(n) => below(rng, *n),
            Self::Zipf { ranks, map } => map[ranks.sample(rng) as usize],
            Self::Focus { share, width, beat, map } => {
                let any = map.len();
                let rank = if rng.chance(*share) {
                    beat.index(seconds) as usize * *width as usize + rng.below(*width as usize)
                } else {
                    rng.below(any)
                };
                map[rank % any]
            }
        }
    }
}

impl Names {
    /// The setting's names by the setting's skew.
    pub(crate) fn of(setting: &Setting) -> Self {
        Self::Zipf(Zipf::new(setting.files, setting.file_skew))
    }

    fn draw(&mut self, rng: &mut Rng) -> u32 {
        match self {
            Self::Zipf(ranks) => ranks.sample(rng),
            Self::Uniform(n) => below(rng, *n),
            Self::Fresh(next) => {
                let fresh = *next;
                *next = next.wrapping_add(1);
                fresh
            }
        }
    }
}

impl Mix {
    /// Kinds by their weights, which need not sum to one.
    pub(crate) fn new(weights: &[(Op, f64)]) -> Self {
        let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
        let mut sum = 0.0;
        let cumulative = weights.iter().map(|&(op, weight)| {
            sum += weight / total;
            (sum, op)
        });
        Self(cumulative.collect())
    }

    /// Lookups, and a share of creates: opens of an existing name that may create it.
    pub(crate) fn writes(share: f64) -> Self {
        let share = share.clamp(0.0, 1.0);
        Self::new(&[(Op::Lookup, 1.0 - share), (Op::Create, share)])
    }

    fn draw(&self, rng: &mut Rng) -> Op {
        let point = rng.unit();
        // Rounding may leave the last sum a little below one: the last kind takes what is left.
        let (_, last) = self.0[self.0.len() - 1];
        self.0.iter().find(|(sum, _)| point < *sum).map_or(last, |&(_, op)| op)
    }
}

impl Chance {
    /// The streams of `seed` for the source that is called `source`.
    pub(crate) fn new(seed: u64, source: u64) -> Self {
        let stream = |question: [u8; 8]| purpose(seed, question, source);
        Self {
            places: stream(*b"places.."),
            names: stream(*b"names..."),
            kinds: stream(*b"kinds..."),
            clients: stream(*b"clients."),
        }
    }
}

/// The stream of chance that answers one question for one source.
pub(crate) fn purpose(seed: u64, question: [u8; 8], source: u64) -> Rng {
    Rng::for_purpose(seed, u64::from_be_bytes(question).wrapping_add(source))
}

/// A seeded order of `0..n`, at least one long (Fisher and Yates).
pub(crate) fn shuffled(n: u32, rng: &mut Rng) -> Vec<u32> {
    let mut order: Vec<u32> = (0..n.max(1)).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, rng.below(last + 1));
    }
    order
}

/// Seconds to a point in time, rounded down so that what is before the end stays before it.
pub(crate) fn instant(seconds: f64) -> Time {
    Time::from_nanos((seconds * 1e9) as u64)
}

fn below(rng: &mut Rng, bound: u32) -> u32 {
    rng.below(bound as usize) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_draws_its_shares() {
        const DRAWS: usize = 100_000;
        let (mix, mut rng) = (Mix::new(&[(Op::Lookup, 6.0), (Op::List, 3.0), (Op::Create, 1.0)]), Rng::new(4));
        let draws: Vec<Op> = (0..DRAWS).map(|_| mix.draw(&mut rng)).collect();
        for (op, want) in [(Op::Lookup, 0.6), (Op::List, 0.3), (Op::Create, 0.1)] {
            let share = draws.iter().filter(|&&drawn| drawn == op).count() as f64 / DRAWS as f64;
            assert!((share - want).abs() < 0.01, "{}: {share} is not {want}", op.name());
        }
    }

    #[test]
    fn a_shuffled_order_holds_everything_once() {
        let mut order = shuffled(100, &mut Rng::new(1));
        assert!(!order.is_sorted());
        order.sort_unstable();
        assert!(order.into_iter().eq(0..100));
        assert_eq!(shuffled(0, &mut Rng::new(1)), [0]);
    }

    #[test]
    fn a_focus_moves_with_every_window() {
        let beat = Beat { first: 20.0, lasts: 2.0, every: 100.0 };
        let focus = Places::Focus { share: 1.0, width: 2, beat, map: (0..6).collect() };
        let mut rng = Rng::new(1);
        for (seconds, want) in [(20.0, [0, 1]), (21.9, [0, 1]), (120.5, [2, 3]), (221.0, [4, 5]), (321.0, [0, 1])] {
            for _ in 0..20 {
                assert!(want.contains(&focus.draw(seconds, &mut rng)), "at {seconds}");
            }
        }
    }
}
