//! The fast loop: every 250 ms it smooths what was seen, publishes it to the decisions, and turns the knobs by at most one step.
//!
//! Paper: P2-P5, P9. Every actuation is an event with its cause. Nothing waits for the controller. It must never oscillate: a knob
//! moves only on persistent pressure, by one bounded step.

pub mod hysteresis;
pub mod knobs;
pub mod signal;
pub mod tuner;
pub mod warmup;

#[cfg(test)]
mod tests;

use crate::cache::{Class, TtlStep};
use crate::control::knobs::Knobs;
use crate::control::tuner::Tuner;
use crate::id::ServerId;
use crate::load::{Load, Weight};
use crate::rng::Rng;
use crate::route::budget::Share;
use crate::route::policy::Policy;
use crate::servers::Servers;
use crate::telemetry::ewma::Ewma;
use crate::telemetry::recorder::Recorder;
use crate::time::{Span, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use hysteresis::{Band, Hysteresis, Step};
use signal::Signals;
use warmup::{Origin, Targets, Tick, Warmup};

/// T_fast. Paper: P3.
pub const TICK: Span = Span::from_millis(250);

/// A knob that was turned, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Actuation {
    /// When.
    pub at: Time,
    /// Which knob.
    pub knob: Knob,
    /// Its value before.
    pub from: f64,
    /// Its value after.
    pub to: f64,
    /// Why.
    pub cause: Cause,
}

/// The knobs that are turned while running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knob {
    /// d of `paper`.
    Choices,
    /// Delta_L of `paper`, in calls.
    MarginLoad,
    /// Whether steering is allowed (1) or the warm-up still runs (0).
    Steering,
    /// first-fit's gap, in calls.
    Gap,
    /// first-fit's pin, in ms.
    Pin,
    /// The TTL of a cache class, in ms.
    Ttl(Class),
}

impl Knob {
    /// The word that users read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Choices => "choices",
            Self::MarginLoad => "margin_load",
            Self::Steering => "steering",
            Self::Gap => "gap",
            Self::Pin => "pin_ms",
            Self::Ttl(_) => "ttl_ms",
        }
    }
}

/// Why a knob was turned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cause {
    /// The pressure stayed above the band.
    PressureHigh(f64),
    /// The pressure stayed below the band.
    PressureLow(f64),
    /// The warm-up ended with these targets.
    Targets(Targets, Origin),
    /// Homes are offered more than they can serve: the largest offer, in units of a server's capacity.
    HomesOverloaded(f64),
    /// Every home could serve all that is offered to it: the largest offer.
    HomesCalm(f64),
    /// A call ahead costs next to nothing, as a share of a service time: servers work on several at once.
    OneAheadIsFree(f64),
    /// The measured service time moved.
    Service(Span),
    /// A class changes so many times a second, and so large a share of its calls write.
    Hazard(f64, f64),
}

/// The slow loop's actuations look like the fast loop's. Paper: P10.
impl Actuation {
    /// A TTL that the cache turned.
    pub fn of_ttl(at: Time, step: &TtlStep) -> Self {
        let (from, to) = (step.from.as_millis_f64(), step.to.as_millis_f64());
        let cause = Cause::Hazard(step.hazard, step.write_fraction);
        Self { at, knob: Knob::Ttl(step.class), from, to, cause }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PressureHigh(pressure) => write!(f, "pressure stayed high, at {pressure:.3}"),
            Self::PressureLow(pressure) => write!(f, "pressure stayed low, at {pressure:.3}"),
            Self::Targets(targets, origin) => {
                let from = match origin {
                    Origin::Warmup => "measured in the warm-up",
                    Origin::Default => "defaults, since no quiet minute came",
                    Origin::Given => "given",
                };
                let p99 = targets.latency_p99.as_millis_f64();
                write!(f, "targets: imbalance {:.3}, p99 {p99:.3} ms ({from})", targets.imbalance)
            }
            Self::HomesOverloaded(offer) => write!(f, "a home is offered {offer:.2} of what it can serve"),
            Self::HomesCalm(offer) => write!(f, "no home is offered more than {offer:.2} of what it can serve"),
            Self::OneAheadIsFree(cost) => write!(f, "a call ahead costs only {cost:.2} of a service time"),
            Self::Hazard(hazard, writes) => write!(f, "{hazard:.4} changes a second, {writes:.2} of the calls write"),
            Self::Service(service) => write!(f, "a call takes {:.3} ms", service.as_millis_f64()),
        }
    }
}

/// What the controller is given once.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The policy whose knobs it turns.
    pub policy: Policy,
    /// The peak rate of the whole pool in calls a second; 0: learn it.
    pub rate_peak: f64,
    /// Targets by hand, or from before a restart; `None`: warm up.
    pub targets: Option<Targets>,
    /// f_cap. Paper: P8.
    pub steer_share: f64,
    /// Whether the pool is coherent, so that mutations may be split.
    pub split: bool,
    /// Seeds the jitter; differs between proxies.
    pub seed: u64,
}

/// Both loops' state.
#[derive(Debug)]
pub struct Controller {
    knobs: Knobs,
    signals: Signals,
    smooth: Vec<Smooth>,
    rate: Ewma,
    ended: u64,
    latency_p99: Ewma,
    warmup: Option<Warmup>,
    targets: Option<(Targets, Origin)>,
    hysteresis: Hysteresis,
    tuner: Tuner,
    rng: Rng,
    events: VecDeque<Actuation>,
}

/// One server's smoothed telemetry. Paper: P3.
#[derive(Clone, Copy, Debug)]
struct Smooth {
    load: Ewma,
    latency_p50: Ewma,
    latency_p99: Ewma,
    service: Ewma,
    service_least: Ewma,
}

impl Controller {
    /// A controller for a pool of that many servers.
    pub fn new(settings: Settings, servers: usize) -> Self {
        let learns = matches!(settings.policy, Policy::Paper(_)) && settings.targets.is_none();
        let knobs = Knobs {
            steering: !learns,
            caching: !learns,
            steer_share: Share::new(settings.steer_share),
            split: settings.split,
            ..Knobs::default()
        };
        let tuner = Tuner::new(settings.policy, servers);
        Self {
            knobs: tuner.start(knobs),
            signals: Signals::default(),
            smooth: alloc::vec![Smooth::new(); servers],
            rate: Ewma::new(ALPHA),
            ended: 0,
            latency_p99: Ewma::new(ALPHA),
            warmup: learns.then(|| Warmup::new(settings.rate_peak)),
            targets: settings.targets.map(|targets| (targets, Origin::Given)),
            hysteresis: Hysteresis::new(Band::PAPER),
            tuner,
            rng: Rng::for_purpose(settings.seed, 0x6a69_7474_6572),
            events: VecDeque::with_capacity(EVENTS_MAX),
        }
    }

    /// The knobs as they stand.
    pub fn knobs(&self) -> Knobs {
        self.knobs
    }

    /// The pool became coherent, or is no longer.
    pub fn set_split(&mut self, split: bool) {
        self.knobs.split = split;
    }

    /// The signals of the last tick.
    pub fn signals(&self) -> Signals {
        self.signals
    }

    /// Knobs turn when the pressure stays below the first or above the second.
    pub fn thresholds(&self) -> [f64; 2] {
        self.hysteresis.band().thresholds()
    }

    /// The targets and where they come from, once there are any.
    pub fn targets(&self) -> Option<(Targets, Origin)> {
        self.targets
    }

    /// Actuations since the last call; at most [`EVENTS_MAX`], the newest.
    pub fn drain_events(&mut self) -> impl Iterator<Item = Actuation> + '_ {
        self.events.drain(..)
    }

    /// One fast tick of a controller that has its recorder for itself.
    pub fn tick(&mut self, now: Time, servers: &Servers, recorder: &mut Recorder) {
        self.look(now, servers, recorder);
        recorder.rotate();
    }

    /// One fast tick. Several controllers may share servers and a recorder, whose owner then ends its slot once all have looked.
    pub fn look(&mut self, now: Time, servers: &Servers, recorder: &Recorder) {
        servers.tick_health(now);
        for server in servers.ids() {
            self.smooth_server(servers, recorder, server);
        }
        self.publish_weights(now, servers);
        let rate = (recorder.ended() - self.ended) as f64 / TICK.as_secs_f64();
        let rate_smooth = self.rate.update(rate);
        self.ended = recorder.ended();
        if let Some(p99) = recorder.latency_pool().quantile(0.99) {
            self.latency_p99.update(p99.as_secs_f64());
        }
        let latency_p99 = Span::from_secs_f64(self.latency_p99.value().unwrap_or(0.0));
        let loads = self.smooth.iter().map(|smooth| smooth.load.value().unwrap_or(0.0));
        self.signals = Signals::new(loads, latency_p99, self.targets.as_ref().map(|(targets, _)| targets));
        let (imbalance, latencies, rtt) = (self.signals.imbalance, recorder.latency_tick(), servers.rtt());
        self.regulate(now, Tick { rate, rate_smooth, imbalance, latencies, rtt });
        self.jitter(servers.rtt());
        self.tune(now, servers, recorder);
    }

    fn smooth_server(&mut self, servers: &Servers, recorder: &Recorder, server: ServerId) {
        let smooth = &mut self.smooth[server.index()];
        let load = smooth.load.update(servers.load(server).as_f64());
        let latencies = recorder.latency(server);
        if let (Some(p50), Some(p99)) = (latencies.quantile(0.50), latencies.quantile(0.99)) {
            smooth.latency_p50.update(p50.as_secs_f64());
            smooth.latency_p99.update(p99.as_secs_f64());
        }
        if let Some(service) = recorder.service(server) {
            smooth.service_least.update(service.least.as_secs_f64());
            servers.publish_service(server, Span::from_secs_f64(smooth.service.update(service.typical.as_secs_f64())));
        }
        let span = |ewma: Ewma| Span::from_secs_f64(ewma.value().unwrap_or(0.0));
        servers.publish(server, Load::from_f64(load), span(smooth.latency_p50), span(smooth.latency_p99));
    }

    /// A server much slower than the median counts for more, and so does one that errs or has just come back.
    fn publish_weights(&self, now: Time, servers: &Servers) {
        let mut known: Vec<f64> = self.smooth.iter().filter_map(|smooth| smooth.service.value()).collect();
        known.sort_unstable_by(f64::total_cmp);
        let median = known.get(known.len() / 2).copied();
        for (server, smooth) in servers.ids().zip(&self.smooth) {
            let slowness = median.map_or(1.0, |median| smooth.slowness(median));
            servers.publish_weight(server, Weight::from_ratio(slowness * servers.caution(now, server)));
        }
        servers.publish_service_median(Span::from_secs_f64(median.unwrap_or(0.0)));
    }

    /// Paper: P2 while warming up, P5 afterwards.
    fn regulate(&mut self, now: Time, tick: Tick<'_>) {
        if let Some(warmup) = &mut self.warmup {
            if let Some((targets, origin)) = warmup.tick(now, tick) {
                self.warmup = None;
                self.targets = Some((targets, origin));
                self.knobs.steering = true;
                self.knobs.caching = true;
                self.event(Actuation {
                    at: now,
                    knob: Knob::Steering,
                    from: 0.0,
                    to: 1.0,
                    cause: Cause::Targets(targets, origin),
                });
            }
            return;
        }
        if self.targets.is_none() {
            return;
        }
        match self.hysteresis.tick(self.signals.pressure) {
            Some(Step::Up) => self.step(now, 1, Cause::PressureHigh(self.signals.pressure)),
            Some(Step::Down) => self.step(now, -1, Cause::PressureLow(self.signals.pressure)),
            None => {}
        }
    }

    /// One bounded step: more choices and a smaller margin, or the reverse. Paper: P5.
    fn step(&mut self, at: Time, direction: i32, cause: Cause) {
        let choices = (i32::from(self.knobs.choices) + direction).clamp(1, 4) as u8;
        let margin = (self.knobs.margin_load.as_f64() - f64::from(direction)).clamp(2.0, 8.0);
        if choices != self.knobs.choices {
            let (from, to) = (f64::from(self.knobs.choices), f64::from(choices));
            self.event(Actuation { at, knob: Knob::Choices, from, to, cause });
            self.knobs.choices = choices;
        }
        let from = self.knobs.margin_load.as_f64();
        if margin != from {
            self.event(Actuation { at, knob: Knob::MarginLoad, from, to: margin, cause });
            self.knobs.margin_load = Load::from_f64(margin);
        }
    }

    /// Delta_t = RTT +- 0.1 RTT, so that proxies do not move in lockstep. Paper: P9.
    fn jitter(&mut self, rtt: Span) {
        self.knobs.margin_latency = rtt.scale(0.9 + 0.2 * self.rng.unit());
    }

    fn tune(&mut self, now: Time, servers: &Servers, recorder: &Recorder) {
        let (knobs, events) = self.tuner.tick(now, self.knobs, servers, recorder);
        self.knobs = knobs;
        events.into_iter().flatten().for_each(|event| self.event(event));
    }

    fn event(&mut self, event: Actuation) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}

impl Smooth {
    fn new() -> Self {
        let ewma = Ewma::new(ALPHA);
        Self { load: ewma, latency_p50: ewma, latency_p99: ewma, service: ewma, service_least: ewma }
    }

    /// How many times slower than the median this server is, if that is past doubt; otherwise 1.
    fn slowness(&self, median: f64) -> f64 {
        match (self.service.value(), self.service_least.value()) {
            (Some(service), Some(least)) if service > SLOW * median && least > SLOW_LEAST * median => service / median,
            (Some(_) | None, Some(_) | None) => 1.0,
        }
    }
}

/// The paper's smoothing factor. Paper: P3.
const ALPHA: f64 = 0.2;
/// A server counts as slow past this multiple of the median service time.
const SLOW: f64 = 1.5;
/// .. and only if it cannot well be faster than this multiple.
const SLOW_LEAST: f64 = 1.25;
/// Actuations kept until the driver takes them.
pub const EVENTS_MAX: usize = 256;
