//! Calls under way on one connection: a fixed table, found by xid without a search.
//!
//! An xid is a slot's number plus a multiple of `stride`, and moves on by `stride` with every use: replies in any order find
//! their slot by a mask, a late reply finds it taken by another xid, and no two calls of a run share one before 2^32 calls.

use crate::clock::Nanos;
use crate::job::Job;

/// What a call under way is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) xid: u32,
    pub(crate) stamp: u32,
    pub(crate) job: Job,
    /// When it should have been sent, and when it was.
    pub(crate) intended: Nanos,
    pub(crate) sent: Nanos,
    /// How often it was sent again.
    pub(crate) resent: u32,
    /// What the next call of this slot is about, for operations that need a file of their own.
    pub(crate) script: Script,
    busy: bool,
}

/// A slot's own file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Script {
    /// The number in its name.
    pub(crate) count: u32,
    /// Whether it is there.
    pub(crate) exists: bool,
}

/// The slots of one connection.
#[derive(Debug)]
pub(crate) struct Slots {
    table: Vec<Slot>,
    free: Vec<u32>,
    /// The first slot's number among those of the run.
    base: u32,
    stride: u32,
}

impl Slots {
    /// `count` slots from number `base` on; `stride` is a power of two above every slot's number, `seed` any number.
    pub(crate) fn new(count: u32, base: u32, stride: u32, seed: u32) -> Self {
        assert!(stride.is_power_of_two() && base + count <= stride, "slots must fit the stride");
        let slot = |index| Slot {
            xid: (seed & !(stride - 1)) + base + index,
            stamp: 0,
            job: Job::IDLE,
            intended: 0,
            sent: 0,
            resent: 0,
            script: Script::default(),
            busy: false,
        };
        Self { table: (0..count).map(slot).collect(), free: (0..count).rev().collect(), base, stride }
    }

    /// An idle slot with a new xid, and its number among those of the run; none if all are busy.
    pub(crate) fn take(&mut self) -> Option<(u32, &mut Slot)> {
        let index = self.free.pop()?;
        let slot = &mut self.table[index as usize];
        slot.xid = slot.xid.wrapping_add(self.stride);
        (slot.busy, slot.resent) = (true, 0);
        Some((self.base + index, slot))
    }

    /// The call that a reply belongs to: it is over. None for a reply that nobody waits for.
    pub(crate) fn settle(&mut self, xid: u32) -> Option<&mut Slot> {
        let index = (xid & (self.stride - 1)).checked_sub(self.base)?;
        let slot = self.table.get_mut(index as usize).filter(|slot| slot.busy && slot.xid == xid)?;
        slot.busy = false;
        self.free.push(index);
        Some(slot)
    }

    /// Calls under way.
    pub(crate) fn busy(&self) -> usize {
        self.table.len() - self.free.len()
    }

    pub(crate) fn any_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// The calls under way, in no order.
    pub(crate) fn under_way(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.table.iter_mut().filter(|slot| slot.busy)
    }

    /// When the call that was sent first was sent.
    pub(crate) fn oldest(&self) -> Option<Nanos> {
        self.table.iter().filter(|slot| slot.busy).map(|slot| slot.sent).min()
    }

    /// The calls that were sent by then: their xids, the oldest first.
    pub(crate) fn sent_by(&self, then: Nanos) -> Vec<u32> {
        let mut sent: Vec<&Slot> = self.table.iter().filter(|slot| slot.busy && slot.sent <= then).collect();
        sent.sort_unstable_by_key(|slot| slot.sent);
        sent.into_iter().map(|slot| slot.xid).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_in_any_order_find_their_call_once() {
        let mut slots = Slots::new(3, 5, 8, 0xdead_beef);
        let xids: Vec<u32> = (0..3).map(|_| slots.take().unwrap().1.xid).collect();
        assert!(slots.take().is_none());
        assert_eq!(xids.iter().map(|xid| xid & 7).collect::<Vec<_>>(), [5, 6, 7]);
        for xid in [xids[1], xids[2], xids[0]] {
            assert_eq!(slots.settle(xid).map(|slot| slot.xid), Some(xid));
            assert!(slots.settle(xid).is_none(), "a second reply belongs to nobody");
        }
        assert_eq!(slots.busy(), 0);
    }

    #[test]
    fn a_late_reply_does_not_settle_the_next_call_of_its_slot() {
        let mut slots = Slots::new(1, 0, 1, 7);
        let old = slots.take().unwrap().1.xid;
        assert!(slots.settle(old).is_some());
        let new = slots.take().unwrap().1.xid;
        assert!(new != old && slots.settle(old).is_none() && slots.settle(new).is_some());
    }

    #[test]
    fn xids_of_other_connections_are_nobodys() {
        let mut slots = Slots::new(2, 2, 8, 0);
        slots.take();
        for xid in [0, 1, 4, 7, u32::MAX] {
            assert!(slots.settle(xid).is_none());
        }
    }
}
