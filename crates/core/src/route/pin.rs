//! Keys that stay where they were steered to. Paper: P7.
//!
//! A direct-mapped table: bounded, no allocation, and a collision merely forgets a pin, which costs locality and never correctness.

use crate::id::ServerId;
use crate::key::Key;
use crate::rng::mix;
use crate::time::Time;
use alloc::boxed::Box;

/// Pins of at most [`PINS_MAX`] keys.
#[derive(Clone, Debug)]
pub struct Pins(Box<[Pin]>);

#[derive(Clone, Copy, Debug)]
struct Pin {
    key: Key,
    server: ServerId,
    until: Time,
}

impl Default for Pins {
    fn default() -> Self {
        Self::new(PINS_MAX)
    }
}

impl Pins {
    /// Room for so many keys, at most [`PINS_MAX`].
    pub fn new(keys: usize) -> Self {
        let none = Pin { key: Key(0), server: ServerId(0), until: Time::ZERO };
        Self(alloc::vec![none; keys.clamp(1, PINS_MAX)].into_boxed_slice())
    }

    /// Where the key is pinned now.
    pub fn find(&self, now: Time, key: Key) -> Option<ServerId> {
        let pin = &self.0[self.slot_of(key)];
        (pin.key == key && now < pin.until).then_some(pin.server)
    }

    /// Pins a key until a point in time.
    pub fn pin(&mut self, key: Key, server: ServerId, until: Time) {
        let slot = self.slot_of(key);
        self.0[slot] = Pin { key, server, until };
    }

    fn slot_of(&self, key: Key) -> usize {
        mix(key.0) as usize % self.0.len()
    }
}

/// How many keys can be pinned at once.
pub const PINS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    #[test]
    fn a_pinned_key_stays_until_its_pin_expires() {
        let mut pins = Pins::default();
        let (start, key) = (Time::from_nanos(5), Key(77));
        assert_eq!(pins.find(start, key), None);
        pins.pin(key, ServerId(3), start + Span::from_millis(300));
        let cases = [(0, Some(ServerId(3))), (299, Some(ServerId(3))), (300, None)];
        for (millis, want) in cases {
            assert_eq!(pins.find(start + Span::from_millis(millis), key), want, "after {millis} ms");
        }
        assert_eq!(pins.find(start, Key(78)), None);
    }
}
