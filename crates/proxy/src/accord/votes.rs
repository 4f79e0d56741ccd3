//! Which servers members find down. One member's sight decides nothing for the others: its own way to a server may be
//! what is broken. So each tells the others, and a server is fenced (`fence`) when more than half of those that serve
//! find it down at the same time.

use super::Accord;
use super::fetch::Said;
use crate::pool::lock;
use midas_core::key::Key;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// What the other members said last, of each pool.
#[derive(Default)]
pub(super) struct Votes(Mutex<HashMap<(u8, u32), Vote>>);

struct Vote {
    at: Instant,
    servers: Vec<Down>,
}

/// A server that a member finds down, as all members name it, and whether it took calls of that member.
pub(crate) type Down = (u32, bool);

/// What is thought of a server of a pool, both as all members name them.
pub(crate) type Which = (u32, u32);

impl Votes {
    fn heard(&self, now: Instant, member: u8, pool: u32, servers: Vec<Down>) {
        let mut votes = lock(&self.0);
        votes.retain(|_, vote| vote.holds(now));
        if votes.len() < VOTES_MAX {
            votes.insert((member, pool), Vote { at: now, servers });
        }
    }

    /// The members that find this server down, and whether it took calls of each.
    fn of(&self, now: Instant, (pool, server): Which) -> Vec<(u8, bool)> {
        let votes = lock(&self.0);
        let of_pool = votes.iter().filter(|((_, other), vote)| *other == pool && vote.holds(now));
        let down = |vote: &Vote| vote.servers.iter().find(|(other, _)| *other == server).map(|(_, took)| *took);
        of_pool.filter_map(|((member, _), vote)| Some((*member, down(vote)?))).collect()
    }
}

impl Vote {
    fn holds(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < LASTS
    }
}

/// Whether more than half of all members that serve, present or not, find it down: this one does, and these.
fn majority(serving: &[bool], me: u8, others: &[u8]) -> bool {
    let all = serving.iter().filter(|serves| **serves).count();
    let finds_down =
        |member: usize| member == usize::from(me) || others.iter().any(|other| usize::from(*other) == member);
    let down = (0..serving.len()).filter(|member| serving[*member] && finds_down(*member)).count();
    down * 2 > all
}

/// A name as members tell it to each other.
pub(crate) fn digest(name: &str) -> u32 {
    Key::of(name.as_bytes()).0 as u32
}

impl Accord {
    /// Tells the other members which servers of a pool are down, as seen from here.
    pub(crate) fn tell_down(&self, pool: u32, servers: &[Down]) {
        let said = Said::Down { pool, servers: servers.to_vec() };
        let peers: Vec<u8> = self.fetches.others().collect();
        for peer in peers {
            self.ring(self.fetches.tell_names(peer, &said));
        }
    }

    /// Another member tells that.
    pub(super) fn down_heard(&self, member: u8, pool: u32, servers: Vec<Down>) {
        self.votes.heard(Instant::now(), member, pool, servers);
    }

    /// Whether the majority finds a server down that this member finds down.
    pub(crate) fn agree_down(&self, which: Which) -> bool {
        let others: Vec<u8> = self.votes.of(Instant::now(), which).into_iter().map(|(member, _)| member).collect();
        majority(self.fetches.serving(), self.fetches.me(), &others)
    }

    /// Whether a server that is down took calls of another member.
    pub(crate) fn took_calls(&self, which: Which) -> bool {
        self.votes.of(Instant::now(), which).into_iter().any(|(_, took)| took)
    }

    /// Whether this is the first of those members of the view that serve: a witness has no command to run.
    pub(crate) fn leads_serving(&self) -> bool {
        let serves = |member: &u8| self.fetches.serving().get(usize::from(*member)).is_some_and(|serves| *serves);
        let first = |lives: Vec<u8>| lives.into_iter().filter(serves).min();
        let view = self.standing().view;
        view.and_then(|view| first(view.lives.iter().map(|life| life.member.0).collect())) == Some(self.fetches.me())
    }
}

/// A member that has not said so for so long does not find a server down.
const LASTS: Duration = Duration::from_secs(3);
/// Votes that are kept: far more than members have pools.
const VOTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_half_of_all_that_serve_decide_and_witnesses_have_no_voice() {
        let (three, two) = ([true; 3], [true, true, false]);
        assert!(!majority(&three, 0, &[]) && majority(&three, 0, &[2]) && majority(&three, 0, &[1, 2]));
        assert!(!majority(&three, 0, &[0]), "its own word counts once");
        assert!(!majority(&[true; 4], 0, &[1]) && majority(&[true; 4], 0, &[1, 3]), "half is not enough");
        assert!(!majority(&two, 0, &[2]) && majority(&two, 0, &[1]), "a witness sees no server");
        assert!(majority(&[false, true, false], 1, &[]), "the only one that serves");
        assert!(!majority(&three, 0, &[9]), "nobody of ours");
    }

    #[test]
    fn what_was_said_holds_for_a_while_and_the_last_word_counts() {
        let (votes, start) = (Votes::default(), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        votes.heard(at(0), 1, 7, vec![(5, true), (6, false)]);
        votes.heard(at(1000), 2, 7, vec![(5, false)]);
        votes.heard(at(1000), 2, 8, vec![(6, true)]);
        let of = |millis, which| {
            let mut of = votes.of(at(millis), which);
            of.sort_unstable();
            of
        };
        assert_eq!((of(1000, (7, 5)), of(1000, (7, 6))), (vec![(1, true), (2, false)], vec![(1, false)]));
        assert_eq!(of(3000, (7, 5)), [(2, false)], "the first was too long ago");
        votes.heard(at(3000), 2, 7, Vec::new());
        assert_eq!((of(3000, (7, 5)), of(3000, (8, 6))), (vec![], vec![(2, true)]), "it is up there");
    }
}
