//! The last minutes as charts show them: a point every half second, whether or not somebody looks, so that a page that opens sees what
//! was. A point is made of differences between counters; nothing is counted for it alone.

use crate::api::watch::{ExportPoint, POINTS_MAX, Point, ServerPoint};
use crate::cached::Kind;
use crate::counters::{Fate, PROCEDURES, Reads, Totals, reads};
use crate::pool::lock;
use crate::realm::Realm;
use crate::shared::Shared;
use midas_core::cache::Mode;
use midas_core::control::knobs::Knobs;
use midas_core::decision::Why;
use midas_nfs::nfs3::Procedure;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::watch::{Receiver, Sender};

use super::Outcome;

/// The last points.
#[derive(Debug)]
pub(crate) struct Past {
    kept: Mutex<Kept>,
    /// The number of the newest one, for whoever waits for it.
    newest: Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    before: Option<Counts>,
    points: VecDeque<Arc<Point>>,
}

/// What points are the differences of.
#[derive(Clone, Debug, Default, PartialEq)]
struct Counts {
    /// Milliseconds since the daemon's start.
    at_ms: u64,
    answers: [u64; PROCEDURES],
    /// By the outcome's code.
    outcomes: [u64; Outcome::NAMES.len()],
    /// Of all caches together.
    reads: Reads,
    /// Export by export.
    routes: Vec<Routes>,
    /// Calls that only one server could serve, export by export.
    bound: Vec<u64>,
    /// Server by server, pool by pool; begins anew after 2^32.
    sent: Vec<u32>,
}

type Routes = [u64; Why::NAMES.len()];

impl Default for Past {
    fn default() -> Self {
        Self { kept: Mutex::default(), newest: Sender::new(0) }
    }
}

impl Past {
    /// Makes the next point. The first is about all that was before it.
    pub(crate) fn note(&self, shared: &Shared, now: Instant) {
        let counts = Counts::of(shared, now);
        let (servers, exports) = (servers(shared), shared.exports.iter().map(of_export).collect());
        let mut kept = lock(&self.kept);
        let before = kept.before.take().unwrap_or_default();
        let number = kept.points.back().map_or(0, |last| last.number) + 1;
        let point = counts.since(&before, Point { number, servers, exports, ..Point::default() });
        if kept.points.len() == POINTS_MAX {
            kept.points.pop_front();
        }
        kept.points.push_back(Arc::new(point));
        kept.before = Some(counts);
        drop(kept);
        self.newest.send_replace(number);
    }

    /// Those that are kept, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Point>> {
        lock(&self.kept).points.iter().cloned().collect()
    }

    pub(crate) fn last(&self) -> Option<Arc<Point>> {
        lock(&self.kept).points.back().cloned()
    }

    /// Tells of every new point.
    pub(crate) fn told(&self) -> Receiver<u64> {
        self.newest.subscribe()
    }
}

impl Counts {
    fn of(shared: &Shared, now: Instant) -> Self {
        let mut all = Reads::default();
        for area in shared.exports.iter().flat_map(|export| export.areas.iter()) {
            let of_area = reads(&shared.tallies, area.number);
            all.iter_mut().flatten().zip(of_area.iter().flatten()).for_each(|(all, count)| *all += count);
        }
        let servers = shared.pools.iter().flat_map(|pool| pool.servers.ids().map(|id| pool.servers.dispatched(id)));
        let totals = Totals::of(&shared.tallies);
        Self {
            at_ms: now.saturating_duration_since(shared.started).as_millis() as u64,
            answers: totals.calls.map(|by_status| by_status.iter().sum()),
            outcomes: std::array::from_fn(|code| totals.outcomes.iter().map(|by_outcome| by_outcome[code]).sum()),
            reads: all,
            routes: shared.exports.iter().map(Realm::routes).collect(),
            bound: shared.exports.iter().map(|export| export.binds().iter().sum()).collect(),
            sent: servers.collect(),
        }
    }

    /// The rates and shares of what happened since then, in a point that has all else.
    fn since(&self, before: &Self, point: Point) -> Point {
        let seconds = (self.at_ms - before.at_ms).max(1) as f64 / 1e3;
        let rate = |count: u64| count as f64 / seconds;
        let Point { number, mut servers, mut exports, .. } = point;
        for (index, (server, sent)) in servers.iter_mut().zip(&self.sent).enumerate() {
            let sent = sent.wrapping_sub(before.sent.get(index).copied().unwrap_or_default());
            server.calls = rate(sent.into());
        }
        let routes: Vec<Routes> =
            self.routes.iter().enumerate().map(|(at, now)| less(now, before.routes.get(at))).collect();
        for (at, (export, routes)) in exports.iter_mut().zip(&routes).enumerate() {
            let [now, then] = [&self.bound, &before.bound].map(|bound| bound.get(at).copied().unwrap_or_default());
            export.steered = share(BY_CHOICE.iter().map(|why| routes[*why]).sum(), routes.iter().sum());
            export.bound = share(now.saturating_sub(then), routes.iter().sum());
        }
        let answers = less(&self.answers, Some(&before.answers));
        let outcomes = less(&self.outcomes, Some(&before.outcomes));
        let outcomes = Outcome::NAMES.iter().zip(outcomes).map(|(name, count)| ((*name).to_owned(), rate(count)));
        let reads: Vec<_> = self.reads.iter().zip(&before.reads).map(|(now, before)| less(now, Some(before))).collect();
        Point {
            number,
            uptime_ms: self.at_ms,
            servers,
            procedures: named(&answers, |count| (*count > 0).then(|| rate(*count))),
            outcomes: outcomes.collect(),
            hits: named(&reads, hits),
            exports,
        }
    }
}

/// What was counted since then.
fn less<const N: usize>(now: &[u64; N], before: Option<&[u64; N]>) -> [u64; N] {
    std::array::from_fn(|at| now[at].saturating_sub(before.map_or(0, |before| before[at])))
}

fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

/// By procedure; what has no value is left out.
fn named<T>(by_procedure: &[T], value: impl Fn(&T) -> Option<f64>) -> BTreeMap<String, f64> {
    let named = Procedure::ALL.iter().zip(by_procedure);
    named.filter_map(|(procedure, it)| Some((procedure.name().to_owned(), value(it)?))).collect()
}

/// The share that caches answered, of those that they were asked for.
fn hits(fates: &[u64; Fate::ALL.len()]) -> Option<f64> {
    let asked: u64 = fates.iter().sum();
    (asked > 0).then(|| share(asked - fates[Fate::Fetched as usize], asked))
}

/// As they are now; what they were sent is yet to come.
fn servers(shared: &Shared) -> Vec<ServerPoint> {
    let views = shared.pools.iter().flat_map(|pool| pool.servers.ids().map(|id| pool.servers.view(id)));
    let point = |view: midas_core::servers::ServerView| ServerPoint {
        queue: view.load.as_f64(),
        calls: 0.0,
        p50_ms: view.latency_p50.as_millis_f64(),
        p99_ms: view.latency_p99.as_millis_f64(),
    };
    views.map(point).collect()
}

fn of_export(export: &Realm) -> ExportPoint {
    let controller = lock(&export.controller);
    let (signals, knobs, thresholds) = (controller.signals(), controller.knobs(), controller.thresholds());
    let pressure = controller.targets().map(|_| signals.pressure);
    drop(controller);
    let mut knobs = knobs_of(&Knobs { bypass: export.bypassed(), ..knobs });
    knobs.extend(ttls(export));
    ExportPoint { steered: 0.0, bound: 0.0, pressure, thresholds, imbalance: signals.imbalance, knobs }
}

fn knobs_of(knobs: &Knobs) -> BTreeMap<String, f64> {
    let yes = |it: bool| f64::from(u8::from(it));
    let always = [
        ("choices", f64::from(knobs.choices)),
        ("margin_load", knobs.margin_load.as_f64()),
        ("margin_latency_ms", knobs.margin_latency.as_millis_f64()),
        ("steer_share", knobs.steer_share.as_f64()),
        ("pin_ms", knobs.pin.as_millis_f64()),
        ("steering", yes(knobs.steering)),
        ("caching", yes(knobs.caching)),
        ("gap", knobs.gap.as_f64()),
        ("width_min", f64::from(knobs.width_min)),
        ("split", yes(knobs.split)),
        ("bypass", yes(knobs.bypass)),
    ];
    let patience = knobs.patience.map(|patience| ("patience_ms", patience.as_millis_f64()));
    always.into_iter().chain(patience).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// What is kept for how long, where that is learned.
fn ttls(export: &Realm) -> impl Iterator<Item = (String, f64)> {
    let learn = export.areas.iter().filter(|area| area.cached.mode() == Mode::Ttl);
    learn.flat_map(|area| {
        let at = if area.number == export.areas.own().number { String::new() } else { format!(" {}", area.path) };
        Kind::ALL
            .iter()
            .map(move |kind| (format!("ttl_ms {}{at}", kind.name()), area.cached.ttl(*kind).as_millis_f64()))
    })
}

/// Codes of the reasons for which a call leaves its home although it might stay: steered, pinned, split, overflow.
const BY_CHOICE: [usize; 4] = [1, 2, 3, 4];

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(at_ms: u64, getattrs: u64, fates: [u64; 4], routes: &[(usize, u64)], sent: [u32; 2]) -> Counts {
        let forwarded = routes.iter().map(|(_, count)| count).sum();
        let here = getattrs - forwarded - fates[0] - fates[1];
        let mut counts = Counts { at_ms, sent: sent.to_vec(), routes: vec![Routes::default()], ..Counts::default() };
        counts.answers[Procedure::Getattr as usize] = getattrs;
        counts.outcomes = [fates[0], fates[1], 0, forwarded, here];
        counts.reads[Procedure::Getattr as usize] = fates;
        for (why, count) in routes {
            counts.routes[0][*why] = *count;
        }
        counts
    }

    fn blank() -> Point {
        Point {
            number: 7,
            servers: vec![ServerPoint::default(); 2],
            exports: vec![ExportPoint::default()],
            ..Point::default()
        }
    }

    #[test]
    fn a_point_is_the_difference_to_the_one_before() {
        let before = counts(1_000, 100, [10, 0, 0, 10], &[(0, 70)], [u32::MAX, 5]);
        let after = counts(1_500, 200, [40, 10, 0, 20], &[(0, 100), (1, 10), (6, 10)], [9, 5]);
        let point = after.since(&before, blank());
        assert_eq!((point.number, point.uptime_ms), (7, 1_500));
        // 100 in half a second; a counter that began anew in between counts on.
        assert_eq!(point.procedures, BTreeMap::from([("GETATTR".to_owned(), 200.0)]));
        assert_eq!(point.servers.iter().map(|server| server.calls).collect::<Vec<_>>(), [20.0, 0.0]);
        // 30 hits, 10 absent, 50 forwarded, 10 here; 40 of 50 from the cache; 10 of 50 left by choice.
        let rates = [60.0, 20.0, 0.0, 100.0, 20.0];
        assert_eq!(point.outcomes, Outcome::NAMES.iter().map(ToString::to_string).zip(rates).collect());
        assert_eq!(point.hits, BTreeMap::from([("GETATTR".to_owned(), 0.8)]));
        assert!((point.exports[0].steered - 0.2).abs() < 1e-12, "{point:?}");
    }

    #[test]
    fn the_first_point_is_about_all_before_it_and_nothing_divides_by_nothing() {
        let first = counts(0, 0, [0; 4], &[], [0, 0]).since(&Counts::default(), blank());
        assert!(first.procedures.is_empty() && first.hits.is_empty());
        assert!(first.outcomes.values().all(|rate| *rate == 0.0) && first.exports[0].steered == 0.0);
        let second = counts(2_000, 4, [0; 4], &[(0, 2)], [2, 0]).since(&Counts::default(), blank());
        assert_eq!((second.procedures["GETATTR"], second.servers[0].calls), (2.0, 1.0));
    }

    #[test]
    fn the_reasons_by_choice_are_those_of_these_names() {
        assert_eq!(BY_CHOICE.map(|why| Why::NAMES[why]), ["steered", "pinned", "split", "overflow"]);
    }
}
