//! The controller on hand-made telemetry.

use super::*;
use crate::op::Op;
use crate::rng::mix;
use crate::route::placement::Placement;
use crate::route::policy::Gap;
use crate::route::ring::Member;
use crate::telemetry::recorder::Sample;
use std::string::String;

struct Bench {
    servers: Servers,
    recorder: Recorder,
    controller: Controller,
    now: Time,
}

impl Bench {
    fn new(policy: Policy, targets: Option<Targets>) -> Self {
        let members: Vec<Member> = (0..4).map(|i| Member { identity: mix(i), weight: 1.0 }).collect();
        let servers = Servers::new(&members, Placement::Ring);
        servers.publish_rtt(Span::from_millis(1));
        let settings = Settings { policy, rate_peak: 1_000.0, targets, steer_share: 0.1, split: true, seed: 1 };
        Self { servers, recorder: Recorder::new(4), controller: Controller::new(settings, 4), now: Time::from_nanos(1) }
    }

    /// One tick in which every server ends `calls` calls of that latency; server 0 takes `slow` times as long.
    fn tick(&mut self, calls: u32, latency: Span, slow: f64) {
        for server in self.servers.ids() {
            let latency = if server == ServerId(0) { latency.scale(slow) } else { latency };
            let sample = Sample { server, op: Op::Lookup, latency, found: 0, head_age: Span::ZERO };
            (0..calls).for_each(|_| self.recorder.record(sample, Span::from_millis(1)));
        }
        self.now += TICK;
        self.controller.tick(self.now, &self.servers, &mut self.recorder);
    }

    /// So many calls in flight at server 0 and none elsewhere.
    fn load(&mut self, calls: u32) {
        while self.servers.in_flight(ServerId(0)) < calls {
            self.servers.dispatch(self.now, ServerId(0));
        }
        while self.servers.in_flight(ServerId(0)) > calls {
            self.servers.land(self.now, ServerId(0));
        }
    }
}

const TARGETS: Targets = Targets { imbalance: 0.5, latency_p99: Span::from_millis(20), rtt: Span::from_millis(1) };

fn paper(targets: Option<Targets>) -> Bench {
    Bench::new(Policy::Paper(crate::route::paper::Reading::default()), targets)
}

#[test]
fn paper_waits_for_a_quiet_minute_and_then_steers() {
    let mut bench = paper(None);
    assert!(!bench.controller.knobs().steering && !bench.controller.knobs().caching);
    for _ in 0..240 {
        assert!(!bench.controller.knobs().steering);
        bench.tick(10, Span::from_millis(10), 1.0);
    }
    assert!(bench.controller.knobs().steering && bench.controller.knobs().caching);
    let (targets, origin) = bench.controller.targets().unwrap();
    assert_eq!(origin, Origin::Warmup);
    assert!((targets.latency_p99.as_millis_f64() / 12.5 - 1.0).abs() < 0.07, "{targets:?}");
    let events: Vec<_> = bench.controller.drain_events().collect();
    assert!(matches!(events[..], [Actuation { knob: Knob::Steering, cause: Cause::Targets(..), .. }]));
}

#[test]
fn targets_from_before_a_restart_need_no_warm_up() {
    let bench = paper(Some(TARGETS));
    assert!(bench.controller.knobs().steering);
    assert_eq!(bench.controller.targets(), Some((TARGETS, Origin::Given)));
}

#[test]
fn pressure_turns_both_knobs_step_by_step_to_their_ends_and_back() {
    let mut bench = paper(Some(TARGETS));
    bench.load(8);
    let mut seen = String::new();
    for _ in 0..12 {
        bench.tick(1, Span::from_millis(10), 1.0);
        seen.push(char::from(b'0' + bench.controller.knobs().choices));
    }
    assert_eq!(seen, "223334444444");
    assert_eq!(bench.controller.knobs().margin_load, Load::calls(2));
    bench.load(0);
    for _ in 0..400 {
        bench.tick(1, Span::from_millis(10), 1.0);
    }
    let knobs = bench.controller.knobs();
    assert_eq!((knobs.choices, knobs.margin_load), (1, Load::calls(8)));
    let causes: Vec<_> = bench.controller.drain_events().map(|event| event.cause).collect();
    assert!(matches!(causes[0], Cause::PressureHigh(p) if p > 0.10));
    assert!(matches!(causes[causes.len() - 1], Cause::PressureLow(p) if p < 0.02));
}

#[test]
fn periodic_load_does_not_make_the_knobs_oscillate() {
    // Pressure comes and goes every second: smoothing and the dead band let it pass.
    let mut bench = paper(Some(Targets { imbalance: 1.9, ..TARGETS }));
    let mut turns = 0;
    let mut before = 0;
    for tick in 0..960u32 {
        bench.load(if tick / 4 % 2 == 0 { 2 } else { 6 });
        bench.tick(2, Span::from_millis(10), 1.0);
        for event in bench.controller.drain_events().filter(|event| event.knob == Knob::Choices) {
            let direction = if event.to > event.from { 1 } else { -1 };
            turns += u32::from(before != 0 && before != direction);
            before = direction;
        }
    }
    assert!(turns <= 1, "the knob turned back {turns} times in four minutes");
}

#[test]
fn jitter_keeps_the_latency_margin_within_a_tenth_of_a_round_trip() {
    let mut bench = paper(Some(TARGETS));
    let margins: Vec<f64> = (0..100)
        .map(|_| {
            bench.tick(1, Span::from_millis(10), 1.0);
            bench.controller.knobs().margin_latency.as_millis_f64()
        })
        .collect();
    assert!(margins.iter().all(|margin| (0.9..=1.1).contains(margin)));
    assert!(margins.iter().any(|margin| *margin < 0.95) && margins.iter().any(|margin| *margin > 1.05));
}

#[test]
fn a_server_that_is_slow_past_doubt_counts_for_more() {
    let weights = |slow| {
        let mut bench = Bench::new(Policy::FirstFit(Gap::Auto), None);
        (0..40).for_each(|_| bench.tick(2, Span::from_millis(11), slow));
        bench.servers.view(ServerId(0)).weight.as_f64()
    };
    assert_eq!(weights(1.0), 1.0);
    assert_eq!(weights(1.3), 1.0, "not slow enough to matter");
    assert!((weights(3.0) - 3.2).abs() < 0.2, "32 ms of service against 10: {}", weights(3.0));
}

#[test]
fn the_gap_follows_what_homes_are_offered() {
    let mut bench = Bench::new(Policy::FirstFit(Gap::Auto), None);
    let offer = |bench: &mut Bench, calls: u32, ticks: u32| {
        for _ in 0..ticks {
            bench.servers.slots[0].homed.fetch_add(calls, core::sync::atomic::Ordering::Relaxed);
            bench.tick(2, Span::from_millis(101), 1.0);
        }
        bench.controller.knobs()
    };
    let calm = offer(&mut bench, 2, 60);
    assert_eq!(calm.gap, Load::ONE, "8 calls a second of 100 ms each: the home can do it");
    assert!(calm.patience.is_some(), "and all calls take the same time");
    assert_eq!(offer(&mut bench, 5, 60).gap, Load::calls(2), "20 calls a second: it cannot");
    assert_eq!(offer(&mut bench, 1, 120).gap, Load::ONE, "calm again");
    let gaps: Vec<_> = bench.controller.drain_events().filter(|event| event.knob == Knob::Gap).collect();
    assert_eq!(gaps.len(), 2, "each change is one event: {gaps:?}");
}

#[test]
fn a_fixed_gap_stays() {
    let mut bench = Bench::new(Policy::FirstFit(Gap::Fixed(3)), None);
    (0..100).for_each(|_| bench.tick(2, Span::from_millis(101), 1.0));
    assert_eq!((bench.controller.knobs().gap, bench.controller.knobs().patience), (Load::calls(3), None));
}

#[test]
fn events_that_nobody_takes_are_bounded() {
    let mut bench = paper(Some(TARGETS));
    for round in 0..2_000u32 {
        bench.load(if round / 40 % 2 == 0 { 9 } else { 0 });
        bench.tick(1, Span::from_millis(10), 1.0);
    }
    assert!(bench.controller.drain_events().count() <= EVENTS_MAX);
}
