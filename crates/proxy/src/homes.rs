//! Where objects lie, for routing: the directory of each file that replies have shown.
//!
//! Where servers keep state of what they serve ([`Moves`]), calls on a file go where its directory's
//! calls go. A call by handle does not name the directory, so it is remembered. Of several names the
//! first that was learned counts; of a file with one name the last place where it was seen. An unknown
//! file's home is that of its handle. Who knows a file and who does not, another member or this one
//! before a restart, send its calls to two servers: that costs a move, as with every policy that moves
//! calls. A directory is its own place and not in the table.
//!
//! [`Moves`]: midas_core::route::moves::Moves

use crate::generations::Generations;
use crate::pool::lock;
use midas_core::key::Key;
use midas_nfs::nfs3::{FileHandle, Ftype3, PostOpAttr, Reply};
use std::sync::Mutex;

/// The directories of files, by the keys of their handles.
#[derive(Debug, Default)]
pub(crate) struct Homes {
    parts: [Mutex<Generations<Known>>; PARTS],
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    directory: Key,
    /// Whether it has other names: another directory that shows it changes nothing.
    several: bool,
}

/// An object that a reply shows in a directory.
#[derive(Clone, Copy, Debug)]
struct Shown<'a> {
    object: FileHandle<'a>,
    /// None: a directory or a file, nobody said.
    is_directory: Option<bool>,
    several: bool,
}

impl<'a> Shown<'a> {
    fn found(object: FileHandle<'a>, attributes: &PostOpAttr) -> Self {
        let is_directory = attributes.map(|of| of.ftype == Ftype3::Dir);
        Self { object, is_directory, several: attributes.is_some_and(|of| of.nlink > 1) }
    }
}

impl Homes {
    /// The directory that a file lies in.
    pub(crate) fn directory(&self, object: Key) -> Option<Key> {
        lock(self.part(object)).find(object).map(|known| known.directory)
    }

    /// Learns from a reply to a call on this directory, or on a name in it.
    pub(crate) fn learn_from(&self, directory: Key, name: Option<&[u8]>, reply: &Reply<'_>) {
        if matches!(name, Some(b"." | b"..")) {
            return;
        }
        match reply {
            Reply::Lookup(Ok(found)) => self.learn(directory, Shown::found(found.object, &found.attributes)),
            // What is not told is a file's: MKDIR alone makes directories.
            Reply::Create(Ok(made)) | Reply::Symlink(Ok(made)) | Reply::Mknod(Ok(made)) => {
                if let Some(object) = made.object {
                    let shown = Shown::found(object, &made.attributes);
                    self.learn(directory, Shown { is_directory: Some(shown.is_directory == Some(true)), ..shown });
                }
            }
            Reply::Readdirplus(Ok(page)) => {
                for plus in page.entries().flatten().filter(|plus| !matches!(plus.entry.name, b"." | b"..")) {
                    if let Some(object) = plus.handle {
                        self.learn(directory, Shown::found(object, &plus.attributes));
                    }
                }
            }
            _ => {}
        }
    }

    /// A call has made this file in a directory, or has found it there.
    pub(crate) fn made(&self, directory: Key, object: Key) {
        let several = lock(self.part(object)).find(object).is_some_and(|known| known.several);
        self.keep(object, Known { directory, several });
    }

    fn learn(&self, directory: Key, shown: Shown<'_>) {
        if shown.is_directory == Some(false) {
            self.keep(Key::of(shown.object.bytes()), Known { directory, several: shown.several });
        }
    }

    fn keep(&self, object: Key, known: Known) {
        let mut part = lock(self.part(object));
        match part.find(object) {
            Some(before) if before == known || known.several && before.directory != known.directory => {}
            Some(_) | None => part.insert(object, known),
        }
    }

    fn part(&self, object: Key) -> &Mutex<Generations<Known>> {
        &self.parts[(object.0 % PARTS as u64) as usize]
    }
}

/// Parts, each of which remembers some 8,000 to 16,000 files.
const PARTS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::attributes;
    use midas_nfs::nfs3::{CreateOk, Fattr3, LookupOk, WccData};

    fn found(handle: &[u8], ftype: Ftype3, nlink: u32) -> Reply<'_> {
        let attributes = Some(Fattr3 { nlink, ..attributes(ftype, 1) });
        let object = FileHandle::new(handle).unwrap();
        Reply::Lookup(Ok(LookupOk { object, attributes, dir_attributes: None }))
    }

    fn key(handle: &[u8]) -> Key {
        Key::of(handle)
    }

    #[test]
    fn a_file_lies_in_the_directory_that_showed_it_and_a_directory_is_its_own_place() {
        let homes = Homes::default();
        homes.learn_from(Key(1), Some(b"file"), &found(b"file", Ftype3::Reg, 1));
        homes.learn_from(Key(1), Some(b"dir"), &found(b"dir", Ftype3::Dir, 2));
        homes.learn_from(Key(1), Some(b".."), &found(b"other", Ftype3::Reg, 1));
        let nobody_said =
            LookupOk { object: FileHandle::new(b"unsaid").unwrap(), attributes: None, dir_attributes: None };
        homes.learn_from(Key(1), Some(b"unsaid"), &Reply::Lookup(Ok(nobody_said)));
        let known = [&b"file"[..], b"dir", b"other", b"unsaid"].map(|handle| homes.directory(key(handle)));
        assert_eq!(known, [Some(Key(1)), None, None, None]);
    }

    #[test]
    fn of_several_names_the_first_counts_and_a_file_that_was_renamed_is_where_it_was_seen_last() {
        let homes = Homes::default();
        for (directory, nlink, want) in [(1, 1, 1), (2, 1, 2), (3, 2, 2), (4, 2, 2), (4, 1, 4)] {
            homes.learn_from(Key(directory), Some(b"name"), &found(b"file", Ftype3::Reg, nlink));
            assert_eq!(homes.directory(key(b"file")), Some(Key(want)), "in {directory} with {nlink} names");
        }
    }

    #[test]
    fn what_is_made_lies_where_it_was_made_also_if_its_attributes_are_not_told() {
        let homes = Homes::default();
        let object = FileHandle::new(b"made");
        let made = CreateOk { object, attributes: None, dir: WccData::default() };
        homes.learn_from(Key(7), Some(b"made"), &Reply::Create(Ok(made)));
        homes.made(Key(8), key(b"other"));
        homes.learn_from(Key(2), Some(b"name"), &found(b"linked", Ftype3::Reg, 2));
        homes.made(Key(3), key(b"linked"));
        assert_eq!(homes.directory(key(b"linked")), Some(Key(2)), "an UNCHECKED CREATE may find another name of it");
        assert_eq!([homes.directory(key(b"made")), homes.directory(key(b"other"))], [Some(Key(7)), Some(Key(8))]);
    }
}
