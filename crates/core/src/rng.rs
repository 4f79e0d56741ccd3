//! The one source of chance: xoshiro256++, seeded through SplitMix64.
//!
//! Why not a crate: the stream is part of the promise that one seed is one world, on every platform and after every update of a
//! dependency. It is thirty lines. Samplers use `libm`, whose results do not depend on the platform.

/// A deterministic stream of random numbers. Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Self(core::array::from_fn(|_| {
            state = state.wrapping_add(GOLDEN);
            mix(state)
        }))
    }

    /// An independent stream: same seed and same purpose, same stream, whatever else was drawn.
    pub fn for_purpose(seed: u64, purpose: u64) -> Self {
        Self::new(mix(seed ^ mix(purpose.wrapping_add(GOLDEN))))
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in `0..bound`; 0 if `bound` is 0. The bias is below 2^-32 for the bounds that occur here.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -libm::log1p(-self.unit())
    }

    /// Standard normal (Box and Muller; the second of the pair is thrown away).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(2.0 * self.exponential());
        radius * libm::cos(2.0 * core::f64::consts::PI * self.unit())
    }
}

/// A bijective mix of 64 bits with full avalanche (SplitMix64's finalizer).
pub const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// 2^64 divided by the golden ratio: the increment that keeps SplitMix64's seeds apart.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_stream_and_purposes_differ() {
        let draw = |mut rng: Rng| core::array::from_fn::<u64, 4, _>(|_| rng.next_u64());
        assert_eq!(draw(Rng::new(7)), draw(Rng::new(7)));
        assert_ne!(draw(Rng::new(7)), draw(Rng::new(8)));
        assert_ne!(draw(Rng::for_purpose(7, 1)), draw(Rng::for_purpose(7, 2)));
    }

    #[test]
    fn moments_are_right() {
        const N: usize = 200_000;
        let mut rng = Rng::new(1);
        let mean = |f: &mut dyn FnMut() -> f64| (0..N).map(|_| f()).sum::<f64>() / N as f64;
        let cases = [
            (mean(&mut || rng.unit()), 0.5),
            (mean(&mut || rng.exponential()), 1.0),
            (mean(&mut || rng.normal()), 0.0),
            (mean(&mut || rng.normal() * rng.normal().signum()), 0.0),
            (mean(&mut || rng.below(10) as f64), 4.5),
        ];
        for (i, (got, want)) in cases.into_iter().enumerate() {
            assert!((got - want).abs() < 0.02, "case {i}: {got} is not {want}");
        }
    }
}
