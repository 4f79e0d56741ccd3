//! What changes in the cluster, as events: who is in the view, who is reached, whether answers may come from caches.

use super::journal::{Journal, Said};
use crate::api::Cluster;
use crate::log;

/// The cluster as it was when last looked at.
#[derive(Debug, Default)]
pub(crate) struct Members(Option<Looked>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Looked {
    epoch: u64,
    leader: Option<String>,
    leased: bool,
    acts: bool,
    cut_off: bool,
    flushed: u64,
    /// In the order of the configuration: the name, whether it is in the view, whether it is reached.
    members: Vec<(String, bool, bool)>,
}

impl Members {
    /// Says what is not as it was. The first look says nothing but who is there.
    pub(crate) fn look(&mut self, journal: &Journal, cluster: &Cluster) {
        let now = Looked::at(cluster);
        let before = self.0.replace(now.clone()).unwrap_or_else(|| Looked::nothing(&now));
        let why = format!("view {} of the cluster", now.epoch);
        for ((name, within, up), (_, was_within, was_up)) in now.members.iter().zip(&before.members) {
            if within != was_within {
                let what = if *within { "is in the view" } else { "is no longer in the view" };
                journal.say(Said::Cluster, name.as_str(), what, why.as_str());
            }
            if up != was_up && *name != cluster.me {
                let (what, why) = match up {
                    true => ("is reached", "messages pass both ways"),
                    false => ("is not reached", "no message passes"),
                };
                journal.say(Said::Cluster, name.as_str(), what, why);
            }
        }
        if let (true, Some(leader)) = (now.leader != before.leader, &now.leader) {
            journal.say(
                Said::Cluster,
                leader.as_str(),
                "leads the cluster",
                format!("elected in term {}", cluster.term),
            );
        }
        now.tell_cut_off(&before, journal, &cluster.me);
        now.tell_leases(&before, journal, &cluster.me);
    }
}

impl Looked {
    fn at(cluster: &Cluster) -> Self {
        let member = |it: &crate::api::Member| (it.name.clone(), it.in_view, it.up);
        Self {
            epoch: cluster.epoch,
            leader: cluster.leader.clone(),
            leased: cluster.leases.live_ms > 0.0 && cluster.leases.blocked.is_none(),
            acts: cluster.leases.acts,
            cut_off: cluster.cut_off,
            flushed: cluster.leases.flushed,
            members: cluster.members.iter().map(member).collect(),
        }
    }

    /// Before anything was seen.
    fn nothing(now: &Self) -> Self {
        let members = now.members.iter().map(|(name, _, _)| (name.clone(), false, false)).collect();
        Self { epoch: 0, leader: None, leased: false, acts: false, cut_off: false, flushed: now.flushed, members }
    }

    fn tell_cut_off(&self, before: &Self, journal: &Journal, me: &str) {
        let (what, why) = match (before.cut_off, self.cut_off) {
            (false, true) => {
                log::warn("cut off from the majority of the cluster", &[("does", &FORWARDS)]);
                ("is cut off from the majority", FORWARDS)
            }
            (true, false) => {
                log::info("a majority of the cluster is reached again", &[]);
                ("is cut off no longer", "it reaches a majority again")
            }
            (true, true) | (false, false) => return,
        };
        journal.say(Said::Cluster, me, what, why);
    }

    fn tell_leases(&self, before: &Self, journal: &Journal, me: &str) {
        match (before.leased, self.leased) {
            (false, true) => journal.say(Said::Cluster, me, "answers from its caches", "the others granted leases"),
            (true, false) => {
                journal.say(Said::Cluster, me, "answers nothing from its caches", "its leases ran out or are blocked");
            }
            (true, true) | (false, false) => {}
        }
        if self.flushed > before.flushed {
            journal.say(Said::Cluster, me, "has forgotten what it cached", "leases were lost");
        }
        match (before.acts, self.acts) {
            (false, true) => journal.say(Said::Cluster, me, "lets mutations pass", "it is in the majority's view"),
            (true, false) => {
                let why =
                    if self.cut_off { "it is cut off from the majority" } else { "it is not in the majority's view" };
                journal.say(Said::Cluster, me, "holds mutations back", why);
            }
            (true, true) | (false, false) => {}
        }
    }
}

/// What a member does that is cut off.
const FORWARDS: &str = "reads go to the servers, mutations on lease exports wait";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Member;

    fn cluster(members: &[(&str, bool, bool)], live_ms: f64, flushed: u64) -> Cluster {
        let member = |(name, in_view, up): &(&str, bool, bool)| Member {
            name: (*name).to_owned(),
            in_view: *in_view,
            up: *up,
            ..Member::default()
        };
        let mut cluster = Cluster { me: "a".to_owned(), epoch: 3, ..Cluster::default() };
        cluster.members = members.iter().map(member).collect();
        (cluster.leases.live_ms, cluster.leases.acts, cluster.leases.flushed) = (live_ms, true, flushed);
        cluster
    }

    #[test]
    fn every_change_is_said_once() {
        let (mut members, journal) = (Members::default(), Journal::default());
        let mut told = 0;
        let mut said = |journal: &Journal| {
            let events = journal.since(told);
            told += events.len() as u64;
            events.iter().map(|event| format!("{} {}", event.about, event.what)).collect::<Vec<_>>().join(", ")
        };
        let whole = cluster(&[("a", true, true), ("b", true, true)], 1.0, 0);
        members.look(&journal, &whole);
        assert_eq!(
            said(&journal),
            "a is in the view, b is in the view, b is reached, a answers from its caches, a lets mutations pass"
        );
        members.look(&journal, &whole);
        assert_eq!(said(&journal), "");
        members.look(&journal, &cluster(&[("a", true, true), ("b", false, false)], 0.0, 1));
        assert_eq!(
            said(&journal),
            "b is no longer in the view, b is not reached, a answers nothing from its caches, \
             a has forgotten what it cached"
        );
        let mut alone = cluster(&[("a", true, true), ("b", false, false)], 0.0, 1);
        (alone.cut_off, alone.leases.acts) = (true, false);
        members.look(&journal, &alone);
        assert_eq!(said(&journal), "a is cut off from the majority, a holds mutations back");
        members.look(&journal, &whole);
        assert_eq!(
            said(&journal),
            "b is in the view, b is reached, a is cut off no longer, a answers from its caches, a lets mutations pass"
        );
    }
}
