//! Directory listings: walked without copying ([`Entries`]), and built under the caller's size limits ([`Page`]).
//!
//! READDIR's `count` and READDIRPLUS's `maxcount` bound the XDR size of the whole `resok`; `dircount` bounds the directory
//! information alone: fileids, names and cookies (RFC 1813, 3.3.16 and 3.3.17).

use super::results::{ReaddirOk, ReaddirplusOk};
use crate::nfs3::types::{FileHandle, PostOpAttr, Verifier, post_op_attr, put_post_op_attr};
use crate::xdr::{Malformed, Reader, padded, put};
use alloc::vec::Vec;
use core::marker::PhantomData;

/// entry3: a name of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry<'a> {
    /// The object in its file system.
    pub fileid: u64,
    /// The name.
    pub name: &'a [u8],
    /// Where the listing goes on after it.
    pub cookie: u64,
}

impl<'a> Entry<'a> {
    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self { fileid: from.u64()?, name: from.opaque(usize::MAX)?, cookie: from.u64()? })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put::u64(out, self.fileid);
        put::opaque(out, self.name);
        put::u64(out, self.cookie);
    }

    /// Bytes of directory information: what `dircount` counts.
    pub const fn size(&self) -> usize {
        8 + 4 + padded(self.name.len()) + 8
    }
}

/// entryplus3: a name with what LOOKUP would have given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EntryPlus<'a> {
    /// The name.
    pub entry: Entry<'a>,
    /// The object.
    pub attributes: PostOpAttr,
    /// The object's handle.
    pub handle: Option<FileHandle<'a>>,
}

impl<'a> EntryPlus<'a> {
    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            entry: Entry::decode(from)?,
            attributes: post_op_attr(from)?,
            handle: from.option(FileHandle::decode)?,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.entry.encode(out);
        put_post_op_attr(out, self.attributes.as_ref());
        put::option(out, self.handle.as_ref(), |out, handle| handle.encode(out));
    }
}

impl<'a> ReaddirOk<'a> {
    /// The names, in order.
    pub const fn entries(&self) -> Entries<'a, Entry<'a>> {
        Entries { from: Reader::new(self.list), decode: Entry::decode, end: None, item: PhantomData }
    }
}

impl<'a> ReaddirplusOk<'a> {
    /// The names with their attributes and handles, in order.
    pub const fn entries(&self) -> Entries<'a, EntryPlus<'a>> {
        Entries { from: Reader::new(self.list), decode: EntryPlus::decode, end: None, item: PhantomData }
    }
}

/// Walks a listing; after the last entry, [`Entries::eof`] says whether the directory ended with it. A malformed entry is
/// given as an error once and ends the walk.
#[derive(Clone, Debug)]
pub struct Entries<'a, T> {
    from: Reader<'a>,
    decode: fn(&mut Reader<'a>) -> Result<T, Malformed>,
    end: Option<Result<bool, Malformed>>,
    item: PhantomData<T>,
}

impl<T> Entries<'_, T> {
    /// Known once the walk is over: whether the directory ended.
    pub const fn eof(&self) -> Option<bool> {
        match self.end {
            Some(Ok(eof)) => Some(eof),
            Some(Err(_)) | None => None,
        }
    }

    fn step(&mut self) -> Result<Option<T>, Malformed> {
        match self.from.bool()? {
            true => (self.decode)(&mut self.from).map(Some),
            false => {
                self.end = Some(Ok(self.from.bool()?));
                Ok(None)
            }
        }
    }
}

impl<T> Iterator for Entries<'_, T> {
    type Item = Result<T, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.end.is_some() {
            return None;
        }
        let step = self.step();
        if let Err(error) = step {
            self.end = Some(Err(error));
        }
        step.transpose()
    }
}

/// A dirlist3 in the making: takes entries while they fit.
#[derive(Debug)]
pub struct Page {
    list: Vec<u8>,
    entries: usize,
    dir_left: usize,
    left: usize,
    /// Not even a page without entries fits.
    cramped: bool,
}

impl Page {
    /// A page of READDIR; `count` is the client's.
    pub fn readdir(count: u32, dir_attributes: &PostOpAttr) -> Self {
        Self::new(u32::MAX, count, dir_attributes)
    }

    /// A page of READDIRPLUS; `dircount` and `maxcount` are the client's.
    pub fn readdirplus(dircount: u32, maxcount: u32, dir_attributes: &PostOpAttr) -> Self {
        Self::new(dircount, maxcount, dir_attributes)
    }

    fn new(dircount: u32, maxcount: u32, dir_attributes: &PostOpAttr) -> Self {
        let head = 4 + dir_attributes.map_or(0, |_| crate::nfs3::Fattr3::SIZE) + size_of::<Verifier>();
        let left = (maxcount as usize).checked_sub(head + END);
        Self {
            list: Vec::new(),
            entries: 0,
            dir_left: dircount as usize,
            left: left.unwrap_or(0),
            cramped: left.is_none(),
        }
    }

    /// Takes a name, or leaves it because it does not fit any more.
    #[must_use]
    pub fn push(&mut self, entry: &Entry<'_>) -> bool {
        self.fits(entry.size(), 4 + entry.size()) && {
            put::bool(&mut self.list, true);
            entry.encode(&mut self.list);
            true
        }
    }

    /// Takes a name with attributes and handle, or leaves it because it does not fit any more.
    #[must_use]
    pub fn push_plus(&mut self, plus: &EntryPlus<'_>) -> bool {
        let attributes = 4 + plus.attributes.map_or(0, |_| crate::nfs3::Fattr3::SIZE);
        let handle = 4 + plus.handle.map_or(0, |handle| 4 + padded(handle.bytes().len()));
        self.fits(plus.entry.size(), 4 + plus.entry.size() + attributes + handle) && {
            put::bool(&mut self.list, true);
            plus.encode(&mut self.list);
            true
        }
    }

    fn fits(&mut self, dir: usize, all: usize) -> bool {
        // A first entry larger than `dircount` is taken where `maxcount` has room for it: dircount is a hint, and a page
        // without any entry would not move the client on.
        let dir_fits = dir <= self.dir_left || self.entries == 0;
        let fits = dir_fits && all <= self.left;
        if fits {
            self.dir_left = self.dir_left.saturating_sub(dir);
            self.left -= all;
            self.entries += 1;
        }
        fits
    }

    /// Whether the answer is TOOSMALL instead: there is more, but nothing fits, so that a client would ask for ever; or not
    /// even a page without entries keeps to the client's limit.
    pub const fn too_small(&self, eof: bool) -> bool {
        self.cramped || self.entries == 0 && !eof
    }

    /// Entries so far. None at all, with the directory not at its end, is TOOSMALL.
    pub const fn entries(&self) -> usize {
        self.entries
    }

    /// The finished dirlist3.
    pub fn finish(mut self, eof: bool) -> Vec<u8> {
        put::bool(&mut self.list, false);
        put::bool(&mut self.list, eof);
        self.list
    }
}

/// The end of the list and eof.
const END: usize = 8;
