//! Who asks most, and for what, as the event loops saw it lately.

use super::explain::show_hex;
use crate::api::watch::{Hot, Spot};
use crate::event::Shared;
use crate::watch::{Heat, digest};
use midas_core::telemetry::sketch::Weight;
use midas_core::time::Span;
use std::cmp::Reverse;

/// The hottest of about the last second. Handles only for those who may have them: who has one can call on it.
pub(crate) fn of(shared: &Shared, handles: bool) -> Hot {
    let watch = &shared.watch;
    let reading = watch.spots.read(shared.clock.now());
    let covers = reading.covers.min(Span::from_secs_f64(shared.started.elapsed().as_secs_f64()));
    let directories = top(reading.directories).map(|heat| {
        let path = watch.names.path_of(heat.what.key);
        let digest = digest(heat.what.key);
        let handle = Some(heat.what.handle()).filter(|handle| handles && !handle.is_empty()).map(show_hex);
        let name = path.unwrap_or_else(|| format!("#{digest}"));
        Spot { name, digest: Some(digest), handle, ..spot(&heat) }
    });
    let clients = top(reading.clients).map(|heat| Spot {
        name: heat.what.to_string(),
        job: watch.labels.job_of(heat.what),
        ..spot(&heat)
    });
    let users = top(reading.users).map(|heat| Spot { name: heat.what.to_string(), ..spot(&heat) });
    Hot {
        seconds: covers.as_secs_f64(),
        calls: reading.calls,
        server_ms: millis(reading.nanos),
        directories: directories.collect(),
        clients: clients.collect(),
        users: users.collect(),
    }
}

/// Of those that come with most calls first, the first by calls and the first by time, in the same order.
fn top<V>(all: Vec<Heat<V>>) -> impl Iterator<Item = Heat<V>> {
    let nanos = |heat: &Heat<V>| heat.surely.nanos;
    let mut slow: Vec<(usize, u64)> = all.iter().map(nanos).enumerate().filter(|(_, nanos)| *nanos > 0).collect();
    slow.sort_by_key(|(_, nanos)| Reverse(*nanos));
    slow.truncate(ROWS);
    let chosen = move |at: usize| at < ROWS || slow.iter().any(|(slow, _)| *slow == at);
    all.into_iter().enumerate().filter(move |(at, _)| chosen(*at)).map(|(_, heat)| heat)
}

fn spot<V>(heat: &Heat<V>) -> Spot {
    let Weight { calls, hits, nanos } = heat.surely;
    Spot {
        calls: heat.calls,
        error: heat.calls.saturating_sub(calls),
        server_ms: millis(nanos),
        // Of the calls that are not surely its, nothing else is known.
        hits: if calls == 0 { 0.0 } else { (hits as f64 / calls as f64).min(1.0) },
        ..Spot::default()
    }
}

fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// So many of each kind are told by calls, and so many by time.
const ROWS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn heat(what: u64, calls: u64, nanos: u64) -> Heat<u64> {
        Heat { what, calls, surely: Weight { calls: calls / 2, hits: calls / 4, nanos } }
    }

    #[test]
    fn as_many_are_told_by_time_as_by_calls_and_most_calls_come_first() {
        // Time grows with the number, but for some.
        let mut all: Vec<Heat<u64>> = (0..100).map(|number| heat(number, 1000 - number, 10 + number)).collect();
        all[70].surely.nanos = 5_000;
        all[60].surely.nanos = 4_000;
        all[3].surely.nanos = 9_000;
        let told: Vec<u64> = top(all).map(|heat| heat.what).collect();
        assert_eq!(told, (0..20).chain([60, 70]).chain(83..100).collect::<Vec<u64>>());
        assert_eq!(top(vec![heat(1, 5, 5)]).count(), 1);
        let quick = (0..100).map(|number| heat(number, 1000 - number, 0)).collect();
        assert_eq!(top(quick).count(), ROWS, "what took no time is not slow");
    }

    #[test]
    fn hits_are_a_share_of_the_calls_that_were_surely_its() {
        let Spot { calls, error, server_ms, hits, .. } = spot(&heat(1, 400, 2_500_000));
        assert_eq!((calls, error, server_ms, hits), (400, 200, 2.5, 0.5));
        assert_eq!(spot(&Heat { what: 0, calls: 0, surely: Weight::default() }).hits, 0.0);
    }
}
