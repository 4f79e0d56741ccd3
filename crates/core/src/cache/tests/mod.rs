//! The cache as a whole: coherence over random worlds and aimed scenarios, horizons, bounds, and the hazard target.

mod checked;
mod coherence;
mod hazard;
mod world;

use super::*;
use crate::rng::Rng;

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

fn params(change: impl FnOnce(&mut Settings)) -> Params {
    let mut settings = Settings { mode: Mode::Lease, ..Settings::default() };
    change(&mut settings);
    Params::new(settings).unwrap()
}

fn cache(params: Params) -> Cache<u64, u64> {
    Cache::new(params, Rules::ALL, Time::ZERO, CleanStart::Yes)
}

fn fetch(cache: &mut Cache<u64, u64>, now: Time, key: u64) -> Fetch<u64> {
    match cache.read(now, key, Class(0)) {
        Read::Fetch(fetch) => fetch,
        other @ (Read::Answer { .. } | Read::Join(_)) => panic!("expected a fetch, not {other:?}"),
    }
}

/// A read that, if it must be fetched, brings `value` at once.
fn read(cache: &mut Cache<u64, u64>, now: Time, key: u64, value: u64, facts: Facts) -> Result<u64, Fill> {
    match cache.read(now, key, Class(0)) {
        Read::Answer { value, .. } => Ok(value),
        Read::Join(flight) => panic!("nothing else is in flight: {flight:?}"),
        Read::Fetch(fetch) => Err(cache.filled(now, fetch, &value, facts)),
    }
}

#[test]
fn each_mode_answers_until_its_horizon_and_not_at_it() {
    let week_old = Facts { changed_at: Some(at(0)), cost: 1, ..Facts::default() };
    let start = 7 * 86_400_000;
    // (mode, life in ms); ttl: 1e-4 * 604800 s / 2 = 30.24.. s
    let cases = [(Mode::Lease, 30_000), (Mode::Immutable, 3_600_000), (Mode::Ttl, 30_241)];
    for (mode, life) in cases {
        let mut cache = cache(params(|s| s.mode = mode));
        let Err(Fill::Kept { horizon }) = read(&mut cache, at(start), 1, 7, week_old) else { panic!("not kept") };
        assert!((horizon.since(at(start)).as_millis_f64() - f64::from(life)).abs() < 1.0, "{mode:?} {horizon:?}");
        assert_eq!(read(&mut cache, horizon - Span::from_nanos(1), 1, 8, week_old), Ok(7));
        assert!(read(&mut cache, horizon, 1, 8, week_old).is_err(), "{mode:?}");
    }
}

#[test]
fn a_servers_lease_bounds_every_mode_and_wins_over_the_floor() {
    for mode in [Mode::Lease, Mode::Ttl, Mode::Immutable] {
        for estimator in Estimator::ALL {
            let mut cache = cache(params(|s| (s.mode, s.estimator) = (mode, estimator)));
            let lease = at(1_000_000) + Span::from_micros(10);
            let facts = Facts { changed_at: Some(at(0)), lease_until: Some(lease), cost: 1 };
            let fill = read(&mut cache, at(1_000_000), 1, 7, facts);
            assert_eq!(fill, Err(Fill::Kept { horizon: lease }), "{mode:?} {estimator:?}");
            let over = Facts { lease_until: Some(at(1_000_000)), ..facts };
            let fill = read(&mut cache, at(1_000_000), 2, 7, over);
            assert_eq!(fill, Err(Fill::Refused(Refusal::Late)));
        }
    }
}

#[test]
fn strict_never_answers_and_joins_only_what_still_waits_here() {
    let mut cache = cache(Params::default());
    let first = fetch(&mut cache, at(0), 1);
    assert!(matches!(cache.read(at(1), 1, Class(0)), Read::Join(flight) if flight == first.flight()));
    cache.sent(&first);
    let second = fetch(&mut cache, at(2), 1);
    for fetch in [first, second] {
        assert_eq!(cache.filled(at(3), fetch, &7, Facts::default()), Fill::Refused(Refusal::Strict));
    }
    let third = fetch(&mut cache, at(4), 1);
    cache.failed(at(5), third);
    assert_eq!((cache.stats().answers, cache.stats().joins, cache.stats().entries), (0, 1, 0));
}

#[test]
fn an_object_that_changes_too_often_is_not_kept_and_one_without_a_change_time_needs_two_looks() {
    let mut cache = cache(params(|s| (s.mode, s.stale_target) = (Mode::Ttl, 1e-2)));
    let facts = |changed| Facts { changed_at: changed, cost: 1, ..Facts::default() };
    // 1e-2 * 100 ms / 2 = 0.5 ms, below one round trip of 1 ms.
    let hot = read(&mut cache, at(1_000), 1, 7, facts(Some(at(900))));
    assert_eq!(hot, Err(Fill::Refused(Refusal::HazardTooHigh)));
    assert_eq!(read(&mut cache, at(1_000), 2, 7, facts(None)), Err(Fill::Refused(Refusal::Unproven)));
    assert!(matches!(read(&mut cache, at(2_000), 2, 7, facts(None)), Err(Fill::Kept { .. })));
    assert_eq!(read(&mut cache, at(2_001), 2, 8, facts(None)), Ok(7));
}

#[test]
fn a_key_under_write_pressure_is_not_kept_until_it_is_quiet() {
    let mut cache = cache(params(|_| {}));
    for ms in 0..8 {
        let mark = cache.mark(at(ms), 1);
        cache.end(at(ms), mark, Ended::Done);
    }
    let facts = Facts::default();
    assert!(cache.held(at(10), 1));
    assert_eq!(read(&mut cache, at(10), 1, 7, facts), Err(Fill::Refused(Refusal::WritePressure)));
    assert!(matches!(read(&mut cache, at(2_007), 1, 7, facts), Err(Fill::Kept { .. })));
}

#[test]
fn what_is_too_large_is_refused_and_the_bounds_hold_under_random_load() {
    let mut cache = cache(params(|s| (s.entries_max, s.bytes_max) = (500, 10_000)));
    let cost = |cost| Facts { cost, ..Facts::default() };
    assert_eq!(read(&mut cache, at(0), 1, 7, cost(10_001)), Err(Fill::Refused(Refusal::TooLarge)));
    let mut rng = Rng::new(11);
    for ms in 1..50_000 {
        let key = rng.below(800) as u64;
        match rng.below(20) {
            0 => {
                let mark = cache.mark(at(ms), key);
                cache.end(at(ms), mark, Ended::Done);
            }
            1 => cache.invalidate(at(ms), key),
            2.. => drop(read(&mut cache, at(ms), key, 0, cost(rng.below(200)))),
        }
        let stats = cache.stats();
        assert!(stats.entries <= 500 && stats.bytes <= 10_000, "{stats:?}");
    }
    assert!(cache.stats().hit_share > 0.02 && cache.stats().flights == 0 && cache.stats().marked == 0);
    cache.flush();
    assert_eq!((cache.stats().entries, cache.stats().bytes), (0, 0));
}

#[test]
fn uniform_access_over_too_many_keys_is_bypassed_until_it_becomes_useful_again() {
    let mut cache = cache(params(|s| s.entries_max = 1_000));
    let mut rng = Rng::new(2);
    let mut run = |cache: &mut Cache<u64, u64>, keys: usize, reads: u64| {
        for _ in 0..reads {
            let key = rng.below(keys) as u64;
            let _ = read(cache, at(0), key, key, Facts::default());
        }
    };
    run(&mut cache, 800, 20_000);
    assert!(!cache.stats().bypassing, "a hot set that fits");
    run(&mut cache, 100_000, 100_000);
    let aside = cache.stats();
    assert!(aside.bypassing && aside.entries <= 63, "{aside:?}");
    run(&mut cache, 800, 60_000);
    let back = cache.stats();
    assert!(!back.bypassing && back.entries > 700, "{back:?}");
}

#[test]
fn the_slow_loop_learns_from_changes_that_refills_show() {
    let mut cache = cache(params(|s| (s.mode, s.estimator, s.stale_target) = (Mode::Ttl, Estimator::Paper, 1e-2)));
    let seen = |ms| Facts { changed_at: Some(at(ms)), cost: 1, ..Facts::default() };
    for (now, changed) in [(1_000, 0), (602_000, 500_000), (1_204_000, 1_000_000)] {
        assert!(matches!(read(&mut cache, at(now), 1, 7, seen(changed)), Err(Fill::Kept { .. })));
    }
    let mark = cache.mark(at(1_205_000), 1);
    cache.end(at(1_205_000), mark, Ended::Done);
    // Invalidations at 602, 1204 and 1205 s: h = 0.9 * 0.1 / 602 + 0.1 / 1.
    let hazard = 0.09 / 602.0 + 0.1;
    assert!((cache.hazard_of(Class(0)) - hazard).abs() < 1e-12);
    assert_eq!(cache.ttl_of(Class(0)), Span::from_millis(1));
    cache.tick(at(1_230_000));
    assert!((cache.ttl_of(Class(0)).as_secs_f64() - 0.010_050_336 / hazard).abs() < 1e-8);
    // One write in four calls, a = 0.1.
    assert!((cache.write_fraction(Class(0)) - 0.025).abs() < 1e-12);
}
