//! Invariant 6: knobs stay in range, move one step a tick, and do not oscillate.

use midas_core::control::knobs::Knobs;

/// The knobs of one proxy over time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KnobCheck {
    before: Option<Knobs>,
    tick: u64,
    /// The last step of `choices`: its tick and direction.
    last: Option<(u64, i32)>,
}

impl KnobCheck {
    pub(super) fn ticked(&mut self, knobs: &Knobs) -> Result<(), String> {
        self.tick += 1;
        let before = self.before.replace(*knobs).unwrap_or(*knobs);
        let margin = knobs.margin_load.as_f64();
        if !(1..=4).contains(&knobs.choices) || !(2.0..=8.0).contains(&margin) {
            return Err(format!("out of range: {knobs:?}"));
        }
        let step = i32::from(knobs.choices) - i32::from(before.choices);
        if step.abs() > 1 || (margin - before.margin_load.as_f64()).abs() > 1.0 {
            return Err(format!("more than one step: {before:?} -> {knobs:?}"));
        }
        if step != 0 {
            let wait = if step > 0 { TICKS_UP } else { TICKS_DOWN };
            if let Some((tick, direction)) = self.last.replace((self.tick, step))
                && direction != step
                && self.tick - tick < wait
            {
                return Err(format!("turned back within {} ticks", self.tick - tick));
            }
        }
        Ok(())
    }
}

/// The paper's K_up and K_down: no knob may turn back sooner.
const TICKS_UP: u64 = 3;
const TICKS_DOWN: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use midas_core::load::Load;

    #[test]
    fn the_checker_sees_jumps_and_oscillation() {
        let knobs = |choices, margin| Knobs { choices, margin_load: Load::calls(margin), ..Knobs::default() };
        let play = |steps: &[(u8, u32)]| {
            let mut check = KnobCheck::default();
            steps.iter().try_for_each(|(choices, margin)| check.ticked(&knobs(*choices, *margin)))
        };
        assert!(play(&[(2, 4), (3, 3), (4, 2)]).is_ok());
        assert!(play(&[(2, 4), (4, 4)]).is_err(), "two steps at once");
        assert!(play(&[(2, 4), (2, 6)]).is_err(), "two steps at once");
        assert!(play(&[(5, 4)]).is_err(), "out of range");
        assert!(play(&[(2, 4), (3, 4), (2, 4)]).is_err(), "turned back at once");
    }
}
