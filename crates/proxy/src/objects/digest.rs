//! A keyed digest of 128 bits: SipHash-2-4 with its longer output. Handles come from clients, so
//! nobody may choose two that collide.

use std::hash::{BuildHasherDefault, Hasher};

/// A handle's digest under one key. Two handles with one digest are one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Digest(pub(crate) u128);

impl Digest {
    /// The digest as bytes.
    pub(crate) const fn bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// A number below `count`, the same for the same digest.
    pub(crate) const fn below(self, count: usize) -> usize {
        ((self.0 >> 64) as u64 % count as u64) as usize
    }
}

/// The secret that digests are made with.
#[derive(Clone, Copy)]
pub(crate) struct Secret(pub(crate) [u8; 16]);

impl Secret {
    /// The digest of these bytes.
    pub(crate) fn digest(&self, bytes: &[u8]) -> Digest {
        let half = |at: usize| word(&self.0[at..at + 8]);
        let mut sip = Sip::new(half(0), half(8));
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            sip.take(word(chunk));
        }
        sip.take(word(chunks.remainder()) | (bytes.len() as u64) << 56);
        sip.end()
    }
}

/// At most eight bytes as a number.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

struct Sip([u64; 4]);

impl Sip {
    const fn new(first: u64, second: u64) -> Self {
        Self([
            first ^ 0x736f_6d65_7073_6575,
            second ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            first ^ 0x6c79_6765_6e65_7261,
            second ^ 0x7465_6462_7974_6573,
        ])
    }

    const fn take(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.round();
        self.0[0] ^= word;
    }

    fn end(mut self) -> Digest {
        let half = |sip: &mut Self| {
            (0..4).for_each(|_| sip.round());
            sip.0.iter().fold(0, |all, word| all ^ word)
        };
        self.0[2] ^= 0xee;
        let low = half(&mut self);
        self.0[1] ^= 0xdd;
        let high = half(&mut self);
        Digest(u128::from(high) << 64 | u128::from(low))
    }

    const fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.0;
        a = a.wrapping_add(b);
        c = c.wrapping_add(d);
        b = b.rotate_left(13) ^ a;
        d = d.rotate_left(16) ^ c;
        a = a.rotate_left(32).wrapping_add(d);
        c = c.wrapping_add(b);
        d = d.rotate_left(21) ^ a;
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.0 = [a, b, c, d];
    }
}

/// A hasher for digests, which need none: their low half is taken as it is.
#[derive(Default)]
pub(crate) struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = word(&bytes[..bytes.len().min(8)]);
    }

    fn write_u128(&mut self, digest: u128) {
        self.0 = digest as u64;
    }
}

pub(crate) type Plain = BuildHasherDefault<AsItIs>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_the_vectors_of_its_authors() {
        let secret = Secret(std::array::from_fn(|at| at as u8));
        let text: Vec<u8> = (0..16).collect();
        let hex = |length: usize| format!("{:032x}", u128::from_be_bytes(secret.digest(&text[..length]).bytes()));
        assert_eq!(hex(0), "a3817f04ba25a8e66df67214c7550293");
        assert_eq!(hex(1), "da87c1d86b99af44347659119b22fc45");
        assert_eq!(hex(2), "8177228da4a45dc7fca38bdef60affe4");
    }
}
