//! A full cache of 100,000 entries: hits by uniform and by skewed keys, misses, and mutations.

use crate::drive::{Operation, Run};
use midas_core::cache::{Cache, Class, CleanStart, Ended, Facts, Mode, Params, Read, Rules, Settings};
use midas_core::rng::{Rng, mix};
use midas_core::time::Time;
use std::hint::black_box;

/// Hits have a target; the rest is shown.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        operation("cache hit, uniform keys", Some(HIT_TARGET), || hits(&uniform_keys())),
        operation("cache hit, zipf:1.1 keys", Some(HIT_TARGET), || hits(&zipf_keys())),
        operation("cache miss, begun and given up", None, misses),
        operation("cache miss, filled, then hit", None, fills),
        operation("cache mark and end of a mutation", None, mutations),
    ]
}

/// The project's target for a lookup, in nanoseconds.
const HIT_TARGET: u64 = 150;

fn operation(name: &str, target: Option<u64>, prepare: fn() -> Run) -> Operation {
    Operation {
        name: name.to_owned(),
        size: ENTRIES as usize,
        units: Box::new(|| 1),
        samples: 100,
        target,
        prepare: Box::new(prepare),
    }
}

/// A handle's and a name's digest, as the proxy makes them.
type Name = [u64; 2];

fn name_of(number: u64) -> Name {
    [mix(number), mix(!number)]
}

fn hits(keys: &[Name]) -> Run {
    let (mut cache, keys, mut at) = (filled(ENTRIES), keys.to_vec(), 0);
    Box::new(move |times| {
        for _ in 0..times {
            at = (at + 1) % keys.len();
            match cache.read(NOW, keys[at], CLASS) {
                Read::Answer { value, .. } => drop(black_box(value)),
                Read::Join(_) | Read::Fetch(_) => unreachable!("every key was filled and nothing expires"),
            }
        }
    })
}

/// With room left: a full cache that is never right stands aside and shrinks, and would be cheaper.
fn misses() -> Run {
    let (mut cache, mut number) = (filled(2 * ENTRIES), ENTRIES);
    Box::new(move |times| {
        for _ in 0..times {
            number += 1;
            if let Read::Fetch(fetch) = cache.read(NOW, name_of(number), CLASS) {
                cache.failed(NOW, fetch);
            }
        }
    })
}

/// Each pushes another entry out. The hit keeps the cache from standing aside.
fn fills() -> Run {
    let (mut cache, mut number) = (filled(ENTRIES), ENTRIES);
    Box::new(move |times| {
        for _ in 0..times {
            number += 1;
            fill(&mut cache, number);
            assert!(
                matches!(cache.read(NOW, name_of(number), CLASS), Read::Answer { .. }),
                "what was filled is answered"
            );
        }
    })
}

fn mutations() -> Run {
    let (mut cache, keys, mut at) = (filled(ENTRIES), uniform_keys(), 0);
    Box::new(move |times| {
        for _ in 0..times {
            at = (at + 1) % keys.len();
            let mark = cache.mark(NOW, keys[at]);
            cache.end(NOW, black_box(mark), Ended::Done);
        }
    })
}

/// An answer of the size that a proxy keeps: a few words.
type Value = [u64; 4];

fn filled(room: u64) -> Cache<Name, Value> {
    let settings = Settings { mode: Mode::Lease, entries_max: room as usize, ..Settings::default() };
    let params = Params::new(settings).expect("the settings are possible");
    let mut cache = Cache::new(params, Rules::ALL, Time::ZERO, CleanStart::Yes);
    (0..ENTRIES).for_each(|number| fill(&mut cache, number));
    cache
}

fn fill(cache: &mut Cache<Name, Value>, number: u64) {
    if let Read::Fetch(fetch) = cache.read(NOW, name_of(number), CLASS) {
        let facts = Facts { changed_at: None, lease_until: None, cost: 128 };
        cache.filled(NOW, fetch, &[number; 4], facts);
    }
}

fn uniform_keys() -> Vec<Name> {
    let mut rng = Rng::new(1);
    (0..DRAWS).map(|_| name_of(rng.below(ENTRIES as usize) as u64)).collect()
}

/// By inversion of the summed weights; the popular ones lie anywhere in the store.
fn zipf_keys() -> Vec<Name> {
    let mut rng = Rng::new(2);
    let mut total = 0.0;
    let sums: Vec<f64> = (1..=ENTRIES)
        .map(|rank| {
            total += libm::pow(rank as f64, -1.1);
            total
        })
        .collect();
    let mut rank = || sums.partition_point(|sum| *sum < rng.unit() * total) as u64;
    (0..DRAWS).map(|_| name_of(rank() * 7_919 % ENTRIES)).collect()
}

const ENTRIES: u64 = 100_000;
/// Keys drawn before they come again.
const DRAWS: usize = 1 << 16;
const CLASS: Class = Class(1);
const NOW: Time = Time::from_nanos(1_000_000_000);
