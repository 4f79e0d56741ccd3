//! Proxies that cache together, on simulated time: nothing wrong with every rule, and something wrong without any one of them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use midas_sim::cluster::{Family, Outcome, Setting, Wrong, run, run_broken};
use std::sync::atomic::{AtomicU64, Ordering};

/// The first seed, of so many, whose world the predicate is true of; on all cores.
fn first(seeds: u64, world: impl Fn(u64) -> bool + Sync) -> Option<u64> {
    let (next, found) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= seeds || found.load(Ordering::SeqCst) < seed {
                        return;
                    }
                    if world(seed) {
                        found.fetch_min(seed, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    Some(found.into_inner()).filter(|seed| *seed < u64::MAX)
}

#[test]
fn with_every_rule_no_family_sees_a_wrong_answer_and_caches_are_at_work() {
    let families = Family::all();
    let [reads, hits, fetched] = [0, 0, 0].map(AtomicU64::new);
    for (proxies, seeds) in [(3, 20), (5, 6), (9, 2)] {
        let wrong = first(seeds * families.len() as u64, |seed| {
            let family = families[seed as usize % families.len()];
            let outcome = run(Setting { family, proxies, seed });
            let Outcome { violation, reads: more, hits: from_cache, fetched: from_peers, .. } = outcome;
            reads.fetch_add(more, Ordering::SeqCst);
            hits.fetch_add(from_cache, Ordering::SeqCst);
            fetched.fetch_add(from_peers, Ordering::SeqCst);
            if let Some(violation) = &violation {
                eprintln!("{} with {proxies} proxies, seed {seed}: {violation}", family.name());
            }
            violation.is_some()
        });
        assert_eq!(wrong, None, "{proxies} proxies");
    }
    let [reads, hits, fetched] = [reads, hits, fetched].map(|count| count.into_inner() as f64);
    let share = hits / reads;
    assert!(
        share > 0.1 && fetched > 0.05 * reads,
        "a cache that never answers, or nobody, proves nothing: {share}, {fetched}"
    );
}

#[test]
fn without_any_one_rule_its_family_sees_a_wrong_answer_within_500_seeds() {
    let families: Vec<Family> = Family::all().into_iter().filter(|family| *family != Family::Mixed).collect();
    let missed: Vec<String> = families
        .into_iter()
        .filter(|family| {
            let setting = |seed| Setting { family: *family, proxies: 3, seed };
            let wrong =
                |seed| run_broken(setting(seed)).violation.is_some_and(|violation| violation.wrong != Wrong::Stuck);
            first(500, wrong).is_none()
        })
        .map(Family::name)
        .collect();
    assert!(missed.is_empty(), "rules that nothing needs: {missed:?}");
}

#[test]
fn same_seed_same_digest() {
    for family in Family::all() {
        let digest = |seed| run(Setting { family, proxies: 3, seed }).digest;
        assert!(digest(1) == digest(1) && digest(1) != digest(2), "{}", family.name());
    }
}
