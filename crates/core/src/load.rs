//! The load of a server: calls in flight, in fixed point, so that estimates and weights need no floats and every platform decides
//! alike.

use core::ops::{Add, Sub};

/// Calls in flight, in 256ths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load(u32);

impl Load {
    /// Idle.
    pub const ZERO: Self = Self(0);
    /// One call.
    pub const ONE: Self = Self(UNIT);
    /// More than any server has.
    pub const MAX: Self = Self(u32::MAX);

    /// That many calls.
    pub const fn calls(calls: u32) -> Self {
        Self(calls.saturating_mul(UNIT))
    }

    /// From 256ths.
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// In 256ths.
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// A fraction of calls, rounded; negative becomes zero.
    pub fn from_f64(calls: f64) -> Self {
        Self((calls * f64::from(UNIT) + 0.5) as u32)
    }

    /// As a number of calls.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(UNIT)
    }

    /// The work that a call would find at a server whose calls count `weight` times: (L + 1) w - 1.
    #[inline]
    pub const fn weighted(self, weight: Weight) -> Self {
        if weight.0 == UNIT {
            return self;
        }
        let work = (self.0 as u64 + UNIT as u64) * weight.0 as u64 / UNIT as u64;
        let work = work.saturating_sub(UNIT as u64);
        Self(if work > u32::MAX as u64 { u32::MAX } else { work as u32 })
    }
}

impl Add for Load {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// The difference, or zero.
impl Sub for Load {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// How many calls one call at a server counts for: 1 unless the server is slow or has just come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u32);

impl Weight {
    /// Counts as it is.
    pub const ONE: Self = Self(UNIT);

    /// From a ratio, kept in 1..=4096.
    pub fn from_ratio(ratio: f64) -> Self {
        Self(Load::from_f64(ratio.clamp(1.0, 4096.0)).0)
    }

    /// From 256ths, as [`Weight::raw`] gave them.
    pub(crate) const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// In 256ths.
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// As a ratio.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(UNIT)
    }
}

/// One call in fixed point.
const UNIT: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_server_counts_more() {
        let cases = [(0, 1.0, 0.0), (3, 1.0, 3.0), (0, 2.0, 1.0), (3, 2.0, 7.0), (1, 1.5, 2.0)];
        for (calls, weight, want) in cases {
            let got = Load::calls(calls).weighted(Weight::from_ratio(weight)).as_f64();
            assert_eq!(got, want, "{calls} calls at weight {weight}");
        }
        assert_eq!(Load::MAX.weighted(Weight::from_ratio(9.0)), Load::MAX);
    }
}
