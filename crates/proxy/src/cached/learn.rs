//! What a reply teaches (nfs3.md, D1, D8): every attribute in it, where its names lead, and that its user may see them.

use super::answer::HANDLE_MOST;
use super::label::{Kind, Of, Who, value};
use super::names::{Children, State};
use super::question::Question;
use super::twins::FileId;
use super::{Cached, ENTRY_OVERHEAD, Part};
use crate::clock::file_time;
use crate::translate::Meaning;
use midas_core::cache::{Entry, Facts, Fill, Left, Mode, Refusal};
use midas_core::key::Key;
use midas_core::time::Time;
use midas_nfs::nfs3::{
    Call, DirOp, Failed, Fattr3, FileHandle, Ftype3, LookupOk, Nfsstat3, PostOpAttr, Procedure, ReaddirplusOk, Reply,
};
use std::cell::Cell;

impl Cached {
    /// Learns from the results of a read that left then.
    pub(super) fn learn(
        &self,
        now: Time,
        left: Left,
        args: &[u8],
        who: &Who,
        (procedure, results): (Procedure, &[u8]),
    ) {
        let call = Call::decode(procedure, args).ok();
        let question = call.and_then(|call| Question::of(&call, &Meaning::of(&call)?));
        let (Some(question), Ok(reply)) = (question, Reply::decode(procedure, results)) else { return };
        let seen = Seen::new(self, now, left, who);
        match (question, &reply) {
            (Question::Attributes(object), Reply::Getattr(Ok(attributes))) => seen.attributes(object, Some(attributes)),
            (Question::Name(what, _), Reply::Lookup(Ok(found))) => seen.found(&what, found),
            (Question::Name(what, _), Reply::Lookup(Err(Failed { status: Nfsstat3::NOENT, attributes }))) => {
                seen.absent(&what, attributes.as_ref());
            }
            (Question::Access(object, mask), Reply::Access(Ok(ok))) => {
                seen.attributes(object, ok.attributes.as_ref());
                let key = Key::of(object.bytes());
                let identity = [object.bytes(), &mask.to_be_bytes(), who.bytes()];
                let kept = value(Kind::Access, &identity, &[&ok.access.to_be_bytes()]);
                seen.keep(key, Of(key).access(mask, who), kept, changed(ok.attributes.as_ref()));
            }
            (Question::Link(symlink), Reply::Readlink(Ok(ok))) => {
                seen.attributes(symlink, ok.attributes.as_ref());
                let key = Key::of(symlink.bytes());
                let kept = value(Kind::Link, &[symlink.bytes(), who.bytes()], &[ok.data]);
                seen.keep(key, Of(key).link(who), kept, changed(ok.attributes.as_ref()));
            }
            (Question::Page(dir, _), Reply::Readdir(Ok(page))) => {
                seen.page(dir, page.dir_attributes.as_ref(), args, (procedure, results));
            }
            (Question::Page(dir, _), Reply::Readdirplus(Ok(page))) => {
                seen.page(dir, page.dir_attributes.as_ref(), args, (procedure, results));
                seen.entries(dir, page);
            }
            (Question::Limits(object, _), Reply::Fsinfo(Ok(ok))) => {
                seen.limits(object, (procedure, results), &ok.attributes);
            }
            (Question::Limits(object, _), Reply::Pathconf(Ok(ok))) => {
                seen.limits(object, (procedure, results), &ok.attributes);
            }
            _ => {}
        }
    }

    /// Learns from a page of a directory that nobody asked for: the page itself is not kept, since nobody is known to ask for the same.
    pub(crate) fn learn_names(
        &self,
        now: Time,
        left: Left,
        dir: FileHandle<'_>,
        who: &Who,
        page: &ReaddirplusOk<'_>,
    ) -> Learned {
        let seen = Seen::new(self, now, left, who);
        seen.attributes(dir, page.dir_attributes.as_ref());
        seen.entries(dir, page);
        seen.learned.get()
    }

    /// Learns that a user found this name.
    pub(crate) fn learn_found(
        &self,
        now: Time,
        left: Left,
        what: &DirOp<'_>,
        who: &Who,
        found: &LookupOk<'_>,
    ) -> Learned {
        let seen = Seen::new(self, now, left, who);
        seen.found(what, found);
        seen.learned.get()
    }
}

/// What became of what a reply taught.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Learned {
    pub(crate) kept: u64,
    pub(crate) refused: u64,
}

/// A reply, and when its call left.
struct Seen<'a> {
    cached: &'a Cached,
    now: Time,
    left: Left,
    who: &'a Who,
    learned: Cell<Learned>,
}

impl<'a> Seen<'a> {
    fn new(cached: &'a Cached, now: Time, left: Left, who: &'a Who) -> Self {
        Self { cached, now, left, who, learned: Cell::default() }
    }

    fn count(&self, fill: Fill) {
        let Learned { kept, refused } = self.learned.get();
        self.learned.set(match fill {
            Fill::Kept { .. } => Learned { kept: kept + 1, refused },
            Fill::Refused(_) => Learned { kept, refused: refused + 1 },
        });
    }

    fn attributes(&self, object: FileHandle<'_>, attributes: Option<&Fattr3>) {
        let Some(attributes) = attributes else { return };
        let key = Key::of(object.bytes());
        self.cached.saw_handle(self.now, FileId::of(attributes), key);
        self.count(self.cached.part(key).saw_attributes(self.now, self.left, object, attributes));
    }

    fn found(&self, what: &DirOp<'_>, found: &LookupOk<'_>) {
        self.attributes(found.object, found.attributes.as_ref());
        self.attributes(what.dir, found.dir_attributes.as_ref());
        self.named(what, found.object.bytes(), Kind::Name, found.dir_attributes.as_ref());
        self.may_search(what, found.dir_attributes.as_ref());
    }

    fn absent(&self, what: &DirOp<'_>, dir_attributes: Option<&Fattr3>) {
        self.attributes(what.dir, dir_attributes);
        self.named(what, &[], Kind::Absent, dir_attributes);
        self.may_search(what, dir_attributes);
    }

    /// Where a name leads. It is known with the other names of its directory: from when the first of them was.
    fn named(&self, what: &DirOp<'_>, handle: &[u8], kind: Kind, dir_attributes: Option<&Fattr3>) {
        let Self { cached, now, left, .. } = *self;
        let (key, changed) = (Key::of(what.dir.bytes()), changed(dir_attributes));
        let number = left.number().to_be_bytes();
        let mut part = cached.part(key);
        if !self.is_among_children(&mut part, what.dir, dir_attributes) {
            return self.count(Fill::Refused(Refusal::Older));
        }
        let kept = value(kind, &[what.dir.bytes(), what.name], &[&number, handle]);
        let until = (kind == Kind::Absent).then(|| left.at + cached.absent_max);
        self.count(part.keep(now, left, Of(key).name(what.name, kind), kept, changed, until));
    }

    /// Whether what a reply says of a directory's names is not older than what is known of them; it is the first, if nothing is.
    fn is_among_children(&self, part: &mut Part, dir: FileHandle<'_>, attributes: Option<&Fattr3>) -> bool {
        let Self { now, left, .. } = *self;
        let key = Key::of(dir.bytes());
        let seen = attributes.map(|attributes| State::of(&attributes.wcc_attr()));
        if let Some(children) = part.children(now, key, dir.bytes()) {
            let older = seen.is_some_and(|seen| seen.is_before(&children.state));
            return !older || part.cache.mode() != Mode::Ttl;
        }
        let children = Children { since: left.number(), state: seen.unwrap_or_default() };
        self.count(part.keep(now, left, Of(key).children(), children.value(dir), changed(attributes), None));
        true
    }

    /// The server let this user look for a name.
    fn may_search(&self, what: &DirOp<'_>, dir_attributes: Option<&Fattr3>) {
        let key = Key::of(what.dir.bytes());
        let kept = value(Kind::Search, &[what.dir.bytes(), self.who.bytes()], &[]);
        self.keep(key, Of(key).search(self.who), kept, changed(dir_attributes));
    }

    fn page(
        &self,
        dir: FileHandle<'_>,
        attributes: Option<&Fattr3>,
        args: &[u8],
        (procedure, results): (Procedure, &[u8]),
    ) {
        self.attributes(dir, attributes);
        let key = Key::of(dir.bytes());
        // In ttl mode a page is answered while the directory is known to be as the page shows it.
        let true_now =
            self.cached.mode() != Mode::Ttl || self.is_among_children(&mut self.cached.part(key), dir, attributes);
        if true_now && results.len() <= PAGE_MOST {
            let kept = value(Kind::Page, &[args, &[procedure as u8], self.who.bytes()], &[results]);
            self.keep(key, Of(key).page(args, self.who), kept, changed(attributes));
        }
    }

    fn entries(&self, dir: FileHandle<'_>, page: &ReaddirplusOk<'_>) {
        for plus in page.entries().flatten() {
            let Some(handle) = plus.handle.filter(|_| ![&b"."[..], b".."].contains(&plus.entry.name)) else { continue };
            self.attributes(handle, plus.attributes.as_ref());
            let what = DirOp { dir, name: plus.entry.name };
            self.named(&what, handle.bytes(), Kind::Name, page.dir_attributes.as_ref());
        }
    }

    /// What follows the attributes, which have a place of their own.
    fn limits(&self, object: FileHandle<'_>, (procedure, results): (Procedure, &[u8]), attributes: &PostOpAttr) {
        self.attributes(object, attributes.as_ref());
        let key = Key::of(object.bytes());
        let before = 4 + 4 + attributes.map_or(0, |_| Fattr3::SIZE);
        let Some(limits) = results.get(before..) else { return };
        let kept = value(Kind::Limits, &[object.bytes(), &(procedure as u32).to_be_bytes()], &[limits]);
        self.keep(key, Of(key).limits(procedure), kept, changed(attributes.as_ref()));
    }

    fn keep(&self, place: Key, entry: Entry<Key>, value: Box<[u8]>, changed: Option<Time>) {
        self.count(self.cached.part(place).keep(self.now, self.left, entry, value, changed, None));
    }
}

impl Part {
    /// Keeps attributes. If they show that a directory has changed since it was last seen, its names are no longer believed: a mutation
    /// of our own would have dropped the old ones, or said so.
    fn saw_attributes(&mut self, now: Time, left: Left, object: FileHandle<'_>, attributes: &Fattr3) -> Fill {
        let key = Key::of(object.bytes());
        let raw = attributes.to_bytes();
        if attributes.ftype == Ftype3::Dir {
            let changed = match self.cache.mode() {
                Mode::Ttl => {
                    let seen = State::of(&attributes.wcc_attr());
                    self.shows_change(now, left, (key, object.bytes()), &seen)
                }
                Mode::Strict | Mode::Lease | Mode::Immutable => {
                    let held = self.glance(now, key, Kind::Attributes, &[object.bytes()]);
                    held.is_some_and(|held| held.get(TIMES..) < Some(&raw[TIMES..]))
                }
            };
            if changed {
                self.cache.invalidate(now, Of(key).children().key);
            }
        }
        let kept = value(Kind::Attributes, &[object.bytes()], &[&raw]);
        self.keep(now, left, Of(key).attributes(), kept, Some(file_time(attributes.ctime)), None)
    }

    pub(super) fn keep(
        &mut self,
        now: Time,
        left: Left,
        entry: Entry<Key>,
        value: Box<[u8]>,
        changed_at: Option<Time>,
        lease_until: Option<Time>,
    ) -> Fill {
        let cost = ENTRY_OVERHEAD + value.len();
        // What changes twice within the server's shortest time looks as if it had once (nfs3.md, D7): such a value has no life, and takes the one
        // before along.
        let young = |changed| left.at.since(changed) < self.grain;
        let unclear = self.cache.mode() == Mode::Ttl && changed_at.is_some_and(young);
        let lease_until = if unclear { Some(left.at) } else { lease_until };
        self.cache.offer(now, left, entry, value, Facts { changed_at, lease_until, cost })
    }
}

/// When what a reply tells of an object last changed.
fn changed(attributes: Option<&Fattr3>) -> Option<Time> {
    attributes.map(|attributes| file_time(attributes.ctime))
}

/// Where the times of change begin in attributes: mtime, then ctime. Bytes compare as the times do.
const TIMES: usize = Fattr3::SIZE - 16;
/// No larger page is kept.
const PAGE_MOST: usize = 128 << 10;
const _: () = assert!(HANDLE_MOST == 64, "handles of NFSv3");
