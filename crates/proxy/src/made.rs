//! The objects that answered calls have made lately: a call in doubt that finds one of them has not made it.
//!
//! A call that was perhaps executed is judged by what stands under its name. What this proxy has told
//! another caller to have made is that caller's, however much it looks like the call's own: two jobs that
//! take a lock by MKDIR must not both have it.

use crate::generations::Generations;
use crate::pool::lock;
use midas_core::key::Key;
use std::sync::Mutex;

/// The objects that were made lately, by their handles.
#[derive(Default)]
pub(crate) struct Made {
    parts: [Mutex<Generations<()>>; PARTS],
}

impl Made {
    /// Notes that a caller is told that its call has made this object.
    pub(crate) fn note(&self, object: Key) {
        lock(self.part(object)).insert(object, ());
    }

    /// Whether a caller was told so.
    pub(crate) fn was_told(&self, object: Key) -> bool {
        lock(self.part(object)).find(object).is_some()
    }

    fn part(&self, object: Key) -> &Mutex<Generations<()>> {
        &self.parts[(object.0 % PARTS as u64) as usize]
    }
}

/// Parts, each of which remembers some 8,000 to 16,000 objects.
const PARTS: usize = 16;
