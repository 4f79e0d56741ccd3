//! Invariant 6: knobs stay in range, move one step a tick, and do not oscillate.

use midas_core::control::knobs::Knobs;

/// The knobs of one proxy over time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KnobCheck {
    before: Option<Knobs>,
    tick: u64,
    choices: Turns,
    margin: Turns,
    gap: Turns,
}

/// The last step of one knob: its tick, and whether it made the policy move more calls.
#[derive(Clone, Copy, Debug, Default)]
struct Turns(Option<(u64, bool)>);

impl KnobCheck {
    pub(super) fn ticked(&mut self, knobs: &Knobs) -> Result<(), String> {
        self.tick += 1;
        let before = self.before.replace(*knobs).unwrap_or(*knobs);
        let (margin, gap) = (knobs.margin_load.as_f64(), knobs.gap.as_f64());
        if !(1..=4).contains(&knobs.choices) || !(2.0..=8.0).contains(&margin) || !(1.0..=8.0).contains(&gap) {
            return Err(format!("out of range: {knobs:?}"));
        }
        let choices = f64::from(knobs.choices) - f64::from(before.choices);
        let (margin, gap) = (margin - before.margin_load.as_f64(), gap - before.gap.as_f64());
        if choices.abs() > 1.0 || margin.abs() > 1.0 || gap.abs() > 1.0 {
            return Err(format!("more than one step: {before:?} -> {knobs:?}"));
        }
        self.choices.stepped(self.tick, choices, (TICKS_UP, TICKS_DOWN))?;
        self.margin.stepped(self.tick, -margin, (TICKS_UP, TICKS_DOWN))?;
        // The tuner's band is the other way round: a larger gap after few ticks, a smaller one after many.
        self.gap.stepped(self.tick, -gap, (TICKS_DOWN, TICKS_UP))
    }
}

impl Turns {
    /// A step that makes the policy move more calls (above 0) or fewer; it may turn back only after its number of ticks.
    fn stepped(&mut self, tick: u64, step: f64, (ticks_more, ticks_fewer): (u64, u64)) -> Result<(), String> {
        if step == 0.0 {
            return Ok(());
        }
        let more = step > 0.0;
        let wait = if more { ticks_more } else { ticks_fewer };
        match self.0.replace((tick, more)) {
            Some((last, direction)) if direction != more && tick - last < wait => {
                Err(format!("turned back within {} ticks", tick - last))
            }
            Some(_) | None => Ok(()),
        }
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
        let knobs = |choices, margin, gap| Knobs {
            choices,
            margin_load: Load::calls(margin),
            gap: Load::calls(gap),
            ..Knobs::default()
        };
        let play = |steps: &[(u8, u32, u32)]| {
            let mut check = KnobCheck::default();
            steps.iter().try_for_each(|(choices, margin, gap)| check.ticked(&knobs(*choices, *margin, *gap)))
        };
        assert!(play(&[(2, 4, 2), (3, 3, 2), (4, 2, 2)]).is_ok());
        assert!(play(&[(2, 4, 2), (4, 4, 2)]).is_err(), "two steps at once");
        assert!(play(&[(2, 4, 2), (2, 6, 2)]).is_err(), "two steps at once");
        assert!(play(&[(5, 4, 2)]).is_err(), "out of range");
        assert!(play(&[(2, 4, 9)]).is_err(), "out of range");
        assert!(play(&[(2, 4, 2), (3, 4, 2), (2, 4, 2)]).is_err(), "turned back at once");
        assert!(play(&[(2, 4, 2), (2, 3, 2), (2, 4, 2)]).is_err(), "the margin turned back at once");
        assert!(play(&[(2, 4, 1), (2, 4, 2), (2, 4, 1)]).is_err(), "the gap turned back at once");
    }
}
