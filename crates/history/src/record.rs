//! One call: who, when, what, and what was seen. Objects are known by a hash of their handle, names by a letter and a number.

use std::fmt;

/// A value that no object has: the name leads nowhere.
pub const ABSENT: u64 = 0;
/// The status of a call that was never answered.
pub const SILENT: u32 = u32::MAX;

/// NFSv3's numbers, as far as they mean something here.
pub mod status {
    /// Done.
    pub const OK: u32 = 0;
    /// No such name.
    pub const NOENT: u32 = 2;
    /// The name is taken.
    pub const EXIST: u32 = 17;
    /// The object is gone.
    pub const STALE: u32 = 70;
    /// The call was answered and nothing was done: PERM, NOENT, ACCES, EXIST, XDEV, NODEV, NOTDIR, ISDIR, INVAL, FBIG, NOSPC, ROFS,
    /// MLINK, NAMETOOLONG, NOTEMPTY, DQUOT, STALE, BADHANDLE, NOT_SYNC, NOTSUPP.
    pub const REFUSALS: [u32; 20] =
        [1, 2, 13, 17, 18, 19, 20, 21, 22, 27, 28, 30, 31, 63, 66, 69, 70, 10001, 10002, 10004];
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $text:literal,)*) => {
        /// What a call does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[$doc])* $name,)*
        }

        impl Kind {
            /// Every one, by number.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// As reports call it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

kinds! {
    /// Attributes of an object.
    Getattr "GETATTR",
    /// Rights of someone who is not the owner; the result is the granted bits.
    Access "ACCESS",
    /// The text of a link; the result is the number in it.
    Readlink "READLINK",
    /// A name.
    Lookup "LOOKUP",
    /// Names of a directory.
    Readdir "READDIR",
    /// Names of a directory, with objects and attributes.
    Readdirplus "READDIRPLUS",
    /// The size becomes `value`.
    SetSize "SETATTR size",
    /// The modification time becomes `value`.
    SetTime "SETATTR mtime",
    /// The mode becomes `value`.
    SetMode "SETATTR mode",
    /// A write that ends at `value`: the size becomes at least that.
    Write "WRITE",
    /// A file where no name was.
    CreateNew "CREATE GUARDED",
    /// A file, new or cut to nothing.
    CreateOver "CREATE UNCHECKED",
    /// A directory.
    Mkdir "MKDIR",
    /// A link whose text is `value`.
    Symlink "SYMLINK",
    /// Another name for `object`.
    Link "LINK",
    /// A name goes away.
    Remove "REMOVE",
    /// A directory goes away.
    Rmdir "RMDIR",
    /// `object`, where it is known, gets the name `to`.
    Rename "RENAME",
}

impl Kind {
    /// Whether it makes an object, whose handle the reply gives.
    fn makes(self) -> bool {
        [Self::CreateNew, Self::CreateOver, Self::Mkdir, Self::Symlink].contains(&self)
    }

    /// Whether it changes something.
    pub fn changes(self) -> bool {
        self >= Self::SetSize
    }
}

/// A name: a letter that says what it is for, and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// One of [`Name::LETTERS`].
    pub letter: u8,
    /// Which.
    pub number: u32,
}

impl Name {
    /// Letters by their number in a file: files that stay, contested files, directories and links, names of one client alone for
    /// new files and for hard links.
    pub const LETTERS: &'static [u8; 6] = b"fndsok";
    /// Of a file that is never removed: its links are counted.
    pub const STAYS: u8 = b'f';

    /// The name of these bytes, if it is one of ours.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (letter, digits) = text.split_first().filter(|(letter, _)| Self::LETTERS.contains(letter))?;
        let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
        Some(Self { letter: *letter, number })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", char::from(self.letter), self.number)
    }
}

/// A name in one of the run's directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The directory's number.
    pub dir: u32,
    /// The name; none in calls about the whole directory.
    pub name: Option<Name>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "d{}", self.dir)?;
        self.name.map_or(Ok(()), |name| write!(f, "/{name}"))
    }
}

/// Attributes that a reply showed, of whichever object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Whose.
    pub object: u64,
    /// ftype3's number.
    pub ftype: u32,
    /// Bytes.
    pub size: u64,
    /// Nanoseconds since 1970.
    pub mtime: u64,
    /// Nanoseconds since 1970.
    pub ctime: u64,
    /// Names.
    pub nlink: u32,
    /// Permission bits.
    pub mode: u32,
}

/// A call and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Who called.
    pub client: u32,
    /// Where, by number.
    pub target: u32,
    /// Nanoseconds of one monotonic clock: not later than the sending ..
    pub start: u64,
    /// .. and not earlier than the answer.
    pub end: u64,
    /// What.
    pub kind: Kind,
    /// The name that it is about.
    pub at: Option<Place>,
    /// Where a RENAME goes.
    pub to: Option<Place>,
    /// The object that it is about, where the call names one or the caller knows; else [`ABSENT`].
    pub object: u64,
    /// The object that loses a name by this, where the caller knows it; else [`ABSENT`].
    pub victim: u64,
    /// The version that it leaves.
    pub value: u64,
    /// nfsstat3, or [`SILENT`].
    pub status: u32,
    /// The object that LOOKUP found or that was made; else [`ABSENT`].
    pub found: u64,
    /// Bits of ACCESS, text of READLINK.
    pub result: u64,
    /// How often it was sent again.
    pub again: u32,
    /// Every attribute in the reply.
    pub seen: Vec<Attributes>,
    /// Of a listing: the names, with objects where they were told.
    pub names: Vec<(Name, u64)>,
    /// A listing that began at the start and reached the end.
    pub complete: bool,
}

impl Record {
    /// A call of this kind that saw nothing yet.
    pub fn new(kind: Kind) -> Self {
        Self {
            client: 0,
            target: 0,
            start: 0,
            end: 0,
            kind,
            at: None,
            to: None,
            object: ABSENT,
            victim: ABSENT,
            value: 0,
            status: SILENT,
            found: ABSENT,
            result: 0,
            again: 0,
            seen: Vec::new(),
            names: Vec::new(),
            complete: false,
        }
    }

    /// Whether nobody knows if and when it was executed: it was not answered, or with an error that does not say so.
    pub fn is_unknown(&self) -> bool {
        self.status != status::OK && !status::REFUSALS.contains(&self.status)
    }

    /// Whether it was sent again and done: if nobody knew the end of the first sending, it may be answered by what the names show.
    pub fn is_presumed(&self) -> bool {
        self.again > 0 && self.kind.changes() && self.status == status::OK
    }

    /// Servers make a name and then look it up: that nothing was found is no proof that nothing was made, in the time of the call.
    pub fn is_vanished(&self) -> bool {
        matches!(self.status, status::NOENT | status::STALE) && self.kind.makes()
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {} {}", self.client, self.kind.name())?;
        if let Some(at) = self.at {
            write!(f, " {at}")?;
        }
        if let Some(to) = self.to {
            write!(f, " to {to}")?;
        }
        if self.object != ABSENT {
            write!(f, " of {}", short(self.object))?;
        }
        if self.kind.changes() && self.value != 0 {
            write!(f, " = {}", self.value)?;
        }
        match self.status {
            status::OK if self.found != ABSENT => write!(f, " -> {}", short(self.found))?,
            status::OK => {}
            status::NOENT => f.write_str(" -> NOENT")?,
            status::EXIST => f.write_str(" -> EXIST")?,
            status::STALE => f.write_str(" -> STALE")?,
            SILENT => f.write_str(" (not answered)")?,
            other => write!(f, " -> status {other}")?,
        }
        if self.again > 0 {
            write!(f, " (sent {} times)", self.again + 1)?;
        }
        write!(f, " [{} .. {} us]", self.start / 1000, self.end / 1000)
    }
}

/// An object in words, as reports name it.
pub fn short(object: u64) -> String {
    format!("#{:06x}", object & 0xff_ffff)
}
