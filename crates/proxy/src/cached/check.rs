//! Hits that are checked against a server (nfs3.md, D5): which ones `core` chooses, what was answered, and whether the server says the same.

use super::label::{Kind, Of};
use super::{Cached, Part};
use midas_core::cache::{Left, Next, Verdict};
use midas_core::key::Key;
use midas_core::time::Time;
use midas_nfs::nfs3::Fattr3;
use midas_nfs::xdr::Reader;

/// A hit that is to be checked.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// The object, or the directory of the name.
    pub(crate) place: Key,
    pub(crate) handle: Box<[u8]>,
    /// None: the object's attributes were told.
    pub(crate) name: Option<Box<[u8]>>,
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

impl Part {
    /// Remembers the hit that was just told, if `core` wants it checked.
    pub(super) fn sample(
        &mut self,
        now: Time,
        place: Key,
        (kind, handle): (Kind, &[u8]),
        name: Option<&[u8]>,
        said: &[u8],
    ) {
        if self.cache.sampled() && self.samples.len() < SAMPLES_MOST {
            let (handle, name, said) = (handle.into(), name.map(Into::into), said.into());
            let left = self.cache.left(now);
            self.samples.push(Sample { place, handle, name, said, kind, left });
        }
    }
}

impl Cached {
    /// The hits that are to be checked.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.parts.iter().flat_map(|part| std::mem::take(&mut crate::pool::lock(part).samples)).collect()
    }

    /// A hit that the server did not bear out, and that was dropped for it: what changes from now on excuses a second difference.
    pub(crate) fn suspected(&self, now: Time, sample: Sample) -> Sample {
        Sample { left: self.clock.left(now), ..sample }
    }

    /// Takes note of a check; `again` if it was the second look at the same hit.
    pub(crate) fn checked(&self, now: Time, sample: &Sample, heard: &Heard<'_>, again: bool) -> Next {
        let key = sample.key();
        let mut part = self.part(sample.place);
        // A mutation of our own in between explains everything.
        let verdict = match part.cache.holds(now, sample.left, &key) {
            true => sample.compare(heard),
            false => Verdict::Unsure,
        };
        match again {
            false => part.cache.verdict(now, key, sample.kind.class(), verdict),
            true => part.cache.looked_again(now, key, verdict),
        }
    }
}

impl Sample {
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

/// Hits of one part that wait to be checked.
const SAMPLES_MOST: usize = 16;
