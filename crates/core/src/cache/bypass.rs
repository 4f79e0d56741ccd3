//! When to stand aside: a full cache that remembers hardly anything of what is read (uniform access over far more keys than
//! fit, as in a deep-learning epoch) is only work. While aside, one key in [`SAMPLE`] is still admitted into one [`SAMPLE`]th
//! of the room. That is the whole cache in miniature, with the same share of remembered keys, so it shows when to come back.

#[derive(Debug)]
pub(super) struct Bypass {
    /// While aside: how many keys the store held when it was full.
    aside: Option<usize>,
    below: f64,
    entries_max: usize,
    seen: usize,
    remembered: usize,
}

impl Bypass {
    pub(super) fn new(entries_max: usize, below: f64) -> Self {
        Self { aside: None, below, entries_max, seen: 0, remembered: 0 }
    }

    /// One read of the key with this hash. `full`: how many keys the store holds, if it can hold no more. Returns the limit
    /// to keep from now on. A store that still fills up is not judged.
    pub(super) fn note(&mut self, hash: u64, remembered: bool, full: Option<usize>) -> usize {
        if self.admits(hash) && full.or(self.aside).is_some() {
            self.seen += 1;
            self.remembered += usize::from(remembered);
        }
        if self.seen >= self.window() {
            self.judge(full);
        }
        self.limit()
    }

    fn judge(&mut self, full: Option<usize>) {
        let share = self.remembered as f64 / self.seen as f64;
        self.aside = match self.aside {
            Some(room) => (share < COME_BACK * self.below).then_some(room),
            None => full.filter(|_| share < self.below),
        };
        (self.seen, self.remembered) = (0, 0);
    }

    /// Whether the key with this hash may enter the store.
    pub(super) fn admits(&self, hash: u64) -> bool {
        self.aside.is_none() || (hash >> SAMPLE_SHIFT).is_multiple_of(SAMPLE as u64)
    }

    pub(super) fn aside(&self) -> bool {
        self.aside.is_some()
    }

    /// How many keys the store may hold now.
    pub(super) fn limit(&self) -> usize {
        self.aside.map_or(self.entries_max, |room| room.div_ceil(SAMPLE).max(1))
    }

    /// One turnover of what the store may hold, and enough reads for a share to mean something.
    fn window(&self) -> usize {
        self.limit().max(WINDOW_MIN)
    }
}

/// Admitted while aside: one key in so many.
const SAMPLE: usize = 16;
/// The bits of the hash that choose the sample; the store's table uses the low and the highest ones.
const SAMPLE_SHIFT: u32 = 40;
/// Reads in a window, at least.
const WINDOW_MIN: usize = 1024;
/// Coming back needs this much more than staying did, so that it does not flap.
const COME_BACK: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::mix;

    #[test]
    fn it_stands_aside_only_when_full_and_useless_and_comes_back() {
        let mut bypass = Bypass::new(1024, 0.05);
        let mut key = 0;
        // (full, one in how many reads is remembered, reads, then aside)
        let phases = [
            (false, 1000, 4096, false),
            (true, 10, 4096, false),
            (true, 100, 2048, true),
            (true, 100, 65_536, true),
            (true, 15, 65_536, true),
            (true, 4, 65_536, false),
        ];
        for (full, one_in, reads, aside) in phases {
            for _ in 0..reads {
                key += 1;
                bypass.note(mix(key), mix(!key).is_multiple_of(one_in), full.then_some(1024));
            }
            assert_eq!(bypass.aside(), aside, "one in {one_in} remembered");
        }
    }
}
