//! What a mutation changes, marked before it leaves and until it has ended (nfs3.md, D1; leases.md, R5, R8, R13).
//!
//! One mutation of a name at a time: while one is under way, nobody knows where the name leads, so the next one waits. What REMOVE, RENAME and
//! an UNCHECKED CREATE do to an object that the call does not name is known from the cache, or asked for while the name is already marked:
//! it cannot change in between.

use super::answer::HANDLE_MOST;
use super::label::{Kind, Of, Who, value};
use super::places::Crossing;
use super::turns::Leads;
use super::twins::FileId;
use super::{Cached, ENTRY_OVERHEAD, guards};
use crate::clock::file_time;
use crate::wakes::{Waiter, Wakes};
use midas_core::cache::{Ended, Facts, Mark, Rule};
use midas_core::key::Key;
use midas_core::time::Time;
use midas_nfs::nfs3::{
    Call, CreateHow, DirOp, Failed, Fattr3, FileHandle, Nfsstat3, Procedure, Reply, Sattr3, WccData,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The marks of one mutation. Must be given back to [`Cached::ended`].
#[derive(Debug, Default)]
#[must_use = "what is marked is never cached again"]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct Touched {
    marks: Vec<Touch>,
    /// Whether it is not known what its names lead to.
    loose: bool,
    /// Whether its user was refused to look them up: if it succeeds all the same, something has changed that is not marked.
    unsure: bool,
    /// Whether it was known from the cache where a name leads: true while no lease is lost.
    assumed: bool,
    /// Whether its first name leads somewhere, if that is known.
    led: Option<bool>,
    /// Whether what the cache knows of names is true.
    relied_on: bool,
    /// The part of the export whose marks these are.
    area: usize,
    /// What it may carry from one part to another.
    pub(super) crossing: Option<Crossing>,
}

#[derive(Debug)]
struct Touch {
    place: Key,
    mark: Mark<Key>,
    tells: Option<Tells>,
    /// Whether nobody else may change it meanwhile: it must show later whether the call was executed.
    alone: bool,
}

/// What is kept of an object and is not true any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stale {
    /// The object, by its handle.
    pub(crate) object: Key,
    /// Its file id, where it may be known under other handles; otherwise the same as the object.
    pub(crate) id: Key,
}

/// What a reply may tell of what was marked.
#[derive(Debug)]
enum Tells {
    /// The attributes of the object with this handle.
    Attributes(Role, Box<[u8]>),
    /// Where a name of the directory with this handle leads.
    Leads(Box<[u8]>, Box<[u8]>),
}

/// What an object is to a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// What is changed.
    Object,
    /// The directory of its name; the first, of RENAME.
    Directory,
    /// The second one.
    To,
}

/// A name that leads somewhere, which must be found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unfound {
    pub(crate) dir: Box<[u8]>,
    pub(crate) name: Box<[u8]>,
    /// What happens to what it leads to.
    pub(super) target: Target,
    /// Whether it is the first name of its call.
    first: bool,
}

impl Unfound {
    fn new(what: &DirOp<'_>, target: Target, number: usize) -> Self {
        Self { dir: what.dir.bytes().into(), name: what.name.into(), target, first: number == 0 }
    }
}

/// Whether a mutation may leave.
pub(crate) enum Claimed {
    /// It may, when these were found.
    Marked(Touched, Vec<Unfound>),
    /// Another mutation of a name of its is under way, or waits and is older: it waits for these
    /// names now, each with its directory.
    Busy(Vec<(Key, Key)>),
}

impl Cached {
    /// Marks what a mutation changes.
    pub(crate) fn claim(&self, now: Time, who: Waiter, call: &Call<'_>) -> Claimed {
        let relied_on = self.relies_on_marks();
        let (mut touched, mut unfound) = (Touched { area: self.area, relied_on, ..Touched::default() }, Vec::new());
        let Changes { names, objects } = Changes::of(call);
        for (number, (what, target)) in names.into_iter().flatten().enumerate() {
            let Some((found, contested)) = self.claim_name(now, who, &what, &mut touched) else {
                self.give_back(now, touched, who);
                return Claimed::Busy(self.wait(who, call));
            };
            if number == 0 {
                touched.led = found.leads();
                touched.assumed |= touched.led.is_some();
            }
            match (target, found) {
                // Nobody could tell later whether it made what is there.
                (Target::None, Found::Unknown) if contested && self.leases.is_some() => {
                    unfound.push(Unfound::new(&what, target, number));
                }
                (Target::None, _) => {}
                (_, Found::Absent) => touched.assumed = true,
                (target, Found::Object(object)) => {
                    touched.assumed = true;
                    self.touch_target(now, object, target, &mut touched);
                }
                (target, Found::Unknown) if self.finds_targets() => {
                    unfound.push(Unfound::new(&what, target, number));
                }
                (_, Found::Unknown) => self.let_loose(&mut touched),
            }
        }
        for (object, role) in objects.into_iter().flatten() {
            self.touch(now, object, role, &mut touched);
        }
        if let Call::Setattr { object, .. } = call {
            touched.marks.iter_mut().for_each(|touch| touch.alone = true);
            let place = Key::of(object.bytes());
            touched.add(place, self.part(place).cache.mark(now, Of(place).permission()), None);
        }
        Claimed::Marked(touched, unfound)
    }

    /// It was found where a name leads.
    pub(crate) fn found(&self, now: Time, object: Key, unfound: &Unfound, touched: &mut Touched) {
        if unfound.first {
            touched.led = Some(true);
        }
        if unfound.target != Target::None {
            self.touch_target(now, object, unfound.target, touched);
        }
    }

    /// Whether another proxy has changed a name since it was marked: where it led may not be true any more.
    pub(crate) fn overtaken(&self, touched: &Touched) -> bool {
        let overtaken =
            |(place, key, name)| name && self.part(place).claimed.get(&key).is_some_and(|overtaken| *overtaken);
        touched.labels(0).any(overtaken)
    }

    /// A mutation is over. What the server's reply tells of the objects is kept, where no other mutation ran meanwhile.
    /// What other members must drop.
    pub(crate) fn ended(
        &self,
        now: Time,
        touched: Touched,
        ended: Ended,
        reply: Option<(Procedure, &[u8])>,
    ) -> Vec<Stale> {
        self.over(now, touched, ended, reply, None)
    }

    /// The marks of a mutation that must wait all the same are taken back: it is not woken by that.
    pub(crate) fn give_back(&self, now: Time, touched: Touched, who: Waiter) {
        let _nothing = self.over(now, touched, Ended::Done, None, Some(who));
    }

    /// A mutation is over. One that could not have all of its names is not woken by those that it gives back.
    /// What other members must drop.
    fn over(
        &self,
        now: Time,
        touched: Touched,
        ended: Ended,
        reply: Option<(Procedure, &[u8])>,
        waits: Option<Waiter>,
    ) -> Vec<Stale> {
        let reply = reply.and_then(|(procedure, results)| Reply::decode(procedure, results).ok());
        let made = reply.as_ref().and_then(made);
        let succeeded = reply.as_ref().is_some_and(|reply| reply.status() == Nfsstat3::OK);
        let mut elsewhere = Vec::new();
        // Others may have seen what was made before it was complete, or under another handle what was there.
        if let Some(made) = made {
            self.gone(now, made);
            let id = reply.as_ref().and_then(made_id);
            if let Some(id) = id {
                self.changed_by(now, id, made);
            }
            elsewhere.push(Stale { object: made, id: id.map_or(made, FileId::key) });
        }
        for touch in &touched.marks {
            if let (Some(reply), Some(Tells::Attributes(role, _))) = (&reply, &touch.tells)
                && let Some(id) = after(reply, *role).map(|attributes| FileId::of(&attributes))
                && self.changed_by(now, id, touch.place)
            {
                elsewhere.push(Stale { object: touch.place, id: id.key() });
            }
        }
        for Touch { place, mark, tells, .. } in touched.marks {
            let mut part = self.part(place);
            let mut next = None;
            let name = mark.key();
            if matches!(tells, Some(Tells::Leads(..))) {
                part.claimed.remove(&name);
                let told = reply.as_ref().filter(|_| ended == Ended::Done && self.alone()).and_then(leads);
                part.turns.tell(name, told.map(|(kind, to)| Self::leads_to(kind, to)));
                next = part.turns.first(name).filter(|next| Some(*next) != waits);
            }
            if let (Some(reply), Some(Tells::Attributes(role, handle))) = (&reply, &tells)
                && let Some(wcc) = wcc(reply, *role)
            {
                self.compare(now, &mut part, (place, handle), (&wcc, reply.status() != Nfsstat3::OK));
            }
            let told = reply.as_ref().zip(tells).and_then(|(reply, tells)| self.told(reply, tells));
            match (ended, told) {
                (Ended::Done, Some((kind, kept, changed_at))) => {
                    let cost = ENTRY_OVERHEAD + kept.len();
                    let lease_until = (kind == Kind::Absent).then(|| now + self.absent_max);
                    let facts = Facts { changed_at, lease_until, cost };
                    part.cache.end_with(now, mark, kind.class(), kept, facts);
                }
                _ => part.cache.end(now, mark, ended),
            }
            drop(part);
            self.wake(next);
        }
        if touched.loose {
            self.loose_ended(now, ended, self.hold_max());
        }
        if touched.unsure && (succeeded || ended != Ended::Done) {
            self.loose.hold(now, ended, self.hold_max());
            self.lease_lost();
        }
        elsewhere
    }

    fn let_loose(&self, touched: &mut Touched) {
        if !touched.loose && self.rules.has(Rule::Targets) {
            touched.loose = true;
            self.loose.running.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// What a reply tells of something that was marked, as it is kept.
    fn told(&self, reply: &Reply<'_>, tells: Tells) -> Option<(Kind, Box<[u8]>, Option<Time>)> {
        match tells {
            Tells::Attributes(role, handle) => {
                let attributes = after(reply, role)?;
                let kept = value(Kind::Attributes, &[&handle], &[&attributes.to_bytes()]);
                Some((Kind::Attributes, kept, Some(file_time(attributes.ctime))))
            }
            Tells::Leads(dir, name) => {
                let (kind, object) = leads(reply)?;
                let number = self.clock.left(Time::ZERO).number().to_be_bytes();
                let changed = after(reply, Role::Directory).map(|attributes| file_time(attributes.ctime));
                Some((kind, value(kind, &[&dir, &name], &[&number, object]), changed))
            }
        }
    }

    /// A mutation waits for all of its names: it needs them at once.
    fn wait(&self, who: Waiter, call: &Call<'_>) -> Vec<(Key, Key)> {
        let name = |(what, _): (DirOp<'_>, Target)| {
            let place = Key::of(what.dir.bytes());
            let name = Of(place).name(what.name, Kind::Name).key;
            self.part(place).turns.enter(name, who);
            (place, name)
        };
        Changes::of(call).names.into_iter().flatten().map(name).collect()
    }

    /// A mutation waits no longer for a name: it has it, or was given up and passes its turn on.
    pub(crate) fn leave(&self, (place, name): (Key, Key), who: Waiter) {
        let mut part = self.part(place);
        part.turns.leave(name, who);
        let next = part.turns.first(name).filter(|next| who < *next && !part.claimed.contains_key(&name));
        drop(part);
        self.wake(next);
    }

    /// Whether nobody but this proxy changes names, and it marks what it changes.
    fn alone(&self) -> bool {
        self.leases.is_none() && self.relies_on_marks()
    }

    fn leads_to(kind: Kind, object: &[u8]) -> Leads {
        if kind == Kind::Name { Leads::To(Key::of(object)) } else { Leads::Nowhere }
    }

    /// Those that wait for names are woken by these.
    pub(crate) fn wake_by(&self, wakes: &Arc<Wakes>) {
        let _once = self.wakes.set(Arc::clone(wakes));
    }

    fn wake(&self, next: Option<Waiter>) {
        if let (Some(next), Some(wakes)) = (next, self.wakes.get()) {
            wakes.wake(next);
        }
    }

    /// Marks a name, unless another mutation has; where it led, and whether it was changed a while ago too.
    fn claim_name(&self, now: Time, who: Waiter, what: &DirOp<'_>, touched: &mut Touched) -> Option<(Found, bool)> {
        let place = Key::of(what.dir.bytes());
        let name = Of(place).name(what.name, Kind::Name).key;
        let mut part = self.part(place);
        if part.claimed.contains_key(&name) || !part.turns.may(name, who) {
            // Under the same lock: whoever has it wakes those that wait when it ends.
            part.turns.enter(name, who);
            return None;
        }
        part.claimed.insert(name, false);
        let mut handle = [0; HANDLE_MOST];
        // What a call may still change of which nobody knows the end is not told.
        let quiet = self.alone() && part.cache.holds(now, self.left(now), &name);
        let told = part.turns.told(name).filter(|_| quiet);
        let found = match part.target(now, (place, name), what, &Who::ANYONE, &mut handle).filter(|_| self.leased()) {
            None => told.map_or(Found::Unknown, Found::of),
            Some(0) => Found::Absent,
            Some(length) => Found::Object(Key::of(&handle[..length])),
        };
        let contested = part.changes(name);
        let tells = Tells::Leads(what.dir.bytes().into(), what.name.into());
        touched.add(place, part.cache.mark(now, name), Some(tells));
        Some((found, contested))
    }

    /// What a name leads to is changed with it; a directory that moves has another parent.
    fn touch_target(&self, now: Time, object: Key, target: Target, touched: &mut Touched) {
        let mut part = self.part(object);
        let of = Of(object);
        let also = if target == Target::Moved { of.name(b"..", Kind::Name).key } else { of.permission() };
        for key in [of.attributes().key, also] {
            touched.add(object, part.cache.mark(now, key), None);
        }
        if let Some([attributes, _]) = touched.marks.last_chunk_mut() {
            attributes.alone = target == Target::Resized;
        }
        drop(part);
        self.touch_twins(now, object, touched);
    }

    fn touch(&self, now: Time, object: FileHandle<'_>, role: Role, touched: &mut Touched) {
        let place = Key::of(object.bytes());
        let mark = self.part(place).cache.mark(now, place);
        touched.add(place, mark, Some(Tells::Attributes(role, object.bytes().into())));
        self.touch_twins(now, place, touched);
    }

    /// The other handles of an object that is changed.
    fn touch_twins(&self, now: Time, object: Key, touched: &mut Touched) {
        for other in self.other_handles(object) {
            let mut part = self.part(other);
            for key in guards(other) {
                touched.add(other, part.cache.mark(now, key), None);
            }
        }
    }
}

impl Touched {
    /// What is marked, from the mark of this number on: where it lies, what it is, and whether that is a name.
    pub(crate) fn labels(&self, from: usize) -> impl Iterator<Item = (Key, Key, bool)> + '_ {
        let label = |touch: &Touch| (touch.place, touch.mark.key(), matches!(touch.tells, Some(Tells::Leads(..))));
        self.marks.iter().skip(from).map(label)
    }

    /// What nobody else may change meanwhile, though it is no name.
    pub(crate) fn alone(&self) -> impl Iterator<Item = (Key, Key)> + '_ {
        self.marks.iter().filter(|touch| touch.alone).map(|touch| (touch.place, touch.mark.key()))
    }

    /// How many marks there are.
    pub(crate) fn len(&self) -> usize {
        self.marks.len()
    }

    /// Whether it relies on what the cache knew when it was marked.
    pub(crate) const fn assumed(&self) -> bool {
        self.assumed
    }

    /// Whether its first name leads somewhere.
    pub(crate) const fn led(&self) -> Option<bool> {
        self.led
    }

    /// Whether it is sure what is known of its first name, and that it is known where the call takes the name away.
    pub(crate) const fn sure(&self, takes_away: bool) -> bool {
        self.relied_on && !(takes_away && (self.loose || self.unsure))
    }

    /// A name of its leads nowhere. Of what makes something there, or cuts what is there, the others must know which it was.
    pub(crate) fn found_nothing(&mut self, unfound: &Unfound) {
        if unfound.first && matches!(unfound.target, Target::None | Target::Resized) {
            self.led = Some(false);
        }
    }

    /// Nobody knows where a name of its leads: its user may not look it up.
    pub(crate) const fn unsure(&mut self) {
        self.unsure = true;
    }

    pub(super) const fn area(&self) -> usize {
        self.area
    }

    fn add(&mut self, place: Key, mark: Mark<Key>, tells: Option<Tells>) {
        self.marks.push(Touch { place, mark, tells, alone: false });
    }
}

enum Found {
    Object(Key),
    Absent,
    Unknown,
}

impl Found {
    const fn of(leads: Leads) -> Self {
        match leads {
            Leads::To(object) => Self::Object(object),
            Leads::Nowhere => Self::Absent,
        }
    }

    const fn leads(&self) -> Option<bool> {
        match self {
            Self::Object(_) => Some(true),
            Self::Absent => Some(false),
            Self::Unknown => None,
        }
    }
}

/// What happens to what a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Nothing.
    None,
    /// It is removed or replaced, or stays as it is.
    Changed,
    /// It is cut to a size.
    Resized,
    /// It has another name.
    Moved,
}

/// What a call changes.
#[derive(Default)]
struct Changes<'c> {
    /// Names that it binds or unbinds.
    names: [Option<(DirOp<'c>, Target)>; 2],
    /// Objects that it names.
    objects: [Option<(FileHandle<'c>, Role)>; 2],
}

impl<'c> Changes<'c> {
    fn of(call: &Call<'c>) -> Self {
        match call {
            Call::Setattr { object, .. } => Self::object(*object),
            Call::Write { file, .. } | Call::Commit { file, .. } => Self::object(*file),
            Call::Create { place, how: CreateHow::Unchecked(Sattr3 { size: Some(_), .. }) } => {
                Self::name(*place, Target::Resized)
            }
            Call::Create { place, how: CreateHow::Unchecked(_) } => Self::name(*place, Target::Changed),
            Call::Create { place, how: CreateHow::Guarded(_) | CreateHow::Exclusive(_) }
            | Call::Mkdir { place, .. }
            | Call::Symlink { place, .. }
            | Call::Mknod { place, .. } => Self::name(*place, Target::None),
            Call::Remove { object } | Call::Rmdir { object } => Self::name(*object, Target::Changed),
            Call::Rename { from, to } if from == to => Self::name(*from, Target::Moved),
            Call::Rename { from, to } => {
                let second = Some((to.dir, Role::To)).filter(|_| from.dir != to.dir);
                Self {
                    names: [Some((*from, Target::Moved)), Some((*to, Target::Changed))],
                    objects: [Some((from.dir, Role::Directory)), second],
                }
            }
            Call::Link { file, link } => Self {
                names: [Some((*link, Target::None)), None],
                objects: [Some((*file, Role::Object)), Some((link.dir, Role::Directory))],
            },
            Call::Null
            | Call::Getattr { .. }
            | Call::Lookup { .. }
            | Call::Access { .. }
            | Call::Readlink { .. }
            | Call::Read { .. }
            | Call::Readdir { .. }
            | Call::Readdirplus { .. }
            | Call::Fsstat { .. }
            | Call::Fsinfo { .. }
            | Call::Pathconf { .. } => Self::default(),
        }
    }

    fn object(object: FileHandle<'c>) -> Self {
        Self { objects: [Some((object, Role::Object)), None], ..Self::default() }
    }

    /// A name, and so its directory.
    fn name(what: DirOp<'c>, target: Target) -> Self {
        Self { names: [Some((what, target)), None], objects: [Some((what.dir, Role::Directory)), None] }
    }
}

/// The object that a reply says was made.
pub(crate) fn made(reply: &Reply<'_>) -> Option<Key> {
    leads(reply).filter(|(kind, _)| *kind == Kind::Name).map(|(_, made)| Key::of(made))
}

/// The file id of the object that a reply says was made.
fn made_id(reply: &Reply<'_>) -> Option<FileId> {
    match reply {
        Reply::Create(Ok(ok)) | Reply::Mkdir(Ok(ok)) | Reply::Symlink(Ok(ok)) | Reply::Mknod(Ok(ok)) => {
            ok.attributes.as_ref().map(FileId::of)
        }
        _ => None,
    }
}

/// Where the call's name leads now. Of a RENAME that cannot be said: it does nothing if both names are of one object.
fn leads<'r>(reply: &Reply<'r>) -> Option<(Kind, &'r [u8])> {
    match reply {
        Reply::Create(Ok(ok)) | Reply::Mkdir(Ok(ok)) | Reply::Symlink(Ok(ok)) | Reply::Mknod(Ok(ok)) => {
            Some((Kind::Name, ok.object?.bytes()))
        }
        Reply::Remove(Ok(_)) | Reply::Rmdir(Ok(_)) => Some((Kind::Absent, &[])),
        _ => None,
    }
}

/// The attributes that a reply tells of an object, after the call.
fn after(reply: &Reply<'_>, role: Role) -> Option<Fattr3> {
    match (reply, role) {
        (Reply::Link(Ok(done)), Role::Object) => done.attributes,
        _ if reply.status() == Nfsstat3::OK => wcc(reply, role)?.after,
        _ => None,
    }
}

/// What a reply tells of an object before and after the call, whether or not that failed.
fn wcc(reply: &Reply<'_>, role: Role) -> Option<WccData> {
    Some(match (reply, role) {
        (Reply::Write(Ok(ok)), Role::Object) => ok.file,
        (Reply::Commit(Ok(ok)), Role::Object) => ok.file,
        (Reply::Setattr(Ok(wcc)), Role::Object) | (Reply::Remove(Ok(wcc)) | Reply::Rmdir(Ok(wcc)), Role::Directory) => {
            *wcc
        }
        (
            Reply::Create(Ok(ok)) | Reply::Mkdir(Ok(ok)) | Reply::Symlink(Ok(ok)) | Reply::Mknod(Ok(ok)),
            Role::Directory,
        ) => ok.dir,
        (Reply::Write(Err(failed)) | Reply::Commit(Err(failed)) | Reply::Setattr(Err(failed)), Role::Object)
        | (
            Reply::Create(Err(failed))
            | Reply::Mkdir(Err(failed))
            | Reply::Symlink(Err(failed))
            | Reply::Mknod(Err(failed))
            | Reply::Remove(Err(failed))
            | Reply::Rmdir(Err(failed)),
            Role::Directory,
        ) => failed.attributes,
        (Reply::Rename(Ok(done) | Err(Failed { attributes: done, .. })), Role::Directory) => done.from,
        (Reply::Rename(Ok(done) | Err(Failed { attributes: done, .. })), Role::To) => done.to,
        (Reply::Link(Ok(done) | Err(Failed { attributes: done, .. })), Role::Directory) => done.dir,
        _ => return None,
    })
}
