//! What a call is about, reduced to 64 bits for placement.
//!
//! Two handles that collide merely share a home; identity (in the cache) is never decided by such a hash.

use crate::rng::mix;

/// The hash of a handle, or of a handle and a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u64);

impl Key {
    /// The key of these bytes: the same on every proxy, in every version.
    pub fn of(bytes: &[u8]) -> Self {
        let mut chunks = bytes.chunks_exact(8);
        let mut state = mix(bytes.len() as u64 ^ SALT);
        for chunk in &mut chunks {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            state = mix(state ^ u64::from_le_bytes(word)).wrapping_mul(SALT);
        }
        let tail = chunks.remainder().iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        Self(mix(state ^ tail))
    }

    /// The key of something named inside of this.
    pub fn named(self, name: &[u8]) -> Self {
        self.child(Self::of(name).0)
    }

    /// The key of something numbered inside of this.
    pub const fn child(self, number: u64) -> Self {
        Self(mix(self.0 ^ mix(number.wrapping_add(SALT))))
    }
}

/// Any odd constant; changing it moves every home.
const SALT: u64 = 0x6d69_6461_7321_0001;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_do_not_depend_on_anything_but_the_bytes() {
        // Written down once: a change of these moves every home in every installation.
        assert_eq!(Key::of(b"").0, Key::of(&[]).0);
        assert_ne!(Key::of(b"a"), Key::of(b"a\0"));
        assert_ne!(Key::of(b"12345678"), Key::of(b"123456780"));
        assert_ne!(Key(1).child(2), Key(2).child(1));
    }

    #[test]
    fn homes_must_not_move_between_versions() {
        assert_eq!(Key::of(b"midas").0, 6_002_447_696_849_092_363);
    }
}
