//! The round trip to the servers without any service: what NULL takes. A server's is the least of its latest, since all that
//! can happen to one is to be delayed; the pool's is the middle one of its servers'.

use midas_core::id::ServerId;
use midas_core::time::Span;
use std::collections::VecDeque;

/// The latest round trips of each server.
#[derive(Debug)]
pub(crate) struct RoundTrips(Vec<VecDeque<Span>>);

impl RoundTrips {
    pub(crate) fn new(servers: usize) -> Self {
        Self(vec![VecDeque::with_capacity(LATEST); servers])
    }

    /// A NULL took so long; the pool's round trip with that.
    pub(crate) fn took(&mut self, server: ServerId, span: Span) -> Span {
        let latest = &mut self.0[server.index()];
        if latest.len() == LATEST {
            latest.pop_front();
        }
        latest.push_back(span);
        let mut known: Vec<Span> = self.0.iter().filter_map(|latest| latest.iter().min().copied()).collect();
        known.sort_unstable();
        known.get(known.len() / 2).copied().unwrap_or(span)
    }
}

/// Enough that one of them was not delayed, few enough to see a path that has become longer.
const LATEST: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_and_a_distant_server_do_not_count_and_a_longer_path_does_in_time() {
        let (ms, mut trips) = (Span::from_millis, RoundTrips::new(3));
        assert_eq!(trips.took(ServerId(0), ms(9)), ms(9), "one is better than none");
        assert_eq!(trips.took(ServerId(1), ms(1)), ms(9));
        assert_eq!(trips.took(ServerId(2), ms(50)), ms(9));
        assert_eq!(trips.took(ServerId(0), ms(2)), ms(2));
        assert_eq!(trips.took(ServerId(0), ms(700)), ms(2));
        let longer = (0..LATEST).map(|_| trips.took(ServerId(0), ms(5))).last();
        assert_eq!(longer, Some(ms(5)));
    }
}
