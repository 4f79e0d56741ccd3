//! first-fit's knobs: the pin follows the service time, patience follows what one call ahead was measured to cost.
//!
//! Gap 1 (the oracle's choice) moves half of all calls; gap 2 moves a quarter and pays up to half a service time where the home has one
//! call ahead and another server is idle. In between lies what that one call still has to go: patience. Where servers work on several calls
//! at once, one call ahead costs nothing, and patience is nil.

use crate::control::knobs::Knobs;
use crate::control::{Actuation, Cause, Knob};
use crate::load::Load;
use crate::route::policy::{Gap, Policy};
use crate::time::{Span, Time};

/// Turns first-fit's knobs.
#[derive(Clone, Copy, Debug)]
pub struct Tuner {
    gap: Option<Gap>,
}

impl Tuner {
    /// For a policy; those without such knobs are left alone.
    pub fn new(policy: Policy) -> Self {
        let gap = match policy {
            Policy::FirstFit(gap) => Some(gap),
            Policy::Observe => Some(Gap::Auto),
            Policy::Paper(_) | Policy::HashDirectory | Policy::RoundRobinDirectory | Policy::RoundRobin => None,
        };
        Self { gap }
    }

    /// The knobs before anything was seen.
    pub fn start(&self, knobs: Knobs) -> Knobs {
        match self.gap {
            Some(Gap::Fixed(gap)) => {
                let gap = Load::calls(u32::from(gap));
                Knobs { gap, gap_split: gap + gap + gap + gap, ..knobs }
            }
            Some(Gap::Auto) | None => knobs,
        }
    }

    /// One fast tick.
    pub fn tick(
        &self,
        at: Time,
        mut knobs: Knobs,
        service: Option<Span>,
        cost: Option<f64>,
    ) -> (Knobs, [Option<Actuation>; 2]) {
        let (Some(gap), Some(service)) = (self.gap, service) else { return (knobs, [None, None]) };
        let pin = service * PIN_SERVICES;
        let pin_event = moved(knobs.pin, pin).then(|| Actuation {
            at,
            knob: Knob::Pin,
            from: knobs.pin.as_millis_f64(),
            to: pin.as_millis_f64(),
            cause: Cause::Service(service),
        });
        if pin_event.is_some() {
            knobs.pin = pin;
        }
        let (patience, cost) = match (gap, cost) {
            (Gap::Auto, Some(cost)) if cost >= COST_MIN => (Some(service.scale(1.0 - PATIENCE)), cost),
            (Gap::Auto, cost) => (None, cost.unwrap_or(0.0)),
            (Gap::Fixed(_), _) => (knobs.patience, 0.0),
        };
        let value = |patience: Option<Span>| patience.unwrap_or(Span::ZERO);
        let event = moved(value(knobs.patience), value(patience)).then(|| Actuation {
            at,
            knob: Knob::Patience,
            from: value(knobs.patience).as_millis_f64(),
            to: value(patience).as_millis_f64(),
            cause: Cause::CostOfOneAhead(cost),
        });
        if event.is_some() {
            knobs.patience = patience;
        }
        (knobs, [pin_event, event])
    }
}

/// Changes below a fifth are not worth an actuation.
fn moved(from: Span, to: Span) -> bool {
    let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
    (from - to).abs() > 0.2 * from.max(to)
}

/// How many service times a pin lasts.
const PIN_SERVICES: u64 = 3;
/// One call ahead must cost at least this share of a service time.
const COST_MIN: f64 = 0.25;
/// The share of a service time that is worth waiting for at home.
const PATIENCE: f64 = 0.5;
