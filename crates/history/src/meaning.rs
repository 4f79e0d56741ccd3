//! The model: what a call means to which registers. `docs/consistency.md` says the same in words.

use crate::record::{ABSENT, Attributes, Kind, Name, Place, Record, short, status};
use crate::step::{Need, Step, Then, Value};
use std::fmt;

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// The object that a name leads to.
    Name(u32, Name),
    Size(u64),
    Mtime(u64),
    Mode(u64),
    /// How many names an object has; kept for files whose every name is accounted for.
    Links(u64),
    /// The text of a symbolic link.
    Text(u64),
}

/// Whether a change of a call that was done surely hit this register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sure {
    Yes,
    Perhaps,
}

/// Hands every register that a call touches, with what it means there, to `each`. Listings leave out the names that they do not
/// show: the checker knows which there are.
pub(crate) fn meaning(record: &Record, mut each: impl FnMut(Key, Step, Sure)) {
    if record.is_unknown() {
        if record.kind.changes() {
            effects(record, ABSENT, &mut each);
        }
        return;
    }
    if record.is_vanished() {
        return effects(record, ABSENT, &mut |key, step, _| each(key, step, Sure::Perhaps));
    }
    match record.status {
        status::OK if record.kind.changes() => effects(record, record.found, &mut each),
        status::OK => {}
        _ => refusal(record, &mut each),
    }
    observations(record, &mut each);
}

/// What a change leaves. `made` is what it made, where that is known.
fn effects(record: &Record, made: u64, each: &mut impl FnMut(Key, Step, Sure)) {
    let Record { object, victim, value, .. } = *record;
    let known = |object: u64| if object == ABSENT { Then::Forget(ABSENT) } else { Then::Set(object) };
    let taken = Step { need: Need::Not(ABSENT), then: Then::Set(ABSENT) };
    // Servers make a name, then look it up: what they found is another observation (below).
    let new = Step { need: Need::Is(ABSENT), then: Then::Forget(made) };
    match record.kind {
        Kind::SetSize => {
            each(Key::Size(object), Step::write(Then::Set(value)), Sure::Yes);
            each(Key::Mtime(object), Step::write(Then::Set(SERVER)), Sure::Yes);
        }
        Kind::SetTime => each(Key::Mtime(object), Step::write(Then::Set(value)), Sure::Yes),
        Kind::SetMode => each(Key::Mode(object), Step::write(Then::Set(value)), Sure::Yes),
        Kind::Write => {
            each(Key::Size(object), Step::write(Then::Max(value)), Sure::Yes);
            each(Key::Mtime(object), Step::write(Then::Set(SERVER)), Sure::Yes);
        }
        Kind::CreateNew => {
            name(record.at, new, each);
            if record.at.and_then(|at| at.name).is_some_and(|name| name.letter == Name::STAYS) {
                each(Key::Links(made), Step::write(Then::Set(1)), Sure::Yes);
            }
        }
        Kind::CreateOver => {
            name(record.at, Step::write(Then::Fill(made)), each);
            if made != ABSENT {
                // What was cut may not be what was found; a size of 0 is as if it were.
                let empty = record.seen.iter().any(|seen| seen.object == made && seen.size == 0);
                each(Key::Size(made), Step::write(Then::Set(0)), if empty { Sure::Yes } else { Sure::Perhaps });
                each(Key::Mtime(made), Step::write(Then::Set(SERVER)), if empty { Sure::Yes } else { Sure::Perhaps });
            }
        }
        Kind::Mkdir => name(record.at, new, each),
        Kind::Symlink => {
            name(record.at, new, each);
            if made != ABSENT {
                each(Key::Text(made), Step::write(Then::Set(value)), Sure::Yes);
            }
        }
        Kind::Link => {
            name(record.at, Step { need: Need::Is(ABSENT), then: known(object) }, each);
            each(Key::Links(object), Step::write(Then::Add(1)), Sure::Yes);
        }
        Kind::Remove | Kind::Rmdir => name(record.at, taken, each),
        Kind::Rename => {
            name(record.at, Step { need: if object == ABSENT { taken.need } else { Need::Is(object) }, ..taken }, each);
            name(record.to, Step::write(known(object)), each);
        }
        Kind::Getattr | Kind::Access | Kind::Readlink | Kind::Lookup | Kind::Readdir | Kind::Readdirplus => {}
    }
    if victim != ABSENT {
        each(Key::Links(victim), Step::write(Then::Add(-1)), Sure::Yes);
    }
}

/// What an answer says that refuses: the name was there, or was not.
fn refusal(record: &Record, each: &mut impl FnMut(Key, Step, Sure)) {
    match (record.kind, record.status) {
        (Kind::Lookup | Kind::Remove | Kind::Rmdir | Kind::Rename, status::NOENT) => {
            name(record.at, Step::read(Need::Is(ABSENT)), each);
        }
        (Kind::CreateNew | Kind::Mkdir | Kind::Symlink | Kind::Link, status::EXIST) => {
            name(record.at, Step::read(Need::Not(ABSENT)), each);
        }
        (_, status::STALE) if record.object != ABSENT => {
            each(Key::Links(record.object), Step::read(Need::Is(0)), Sure::Yes);
        }
        _ => {}
    }
}

/// What a reply shows, whatever else it is. Attributes in the reply to a change are looked at by the server after it: another
/// read in the time of the call.
fn observations(record: &Record, each: &mut impl FnMut(Key, Step, Sure)) {
    let is = |value: u64| Step::read(Need::Is(value));
    match (record.kind, record.status) {
        (Kind::Lookup | Kind::CreateNew | Kind::CreateOver | Kind::Mkdir | Kind::Symlink, status::OK)
            if record.found != ABSENT =>
        {
            name(record.at, is(record.found), each);
        }
        (Kind::Readlink, status::OK) => each(Key::Text(record.object), is(record.result), Sure::Yes),
        (Kind::Access, status::OK) => {
            let may = u64::from(record.result & MODIFY != 0) * OTHERS_WRITE;
            each(Key::Mode(record.object), Step::read(Need::Bits(OTHERS_WRITE, may)), Sure::Yes);
        }
        _ => {}
    }
    for Attributes { object, size, mtime, nlink, mode, .. } in record.seen.iter().filter(|seen| seen.ftype == REGULAR) {
        each(Key::Size(*object), is(*size), Sure::Yes);
        if !torn(*mtime) {
            each(Key::Mtime(*object), is(version(*mtime)), Sure::Yes);
        }
        each(Key::Mode(*object), is((*mode).into()), Sure::Yes);
        each(Key::Links(*object), is((*nlink).into()), Sure::Yes);
    }
    let Some(Place { dir, .. }) = record.at else { return };
    for (listed, object) in &record.names {
        let need = if *object == ABSENT { Need::Not(ABSENT) } else { Need::Is(*object) };
        each(Key::Name(dir, *listed), Step::read(need), Sure::Yes);
    }
}

/// Times that servers chose are all alike: they may set one more than once in a call, and ctime has their order.
fn version(mtime: u64) -> u64 {
    if VERSIONS.contains(&mtime) { mtime } else { SERVER }
}

/// Callers choose whole seconds. One with nanoseconds was read by the server's kernel while it changed, one half before the other.
fn torn(mtime: u64) -> bool {
    VERSIONS.contains(&mtime) && !mtime.is_multiple_of(1_000_000_000)
}

fn name(place: Option<Place>, step: Step, each: &mut impl FnMut(Key, Step, Sure)) {
    if let Some(Place { dir, name: Some(name) }) = place {
        each(Key::Name(dir, name), step, Sure::Yes);
    }
}

impl Key {
    /// What it holds before anyone wrote it: the run's directories are made empty.
    pub(crate) fn initial(self) -> Value {
        match self {
            Self::Name(..) => Value::Is(ABSENT),
            Self::Size(_) | Self::Mtime(_) | Self::Mode(_) | Self::Links(_) | Self::Text(_) => Value::Unknown,
        }
    }

    /// The object that it is an attribute of.
    pub(crate) fn object(self) -> Option<u64> {
        match self {
            Self::Name(..) => None,
            Self::Size(object)
            | Self::Mtime(object)
            | Self::Mode(object)
            | Self::Links(object)
            | Self::Text(object) => Some(object),
        }
    }

    /// A value of it in words.
    pub(crate) fn words(self, need: Need) -> String {
        let object = |value: u64| if value == ABSENT { "nothing".to_owned() } else { short(value) };
        match (self, need) {
            (Self::Name(..), Need::Is(value)) => format!("led to {}", object(value)),
            (Self::Name(..), Need::Not(_)) => "was there".to_owned(),
            (_, Need::Is(value)) => format!("was {value}"),
            (_, Need::Bits(mask, value)) => format!("had bits {value:o} of {mask:o}"),
            (_, Need::Any) => "could be changed".to_owned(),
            (_, Need::Not(value)) => format!("was not {value}"),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(dir, name) => write!(f, "name d{dir}/{name}"),
            Self::Size(object) => write!(f, "size of {}", short(*object)),
            Self::Mtime(object) => write!(f, "mtime of {}", short(*object)),
            Self::Mode(object) => write!(f, "mode of {}", short(*object)),
            Self::Links(object) => write!(f, "links of {}", short(*object)),
            Self::Text(object) => write!(f, "text of {}", short(*object)),
        }
    }
}

/// A modification time that the server chose.
const SERVER: u64 = 0;
/// Those that callers choose, in nanoseconds: 2001 to 2010.
const VERSIONS: std::ops::Range<u64> = 1_000_000_000_000_000_000..1_268_000_000_000_000_000;
/// ftype3 of files: of other objects only the times are compared.
const REGULAR: u32 = 1;
/// ACCESS3_MODIFY, and the bit of the mode that gives it to a stranger.
const MODIFY: u64 = 4;
const OTHERS_WRITE: u64 = 0o002;
