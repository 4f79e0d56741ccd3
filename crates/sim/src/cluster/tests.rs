//! The simulated cluster itself. That every rule is needed is shown where there is time for it (`cluster_sim`, in the release build).

use super::*;

#[test]
fn same_seed_same_digest() {
    let digest = |seed| run(Setting { family: Family::Mixed, proxies: 3, seed }).digest;
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test]
fn a_clock_shows_a_moment_when_its_true_time_has_come_and_not_before() {
    let clock = Clock { rate: 900_001, offset: 77 };
    for local in [78, 1_000_000, 123_456_789].map(Time::from_nanos) {
        let real = clock.real(local);
        assert!(clock.local(real) >= local && clock.local(real - Span::from_nanos(3)) < local);
    }
}
