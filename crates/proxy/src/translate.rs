//! The one file that knows both languages: NFSv3 calls become what `core` decides on.
//!
//! A call's place is a pure function of its bytes: a proxy that has just started, or another one, finds
//! the same one. Its home is its place's, but where moves cost something: see `homes`.

use midas_core::key::Key;
use midas_core::op::Op;
use midas_nfs::nfs3::{Call, CreateHow, DirOp, FileHandle, Sattr3, StableHow};
use std::net::IpAddr;

/// What routing must know of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct Meaning {
    pub(crate) op: Op,
    /// Names the home: the directory for calls on names, the object otherwise.
    pub(crate) place: Key,
    /// The object, or the directory and name.
    pub(crate) object: Key,
    /// May be sent to another server, or again, without asking.
    pub(crate) movable: bool,
    pub(crate) kind: Kind,
    /// What a listing is remembered under: its directory and who lists it.
    pub(crate) tie: Key,
    /// The other directory and name of RENAME; the file of LINK, twice.
    pub(crate) second: Option<(Key, Key)>,
    /// It makes an object, or changes the one that its name leads to already: UNCHECKED CREATE.
    /// Others that make objects fail then.
    pub(crate) unchecked: bool,
    /// Such a one sets the size: only that changes an object that is there already.
    pub(crate) resizes: bool,
    /// It is asked by the rules of an export that may not be changed, whichever export routes it: ACCESS says so.
    pub(crate) narrowed: bool,
}

/// What ties calls to a server, or makes their replies ours to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing does.
    Plain,
    /// Data that may not be durable when it is answered.
    Write { unstable: bool },
    /// Makes data durable; the whole file, or a part.
    Commit { whole: bool },
    /// A listing: its first page, or a later one.
    List { first: bool },
    /// Limits, which must hold for every server.
    Fsinfo,
}

impl Meaning {
    /// A SETATTR of this object.
    pub(crate) fn setattr(object: Key) -> Self {
        on_key(Op::Setattr, object, false)
    }

    /// What a call of this kind means, for calls that are only thought of. The handle is a directory's for a call on a name.
    pub(crate) fn on(op: Op, handle: FileHandle<'_>, name: &[u8]) -> Self {
        let named = DirOp { dir: handle, name };
        match op {
            Op::Lookup => on_name(op, &named, true),
            Op::Create | Op::Remove | Op::Rename | Op::Link => on_name(op, &named, false),
            Op::Getattr | Op::Access | Op::Readlink | Op::Statfs | Op::Read => on_object(op, handle, true),
            Op::Setattr => on_object(op, handle, false),
            Op::List => Self { kind: Kind::List { first: true }, ..on_object(op, handle, true) },
            Op::Write => Self { kind: Kind::Write { unstable: true }, ..on_object(op, handle, false) },
            Op::Commit => Self { kind: Kind::Commit { whole: true }, ..on_object(op, handle, false) },
        }
    }

    /// None for NULL, which never leaves the proxy.
    pub(crate) fn of(call: &Call<'_>) -> Option<Self> {
        Some(match call {
            Call::Null => return None,
            Call::Getattr { object } | Call::Pathconf { object } => on_object(Op::Getattr, *object, true),
            Call::Access { object, .. } => on_object(Op::Access, *object, true),
            Call::Readlink { symlink } => on_object(Op::Readlink, *symlink, true),
            Call::Fsstat { fsroot } => on_object(Op::Statfs, *fsroot, true),
            Call::Fsinfo { fsroot } => Self { kind: Kind::Fsinfo, ..on_object(Op::Statfs, *fsroot, true) },
            Call::Read { file, .. } => on_object(Op::Read, *file, true),
            Call::Setattr { object, .. } => on_object(Op::Setattr, *object, false),
            Call::Write { file, stable, .. } => {
                let kind = Kind::Write { unstable: *stable == StableHow::Unstable };
                Self { kind, ..on_object(Op::Write, *file, false) }
            }
            Call::Commit { file, offset, count } => {
                let kind = Kind::Commit { whole: *offset == 0 && *count == 0 };
                Self { kind, ..on_object(Op::Commit, *file, false) }
            }
            Call::Lookup { what } => on_name(Op::Lookup, what, true),
            Call::Create { place, how } => {
                let unchecked = matches!(how, CreateHow::Unchecked(_));
                let resizes = matches!(how, CreateHow::Unchecked(Sattr3 { size: Some(_), .. }));
                Self { unchecked, resizes, ..on_name(Op::Create, place, false) }
            }
            Call::Mkdir { place, .. } | Call::Symlink { place, .. } | Call::Mknod { place, .. } => {
                on_name(Op::Create, place, false)
            }
            Call::Remove { object } | Call::Rmdir { object } => on_name(Op::Remove, object, false),
            Call::Rename { from, to } => {
                let second = on_name(Op::Rename, to, false);
                Self { second: Some((second.place, second.object)), ..on_name(Op::Rename, from, false) }
            }
            Call::Link { file, link } => {
                let file = Key::of(file.bytes());
                Self { second: Some((file, file)), ..on_name(Op::Link, link, false) }
            }
            Call::Readdir { dir, cookie, .. } | Call::Readdirplus { dir, cookie, .. } => {
                let first = *cookie == 0;
                Self { kind: Kind::List { first }, ..on_object(Op::List, *dir, first) }
            }
        })
    }
}

impl Meaning {
    /// A listing is tied to the client that reads it.
    pub(crate) fn set_client(&mut self, client: IpAddr) {
        if !matches!(self.kind, Kind::List { .. }) {
            return;
        }
        self.tie = match client.to_canonical() {
            IpAddr::V4(client) => self.place.named(&client.octets()),
            IpAddr::V6(client) => self.place.named(&client.octets()),
        };
    }

    /// Names whose objects it changes without saying which these are: directories and names in them.
    pub(crate) fn targets(&self) -> impl Iterator<Item = (Key, Key)> {
        let own = matches!(self.op, Op::Remove | Op::Rename) || self.resizes;
        let own = Some((self.place, self.object)).filter(|_| own);
        own.into_iter().chain(self.second.filter(|_| self.op == Op::Rename))
    }
}

/// The object that a call is about, and the second one of RENAME and LINK; none for NULL.
pub(crate) fn handles<'a>(call: &Call<'a>) -> Option<(FileHandle<'a>, Option<FileHandle<'a>>)> {
    Some(match call {
        Call::Null => return None,
        Call::Getattr { object }
        | Call::Pathconf { object }
        | Call::Access { object, .. }
        | Call::Setattr { object, .. } => (*object, None),
        Call::Readlink { symlink } => (*symlink, None),
        Call::Fsstat { fsroot } | Call::Fsinfo { fsroot } => (*fsroot, None),
        Call::Read { file, .. } | Call::Write { file, .. } | Call::Commit { file, .. } => (*file, None),
        Call::Lookup { what } => (what.dir, None),
        Call::Create { place, .. }
        | Call::Mkdir { place, .. }
        | Call::Symlink { place, .. }
        | Call::Mknod { place, .. } => (place.dir, None),
        Call::Remove { object } | Call::Rmdir { object } => (object.dir, None),
        Call::Rename { from, to } => (from.dir, Some(to.dir)),
        Call::Link { file, link } => (link.dir, Some(*file)),
        Call::Readdir { dir, .. } | Call::Readdirplus { dir, .. } => (*dir, None),
    })
}

/// A name in a directory.
pub(crate) type Placed<'a> = (Key, &'a [u8]);

/// The name that a call is about, in the directory that it is placed by; of RENAME the other directory, and the name there.
pub(crate) fn names<'a>(call: &Call<'a>) -> (Option<&'a [u8]>, Option<Placed<'a>>) {
    match call {
        Call::Lookup { what: named }
        | Call::Create { place: named, .. }
        | Call::Mkdir { place: named, .. }
        | Call::Symlink { place: named, .. }
        | Call::Mknod { place: named, .. }
        | Call::Remove { object: named }
        | Call::Rmdir { object: named }
        | Call::Link { link: named, .. } => (Some(named.name), None),
        Call::Rename { from, to } => (Some(from.name), Some((Key::of(to.dir.bytes()), to.name))),
        Call::Null
        | Call::Getattr { .. }
        | Call::Setattr { .. }
        | Call::Access { .. }
        | Call::Readlink { .. }
        | Call::Read { .. }
        | Call::Write { .. }
        | Call::Readdir { .. }
        | Call::Readdirplus { .. }
        | Call::Fsstat { .. }
        | Call::Fsinfo { .. }
        | Call::Pathconf { .. }
        | Call::Commit { .. } => (None, None),
    }
}

fn on_object(op: Op, handle: FileHandle<'_>, movable: bool) -> Meaning {
    on_key(op, Key::of(handle.bytes()), movable)
}

fn on_key(op: Op, key: Key, movable: bool) -> Meaning {
    Meaning {
        op,
        place: key,
        object: key,
        movable,
        kind: Kind::Plain,
        tie: key,
        second: None,
        unchecked: false,
        resizes: false,
        narrowed: false,
    }
}

fn on_name(op: Op, name: &DirOp<'_>, movable: bool) -> Meaning {
    let place = Key::of(name.dir.bytes());
    let object = place.named(name.name);
    Meaning { object, tie: place, ..on_object(op, name.dir, movable) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_directorys_home_and_objects_their_own() {
        let dir = FileHandle::new(b"directory").unwrap();
        let what = DirOp { dir, name: b"name" };
        let lookup = Meaning::of(&Call::Lookup { what }).unwrap();
        let remove = Meaning::of(&Call::Remove { object: what }).unwrap();
        let getattr = Meaning::of(&Call::Getattr { object: dir }).unwrap();
        assert_eq!(lookup.place, remove.place);
        assert_eq!(
            (lookup, remove, getattr),
            (
                Meaning::on(Op::Lookup, dir, b"name"),
                Meaning::on(Op::Remove, dir, b"name"),
                Meaning::on(Op::Getattr, dir, b"")
            )
        );
        assert_eq!(lookup.object, remove.object);
        assert_eq!(lookup.place, getattr.place);
        assert_ne!(lookup.object, getattr.object);
    }

    #[test]
    fn a_rename_changes_what_both_names_lead_to_and_a_link_its_file() {
        let [from, to] = [b"one", b"two"].map(|dir| DirOp { dir: FileHandle::new(dir).unwrap(), name: b"name" });
        let rename = Meaning::of(&Call::Rename { from, to }).unwrap();
        let of = |what: &DirOp<'_>| (Key::of(what.dir.bytes()), Key::of(what.dir.bytes()).named(what.name));
        assert_eq!(rename.targets().collect::<Vec<_>>(), [of(&from), of(&to)]);
        let remove = Meaning::of(&Call::Remove { object: from }).unwrap();
        assert_eq!(remove.targets().collect::<Vec<_>>(), [of(&from)]);
        let link = Meaning::of(&Call::Link { file: to.dir, link: from }).unwrap();
        assert_eq!((link.targets().count(), link.second), (0, Some((of(&to).0, of(&to).0))));
    }

    #[test]
    fn a_create_changes_what_its_name_leads_to_only_if_it_sets_the_size() {
        let place = DirOp { dir: FileHandle::new(b"directory").unwrap(), name: b"name" };
        let targets = |how| Meaning::of(&Call::Create { place, how }).unwrap().targets().count();
        let (sized, plain) = (Sattr3 { size: Some(0), ..Sattr3::default() }, Sattr3::default());
        let hows = [CreateHow::Unchecked(sized), CreateHow::Unchecked(plain), CreateHow::Guarded(sized)];
        assert_eq!(hows.map(targets), [1, 0, 0]);
    }

    #[test]
    fn listings_of_several_clients_are_told_apart() {
        let dir = FileHandle::new(b"directory").unwrap();
        let list = Call::Readdir { dir, cookie: 7, cookieverf: [0; 8], count: 100 };
        let tie = |client: [u8; 4]| {
            let mut meaning = Meaning::of(&list).unwrap();
            meaning.set_client(IpAddr::from(client));
            meaning.tie
        };
        assert_ne!(tie([10, 0, 0, 1]), tie([10, 0, 0, 2]));
        assert_eq!(tie([10, 0, 0, 1]), tie([10, 0, 0, 1]));
    }

    #[test]
    fn only_what_reads_may_move() {
        let file = FileHandle::new(b"file").unwrap();
        let place = DirOp { dir: file, name: b"name" };
        let (cookieverf, count) = ([0; 8], 100);
        let movable = [
            Call::Getattr { object: file },
            Call::Lookup { what: place },
            Call::Read { file, offset: 0, count },
            Call::Readdir { dir: file, cookie: 0, cookieverf, count },
        ];
        let bound = [
            Call::Remove { object: place },
            Call::Rename { from: place, to: place },
            Call::Commit { file, offset: 0, count },
            Call::Readdir { dir: file, cookie: 7, cookieverf, count },
            Call::Write { file, offset: 0, count: 0, stable: StableHow::FileSync, data: b"" },
        ];
        assert!(movable.iter().all(|call| Meaning::of(call).unwrap().movable));
        assert!(bound.iter().all(|call| !Meaning::of(call).unwrap().movable));
    }
}
