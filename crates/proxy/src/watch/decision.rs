//! Why a call went where it went, in the words of `explain`; and a sample of such calls for the journal.

use super::{Outcome, Said, Seen, printable};
use crate::event::Shared;
use midas_core::decision::{Exclusion, Route, Why};
use midas_core::id::ServerId;
use midas_core::time::{Span, Time};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// When the next samples may be told: of calls that moved, and of calls that wait.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    moved: AtomicU64,
    held: AtomicU64,
}

/// A call that left its home is told of, now and then.
#[inline]
pub(crate) fn moved(shared: &Shared, seen: &Seen<'_>) {
    if let Outcome::Forwarded(route) = seen.outcome
        && (route.steered() || matches!(route.why, Why::Rerouted(_)))
        && due(&shared.watch.decisions.moved, seen.at)
    {
        let pool = &shared.exports[seen.realm].pool;
        let named = |server: ServerId| pool.server(server).name.clone();
        tell(shared, seen, &format!("to {}", named(route.to)), because(&route, None, &named));
    }
}

/// A call begins to wait, and is told of, now and then.
pub(crate) fn held(shared: &Shared, seen: &Seen<'_>, why: Exclusion) {
    // Another proxy's client is told of there.
    if !seen.client.is_unspecified() && due(&shared.watch.decisions.held, seen.at) {
        tell(shared, seen, "waits", waits(why));
    }
}

fn tell(shared: &Shared, seen: &Seen<'_>, end: &str, why: String) {
    let watch = &shared.watch;
    let name = seen.name.map_or_else(String::new, |name| format!(" {}", printable(name)));
    let what = format!("{}{name} from {} {end}", seen.procedure, seen.client);
    watch.journal.say(Said::Decision, watch.shown(seen.place), what, why);
}

/// Whether it is time, and if so, not again for [`PAUSE`].
fn due(next: &AtomicU64, now: Time) -> bool {
    let at = next.load(Relaxed);
    now.as_nanos() >= at && next.compare_exchange(at, (now + PAUSE).as_nanos(), Relaxed, Relaxed).is_ok()
}

/// Why every call of an export stays at home, whatever its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stays {
    /// The administrator wants so for now.
    Bypass,
    /// To move a call would cost more than it gains ([`midas_core::route::moves::Moves::None`]).
    Moves,
}

/// Why a call goes where it goes, in a sentence.
pub(crate) fn because(route: &Route, stays: Option<Stays>, named: &impl Fn(ServerId) -> String) -> String {
    match route.why {
        Why::Home => match stays {
            Some(Stays::Bypass) => "bypass is on: every call stays at home".to_owned(),
            Some(Stays::Moves) => "moves = \"none\": every call stays at home, whatever the load".to_owned(),
            None => "at home; the policy finds no reason to leave it".to_owned(),
        },
        Why::Steered { from, gap } => format!("{} has {:.2} more work", named(from), gap.as_f64()),
        Why::Pinned => "an earlier steer of the same object still holds".to_owned(),
        Why::Split { width } => format!("changes in this directory are shared by {width} servers"),
        Why::Overflow => "its home has more than its share of calls, and there is no news of the peers".to_owned(),
        Why::Capped => "it would be steered, but the steering cap is used up".to_owned(),
        Why::Rerouted(why) => format!("next in the home's order; of the home: {}", why.reason()),
        Why::Panic => "every server looks dead, so none is excluded".to_owned(),
        Why::Turn => "it is this server's turn".to_owned(),
        Why::Observed { would } => format!("the policy only observes; it would go to {}", named(would)),
    }
}

/// Why a call waits, in a sentence.
pub(crate) fn waits(why: Exclusion) -> String {
    format!("it waits; of the server that it waits for: {}", why.reason())
}

/// Between two samples of a kind: of both four a second at most.
const PAUSE: Span = Span::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;
    use midas_core::load::Load;

    #[test]
    fn the_reason_names_the_servers_that_it_is_about() {
        let (home, to, other) = (ServerId(0), ServerId(1), ServerId(2));
        let cases = [
            (Why::Home, "at home; the policy finds no reason to leave it"),
            (Why::Steered { from: home, gap: Load::from_f64(3.25) }, "home has 3.25 more work"),
            (Why::Steered { from: other, gap: Load::calls(2) }, "other has 2.00 more work"),
            (Why::Pinned, "an earlier steer of the same object still holds"),
            (Why::Split { width: 3 }, "changes in this directory are shared by 3 servers"),
            (Why::Capped, "it would be steered, but the steering cap is used up"),
            (Why::Rerouted(Exclusion::Drained), "next in the home's order; of the home: "),
            (Why::Observed { would: other }, "the policy only observes; it would go to other"),
        ];
        let named = |server: ServerId| ["home", "to", "other"][server.index()].to_owned();
        for (why, want) in cases {
            let said = because(&Route { to, home, why }, None, &named);
            assert!(said.starts_with(want), "{why:?}: {said}");
        }
        let drained = because(&Route { to, home, why: Why::Rerouted(Exclusion::Drained) }, None, &named);
        assert!(drained.ends_with(Exclusion::Drained.reason()), "{drained}");
        for (stays, want) in [(Stays::Bypass, "bypass is on"), (Stays::Moves, "moves = \"none\"")] {
            let said = because(&Route { to: home, home, why: Why::Home }, Some(stays), &named);
            assert!(said.starts_with(want), "{said}");
        }
    }

    #[test]
    fn of_a_storm_of_moved_calls_two_a_second_are_told() {
        let next = AtomicU64::default();
        let told = (0..10_000).filter(|ms| due(&next, Time::from_nanos(1_000_000 * (1_000 + ms)))).count();
        assert_eq!(told, 20);
    }
}
