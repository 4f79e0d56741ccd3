//! Pools whose servers believe for a while what they once knew (`staleness`): which objects a mutation changes, and what another server's
//! answer may tell of them (nfs3.md, D1, D3, D6). Coherent pools pay nothing for it.
//!
//! From when a mutation leaves for a server until `staleness` after its answer, everything that it
//! changes is read there. What it makes is not fenced: a server that has never seen an object has
//! no old answer about it. So a tree that has just been made is read everywhere, and only the
//! directories that still change are bound.
//!
//! A directory's fence covers its attributes and its listing; each name that was changed has a
//! fence of its own. Objects that a call does not name (what REMOVE and RENAME resolve to) are
//! known from earlier answers, and asked for if not. A fenced name whose object is known may be
//! looked up anywhere: an answer with that handle is true, and any other is asked again where the
//! name was changed. A server that looks a name up may know old attributes of its object or its
//! directory: such attributes are left out, as the RFC allows, and clients ask for them where they
//! are true. So nothing older than an acknowledged change is shown and time does not run backwards.
//! It relies on a server knowing the newest state of what it has itself just changed (Ganesha
//! does).

use crate::clerk::Leads;
use crate::realm::{End, Makes, Realm, Sent};
use crate::translate::Meaning;
use midas_core::id::ServerId;
use midas_core::key::Key;
use midas_core::op::Op;
use midas_core::route::feasible::{Bound, Target};
use midas_core::time::{Span, Time};
use midas_nfs::nfs3::{
    Call, CommitOk, CreateHow, CreateOk, DirOp, EntryPlus, Failed, LinkDone, LookupOk, Nfsstat3, Page, PostOpAttr,
    Procedure, ReadOk, ReaddirOk, ReaddirplusOk, RenameDone, Reply, WccData,
};
use std::time::Instant;

impl Realm {
    /// Whether other servers may answer with the state before a mutation.
    pub(crate) fn stale(&self) -> bool {
        self.pool.staleness() > Span::ZERO
    }

    /// What a mutation changes besides its object and its place.
    pub(crate) fn changed_too(&self, meaning: &Meaning) -> Vec<Key> {
        if !(self.stale() && meaning.op.mutates()) {
            return Vec::new();
        }
        let second = meaning.second.map(|(object, _)| object);
        let target = |(directory, name)| self.part(directory).names.find(name).and_then(Leads::object);
        // Of a directory's own name, such as `.`, the place counts already.
        let targets = meaning.targets().filter_map(target).filter(|object| *object != meaning.place);
        // The two directories of a RENAME may be one, which counts already.
        let second = second.filter(|object| *object != meaning.place);
        let mut also: Vec<Key> = second.into_iter().chain(targets).collect();
        also.sort_unstable();
        also.dedup();
        also
    }

    /// Where the second object of a call must be read now, if it has one.
    pub(crate) fn second_fence(&self, now: Time, meaning: &Meaning) -> Option<(ServerId, Bound)> {
        let (object, _) = meaning.second.filter(|_| self.stale())?;
        let target = Target::new(meaning.op, object, object);
        self.part(object).shard.fenced_at(now, &self.pool.servers, &target)
    }

    /// A mutation is over at a server. One that is not known to be executed leaves fences of other
    /// servers as they are.
    pub(crate) fn fence_too(&self, now: Time, also: &[Key], server: ServerId, end: End) {
        for object in also {
            let mut part = self.part(*object);
            match end {
                End::Answered { ok, .. } => part.shard.raise(now, *object, server, ok),
                End::Failed => part.shard.raise(now, *object, server, false),
                End::Lost => part.shard.raise_lost(now, *object, server),
            }
        }
    }

    /// Whether what a call makes can have been there before. UNCHECKED CREATE takes what its name
    /// leads to already; all others fail then.
    pub(crate) fn makes(&self, meaning: &Meaning) -> Makes {
        match (meaning.op, meaning.unchecked) {
            (Op::Create, false) => Makes::New,
            (Op::Create, true) if self.stale() => match self.part(meaning.place).names.find(meaning.object) {
                None | Some(Leads::Refused) => Makes::Unknown,
                Some(Leads::Nowhere) => Makes::New,
                Some(Leads::To(object)) => Makes::Over(object),
            },
            _ => Makes::Unknown,
        }
    }

    /// Whether a call's only answer shows that it changed neither its name nor its directory: it
    /// was refused, or took what was there.
    pub(crate) fn changed_nothing(sent: &Sent, procedure: Procedure, status: Nfsstat3, results: &[u8]) -> bool {
        match (status, sent.makes) {
            (Nfsstat3::OK, Makes::Over(before)) => match Reply::decode(procedure, results) {
                Ok(Reply::Create(Ok(made))) => made.object.is_some_and(|after| Key::of(after.bytes()) == before),
                Ok(_) | Err(_) => false,
            },
            (status, _) => REFUSALS.contains(&status),
        }
    }

    /// A mutation was refused, or nobody knows whether it was executed: where its names lead must
    /// be asked anew. One that was refused has moved no name; but a name that is taken for free,
    /// and is not, would be changed without a fence by whoever waits for its turn.
    pub(crate) fn unsure_of_names(&self, meaning: &Meaning, refused: bool) {
        if !matches!(meaning.op, Op::Create | Op::Remove | Op::Rename | Op::Link) {
            return;
        }
        let second = meaning.second.filter(|_| meaning.op == Op::Rename);
        for (directory, name) in [(meaning.place, meaning.object)].into_iter().chain(second) {
            let mut part = self.part(directory);
            if !refused || part.names.find(name) == Some(Leads::Nowhere) {
                part.names.remove(name);
            }
        }
    }

    /// A mutation was executed: names lead elsewhere.
    pub(crate) fn renamed(&self, now: Time, server: ServerId, meaning: &Meaning) {
        match (meaning.op, meaning.second) {
            (Op::Remove, _) => self.part(meaning.place).names.insert(meaning.object, Leads::Nowhere),
            (Op::Link, Some((file, _))) => self.part(meaning.place).names.insert(meaning.object, Leads::To(file)),
            (Op::Rename, Some((directory, name))) => {
                let moved = self.part(meaning.place).names.remove(meaning.object);
                let mut part = self.part(directory);
                part.shard.raise(now, name, server, true);
                let before = part.names.remove(name);
                if let Some(moved) = moved {
                    part.names.insert(name, moved);
                }
                drop(part);
                // Two names of one object stay where they are: the old one is asked for then, if it
                // is needed again.
                let differ =
                    matches!((moved, before), (Some(Leads::To(moved)), Some(Leads::To(before))) if moved != before);
                if differ || matches!((moved, before), (Some(Leads::To(_)), Some(Leads::Nowhere))) {
                    self.part(meaning.place).names.insert(meaning.object, Leads::Nowhere);
                }
            }
            (
                Op::Lookup
                | Op::Getattr
                | Op::Access
                | Op::List
                | Op::Readlink
                | Op::Statfs
                | Op::Read
                | Op::Create
                | Op::Setattr
                | Op::Write
                | Op::Commit
                | Op::Link
                | Op::Rename,
                _,
            ) => {}
        }
    }

    /// A name whose object a call changes, and of which it is not known where it leads.
    #[inline]
    pub(crate) fn unknown_target<'c>(&self, call: &Call<'c>) -> Option<DirOp<'c>> {
        if self.stale() { self.unknown_among_names(call) } else { None }
    }

    fn unknown_among_names<'c>(&self, call: &Call<'c>) -> Option<DirOp<'c>> {
        let unknown = |what: &DirOp<'c>| {
            let directory = Key::of(what.dir.bytes());
            self.part(directory).names.find(directory.named(what.name)).is_none()
        };
        match call {
            Call::Remove { object } | Call::Rmdir { object } => Some(*object).filter(unknown),
            Call::Create { place, how: CreateHow::Unchecked(_) } => Some(*place).filter(unknown),
            Call::Rename { from, to } => [*from, *to].into_iter().find(unknown),
            _ => None,
        }
    }

    /// It was asked where a name leads, by a question that left then. What changed the name since
    /// knows better; where it does not tell, or has no answer yet, the name is hidden: whoever
    /// waits for its turn finds what is known then.
    pub(crate) fn learn_target(&self, left: Time, directory: Key, name: &[u8], leads: Leads) {
        let (mut part, name) = (self.part(directory), directory.named(name));
        if !part.shard.changed_since(left, name) {
            part.names.insert(name, leads);
        } else if part.names.find(name).is_none() {
            part.names.insert(name, Leads::Refused);
        }
    }

    /// The server that surely knows an object and the names in it. None: it cannot be asked now.
    pub(crate) fn knows_names(&self, now: Instant, directory: Key) -> Option<ServerId> {
        let servers = &self.pool.servers;
        let fence = self.part(directory).shard.fence(self.pool.time(now), servers, directory, directory);
        match fence {
            Some(server) => self.pool.ends(server).then_some(server),
            None => self.pool.some_open(servers.ring().home(self.home_of(directory))?.index()),
        }
    }

    /// Learns from an answer, and takes out of it what its server may not know. None: it may be given as it is. What the server knew is
    /// judged as of when the call left: it may have looked at any time since, and a fence that has ended meanwhile still stood then.
    pub(crate) fn honest(
        &self,
        (now, left): (Time, Time),
        server: ServerId,
        (meaning, makes): (&Meaning, Makes),
        procedure: Procedure,
        results: &[u8],
    ) -> Option<Vec<u8>> {
        match Reply::decode(procedure, results) {
            Ok(Reply::Lookup(Ok(found))) => {
                let object = Key::of(found.object.bytes());
                self.learn_names(left, server, meaning.place, [(meaning.object, Leads::To(object))]);
                let attributes = found.attributes.filter(|_| self.trusted(left, object, server));
                let dir_attributes = found.dir_attributes.filter(|_| self.trusted(left, meaning.place, server));
                let honest = LookupOk { attributes, dir_attributes, ..found };
                (found != honest).then(|| encoded(&Reply::Lookup(Ok(honest))))
            }
            Ok(Reply::Lookup(Err(failed))) => {
                if failed.status == Nfsstat3::NOENT {
                    self.learn_names(left, server, meaning.place, [(meaning.object, Leads::Nowhere)]);
                }
                self.honest_failure(left, server, meaning, &Reply::Lookup(Err(failed)))
            }
            Ok(Reply::Read(Ok(read))) => {
                let attributes = read.attributes.filter(|_| self.trusted(left, meaning.place, server));
                let honest = ReadOk { attributes, ..read };
                (read.attributes != attributes).then(|| encoded(&Reply::Read(Ok(honest))))
            }
            Ok(
                Reply::Create(Ok(made)) | Reply::Mkdir(Ok(made)) | Reply::Symlink(Ok(made)) | Reply::Mknod(Ok(made)),
            ) => {
                let honest = self.honest_made((now, left), server, (meaning, makes), &made);
                // All four are encoded alike.
                (made != honest).then(|| encoded(&Reply::Create(Ok(honest))))
            }
            // The server that has the data need not be the one that changed the file last.
            Ok(Reply::Commit(Ok(done))) => {
                let honest = CommitOk { file: self.known_wcc(left, server, meaning.place, done.file), ..done };
                (done != honest).then(|| encoded(&Reply::Commit(Ok(honest))))
            }
            Ok(Reply::Readdir(Ok(page))) => {
                let honest = ReaddirOk { dir_attributes: None, ..page };
                let trusted = self.trusted(left, meaning.place, server);
                (!trusted && page != honest).then(|| encoded(&Reply::Readdir(Ok(honest))))
            }
            Ok(Reply::Readdirplus(Ok(page))) => self.honest_page(left, server, meaning, &page),
            Ok(reply) if reply.status() != Nfsstat3::OK => self.honest_failure(left, server, meaning, &reply),
            Ok(_) | Err(_) => None,
        }
    }

    /// What a call that failed tells of its objects, which it has not changed.
    fn honest_failure(&self, left: Time, server: ServerId, meaning: &Meaning, reply: &Reply<'_>) -> Option<Vec<u8>> {
        let place = meaning.place;
        let second = meaning.second.map_or(place, |(object, _)| object);
        let post_op = |failed: Failed<PostOpAttr>| {
            let attributes = failed.attributes.filter(|_| self.trusted(left, place, server));
            Failed { attributes, ..failed }
        };
        let wcc = |failed: Failed<WccData>| {
            let attributes = self.known_wcc(left, server, place, failed.attributes);
            Failed { attributes, ..failed }
        };
        let honest = match *reply {
            Reply::Setattr(Err(failed)) => Reply::Setattr(Err(wcc(failed))),
            Reply::Lookup(Err(failed)) => Reply::Lookup(Err(post_op(failed))),
            Reply::Access(Err(failed)) => Reply::Access(Err(post_op(failed))),
            Reply::Readlink(Err(failed)) => Reply::Readlink(Err(post_op(failed))),
            Reply::Read(Err(failed)) => Reply::Read(Err(post_op(failed))),
            Reply::Write(Err(failed)) => Reply::Write(Err(wcc(failed))),
            Reply::Create(Err(failed)) => Reply::Create(Err(wcc(failed))),
            Reply::Mkdir(Err(failed)) => Reply::Mkdir(Err(wcc(failed))),
            Reply::Symlink(Err(failed)) => Reply::Symlink(Err(wcc(failed))),
            Reply::Mknod(Err(failed)) => Reply::Mknod(Err(wcc(failed))),
            Reply::Remove(Err(failed)) => Reply::Remove(Err(wcc(failed))),
            Reply::Rmdir(Err(failed)) => Reply::Rmdir(Err(wcc(failed))),
            Reply::Rename(Err(Failed { status, attributes: RenameDone { from, to } })) => {
                let from = self.known_wcc(left, server, place, from);
                let to = self.known_wcc(left, server, second, to);
                Reply::Rename(Err(Failed { status, attributes: RenameDone { from, to } }))
            }
            Reply::Link(Err(Failed { status, attributes: LinkDone { attributes, dir } })) => {
                let attributes = attributes.filter(|_| self.trusted(left, second, server));
                let dir = self.known_wcc(left, server, place, dir);
                Reply::Link(Err(Failed { status, attributes: LinkDone { attributes, dir } }))
            }
            Reply::Readdir(Err(failed)) => Reply::Readdir(Err(post_op(failed))),
            Reply::Readdirplus(Err(failed)) => Reply::Readdirplus(Err(post_op(failed))),
            Reply::Fsstat(Err(failed)) => Reply::Fsstat(Err(post_op(failed))),
            Reply::Fsinfo(Err(failed)) => Reply::Fsinfo(Err(post_op(failed))),
            Reply::Pathconf(Err(failed)) => Reply::Pathconf(Err(post_op(failed))),
            Reply::Commit(Err(failed)) => Reply::Commit(Err(wcc(failed))),
            // Nothing failed, or it tells nothing.
            unchanged => unchanged,
        };
        (honest != *reply).then(|| encoded(&honest))
    }

    /// An object before and after a call, as far as this server surely knows it.
    fn known_wcc(&self, left: Time, server: ServerId, object: Key, wcc: WccData) -> WccData {
        let tells = wcc != WccData::default();
        if tells && !self.trusted(left, object, server) { WccData::default() } else { wcc }
    }

    /// What a call tells of the object that it has made. One that it has found, and not changed,
    /// may be told as it was.
    fn honest_made<'r>(
        &self,
        (now, left): (Time, Time),
        server: ServerId,
        (meaning, makes): (&Meaning, Makes),
        made: &CreateOk<'r>,
    ) -> CreateOk<'r> {
        let object = made.object.map(|handle| Key::of(handle.bytes()));
        // Before the answer itself moves any fence.
        let known = |object: Key| match makes {
            Makes::New => self.part(object).shard.knew_new(left, object, server),
            Makes::Over(_) | Makes::Unknown => self.trusted(left, object, server),
        };
        let attributes = made.attributes.filter(|_| object.is_some_and(known));
        let dir = match (makes, object) {
            (Makes::Over(before), Some(object)) if before == object => {
                self.known_wcc(left, server, meaning.place, made.dir)
            }
            _ => made.dir,
        };
        self.made(now, server, (meaning, makes), object);
        CreateOk { attributes, dir, ..*made }
    }

    fn honest_page(
        &self,
        left: Time,
        server: ServerId,
        meaning: &Meaning,
        page: &ReaddirplusOk<'_>,
    ) -> Option<Vec<u8>> {
        let mut entries = page.entries();
        let mut all: Vec<EntryPlus<'_>> = entries.by_ref().collect::<Result<_, _>>().ok()?;
        let object = |plus: &EntryPlus<'_>| plus.handle.map(|handle| Key::of(handle.bytes()));
        let leads = |plus: &EntryPlus<'_>| Some((meaning.place.named(plus.entry.name), Leads::To(object(plus)?)));
        let named = all.iter().filter_map(leads);
        self.learn_names(left, server, meaning.place, named);
        let dir_attributes = page.dir_attributes.filter(|_| self.trusted(left, meaning.place, server));
        let mut changed = dir_attributes != page.dir_attributes;
        for plus in all.iter_mut().filter(|plus| plus.attributes.is_some()) {
            if object(plus).is_none_or(|object| !self.trusted(left, object, server)) {
                plus.attributes = None;
                changed = true;
            }
        }
        if !changed {
            return None;
        }
        Some(with_entries(&ReaddirplusOk { dir_attributes, ..*page }, &all, entries.eof() == Some(true)))
    }

    /// A call has made an object, or taken one that was there. Two UNCHECKED CREATEs of one free
    /// name may both have left: the second to be answered has perhaps changed what the first has
    /// made.
    fn made(&self, now: Time, server: ServerId, (meaning, makes): (&Meaning, Makes), object: Option<Key>) {
        let mut part = self.part(meaning.place);
        let Some(object) = object else {
            part.names.remove(meaning.object);
            return;
        };
        let still_free = !meaning.unchecked || part.names.find(meaning.object) == Some(Leads::Nowhere);
        part.names.insert(meaning.object, Leads::To(object));
        drop(part);
        // What was there, and keeps its size, is as it was.
        let taken_as_it_is = makes == Makes::Over(object) && !meaning.resizes;
        if !(makes == Makes::New && still_free || taken_as_it_is) {
            self.part(object).shard.raise(now, object, server, true);
        }
    }

    /// What a server says of names counts unless another one has changed the directory since, or
    /// the name was changed while it said so.
    fn learn_names(&self, left: Time, server: ServerId, directory: Key, names: impl IntoIterator<Item = (Key, Leads)>) {
        let mut part = self.part(directory);
        for (name, leads) in names {
            let knows = part.shard.fence(left, &self.pool.servers, name, directory).is_none_or(|at| at == server);
            if knows && !part.shard.changed_since(left, name) {
                part.names.insert(name, leads);
            }
        }
    }

    /// Whether this server surely knew the newest state of an object from then on.
    fn trusted(&self, left: Time, object: Key, server: ServerId) -> bool {
        self.part(object).shard.knew(left, &self.pool.servers, object, server)
    }
}

/// A page with these entries instead of its own.
pub(crate) fn with_entries(page: &ReaddirplusOk<'_>, entries: &[EntryPlus<'_>], eof: bool) -> Vec<u8> {
    let mut changed = Page::readdirplus(u32::MAX, u32::MAX, &page.dir_attributes);
    let all_fit = entries.iter().all(|plus| changed.push_plus(plus));
    debug_assert!(all_fit, "they have come in one page");
    let list = changed.finish(eof);
    encoded(&Reply::Readdirplus(Ok(ReaddirplusOk { list: &list, ..*page })))
}

fn encoded(reply: &Reply<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    reply.encode(&mut out);
    out
}

/// Answers of a server that has looked, and changed nothing.
pub(crate) const REFUSALS: [Nfsstat3; 13] = [
    Nfsstat3::PERM,
    Nfsstat3::NOENT,
    Nfsstat3::ACCES,
    Nfsstat3::EXIST,
    Nfsstat3::NOTDIR,
    Nfsstat3::ISDIR,
    Nfsstat3::INVAL,
    Nfsstat3::ROFS,
    Nfsstat3::NAMETOOLONG,
    Nfsstat3::NOTEMPTY,
    Nfsstat3::STALE,
    Nfsstat3::BADHANDLE,
    Nfsstat3::NOT_SYNC,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cached::Told;
    use crate::clock::Clock;
    use crate::config::Config;
    use crate::pool::Pool;
    use crate::realm::Wishes;
    use crate::samples::attributes;
    use midas_core::cache::{CleanStart, Rules, Settings};
    use midas_core::health::Health;
    use midas_nfs::nfs3::{FileHandle, Ftype3, Sattr3, StableHow};
    use std::sync::Arc;

    fn export() -> Realm {
        let text = "[[pool]]\nname = \"p\"\nservers = [\"127.0.0.1:1\", \"127.0.0.2:1\"]\nstaleness = \"60s\"\n\
                    [[export]]\npath = \"/\"\npool = \"p\"\nclients = \"127.0.0.1\"\n";
        let config = Config::parse(text).unwrap();
        let pool = Arc::new(Pool::new(Clock::new(), config.pools()[0].clone(), 0));
        let (settings, absent_max, rules) = (Settings::default(), Span::from_secs(10), Rules::ALL);
        let told = Told { settings, absent_max, watches: true, start: CleanStart::Yes, rules, leases: None, name: 0 };
        Realm::new((0, 0), 1, config.exports()[0].clone(), pool, None, &[("/".to_owned(), told)])
    }

    #[test]
    fn d6_an_answer_is_judged_by_the_fences_that_stood_when_its_call_left() {
        let export = export();
        // The fence around everything that a start raises has ended.
        let begin = export.pool.time(Instant::now()) + Span::from_secs(3600);
        let after = |seconds| begin + Span::from_secs(seconds);
        let (dir, file) = (FileHandle::new(b"dir").unwrap(), FileHandle::new(b"file").unwrap());
        let (changed_at, other) = (ServerId(0), ServerId(1));
        export.part(Key::of(file.bytes())).shard.raise(begin, Key::of(file.bytes()), changed_at, true);
        let attributes = Some(attributes(Ftype3::Reg, 1));
        let found = LookupOk { object: file, attributes, dir_attributes: None };
        let without = encoded(&Reply::Lookup(Ok(LookupOk { attributes: None, ..found })));
        let (results, meaning) = (encoded(&Reply::Lookup(Ok(found))), Meaning::on(Op::Lookup, dir, b"name"));
        // The fence ends after 60 s: when the call left, when its answer came, from where, and whether it is believed.
        for (left, now, server, believed) in
            [(59, 61, other, false), (60, 61, other, true), (1, 2, other, false), (59, 61, changed_at, true)]
        {
            let honest = export.honest(
                (after(now), after(left)),
                server,
                (&meaning, Makes::Unknown),
                Procedure::Lookup,
                &results,
            );
            assert_eq!(honest, (!believed).then(|| without.clone()), "left {left}");
        }
    }

    /// An export whose start is long past, and when that is.
    fn settled() -> (Realm, Time) {
        let export = export();
        let begin = export.pool.time(Instant::now()) + Span::from_secs(3600);
        let servers = &export.pool.servers;
        servers.ids().for_each(|server| servers.set_health(begin, server, Health::Up));
        (export, begin)
    }

    fn handle(bytes: &[u8]) -> FileHandle<'_> {
        FileHandle::new(bytes).unwrap()
    }

    fn unchecked(size: Option<u64>) -> Meaning {
        let place = DirOp { dir: handle(b"dir"), name: b"name" };
        Meaning::of(&Call::Create { place, how: CreateHow::Unchecked(Sattr3 { size, ..Sattr3::default() }) }).unwrap()
    }

    fn told() -> WccData {
        WccData { before: None, after: Some(attributes(Ftype3::Dir, 1)) }
    }

    #[test]
    fn d6_a_name_that_nobody_may_see_is_not_free_and_a_later_change_of_it_is_not_unlearned() {
        let (export, begin) = settled();
        let (dir, file, create) = (Key::of(b"dir"), Key::of(b"file"), unchecked(Some(0)));
        for (leads, makes) in
            [(Leads::Refused, Makes::Unknown), (Leads::Nowhere, Makes::New), (Leads::To(file), Makes::Over(file))]
        {
            export.learn_target(begin, dir, b"name", leads);
            assert_eq!(export.makes(&create), makes, "{leads:?}");
        }
        export.part(dir).shard.raise(begin + Span::from_secs(1), create.object, ServerId(0), true);
        export.learn_target(begin, dir, b"name", Leads::Nowhere);
        assert_eq!(export.makes(&create), Makes::Over(file), "the name was changed since");
        export.part(dir).names.remove(create.object);
        export.learn_target(begin, dir, b"name", Leads::Nowhere);
        assert_eq!(export.makes(&create), Makes::Unknown, "the change may have been lost");
    }

    /// A CREATE that was refused made a RENAME of the same name, which waited for its turn, forget
    /// what it moves: no fence stood then.
    #[test]
    fn d6_what_is_known_of_a_name_outlives_a_call_that_was_refused_and_what_moved_away_is_gone() {
        let (export, begin) = settled();
        let (dir, moved, over) = (Key::of(b"dir"), Key::of(b"moved"), Key::of(b"over"));
        let [from, to] = [b"name", b"over"].map(|name| DirOp { dir: handle(b"dir"), name });
        let rename = Meaning::of(&Call::Rename { from, to }).unwrap();
        export.learn_target(begin, dir, b"name", Leads::To(moved));
        export.learn_target(begin, dir, b"over", Leads::Nowhere);
        export.unsure_of_names(&unchecked(None), true);
        assert_eq!(export.changed_too(&rename), [moved]);
        export.unsure_of_names(&rename, true);
        let known = |name: &[u8]| export.part(dir).names.find(dir.named(name));
        assert_eq!((known(b"name"), known(b"over")), (Some(Leads::To(moved)), None), "it is perhaps not free");
        export.unsure_of_names(&rename, false);
        assert_eq!(known(b"name"), None);
        for (before, after) in [(Leads::Nowhere, true), (Leads::To(over), true), (Leads::To(moved), false)] {
            export.part(dir).names.insert(dir.named(b"name"), Leads::To(moved));
            export.part(dir).names.insert(dir.named(b"over"), before);
            export.renamed(begin, ServerId(0), &rename);
            assert_eq!(known(b"over"), Some(Leads::To(moved)));
            assert_eq!(known(b"name"), after.then_some(Leads::Nowhere), "{before:?}");
        }
    }

    /// A head of Ganesha that cuts a file which another head has changed shows its old times.
    #[test]
    fn d6_a_create_cuts_no_file_at_a_server_that_may_know_it_as_it_was() {
        let (changed_at, other, file) = (ServerId(0), ServerId(1), Key::of(b"file"));
        for (size, cuts) in [(None, false), (Some(0), true)] {
            let (export, begin) = settled();
            let meaning = unchecked(size);
            export.learn_target(begin, meaning.place, b"name", Leads::To(file));
            export.part(file).shard.raise(begin, file, changed_at, true);
            let left = begin + Span::from_secs(1);
            // Whoever is told all the same is told nothing old.
            let attributes = Some(attributes(Ftype3::Reg, 1));
            let found = CreateOk { object: Some(handle(b"file")), attributes, dir: told() };
            let results = encoded(&Reply::Create(Ok(found)));
            let of = (&meaning, Makes::Over(file));
            let honest = export.honest((left, left), other, of, Procedure::Create, &results);
            let without = encoded(&Reply::Create(Ok(CreateOk { attributes: None, ..found })));
            assert_eq!(honest, Some(without), "{size:?}");
            assert_eq!(export.cuts(&meaning), Some(file).filter(|_| cuts), "{size:?}");
        }
    }

    /// Such a one would wait for itself: its place is being changed, by itself.
    #[test]
    fn d6_a_name_of_the_directory_itself_is_not_changed_besides_the_directory() {
        let (export, begin) = settled();
        let object = DirOp { dir: handle(b"dir"), name: b"." };
        export.learn_target(begin, Key::of(b"dir"), b".", Leads::To(Key::of(b"dir")));
        let meaning = Meaning::of(&Call::Rmdir { object }).unwrap();
        assert_eq!(export.changed_too(&meaning), []);
        assert!(export.send(begin, &meaning, Wishes::default()).is_ok());
    }

    /// Writes of one file go together, changes of its attributes go alone.
    #[test]
    fn d6_changes_of_attributes_wait_for_each_other_and_for_writes() {
        let (export, begin) = settled();
        let file = handle(b"file");
        let setattr = Call::Setattr { object: file, new_attributes: Sattr3::default(), guard: None };
        let write = Call::Write { file, offset: 0, count: 1, stable: StableHow::FileSync, data: b"1" };
        let [setattr, write] = [setattr, write].map(|call| Meaning::of(&call).unwrap());
        assert_eq!(setattr, Meaning::setattr(Key::of(b"file")));
        let send = |meaning| export.send(begin, meaning, Wishes::default());
        let writes = [&write, &write].map(|write| send(write).unwrap());
        assert!(send(&setattr).is_err());
        for sent in writes {
            export.take_back(begin, sent);
        }
        let changes = send(&setattr).unwrap();
        assert!(send(&setattr).is_err() && send(&write).is_err());
        export.take_back(begin, changes);
        assert!(send(&setattr).is_ok());
    }

    #[test]
    fn d6_a_commit_tells_of_its_file_only_what_its_server_knows() {
        let (export, begin) = settled();
        let (changed_at, other, file) = (ServerId(0), ServerId(1), Key::of(b"file"));
        export.part(file).shard.raise(begin, file, changed_at, true);
        let done = CommitOk { file: told(), verf: [7; 8] };
        let results = encoded(&Reply::Commit(Ok(done)));
        let without = encoded(&Reply::Commit(Ok(CommitOk { file: WccData::default(), ..done })));
        let meaning = Meaning::on(Op::Commit, handle(b"file"), b"");
        for (server, honest) in [(changed_at, None), (other, Some(without))] {
            let of = (&meaning, Makes::Unknown);
            assert_eq!(export.honest((begin, begin), server, of, Procedure::Commit, &results), honest, "{server:?}");
        }
    }

    #[test]
    fn d6_what_fails_tells_only_what_its_server_knows() {
        let (export, begin) = settled();
        let (changed_at, other) = (ServerId(0), ServerId(1));
        let [from, to] = [b"one", b"two"].map(|dir| DirOp { dir: handle(dir), name: b"name" });
        export.part(Key::of(b"two")).shard.raise(begin, Key::of(b"two"), changed_at, true);
        let (status, nothing) = (Nfsstat3::ACCES, WccData::default());
        let rename = |to| Reply::Rename(Err(Failed { status, attributes: RenameDone { from: told(), to } }));
        let link = |attributes| Reply::Link(Err(Failed { status, attributes: LinkDone { attributes, dir: told() } }));
        let file = handle(b"two");
        let linked = Call::Link { file, link: from };
        for (call, said, honest) in
            [(Call::Rename { from, to }, rename(told()), rename(nothing)), (linked, link(told().after), link(None))]
        {
            let meaning = Meaning::of(&call).unwrap();
            let told = |server| {
                let of = (&meaning, Makes::Unknown);
                export.honest((begin, begin), server, of, call.procedure(), &encoded(&said))
            };
            assert_eq!((told(changed_at), told(other)), (None, Some(encoded(&honest))), "{call:?}");
        }
    }

    #[test]
    fn d6_a_rename_that_is_refused_fences_nothing_and_one_without_an_answer_all_that_it_names() {
        let (export, begin) = settled();
        let [from, to] = [b"one", b"two"].map(|dir| DirOp { dir: handle(dir), name: b"name" });
        let (meaning, victim) = (Meaning::of(&Call::Rename { from, to }).unwrap(), Key::of(b"two"));
        let fence = |now| export.part(victim).shard.fence(now, &export.pool.servers, victim, victim);
        let mut refused = export.send(begin, &meaning, Wishes::default()).unwrap();
        assert!(fence(begin).is_some(), "while it is under way");
        refused.ticket.spare();
        export.settle(begin, &mut refused, End::Answered { ok: false, unstable: false });
        let standing = |key: Key| export.part(key).shard.fences(begin);
        assert_eq!((fence(begin), standing(victim), standing(meaning.place)), (None, 0, 0));
        let mut lost = export.send(begin, &meaning, Wishes::default()).unwrap();
        export.settle(begin, &mut lost, End::Lost);
        assert!(fence(begin + Span::from_secs(61)).is_some(), "it may be executed yet");
    }
}
