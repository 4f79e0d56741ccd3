//! Keyed digests of 128 bits: what stands for bytes where the bytes themselves are too many to be kept.
//!
//! Equal digests count as equal bytes; those of records are compared for one client alone. No way is
//! known to find, without the key, two texts with one digest, or texts whose digests fall into one
//! place of a table. Of BLAKE3 that was studied at length, of HighwayHash less.
//!
//! A [`DigestKey`] belongs to a process, or to all members of a cluster: its digests are sent and
//! written down, and are BLAKE3's. A [`RecordKey`] belongs to one process alone, and nobody outside
//! sees its digests: they are HighwayHash's with 128 bits, which takes less than a third of BLAKE3's
//! instructions for a CREATE, and no longer for a large WRITE.

use highway::{HighwayHash, HighwayHasher, Key};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

/// A key of digests that others may see.
#[derive(Clone)]
pub struct DigestKey([u8; blake3::KEY_LEN]);

/// The key of a process for its clients' records.
pub struct RecordKey([u64; 4]);

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
        Digest::cut(&blake3::keyed_hash(&self.0, bytes))
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

impl RecordKey {
    /// A key that nobody else has, drawn at random.
    pub fn random() -> Self {
        let key = DigestKey::random();
        Self([0, 1, 2, 3].map(|number: u8| key.of(&[number]).word()))
    }

    /// The digest of a client's record; its first word, the client's number for it, counts.
    pub fn of(&self, client: IpAddr, record: &[u8]) -> Digest {
        let address = match client {
            IpAddr::V4(four) => four.to_ipv6_mapped(),
            IpAddr::V6(six) => six,
        };
        // The address is part of the key: the same bytes of two clients share no place of a table.
        let [high, low] = [address.to_bits() >> 64, address.to_bits()].map(|half| half as u64);
        let [k0, k1, k2, k3] = self.0;
        let hash = HighwayHasher::new(Key([k0, k1, k2 ^ high, k3 ^ low])).hash128(record);
        Digest(u128::from(hash[1]) << 64 | u128::from(hash[0]))
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
    use highway::PortableHash;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn one_key_gives_one_digest_and_another_key_another_one() {
        let (one, other) = (DigestKey::random(), DigestKey::random());
        assert_eq!(one.of(b"call"), one.clone().of(b"call"));
        assert_ne!(one.of(b"call"), other.of(b"call"));
        assert_ne!(one.of(b"call"), one.of(b"cell"));
        assert_eq!(DigestKey::new([7; 32]).of(b"call"), DigestKey::new([7; 32]).of(b"call"));
        assert_eq!(format!("{one:?}"), "DigestKey(..)");
        let (one, other) = (RecordKey::random(), RecordKey::random());
        for length in [100, 2000] {
            let record = vec![1; length];
            assert_eq!(one.of(CLIENT, &record), one.of(CLIENT, &record));
            assert_ne!(one.of(CLIENT, &record), other.of(CLIENT, &record));
        }
    }

    /// Members and journals know calls by these: another digest is another version of both (`VERSION`
    /// in peers.rs, `HEAD` of both journals).
    #[test]
    fn digests_that_others_see_do_not_change_between_versions() {
        let key = DigestKey::new([7; 32]);
        let six = IpAddr::V6(Ipv6Addr::LOCALHOST);
        let calls = [(CLIENT, 5, 100), (six, 5, 100), (CLIENT, 6, 100), (CLIENT, 5, 2000)];
        let seen = calls.map(|(client, xid, length)| key.of_call(client, xid, &vec![1; length]).bits());
        assert_eq!(seen.map(|bits| format!("{bits:032x}")), PINNED);
    }

    const PINNED: [&str; 4] = [
        "28872fbf2e6114e1b69bc3cff695154a",
        "9c2562331983728dc3dba3e3dfc57cc4",
        "baf24c885f31cce02e6f2ae69d4717b2",
        "5dca0550f65e9735f97536ae3b9b5762",
    ];

    #[test]
    fn where_one_text_ends_and_the_next_begins_counts() {
        let key = DigestKey::random();
        assert_ne!(key.of_all(&[b"ab", b"c"]), key.of_all(&[b"a", b"bc"]));
        assert_ne!(key.of_all(&[b"ab", b""]), key.of_all(&[b"ab"]));
        assert_eq!(key.of_all(&[b"ab", b"c"]), key.of_all(&[b"ab", b"c"]));
    }

    #[test]
    fn a_record_of_another_client_is_another_one_and_an_address_is_one_in_both_its_forms() {
        let key = RecordKey::random();
        let clients = [CLIENT, IpAddr::from([127, 0, 0, 2]), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        for length in [0, 100, 2000] {
            let record = vec![1; length];
            let [one, two, six] = clients.map(|client| key.of(client, &record));
            assert!(one != two && one != six && two != six, "{length}");
            assert_eq!(key.of(IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped()), &record), one);
        }
    }

    #[test]
    fn records_differ_in_every_byte_that_differs() {
        let key = RecordKey::random();
        for length in (0..=130).chain([200, 1500]) {
            let record = vec![7_u8; length];
            let digest = key.of(CLIENT, &record);
            assert_ne!(key.of(CLIENT, &[&record[..], &[0]].concat()), digest, "{length}");
            for at in 0..length {
                let mut other = record.clone();
                other[at] ^= 1;
                assert_ne!(key.of(CLIENT, &other), digest, "{at} of {length}");
            }
        }
    }

    /// Processors have other vector units; each must come to the same.
    #[test]
    fn a_record_has_one_digest_with_vector_units_and_without() {
        let record: Vec<u8> = (0..200).map(|at| at as u8).collect();
        for length in 0..=record.len() {
            let record = &record[..length];
            let [found, portable] = [
                HighwayHasher::new(Key([1, 2, 3, 4])).hash128(record),
                PortableHash::new(Key([1, 2, 3, 4])).hash128(record),
            ];
            assert_eq!(found, portable, "{length}");
        }
    }

    #[test]
    fn a_call_is_known_by_its_client_its_number_and_its_record() {
        let key = DigestKey::random();
        for length in [100, 2000] {
            let record = vec![1_u8; length];
            let mut other = record.clone();
            other[length - 1] = 2;
            let mut renumbered = record.clone();
            renumbered[..4].fill(9);
            let digest = key.of_call(CLIENT, 5, &record);
            assert_eq!(digest, key.of_call(CLIENT, 5, &renumbered), "its own number is told apart from the record");
            assert_ne!(digest, key.of_call(CLIENT, 6, &record));
            assert_ne!(digest, key.of_call(CLIENT, 5, &other));
            assert_ne!(digest, key.of_call(IpAddr::from([127, 0, 0, 2]), 5, &record));
        }
    }
}
