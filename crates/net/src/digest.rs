//! Keyed digests of 128 bits: what stands for bytes where the bytes themselves are too many to be kept.
//!
//! Equal digests count as equal bytes. Nobody who does not know the key can find two texts with one
//! digest, nor texts whose digests fall into one place of a table. The key is one of the process,
//! or one that the members of a cluster share.
//!
//! Short texts are digested by SipHash-1-3 with 128 bits, long ones by BLAKE3. SipHash takes a
//! third of the instructions for the record of a CREATE; BLAKE3 is quicker from a few KiB on. The
//! length of the texts says which one it is. One round a word is enough here, as it is for the
//! tables of the standard library: nobody outside ever sees a digest.

use siphasher::sip128::SipHasher13;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

/// A key that digests are made with.
#[derive(Clone)]
pub struct DigestKey {
    long: [u8; blake3::KEY_LEN],
    /// The key of short texts, which is derived from the other one.
    short: SipHasher13,
}

/// What stands for some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(u128);

impl DigestKey {
    /// A key that nobody else has, drawn at random.
    pub fn random() -> Self {
        let drawn = RandomState::new();
        let words = [0_u8, 1, 2, 3].map(|number| drawn.hash_one(number).to_le_bytes());
        Self::new(blake3::derive_key("midas: digests of a process", words.as_flattened()))
    }

    /// The key of these bytes, which whoever must agree has too.
    pub fn new(bytes: [u8; blake3::KEY_LEN]) -> Self {
        let derived = blake3::derive_key("midas: digests of short texts", &bytes);
        let short = derived.first_chunk::<16>().copied().unwrap_or_default();
        Self { long: bytes, short: SipHasher13::new_with_key(&short) }
    }

    /// The digest of these bytes.
    pub fn of(&self, bytes: &[u8]) -> Digest {
        match bytes.len() <= SHORT {
            true => Digest(self.short.hash(bytes).as_u128()),
            false => Digest::cut(&blake3::keyed_hash(&self.long, bytes)),
        }
    }

    /// The digest of several texts in a row; where one ends and the next begins counts.
    pub fn of_all(&self, texts: &[&[u8]]) -> Digest {
        let mut row = [0; SHORT];
        match in_a_row(texts, &mut row) {
            Some(length) => self.of(&row[..length]),
            None => self.of_long(texts),
        }
    }

    #[cold]
    fn of_long(&self, texts: &[&[u8]]) -> Digest {
        let mut hasher = blake3::Hasher::new_keyed(&self.long);
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

/// Puts each text behind its length into the row, and says how long that is; none if it does not
/// fit.
fn in_a_row(texts: &[&[u8]], row: &mut [u8; SHORT]) -> Option<usize> {
    let mut free = &mut row[..];
    for text in texts {
        let (length, behind) = free.split_first_chunk_mut::<8>()?;
        *length = (text.len() as u64).to_le_bytes();
        let (place, behind) = behind.split_at_mut_checked(text.len())?;
        place.copy_from_slice(text);
        free = behind;
    }
    let left = free.len();
    Some(SHORT - left)
}

/// The longest text that counts as short, in bytes.
const SHORT: usize = 512;

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

    #[test]
    fn short_and_long_texts_differ_in_every_byte_that_differs() {
        let key = DigestKey::random();
        for length in [0, 1, 7, 8, 9, 200, SHORT - 16, SHORT - 15, SHORT, SHORT + 1, 3 * SHORT] {
            let text = vec![7_u8; length];
            let (alone, in_all) = (key.of(&text), key.of_all(&[&text, &[]]));
            assert_eq!((alone, in_all), (key.of(&text), key.of_all(&[&text, &[]])), "{length}");
            assert_ne!(alone, in_all);
            for at in 0..length {
                let mut other = text.clone();
                other[at] ^= 1;
                assert_ne!(key.of(&other), alone, "{at} of {length}");
                assert_ne!(key.of_all(&[&other, &[]]), in_all, "{at} of {length}");
            }
        }
    }

    #[test]
    fn a_call_is_short_or_long_by_its_record() {
        let (key, client) = (DigestKey::random(), IpAddr::from([127, 0, 0, 1]));
        for length in [100, 2000] {
            let record = vec![1_u8; length];
            let mut other = record.clone();
            other[length - 1] = 2;
            let mut renumbered = record.clone();
            renumbered[..4].fill(9);
            let digest = key.of_call(client, 5, &record);
            assert_eq!(digest, key.of_call(client, 5, &renumbered), "its own number is told apart from the record");
            assert_ne!(digest, key.of_call(client, 6, &record));
            assert_ne!(digest, key.of_call(client, 5, &other));
            assert_ne!(digest, key.of_call(IpAddr::from([127, 0, 0, 2]), 5, &record));
        }
    }
}
