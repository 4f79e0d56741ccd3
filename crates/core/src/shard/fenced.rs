//! The fences of a part of the key space: where its objects must be read and changed, because other
//! servers may not know their newest state; and which calls must not meet at a server.

use super::{Busy, Shard};
use crate::decision::Route;
use crate::id::ServerId;
use crate::key::Key;
use crate::op::Op;
use crate::route::apart::{Enter, Side};
use crate::route::feasible::{Bound, Target};
use crate::route::fence::Leave;
use crate::servers::Servers;
use crate::time::{Span, Time};
use core::hash::Hash;

/// The keys that count as being read or changed by a call until it ends. Must be given back to
/// [`Shard::over`].
#[derive(Debug, Default)]
pub struct UnderWay {
    /// Its object, and the directory that names it, if it changes them.
    fenced: [Option<Key>; 2],
    /// The key at which it must not meet the other side.
    apart: Option<Key>,
}

impl<K: Copy + Eq + Hash + Ord, V: Clone> Shard<K, V> {
    /// The one server that surely knows the newest state of a name or object, if others may not. Of
    /// a name that is looked up it is the one that changed the name last; whoever changes a name
    /// does so where its directory was changed last.
    #[inline]
    pub fn fence(&self, now: Time, servers: &Servers, object: Key, place: Key) -> Option<ServerId> {
        self.fenced_at(now, servers, &Target::new(Op::Lookup, place, object)).map(|(server, _)| server)
    }

    /// The one server that a call must go to, because others may not know the newest state.
    #[inline]
    pub fn fenced_at(&self, now: Time, servers: &Servers, target: &Target) -> Option<(ServerId, Bound)> {
        let [first, second] = match target.op.mutates() {
            true => [target.place, target.object],
            false => [target.object, target.place],
        };
        let own = match target.op == Op::Lookup && first != second {
            true => self.fences.find_name(now, first, second),
            false => self.fences.find(now, first).or_else(|| self.fences.find(now, second)),
        };
        match own {
            Some(server) => Some((server, Bound::Fenced)),
            None if self.fences.all(now) => Some((servers.acting_home(target.place)?, Bound::Unknown)),
            None => None,
        }
    }

    /// Whether a name that was changed may be looked up anywhere by whoever knows what it resolves
    /// to.
    pub fn name_is_settled(&self, now: Time, name: Key, directory: Key) -> bool {
        self.fences.name_is_settled(now, name, directory)
    }

    /// Objects that have a fence of their own.
    pub fn fences(&self, now: Time) -> usize {
        self.fences.standing(now)
    }

    /// Whether this server surely knew the newest state of an object from then on.
    pub fn knew(&self, then: Time, servers: &Servers, object: Key, server: ServerId) -> bool {
        let at_home = || servers.acting_home(object).is_none_or(|home| home == server);
        self.fences.knew(then, object, server).unwrap_or_else(at_home)
    }

    /// The same of an object that is new: where nothing is known of it in particular, nobody knows
    /// anything old.
    pub fn knew_new(&self, then: Time, object: Key, server: ServerId) -> bool {
        self.fences.knew(then, object, server).unwrap_or(true)
    }

    /// Whether a mutation of this object has left, or come back, since then, as far as its fence
    /// tells.
    pub fn changed_since(&self, then: Time, object: Key) -> bool {
        self.fences.lasts_past(object, then + self.staleness)
    }

    /// A mutation of something else changes this object too, at this server; a fence that another
    /// server holds stays if `moves` is false.
    pub fn raise(&mut self, now: Time, object: Key, server: ServerId, moves: bool) {
        let held = self.fences.find(now, object).is_some_and(|at| at != server);
        if moves || !held {
            self.fences.raise(now, object, server, now + self.staleness);
        }
    }

    /// The same of a mutation that may still be executed: it has no answer.
    pub fn raise_lost(&mut self, now: Time, object: Key, server: ServerId) {
        if self.fences.find(now, object).is_none_or(|at| at == server) {
            self.fences.raise(now, object, server, now + self.staleness + self.cache.hold_max());
        }
    }

    /// A call on an object that another server may not know the newest state of goes where it was
    /// changed; while that is not known of each object, home.
    pub(super) fn fenced(&self, now: Time, servers: &Servers, target: Target) -> Target {
        let bound = target.bound.or_else(|| self.fenced_at(now, servers, &target));
        Target { bound, ..target }
    }

    /// A call leaves for a server. Until a mutation is over, what it changes is read where it runs.
    /// None: another server is just changing the same; or a SETATTR, of two of which a head of
    /// Ganesha may take the first for the last; or a read or a change that the call must not meet;
    /// or no fence is free: then its object must be changed at home.
    pub(super) fn leave(
        &mut self,
        now: Time,
        target: &Target,
        server: ServerId,
        home: Option<ServerId>,
    ) -> Option<UnderWay> {
        if self.staleness == Span::ZERO {
            return Some(UnderWay::default());
        }
        let (apart, side) = (kept_apart(target), side(target.op));
        let apart = match apart.map(|key| (key, self.apart.enter(now, key, side))) {
            Some((_, Enter::Busy)) => return None,
            Some((key, Enter::Counted)) => Some(key),
            Some((_, Enter::Uncounted)) | None => None,
        };
        let fenced = if target.op.mutates() { self.fence_own(now, target, server, home) } else { Some([None; 2]) };
        if let (None, Some(key)) = (fenced, apart) {
            self.apart.give_back(now, key);
        }
        fenced.map(|fenced| UnderWay { fenced, apart })
    }

    /// Counts the object or the name and directory of a mutation as being changed.
    fn fence_own(
        &mut self,
        now: Time,
        target: &Target,
        server: ServerId,
        home: Option<ServerId>,
    ) -> Option<[Option<Key>; 2]> {
        if target.place == target.object {
            let object = self.leaves(now, (target.object, target.op == Op::Setattr), server).ok()?;
            return (object.is_some() || home == Some(server)).then_some([object, None]);
        }
        // Of a name one mutation is under way at a time: the second may change what the first has made.
        let name = match self.fences.leave(now, target.object, true, server) {
            Leave::Counted => Some(target.object),
            // Its directory is searched where this runs.
            Leave::Uncounted => None,
            Leave::Busy => return None,
        };
        match self.leaves(now, (target.place, false), server) {
            Ok(place) if place.is_some() || home == Some(server) => Some([name, place]),
            Ok(_) | Err(Busy) => {
                self.spare(now, [name, None]);
                None
            }
        }
    }

    fn leaves(&mut self, now: Time, (key, alone): (Key, bool), server: ServerId) -> Result<Option<Key>, Busy> {
        match self.fences.leave(now, key, alone, server) {
            Leave::Counted => Ok(Some(key)),
            Leave::Uncounted => {
                self.fences.raise_all(now + self.staleness + self.cache.hold_max());
                Ok(None)
            }
            Leave::Busy => Err(Busy),
        }
    }

    /// A mutation of something else changes this object too, or a name, and leaves for a server.
    pub fn leave_too(&mut self, now: Time, key: Key, alone: bool, server: ServerId) -> Result<UnderWay, Busy> {
        self.leaves(now, (key, alone), server).map(|key| UnderWay { fenced: [key, None], apart: None })
    }

    /// A call reads this object too, or changes it in a way that no read may meet, and leaves for a
    /// server.
    pub fn meet_too(&mut self, now: Time, key: Key, side: Side) -> Result<UnderWay, Busy> {
        let apart = match self.apart.enter(now, key, side) {
            Enter::Counted => Some(key),
            Enter::Uncounted => None,
            Enter::Busy => return Err(Busy),
        };
        Ok(UnderWay { fenced: [None; 2], apart })
    }

    /// A call that was to be under way does not leave now, and will ask again.
    pub fn give_back(&mut self, now: Time, UnderWay { fenced, apart }: UnderWay) {
        self.spare(now, fenced);
        if let Some(key) = apart {
            self.apart.give_back(now, key);
        }
    }

    /// A call is no longer under way.
    pub fn over(&mut self, now: Time, UnderWay { fenced, apart }: UnderWay) {
        self.spare(now, fenced);
        if let Some(key) = apart {
            self.apart.leave(now, key);
        }
    }

    fn spare(&mut self, now: Time, fenced: [Option<Key>; 2]) {
        fenced.into_iter().flatten().for_each(|key| self.fences.spare(now, key));
    }

    /// A mutation has changed its object and the directory that names it; both are read where it
    /// ran. One that failed (`moves` is false) leaves them to a server that is known to have
    /// changed them.
    pub(super) fn raise_own(&mut self, now: Time, target: &Target, route: &Route, span: Span, moves: bool) {
        let held = |key| self.fences.find(now, key).is_some_and(|at| at != route.to);
        if self.staleness == Span::ZERO || !moves && (held(target.object) || held(target.place)) {
            return;
        }
        match target.place == target.object {
            true => self.fences.raise(now, target.object, route.to, now + span),
            false => self.fences.raise_name(now, target.object, target.place, route.to, now + span),
        }
    }
}

/// The key of a directory's listing, which is not read while a name in it is replaced: a head of
/// Ganesha leaves the name out.
pub fn listing(directory: Key) -> Key {
    directory.child(LISTING)
}

/// The key at which a call must not meet the other side. WRITEs of one file go beside everything:
/// its readers and writers would do nothing but wait otherwise.
fn kept_apart(target: &Target) -> Option<Key> {
    match target.op {
        Op::Getattr | Op::Access | Op::Read | Op::Readlink | Op::Setattr => Some(target.object),
        Op::List => Some(listing(target.place)),
        Op::Lookup | Op::Statfs | Op::Create | Op::Remove | Op::Rename | Op::Link | Op::Write | Op::Commit => None,
    }
}

const fn side(op: Op) -> Side {
    if op.mutates() { Side::Changes } else { Side::Reads }
}

/// No directory has a name with this number.
const LISTING: u64 = 0x6c69_7374_696e_6773;
