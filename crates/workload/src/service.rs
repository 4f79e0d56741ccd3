//! How long a server works on a call.
//!
//! A call's demand depends on the seed and the call's number alone, so every policy meets the same calls.

use alloc::{format, string::String};
use core::fmt;
use midas_core::op::Op;
use midas_core::rng::Rng;
use midas_core::time::Span;

/// A distribution of service times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Service {
    shape: Shape,
    mean: Span,
    by_op: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Constant,
    Exponential,
    Lognormal,
    Bimodal,
}

impl Service {
    /// The paper's: constant 100 ms. Paper: P19.
    pub const PAPER: Self = Self { shape: Shape::Constant, mean: Span::from_millis(100), by_op: false };

    /// What users may type.
    pub const USAGE: &'static str =
        "const:T, exp:T, lognormal:T, bimodal:T (T like 100ms, 0.5ms, 20us), with +ops for per-kind costs";

    /// The distribution that was typed, or one line that says what is possible.
    pub fn parse(text: &str) -> Result<Self, String> {
        let impossible = || format!("unknown service time '{text}'; possible: {}", Self::USAGE);
        let (text_plain, by_op) = text.strip_suffix("+ops").map_or((text, false), |plain| (plain, true));
        let (name, mean) = text_plain.split_once(':').ok_or_else(impossible)?;
        let shape = Shape::ALL.into_iter().find(|shape| shape.name() == name).ok_or_else(impossible)?;
        let mean = crate::units::parse_span(mean)?;
        match mean > Span::ZERO && mean <= Span::from_secs(60) {
            true => Ok(Self { shape, mean, by_op }),
            false => Err(format!("the mean service time must be above 0 and at most 60s, got '{text}'")),
        }
    }

    /// The mean over calls of weight 1.
    pub fn mean(&self) -> Span {
        self.mean
    }

    /// The demand of call number `number` in the world of `seed`.
    pub fn demand(&self, seed: u64, number: u64, op: Op) -> Span {
        let factor = match self.shape {
            Shape::Constant => 1.0,
            Shape::Exponential => self.rng(seed, number).exponential(),
            Shape::Lognormal => {
                let normal = self.rng(seed, number).normal();
                libm::exp(LOGNORMAL_SIGMA * normal - LOGNORMAL_SIGMA * LOGNORMAL_SIGMA / 2.0)
            }
            Shape::Bimodal => match self.rng(seed, number).chance(0.95) {
                true => 0.5,
                false => 10.5,
            },
        };
        let weight = if self.by_op { weight_of(op) } else { 1.0 };
        match factor == 1.0 && weight == 1.0 {
            true => self.mean,
            false => self.mean.scale(factor * weight).max(Span::from_nanos(1)),
        }
    }

    #[allow(clippy::unused_self, reason = "the stream belongs to the distribution")]
    fn rng(&self, seed: u64, number: u64) -> Rng {
        Rng::for_purpose(seed ^ 0x0073_6572_7669_6365, number)
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ops = if self.by_op { "+ops" } else { "" };
        write!(f, "{}:{}{ops}", self.shape.name(), crate::units::show_span(self.mean))
    }
}

impl Shape {
    const ALL: [Self; 4] = [Self::Constant, Self::Exponential, Self::Lognormal, Self::Bimodal];

    const fn name(self) -> &'static str {
        match self {
            Self::Constant => "const",
            Self::Exponential => "exp",
            Self::Lognormal => "lognormal",
            Self::Bimodal => "bimodal",
        }
    }
}

/// What a kind of call costs relative to a lookup, in the proportions that metadata servers show: creations and renames touch a journal, listings
/// read pages.
const fn weight_of(op: Op) -> f64 {
    match op {
        Op::Lookup | Op::Getattr | Op::Access | Op::Readlink | Op::Statfs => 1.0,
        Op::Setattr | Op::Read | Op::Write | Op::Commit => 1.5,
        Op::List => 2.0,
        Op::Create | Op::Remove | Op::Link => 2.5,
        Op::Rename => 4.0,
    }
}

/// Gives a coefficient of variation of about 1.3.
const LOGNORMAL_SIGMA: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn every_shape_has_its_mean_and_reads_back() {
        for text in ["const:100ms", "exp:100ms", "lognormal:2ms", "bimodal:500us"] {
            let service = Service::parse(text).unwrap();
            assert_eq!(service.to_string(), text);
            let count = 200_000;
            let sum: f64 = (0..count).map(|n| service.demand(1, n, Op::Lookup).as_secs_f64()).sum();
            let ratio = sum / count as f64 / service.mean().as_secs_f64();
            assert!((ratio - 1.0).abs() < 0.02, "{text}: mean off by {ratio}");
        }
    }

    #[test]
    fn errors_say_what_is_possible() {
        for text in ["const", "gauss:1ms", "const:abc", "const:0s", "exp:2h"] {
            let error = Service::parse(text).unwrap_err();
            assert!(!error.contains('\n') && error.len() > 20, "{text}: {error}");
        }
    }
}
