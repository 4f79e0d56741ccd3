//! The hash of every table in the core: with one seed the same on every run and platform, so that
//! one seed stays one world.
//!
//! A key is a digest of what clients send, and clients know how it is made: they could choose names
//! whose keys all fall into one place. A daemon therefore draws a seed that they do not know
//! (`Settings::spread`); a simulation has none.

use crate::rng::mix;
use core::hash::{BuildHasher, Hash, Hasher};

/// Builds [`Folding`] from a seed.
#[derive(Clone, Copy, Debug)]
pub struct Fixed(u64);

impl Fixed {
    /// The hash of this seed; 0 where nobody chooses keys.
    pub const fn new(seed: u64) -> Self {
        Self(mix(seed) ^ mix(0) ^ SEED)
    }

    /// The hash of one value.
    pub fn of<K: Hash>(self, key: &K) -> u64 {
        self.hash_one(key)
    }
}

impl Default for Fixed {
    fn default() -> Self {
        Self::new(0)
    }
}

impl BuildHasher for Fixed {
    type Hasher = Folding;

    fn build_hasher(&self) -> Folding {
        Folding(self.0)
    }
}

/// Folds eight bytes at a time through a bijective mix.
#[derive(Clone, Copy, Debug)]
pub struct Folding(u64);

impl Hasher for Folding {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
        self.write_u64(bytes.len() as u64);
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(u64::from(word));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0.wrapping_add(SEED) ^ word);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Any odd constant; it keeps a key of zero words from hashing to zero.
const SEED: u64 = 0x51ed_270b_9f2c_6ce7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_spread_over_all_bits_and_lengths_differ() {
        let mut low = [0u32; 16];
        let mut high = [0u32; 16];
        for key in 0..16_000u64 {
            let hash = Fixed::default().of(&key);
            low[(hash & 15) as usize] += 1;
            high[(hash >> 60) as usize] += 1;
        }
        assert!(low.iter().chain(&high).all(|&n| (880..1120).contains(&n)), "{low:?} {high:?}");
        let fixed = Fixed::default();
        assert_ne!(fixed.of(&[0u8; 8].as_slice()), fixed.of(&[0u8; 9].as_slice()));
        assert_eq!(fixed.of(&7u64), Fixed::new(0).of(&7u64));
    }

    /// Names that were chosen so that their keys fall together are spread by a seed that the chooser did not know.
    #[test]
    fn keys_that_are_chosen_for_one_seed_spread_under_another() {
        let (known, drawn) = (Fixed::default(), Fixed::new(0x1234_5678_9abc_def1));
        let chosen: alloc::vec::Vec<u64> = (0..4_000_000u64).filter(|key| known.of(key) % 4096 == 7).collect();
        let mut places: alloc::vec::Vec<u64> = chosen.iter().map(|key| drawn.of(key) % 4096).collect();
        places.sort_unstable();
        places.dedup();
        assert!(chosen.len() > 900 && places.len() > chosen.len() * 3 / 4, "{} of {}", places.len(), chosen.len());
    }
}
