//! The names that calls are about, and the handles that a server gave for them.
//!
//! A run's directory `midas-bench-<run>` holds directories `d0`, `d1`, ... with files `f0`, `f1`, ... and, where links are
//! read, one symbolic link `l` each. What calls make on the way has names that say who made them and never repeat in a run.

use midas_nfs::nfs3::FileHandle;
use std::fmt;

/// A handle by value: it fits where it is used, and no call follows a pointer for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle {
    length: u8,
    bytes: [u8; FileHandle::LONGEST],
}

impl Handle {
    pub(crate) const NONE: Self = Self { length: 0, bytes: [0; FileHandle::LONGEST] };

    pub(crate) fn borrow(&self) -> FileHandle<'_> {
        FileHandle::new(self.bytes()).expect("no longer than the longest")
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length.into()]
    }
}

impl From<FileHandle<'_>> for Handle {
    fn from(handle: FileHandle<'_>) -> Self {
        let mut bytes = [0; FileHandle::LONGEST];
        bytes[..handle.bytes().len()].copy_from_slice(handle.bytes());
        Self { length: handle.bytes().len() as u8, bytes }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// How many names there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Directories.
    pub directories: u32,
    /// Files in each.
    pub files: u32,
}

impl Shape {
    /// Names in all.
    pub(crate) fn names(self) -> usize {
        self.directories as usize * self.files as usize
    }
}

/// One server's handles for the names of a run.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) shape: Shape,
    /// The run's directory.
    pub(crate) root: Handle,
    pub(crate) directories: Vec<Handle>,
    /// Directory by directory.
    pub(crate) files: Vec<Handle>,
    /// One a directory, where links are read; else empty.
    pub(crate) links: Vec<Handle>,
}

impl Tree {
    pub(crate) fn new(shape: Shape, root: Handle) -> Self {
        Self { shape, root, directories: Vec::new(), files: Vec::new(), links: Vec::new() }
    }

    pub(crate) fn directory(&self, directory: u32) -> Handle {
        self.directories[directory as usize % self.directories.len()]
    }

    /// The handle of a file; names that were not there from the start share those of the ones that were.
    pub(crate) fn file(&self, directory: u32, file: u32) -> Handle {
        self.files[self.place(directory, file)]
    }

    /// A name leads to another object now.
    pub(crate) fn learn(&mut self, directory: u32, file: u32, handle: Handle) {
        if file < self.shape.files {
            let place = self.place(directory, file);
            self.files[place] = handle;
        }
    }

    pub(crate) fn link(&self, directory: u32) -> Handle {
        self.links.get(directory as usize % self.directories.len()).copied().unwrap_or(Handle::NONE)
    }

    fn place(&self, directory: u32, file: u32) -> usize {
        let directory = directory as usize % self.directories.len();
        directory * self.shape.files as usize + file as usize % self.shape.files as usize
    }
}

/// A name inside a directory of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// No name: the call is about an object.
    None,
    /// A file that is there from the start, or would be if there were so many.
    File(u32),
    /// The symbolic link.
    Link,
    /// Made on the way: `letter` tells directories (`d`) from all else.
    Made { letter: u8, slice: u32, maker: u32, count: u32 },
}

impl Name {
    pub(crate) fn text(self) -> Text {
        let mut text = Text { length: 0, bytes: [0; LONGEST] };
        match self {
            Self::None => {}
            Self::File(number) => {
                text.push(b'f');
                text.number(number);
            }
            Self::Link => text.push(b'l'),
            Self::Made { letter, slice, maker, count } => {
                text.push(letter);
                for (position, number) in [slice, maker, count].into_iter().enumerate() {
                    if position > 0 {
                        text.push(b'-');
                    }
                    text.number(number);
                }
            }
        }
        text
    }

    /// Whether these bytes are a name that was made on the way.
    pub(crate) fn is_made(name: &[u8]) -> bool {
        name.contains(&b'-')
    }

    /// The run's own directories.
    pub(crate) fn directory(number: u32) -> Text {
        let mut text = Text { length: 0, bytes: [0; LONGEST] };
        text.push(DIRECTORY);
        text.number(number);
        text
    }
}

/// A short name without an allocation.
#[derive(Clone, Copy)]
pub(crate) struct Text {
    length: u8,
    bytes: [u8; LONGEST],
}

impl Text {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length.into()]
    }

    fn push(&mut self, byte: u8) {
        self.bytes[usize::from(self.length)] = byte;
        self.length += 1;
    }

    fn number(&mut self, number: u32) {
        if number >= 10 {
            self.number(number / 10);
        }
        self.push(b'0' + (number % 10) as u8);
    }
}

/// First letter of every directory's name.
pub(crate) const DIRECTORY: u8 = b'd';
/// A letter, three numbers of ten digits, two hyphens.
const LONGEST: usize = 33;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_they_are() {
        let most = Name::Made { letter: b'c', slice: u32::MAX, maker: u32::MAX, count: u32::MAX };
        let cases = [
            (Name::File(0).text(), "f0"),
            (Name::File(1203).text(), "f1203"),
            (Name::Link.text(), "l"),
            (Name::directory(10), "d10"),
            (most.text(), "c4294967295-4294967295-4294967295"),
        ];
        for (text, want) in cases {
            assert_eq!(text.bytes(), want.as_bytes());
            assert_eq!(Name::is_made(text.bytes()), want.starts_with('c'));
        }
    }

    #[test]
    fn a_learned_handle_is_used_from_then_on_and_an_unknown_name_teaches_nothing() {
        let handle = |byte: u8| Handle::from(FileHandle::new(&[byte]).unwrap());
        let mut tree = Tree::new(Shape { directories: 2, files: 2 }, handle(9));
        tree.directories = vec![handle(1), handle(2)];
        tree.files = vec![handle(10), handle(11), handle(12), handle(13)];
        tree.learn(1, 0, handle(99));
        tree.learn(0, 2, handle(98));
        assert_eq!((tree.file(1, 0), tree.file(0, 0), tree.file(0, 3)), (handle(99), handle(10), handle(11)));
    }
}
