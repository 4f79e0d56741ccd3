//! Pools whose servers believe for a while what they once knew (`staleness`): which objects a mutation changes, and what another server's
//! answer may tell of them (nfs3.md, D1, D3, D6). Coherent pools pay nothing for it.
//!
//! From when a mutation leaves for a server until `staleness` after its answer, everything that it changes is read there. What it makes is
//! not fenced: a server that has never seen an object has no old answer about it. So a tree that has just been made is read and changed
//! everywhere, and only the directories that still change are bound. The directory's
//! fence covers its names; objects that a call does not name (what REMOVE and RENAME lead to) are known from earlier answers, and asked for
//! if not. A name is looked up at its directory's server, which may know old attributes of an object that was changed elsewhere: such
//! attributes are left out, as the RFC allows, and clients ask for them where they are true. So nothing older than an acknowledged change is
//! shown and time does not run backwards. It relies on a server knowing the newest state of what it has itself just changed (Ganesha does).

use crate::realm::{Makes, Realm, Sent};
use crate::translate::Meaning;
use midas_core::id::ServerId;
use midas_core::key::Key;
use midas_core::op::Op;
use midas_core::route::feasible::{Bound, Target};
use midas_core::shard::Busy;
use midas_core::time::{Span, Time};
use midas_nfs::nfs3::{
    Call, CreateHow, DirOp, EntryPlus, Failed, FileHandle, LookupOk, Nfsstat3, Page, Procedure, ReadOk, ReaddirOk,
    ReaddirplusOk, Reply,
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
        let targets = meaning.targets().filter_map(|(directory, name)| self.part(directory).names.find(name).flatten());
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
        let target = Target { op: meaning.op, place: object, object, subtree: None, bound: None };
        self.part(object).shard.fenced_at(now, &self.pool.servers, &target)
    }

    /// A mutation leaves for a server: what it changes besides its object and place counts as being changed until it is over. None: another
    /// server is just changing one of these.
    pub(crate) fn leave_too(&self, now: Time, also: &[Key], server: ServerId) -> Option<Vec<Key>> {
        let mut fenced = Vec::new();
        for object in also {
            match self.part(*object).shard.leave_too(now, *object, server) {
                Ok(key) => fenced.extend(key),
                Err(Busy) => {
                    self.over_too(now, &fenced);
                    return None;
                }
            }
        }
        Some(fenced)
    }

    /// It is over.
    pub(crate) fn over_too(&self, now: Time, fenced: &[Key]) {
        fenced.iter().for_each(|object| self.part(*object).shard.over_too(now, *object));
    }

    /// A mutation is over at a server. One that was not executed leaves fences of other servers where they are.
    pub(crate) fn fence_too(&self, now: Time, also: &[Key], server: ServerId, executed: bool) {
        for object in also {
            self.part(*object).shard.raise(now, *object, server, executed);
        }
    }

    /// Whether what a call makes can have been there before. UNCHECKED CREATE takes what its name leads to already; all others fail then.
    pub(crate) fn makes(&self, meaning: &Meaning) -> Makes {
        match (meaning.op, meaning.unchecked) {
            (Op::Create, false) => Makes::New,
            (Op::Create, true) if self.stale() => match self.part(meaning.place).names.find(meaning.object) {
                None => Makes::Unknown,
                Some(None) => Makes::New,
                Some(Some(object)) => Makes::Over(object),
            },
            _ => Makes::Unknown,
        }
    }

    /// Whether a call's only answer shows that it changed neither its name nor its directory: it was refused, or took what was there.
    pub(crate) fn changed_nothing(sent: &Sent, procedure: Procedure, status: Nfsstat3, results: &[u8]) -> bool {
        match (status, sent.makes) {
            (Nfsstat3::OK, Makes::Over(before)) => match Reply::decode(procedure, results) {
                Ok(Reply::Create(Ok(made))) => made.object.is_some_and(|after| Key::of(after.bytes()) == before),
                Ok(_) | Err(_) => false,
            },
            (status, _) => REFUSALS.contains(&status),
        }
    }

    /// A mutation was refused, or nobody knows whether it was executed: where its names lead must be asked anew.
    pub(crate) fn unsure_of_names(&self, meaning: &Meaning) {
        if !matches!(meaning.op, Op::Create | Op::Remove | Op::Rename | Op::Link) {
            return;
        }
        self.part(meaning.place).names.remove(meaning.object);
        if let (Op::Rename, Some((directory, name))) = (meaning.op, meaning.second) {
            self.part(directory).names.remove(name);
        }
    }

    /// A mutation was executed: names lead elsewhere.
    pub(crate) fn renamed(&self, now: Time, server: ServerId, meaning: &Meaning) {
        match (meaning.op, meaning.second) {
            (Op::Remove, _) => self.part(meaning.place).names.insert(meaning.object, None),
            (Op::Link, Some((file, _))) => self.part(meaning.place).names.insert(meaning.object, Some(file)),
            (Op::Rename, Some((directory, name))) => {
                // Both names of one object stay where they are: the old one is asked for if it is needed again.
                let moved = self.part(meaning.place).names.remove(meaning.object);
                let mut part = self.part(directory);
                part.shard.raise(now, name, server, true);
                match moved {
                    Some(moved) => part.names.insert(name, moved),
                    None => drop(part.names.remove(name)),
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

    /// It was asked where a name leads: to this object, to none, or nobody could tell and nothing of it can be fenced.
    pub(crate) fn learn_target(&self, directory: Key, name: &[u8], object: Option<Key>) {
        self.part(directory).names.insert(directory.named(name), object);
    }

    /// Where it is to be asked for.
    pub(crate) fn knows_names(&self, now: Instant, directory: Key) -> Option<ServerId> {
        let servers = &self.pool.servers;
        let fence = self.part(directory).shard.fence(self.pool.time(now), servers, directory, directory);
        let first = fence.or_else(|| servers.ring().home(directory))?;
        self.pool.some_open(first.index())
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
                self.learn_names(left, server, meaning.place, [(meaning.object, Some(object))]);
                let attributes = found.attributes.filter(|_| self.trusted(left, object, server));
                let dir_attributes = found.dir_attributes.filter(|_| self.trusted(left, meaning.place, server));
                let honest = LookupOk { attributes, dir_attributes, ..found };
                (found != honest).then(|| encoded(&Reply::Lookup(Ok(honest))))
            }
            Ok(Reply::Lookup(Err(failed))) if failed.status == Nfsstat3::NOENT => {
                self.learn_names(left, server, meaning.place, [(meaning.object, None)]);
                let attributes = failed.attributes.filter(|_| self.trusted(left, meaning.place, server));
                let honest = Failed { attributes, ..failed };
                (failed != honest).then(|| encoded(&Reply::Lookup(Err(honest))))
            }
            Ok(Reply::Read(Ok(read))) => {
                let attributes = read.attributes.filter(|_| self.trusted(left, meaning.place, server));
                let honest = ReadOk { attributes, ..read };
                (read.attributes != attributes).then(|| encoded(&Reply::Read(Ok(honest))))
            }
            Ok(
                Reply::Create(Ok(made)) | Reply::Mkdir(Ok(made)) | Reply::Symlink(Ok(made)) | Reply::Mknod(Ok(made)),
            ) => {
                self.made(now, server, (meaning, makes), made.object);
                None
            }
            Ok(Reply::Readdir(Ok(page))) => {
                let honest = ReaddirOk { dir_attributes: None, ..page };
                let trusted = self.trusted(left, meaning.place, server);
                (!trusted && page != honest).then(|| encoded(&Reply::Readdir(Ok(honest))))
            }
            Ok(Reply::Readdirplus(Ok(page))) => self.honest_page(left, server, meaning, &page),
            Ok(_) | Err(_) => None,
        }
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
        let named = all.iter().filter_map(|plus| Some((meaning.place.named(plus.entry.name), Some(object(plus)?))));
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

    /// A call has made an object, or taken one that was there. Two UNCHECKED CREATEs of one free name may both have left: the second to be
    /// answered has perhaps changed what the first has made.
    fn made(&self, now: Time, server: ServerId, (meaning, makes): (&Meaning, Makes), object: Option<FileHandle<'_>>) {
        let mut part = self.part(meaning.place);
        let Some(object) = object.map(|handle| Key::of(handle.bytes())) else {
            part.names.remove(meaning.object);
            return;
        };
        let still_free = !meaning.unchecked || part.names.find(meaning.object) == Some(None);
        part.names.insert(meaning.object, Some(object));
        drop(part);
        if !(makes == Makes::New && still_free) {
            self.part(object).shard.raise(now, object, server, true);
        }
    }

    /// What a server says of names counts unless another one has changed the directory since, or the name was changed while it said so.
    fn learn_names(
        &self,
        left: Time,
        server: ServerId,
        directory: Key,
        names: impl IntoIterator<Item = (Key, Option<Key>)>,
    ) {
        let mut part = self.part(directory);
        for (name, object) in names {
            let knows = part.shard.fence(left, &self.pool.servers, name, directory).is_none_or(|at| at == server);
            if knows && !part.shard.changed_since(left, name) {
                part.names.insert(name, object);
            }
        }
    }

    /// Whether this server surely knew the newest state of an object from then on.
    fn trusted(&self, left: Time, object: Key, server: ServerId) -> bool {
        self.part(object).shard.fence(left, &self.pool.servers, object, object).is_none_or(|at| at == server)
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
const REFUSALS: [Nfsstat3; 13] = [
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
    use crate::samples::attributes;
    use midas_core::cache::{CleanStart, Rules, Settings};
    use midas_nfs::nfs3::Ftype3;
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
}
