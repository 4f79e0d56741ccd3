//! When calls are issued: Poisson arrivals at a rate that varies, and batches of a known size.
//!
//! A rate in steps is inverted exactly (a unit-rate process, stretched), so that one rate function and one seed give one sequence
//! of times, whatever else a workload draws. A sine has no such inverse and is thinned. Times are seconds in f64, which resolve
//! a nanosecond for the 30 days that a stream may last.

use alloc::vec::Vec;
use core::f64::consts::PI;
use midas_core::rng::Rng;

/// The arrivals of one source of calls: seconds in ascending order.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    rng: Rng,
    now: f64,
    end: f64,
    law: Law,
}

/// The law that the times follow.
#[derive(Clone, Debug)]
pub(crate) enum Law {
    /// Poisson, at a rate in steps. Never empty; the starts ascend from 0.
    Steps { steps: Vec<Step>, current: usize },
    /// Poisson, at `mean + swing sin(2 pi t / period)`, with `swing <= mean`.
    Sine { mean: f64, swing: f64, period: f64 },
    /// Exactly `count` calls, uniform over each window of `beat`.
    Batches { beat: Beat, count: u32, index: u64, left: u32 },
}

/// From `start` seconds on, `rate` calls per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    pub start: f64,
    pub rate: f64,
}

/// Windows that recur: `lasts` seconds long, `every` seconds, from `first` on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Beat {
    pub first: f64,
    pub lasts: f64,
    pub every: f64,
}

impl Beat {
    /// When window `index` opens.
    pub(crate) fn opens(&self, index: u64) -> f64 {
        self.first + self.every * index as f64
    }

    /// The latest window that opened by `t`; the first one before that.
    pub(crate) fn index(&self, t: f64) -> u64 {
        ((t - self.first) / self.every) as u64
    }

    /// Seconds since the latest window opened, if one did and is still open.
    pub(crate) fn inside(&self, t: f64) -> Option<f64> {
        let since = t - self.opens(self.index(t));
        (0.0..self.lasts).contains(&since).then_some(since)
    }
}

impl Law {
    /// One rate throughout.
    pub(crate) fn steady(rate: f64) -> Self {
        Self::steps([Step { start: 0.0, rate }].into())
    }

    /// `high` in the windows of `beat`, `low` between them, up to `end`.
    pub(crate) fn pulses(low: f64, high: f64, beat: Beat, end: f64) -> Self {
        let windows = (0..).map(|index| beat.opens(index)).take_while(|&opens| opens < end);
        let edges = windows
            .flat_map(|opens| [Step { start: opens, rate: high }, Step { start: opens + beat.lasts, rate: low }])
            .filter(|step| step.start > 0.0);
        Self::steps(core::iter::once(Step { start: 0.0, rate: low }).chain(edges).collect())
    }

    /// `on` and `off` in turns, each for an exponential time of mean `mean`; a coin decides which comes first.
    pub(crate) fn phases(on: f64, off: f64, mean: f64, end: f64, rng: &mut Rng) -> Self {
        let rates = if rng.chance(0.5) { [on, off] } else { [off, on] };
        let mut start = 0.0;
        let mut steps = Vec::new();
        for rate in rates.into_iter().cycle() {
            steps.push(Step { start, rate });
            start += mean * rng.exponential();
            if start >= end {
                break;
            }
        }
        Self::steps(steps)
    }

    /// Exactly `count` calls in each window.
    pub(crate) fn batches(beat: Beat, count: u32) -> Self {
        Self::Batches { beat, count, index: 0, left: count }
    }

    fn steps(steps: Vec<Step>) -> Self {
        let steps = steps.into_iter().map(|step| Step { rate: sane(step.rate), ..step }).collect();
        Self::Steps { steps, current: 0 }
    }

    /// Intended calls per second at `t`.
    fn rate(&self, t: f64) -> f64 {
        match self {
            Self::Steps { steps, .. } => steps[steps.partition_point(|step| step.start <= t).max(1) - 1].rate,
            Self::Sine { mean, swing, period } => sane(mean + swing * libm::sin(2.0 * PI * t / period)),
            Self::Batches { beat, count, .. } => beat.inside(t).map_or(0.0, |_| f64::from(*count) / beat.lasts),
        }
    }
}

impl Arrivals {
    /// Times by `law`, from 0 to before `end`, drawn from `rng`.
    pub(crate) fn new(law: Law, end: f64, rng: Rng) -> Self {
        Self { rng, now: 0.0, end, law }
    }

    /// Intended calls per second at `t` seconds.
    pub(crate) fn rate(&self, t: f64) -> f64 {
        if (0.0..self.end).contains(&t) { self.law.rate(t) } else { 0.0 }
    }
}

impl Iterator for Arrivals {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        let Self { rng, now, end, law } = self;
        *now = match law {
            Law::Steps { steps, current } => stretch(steps, current, *now, rng.exponential()),
            Law::Sine { mean, swing, period } => thin(*mean, *swing, *period, *now, *end, rng),
            Law::Batches { beat, count, index, left } => {
                if *left == 0 {
                    (*index, *left) = (*index + 1, *count);
                }
                let closes = beat.opens(*index) + beat.lasts;
                let from = now.max(beat.opens(*index));
                let next = if *left == 0 { f64::INFINITY } else { least_of(*left, from, closes, rng) };
                *left = left.saturating_sub(1);
                next
            }
        };
        (*now < *end).then_some(*now)
    }
}

/// The time at which the expected number of calls since `now` reaches `work`; infinity if it never does.
fn stretch(steps: &[Step], current: &mut usize, mut now: f64, mut work: f64) -> f64 {
    while let Some(next) = steps.get(*current + 1) {
        let rate = steps[*current].rate;
        let ahead = (next.start - now) * rate;
        if work < ahead {
            return now + work / rate;
        }
        work -= ahead;
        now = next.start;
        *current += 1;
    }
    now + work / steps[*current].rate
}

/// The next arrival at the highest rate that survives with the chance that the present rate has of it.
fn thin(mean: f64, swing: f64, period: f64, mut now: f64, end: f64, rng: &mut Rng) -> f64 {
    let highest = sane(mean + swing);
    while now < end {
        now += rng.exponential() / highest;
        if rng.unit() * highest < mean + swing * libm::sin(2.0 * PI * now / period) {
            break;
        }
    }
    now
}

/// The least of `n` uniform points between `from` and `to`: drawn again and again, the points in order.
fn least_of(n: u32, from: f64, to: f64, rng: &mut Rng) -> f64 {
    from + (to - from) * (1.0 - libm::pow(1.0 - rng.unit(), 1.0 / f64::from(n)))
}

/// A rate that is no positive finite number is no calls.
pub(crate) fn sane(rate: f64) -> f64 {
    if rate.is_finite() { rate.max(0.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: Beat = Beat { first: 5.0, lasts: 1.0, every: 10.0 };

    fn check(law: Law, end: f64, want: f64) {
        let name = std::format!("{law:?}");
        let times: Vec<f64> = Arrivals::new(law, end, Rng::new(5)).collect();
        assert!(times.is_sorted() && times.iter().all(|t| (0.0..end).contains(t)), "{name}");
        let tolerance = 4.0 * want.sqrt();
        assert!((times.len() as f64 - want).abs() <= tolerance, "{name}: {} calls, not {want}", times.len());
    }

    #[test]
    fn counts_follow_the_integral_of_the_rate() {
        check(Law::steady(1000.0), 100.0, 100_000.0);
        check(Law::pulses(10.0, 4000.0, BEAT, 100.0), 100.0, 900.0 + 40_000.0);
        check(Law::pulses(0.0, 500.0, BEAT, 100.0), 100.0, 5_000.0);
        check(Law::Sine { mean: 600.0, swing: 500.0, period: 20.0 }, 100.0, 60_000.0);
        check(Law::batches(BEAT, 240), 100.0, 2400.0);
    }

    #[test]
    fn a_rate_that_is_no_positive_number_is_no_calls() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            check(Law::steady(rate), 10.0, 0.0);
            check(Law::Sine { mean: rate, swing: 0.0, period: 1.0 }, 10.0, 0.0);
        }
        check(Law::batches(BEAT, 0), 100.0, 0.0);
    }

    #[test]
    fn gaps_of_a_steady_rate_are_exponential() {
        let times: Vec<f64> = Arrivals::new(Law::steady(100.0), 1000.0, Rng::new(9)).collect();
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| libm::pow(gap - mean, 2.0)).sum::<f64>() / gaps.len() as f64;
        assert!(
            (variance.sqrt() / mean - 1.0).abs() < 0.02,
            "the coefficient of variation is {}",
            variance.sqrt() / mean
        );
    }

    #[test]
    fn batches_have_exactly_their_size() {
        let times: Vec<f64> = Arrivals::new(Law::batches(BEAT, 7), 100.0, Rng::new(2)).collect();
        for index in 0..10 {
            let window = BEAT.opens(index)..BEAT.opens(index) + BEAT.lasts;
            assert_eq!(times.iter().filter(|t| window.contains(t)).count(), 7);
        }
    }

    #[test]
    fn the_rate_is_what_was_asked_for() {
        let arrivals = Arrivals::new(Law::pulses(1.0, 9.0, BEAT, 30.0), 30.0, Rng::new(1));
        for (t, want) in [(0.0, 1.0), (4.9, 1.0), (5.0, 9.0), (6.0, 1.0), (25.5, 9.0), (30.0, 0.0)] {
            assert_eq!(arrivals.rate(t), want, "at {t}");
        }
    }
}
