//! Over how many servers a directory's mutations are split.
//!
//! A directory starts with width 1: all its mutations go home, where their locks and caches are. Under a storm the width doubles; it falls
//! back only after a quiet period longer than a storm's, so that the next checkpoint finds it ready. Direct-mapped and bounded: a
//! collision merely forgets a width, and the storm doubles it again.

use crate::key::Key;
use crate::rng::mix;
use crate::time::{Span, Time};
use alloc::boxed::Box;

/// Widths of at most [`WIDTHS_MAX`] directories.
#[derive(Clone, Debug)]
pub struct Widths(Box<[Entry]>);

#[derive(Clone, Copy, Debug)]
struct Entry {
    directory: Key,
    width: u16,
    until: Time,
}

impl Default for Widths {
    fn default() -> Self {
        Self::new(WIDTHS_MAX)
    }
}

impl Widths {
    /// Room for so many directories, at most [`WIDTHS_MAX`].
    pub fn new(directories: usize) -> Self {
        let none = Entry { directory: Key(0), width: 1, until: Time::ZERO };
        Self(alloc::vec![none; directories.clamp(1, WIDTHS_MAX)].into_boxed_slice())
    }

    /// The directory's width now.
    pub fn find(&self, now: Time, directory: Key) -> u16 {
        let entry = &self.0[self.slot_of(directory)];
        match entry.directory == directory && now < entry.until {
            true => entry.width,
            false => 1,
        }
    }

    /// Sets a width, to last for [`WIDTH_HOLD`] from now.
    pub fn set(&mut self, now: Time, directory: Key, width: u16) {
        let slot = self.slot_of(directory);
        self.0[slot] = Entry { directory, width, until: now + WIDTH_HOLD };
    }

    fn slot_of(&self, directory: Key) -> usize {
        mix(directory.0) as usize % self.0.len()
    }
}

/// Directories whose width is remembered.
pub const WIDTHS_MAX: usize = 4096;
/// How long a width lasts after it was last needed.
pub const WIDTH_HOLD: Span = Span::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_width_outlasts_the_pause_between_two_checkpoints() {
        let (mut widths, directory, start) = (Widths::default(), Key(5), Time::from_nanos(9));
        assert_eq!(widths.find(start, directory), 1);
        widths.set(start, directory, 8);
        assert_eq!(widths.find(start + Span::from_secs(60), directory), 8);
        assert_eq!(widths.find(start + WIDTH_HOLD, directory), 1);
        assert_eq!(widths.find(start, Key(6)), 1);
    }
}
