//! Since when the names of a directory are known, and of which state of it (nfs3.md, D1).
//!
//! In ttl mode others change directories too: whatever shows one in another state than its names and listings are known of makes all of
//! them unbelieved. What they are known of is one entry, and without it none of them is answered: they cannot outlive it.

use super::label::{Kind, Of, value};
use super::{Cached, Part};
use midas_core::cache::{Left, Mode};
use midas_core::key::Key;
use midas_core::time::Time;
use midas_nfs::nfs3::{FileHandle, Ftype3, Nfstime3, WccAttr, WccData};

/// When a directory last changed, and its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State([u8; STATE]);

/// What its names are known of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Children {
    /// Names that were learned before are not believed.
    pub(super) since: u64,
    pub(super) state: State,
}

impl State {
    pub(super) fn of(attributes: &WccAttr) -> Self {
        let bytes = |time: Nfstime3| ((u64::from(time.seconds) << 32) | u64::from(time.nseconds)).to_be_bytes();
        let mut state = [0; STATE];
        let parts = [bytes(attributes.ctime), bytes(attributes.mtime), attributes.size.to_be_bytes()];
        state.iter_mut().zip(parts.iter().flatten()).for_each(|(to, from)| *to = *from);
        Self(state)
    }

    /// Whether it was so before it was like the other.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        self.0[..CTIME] < other.0[..CTIME]
    }
}

impl Children {
    /// The entry of a directory.
    pub(super) fn value(&self, dir: FileHandle<'_>) -> Box<[u8]> {
        value(Kind::Children, &[dir.bytes()], &[&self.since.to_be_bytes(), &self.state.0])
    }

    fn read(kept: &[u8]) -> Option<Self> {
        let (since, state) = kept.split_first_chunk()?;
        Some(Self { since: u64::from_be_bytes(*since), state: State(state.try_into().ok()?) })
    }
}

impl Part {
    #[inline]
    pub(super) fn children(&mut self, now: Time, key: Key, dir: &[u8]) -> Option<Children> {
        Children::read(self.glance(now, Of(key).children().key, Kind::Children, &[dir])?)
    }

    /// Whether somebody else has changed a directory since its names were learned: a read that left then saw it like this. A mutation of our own
    /// meanwhile might explain it; whoever sees it next will know.
    pub(super) fn shows_change(&mut self, now: Time, left: Left, (key, dir): (Key, &[u8]), seen: &State) -> bool {
        let known = self.children(now, key, dir).map(|children| children.state);
        known.is_some_and(|known| known != *seen && !seen.is_before(&known)) && self.cache.holds(now, left, &key)
    }

    /// A mutation of our own found a directory like this and left it like that. If that is how its names are known they stay so.
    fn we_changed(&mut self, now: Time, (key, dir): (Key, &[u8]), wcc: &WccData, failed: bool) {
        if wcc.after.is_some_and(|after| after.ftype != Ftype3::Dir) {
            return;
        }
        let children = Of(key).children().key;
        let known = self.children(now, key, dir).map(|children| children.state);
        let same = known.is_some() && wcc.before.as_ref().map(State::of) == known;
        match wcc.after {
            Some(after) if same => {
                let State(after) = State::of(&after.wcc_attr());
                if let Some(state) = self.cache.amend(&children).and_then(|kept| kept.last_chunk_mut()) {
                    *state = after;
                }
            }
            // It changed nothing, and shows nothing.
            _ if failed && (same || wcc.before.is_none()) => {}
            _ => self.cache.invalidate(now, children),
        }
    }

    /// The server does not say what was answered of an object, or of a name in it: it was changed past us, and with it its names and listings.
    pub(super) fn strayed(&mut self, now: Time, place: Key, key: Key) {
        for key in [key, place, Of(place).children().key] {
            self.cache.invalidate(now, key);
        }
    }
}

impl Cached {
    /// What a reply to a mutation of our own tells of a directory that it changed, or of an object that may be one.
    pub(super) fn compare(&self, now: Time, part: &mut Part, place: (Key, &[u8]), (wcc, failed): (&WccData, bool)) {
        // Where nobody else changes anything, whatever the directory was before is our own doing.
        if self.mode() == Mode::Ttl {
            part.we_changed(now, place, wcc, failed);
        }
    }
}

const STATE: usize = 24;
const CTIME: usize = 8;
