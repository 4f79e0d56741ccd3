//! first-fit's knobs. The gap is chosen by whether homes could serve alone what is offered to them; the pin follows the service time.
//!
//! Gap 1 is the oracle's choice: it costs nothing against round-robin, and moves half of all calls. Gap 2 moves a quarter, and a call may wait
//! for one that it could have avoided. While every home can serve its own calls, moves are short excursions, spread over all keys: gap 1.
//! Once a home is offered more than it can serve, gap 1 would drag its hot keys over the whole pool: gap 2 keeps them on few servers. Where
//! servers work on several calls at once, one call ahead costs nothing, and gap 1 would gain nothing.

use crate::control::hysteresis::{Band, Hysteresis, Step};
use crate::control::knobs::{Knobs, WIDTH_MIN};
use crate::control::{Actuation, Cause, Knob, TICK};
use crate::id::SERVERS_MAX;
use crate::load::Load;
use crate::route::policy::{Gap, Policy};
use crate::servers::Servers;
use crate::telemetry::recorder::Recorder;
use crate::time::{Span, Time};
use alloc::vec::Vec;

/// Turns first-fit's knobs.
#[derive(Clone, Debug)]
pub struct Tuner {
    gap: Option<Gap>,
    homes: Vec<Home>,
    ticks: u64,
    hysteresis: Hysteresis,
}

/// How many calls a second are at home at a server.
#[derive(Clone, Copy, Debug)]
struct Home {
    counted: u32,
    rate: f64,
}

impl Tuner {
    /// For a policy and a pool; policies without such knobs are left alone.
    pub fn new(policy: Policy, servers: usize) -> Self {
        let gap = match policy {
            Policy::FirstFit(gap) => Some(gap),
            Policy::Observe => Some(Gap::Auto),
            Policy::Paper(_) | Policy::HashDirectory | Policy::RoundRobinDirectory | Policy::RoundRobin => None,
        };
        let home = Home { counted: 0, rate: 0.0 };
        Self { gap, homes: alloc::vec![home; servers], ticks: 0, hysteresis: Hysteresis::new(BAND) }
    }

    /// The knobs before anything was seen.
    pub fn start(&self, knobs: Knobs) -> Knobs {
        match self.gap {
            Some(Gap::Fixed(gap)) => with_gap(knobs, u32::from(gap), None),
            Some(Gap::Auto) => with_gap(knobs, 1, None),
            None => knobs,
        }
    }

    /// One fast tick.
    pub fn tick(
        &mut self,
        at: Time,
        knobs: Knobs,
        servers: &Servers,
        recorder: &Recorder,
    ) -> (Knobs, [Option<Actuation>; 2]) {
        let service = servers.service();
        let (Some(gap), true) = (self.gap, service > Span::ZERO) else { return (knobs, [None, None]) };
        let (knobs, pin) = follow_service(at, knobs, service);
        let offer = self.offer(servers, service);
        if gap != Gap::Auto || self.ticks < TICKS_MIN {
            return (knobs, [pin, None]);
        }
        let free = recorder.cost_of_one_ahead().filter(|cost| *cost < COST_MIN);
        let step = self.hysteresis.tick(if free.is_some() { f64::INFINITY } else { offer });
        let (to, cause) = match (step, free) {
            (Some(Step::Up), Some(cost)) => (2, Cause::OneAheadIsFree(cost)),
            (Some(Step::Up), None) => (2, Cause::HomesOverloaded(offer)),
            (Some(Step::Down), _) => (1, Cause::HomesCalm(offer)),
            (None, _) => return (knobs, [pin, None]),
        };
        let patience = recorder.regular().then(|| service.scale(1.0 - patience(offer)));
        let turned = with_gap(knobs, to, patience.filter(|_| to == 1));
        let (from, to) = (knobs.gap.as_f64(), turned.gap.as_f64());
        let event = (from != to).then_some(Actuation { at, knob: Knob::Gap, from, to, cause });
        (turned, [pin, event])
    }

    /// The largest share of its capacity that a home is offered; peers are taken to offer as much as this proxy.
    fn offer(&mut self, servers: &Servers, service: Span) -> f64 {
        self.ticks += 1;
        // A plain mean at first, so that the first tick does not weigh more than the others.
        let weight = RATE_ALPHA.max(1.0 / self.ticks as f64);
        let (mut largest, mut sum) = (0.0f64, 0.0);
        for (server, home) in servers.ids().zip(&mut self.homes) {
            let counted = servers.homed(server);
            let calls = counted.wrapping_sub(core::mem::replace(&mut home.counted, counted));
            home.rate += weight * (f64::from(calls) / TICK.as_secs_f64() - home.rate);
            largest = largest.max(home.rate);
            sum += home.rate;
        }
        let mean = sum / self.homes.len().max(1) as f64;
        if mean > 0.0 {
            servers.ids().zip(&self.homes).for_each(|(server, home)| servers.publish_offer(server, home.rate / mean));
        }
        largest * service.as_secs_f64() * f64::from(servers.proxies())
    }
}

/// Everything that goes with a gap.
fn with_gap(knobs: Knobs, gap: u32, patience: Option<Span>) -> Knobs {
    let width_min = if gap == 1 { SERVERS_MAX as u16 } else { WIDTH_MIN };
    Knobs { gap: Load::calls(gap), patience, width_min, ..knobs }
}

/// The share of a service time that is worth waiting for at home: much while the pool is quiet, when few calls wait at all; hardly
/// anything near its capacity.
fn patience(offer: f64) -> f64 {
    let room = (1.0 - offer).clamp(0.0, 1.0);
    (4.0 * room * room).min(0.8)
}

/// A pin lasts a few service times; changes below a fifth are not worth an actuation.
fn follow_service(at: Time, knobs: Knobs, service: Span) -> (Knobs, Option<Actuation>) {
    let pin = service * PIN_SERVICES;
    let (from, to) = (knobs.pin.as_millis_f64(), pin.as_millis_f64());
    match (from - to).abs() > 0.2 * from.max(to) {
        true => {
            let event = Actuation { at, knob: Knob::Pin, from, to, cause: Cause::Service(service) };
            (Knobs { pin, ..knobs }, Some(event))
        }
        false => (knobs, None),
    }
}

/// How many service times a pin lasts.
const PIN_SERVICES: u64 = 3;
/// One call ahead must cost at least this share of a service time for gap 1 to gain anything.
const COST_MIN: f64 = 0.25;
/// Offers are averaged over about 10 s.
const RATE_ALPHA: f64 = 0.025;
/// Ticks before an average is worth anything.
const TICKS_MIN: u64 = 40;
/// Overloaded above 1 for 3 ticks, calm below 0.95 for 8.
const BAND: Band = Band::fixed(1.0, 0.95, 3, 8);
