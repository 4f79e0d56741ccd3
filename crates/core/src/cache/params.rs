//! What the cache can be told. [`Settings`] is what was typed; a [`Params`] in hand is possible.

use super::mode::Mode;
use super::ttl::Estimator;
use crate::time::Span;

/// What was typed: any value at all. The default is what a proxy runs that was told nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// What the cache may do.
    pub mode: Mode,
    /// At most this many remembered keys.
    pub entries_max: usize,
    /// At most this much cost of kept values; each fill states its own.
    pub bytes_max: usize,
    /// Lease mode: the oldest answer.
    pub lease_age_max: Span,
    /// Immutable mode: the oldest answer.
    pub immutable_age_max: Span,
    /// H: how long a call may linger in a server after its connection broke.
    pub server_hold_max: Span,
    /// p*: the probability that an entry goes stale before its horizon. Paper: P10.
    pub stale_target: f64,
    /// TTL_min: one round trip. Paper: P10.
    pub rtt: Span,
    /// Ttl mode: no entry lives longer, whatever its hazard.
    pub ttl_max: Span,
    /// Ttl mode: how hazards are estimated.
    pub estimator: Estimator,
    /// W_high: a class with a larger share of writes halves its TTL. Paper: P10; the value is ours.
    pub write_fraction_high: f64,
    /// This many mutations of a key ..
    pub pressure_marks: u32,
    /// .. within this time make it uncacheable ..
    pub pressure_window: Span,
    /// .. until it has been quiet this long.
    pub pressure_quiet: Span,
    /// A full cache that remembers less than this share of what is read stands aside.
    pub bypass_below: f64,
    /// Object estimator: evidence older than about this much observed time fades.
    pub memory: Span,
    /// Spreads keys over tables; drawn at random where clients choose names.
    pub spread: u64,
}

/// Settings that are possible. Private so that they stay so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params(Settings);

/// Why settings are impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impossible {
    /// `entries_max` must be in 1..=2^31.
    Entries,
    /// `bytes_max` must not be 0.
    Bytes,
    /// The named time must not be zero.
    Zero(&'static str),
    /// The named share must lie strictly between 0 and 1.
    Share(&'static str),
    /// `ttl_max` must not be below `rtt`.
    TtlBelowRtt,
    /// `pressure_marks` must not be 0.
    PressureMarks,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::Strict,
            entries_max: 100_000,
            bytes_max: 64 << 20,
            lease_age_max: Span::from_secs(30),
            immutable_age_max: Span::from_secs(3600),
            server_hold_max: Span::from_secs(60),
            stale_target: 1e-4,
            rtt: Span::from_millis(1),
            ttl_max: Span::from_secs(600),
            estimator: Estimator::Object,
            write_fraction_high: 0.2,
            pressure_marks: 8,
            pressure_window: Span::from_secs(1),
            pressure_quiet: Span::from_secs(2),
            bypass_below: 0.05,
            memory: Span::from_secs(30 * 24 * 3600),
            spread: 0,
        }
    }
}

impl Params {
    /// The settings, if they are possible.
    pub fn new(settings: Settings) -> Result<Self, Impossible> {
        let s = &settings;
        let spans = [
            ("lease_age_max", s.lease_age_max),
            ("immutable_age_max", s.immutable_age_max),
            ("server_hold_max", s.server_hold_max),
            ("rtt", s.rtt),
            ("pressure_window", s.pressure_window),
            ("pressure_quiet", s.pressure_quiet),
            ("memory", s.memory),
        ];
        let shares = [
            ("stale_target", s.stale_target),
            ("write_fraction_high", s.write_fraction_high),
            ("bypass_below", s.bypass_below),
        ];
        let zero = spans.into_iter().find(|(_, span)| *span == Span::ZERO);
        let share = shares.into_iter().find(|(_, share)| !(*share > 0.0 && *share < 1.0));
        match (s.entries_max, s.bytes_max, s.pressure_marks, zero, share) {
            (0, ..) => Err(Impossible::Entries),
            (n, ..) if n > ENTRIES_CEILING => Err(Impossible::Entries),
            (_, 0, ..) => Err(Impossible::Bytes),
            (_, _, 0, ..) => Err(Impossible::PressureMarks),
            (_, _, _, Some((name, _)), _) => Err(Impossible::Zero(name)),
            (_, _, _, _, Some((name, _))) => Err(Impossible::Share(name)),
            (_, _, _, None, None) if s.ttl_max < s.rtt => Err(Impossible::TtlBelowRtt),
            (_, _, _, None, None) => Ok(Self(settings)),
        }
    }

    /// The same with another mode: every mode is possible.
    pub fn with_mode(self, mode: Mode) -> Self {
        Self(Settings { mode, ..self.0 })
    }
}

impl Default for Params {
    fn default() -> Self {
        Self::new(Settings::default()).expect("the defaults are possible: a test holds them to it")
    }
}

impl core::ops::Deref for Params {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.0
    }
}

/// Slots are numbered with 32 bits.
const ENTRIES_CEILING: usize = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_settings_say_what_is_wrong_with_them() {
        let d = Settings::default();
        let cases = [
            (d, None),
            (Settings { entries_max: 0, ..d }, Some(Impossible::Entries)),
            (Settings { entries_max: ENTRIES_CEILING + 1, ..d }, Some(Impossible::Entries)),
            (Settings { bytes_max: 0, ..d }, Some(Impossible::Bytes)),
            (Settings { pressure_marks: 0, ..d }, Some(Impossible::PressureMarks)),
            (Settings { rtt: Span::ZERO, ..d }, Some(Impossible::Zero("rtt"))),
            (Settings { stale_target: 1.0, ..d }, Some(Impossible::Share("stale_target"))),
            (Settings { bypass_below: f64::NAN, ..d }, Some(Impossible::Share("bypass_below"))),
            (Settings { rtt: Span::from_secs(601), ..d }, Some(Impossible::TtlBelowRtt)),
        ];
        for (settings, want) in cases {
            assert_eq!(Params::new(settings).err(), want);
        }
        assert_eq!(Params::default().with_mode(Mode::Ttl).mode, Mode::Ttl);
    }
}
