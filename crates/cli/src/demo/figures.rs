//! What clients and servers saw of some calls.

use crate::stage::Answers;
use serde_json::{Value, json};
use std::time::Duration;

/// Of one policy: a phase, or all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    /// Calls that came to the proxies.
    pub(super) offered: usize,
    /// Answers that were errors, and answers that never came.
    pub(super) errors: u64,
    /// From when each call was due to its answer.
    pub(super) latencies: Vec<Duration>,
    pub(super) servers: Servers,
}

/// What the servers say of themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Servers {
    /// Calls executed, whoever sent them, by server.
    pub(super) executed: Vec<u64>,
    /// From each call's arrival at its server to the end of its service.
    pub(super) sojourns: Vec<Duration>,
    /// The longest queue of any server, calls in service included.
    pub(super) worst_queue: usize,
}

impl Figures {
    pub(super) fn new(offered: usize, answers: Answers, servers: Servers) -> Self {
        let missing = offered.saturating_sub(answers.latencies.len()) as u64;
        Self { offered, errors: answers.failed + missing, latencies: answers.latencies, servers }
    }

    /// Of several phases.
    pub(super) fn total<'f>(parts: impl IntoIterator<Item = &'f Self>) -> Self {
        parts.into_iter().fold(Self::default(), |mut all, part| {
            all.offered += part.offered;
            all.errors += part.errors;
            all.latencies.extend(&part.latencies);
            all.servers.add(&part.servers);
            all
        })
    }

    /// The tail at the clients, in milliseconds.
    pub(super) fn client_p99(&self) -> f64 {
        millis(tail(&self.latencies))
    }

    /// The tail at the servers, in milliseconds.
    pub(super) fn server_p99(&self) -> f64 {
        millis(tail(&self.servers.sojourns))
    }

    pub(super) fn executed(&self) -> u64 {
        self.servers.executed.iter().sum()
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "calls": self.offered,
            "errors": self.errors,
            "worst_queue": self.servers.worst_queue,
            "server_p99_ms": self.server_p99(),
            "client_p99_ms": self.client_p99(),
            "server_calls": self.servers.executed,
        })
    }
}

impl Servers {
    fn add(&mut self, other: &Self) {
        self.executed.resize(self.executed.len().max(other.executed.len()), 0);
        self.executed.iter_mut().zip(&other.executed).for_each(|(sum, more)| *sum += more);
        self.sojourns.extend(&other.sojourns);
        self.worst_queue = self.worst_queue.max(other.worst_queue);
    }
}

/// By how much a figure fell, as a share of what it was; nothing falls from nothing.
pub(super) fn fall(from: f64, to: f64) -> f64 {
    if from > 0.0 { 1.0 - to / from } else { 0.0 }
}

/// What 99 of 100 do not exceed.
fn tail(values: &[Duration]) -> Duration {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * 99).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(values: impl Iterator<Item = u64>) -> Vec<Duration> {
        values.map(Duration::from_millis).collect()
    }

    #[test]
    fn the_tail_is_what_one_in_a_hundred_exceeds() {
        let cases = [(0..0, 0), (5..6, 5), (1..101, 99), (1..1001, 990)];
        for (values, expected) in cases {
            assert_eq!(tail(&ms(values.clone().rev())), Duration::from_millis(expected), "{values:?}");
        }
    }

    #[test]
    fn a_total_adds_calls_keeps_the_worst_queue_and_takes_the_tail_of_all() {
        let part = |worst_queue, sojourn, failed| {
            let servers = Servers { executed: vec![1, 2], sojourns: ms(std::iter::once(sojourn)), worst_queue };
            Figures::new(3, Answers { latencies: ms(1..3), failed }, servers)
        };
        let total = Figures::total(&[part(4, 7, 0), part(2, 9, 1)]);
        // An answer too few in each, and one that was wrong.
        assert_eq!((total.offered, total.errors, total.executed()), (6, 3, 6));
        assert_eq!((total.servers.worst_queue, total.server_p99(), total.client_p99()), (4, 9.0, 2.0));
        assert_eq!(total.servers.executed, [2, 4]);
    }

    #[test]
    fn a_fall_is_a_share_of_what_was() {
        assert_eq!((fall(10.0, 5.0), fall(10.0, 20.0), fall(0.0, 3.0)), (0.5, -1.0, 0.0));
    }
}
