//! What is held, by kind and by where it lies. An entry knows its object and not its path: names that are held lead there from the export's
//! root. What no such name leads to is elsewhere. Parts are read one after the other, so the whole is of no one moment.

use super::label::{Kind, kind, part};
use super::{Cached, KEY, lock};
use midas_core::key::Key;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Entries, and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

/// What is held.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// By kind, in the order of [`Kind::ALL`].
    pub(crate) kinds: [Amount; Kind::ALL.len()],
    /// By the names in the root, the largest first; the root itself has none.
    pub(crate) subtrees: Vec<(Vec<u8>, Amount)>,
    /// What no name that is held leads to, or that lies further than the walk goes.
    pub(crate) elsewhere: Amount,
}

impl Amount {
    fn add(&mut self, bytes: usize) {
        self.entries += 1;
        self.bytes += bytes as u64;
    }
}

impl Cached {
    /// What is held of an export with this root. Takes every part's lock for as long as its entries take to read, twice.
    pub(crate) fn held(&self, root: Option<&[u8]>) -> Held {
        let mut held = Held::default();
        let places = root.map(|root| Places::walk(Key::of(root), self.names())).unwrap_or_default();
        let mut subtrees = vec![Amount::default(); places.names.len()];
        for part in &self.parts {
            let mut entries = Vec::new();
            lock(part)
                .cache
                .for_each(|_, value, _, cost| entries.extend(kind(value).map(|it| (it, object(value), KEY + cost))));
            for (kind, object, cost) in entries {
                held.kinds[kind as usize].add(cost);
                let place = object.and_then(|object| places.of.get(&object));
                place.map_or(&mut held.elsewhere, |place| &mut subtrees[*place]).add(cost);
            }
        }
        held.subtrees = places.names.into_iter().zip(subtrees).filter(|(_, amount)| amount.entries > 0).collect();
        held.subtrees.sort_by_key(|(_, amount)| std::cmp::Reverse(amount.bytes));
        held
    }

    /// Every name that is held, up to a bound.
    fn names(&self) -> Names {
        let (mut names, mut count) = (Names::new(), 0);
        for part in &self.parts {
            lock(part).cache.for_each(|_, value, _, _| {
                if let Some((dir, name, leads)) = named(value).filter(|_| count < STEPS_MOST) {
                    names.entry(Key::of(dir)).or_default().push((name.into(), Key::of(leads)));
                    count += 1;
                }
            });
        }
        names
    }
}

/// The names of directories, and what they lead to.
type Names = HashMap<Key, Vec<(Box<[u8]>, Key)>>;

/// Where objects lie.
#[derive(Default)]
struct Places {
    /// The root itself, and the names in it.
    names: Vec<Vec<u8>>,
    /// The place of an object in `names`.
    of: HashMap<Key, usize>,
}

impl Places {
    /// Follows names down from the root; an object with several names lies where it is found first.
    fn walk(root: Key, mut names: Names) -> Self {
        let mut first = names.remove(&root).unwrap_or_default();
        first.sort_unstable();
        let mut places = Self { names: vec![Vec::new()], of: HashMap::from([(root, 0)]) };
        for (name, object) in first {
            let place = places.names.len();
            places.names.push(name.into());
            let mut ahead = vec![object];
            while let Some(object) = ahead.pop() {
                if let Entry::Vacant(unseen) = places.of.entry(object) {
                    unseen.insert(place);
                    ahead.extend(names.remove(&object).into_iter().flatten().map(|(_, leads)| leads));
                }
            }
        }
        places
    }
}

/// The handle that a value is about: its object, or the directory of its name.
fn object(value: &[u8]) -> Option<Key> {
    let (first, _) = part(value.get(1..)?)?;
    let handle = match kind(value)? {
        // The arguments of the call, which begin with the directory.
        Kind::Page => {
            let (length, rest) = first.split_first_chunk::<4>()?;
            rest.get(..u32::from_be_bytes(*length) as usize)?
        }
        Kind::Attributes
        | Kind::Name
        | Kind::Absent
        | Kind::Search
        | Kind::Children
        | Kind::Access
        | Kind::Link
        | Kind::Limits => first,
    };
    Some(Key::of(handle))
}

/// Directory, name, and what it leads to.
fn named(value: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let rest = value.strip_prefix(&[Kind::Name as u8])?;
    let (dir, rest) = part(rest)?;
    let (name, rest) = part(rest)?;
    // Behind the number since when it is known.
    Some((dir, name, rest.get(8..)?))
}

/// Names that are followed, at most.
const STEPS_MOST: usize = 1 << 20;
