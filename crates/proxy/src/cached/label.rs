//! What an entry is, and for whom. Keys are digests: every value therefore begins with the very bytes that it answers for, and
//! only a call with the same bytes gets it.

use crate::counters::Fate;
use midas_core::cache::{Class, Entry};
use midas_core::key::Key;
use midas_net::Caller;
use midas_nfs::nfs3::Procedure;
use midas_nfs::rpc::Credential;

/// What is kept. The numbers are the core's classes and the first byte of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// An object's attributes; no permission is needed to see them.
    Attributes,
    /// Where a name leads.
    Name,
    /// That a name does not exist. Kept in the same place as [`Kind::Name`].
    Absent,
    /// That a user may look up names in a directory.
    Search,
    /// Since when the names of a directory are known.
    Children,
    /// What a user may do with an object.
    Access,
    /// Where a symbolic link leads.
    Link,
    /// A page of a directory as a user sees it.
    Page,
    /// FSINFO and PATHCONF.
    Limits,
}

impl Kind {
    /// The count of reads that are answered from it.
    pub(crate) const fn fate(self) -> Fate {
        match self {
            Self::Absent => Fate::Absent,
            _ => Fate::Answered,
        }
    }

    /// All, in the order of their numbers.
    pub(crate) const ALL: [Self; 9] = [
        Self::Attributes,
        Self::Name,
        Self::Absent,
        Self::Search,
        Self::Children,
        Self::Access,
        Self::Link,
        Self::Page,
        Self::Limits,
    ];

    pub(crate) const fn class(self) -> Class {
        Class(self as u8)
    }

    /// The kind by whose checked hits its own are judged: whatever makes an entry untrue shows in its object's attributes.
    pub(crate) const fn measured(self) -> Self {
        match self {
            Self::Name => Self::Name,
            Self::Absent => Self::Absent,
            Self::Attributes
            | Self::Search
            | Self::Children
            | Self::Access
            | Self::Link
            | Self::Page
            | Self::Limits => Self::Attributes,
        }
    }

    /// The word that users read.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Attributes => "attributes",
            Self::Name => "names",
            Self::Absent => "absent names",
            Self::Search => "search",
            Self::Children => "directories",
            Self::Access => "access",
            Self::Link => "links",
            Self::Page => "listings",
            Self::Limits => "limits",
        }
    }
}

/// The entries of an object, by its key. Two things make them untrue: what changes its attributes, and what changes who may do what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Of(pub(crate) Key);

impl Of {
    /// Guards attributes, listings and links.
    pub(crate) const fn attributes(self) -> Entry<Key> {
        Entry::own(self.0, Kind::Attributes.class())
    }

    /// Guards what users may do.
    pub(crate) const fn permission(self) -> Key {
        self.0.child(PERMISSION)
    }

    pub(crate) fn name(self, name: &[u8], kind: Kind) -> Entry<Key> {
        Entry::own(self.0.named(name), kind.class())
    }

    pub(crate) const fn children(self) -> Entry<Key> {
        Entry::own(self.0.child(CHILDREN), Kind::Children.class())
    }

    pub(crate) const fn search(self, who: &Who) -> Entry<Key> {
        Entry { key: self.0.child(SEARCH).child(who.key.0), guard: self.permission(), class: Kind::Search.class() }
    }

    pub(crate) const fn access(self, mask: u32, who: &Who) -> Entry<Key> {
        let key = self.0.child(ACCESS + mask as u64).child(who.key.0);
        Entry { key, guard: self.permission(), class: Kind::Access.class() }
    }

    pub(crate) const fn link(self, who: &Who) -> Entry<Key> {
        Entry { key: self.0.child(LINK).child(who.key.0), guard: self.0, class: Kind::Link.class() }
    }

    /// `which`: cookie, verifier and sizes, as the call has them.
    pub(crate) fn page(self, which: &[u8], who: &Who) -> Entry<Key> {
        let key = self.0.child(PAGE).named(which).child(who.key.0);
        Entry { key, guard: self.0, class: Kind::Page.class() }
    }

    pub(crate) const fn limits(self, procedure: Procedure) -> Entry<Key> {
        let key = self.0.child(LIMITS + procedure as u64);
        Entry { key, guard: self.permission(), class: Kind::Limits.class() }
    }
}

/// On whose behalf a call reaches the servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who {
    key: Key,
    bytes: [u8; WHO_MOST],
    len: u8,
}

impl Who {
    /// Whoever: for what needs no permission, and is the same for all.
    pub(crate) const ANYONE: Self = Self { key: Key(0), bytes: [0; WHO_MOST], len: 0 };

    /// The user that the servers will see.
    pub(crate) fn of(credential: &Credential<'_>) -> Self {
        let mut who = Self::ANYONE;
        if let Credential::Sys(sys) = credential {
            [sys.uid, sys.gid].iter().chain(sys.gids()).for_each(|id| who.put(*id));
        }
        who.key = Key::of(who.bytes());
        who
    }

    fn put(&mut self, id: u32) {
        let at = usize::from(self.len);
        if let Some(place) = self.bytes.get_mut(at..at + 4) {
            place.copy_from_slice(&id.to_be_bytes());
            self.len += 4;
        }
    }

    /// The same as whoever makes calls.
    pub(crate) fn caller(&self) -> Caller {
        let (ids, _) = self.bytes().as_chunks::<4>();
        let mut ids = ids.iter().map(|id| u32::from_be_bytes(*id));
        match (ids.next(), ids.next()) {
            (Some(uid), Some(gid)) => Caller { uid, gid, gids: ids.collect() },
            _ => Caller::ROOT,
        }
    }

    pub(crate) const fn key(&self) -> Key {
        self.key
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// A value: what it answers for, then what it answers. It answers nothing if a part of what it is for is too long.
pub(crate) fn value(kind: Kind, identity: &[&[u8]], payload: &[&[u8]]) -> Box<[u8]> {
    let length = |parts: &[&[u8]]| parts.iter().map(|part| part.len()).sum::<usize>();
    let mut value = Vec::with_capacity(1 + 2 * identity.len() + length(identity) + length(payload));
    value.push(kind as u8);
    for part in identity {
        value.extend_from_slice(&u16::try_from(part.len()).unwrap_or(TOO_LONG).to_be_bytes());
        value.extend_from_slice(part);
    }
    for part in payload {
        value.extend_from_slice(part);
    }
    value.into()
}

/// What a value answers, if it is for this.
pub(crate) fn payload<'v>(value: &'v [u8], kind: Kind, identity: &[&[u8]]) -> Option<&'v [u8]> {
    let mut rest = value.strip_prefix(&[kind as u8])?;
    for part in identity {
        let length = u16::try_from(part.len()).ok().filter(|length| *length < TOO_LONG)?;
        rest = rest.strip_prefix(&length.to_be_bytes())?.strip_prefix(*part)?;
    }
    Some(rest)
}

/// What kind a value is of.
pub(crate) fn kind(value: &[u8]) -> Option<Kind> {
    Kind::ALL.get(usize::from(*value.first()?)).copied()
}

/// The first of what follows the kind, and the rest.
pub(crate) fn part(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = value.split_first_chunk::<2>()?;
    rest.split_at_checked(u16::from_be_bytes(*length).into())
}

/// The length of what has none that can be written.
const TOO_LONG: u16 = u16::MAX;
const PERMISSION: u64 = 1;
const CHILDREN: u64 = 2;
const SEARCH: u64 = 3;
const LINK: u64 = 4;
const PAGE: u64 = 5;
const LIMITS: u64 = 1 << 8;
const ACCESS: u64 = 1 << 32;
/// A user, a group and sixteen more.
const WHO_MOST: usize = 4 * 18;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_answers_for_its_own_bytes_alone() {
        let kept = value(Kind::Name, &[b"dir", b"name"], &[b"handle"]);
        assert_eq!(payload(&kept, Kind::Name, &[b"dir", b"name"]), Some(&b"handle"[..]));
        for (kind, identity) in [
            (Kind::Absent, [&b"dir"[..], b"name"]),
            (Kind::Name, [&b"dirn"[..], b"ame"]),
            (Kind::Name, [&b"dir"[..], b"nam"]),
            (Kind::Name, [&b"di"[..], b"name"]),
        ] {
            assert_eq!(payload(&kept, kind, &identity), None, "{kind:?} {identity:?}");
        }
        // What somebody appends to his arguments is not what another one is answered.
        let (args, who) = (&b"args"[..], &b"who"[..]);
        let planted = [args, &[0, 3], who, b"planted"].concat();
        let long = [&planted[..], &vec![0; (1 << 16) + args.len() - planted.len()]].concat();
        assert_eq!(payload(&value(Kind::Page, &[&long, b"me"], &[b"page"]), Kind::Page, &[args, who]), None);
        let kept = value(Kind::Page, &[args, who], &[&long[args.len() + 2 + who.len()..]]);
        assert!(payload(&kept, Kind::Page, &[args, who]).is_some());
        assert_eq!(payload(&kept, Kind::Page, &[&long]), None);
        assert_eq!(payload(&value(Kind::Page, &[&long], &[b"page"]), Kind::Page, &[&long]), None, "it is never known");
    }

    #[test]
    fn no_two_kinds_share_a_key_or_a_name() {
        let (of, who) = (Of(Key(7)), Who::of(&Credential::None));
        let keys = [
            of.attributes().key,
            of.permission(),
            of.children().key,
            of.search(&who).key,
            of.access(1, &who).key,
            of.access(2, &who).key,
            of.link(&who).key,
            of.page(b"", &who).key,
            of.limits(Procedure::Fsinfo).key,
        ];
        let distinct: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind.class(), Class(number as u8), "{}", kind.name());
        }
    }
}
