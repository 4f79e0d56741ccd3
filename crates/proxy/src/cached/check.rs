//! Hits that are checked against a server (nfs3.md, D5): which ones `core` chooses, what was answered, and whether the server says the same.

use super::label::{Kind, Of, Who};
use super::{Cached, Part};
use crate::pool::lock;
use midas_core::cache::{Class, Left, Mode, Next, Verdict};
use midas_core::key::Key;
use midas_core::time::Time;
use midas_net::Caller;
use midas_nfs::nfs3::Fattr3;
use midas_nfs::xdr::Reader;
use std::sync::mpsc::SyncSender;

/// A hit that is to be checked.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// The object, or the directory of the name.
    pub(crate) place: Key,
    pub(crate) handle: Box<[u8]>,
    /// None: the object's attributes were told.
    pub(crate) name: Option<Box<[u8]>>,
    /// Who was told: another one may not look the name up.
    who: Who,
    /// What was told: attributes, or the handle that the name leads to, or none.
    said: Box<[u8]>,
    kind: Kind,
    left: Left,
}

/// What the server says.
#[derive(Debug)]
pub(crate) enum Heard<'a> {
    Attributes(Fattr3),
    /// The handle; empty if there is no such name.
    Leads(&'a [u8]),
    /// Nothing, or that it does not know the object: another head may.
    Nothing,
}

/// Where an export's hits are checked.
pub(super) struct Checks(usize, SyncSender<(usize, Sample)>);

impl Part {
    /// Remembers the hit that was just told, if `core` wants it checked.
    #[inline]
    pub(super) fn sample(
        &mut self,
        now: Time,
        place: Key,
        what: (Kind, &[u8]),
        name: Option<(&[u8], &Who)>,
        said: &[u8],
    ) {
        if self.cache.sampled() {
            self.remember(now, place, what, name, said);
        }
    }

    #[cold]
    fn remember(
        &mut self,
        now: Time,
        place: Key,
        (kind, handle): (Kind, &[u8]),
        name: Option<(&[u8], &Who)>,
        said: &[u8],
    ) {
        if let Some(Checks(export, waiting)) = &self.checks {
            let who = name.map_or(Who::ANYONE, |(_, who)| *who);
            let (handle, name, said) = (handle.into(), name.map(|(name, _)| name.into()), said.into());
            let left = self.cache.left(now);
            // Where too many wait, one less is checked.
            let _full = waiting.try_send((*export, Sample { place, handle, name, who, said, kind, left }));
        }
    }
}

impl Cached {
    /// Hits that are to be checked go there from now on, with the number of the export.
    pub(crate) fn check_at(&self, export: usize, waiting: &SyncSender<(usize, Sample)>) {
        self.parts.iter().for_each(|part| lock(part).checks = Some(Checks(export, waiting.clone())));
    }

    /// A hit that the server did not bear out, and that was dropped for it: what changes from now on excuses a second difference.
    pub(crate) fn suspected(&self, now: Time, sample: Sample) -> Sample {
        Sample { left: self.clock.left(now), ..sample }
    }

    /// Takes note of a check; `again` if it was the second look at the same hit.
    pub(crate) fn checked(&self, now: Time, sample: &Sample, heard: &Heard<'_>, again: bool) -> Next {
        let key = sample.key();
        let mut part = self.part(sample.place);
        // A mutation of our own in between explains everything, and so does one of another proxy while
        // this one had no lease.
        let kept_marks = !self.relies_on_marks() || self.leased();
        let verdict = match kept_marks && part.cache.holds(now, sample.left, &key) {
            true => sample.compare(heard),
            false => Verdict::Unsure,
        };
        if verdict == Verdict::Different {
            part.strayed(now, sample.place, key);
        }
        match (self.mode(), again) {
            (Mode::Ttl, false) => {
                drop(part);
                self.learned(now, sample.kind.class(), verdict);
                Next::Nothing
            }
            (Mode::Strict | Mode::Lease | Mode::Immutable, false) => {
                part.cache.verdict(now, key, sample.kind.class(), verdict)
            }
            (_, true) => part.cache.looked_again(now, key, verdict),
        }
    }

    /// What a check in ttl mode showed is told to all parts if something follows from it.
    pub(super) fn learned(&self, now: Time, class: Class, verdict: Verdict) {
        let mut lessons = lock(&self.lessons);
        let before = lessons.course(class);
        lessons.verdict(now, class, verdict);
        let moved = lessons.course(class) != before;
        drop(lessons);
        if moved {
            self.teach(class);
        }
    }
}

impl Sample {
    /// When it was told.
    pub(crate) fn told_at(&self) -> Time {
        self.left.at
    }

    /// On whose behalf it is checked.
    pub(crate) fn caller(&self) -> Caller {
        self.who.caller()
    }

    fn key(&self) -> Key {
        match &self.name {
            Some(name) => Of(self.place).name(name, Kind::Name).key,
            None => self.place,
        }
    }

    fn compare(&self, heard: &Heard<'_>) -> Verdict {
        let same = match heard {
            Heard::Attributes(now) => Fattr3::decode(&mut Reader::new(&self.said)).ok().map(|said| alike(&said, now)),
            Heard::Leads(object) => Some(*object == &*self.said),
            Heard::Nothing => None,
        };
        match same {
            Some(true) => Verdict::Same,
            Some(false) => Verdict::Different,
            None => Verdict::Unsure,
        }
    }
}

/// Whether nothing differs that only a writer changes: neither atime nor the blocks on disk.
fn alike(one: &Fattr3, other: &Fattr3) -> bool {
    let written = |it: &Fattr3| (it.ftype, it.size, it.mtime, it.ctime, it.nlink, it.mode, it.uid, it.gid);
    written(one) == written(other)
}
