//! Consistent hashing: where a key is at home, and in which order the other servers follow.
//!
//! Paper: P6 (the primary), P15 (the default placement). Immutable: a change of membership builds a new ring. The points of a
//! server depend on its identity alone, so adding one of m servers moves about 1/m of the keys, all of them to the new server.

use crate::id::{ServerId, ServerSet};
use crate::key::Key;
use crate::rng::mix;
use alloc::vec::Vec;

/// Points of a server with weight 1.
pub const POINTS: u32 = 128;

/// A member of the ring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member {
    /// What stays the same when the list is reordered: a hash of the server's name.
    pub identity: u64,
    /// Its share relative to the others; 0 keeps it off the ring.
    pub weight: f64,
}

/// The ring: sorted points, and an index that makes a lookup take constant time.
#[derive(Clone, Debug)]
pub struct Ring {
    points: Vec<Point>,
    /// `start[h >> shift]` is the first point whose hash is at or after that bucket's first hash.
    start: Vec<u32>,
    shift: u32,
    /// How many servers have points.
    servers: usize,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    hash: u64,
    server: ServerId,
}

impl Ring {
    /// The ring of these members; a server's id is its position in the list.
    pub fn new(members: &[Member]) -> Self {
        let mut points: Vec<Point> = members.iter().zip(0..).flat_map(|(m, i)| points_of(*m, ServerId(i))).collect();
        points.sort_unstable_by_key(|point| (point.hash, point.server));
        let buckets = points.len().next_power_of_two().max(2);
        let shift = 64 - buckets.trailing_zeros();
        let mut start = Vec::with_capacity(buckets);
        let mut next = 0;
        for bucket in 0..buckets as u64 {
            while points.get(next).is_some_and(|point| point.hash < bucket << shift) {
                next += 1;
            }
            start.push(next as u32);
        }
        let servers = points.iter().map(|point| point.server).collect::<ServerSet>().len();
        Self { points, start, shift, servers }
    }

    /// The servers in the key's order of preference, each once; the first is its home.
    pub fn order(&self, key: Key) -> Order<'_> {
        Order { ring: self, at: self.position(mix(key.0)), left: self.servers, seen: ServerSet::EMPTY }
    }

    /// The first of these servers in the key's order; `None` if none of them is on the ring.
    pub fn first_of(&self, key: Key, servers: &ServerSet) -> Option<ServerId> {
        if servers.is_empty() {
            return None;
        }
        // A server that is met again was met before, so points need not be told apart.
        let (before, from) = self.points.split_at(self.position(mix(key.0)));
        from.iter().chain(before).map(|point| point.server).find(|server| servers.contains(*server))
    }

    /// The key's home; `None` on an empty ring.
    #[inline]
    pub fn home(&self, key: Key) -> Option<ServerId> {
        self.points.get(self.position(mix(key.0))).or(self.points.first()).map(|point| point.server)
    }

    /// How many servers are on it.
    pub fn len(&self) -> usize {
        self.servers
    }

    /// Whether it is nobody's home.
    pub fn is_empty(&self) -> bool {
        self.servers == 0
    }

    #[inline]
    fn position(&self, hash: u64) -> usize {
        let mut at = self.start[(hash >> self.shift) as usize] as usize;
        while self.points.get(at).is_some_and(|point| point.hash < hash) {
            at += 1;
        }
        at
    }
}

/// See [`Ring::order`].
#[derive(Clone, Debug)]
pub struct Order<'a> {
    ring: &'a Ring,
    at: usize,
    /// Servers not seen yet: behind the last one the walk is over, long before every point was looked at.
    left: usize,
    seen: ServerSet,
}

impl Iterator for Order<'_> {
    type Item = ServerId;

    #[inline]
    fn next(&mut self) -> Option<ServerId> {
        while self.left > 0 {
            if self.at >= self.ring.points.len() {
                self.at = 0;
            }
            let server = self.ring.points[self.at].server;
            self.at += 1;
            if self.seen.insert(server) {
                self.left -= 1;
                return Some(server);
            }
        }
        None
    }
}

fn points_of(member: Member, server: ServerId) -> impl Iterator<Item = Point> {
    let count = match member.weight {
        weight if weight > 0.0 => libm::round(f64::from(POINTS) * weight).clamp(1.0, f64::from(POINTS) * 64.0) as u64,
        _ => 0,
    };
    (0..count).map(move |i| Point { hash: Key(member.identity).child(i).0, server })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    fn ring(weights: &[f64]) -> Ring {
        let members: Vec<Member> =
            weights.iter().zip(100..).map(|(weight, i)| Member { identity: mix(i), weight: *weight }).collect();
        Ring::new(&members)
    }

    fn keys() -> impl Iterator<Item = Key> {
        (0..20_000).map(|i| Key(mix(i)))
    }

    #[test]
    fn adding_one_of_m_servers_moves_about_one_mth_of_the_keys_and_only_to_it() {
        for m in [2, 4, 8, 16, 64] {
            let (before, after) = (ring(&vec![1.0; m - 1]), ring(&vec![1.0; m]));
            let moved: Vec<_> = keys().filter(|k| before.home(*k) != after.home(*k)).collect();
            assert!(moved.iter().all(|k| after.home(*k) == Some(ServerId(m as u16 - 1))));
            let share = moved.len() as f64 / 20_000.0;
            assert!((share * m as f64 - 1.0).abs() < 0.35, "m = {m}: moved {share}");
        }
    }

    #[test]
    fn weights_are_shares() {
        let ring = ring(&[1.0, 3.0, 0.0, 1.0]);
        let mut homes = [0.0f64; 4];
        for key in keys() {
            homes[ring.home(key).unwrap().index()] += 1.0 / 20_000.0;
        }
        for (got, want) in homes.into_iter().zip([0.2, 0.6, 0.0, 0.2]) {
            assert!((got - want).abs() < 0.05, "{homes:?}");
        }
    }

    #[test]
    fn the_order_holds_every_server_once_and_agrees_with_a_plain_search() {
        let ring = ring(&[1.0; 9]);
        for key in keys().take(2_000) {
            let order: Vec<_> = ring.order(key).collect();
            assert_eq!(order.iter().copied().collect::<ServerSet>(), ServerSet::first(9));
            assert_eq!(order.len(), 9);
            assert_eq!(ring.home(key), Some(order[0]));
            let hash = mix(key.0);
            let plain = ring.points.iter().find(|point| point.hash >= hash).unwrap_or(&ring.points[0]);
            assert_eq!(order[0], plain.server);
            let some: ServerSet = order.iter().skip(3).step_by(2).copied().collect();
            assert_eq!(ring.first_of(key, &some), Some(order[3]));
        }
    }

    #[test]
    fn an_empty_ring_is_nobodys_home() {
        assert_eq!(ring(&[]).home(Key(1)), None);
        assert_eq!(ring(&[0.0]).home(Key(1)), None);
        assert_eq!(ring(&[1.0]).home(Key(u64::MAX)), Some(ServerId(0)));
    }
}
