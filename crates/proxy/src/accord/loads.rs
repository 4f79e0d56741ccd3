//! Load shares: what this proxy has in flight at each server, told to the others, and what they have (P18). One datagram a pool and peer, as
//! often as something changed and the bucket of `core::peer::Teller` allows.

use crate::counters::Count;
use crate::event::Shared;
use midas_core::peer::{Change, Due, Share, Shares, Teller};
use midas_core::rng::Rng;
use midas_core::time::{Span, Time};
use midas_nfs::xdr::{Reader, put};
use std::sync::Arc;

/// The shares of every pool.
pub(super) struct Loads {
    shared: Arc<Shared>,
    me: u8,
    pools: Vec<PoolLoads>,
    rng: Rng,
    looked: Time,
    sharing: Arc<Sharing>,
}

/// What was told and heard so far, written by the cluster's thread.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// Datagrams, each to every peer.
    pub(crate) told: Count,
    /// Shares that were taken in.
    pub(crate) heard: Count,
    /// Shares that were late, or of another pool.
    pub(crate) refused: Count,
    /// Bytes of the largest.
    pub(crate) largest: Count,
}

struct PoolLoads {
    shares: Shares,
    teller: Teller,
    told: Box<[u32]>,
}

impl Loads {
    pub(super) fn new(now: Time, shared: Arc<Shared>, sharing: Arc<Sharing>, me: u8, members: usize) -> Self {
        let peers = members.saturating_sub(1).max(1);
        let pools = shared.pools.iter().map(|pool| PoolLoads {
            shares: Shares::new(peers, pool.servers.len()),
            teller: Teller::new(now, peers),
            told: vec![0; pool.servers.len()].into(),
        });
        let rng = Rng::new(now.as_nanos() ^ u64::from(me));
        Self { me, pools: pools.collect(), rng, looked: now, sharing, shared }
    }

    /// A share of a peer.
    pub(super) fn hear(&mut self, now: Time, from: u8, bytes: &[u8], lag: Span) {
        let taken = decode(bytes).is_some_and(|(pool, share)| {
            let (Some(loads), Some(pool)) = (self.pools.get_mut(pool), self.shared.pools.get(pool)) else {
                return false;
            };
            let taken = loads.shares.receive(now, place(self.me, from), &share, lag, &pool.servers);
            if taken {
                loads.shares.publish(&pool.servers);
            }
            taken
        });
        let Sharing { heard, refused, .. } = &*self.sharing;
        (if taken { heard } else { refused }).add(1);
    }

    /// A peer is gone.
    pub(super) fn forget(&mut self, peer: u8) {
        for (loads, pool) in self.pools.iter_mut().zip(&self.shared.pools) {
            loads.shares.forget(place(self.me, peer), &pool.servers);
            loads.shares.publish(&pool.servers);
        }
    }

    /// What is to be told now, and when to look again.
    pub(super) fn due(&mut self, now: Time) -> (Vec<Vec<u8>>, Time) {
        let (mut tell, mut next) = (Vec::new(), now + IDLE);
        // What is seen now happened since the last look: on average half of that ago.
        let noted = now - now.since(std::mem::replace(&mut self.looked, now)).scale(0.5);
        for (number, (loads, pool)) in self.pools.iter_mut().zip(&self.shared.pools).enumerate() {
            if pool.servers.len() > SERVERS_MOST {
                continue;
            }
            for (told, server) in loads.told.iter_mut().zip(pool.servers.ids()) {
                let in_flight = pool.servers.in_flight(server);
                let was = std::mem::replace(told, in_flight);
                match in_flight.cmp(&was) {
                    std::cmp::Ordering::Greater => loads.teller.note(noted, Change::Left),
                    std::cmp::Ordering::Less => loads.teller.note(noted, Change::Landed),
                    std::cmp::Ordering::Equal => {}
                }
            }
            match loads.teller.due(now) {
                Due::Now => tell.push(encode(number, &loads.teller.tell(now, &pool.servers))),
                Due::At(at) => next = next.min(at),
                Due::Never => {}
            }
            if loads.told.iter().any(|in_flight| *in_flight > 0) {
                next = next.min(now + interval(pool.servers.service()).scale(self.rng.unit() * 0.4 + 0.8));
            }
        }
        self.sharing.told.add(tell.len() as u64);
        let largest = tell.iter().map(|share| share.len() as u64).max().unwrap_or(0);
        self.sharing.largest.set(self.sharing.largest.get().max(largest));
        (tell, next)
    }
}

/// A few times in a service time, but no more often than a thread can look.
fn interval(service: Span) -> Span {
    service.scale(OF_A_SERVICE).max(LEAST).min(MOST)
}

/// The others, counted without this one.
fn place(me: u8, from: u8) -> usize {
    usize::from(if from < me { from } else { from.saturating_sub(1) })
}

fn encode(pool: usize, share: &Share) -> Vec<u8> {
    let mut out = Vec::with_capacity(24 + 2 * share.in_flight.len());
    put::u32(&mut out, pool as u32);
    put::u64(&mut out, share.sequence);
    put::u64(&mut out, share.waited.as_nanos());
    share.in_flight.iter().for_each(|count| out.extend_from_slice(&count.to_be_bytes()));
    out
}

fn decode(bytes: &[u8]) -> Option<(usize, Share)> {
    let mut reader = Reader::new(bytes);
    let (pool, sequence, waited) = (reader.u32().ok()?, reader.u64().ok()?, reader.u64().ok()?);
    let (counts, odd) = reader.rest().as_chunks::<2>();
    let in_flight = counts.iter().map(|count| u16::from_be_bytes(*count)).collect();
    odd.is_empty().then_some((pool as usize, Share { sequence, in_flight, waited: Span::from_nanos(waited) }))
}

/// Servers whose counts fit in a datagram; of larger pools nothing is told.
const SERVERS_MOST: usize = 512;
const OF_A_SERVICE: f64 = 0.1;
const LEAST: Span = Span::from_micros(500);
const MOST: Span = Span::from_millis(10);
/// With nothing in flight.
const IDLE: Span = Span::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_64_servers_comes_back_as_it_was_and_fits_in_a_datagram() {
        let share = Share { sequence: 7, in_flight: (0..64).collect(), waited: Span::from_micros(3) };
        let bytes = encode(2, &share);
        assert!(bytes.len() < 200, "{}", bytes.len());
        assert_eq!(decode(&bytes), Some((2, share)));
        assert_eq!(decode(&bytes[..19]), None);
        assert_eq!(decode(&bytes[..21]), None);
    }

    #[test]
    fn the_others_are_counted_without_oneself() {
        assert_eq!([0, 1, 3].map(|from| place(2, from)), [0, 1, 2]);
    }
}
