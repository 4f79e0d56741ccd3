//! Both policies on small pools whose loads are drawn as digits: `"3010"` is four servers with 3, 0, 1 and 0 calls in flight.

use super::*;
use crate::health::Health;
use crate::load::Load;
use crate::op::Op;
use crate::rng::mix;
use crate::route::budget::Share;
use crate::route::paper::{KeyOf, PinCost, Reading};
use crate::route::placement::Placement;
use crate::route::policy::Gap;
use crate::route::ring::Member;
use crate::time::Span;
use std::vec::Vec;

const NOW: Time = Time::from_nanos(1_000_000_000);

struct Small {
    servers: Servers,
    router: Router,
    knobs: Knobs,
    /// The servers in the order of the key under test: digits are given in this order.
    order: Vec<ServerId>,
}

const KEY: Key = Key(0x1234);

impl Small {
    fn new(policy: Policy, loads: &str) -> Self {
        let members: Vec<Member> = (0..loads.len() as u64).map(|i| Member { identity: mix(i), weight: 1.0 }).collect();
        let servers = Servers::new(&members, Placement::Ring);
        let order: Vec<ServerId> = servers.ring.order(KEY).collect();
        for (server, load) in order.iter().zip(loads.chars()) {
            let calls = load.to_digit(36).unwrap();
            for _ in 0..calls {
                servers.dispatch(NOW, *server);
            }
            servers.publish(*server, Load::calls(calls), Span::from_millis(u64::from(calls) * 10), Span::ZERO);
        }
        let knobs = Knobs { margin_latency: Span::from_millis(1), ..Knobs::default() };
        Self { servers, router: Router::new(policy, 7), knobs, order }
    }

    fn gap(loads: &str, gap: u8) -> Self {
        let mut small = Self::new(Policy::FirstFit(Gap::Fixed(gap)), loads);
        small.knobs.gap = Load::calls(u32::from(gap));
        small
    }

    fn choose_at(&mut self, now: Time, op: Op, object: u64) -> (usize, Why) {
        let target = Target::new(op, KEY, KEY.child(object));
        let route = self.router.choose(now, &self.servers, &self.knobs, &target).unwrap();
        (self.order.iter().position(|server| *server == route.to).unwrap(), route.why)
    }

    fn choose(&mut self, op: Op) -> (usize, &'static str) {
        let (place, why) = self.choose_at(NOW, op, 1);
        (place, why.name())
    }
}

#[test]
fn a_read_stays_unless_another_server_is_better_by_the_gap() {
    let cases = [
        (2, "0000", (0, "home")),
        (2, "1000", (0, "home")),
        (2, "2000", (1, "steered")),
        (2, "2111", (0, "home")),
        (2, "3121", (1, "steered")),
        (2, "5430", (3, "steered")),
        (2, "5310", (2, "steered")),
        (3, "2000", (0, "home")),
        (3, "3000", (1, "steered")),
        (3, "3200", (2, "steered")),
        (1, "1000", (1, "steered")),
        (1, "1100", (2, "steered")),
        (1, "1111", (0, "home")),
    ];
    for (gap, loads, want) in cases {
        assert_eq!(Small::gap(loads, gap).choose(Op::Lookup), want, "gap {gap}, {loads}");
    }
}

#[test]
fn long_queues_are_not_shuffled_for_small_differences() {
    // A quarter of 16 is 4: a home that is 3 ahead stays, one that is 4 ahead is left.
    assert_eq!(Small::gap("jggg", 2).choose(Op::Lookup), (0, "home"));
    assert_eq!(Small::gap("kggg", 2).choose(Op::Lookup), (1, "steered"));
}

#[test]
fn a_pin_is_followed_only_while_it_pays() {
    let mut small = Small::gap("4000", 2);
    assert_eq!(small.choose(Op::Lookup), (1, "steered"));
    assert_eq!(small.choose(Op::Lookup), (1, "pinned"));
    let after = NOW + small.knobs.pin;
    assert_eq!(small.choose_at(after, Op::Lookup, 1).1.name(), "steered", "the pin is over");
    let pinned = small.order[1];
    for _ in 0..4 {
        small.servers.dispatch(NOW, pinned);
    }
    assert_eq!(small.choose(Op::Lookup), (2, "steered"), "the pinned server is no longer better than home");
}

#[test]
fn with_a_gap_of_one_a_home_that_is_nearly_done_is_not_left() {
    let mut small = Small::gap("1000", 1);
    small.knobs.patience = Some(Span::from_millis(80));
    let (young, old) = (NOW + Span::from_millis(79), NOW + Span::from_millis(80));
    assert_eq!(small.choose_at(old, Op::Lookup, 1).0, 0);
    assert_eq!(small.choose_at(young, Op::Lookup, 1).0, 1);
}

#[test]
fn mutations_stay_within_the_directorys_width_which_a_storm_widens() {
    let mut small = Small::gap("9900000000", 2);
    assert_eq!(small.choose(Op::Create), (0, "home"), "both of the first two are as loaded");
    let mut reached: Vec<usize> = (0..8).map(|name| small.choose_at(NOW, Op::Create, name).0).collect();
    reached.sort_unstable();
    assert_eq!(reached.last(), Some(&2), "now four servers share it: {reached:?}");
    small.knobs.split = false;
    assert_eq!(small.choose(Op::Create), (0, "home"), "a pool that is not coherent keeps mutations at home");
}

#[test]
fn a_batch_stops_by_itself_at_the_gap() {
    let mut small = Small::gap("8000", 2);
    let mut steered = 0;
    while small.choose_at(NOW, Op::Lookup, steered).0 != 0 {
        let (to, _) = small.choose_at(NOW, Op::Lookup, steered);
        let server = small.order[to];
        small.servers.dispatch(NOW, server);
        steered += 1;
        assert!(steered < 100, "each own dispatch must move the picture");
    }
    let loads: Vec<u32> = small.order.iter().map(|server| small.servers.in_flight(*server)).collect();
    assert!(loads[1..].iter().all(|load| *load >= 6 && *load <= 8), "{loads:?}");
}

#[test]
fn every_fresh_steer_lowers_the_potential() {
    // Paper: P20. V = sum (L - mean)^2 falls by at least 2 with every move over a gap of 2.
    let mut rng = Rng::new(5);
    for _ in 0..2_000 {
        let loads: std::string::String = (0..6).map(|_| char::from_digit(rng.below(20) as u32, 36).unwrap()).collect();
        let mut small = Small::gap(&loads, 2);
        let (to, why) = small.choose_at(NOW, Op::Lookup, 1);
        let before: Vec<f64> = small.order.iter().map(|s| f64::from(small.servers.in_flight(*s))).collect();
        if why.name() == "steered" {
            // V after placing the call at the target against V after placing it at home.
            let (mut home, mut moved) = (before.clone(), before);
            home[0] += 1.0;
            moved[to] += 1.0;
            assert!(potential(&moved) <= potential(&home) - 2.0, "{loads}: moved to {to}");
        }
    }
}

fn potential(loads: &[f64]) -> f64 {
    let mean = loads.iter().sum::<f64>() / loads.len() as f64;
    loads.iter().map(|load| (load - mean) * (load - mean)).sum()
}

#[test]
fn a_slow_server_counts_for_more() {
    let mut small = Small::gap("3100", 2);
    let slow = small.order[1];
    small.servers.publish_weight(slow, crate::load::Weight::from_ratio(3.0));
    assert_eq!(small.choose(Op::Lookup), (2, "steered"));
}

#[test]
fn old_shares_make_it_draw_two_instead_of_taking_the_first() {
    let mut small = Small::gap("90000000", 2);
    small.servers.publish_service_median(Span::from_millis(1));
    small.servers.publish_share_age(Span::from_millis(5), 16);
    let reached: crate::id::ServerSet =
        (0..64).map(|name| ServerId(small.choose_at(NOW, Op::Lookup, name).0 as u16)).collect();
    assert!(reached.len() >= 5, "spread over the pool: {reached:?}");
}

#[test]
fn without_news_of_the_peers_a_home_keeps_its_fair_share_and_the_rest_goes_where_there_is_room() {
    let mut small = Small::gap("0000", 2);
    small.servers.publish_service_median(Span::from_millis(1));
    small.servers.publish_share_age(Span::from_millis(9), 16);
    for (server, offer) in small.order.iter().zip([2.5, 0.75, 0.25, 0.5]) {
        small.servers.publish_offer(*server, offer);
    }
    let mut reached = [0.0f64; 4];
    for name in 0..20_000 {
        reached[small.choose_at(NOW, Op::Lookup, name).0] += 1.0 / 20_000.0;
    }
    // 2.5 fair shares at home: it keeps one; the other 1.5 are shared 0.25 : 0.75 : 0.5 by room.
    for (got, want) in reached.into_iter().zip([0.4, 0.1, 0.3, 0.2]) {
        assert!((got - want).abs() < 0.02, "{reached:?}");
    }
}

#[test]
fn observe_stays_at_home_and_says_where_it_would_have_gone() {
    let mut small = Small::new(Policy::Observe, "4000");
    let (to, why) = small.choose_at(NOW, Op::Lookup, 1);
    assert_eq!((to, why), (0, Why::Observed { would: small.order[1] }));
}

#[test]
fn a_home_that_is_down_is_replaced_by_the_next_and_the_reason_is_told() {
    let mut small = Small::gap("0000", 2);
    let home = small.order[0];
    small.servers.set_health(NOW, home, Health::Down);
    assert_eq!(small.choose_at(NOW, Op::Lookup, 1), (1, Why::Rerouted(Exclusion::Down)));
    small.servers.ids().for_each(|server| small.servers.set_health(NOW, server, Health::Down));
    assert_eq!(small.choose_at(NOW, Op::Lookup, 1), (0, Why::Panic));
}

fn paper(reading: Reading, loads: &str) -> Small {
    let mut small = Small::new(Policy::Paper(reading), loads);
    small.knobs.choices = 4;
    small
}

#[test]
fn paper_steers_only_past_both_margins() {
    let cases =
        [("50000", 1, true), ("40000", 1, true), ("30000", 1, false), ("50000", 60, false), ("54444", 1, false)];
    for (loads, margin_ms, steers) in cases {
        let mut small = paper(Reading::default(), loads);
        small.knobs.margin_latency = Span::from_millis(margin_ms);
        assert_eq!(small.choose(Op::Lookup).1 == "steered", steers, "{loads}, margin {margin_ms} ms");
    }
}

#[test]
fn paper_takes_the_least_loaded_of_its_sample_and_cpu_breaks_ties() {
    let mut small = paper(Reading::default(), "93210");
    assert_eq!(small.choose(Op::Lookup), (4, "steered"));
    let mut tie = paper(Reading::default(), "90000");
    for (server, percent) in tie.order.iter().zip([0, 50, 40, 10, 30]) {
        tie.servers.publish_cpu(*server, percent);
    }
    assert_eq!(tie.choose(Op::Lookup), (3, "steered"));
}

#[test]
fn paper_never_samples_the_home_and_d_bounds_the_sample() {
    let mut small = paper(Reading::default(), "90999999");
    small.knobs.choices = 1;
    small.knobs.steer_share = Share::new(1.0);
    let found = (0..2_000)
        .filter(|name| small.choose_at(NOW + Span::from_secs(*name), Op::Lookup, *name).1.name() == "steered")
        .count();
    let share = found as f64 / 2_000.0;
    assert!((share - 1.0 / 7.0).abs() < 0.03, "one draw of seven finds the idle one: {share}");
}

#[test]
fn paper_pins_and_caps_as_each_reading_says() {
    let play = |reading| {
        let mut small = paper(reading, "90000");
        (0..21).map(|_| small.choose(Op::Lookup).1.chars().next().unwrap()).collect::<std::string::String>()
    };
    // s steered, c capped, p pinned: one token at the start, then one for ten eligible calls.
    assert_eq!(play(Reading::default()), "scccccccccpcccccccccp");
    assert_eq!(play(Reading { pin: PinCost::Free, ..Reading::default() }), "sppppppppppppppppppppp"[..21]);
}

#[test]
fn paper_steers_nothing_while_it_warms_up() {
    let mut small = paper(Reading::default(), "90000");
    small.knobs.steering = false;
    assert_eq!(small.choose(Op::Lookup), (0, "home"));
}

#[test]
fn paper_with_objects_as_keys_gives_each_object_its_own_home() {
    let reading = Reading { key: KeyOf::Object, ..Reading::default() };
    let mut small = paper(reading, "0000000000");
    let homes: crate::id::ServerSet =
        (0..100).map(|name| ServerId(small.choose_at(NOW, Op::Lookup, name).0 as u16)).collect();
    assert_eq!(homes.len(), 10);
}

#[test]
fn round_robin_goes_round_and_directories_keep_their_turn() {
    let mut small = Small::new(Policy::RoundRobin, "000");
    let turn = |small: &mut Small, name| {
        let (place, _) = small.choose_at(NOW, Op::Lookup, name);
        small.order[place].0
    };
    let turns: Vec<u16> = (0..6).map(|name| turn(&mut small, name)).collect();
    assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
    let mut placed = Small::new(Policy::RoundRobinDirectory, "000");
    let first = placed.choose(Op::Lookup);
    assert_eq!((placed.choose(Op::Create), placed.choose(Op::Lookup)), (first, first));
}

#[test]
fn what_would_be_chosen_is_what_is_chosen_and_asking_changes_nothing() {
    for policy in ["first-fit", "observe", "paper", "paper:key=object", "hash-directory", "rr-directory", "rr"] {
        let policy = Policy::parse(policy).unwrap();
        let (mut asked, mut plain) = (Small::new(policy, "5310"), Small::new(policy, "5310"));
        for step in 0..40 {
            let (op, object) = (if step % 3 == 0 { Op::Create } else { Op::Lookup }, step % 7);
            let target = Target::new(op, KEY, KEY.child(object));
            let would = asked.router.would(NOW, &asked.servers, &asked.knobs, &target).unwrap();
            let chosen = asked.router.choose(NOW, &asked.servers, &asked.knobs, &target).unwrap();
            let unasked = plain.router.choose(NOW, &plain.servers, &plain.knobs, &target).unwrap();
            assert_eq!((would, chosen), (chosen, unasked), "{policy}, step {step}");
        }
    }
}

#[test]
fn a_call_that_stays_is_at_home_under_every_policy_that_weighs_loads_however_loaded_home_is() {
    for policy in ["first-fit", "observe", "paper", "paper:key=object"] {
        let mut small = Small::new(Policy::parse(policy).unwrap(), "9310");
        let mut moves = 0;
        for (step, stays) in (0..80).map(|step| (step, step % 2 == 0)) {
            let (op, object) = (if step % 3 == 0 { Op::Create } else { Op::Lookup }, step % 7);
            let target = Target { stays, ..Target::new(op, KEY, KEY.child(object)) };
            let route = small.router.choose(NOW, &small.servers, &small.knobs, &target).unwrap();
            match stays {
                true => assert_eq!((route.to, route.why), (small.order[0], Why::Home), "{policy}, step {step}"),
                false => moves += usize::from((route.to, route.why) != (small.order[0], Why::Home)),
            }
        }
        assert!(moves > 0, "{policy}: nothing would move, so this shows nothing");
    }
}

#[test]
fn a_new_policy_holds_at_once_and_a_bypass_overrules_every_policy() {
    let mut small = Small::gap("5310", 2);
    assert_eq!(small.choose(Op::Lookup), (2, "steered"));
    small.knobs.bypass = true;
    assert_eq!(small.choose(Op::Lookup), (0, "home"));
    small.knobs.bypass = false;
    assert_eq!(small.choose(Op::Lookup), (2, "pinned"), "a bypass forgets nothing");
    small.router.set_policy(Policy::HashDirectory);
    assert_eq!(small.choose(Op::Lookup), (0, "home"));
    small.router.set_policy(Policy::FirstFit(Gap::Fixed(2)));
    assert_eq!(small.choose(Op::Lookup), (2, "steered"), "the pin was the old policy's");
    let mut by_object = Small::new(Policy::Paper(Reading { key: KeyOf::Object, ..Reading::default() }), "0000");
    by_object.knobs.bypass = true;
    assert!((0..50).all(|object| by_object.choose_at(NOW, Op::Lookup, object).0 == 0), "homes are the directories'");
}
