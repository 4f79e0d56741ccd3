//! The hazard target, measured: objects whose hazards are log-uniform over four decades change and are read at random; an
//! entry is stale if its object changes between the fill and the horizon.

use super::*;
use alloc::vec::Vec;

/// What one estimator did.
struct Outcome {
    entries: u64,
    stale: u64,
    refused: u64,
    hit_share: f64,
}

impl Outcome {
    fn share(&self) -> f64 {
        self.stale as f64 / self.entries as f64
    }
}

struct Object {
    hazard: f64,
    changed: f64,
    next_change: f64,
}

impl Object {
    fn new(rng: &mut Rng, start: f64) -> Self {
        let hazard = libm::pow(10.0, -4.0 + 4.0 * rng.unit());
        let changed = start - rng.exponential() / hazard;
        Self { hazard, changed: changed.max(0.0), next_change: start + rng.exponential() / hazard }
    }

    fn advance(&mut self, rng: &mut Rng, now: f64) {
        while self.next_change <= now {
            self.changed = self.next_change;
            self.next_change += rng.exponential() / self.hazard;
        }
    }
}

fn secs(secs: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(secs)
}

/// Poisson reads of `objects` until `entries` fills were kept. Mean time between reads of one object: 1 s.
fn measure(estimator: Estimator, stale_target: f64, objects: usize, entries: u64) -> Outcome {
    let mut rng = Rng::new(9);
    let start = 1e6;
    let mut world: Vec<Object> = (0..objects).map(|_| Object::new(&mut rng, start)).collect();
    let mut cache = cache(params(|s| {
        (s.mode, s.estimator, s.stale_target) = (Mode::Ttl, estimator, stale_target);
        (s.rtt, s.ttl_max) = (Span::from_millis(1), Span::from_secs(3600));
    }));
    let (mut now, mut ticked) = (start, start);
    let mut outcome = Outcome { entries: 0, stale: 0, refused: 0, hit_share: 0.0 };
    while outcome.entries < entries {
        now += rng.exponential() / objects as f64;
        if now - ticked > 30.0 {
            cache.tick(secs(now));
            ticked = now;
        }
        let key = rng.below(objects);
        world[key].advance(&mut rng, now);
        let Read::Fetch(fetch) = cache.read(secs(now), key as u64, Class(0)) else { continue };
        let facts = Facts { changed_at: Some(secs(world[key].changed)), cost: 1, ..Facts::default() };
        match cache.filled(secs(now), fetch, &0, facts) {
            Fill::Kept { horizon } => {
                outcome.entries += 1;
                outcome.stale += u64::from(secs(world[key].next_change) < horizon);
            }
            Fill::Refused(_) => outcome.refused += 1,
        }
    }
    outcome.hit_share = cache.stats().hit_share;
    outcome
}

#[test]
fn our_estimator_stays_below_the_target_and_answers_far_more_than_the_papers() {
    let ours = measure(Estimator::Object, 1e-2, 2_000, 200_000);
    let papers = measure(Estimator::Paper, 1e-2, 2_000, 200_000);
    for (name, it) in [("ours", &ours), ("paper", &papers)] {
        let (stale, hits) = (it.share(), it.hit_share);
        std::println!("{name}: stale share per entry {stale:.6}, hit share {hits:.4}, {} refused", it.refused);
    }
    assert!(ours.share() <= 1.1e-2, "{}", ours.share());
    assert!(ours.share() >= 1e-3, "the target is used, not avoided: {}", ours.share());
    assert!(ours.hit_share > 10.0 * papers.hit_share);
}
