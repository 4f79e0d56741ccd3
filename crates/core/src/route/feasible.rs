//! F(r): the servers that may serve a call, with a reason for every exclusion.
//!
//! Paper: P14. Constraints come first, the adaptive choice is made inside of them. [`Feasible::of`] is the fast form (sets);
//! [`exclusion`] tells the reason for one server; a test holds them together.

use crate::decision::Exclusion;
use crate::health::Health;
use crate::id::{ServerId, ServerSet};
use crate::key::Key;
use crate::op::Op;
use crate::route::placement::{Placement, Subtree};
use crate::servers::Servers;

/// A call as routing sees it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What it does.
    pub op: Op,
    /// The directory of a call on a name, the object otherwise: what fences go by.
    pub place: Key,
    /// The object, or the directory and name: what a pin holds.
    pub object: Key,
    /// The key that the ring places: the directory that the object lies in, where moving a call costs
    /// something and that is known; the place otherwise.
    pub home: Key,
    /// Whether it stays at its home, whatever the load: to move it would cost more.
    pub stays: bool,
    /// The part of the namespace it is in, where the administrator placed parts.
    pub subtree: Option<Subtree>,
    /// The one server that may serve it, if there is such.
    pub bound: Option<(ServerId, Bound)>,
}

/// Why a call may go to one server only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A listing goes on where its cookies come from.
    Listing,
    /// Written data is not committed yet.
    Uncommitted,
    /// Others may answer with the state before a mutation.
    Fenced,
    /// Nobody knows what was changed before: after a start, or where there were too many fences,
    /// everything stays at home.
    Unknown,
    /// No other server knows the object.
    Maker,
    /// It was sent there and may have been executed.
    PerhapsExecuted,
}

impl Target {
    /// A call whose place names its home, and which may go anywhere.
    pub const fn new(op: Op, place: Key, object: Key) -> Self {
        Self { op, place, object, home: place, stays: false, subtree: None, bound: None }
    }
}

impl Bound {
    /// The words that users read, in the order of their codes.
    pub const NAMES: [&'static str; 6] = ["listing", "uncommitted", "fence", "start", "maker", "doubt"];

    /// The reason's code, dense from 0: for counting.
    pub const fn code(self) -> usize {
        match self {
            Self::Listing => 0,
            Self::Uncommitted => 1,
            Self::Fenced => 2,
            Self::Unknown => 3,
            Self::Maker => 4,
            Self::PerhapsExecuted => 5,
        }
    }
}

/// The feasible set of one call.
#[derive(Clone, Copy, Debug)]
pub struct Feasible {
    /// The key's home by ring and placement alone, whatever its health or load.
    pub home: ServerId,
    /// Where the call goes if nothing is better: the home, or the next in its order that may serve it.
    pub primary: ServerId,
    /// Who may serve it; holds the primary.
    pub set: ServerSet,
    /// All looked dead, so none was excluded for that.
    pub panic: bool,
}

impl Feasible {
    /// The feasible set, or why there is none: the driver then holds the call. `key` is what the ring places.
    #[inline]
    pub fn of(servers: &Servers, target: &Target, key: Key) -> Result<Self, Exclusion> {
        let allowed = allowed(servers, target);
        let home = match allowed {
            None => servers.ring.home(key),
            Some(allowed) => servers.ring.first_of(key, &allowed).or(allowed.iter().next()),
        };
        let home = home.ok_or(Exclusion::PlacedElsewhere)?;
        let mut set = match target.bound {
            None => servers.open_set(),
            Some((server, _)) => servers.open_to_bound(server),
        };
        if let Some(allowed) = allowed {
            set = set.and(&allowed);
        }
        let panic = set.is_empty();
        if panic {
            set = panicked(servers, target);
        }
        let primary = match set.contains(home) {
            true => Some(home),
            false => servers.ring.first_of(key, &set).or(set.iter().next()),
        };
        match primary {
            Some(primary) => Ok(Self { home, primary, set, panic }),
            None => {
                let waited_for = target.bound.map_or(home, |(server, _)| server);
                Err(exclusion(servers, target, waited_for).unwrap_or(Exclusion::Down))
            }
        }
    }
}

/// Why this server may not serve the call; `None` if it may. Placement and bounds are told before health.
pub fn exclusion(servers: &Servers, target: &Target, server: ServerId) -> Option<Exclusion> {
    if allowed(servers, target).is_some_and(|allowed| !allowed.contains(server)) {
        return Some(match servers.placement {
            Placement::Subtrees(_) => Exclusion::OtherSubtree,
            Placement::Given(_) | Placement::Ring => Exclusion::PlacedElsewhere,
        });
    }
    match target.bound {
        Some((only, bound)) if only != server => Some(match bound {
            Bound::Listing => Exclusion::ListingElsewhere,
            Bound::Uncommitted => Exclusion::UncommittedElsewhere,
            Bound::Fenced | Bound::Unknown | Bound::Maker => Exclusion::FencedElsewhere,
            Bound::PerhapsExecuted => Exclusion::PerhapsExecutedElsewhere,
        }),
        Some(_) => health_exclusion(servers, server).filter(|why| *why != Exclusion::Drained),
        None => health_exclusion(servers, server),
    }
}

fn health_exclusion(servers: &Servers, server: ServerId) -> Option<Exclusion> {
    match servers.health(server) {
        Health::Up => None,
        Health::Probation => (servers.in_flight(server) > 0).then_some(Exclusion::Probation),
        Health::Failing => Some(Exclusion::Failing),
        Health::Down => Some(Exclusion::Down),
        Health::Drained => Some(Exclusion::Drained),
        Health::Quarantined => Some(Exclusion::Quarantined),
    }
}

/// The servers of the pool that placement allows; `None`: all of them. A table may name servers that the pool does not have.
#[inline]
fn allowed(servers: &Servers, target: &Target) -> Option<ServerSet> {
    let allowed = servers.placement.allowed(target.home, target.subtree)?;
    Some(allowed.and(&ServerSet::first(servers.len())))
}

/// The panic rule: if every server that may serve the call looks dead, none is excluded for that. A bound call waits for its server
/// instead, since another one could answer wrongly.
fn panicked(servers: &Servers, target: &Target) -> ServerSet {
    let dead = |exclusion| matches!(exclusion, Some(Exclusion::Down | Exclusion::Failing | Exclusion::Probation));
    match target.bound {
        Some(_) => ServerSet::EMPTY,
        None => servers.ids().filter(|server| dead(exclusion(servers, target, *server))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Rng, mix};
    use crate::route::ring::Member;
    use crate::time::Time;
    use alloc::collections::BTreeMap;
    use std::vec::Vec;

    const HEALTHS: [Health; 6] =
        [Health::Up, Health::Probation, Health::Failing, Health::Down, Health::Drained, Health::Quarantined];

    fn pool(placement: Placement, healths: &[Health]) -> Servers {
        let members: Vec<_> = (0..healths.len() as u64).map(|i| Member { identity: mix(i), weight: 1.0 }).collect();
        let servers = Servers::new(&members, placement);
        for (server, health) in servers.ids().zip(healths) {
            servers.set_health(Time::from_nanos(1), server, *health);
        }
        servers
    }

    fn target(place: u64) -> Target {
        Target::new(Op::Lookup, Key(place), Key(place))
    }

    #[test]
    fn the_fast_set_and_the_reasons_agree() {
        let mut rng = Rng::new(11);
        for round in 0..2_000 {
            let healths: Vec<_> = (0..6).map(|_| HEALTHS[rng.below(6)]).collect();
            let placement = match rng.below(3) {
                0 => Placement::Ring,
                1 => Placement::Subtrees(BTreeMap::from([(Subtree(1), ServerSet::first(3))])),
                _ => Placement::Given(BTreeMap::from([(Key(round), ServerId(2))])),
            };
            let servers = pool(placement, &healths);
            if rng.chance(0.5) {
                servers.dispatch(Time::from_nanos(2), ServerId(rng.below(6) as u16));
            }
            let mut target = target(round);
            target.subtree = rng.chance(0.5).then_some(Subtree(1));
            target.bound = rng.chance(0.2).then_some((ServerId(1), Bound::Fenced));
            let by_reason: ServerSet = servers.ids().filter(|s| exclusion(&servers, &target, *s).is_none()).collect();
            match Feasible::of(&servers, &target, target.place) {
                Ok(feasible) if !feasible.panic => assert_eq!(feasible.set, by_reason),
                Ok(_) | Err(_) => assert!(by_reason.is_empty()),
            }
        }
    }

    #[test]
    fn a_home_does_not_move_with_health() {
        let up = pool(Placement::Ring, &[Health::Up; 5]);
        for key in 0..200 {
            let home = Feasible::of(&up, &target(key), Key(key)).unwrap().home;
            let ill = pool(Placement::Ring, &[Health::Up; 5]);
            ill.set_health(Time::from_nanos(1), home, Health::Down);
            let feasible = Feasible::of(&ill, &target(key), Key(key)).unwrap();
            assert_eq!(feasible.home, home);
            assert_eq!(Some(feasible.primary), up.ring.order(Key(key)).nth(1));
        }
    }

    #[test]
    fn if_all_look_dead_none_is_excluded_but_never_one_with_other_handles() {
        use Health::{Down, Drained, Failing, Quarantined};
        let servers = pool(Placement::Ring, &[Down, Failing, Quarantined, Drained]);
        let feasible = Feasible::of(&servers, &target(1), Key(1)).unwrap();
        assert!(feasible.panic);
        assert_eq!(feasible.set, ServerSet::first(2));
        let none = pool(Placement::Ring, &[Quarantined, Drained]);
        assert!(Feasible::of(&none, &target(1), Key(1)).is_err());
    }

    #[test]
    fn a_table_that_names_servers_the_pool_does_not_have_is_no_reason_to_panic() {
        let table = Placement::Given(BTreeMap::from([(Key(1), ServerId(900))]));
        let servers = pool(table, &[Health::Up, Health::Up]);
        assert_eq!(Feasible::of(&servers, &target(1), Key(1)).unwrap_err(), Exclusion::PlacedElsewhere);
        assert!(Feasible::of(&servers, &target(2), Key(2)).is_ok());
    }

    #[test]
    fn what_is_bound_to_a_drained_server_ends_there_and_nothing_new_begins() {
        let servers = pool(Placement::Ring, &[Health::Drained, Health::Up]);
        let mut target = target(3);
        assert_eq!(Feasible::of(&servers, &target, target.place).unwrap().set, ServerSet::only(ServerId(1)));
        target.bound = Some((ServerId(0), Bound::Uncommitted));
        let feasible = Feasible::of(&servers, &target, target.place).unwrap();
        assert_eq!((feasible.primary, feasible.panic), (ServerId(0), false));
        assert_eq!(exclusion(&servers, &target, ServerId(1)), Some(Exclusion::UncommittedElsewhere));
    }

    #[test]
    fn a_bound_call_waits_for_its_server() {
        let servers = pool(Placement::Ring, &[Health::Down, Health::Up]);
        let mut target = target(3);
        target.bound = Some((ServerId(0), Bound::PerhapsExecuted));
        assert!(Feasible::of(&servers, &target, target.place).is_err());
        target.bound = Some((ServerId(1), Bound::PerhapsExecuted));
        assert_eq!(Feasible::of(&servers, &target, target.place).unwrap().primary, ServerId(1));
    }
}
