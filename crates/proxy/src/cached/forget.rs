//! What an administrator has forgotten. Nothing is believed to have changed: it is only asked for again.

use super::answer::HANDLE_MOST;
use super::label::{Kind, Of, Who};
use super::{Cached, guards};
use midas_core::key::Key;
use midas_core::time::Time;
use midas_nfs::nfs3::DirOp;

impl Cached {
    /// Forgets an object: attributes, link and listings; who may do what; where its names lead.
    pub(crate) fn forget(&self, now: Time, object: Key) {
        let mut part = self.part(object);
        for key in guards(object) {
            part.cache.invalidate(now, key);
        }
    }

    /// Forgets where a name leads; the object that it led to, if that was known.
    pub(crate) fn forget_name(&self, now: Time, what: &DirOp<'_>) -> Option<Key> {
        let dir = Key::of(what.dir.bytes());
        let mut handle = [0; HANDLE_MOST];
        let mut part = self.part(dir);
        let name = Of(dir).name(what.name, Kind::Name).key;
        let led = part.target(now, (dir, name), what, &Who::ANYONE, &mut handle);
        part.cache.invalidate(now, name);
        led.filter(|length| *length > 0).map(|length| Key::of(&handle[..length]))
    }
}
