//! Late copies, as members tell each other of them: a call that was moved away from its server may
//! still run there, and nobody else changes the same meanwhile (`exclusive`), through whichever
//! member.
//!
//! The messages go among those of leases, so a member hears of a late copy before it hears that the
//! call is lost, and before it is asked to let the second sending through. Where nothing is kept
//! nobody is asked; so the second sending also waits until every member of the view, and everyone
//! else who is reached, has said that it heard of the copy, at most for a lease. Who did not say so
//! is told again, as is a member that comes later. A member takes a copy for over when its owner
//! says so, or when its time is.

use super::{Accord, Inner};
use crate::exclusive::Keys;
use crate::pool::lock;
use midas_core::key::Key;
use midas_core::peer::lease::{Life, Operation};
use midas_core::time::{Span, Time};
use midas_nfs::xdr::{Malformed, Reader, put};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The late copies of this proxy's calls, and which members have heard of each.
pub(super) struct Lates {
    lease: Span,
    inner: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    copies: BTreeMap<u64, Copied>,
    /// When they were last looked at, and how many had ended then.
    looked_at: Option<Time>,
    ends: u64,
}

#[derive(Debug)]
struct Copied {
    keys: Keys,
    of: Operation,
    until: Time,
    since: Time,
    told_at: Time,
    /// Members that have heard of it, a bit each.
    heard: u64,
}

/// A message about late copies.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The sender has left this one, which may change these for so long. The call that left it may
    /// come again through another member; 0 if it may be executed twice.
    Left { number: u64, left: Span, keys: Keys, of: Operation },
    /// This one of the sender cannot run any more.
    Over { number: u64 },
    /// The sender has heard of this one, which this life has left.
    Heard { incarnation: u64, number: u64 },
}

impl Lates {
    pub(super) fn new(lease: Span) -> Self {
        Self { lease, inner: Mutex::default() }
    }

    /// A late copy was left: what is said of it. None if there are too many.
    fn left(&self, now: Time, number: u64, keys: Keys, of: Operation, until: Time) -> Option<Said> {
        let mut known = lock(&self.inner);
        if known.copies.len() >= TOLD_MAX {
            return None;
        }
        known.copies.insert(number, Copied { keys, of, until, since: now, told_at: now, heard: 0 });
        Some(Said::Left { number, left: until.since(now), keys, of })
    }

    /// It would change this as well: what is said of it. None if it is over, or knows that.
    fn keeps_also(&self, now: Time, number: u64, key: Key) -> Option<Said> {
        let mut known = lock(&self.inner);
        let copy = known.copies.get_mut(&number)?;
        *copy.keys.iter_mut().find(|key| key.is_none())? = Some(key);
        (copy.told_at, copy.heard) = (now, 0);
        Some(Said::Left { number, left: copy.until.since(now), keys: copy.keys, of: copy.of })
    }

    /// Whether these members, a bit each, have heard of these copies or were waited for in vain.
    fn known_to(&self, now: Time, members: u64, numbers: &[u64]) -> bool {
        let known = lock(&self.inner);
        let mut copies = numbers.iter().filter_map(|number| known.copies.get(number));
        copies.all(|copy| copy.heard & members == members || now.since(copy.since) >= self.lease)
    }

    fn heard(&self, member: u8, number: u64) {
        if let Some(copy) = lock(&self.inner).copies.get_mut(&number) {
            copy.heard |= 1 << member;
        }
    }

    /// That member may know nothing any more, or another life of it may come.
    pub(super) fn unheard(&self, member: u8) {
        lock(&self.inner).copies.values_mut().for_each(|copy| copy.heard &= !(1 << member));
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.inner).copies.is_empty()
    }

    /// The copies to be looked at, if some have ended or some time has passed since the last look.
    fn due(&self, now: Time, ends: u64) -> Option<Vec<u64>> {
        let mut known = lock(&self.inner);
        let recent = known.looked_at.is_some_and(|looked_at| now.since(looked_at) < AGAIN);
        if known.copies.is_empty() || recent && known.ends == ends {
            return None;
        }
        (known.looked_at, known.ends) = (Some(now), ends);
        Some(known.copies.keys().copied().collect())
    }

    /// These are over.
    fn forget(&self, numbers: &[u64]) {
        let mut known = lock(&self.inner);
        for number in numbers {
            known.copies.remove(number);
        }
    }

    /// What is to be said again, and to which of these members, a bit each.
    fn again(&self, now: Time, members: u64) -> Vec<(u64, Said)> {
        let mut known = lock(&self.inner);
        let waits = |copy: &Copied| copy.heard & members != members && now.since(copy.told_at) >= AGAIN;
        let copies = known.copies.iter_mut().filter(|(_, copy)| waits(copy)).take(AT_ONCE);
        let said = |(number, copy): (&u64, &mut Copied)| {
            copy.told_at = now;
            let said = Said::Left { number: *number, left: copy.until.since(now), keys: copy.keys, of: copy.of };
            (members & !copy.heard, said)
        };
        copies.map(said).collect()
    }
}

impl Accord {
    /// A call has left a late copy behind, which may run until then: the others are told.
    pub(crate) fn tell_late(&self, number: u64, keys: Keys, of: Option<Operation>, until: Time) {
        self.step(|now, inner| {
            let said = self.lates.left(now, number, keys, of.unwrap_or(REPEATABLE), until);
            inner.say_late(self.reached(), said.as_ref());
        });
    }

    /// Late copies would change this as well: the others are told.
    pub(crate) fn tell_late_keeps(&self, numbers: &[u64], key: Key) {
        self.step(|now, inner| {
            for number in numbers {
                let said = self.lates.keeps_also(now, *number, key);
                inner.say_late(self.reached(), said.as_ref());
            }
        });
    }

    /// Late copies may have ended: the cluster's thread tells the others.
    pub(crate) fn lates_ended(&self) {
        self.ring(true);
    }

    /// Whether the others have heard of these late copies, or were waited for long enough.
    pub(crate) fn knows_lates(&self, numbers: &[u64]) -> bool {
        // A link may be broken for a moment.
        let present = self.fetches.present().into_iter().fold(self.reached(), |members, member| members | 1 << member);
        self.lates.known_to(self.clock.now(), present, numbers)
    }

    /// Ends are told, and copies to who has not heard of them.
    pub(super) fn tend_lates(&self, now: Time, inner: &mut Inner) {
        let Some(shared) = self.around.get().and_then(|around| around.shared.upgrade()) else { return };
        let Some(numbers) = self.lates.due(now, shared.turns.ends()) else { return };
        let over = shared.turns.over(numbers.into_iter());
        self.lates.forget(&over);
        let reached = self.reached();
        for number in over {
            inner.say_late(reached, Some(&Said::Over { number }));
        }
        for (members, said) in self.lates.again(now, reached) {
            inner.say_late(members, Some(&said));
        }
    }

    /// Another member tells of late copies.
    pub(super) fn late_said(&self, now: Time, inner: &mut Inner, from: Life, said: &Said) {
        let Some(shared) = self.around.get().and_then(|around| around.shared.upgrade()) else { return };
        match *said {
            Said::Left { number, left, keys, of } => {
                // The owner's clock may be slower than this one.
                let until = now + left.min(LEFT_MAX).scale(DRIFT);
                if shared.turns.heard((from, number), keys, of, until) {
                    let said = Said::Heard { incarnation: from.incarnation, number };
                    inner.say_late(1 << from.member.0, Some(&said));
                }
            }
            Said::Over { number } => shared.turns.heard_over((from, number)),
            Said::Heard { incarnation, number } if self.fetches.mine(incarnation) => {
                self.lates.heard(from.member.0, number);
            }
            Said::Heard { .. } => {}
        }
    }

    /// The other members that serve clients and can be reached, a bit each.
    fn reached(&self) -> u64 {
        self.fetches.others().fold(0, |members, member| members | 1 << member)
    }
}

impl Inner {
    /// Says this to these members, a bit each.
    fn say_late(&mut self, members: u64, said: Option<&Said>) {
        let Some(said) = said else { return };
        let of_those = self.outbox.iter_mut().enumerate().filter(|(member, _)| members >> member & 1 == 1);
        for (_, outbox) in of_those {
            encode(outbox, said);
            self.counts.messages += 1;
        }
    }
}

fn encode(out: &mut Vec<u8>, said: &Said) {
    let begin = out.len();
    put::u32(out, 0);
    match said {
        Said::Left { number, left, keys, of } => {
            put::u32(out, LEFT);
            put::u64(out, *number);
            put::u64(out, left.as_nanos());
            put::u64(out, (of.0 >> 64) as u64);
            put::u64(out, of.0 as u64);
            put::u32(out, keys.iter().flatten().count() as u32);
            keys.iter().flatten().for_each(|key| put::u64(out, key.0));
        }
        Said::Over { number } => {
            put::u32(out, OVER);
            put::u64(out, *number);
        }
        Said::Heard { incarnation, number } => {
            put::u32(out, HEARD);
            put::u64(out, *incarnation);
            put::u64(out, *number);
        }
    }
    let length = (out.len() - begin - 4) as u32;
    out[begin..begin + 4].copy_from_slice(&length.to_be_bytes());
}

/// A message without its length; none if it is of another kind.
pub(super) fn decode(message: &[u8]) -> Result<Option<Said>, Malformed> {
    let mut reader = Reader::new(message);
    let (tag, first) = (reader.u32()?, reader.u64()?);
    Ok(match tag {
        LEFT => {
            let left = Span::from_nanos(reader.u64()?);
            let of = Operation(u128::from(reader.u64()?) << 64 | u128::from(reader.u64()?));
            let count = reader.u32()? as usize;
            let mut keys = Keys::default();
            for key in keys.get_mut(..count).ok_or(Malformed::TooLong)? {
                *key = Some(Key(reader.u64()?));
            }
            Some(Said::Left { number: first, left, keys, of })
        }
        OVER => Some(Said::Over { number: first }),
        HEARD => Some(Said::Heard { incarnation: first, number: reader.u64()? }),
        _ => None,
    })
}

/// No operation: a call that may be executed twice.
const REPEATABLE: Operation = Operation(0);
/// Kinds of messages, counted on from those of leases and fetches.
const LEFT: u32 = 18;
const OVER: u32 = 19;
const HEARD: u32 = 20;
/// Who has not heard of a copy is told again after so long, of so many at once.
const AGAIN: Span = Span::from_millis(250);
const AT_ONCE: usize = 1 << 12;
/// Copies that others are told of: as many as are remembered.
const TOLD_MAX: usize = 1 << 16;
/// The longest `server_hold_max`.
const LEFT_MAX: Span = Span::from_secs(3600);
/// Clocks of members may run apart by so much.
const DRIFT: f64 = 1.02;

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Span = Span::from_secs(5);
    const OF: Operation = Operation(3 << 64 | 4);

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_second_sending_waits_until_all_that_are_reached_have_heard_of_the_first_or_a_lease_is_over() {
        let (lates, keys) = (Lates::new(LEASE), [Some(Key(1)), None]);
        let said = lates.left(at(0), 7, keys, OF, at(60_000));
        assert_eq!(said, Some(Said::Left { number: 7, left: Span::from_secs(60), keys, of: OF }));
        assert!(!lates.known_to(at(1), 0b110, &[7]) && lates.known_to(at(1), 0, &[7]), "nobody is reached");
        lates.heard(1, 7);
        assert!(!lates.known_to(at(1), 0b110, &[7]) && lates.known_to(at(1), 0b010, &[7]));
        lates.heard(2, 7);
        assert!(lates.known_to(at(1), 0b110, &[7]));
        lates.unheard(1);
        assert!(!lates.known_to(at(4999), 0b110, &[7]) && lates.known_to(at(5000), 0b110, &[7]));
        assert!(lates.known_to(at(1), 0b110, &[8]), "it is over");
    }

    #[test]
    fn who_has_not_heard_of_a_copy_is_told_again_and_of_another_key_all_are() {
        let (lates, keys) = (Lates::new(LEASE), [Some(Key(1)), None]);
        lates.left(at(0), 7, keys, OF, at(60_000));
        lates.heard(1, 7);
        assert_eq!((lates.due(at(0), 0), lates.due(at(249), 0)), (Some(vec![7]), None));
        assert_eq!(lates.due(at(249), 1), Some(vec![7]), "another one has ended");
        assert!(lates.again(at(249), 0b110).is_empty());
        let left = |millis, keys| Said::Left { number: 7, left: Span::from_millis(millis), keys, of: OF };
        assert_eq!(lates.again(at(1000), 0b110), [(0b100, left(59_000, keys))]);
        assert!(lates.again(at(1200), 0b110).is_empty());
        lates.unheard(1);
        assert_eq!(lates.again(at(2000), 0b110), [(0b110, left(58_000, keys))], "another life of it");
        let both = [Some(Key(1)), Some(Key(2))];
        assert_eq!(lates.keeps_also(at(3000), 7, Key(2)), Some(left(57_000, both)));
        assert_eq!(lates.keeps_also(at(3000), 7, Key(3)), None);
        lates.forget(&[7]);
        assert!(lates.again(at(9000), 0b110).is_empty() && lates.due(at(9000), 2).is_none());
    }

    #[test]
    fn what_is_said_comes_back_as_it_was_and_every_prefix_of_it_is_refused() {
        let left = Span::from_secs(60);
        let all = [
            Said::Left { number: 7, left, keys: [Some(Key(1)), Some(Key(2))], of: OF },
            Said::Left { number: 7, left, keys: [Some(Key(1)), None], of: REPEATABLE },
            Said::Over { number: 7 },
            Said::Heard { incarnation: 9, number: 7 },
        ];
        for said in &all {
            let mut frame = Vec::new();
            encode(&mut frame, said);
            assert_eq!(decode(&frame[4..]).unwrap().as_ref(), Some(said));
            for length in 4..frame.len() {
                assert!(decode(&frame[4..length]).is_err(), "{said:?} cut at {length}");
            }
            assert_eq!(super::super::wire::message(&frame[4..]), Ok(None), "who does not know it passes over it");
        }
        let mut many = Vec::new();
        encode(&mut many, &all[0]);
        many[4 + 4 + 8 + 8 + 16 + 3] = 3;
        assert_eq!(decode(&many[4..]), Err(Malformed::TooLong));
    }
}
