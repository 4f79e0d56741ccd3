//! Who asks most, and for what, as the event loops saw it lately.

use super::explain::show_hex;
use crate::api::watch::{Hot, Spot};
use crate::event::Shared;
use crate::watch::{Heat, digest};
use midas_core::telemetry::sketch::Weight;
use midas_core::time::Span;

/// The hottest of the last seconds. Handles only for those who may have them: who has one can call on it.
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

/// The first by calls, and the first by time where they are not among them; most calls first.
fn top<V>(mut all: Vec<Heat<V>>) -> impl Iterator<Item = Heat<V>> {
    let mut rest = all.split_off(all.len().min(BY_CALLS));
    rest.sort_by_key(|heat| std::cmp::Reverse(heat.weight.nanos));
    let slow = all.iter().map(|heat| heat.weight.nanos).collect::<Vec<_>>();
    let ahead = |nanos: u64| slow.iter().filter(|other| **other >= nanos).count();
    let mut late: Vec<Heat<V>> = rest
        .into_iter()
        .take(BY_TIME)
        .filter(|heat| heat.weight.nanos > 0 && ahead(heat.weight.nanos) < BY_TIME)
        .collect();
    late.sort_by_key(|heat| std::cmp::Reverse(heat.weight.calls));
    all.into_iter().chain(late)
}

fn spot<V>(heat: &Heat<V>) -> Spot {
    let Weight { calls, hits, nanos } = heat.weight;
    // Hits are counted since it is watched: of the calls before, nothing else is known.
    let watched = calls.saturating_sub(heat.error);
    Spot {
        calls,
        error: heat.error,
        server_ms: millis(nanos),
        hits: if watched == 0 { 0.0 } else { (hits as f64 / watched as f64).min(1.0) },
        ..Spot::default()
    }
}

fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// So many of each kind are told.
const BY_CALLS: usize = 20;
/// And of those that have fewer calls, the ones that are among so many first by time.
const BY_TIME: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn heat(what: u64, calls: u64, nanos: u64) -> Heat<u64> {
        Heat { what, weight: Weight { calls, hits: calls / 4, nanos }, error: calls / 2 }
    }

    #[test]
    fn the_first_by_calls_are_told_and_the_first_by_time_behind_them() {
        let mut all: Vec<Heat<u64>> = (0..100).map(|number| heat(number, 1000 - number, 10)).collect();
        all[70].weight.nanos = 5_000;
        all[60].weight.nanos = 4_000;
        all[3].weight.nanos = 9_000;
        let told: Vec<u64> = top(all).map(|heat| heat.what).collect();
        assert_eq!(told, (0..20).chain([60, 70]).collect::<Vec<u64>>());
        assert_eq!(top(vec![heat(1, 5, 5)]).count(), 1);
    }

    #[test]
    fn hits_are_a_share_of_the_calls_that_were_surely_its() {
        let Spot { calls, error, server_ms, hits, .. } = spot(&heat(1, 400, 2_500_000));
        assert_eq!((calls, error, server_ms, hits), (400, 200, 2.5, 0.5));
        assert_eq!(spot(&Heat { what: 0, weight: Weight::default(), error: 0 }).hits, 0.0);
    }
}
