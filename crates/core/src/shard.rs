//! One part of the key space: its cache, pins, widths and fences. The daemon keeps it behind one short lock, the simulator owns it plainly.
//!
//! A call is asked ([`Shard::ask`]: answered, joined, or let through) and sent ([`Shard::send`]); [`Shard::decide`] is both. In between, where
//! several proxies share a cache, a mutation is announced to the others. A forwarded call's [`Ticket`] is not `Clone` and is spent when it
//! settles, so nothing is settled twice or filled from nowhere: builds for debugging assert it.

mod fenced;

use crate::cache::{Cache, Class, Ended, Facts, Fetch, Fill, FlightId, Mark, Read};
use crate::control::knobs::Knobs;
use crate::decision::{Exclusion, Route};
use crate::op::Op;
use crate::route::Router;
use crate::route::apart::Apart;
use crate::route::feasible::Target;
use crate::route::fence::Fences;
use crate::servers::Servers;
use crate::telemetry::recorder::{Recorder, Sample};
use crate::time::{Span, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::Hash;
use core::mem;
pub use fenced::{UnderWay, listing};

/// A call as the core sees it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a, K> {
    /// What routing needs.
    pub target: Target,
    /// The cache entry that could answer it, for a call that only reads metadata.
    pub entry: Option<(K, Class)>,
    /// The entries of this shard that it changes, if it mutates.
    pub touches: &'a [K],
}

/// What becomes of a call.
#[derive(Debug)]
pub enum Decision<K, V> {
    /// Answered from the cache, which may do so until `horizon`.
    Answer {
        /// The cached value.
        value: V,
        /// How long ago it was known to be true.
        age: Span,
        /// Until when it may be answered.
        horizon: Time,
    },
    /// The same call is already on its way; its answer serves this one too.
    Join(FlightId),
    /// Goes to a server.
    Forward(Ticket<K>),
    /// No server may serve it now: the driver keeps it and asks again.
    Hold(Pass<K>, Exclusion),
}

/// What a call that was let through holds of this shard's cache: a fetch if it reads, marks if it mutates. Must be sent or dropped with
/// [`Shard::give_up`].
#[derive(Debug)]
pub struct Pass<K>(Option<Box<Holds<K>>>);

/// Boxed, as most calls hold nothing, and a ticket is moved often.
#[derive(Debug)]
struct Holds<K> {
    fetch: Option<Fetch<K>>,
    marks: Vec<Mark<K>>,
}

/// A call on its way to a server.
#[derive(Debug)]
pub struct Ticket<K> {
    /// Where it goes and why.
    pub route: Route,
    target: Target,
    sent: Time,
    found: u32,
    head_age: Span,
    pass: Pass<K>,
    under_way: UnderWay,
    /// It has changed nothing of these.
    spares: bool,
    /// It was not executed, as far as is known.
    refused: bool,
}

/// How a forwarded call ended.
#[derive(Debug)]
pub enum Outcome<'a, V> {
    /// The server answered; a read's value and what is known of it.
    Answered(Option<(&'a V, Facts)>),
    /// The server answered with an error of its own (overload, I/O): errors are not speed.
    Failed,
    /// No answer will come: a mutation may or may not have been executed.
    Lost,
}

/// What settling a call did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settled {
    /// The flight that is over. Where the outcome was an answer, it serves the calls that joined; otherwise they must be asked again.
    pub flight: Option<FlightId>,
    /// What became of the value.
    pub fill: Option<Fill>,
    /// From sending to settling.
    pub latency: Span,
}

/// Another server is just changing the same object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// Cache and routing state of one part of the key space.
#[derive(Debug)]
pub struct Shard<K, V> {
    router: Router,
    cache: Cache<K, V>,
    fences: Fences,
    apart: Apart,
    staleness: Span,
}

impl<K: Copy + Eq + Hash + Ord, V: Clone> Shard<K, V> {
    /// A shard; `staleness` is how long other servers of the pool may answer with the state before a mutation. Nothing is known of what was
    /// changed before, so for that long everything stays at home.
    pub fn new(now: Time, router: Router, cache: Cache<K, V>, staleness: Span) -> Self {
        Self { router, cache, fences: Fences::new(now + staleness), apart: Apart::default(), staleness }
    }

    /// Decides one call: answer, join, forward, or hold.
    pub fn decide(&mut self, now: Time, servers: &Servers, knobs: &Knobs, call: &Call<'_, K>) -> Decision<K, V> {
        match self.ask(now, knobs, call) {
            Asked::Answer { value, age, horizon } => Decision::Answer { value, age, horizon },
            Asked::Join(flight) => Decision::Join(flight),
            Asked::Through(pass) => match self.send(now, servers, knobs, &call.target, pass) {
                Ok(ticket) => Decision::Forward(ticket),
                Err((pass, why)) => Decision::Hold(pass, why),
            },
        }
    }

    /// The cache's part. A mutation drops and marks what it changes, before it can leave.
    pub fn ask(&mut self, now: Time, knobs: &Knobs, call: &Call<'_, K>) -> Asked<K, V> {
        let touches = if call.target.op.mutates() { call.touches } else { &[] };
        let marks = touches.iter().map(|key| self.cache.mark(now, *key)).collect();
        match call.entry.filter(|_| knobs.caching && call.target.op.cacheable()) {
            None => Asked::Through(Pass::of(None, marks)),
            Some((key, class)) => match self.cache.read(now, key, class) {
                Read::Answer { value, age, horizon } => Asked::Answer { value, age, horizon },
                Read::Join(flight) => Asked::Join(flight),
                Read::Fetch(fetch) => Asked::Through(Pass::of(Some(fetch), marks)),
            },
        }
    }

    /// The router's part.
    pub fn send(
        &mut self,
        now: Time,
        servers: &Servers,
        knobs: &Knobs,
        target: &Target,
        pass: Pass<K>,
    ) -> Result<Ticket<K>, (Pass<K>, Exclusion)> {
        let target = self.fenced(now, servers, *target);
        match self.router.choose(now, servers, knobs, &target) {
            Ok(route) => match self.leave(now, &target, route.to, servers.acting_home(target.place)) {
                Some(under_way) => Ok(self.send_fenced(now, servers, (&target, route), pass, under_way)),
                None => Err((pass, Exclusion::FencedElsewhere)),
            },
            Err(why) => Err((pass, why)),
        }
    }

    /// The same for a read whose answer will be compared with what is known: no fence binds it.
    pub fn send_anywhere(
        &mut self,
        now: Time,
        servers: &Servers,
        knobs: &Knobs,
        target: &Target,
        pass: Pass<K>,
    ) -> Result<Ticket<K>, (Pass<K>, Exclusion)> {
        match self.router.choose(now, servers, knobs, target) {
            Ok(route) => Ok(self.send_fenced(now, servers, (target, route), pass, UnderWay::default())),
            Err(why) => Err((pass, why)),
        }
    }

    /// What [`Shard::send`] would say now, and the call as it would see it: bound, where it must be. Changes nothing.
    pub fn would(
        &self,
        now: Time,
        servers: &Servers,
        knobs: &Knobs,
        target: &Target,
    ) -> (Target, Result<Route, Exclusion>) {
        let target = self.fenced(now, servers, *target);
        (target, self.router.would(now, servers, knobs, &target))
    }

    /// Sends on a route that was chosen elsewhere, whatever else is under way.
    pub fn send_to(&mut self, now: Time, servers: &Servers, target: &Target, route: Route, pass: Pass<K>) -> Ticket<K> {
        let under_way = self.leave(now, target, route.to, Some(route.to)).unwrap_or_default();
        self.send_fenced(now, servers, (target, route), pass, under_way)
    }

    fn send_fenced(
        &mut self,
        now: Time,
        servers: &Servers,
        (target, route): (&Target, Route),
        pass: Pass<K>,
        under_way: UnderWay,
    ) -> Ticket<K> {
        if let Some(fetch) = pass.fetch() {
            self.cache.sent(fetch);
        }
        let head_age = servers.head_age(now, route.to);
        let found = servers.dispatch(now, route.to);
        Ticket { route, target: *target, sent: now, found, head_age, pass, under_way, spares: false, refused: false }
    }

    /// A forwarded call came back, or never will. Its ticket is spent; it is not moved, as it is large.
    pub fn settle(
        &mut self,
        now: Time,
        servers: &Servers,
        recorder: &mut Recorder,
        ticket: &mut Ticket<K>,
        outcome: Outcome<'_, V>,
    ) -> Settled {
        let Ticket { route, ref target, found, head_age, spares, refused, .. } = *ticket;
        let sent = mem::replace(&mut ticket.sent, Time::FAR);
        debug_assert!(sent != Time::FAR, "a call is settled once");
        if sent == Time::FAR {
            return Settled { flight: None, fill: None, latency: Span::ZERO };
        }
        let (pass, under_way) = (mem::replace(&mut ticket.pass, Pass::NOTHING), mem::take(&mut ticket.under_way));
        let latency = now.since(sent);
        servers.land(now, route.to);
        // An object that cannot be read says little of its server, however often it is asked for.
        let same = matches!(outcome, Outcome::Failed) && servers.failed_before(route.to, target.object);
        if !same {
            servers.judge(now, sent, route.to, !matches!(outcome, Outcome::Answered(_)));
        }
        if matches!(outcome, Outcome::Answered(_)) {
            recorder.record(Sample { server: route.to, op: target.op, latency, found, head_age }, servers.rtt());
        }
        if target.op.mutates() {
            let lingers = if matches!(outcome, Outcome::Lost) { self.cache.hold_max() } else { Span::ZERO };
            let answered = matches!(outcome, Outcome::Answered(_));
            if !(spares && answered) {
                self.raise_own(now, target, &route, self.staleness + lingers, answered && !refused);
            }
        }
        self.over(now, under_way);
        let ended = if matches!(outcome, Outcome::Lost) { Ended::Unknown } else { Ended::Done };
        let flight = pass.flight();
        let fill = pass.0.and_then(|holds| {
            let Holds { fetch, marks } = *holds;
            for mark in marks {
                self.cache.end(now, mark, ended);
            }
            self.fill(now, fetch, outcome)
        });
        Settled { flight, fill, latency }
    }

    /// A call that has a server but did not leave for it: nothing is learned of the server.
    pub fn take_back(&mut self, now: Time, servers: &Servers, ticket: Ticket<K>) {
        debug_assert!(ticket.sent != Time::FAR, "a call that is over does not come back");
        if ticket.sent == Time::FAR {
            return;
        }
        servers.land(now, ticket.route.to);
        self.over(now, ticket.under_way);
        self.give_up(now, ticket.pass);
    }

    /// Lets go of a call that will never be sent.
    pub fn give_up(&mut self, now: Time, pass: Pass<K>) {
        let Some(holds) = pass.0 else { return };
        let Holds { fetch, marks } = *holds;
        if let Some(fetch) = fetch {
            self.cache.failed(now, fetch);
        }
        for mark in marks {
            self.cache.end(now, mark, Ended::Done);
        }
    }

    /// How long others may answer with an old state, from now on. If that is longer, what was changed before is fenced for too short a time:
    /// as at the start, everything stays at home for that long.
    pub fn set_staleness(&mut self, now: Time, staleness: Span) {
        if staleness > self.staleness {
            self.fences.raise_all(now + staleness);
        }
        self.staleness = staleness;
    }

    /// The cache, for what comes from elsewhere: announcements of peers, ticks, counts.
    pub fn cache(&mut self) -> &mut Cache<K, V> {
        &mut self.cache
    }

    /// The router, to give it another policy.
    pub fn router(&mut self) -> &mut Router {
        &mut self.router
    }

    fn fill(&mut self, now: Time, fetch: Option<Fetch<K>>, outcome: Outcome<'_, V>) -> Option<Fill> {
        match (fetch?, outcome) {
            (fetch, Outcome::Answered(Some((value, facts)))) => Some(self.cache.filled(now, fetch, value, facts)),
            (fetch, Outcome::Answered(None) | Outcome::Failed | Outcome::Lost) => {
                self.cache.failed(now, fetch);
                None
            }
        }
    }
}

/// See [`Shard::ask`].
#[derive(Debug)]
pub enum Asked<K, V> {
    /// See [`Decision::Answer`].
    Answer {
        /// The cached value.
        value: V,
        /// How long ago it was known to be true.
        age: Span,
        /// Until when it may be answered.
        horizon: Time,
    },
    /// See [`Decision::Join`].
    Join(FlightId),
    /// Let through: to be sent.
    Through(Pass<K>),
}

impl<K> Pass<K> {
    /// The pass of a call that the cache has no part in.
    pub const NOTHING: Self = Self(None);

    fn of(fetch: Option<Fetch<K>>, marks: Vec<Mark<K>>) -> Self {
        let holds = fetch.is_some() || !marks.is_empty();
        Self(holds.then(|| Box::new(Holds { fetch, marks })))
    }

    fn fetch(&self) -> Option<&Fetch<K>> {
        self.0.as_ref().and_then(|holds| holds.fetch.as_ref())
    }
}

impl<K: Copy> Pass<K> {
    /// Whether joined calls wait for this one.
    pub fn flight(&self) -> Option<FlightId> {
        self.fetch().map(Fetch::flight)
    }
}

impl<K: Copy> Ticket<K> {
    /// What the call does.
    pub fn op(&self) -> Op {
        self.target.op
    }

    /// The flight that joined calls wait for.
    pub fn flight(&self) -> Option<FlightId> {
        self.pass.flight()
    }

    /// The server's answer shows that it changed neither its object nor its directory: no fence is left for it.
    pub fn spare(&mut self) {
        self.spares = true;
    }

    /// The server has not executed the call, as far as its answer tells: what another server is
    /// known to have changed is read there still.
    pub fn refuse(&mut self) {
        self.refused = true;
    }

    /// Whether it has shown that.
    pub fn spares(&self) -> bool {
        self.spares
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{CleanStart, Mode, Params, Rules, Settings};
    use crate::health::Health;
    use crate::id::ServerId;
    use crate::key::Key;
    use crate::rng::mix;
    use crate::route::feasible::Bound;
    use crate::route::placement::Placement;
    use crate::route::policy::{Gap, Policy};
    use crate::route::ring::Member;

    struct Small {
        servers: Servers,
        shard: Shard<u32, u64>,
        recorder: Recorder,
    }

    fn small(mode: Mode, staleness: Span) -> Small {
        let members: Vec<Member> = (0..3).map(|i| Member { identity: mix(i), weight: 1.0 }).collect();
        let params = Params::new(Settings { mode, ..Settings::default() }).unwrap();
        let cache = Cache::new(params, Rules::ALL, Time::ZERO, CleanStart::Yes);
        let router = Router::new(Policy::FirstFit(Gap::Fixed(2)), 1);
        let servers = Servers::new(&members, Placement::Ring);
        Small { servers, shard: Shard::new(Time::ZERO, router, cache, staleness), recorder: Recorder::new(3) }
    }

    fn target(op: Op) -> Target {
        Target::new(op, Key(5), Key(6))
    }

    const BOUND: Option<(ServerId, Bound)> = Some((ServerId(1), Bound::Fenced));
    const FACTS: Facts = Facts { changed_at: Some(Time::ZERO), lease_until: None, cost: 1 };

    impl Small {
        fn decide(&mut self, now: Time, op: Op) -> Decision<u32, u64> {
            let entry = op.cacheable().then_some((1, Class(0)));
            let touches: &[u32] = if op.mutates() { &[1] } else { &[] };
            let call = Call { target: target(op), entry, touches };
            self.shard.decide(now, &self.servers, &Knobs::default(), &call)
        }

        fn forward(&mut self, now: Time, op: Op) -> Ticket<u32> {
            match self.decide(now, op) {
                Decision::Forward(ticket) => ticket,
                other => panic!("not forwarded: {other:?}"),
            }
        }

        fn settle(&mut self, now: Time, mut ticket: Ticket<u32>, outcome: Outcome<'_, u64>) -> Settled {
            self.shard.settle(now, &self.servers, &mut self.recorder, &mut ticket, outcome)
        }
    }

    fn at(millis: u64) -> Time {
        Time::from_nanos(1) + Span::from_millis(millis)
    }

    #[test]
    fn a_read_is_fetched_joined_answered_and_dropped_by_a_mutation() {
        let mut small = small(Mode::Lease, Span::ZERO);
        let first = small.forward(at(0), Op::Lookup);
        let flight = first.flight();
        assert!(matches!(small.decide(at(1), Op::Lookup), Decision::Join(joined) if Some(joined) == flight));
        let settled = small.settle(at(2), first, Outcome::Answered(Some((&7, FACTS))));
        assert_eq!((settled.flight, settled.latency), (flight, Span::from_millis(2)));
        assert!(matches!(small.decide(at(3), Op::Lookup), Decision::Answer { value: 7, .. }));
        let create = small.forward(at(4), Op::Create);
        let during = small.forward(at(5), Op::Lookup);
        small.settle(at(6), create, Outcome::Answered(None));
        let fill = small.settle(at(7), during, Outcome::Answered(Some((&7, FACTS)))).fill;
        assert!(matches!(fill, Some(Fill::Refused(_))), "it left before the mutation ended: {fill:?}");
        assert!(matches!(small.decide(at(8), Op::Lookup), Decision::Forward(_)));
    }

    #[test]
    fn a_call_that_is_taken_back_is_not_counted_and_tells_nothing_of_the_server() {
        let mut small = small(Mode::Strict, Span::ZERO);
        for _ in 0..100 {
            let ticket = small.forward(at(0), Op::Create);
            small.shard.take_back(at(1), &small.servers, ticket);
        }
        for server in small.servers.ids() {
            assert_eq!((small.servers.in_flight(server), small.servers.health(server)), (0, Health::Up));
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a call is settled once")]
    fn a_ticket_that_is_settled_twice_is_noticed() {
        let mut small = small(Mode::Strict, Span::ZERO);
        let mut ticket = small.forward(at(0), Op::Create);
        for _ in 0..2 {
            let outcome = Outcome::Answered(None);
            small.shard.settle(at(1), &small.servers, &mut small.recorder, &mut ticket, outcome);
        }
    }

    #[test]
    fn every_forwarded_call_is_counted_until_it_settles() {
        let mut small = small(Mode::Strict, Span::ZERO);
        let ticket = small.forward(at(0), Op::Create);
        let to = ticket.route.to;
        assert_eq!(small.servers.in_flight(to), 1);
        small.settle(at(1), ticket, Outcome::Lost);
        assert_eq!(small.servers.in_flight(to), 0);
        assert_eq!(small.recorder.ended(), 0, "what got no answer tells nothing about speed");
    }

    #[test]
    fn after_a_mutation_reads_stay_where_it_ran_for_the_pools_staleness() {
        let mut small = small(Mode::Strict, Span::from_millis(100));
        let create = small.forward(at(0), Op::Create);
        let ran = create.route.to;
        small.settle(at(1), create, Outcome::Answered(None));
        for _ in 0..9 {
            small.servers.dispatch(at(1), ran);
        }
        assert_eq!(small.forward(at(50), Op::Getattr).route.to, ran, "fenced, however loaded");
        assert_ne!(small.forward(at(101), Op::Getattr).route.to, ran);
    }

    #[test]
    fn while_nothing_is_known_reads_stay_at_home_or_at_the_next_if_that_is_closed_but_where_a_mutation_ran_if_one_did()
    {
        let mut small = small(Mode::Strict, Span::from_millis(100));
        let order: Vec<ServerId> = small.servers.ring().order(Key(5)).collect();
        let fence = |small: &Small, now| small.shard.fence(now, &small.servers, Key(6), Key(5));
        assert_eq!(fence(&small, at(0)), Some(order[0]));
        small.servers.set_health(at(0), order[0], Health::Down);
        assert_eq!(fence(&small, at(0)), Some(order[1]));
        let create = small.forward(at(1), Op::Create);
        assert_eq!(create.route.to, order[1]);
        small.settle(at(2), create, Outcome::Answered(None));
        small.servers.set_health(at(3), order[0], Health::Up);
        assert_eq!(fence(&small, at(3)), Some(order[1]), "the home does not know yet");
        assert_eq!(fence(&small, at(200)), None);
    }

    #[test]
    fn what_another_mutation_changes_too_is_fenced_and_moves_only_when_it_is_known_to_have_run() {
        let mut small = small(Mode::Strict, Span::from_millis(100));
        let fence = |small: &Small| small.shard.fence(at(150), &small.servers, Key(9), Key(9));
        assert_eq!(fence(&small), None);
        small.shard.raise(at(150), Key(9), ServerId(1), false);
        small.shard.raise(at(150), Key(9), ServerId(2), false);
        assert_eq!(fence(&small), Some(ServerId(1)));
        small.shard.raise(at(150), Key(9), ServerId(2), true);
        assert_eq!(fence(&small), Some(ServerId(2)));
    }

    #[test]
    fn one_object_that_cannot_be_read_does_not_close_its_server_and_several_do() {
        let mut small = small(Mode::Strict, Span::ZERO);
        for _ in 0..10 {
            let ticket = small.forward(at(1), Op::Getattr);
            small.settle(at(1), ticket, Outcome::Failed);
        }
        assert!(small.servers.ids().all(|server| small.servers.health(server) == Health::Up));
        for object in 10..20 {
            let target = Target { object: Key(object), bound: BOUND, ..target(Op::Getattr) };
            let call = Call { target, entry: None, touches: &[] };
            let Decision::Forward(ticket) = small.shard.decide(at(2), &small.servers, &Knobs::default(), &call) else {
                break;
            };
            small.settle(at(2), ticket, Outcome::Failed);
        }
        assert_eq!(small.servers.health(ServerId(1)), Health::Failing);
    }

    #[test]
    fn a_mutation_that_failed_leaves_what_another_server_has_changed_there() {
        let mut small = small(Mode::Strict, Span::from_millis(100));
        let fence = |small: &Small| small.shard.fence(at(150), &small.servers, Key(6), Key(5));
        for (refused, expected) in [(true, ServerId(2)), (false, ServerId(1))] {
            small.shard.raise(at(150), Key(6), ServerId(2), true);
            let target = Target { bound: BOUND, ..target(Op::Setattr) };
            let call = Call { target, entry: None, touches: &[] };
            let Decision::Forward(mut ticket) = small.shard.decide(at(150), &small.servers, &Knobs::default(), &call)
            else {
                panic!("not forwarded")
            };
            ticket.refused = refused;
            small.settle(at(150), ticket, Outcome::Answered(None));
            assert_eq!(fence(&small), Some(expected), "refused: {refused}");
        }
    }

    #[test]
    fn without_a_server_a_call_is_held_and_can_be_given_up() {
        let mut small = small(Mode::Lease, Span::ZERO);
        small.servers.ids().for_each(|server| small.servers.set_health(at(0), server, Health::Drained));
        let Decision::Hold(pass, why) = small.decide(at(0), Op::Create) else { panic!("there is no server") };
        assert_eq!(why, Exclusion::Drained);
        small.shard.give_up(at(1), pass);
        small.servers.set_health(at(1), ServerId(0), Health::Up);
        let read = small.forward(at(2), Op::Lookup);
        assert!(matches!(
            small.settle(at(3), read, Outcome::Answered(Some((&1, FACTS)))).fill,
            Some(Fill::Kept { .. })
        ));
    }

    #[test]
    fn while_the_papers_warm_up_runs_nothing_is_answered_from_the_cache() {
        let mut small = small(Mode::Lease, Span::ZERO);
        let read = small.forward(at(0), Op::Lookup);
        small.settle(at(1), read, Outcome::Answered(Some((&7, FACTS))));
        let call = Call { target: target(Op::Lookup), entry: Some((1, Class(0))), touches: &[] };
        let knobs = Knobs { caching: false, ..Knobs::default() };
        assert!(matches!(small.shard.decide(at(2), &small.servers, &knobs, &call), Decision::Forward(_)));
    }
}
