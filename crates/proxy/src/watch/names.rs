//! Where objects lie, as the replies that passed have shown: for people who read, and for counting calls on files by directory.
//!
//! A guess, never a ground for decisions: a name is what it was when it was last looked up, and what was not looked up for long is
//! forgotten. `cached::places` knows of subtrees alone, and nothing where there are none. An event loop waits for nobody here: what it cannot
//! learn at once it learns another time.

use super::at_once;
use crate::pool::lock;
use midas_core::key::Key;
use midas_nfs::nfs3::{Fattr3, FileHandle, Ftype3, Reply};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// What is known of names: at most [`NAMES_MAX`], each of 255 bytes at most.
#[derive(Debug)]
pub(crate) struct Names {
    parts: [Mutex<Part>; PARTS],
    /// The exports' roots, by their paths.
    roots: RwLock<HashMap<Key, String>>,
}

/// Sets of [`WAYS`] places; what finds its set full takes the place that was not used for longest, a file's before a directory's.
#[derive(Debug, Default)]
struct Part {
    /// Empty until something is learned.
    known: Vec<Option<Known>>,
    clock: u32,
}

#[derive(Debug)]
struct Known {
    object: Key,
    parent: Key,
    /// Of what was mounted below an export's root, the whole path.
    name: Name,
    directory: Option<bool>,
    used: u32,
}

/// The bytes of a name. Short ones, which most are, need no memory of their own.
#[derive(Debug)]
enum Name {
    Short { length: u8, bytes: [u8; SHORT_MAX] },
    Long(Box<[u8]>),
}

/// Somebody else looks at the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Busy;

impl Default for Names {
    fn default() -> Self {
        Self { parts: std::array::from_fn(|_| Mutex::default()), roots: RwLock::default() }
    }
}

impl Names {
    /// Learns from what a call on a name, or a page of this directory, was answered.
    pub(crate) fn learn_from(&self, dir: Key, name: Option<&[u8]>, reply: &Reply<'_>) {
        match reply {
            Reply::Lookup(Ok(found)) => self.named(dir, name, Some(found.object), found.attributes.as_ref()),
            Reply::Create(Ok(made)) | Reply::Mkdir(Ok(made)) | Reply::Symlink(Ok(made)) | Reply::Mknod(Ok(made)) => {
                self.named(dir, name, made.object, made.attributes.as_ref());
            }
            Reply::Readdirplus(Ok(page)) => {
                let is_directory = |seen: &Fattr3| seen.ftype == Ftype3::Dir;
                let entries = page.entries().flatten().filter(|plus| leads_on(plus.entry.name)).take(LOOKED_AT);
                let below = entries.filter(|plus| plus.attributes.as_ref().is_some_and(is_directory));
                for plus in below.take(LEARNED) {
                    self.named(dir, Some(plus.entry.name), plus.handle, plus.attributes.as_ref());
                }
            }
            _ => {}
        }
    }

    fn named(&self, dir: Key, name: Option<&[u8]>, object: Option<FileHandle<'_>>, seen: Option<&Fattr3>) {
        if let (Some(name), Some(object)) = (name, object) {
            self.learn(Key::of(object.bytes()), (dir, name), seen.map(|seen| seen.ftype == Ftype3::Dir));
        }
    }

    /// This name of this directory leads to the object.
    pub(crate) fn learn(&self, object: Key, (parent, name): (Key, &[u8]), directory: Option<bool>) {
        if !leads_on(name) || object == parent || name.len() > NAME_MOST {
            return;
        }
        if let Some(mut part) = at_once(self.part(object)) {
            part.keep(object, (parent, name), directory);
        }
    }

    /// An export's root.
    pub(crate) fn learn_root(&self, root: Key, path: &str) {
        let mut roots = self.roots.write().unwrap_or_else(PoisonError::into_inner);
        if roots.len() < ROOTS_MAX {
            roots.entry(root).or_insert_with(|| path.to_owned());
        }
    }

    /// A directory that was mounted by its path. Waits: not for an event loop.
    pub(crate) fn learn_path(&self, object: Key, path: &[u8]) {
        if path.len() <= PATH_MOST {
            lock(self.part(object)).keep(object, (MOUNTED, path), Some(true));
        }
    }

    /// The directory that something lies in which is not known to be one itself.
    pub(super) fn directory_of(&self, object: Key) -> Result<Option<Key>, Busy> {
        let mut part = at_once(self.part(object)).ok_or(Busy)?;
        Ok(part.find(object).filter(|known| known.directory != Some(true)).map(|known| known.parent))
    }

    /// The path of an object, where the whole way to it is known. Without control characters. Waits: not for an event loop.
    pub(crate) fn path_of(&self, object: Key) -> Option<String> {
        let roots = self.roots.read().unwrap_or_else(PoisonError::into_inner);
        path(object, &roots, |at| Some(lock(self.part(at))))
    }

    /// The same, or none if somebody else looks at the same names.
    pub(super) fn path_at_once(&self, object: Key) -> Option<String> {
        let roots = self.roots.try_read().ok()?;
        path(object, &roots, |at| at_once(self.part(at)))
    }

    fn part(&self, object: Key) -> &Mutex<Part> {
        &self.parts[(object.0 % PARTS as u64) as usize]
    }
}

impl Name {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Short { length, bytes } => &bytes[..usize::from(*length)],
            Self::Long(bytes) => bytes,
        }
    }
}

impl From<&[u8]> for Name {
    fn from(name: &[u8]) -> Self {
        let mut bytes = [0; SHORT_MAX];
        match bytes.get_mut(..name.len()) {
            Some(start) => {
                start.copy_from_slice(name);
                Self::Short { length: name.len() as u8, bytes }
            }
            None => Self::Long(name.into()),
        }
    }
}

impl Part {
    fn keep(&mut self, object: Key, (parent, name): (Key, &[u8]), directory: Option<bool>) {
        let used = self.tick();
        let set = self.set(object);
        if let Some(known) = set.iter_mut().flatten().find(|known| known.object == object) {
            if known.parent != parent || known.name.bytes() != name {
                (known.parent, known.name) = (parent, name.into());
            }
            (known.directory, known.used) = (directory.or(known.directory), used);
            return;
        }
        // The age, for the clock begins anew some day; a directory counts as younger than any file. An empty place is
        // older than all.
        let youth = |known: &Known| {
            let directory = u64::from(known.directory == Some(true));
            1 + (directory << u32::BITS | u64::from(!used.wrapping_sub(known.used)))
        };
        let worth = |place: &Option<Known>| place.as_ref().map_or(0, youth);
        if let Some(place) = set.iter_mut().min_by_key(|place| worth(place)) {
            *place = Some(Known { object, parent, name: name.into(), directory, used });
        }
    }

    fn find(&mut self, object: Key) -> Option<&Known> {
        if self.known.is_empty() {
            return None;
        }
        let used = self.tick();
        let known = self.set(object).iter_mut().flatten().find(|known| known.object == object)?;
        known.used = used;
        Some(known)
    }

    fn set(&mut self, object: Key) -> &mut [Option<Known>] {
        if self.known.is_empty() {
            self.known.resize_with(PART, || None);
        }
        let set = (object.0 / PARTS as u64) as usize % (PART / WAYS);
        &mut self.known[set * WAYS..][..WAYS]
    }

    fn tick(&mut self) -> u32 {
        self.clock = self.clock.wrapping_add(1);
        self.clock
    }
}

fn path<'s>(
    object: Key,
    roots: &HashMap<Key, String>,
    part: impl Fn(Key) -> Option<MutexGuard<'s, Part>>,
) -> Option<String> {
    let (mut at, mut names, mut length) = (object, Vec::new(), 0);
    let root = loop {
        if let Some(root) = roots.get(&at) {
            break root.clone();
        }
        let (parent, name) = part(at)?.find(at).map(|known| (known.parent, printable(known.name.bytes())))?;
        length += name.len();
        if names.len() >= DEPTH_MOST || length > PATH_MOST {
            return None;
        }
        if parent == MOUNTED {
            break name;
        }
        names.push(name);
        at = parent;
    };
    let mut path = root.trim_end_matches('/').to_owned();
    for name in names.iter().rev() {
        path.extend(["/", name]);
    }
    Some(if path.is_empty() { "/".to_owned() } else { path })
}

/// Whether a name leads to something below: these lead to the directory itself and out of it.
fn leads_on(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..")
}

/// A name as people may see it: whatever could move a cursor or pretend to be another line is spelled out.
pub(crate) fn printable(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for letter in String::from_utf8_lossy(name).chars() {
        match letter.is_control()
            || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            true => text.extend(letter.escape_default()),
            false => text.push(letter),
        }
    }
    text
}

/// Names that are known, in all.
const NAMES_MAX: usize = 65_536;
const PARTS: usize = 16;
const PART: usize = NAMES_MAX / PARTS;
const WAYS: usize = 8;
/// The parent of what was mounted by its whole path; no handle's key but by chance.
const MOUNTED: Key = Key(0);
const ROOTS_MAX: usize = 4096;
/// Bytes of a name that is short.
const SHORT_MAX: usize = 22;
/// Bytes of a name.
const NAME_MOST: usize = 255;
/// How far up a path is followed, and how long it may become: a circle in what was learned ends there.
const DEPTH_MOST: usize = 64;
const PATH_MOST: usize = 4096;
/// Of a page so many entries are looked at, and so many directories learned: a listing teaches enough by its first names.
const LOOKED_AT: usize = 256;
const LEARNED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::attributes;
    use midas_core::rng::mix;
    use midas_nfs::nfs3::{Entry, EntryPlus, Page, ReaddirplusOk};

    fn key(name: &str) -> Key {
        Key::of(name.as_bytes())
    }

    fn walked() -> Names {
        let names = Names::default();
        names.learn_root(key("root"), "/scratch");
        for (object, parent, name) in
            [("a", "root", "alpha"), ("b", "a", "be\nta"), ("f", "b", "file"), ("g", "x", "g")]
        {
            names.learn(key(object), (key(parent), name.as_bytes()), Some(object != "f"));
        }
        names.learn_path(key("m"), b"/scratch/deep/mounted");
        names.learn(key("n"), (key("m"), b"n"), None);
        names
    }

    #[test]
    fn paths_are_put_together_from_the_root_down_where_all_of_the_way_is_known() {
        let names = walked();
        let cases = [
            ("root", Some("/scratch")),
            ("a", Some("/scratch/alpha")),
            ("f", Some("/scratch/alpha/be\\nta/file")),
            ("n", Some("/scratch/deep/mounted/n")),
            ("g", None),
            ("never seen", None),
        ];
        for (object, path) in cases {
            assert_eq!(names.path_of(key(object)).as_deref(), path, "{object}");
        }
        names.learn(key("b"), (key("root"), b"moved"), None);
        assert_eq!(names.path_of(key("f")).as_deref(), Some("/scratch/moved/file"), "where it was last seen");
        let top = Names::default();
        top.learn_root(key("root"), "/");
        top.learn(key("a"), (key("root"), b"a"), None);
        assert_eq!((top.path_of(key("root")), top.path_of(key("a"))), (Some("/".to_owned()), Some("/a".to_owned())));
    }

    #[test]
    fn what_is_no_directory_lies_in_one() {
        let names = walked();
        let cases = [("f", Some("b")), ("n", Some("m")), ("b", None), ("root", None), ("never seen", None)];
        for (object, parent) in cases {
            assert_eq!(names.directory_of(key(object)), Ok(parent.map(key)), "{object}");
        }
    }

    #[test]
    fn an_event_loop_waits_for_nobody_who_looks_at_the_same_names() {
        let names = walked();
        let looks = lock(names.part(key("f")));
        assert_eq!((names.directory_of(key("f")), names.path_at_once(key("f"))), (Err(Busy), None));
        names.learn(key("f"), (key("a"), b"moved"), None);
        drop(looks);
        let path = Some("/scratch/alpha/be\\nta/file".to_owned());
        assert_eq!((names.path_at_once(key("f")), names.path_of(key("f"))), (path.clone(), path));
    }

    #[test]
    fn a_listing_teaches_as_many_directories_as_it_may_besides_itself_and_its_parent() {
        let directory = attributes(Ftype3::Dir, 1);
        let below = (0..=LEARNED).map(|number| format!("d{number}"));
        let listed: Vec<String> = [".", ".."].map(str::to_owned).into_iter().chain(below).collect();
        let mut page = Page::readdirplus(u32::MAX, u32::MAX, &None);
        for name in &listed {
            let (handle, name) = (FileHandle::new(name.as_bytes()), name.as_bytes());
            let entry = Entry { fileid: 1, name, cookie: 1 };
            assert!(page.push_plus(&EntryPlus { entry, attributes: Some(directory), handle }));
        }
        let list = page.finish(true);
        let page = ReaddirplusOk { dir_attributes: None, cookieverf: [0; 8], list: &list };
        let names = walked();
        names.learn_from(key("a"), None, &Reply::Readdirplus(Ok(page)));
        let learned = listed.iter().filter(|name| names.path_of(key(name)).is_some());
        assert!(learned.eq(&listed[2..2 + LEARNED]), "the first of those that lie below");
    }

    #[test]
    fn a_circle_and_a_way_without_end_have_no_path() {
        let names = walked();
        names.learn(key("a"), (key("b"), b"circle"), None);
        assert_eq!(names.path_of(key("f")), None);
        let mut above = key("root");
        for depth in 1..200_u64 {
            names.learn(Key(mix(depth)), (above, b"deeper"), Some(true));
            above = Key(mix(depth));
        }
        assert_eq!(names.path_of(Key(mix(199))), None);
        assert!(names.path_of(Key(mix(60))).is_some());
    }

    #[test]
    fn names_that_lead_nowhere_new_teach_nothing() {
        let names = walked();
        for name in [&b"."[..], b"..", b"", &[b'x'; 256]] {
            names.learn(key("new"), (key("a"), name), Some(true));
        }
        assert_eq!(names.path_of(key("new")), None);
    }

    #[test]
    fn names_of_every_length_are_kept_whole_also_where_they_begin_alike_and_change() {
        let names = walked();
        let mounted = format!("/{}", "deep/".repeat(100));
        names.learn_path(key("far"), mounted.as_bytes());
        assert_eq!(names.path_of(key("far")).as_deref(), Some(mounted.trim_end_matches('/')));
        let long = "x".repeat(NAME_MOST);
        let lengths = [1, SHORT_MAX - 1, SHORT_MAX, SHORT_MAX + 1, NAME_MOST, SHORT_MAX, SHORT_MAX + 1];
        for length in lengths {
            for (object, last) in [("one", 'a'), ("other", 'b')] {
                let name = format!("{}{last}", &long[1..length]);
                names.learn(key(object), (key("a"), name.as_bytes()), Some(true));
            }
            for (object, last) in [("one", 'a'), ("other", 'b')] {
                let path = format!("/scratch/alpha/{}{last}", &long[1..length]);
                assert_eq!(names.path_of(key(object)), Some(path), "{length}");
            }
        }
    }

    #[test]
    fn files_that_pass_do_not_displace_directories_and_the_number_is_bounded() {
        let names = walked();
        for number in 0..10 * NAMES_MAX as u64 {
            names.learn(Key(mix(number)), (key("a"), b"file"), Some(false));
        }
        assert_eq!(names.path_of(key("b")).as_deref(), Some("/scratch/alpha/be\\nta"));
        let known = |part: &Mutex<Part>| lock(part).known.iter().flatten().count();
        assert_eq!(names.parts.iter().map(known).sum::<usize>(), NAMES_MAX);
        for number in 0..10 * NAMES_MAX as u64 {
            names.learn(Key(mix(number + (1 << 40))), (key("a"), b"dir"), Some(true));
        }
        assert_eq!(names.parts.iter().map(known).sum::<usize>(), NAMES_MAX);
        assert_eq!(names.path_of(key("b")), None, "the oldest of directories goes when there is nothing else");
    }

    #[test]
    fn the_oldest_goes_first_though_the_clock_begins_anew() {
        let names = Names::default();
        let object = |number: usize| Key((number * NAMES_MAX) as u64);
        lock(names.part(object(0))).clock = u32::MAX - WAYS as u32 / 2;
        for number in 1..=WAYS + 3 {
            names.learn(object(number), (key("a"), b"dir"), Some(true));
        }
        let part = lock(names.part(object(0)));
        let mut known: Vec<Key> = part.known.iter().flatten().map(|known| known.object).collect();
        known.sort_unstable();
        assert_eq!(known, (4..=WAYS + 3).map(object).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_that_is_printed_moves_a_cursor() {
        let cases: [(&[u8], &str); 4] = [
            (b"plain name", "plain name"),
            (b"a\x1b[2Jb\r\n\t", "a\\u{1b}[2Jb\\r\\n\\t"),
            ("\u{202e}gpj.exe".as_bytes(), "\\u{202e}gpj.exe"),
            (b"\xff\xfe", "\u{fffd}\u{fffd}"),
        ];
        for (name, want) in cases {
            assert_eq!(printable(name), want);
        }
    }
}
