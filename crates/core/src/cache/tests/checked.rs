//! Hits that are checked against the server: what a wrong one does to its entry, its class and its export.

use super::*;

const WEEK: u64 = 7 * 86_400_000;

/// Hits of key 1 until one is to be checked.
fn until_sampled(cache: &mut Cache<u64, u64>, now: Time) {
    let facts = Facts { changed_at: Some(at(0)), cost: 1, ..Facts::default() };
    for _ in 0..10_000 {
        if read(cache, now, 1, 7, facts).is_ok() && cache.sampled() {
            return assert!(!cache.sampled(), "said once");
        }
    }
    panic!("never sampled");
}

#[test]
fn a_wrong_hit_is_dropped_and_three_shorten_the_lives_of_their_class_in_ttl_mode() {
    let mut cache = cache(params(|s| (s.mode, s.stale_target) = (Mode::Ttl, 1e-4)));
    let facts = Facts { changed_at: Some(at(0)), cost: 1, ..Facts::default() };
    assert!(read(&mut cache, at(WEEK), 2, 7, facts).is_err(), "another entry of the class, filled before");
    for _ in 0..3 {
        until_sampled(&mut cache, at(WEEK + 1));
        assert_eq!(cache.verdict(at(WEEK + 1), 1, Class(0), Verdict::Different), Next::Nothing);
        assert!(cache.store.peek(&1).is_some_and(|slot| slot.value.is_none()), "dropped");
    }
    let Staleness { factor, samples, stale, high, .. } = cache.staleness(Class(0));
    assert!(factor <= 0.1 && (samples, stale) == (3, 3) && high > 0.5, "{:?}", cache.staleness(Class(0)));
    let Err(Fill::Kept { horizon }) = read(&mut cache, at(WEEK + 2), 1, 7, facts) else { panic!("not kept") };
    assert!(horizon.since(at(WEEK + 2)) < Span::from_millis(3_100), "30 s before");
    assert!(read(&mut cache, at(WEEK + 2_900), 2, 8, facts).is_err(), "the older entry is cut as well");
}

#[test]
fn in_lease_and_immutable_mode_a_difference_seen_twice_demotes_and_a_new_mode_arms_again() {
    for mode in [Mode::Lease, Mode::Immutable] {
        let mut cache = cache(params(|s| s.mode = mode));
        until_sampled(&mut cache, at(WEEK));
        let again = at(WEEK + 1_000);
        assert_eq!(cache.verdict(at(WEEK), 1, Class(0), Verdict::Different), Next::LookAgain(again));
        assert_eq!(cache.looked_again(again, 1, Verdict::Different), Next::Demote);
        assert_eq!(cache.watched().alarmed, Some(again));
        cache.set_mode(Mode::Strict);
        assert_eq!(cache.watched().alarmed, Some(again), "still shown");
        cache.set_mode(mode);
        assert_eq!(cache.watched(), Watched::default());
        until_sampled(&mut cache, at(WEEK + 2_000));
    }
}

#[test]
fn a_check_that_shows_the_same_leaves_everything_as_it_is() {
    for mode in [Mode::Lease, Mode::Ttl, Mode::Immutable] {
        let mut cache = cache(params(|s| s.mode = mode));
        until_sampled(&mut cache, at(WEEK));
        for verdict in [Verdict::Same, Verdict::Unsure] {
            assert_eq!(cache.verdict(at(WEEK), 1, Class(0), verdict), Next::Nothing);
        }
        assert_eq!(read(&mut cache, at(WEEK + 1), 1, 8, Facts::default()), Ok(7));
        assert!(cache.staleness(Class(0)).factor == 1.0 && cache.watched().alarmed.is_none());
    }
}
