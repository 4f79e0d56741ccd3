//! Two thresholds and two counters between a noisy signal and a knob. Paper: P5.

/// What to do after a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Pressure was high for long enough: be more aggressive, by one step.
    Up,
    /// Pressure was low for long enough: be less aggressive, by one step.
    Down,
}

/// A dead band with patience on both sides.
#[derive(Clone, Copy, Debug)]
pub struct Hysteresis {
    band: Band,
    high: u32,
    low: u32,
}

/// Thresholds and patience; `down < up` and both counts at least 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    up: f64,
    down: f64,
    ticks_up: u32,
    ticks_down: u32,
}

impl Band {
    /// The paper's: 0.10 for 3 ticks, 0.02 for 8 ticks.
    pub const PAPER: Self = Self { up: 0.10, down: 0.02, ticks_up: 3, ticks_down: 8 };

    /// A band of the code's own, whose values are seen to be in order.
    pub(crate) const fn fixed(up: f64, down: f64, ticks_up: u32, ticks_down: u32) -> Self {
        assert!(down < up && ticks_up > 0 && ticks_down > 0);
        Self { up, down, ticks_up, ticks_down }
    }

    /// A band, or what is wrong with it.
    pub fn new(up: f64, down: f64, ticks_up: u32, ticks_down: u32) -> Result<Self, &'static str> {
        match (down < up, ticks_up > 0 && ticks_down > 0) {
            (true, true) => Ok(Self { up, down, ticks_up, ticks_down }),
            (false, _) => Err("the lower threshold must be below the upper one"),
            (true, false) => Err("both counts of ticks must be at least 1"),
        }
    }

    /// Below the first and above the second something is to be done.
    pub const fn thresholds(self) -> [f64; 2] {
        [self.down, self.up]
    }
}

impl Hysteresis {
    /// Starts with both counters at zero.
    pub fn new(band: Band) -> Self {
        Self { band, high: 0, low: 0 }
    }

    /// Its band.
    pub const fn band(&self) -> Band {
        self.band
    }

    /// Takes a tick's pressure in.
    pub fn tick(&mut self, pressure: f64) -> Option<Step> {
        self.high = if pressure > self.band.up { self.high + 1 } else { 0 };
        self.low = if pressure < self.band.down { self.low + 1 } else { 0 };
        match (self.high >= self.band.ticks_up, self.low >= self.band.ticks_down) {
            (true, _) => {
                self.high = 0;
                Some(Step::Up)
            }
            (false, true) => {
                self.low = 0;
                Some(Step::Down)
            }
            (false, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    /// `#` a tick above the band, `-` inside, `.` below; draws `U`, `D` or a blank for each tick.
    fn play(pressures: &str) -> String {
        let mut hysteresis = Hysteresis::new(Band::PAPER);
        let pressure = |c| match c {
            '#' => 0.5,
            '-' => 0.05,
            _ => 0.0,
        };
        pressures
            .chars()
            .map(|c| match hysteresis.tick(pressure(c)) {
                Some(Step::Up) => 'U',
                Some(Step::Down) => 'D',
                None => ' ',
            })
            .collect()
    }

    #[test]
    fn only_persistent_pressure_moves_a_knob() {
        let cases = [
            ("###", "  U"),
            ("##-##-##", "        "),
            ("######", "  U  U"),
            ("........", "       D"),
            (".......-........", "               D"),
            ("#.#.#.#.#.#.#.#.", "                "),
            ("-----------------", "                 "),
        ];
        for (pressures, want) in cases {
            assert_eq!(play(pressures), want, "{pressures}");
        }
    }

    #[test]
    fn a_band_in_hand_is_a_valid_one() {
        assert!(Band::new(0.02, 0.10, 3, 8).is_err());
        assert!(Band::new(0.10, 0.02, 0, 8).is_err());
        assert_eq!(Band::new(0.10, 0.02, 3, 8), Ok(Band::PAPER));
    }
}
