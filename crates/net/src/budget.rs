//! A bound on the memory that records take over all connections of a process.
//!
//! A record that is larger than what a connection may hold anyway reserves its whole size before it is read on: all or
//! nothing, so that two halves cannot wait for each other. A connection without its reservation is not read; the one that
//! holds it and sends nothing is ended by its owner's stall rule.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes in use, under a cap.
#[derive(Clone, Debug)]
pub struct Budget {
    cap: usize,
    used: Arc<AtomicUsize>,
    /// One holder's part of these bytes, under a cap of its own.
    share: Option<Share>,
}

#[derive(Clone, Debug)]
struct Share {
    cap: usize,
    used: Arc<AtomicUsize>,
}

impl Budget {
    /// Room for `cap` bytes.
    pub fn new(cap: usize) -> Self {
        Self { cap, used: Arc::default(), share: None }
    }

    /// The same bytes under a lower cap: for those who must leave room to others.
    pub fn capped(&self, cap: usize) -> Self {
        Self { cap, used: Arc::clone(&self.used), share: None }
    }

    /// The same bytes for one holder, which may have `cap` of them. The holder's connections share `used`.
    pub fn share(&self, cap: usize, used: Arc<AtomicUsize>) -> Self {
        Self { cap: self.cap, used: Arc::clone(&self.used), share: Some(Share { cap, used }) }
    }

    /// Bytes that are not reserved; of a holder's share, if that is less.
    pub fn left(&self) -> usize {
        let left = |cap: usize, used: &AtomicUsize| cap.saturating_sub(used.load(Ordering::Relaxed));
        let own = self.share.as_ref().map_or(usize::MAX, |share| left(share.cap, &share.used));
        left(self.cap, &self.used).min(own)
    }

    /// Whether more is used than the cap.
    fn over(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.cap
    }

    pub(crate) fn reserve(&self, bytes: usize) -> bool {
        if self.share.as_ref().is_some_and(|share| !reserve(share.cap, &share.used, bytes)) {
            return false;
        }
        let reserved = reserve(self.cap, &self.used, bytes);
        if let Some(share) = self.share.as_ref().filter(|_| !reserved) {
            share.used.fetch_sub(bytes, Ordering::Relaxed);
        }
        reserved
    }

    /// For bytes that are held already: one read may bring more than there was room for.
    pub(crate) fn force(&self, bytes: usize) {
        for used in self.all() {
            used.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn release(&self, bytes: usize) {
        for used in self.all() {
            used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn all(&self) -> impl Iterator<Item = &AtomicUsize> {
        std::iter::once(&*self.used).chain(self.share.as_ref().map(|share| &*share.used))
    }
}

fn reserve(cap: usize, used: &AtomicUsize, bytes: usize) -> bool {
    let enough = |used: usize| Some(used + bytes).filter(|used| *used <= cap);
    used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enough).is_ok()
}

/// One event loop's share of a budget: small sums are taken and given back without touching what all loops share.
#[derive(Debug)]
pub struct Purse {
    budget: Budget,
    /// Taken from the budget and not spent.
    spare: usize,
}

impl Purse {
    /// An empty purse.
    pub fn new(budget: Budget) -> Self {
        Self { budget, spare: 0 }
    }

    /// Takes bytes that are held already, whether or not there is room: the owner looks at [`Purse::empty`] before it takes more.
    pub fn spend(&mut self, bytes: usize) {
        if self.spare < bytes {
            let more = (bytes - self.spare).max(SUM);
            self.budget.force(more);
            self.spare += more;
        }
        self.spare -= bytes;
    }

    /// Gives bytes back.
    pub fn earn(&mut self, bytes: usize) {
        self.spare += bytes;
        if self.spare > 2 * SUM {
            self.budget.release(self.spare - SUM);
            self.spare = SUM;
        }
    }

    /// Whether nothing more should be taken.
    pub fn empty(&self) -> bool {
        self.budget.over()
    }
}

impl Drop for Purse {
    fn drop(&mut self) {
        self.budget.release(self.spare);
    }
}

/// What is taken from a budget at once.
const SUM: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_all_or_nothing() {
        let budget = Budget::new(10);
        assert!(budget.reserve(6));
        assert!(!budget.reserve(5));
        assert_eq!(budget.left(), 4);
        budget.release(6);
        assert!(budget.reserve(10));
    }

    #[test]
    fn a_purse_takes_from_its_budget_and_gives_back() {
        let budget = Budget::new(10 * SUM);
        let mut purse = Purse::new(budget.clone());
        purse.spend(100);
        assert_eq!(budget.left(), 9 * SUM);
        purse.spend(20 * SUM);
        assert!(purse.empty());
        purse.earn(20 * SUM);
        assert!(!purse.empty());
        drop(purse);
        assert_eq!(budget.left(), 10 * SUM - 100, "what was spent is still held");
    }

    #[test]
    fn a_lower_cap_leaves_room_to_others() {
        let budget = Budget::new(100);
        let large = budget.capped(75);
        assert!(large.reserve(75) && !large.reserve(1));
        assert!(budget.reserve(25));
    }

    #[test]
    fn one_holder_has_its_share_and_the_others_have_theirs() {
        let budget = Budget::new(100);
        let used = Arc::<AtomicUsize>::default();
        let (one, same) = (budget.share(30, Arc::clone(&used)), budget.share(30, used));
        let other = budget.share(80, Arc::default());
        assert!(one.reserve(20) && !same.reserve(11) && same.reserve(10));
        assert_eq!(same.left(), 0);
        assert!(other.reserve(70) && !other.reserve(1), "all of it is taken");
        assert_eq!(other.left(), 0);
        one.release(20);
        assert_eq!((budget.left(), same.left(), other.left()), (20, 20, 10));
    }
}
