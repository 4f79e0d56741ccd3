//! Objects that must be read where they were changed, because other servers may still answer with the state before.
//!
//! Unlike a pin, a fence is a matter of correctness: it is never forgotten early. When the table is
//! full, a name that would need a new fence has its whole directory searched where it was changed.
//! Everything else that would need one raises one fence around everything: all calls then stay at
//! home until it ends.

use crate::id::ServerId;
use crate::key::Key;
use crate::time::{Span, Time};
use alloc::collections::BTreeMap;

/// At most [`FENCES_MAX`] fenced objects.
#[derive(Clone, Debug, Default)]
pub struct Fences {
    by_object: BTreeMap<Key, Fence>,
    /// While this lies in the future everything goes home.
    all_until: Time,
    /// A full table that was cleared away to little use is not cleared again before.
    rests_until: Time,
    /// How many were left when those that had ended were last cleared away.
    swept: usize,
    /// The latest end of those that were forgotten within their grace: nobody can say what a server knew before that.
    forgotten: Time,
}

/// One fenced object.
#[derive(Clone, Copy, Debug)]
struct Fence {
    server: ServerId,
    /// When it came to that server.
    since: Time,
    /// The end, if no mutation is under way; zero if there was none that changed anything.
    until: Time,
    /// Until then the object itself may be known as it was, and not only the names in it.
    own_until: Time,
    /// Mutations of the object that are under way, all at one server.
    under_way: u32,
    /// The one that is under way goes alone.
    alone: bool,
    runs_at: ServerId,
    /// Until then no other leaves than those at this server that go alone, or do not: such a one had to wait, and has
    /// its turn next.
    drains_until: Time,
    drains_for: (ServerId, bool),
}

/// What becomes of a mutation that wants to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// It may, and counts as under way.
    Counted,
    /// It may, and the table is full: something larger must be fenced.
    Uncounted,
    /// Another server is just changing the same, and nobody could say who was last: it waits.
    Busy,
}

impl Fence {
    fn at(now: Time, server: ServerId, until: Time) -> Self {
        let (own_until, drains_until) = (Time::ZERO, Time::ZERO);
        let drains_for = (server, false);
        Self {
            server,
            since: now,
            until,
            own_until,
            under_way: 0,
            alone: false,
            runs_at: server,
            drains_until,
            drains_for,
        }
    }

    fn comes_to(&mut self, now: Time, server: ServerId) {
        if self.server != server {
            (self.server, self.since) = (server, now);
        }
    }

    fn stands(&self, now: Time) -> bool {
        self.under_way > 0 || now < self.until
    }

    /// Whether a directory must be searched where the fence stands, whichever name is looked up.
    fn binds_searches(&self, now: Time) -> bool {
        self.under_way > 0 || now < self.own_until
    }

    /// Whether an answer may still come to a call that left while it stood.
    fn counts(&self, now: Time) -> bool {
        self.under_way > 0 || self.until > Time::ZERO && now < self.until + GRACE
    }
}

impl Fences {
    /// No fence but one around everything until a point in time.
    pub fn new(all_until: Time) -> Self {
        Self { all_until, ..Self::default() }
    }

    /// A mutation of an object wants to leave for a server: until it is over the object is read
    /// there, or where the fence stands already. One that goes alone waits for all that are under
    /// way, and all others wait for it.
    pub fn leave(&mut self, now: Time, object: Key, alone: bool, server: ServerId) -> Leave {
        if !self.has_room(now, object) {
            return Leave::Uncounted;
        }
        let fence = self.by_object.entry(object).or_insert(Fence::at(now, server, Time::ZERO));
        let another_is_next = now < fence.drains_until && fence.drains_for != (server, alone);
        let apart = alone || fence.alone || fence.runs_at != server;
        if another_is_next || fence.under_way > 0 && apart {
            if now >= fence.drains_until || !another_is_next {
                (fence.drains_until, fence.drains_for) = (now + TURN, (server, alone));
            }
            return Leave::Busy;
        }
        fence.drains_until = Time::ZERO;
        if !fence.stands(now) {
            fence.comes_to(now, server);
        }
        (fence.runs_at, fence.alone) = (server, alone);
        fence.under_way += 1;
        Leave::Counted
    }

    /// A mutation that left is over, and has changed nothing.
    pub fn spare(&mut self, now: Time, object: Key) {
        if let Some(fence) = self.by_object.get_mut(&object) {
            fence.under_way = fence.under_way.saturating_sub(1);
            // What was changed before is still to be known by those who answer late, and whose turn is next.
            if !fence.counts(now) && now >= fence.drains_until {
                self.by_object.remove(&object);
            }
        }
    }

    /// Fences an object at the server that changed it; in a full table everything.
    pub fn raise(&mut self, now: Time, object: Key, server: ServerId, until: Time) {
        if until <= now {
            return;
        }
        match self.raised(now, object, server, until) {
            Some(fence) => fence.own_until = fence.own_until.max(until),
            None => self.raise_all(until),
        }
    }

    /// Fences a name and its directory at the server that changed the name: other names of the
    /// directory are known elsewhere as well. In a full table all names of the directory are read
    /// there.
    pub fn raise_name(&mut self, now: Time, name: Key, directory: Key, server: ServerId, until: Time) {
        if until <= now {
            return;
        }
        match self.raised(now, name, server, until) {
            Some(fence) => fence.own_until = fence.own_until.max(until),
            None => return self.raise(now, directory, server, until),
        }
        if self.raised(now, directory, server, until).is_none() {
            self.raise_all(until);
        }
    }

    /// The fence of an object, at this server from now on; none if the table is full.
    fn raised(&mut self, now: Time, object: Key, server: ServerId, until: Time) -> Option<&mut Fence> {
        if !self.has_room(now, object) {
            return None;
        }
        let fence = self.by_object.entry(object).or_insert(Fence::at(now, server, until));
        fence.comes_to(now, server);
        fence.until = fence.until.max(until);
        Some(fence)
    }

    /// Fences everything at home until a point in time, or for longer if it was before.
    pub fn raise_all(&mut self, until: Time) {
        self.all_until = self.all_until.max(until);
    }

    /// The server that must answer for this object now.
    pub fn find(&self, now: Time, object: Key) -> Option<ServerId> {
        self.by_object.get(&object).filter(|fence| fence.stands(now)).map(|fence| fence.server)
    }

    /// The server that must look this name of a directory up now: where the name was changed, or the directory itself.
    pub fn find_name(&self, now: Time, name: Key, directory: Key) -> Option<ServerId> {
        let searched = || self.by_object.get(&directory).filter(|fence| fence.binds_searches(now));
        self.find(now, name).or_else(|| searched().map(|fence| fence.server))
    }

    /// Whether the name was changed, and neither it nor its directory is being changed: whoever knows what it resolves
    /// to can tell whether another server knows that too.
    pub fn name_is_settled(&self, now: Time, name: Key, directory: Key) -> bool {
        let settled = self.by_object.get(&name).is_some_and(|fence| fence.under_way == 0 && now < fence.until);
        let searched = self.by_object.get(&directory).is_some_and(|fence| fence.binds_searches(now));
        settled && !searched && !self.all(now)
    }

    /// Whether this server surely knew the newest state of an object from then on: it had the
    /// fence, or there was none. None: there is only the fence around everything.
    pub fn knew(&self, then: Time, object: Key, server: ServerId) -> Option<bool> {
        match self.by_object.get(&object).filter(|fence| fence.stands(then)) {
            Some(fence) => Some(fence.server == server && fence.since <= then),
            None if self.all(then) => None,
            None => Some(then >= self.forgotten),
        }
    }

    /// Whether a fence of this object lasts longer than that.
    pub fn lasts_past(&self, object: Key, end: Time) -> bool {
        self.by_object.get(&object).is_some_and(|fence| fence.stands(end))
    }

    /// Whether every object counts as fenced at home.
    pub fn all(&self, now: Time) -> bool {
        now < self.all_until
    }

    /// Objects that have a fence of their own, or had one that nobody has cleared away.
    pub fn len(&self) -> usize {
        self.by_object.len()
    }

    /// Objects that have a fence of their own now.
    pub fn standing(&self, now: Time) -> usize {
        self.by_object.values().filter(|fence| fence.stands(now)).count()
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.by_object.is_empty()
    }

    /// Whether an object has a fence, or can be given one.
    fn has_room(&mut self, now: Time, object: Key) -> bool {
        if self.by_object.contains_key(&object) {
            return true;
        }
        // Each time it has doubled: so clearing away costs little for each fence, and what has ended does not stay.
        if self.by_object.len() >= SWEEP_LEAST.max(2 * self.swept) {
            self.by_object.retain(|_, fence| fence.counts(now));
            self.swept = self.by_object.len();
        }
        if self.by_object.len() >= FENCES_MAX && self.rests_until <= now {
            let forgotten = &mut self.forgotten;
            self.by_object.retain(|_, fence| {
                let stands = fence.stands(now);
                if !stands {
                    *forgotten = (*forgotten).max(fence.until);
                }
                stands
            });
            self.swept = self.by_object.len();
            if self.swept > FENCES_MAX - FENCES_MAX / 16 {
                self.rests_until = now + REST;
            }
        }
        self.by_object.len() < FENCES_MAX
    }
}

/// How long those who change an object wait for one whose turn is next, and which may be gone.
const TURN: Span = Span::from_millis(100);
/// How long after its end a fence is known: calls that left before may take as long to be answered.
const GRACE: Span = Span::from_secs(60);
/// Fences kept one by one.
pub const FENCES_MAX: usize = 1 << 16;
/// How long a full table rests after it was cleared away to little use.
const REST: Span = Span::from_secs(1);
/// Fewer are not worth clearing away.
const SWEEP_LEAST: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_never_forgotten_early() {
        let (mut fences, now) = (Fences::default(), Time::from_nanos(1));
        let until = now + Span::from_secs(60);
        for key in 0..=FENCES_MAX as u64 {
            fences.raise(now, Key(key), ServerId(1), until);
        }
        assert!((0..FENCES_MAX as u64).all(|key| fences.find(now, Key(key)) == Some(ServerId(1))));
        assert_eq!(fences.find(now, Key(FENCES_MAX as u64)), None);
        assert!(fences.all(now) && !fences.all(until));
        fences.raise(until, Key(1 << 40), ServerId(2), until + Span::from_secs(1));
        assert_eq!(fences.find(until, Key(1 << 40)), Some(ServerId(2)));
        assert_eq!(fences.len(), 1, "what has ended makes room");
    }

    #[test]
    fn a_mutation_that_is_under_way_fences_and_one_that_changed_nothing_leaves_no_fence() {
        let (mut fences, now) = (Fences::default(), Time::from_nanos(1));
        let later = |seconds| now + Span::from_secs(seconds);
        assert_eq!(fences.leave(now, Key(1), false, ServerId(1)), Leave::Counted);
        assert_eq!(fences.leave(now, Key(1), false, ServerId(1)), Leave::Counted);
        assert_eq!(fences.find(later(1000), Key(1)), Some(ServerId(1)), "nobody knows when they will be over");
        fences.spare(later(1), Key(1));
        assert_eq!(fences.find(later(1), Key(1)), Some(ServerId(1)));
        fences.spare(later(1), Key(1));
        assert_eq!((fences.find(later(1), Key(1)), fences.is_empty()), (None, true));
    }

    #[test]
    fn what_is_spared_after_a_fence_has_ended_does_not_make_an_older_answer_true() {
        let (mut fences, now) = (Fences::default(), Time::from_nanos(1));
        let later = |seconds| now + Span::from_secs(seconds);
        fences.raise(now, Key(1), ServerId(1), later(60));
        for (at, known) in [(61, Some(false)), (121, Some(true))] {
            assert_eq!(fences.leave(later(at), Key(1), false, ServerId(1)), Leave::Counted);
            fences.spare(later(at), Key(1));
            assert_eq!(fences.find(later(at), Key(1)), None);
            assert_eq!(fences.knew(later(59), Key(1), ServerId(2)), known, "{at} s");
        }
        assert!(fences.is_empty());
    }

    #[test]
    fn what_has_ended_long_ago_is_cleared_away_before_the_table_is_full() {
        let (mut fences, mut now) = (Fences::default(), Time::from_nanos(1));
        for key in 0..100 * SWEEP_LEAST as u64 {
            now += Span::from_secs(1);
            fences.raise(now, Key(key), ServerId(1), now + Span::from_secs(60));
            assert!(fences.len() <= SWEEP_LEAST, "{key}");
        }
        assert_eq!(fences.standing(now), 60);
    }

    #[test]
    fn what_a_full_table_has_forgotten_is_not_believed() {
        let (mut fences, now) = (Fences::default(), Time::from_nanos(1));
        let later = |seconds| now + Span::from_secs(seconds);
        for key in 0..FENCES_MAX as u64 {
            fences.raise(now, Key(key), ServerId(1), later(60));
        }
        fences.raise(later(60), Key(1 << 40), ServerId(2), later(120));
        assert_eq!(fences.knew(later(59), Key(1), ServerId(2)), Some(false));
        assert_eq!(fences.knew(later(60), Key(1), ServerId(2)), Some(true));
    }

    #[test]
    fn a_name_that_finds_no_room_has_its_directory_searched_where_it_was_changed() {
        let (mut fences, now) = (Fences::default(), Time::from_nanos(1));
        let (directory, until) = (Key(1 << 40), now + Span::from_secs(60));
        for name in 0..=FENCES_MAX as u64 {
            fences.raise_name(now, Key(name), directory, ServerId(2), until);
        }
        assert_eq!(fences.len(), FENCES_MAX);
        assert_eq!(fences.find_name(now, Key(FENCES_MAX as u64), directory), Some(ServerId(2)));
        assert!(!fences.all(now), "calls elsewhere are bound by nothing");
        fences.raise_name(now, Key(1 << 41), Key(1 << 42), ServerId(2), until);
        assert!(fences.all(now), "its directory finds no room either");
    }

    #[test]
    fn a_full_table_is_not_cleared_for_every_fence_that_ends() {
        let (mut fences, now) = (Fences::default(), Time::from_nanos(1));
        let later = |millis| now + Span::from_millis(millis);
        for key in 0..FENCES_MAX as u64 {
            fences.raise(now, Key(key), ServerId(1), later(60_000 + key));
        }
        fences.raise(later(60_001), Key(1 << 40), ServerId(1), later(120_000));
        assert!(fences.len() < FENCES_MAX + 1 && fences.find(later(60_001), Key(1 << 40)).is_some());
        fences.raise(later(60_500), Key(1 << 41), ServerId(1), later(120_000));
        fences.raise(later(60_501), Key(1 << 42), ServerId(1), later(120_000));
        assert!(fences.all(later(60_501)), "what has ended since is cleared away later");
        fences.raise(later(61_100), Key(1 << 43), ServerId(1), later(120_000));
        assert_eq!(fences.find(later(61_100), Key(1 << 43)), Some(ServerId(1)));
    }

    #[test]
    fn two_servers_never_change_one_object_at_a_time_and_neither_is_kept_waiting() {
        let (mut fences, now) = (Fences::default(), Time::from_nanos(1));
        let later = |millis| now + Span::from_millis(millis);
        let leave = |fences: &mut Fences, server, at| fences.leave(at, Key(1), false, ServerId(server));
        assert_eq!(leave(&mut fences, 1, now), Leave::Counted);
        assert_eq!(leave(&mut fences, 2, now), Leave::Busy);
        assert_eq!(leave(&mut fences, 1, later(1)), Leave::Busy, "the other waits for its turn");
        fences.spare(later(2), Key(1));
        assert_eq!(leave(&mut fences, 1, later(2)), Leave::Busy, "also when none is under way");
        assert_eq!(leave(&mut fences, 2, later(2)), Leave::Counted);
        assert_eq!(leave(&mut fences, 1, later(2)), Leave::Busy);
        let alone = fences.leave(later(200), Key(1), true, ServerId(2));
        assert_eq!(alone, Leave::Busy, "one that goes alone waits for its own server too");
        assert_eq!(
            leave(&mut fences, 2, later(201)),
            Leave::Busy,
            "and is not kept waiting by those that come after it"
        );
        fences.spare(later(202), Key(1));
        assert_eq!(fences.leave(later(202), Key(1), true, ServerId(2)), Leave::Counted);
        assert_eq!(leave(&mut fences, 2, later(400)), Leave::Busy, "it is alone");
        fences.spare(later(401), Key(1));
        assert_eq!(leave(&mut fences, 2, later(401)), Leave::Counted);
        assert_eq!(leave(&mut fences, 2, later(401)), Leave::Counted, "others go together");
    }

    #[test]
    fn who_has_a_fence_now_did_not_know_before_it_came_there() {
        let (mut fences, now) = (Fences::default(), Time::from_nanos(1));
        let later = |seconds| now + Span::from_secs(seconds);
        fences.raise(now, Key(1), ServerId(1), later(60));
        fences.raise(later(2), Key(1), ServerId(2), later(62));
        let knew = |server, at| fences.knew(later(at), Key(1), ServerId(server));
        assert_eq!([knew(2, 1), knew(2, 2), knew(1, 1), knew(1, 62)], [false, true, false, true].map(Some));
    }

    #[test]
    fn one_that_changed_nothing_leaves_the_fence_of_another_as_it_is() {
        let (mut fences, now) = (Fences::default(), Time::from_nanos(1));
        let later = |seconds| now + Span::from_secs(seconds);
        fences.raise(now, Key(1), ServerId(1), later(10));
        assert_eq!(fences.leave(later(1), Key(1), false, ServerId(2)), Leave::Counted);
        assert!(fences.lasts_past(Key(1), later(10)), "nobody knows when it will be over");
        fences.spare(later(2), Key(1));
        assert_eq!(fences.find(later(9), Key(1)), Some(ServerId(1)));
        assert!(!fences.lasts_past(Key(1), later(10)) && fences.lasts_past(Key(1), later(9)));
    }

    #[test]
    fn a_name_is_looked_up_where_it_was_changed_and_other_names_of_its_directory_anywhere() {
        let (mut fences, now) = (Fences::default(), Time::from_nanos(1));
        let (later, [directory, name, other]) = (|seconds| now + Span::from_secs(seconds), [Key(1), Key(2), Key(3)]);
        fences.raise_name(now, name, directory, ServerId(1), later(60));
        assert_eq!(fences.find_name(later(1), name, directory), Some(ServerId(1)));
        assert_eq!(fences.find_name(later(1), other, directory), None);
        assert_eq!(
            fences.find(later(1), directory),
            Some(ServerId(1)),
            "its attributes and its listing are known there"
        );
        assert!(fences.name_is_settled(later(1), name, directory));
        assert!(!fences.name_is_settled(later(1), other, directory), "it has no fence");
        // Who may search it has changed.
        fences.raise(later(2), directory, ServerId(1), later(10));
        assert_eq!(fences.find_name(later(3), other, directory), Some(ServerId(1)));
        assert!(!fences.name_is_settled(later(3), name, directory));
        assert_eq!(fences.find_name(later(11), other, directory), None);
        for key in [name, directory] {
            assert_eq!(fences.leave(later(12), key, false, ServerId(1)), Leave::Counted);
            assert!(!fences.name_is_settled(later(12), name, directory), "it is being changed");
            fences.spare(later(12), key);
            assert!(fences.name_is_settled(later(12), name, directory));
        }
        fences.raise_all(later(20));
        assert!(!fences.name_is_settled(later(13), name, directory), "nobody knows what else was changed");
    }

    #[test]
    fn a_coherent_pool_needs_no_fences() {
        let mut fences = Fences::default();
        fences.raise(Time::from_nanos(5), Key(1), ServerId(0), Time::from_nanos(5));
        assert_eq!(fences.find(Time::from_nanos(5), Key(1)), None);
    }
}
