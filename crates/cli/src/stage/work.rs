//! What a server did, from its own truth.

use midas_nfs::nfs3::Procedure;
use midas_nfsd::Queue;
use std::time::Duration;

/// One server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Work {
    /// LOOKUPs and CREATEs that it executed since the start.
    pub(crate) calls: u64,
    /// Its queue's mean length over a time, calls in service included.
    pub(crate) mean_queue: f64,
    /// Its longest queue in that time.
    pub(crate) worst_queue: usize,
}

impl Work {
    pub(crate) fn of(calls: &[u64; 22], queue: &Queue, from: Duration, to: Duration) -> Self {
        let (mean_queue, worst_queue) = between(queue.changes.iter().copied(), from, to);
        let calls = calls[Procedure::Lookup as usize] + calls[Procedure::Create as usize];
        Self { calls, mean_queue, worst_queue }
    }
}

/// A length's mean over time and its largest value, from its changes since the beginning.
fn between(changes: impl Iterator<Item = (Duration, usize)>, from: Duration, to: Duration) -> (f64, usize) {
    let (mut area, mut worst, mut length, mut since) = (0.0, 0, 0, from);
    for (at, next) in changes.take_while(|(at, _)| *at < to) {
        if at > from {
            area += at.saturating_sub(since).as_secs_f64() * length as f64;
            worst = worst.max(length);
            since = at;
        }
        length = next;
    }
    area += to.saturating_sub(since).as_secs_f64() * length as f64;
    (area / to.saturating_sub(from).as_secs_f64(), worst.max(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_between_the_two_times_counts() {
        let s = Duration::from_secs;
        let changes = [(s(1), 9), (s(2), 1), (s(4), 3), (s(5), 0), (s(9), 7)];
        let cases =
            [((3, 7), (1.0 + 3.0) / 4.0, 3), ((2, 4), 1.0, 1), ((0, 2), 4.5, 9), ((6, 8), 0.0, 0), ((9, 11), 7.0, 7)];
        for ((from, to), mean, worst) in cases {
            assert_eq!(between(changes.into_iter(), s(from), s(to)), (mean, worst), "{from}..{to}");
        }
    }
}
