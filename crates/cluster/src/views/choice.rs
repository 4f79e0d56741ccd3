//! Which members the next view should have: all that live and hear each other. The leader asks this, from what members say of themselves.
//!
//! Stability first: a view changes when a member was silent for `suspect_after`, when one asks to leave, or when one comes; who comes must
//! hear everyone first. Of members that do not hear each other (a cut, perhaps one way) the one that misses most is left out, because a view
//! in which two cannot talk has no leases for either. Never fewer than a majority.

use crate::view::{View, majority};
use std::time::{Duration, Instant};

/// What a member says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) incarnation: u64,
    /// Bit by bit, which members it heard within `suspect_after`.
    pub(crate) hears: u16,
    pub(crate) leaving: bool,
}

/// How long it has been so that somebody lives but is not heard by all.
pub(crate) struct Choice {
    patience: Duration,
    unsettled: Option<Instant>,
    /// When the view was learned.
    since: Instant,
}

impl Choice {
    pub(crate) fn new(now: Instant, patience: Duration) -> Self {
        Self { patience, unsettled: None, since: now }
    }

    /// A view was learned.
    pub(crate) fn learned(&mut self, now: Instant) {
        self.since = now;
    }

    /// The members of a better view than this one, if it is time for it. A report is there for whoever was heard within `suspect_after`.
    pub(crate) fn better(&mut self, now: Instant, view: &View, reports: &[Option<Report>]) -> Option<Vec<(u8, u64)>> {
        let (chosen, all) = choose(view, reports);
        let waited_for = if view.epoch == 0 { reports.iter().all(Option::is_some) && all } else { all };
        let unsettled = match waited_for {
            true => None,
            false => Some(self.unsettled.unwrap_or(now)),
        };
        self.unsettled = unsettled;
        if chosen.len() < majority(reports.len()) || chosen == view.members {
            return None;
        }
        // Nobody new: then it is about a link that comes and goes, and may wait.
        let old = |(member, incarnation): &(u8, u64)| view.incarnation(*member) == Some(*incarnation);
        let hurried = chosen.iter().any(|member| !old(member)) || leaves(view, reports);
        let settled = unsettled.is_none_or(|since| now.duration_since(since) >= self.patience);
        let rested = hurried || now.duration_since(self.since) >= self.patience;
        (settled && rested).then_some(chosen)
    }
}

fn leaves(view: &View, reports: &[Option<Report>]) -> bool {
    view.members.iter().any(|(member, incarnation)| {
        reports[usize::from(*member)].is_some_and(|report| report.leaving && report.incarnation == *incarnation)
    })
}

/// A set that hears each other, and whether nobody was left out who lives and wants to stay.
fn choose(view: &View, reports: &[Option<Report>]) -> (Vec<(u8, u64)>, bool) {
    let mut chosen: Vec<(u8, Report)> = (0u8..)
        .zip(reports)
        .filter_map(|(member, report)| Some((member, (*report)?)))
        .filter(|(_, report)| !report.leaving)
        .collect();
    let living = chosen.len();
    while let Some(worst) = worst(view, &chosen) {
        chosen.remove(worst);
    }
    let all = chosen.len() == living;
    (chosen.into_iter().map(|(member, report)| (member, report.incarnation)).collect(), all)
}

/// Who should go first, if anyone must: new ones before those of the view, then who misses most, then who comes last.
fn worst(view: &View, chosen: &[(u8, Report)]) -> Option<usize> {
    let hears = |one: &(u8, Report), other: &(u8, Report)| one.0 == other.0 || one.1.hears >> other.0 & 1 == 1;
    let missing = |one: &(u8, Report)| chosen.iter().filter(|other| !(hears(one, other) && hears(other, one))).count();
    let new = |one: &(u8, Report)| view.incarnation(one.0) != Some(one.1.incarnation);
    let rank = |place: &usize| (new(&chosen[*place]), missing(&chosen[*place]), *place);
    (0..chosen.len()).filter(|place| missing(&chosen[*place]) > 0).max_by_key(rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(3);

    /// Members as a row a member: whom it hears, `x` for itself, `-` for a member that is silent, `!` behind one that leaves.
    fn reports(rows: &[&str]) -> Vec<Option<Report>> {
        let one = |(member, row): (usize, &&str)| {
            let hears = row.bytes().take(rows.len()).enumerate();
            let hears = hears.fold(0, |mask, (place, byte)| mask | u16::from(byte != b'.') << place);
            let report = Report { incarnation: 10 + member as u64, hears, leaving: row.ends_with('!') };
            (!row.starts_with('-')).then_some(report)
        };
        rows.iter().enumerate().map(one).collect()
    }

    fn view(members: &[u8]) -> View {
        let members: Vec<(u8, u64)> = members.iter().map(|member| (*member, 10 + u64::from(*member))).collect();
        View { epoch: u64::from(!members.is_empty()), members }
    }

    /// The members of the better view now, after the patience, and after twice of it.
    fn ask(view: &View, rows: &[&str]) -> [Option<Vec<u8>>; 2] {
        let start = Instant::now();
        let mut choice = Choice::new(start, PATIENCE);
        [0, 1].map(|turn| {
            let better = choice.better(start + PATIENCE * turn, view, &reports(rows));
            better.map(|members| members.into_iter().map(|(member, _)| member).collect())
        })
    }

    #[test]
    fn the_next_view_has_those_that_hear_each_other() {
        let now = |members: &[u8]| [Some(members.to_vec()), Some(members.to_vec())];
        let later = |members: &[u8]| [None, Some(members.to_vec())];
        let never = || [None, None];
        for (what, before, rows, want) in [
            ("all are there at the start", &[][..], &["x11", "1x1", "11x"][..], now(&[0, 1, 2])),
            ("one is missing at the start", &[], &["x1.", "1x.", "-"], later(&[0, 1])),
            ("a minority at the start", &[], &["x..", "-", "-"], never()),
            ("nothing changes", &[0, 1, 2], &["x11", "1x1", "11x"], never()),
            ("one fell silent", &[0, 1, 2], &["x1.", "1x.", "-"], later(&[0, 1])),
            ("a majority fell silent", &[0, 1, 2], &["x..", "-", "-"], never()),
            ("one comes", &[0, 1], &["x11", "1x1", "11x"], now(&[0, 1, 2])),
            ("one comes that not all hear", &[0, 1], &["x11", "1x.", "1.x"], never()),
            ("one leaves", &[0, 1, 2], &["x11", "1x1", "11x!"], now(&[0, 1])),
            ("a cut one way", &[0, 1, 2], &["x11", "1x1", "1.x"], later(&[0, 1])),
            ("one is cut from two", &[0, 1, 2, 3], &["x...", ".x11", ".1x1", "011x"], later(&[1, 2, 3])),
        ] {
            assert_eq!(ask(&view(before), rows), want, "{what}");
        }
    }

    #[test]
    fn a_restart_is_one_change() {
        let (start, before) = (Instant::now(), view(&[0, 1, 2]));
        let mut choice = Choice::new(start, PATIENCE);
        let mut seen = reports(&["x11", "1x.", "1.x"]);
        seen[2].as_mut().unwrap().incarnation = 99;
        assert_eq!(choice.better(start, &before, &seen), None, "it does not hear all yet");
        let mut seen = reports(&["x11", "1x1", "11x"]);
        seen[2].as_mut().unwrap().incarnation = 99;
        assert_eq!(choice.better(start, &before, &seen), Some(vec![(0, 10), (1, 11), (2, 99)]));
    }
}
