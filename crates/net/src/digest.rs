//! Keyed digests of 128 bits: what stands for bytes where the bytes themselves are too many to be kept.
//!
//! Equal digests count as equal bytes. Nobody who does not know the key can find two texts with one
//! digest, nor texts whose digests fall into one place of a table. The key is one of the process,
//! or one that the members of a cluster share.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

/// A key that digests are made with.
#[derive(Clone)]
pub struct DigestKey([u8; blake3::KEY_LEN]);

/// What stands for some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(u128);

impl DigestKey {
    /// A key that nobody else has, drawn at random.
    pub fn random() -> Self {
        let drawn = RandomState::new();
        let words = [0_u8, 1, 2, 3].map(|number| drawn.hash_one(number).to_le_bytes());
        Self(blake3::derive_key("midas: digests of a process", words.as_flattened()))
    }

    /// The key of these bytes, which whoever must agree has too.
    pub const fn new(bytes: [u8; blake3::KEY_LEN]) -> Self {
        Self(bytes)
    }

    /// The digest of these bytes.
    pub fn of(&self, bytes: &[u8]) -> Digest {
        // One chunk needs no state but the block under way.
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(bytes);
        Digest::cut(&hasher.finalize())
    }

    /// The digest of several texts in a row; where one ends and the next begins counts.
    pub fn of_all(&self, texts: &[&[u8]]) -> Digest {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for text in texts {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text);
        }
        Digest::cut(&hasher.finalize())
    }

    /// The digest of a call: its client, the client's number for it, and its record. The record's
    /// first word does not count: it may be the number under which the call goes to a server.
    pub fn of_call(&self, client: IpAddr, xid: u32, record: &[u8]) -> Digest {
        let (xid, body) = (xid.to_be_bytes(), record.get(4..).unwrap_or_default());
        match client.to_canonical() {
            IpAddr::V4(four) => self.of_all(&[&four.octets(), &xid, body]),
            IpAddr::V6(six) => self.of_all(&[&six.octets(), &xid, body]),
        }
    }
}

impl std::fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DigestKey(..)")
    }
}

impl Digest {
    fn cut(whole: &blake3::Hash) -> Self {
        let half = whole.as_bytes().first_chunk::<16>().copied().unwrap_or_default();
        Self(u128::from_le_bytes(half))
    }

    /// All of its bits.
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// Its place in a table: as good as any hash of it.
    pub const fn word(self) -> u64 {
        self.0 as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_gives_one_digest_and_another_key_another_one() {
        let (one, other) = (DigestKey::random(), DigestKey::random());
        assert_eq!(one.of(b"call"), one.clone().of(b"call"));
        assert_ne!(one.of(b"call"), other.of(b"call"));
        assert_ne!(one.of(b"call"), one.of(b"cell"));
        assert_eq!(DigestKey::new([7; 32]).of(b"call"), DigestKey::new([7; 32]).of(b"call"));
        assert_eq!(format!("{one:?}"), "DigestKey(..)");
    }

    #[test]
    fn where_one_text_ends_and_the_next_begins_counts() {
        let key = DigestKey::random();
        assert_ne!(key.of_all(&[b"ab", b"c"]), key.of_all(&[b"a", b"bc"]));
        assert_ne!(key.of_all(&[b"ab", b""]), key.of_all(&[b"ab"]));
        assert_eq!(key.of_all(&[b"ab", b"c"]), key.of_all(&[b"ab", b"c"]));
    }
}
