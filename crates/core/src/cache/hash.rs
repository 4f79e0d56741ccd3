//! The hash of every table in the core: the same on every run and platform, so that one seed stays one world.
//!
//! Why not a keyed hash: a key is a digest that the driver makes of what clients send; a driver that must resist chosen keys
//! keys that digest. Here the mix only has to spread.

use crate::rng::mix;
use core::hash::{BuildHasher, Hash, Hasher};

/// Builds [`Folding`]; has no state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fixed;

impl Fixed {
    /// The hash of one value.
    pub fn of<K: Hash>(key: &K) -> u64 {
        Self.hash_one(key)
    }
}

impl BuildHasher for Fixed {
    type Hasher = Folding;

    fn build_hasher(&self) -> Folding {
        Folding(SEED)
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
            let hash = Fixed::of(&key);
            low[(hash & 15) as usize] += 1;
            high[(hash >> 60) as usize] += 1;
        }
        assert!(low.iter().chain(&high).all(|&n| (880..1120).contains(&n)), "{low:?} {high:?}");
        assert_ne!(Fixed::of(&[0u8; 8].as_slice()), Fixed::of(&[0u8; 9].as_slice()));
        assert_eq!(Fixed::of(&7u64), Fixed::of(&7u64));
    }
}
