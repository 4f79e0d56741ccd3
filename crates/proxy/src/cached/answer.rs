//! Answers from the cache. An answer is put together of entries that each hold on their own: a name from one, the attributes of what it
//! leads to from another. So nothing that is kept twice can contradict itself, and one mutation drops one thing.
//!
//! Attributes that a reply may leave out are left out where they are not known, except after LOOKUP: clients would ask for them at once.
//! With small answers that are asked for often comes what they rest on, so that they can be given again.

use super::label::{Kind, Of, Who, payload};
use super::memo::Basis;
use super::names::State;
use super::question::Question;
use super::{Cached, Part, part_of};
use crate::fencing::with_entries;
use midas_core::cache::Mode;
use midas_core::key::Key;
use midas_core::time::Time;
use midas_nfs::nfs3::{DirOp, EntryPlus, Fattr3, FileHandle, Nfsstat3, Procedure, ReaddirOk, ReaddirplusOk, Reply};
use midas_nfs::xdr::{Reader, put};
use std::sync::MutexGuard;

/// Attributes as they lie on the wire.
type Raw = [u8; Fattr3::SIZE];

impl Cached {
    /// Appends the results of a call, if they are known; otherwise there are none. `args` are the call's; `place` is the key of the
    /// object or directory that it names.
    #[inline]
    pub(super) fn results(
        &self,
        now: Time,
        (question, args): (&Question<'_>, &[u8]),
        (place, who): (Key, &Who),
        out: &mut Vec<u8>,
    ) -> Option<(Kind, Option<Basis>)> {
        match question {
            Question::Attributes(object) => {
                let (attributes, basis) = self.reading(place).attributes_with(now, place, *object)?;
                put::u32(out, Nfsstat3::OK.0);
                out.extend_from_slice(&attributes);
                Some((Kind::Attributes, Some(basis)))
            }
            Question::Name(what, name) => self.lookup(now, (place, *name), what, who, out),
            Question::Access(object, mask) => self.access(now, place, (*object, *mask), who, out),
            Question::Link(symlink) => Some((self.link(now, place, *symlink, who, out)?, None)),
            Question::Page(dir, procedure) => Some((self.page(now, place, *dir, (args, *procedure), who, out)?, None)),
            Question::Limits(object, procedure) => Some((self.limits(now, place, (*object, *procedure), out)?, None)),
        }
    }

    /// A part, of which is noted from now on what an answer rests on.
    fn reading(&self, place: Key) -> MutexGuard<'_, Part> {
        let mut part = self.part(place);
        part.reach = Time::FAR;
        part
    }

    /// The attributes of what a name leads to.
    fn attributes(&self, now: Time, object: FileHandle<'_>) -> Option<(Raw, Basis)> {
        let key = Key::of(object.bytes());
        if !self.tells(now, key) {
            return None;
        }
        self.reading(key).attributes_with(now, key, object)
    }

    fn lookup(
        &self,
        now: Time,
        (dir, name): (Key, Key),
        what: &DirOp<'_>,
        who: &Who,
        out: &mut Vec<u8>,
    ) -> Option<(Kind, Option<Basis>)> {
        let mut handle = [0; HANDLE_MOST];
        let (length, dir_attributes, basis) = {
            let mut part = self.reading(dir);
            let length = part.leads(now, (dir, name), what, who, &mut handle)?;
            let attributes = part.attributes(now, dir, what.dir);
            (length, attributes, part.basis(dir))
        };
        let Some(object) = FileHandle::new(&handle[..length]).filter(|_| length > 0) else {
            put::u32(out, Nfsstat3::NOENT.0);
            put_attributes(out, dir_attributes.as_ref());
            return Some((Kind::Absent, Some(basis)));
        };
        let (attributes, of_object) = self.attributes(now, object)?;
        put::u32(out, Nfsstat3::OK.0);
        put::opaque(out, object.bytes());
        put_attributes(out, Some(&attributes));
        put_attributes(out, dir_attributes.as_ref());
        Some((Kind::Name, Some(basis.and(of_object))))
    }

    fn access(
        &self,
        now: Time,
        key: Key,
        (object, mask): (FileHandle<'_>, u32),
        who: &Who,
        out: &mut Vec<u8>,
    ) -> Option<(Kind, Option<Basis>)> {
        let mut part = self.reading(key);
        let identity = [object.bytes(), &mask.to_be_bytes(), who.bytes()];
        let granted: [u8; 4] =
            part.get(now, Of(key).access(mask, who).key, Kind::Access, &identity)?.try_into().ok()?;
        put::u32(out, Nfsstat3::OK.0);
        put_attributes(out, part.attributes(now, key, object).as_ref());
        out.extend_from_slice(&granted);
        Some((Kind::Access, Some(part.basis(key))))
    }

    fn link(&self, now: Time, key: Key, symlink: FileHandle<'_>, who: &Who, out: &mut Vec<u8>) -> Option<Kind> {
        let mut part = self.part(key);
        let attributes = part.attributes(now, key, symlink);
        let target = part.get(now, Of(key).link(who).key, Kind::Link, &[symlink.bytes(), who.bytes()])?;
        put::u32(out, Nfsstat3::OK.0);
        put_attributes(out, attributes.as_ref());
        put::opaque(out, target);
        Some(Kind::Link)
    }

    fn limits(
        &self,
        now: Time,
        key: Key,
        (object, procedure): (FileHandle<'_>, Procedure),
        out: &mut Vec<u8>,
    ) -> Option<Kind> {
        let mut part = self.part(key);
        let attributes = part.attributes(now, key, object);
        let identity = [object.bytes(), &(procedure as u32).to_be_bytes()];
        let limits = part.get(now, Of(key).limits(procedure).key, Kind::Limits, &identity)?;
        put::u32(out, Nfsstat3::OK.0);
        put_attributes(out, attributes.as_ref());
        out.extend_from_slice(limits);
        Some(Kind::Limits)
    }

    /// A page as it was, with attributes as they are.
    fn page(
        &self,
        now: Time,
        key: Key,
        dir: FileHandle<'_>,
        (args, procedure): (&[u8], Procedure),
        who: &Who,
        out: &mut Vec<u8>,
    ) -> Option<Kind> {
        let (kept, dir_attributes, known) = {
            let mut part = self.part(key);
            let known = part.children(now, key, dir.bytes()).map(|children| children.state);
            let identity = [args, &[procedure as u8], who.bytes()];
            let kept = part.get(now, Of(key).page(args, who).key, Kind::Page, &identity)?.to_vec();
            (kept, part.attributes(now, key, dir), known)
        };
        let dir_attributes = dir_attributes.and_then(|raw| decoded(&raw));
        // Where others change it too, it must be known to be as the page shows it.
        let stands = |shown: Option<Fattr3>| {
            let shown = shown.map(|shown| State::of(&shown.wcc_attr()));
            self.mode() != Mode::Ttl || known.is_some() && known == shown
        };
        match Reply::decode(procedure, &kept).ok()? {
            Reply::Readdir(Ok(page)) if stands(page.dir_attributes) => {
                Reply::Readdir(Ok(ReaddirOk { dir_attributes, ..page })).encode(out);
            }
            Reply::Readdirplus(Ok(page)) if stands(page.dir_attributes) => {
                self.page_plus(now, &ReaddirplusOk { dir_attributes, ..page }, out)?;
            }
            _ => return None,
        }
        Some(Kind::Page)
    }

    fn page_plus(&self, now: Time, page: &ReaddirplusOk<'_>, out: &mut Vec<u8>) -> Option<()> {
        let mut entries = page.entries();
        let mut all: Vec<EntryPlus<'_>> = entries.by_ref().collect::<Result<_, _>>().ok()?;
        for plus in &mut all {
            // Only where it had some: a page must not grow.
            let known = plus.attributes.and(plus.handle).and_then(|handle| self.attributes(now, handle));
            plus.attributes = known.and_then(|(raw, _)| decoded(&raw));
        }
        out.extend(with_entries(page, &all, entries.eof() == Some(true)));
        Some(())
    }
}

impl Part {
    /// What is kept for this, if it may be answered.
    fn get(&mut self, now: Time, key: Key, kind: Kind, identity: &[&[u8]]) -> Option<&[u8]> {
        let hit = self.cache.get(now, &key)?;
        self.reach = self.reach.min(hit.horizon);
        payload(hit.value, kind, identity)
    }

    /// The same, of what only helps to answer.
    pub(super) fn glance(&mut self, now: Time, key: Key, kind: Kind, identity: &[&[u8]]) -> Option<&[u8]> {
        let hit = self.cache.glance(now, &key)?;
        self.reach = self.reach.min(hit.horizon);
        payload(hit.value, kind, identity)
    }

    /// What was told since the part was taken rests on this.
    fn basis(&self, place: Key) -> Basis {
        Basis::new(part_of(place), self.cache.departures().count(), self.reach)
    }

    fn attributes_with(&mut self, now: Time, key: Key, object: FileHandle<'_>) -> Option<(Raw, Basis)> {
        let raw = self.attributes(now, key, object)?;
        Some((raw, self.basis(key)))
    }

    pub(super) fn attributes(&mut self, now: Time, key: Key, object: FileHandle<'_>) -> Option<Raw> {
        let raw: Raw = self.get(now, key, Kind::Attributes, &[object.bytes()])?.try_into().ok()?;
        self.sample(now, key, (Kind::Attributes, object.bytes()), None, &raw);
        Some(raw)
    }

    /// Where a name leads that this user may look up: to a handle of this length, or nowhere, with length 0.
    fn leads(
        &mut self,
        now: Time,
        (dir, name): (Key, Key),
        what: &DirOp<'_>,
        who: &Who,
        handle: &mut [u8; HANDLE_MOST],
    ) -> Option<usize> {
        self.glance(now, Of(dir).search(who).key, Kind::Search, &[what.dir.bytes(), who.bytes()])?;
        self.target(now, (dir, name), what, who, handle)
    }

    /// The same, whether or not the user may look it up.
    pub(super) fn target(
        &mut self,
        now: Time,
        (dir, name): (Key, Key),
        what: &DirOp<'_>,
        who: &Who,
        handle: &mut [u8; HANDLE_MOST],
    ) -> Option<usize> {
        let since = self.children(now, dir, what.dir.bytes())?.since;
        let identity = [what.dir.bytes(), what.name];
        let hit = self.cache.get(now, &name)?;
        let value = hit.value;
        self.reach = self.reach.min(hit.horizon);
        let known = payload(value, Kind::Name, &identity).or_else(|| payload(value, Kind::Absent, &identity))?;
        let (number, found) = known.split_first_chunk::<8>()?;
        if u64::from_be_bytes(*number) < since {
            return None;
        }
        let length = found.len();
        handle.get_mut(..length)?.copy_from_slice(found);
        let kind = if length == 0 { Kind::Absent } else { Kind::Name };
        // Above an export's root a server sees more than a client may.
        match what.name == b".." {
            true => drop(self.cache.sampled()),
            false => self.sample(now, dir, (kind, what.dir.bytes()), Some((what.name, who)), &handle[..length]),
        }
        Some(length)
    }
}

fn decoded(raw: &Raw) -> Option<Fattr3> {
    Fattr3::decode(&mut Reader::new(raw)).ok()
}

fn put_attributes(out: &mut Vec<u8>, attributes: Option<&Raw>) {
    put::option(out, attributes, |out, raw| out.extend_from_slice(raw));
}

/// The longest handle.
pub(super) const HANDLE_MOST: usize = 64;
