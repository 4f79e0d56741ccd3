//! Quantiles of latencies over a sliding window, in constant memory.
//!
//! Log-linear buckets (16 an octave, so a quantile is off by at most 3 %), and a ring of slots that the tick rotates. Their sum is kept
//! up to date and a histogram knows which of its buckets are in use: a tick asks every server for quantiles, and latencies differ little.

use crate::time::Span;
use alloc::boxed::Box;
use core::ops::Range;

/// Counts of spans by size. Invariant: buckets outside of `used` are zero.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Box<[u32; BUCKETS]>,
    used: Used,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]), used: Used::NONE, total: 0 }
    }
}

impl Histogram {
    /// Counts a span.
    pub fn record(&mut self, span: Span) {
        self.count(bucket_of(span));
    }

    /// How many were counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The span below which a share `q` of all lies, interpolated inside its bucket; `None` if empty.
    pub fn quantile(&self, q: f64) -> Option<Span> {
        let rank = q.clamp(0.0, 1.0) * self.total as f64;
        let mut below = 0.0;
        for (bucket, count) in self.used.range().zip(&self.counts[self.used.range()]).filter(|(_, count)| **count > 0) {
            let count = f64::from(*count);
            if below + count >= rank {
                let (low, high) = bounds_of(bucket);
                let inside = ((rank - below) / count).clamp(0.0, 1.0);
                return Some(Span::from_nanos(low + ((high - low) as f64 * inside) as u64));
            }
            below += count;
        }
        None
    }

    #[inline]
    fn count(&mut self, bucket: usize) {
        self.counts[bucket] = self.counts[bucket].saturating_add(1);
        self.used = self.used.and(Used { start: bucket, end: bucket + 1 });
        self.total += 1;
    }

    fn clear(&mut self) {
        self.counts[self.used.range()].fill(0);
        (self.used, self.total) = (Used::NONE, 0);
    }

    /// Adds what another histogram counted.
    pub fn absorb(&mut self, other: &Self) {
        for bucket in other.used.range() {
            self.counts[bucket] = self.counts[bucket].saturating_add(other.counts[bucket]);
        }
        self.used = self.used.and(other.used);
        self.total += other.total;
    }

    /// Takes away what another histogram counted and this one absorbed.
    fn release(&mut self, other: &Self) {
        for bucket in other.used.range() {
            self.counts[bucket] = self.counts[bucket].saturating_sub(other.counts[bucket]);
        }
        self.total -= other.total;
    }
}

/// A range of buckets.
#[derive(Clone, Copy, Debug)]
struct Used {
    start: usize,
    end: usize,
}

impl Used {
    /// No bucket, and neutral in [`Used::and`].
    const NONE: Self = Self { start: BUCKETS, end: 0 };

    /// The least range that holds both.
    fn and(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    fn range(self) -> Range<usize> {
        self.start.min(self.end)..self.end
    }
}

/// The last [`SLOTS`] slots of a stream of spans. Invariant: `sum` is the sum of the slots.
#[derive(Clone, Debug, Default)]
pub struct Window {
    slots: [Histogram; SLOTS],
    sum: Histogram,
    at: usize,
}

impl Window {
    /// Counts a span in the current slot.
    #[inline]
    pub fn record(&mut self, span: Span) {
        let bucket = bucket_of(span);
        self.slots[self.at].count(bucket);
        self.sum.count(bucket);
    }

    /// What the current slot holds.
    pub fn current(&self) -> &Histogram {
        &self.slots[self.at]
    }

    /// Forgets the oldest slot and starts a new one.
    pub fn rotate(&mut self) {
        self.at = (self.at + 1) % SLOTS;
        self.sum.release(&self.slots[self.at]);
        self.slots[self.at].clear();
        self.sum.used = self.slots.iter().fold(Used::NONE, |used, slot| used.and(slot.used));
    }

    /// Everything in the window as one histogram.
    pub fn sum(&self) -> &Histogram {
        &self.sum
    }
}

/// Slots of a window.
pub const SLOTS: usize = 4;

#[inline]
fn bucket_of(span: Span) -> usize {
    let nanos = span.as_nanos().max(1 << FLOOR_BITS);
    let octave = nanos.ilog2();
    let inside = (nanos >> (octave - SUB_BITS)) & SUB_MASK;
    ((((octave - FLOOR_BITS) as usize) << SUB_BITS) + inside as usize).min(BUCKETS - 1)
}

fn bounds_of(bucket: usize) -> (u64, u64) {
    let at = |bucket: usize| {
        let (octave, inside) = (bucket >> SUB_BITS, (bucket as u64) & SUB_MASK);
        (((1 << SUB_BITS) + inside) << (octave + FLOOR_BITS as usize)) >> SUB_BITS
    };
    (at(bucket), at(bucket + 1))
}

/// Spans below 2^10 ns are all alike.
const FLOOR_BITS: u32 = 10;
const SUB_BITS: u32 = 4;
const SUB_MASK: u64 = (1 << SUB_BITS) - 1;
/// 2^10 ns .. 2^42 ns, about 73 minutes.
const BUCKETS: usize = 32 << SUB_BITS;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use std::vec::Vec;

    #[test]
    fn every_span_lies_inside_its_bucket() {
        let mut rng = Rng::new(3);
        for _ in 0..100_000 {
            let nanos = (rng.next_u64() >> (22 + rng.below(32))).max(1024);
            let (low, high) = bounds_of(bucket_of(Span::from_nanos(nanos)));
            assert!(low <= nanos && nanos < high, "{low} <= {nanos} < {high}");
            assert!((high - low) as f64 <= low as f64 / 16.0);
        }
        assert_eq!(bucket_of(Span::FOREVER), BUCKETS - 1);
        assert_eq!(bucket_of(Span::ZERO), 0);
    }

    #[test]
    fn quantiles_are_within_the_bucket_error() {
        let mut rng = Rng::new(4);
        let mut histogram = Histogram::default();
        let mut exact: Vec<u64> = (0..50_000).map(|_| (rng.exponential() * 1e8) as u64 + 2_000_000).collect();
        for nanos in &exact {
            histogram.record(Span::from_nanos(*nanos));
        }
        exact.sort_unstable();
        for q in [0.1, 0.5, 0.9, 0.99] {
            let got = histogram.quantile(q).unwrap().as_nanos() as f64;
            let want = exact[(q * 50_000.0) as usize] as f64;
            assert!((got / want - 1.0).abs() < 0.035, "q = {q}: {got} is not {want}");
        }
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn a_window_forgets_after_its_slots() {
        let mut window = Window::default();
        window.record(Span::from_millis(1));
        for left in [1, 1, 1, 0] {
            window.rotate();
            assert_eq!(window.sum().total(), left);
        }
    }

    #[test]
    fn the_kept_sum_is_the_sum_of_the_slots() {
        let (mut rng, mut window) = (Rng::new(5), Window::default());
        for round in 0..200 {
            for _ in 0..rng.below(4) {
                window.record(Span::from_nanos(rng.next_u64() >> rng.below(50)));
            }
            let mut sum = Histogram::default();
            for slot in &window.slots {
                sum.absorb(slot);
            }
            assert_eq!((&sum.counts, sum.total), (&window.sum.counts, window.sum.total), "round {round}");
            assert_eq!(sum.quantile(0.5), window.sum.quantile(0.5));
            window.rotate();
        }
    }
}
