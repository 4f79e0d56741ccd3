//! Calls that must not meet at servers which believe for a while what they once knew (see `fencing`):
//! what each changes or looks at besides its object and its place, from when it leaves until it is
//! over.

use crate::clerk::Leads;
use crate::realm::Realm;
use crate::translate::Meaning;
use midas_core::id::ServerId;
use midas_core::key::Key;
use midas_core::op::Op;
use midas_core::route::apart::Side;
use midas_core::shard::{Busy, UnderWay, listing};
use midas_core::time::Time;

/// The part that a call takes in something besides its object and its place.
enum How {
    /// The call changes it; alone, or beside others at the same server.
    Changed { key: Key, alone: bool },
    /// The call must not meet the other side there.
    Met { key: Key, side: Side },
}

impl Realm {
    /// A call leaves for a server: what it changes or reads besides its object and place counts as
    /// being changed or read until it is over. None: another call that it must not meet is under way.
    pub(crate) fn leave_too(
        &self,
        now: Time,
        meaning: &Meaning,
        also: &[Key],
        server: ServerId,
    ) -> Option<Vec<(Key, UnderWay)>> {
        let mut under_way = Vec::new();
        for (place, how) in self.met_too(meaning, also) {
            // The part is let go before others are locked.
            let left = {
                let shard = &mut self.part(place).shard;
                match how {
                    How::Changed { key, alone } => shard.leave_too(now, key, alone, server),
                    How::Met { key, side } => shard.meet_too(now, key, side),
                }
            };
            match left {
                Ok(left) => under_way.push((place, left)),
                Err(Busy) => {
                    for (part, under_way) in under_way {
                        self.part(part).shard.give_back(now, under_way);
                    }
                    return None;
                }
            }
        }
        Some(under_way)
    }

    /// Everything that a call meets besides its object and place, each with the key of its part.
    fn met_too(&self, meaning: &Meaning, also: &[Key]) -> Vec<(Key, How)> {
        if !self.stale() {
            return Vec::new();
        }
        let (renames, Meaning { op, place, object, second, .. }) = (meaning.op == Op::Rename, *meaning);
        // Many change a directory at a time.
        let directory = second.filter(|_| renames).map(|(directory, _)| directory);
        let alone = |key: Key| directory != Some(key);
        let changed = also.iter().map(|key| (*key, How::Changed { key: *key, alone: alone(*key) }));
        let objects = also.iter().filter(|key| alone(**key));
        let unread = objects.map(|key| (*key, How::Met { key: *key, side: Side::Changes }));
        let mut met: Vec<(Key, How)> = unread.chain(changed).collect();
        if let Some((directory, name)) = second.filter(|(_, name)| renames && *name != object) {
            met.push((directory, How::Changed { key: name, alone: true }));
        }
        if renames {
            let other = directory.filter(|directory| *directory != place);
            let listed = |key| (key, How::Met { key: listing(key), side: Side::Changes });
            met.extend([Some(place), other].into_iter().flatten().map(listed));
        }
        if op == Op::Lookup {
            // A server that is asked for a name looks at its object.
            let found = self.part(place).names.find(object).and_then(Leads::object);
            met.extend(found.map(|key| (key, How::Met { key, side: Side::Reads })));
        }
        met
    }

    /// The call is over.
    pub(crate) fn over_too(&self, now: Time, under_way: Vec<(Key, UnderWay)>) {
        for (part, under_way) in under_way {
            self.part(part).shard.over(now, under_way);
        }
    }
}
