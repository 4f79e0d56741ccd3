//! What it costs to hear all peers once and publish the estimate each time: 64 peers, 64 servers.

use crate::drive::Operation;
use midas_core::peer::{Share, Shares};
use midas_core::rng::{Rng, mix};
use midas_core::route::placement::Placement;
use midas_core::route::ring::Member;
use midas_core::servers::Servers;
use midas_core::time::{Span, Time};

/// One unit is one share.
pub(crate) fn operations() -> Vec<Operation> {
    vec![Operation {
        name: "load share from one of 64 peers".to_owned(),
        size: SERVERS as usize,
        units: Box::new(|| PEERS as u64),
        samples: 100,
        target: None,
        prepare: Box::new(|| {
            let members: Vec<Member> = (0..SERVERS).map(|i| Member { identity: mix(i), weight: 1.0 }).collect();
            let servers = Servers::new(&members, Placement::Ring);
            let mut shares = Shares::new(PEERS, SERVERS as usize);
            let mut heard: Vec<Share> = (0..PEERS as u64).map(share_of).collect();
            let mut now = Time::from_nanos(1);
            Box::new(move |times| {
                for _ in 0..times {
                    for (from, share) in heard.iter_mut().enumerate() {
                        now += Span::from_micros(50);
                        share.sequence += 1;
                        shares.receive(now, from, share, Span::from_micros(100), &servers);
                        shares.publish(&servers);
                    }
                }
            })
        }),
    }]
}

fn share_of(peer: u64) -> Share {
    let mut rng = Rng::new(peer);
    Share { sequence: 0, in_flight: (0..SERVERS).map(|_| rng.below(20) as u16).collect(), waited: Span::ZERO }
}

const PEERS: usize = 64;
const SERVERS: u64 = 64;
