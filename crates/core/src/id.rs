//! Names for servers: a small index, and sets of such indices.

/// The largest pool.
pub const SERVERS_MAX: usize = 1024;

/// A server of the pool, by its index in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u16);

impl ServerId {
    /// As an index into per-server tables.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of servers, at most [`SERVERS_MAX`]. Most pools fill one word: those from `used` on are zero and not looked at.
#[derive(Clone, Copy, Debug)]
pub struct ServerSet {
    words: [u64; WORDS],
    used: u8,
}

impl ServerSet {
    /// No server.
    pub const EMPTY: Self = Self { words: [0; WORDS], used: 0 };

    /// The servers `0..count`.
    pub fn first(count: usize) -> Self {
        let mut set = Self { used: count.div_ceil(64).min(WORDS) as u8, ..Self::EMPTY };
        for (word, bits) in set.used_mut().iter_mut().enumerate() {
            *bits = match count.saturating_sub(word * 64) {
                0 => 0,
                n if n >= 64 => u64::MAX,
                n => (1 << n) - 1,
            };
        }
        set
    }

    /// Of the servers `0..count`, those whose bits are set; lowest server first.
    #[inline]
    pub(crate) fn of_words(count: usize, bits: impl Fn(usize) -> u64) -> Self {
        let mut set = Self { used: count.div_ceil(64).min(WORDS) as u8, ..Self::EMPTY };
        set.used_mut().iter_mut().enumerate().for_each(|(word, into)| *into = bits(word));
        set
    }

    /// Its bits, lowest server first.
    pub(crate) const fn words(&self) -> [u64; WORDS] {
        self.words
    }

    #[inline]
    fn used(&self) -> &[u64] {
        &self.words[..usize::from(self.used)]
    }

    #[inline]
    fn used_mut(&mut self) -> &mut [u64] {
        &mut self.words[..usize::from(self.used)]
    }

    /// A set of one.
    pub fn only(server: ServerId) -> Self {
        let mut set = Self::EMPTY;
        set.insert(server);
        set
    }

    /// Whether the server is in the set.
    #[inline]
    pub const fn contains(&self, server: ServerId) -> bool {
        self.words[server.index() / 64] >> (server.index() % 64) & 1 == 1
    }

    /// Adds a server; false if it was there.
    #[inline]
    pub fn insert(&mut self, server: ServerId) -> bool {
        let (word, bit) = (server.index() / 64, 1 << (server.index() % 64));
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.used = self.used.max(word as u8 + 1);
        new
    }

    /// Takes a server out.
    pub fn remove(&mut self, server: ServerId) {
        self.words[server.index() / 64] &= !(1 << (server.index() % 64));
    }

    /// The servers in both sets.
    #[inline]
    pub fn and(mut self, other: &Self) -> Self {
        self.used_mut().iter_mut().zip(&other.words).for_each(|(a, b)| *a &= b);
        self
    }

    /// How many. Counting bits is not free where the processor's own instruction cannot be assumed.
    pub fn len(&self) -> usize {
        self.used().iter().filter(|word| **word != 0).map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.used().iter().all(|word| *word == 0)
    }

    /// The members in ascending order.
    #[inline]
    pub fn iter(&self) -> Members<'_> {
        let (bits, rest) = self.used().split_first().map_or((0, &[][..]), |(bits, rest)| (*bits, rest));
        Members { bits, rest, base: 0 }
    }
}

impl PartialEq for ServerSet {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Eq for ServerSet {}

/// See [`ServerSet::iter`].
#[derive(Clone, Debug)]
pub struct Members<'a> {
    /// What is left of the current word.
    bits: u64,
    /// The words after it.
    rest: &'a [u64],
    /// The current word's first server.
    base: u16,
}

impl Iterator for Members<'_> {
    type Item = ServerId;

    #[inline]
    fn next(&mut self) -> Option<ServerId> {
        while self.bits == 0 {
            (self.bits, self.rest) = self.rest.split_first().map(|(bits, rest)| (*bits, rest))?;
            self.base += 64;
        }
        let bit = self.bits.trailing_zeros() as u16;
        self.bits &= self.bits - 1;
        Some(ServerId(self.base + bit))
    }
}

impl<'a> IntoIterator for &'a ServerSet {
    type Item = ServerId;
    type IntoIter = Members<'a>;

    fn into_iter(self) -> Members<'a> {
        self.iter()
    }
}

impl FromIterator<ServerId> for ServerSet {
    fn from_iter<I: IntoIterator<Item = ServerId>>(servers: I) -> Self {
        let mut set = Self::EMPTY;
        for server in servers {
            set.insert(server);
        }
        set
    }
}

/// Words of a set.
pub(crate) const WORDS: usize = SERVERS_MAX / 64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn sets_hold_what_was_put_in() {
        for count in [0, 1, 63, 64, 65, 1000, SERVERS_MAX] {
            let set = ServerSet::first(count);
            assert_eq!(set.len(), count);
            assert_eq!(set.iter().map(ServerId::index).collect::<Vec<_>>(), (0..count).collect::<Vec<_>>());
        }
        let mut set: ServerSet = [ServerId(3), ServerId(700)].into_iter().collect();
        assert!(set.contains(ServerId(700)) && !set.insert(ServerId(3)));
        set.remove(ServerId(700));
        assert_eq!(set, ServerSet::only(ServerId(3)));
        assert!(set.and(&ServerSet::first(3)).is_empty());
    }
}
