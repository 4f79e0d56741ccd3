//! A namespace in memory: inodes in a slab, handles that name a slot and its generation.
//!
//! GETATTR, LOOKUP and ACCESS allocate nothing. Nothing survives the process, and handles of an earlier one are stale, but
//! for the root's. An object whose last name goes is gone at once: there is no open file in NFSv3.

mod data;
mod inode;
mod names;
mod slab;
mod unstable;

use crate::handle::Handle;
use crate::store::{Bounds, Kind, New, Object, Outcome, Place, Room, Store, Write};
use inode::{Body, Inode};
use midas_nfs::nfs3::{Entry, Fattr3, FileHandle, Ftype3, Nfsstat3, Nfstime3, Sattr3, SetTime, StableHow};
use names::{DOT_COOKIE, DOT_DOT_COOKIE, Names};
use slab::Slab;
use std::ops::Range;
use unstable::Unstable;

/// How large a namespace in memory may become; past it is NOSPC, or MLINK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of data and of symbolic links.
    pub bytes: u64,
    /// Names, and with them objects.
    pub names: u64,
    /// Hard links of one object; a directory has one for each directory in it.
    pub links: u32,
}

impl Default for Limits {
    /// One gibibyte, sixteen million names.
    fn default() -> Self {
        Self { bytes: 1 << 30, names: 1 << 24, links: i32::MAX as u32 }
    }
}

/// The namespace; its lock is the owner's.
pub(crate) struct Tree {
    slab: Slab,
    limits: Limits,
    names: u64,
    bytes: u64,
    fileid: u64,
    generation: u32,
    unstable: Unstable,
}

impl Tree {
    pub(crate) fn new(limits: Limits) -> Self {
        let mut slab = Slab::default();
        let new = New { kind: Kind::Dir, mode: 0o755, uid: 0, gid: 0 };
        slab.insert(Inode::new(&new, ROOT_FILEID, ROOT_GENERATION, ROOT));
        // Starts at the clock, so that a handle of an earlier process is stale and not another object.
        let Nfstime3 { seconds, nseconds } = inode::now();
        let generation = seconds.rotate_left(16) ^ nseconds;
        Self { slab, limits, names: 0, bytes: 0, fileid: ROOT_FILEID, generation, unstable: Unstable::default() }
    }

    /// What this server had in its memory only becomes zeros.
    pub(crate) fn crash(&mut self, server: u16) {
        for (file, range) in self.unstable.crash(server) {
            if let Some(Inode { body: Body::File(data), .. }) = self.slab.get_mut(file) {
                data.zero(range);
            }
        }
    }

    /// Moves a file's atime; one that is gone has none.
    pub(crate) fn accessed(&mut self, file: FileHandle<'_>, salt: u32) {
        if let Ok(inode) = self.resolve(file, salt).and_then(|file| self.inode_mut(file.node)) {
            inode.read();
        }
    }

    fn inode(&self, index: u32) -> Outcome<&Inode> {
        self.slab.get(index).ok_or(Nfsstat3::STALE)
    }

    fn inode_mut(&mut self, index: u32) -> Outcome<&mut Inode> {
        self.slab.get_mut(index).ok_or(Nfsstat3::STALE)
    }

    fn object(&self, index: u32) -> Outcome<Object<u32>> {
        self.inode(index).map(|inode| Object { node: index, attributes: inode.attributes })
    }

    fn names(&self, dir: u32) -> Outcome<&Names> {
        match &self.inode(dir)?.body {
            Body::Dir(names) => Ok(names),
            Body::File(_) | Body::Symlink(_) | Body::Special => Err(Nfsstat3::NOTDIR),
        }
    }

    /// Changes a directory's names, and its times with them. `links` is how many directories it has more.
    fn rewrite<T>(&mut self, dir: u32, links: i32, change: impl FnOnce(&mut Names) -> T) -> Outcome<T> {
        let inode = self.inode_mut(dir)?;
        let Body::Dir(names) = &mut inode.body else { return Err(Nfsstat3::NOTDIR) };
        let done = change(names);
        inode.attributes.nlink = inode.attributes.nlink.saturating_add_signed(links);
        inode.touch_contents();
        Ok(done)
    }

    fn is_dir(&self, index: u32) -> Outcome<bool> {
        self.inode(index).map(|inode| inode.attributes.ftype == Ftype3::Dir)
    }

    /// One name less leads to an object; a directory has but one.
    fn drop_link(&mut self, index: u32) -> Outcome<()> {
        let inode = self.inode_mut(index)?;
        let last = inode.attributes.ftype == Ftype3::Dir || inode.attributes.nlink <= 1;
        if !last {
            inode.attributes.nlink -= 1;
            inode.touch();
            return Ok(());
        }
        let gone = self.slab.remove(index).ok_or(Nfsstat3::STALE)?;
        self.bytes -= gone.attributes.used;
        self.unstable.forget(index);
        Ok(())
    }

    fn take_bytes(&mut self, bytes: u64) -> Outcome<()> {
        let taken = self.bytes.saturating_add(bytes);
        if taken > self.limits.bytes {
            return Err(Nfsstat3::NOSPC);
        }
        self.bytes = taken;
        Ok(())
    }

    /// Room for one name more, and for one link more of a directory that gets a directory.
    fn may_grow(&self, dir: u32, by_dir: bool) -> Outcome<()> {
        match () {
            () if by_dir && self.inode(dir)?.attributes.nlink >= self.limits.links => Err(Nfsstat3::MLINK),
            () if self.names >= self.limits.names => Err(Nfsstat3::NOSPC),
            () => Ok(()),
        }
    }

    /// Whether `dir` is `ancestor` or lies in it.
    fn lies_in(&self, dir: u32, ancestor: u32) -> Outcome<bool> {
        let mut at = dir;
        while at != ancestor && at != ROOT {
            at = self.names(at)?.parent;
        }
        Ok(at == ancestor)
    }

    /// What a rename may not do, whoever asks for it.
    fn may_rename(&self, moved: u32, replaced: Option<u32>, from: u32, to: u32) -> Outcome<()> {
        let is_dir = self.is_dir(moved)?;
        if is_dir && self.lies_in(to, moved)? {
            return Err(Nfsstat3::INVAL);
        }
        if let Some(replaced) = replaced {
            let empty = !self.is_dir(replaced)? || self.names(replaced)?.is_empty();
            return if empty { Ok(()) } else { Err(Nfsstat3::NOTEMPTY) };
        }
        let full = is_dir && from != to && self.inode(to)?.attributes.nlink >= self.limits.links;
        if full { Err(Nfsstat3::MLINK) } else { Ok(()) }
    }

    fn resize(&mut self, index: u32, size: u64) -> Outcome<()> {
        let inode = self.inode_mut(index)?;
        let Body::File(data) = &mut inode.body else { return Err(Nfsstat3::INVAL) };
        let freed = data.truncate(size);
        inode.attributes.used -= freed;
        inode.attributes.size = size;
        self.bytes -= freed;
        self.unstable.durable(index, size..u64::MAX);
        Ok(())
    }
}

impl Store for Tree {
    type Node = u32;

    fn root(&self, salt: u32) -> Handle {
        self.handle(&ROOT, salt)
    }

    fn resolve(&self, handle: FileHandle<'_>, salt: u32) -> Outcome<Object<u32>> {
        let bytes: &[u8; 16] = handle.bytes().try_into().map_err(|_| Nfsstat3::BADHANDLE)?;
        let word = |i: usize| u32::from_be_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        let [magic, handle_salt, index, generation] = [word(0), word(4), word(8), word(12)];
        if magic != MAGIC {
            return Err(Nfsstat3::BADHANDLE);
        }
        let inode = self.inode(index)?;
        match handle_salt == salt && inode.generation == generation {
            true => Ok(Object { node: index, attributes: inode.attributes }),
            false => Err(Nfsstat3::STALE),
        }
    }

    fn handle(&self, node: &u32, salt: u32) -> Handle {
        let generation = self.slab.get(*node).map_or(0, |inode| inode.generation);
        let mut bytes = [0; 16];
        for (place, word) in bytes.chunks_exact_mut(4).zip([MAGIC, salt, *node, generation]) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        Handle::fixed(bytes)
    }

    fn attributes(&self, node: &u32) -> Outcome<Fattr3> {
        self.inode(*node).map(|inode| inode.attributes)
    }

    fn child(&self, dir: &u32, name: &[u8]) -> Outcome<Object<u32>> {
        let index = self.names(*dir)?.get(name).ok_or(Nfsstat3::NOENT)?;
        self.object(index)
    }

    fn parent(&self, dir: &u32) -> Outcome<Object<u32>> {
        self.object(self.names(*dir)?.parent)
    }

    fn read(&self, file: &u32, offset: u64, count: usize, out: &mut Vec<u8>) -> Outcome<bool> {
        let inode = self.inode(*file)?;
        let Body::File(data) = &inode.body else { return Err(Nfsstat3::INVAL) };
        let size = inode.attributes.size;
        let end = offset.saturating_add(count as u64).min(size);
        if offset < end {
            data.read(offset..end, out);
        }
        Ok(end == size)
    }

    fn target(&self, link: &u32) -> Outcome<Vec<u8>> {
        match &self.inode(*link)?.body {
            Body::Symlink(target) => Ok(target.to_vec()),
            Body::File(_) | Body::Dir(_) | Body::Special => Err(Nfsstat3::INVAL),
        }
    }

    fn list(&self, dir: &u32, cookie: u64, visit: &mut dyn FnMut(&Entry<'_>) -> bool) -> Outcome<bool> {
        let names = self.names(*dir)?;
        let dots: [(u64, &[u8], u32); 2] = [(DOT_COOKIE, b".", *dir), (DOT_DOT_COOKIE, b"..", names.parent)];
        let dots = dots.into_iter().filter(|(own, ..)| *own > cookie);
        for (cookie, name, inode) in dots.chain(names.after(cookie.max(DOT_DOT_COOKIE))) {
            let fileid = self.inode(inode)?.attributes.fileid;
            if !visit(&Entry { fileid, name, cookie }) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn room(&self) -> Outcome<Room> {
        let bytes_free = self.limits.bytes - self.bytes;
        Ok(Room {
            bytes: self.limits.bytes,
            bytes_free,
            bytes_available: bytes_free,
            files: self.limits.names,
            files_free: self.limits.names - self.names,
        })
    }

    fn bounds(&self) -> Bounds {
        let time_delta = Nfstime3 { seconds: 0, nseconds: 1 };
        Bounds { links: self.limits.links, file_size: i64::MAX as u64, time_delta }
    }

    fn create(&mut self, place: Place<'_, u32>, new: &New<'_>) -> Outcome<Object<u32>> {
        let is_dir = matches!(new.kind, Kind::Dir);
        self.may_grow(*place.dir, is_dir)?;
        let mut inode = Inode::new(new, self.fileid + 1, self.generation.wrapping_add(1), *place.dir);
        if let Kind::Symlink(target) = new.kind {
            inode.attributes.used = (target.len() as u64).next_multiple_of(LINK_BLOCK);
            self.take_bytes(inode.attributes.used)?;
        }
        let index = self.slab.insert(inode).ok_or(Nfsstat3::NOSPC)?;
        self.fileid += 1;
        self.generation = self.generation.wrapping_add(1);
        self.rewrite(*place.dir, is_dir.into(), |names| names.insert(place.name, index))?;
        self.names += 1;
        self.object(index)
    }

    fn remove(&mut self, place: Place<'_, u32>, victim: &Object<u32>) -> Outcome<()> {
        let is_dir = self.is_dir(victim.node)?;
        if is_dir && !self.names(victim.node)?.is_empty() {
            return Err(Nfsstat3::NOTEMPTY);
        }
        self.rewrite(*place.dir, -i32::from(is_dir), |names| names.remove(place.name))?;
        self.names -= 1;
        self.drop_link(victim.node)
    }

    fn rename(&mut self, from: Place<'_, u32>, to: Place<'_, u32>) -> Outcome<()> {
        let moved = self.names(*from.dir)?.get(from.name).ok_or(Nfsstat3::NOENT)?;
        let replaced = self.names(*to.dir)?.get(to.name);
        self.may_rename(moved, replaced, *from.dir, *to.dir)?;
        let is_dir = i32::from(self.is_dir(moved)?);
        self.rewrite(*from.dir, -is_dir, |names| names.remove(from.name))?;
        // A directory that is replaced takes its link with it.
        let links = if replaced.is_some() { 0 } else { is_dir };
        self.rewrite(*to.dir, links, |names| names.insert(to.name, moved))?;
        if let Some(replaced) = replaced {
            self.names -= 1;
            self.drop_link(replaced)?;
        }
        let inode = self.inode_mut(moved)?;
        if let Body::Dir(names) = &mut inode.body {
            names.parent = *to.dir;
        }
        inode.touch();
        Ok(())
    }

    fn link(&mut self, object: &u32, place: Place<'_, u32>) -> Outcome<()> {
        if self.inode(*object)?.attributes.nlink >= self.limits.links {
            return Err(Nfsstat3::MLINK);
        }
        self.may_grow(*place.dir, false)?;
        self.rewrite(*place.dir, 0, |names| names.insert(place.name, *object))?;
        self.names += 1;
        let inode = self.inode_mut(*object)?;
        inode.attributes.nlink += 1;
        inode.touch();
        Ok(())
    }

    fn set(&mut self, object: &u32, change: &Sattr3) -> Outcome<()> {
        if let Some(size) = change.size {
            self.resize(*object, size)?;
        }
        let inode = self.inode_mut(*object)?;
        match change.size.is_some() {
            true => inode.touch_contents(),
            false => inode.touch(),
        }
        let Inode { attributes, .. } = inode;
        let now = attributes.ctime;
        let time = |set: SetTime, old: Nfstime3| match set {
            SetTime::Keep => old,
            SetTime::Server => now,
            SetTime::Client(time) => time,
        };
        attributes.mode = change.mode.unwrap_or(attributes.mode);
        attributes.uid = change.uid.unwrap_or(attributes.uid);
        attributes.gid = change.gid.unwrap_or(attributes.gid);
        attributes.atime = time(change.atime, attributes.atime);
        attributes.mtime = time(change.mtime, attributes.mtime);
        Ok(())
    }

    fn write(&mut self, file: &u32, write: &Write<'_>) -> Outcome<StableHow> {
        let range = write.offset..write.offset + write.data.len() as u64;
        let Body::File(data) = &self.inode(*file)?.body else { return Err(Nfsstat3::INVAL) };
        let growth = data.growth(range.clone());
        self.take_bytes(growth)?;
        let inode = self.inode_mut(*file)?;
        let Body::File(data) = &mut inode.body else { return Err(Nfsstat3::INVAL) };
        data.write(write.offset, write.data);
        inode.attributes.used += growth;
        inode.attributes.size = inode.attributes.size.max(range.end);
        inode.touch_contents();
        let durable = write.stable != StableHow::Unstable;
        if durable {
            self.unstable.durable(*file, range);
            return Ok(StableHow::FileSync);
        }
        let remembered = self.unstable.wrote(*file, range, write.server);
        Ok(if remembered { StableHow::Unstable } else { StableHow::FileSync })
    }

    fn commit(&mut self, file: &u32, range: Range<u64>, server: u16) -> Outcome<()> {
        self.unstable.commit(*file, range, server);
        Ok(())
    }
}

/// "MIDm".
const MAGIC: u32 = 0x4d49_446d;
const ROOT: u32 = 0;
const ROOT_GENERATION: u32 = 0;
const ROOT_FILEID: u64 = 2;
/// What room symbolic links are counted in.
const LINK_BLOCK: u64 = 64;
